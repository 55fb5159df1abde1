// Whether a kernel's result replaces what the destination holds or is added to it.
#ifndef HYC_KERNELS_WRITE_MODE_H_
#define HYC_KERNELS_WRITE_MODE_H_

namespace hyc::kernels {

enum class WriteMode {
  kOverwrite,   // the old contents are never read: they may be uninitialised, NaN included
  kAccumulate,  // destination + result, one f32 addition per element
};

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_WRITE_MODE_H_
