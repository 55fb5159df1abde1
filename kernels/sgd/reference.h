// SGD in one plain loop, for any scalar type. For float it gives the kernel's bits.
#ifndef HYC_KERNELS_SGD_REFERENCE_H_
#define HYC_KERNELS_SGD_REFERENCE_H_

#include "kernels/description.h"
#include "kernels/sgd/op.h"

namespace hyc::kernels::reference {

template <typename T>
void sgd(const SgdParams &params, int64_t n, T *param, const T *grad, T *buffer) {
  const T gradScale = T(params.gradScale), decay = T(params.weightDecay), momentum = T(params.momentum);
  const T undamped = T(1 - params.dampening), negativeLr = T(-params.lr);
  for (int64_t i = 0; i < n; ++i) {
    T g = grad[i] * gradScale;
    if (params.weightDecay != 0) g = g + decay * param[i];
    if (params.momentum != 0) {
      buffer[i] = params.step == 1 ? g : buffer[i] * momentum + undamped * g;
      g = params.kind == MomentumKind::kNesterov ? g + momentum * buffer[i] : buffer[i];
    }
    param[i] = param[i] + negativeLr * g;
  }
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::sgd {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("sgd",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::sgd(c.desc<SgdParams>(), c.count({"p", "g"}), c.out<T>("p"), c.in<T>("g"),
                                       static_cast<T *>(nullptr));
                      }),
    referenceOfFloats("sgd_momentum",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::sgd(c.desc<SgdParams>(), c.count({"p", "velocity", "g"}), c.out<T>("p"),
                                       c.in<T>("g"), c.out<T>("velocity"));
                      }),
};

}  // namespace hyc::kernels::executed::sgd

#endif  // HYC_KERNELS_SGD_REFERENCE_H_
