// What the parts of the CPU's AdamW share.
#ifndef HYC_KERNELS_ADAMW_CPU_H_
#define HYC_KERNELS_ADAMW_CPU_H_

#include "kernels/adamw/reference.h"

namespace hyc::kernels {

template <typename T>
void adamwWithFactors(const AdamWFactors<float> &factors, int64_t n, float *param, const T *grad, float *m, float *v);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_ADAMW_CPU_H_
