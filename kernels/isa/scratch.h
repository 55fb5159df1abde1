// Scratch memory of one thread, kept for its next call.
#ifndef HYC_KERNELS_ISA_SCRATCH_H_
#define HYC_KERNELS_ISA_SCRATCH_H_

#include <cstdint>

namespace hyc::kernels {

// At least `floats` floats, 64-byte aligned, with any contents; valid until the thread asks again. Every kernel that
// uses it is done with it when it returns.
float *threadScratch(int64_t floats);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_ISA_SCRATCH_H_
