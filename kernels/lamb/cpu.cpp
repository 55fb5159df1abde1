// LAMB on CPUs: each pass goes over memory once, element-wise, in the operations of the reference.
#include "kernels/lamb/cpu.h"

#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {
namespace HYC_ISA {

constexpr int64_t kLambChunk = 16384;

template <typename T>
static void directionOfRange(const LambFactors<float> &f, int64_t n, const float *__restrict param, T *__restrict grad,
                             float *__restrict m, float *__restrict v) {
  for (int64_t i = 0; i < n; ++i) {
    const float g = grad[i] * f.gradScale;
    const float newM = m[i] + f.oneMinusBeta1 * (g - m[i]);
    const float newV = v[i] * f.beta2 + (f.oneMinusBeta2 * g) * g;
    const float denominator = __builtin_sqrtf(newV / f.biasCorrection2) + f.epsilon;
    m[i] = newM;
    v[i] = newV;
    grad[i] = static_cast<T>((newM / f.biasCorrection1) / denominator + f.weightDecay * param[i]);
  }
}

template <typename T>
static void updateRange(float negativeRate, int64_t n, float *__restrict param, const T *__restrict direction) {
  for (int64_t i = 0; i < n; ++i) param[i] = param[i] + negativeRate * direction[i];
}

template <typename T>
void lambDirectionWithFactors(const LambFactors<float> &f, int64_t n, const float *param, T *grad, float *m, float *v) {
  runTeam(n >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t start = 0; start < n; start += kLambChunk)
      directionOfRange(f, n - start < kLambChunk ? n - start : kLambChunk, param + start, grad + start, m + start,
                       v + start);
  });
}

template <typename T>
void lambUpdate(double rate, int64_t n, float *param, const T *direction) {
  const float negativeRate = static_cast<float>(-rate);
  runTeam(n >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t start = 0; start < n; start += kLambChunk)
      updateRange(negativeRate, n - start < kLambChunk ? n - start : kLambChunk, param + start, direction + start);
  });
}

HYC_INSTANTIATE(lambDirectionWithFactors)
HYC_INSTANTIATE(lambUpdate)

}  // namespace HYC_ISA

HYC_DISPATCH_TEMPLATE(void, lambDirectionWithFactors,
                      (const LambFactors<float> &f, int64_t n, const float *param, T *grad, float *m, float *v),
                      (f, n, param, grad, m, v))
HYC_DISPATCH_TEMPLATE(void, lambUpdate, (double rate, int64_t n, float *param, const T *direction),
                      (rate, n, param, direction))

}  // namespace hyc::kernels
