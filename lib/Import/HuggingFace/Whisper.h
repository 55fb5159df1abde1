// Whisper from its config.json: an encoder of sound, and a decoder of text that looks at its rows.
#ifndef HYC_LIB_IMPORT_HUGGINGFACE_WHISPER_H
#define HYC_LIB_IMPORT_HUGGINGFACE_WHISPER_H

#include "ConfigReader.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>
#include <string>

namespace hyc {

/// What config.json says of the model; a key that is not there has the default of transformers' configuration.
struct WhisperConfig {
  /// Of one of the two towers.
  struct Side {
    int64_t layers = 4, heads = 6, inner = 1536;
  };
  Side encoder, decoder;
  int64_t vocabulary = 51865, width = 384, bins = 80; ///< bins: frequencies of a mel spectrum
  int64_t sourcePositions = 1500, targetPositions = 448;
  std::string activation = "gelu";
  double dropout = 0, attentionDropout = 0, innerDropout = 0, initializerRange = 0.02;
  std::optional<int64_t> paddingRow = 50256; ///< whose embedding has no gradient
  bool tiedEmbeddings = true;                ///< logits are by the embedding's weights

  int64_t frames() const { return 2 * sourcePositions; }
};

/// Of a text that has been parsed and is of this type.
llvm::FailureOr<WhisperConfig> readWhisper(ConfigReader &reader);

/// The phase-1 module over `batch` samples: @train(input_features, decoder_input_ids) -> logits. input_features is
/// (batch, bins, frames), f32; decoder_input_ids (batch, sequence).
mlir::OwningOpRef<mlir::ModuleOp> buildWhisper(mlir::MLIRContext &context, const WhisperConfig &config, int64_t batch,
                                               int64_t sequence);

} // namespace hyc

#endif // HYC_LIB_IMPORT_HUGGINGFACE_WHISPER_H
