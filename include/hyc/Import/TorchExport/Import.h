// Turns a torch.export archive (.pt2) into a phase-1 module. The archive is a zip of stored records: the graph as JSON
// and each tensor's raw bytes, which stay where they are and are referred to by their place in the archive.
//
// The graph's aten operators are spelled in the operators of lib/Import/ONNX and imported by it, so that broadcasting,
// shape arithmetic and masks are evaluated in one place; parameters keep the names they have in the model.
#ifndef HYC_IMPORT_TORCHEXPORT_IMPORT_H
#define HYC_IMPORT_TORCHEXPORT_IMPORT_H

#include "hyc/Import/ONNX/Import.h"

namespace hyc {

/// Imports `path`, as importOnnx does an ONNX model: symbolic dimensions have the names of torch's symbols (`s72`).
llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> importTorchExport(mlir::MLIRContext &context, llvm::StringRef path,
                                                                     const ImportOptions &options = {});

} // namespace hyc

#endif // HYC_IMPORT_TORCHEXPORT_IMPORT_H
