// What stands behind attention in a block: one MLP, or experts.
#include "DecoderBuilder.h"

using namespace mlir;
using namespace hyc;

Value DecoderBuilder::activate(const std::string &path, Value x, StringRef kind) {
  if (kind == "silu" || kind == "swish")
    return make<MulOp>(path, x, make<SigmoidOp>(path, x));
  if (kind == "relu")
    return make<ReluOp>(path, x);
  if (kind == "tanh")
    return make<TanhOp>(path, x);
  return make<GeluOp>(path, x.getType(), x, kind == "gelu" ? UnitAttr() : params.getUnitAttr());
}

Value DecoderBuilder::mlp(const std::string &path, Value x, int64_t inner) {
  const bool bias = config.has(kInnerBias);
  auto inside = [&](StringRef name) { return path + "." + name.str(); };
  auto down = [&](Value hidden) {
    return linear(inside(names.down), hidden, inner, config.width, bias, residualStddev());
  };
  if (family.mlp == MlpKind::Plain)
    return down(activate(inside(names.activation), linear(inside(names.up), x, config.width, inner, bias)));
  Value gate, up;
  if (family.mlp == MlpKind::Joined) {
    Value both = linear(inside(names.gate), x, config.width, 2 * inner, bias);
    RankedTensorType half = type({batch, sequence, inner});
    auto split = make<SplitOp>(path, TypeRange{half, half}, both, params.getI64IntegerAttr(2));
    gate = activate(inside(names.activation), split.getParts()[0]);
    up = split.getParts()[1];
  } else {
    gate = activate(inside(names.activation), linear(inside(names.gate), x, config.width, inner, bias));
    up = linear(inside(names.up), x, config.width, inner, bias);
  }
  return down(family.gateLast ? make<MulOp>(path, up, gate) : make<MulOp>(path, gate, up));
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

/// Numbers of the `count` largest of each row, (…, count).
Value DecoderBuilder::largest(const std::string &path, Value rows, int64_t count) {
  IntegerAttr first = count < shapeOf(rows).back() ? params.getI64IntegerAttr(count) : IntegerAttr();
  return make<ArgSortOp>(path, rows, /*descending=*/true, first);
}

Value DecoderBuilder::picked(const std::string &path, Value rows, Value numbers) {
  const int64_t last = static_cast<int64_t>(shapeOf(rows).size()) - 1;
  return make<GatherOp>(path, rows, numbers, params.getI64IntegerAttr(last), params.getI64IntegerAttr(last));
}

/// Scores of the experts that are not in the best groups become -inf; a group is as good as its two best together.
Value DecoderBuilder::withinGroups(const std::string &path, Value scores) {
  if (config.groups <= 1)
    return scores;
  const int64_t size = config.experts / config.groups;
  Value apart = reshaped(path, scores, {batch, sequence, config.groups, size});
  Value best = picked(path, apart, largest(path, apart, std::min<int64_t>(2, size)));
  Value worth = make<ReduceOp>(path, ReductionKind::sum, best, ArrayRef<int64_t>{3});
  Value chosen = largest(path, worth, config.chosenGroups);
  Value ones = splat(type(shapeOf(chosen)), 1);
  Value marks = make<ScatterOp>(path, type({batch, sequence, config.groups}), ReductionKind::sum, chosen, ones,
                                /*dim=*/2, /*batch=*/2);
  Value wide = reshaped(path, spread(path, marks, {batch, sequence, config.groups, size}, {0, 1, 2}),
                        {batch, sequence, config.experts});
  Value isIn = make<CompareOp>(path, booleans(shapeOf(wide)), ComparePredicate::gt, wide, splat(wide.getType(), 0));
  return make<SelectOp>(path, scores.getType(), isIn, scores,
                        splat(scores.getType(), -std::numeric_limits<double>::infinity()));
}

/// Which experts a token goes to, and how much of their results it gets: (batch, sequence, chosen) both.
DecoderBuilder::Routes DecoderBuilder::route(const std::string &path, Value x) {
  const bool clamped = family.experts == ExpertKind::Clamped;
  Value weight = param(path + ".weight", {config.experts, config.width}, normal(config.initializerRange));
  Value logits = einsum(path, "bsk,ek->bse", x, weight);
  if (clamped)
    logits = addBias(path, logits, param(path + ".bias", {config.experts}, normal(config.initializerRange)));
  Value scores = logits, choice;
  if (family.experts == ExpertKind::Grouped) {
    scores = make<SigmoidOp>(path, logits);
    choice = withinGroups(
        path, addBias(path, scores,
                      param(path + ".e_score_correction_bias", {config.experts}, fill(0), {}, /*frozen=*/true)));
  } else if (!clamped) {
    scores = make<SoftmaxOp>(path, logits);
  }
  Value numbers = largest(path, choice ? choice : scores, config.chosen);
  Value shares = picked(path, scores, numbers);
  if (clamped)
    shares = make<SoftmaxOp>(path, shares);
  if (config.has(kNormalizesChosen)) {
    Value total = make<ReduceOp>(path, ReductionKind::sum, shares, ArrayRef<int64_t>{2});
    if (family.experts == ExpertKind::Grouped)
      total = make<AddOp>(path, total, splat(total.getType(), 1e-20));
    shares = make<DivOp>(path, shares, spread(path, total, shapeOf(shares), {0, 1}));
  }
  return {numbers, scaled(path, shares, config.expertsFactor)};
}

/// What an expert does between its two products: (rows, 2 · inner) to (rows, inner).
Value DecoderBuilder::gateExperts(const std::string &path, Value both, int64_t inner) {
  const SmallVector<int64_t> half{shapeOf(both)[0], inner};
  if (family.experts != ExpertKind::Clamped) {
    auto split = make<SplitOp>(path, TypeRange{type(half), type(half)}, both, params.getI64IntegerAttr(1));
    Value gate = activate(path + ".act_fn", split.getParts()[0]);
    return make<MulOp>(path, gate, split.getParts()[1]);
  }
  // Gate and up are neighbours.
  auto every = [&](int64_t first) -> Value {
    return make<SliceOp>(path, type(half), both, ArrayRef<int64_t>{0, first}, ArrayRef<int64_t>{1, 2});
  };
  auto limit = [&](double value) { return splat(type(half), value); };
  Value gate = make<MinOp>(path, every(0), limit(config.gateLimit));
  Value up = make<MaxOp>(path, make<MinOp>(path, every(1), limit(config.gateLimit)), limit(-config.gateLimit));
  Value opened = make<MulOp>(path, gate, make<SigmoidOp>(path, scaled(path, gate, config.gateSlope)));
  return make<MulOp>(path, make<AddOp>(path, up, limit(1)), opened);
}

/// A row for each token and expert that it goes to, in the tokens' order.
Value DecoderBuilder::experts(const std::string &path, Value x) {
  const int64_t inner = config.expertInner ? config.expertInner : config.innerWidth();
  const bool clamped = family.experts == ExpertKind::Clamped;
  const std::string own = path + "." + names.experts.str();
  const int64_t rows = batch * sequence * config.chosen;
  const SmallVector<int64_t> apart{batch, sequence, config.chosen, config.width};
  const Attribute start = normal(config.initializerRange);
  Routes routes = route(path + "." + names.router.str(), x);
  Value numbers = reshaped(own, routes.numbers, {rows});
  // Weights are (experts, outputs, inputs) but where gates are clamped, and biases are there.
  auto product = [&](StringRef name, Value in, int64_t inputs, int64_t outputs) {
    SmallVector<int64_t> shape{config.experts, outputs, inputs};
    if (clamped)
      std::swap(shape[1], shape[2]);
    Value out = make<ExpertMatmulOp>(own, type({rows, outputs}), in, param(own + "." + name.str(), shape, start),
                                     numbers, Value(), clamped ? UnitAttr() : params.getUnitAttr());
    if (!clamped)
      return out;
    Value bias = param(own + "." + name.str() + "_bias", {config.experts, outputs}, fill(0));
    Value ofRows = make<EmbeddingOp>(own, type({rows, outputs}), numbers, bias, Value(), IntegerAttr());
    return Value(make<AddOp>(own, out, ofRows));
  };
  Value in = reshaped(own, spread(own, x, apart, {0, 1, 3}), {rows, config.width});
  Value hidden = gateExperts(own, product(kGatesAndUps, in, config.width, 2 * inner), inner);
  Value out = product(kDowns, hidden, inner, config.width);
  Value shares = reshaped(own, routes.shares, {rows});
  out = make<MulOp>(own, out, spread(own, shares, {rows, config.width}, {0}));
  Value y = make<ReduceOp>(own, ReductionKind::sum, reshaped(own, out, apart), ArrayRef<int64_t>{2});
  if (!config.sharedExperts)
    return y;
  return make<AddOp>(path, y, mlp(path + ".shared_experts", x, inner * config.sharedExperts));
}
