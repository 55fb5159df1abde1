// Lion on GPUs, in the operations of the reference.
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"
#include "kernels/lion/cuda.h"

namespace hyc::kernels::cuda {
namespace {

template <typename T>
__global__ void updateKernel(LionParams p, LionScalars scalars, int64_t n, float *param, const T *grad, float *m) {
  if (scalars.predicate && !*scalars.predicate) return;
  const double momentum = scalars.beta1 ? *scalars.beta1 : p.beta1;
  const float gradScale = *scalars.gradScale, lr = *scalars.lr;
  const float decay = static_cast<float>(1 - static_cast<double>(lr) * p.weightDecay);
  const float beta1 = static_cast<float>(momentum), oneMinusBeta1 = static_cast<float>(1 - momentum);
  const float beta2 = static_cast<float>(p.beta2), oneMinusBeta2 = static_cast<float>(1 - p.beta2);
  forEach(n, [&](int64_t i) {
    const float g = grad[i] * gradScale;
    const float c = m[i] * beta1 + oneMinusBeta1 * g;
    const float move = c > 0 ? lr : c < 0 ? -lr : c * lr;
    param[i] = param[i] * decay - move;
    m[i] = m[i] * beta2 + oneMinusBeta2 * g;
  });
}

}  // namespace

template <typename T>
void lion(Stream stream, const LionParams &p, const LionScalars &scalars, int64_t n, float *param, const T *grad,
          float *m) {
  kernel(updateKernel<T>).launch(stream, gridOver(n), p, scalars, n, param, grad, m);
}

template void lion<float>(Stream, const LionParams &, const LionScalars &, int64_t, float *, const float *, float *);
template void lion<Bf16>(Stream, const LionParams &, const LionScalars &, int64_t, float *, const Bf16 *, float *);
template void lion<F16>(Stream, const LionParams &, const LionScalars &, int64_t, float *, const F16 *, float *);

}  // namespace hyc::kernels::cuda
