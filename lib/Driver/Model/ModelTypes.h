// ModelTypes: what a model is written in, and what it is trained in. Neither the type that a file stores weights in nor
// the width of an input decides how hyc trains: parameters are f32, --precision says what is computed in, and data is
// read as i64, i32 or f32.
#ifndef HYC_LIB_DRIVER_MODEL_MODELTYPES_H
#define HYC_LIB_DRIVER_MODEL_MODELTYPES_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace hyc {

/// A model whose parameters are f16, bf16 or f64 becomes the f32 model that it was made of: whatever has such a type is
/// f32 then, and the values of its parameters are read as they are stored. What an f32 model computes in another type
/// by itself stays. Gives the types that are no more, as "bf16"; nothing of an f32 model.
std::string computeInF32(mlir::ModuleOp module);

/// Inputs of other types (truth values, bytes, 16-bit floats, ...) are read as i32, i64 or f32 (64-bit floats as
/// f32, unsigned 64-bit integers as i64), and converted where the model begins.
void readByTypesOfData(mlir::ModuleOp module);

} // namespace hyc

#endif // HYC_LIB_DRIVER_MODEL_MODELTYPES_H
