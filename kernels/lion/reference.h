// Lion in one plain loop, for any scalar type. For float it gives the kernel's bits.
#ifndef HYC_KERNELS_LION_REFERENCE_H_
#define HYC_KERNELS_LION_REFERENCE_H_

#include "kernels/description.h"
#include "kernels/lion/op.h"

namespace hyc::kernels::reference {

template <typename T>
void lion(const LionParams &params, int64_t n, T *param, const T *grad, T *m) {
  const T gradScale = T(params.gradScale), decay = T(1 - params.lr * params.weightDecay), lr = T(params.lr);
  const T beta1 = T(params.beta1), oneMinusBeta1 = T(1 - params.beta1);
  const T beta2 = T(params.beta2), oneMinusBeta2 = T(1 - params.beta2);
  for (int64_t i = 0; i < n; ++i) {
    const T g = grad[i] * gradScale;
    const T c = m[i] * beta1 + oneMinusBeta1 * g;
    // NaN moves by NaN: a comparison alone would hide it.
    const T move = c > 0 ? lr : c < 0 ? -lr : c * lr;
    param[i] = param[i] * decay - move;
    m[i] = m[i] * beta2 + oneMinusBeta2 * g;
  }
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::lion {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("lion",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::lion(c.desc<LionParams>(), c.count({"p", "m", "g"}), c.out<T>("p"), c.in<T>("g"),
                                        c.out<T>("m"));
                      }),
};

}  // namespace hyc::kernels::executed::lion

#endif  // HYC_KERNELS_LION_REFERENCE_H_
