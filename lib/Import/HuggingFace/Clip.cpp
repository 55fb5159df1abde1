// CLIP (Radford et al. 2021): the last row of a text and the first of an image, projected, of length one, compared with
// those of all samples of the micro-batch.
#include "Clip.h"
#include "TowerBuilder.h"
#include "llvm/ADT/Sequence.h"

#include <cmath>

using namespace mlir;
using namespace hyc;

/// With this number as the end of texts, in files of the first years, ends are the tokens with the greatest numbers.
static constexpr int64_t kEndIsGreatest = 2;

bool hyc::isClipsCount(StringRef stored) { return stored.ends_with("embeddings.position_ids"); }

//===----------------------------------------------------------------------===//
// config.json
//===----------------------------------------------------------------------===//

/// Keys of a tower's configuration that change nothing here.
static bool isUnreadOfSide(StringRef key) {
  static constexpr StringRef unread[] = {"projection_dim",
                                         "dropout",
                                         "is_decoder",
                                         "add_cross_attention",
                                         "cross_attention_hidden_size",
                                         "is_encoder_decoder",
                                         "tie_encoder_decoder",
                                         "tie_word_embeddings",
                                         "tf_legacy_loss",
                                         "pruned_heads"};
  return isAboutOtherThings(key) || llvm::is_contained(unread, key);
}

static LogicalResult readSide(ConfigReader &reader, ClipConfig::Side &side) {
  const bool read = succeeded(reader.readSize("hidden_size", side.width, 1, kMaxWidth)) &&
                    succeeded(reader.readSize("intermediate_size", side.inner, 1, kMaxWidth)) &&
                    succeeded(reader.readSize("num_hidden_layers", side.layers, 1, kMaxLayers)) &&
                    succeeded(reader.readSize("num_attention_heads", side.heads, 1, kMaxWidth)) &&
                    succeeded(reader.readString("hidden_act", side.activation, towerActivations())) &&
                    succeeded(reader.readNumber("layer_norm_eps", side.epsilon, /*mayBeZero=*/false)) &&
                    succeeded(reader.readShare("attention_dropout", side.attentionDropout)) &&
                    succeeded(reader.readNumber("initializer_range", side.initializerRange, /*mayBeZero=*/true)) &&
                    succeeded(reader.readNumber("initializer_factor", side.initializerFactor, /*mayBeZero=*/true));
  if (read && side.width % side.heads != 0)
    return reader.wrong("hidden_size", "a multiple of \"num_attention_heads\", which is " + Twine(side.heads));
  return success(read);
}

static LogicalResult readText(ConfigReader &reader, ClipConfig &config) {
  return success(succeeded(readSide(reader, config.text)) &&
                 succeeded(reader.readSize("vocab_size", config.vocabulary, 1, kMaxPositions)) &&
                 succeeded(reader.readSize("max_position_embeddings", config.positions, 1, kMaxPositions)) &&
                 succeeded(reader.readSize("eos_token_id", config.end, 0, kMaxPositions)));
}

static LogicalResult readVision(ConfigReader &reader, ClipConfig &config) {
  const bool read = succeeded(readSide(reader, config.vision)) &&
                    succeeded(reader.readSize("image_size", config.imageSize, 1, kMaxWidth)) &&
                    succeeded(reader.readSize("patch_size", config.patchSize, 1, kMaxWidth)) &&
                    succeeded(reader.readSize("num_channels", config.channels, 1, kMaxWidth));
  if (read && config.imageSize % config.patchSize != 0)
    return reader.wrong("image_size", "a multiple of \"patch_size\", which is " + Twine(config.patchSize));
  return success(read);
}

/// The object at `key`, or that at KEY_dict, which goes before it in older files, where there is one.
static LogicalResult readObject(ConfigReader &reader, const std::string &key, ClipConfig &config,
                                LogicalResult (*read)(ConfigReader &, ClipConfig &)) {
  const bool hasKey = reader.has(key);
  const std::string name = reader.has(key + "_dict") ? key + "_dict" : key;
  if (name == key && !hasKey)
    return success();
  if (!reader.enter(name))
    return reader.wrong(name, "an object");
  const LogicalResult result = read(reader, config);
  if (succeeded(result))
    reader.reportOthers("clip", isUnreadOfSide);
  reader.leave();
  return result;
}

FailureOr<ClipConfig> hyc::readClip(ConfigReader &reader) {
  ClipConfig config;
  std::vector<std::string> classes;
  const bool read = succeeded(reader.readWords("architectures", classes, {"CLIPModel"})) &&
                    succeeded(readObject(reader, "text_config", config, readText)) &&
                    succeeded(readObject(reader, "vision_config", config, readVision)) &&
                    succeeded(reader.readSize("projection_dim", config.shared, 1, kMaxWidth)) &&
                    succeeded(reader.readNumber("logit_scale_init_value", config.logitScale, /*mayBeZero=*/true)) &&
                    succeeded(reader.readNumber("initializer_factor", config.initializerFactor, /*mayBeZero=*/true)) &&
                    succeeded(reader.refuse("quantization_config"));
  if (!read)
    return failure();
  const StringRef unread[] = {"is_encoder_decoder", "tie_word_embeddings"};
  reader.reportUnread("clip",
                      [&](StringRef key) { return isAboutOtherThings(key) || llvm::is_contained(unread, key); });
  return config;
}

//===----------------------------------------------------------------------===//
// The graph
//===----------------------------------------------------------------------===//

namespace {
class ClipBuilder : TowerBuilder {
public:
  ClipBuilder(ModuleOp module, const ClipConfig &config, int64_t batch, int64_t sequence)
      : TowerBuilder(module), config(config), batch(batch), sequence(sequence) {}

  void build();

private:
  Value blocks(const std::string &path, const ClipConfig::Side &side, Value x, bool causal);
  Value readText(Value tokens);
  Value seeImage(Value pixels);
  Value endsOf(Value tokens);
  Value project(const std::string &path, Value x);
  Value toLengthOne(const std::string &path, Value x);
  Value labelLoss(Value logits);

  RankedTensorType numbers(ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, ops.getI64Type()); }
  RankedTensorType booleans(ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, ops.getI1Type()); }

  const ClipConfig &config;
  int64_t batch, sequence;
};
} // namespace

static Tower towerOf(const ClipConfig::Side &side) {
  Tower tower;
  tower.width = side.width;
  tower.layers = side.layers;
  tower.heads = side.heads;
  tower.inner = side.inner;
  const auto width = static_cast<double>(side.width), layers = static_cast<double>(side.layers);
  tower.activation = side.activation;
  tower.epsilon = side.epsilon;
  tower.attentionDropout = side.attentionDropout;
  tower.outStddev = side.initializerFactor / std::sqrt(width);
  tower.intoStddev = tower.downStddev = tower.outStddev / std::sqrt(2 * layers);
  tower.upStddev = side.initializerFactor / std::sqrt(2 * width);
  return tower;
}

Value ClipBuilder::blocks(const std::string &path, const ClipConfig::Side &side, Value x, bool causal) {
  const Tower tower = towerOf(side);
  for (int64_t layer = 0; layer < tower.layers; ++layer) {
    const std::string around = path + ".encoder.layers." + std::to_string(layer);
    x = addTo(around, tower, x, around + ".layer_norm1",
              [&](Value in) { return attention(around + ".self_attn", tower, in, in, causal); });
    x = addTo(around, tower, x, around + ".layer_norm2", [&](Value in) { return mlp(around + ".mlp", tower, in); });
  }
  return x;
}

/// The place of each text's end, (batch): of the first token that is one, or of its first greatest.
Value ClipBuilder::endsOf(Value tokens) {
  const std::string path = "text_model";
  const SmallVector<int64_t> shape{batch, sequence};
  Value marks = tokens;
  if (config.end != kEndIsGreatest)
    marks = make<ConvertOp>(path, numbers(shape),
                            make<CompareOp>(path, booleans(shape), ComparePredicate::eq, tokens,
                                            splat(tokens.getType(), static_cast<double>(config.end))));
  Value greatest = make<ReduceOp>(path, ReductionKind::max, marks, ArrayRef<int64_t>{1});
  Value isEnd = make<CompareOp>(path, booleans(shape), ComparePredicate::eq, marks, spread(path, greatest, shape, {0}));
  Value places =
      make<SelectOp>(path, numbers(shape), isEnd, make<IotaOp>(path, numbers(shape), params.getI64IntegerAttr(1)),
                     splat(numbers(shape), static_cast<double>(sequence)));
  return make<ReduceOp>(path, ReductionKind::min, places, ArrayRef<int64_t>{1});
}

/// The row of each text's end, (batch, width).
Value ClipBuilder::readText(Value tokens) {
  const std::string path = "text_model", around = path + ".embeddings";
  const int64_t width = config.text.width;
  const Attribute start = normal(0.02 * config.text.initializerFactor);
  Value table = param(around + ".token_embedding.weight", {config.vocabulary, width}, start);
  Value x = make<EmbeddingOp>(around + ".token_embedding", type({batch, sequence, width}), tokens, table, Value(),
                              IntegerAttr());
  Value positions = param(around + ".position_embedding.weight", {config.positions, width}, start);
  if (sequence < config.positions)
    positions = sliced(around + ".position_embedding", positions, 0, 0, sequence);
  x = blocks(path, config.text, addBias(around, x, positions), /*causal=*/true);
  x = norm(path + ".final_layer_norm", x, config.text.epsilon);
  return make<GatherOp>(path, x, endsOf(tokens), params.getI64IntegerAttr(1), params.getI64IntegerAttr(1));
}

/// The row that stands before each image's patches, (batch, width).
Value ClipBuilder::seeImage(Value pixels) {
  const std::string path = "vision_model", around = path + ".embeddings", patch = around + ".patch_embedding";
  const ClipConfig::Side &side = config.vision;
  const int64_t size = config.patchSize, count = config.imageSize / size, width = side.width, rows = config.imageRows();
  const Attribute start = normal(side.initializerRange * side.initializerFactor);
  Value first = param(around + ".class_embedding", {width},
                      normal(side.initializerFactor / std::sqrt(static_cast<double>(width))));
  first = spread(around, first, {batch, 1, width}, {2});
  Value patches = reshaped(patch, pixels, {batch, config.channels, count, size, count, size});
  Value weight = param(patch + ".weight", {width, config.channels, size, size}, start);
  Value x = reshaped(patch, einsum(patch, "bchpwq,ncpq->bhwn", patches, weight), {batch, rows - 1, width});
  x = make<ConcatOp>(around, type({batch, rows, width}), ValueRange{first, x}, params.getI64IntegerAttr(1));
  x = addBias(around, x, param(around + ".position_embedding.weight", {rows, width}, start));
  x = blocks(path, side, norm(path + ".pre_layrnorm", x, side.epsilon), /*causal=*/false);
  const std::string last = path + ".encoder.layers." + std::to_string(side.layers - 1);
  Value row = reshaped(last, sliced(last, x, 1, 0, 1), {batch, width});
  return norm(path + ".post_layernorm", row, side.epsilon);
}

Value ClipBuilder::project(const std::string &path, Value x) {
  const int64_t width = shapeOf(x).back();
  const double stddev = config.initializerFactor / std::sqrt(static_cast<double>(width));
  return linear(path, x, {width}, {config.shared}, /*bias=*/false, stddev);
}

Value ClipBuilder::toLengthOne(const std::string &path, Value x) {
  Value squares = make<PowOp>(path, x, splat(x.getType(), 2));
  Value sum = make<ReduceOp>(path, ReductionKind::sum, squares, ArrayRef<int64_t>{1});
  Value length = make<PowOp>(path, sum, splat(sum.getType(), 0.5));
  return make<DivOp>(path, x, spread(path, length, shapeOf(x), {0}));
}

/// The mean cross entropy of logits (batch, batch) with each row's own number.
Value ClipBuilder::labelLoss(Value logits) {
  const std::string path = "text_projection";
  const auto own = llvm::to_vector(llvm::seq<int64_t>(0, batch));
  RankedTensorType scalar = type({});
  Value labels =
      ConstantOp::create(ops, ops.getUnknownLoc(), numbers({batch}),
                         cast<ElementsAttr>(DenseElementsAttr::get(numbers({batch}), ArrayRef<int64_t>(own))));
  auto entropy = make<CrossEntropyOp>(path, logits, labels);
  return make<DivOp>(path, entropy.getLossSum(), make<ConvertOp>(path, scalar, entropy.getCount()));
}

void ClipBuilder::build() {
  RankedTensorType pixels = type({batch, config.channels, config.imageSize, config.imageSize}),
                   logits = type({batch, batch}), embeds = type({batch, config.shared});
  SmallVector<Value> inputs =
      beginTrain({{"input_ids", numbers({batch, sequence})}, {"pixel_values", pixels}}, {{"loss", type({})},
                                                                                         {"logits_per_image", logits},
                                                                                         {"logits_per_text", logits},
                                                                                         {"text_embeds", embeds},
                                                                                         {"image_embeds", embeds}});
  const std::string ofText = "text_projection", ofImages = "visual_projection";
  Value text = toLengthOne(ofText, project(ofText, readText(inputs[0])));
  Value images = toLengthOne(ofImages, project(ofImages, seeImage(inputs[1])));
  Value scale = make<ExpOp>("logit_scale", param("logit_scale", {}, fill(config.logitScale)));
  Value perText =
      make<MulOp>(ofText, einsum(ofText, "tk,ik->ti", text, images), spread(ofText, scale, {batch, batch}, {}));
  auto turned = [&]() -> Value { return make<TransposeOp>(ofText, perText, ArrayRef<int64_t>{1, 0}); };
  Value ofTexts = labelLoss(perText), sum = make<AddOp>(ofText, ofTexts, labelLoss(turned()));
  endTrain({divided(ofText, sum, 2), turned(), perText, text, images});
}

OwningOpRef<ModuleOp> hyc::buildClip(MLIRContext &context, const ClipConfig &config, int64_t batch, int64_t sequence) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  ClipBuilder(*module, config, batch, sequence).build();
  return module;
}
