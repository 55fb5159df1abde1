// GPT-2 of any size from the config.json of a Hugging Face folder: the graph of transformers' GPT2LMHeadModel, built
// here op by op, its parameters named as transformers names them and initialised by its rule; Import.h replaces that by
// the folder's weights.
#ifndef HYC_IMPORT_HUGGINGFACE_GPT2_H
#define HYC_IMPORT_HUGGINGFACE_GPT2_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace hyc {

/// What config.json says of the model; a key that is not there has GPT2Config's default.
struct Gpt2Config {
  int64_t layers = 12, heads = 12, width = 768; ///< n_layer, n_head, n_embd
  int64_t inner = 0;                            ///< n_inner; 0: four times the width
  int64_t positions = 1024, vocabulary = 50257; ///< n_positions, vocab_size
  std::string activation = "gelu_new";
  double epsilon = 1e-5;            ///< layer_norm_epsilon
  double initializerRange = 0.02;   ///< standard deviation of the initial weights
  bool tiedEmbeddings = true;       ///< tie_word_embeddings
  bool scaleByHeadSize = true;      ///< scale_attn_weights
  bool scaleByInverseLayer = false; ///< scale_attn_by_inverse_layer_idx
  double attentionDropout = 0;      ///< attn_pdrop, of probabilities; transformers' default is 0.1, as of the next two
  double embeddingDropout = 0;      ///< embd_pdrop, of the sum of embeddings
  double residualDropout = 0;       ///< resid_pdrop, of what attention and MLP add to the stream

  int64_t innerWidth() const { return inner ? inner : 4 * width; }
};

/// Reads the text of a config.json, which `name` stands for in messages. What is wrong is a diagnostic with the key,
/// what was found and what was expected.
llvm::FailureOr<Gpt2Config> readGpt2Config(mlir::MLIRContext &context, llvm::StringRef text, llvm::StringRef name);

/// The phase-1 module over `batch` samples of `sequence` tokens: @train(input_ids) -> logits. Sizes have been checked.
mlir::OwningOpRef<mlir::ModuleOp> buildGpt2(mlir::MLIRContext &context, const Gpt2Config &config, int64_t batch,
                                            int64_t sequence);

} // namespace hyc

#endif // HYC_IMPORT_HUGGINGFACE_GPT2_H
