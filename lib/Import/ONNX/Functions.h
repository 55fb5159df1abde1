// Local functions of a model, written out where they are called.
#ifndef HYC_IMPORT_ONNX_FUNCTIONS_H
#define HYC_IMPORT_ONNX_FUNCTIONS_H

#include "lib/Import/ONNX/onnx_subset.pb.h"
#include "mlir/IR/Diagnostics.h"

namespace hyc::onnx {

/// Replaces each node that calls one of the model's functions by the function's nodes, until no call is left. Values
/// inside are called CALL/NAME after the call's first result. Reports and refuses functions that call themselves, that
/// are of another standard operator set than `opset`, and models that would grow beyond 131,072 nodes.
bool inlineFunctions(onnxfile::Model &model, mlir::Location loc, int64_t opset);

} // namespace hyc::onnx

#endif // HYC_IMPORT_ONNX_FUNCTIONS_H
