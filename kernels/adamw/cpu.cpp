// AdamW on CPUs: one pass over memory, element-wise, in the operations of the reference.
#include "kernels/adamw/cpu.h"

#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {
namespace HYC_ISA {

// With a compile-time choice, so that the loop has no branch.
template <bool kAddedDecay, typename T>
static void updateRange(const AdamWFactors<float> &f, int64_t n, float *__restrict param, const T *__restrict grad,
                        float *__restrict m, float *__restrict v) {
  for (int64_t i = 0; i < n; ++i) {
    float g = grad[i] * f.gradScale;
    if (kAddedDecay) g = g + f.addedDecay * param[i];
    const float decayed = param[i] * f.decay;
    const float newM = m[i] + f.oneMinusBeta1 * (g - m[i]);
    const float newV = v[i] * f.beta2 + (f.oneMinusBeta2 * g) * g;
    const float denominator = __builtin_sqrtf(newV) / f.sqrtBiasCorrection2 + f.epsilon;
    m[i] = newM;
    v[i] = newV;
    param[i] = decayed + (f.negativeStepSize * newM) / denominator;
  }
}

template <typename T>
void adamwWithFactors(const AdamWFactors<float> &f, int64_t n, float *param, const T *grad, float *m, float *v) {
  constexpr int64_t kChunk = 16384;
  const auto update = f.addedDecay != 0 ? updateRange<true, T> : updateRange<false, T>;
  runTeam(n >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t start = 0; start < n; start += kChunk)
      update(f, n - start < kChunk ? n - start : kChunk, param + start, grad + start, m + start, v + start);
  });
}

HYC_INSTANTIATE(adamwWithFactors)

}  // namespace HYC_ISA

HYC_DISPATCH_TEMPLATE(void, adamwWithFactors,
                      (const AdamWFactors<float> &f, int64_t n, float *param, const T *grad, float *m, float *v),
                      (f, n, param, grad, m, v))

}  // namespace hyc::kernels
