// Attention on GPUs: which way a call goes.
#include "kernels/attention/cuda.h"
#include "kernels/attention/cuda_paths.h"
#include "kernels/cuda/launch.h"

namespace hyc::kernels::cuda {
namespace attention {
namespace {

constexpr int kRowsAtOnce = 8;

// A warp a query.
template <typename T>
__global__ void rowDKernel(AttentionDesc d, const T *o, const T *dO, float *rowD) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t row = int64_t{blockIdx.x} * kRowsAtOnce + threadIdx.x / kWarp;
  if (row >= d.batch * d.heads * d.queryLength) return;
  const int64_t i = row % d.queryLength, head = row / d.queryLength % d.heads, b = row / d.queryLength / d.heads;
  const T *oRow = rowOf(o, d.o, b, i, head), *dORow = rowOf(dO, d.dO, b, i, head);
  float sum = 0;
  for (int64_t c = lane; c < d.headDim; c += kWarp) sum = fmaf(dORow[c], oRow[c], sum);
  sum = warpSum(sum);
  if (lane == 0) rowD[row] = sum;
}

template <typename T>
bool isAligned(const T *base, const HeadStrides &s) {
  constexpr int64_t kElements = 16 / sizeof(T);
  return isPackable(0, base) && s.batch % kElements == 0 && s.token % kElements == 0 && s.head % kElements == 0;
}

// Numbers of rows are of 32 bits there, with room for a tile beyond the last; and the largest score is that of the
// largest product only where the scale is positive. A tensor that masks is read by the plain kernels alone.
bool fitsTiles(const AttentionDesc &d) {
  constexpr int64_t kMostRows = int64_t{1} << 30;
  return !d.mask.at && d.headDim <= 128 && d.headDim % 8 == 0 && d.scale > 0 && d.queryLength <= kMostRows &&
         d.keyLength <= kMostRows;
}

}  // namespace
}  // namespace attention

template <typename T>
void attentionForward(Stream stream, const AttentionDesc &d, const int64_t *place, const T *q, const T *k, const T *v,
                      T *o, float *lse) {
  using namespace attention;
  const Operands<T> operands{q, k, v, o, lse};
  if constexpr (sizeof(T) == 2)
    if (fitsTiles(d) && isAligned(q, d.q) && isAligned(k, d.k) && isAligned(v, d.v) && isAligned(o, d.o))
      return forwardTiled(stream, d, place, operands);
  forwardPlain(stream, d, place, operands);
}

template <typename T>
void attentionBackward(Stream stream, const AttentionDesc &d, const int64_t *place, const T *q, const T *k, const T *v,
                       const T *o, const float *lse, const T *dO, T *dq, T *dk, T *dv, void *workspace) {
  using namespace attention;
  float *rowD = static_cast<float *>(workspace);
  const GradientOperands<T> operands{q, k, v, o, dO, lse, rowD, dq, dk, dv};
  if constexpr (sizeof(T) == 2)
    if (fitsTiles(d) && isAligned(q, d.q) && isAligned(k, d.k) && isAligned(v, d.v) && isAligned(dO, d.dO) &&
        isAligned(o, d.o) && isAligned(dq, d.dq) && isAligned(dk, d.dk) && isAligned(dv, d.dv))
      return backwardTiled(stream, d, place, operands);
  const int64_t rows = d.batch * d.heads * d.queryLength;
  const Grid grid{dim3(static_cast<unsigned>((rows + kRowsAtOnce - 1) / kRowsAtOnce)), dim3(kRowsAtOnce * kWarp)};
  kernel(rowDKernel<T>).launch(stream, grid, d, o, dO, rowD);
  backwardPlain(stream, d, place, operands);
}

#define HYC_INSTANTIATE(T)                                                                                            \
  template void attentionForward<T>(Stream, const AttentionDesc &, const int64_t *, const T *, const T *, const T *,  \
                                    T *, float *);                                                                    \
  template void attentionBackward<T>(Stream, const AttentionDesc &, const int64_t *, const T *, const T *, const T *, \
                                     const T *, const float *, const T *, T *, T *, T *, void *);
HYC_INSTANTIATE(float)
HYC_INSTANTIATE(Bf16)
HYC_INSTANTIATE(F16)

}  // namespace hyc::kernels::cuda
