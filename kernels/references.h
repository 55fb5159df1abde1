// How the interpreter executes each kernel: the rows of all kernels/<op>/reference.h. Which there are, CMake has
// looked.
#ifndef HYC_KERNELS_REFERENCES_H_
#define HYC_KERNELS_REFERENCES_H_

#include "kernels/description.h"
#include "kernels/reference_list.inc"

namespace hyc::kernels {

// Null where the kernel has none: a statement, which the interpreter executes itself.
inline const ReferenceRow *findReference(std::string_view kernel) {
  for (View<ReferenceRow> folder : kReferencedFolders)
    for (const ReferenceRow &row : folder)
      if (kernel == row.kernel) return &row;
  return nullptr;
}

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_REFERENCES_H_
