// Models that no row of a family describes, each with a reader and a builder of its own: which there are.
#ifndef HYC_LIB_IMPORT_HUGGINGFACE_OWNARCHITECTURES_H
#define HYC_LIB_IMPORT_HUGGINGFACE_OWNARCHITECTURES_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace hyc {

/// Their model_types; the table is Import.cpp's.
llvm::SmallVector<llvm::StringRef> ownArchitectureTypes();

} // namespace hyc

#endif // HYC_LIB_IMPORT_HUGGINGFACE_OWNARCHITECTURES_H
