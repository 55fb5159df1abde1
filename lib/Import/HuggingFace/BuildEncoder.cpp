// What encoders have around their blocks and decoders have not: token types, positions of what is no padding, patches
// of images, and heads.
#include "DecoderBuilder.h"

using namespace mlir;
using namespace hyc;

RankedTensorType DecoderBuilder::inputType() {
  if (config.has(kPatches))
    return type({batch, config.channels, config.imageSize, config.imageSize});
  return RankedTensorType::get({batch, sequence}, ops.getI64Type());
}

/// Samples have the first row of the table, all tokens of all of them.
Value DecoderBuilder::addTokenTypes(Value x) {
  const std::string base = names.base.str(), path = base + "." + names.tokenTypes.str();
  auto numbers = RankedTensorType::get({batch, sequence}, ops.getI64Type());
  Value table = param(path + ".weight", {config.tokenTypes, config.width}, normal(config.initializerRange));
  Value rows = make<EmbeddingOp>(path, x.getType(), splat(numbers, 0), table, Value(), IntegerAttr());
  return make<AddOp>(aroundEmbeddings(), x, rows);
}

/// A token's row is behind the padding's by how many tokens there are up to it; padding has its own.
Value DecoderBuilder::addCountedPositions(Value x, Value tokens) {
  const std::string base = aroundEmbeddings(), path = names.base.str() + "." + names.positions.str();
  const int64_t padding = config.positionOffset - 1;
  Type numbers = tokens.getType();
  Value isToken = make<CompareOp>(base, booleans(shapeOf(tokens)), ComparePredicate::ne, tokens,
                                  splat(numbers, static_cast<double>(padding)));
  Value one = make<ConvertOp>(base, numbers, isToken);
  Value count = make<CumSumOp>(base, numbers, one, params.getI64IntegerAttr(1), UnitAttr(), UnitAttr());
  Value row = make<AddOp>(base, make<MulOp>(base, count, one), splat(numbers, static_cast<double>(padding)));
  const int64_t rows = config.positions + config.positionOffset;
  Value table = param(path + ".weight", {rows, config.width}, normal(config.initializerRange));
  Value positions = make<EmbeddingOp>(path, x.getType(), row, table, Value(), params.getI64IntegerAttr(padding));
  return make<AddOp>(base, x, positions);
}

/// A row for each patch, behind one that is the same for all images; and the positions'.
Value DecoderBuilder::embedPatches(Value pixels) {
  const std::string base = names.base.str(), around = aroundEmbeddings(), path = base + "." + names.patches.str();
  const int64_t size = config.patchSize, side = config.imageSize / size, width = config.width;
  const Attribute start = normal(config.initializerRange);
  Value first = reshaped(around, param(base + "." + names.firstRow.str(), {1, 1, width}, start), {1, width});
  first = spread(around, first, {batch, 1, width}, {1, 2});
  Value patches = reshaped(path, pixels, {batch, config.channels, side, size, side, size});
  Value weight = param(path + ".weight", {width, config.channels, size, size}, start);
  Value x = einsum(path, "bchpwq,ncpq->bhwn", patches, weight);
  x = reshaped(path, addBias(path, x, param(path + ".bias", {width}, fill(0))), {batch, side * side, width});
  x = make<ConcatOp>(around, type({batch, sequence, width}), ValueRange{first, x}, params.getI64IntegerAttr(1));
  Value positions = param(base + "." + names.positions.str(), {1, sequence, width}, start);
  x = addBias(around, x, reshaped(around, positions, {sequence, width}));
  return dropout(base, names.embeddingDropout, x, config.embeddingDropout);
}

/// Logits of the last block's rows, (batch, sequence, vocabulary), or of the first row, (batch, labels).
Value DecoderBuilder::head(Value x) {
  const ModelHead &head = *config.head;
  const std::string base = names.base.str(), output = head.output.str();
  if (head.ofFirst && config.averagesRows)
    x = divided(base, make<ReduceOp>(base, ReductionKind::sum, x, ArrayRef<int64_t>{1}), static_cast<double>(sequence));
  else if (head.ofFirst)
    x = reshaped(base, sliced(base, x, 1, 0, 1), {batch, config.width});
  auto drop = [&](StringRef module, Value in) { return dropout(module.str(), ".", in, config.headDropout); };
  if (!head.dropoutBefore.empty())
    x = drop(head.dropoutBefore, x);
  const StringRef kind = !config.headActivation.empty() ? StringRef(config.headActivation)
                         : head.activation.empty()      ? StringRef(config.activation)
                                                        : head.activation;
  if (!head.dense.empty())
    x = activate(head.activationModule.str(),
                 linear(head.dense.str(), x, config.width, config.width, config.has(kHeadDenseBias)), kind);
  if (!head.norm.empty())
    x = norm(head.norm.str(), x);
  if (!head.dropoutAfter.empty())
    x = drop(head.dropoutAfter, x);
  if (head.classifies)
    return linear(output, x, config.width, config.labels, /*bias=*/true);
  Value weight = config.tiedEmbeddings
                     ? read(base + "." + names.embedding.str() + ".weight")
                     : param(output + ".weight", {config.vocabulary, config.width}, normal(config.initializerRange));
  Value logits = einsum(output, "bsk,vk->bsv", x, weight);
  if (!config.has(kHeadBias))
    return logits;
  Value bias = param(head.bias.empty() ? output + ".bias" : head.bias.str(), {config.vocabulary}, fill(0));
  return addBias(output, logits, bias);
}
