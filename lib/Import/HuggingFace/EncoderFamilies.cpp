// The rows of encoders: each with the heads that hyc builds.
#include "DecoderFamily.h"

using namespace mlir;
using namespace hyc;

//===----------------------------------------------------------------------===//
// What a row does not say
//===----------------------------------------------------------------------===//

static LogicalResult readAbsolute(ConfigReader &reader) {
  std::string kind;
  return reader.readString("position_embedding_type", kind, {"absolute"});
}

static LogicalResult readBert(ConfigReader &reader, DecoderConfig &) { return readAbsolute(reader); }

/// Positions begin behind the padding's row, where tokens have one.
static LogicalResult readRoberta(ConfigReader &reader, DecoderConfig &config) {
  const int64_t before = config.paddingRow.value_or(-1) + 1;
  if (before >= config.positions)
    return reader.wrong("max_position_embeddings", "more than the " + Twine(before) + " that come before a sample's");
  if (before > 0)
    config.parts |= kCountsTokens;
  config.positionOffset = before;
  config.positions -= before;
  return readAbsolute(reader);
}

static LogicalResult readVit(ConfigReader &reader, DecoderConfig &config) {
  if (config.imageSize % config.patchSize != 0)
    return reader.wrong("image_size", "a multiple of \"patch_size\", which is " + Twine(config.patchSize));
  const int64_t side = config.imageSize / config.patchSize;
  config.positions = side * side + 1;
  return success();
}

static LogicalResult readModernBert(ConfigReader &reader, DecoderConfig &config) {
  // As many keys on either side as half of it, beside the query's own.
  config.window = config.window / 2 + 1;
  std::string pooling = "cls";
  config.headActivation = "gelu";
  if (failed(reader.readString("classifier_pooling", pooling, {"cls", "mean"})) ||
      failed(reader.readString("classifier_activation", config.headActivation,
                               {"gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "tanh"})))
    return failure();
  config.averagesRows = pooling == "mean";
  return success();
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

static constexpr uint32_t kBiases = kQueryBias | kOutputBias | kInnerBias;

static constexpr DecoderKeys kBertKeys{.keyHeads = "",
                                       .headSize = "",
                                       .epsilon = "layer_norm_eps",
                                       .attentionDropout = "attention_probs_dropout_prob",
                                       .embeddingDropout = "hidden_dropout_prob",
                                       .residualDropout = "hidden_dropout_prob",
                                       .theta = "",
                                       .rotaryShare = ""};

static constexpr DecoderNames kBertNames{.base = "bert",
                                         .embedding = "embeddings.word_embeddings",
                                         .embeddingNorm = "embeddings.LayerNorm",
                                         .embeddingDropout = "embeddings.dropout",
                                         .positions = "embeddings.position_embeddings",
                                         .layers = "encoder.layer",
                                         .attention = "attention",
                                         .query = "self.query",
                                         .key = "self.key",
                                         .value = "self.value",
                                         .output = "output.dense",
                                         .attentionDropout = "attention.output.dropout",
                                         .mlp = ".",
                                         .up = "intermediate.dense",
                                         .down = "output.dense",
                                         .activation = "intermediate.intermediate_act_fn",
                                         .mlpDropout = "output.dropout",
                                         .attentionNorm = "attention.output.LayerNorm",
                                         .mlpNorm = "output.LayerNorm",
                                         .mixing = "self",
                                         .attentionSum = "attention.output",
                                         .mlpSum = "output",
                                         .embeddings = "embeddings",
                                         .tokenTypes = "embeddings.token_type_embeddings"};

static constexpr ModelHead kBertHeads[] = {{.architecture = "BertForMaskedLM",
                                            .dense = "cls.predictions.transform.dense",
                                            .activationModule = "cls.predictions.transform.transform_act_fn",
                                            .norm = "cls.predictions.transform.LayerNorm",
                                            .output = "cls.predictions.decoder",
                                            .bias = "cls.predictions.bias"},
                                           {.architecture = "BertForSequenceClassification",
                                            .ofFirst = true,
                                            .classifies = true,
                                            .dense = "bert.pooler.dense",
                                            .activationModule = "bert.pooler.activation",
                                            .dropoutAfter = "dropout",
                                            .output = "classifier",
                                            .activation = "tanh"}};

static constexpr DecoderFamily kBert{
    .type = "bert",
    .sizes = {30522, 768, 3072, 12, 12, 512},
    .keys = kBertKeys,
    .names = kBertNames,
    .epsilon = 1e-12,
    .dropout = 0.1,
    .attentionDropout = 0.1,
    .activation = "gelu",
    .tied = true,
    .paddingRow = 0,
    .always = kNormSum | kNormScales | kBiases | kSeesAll | kHeadBias | kHeadDenseBias,
    .norm = NormKind::Layer,
    .mlp = MlpKind::Plain,
    .turns = TurnRule::None,
    .learned = true,
    .attentionSum = "ax",
    .mlpSum = "mx",
    .counts = {{"type_vocab_size", &DecoderConfig::tokenTypes, 2}},
    .unsupported = {"is_decoder", "add_cross_attention"},
    .stored = {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}},
    .heads = kBertHeads,
    .readOwn = readBert};

static constexpr ModelHead kRobertaHeads[] = {{.architecture = "RobertaForMaskedLM",
                                               .dense = "lm_head.dense",
                                               .activationModule = "lm_head",
                                               .norm = "lm_head.layer_norm",
                                               .output = "lm_head.decoder",
                                               .activation = "gelu",
                                               .bias = "lm_head.bias"},
                                              {.architecture = "RobertaForSequenceClassification",
                                               .ofFirst = true,
                                               .classifies = true,
                                               .dropoutBefore = "classifier.dropout",
                                               .dense = "classifier.dense",
                                               .activationModule = "classifier",
                                               .dropoutAfter = "classifier.dropout",
                                               .output = "classifier.out_proj",
                                               .activation = "tanh"}};

static constexpr DecoderFamily roberta() {
  DecoderFamily family = kBert;
  family.type = "roberta";
  family.sizes.vocabulary = 50265;
  family.names.base = "roberta";
  family.paddingRow = 1;
  family.heads = kRobertaHeads;
  family.readOwn = readRoberta;
  return family;
}

static constexpr ModelHead kModernBertHeads[] = {{.architecture = "ModernBertForMaskedLM",
                                                  .dense = "head.dense",
                                                  .activationModule = "head.act",
                                                  .norm = "head.norm",
                                                  .output = "decoder"},
                                                 {.architecture = "ModernBertForSequenceClassification",
                                                  .ofFirst = true,
                                                  .classifies = true,
                                                  .dense = "head.dense",
                                                  .activationModule = "head.act",
                                                  .norm = "head.norm",
                                                  .dropoutAfter = "drop",
                                                  .output = "classifier"}};

static constexpr DecoderFamily kModernBert{
    .type = "modernbert",
    .sizes = {50368, 768, 1152, 22, 12, 8192},
    .keys = {.keyHeads = "",
             .headSize = "",
             .activation = "hidden_activation",
             .epsilon = "norm_eps",
             .embeddingDropout = "embedding_dropout",
             .residualDropout = "attention_dropout",
             .theta = "global_rope_theta",
             .rotaryShare = "",
             .window = "local_attention",
             .windowTheta = "local_rope_theta"},
    .names = {.embedding = "embeddings.tok_embeddings",
              .embeddingNorm = "embeddings.norm",
              .embeddingDropout = "embeddings.drop",
              .finalNorm = "final_norm",
              .attention = "attn",
              .joined = "Wqkv",
              .output = "Wo",
              .attentionDropout = "attn.out_drop",
              .gate = "Wi",
              .down = "Wo",
              .activation = "act",
              .attentionNorm = "attn_norm",
              .mlpNorm = "mlp_norm"},
    .epsilon = 1e-5,
    .theta = 160000,
    .windowTheta = 10000,
    .activation = "gelu",
    .tied = true,
    .paddingRow = 50283,
    .always = kNormBefore | kFinalNorm | kNormScales | kSeesAll | kFirstUnnormed,
    .norm = NormKind::LayerScale,
    .queries = QueryLayout::Parts,
    .mlp = MlpKind::Joined,
    .windows = WindowRule::Between,
    .windowSize = 128,
    .windowPeriod = 3,
    .switches = {{"attention_bias", false, kQueryBias | kOutputBias},
                 {"mlp_bias", false, kInnerBias},
                 {"decoder_bias", true, kHeadBias},
                 {"classifier_bias", false, kHeadDenseBias}},
    .unsupported = {"norm_bias", "sparse_prediction", "mlp_dropout"},
    .unread = {"deterministic_flash_attn", "sparse_pred_ignore_index", "reference_compile", "repad_logits_with_grad",
               "cls_token_id", "initializer_cutoff_factor", "layer_norm_eps", "position_embedding_type"},
    .heads = kModernBertHeads,
    .readOwn = readModernBert};

static constexpr ModelHead kVitHeads[] = {
    {.architecture = "ViTForImageClassification", .ofFirst = true, .classifies = true, .output = "classifier"}};

/// Names are those of transformers in memory, files have older ones.
static constexpr DecoderFamily kVit{.type = "vit",
                                    .sizes = {0, 768, 3072, 12, 12, 0},
                                    .keys = {.keyHeads = "",
                                             .headSize = "",
                                             .positions = "",
                                             .epsilon = "layer_norm_eps",
                                             .attentionDropout = "attention_probs_dropout_prob",
                                             .embeddingDropout = "hidden_dropout_prob",
                                             .residualDropout = "hidden_dropout_prob",
                                             .theta = "",
                                             .rotaryShare = ""},
                                    .names = {.base = "vit",
                                              .embeddingDropout = "embeddings.dropout",
                                              .positions = "embeddings.position_embeddings",
                                              .finalNorm = "layernorm",
                                              .attention = "attention",
                                              .attentionDropout = "dropout",
                                              .up = "fc1",
                                              .down = "fc2",
                                              .activation = "activation_fn",
                                              .mlpDropout = "dropout",
                                              .attentionNorm = "layernorm_before",
                                              .mlpNorm = "layernorm_after",
                                              .embeddings = "embeddings",
                                              .patches = "embeddings.patch_embeddings.projection",
                                              .firstRow = "embeddings.cls_token"},
                                    .epsilon = 1e-12,
                                    .activation = "gelu",
                                    .hasPadding = false,
                                    .always = kNormBefore | kFinalNorm | kNormScales | kOutputBias | kInnerBias |
                                              kSeesAll | kPatches,
                                    .norm = NormKind::Layer,
                                    .mlp = MlpKind::Plain,
                                    .turns = TurnRule::None,
                                    .attentionSum = "ax",
                                    .mlpSum = "mx",
                                    .switches = {{"qkv_bias", true, kQueryBias}},
                                    .counts = {{"image_size", &DecoderConfig::imageSize, 224},
                                               {"patch_size", &DecoderConfig::patchSize, 16},
                                               {"num_channels", &DecoderConfig::channels, 3}},
                                    .unread = {"encoder_stride", "pooler_output_size", "pooler_act"},
                                    .stored = {{"vit.layers.", "vit.encoder.layer."},
                                               {".attention.q_proj.", ".attention.attention.query."},
                                               {".attention.k_proj.", ".attention.attention.key."},
                                               {".attention.v_proj.", ".attention.attention.value."},
                                               {".attention.o_proj.", ".attention.output.dense."},
                                               {".mlp.fc1.", ".intermediate.dense."},
                                               {".mlp.fc2.", ".output.dense."}},
                                    .heads = kVitHeads,
                                    .readOwn = readVit};

static constexpr DecoderFamily kEncoders[] = {kBert, roberta(), kModernBert, kVit};

ArrayRef<DecoderFamily> hyc::encoderFamilies() { return kEncoders; }
