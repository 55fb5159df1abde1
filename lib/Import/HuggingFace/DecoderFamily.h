// What a family of decoders is, as data: the keys of its config.json and their defaults, what its blocks are made of,
// and the names of its modules. One reader (ReadDecoder.cpp) and one builder (BuildDecoder.cpp) serve all of them; to
// add a family, add its row to DecoderFamilies.cpp. Families of encoders (EncoderFamilies.cpp) are rows of the same
// kind, with heads besides.
#ifndef HYC_LIB_IMPORT_HUGGINGFACE_DECODERFAMILY_H
#define HYC_LIB_IMPORT_HUGGINGFACE_DECODERFAMILY_H

#include "ConfigReader.h"
#include "hyc/Import/HuggingFace/Decoder.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace hyc {

enum class NormKind {
  RootMeanSquare, ///< x / rms(x) · w
  ShiftedRoot,    ///< x / rms(x) · (1 + w)
  Layer,          ///< (x - mean) / deviation · w + b
  LayerScale,     ///< (x - mean) / deviation · w
};

/// What q and k are normalized over, where they are.
enum class HeadNorm {
  Each,    ///< a head, by scales that all heads share
  All,     ///< all heads together
  Own,     ///< a head, by scales that are a row of one parameter
  Modules, ///< a head, by a module of its own: PATH.norms.0, …
};

/// How the weights of q, k and v lie.
enum class QueryLayout {
  Apart,   ///< three
  Parts,   ///< one: q of all heads, then k, then v
  Triples, ///< one: q, k and v of head 0, of head 1, …
  Groups,  ///< one: q of all heads of group 0, its k, its v, of group 1, …
};

enum class MlpKind {
  Plain,  ///< down(act(up x))
  Gated,  ///< down(act(gate x) · up x)
  Joined, ///< the same, gate and up one weight
};

/// Which layers have a window.
enum class WindowRule {
  None,          ///< none
  Asked,         ///< where use_sliding_window is true, those from max_window_layers on
  AskedAll,      ///< where use_sliding_window is true, all
  AskedUnturned, ///< where use_sliding_window is true, those that turn nothing, or as layer_types says
  Given,         ///< all, unless sliding_window is null
  Period,        ///< all but each `windowPeriod`th, or as layer_types says
  Between,       ///< all but the first and each `windowPeriod`th after it, or as layer_types says
};

/// Which layers turn q and k by positions.
enum class TurnRule {
  None,
  All,
  Listed,   ///< those that no_rope_layers does not leave out
  Windowed, ///< those that have a window
};

enum class ExpertKind {
  Plain,   ///< weights are the softmax of the router's scores over all experts
  Clamped, ///< GPT-OSS: over those chosen; biases, weights (in, out), gate and up neighbours and clamped
  Grouped, ///< DeepSeek-V3: sigmoids, chosen from the best groups by scores with a correction
};

/// A key whose value is a member of the config.
struct DecoderNumber {
  llvm::StringRef key = {};
  double DecoderConfig::*member = nullptr;
  double byDefault = 0;
  bool mayBeNull = false; ///< null is 0, not the default
};
struct DecoderCount {
  llvm::StringRef key = {};
  int64_t DecoderConfig::*member = nullptr;
  int64_t byDefault = 0;
  bool mayBeNull = false;
};
/// A key that is true or false, and what the block then has; what it sets otherwise.
struct DecoderSwitch {
  llvm::StringRef key = {};
  bool byDefault = false;
  uint32_t ifTrue = 0, ifFalse = 0;
};

/// A part of a parameter's name, and how the files of a folder spell it.
struct StoredName {
  llvm::StringRef inModel = {}, inFile = {};
};

/// Weights of all experts, gates and what they open in one.
inline constexpr llvm::StringLiteral kGatesAndUps = "gate_up_proj", kDowns = "down_proj";

struct DecoderKeys {
  // The empty one: this family has none. "a|b": either.
  llvm::StringRef layers = "num_hidden_layers", heads = "num_attention_heads", keyHeads = "num_key_value_heads",
                  headSize = "head_dim", width = "hidden_size", inner = "intermediate_size",
                  positions = "max_position_embeddings", activation = "hidden_act", epsilon = "rms_norm_eps",
                  initializer = "initializer_range", attentionDropout = "attention_dropout", embeddingDropout = "",
                  residualDropout = "", theta = "rope_theta", rotaryShare = "partial_rotary_factor",
                  window = "sliding_window", windowTheta = "rope_local_base_freq";
};

/// Defaults of transformers' configuration.
struct DecoderSizes {
  int64_t vocabulary = 0, width = 0, inner = 0, layers = 0, heads = 0, positions = 0;
  int64_t keyHeads = 0; ///< 0: as many as heads
  int64_t headSize = 0; ///< 0: width / heads
};

/// Modules, within the block where they are the block's. The empty one: there is none; ".": what is around it.
struct DecoderNames {
  llvm::StringRef base = "model", embedding = "embed_tokens", embeddingNorm = "", embeddingDropout = "", positions = "",
                  layers = "layers", finalNorm = "norm";
  llvm::StringRef attention = "self_attn", query = "q_proj", key = "k_proj", value = "v_proj", joined = "",
                  output = "o_proj", queryNorm = "q_norm", keyNorm = "k_norm", attentionDropout = "";
  llvm::StringRef mlp = "mlp", gate = "gate_proj", up = "up_proj", down = "down_proj", activation = "act_fn",
                  mlpDropout = "";
  llvm::StringRef attentionNorm = "input_layernorm", attentionNormAfter = "", mlpNorm = "post_attention_layernorm",
                  mlpNormAfter = "";
  llvm::StringRef router = "gate", experts = "experts";
  /// Modules around attention's products, the sums, and what embeddings are added up in: the empty ones are the
  /// attention, the block and the base.
  llvm::StringRef mixing = "", attentionSum = "", mlpSum = "", embeddings = "";
  llvm::StringRef tokenTypes = "", patches = "", firstRow = "";
};

/// What makes logits of the last block's rows, by the class of transformers that has it.
struct ModelHead {
  llvm::StringRef architecture = {};
  bool ofFirst = false;    ///< of the first row alone
  bool classifies = false; ///< outputs are labels; else words, by the embedding's weights where these are tied
  // Modules; the empty one: there is none.
  llvm::StringRef dropoutBefore = {}, dense = {}, activationModule = {}, norm = {}, dropoutAfter = {}, output = {};
  llvm::StringRef activation = {}; ///< the empty one: the model's
  llvm::StringRef bias = {};       ///< a parameter; the empty one: the output's
};

struct DecoderFamily {
  llvm::StringRef type; ///< model_type
  /// Of several rows of one type the first that applies to the config; null: it does.
  bool (*applies)(ConfigReader &) = nullptr;
  DecoderSizes sizes = {};
  DecoderKeys keys = {};
  DecoderNames names = {};

  double epsilon = 1e-6, initializerRange = 0.02, rotaryShare = 1;
  double theta = 10000, windowTheta = 0; ///< windowTheta: of layers with a window; 0: they are turned as the others
  double dropout = 0;                    ///< of the embedding and of what is added to the stream
  double attentionDropout = 0;
  llvm::StringRef activation = "silu";
  bool tied = false;
  bool hasPadding = true;          ///< the embedding has a padding row, that of pad_token_id
  int64_t paddingRow = kNoPadding; ///< by default

  uint32_t always = kNormBefore | kFinalNorm | kNormScales; ///< of DecoderPart
  NormKind norm = NormKind::RootMeanSquare;
  HeadNorm headNorm = HeadNorm::Each;
  QueryLayout queries = QueryLayout::Apart;
  MlpKind mlp = MlpKind::Gated;
  WindowRule windows = WindowRule::None;
  ExpertKind experts = ExpertKind::Plain;
  TurnRule turns = TurnRule::All;
  int64_t windowSize = 0, windowPeriod = 0; ///< sliding_window by default
  bool interleaved = false;
  bool learned = false; ///< positions are rows of a table, the first `positionOffset` of which nobody reads
  int64_t positionOffset = 0;
  int64_t firstPositions = 0; ///< original_max_position_embeddings beside rope_parameters, by default
  bool transposed = false;    ///< weights are (in, out)
  bool scalesByWidth = false; ///< embeddings are multiplied by sqrt(width)
  bool residualInit = false;  ///< what leads into the stream starts 1 / sqrt(2 · layers) as wide
  bool gateLast = false;      ///< up · act(gate), as text; the product is the same
  bool roundsSlopes = false;  ///< of kAlibi: slopes are of bf16, and scaled as scores are
  /// Sums from left to right: x the stream, a attention, m the MLP. A capital stands on the left of what is there.
  llvm::StringRef attentionSum = "xa", mlpSum = "xm", parallelSum = "xam";

  DecoderSwitch switches[4] = {};
  DecoderNumber numbers[4] = {};
  DecoderCount counts[11] = {};
  /// Keys that the model would compute otherwise by: hyc builds it where they are null, false, 0 or empty.
  llvm::StringRef unsupported[4] = {};
  /// Keys of transformers' configuration that change nothing here.
  llvm::StringRef unread[8] = {};
  StoredName stored[8] = {};
  /// What files call each expert's matrices; the empty ones: they have them as the model does.
  llvm::StringRef expertGate = "gate_proj", expertUp = "up_proj", expertDown = "down_proj";
  llvm::ArrayRef<ModelHead> heads = {}; ///< by the architectures of the file; the first where it names none
  /// What no row of this kind says.
  llvm::LogicalResult (*readOwn)(ConfigReader &, DecoderConfig &) = nullptr;

  static constexpr int64_t kNoPadding = INT64_MIN;
};

llvm::ArrayRef<DecoderFamily> decoderFamilies();
llvm::ArrayRef<DecoderFamily> encoderFamilies();

/// Reads rope_parameters, or rope_theta and rope_scaling in older files, of the config's family.
llvm::LogicalResult readRope(ConfigReader &reader, DecoderConfig &config);

} // namespace hyc

#endif // HYC_LIB_IMPORT_HUGGINGFACE_DECODERFAMILY_H
