// Types of stored values that are not those of the tensors that start from them: a bf16 checkpoint of an f32 parameter.
//
// They hang on the module (`hyc.stored_types = {"model.safetensors:128" = bf16}`) and not on the initializer, so that
// every phase, down to the program's tables, finds them without carrying them. What is not listed has its tensor's
// type.
#ifndef HYC_ANALYSIS_STOREDTYPES_H
#define HYC_ANALYSIS_STOREDTYPES_H

#include "dialects/Hyc/HycDialect.h"

namespace hyc {

/// Which stored types may start a tensor of elements `type`: its own, and any of f64, f32, f16 and bf16 one of f32, f16
/// or bf16, rounded to f32 first and then to it, as hycrt's convertFloats does.
bool canStartFrom(mlir::Type type, mlir::Type stored);

/// The types of the values at several places, written at once.
void setStoredTypes(mlir::ModuleOp module, llvm::ArrayRef<std::pair<FileAttr, mlir::Type>> types);

/// The type in which the values of `file` are stored, as noted on the module around `op`; `otherwise` where none is.
mlir::Type getStoredType(mlir::Operation *op, FileAttr file, mlir::Type otherwise);

} // namespace hyc

#endif // HYC_ANALYSIS_STOREDTYPES_H
