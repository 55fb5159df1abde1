// The descriptions of all kernels that programs call (description.h). Which folders have one, CMake has looked.
#ifndef HYC_KERNELS_DESCRIPTIONS_H_
#define HYC_KERNELS_DESCRIPTIONS_H_

#include "kernels/description.h"
#include "kernels/description_list.inc"

namespace hyc::kernels {

// Null where no kernel has that name.
inline const KernelDescription *findKernel(std::string_view name) {
  for (View<KernelDescription> folder : kDescribedFolders)
    for (const KernelDescription &kernel : folder)
      if (name == kernel.name) return &kernel;
  return nullptr;
}

template <typename Body>
void forEachKernel(Body body) {
  for (View<KernelDescription> folder : kDescribedFolders)
    for (const KernelDescription &kernel : folder) body(kernel);
}

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_DESCRIPTIONS_H_
