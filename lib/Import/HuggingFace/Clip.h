// CLIP from its config.json: a tower of text and one of images, whose results for samples that belong together are to
// be alike.
#ifndef HYC_LIB_IMPORT_HUGGINGFACE_CLIP_H
#define HYC_LIB_IMPORT_HUGGINGFACE_CLIP_H

#include "ConfigReader.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace hyc {

/// What config.json says of the model; a key that is not there has the default of transformers' configuration.
struct ClipConfig {
  /// Of one of the two towers.
  struct Side {
    int64_t width = 512, inner = 2048, layers = 12, heads = 8;
    std::string activation = "quick_gelu";
    double epsilon = 1e-5, attentionDropout = 0, initializerRange = 0.02, initializerFactor = 1;
  };
  Side text, vision{.width = 768, .inner = 3072, .heads = 12};
  int64_t vocabulary = 49408, positions = 77;
  int64_t end = 49407; ///< a text is the row of its first such token; 2: of its greatest
  int64_t imageSize = 224, patchSize = 32, channels = 3;
  int64_t shared = 512;       ///< width of what is compared
  double logitScale = 2.6592; ///< at first; logits are multiplied by e to it
  double initializerFactor = 1;

  int64_t imageRows() const { return (imageSize / patchSize) * (imageSize / patchSize) + 1; }
};

/// Of a text that has been parsed and is of this type.
llvm::FailureOr<ClipConfig> readClip(ConfigReader &reader);

/// The phase-1 module over `batch` samples: @train(input_ids, pixel_values) -> (loss, logits_per_image,
/// logits_per_text, text_embeds, image_embeds). Logits are (batch, batch): of each sample of the micro-batch, on all
/// ranks that share it, with each.
mlir::OwningOpRef<mlir::ModuleOp> buildClip(mlir::MLIRContext &context, const ClipConfig &config, int64_t batch,
                                            int64_t sequence);

/// Older files have the numbers of positions, which are counted here.
bool isClipsCount(llvm::StringRef stored);

} // namespace hyc

#endif // HYC_LIB_IMPORT_HUGGINGFACE_CLIP_H
