// What the parts of the CPU's LAMB share.
#ifndef HYC_KERNELS_LAMB_CPU_H_
#define HYC_KERNELS_LAMB_CPU_H_

#include "kernels/lamb/reference.h"

namespace hyc::kernels {

template <typename T>
void lambDirectionWithFactors(const LambFactors<float> &factors, int64_t n, const float *param, T *grad, float *m,
                              float *v);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_LAMB_CPU_H_
