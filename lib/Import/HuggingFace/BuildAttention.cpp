// Attention of a decoder: how q, k and v are made, turned and mixed.
#include "DecoderBuilder.h"

#include <cmath>

using namespace mlir;
using namespace hyc;

/// What a score is that nobody is to see.
static constexpr double kUnseen = -std::numeric_limits<double>::infinity();
/// Of the norms within latent attention, which rms_norm_eps says nothing about.
static constexpr double kLatentEpsilon = 1e-6;

//===----------------------------------------------------------------------===//
// q, k and v
//===----------------------------------------------------------------------===//

/// One weight for the three.
DecoderBuilder::Heads DecoderBuilder::projectJoined(const std::string &path, Value x) {
  const int64_t size = config.headSize, heads = config.heads, keyHeads = config.keyHeads;
  const std::string name = path + "." + names.joined.str();
  const bool bias = config.has(kQueryBias);
  auto make = [&](ArrayRef<int64_t> outputs) {
    return linear(name, x, {config.width}, outputs, bias, config.initializerRange);
  };
  /// Parts of dimension 3, or of dimension 2 where there are as many heads of each.
  auto split = [&](Value all, int64_t dim) {
    SmallVector<int64_t> shape(shapeOf(all));
    shape[dim] /= 3;
    RankedTensorType part = type(shape);
    auto op = this->make<SplitOp>(name, TypeRange{part, part, part}, all, params.getI64IntegerAttr(dim));
    Value parts[3];
    for (auto [value, result] : llvm::zip_equal(parts, op.getParts()))
      value = reshaped(name, result, {batch, sequence, heads, size});
    return Heads{parts[0], parts[1], parts[2]};
  };
  if (family.queries == QueryLayout::Parts && heads == keyHeads)
    return split(make({3, heads, size}), 2);
  if (family.queries == QueryLayout::Triples)
    return split(make({heads, 3, size}), 3);
  if (family.queries == QueryLayout::Parts) {
    Value all = make((heads + 2 * keyHeads) * size);
    auto part = [&](int64_t first, int64_t count) {
      return reshaped(name, sliced(name, all, 2, first * size, count * size), {batch, sequence, count, size});
    };
    return {part(0, heads), part(heads, keyHeads), part(heads + keyHeads, keyHeads)};
  }
  const int64_t group = heads / keyHeads;
  Value all = make({keyHeads, group + 2, size});
  return {reshaped(name, sliced(name, all, 3, 0, group), {batch, sequence, heads, size}),
          reshaped(name, sliced(name, all, 3, group, 1), {batch, sequence, keyHeads, size}),
          reshaped(name, sliced(name, all, 3, group + 1, 1), {batch, sequence, keyHeads, size})};
}

DecoderBuilder::Heads DecoderBuilder::project(const std::string &path, Value x) {
  if (!names.joined.empty())
    return projectJoined(path, x);
  // What is normalized over all heads has them as one dimension until then.
  const bool joined = config.has(kHeadNorms) && family.headNorm == HeadNorm::All;
  auto toHeads = [&](StringRef name, int64_t heads, bool whole) {
    const std::string inside = path + "." + name.str();
    const int64_t size = config.headSize;
    return whole ? linear(inside, x, config.width, heads * size, config.has(kQueryBias))
                 : linear(inside, x, {config.width}, {heads, size}, config.has(kQueryBias), config.initializerRange);
  };
  Value q = toHeads(names.query, config.heads, joined), k = toHeads(names.key, config.keyHeads, joined);
  return {q, k, toHeads(names.value, config.keyHeads, false)};
}

/// Latent attention: q, and k and v, come from narrow values; a part of each key, which positions turn, is the same for
/// all heads.
DecoderBuilder::Heads DecoderBuilder::projectLatent(const std::string &path, Value x, int64_t layer) {
  const int64_t heads = config.heads, plain = config.plainSize, turned = config.rotarySize, rank = config.keyRank;
  const bool bias = config.has(kQueryBias);
  auto inside = [&](const char *name) { return path + "." + name; };
  auto widen = [&](const char *name, Value narrow, int64_t size) {
    return linear(inside(name), narrow, {shapeOf(narrow).back()}, {heads, size}, /*bias=*/false,
                  config.initializerRange);
  };
  Value q = x;
  if (config.queryRank)
    q = norm(inside("q_a_layernorm"), linear(inside("q_a_proj"), x, config.width, config.queryRank, bias),
             NormKind::RootMeanSquare, kLatentEpsilon);
  q = widen(config.queryRank ? "q_b_proj" : "q_proj", q, plain + turned);
  Value narrow = linear(inside("kv_a_proj_with_mqa"), x, config.width, rank + turned, bias);
  Value shared = reshaped(path, sliced(path, narrow, 2, rank, turned), {batch, sequence, 1, turned});
  Value both =
      widen("kv_b_proj",
            norm(inside("kv_a_layernorm"), sliced(path, narrow, 2, 0, rank), NormKind::RootMeanSquare, kLatentEpsilon),
            plain + config.valueSize);
  auto join = [&](Value first, Value second) {
    return make<ConcatOp>(path, type({batch, sequence, heads, plain + turned}), ValueRange{first, second},
                          params.getI64IntegerAttr(3));
  };
  Value key = reshaped(path, turn(path, shared, layer), {batch, sequence, turned});
  return {join(sliced(path, q, 3, 0, plain), turn(path, sliced(path, q, 3, plain, turned), layer)),
          join(sliced(path, both, 3, 0, plain), spread(path, key, {batch, sequence, heads, turned}, {0, 1, 3})),
          sliced(path, both, 3, plain, config.valueSize)};
}

/// Scales that differ from head to head: a row of one parameter each, or a module each.
Value DecoderBuilder::headScales(const std::string &path, int64_t heads) {
  const int64_t size = config.headSize;
  if (family.headNorm == HeadNorm::Own)
    return param(path + ".weight", {heads, size}, fill(1));
  SmallVector<Value> rows;
  for (int64_t head = 0; head < heads; ++head) {
    std::string name = path + ".norms." + std::to_string(head);
    rows.push_back(reshaped(name, param(name + ".weight", {size}, fill(1)), {1, size}));
  }
  return make<ConcatOp>(path, type({heads, size}), rows, params.getI64IntegerAttr(0));
}

Value DecoderBuilder::normHeads(const std::string &path, Value x) {
  const int64_t heads = shapeOf(x)[2], size = config.headSize;
  if (family.headNorm == HeadNorm::Each)
    return norm(path, x);
  if (family.headNorm == HeadNorm::All)
    return reshaped(path, norm(path, x), {batch, sequence, heads / size, size});
  RankedTensorType row = type({size});
  Value plain = make<LayerNormOp>(path, x, splat(row, 1), splat(row, 0), params.getF64FloatAttr(config.epsilon)).getY();
  return make<MulOp>(path, plain, spread(path, headScales(path, heads), shapeOf(x), {2, 3}));
}

/// Pairs that are neighbours are put apart as hyc.rope wants them. Nobody puts them back: scores do not change where q
/// and k have their elements in another order, both in the same.
Value DecoderBuilder::partPairs(const std::string &path, Value x) {
  const int64_t pairs = config.rotarySize / 2, size = shapeOf(x)[3], heads = shapeOf(x)[2];
  Value turned = config.rotarySize < size ? sliced(path, x, 3, 0, config.rotarySize) : x;
  turned = reshaped(path, turned, {batch, sequence, heads, pairs, 2});
  turned = make<TransposeOp>(path, turned, ArrayRef<int64_t>{0, 1, 2, 4, 3});
  turned = reshaped(path, turned, {batch, sequence, heads, config.rotarySize});
  if (config.rotarySize == size)
    return turned;
  Value rest = sliced(path, x, 3, config.rotarySize, size - config.rotarySize);
  return make<ConcatOp>(path, x.getType(), ValueRange{turned, rest}, params.getI64IntegerAttr(3));
}

Value DecoderBuilder::turn(const std::string &path, Value x, int64_t layer) {
  if (!config.isTurned[layer])
    return x;
  if (config.interleaved)
    x = partPairs(path, x);
  const Tables &own = config.isWindowed[layer] ? windowTables : tables;
  return make<RopeOp>(path, x.getType(), x, own.cos, own.sin, UnitAttr());
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

double DecoderBuilder::scoreScale(int64_t layer) const {
  const double size = config.scoreSize ? config.scoreSize : static_cast<double>(config.headSize);
  double scale = config.scoreScale ? config.scoreScale : config.scaleByHeadSize ? 1 / std::sqrt(size) : 1;
  if (config.keyRank)
    scale *= scoreFactorOf(config.rope);
  return config.scaleByInverseLayer ? scale / static_cast<double>(layer + 1) : scale;
}

Value DecoderBuilder::attend(const std::string &path, const Heads &heads, int64_t layer) {
  if (config.scoreCap || mask || config.has(kAlibi) || config.has(kSinks) || isWindowed(layer) ||
      shapeOf(heads.k) != shapeOf(heads.v))
    return attendWrittenOut(path, heads, layer);
  const UnitAttr causal = config.has(kSeesAll) ? UnitAttr() : params.getUnitAttr();
  FloatAttr dropout = config.attentionDropout > 0 ? params.getF64FloatAttr(config.attentionDropout) : FloatAttr();
  return make<AttentionOp>(path, heads.q, heads.k, heads.v, params.getF64FloatAttr(scoreScale(layer)), causal, dropout)
      .getResult();
}

/// Each head as often as there are query heads for it.
Value DecoderBuilder::repeatHeads(const std::string &path, Value x) {
  const int64_t own = shapeOf(x)[2], size = shapeOf(x)[3], copies = config.heads / own;
  if (copies == 1)
    return x;
  return reshaped(path, spread(path, x, {batch, sequence, own, copies, size}, {0, 1, 2, 4}),
                  {batch, sequence, config.heads, size});
}

/// Which keys, along the columns, a query sees: none after it, and no more than the window has. Where attention looks
/// both ways the window does, too.
Value DecoderBuilder::visible(const std::string &path, int64_t layer) {
  auto square = RankedTensorType::get({sequence, sequence}, ops.getI64Type());
  RankedTensorType result = booleans({sequence, sequence});
  Value query = make<IotaOp>(path, square, params.getI64IntegerAttr(0)),
        key = make<IotaOp>(path, square, params.getI64IntegerAttr(1));
  Value size = isWindowed(layer) ? splat(square, static_cast<double>(config.window)) : Value();
  Value seen = config.has(kSeesAll)
                   ? make<CompareOp>(path, result, ComparePredicate::lt, key, make<AddOp>(path, query, size))
                   : make<CompareOp>(path, result, ComparePredicate::le, key, query);
  if (!size)
    return seen;
  Value first = make<SubOp>(path, query, size);
  return make<AndOp>(path, seen, make<CompareOp>(path, result, ComparePredicate::gt, key, first));
}

/// Attention with linear biases (Press et al. 2022): each head's slope times the number of the key. Powers of one base
/// for the largest power of two of heads, every other power of its root for the rest; as f32 has them.
static std::vector<float> slopesOf(int64_t heads) {
  const double whole = std::exp2(std::floor(std::log2(static_cast<double>(heads))));
  auto baseOf = [](double count) { return static_cast<float>(std::exp2(-std::exp2(3 - std::log2(count)))); };
  std::vector<float> slopes;
  for (int64_t head = 0; head < heads; ++head) {
    const auto index = static_cast<double>(head);
    const bool isRest = index >= whole;
    const double power = isRest ? 2 * (index - whole) + 1 : index + 1;
    slopes.push_back(static_cast<float>(std::pow(static_cast<double>(baseOf(isRest ? 2 * whole : whole)), power)));
  }
  return slopes;
}

/// Falcon computes the slopes' products with the numbers of keys in bf16, whatever its type, and scales them as scores.
Value DecoderBuilder::addSlopes(const std::string &path, Value scores, double scale) {
  RankedTensorType row = type({config.heads}), table = type({config.heads, sequence});
  auto rounded = [&](Value x) -> Value {
    if (!family.roundsSlopes)
      return x;
    auto narrow = RankedTensorType::get(shapeOf(x), ops.getBF16Type());
    return make<ConvertOp>(path, type(shapeOf(x)), make<ConvertOp>(path, narrow, x));
  };
  const std::vector<float> slopes = slopesOf(config.heads);
  Value column = ConstantOp::create(ops, ops.getUnknownLoc(), row,
                                    cast<ElementsAttr>(DenseElementsAttr::get(row, ArrayRef<float>(slopes))));
  Value keys = rounded(make<IotaOp>(path, table, params.getI64IntegerAttr(1)));
  Value biases = rounded(make<MulOp>(path, rounded(spread(path, column, table.getShape(), {0})), keys));
  if (family.roundsSlopes)
    biases = scaled(path, biases, scale);
  return make<AddOp>(path, scores, spread(path, biases, shapeOf(scores), {1, 3}));
}

/// A score of each head's own takes its share of the probabilities, which no value answers to.
Value DecoderBuilder::probabilities(const std::string &path, Value scores) {
  if (!config.has(kSinks))
    return make<SoftmaxOp>(path, scores);
  Value sinks = param(path + ".sinks", {config.heads}, normal(config.initializerRange));
  SmallVector<int64_t> column{batch, config.heads, sequence, 1}, all{batch, config.heads, sequence, sequence + 1};
  Value joined = make<ConcatOp>(path, type(all), ValueRange{scores, spread(path, sinks, column, {1})},
                                params.getI64IntegerAttr(3));
  return sliced(path, make<SoftmaxOp>(path, joined), 3, 0, sequence);
}

Value DecoderBuilder::attendWrittenOut(const std::string &path, const Heads &heads, int64_t layer) {
  const double scale = scoreScale(layer);
  Value scores = einsum(path, "bshd,bthd->bhst", heads.q, repeatHeads(path, heads.k));
  scores = capped(path, scaled(path, scores, scale), config.scoreCap);
  if (config.has(kAlibi))
    scores = addSlopes(path, scores, scale);
  if (!config.has(kSeesAll) || isWindowed(layer)) {
    Value seen = spread(path, visible(path, layer), shapeOf(scores), {2, 3});
    scores = make<SelectOp>(path, scores.getType(), seen, scores, splat(scores.getType(), kUnseen));
  }
  if (mask) {
    Value isToken =
        make<CompareOp>(path, booleans({batch, sequence}), ComparePredicate::ne, mask, splat(mask.getType(), 0));
    Value seen = spread(path, isToken, shapeOf(scores), {0, 3});
    // The least number: what is padding sees every key alike, and no number of it is none.
    scores = make<SelectOp>(path, scores.getType(), seen, scores,
                            splat(scores.getType(), std::numeric_limits<float>::lowest()));
  }
  Value shares = dropout(path, ".", probabilities(path, scores), config.attentionDropout);
  return einsum(path, "bhst,bthd->bshd", shares, repeatHeads(path, heads.v));
}

Value DecoderBuilder::attention(const std::string &path, Value x, int64_t layer) {
  Heads heads = config.keyRank ? projectLatent(path, x, layer) : project(path, x);
  if (config.has(kHeadNorms)) {
    heads.q = normHeads(path + "." + names.queryNorm.str(), heads.q);
    heads.k = normHeads(path + "." + names.keyNorm.str(), heads.k);
  }
  if (!config.keyRank) {
    heads.q = turn(path, heads.q, layer);
    heads.k = turn(path, heads.k, layer);
  }
  Value mixed = attend(names.mixing.empty() ? path : path + "." + names.mixing.str(), heads, layer);
  return linear(path + "." + names.output.str(), mixed, {config.heads, shapeOf(mixed).back()}, {config.width},
                config.has(kOutputBias), residualStddev());
}
