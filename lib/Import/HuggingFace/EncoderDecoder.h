// Encoders whose results a decoder looks at, from their config.json: T5. Both are stacks of the same blocks, the
// decoder's with a second attention, to the encoder's rows.
#ifndef HYC_LIB_IMPORT_HUGGINGFACE_ENCODERDECODER_H
#define HYC_LIB_IMPORT_HUGGINGFACE_ENCODERDECODER_H

#include "ConfigReader.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace hyc {

/// What config.json says of the model; a key that is not there has the default of transformers' configuration.
struct EncoderDecoderConfig {
  int64_t vocabulary = 32128, width = 512, headSize = 64, heads = 8, inner = 2048;
  int64_t encoderLayers = 6, decoderLayers = 0; ///< decoderLayers: 0 is as many as the encoder's
  int64_t buckets = 32, farthest = 128;         ///< of distances between positions, from which on all are one bucket's
  double dropout = 0.1, epsilon = 1e-6, initializerFactor = 1;
  std::string activation = "relu";
  bool isGated = false;
  bool tiedEmbeddings = true; ///< the logits are by the embedding's weights, of rows scaled by 1 / sqrt(width)
};

/// Of a text that has been parsed and is of this type.
llvm::FailureOr<EncoderDecoderConfig> readEncoderDecoder(ConfigReader &reader);

/// The phase-1 module over `batch` samples: @train(input_ids, decoder_input_ids) -> logits, both of `sequence` tokens.
mlir::OwningOpRef<mlir::ModuleOp> buildEncoderDecoder(mlir::MLIRContext &context, const EncoderDecoderConfig &config,
                                                      int64_t batch, int64_t sequence);

/// Tensors of the family's files that repeat another, or that no version of the model reads.
bool isRepeated(llvm::StringRef stored);

/// The bucket that the distance `keys after the query` is in: `sided` where either side has its own.
int64_t bucketOf(int64_t distance, bool sided, int64_t buckets, int64_t farthest);

} // namespace hyc

#endif // HYC_LIB_IMPORT_HUGGINGFACE_ENCODERDECODER_H
