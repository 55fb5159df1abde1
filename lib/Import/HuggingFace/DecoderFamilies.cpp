// The families of decoders, a row each: defaults are those of transformers' configuration classes.
#include "DecoderFamily.h"

using namespace hyc;
using namespace mlir;
using llvm::LogicalResult;

//===----------------------------------------------------------------------===//
// What no row says
//===----------------------------------------------------------------------===//

static bool isTrue(ConfigReader &reader, StringRef key, bool byDefault) {
  bool value = byDefault;
  return succeeded(reader.readBool(key, value)) && value;
}

static LogicalResult readGpt2(ConfigReader &reader, DecoderConfig &config) {
  return success(succeeded(reader.readBool("scale_attn_weights", config.scaleByHeadSize)) &&
                 succeeded(reader.readBool("scale_attn_by_inverse_layer_idx", config.scaleByInverseLayer)));
}

/// A norm behind the sums leaves nothing for one at the end.
static LogicalResult readOpt(ConfigReader &, DecoderConfig &config) {
  if (config.has(kNormSum))
    config.parts &= ~uint32_t(kFinalNorm);
  return success();
}

/// gelu is what older files say of the function that they were trained with, which is its approximation by tanh.
static LogicalResult readGemma(ConfigReader &, DecoderConfig &config) {
  if (config.activation == "gelu")
    config.activation = "gelu_pytorch_tanh";
  return success();
}

static bool isNewFalcon(ConfigReader &reader) { return isTrue(reader, "new_decoder_architecture", false); }
static bool hasTwoNorms(ConfigReader &reader) {
  int64_t count = 2;
  return isNewFalcon(reader) && succeeded(reader.readSize("num_ln_in_parallel_attn", count, 1, 2)) && count == 2;
}
static bool hasOwnKeys(ConfigReader &reader) { return !isTrue(reader, "multi_query", true); }

/// All query heads read one key head, and num_kv_heads is not looked at.
static LogicalResult readMultiQuery(ConfigReader &, DecoderConfig &config) {
  config.keyHeads = 1;
  return success();
}
static LogicalResult readOwnKeys(ConfigReader &, DecoderConfig &config) {
  config.keyHeads = config.heads;
  return success();
}

/// Experts take the place of the MLP in every `decoder_sparse_step`th layer that mlp_only_layers does not name.
static LogicalResult readQwenLayers(ConfigReader &reader, DecoderConfig &config) {
  int64_t step = 1;
  std::vector<int64_t> plain;
  if (failed(reader.readSize("decoder_sparse_step", step, 1, kMaxLayers)) ||
      failed(reader.readSizes("mlp_only_layers", plain, 0, kMaxLayers)))
    return failure();
  for (int64_t layer = 0; layer < config.layers; ++layer)
    config.isMixed[layer] = (layer + 1) % step == 0 && !llvm::is_contained(plain, layer);
  return success();
}

/// Where a file has no rotation it is this one.
static LogicalResult readGptOss(ConfigReader &reader, DecoderConfig &config) {
  if (reader.has("rope_parameters|rope_scaling"))
    return success();
  config.rope.type = "yarn";
  config.rope.factor = 32;
  config.rope.truncate = false;
  config.rope.firstPositions = 4096;
  return success();
}

static LogicalResult readDeepSeek(ConfigReader &reader, DecoderConfig &config) {
  int64_t dense = 3;
  if (failed(reader.readSize("first_k_dense_replace", dense, 0, kMaxLayers)) ||
      failed(reader.readBool("rope_interleave", config.interleaved)))
    return failure();
  for (int64_t layer = 0; layer < config.layers; ++layer)
    config.isMixed[layer] = layer >= dense;
  if (config.experts % config.groups != 0 || config.chosenGroups > config.groups)
    return reader.wrong("n_group", "a divisor of \"n_routed_experts\", which is " + Twine(config.experts) +
                                       ", and no less than \"topk_group\", which is " + Twine(config.chosenGroups));
  config.headSize = config.plainSize + config.rotarySize;
  return success();
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

static constexpr uint32_t kAttentionBias = kQueryBias | kOutputBias;
static constexpr uint32_t kAllBiases = kAttentionBias | kInnerBias;
static constexpr uint32_t kUsual = kNormBefore | kFinalNorm | kNormScales;

/// Names of modules as Llama's, with GPT-2's and GPT-J's instead.
static constexpr DecoderNames kGptNames{.base = "transformer",
                                        .embedding = "wte",
                                        .embeddingDropout = "drop",
                                        .positions = "wpe",
                                        .layers = "h",
                                        .finalNorm = "ln_f",
                                        .attention = "attn",
                                        .joined = "c_attn",
                                        .output = "c_proj",
                                        .attentionDropout = "attn.resid_dropout",
                                        .up = "c_fc",
                                        .down = "c_proj",
                                        .activation = "act",
                                        .mlpDropout = "mlp.dropout",
                                        .attentionNorm = "ln_1",
                                        .mlpNorm = "ln_2"};
static constexpr DecoderKeys kGptKeys{.layers = "n_layer|num_hidden_layers",
                                      .heads = "n_head|num_attention_heads",
                                      .keyHeads = "",
                                      .headSize = "",
                                      .width = "n_embd|hidden_size",
                                      .inner = "n_inner",
                                      .positions = "n_positions|max_position_embeddings",
                                      .activation = "activation_function",
                                      .epsilon = "layer_norm_epsilon",
                                      .attentionDropout = "attn_pdrop",
                                      .embeddingDropout = "embd_pdrop",
                                      .residualDropout = "resid_pdrop",
                                      .theta = "",
                                      .rotaryShare = ""};

static constexpr DecoderFamily kGpt2{.type = "gpt2",
                                     .sizes = {50257, 768, 0, 12, 12, 1024},
                                     .keys = kGptKeys,
                                     .names = kGptNames,
                                     .epsilon = 1e-5,
                                     .dropout = 0.1,
                                     .attentionDropout = 0.1,
                                     .activation = "gelu_new",
                                     .tied = true,
                                     .hasPadding = false,
                                     .always = kUsual | kAllBiases,
                                     .norm = NormKind::Layer,
                                     .queries = QueryLayout::Parts,
                                     .mlp = MlpKind::Plain,
                                     .turns = TurnRule::None,
                                     .learned = true,
                                     .transposed = true,
                                     .residualInit = true,
                                     .attentionSum = "ax",
                                     .unsupported = {"add_cross_attention"},
                                     .unread = {"reorder_and_upcast_attn", "summary_type", "summary_use_proj",
                                                "summary_activation", "summary_proj_to_labels",
                                                "summary_first_dropout"},
                                     .readOwn = readGpt2};

static constexpr DecoderFamily kLlama{
    .type = "llama",
    .sizes = {32000, 4096, 11008, 32, 32, 2048},
    .switches = {{"attention_bias", false, kAttentionBias}, {"mlp_bias", false, kInnerBias}},
    .unread = {"pretraining_tp"}};

static constexpr DecoderFamily kQwen2{.type = "qwen2",
                                      .sizes = {151936, 4096, 22016, 32, 32, 32768, 32},
                                      .always = kUsual | kQueryBias,
                                      .windows = WindowRule::Asked,
                                      .windowSize = 4096};

static constexpr DecoderFamily kMistral{.type = "mistral",
                                        .sizes = {32000, 4096, 14336, 32, 32, 131072, 8},
                                        .windows = WindowRule::Given,
                                        .windowSize = 4096};

static constexpr DecoderFamily kQwen3{.type = "qwen3",
                                      .sizes = {151936, 4096, 22016, 32, 32, 32768, 32, 128},
                                      .always = kUsual | kHeadNorms,
                                      .windows = WindowRule::Asked,
                                      .windowSize = 4096,
                                      .switches = {{"attention_bias", false, kAttentionBias}}};

static constexpr DecoderFamily kGranite{
    .type = "granite",
    .sizes = {32000, 4096, 11008, 32, 32, 2048},
    .switches = {{"attention_bias", false, kAttentionBias}, {"mlp_bias", false, kInnerBias}},
    .numbers = {{"embedding_multiplier", &DecoderConfig::embeddingFactor, 1},
                {"residual_multiplier", &DecoderConfig::residualFactor, 1},
                {"logits_scaling", &DecoderConfig::logitsDivisor, 1},
                {"attention_multiplier", &DecoderConfig::scoreScale, 1}}};

static constexpr DecoderFamily kGemma{.type = "gemma",
                                      .sizes = {256000, 3072, 24576, 28, 16, 8192, 16, 256},
                                      .activation = "gelu_pytorch_tanh",
                                      .tied = true,
                                      .paddingRow = 0,
                                      .norm = NormKind::ShiftedRoot,
                                      .scalesByWidth = true,
                                      .switches = {{"attention_bias", false, kAttentionBias}},
                                      .unsupported = {"use_bidirectional_attention"},
                                      .unread = {"hidden_activation"},
                                      .readOwn = readGemma};

static constexpr DecoderNames kAroundNames{.attentionNormAfter = "post_attention_layernorm",
                                           .mlpNorm = "pre_feedforward_layernorm",
                                           .mlpNormAfter = "post_feedforward_layernorm"};

static constexpr DecoderFamily kGemma2{.type = "gemma2",
                                       .sizes = {256000, 2304, 9216, 26, 8, 8192, 4, 256},
                                       .keys = {.activation = "hidden_activation"},
                                       .names = kAroundNames,
                                       .activation = "gelu_pytorch_tanh",
                                       .tied = true,
                                       .paddingRow = 0,
                                       .always = kUsual | kNormAfter,
                                       .norm = NormKind::ShiftedRoot,
                                       .windows = WindowRule::Period,
                                       .windowSize = 4096,
                                       .windowPeriod = 2,
                                       .scalesByWidth = true,
                                       .switches = {{"attention_bias", false, kAttentionBias}},
                                       .numbers = {{"query_pre_attn_scalar", &DecoderConfig::scoreSize, 256},
                                                   {"final_logit_softcapping", &DecoderConfig::logitsCap, 30, true},
                                                   {"attn_logit_softcapping", &DecoderConfig::scoreCap, 50, true}},
                                       .unsupported = {"use_bidirectional_attention"},
                                       .unread = {"hidden_act", "cache_implementation"}};

/// Its configuration has a key for a cap of scores, which its attention does not read.
static constexpr DecoderFamily kGemma3{
    .type = "gemma3_text",
    .sizes = {262208, 2304, 9216, 26, 8, 131072, 4, 256},
    .keys = {.activation = "hidden_activation"},
    .names = kAroundNames,
    .theta = 1e6,
    .windowTheta = 1e4,
    .activation = "gelu_pytorch_tanh",
    .tied = true,
    .paddingRow = 0,
    .always = kUsual | kNormAfter | kHeadNorms,
    .norm = NormKind::ShiftedRoot,
    .windows = WindowRule::Period,
    .windowSize = 4096,
    .windowPeriod = 6,
    .scalesByWidth = true,
    .switches = {{"attention_bias", false, kAttentionBias}},
    .numbers = {{"query_pre_attn_scalar", &DecoderConfig::scoreSize, 256},
                {"final_logit_softcapping", &DecoderConfig::logitsCap, 0, true}},
    .unsupported = {"use_bidirectional_attention"},
    .unread = {"hidden_act", "attn_logit_softcapping", "_sliding_window_pattern", "cache_implementation"}};

static constexpr DecoderFamily kPhi{
    .type = "phi",
    .sizes = {51200, 2048, 8192, 24, 32, 2048},
    .keys = {.epsilon = "layer_norm_eps", .embeddingDropout = "embd_pdrop", .residualDropout = "resid_pdrop"},
    .names = {.embeddingDropout = "embed_dropout",
              .finalNorm = "final_layernorm",
              .output = "dense",
              .queryNorm = "q_layernorm",
              .keyNorm = "k_layernorm",
              .attentionDropout = "resid_dropout",
              .up = "fc1",
              .down = "fc2",
              .activation = "activation_fn",
              .mlpDropout = "resid_dropout"},
    .epsilon = 1e-5,
    .rotaryShare = 0.5,
    .activation = "gelu_new",
    .always = kUsual | kAllBiases | kHeadBias | kParallel | kOneNorm,
    .norm = NormKind::Layer,
    .mlp = MlpKind::Plain,
    .parallelSum = "amx",
    .switches = {{"qk_layernorm", false, kHeadNorms}}};

static constexpr DecoderFamily kPhi3{.type = "phi3",
                                     .sizes = {32064, 3072, 8192, 32, 32, 4096},
                                     .keys = {.residualDropout = "resid_pdrop"},
                                     .names = {.joined = "qkv_proj",
                                               .attentionDropout = "resid_attn_dropout",
                                               .gate = "gate_up_proj",
                                               .activation = "activation_fn",
                                               .mlpDropout = "resid_mlp_dropout"},
                                     .epsilon = 1e-5,
                                     .paddingRow = 32000,
                                     .queries = QueryLayout::Parts,
                                     .mlp = MlpKind::Joined,
                                     .windows = WindowRule::Given,
                                     .firstPositions = 4096,
                                     .gateLast = true,
                                     .unread = {"embd_pdrop"}};

static constexpr DecoderFamily kOlmo2{
    .type = "olmo2",
    .sizes = {50304, 4096, 11008, 32, 32, 2048},
    .names = {.attentionNormAfter = "post_attention_layernorm", .mlpNormAfter = "post_feedforward_layernorm"},
    .epsilon = 1e-5,
    .paddingRow = 1,
    .always = kNormAfter | kFinalNorm | kNormScales | kHeadNorms,
    .headNorm = HeadNorm::All,
    .switches = {{"attention_bias", false, kAttentionBias}}};

static constexpr DecoderFamily kSmolLm3{
    .type = "smollm3",
    .sizes = {128256, 2048, 11008, 36, 16, 32768, 4},
    .theta = 2e6,
    .tied = true,
    .paddingRow = 128004,
    .windows = WindowRule::AskedUnturned,
    .turns = TurnRule::Listed,
    .switches = {{"attention_bias", false, kAttentionBias}, {"mlp_bias", false, kInnerBias}},
    .unread = {"max_window_layers", "pretraining_tp"}};

static constexpr DecoderFamily kStarcoder2{
    .type = "starcoder2",
    .sizes = {49152, 3072, 12288, 30, 24, 4096, 2},
    .keys = {.epsilon = "norm_epsilon", .embeddingDropout = "embedding_dropout", .residualDropout = "residual_dropout"},
    .names = {.embeddingDropout = ".",
              .attentionDropout = "self_attn",
              .up = "c_fc",
              .down = "c_proj",
              .activation = "act",
              .mlpDropout = "mlp"},
    .epsilon = 1e-5,
    .initializerRange = 0.018042,
    .activation = "gelu_pytorch_tanh",
    .tied = true,
    .norm = NormKind::Layer,
    .mlp = MlpKind::Plain,
    .windows = WindowRule::Given,
    .switches = {{"use_bias", true, kAllBiases}},
    .unread = {"mlp_type", "norm_type", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32",
               "scale_attn_weights", "activation_function"}};

static constexpr DecoderFamily kStableLm{
    .type = "stablelm",
    .sizes = {50304, 2560, 6912, 32, 32, 4096, 32},
    .keys = {.headSize = "", .epsilon = "layer_norm_eps", .residualDropout = "hidden_dropout"},
    .names = {.queryNorm = "q_layernorm", .keyNorm = "k_layernorm", .mlpDropout = "dropout"},
    .epsilon = 1e-5,
    .rotaryShare = 0.25,
    .norm = NormKind::Layer,
    .headNorm = HeadNorm::Modules,
    .switches = {{"use_qkv_bias", false, kQueryBias},
                 {"qk_layernorm", false, kHeadNorms},
                 {"use_parallel_residual", false, kParallel | kOneNorm}}};

static constexpr DecoderFamily kGptNeoX{
    .type = "gpt_neox",
    .sizes = {50432, 6144, 24576, 44, 64, 2048},
    .keys = {.keyHeads = "",
             .headSize = "",
             .epsilon = "layer_norm_eps",
             .embeddingDropout = "hidden_dropout",
             .residualDropout = "hidden_dropout",
             .theta = "rotary_emb_base",
             .rotaryShare = "rotary_pct"},
    .names = {.base = "gpt_neox",
              .embedding = "embed_in",
              .embeddingDropout = "emb_dropout",
              .finalNorm = "final_layer_norm",
              .attention = "attention",
              .joined = "query_key_value",
              .output = "dense",
              .attentionDropout = "post_attention_dropout",
              .up = "dense_h_to_4h",
              .down = "dense_4h_to_h",
              .activation = "act",
              .mlpDropout = "post_mlp_dropout"},
    .epsilon = 1e-5,
    .rotaryShare = 0.25,
    .activation = "gelu",
    .hasPadding = false,
    .always = kUsual | kInnerBias,
    .norm = NormKind::Layer,
    .queries = QueryLayout::Triples,
    .mlp = MlpKind::Plain,
    .attentionSum = "ax",
    .mlpSum = "mx",
    .parallelSum = "max",
    .switches = {{"attention_bias", true, kAttentionBias}, {"use_parallel_residual", true, kParallel}},
    .unread = {"classifier_dropout", "is_decoder"},
    .stored = {{"lm_head.", "embed_out."}}};

static constexpr DecoderFamily kGptJ{.type = "gptj",
                                     .sizes = {50400, 4096, 0, 28, 16, 2048},
                                     .keys = kGptKeys,
                                     .names = {.base = "transformer",
                                               .embedding = "wte",
                                               .embeddingDropout = "drop",
                                               .layers = "h",
                                               .finalNorm = "ln_f",
                                               .attention = "attn",
                                               .output = "out_proj",
                                               .attentionDropout = "attn.resid_dropout",
                                               .up = "fc_in",
                                               .down = "fc_out",
                                               .activation = "act",
                                               .mlpDropout = "mlp.dropout",
                                               .attentionNorm = "ln_1"},
                                     .epsilon = 1e-5,
                                     .activation = "gelu_new",
                                     .hasPadding = false,
                                     .always = kUsual | kInnerBias | kHeadBias | kParallel | kOneNorm,
                                     .norm = NormKind::Layer,
                                     .mlp = MlpKind::Plain,
                                     .interleaved = true,
                                     .parallelSum = "amx",
                                     .counts = {{"rotary_dim", &DecoderConfig::rotarySize, 64}},
                                     .unread = {"scale_attn_weights", "rotary", "summary_type", "summary_use_proj",
                                                "summary_activation", "summary_first_dropout"}};

static constexpr DecoderFamily kOpt{.type = "opt",
                                    .sizes = {50272, 768, 3072, 12, 12, 2048},
                                    .keys = {.keyHeads = "",
                                             .headSize = "",
                                             .inner = "ffn_dim",
                                             .activation = "activation_function",
                                             .epsilon = "",
                                             .initializer = "init_std",
                                             .residualDropout = "dropout",
                                             .theta = "",
                                             .rotaryShare = ""},
                                    .names = {.base = "model.decoder",
                                              .positions = "embed_positions",
                                              .finalNorm = "final_layer_norm",
                                              .output = "out_proj",
                                              .attentionDropout = ".",
                                              .mlp = ".",
                                              .up = "fc1",
                                              .down = "fc2",
                                              .activation = "activation_fn",
                                              .mlpDropout = ".",
                                              .attentionNorm = "self_attn_layer_norm",
                                              .mlpNorm = "final_layer_norm"},
                                    .epsilon = 1e-5,
                                    .dropout = 0.1,
                                    .activation = "relu",
                                    .tied = true,
                                    .paddingRow = 1,
                                    .always = 0,
                                    .norm = NormKind::Layer,
                                    .mlp = MlpKind::Plain,
                                    .turns = TurnRule::None,
                                    .learned = true,
                                    .positionOffset = 2,
                                    .switches = {{"do_layer_norm_before", true, kNormBefore, kNormSum},
                                                 {"_remove_final_layer_norm", false, 0, kFinalNorm},
                                                 {"enable_bias", true, kAllBiases},
                                                 {"layer_norm_elementwise_affine", true, kNormScales}},
                                    .counts = {{"word_embed_proj_dim", &DecoderConfig::embeddingWidth, 0}},
                                    .unsupported = {"layerdrop"},
                                    .unread = {"activation_dropout", "output_projection"},
                                    .readOwn = readOpt};

static constexpr DecoderNames kBloomNames{.base = "transformer",
                                          .embedding = "word_embeddings",
                                          .layers = "h",
                                          .finalNorm = "ln_f",
                                          .attention = "self_attention",
                                          .joined = "query_key_value",
                                          .output = "dense",
                                          .up = "dense_h_to_4h",
                                          .down = "dense_4h_to_h",
                                          .activation = "act"};

static constexpr DecoderNames bloomNames() {
  DecoderNames names = kBloomNames;
  names.embeddingNorm = "word_embeddings_layernorm";
  names.activation = "gelu_impl";
  names.attentionDropout = "self_attention";
  names.mlpDropout = "mlp";
  names.attentionSum = "self_attention";
  names.mlpSum = "mlp";
  return names;
}

static constexpr DecoderFamily kBloom{.type = "bloom",
                                      .sizes = {250880, 64, 0, 2, 8, kMaxPositions},
                                      .keys = {.layers = "n_layer|num_hidden_layers",
                                               .heads = "n_head|num_attention_heads",
                                               .keyHeads = "",
                                               .headSize = "",
                                               .width = "n_embed|hidden_size",
                                               .inner = "",
                                               .positions = "",
                                               .activation = "",
                                               .epsilon = "layer_norm_epsilon",
                                               .residualDropout = "hidden_dropout",
                                               .theta = "",
                                               .rotaryShare = ""},
                                      .names = bloomNames(),
                                      .epsilon = 1e-5,
                                      .activation = "gelu_new",
                                      .tied = true,
                                      .hasPadding = false,
                                      .always = kUsual | kAllBiases | kAlibi,
                                      .norm = NormKind::Layer,
                                      .queries = QueryLayout::Triples,
                                      .mlp = MlpKind::Plain,
                                      .turns = TurnRule::None,
                                      .switches = {{"apply_residual_connection_post_layernorm", false, kSumOfNorm}},
                                      .unread = {"pretraining_tp", "slow_but_exact", "seq_length",
                                                 "masked_softmax_fusion", "bias_dropout_fusion",
                                                 "attention_softmax_in_fp32"}};

/// As Falcon-7B is: one key head, one norm.
static constexpr DecoderFamily kFalcon{
    .type = "falcon",
    .sizes = {65024, 4544, 0, 32, 71, 2048},
    .keys = {.layers = "num_hidden_layers|n_layer",
             .heads = "num_attention_heads|n_head",
             .keyHeads = "num_kv_heads|n_head_kv",
             .headSize = "",
             .width = "n_embed|hidden_size",
             .inner = "ffn_hidden_size",
             .activation = "activation",
             .epsilon = "layer_norm_epsilon",
             .attentionDropout = "",
             .rotaryShare = ""},
    .names = kBloomNames,
    .epsilon = 1e-5,
    .activation = "gelu",
    .tied = true,
    .hasPadding = false,
    .norm = NormKind::Layer,
    .queries = QueryLayout::Parts,
    .mlp = MlpKind::Plain,
    .roundsSlopes = true,
    .parallelSum = "maX",
    .switches = {{"bias", false, kAllBiases}, {"alibi", false, kAlibi}, {"parallel_attn", true, kParallel | kOneNorm}},
    .unsupported = {"hidden_dropout", "attention_dropout"},
    .unread = {"new_decoder_architecture", "multi_query", "num_ln_in_parallel_attn"},
    .readOwn = readMultiQuery};

/// As Falcon-RW is: keys of every head's own.
static constexpr DecoderFamily ownKeysFalcon() {
  DecoderFamily family = kFalcon;
  family.applies = hasOwnKeys;
  family.queries = QueryLayout::Triples;
  family.readOwn = readOwnKeys;
  return family;
}

/// As Falcon-11B is: grouped keys, one norm; parallel_attn is not looked at.
static constexpr DecoderFamily newFalcon() {
  DecoderFamily family = kFalcon;
  family.applies = isNewFalcon;
  family.always = kUsual | kParallel | kOneNorm;
  family.queries = QueryLayout::Groups;
  family.switches[2] = {"parallel_attn", true, 0};
  family.readOwn = nullptr;
  return family;
}

/// As Falcon-40B is: grouped keys, a norm each.
static constexpr DecoderFamily twoNormFalcon() {
  DecoderFamily family = newFalcon();
  family.applies = hasTwoNorms;
  family.always = kUsual | kParallel;
  family.names.attentionNorm = "ln_attn";
  family.names.mlpNorm = "ln_mlp";
  return family;
}

static constexpr DecoderFamily kCohere{
    .type = "cohere",
    .sizes = {256000, 8192, 22528, 40, 64, 8192},
    .keys = {.epsilon = "layer_norm_eps"},
    .epsilon = 1e-5,
    .theta = 500000,
    .tied = true,
    .paddingRow = 0,
    .always = kUsual | kParallel | kOneNorm,
    .norm = NormKind::LayerScale,
    .headNorm = HeadNorm::Own,
    .interleaved = true,
    .switches = {{"attention_bias", false, kAttentionBias}, {"use_qk_norm", false, kHeadNorms}},
    .numbers = {{"logit_scale", &DecoderConfig::logitsFactor, 0.0625}}};

static constexpr DecoderFamily cohere2() {
  DecoderFamily family = kCohere;
  family.type = "cohere2";
  family.theta = 10000;
  family.windows = WindowRule::Period;
  family.windowSize = 4096;
  family.windowPeriod = 4;
  family.turns = TurnRule::Windowed;
  family.switches[1] = {};
  family.unread[0] = "cache_implementation";
  family.unread[1] = "rotary_pct";
  family.unread[2] = "use_embedding_sharing";
  family.unread[3] = "use_gated_activation";
  family.unread[4] = "use_parallel_block";
  family.unread[5] = "order_of_interleaved_layers";
  return family;
}

static constexpr DecoderFamily kGlm{.type = "glm",
                                    .sizes = {151552, 4096, 13696, 40, 32, 131072, 2, 128},
                                    .names = {.gate = "gate_up_proj", .activation = "activation_fn"},
                                    .epsilon = 1.5625e-7,
                                    .rotaryShare = 0.5,
                                    .paddingRow = 151329,
                                    .mlp = MlpKind::Joined,
                                    .interleaved = true,
                                    .gateLast = true,
                                    .switches = {{"attention_bias", true, kQueryBias}}};

static constexpr DecoderFamily glm4() {
  DecoderFamily family = kGlm;
  family.type = "glm4";
  family.always = kUsual | kNormAfter;
  family.names.attentionNormAfter = "post_self_attn_layernorm";
  family.names.mlpNormAfter = "post_mlp_layernorm";
  return family;
}

//===----------------------------------------------------------------------===//
// Mixtures of experts
//===----------------------------------------------------------------------===//

static constexpr DecoderFamily kMixtral{.type = "mixtral",
                                        .sizes = {32000, 4096, 14336, 32, 32, 131072, 8},
                                        .epsilon = 1e-5,
                                        .theta = 1e6,
                                        .always = kUsual | kMixesExperts | kNormalizesChosen,
                                        .windows = WindowRule::Given,
                                        .counts = {{"num_local_experts|num_experts", &DecoderConfig::experts, 8},
                                                   {"num_experts_per_tok", &DecoderConfig::chosen, 2}},
                                        .unsupported = {"output_router_logits", "router_jitter_noise"},
                                        .unread = {"router_aux_loss_coef"},
                                        .stored = {{".mlp.", ".block_sparse_moe."}},
                                        .expertGate = "w1",
                                        .expertUp = "w3",
                                        .expertDown = "w2"};

static constexpr DecoderFamily kQwen3Moe{
    .type = "qwen3_moe",
    .sizes = {151936, 2048, 6144, 24, 32, 32768, 4},
    .always = kUsual | kMixesExperts | kHeadNorms,
    .windows = WindowRule::AskedAll,
    .windowSize = 4096,
    .switches = {{"attention_bias", false, kAttentionBias}, {"norm_topk_prob", false, kNormalizesChosen}},
    .counts = {{"num_experts|num_local_experts", &DecoderConfig::experts, 128},
               {"num_experts_per_tok", &DecoderConfig::chosen, 8},
               {"moe_intermediate_size", &DecoderConfig::expertInner, 768}},
    .unsupported = {"output_router_logits"},
    .unread = {"router_aux_loss_coef", "max_window_layers"},
    .readOwn = readQwenLayers};

static constexpr DecoderFamily kOlmoe{
    .type = "olmoe",
    .sizes = {50304, 2048, 2048, 16, 16, 4096},
    .epsilon = 1e-5,
    .paddingRow = 1,
    .always = kUsual | kMixesExperts | kHeadNorms,
    .headNorm = HeadNorm::All,
    .switches = {{"attention_bias", false, kAttentionBias}, {"norm_topk_prob", false, kNormalizesChosen}},
    .counts = {{"num_experts|num_local_experts", &DecoderConfig::experts, 64},
               {"num_experts_per_tok", &DecoderConfig::chosen, 8}},
    .unsupported = {"output_router_logits", "clip_qkv"},
    .unread = {"router_aux_loss_coef"}};

static constexpr DecoderFamily kGptOss{
    .type = "gpt_oss",
    .sizes = {201088, 2880, 2880, 36, 64, 131072, 8, 64},
    .names = {.router = "router"},
    .epsilon = 1e-5,
    .theta = 150000,
    .always = kUsual | kMixesExperts | kSinks,
    .windows = WindowRule::Period,
    .experts = ExpertKind::Clamped,
    .windowSize = 128,
    .windowPeriod = 2,
    .switches = {{"attention_bias", true, kAttentionBias}},
    .numbers = {{"swiglu_alpha", &DecoderConfig::gateSlope, 1.702}, {"swiglu_limit", &DecoderConfig::gateLimit, 7}},
    .counts = {{"num_local_experts|num_experts", &DecoderConfig::experts, 128},
               {"num_experts_per_tok|experts_per_token", &DecoderConfig::chosen, 4}},
    .unsupported = {"output_router_logits"},
    .unread = {"router_aux_loss_coef", "initial_context_length"},
    .expertGate = "",
    .readOwn = readGptOss};

static constexpr DecoderFamily kDeepSeekV3{
    .type = "deepseek_v3",
    .sizes = {129280, 7168, 18432, 61, 128, 4096},
    .keys = {.headSize = "head_dim|qk_head_dim"},
    .always = kUsual | kMixesExperts,
    .experts = ExpertKind::Grouped,
    .interleaved = true,
    .switches = {{"attention_bias", false, kAttentionBias}, {"norm_topk_prob", true, kNormalizesChosen}},
    .numbers = {{"routed_scaling_factor", &DecoderConfig::expertsFactor, 2.5}},
    .counts = {{"n_routed_experts|num_local_experts", &DecoderConfig::experts, 256},
               {"num_experts_per_tok", &DecoderConfig::chosen, 8},
               {"moe_intermediate_size", &DecoderConfig::expertInner, 2048},
               {"n_shared_experts", &DecoderConfig::sharedExperts, 1},
               {"n_group", &DecoderConfig::groups, 8},
               {"topk_group", &DecoderConfig::chosenGroups, 4},
               {"q_lora_rank", &DecoderConfig::queryRank, 1536, true},
               {"kv_lora_rank", &DecoderConfig::keyRank, 512},
               {"qk_rope_head_dim", &DecoderConfig::rotarySize, 64},
               {"qk_nope_head_dim", &DecoderConfig::plainSize, 128},
               {"v_head_dim", &DecoderConfig::valueSize, 128}},
    .unsupported = {"output_router_logits"},
    .unread = {"pretraining_tp", "num_nextn_predict_layers", "num_mtp_layers", "ep_size", "scoring_func",
               "topk_method"},
    .readOwn = readDeepSeek};

static constexpr DecoderFamily kFamilies[] = {
    kGpt2,     kLlama, kQwen2, kMistral,        kQwen3,      kGranite,        kGemma,    kGemma2,
    kGemma3,   kPhi,   kPhi3,  kOlmo2,          kSmolLm3,    kStarcoder2,     kStableLm, kGptNeoX,
    kGptJ,     kOpt,   kBloom, twoNormFalcon(), newFalcon(), ownKeysFalcon(), kFalcon,   kCohere,
    cohere2(), kGlm,   glm4(), kMixtral,        kQwen3Moe,   kOlmoe,          kGptOss,   kDeepSeekV3};

ArrayRef<DecoderFamily> hyc::decoderFamilies() { return kFamilies; }
