// AdapterInput: what --lora means, whether it says so itself or names the folder of an adapter that peft saved.
#ifndef HYC_LIB_DRIVER_MODEL_ADAPTERINPUT_H
#define HYC_LIB_DRIVER_MODEL_ADAPTERINPUT_H

#include "hyc/Plan/CompileOptions.h"
#include "mlir/IR/BuiltinOps.h"

namespace hyc {

/// Fills `options.adapters` from `options.lora`; of a folder, from its adapter_config.json and the names in its
/// adapter_model.safetensors.
llvm::Error resolveAdapters(CompileOptions &options);

/// Has the adapters that hyc-insert-adapters will add to the module, and whole parameters saved beside them, start from
/// the folder that `options.lora` names; nothing where it names none.
llvm::Error startFromAdapter(mlir::ModuleOp module, const CompileOptions &options);

} // namespace hyc

#endif // HYC_LIB_DRIVER_MODEL_ADAPTERINPUT_H
