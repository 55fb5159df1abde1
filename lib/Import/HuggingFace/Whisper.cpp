// Whisper (Radford et al. 2022): two convolutions over the frames of a mel spectrum, the second of stride two,
// sinusoids as positions that nobody trains, and a decoder with learned ones.
#include "Whisper.h"
#include "TowerBuilder.h"

#include <cmath>

using namespace mlir;
using namespace hyc;

/// Frequencies of the encoder's positions fall to one part in so many.
static constexpr double kLongest = 10000;

//===----------------------------------------------------------------------===//
// config.json
//===----------------------------------------------------------------------===//

/// The encoder's numbers have second names, those of any model.
static LogicalResult readSide(ConfigReader &reader, const std::string &name, WhisperConfig::Side &side) {
  const bool hasOthers = name == "encoder";
  const std::string layers = name + "_layers" + (hasOthers ? "|num_hidden_layers" : ""),
                    heads = name + "_attention_heads" + (hasOthers ? "|num_attention_heads" : "");
  return success(succeeded(reader.readSize(layers, side.layers, 1, kMaxLayers)) &&
                 succeeded(reader.readSize(heads, side.heads, 1, kMaxWidth)) &&
                 succeeded(reader.readSize(name + "_ffn_dim", side.inner, 1, kMaxWidth)) &&
                 succeeded(reader.refuse(name + "_layerdrop")));
}

static LogicalResult readPadding(ConfigReader &reader, WhisperConfig &config) {
  int64_t row = *config.paddingRow;
  config.paddingRow.reset();
  if (reader.isNull("pad_token_id"))
    return success();
  if (failed(reader.readSize("pad_token_id", row, -config.vocabulary, config.vocabulary - 1)))
    return failure();
  if (row >= config.vocabulary)
    return reader.error() << "has no \"pad_token_id\", which is then " << row << ", beyond \"vocab_size\", which is "
                          << config.vocabulary << ": say null or another";
  config.paddingRow = row < 0 ? row + config.vocabulary : row;
  return success();
}

static LogicalResult checkShapes(ConfigReader &reader, const WhisperConfig &config) {
  const std::pair<const char *, int64_t> heads[] = {{"encoder_attention_heads", config.encoder.heads},
                                                    {"decoder_attention_heads", config.decoder.heads}};
  for (auto [key, count] : heads)
    if (config.width % count != 0)
      return reader.wrong("d_model|hidden_size", Twine("a multiple of \"") + key + "\", which is " + Twine(count));
  if (config.width < 4 || config.width % 2 != 0)
    return reader.wrong("d_model|hidden_size", "an even number of at least 4: half of the positions are cosines");
  return success();
}

FailureOr<WhisperConfig> hyc::readWhisper(ConfigReader &reader) {
  WhisperConfig config;
  std::vector<std::string> classes;
  const bool read = succeeded(reader.readWords("architectures", classes, {"WhisperForConditionalGeneration"})) &&
                    succeeded(reader.readSize("vocab_size", config.vocabulary, 1, kMaxPositions)) &&
                    succeeded(reader.readSize("d_model|hidden_size", config.width, 1, kMaxWidth)) &&
                    succeeded(reader.readSize("num_mel_bins", config.bins, 1, kMaxWidth)) &&
                    succeeded(reader.readSize("max_source_positions", config.sourcePositions, 1, kMaxPositions)) &&
                    succeeded(reader.readSize("max_target_positions", config.targetPositions, 1, kMaxPositions)) &&
                    succeeded(readSide(reader, "encoder", config.encoder)) &&
                    succeeded(readSide(reader, "decoder", config.decoder)) &&
                    succeeded(reader.readString("activation_function", config.activation, towerActivations())) &&
                    succeeded(reader.readShare("dropout", config.dropout)) &&
                    succeeded(reader.readShare("attention_dropout", config.attentionDropout)) &&
                    succeeded(reader.readShare("activation_dropout", config.innerDropout)) &&
                    succeeded(reader.readNumber("init_std", config.initializerRange, /*mayBeZero=*/true)) &&
                    succeeded(reader.readBool("tie_word_embeddings", config.tiedEmbeddings)) &&
                    succeeded(reader.refuse("apply_spec_augment")) && succeeded(reader.refuse("quantization_config")) &&
                    succeeded(readPadding(reader, config)) && succeeded(checkShapes(reader, config));
  if (!read)
    return failure();
  const StringRef unread[] = {"is_encoder_decoder",   "scale_embedding",     "use_weighted_layer_sum",
                              "classifier_proj_size", "median_filter_width", "forced_decoder_ids",
                              "mask_time_prob",       "mask_time_length",    "mask_time_min_masks",
                              "mask_feature_prob",    "mask_feature_length", "mask_feature_min_masks"};
  reader.reportUnread("whisper",
                      [&](StringRef key) { return isAboutOtherThings(key) || llvm::is_contained(unread, key); });
  return config;
}

//===----------------------------------------------------------------------===//
// The graph
//===----------------------------------------------------------------------===//

namespace {
class WhisperBuilder : TowerBuilder {
public:
  WhisperBuilder(ModuleOp module, const WhisperConfig &config, int64_t batch, int64_t sequence)
      : TowerBuilder(module), config(config), batch(batch), sequence(sequence) {}

  void build();

private:
  Tower towerOf(const WhisperConfig::Side &side) const;
  Value convolve(const std::string &path, Value x, int64_t channels, int64_t stride);
  Value listen(Value features);
  Value write(Value tokens, Value heard);

  const WhisperConfig &config;
  int64_t batch, sequence;
};
} // namespace

Tower WhisperBuilder::towerOf(const WhisperConfig::Side &side) const {
  Tower tower;
  tower.width = config.width;
  tower.layers = side.layers;
  tower.heads = side.heads;
  tower.inner = side.inner;
  tower.activation = config.activation;
  tower.dropout = config.dropout;
  tower.attentionDropout = config.attentionDropout;
  tower.innerDropout = config.innerDropout;
  tower.keyBias = false;
  tower.scalesQueries = true;
  tower.intoStddev = tower.outStddev = tower.upStddev = tower.downStddev = config.initializerRange;
  return tower;
}

/// Windows of three frames, of x: (batch, channels, frames).
Value WhisperBuilder::convolve(const std::string &path, Value x, int64_t channels, int64_t stride) {
  const int64_t frames = (shapeOf(x)[2] - 1) / stride + 1;
  DenseI64ArrayAttr one = params.getDenseI64ArrayAttr({1});
  Value weight = param(path + ".weight", {config.width, channels, 3}, normal(config.initializerRange));
  RankedTensorType result = type({batch, config.width, frames});
  Value y = make<ConvolutionOp>(path, result, x, weight, params.getDenseI64ArrayAttr({stride}), one, one, one,
                                params.getI64IntegerAttr(1));
  Value bias = param(path + ".bias", {config.width}, fill(0));
  return make<AddOp>(path, y, spread(path, bias, result.getShape(), {1}));
}

Value WhisperBuilder::listen(Value features) {
  const std::string path = "model.encoder";
  const Tower tower = towerOf(config.encoder);
  Value x = activate(path, convolve(path + ".conv1", features, config.bins, 1), "gelu");
  x = activate(path, convolve(path + ".conv2", x, config.width, 2), "gelu");
  x = make<TransposeOp>(path, x, ArrayRef<int64_t>{0, 2, 1});
  const double steps = static_cast<double>(config.width / 2 - 1);
  auto sinusoids =
      SinusoidsAttr::get(params.getContext(), config.width, params.getF64FloatAttr(std::pow(kLongest, -1 / steps)));
  x = addBias(path, x,
              param(path + ".embed_positions.weight", {config.sourcePositions, config.width}, sinusoids, {},
                    /*frozen=*/true));
  x = dropout(path, x, config.dropout);
  for (int64_t layer = 0; layer < tower.layers; ++layer) {
    const std::string around = path + ".layers." + std::to_string(layer);
    x = addTo(around, tower, x, around + ".self_attn_layer_norm",
              [&](Value in) { return attention(around + ".self_attn", tower, in, in, /*causal=*/false); });
    x = addTo(around, tower, x, around + ".final_layer_norm", [&](Value in) { return mlp(around, tower, in); });
  }
  return norm(path + ".layer_norm", x, tower.epsilon);
}

Value WhisperBuilder::write(Value tokens, Value heard) {
  const std::string path = "model.decoder";
  const Tower tower = towerOf(config.decoder);
  const Attribute start = normal(config.initializerRange);
  Value table = param(path + ".embed_tokens.weight", {config.vocabulary, config.width}, start);
  Value x = make<EmbeddingOp>(path + ".embed_tokens", type({batch, sequence, config.width}), tokens, table, Value(),
                              config.paddingRow ? params.getI64IntegerAttr(*config.paddingRow) : IntegerAttr());
  Value positions = param(path + ".embed_positions.weight", {config.targetPositions, config.width}, start);
  if (sequence < config.targetPositions)
    positions = sliced(path + ".embed_positions", positions, 0, 0, sequence);
  x = dropout(path, addBias(path, x, positions), config.dropout);
  for (int64_t layer = 0; layer < tower.layers; ++layer) {
    const std::string around = path + ".layers." + std::to_string(layer);
    x = addTo(around, tower, x, around + ".self_attn_layer_norm",
              [&](Value in) { return attention(around + ".self_attn", tower, in, in, /*causal=*/true); });
    x = addTo(around, tower, x, around + ".encoder_attn_layer_norm",
              [&](Value in) { return attention(around + ".encoder_attn", tower, in, heard, /*causal=*/false); });
    x = addTo(around, tower, x, around + ".final_layer_norm", [&](Value in) { return mlp(around, tower, in); });
  }
  return norm(path + ".layer_norm", x, tower.epsilon);
}

void WhisperBuilder::build() {
  RankedTensorType features = type({batch, config.bins, config.frames()}),
                   tokens = RankedTensorType::get({batch, sequence}, ops.getI64Type());
  SmallVector<Value> inputs =
      beginTrain({{"input_features", features}, {"decoder_input_ids", tokens}}, {batch, sequence, config.vocabulary});
  Value x = write(inputs[1], listen(inputs[0]));
  Value weight = config.tiedEmbeddings
                     ? read("model.decoder.embed_tokens.weight")
                     : param("proj_out.weight", {config.vocabulary, config.width}, normal(config.initializerRange));
  endTrain(einsum("proj_out", "bsk,vk->bsv", x, weight));
}

OwningOpRef<ModuleOp> hyc::buildWhisper(MLIRContext &context, const WhisperConfig &config, int64_t batch,
                                        int64_t sequence) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  WhisperBuilder(*module, config, batch, sequence).build();
  return module;
}
