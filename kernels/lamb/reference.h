// LAMB in plain loops, for any scalar type. For float it gives the kernel's bits.
#ifndef HYC_KERNELS_LAMB_REFERENCE_H_
#define HYC_KERNELS_LAMB_REFERENCE_H_

#include "kernels/adamw/reference.h"
#include "kernels/description.h"
#include "kernels/lamb/op.h"

namespace hyc::kernels {

// The f32 (or f64) factors of one direction, shared by the kernel and its reference.
template <typename T>
struct LambFactors {
  T gradScale, oneMinusBeta1, beta2, oneMinusBeta2, biasCorrection1, biasCorrection2, epsilon, weightDecay;

  HYC_HOST_DEVICE explicit LambFactors(const LambParams &p)
      : gradScale(T(p.gradScale)),
        oneMinusBeta1(T(1 - p.beta1)),
        beta2(T(p.beta2)),
        oneMinusBeta2(T(1 - p.beta2)),
        biasCorrection1(T(biasCorrection(p.beta1, p.step, p.correctsBias))),
        biasCorrection2(T(biasCorrection(p.beta2, p.step, p.correctsBias))),
        epsilon(T(p.epsilon)),
        weightDecay(T(p.weightDecay)) {}
};

namespace reference {

template <typename T>
void lambDirection(const LambParams &params, int64_t n, const T *param, T *grad, T *m, T *v) {
  const LambFactors<T> f(params);
  for (int64_t i = 0; i < n; ++i) {
    const T g = grad[i] * f.gradScale;
    m[i] = m[i] + f.oneMinusBeta1 * (g - m[i]);
    v[i] = v[i] * f.beta2 + (f.oneMinusBeta2 * g) * g;
    const T denominator = std::sqrt(v[i] / f.biasCorrection2) + f.epsilon;
    grad[i] = (m[i] / f.biasCorrection1) / denominator + f.weightDecay * param[i];
  }
}

template <typename T>
void lambUpdate(double rate, int64_t n, T *param, const T *direction) {
  const T negativeRate = T(-rate);
  for (int64_t i = 0; i < n; ++i) param[i] = param[i] + negativeRate * direction[i];
}

}  // namespace reference
}  // namespace hyc::kernels

namespace hyc::kernels::executed::lamb {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("lamb_direction",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::lambDirection(c.desc<LambParams>(), c.count({"direction", "m", "v", "p"}),
                                                 c.in<T>("p"), c.out<T>("direction"), c.out<T>("m"), c.out<T>("v"));
                      }),
    referenceOfFloats("trust_ratio",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        *c.out<T>("ratio") = static_cast<T>(trustRatio(
                            c.desc<TrustRatioBounds>(), c.value("squares_of_param"), c.value("squares_of_direction")));
                      }),
    referenceOfFloats("lamb",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::lambUpdate(c.value("lr") * c.value("ratio"), c.count({"p", "direction"}),
                                              c.out<T>("p"), c.in<T>("direction"));
                      }),
};

}  // namespace hyc::kernels::executed::lamb

#endif  // HYC_KERNELS_LAMB_REFERENCE_H_
