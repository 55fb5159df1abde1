// Llama and what differs from it by a row (DecoderFamilies.h: Qwen2, Qwen3, Mistral, Granite), of any size, from the
// config.json of a Hugging Face folder: the graphs of transformers' …ForCausalLM.
#ifndef HYC_IMPORT_HUGGINGFACE_LLAMA_H
#define HYC_IMPORT_HUGGINGFACE_LLAMA_H

#include "hyc/Import/HuggingFace/RopeParameters.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>

namespace hyc {

/// What config.json says of the model; a key that is not there has the default of the family's configuration.
struct LlamaConfig {
  int64_t layers = 32, heads = 32, keyHeads = 32; ///< num_hidden_layers, num_attention_heads, num_key_value_heads
  int64_t headSize = 0;                           ///< head_dim
  int64_t width = 4096, inner = 11008;            ///< hidden_size, intermediate_size
  int64_t positions = 2048, vocabulary = 32000;   ///< max_position_embeddings, vocab_size
  int64_t window = 0;                             ///< sliding_window where it is used; 0: none
  std::string activation = "silu";                ///< hidden_act
  double epsilon = 1e-6;                          ///< rms_norm_eps
  double initializerRange = 0.02;                 ///< standard deviation of the initial weights
  double attentionDropout = 0;                    ///< attention_dropout, of probabilities
  bool tiedEmbeddings = false;                    ///< tie_word_embeddings
  bool queryBias = false, outputBias = false;     ///< of q, k and v; of what leaves attention
  bool innerBias = false;                         ///< mlp_bias
  bool headNorms = false;                         ///< of each head of q and of k
  double embeddingFactor = 1, residualFactor = 1; ///< embedding_multiplier, residual_multiplier
  double logitsDivisor = 1;                       ///< logits_scaling
  std::optional<double> scoreFactor;              ///< attention_multiplier; none: 1 / sqrt(head size)
  std::optional<int64_t> paddingRow;              ///< pad_token_id, whose embedding has no gradient
  RopeParameters rope;
  /// base_model_tp_plan: module of the base model and style, `layers.*.mlp.up_proj` and `colwise`.
  std::vector<std::pair<std::string, std::string>> tensorPlan;
};

/// The model_types that it reads.
llvm::SmallVector<llvm::StringRef> decoderTypes();

/// Reads the text of a config.json of one of these types, which `name` stands for in messages. What is wrong is
/// a diagnostic with the key, what was found and what was expected.
llvm::FailureOr<LlamaConfig> readLlamaConfig(mlir::MLIRContext &context, llvm::StringRef text, llvm::StringRef name);

/// The phase-1 module over `batch` samples of `sequence` tokens: @train(input_ids) -> logits. Sizes have been checked.
/// A tensor plan becomes the module's attribute `hyc.tensor_plan`.
mlir::OwningOpRef<mlir::ModuleOp> buildLlama(mlir::MLIRContext &context, const LlamaConfig &config, int64_t batch,
                                             int64_t sequence);

} // namespace hyc

#endif // HYC_IMPORT_HUGGINGFACE_LLAMA_H
