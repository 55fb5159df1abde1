// beta · C + bias, an element a thread.
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"
#include "kernels/gemm/cuda_bias.h"

namespace hyc::kernels::cuda {
namespace {

template <typename T, typename C>
__global__ void biasKernel(GemmDesc d, int64_t rowStride, const T *bias, C *c) {
  forEach(d.batch * d.m * d.n, [&](int64_t i) {
    const int64_t column = i % d.n, row = i / d.n % d.m, batch = i / d.n / d.m;
    C &out = c[batch * d.strideC + row * rowStride + column];
    const float value = bias ? static_cast<float>(bias[column]) : 0.0f;
    out = C(d.beta != 0 ? value + static_cast<float>(out) : value);
  });
}

}  // namespace

template <typename T, typename C>
void scaleAndAddBias(Stream stream, const GemmDesc &d, const T *bias, C *c) {
  kernel(biasKernel<T, C>).launch(stream, gridOver(d.batch * d.m * d.n), d, d.rowStrideC(), bias, c);
}

template void scaleAndAddBias<float, float>(Stream, const GemmDesc &, const float *, float *);
template void scaleAndAddBias<Bf16, Bf16>(Stream, const GemmDesc &, const Bf16 *, Bf16 *);
template void scaleAndAddBias<Bf16, float>(Stream, const GemmDesc &, const Bf16 *, float *);
template void scaleAndAddBias<F16, F16>(Stream, const GemmDesc &, const F16 *, F16 *);
template void scaleAndAddBias<F16, float>(Stream, const GemmDesc &, const F16 *, float *);

}  // namespace hyc::kernels::cuda
