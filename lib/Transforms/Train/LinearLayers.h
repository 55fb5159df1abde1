// Linear layers as a model has them: products of activations with one parameter.
#ifndef HYC_LIB_TRANSFORMS_TRAIN_LINEARLAYERS_H
#define HYC_LIB_TRANSFORMS_TRAIN_LINEARLAYERS_H

#include "dialects/Hyc/HycDialect.h"

#include <string>

namespace hyc::train {

/// A parameter `PATH.weight` all of whose uses are products that contract some of its dimensions and keep the others.
struct LinearLayer {
  ParamOp weight;
  std::string path;                        ///< of the module, as in model.layers.0.self_attn.q_proj
  llvm::SmallVector<EinsumOp, 1> products; ///< more than one where layers share the weight
  int64_t inputDims = 0;                   ///< dimensions of the weight that are contracted
  bool inputsFirst = false;                ///< whether these come before those that are kept, as in [in, out]
  bool makesOutput = false; ///< whether an output of the model, or the scores of its loss, is what it makes

  llvm::ArrayRef<int64_t> inputShape();
  llvm::ArrayRef<int64_t> outputShape();
};

/// A parameter that is none, and why.
struct NoLinearLayer {
  std::string path, reason;
};

struct LinearLayers {
  llvm::SmallVector<LinearLayer> layers; ///< in the order of the parameters
  llvm::SmallVector<NoLinearLayer> others;
};

/// Of the model's forward function.
LinearLayers findLinearLayers(mlir::ModuleOp module, FuncOp entry);

} // namespace hyc::train

#endif // HYC_LIB_TRANSFORMS_TRAIN_LINEARLAYERS_H
