// Gather and scatter in plain loops, for any scalar type.
#ifndef HYC_KERNELS_GATHER_REFERENCE_H_
#define HYC_KERNELS_GATHER_REFERENCE_H_

#include <limits>

#include "kernels/description.h"
#include "kernels/gather/op.h"

namespace hyc::kernels::reference {

// What no element has been combined with yet.
template <typename T>
constexpr T scatterIdentity(ScatterKind kind) {
  using Limits = std::numeric_limits<T>;
  switch (kind) {
    case ScatterKind::kSum:
      return T(0);
    case ScatterKind::kProd:
      return T(1);
    case ScatterKind::kMax:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case ScatterKind::kMin:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  return T(0);
}

template <typename T>
constexpr T scatterCombine(ScatterKind kind, T x, T y) {
  switch (kind) {
    case ScatterKind::kSum:
      return static_cast<T>(x + y);
    case ScatterKind::kProd:
      return static_cast<T>(x * y);
    case ScatterKind::kMax:
      return x > y || x != x ? x : y;
    case ScatterKind::kMin:
      return x < y || x != x ? x : y;
  }
  return x;
}

// Calls move(element of data, element of rows) for each row that lies inside; element -1 of data for one that does not.
template <typename Move>
void forEachGathered(const GatherDesc &d, const int64_t *indices, Move move) {
  for (int64_t b = 0; b < d.batch; ++b)
    for (int64_t l = 0; l < d.lead; ++l)
      for (int64_t i = 0; i < d.picked; ++i) {
        const int64_t v = indices[b * d.picked + i], row = ((b * d.lead + l) * d.picked + i) * d.inner;
        for (int64_t r = 0; r < d.inner; ++r)
          move(v < 0 || v >= d.size ? -1 : ((b * d.lead + l) * d.size + v) * d.inner + r, row + r);
      }
}

template <typename T>
void gather(const GatherDesc &d, const T *data, const int64_t *indices, T *rows) {
  forEachGathered(d, indices, [&](int64_t from, int64_t to) { rows[to] = from < 0 ? T(0) : data[from]; });
}

template <typename T>
void scatter(const GatherDesc &d, ScatterKind kind, const int64_t *indices, const T *rows, T *data) {
  for (int64_t i = 0; i < d.batch * d.lead * d.size * d.inner; ++i) data[i] = scatterIdentity<T>(kind);
  forEachGathered(d, indices, [&](int64_t to, int64_t from) {
    if (to >= 0) data[to] = scatterCombine(kind, data[to], rows[from]);
  });
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::gather {

inline ScatterKind kindOf(const ExecutedCall &c) {
  const std::string_view kind = c.text("kind");
  return kind == "sum"   ? ScatterKind::kSum
         : kind == "max" ? ScatterKind::kMax
         : kind == "min" ? ScatterKind::kMin
                         : ScatterKind::kProd;
}

inline constexpr ReferenceRow kReferences[] = {
    referenceOfAnyType("gather",
                       [](auto zero, const ExecutedCall &c) {
                         using T = decltype(zero);
                         reference::gather(c.desc<GatherDesc>(), c.in<T>("data"), c.in<int64_t>("indices"),
                                           c.out<T>("rows"));
                       }),
    referenceOfAnyType("scatter",
                       [](auto zero, const ExecutedCall &c) {
                         using T = decltype(zero);
                         reference::scatter(c.desc<GatherDesc>(), kindOf(c), c.in<int64_t>("indices"), c.in<T>("rows"),
                                            c.out<T>("data"));
                       }),
};

}  // namespace hyc::kernels::executed::gather

#endif  // HYC_KERNELS_GATHER_REFERENCE_H_
