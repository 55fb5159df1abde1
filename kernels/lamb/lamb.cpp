// The public direction: scalars in f64, once per call and outside of the code compiled per instruction set.
#include "kernels/lamb/cpu.h"

namespace hyc::kernels {

template <typename T>
void lambDirection(const LambParams &params, int64_t n, const float *param, T *grad, float *m, float *v) {
  lambDirectionWithFactors(LambFactors<float>(params), n, param, grad, m, v);
}
template void lambDirection<float>(const LambParams &, int64_t, const float *, float *, float *, float *);
template void lambDirection<Bf16>(const LambParams &, int64_t, const float *, Bf16 *, float *, float *);
template void lambDirection<F16>(const LambParams &, int64_t, const float *, F16 *, float *, float *);

}  // namespace hyc::kernels
