// What a compiled folder says of the adapters that its programs train: for the runtime, which saves and merges them,
// and for peft, which loads them.
#ifndef HYC_LIB_DRIVER_FOLDER_ADAPTERFILES_H
#define HYC_LIB_DRIVER_FOLDER_ADAPTERFILES_H

#include "hyc/Plan/CompileOptions.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace hyc {

struct AdapterFacts {
  struct Layer {
    std::string path;
    bool inputsFirst; ///< the weight is stored [in, out]
  };
  AdapterSettings settings;
  std::vector<Layer> layers;      ///< in the order of their paths
  std::vector<std::string> whole; ///< parameters of the modules of which some are trained beside the adapters
  std::vector<std::string> tied;  ///< of what is trained beside them: embeddings that also make the output
};

/// Of a module after phase 2.
AdapterFacts collectAdapters(mlir::ModuleOp module, const AdapterSettings &settings);

/// The object "adapter" of manifest.json (hycrt/manifest.h).
std::string describeAdapter(const AdapterFacts &facts);

/// peft's adapter_config.json. `base` is the model's path, `configText` its config.json, or empty.
std::string adapterConfig(const AdapterFacts &facts, const std::string &base, llvm::StringRef configText);

} // namespace hyc

#endif // HYC_LIB_DRIVER_FOLDER_ADAPTERFILES_H
