// Ops that pick, put and order by number, and running sums: types, verifiers, sharding rules, gradients.
#include "dialects/Hyc/DerivedOps.h"

using namespace mlir;
using namespace hyc;

//===----------------------------------------------------------------------===//
// gather and scatter
//===----------------------------------------------------------------------===//

/// The shape of the rows that `indices` pick, or a reason why there is none.
static FailureOr<SmallVector<int64_t>> gatheredShape(RankedTensorType data, RankedTensorType indices, int64_t dim,
                                                     int64_t batch, StringRef &constraint) {
  constraint = "dims";
  if (batch < 0 || batch > dim || dim >= data.getRank() || indices.getRank() < batch ||
      data.getShape().take_front(batch) != indices.getShape().take_front(batch))
    return failure();
  constraint = "indices";
  if (!isa<IntegerType>(indices.getElementType()) || indices.getElementType().isInteger(1))
    return failure();
  SmallVector<int64_t> shape(data.getShape().take_front(dim));
  llvm::append_range(shape, indices.getShape().drop_front(batch));
  llvm::append_range(shape, data.getShape().drop_front(dim + 1));
  return shape;
}

LogicalResult GatherOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, ValueRange operands,
                                         DictionaryAttr, mlir::OpaqueProperties properties, RegionRange,
                                         SmallVectorImpl<Type> &types) {
  RankedTensorType data = cast<RankedTensorType>(operands[0].getType());
  RankedTensorType indices = cast<RankedTensorType>(operands[1].getType());
  auto *given = properties.as<Properties *>();
  int64_t dim = given->dim.getInt(), batch = given->batch.getInt();
  StringRef constraint;
  FailureOr<SmallVector<int64_t>> shape = gatheredShape(data, indices, dim, batch, constraint);
  if (failed(shape))
    return emitOptionalError(loc, "[gather.", constraint, "] picks of dimension ", dim, " of ", data, " by ", indices,
                             " with ", batch, " dimensions in the batch");
  types.push_back(RankedTensorType::get(*shape, data.getElementType()));
  return success();
}

LogicalResult ScatterOp::verify() {
  RankedTensorType result = tensorTypeOf(getResult()), indices = tensorTypeOf(getIndices());
  RankedTensorType updates = tensorTypeOf(getUpdates());
  StringRef constraint;
  FailureOr<SmallVector<int64_t>> shape = gatheredShape(result, indices, getDim(), getBatch(), constraint);
  if (succeeded(shape) && updates == RankedTensorType::get(*shape, result.getElementType()))
    return success();
  return emitOpError("[scatter.shapes] puts ")
         << updates << " by " << indices << " into dimension " << getDim() << " of " << result << " with " << getBatch()
         << " dimensions in the batch";
}

namespace {
/// Factors of the three tensors that a gather or scatter relates.
struct IndexFactors {
  ShardingRule rule;
  TensorFactors data, indices, rows;
};
} // namespace

/// Whoever holds part of the rows holds all that they are picked from.
static IndexFactors indexFactors(RankedTensorType data, RankedTensorType indices, int64_t dim, int64_t batch,
                                 FactorKind picked) {
  IndexFactors f;
  for (auto [index, size] : llvm::enumerate(data.getShape()))
    f.data.push_back(
        {f.rule.addFactor(size, static_cast<int64_t>(index) == dim ? FactorKind::replicated : FactorKind::parallel)});
  f.indices.assign(f.data.begin(), f.data.begin() + batch);
  f.rows.assign(f.data.begin(), f.data.begin() + dim);
  for (int64_t size : indices.getShape().drop_front(batch)) {
    f.indices.push_back({f.rule.addFactor(size, picked)});
    f.rows.push_back(f.indices.back());
  }
  f.rows.append(f.data.begin() + dim + 1, f.data.end());
  return f;
}

ShardingRule GatherOp::getShardingRule() {
  IndexFactors f =
      indexFactors(tensorTypeOf(getData()), tensorTypeOf(getIndices()), getDim(), getBatch(), FactorKind::parallel);
  f.rule.operands = {f.data, f.indices};
  f.rule.results = {f.rows};
  return f.rule;
}

/// Ranks that hold some of the updates hold a part of the sum. Products and extrema want all of them.
ShardingRule ScatterOp::getShardingRule() {
  FactorKind picked = getKind() == ReductionKind::sum ? FactorKind::sum : FactorKind::replicated;
  IndexFactors f = indexFactors(tensorTypeOf(getResult()), tensorTypeOf(getIndices()), getDim(), getBatch(), picked);
  f.rule.operands = {f.indices, f.rows};
  f.rule.results = {f.data};
  return f.rule;
}

LogicalResult GatherOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                      SmallVectorImpl<Value> &results) {
  results.assign(2, Value());
  if (cotangents[0] && wanted[0])
    results[0] = DerivedOps(builder, *this, ".grad")
                     .create<ScatterOp>("", getData().getType(), ReductionKind::sum, getIndices(), cotangents[0],
                                        getDim(), getBatch());
  return success();
}

namespace {
/// What a scatter's gradient is made of.
class ScatterGradient {
public:
  ScatterGradient(OpBuilder &builder, ScatterOp op)
      : b(builder, op, ".grad"), op(op), type(tensorTypeOf(op.getUpdates())), whole(tensorTypeOf(op.getResult())) {}

  /// Each update's part of the cotangent.
  Value ofSum(Value cotangent) { return gather("", cotangent); }

  /// Those that attain the extremum share the cotangent; where nothing is put nobody asks for a share.
  Value ofExtremum(Value cotangent) {
    Value attains = b.compare(".attains", ComparePredicate::eq, op.getUpdates(), gather(".extremum", op.getResult()));
    Value count = scatter(".count", ReductionKind::sum, select(".ones", attains, 1, 0));
    Value share = b.div(".share", cotangent, b.create<MaxOp>(".counted", count, b.splat(".least", whole, 1)));
    return b.select("", attains, gather(".shares", share), b.splat(".none", type, 0));
  }

  /// The cotangent times the product of all others at its place, of which that of all but zeros tells: divided by the
  /// update itself where no zero is there, and whole for a zero that is alone.
  Value ofProduct(Value cotangent) {
    Value one = b.splat(".one", type, 1), zero = b.splat(".zero", type, 0);
    Value isZero = b.compare(".is_zero", ComparePredicate::eq, op.getUpdates(), zero);
    Value own = b.select(".own", isZero, one, op.getUpdates());
    Value zeros = b.select(".zeros", isZero, one, zero);
    Value product = gather(".product", scatter(".products", ReductionKind::prod, own));
    // Those at its place beside itself.
    Value others = b.sub(".others", gather(".counted", scatter(".count", ReductionKind::sum, zeros)), zeros);
    Value isAlone = b.compare(".is_alone", ComparePredicate::eq, others, zero);
    Value ofOthers = b.select(".of_others", isAlone, b.div(".divided", product, own), zero);
    return b.mul("", gather(".cotangent", cotangent), ofOthers);
  }

private:
  Value gather(StringRef suffix, Value from) {
    return b.create<GatherOp>(suffix, from, op.getIndices(), op.getDim(), op.getBatch());
  }
  Value scatter(StringRef suffix, ReductionKind kind, Value updates) {
    return b.create<ScatterOp>(suffix, whole, kind, op.getIndices(), updates, op.getDim(), op.getBatch());
  }
  Value select(const std::string &suffix, Value condition, double yes, double no) {
    return b.select(suffix, condition, b.splat(suffix + "_yes", type, yes), b.splat(suffix + "_no", type, no));
  }

  DerivedOps b;
  ScatterOp op;
  RankedTensorType type, whole;
};
} // namespace

LogicalResult ScatterOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                       SmallVectorImpl<Value> &results) {
  results.assign(2, Value());
  if (!cotangents[0] || !wanted[1])
    return success();
  ScatterGradient gradient(builder, *this);
  switch (getKind()) {
  case ReductionKind::sum:
    results[1] = gradient.ofSum(cotangents[0]);
    break;
  case ReductionKind::prod:
    results[1] = gradient.ofProduct(cotangents[0]);
    break;
  case ReductionKind::max:
  case ReductionKind::min:
    results[1] = gradient.ofExtremum(cotangents[0]);
    break;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// cumsum and argsort
//===----------------------------------------------------------------------===//

/// A rule in which one dimension stays whole.
static ShardingRule wholeAlong(Operation *op, int64_t dim) {
  ShardingRule rule;
  TensorFactors dims;
  for (auto [index, size] : llvm::enumerate(tensorTypeOf(op->getOperand(0)).getShape()))
    dims.push_back(
        {rule.addFactor(size, static_cast<int64_t>(index) == dim ? FactorKind::replicated : FactorKind::parallel)});
  rule.operands = {dims};
  rule.results = {dims};
  return rule;
}

LogicalResult CumSumOp::verify() {
  if (getDim() < static_cast<uint64_t>(tensorTypeOf(getOperand()).getRank()))
    return success();
  return emitOpError("[cumsum.dim] adds along dimension ") << getDim() << " of " << getOperand().getType();
}

ShardingRule CumSumOp::getShardingRule() { return wholeAlong(*this, getDim()); }

/// What element j is part of: the sums from it on.
LogicalResult CumSumOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                      SmallVectorImpl<Value> &results) {
  results.assign(1, Value());
  if (cotangents[0] && wanted[0])
    results[0] = DerivedOps(builder, *this, ".grad")
                     .create<CumSumOp>("", cotangents[0], getDimAttr(),
                                       getReverse() ? UnitAttr() : builder.getUnitAttr(), getExclusiveAttr());
  return success();
}

LogicalResult ArgSortOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc, ValueRange operands,
                                          DictionaryAttr, mlir::OpaqueProperties properties, RegionRange,
                                          SmallVectorImpl<Type> &types) {
  auto type = cast<RankedTensorType>(operands[0].getType());
  if (type.getRank() == 0)
    return emitOptionalError(loc, "[argsort.rows] orders ", type, ", which has no rows");
  SmallVector<int64_t> shape(type.getShape());
  if (IntegerAttr first = properties.as<Properties *>()->first) {
    if (first.getInt() < 0 || first.getInt() > shape.back())
      return emitOptionalError(loc, "[argsort.first] takes ", first.getInt(), " elements of rows of ", shape.back());
    shape.back() = first.getInt();
  }
  types.push_back(RankedTensorType::get(shape, IntegerType::get(context, 64)));
  return success();
}

/// Rows are whole, and so is the beginning of their order.
ShardingRule ArgSortOp::getShardingRule() {
  ShardingRule rule = wholeAlong(*this, tensorTypeOf(getOperand()).getRank() - 1);
  if (getFirst())
    rule.results.front().back() = {rule.addFactor(static_cast<int64_t>(*getFirst()), FactorKind::replicated)};
  return rule;
}
