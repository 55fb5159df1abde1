// Gather and scatter on GPUs. A scatter needs neither atomics nor sorting: the block of a row does the work of all rows
// with its index if none comes before it (kernels/cuda/equal_ids.h).
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/equal_ids.h"
#include "kernels/cuda/launch.h"
#include "kernels/gather/cuda.h"
#include "kernels/gather/reference.h"

namespace hyc::kernels::cuda {
namespace {

constexpr int kThreads = 128;

template <typename Word>
__global__ void gatherKernel(GatherDesc d, const Word *data, const int64_t *indices, Word *rows) {
  forEach(d.batch * d.lead * d.picked * d.inner, [&](int64_t i) {
    const int64_t row = i / d.inner, outer = row / d.picked;
    const int64_t v = indices[outer / d.lead * d.picked + row % d.picked];
    rows[i] = v < 0 || v >= d.size ? Word{} : data[(outer * d.size + v) * d.inner + i % d.inner];
  });
}

template <typename Word>
void gatherWords(Stream stream, const GatherDesc &d, const void *data, const int64_t *indices, void *rows) {
  kernel(gatherKernel<Word>)
      .launch(stream, gridOver(d.batch * d.lead * d.picked * d.inner), d, static_cast<const Word *>(data), indices,
              static_cast<Word *>(rows));
}

template <typename T>
__global__ void identityKernel(ScatterKind kind, int64_t n, T *data) {
  forEach(n, [&](int64_t i) { data[i] = reference::scatterIdentity<T>(kind); });
}

// Block (i, o): row i of the (first + o)-th of batch · lead.
template <typename T>
__global__ void scatterKernel(GatherDesc d, ScatterKind kind, int64_t first, const int64_t *indices, const T *rows,
                              T *data) {
  __shared__ int64_t list[kThreads];
  const int64_t i = blockIdx.x, o = first + blockIdx.y;
  const int64_t *at = indices + o / d.lead * d.picked;
  const int64_t v = at[i];
  if (v < 0 || v >= d.size || isRepeated<kThreads>(at, i)) return;
  T *to = data + (o * d.size + v) * d.inner;
  const T *from = rows + o * d.picked * d.inner;
  for (int64_t begin = i / kThreads * kThreads; begin < d.picked; begin += kThreads) {
    const int count = collectEqual<kThreads>(at, d.picked, begin, v, list);
    if (count == 0) continue;
    for (int64_t r = threadIdx.x; r < d.inner; r += kThreads) {
      T value = to[r];
      for (int k = 0; k < count; ++k) value = reference::scatterCombine(kind, value, from[list[k] * d.inner + r]);
      to[r] = value;
    }
  }
}

}  // namespace

void gather(Stream stream, const GatherDesc &asked, int64_t elementBytes, const void *data, const int64_t *indices,
            void *rows) {
  const int64_t rowBytes = asked.inner * elementBytes;
  if (rowBytes > 0 && isPackable(rowBytes, data, rows)) {
    GatherDesc desc = asked;
    desc.inner = rowBytes / 16;
    return gatherWords<uint4>(stream, desc, data, indices, rows);
  }
  switch (elementBytes) {
    case 1:
      return gatherWords<uint8_t>(stream, asked, data, indices, rows);
    case 2:
      return gatherWords<uint16_t>(stream, asked, data, indices, rows);
    case 4:
      return gatherWords<uint32_t>(stream, asked, data, indices, rows);
    default:
      return gatherWords<uint64_t>(stream, asked, data, indices, rows);
  }
}

template <typename T>
void scatter(Stream stream, const GatherDesc &d, ScatterKind kind, const int64_t *indices, const T *rows, T *data) {
  const int64_t outer = d.batch * d.lead, elements = outer * d.size * d.inner;
  kernel(identityKernel<T>).launch(stream, gridOver(elements), kind, elements, data);
  constexpr int64_t kMostOuter = 65535;  // of a grid
  for (int64_t first = 0; first < outer; first += kMostOuter) {
    const int64_t count = outer - first < kMostOuter ? outer - first : kMostOuter;
    const Grid grid{dim3(static_cast<unsigned>(d.picked), static_cast<unsigned>(count)), dim3(kThreads)};
    kernel(scatterKernel<T>).launch(stream, grid, d, kind, first, indices, rows, data);
  }
}
template void scatter<float>(Stream, const GatherDesc &, ScatterKind, const int64_t *, const float *, float *);
template void scatter<double>(Stream, const GatherDesc &, ScatterKind, const int64_t *, const double *, double *);
template void scatter<int64_t>(Stream, const GatherDesc &, ScatterKind, const int64_t *, const int64_t *, int64_t *);
template void scatter<int32_t>(Stream, const GatherDesc &, ScatterKind, const int64_t *, const int32_t *, int32_t *);

}  // namespace hyc::kernels::cuda
