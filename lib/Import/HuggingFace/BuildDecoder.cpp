// Embeddings, blocks and the head of a decoder.
#include "DecoderBuilder.h"
#include "dialects/Hyc/PhaseNames.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace mlir;
using namespace hyc;

Value DecoderBuilder::norm(const std::string &path, Value x, NormKind kind, double least) {
  const int64_t width = shapeOf(x).back();
  const bool scales = config.has(kNormScales), shifted = kind == NormKind::ShiftedRoot;
  RankedTensorType row = type({width});
  FloatAttr epsilon = params.getF64FloatAttr(least);
  Value scale = scales ? param(path + ".weight", {width}, fill(shifted ? 0 : 1)) : splat(row, 1);
  if (shifted)
    scale = make<AddOp>(path, scale, splat(row, 1));
  if (kind == NormKind::RootMeanSquare || shifted)
    return make<RmsNormOp>(path, x, scale, epsilon).getY();
  Value bias = scales && kind == NormKind::Layer ? param(path + ".bias", {width}, fill(0)) : splat(row, 0);
  return make<LayerNormOp>(path, x, scale, bias, epsilon).getY();
}

/// As transformers' modules of that name do it in training.
Value DecoderBuilder::dropout(const std::string &around, StringRef name, Value x, double rate) {
  if (rate == 0 || name.empty())
    return x;
  std::string path = name == "." ? around : around + "." + name.str();
  return make<DropoutOp>(path, x.getType(), x, Value(), params.getF64FloatAttr(rate));
}

Value DecoderBuilder::linear(const std::string &path, Value x, ArrayRef<int64_t> inputs, ArrayRef<int64_t> outputs,
                             bool bias, double stddev) {
  const std::string letters = std::string("bs").substr(0, shapeOf(x).size() - inputs.size()),
                    in = std::string("klm").substr(0, inputs.size()),
                    out = std::string("nopq").substr(0, outputs.size());
  SmallVector<int64_t> shape(family.transposed ? inputs : outputs), logical;
  llvm::append_range(shape, family.transposed ? outputs : inputs);
  auto count = [](ArrayRef<int64_t> sizes) {
    int64_t product = 1;
    for (int64_t size : sizes)
      product *= size;
    return product;
  };
  if (shape.size() > 2)
    logical = family.transposed ? SmallVector<int64_t>{count(inputs), count(outputs)}
                                : SmallVector<int64_t>{count(outputs), count(inputs)};
  Value weight = param(path + ".weight", shape, normal(stddev), logical);
  std::string spec = letters + in + "," + (family.transposed ? in + out : out + in) + "->" + letters + out;
  Value y = einsum(path, spec, x, weight);
  if (!bias)
    return y;
  return addBias(path, y,
                 param(path + ".bias", outputs, fill(0),
                       outputs.size() > 1 ? ArrayRef<int64_t>(count(outputs)) : ArrayRef<int64_t>()));
}

double DecoderBuilder::residualStddev() const {
  return family.residualInit ? config.initializerRange / std::sqrt(2.0 * static_cast<double>(config.layers))
                             : config.initializerRange;
}

//===----------------------------------------------------------------------===//
// Around the blocks
//===----------------------------------------------------------------------===//

/// Rows of a table, the first ones, since samples have no positions of their own.
Value DecoderBuilder::addPositions(Value x) {
  const std::string base = names.base.str(), path = base + "." + names.positions.str();
  const int64_t rows = config.positions + config.positionOffset;
  Value table = param(path + ".weight", {rows, config.width}, normal(config.initializerRange));
  if (sequence < rows)
    table = sliced(path, table, 0, config.positionOffset, sequence);
  return addBias(aroundEmbeddings(), x, table);
}

Value DecoderBuilder::embed(Value tokens) {
  const std::string base = names.base.str(), path = base + "." + names.embedding.str();
  const int64_t width = config.embeddingWidth ? config.embeddingWidth : config.width;
  Value table = param(path + ".weight", {config.vocabulary, width}, normal(config.initializerRange));
  Value x = make<EmbeddingOp>(path, type({batch, sequence, width}), tokens, table, Value(),
                              config.paddingRow ? params.getI64IntegerAttr(*config.paddingRow) : IntegerAttr());
  if (family.scalesByWidth)
    x = scaled(path, x, std::sqrt(static_cast<double>(config.width)));
  x = scaled(base, x, config.embeddingFactor);
  if (width != config.width)
    x = linear(base + ".project_in", x, width, config.width, /*bias=*/false);
  if (config.tokenTypes)
    x = addTokenTypes(x);
  if (family.learned)
    x = config.has(kCountsTokens) ? addCountedPositions(x, tokens) : addPositions(x);
  if (!names.embeddingNorm.empty())
    x = norm(base + "." + names.embeddingNorm.str(), x);
  return dropout(base, names.embeddingDropout, x, config.embeddingDropout);
}

void DecoderBuilder::makeTables() {
  auto make = [&](const RopeParameters &parameters) {
    RopeFrequencies rope = computeFrequencies(parameters, config.rotarySize, sequence);
    RankedTensorType table = type({sequence, config.rotarySize / 2});
    // What models compute with is the factor in f32.
    double factor = static_cast<double>(static_cast<float>(rope.factor));
    auto op = this->make<RotaryTableOp>("", table, table, params.getDenseF32ArrayAttr(rope.frequencies),
                                        params.getF64FloatAttr(rope.factor == 1 ? 1 : factor));
    return Tables{op.getCos(), op.getSin()};
  };
  if (llvm::is_contained(config.isTurned, true))
    tables = windowTables = make(config.rope);
  if (family.windowTheta && llvm::is_contained(config.isWindowed, true))
    windowTables = make(config.windowRope);
}

/// Names of modules as parameters have them.
void DecoderBuilder::noteTensorPlan() {
  SmallVector<Attribute> entries;
  for (const auto &[name, style] : config.tensorPlan)
    entries.push_back(params.getStringAttr(names.base + "." + name + "=" + style));
  if (!entries.empty())
    module->setAttr(kTensorPlan, params.getArrayAttr(entries));
}

Value DecoderBuilder::finish(Value x) {
  const std::string base = names.base.str();
  if (config.has(kFinalNorm))
    x = norm(base + "." + names.finalNorm.str(), x);
  if (config.head)
    return head(x);
  const int64_t width = config.embeddingWidth ? config.embeddingWidth : config.width;
  if (width != config.width)
    x = linear(base + ".project_out", x, config.width, width, /*bias=*/false);
  Value weight = config.tiedEmbeddings
                     ? read(base + "." + names.embedding.str() + ".weight")
                     : param("lm_head.weight", {config.vocabulary, width}, normal(config.initializerRange));
  Value logits = einsum("lm_head", "bsk,vk->bsv", x, weight);
  if (config.has(kHeadBias))
    logits = addBias("lm_head", logits, param("lm_head.bias", {config.vocabulary}, fill(0)));
  logits = divided("lm_head", logits, config.logitsDivisor);
  return capped("lm_head", scaled("lm_head", logits, config.logitsFactor), config.logitsCap);
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

Value DecoderBuilder::sum(const std::string &path, StringRef order, Value x, Value attention, Value mlp) {
  auto termOf = [&](char letter) {
    const char term = llvm::toLower(letter);
    return term == 'x' ? x : term == 'a' ? attention : mlp;
  };
  Value result = termOf(order.front());
  for (char letter : order.drop_front())
    result = llvm::toLower(letter) != letter ? make<AddOp>(path, termOf(letter), result)
                                             : make<AddOp>(path, result, termOf(letter));
  return result;
}

Value DecoderBuilder::block(int64_t layer, Value x) {
  const std::string path = names.base.str() + "." + names.layers.str() + "." + std::to_string(layer);
  auto inside = [&](StringRef name) { return name == "." ? path : path + "." + name.str(); };
  auto attend = [&](Value in) {
    Value out = attention(inside(names.attention), in, layer);
    if (config.has(kNormAfter))
      out = norm(inside(names.attentionNormAfter), out);
    return scaled(path, dropout(path, names.attentionDropout, out, config.residualDropout), config.residualFactor);
  };
  auto think = [&](Value in) {
    const bool mixed = config.isMixed[layer];
    Value out = mixed ? experts(inside(names.mlp), in) : mlp(inside(names.mlp), in, config.innerWidth());
    if (config.has(kNormAfter))
      out = norm(inside(names.mlpNormAfter), out);
    return scaled(path, dropout(path, names.mlpDropout, out, config.residualDropout), config.residualFactor);
  };
  const bool before = config.has(kNormBefore), takesNorm = config.has(kSumOfNorm);
  Value first = before && !(layer == 0 && config.has(kFirstUnnormed)) ? norm(inside(names.attentionNorm), x) : x;
  if (config.has(kParallel)) {
    Value second = config.has(kOneNorm) ? first : norm(inside(names.mlpNorm), x);
    Value attended = attend(first);
    return sum(path, family.parallelSum, x, attended, think(second));
  }
  auto around = [&](StringRef name) { return name.empty() ? path : inside(name); };
  x = sum(around(names.attentionSum), family.attentionSum, takesNorm ? first : x, attend(first), {});
  if (config.has(kNormSum))
    x = norm(inside(names.attentionNorm), x);
  Value second = before ? norm(inside(names.mlpNorm), x) : x;
  x = sum(around(names.mlpSum), family.mlpSum, takesNorm ? second : x, {}, think(second));
  return config.has(kNormSum) ? norm(inside(names.mlpNorm), x) : x;
}

void DecoderBuilder::build() {
  noteTensorPlan();
  SmallVector<int64_t> logits{batch, sequence, config.vocabulary};
  if (config.head && config.head->classifies)
    logits = {batch, config.labels};
  SmallVector<std::pair<StringRef, RankedTensorType>> inputs{
      {config.has(kPatches) ? "pixel_values" : "input_ids", inputType()}};
  if (config.has(kTakesMask))
    inputs.push_back({"attention_mask", inputType()});
  SmallVector<Value> values = beginTrain(inputs, logits);
  Value input = values.front();
  if (config.has(kTakesMask))
    mask = values.back();
  Value x = config.has(kPatches) ? embedPatches(input) : embed(input);
  makeTables();
  for (int64_t layer = 0; layer < config.layers; ++layer)
    x = block(layer, x);
  endTrain(finish(x));
}

/// What follows from other members, where nobody said it.
static DecoderConfig completed(DecoderConfig config) {
  if (!config.keyHeads)
    config.keyHeads = config.heads;
  if (!config.headSize)
    config.headSize = config.width / config.heads;
  const auto layers = static_cast<size_t>(config.layers);
  config.isWindowed.resize(layers);
  config.isTurned.resize(layers);
  config.isMixed.resize(layers);
  return config;
}

OwningOpRef<ModuleOp> hyc::buildDecoder(MLIRContext &context, const DecoderConfig &config, int64_t batch,
                                        int64_t sequence) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  const DecoderConfig whole = completed(config);
  DecoderBuilder(*module, whole, batch, sequence).build();
  return module;
}
