// The public AdamW: scalars in f64, once per call and outside of the code compiled per instruction set.
#include "kernels/adamw/cpu.h"

namespace hyc::kernels {

template <typename T>
void adamw(const AdamWParams &params, int64_t n, float *param, const T *grad, float *m, float *v) {
  adamwWithFactors(AdamWFactors<float>(params), n, param, grad, m, v);
}
template void adamw<float>(const AdamWParams &, int64_t, float *, const float *, float *, float *);
template void adamw<Bf16>(const AdamWParams &, int64_t, float *, const Bf16 *, float *, float *);
template void adamw<F16>(const AdamWParams &, int64_t, float *, const F16 *, float *, float *);

}  // namespace hyc::kernels
