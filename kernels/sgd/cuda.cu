// SGD on GPUs, in the operations of the reference.
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"
#include "kernels/sgd/cuda.h"

namespace hyc::kernels::cuda {
namespace {

template <typename T>
__global__ void updateKernel(SgdParams p, const float *lr, const float *scale, const uint8_t *predicate, int64_t n,
                             float *param, const T *grad, float *buffer) {
  if (predicate && !*predicate) return;
  const float gradScale = *scale, negativeLr = -*lr, decay = static_cast<float>(p.weightDecay);
  const float momentum = static_cast<float>(p.momentum), undamped = static_cast<float>(1 - p.dampening);
  const bool first = p.step == 1, nesterov = p.kind == MomentumKind::kNesterov;
  forEach(n, [&](int64_t i) {
    float g = grad[i] * gradScale;
    if (decay != 0) g = g + decay * param[i];
    if (momentum != 0) {
      const float moved = first ? g : buffer[i] * momentum + undamped * g;
      buffer[i] = moved;
      g = nesterov ? g + momentum * moved : moved;
    }
    param[i] = param[i] + negativeLr * g;
  });
}

}  // namespace

template <typename T>
void sgd(Stream stream, const SgdParams &p, const float *lr, const float *gradScale, const uint8_t *predicate,
         int64_t n, float *param, const T *grad, float *buffer) {
  kernel(updateKernel<T>).launch(stream, gridOver(n), p, lr, gradScale, predicate, n, param, grad, buffer);
}

template void sgd<float>(Stream, const SgdParams &, const float *, const float *, const uint8_t *, int64_t, float *,
                         const float *, float *);
template void sgd<Bf16>(Stream, const SgdParams &, const float *, const float *, const uint8_t *, int64_t, float *,
                        const Bf16 *, float *);
template void sgd<F16>(Stream, const SgdParams &, const float *, const float *, const uint8_t *, int64_t, float *,
                       const F16 *, float *);

}  // namespace hyc::kernels::cuda
