// The order of rows by counting what comes before each element.
#ifndef HYC_KERNELS_ARGSORT_REFERENCE_H_
#define HYC_KERNELS_ARGSORT_REFERENCE_H_

#include "kernels/argsort/op.h"
#include "kernels/description.h"

namespace hyc::kernels::reference {

template <typename T>
void argSort(const ArgSortDesc &d, const T *x, int64_t *order) {
  for (int64_t row = 0; row < d.rows; ++row, x += d.size, order += d.count)
    for (int64_t i = 0; i < d.size; ++i) {
      int64_t place = 0;
      for (int64_t j = 0; j < d.size; ++j) {
        const bool before = d.descending ? sortsBefore(x[i], x[j]) : sortsBefore(x[j], x[i]);
        const bool after = d.descending ? sortsBefore(x[j], x[i]) : sortsBefore(x[i], x[j]);
        place += before || (!after && j < i);
      }
      if (place < d.count) order[place] = i;
    }
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::argsort {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfAnyType("argsort",
                       [](auto zero, const ExecutedCall &c) {
                         using T = decltype(zero);
                         reference::argSort(c.desc<ArgSortDesc>(), c.in<T>("x"), c.out<int64_t>("order"));
                       }),
};

}  // namespace hyc::kernels::executed::argsort

#endif  // HYC_KERNELS_ARGSORT_REFERENCE_H_
