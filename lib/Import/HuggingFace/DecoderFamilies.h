// The families of decoders that are one graph: blocks of RMS norm, rotary attention with grouped key heads, and a gated
// MLP. A row says what a family's config.json means where a key is missing, which keys it has, and what its blocks have
// besides. To add a family of this kind, add its row.
#ifndef HYC_LIB_IMPORT_HUGGINGFACE_DECODERFAMILIES_H
#define HYC_LIB_IMPORT_HUGGINGFACE_DECODERFAMILIES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace hyc {

struct DecoderFamily {
  enum class Window {
    None,    ///< attention sees all that is before
    Asked,   ///< a window where use_sliding_window is true
    Unasked, ///< a window unless sliding_window is null
  };

  llvm::StringLiteral type; ///< model_type
  // Defaults of transformers' configuration.
  int64_t vocabulary, inner, positions;
  int64_t keyHeads;       ///< 0: as many as heads
  int64_t headSize;       ///< 0: width / heads
  int64_t windowSize = 0; ///< of sliding_window
  // What it has.
  Window window = Window::None;
  bool queryBias = false;      ///< q, k and v have biases, always
  bool asksForBias = false;    ///< attention_bias: of q, k, v and what leaves attention
  bool asksForMlpBias = false; ///< mlp_bias
  bool headNorms = false;      ///< each head of q and of k is normalized before it is turned
  bool multipliers = false;    ///< embedding_multiplier, residual_multiplier, attention_multiplier, logits_scaling
};

inline constexpr DecoderFamily kDecoderFamilies[] = {
    {.type = "llama",
     .vocabulary = 32000,
     .inner = 11008,
     .positions = 2048,
     .keyHeads = 0,
     .headSize = 0,
     .asksForBias = true,
     .asksForMlpBias = true},
    {.type = "qwen2",
     .vocabulary = 151936,
     .inner = 22016,
     .positions = 32768,
     .keyHeads = 32,
     .headSize = 0,
     .windowSize = 4096,
     .window = DecoderFamily::Window::Asked,
     .queryBias = true},
    {.type = "mistral",
     .vocabulary = 32000,
     .inner = 14336,
     .positions = 131072,
     .keyHeads = 8,
     .headSize = 0,
     .windowSize = 4096,
     .window = DecoderFamily::Window::Unasked},
    {.type = "qwen3",
     .vocabulary = 151936,
     .inner = 22016,
     .positions = 32768,
     .keyHeads = 32,
     .headSize = 128,
     .windowSize = 4096,
     .window = DecoderFamily::Window::Asked,
     .asksForBias = true,
     .headNorms = true},
    {.type = "granite",
     .vocabulary = 32000,
     .inner = 11008,
     .positions = 2048,
     .keyHeads = 0,
     .headSize = 0,
     .asksForBias = true,
     .asksForMlpBias = true,
     .multipliers = true},
};

} // namespace hyc

#endif // HYC_LIB_IMPORT_HUGGINGFACE_DECODERFAMILIES_H
