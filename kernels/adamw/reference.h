// Adam and AdamW in one plain loop, for any scalar type. For float it gives the kernel's bits.
#ifndef HYC_KERNELS_ADAMW_REFERENCE_H_
#define HYC_KERNELS_ADAMW_REFERENCE_H_

#include <cmath>

#include "kernels/adamw/op.h"
#include "kernels/description.h"
#include "kernels/host_device.h"

namespace hyc::kernels {

// What is left of a moment's weight when it started at zero: 1 − beta^step.
HYC_HOST_DEVICE inline double biasCorrection(double beta, int64_t step, bool corrects) {
  return corrects ? 1 - std::pow(beta, double(step)) : 1;
}

// The f32 (or f64) factors of one update, shared by the kernel and its reference.
template <typename T>
struct AdamWFactors {
  T gradScale;
  T decay;       // of the parameter, by multiplication
  T addedDecay;  // of the parameter, as part of the gradient; 0: none
  T oneMinusBeta1, beta2, oneMinusBeta2, negativeStepSize, sqrtBiasCorrection2, epsilon;

  HYC_HOST_DEVICE explicit AdamWFactors(const AdamWParams &p)
      : gradScale(T(p.gradScale)),
        decay(T(p.decay == DecayKind::kDecoupled ? 1 - p.lr * p.weightDecay : 1)),
        addedDecay(T(p.decay == DecayKind::kAddedToGradient ? p.weightDecay : 0)),
        oneMinusBeta1(T(1 - p.beta1)),
        beta2(T(p.beta2)),
        oneMinusBeta2(T(1 - p.beta2)),
        negativeStepSize(T(-p.lr / biasCorrection(p.beta1, p.step, p.correctsBias))),
        sqrtBiasCorrection2(T(std::sqrt(biasCorrection(p.beta2, p.step, p.correctsBias)))),
        epsilon(T(p.epsilon)) {}
};

namespace reference {

template <typename T>
void adamw(const AdamWParams &params, int64_t n, T *param, const T *grad, T *m, T *v) {
  const AdamWFactors<T> f(params);
  for (int64_t i = 0; i < n; ++i) {
    T g = grad[i] * f.gradScale;
    if (f.addedDecay != 0) g = g + f.addedDecay * param[i];
    const T decayed = param[i] * f.decay;
    m[i] = m[i] + f.oneMinusBeta1 * (g - m[i]);
    v[i] = v[i] * f.beta2 + (f.oneMinusBeta2 * g) * g;
    const T denominator = std::sqrt(v[i]) / f.sqrtBiasCorrection2 + f.epsilon;
    param[i] = decayed + (f.negativeStepSize * m[i]) / denominator;
  }
}

}  // namespace reference
}  // namespace hyc::kernels

namespace hyc::kernels::executed::adamw {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("adamw",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::adamw(c.desc<AdamWParams>(), c.count({"p", "m", "v", "g"}), c.out<T>("p"),
                                         c.in<T>("g"), c.out<T>("m"), c.out<T>("v"));
                      }),
    referenceOfFloats("adam",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::adamw(c.desc<AdamWParams>(), c.count({"p", "m", "v", "g"}), c.out<T>("p"),
                                         c.in<T>("g"), c.out<T>("m"), c.out<T>("v"));
                      }),
};

}  // namespace hyc::kernels::executed::adamw

#endif  // HYC_KERNELS_ADAMW_REFERENCE_H_
