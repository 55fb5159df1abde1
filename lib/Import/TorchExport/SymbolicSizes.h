// SymbolicSizes: numbers for the sizes that a program leaves open.
#ifndef HYC_LIB_IMPORT_TORCHEXPORT_SYMBOLICSIZES_H
#define HYC_LIB_IMPORT_TORCHEXPORT_SYMBOLICSIZES_H

#include "Program.h"

namespace hyc::torchexport {

/// A size where its symbols are as in `values`; none where it has others, or is computed in a way that hyc does not
/// read.
std::optional<int64_t> evaluateSize(const Size &size, const llvm::StringMap<int64_t> &values);

/// Gives each size in the program its number where symbols are bound: by `dims`, or as the first dimension of an input,
/// which is `batch` then. What is named stays named, so that the inputs' own sizes are bound once, by the importer.
void bindSizes(Program &program, const llvm::StringMap<int64_t> &dims, std::optional<int64_t> batch);

} // namespace hyc::torchexport

#endif // HYC_LIB_IMPORT_TORCHEXPORT_SYMBOLICSIZES_H
