// Turns a Hugging Face folder, config.json and weights, into a phase-1 module: decoders, encoders and both together, of
// the families in lib/Import/HuggingFace/{Decoder,Encoder}Families.cpp, and T5, Whisper and CLIP beside them.
#ifndef HYC_IMPORT_HUGGINGFACE_IMPORT_H
#define HYC_IMPORT_HUGGINGFACE_IMPORT_H

#include "hyc/Import/Checkpoint/Checkpoint.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>

namespace hyc {

/// Where parameters start.
enum class FolderWeights {
  Read,              ///< the folder's weights; by rule where it has none at all
  InitialiseMissing, ///< those of the folder's weights that are there
  Initialise,        ///< by rule
};

struct HuggingFaceOptions {
  int64_t batch = 1;
  std::optional<int64_t> sequence; ///< tokens of a sample; as many as the model has positions
  FolderWeights weights = FolderWeights::Read;
  bool paddingMask =
      false; ///< of an encoder of text: an input attention_mask, (batch, sequence), 0 for what nobody is to see
  bool saysCausal = false; ///< the module of a decoder says so: the attribute kCausalAttribute (hyc/Analysis/Entry.h)
};

/// Builds the model that `path`, a config.json, describes; its parameters start from the safetensors beside it, named
/// as transformers names them or without the `transformer.` before the names, and else by the architecture's rule. What
/// is wrong is a diagnostic. The module's attribute `hyc.model_folder` is the folder of `path`. `names`, where it is
/// wanted, gets what files of the family call parameters, for checkpoints that lie elsewhere.
llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> importHuggingFace(mlir::MLIRContext &context, llvm::StringRef path,
                                                                     const HuggingFaceOptions &options,
                                                                     StartOptions *names = nullptr);

} // namespace hyc

#endif // HYC_IMPORT_HUGGINGFACE_IMPORT_H
