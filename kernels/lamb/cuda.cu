// LAMB on GPUs, in the operations of the reference.
#include <cstring>

#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"
#include "kernels/lamb/cuda.h"
#include "kernels/lamb/reference.h"

namespace hyc::kernels::cuda {
namespace {

template <typename T>
__global__ void directionKernel(LambParams params, LambScalars scalars, int64_t n, const float *param, T *grad,
                                float *m, float *v) {
  if (scalars.predicate && !*scalars.predicate) return;
  __shared__ float storage[sizeof(LambFactors<float>) / sizeof(float)];
  if (threadIdx.x == 0) {
    params.step = *scalars.step;
    params.gradScale = *scalars.gradScale;
    if (scalars.beta1) params.beta1 = *scalars.beta1;
    const LambFactors<float> factors(params);
    std::memcpy(storage, &factors, sizeof factors);
  }
  __syncthreads();
  const LambFactors<float> f = *reinterpret_cast<const LambFactors<float> *>(storage);
  forEach(n, [&](int64_t i) {
    const float g = grad[i] * f.gradScale;
    const float newM = m[i] + f.oneMinusBeta1 * (g - m[i]);
    const float newV = v[i] * f.beta2 + (f.oneMinusBeta2 * g) * g;
    const float denominator = sqrtf(newV / f.biasCorrection2) + f.epsilon;
    m[i] = newM;
    v[i] = newV;
    grad[i] = static_cast<T>((newM / f.biasCorrection1) / denominator + f.weightDecay * param[i]);
  });
}

template <typename T>
__global__ void updateKernel(const float *lr, const double *ratio, const uint8_t *predicate, int64_t n, float *param,
                             const T *direction) {
  if (predicate && !*predicate) return;
  const float negativeRate = static_cast<float>(-(static_cast<double>(*lr) * *ratio));
  forEach(n, [&](int64_t i) { param[i] = param[i] + negativeRate * direction[i]; });
}

}  // namespace

template <typename T>
void lambDirection(Stream stream, const LambParams &params, const LambScalars &scalars, int64_t n, const float *param,
                   T *grad, float *m, float *v) {
  kernel(directionKernel<T>).launch(stream, gridOver(n), params, scalars, n, param, grad, m, v);
}

template <typename T>
void lambUpdate(Stream stream, const float *lr, const double *ratio, const uint8_t *predicate, int64_t n, float *param,
                const T *direction) {
  kernel(updateKernel<T>).launch(stream, gridOver(n), lr, ratio, predicate, n, param, direction);
}

#define HYC_INSTANTIATE(T)                                                                                     \
  template void lambDirection<T>(Stream, const LambParams &, const LambScalars &, int64_t, const float *, T *, \
                                 float *, float *);                                                            \
  template void lambUpdate<T>(Stream, const float *, const double *, const uint8_t *, int64_t, float *, const T *);
HYC_INSTANTIATE(float)
HYC_INSTANTIATE(Bf16)
HYC_INSTANTIATE(F16)

}  // namespace hyc::kernels::cuda
