// T5 (Raffel et al. 2020): norms of roots before each part, no positions but a bias of the scores by distance, which
// the first block of a stack has for all of them, and scores that are not scaled.
#include "EncoderDecoder.h"
#include "GraphBuilder.h"

#include <cmath>

using namespace mlir;
using namespace hyc;

bool hyc::isRepeated(StringRef stored) {
  return stored.ends_with("coder.embed_tokens.weight") ||
         stored.ends_with(".EncDecAttention.relative_attention_bias.weight");
}

//===----------------------------------------------------------------------===//
// config.json
//===----------------------------------------------------------------------===//

/// "relu", "gated-gelu"; the latter has meant the approximation by tanh from the first such model on.
static LogicalResult readActivation(ConfigReader &reader, EncoderDecoderConfig &config) {
  std::string projection = config.activation;
  const StringRef choices[] = {"relu",       "gelu",       "gelu_new",       "silu",
                               "gated-relu", "gated-gelu", "gated-gelu_new", "gated-silu"};
  if (failed(reader.readString("feed_forward_proj", projection, choices)))
    return failure();
  StringRef kind = projection;
  config.isGated = kind.consume_front("gated-");
  config.activation = config.isGated && kind == "gelu" ? "gelu_new" : kind.str();
  return success();
}

FailureOr<EncoderDecoderConfig> hyc::readEncoderDecoder(ConfigReader &reader) {
  EncoderDecoderConfig config;
  const std::pair<const char *, int64_t EncoderDecoderConfig::*> sizes[] = {
      {"d_model|hidden_size", &EncoderDecoderConfig::width},
      {"d_kv|head_dim", &EncoderDecoderConfig::headSize},
      {"d_ff", &EncoderDecoderConfig::inner},
      {"num_heads|num_attention_heads", &EncoderDecoderConfig::heads},
      {"relative_attention_num_buckets", &EncoderDecoderConfig::buckets},
      {"relative_attention_max_distance", &EncoderDecoderConfig::farthest}};
  for (auto [key, member] : sizes)
    if (failed(reader.readSize(key, config.*member, 1, kMaxWidth)))
      return failure();
  const bool read = succeeded(reader.readSize("vocab_size", config.vocabulary, 1, kMaxPositions)) &&
                    succeeded(reader.readSize("num_layers|num_hidden_layers", config.encoderLayers, 1, kMaxLayers)) &&
                    succeeded(reader.readSize("num_decoder_layers", config.decoderLayers, 1, kMaxLayers)) &&
                    succeeded(reader.readShare("dropout_rate", config.dropout)) &&
                    succeeded(reader.readNumber("layer_norm_epsilon", config.epsilon, /*mayBeZero=*/false)) &&
                    succeeded(reader.readNumber("initializer_factor", config.initializerFactor, /*mayBeZero=*/true)) &&
                    succeeded(readActivation(reader, config)) &&
                    succeeded(reader.readBool("tie_word_embeddings", config.tiedEmbeddings)) &&
                    succeeded(reader.readBool("scale_decoder_outputs", config.tiedEmbeddings)) &&
                    succeeded(reader.refuse("is_decoder"));
  if (!read)
    return failure();
  if (config.buckets % 4 != 0)
    return reader.wrong("relative_attention_num_buckets", "a multiple of 4: half of each side's are of one distance");
  if (config.farthest <= config.buckets / 2)
    return reader.wrong("relative_attention_max_distance",
                        "more than half of \"relative_attention_num_buckets\", which is " + Twine(config.buckets));
  if (!config.decoderLayers)
    config.decoderLayers = config.encoderLayers;
  const StringRef unread[] = {"is_encoder_decoder", "n_positions",  "output_past",
                              "dense_act_fn",       "is_gated_act", "feed_forward_dim"};
  reader.reportUnread("t5", [&](StringRef key) { return isAboutOtherThings(key) || llvm::is_contained(unread, key); });
  return config;
}

//===----------------------------------------------------------------------===//
// Buckets of distances
//===----------------------------------------------------------------------===//

int64_t hyc::bucketOf(int64_t distance, bool sided, int64_t buckets, int64_t farthest) {
  int64_t first = 0;
  if (sided) {
    buckets /= 2;
    first = distance > 0 ? buckets : 0;
    distance = std::abs(distance);
  } else {
    distance = std::max<int64_t>(0, -distance);
  }
  const int64_t exact = buckets / 2;
  if (distance < exact)
    return first + distance;
  // In f32, as the model computes it: what lies on a bound is in the bucket that its rounding says.
  const float share = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                      static_cast<float>(std::log(static_cast<double>(farthest) / static_cast<double>(exact))) *
                      static_cast<float>(buckets - exact);
  return first + std::min(buckets - 1, exact + static_cast<int64_t>(share));
}

//===----------------------------------------------------------------------===//
// The graph
//===----------------------------------------------------------------------===//

namespace {
class EncoderDecoderBuilder : GraphBuilder {
public:
  EncoderDecoderBuilder(ModuleOp module, const EncoderDecoderConfig &config, int64_t batch, int64_t sequence)
      : GraphBuilder(module), config(config), batch(batch), sequence(sequence) {}

  void build();

private:
  // x: (batch, sequence, width).
  Value stack(const std::string &path, Value tokens, int64_t layers, Value encoded);
  Value embed(const std::string &path, Value tokens);
  Value norm(const std::string &path, Value x);
  Value dropout(const std::string &path, Value x);
  Value linear(const std::string &path, Value x, ArrayRef<int64_t> inputs, ArrayRef<int64_t> outputs, double stddev);
  Value attention(const std::string &path, Value x, Value rows, Value bias, bool isCausal);
  Value think(const std::string &path, Value x);
  Value activate(const std::string &path, Value x);
  Value distanceBias(const std::string &path, bool isCausal);
  double widthStddev() const { return config.initializerFactor / std::sqrt(static_cast<double>(config.width)); }

  const EncoderDecoderConfig &config;
  int64_t batch, sequence;
};
} // namespace

Value EncoderDecoderBuilder::norm(const std::string &path, Value x) {
  Value scale = param(path + ".weight", {config.width}, fill(config.initializerFactor));
  return make<RmsNormOp>(path, x, scale, params.getF64FloatAttr(config.epsilon)).getY();
}

Value EncoderDecoderBuilder::dropout(const std::string &path, Value x) {
  return config.dropout == 0 ? x
                             : make<DropoutOp>(path, x.getType(), x, Value(), params.getF64FloatAttr(config.dropout));
}

/// Contracts the last dimensions of x, `inputs`, with a weight.
Value EncoderDecoderBuilder::linear(const std::string &path, Value x, ArrayRef<int64_t> inputs,
                                    ArrayRef<int64_t> outputs, double stddev) {
  const std::string in = std::string("klm").substr(0, inputs.size()),
                    out = std::string("nopq").substr(0, outputs.size());
  SmallVector<int64_t> shape(outputs), logical;
  llvm::append_range(shape, inputs);
  if (shape.size() > 2)
    logical = {llvm::product_of(outputs), llvm::product_of(inputs)};
  Value weight = param(path + ".weight", shape, normal(stddev), logical);
  return einsum(path, "bs" + in + "," + out + in + "->bs" + out, x, weight);
}

/// Of each head, (heads, queries, keys): a row of the table for each distance, and of these the one of each pair.
Value EncoderDecoderBuilder::distanceBias(const std::string &path, bool isCausal) {
  Value table = param(path + ".weight", {config.buckets, config.heads}, normal(widthStddev()));
  SmallVector<int64_t> buckets;
  for (int64_t distance = 1 - sequence; distance < sequence; ++distance)
    buckets.push_back(bucketOf(distance, /*sided=*/!isCausal, config.buckets, config.farthest));
  const auto count = static_cast<int64_t>(buckets.size());
  auto numbers = RankedTensorType::get({count}, ops.getI64Type());
  Value constant = ConstantOp::create(ops, ops.getUnknownLoc(), numbers,
                                      cast<ElementsAttr>(DenseElementsAttr::get(numbers, ArrayRef<int64_t>(buckets))));
  Value ofDistances = make<EmbeddingOp>(path, type({count, config.heads}), constant, table, Value(), IntegerAttr());
  auto square = RankedTensorType::get({sequence, sequence}, ops.getI64Type());
  Value query = make<IotaOp>(path, square, params.getI64IntegerAttr(0)),
        key = make<IotaOp>(path, square, params.getI64IntegerAttr(1));
  Value place = make<AddOp>(path, make<SubOp>(path, key, query), splat(square, static_cast<double>(sequence - 1)));
  Value ofPairs =
      make<EmbeddingOp>(path, type({sequence, sequence, config.heads}), place, ofDistances, Value(), IntegerAttr());
  return make<TransposeOp>(path, ofPairs, ArrayRef<int64_t>{2, 0, 1});
}

/// x looks at `rows`, the encoder's or its own.
Value EncoderDecoderBuilder::attention(const std::string &path, Value x, Value rows, Value bias, bool isCausal) {
  const int64_t heads = config.heads, size = config.headSize;
  const double ofQueries = widthStddev() / std::sqrt(static_cast<double>(size)),
               ofOutputs = config.initializerFactor / std::sqrt(static_cast<double>(heads * size));
  Value q = linear(path + ".q", x, {config.width}, {heads, size}, ofQueries),
        k = linear(path + ".k", rows, {config.width}, {heads, size}, widthStddev()),
        v = linear(path + ".v", rows, {config.width}, {heads, size}, widthStddev());
  Value scores = einsum(path, "bshd,bthd->bhst", q, k);
  if (bias)
    scores = make<AddOp>(path, scores, spread(path, bias, shapeOf(scores), {1, 2, 3}));
  if (isCausal) {
    auto square = RankedTensorType::get({sequence, sequence}, ops.getI64Type());
    Value query = make<IotaOp>(path, square, params.getI64IntegerAttr(0)),
          key = make<IotaOp>(path, square, params.getI64IntegerAttr(1));
    auto booleans = RankedTensorType::get({sequence, sequence}, ops.getI1Type());
    Value seen =
        spread(path, make<CompareOp>(path, booleans, ComparePredicate::le, key, query), shapeOf(scores), {2, 3});
    scores = make<SelectOp>(path, scores.getType(), seen, scores,
                            splat(scores.getType(), -std::numeric_limits<double>::infinity()));
  }
  Value shares = dropout(path, make<SoftmaxOp>(path, scores));
  return linear(path + ".o", einsum(path, "bhst,bthd->bshd", shares, v), {heads, size}, {config.width}, ofOutputs);
}

Value EncoderDecoderBuilder::activate(const std::string &path, Value x) {
  if (config.activation == "relu")
    return make<ReluOp>(path, x);
  if (config.activation == "silu")
    return make<MulOp>(path, x, make<SigmoidOp>(path, x));
  return make<GeluOp>(path, x.getType(), x, config.activation == "gelu" ? UnitAttr() : params.getUnitAttr());
}

Value EncoderDecoderBuilder::think(const std::string &path, Value x) {
  const std::string inner = path + ".DenseReluDense";
  const double ofInner = config.initializerFactor / std::sqrt(static_cast<double>(config.inner));
  auto widen = [&](const char *name) { return linear(inner + name, x, {config.width}, {config.inner}, widthStddev()); };
  Value hidden = activate(inner + ".act", widen(config.isGated ? ".wi_0" : ".wi"));
  if (config.isGated)
    hidden = make<MulOp>(inner, hidden, widen(".wi_1"));
  return linear(inner + ".wo", dropout(inner + ".dropout", hidden), {config.inner}, {config.width}, ofInner);
}

Value EncoderDecoderBuilder::embed(const std::string &path, Value tokens) {
  Value x = make<EmbeddingOp>(path + ".embed_tokens", type({batch, sequence, config.width}), tokens,
                              read("shared.weight"), Value(), IntegerAttr());
  return dropout(path + ".dropout", x);
}

Value EncoderDecoderBuilder::stack(const std::string &path, Value tokens, int64_t layers, Value encoded) {
  const bool isDecoder = static_cast<bool>(encoded);
  Value x = embed(path, tokens), bias;
  for (int64_t layer = 0; layer < layers; ++layer) {
    int part = 0;
    auto add = [&](auto compute) {
      const std::string around = path + ".block." + std::to_string(layer) + ".layer." + std::to_string(part++);
      Value own = compute(around, norm(around + ".layer_norm", x));
      x = make<AddOp>(around, x, dropout(around + ".dropout", own));
    };
    add([&](const std::string &around, Value in) {
      const std::string own = around + ".SelfAttention";
      if (layer == 0)
        bias = distanceBias(own + ".relative_attention_bias", isDecoder);
      return attention(own, in, in, bias, isDecoder);
    });
    if (isDecoder)
      add([&](const std::string &around, Value in) {
        return attention(around + ".EncDecAttention", in, encoded, Value(), /*isCausal=*/false);
      });
    add([&](const std::string &around, Value in) { return think(around, in); });
  }
  return dropout(path + ".dropout", norm(path + ".final_layer_norm", x));
}

void EncoderDecoderBuilder::build() {
  auto tokens = RankedTensorType::get({batch, sequence}, ops.getI64Type());
  SmallVector<Value> inputs =
      beginTrain({{"input_ids", tokens}, {"decoder_input_ids", tokens}}, {batch, sequence, config.vocabulary});
  param("shared.weight", {config.vocabulary, config.width}, normal(config.initializerFactor));
  Value encoded = stack("encoder", inputs[0], config.encoderLayers, Value());
  Value x = stack("decoder", inputs[1], config.decoderLayers, encoded);
  if (config.tiedEmbeddings)
    x = scaled("decoder.final_layer_norm", x, 1 / std::sqrt(static_cast<double>(config.width)));
  Value weight = config.tiedEmbeddings
                     ? read("shared.weight")
                     : param("lm_head.weight", {config.vocabulary, config.width}, normal(config.initializerFactor));
  endTrain(einsum("lm_head", "bsk,vk->bsv", x, weight));
}

OwningOpRef<ModuleOp> hyc::buildEncoderDecoder(MLIRContext &context, const EncoderDecoderConfig &config, int64_t batch,
                                               int64_t sequence) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  EncoderDecoderBuilder(*module, config, batch, sequence).build();
  return module;
}
