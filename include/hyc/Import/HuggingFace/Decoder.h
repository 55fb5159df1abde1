// Decoders of any size from the config.json of a Hugging Face folder: the graphs of transformers' …ForCausalLM and
// GPT2LMHeadModel, built op by op, parameters named and initialised as transformers does; Import.h replaces their
// values by the folder's weights. Which families there are, and what sets each apart, is a table:
// lib/…/DecoderFamilies.cpp. Encoders are the same but for attention that looks both ways and for their heads:
// EncoderFamilies.cpp.
#ifndef HYC_IMPORT_HUGGINGFACE_DECODER_H
#define HYC_IMPORT_HUGGINGFACE_DECODER_H

#include "hyc/Import/Checkpoint/Checkpoint.h"
#include "hyc/Import/HuggingFace/RopeParameters.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>

namespace hyc {

struct DecoderFamily;
struct ModelHead;

/// What a block may have besides; which of them it has always or when a key says so is the family's.
enum DecoderPart : uint32_t {
  kQueryBias = 1 << 0,   ///< q, k and v have biases
  kOutputBias = 1 << 1,  ///< what leaves attention has one
  kInnerBias = 1 << 2,   ///< the MLP has them
  kHeadBias = 1 << 3,    ///< the logits have one
  kHeadNorms = 1 << 4,   ///< q and k are normalized before they are turned
  kParallel = 1 << 5,    ///< attention and MLP read the same stream, and one sum joins them
  kOneNorm = 1 << 6,     ///< both of a parallel block read the same norm
  kNormBefore = 1 << 7,  ///< norms stand in front of attention and MLP
  kNormAfter = 1 << 8,   ///< norms stand behind them, before the sum
  kNormSum = 1 << 9,     ///< norms stand behind the sum
  kFinalNorm = 1 << 10,  ///< the last block is followed by a norm
  kNormScales = 1 << 11, ///< norms have scales, and biases if they are of that kind
  kSumOfNorm = 1 << 12,  ///< what is added to is the norm's result and not the stream
  kAlibi = 1 << 13,      ///< scores have a slope along the keys, and nothing is turned
  kMixesExperts = 1 << 14,
  kNormalizesChosen = 1 << 15, ///< the weights of a token's experts sum to 1
  kSinks = 1 << 16,            ///< a score of each head's own that takes part in the softmax and meets no value
  kSeesAll = 1 << 17,          ///< attention looks both ways
  kCountsTokens = 1 << 18,     ///< positions count what is no padding, from the padding row's on
  kPatches = 1 << 19,          ///< samples are images, cut into patches
  kFirstUnnormed = 1 << 20,    ///< the first block's attention has no norm in front
  kHeadDenseBias = 1 << 21,    ///< the product within the head has a bias
  kTakesMask = 1 << 22,        ///< an input says which tokens are none, and nobody looks at these
};

/// What config.json says of the model; a key that is not there has the default of the family's configuration.
struct DecoderConfig {
  const DecoderFamily *family = nullptr;
  uint32_t parts = 0; ///< of DecoderPart
  int64_t layers = 0, heads = 0, keyHeads = 0, width = 0, vocabulary = 0, positions = 0;
  int64_t headSize = 0;       ///< 0: width / heads
  int64_t inner = 0;          ///< 0: four times the width
  int64_t embeddingWidth = 0; ///< of tokens, where it is another than that of the stream; 0: the same
  std::string activation;
  double epsilon = 0;
  double initializerRange = 0; ///< standard deviation of the initial weights
  double attentionDropout = 0, embeddingDropout = 0, residualDropout = 0;
  bool tiedEmbeddings = false;
  double embeddingFactor = 1, residualFactor = 1, logitsFactor = 1, logitsDivisor = 1;
  double scoreScale = 0;              ///< 0: by the head size; what scores are multiplied by
  double scoreSize = 0;               ///< in place of the head size in 1 / sqrt(head size); 0: the head size
  double scoreCap = 0, logitsCap = 0; ///< cap · tanh(x / cap); 0: as they are
  bool scaleByHeadSize = true;        ///< 1 / sqrt(head size), else 1
  bool scaleByInverseLayer = false;   ///< of layer number n, from 1 on, scores are divided by n
  std::optional<int64_t> paddingRow;  ///< whose embedding has no gradient
  int64_t positionOffset = 0;         ///< rows of learned positions that come before the first sample's

  const ModelHead *head = nullptr; ///< null: logits of the vocabulary
  int64_t labels = 0;              ///< of a head that classifies
  double headDropout = 0;
  bool averagesRows = false;  ///< a head of one row takes the mean of all in place of the first
  std::string headActivation; ///< the empty one: the head's own
  int64_t tokenTypes = 0;     ///< rows of the table of token types, of which samples have the first; 0: none
  int64_t imageSize = 0, patchSize = 0, channels = 0;

  double rotaryShare = 1;          ///< of a head's elements, from its first on, are turned
  int64_t rotarySize = 0;          ///< as many are; 0: by the share
  bool interleaved = false;        ///< pairs of a rotation are neighbours
  RopeParameters rope, windowRope; ///< windowRope: of layers with a window

  int64_t window = 0;           ///< keys that a query sees in the layers that have one
  std::vector<bool> isWindowed; ///< by layer
  std::vector<bool> isTurned;   ///< by layer: whether positions turn q and k

  int64_t experts = 0, chosen = 0;      ///< experts of a layer, and those of a token
  int64_t expertInner = 0;              ///< 0: as inner
  int64_t sharedExperts = 0;            ///< one MLP of so many times the experts' width, for every token
  int64_t groups = 1, chosenGroups = 1; ///< experts are chosen from the best of so many groups
  double expertsFactor = 1;
  double gateSlope = 0, gateLimit = 0; ///< GPT-OSS's gate
  std::vector<bool> isMixed;           ///< by layer: experts in place of one MLP

  int64_t queryRank = 0, keyRank = 0;   ///< latent attention: ranks of what q, and k and v, are made of; 0: none
  int64_t plainSize = 0, valueSize = 0; ///< elements of q and k that are not turned, and of v

  /// base_model_tp_plan: module of the base model and style, `layers.*.mlp.up_proj` and `colwise`.
  std::vector<std::pair<std::string, std::string>> tensorPlan;

  bool has(DecoderPart part) const { return (parts & part) != 0; }
  int64_t innerWidth() const { return inner ? inner : 4 * width; }
};

/// The model_types that are read.
llvm::SmallVector<llvm::StringRef> decoderTypes();

/// The model that an empty config.json of this type describes, without dropout.
DecoderConfig defaultDecoder(llvm::StringRef type);

/// Reads the text of a config.json of one of these types, which `name` stands for in messages. What is wrong is
/// a diagnostic with the key, what was found and what was expected.
llvm::FailureOr<DecoderConfig> readDecoder(mlir::MLIRContext &context, llvm::StringRef text, llvm::StringRef name);

/// What the files of the family's folders call a parameter.
std::string storedNameOf(const DecoderConfig &config, llvm::StringRef parameter);

/// What the files of the family's folders have in place of a parameter of this shape: each expert's matrices, one by
/// one. No names for a parameter that is stored as one.
StoredParts storedPartsOf(const DecoderConfig &config, llvm::StringRef parameter, llvm::ArrayRef<int64_t> shape);

/// The name of the key that says how many positions there are.
llvm::StringRef positionsKeyOf(const DecoderConfig &config);

/// The phase-1 module over `batch` samples of `sequence` tokens: @train(input_ids) -> logits. Sizes have been checked.
/// A tensor plan becomes the module's attribute `hyc.tensor_plan`.
mlir::OwningOpRef<mlir::ModuleOp> buildDecoder(mlir::MLIRContext &context, const DecoderConfig &config, int64_t batch,
                                               int64_t sequence);

} // namespace hyc

#endif // HYC_IMPORT_HUGGINGFACE_DECODER_H
