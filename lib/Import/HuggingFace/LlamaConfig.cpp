// config.json of a decoder of Llama's kind: keys, defaults and ranges.
#include "ConfigReader.h"
#include "DecoderFamilies.h"
#include "hyc/Import/HuggingFace/Llama.h"

using namespace mlir;
using namespace hyc;

static constexpr double kMaxFactor = 1e6;

/// Keys of rope_parameters; older configs have rope_theta beside them and call the rest rope_scaling.
static LogicalResult readRope(ConfigReader &reader, LlamaConfig &config) {
  RopeParameters &rope = config.rope;
  if (failed(reader.readNumber("rope_theta", rope.theta, /*mayBeZero=*/false)))
    return failure();
  for (StringRef key : {"rope_parameters", "rope_scaling"}) {
    if (reader.has(key) && !reader.enter(key))
      return reader.wrong(key, "an object");
    reader.leave();
  }
  if (!reader.enter("rope_parameters") && !reader.enter("rope_scaling"))
    return success();
  const StringRef types[] = {"default", "linear", "dynamic", "llama3", "yarn"};
  double share = 1;
  bool positionsGiven = reader.has("original_max_position_embeddings");
  if (failed(reader.readString("type", rope.type, types)) || failed(reader.readString("rope_type", rope.type, types)) ||
      failed(reader.readNumber("rope_theta", rope.theta, false)) ||
      failed(reader.readNumber("factor", rope.factor, false)) ||
      failed(reader.readNumber("low_freq_factor", rope.lowFactor, false)) ||
      failed(reader.readNumber("high_freq_factor", rope.highFactor, false)) ||
      failed(reader.readSize("original_max_position_embeddings", rope.firstPositions, 1, kMaxPositions)) ||
      failed(reader.readNumber("beta_fast", rope.betaFast, false)) ||
      failed(reader.readNumber("beta_slow", rope.betaSlow, false)) ||
      failed(reader.readBool("truncate", rope.truncate)) ||
      failed(reader.readNumber("attention_factor", rope.attentionFactor, false)) ||
      failed(reader.readNumber("mscale", rope.mscale, true)) ||
      failed(reader.readNumber("mscale_all_dim", rope.mscaleAllDim, true)) ||
      failed(reader.readNumber("partial_rotary_factor", share, false)))
    return failure();
  bool scales = rope.type != "default" && rope.type != "dynamic";
  if (share != 1)
    return reader.wrong("partial_rotary_factor", "1: all elements of a head are turned in these models");
  if (scales && !reader.has("factor") && !(rope.type == "yarn" && positionsGiven))
    return reader.wrong("factor", "a number above 0 for rope_type \"" + rope.type + "\"");
  if (!(rope.factor <= kMaxFactor))
    return reader.wrong("factor", "a number of at most 1e6");
  if ((rope.type == "llama3" || rope.type == "yarn") && !positionsGiven)
    return reader.wrong("original_max_position_embeddings", "an integer for rope_type \"" + rope.type + "\"");
  if (rope.type == "llama3" && !(rope.lowFactor < rope.highFactor))
    return reader.wrong("high_freq_factor", "a number above \"low_freq_factor\"");
  if (rope.type == "yarn" && !reader.has("factor"))
    rope.factor = static_cast<double>(config.positions) / static_cast<double>(rope.firstPositions);
  reader.leave();
  return success();
}

/// transformers' styles that say how a module's parameters are split. Others move activations by hand, or split
/// experts.
static LogicalResult readTensorPlan(ConfigReader &reader, LlamaConfig &config) {
  return reader.readStrings("base_model_tp_plan", config.tensorPlan,
                            {"colwise", "colwise_rep", "colwise_gather_output", "rowwise", "rowwise_rep", "replicate",
                             "replicated_with_grad_allreduce"});
}

/// What follows from several keys.
static LogicalResult checkShapes(ConfigReader &reader, LlamaConfig &config) {
  if (config.headSize == 0 && config.width % config.heads != 0)
    return reader.wrong("hidden_size", "a multiple of \"num_attention_heads\", which is " + Twine(config.heads) +
                                           ", or a \"head_dim\"");
  if (config.headSize == 0)
    config.headSize = config.width / config.heads;
  if (config.headSize % 2 != 0)
    return reader.wrong("head_dim", "an even number, since pairs are turned, and no " + Twine(config.headSize));
  if (config.heads % config.keyHeads != 0)
    return reader.wrong("num_attention_heads",
                        "a multiple of \"num_key_value_heads\", which is " + Twine(config.keyHeads));
  return success();
}

/// What only some families have keys for.
static LogicalResult readOwnKeys(ConfigReader &reader, const DecoderFamily &family, LlamaConfig &config) {
  bool bias = false, slides = family.window == DecoderFamily::Window::Unasked && !reader.isNull("sliding_window");
  if (family.window != DecoderFamily::Window::None &&
      failed(reader.readSize("sliding_window", config.window, 1, kMaxPositions)))
    return failure();
  if (family.window == DecoderFamily::Window::Asked && failed(reader.readBool("use_sliding_window", slides)))
    return failure();
  if (!slides)
    config.window = 0;
  if ((family.asksForBias && failed(reader.readBool("attention_bias", bias))) ||
      (family.asksForMlpBias && failed(reader.readBool("mlp_bias", config.innerBias))))
    return failure();
  config.queryBias |= bias;
  config.outputBias = bias;
  if (!family.multipliers)
    return success();
  double scores = 1;
  if (failed(reader.readNumber("embedding_multiplier", config.embeddingFactor, false)) ||
      failed(reader.readNumber("residual_multiplier", config.residualFactor, false)) ||
      failed(reader.readNumber("logits_scaling", config.logitsDivisor, false)) ||
      failed(reader.readNumber("attention_multiplier", scores, false)))
    return failure();
  config.scoreFactor = scores;
  return success();
}

static LogicalResult readPadding(ConfigReader &reader, LlamaConfig &config) {
  int64_t row = 0;
  if (!reader.has("pad_token_id"))
    return success();
  // Counted from the end where negative, as torch's embedding does.
  if (failed(reader.readSize("pad_token_id", row, -config.vocabulary, config.vocabulary - 1)))
    return failure();
  config.paddingRow = row < 0 ? row + config.vocabulary : row;
  return success();
}

SmallVector<StringRef> hyc::decoderTypes() {
  SmallVector<StringRef> types;
  for (const DecoderFamily &family : kDecoderFamilies)
    types.push_back(family.type);
  return types;
}

FailureOr<LlamaConfig> hyc::readLlamaConfig(MLIRContext &context, StringRef text, StringRef name) {
  ConfigReader reader(context, name);
  LlamaConfig config;
  std::string modelType;
  if (failed(reader.parse(text)) || failed(reader.readString("model_type", modelType, decoderTypes())))
    return failure();
  const DecoderFamily &family =
      *llvm::find_if(kDecoderFamilies, [&](const DecoderFamily &each) { return each.type == modelType; });
  config.vocabulary = family.vocabulary;
  config.inner = family.inner;
  config.positions = family.positions;
  config.headSize = family.headSize;
  config.window = family.windowSize;
  config.queryBias = family.queryBias;
  config.headNorms = family.headNorms;
  if (failed(reader.readSize("num_hidden_layers", config.layers, 1, kMaxLayers)) ||
      failed(reader.readSize("num_attention_heads", config.heads, 1, kMaxWidth)))
    return failure();
  config.keyHeads = family.keyHeads ? family.keyHeads : config.heads;
  if (failed(reader.readSize("num_key_value_heads", config.keyHeads, 1, kMaxWidth)) ||
      failed(reader.readSize("head_dim", config.headSize, 1, kMaxWidth)) ||
      failed(reader.readSize("hidden_size", config.width, 1, kMaxWidth)) ||
      failed(reader.readSize("intermediate_size", config.inner, 1, 4 * kMaxWidth)) ||
      failed(reader.readSize("max_position_embeddings", config.positions, 1, kMaxPositions)) ||
      failed(reader.readSize("vocab_size", config.vocabulary, 1, kMaxPositions)) ||
      failed(reader.readString("hidden_act", config.activation,
                               {"silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu"})) ||
      failed(reader.readNumber("rms_norm_eps", config.epsilon, /*mayBeZero=*/false)) ||
      failed(reader.readNumber("initializer_range", config.initializerRange, /*mayBeZero=*/true)) ||
      failed(reader.readBool("tie_word_embeddings", config.tiedEmbeddings)) ||
      failed(reader.readShare("attention_dropout", config.attentionDropout)) || failed(readRope(reader, config)) ||
      failed(readTensorPlan(reader, config)) || failed(readPadding(reader, config)) ||
      failed(readOwnKeys(reader, family, config)) || failed(checkShapes(reader, config)))
    return failure();
  return config;
}
