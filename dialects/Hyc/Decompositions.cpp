// Decompositions of the composite ops: their definitions in smaller ops of the dialect. Ids are `<id>.<step>`.
#include "dialects/Hyc/DerivedOps.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace hyc;

/// x Φ(x) = 0.5 x (1 + erf(x/sqrt 2)), or its tanh form.
LogicalResult GeluOp::decompose(OpBuilder &builder, SmallVectorImpl<Value> &results) {
  DerivedOps b(builder, *this, ".");
  Value x = getOperand();
  Type type = x.getType();
  Value bounded;
  if (getTanh()) {
    Value cube = b.mul("cube", b.mul("square", x, x), x);
    Value inner = b.add("inner", x, b.mul("scaled_cube", cube, b.splat("cubic", type, 0.044715)));
    Value factor = b.splat("sqrt_two_over_pi", type, std::sqrt(2.0 / M_PI));
    bounded = b.create<TanhOp>("tanh", b.mul("argument", inner, factor));
  } else {
    bounded = b.create<ErfOp>("erf", b.mul("argument", x, b.splat("inverse_sqrt_two", type, M_SQRT1_2)));
  }
  Value weight = b.add("weight", bounded, b.splat("one", type, 1));
  results.push_back(b.mul("result", b.mul("half_x", x, b.splat("half", type, 0.5)), weight));
  return success();
}

namespace {
struct RowExponentials {
  Value max;         // of each row
  Value exponential; // exp(x - max)
  Value sum;         // of each row's exponentials
};
} // namespace

static RowExponentials rowExponentials(DerivedOps &b, Value x) {
  RankedTensorType type = tensorTypeOf(x);
  int64_t last = type.getRank() - 1;
  Value max = b.reduce("max", ReductionKind::max, x, {last});
  Value shifted = b.sub("shifted", x, b.restore("maxima", max, {last}, type));
  Value exponential = b.create<ExpOp>("exp", shifted);
  return {max, exponential, b.reduce("sum", ReductionKind::sum, exponential, {last})};
}

LogicalResult SoftmaxOp::decompose(OpBuilder &builder, SmallVectorImpl<Value> &results) {
  DerivedOps b(builder, *this, ".");
  RankedTensorType type = tensorTypeOf(getOperand());
  auto computed = RankedTensorType::get(type.getShape(), accumulationType(type.getElementType()));
  Value x = getOperand();
  if (computed != type)
    x = b.create<ConvertOp>("wide", computed, x);
  RowExponentials row = rowExponentials(b, x);
  Value result = b.div("result", row.exponential, b.restore("sums", row.sum, {type.getRank() - 1}, computed));
  if (computed != type)
    result = b.create<ConvertOp>("rounded", type, result);
  results.push_back(result);
  return success();
}

LogicalResult LayerNormOp::decompose(OpBuilder &builder, SmallVectorImpl<Value> &results) {
  DerivedOps b(builder, *this, ".");
  RankedTensorType type = tensorTypeOf(getX());
  int64_t last = type.getRank() - 1;
  Type rowType = getMean().getType();
  Value size = b.splat("size", rowType, static_cast<double>(type.getDimSize(last)));
  Value mean = b.div("mean", b.reduce("sum", ReductionKind::sum, getX(), {last}), size);
  Value centred = b.sub("centred", getX(), b.restore("means", mean, {last}, type));
  Value squares = b.reduce("sum_of_squares", ReductionKind::sum, b.mul("squares", centred, centred), {last});
  Value epsilon = b.splat("epsilon", rowType, getEpsilon().convertToDouble());
  Value rstd = b.create<RsqrtOp>("rstd", b.add("stabilized", b.div("variance", squares, size), epsilon));
  Value normal = b.mul("normalized", centred, b.restore("rstds", rstd, {last}, type));
  Value scale = b.create<BroadcastOp>("scales", type, getScale(), ArrayRef<int64_t>{last});
  Value bias = b.create<BroadcastOp>("biases", type, getBias(), ArrayRef<int64_t>{last});
  results.append({b.add("result", b.mul("scaled", normal, scale), bias), mean, rstd});
  return success();
}

/// -inf where key j lies after query i, j > i + (T - S). Scores have the queries in the last dimension but one.
static Value maskCausally(DerivedOps &b, Value scores) {
  RankedTensorType type = tensorTypeOf(scores);
  int64_t queries = type.getRank() - 2, keys = type.getRank() - 1;
  auto indexType = RankedTensorType::get(type.getShape(), IntegerType::get(type.getContext(), 64));
  double lead = static_cast<double>(type.getDimSize(keys) - type.getDimSize(queries));
  Value limit = b.add("last_key", b.create<IotaOp>("query", indexType, queries), b.splat("lead", indexType, lead));
  Value seen = b.compare("seen", ComparePredicate::le, b.create<IotaOp>("key", indexType, keys), limit);
  return b.select("masked", seen, scores, b.splat("unseen", type, -std::numeric_limits<double>::infinity()));
}

/// `mask`, (B,H,S,T) with dimensions of 1 for what is the same for all, as scores are: (B,G,R,S,T).
static Value maskOf(DerivedOps &b, Value mask, Value scores) {
  RankedTensorType type = tensorTypeOf(scores), maskType = tensorTypeOf(mask);
  int64_t groups = type.getDimSize(1);
  SmallVector<int64_t> grouped(type.getShape()), dims, kept;
  bool isByHead = maskType.getDimSize(1) != 1;
  for (int64_t dim = 0; dim < 5; ++dim) {
    bool varies = dim == 1 || dim == 2 ? isByHead : maskType.getDimSize(dim < 1 ? 0 : dim - 1) != 1;
    if (dim < 4 && !varies)
      continue;
    dims.push_back(dim);
    kept.push_back(dim == 1 ? groups : grouped[dim]);
  }
  Type element = maskType.getElementType();
  Value bare = b.create<ReshapeOp>("mask_groups", RankedTensorType::get(kept, element), mask);
  return b.create<BroadcastOp>("mask", RankedTensorType::get(grouped, element), bare, dims);
}

/// The lowest number where `mask` is false, and not -inf: a query that sees no key has a softmax then, too, of which
/// nothing is taken.
static Value maskBy(DerivedOps &b, Value mask, Value scores) {
  RankedTensorType type = tensorTypeOf(scores);
  const llvm::fltSemantics &semantics = cast<FloatType>(type.getElementType()).getFloatSemantics();
  double lowest = APFloat::getLargest(semantics, /*Negative=*/true).convertToDouble();
  return b.select("masked_by_input", mask, scores, b.splat("never", type, lowest));
}

/// Query heads are (key head g, member r), so that grouped heads are dimensions of an einsum.
LogicalResult AttentionOp::decompose(OpBuilder &builder, SmallVectorImpl<Value> &results) {
  DerivedOps b(builder, *this, ".");
  RankedTensorType q = tensorTypeOf(getQ()), k = tensorTypeOf(getK());
  int64_t groups = k.getDimSize(2), members = q.getDimSize(2) / groups;
  auto grouped =
      RankedTensorType::get({q.getDimSize(0), q.getDimSize(1), groups, members, q.getDimSize(3)}, q.getElementType());
  Value query = b.create<ReshapeOp>("query_groups", grouped, getQ());
  Value scores = b.einsum("scores", "bsgrd,btgd->bgrst", query, getK());
  scores = b.mul("scaled", scores, b.splat("scale", scores.getType(), getScale().convertToDouble()));
  if (getCausal())
    scores = maskCausally(b, scores);
  Value mask = getMask() ? maskOf(b, getMask(), scores) : Value();
  if (mask)
    scores = maskBy(b, mask, scores);
  Value weights = b.create<SoftmaxOp>("weights", scores.getType(), scores);
  if (mask)
    weights = b.select("seen_weights", mask, weights, b.splat("no_weight", weights.getType(), 0));
  if (getDropout()) {
    if (getRandom().size() > 1)
      return emitOpError("holds a part of the heads, and can't be decomposed any more");
    Value kept;
    if (!getRandom().empty()) {
      auto type = RankedTensorType::get(tensorTypeOf(weights).getShape(), builder.getI1Type());
      kept = b.create<DropoutMaskOp>("dropout.mask", type, getRandom()[0], ValueRange(), getColumnAttr(),
                                     getDropoutAttr(), DenseI64ArrayAttr());
    }
    weights = b.create<DropoutOp>("dropout", weights.getType(), weights, kept, getDropoutAttr());
  }
  Value result = b.einsum("context", "bgrst,btgd->bsgrd", weights, getV());
  RowExponentials row = rowExponentials(b, scores);
  Value lse = b.add("lse_groups", row.max, b.create<LogOp>("log", row.sum));
  results.append({b.create<ReshapeOp>("result", getResult().getType(), result),
                  b.create<ReshapeOp>("lse", getLse().getType(), lse)});
  return success();
}

LogicalResult CrossEntropyOp::decompose(OpBuilder &builder, SmallVectorImpl<Value> &results) {
  DerivedOps b(builder, *this, ".");
  RankedTensorType type = tensorTypeOf(getLogits()), labelType = tensorTypeOf(getLabels());
  int64_t last = type.getRank() - 1;
  RowExponentials row = rowExponentials(b, getLogits());
  Value lse = b.add("lse", row.max, b.create<LogOp>("log", row.sum));

  auto columnType = RankedTensorType::get(type.getShape(), labelType.getElementType());
  Value column = b.create<IotaOp>("column", columnType, last);
  Value labels = b.restore("labels", getLabels(), {last}, type);
  Value isLabel = b.compare("is_label", ComparePredicate::eq, column, labels);
  Value picked =
      b.reduce("picked", ReductionKind::sum, b.select("picks", isLabel, getLogits(), b.splat("zero", type, 0)), {last});

  Value ignored = b.splat("ignore_index", labelType, static_cast<double>(static_cast<int64_t>(getIgnoreIndex())));
  Value counted = b.compare("counted", ComparePredicate::ne, getLabels(), ignored);
  Value terms = b.select("terms", counted, b.sub("loss", lse, picked), b.splat("no_loss", lse.getType(), 0));
  Value ones = b.create<ConvertOp>("ones", RankedTensorType::get(labelType.getShape(), builder.getI64Type()), counted);
  SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(0, labelType.getRank()));
  results.append(
      {b.reduce("loss_sum", ReductionKind::sum, terms, all), b.reduce("count", ReductionKind::sum, ones, all), lse});
  return success();
}
