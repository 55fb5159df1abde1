// The public AdamW: scalars in f64, once per call and outside of the code compiled per instruction set.
#include "kernels/adamw/cpu.h"

namespace hyc::kernels {

void adamw(const AdamWParams &params, int64_t n, float *param, const float *grad, float *m, float *v) {
  adamwWithFactors(AdamWFactors<float>(params), n, param, grad, m, v);
}

}  // namespace hyc::kernels
