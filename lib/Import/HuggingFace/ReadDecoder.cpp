// config.json of a decoder or an encoder, by the row of its family: keys, defaults and ranges.
#include "DecoderFamily.h"
#include "OwnArchitectures.h"
#include "hyc/Support/NearestName.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace hyc;

static constexpr StringRef kActivations[] = {"silu",      "swish", "gelu", "gelu_new", "gelu_pytorch_tanh",
                                             "gelu_fast", "relu"};
static constexpr StringRef kLayerTypes[] = {"full_attention", "sliding_attention"};

/// Keys of every configuration that say nothing about what a decoder computes: files, tokens, generation, other heads.
static constexpr StringRef kAboutOtherThings[] = {"model_type",
                                                  "architectures",
                                                  "transformers_version",
                                                  "auto_map",
                                                  "_name_or_path",
                                                  "name_or_path",
                                                  "_commit_hash",
                                                  "dtype",
                                                  "torch_dtype",
                                                  "use_cache",
                                                  "return_dict",
                                                  "output_hidden_states",
                                                  "output_attentions",
                                                  "torchscript",
                                                  "use_bfloat16",
                                                  "attn_implementation",
                                                  "_attn_implementation",
                                                  "_attn_implementation_internal",
                                                  "_attn_implementation_autoset",
                                                  "experts_implementation",
                                                  "chunk_size_feed_forward",
                                                  "gradient_checkpointing",
                                                  "id2label",
                                                  "label2id",
                                                  "num_labels",
                                                  "problem_type",
                                                  "finetuning_task",
                                                  "classifier_dropout",
                                                  "bos_token_id",
                                                  "eos_token_id",
                                                  "pad_token_id",
                                                  "sep_token_id",
                                                  "unk_token_id",
                                                  "decoder_start_token_id",
                                                  "tokenizer_class",
                                                  "prefix",
                                                  "task_specific_params",
                                                  "base_model_tp_plan",
                                                  "base_model_pp_plan",
                                                  "base_model_ep_plan",
                                                  "base_model_fsdp_plan",
                                                  "max_length",
                                                  "min_length",
                                                  "do_sample",
                                                  "early_stopping",
                                                  "num_beams",
                                                  "num_beam_groups",
                                                  "diversity_penalty",
                                                  "temperature",
                                                  "top_k",
                                                  "top_p",
                                                  "typical_p",
                                                  "repetition_penalty",
                                                  "length_penalty",
                                                  "no_repeat_ngram_size",
                                                  "encoder_no_repeat_ngram_size",
                                                  "bad_words_ids",
                                                  "num_return_sequences",
                                                  "output_scores",
                                                  "return_dict_in_generate",
                                                  "forced_bos_token_id",
                                                  "forced_eos_token_id",
                                                  "remove_invalid_values",
                                                  "exponential_decay_length_penalty",
                                                  "suppress_tokens",
                                                  "begin_suppress_tokens",
                                                  "max_new_tokens",
                                                  "transformers.js_config",
                                                  "unsloth_fixed",
                                                  "unsloth_version"};
/// Keys that change every model, and that hyc builds without.
static constexpr StringRef kUnsupported[] = {"quantization_config",         "per_layer_config",    "is_encoder_decoder",
                                             "cross_attention_hidden_size", "tie_encoder_decoder", "pruned_heads"};

bool hyc::isAboutOtherThings(StringRef key) { return llvm::is_contained(kAboutOtherThings, key); }

static auto allFamilies() { return llvm::concat<const DecoderFamily>(decoderFamilies(), encoderFamilies()); }

SmallVector<StringRef> hyc::decoderTypes() {
  SmallVector<StringRef> types;
  for (const DecoderFamily &family : allFamilies())
    if (!llvm::is_contained(types, family.type))
      types.push_back(family.type);
  return types;
}

static LogicalResult readType(ConfigReader &reader, std::string &type) {
  if (failed(reader.readString("model_type", type, {})))
    return failure();
  SmallVector<StringRef> types = decoderTypes();
  llvm::append_range(types, ownArchitectureTypes());
  if (llvm::is_contained(types, type))
    return success();
  const StringRef nearest = nearestName(type, types);
  const bool isNear = !type.empty() && nameDistance(type, nearest) <= 1 + nearest.size() / 4;
  const std::string one = isNear ? "\"" + nearest.str() + "\" or another" : "one";
  return reader.wrong("model_type", one + " of the " + Twine(types.size()) +
                                        " that docs/formats.md lists; other models come in through torch.export");
}

static DecoderConfig defaultsOf(const DecoderFamily &family) {
  DecoderConfig config;
  config.family = &family;
  config.parts = family.always;
  config.layers = family.sizes.layers;
  config.heads = family.sizes.heads;
  config.keyHeads = family.sizes.keyHeads;
  config.headSize = family.sizes.headSize;
  config.width = family.sizes.width;
  config.inner = family.sizes.inner;
  config.vocabulary = family.sizes.vocabulary;
  config.positions = family.sizes.positions;
  config.activation = family.activation.str();
  config.epsilon = family.epsilon;
  config.initializerRange = family.initializerRange;
  config.tiedEmbeddings = family.tied;
  config.window = family.windowSize;
  config.interleaved = family.interleaved;
  config.positionOffset = family.positionOffset;
  config.head = family.heads.empty() ? nullptr : &family.heads.front();
  config.labels = 2;
  for (const DecoderSwitch &each : family.switches)
    config.parts |= each.byDefault ? each.ifTrue : each.ifFalse;
  for (const DecoderNumber &each : family.numbers)
    if (!each.key.empty())
      config.*each.member = each.byDefault;
  for (const DecoderCount &each : family.counts)
    if (!each.key.empty())
      config.*each.member = each.byDefault;
  return config;
}

/// The row of `type` that applies to the file.
static const DecoderFamily &familyOf(StringRef type, ConfigReader &reader) {
  for (const DecoderFamily &family : allFamilies())
    if (family.type == type && (!family.applies || family.applies(reader)))
      return family;
  llvm_unreachable("each type has a row that applies to all");
}

static LogicalResult readSizes(ConfigReader &reader, DecoderConfig &config) {
  const DecoderKeys &keys = config.family->keys;
  return success(succeeded(reader.readSize(keys.layers, config.layers, 1, kMaxLayers)) &&
                 succeeded(reader.readSize(keys.heads, config.heads, 1, kMaxWidth)) &&
                 succeeded(reader.readSize(keys.keyHeads, config.keyHeads, 1, kMaxWidth)) &&
                 succeeded(reader.readSize(keys.headSize, config.headSize, 1, kMaxWidth)) &&
                 succeeded(reader.readSize(keys.width, config.width, 1, kMaxWidth)) &&
                 succeeded(reader.readSize(keys.inner, config.inner, 1, 4 * kMaxWidth)) &&
                 succeeded(reader.readSize(keys.positions, config.positions, 1, kMaxPositions)) &&
                 succeeded(reader.readSize("vocab_size", config.vocabulary, 1, kMaxPositions)) &&
                 succeeded(reader.readString(keys.activation, config.activation, kActivations)) &&
                 succeeded(reader.readNumber(keys.epsilon, config.epsilon, /*mayBeZero=*/false)) &&
                 succeeded(reader.readNumber(keys.initializer, config.initializerRange, /*mayBeZero=*/true)) &&
                 succeeded(reader.readBool("tie_word_embeddings", config.tiedEmbeddings)));
}

static LogicalResult readDropout(ConfigReader &reader, DecoderConfig &config) {
  const DecoderFamily &family = *config.family;
  config.embeddingDropout = config.residualDropout = family.dropout;
  config.attentionDropout = family.attentionDropout;
  return success(succeeded(reader.readShare(family.keys.attentionDropout, config.attentionDropout)) &&
                 succeeded(reader.readShare(family.keys.embeddingDropout, config.embeddingDropout)) &&
                 succeeded(reader.readShare(family.keys.residualDropout, config.residualDropout)));
}

/// The keys that the row lists.
static LogicalResult readListed(ConfigReader &reader, DecoderConfig &config) {
  const DecoderFamily &family = *config.family;
  config.parts = family.always;
  for (const DecoderSwitch &each : family.switches) {
    bool value = each.byDefault;
    if (failed(reader.readBool(each.key, value)))
      return failure();
    config.parts |= value ? each.ifTrue : each.ifFalse;
  }
  for (const DecoderNumber &each : family.numbers) {
    if (each.key.empty())
      continue;
    if (failed(reader.readNumber(each.key, config.*each.member, each.mayBeNull)))
      return failure();
    if (each.mayBeNull && reader.isNull(each.key))
      config.*each.member = 0;
  }
  for (const DecoderCount &each : family.counts) {
    if (each.key.empty())
      continue;
    if (failed(reader.readSize(each.key, config.*each.member, 1, kMaxWidth)))
      return failure();
    if (each.mayBeNull && reader.isNull(each.key))
      config.*each.member = 0;
  }
  for (StringRef key : family.unsupported)
    if (failed(reader.refuse(key)))
      return failure();
  return success();
}

static LogicalResult readPadding(ConfigReader &reader, DecoderConfig &config) {
  const DecoderFamily &family = *config.family;
  int64_t row = family.paddingRow;
  if (!family.hasPadding || reader.isNull("pad_token_id"))
    return success();
  // Counted from the end where negative, as torch's embedding does.
  if (failed(reader.readSize("pad_token_id", row, -config.vocabulary, config.vocabulary - 1)))
    return failure();
  if (row == DecoderFamily::kNoPadding)
    return success();
  if (row >= config.vocabulary)
    return reader.error() << "has no \"pad_token_id\", which is then " << row << ", beyond \"vocab_size\", which is "
                          << config.vocabulary << ": say null or another";
  config.paddingRow = row < 0 ? row + config.vocabulary : row;
  return success();
}

/// What follows from several keys.
static LogicalResult checkShapes(ConfigReader &reader, DecoderConfig &config) {
  const DecoderKeys &keys = config.family->keys;
  if (config.keyHeads == 0)
    config.keyHeads = config.heads;
  if (config.headSize == 0 && config.width % config.heads != 0)
    return reader.wrong(keys.width, "a multiple of \"" + keys.heads.split('|').first + "\", which is " +
                                        Twine(config.heads) + (keys.headSize.empty() ? "" : ", or a \"head_dim\""));
  if (config.headSize == 0)
    config.headSize = config.width / config.heads;
  if (config.heads % config.keyHeads != 0)
    return reader.wrong(keys.heads,
                        "a multiple of \"" + keys.keyHeads.split('|').first + "\", which is " + Twine(config.keyHeads));
  if (config.embeddingWidth == config.width)
    config.embeddingWidth = 0;
  if (config.chosen > config.experts)
    return reader.error() << "has " << config.experts << " experts, expected at least the " << config.chosen
                          << " that a token goes to";
  return success();
}

//===----------------------------------------------------------------------===//
// Layer by layer
//===----------------------------------------------------------------------===//

static LogicalResult readTurns(ConfigReader &reader, DecoderConfig &config) {
  const TurnRule rule = config.family->turns;
  config.isTurned.assign(config.layers, rule != TurnRule::None && !config.has(kAlibi));
  if (rule == TurnRule::Windowed)
    config.isTurned = config.isWindowed;
  if (rule != TurnRule::Listed)
    return success();
  int64_t interval = 4;
  std::vector<int64_t> listed;
  if (failed(reader.readSize("no_rope_layer_interval", interval, 1, kMaxLayers)) ||
      failed(reader.readSizes("no_rope_layers", listed, 0, 1)))
    return failure();
  if (!listed.empty() && static_cast<int64_t>(listed.size()) != config.layers)
    return reader.wrong("no_rope_layers", "as many numbers as there are layers, " + Twine(config.layers));
  for (int64_t layer = 0; layer < config.layers; ++layer)
    config.isTurned[layer] = listed.empty() ? (layer + 1) % interval != 0 : listed[layer] != 0;
  return success();
}

/// By the rule, before a list of layers is looked at.
static LogicalResult applyWindowRule(ConfigReader &reader, DecoderConfig &config) {
  const DecoderFamily &family = *config.family;
  const bool isBetween = family.windows == WindowRule::Between,
             isPeriodic = family.windows == WindowRule::Period || isBetween;
  const StringRef periodKey =
      isBetween ? "global_attn_every_n_layers" : "sliding_window_pattern|_sliding_window_pattern";
  bool slides = family.windows == WindowRule::Given || isPeriodic;
  int64_t first = family.windows == WindowRule::Asked ? 28 : 0, period = family.windowPeriod;
  const bool isAsked = family.windows == WindowRule::Asked || family.windows == WindowRule::AskedAll ||
                       family.windows == WindowRule::AskedUnturned;
  if ((isAsked && failed(reader.readBool("use_sliding_window", slides))) ||
      (family.windows == WindowRule::Asked && failed(reader.readSize("max_window_layers", first, 0, kMaxLayers))) ||
      (isPeriodic && failed(reader.readSize(periodKey, period, 1, kMaxLayers))))
    return failure();
  for (int64_t layer = 0; slides && layer < config.layers; ++layer)
    config.isWindowed[layer] = family.windows == WindowRule::Period          ? (layer + 1) % period != 0
                               : isBetween                                   ? layer % period != 0
                               : family.windows == WindowRule::AskedUnturned ? !config.isTurned[layer]
                                                                             : layer >= first;
  return success();
}

static LogicalResult readWindows(ConfigReader &reader, DecoderConfig &config) {
  const DecoderFamily &family = *config.family;
  config.isWindowed.assign(config.layers, false);
  if (family.windows == WindowRule::None)
    return success();
  if (failed(reader.readSize(family.keys.window, config.window, 1, kMaxPositions)) ||
      failed(applyWindowRule(reader, config)))
    return failure();
  const bool listsLayers = family.windows != WindowRule::Given && family.windows != WindowRule::AskedAll;
  std::vector<std::string> types;
  if (listsLayers && failed(reader.readWords("layer_types", types, kLayerTypes)))
    return failure();
  if (!types.empty() && static_cast<int64_t>(types.size()) != config.layers)
    return reader.wrong("layer_types", "as many as there are layers, " + Twine(config.layers));
  for (auto [layer, type] : llvm::enumerate(types))
    config.isWindowed[layer] = type == "sliding_attention";
  // A list may name windows that use_sliding_window denies; null is no window, either.
  bool asked = true;
  if (family.windows == WindowRule::Asked || family.windows == WindowRule::AskedUnturned) {
    asked = false;
    if (failed(reader.readBool("use_sliding_window", asked)))
      return failure();
  }
  if (!asked || reader.isNull(family.keys.window) || config.window == 0)
    config.isWindowed.assign(config.layers, false);
  return success();
}

//===----------------------------------------------------------------------===//
// Heads
//===----------------------------------------------------------------------===//

/// Which head a file asks for, and how many labels it has.
static LogicalResult readHead(ConfigReader &reader, DecoderConfig &config) {
  ArrayRef<ModelHead> heads = config.family->heads;
  if (heads.empty())
    return success();
  SmallVector<StringRef> known;
  for (const ModelHead &head : heads)
    known.push_back(head.architecture);
  std::vector<std::string> asked;
  if (failed(reader.readWords("architectures", asked, known)))
    return failure();
  if (!asked.empty())
    config.head = llvm::find_if(heads, [&](const ModelHead &head) { return head.architecture == asked.front(); });
  config.headDropout = config.residualDropout;
  if (failed(reader.readSize("num_labels", config.labels, 1, kMaxWidth)) ||
      failed(reader.readShare("classifier_dropout", config.headDropout)))
    return failure();
  config.labels = reader.countMembers("id2label").value_or(config.labels);
  if (config.labels < 1)
    return reader.wrong("id2label", "at least one label");
  return success();
}

//===----------------------------------------------------------------------===//
// The whole
//===----------------------------------------------------------------------===//

/// transformers' styles that say how a module's parameters are split. Others move activations by hand, or split
/// experts.
static LogicalResult readTensorPlan(ConfigReader &reader, DecoderConfig &config) {
  return reader.readStrings("base_model_tp_plan", config.tensorPlan,
                            {"colwise", "colwise_rep", "colwise_gather_output", "rowwise", "rowwise_rep", "replicate",
                             "replicated_with_grad_allreduce"});
}

static LogicalResult readLayers(ConfigReader &reader, DecoderConfig &config) {
  config.isMixed.assign(config.layers, config.has(kMixesExperts));
  const bool turnsFirst = config.family->turns == TurnRule::Listed;
  if ((turnsFirst && failed(readTurns(reader, config))) || failed(readWindows(reader, config)) ||
      (!turnsFirst && failed(readTurns(reader, config))))
    return failure();
  return config.family->readOwn ? config.family->readOwn(reader, config) : success();
}

static LogicalResult readAll(ConfigReader &reader, DecoderConfig &config) {
  for (StringRef key : kUnsupported)
    if (failed(reader.refuse(key)))
      return failure();
  if (failed(readSizes(reader, config)) || failed(readListed(reader, config)) || failed(readDropout(reader, config)) ||
      failed(readHead(reader, config)) || failed(readTensorPlan(reader, config)) ||
      failed(readPadding(reader, config)) || failed(readLayers(reader, config)) || failed(checkShapes(reader, config)))
    return failure();
  const bool turns = llvm::is_contained(config.isTurned, true);
  if (turns && failed(readRope(reader, config)))
    return failure();
  const StringRef aboutTurns[] = {"rope_parameters", "rope_scaling", config.family->keys.theta};
  reader.reportUnread(config.family->type, [&](StringRef key) {
    return isAboutOtherThings(key) || llvm::is_contained(config.family->unread, key) ||
           (!turns && llvm::is_contained(aboutTurns, key));
  });
  return success();
}

DecoderConfig hyc::defaultDecoder(StringRef type) {
  const DecoderFamily &family =
      *llvm::find_if(decoderFamilies(), [&](const DecoderFamily &each) { return each.type == type && !each.applies; });
  DecoderConfig config = defaultsOf(family);
  return config;
}

FailureOr<DecoderConfig> hyc::readDecoder(MLIRContext &context, StringRef text, StringRef name) {
  ConfigReader reader(context, name);
  std::string type;
  if (failed(reader.parse(text)) || failed(readType(reader, type)))
    return failure();
  DecoderConfig config = defaultsOf(familyOf(type, reader));
  if (failed(readAll(reader, config)))
    return failure();
  return config;
}

std::string hyc::storedNameOf(const DecoderConfig &config, StringRef parameter) {
  std::string name = parameter.str();
  for (const StoredName &each : config.family->stored)
    if (size_t at = each.inModel.empty() ? std::string::npos : name.find(each.inModel); at != std::string::npos)
      name.replace(at, each.inModel.size(), each.inFile);
  return name;
}

StoredParts hyc::storedPartsOf(const DecoderConfig &config, StringRef parameter, ArrayRef<int64_t> shape) {
  const DecoderFamily &family = *config.family;
  const StringRef own = parameter.rsplit('.').first, name = parameter.rsplit('.').second;
  const bool isGate = name == kGatesAndUps, isDown = name == kDowns;
  if (family.expertGate.empty() || shape.size() != 3 || !(isGate || isDown) ||
      !own.ends_with("." + family.names.experts.str()))
    return {};
  const std::string prefix = storedNameOf(config, (own + ".").str());
  auto nameOf = [&](int64_t expert, StringRef matrix) {
    return prefix + std::to_string(expert) + "." + matrix.str() + ".weight";
  };
  StoredParts parts;
  const SmallVector<StringRef> matrices =
      isGate ? SmallVector<StringRef>{family.expertGate, family.expertUp} : SmallVector<StringRef>{family.expertDown};
  for (int64_t expert = 0; expert < shape[0]; ++expert)
    for (StringRef matrix : matrices)
      parts.names.push_back(nameOf(expert, matrix));
  parts.shape = {shape[1] / static_cast<int64_t>(matrices.size()), shape[2]};
  parts.following = nameOf(shape[0], matrices.front());
  return parts;
}

StringRef hyc::positionsKeyOf(const DecoderConfig &config) { return config.family->keys.positions.split('|').first; }
