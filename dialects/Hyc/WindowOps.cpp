// Ops over sliding windows: verifiers, sharding rules, gradients, costs. The three convolutions are one form, linear in
// x, w and y each; an op knows which of its operands and result play these parts.
#include "dialects/Hyc/DerivedOps.h"
#include "dialects/Hyc/WindowShape.h"

using namespace mlir;
using namespace hyc;

std::optional<int64_t> hyc::windowPositions(int64_t size, int64_t window, int64_t stride, int64_t dilation, int64_t low,
                                            int64_t high) {
  // Bounded so that no product below overflows.
  constexpr int64_t kMost = int64_t(1) << 31;
  for (int64_t value : {size, window, stride, dilation, low, high})
    if (value < 0 || value > kMost)
      return std::nullopt;
  if (stride == 0 || dilation == 0 || window == 0)
    return std::nullopt;
  int64_t room = size + low + high - dilation * (window - 1) - 1;
  return room < 0 ? std::nullopt : std::optional(room / stride + 1);
}

/// The attributes hold one number for each of `spatial` dimensions, of the right signs.
static LogicalResult verifyWindow(Operation *op, StringRef constraint, int64_t spatial, ArrayRef<int64_t> strides,
                                  ArrayRef<int64_t> dilations, ArrayRef<int64_t> low, ArrayRef<int64_t> high) {
  if (spatial < 1 || spatial > 3)
    return op->emitOpError("[") << constraint << "] slides along " << spatial << " dimensions, expected 1 to 3";
  for (ArrayRef<int64_t> list : {strides, dilations, low, high})
    if (static_cast<int64_t>(list.size()) != spatial)
      return op->emitOpError("[") << constraint << "] has an attribute of " << list.size() << " numbers, expected "
                                  << spatial << ", one a spatial dimension";
  auto isPositive = [](int64_t value) { return value > 0; };
  auto isNotNegative = [](int64_t value) { return value >= 0; };
  if (!llvm::all_of(strides, isPositive) || !llvm::all_of(dilations, isPositive))
    return op->emitOpError("[") << constraint << "] has a stride or a dilation below 1";
  if (!llvm::all_of(low, isNotNegative) || !llvm::all_of(high, isNotNegative))
    return op->emitOpError("[") << constraint << "] has negative padding";
  return success();
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

namespace {
/// The tensors of the form, whichever of them an op computes.
struct ConvolutionForm {
  Value x, w, y;
};
} // namespace

static ConvolutionForm formOf(ConvolutionOp op) { return {op.getLhs(), op.getRhs(), op.getResult()}; }
static ConvolutionForm formOf(ConvolutionTransposeOp op) { return {op.getResult(), op.getRhs(), op.getLhs()}; }
static ConvolutionForm formOf(ConvolutionWeightOp op) { return {op.getLhs(), op.getResult(), op.getRhs()}; }

template <typename OpTy> static LogicalResult verifyConvolution(OpTy op) {
  ConvolutionForm form = formOf(op);
  RankedTensorType x = tensorTypeOf(form.x), w = tensorTypeOf(form.w), y = tensorTypeOf(form.y);
  int64_t spatial = x.getRank() - 2;
  if (w.getRank() != x.getRank() || y.getRank() != x.getRank() || x.getElementType() != w.getElementType() ||
      x.getElementType() != y.getElementType())
    return op.emitOpError("[convolution.ranks] has x ")
           << x << ", weights " << w << " and y " << y << ", expected (N,C,S…), (O,C/G,K…) and (N,O,P…) of one type";
  if (failed(verifyWindow(op, "convolution.ranks", spatial, op.getStrides(), op.getDilations(), op.getLow(),
                          op.getHigh())))
    return failure();
  int64_t groups = op.getGroups();
  bool divides = groups > 0 && x.getDimSize(1) % groups == 0 && w.getDimSize(0) % groups == 0;
  if (!divides || w.getDimSize(1) != x.getDimSize(1) / groups || y.getDimSize(1) != w.getDimSize(0) ||
      y.getDimSize(0) != x.getDimSize(0))
    return op.emitOpError("[convolution.channels] has x ")
           << x << ", weights " << w << " and y " << y << " in " << groups << " groups";
  for (int64_t d = 0; d < spatial; ++d) {
    std::optional<int64_t> positions = windowPositions(x.getDimSize(d + 2), w.getDimSize(d + 2), op.getStrides()[d],
                                                       op.getDilations()[d], op.getLow()[d], op.getHigh()[d]);
    if (!positions)
      return op.emitOpError("[convolution.positions] has a kernel of ")
             << w.getDimSize(d + 2) << " elements, " << op.getDilations()[d] << " apart, over " << x.getDimSize(d + 2)
             << " elements padded by " << op.getLow()[d] << " and " << op.getHigh()[d] << ": it does not fit once";
    if (*positions != y.getDimSize(d + 2))
      return op.emitOpError("[convolution.positions] has ")
             << y.getDimSize(d + 2) << " positions along spatial dimension " << d << ", expected " << *positions;
  }
  return success();
}

LogicalResult ConvolutionOp::verify() { return verifyConvolution(*this); }
LogicalResult ConvolutionTransposeOp::verify() { return verifyConvolution(*this); }
LogicalResult ConvolutionWeightOp::verify() { return verifyConvolution(*this); }

/// The samples and, in one group, both kinds of channels are free; one that the result lacks is summed. Windows reach
/// over to their neighbours, so that space stays whole.
template <typename OpTy> static ShardingRule convolutionRule(OpTy op) {
  ConvolutionForm form = formOf(op);
  ShardingRule rule;
  auto kindOf = [&](bool inResult) {
    return op.getGroups() > 1 ? FactorKind::replicated : inResult ? FactorKind::parallel : FactorKind::sum;
  };
  bool givesX = form.x == op.getResult(), givesW = form.w == op.getResult();
  int n = rule.addFactor(tensorTypeOf(form.x).getDimSize(0), givesW ? FactorKind::sum : FactorKind::parallel);
  int c = rule.addFactor(tensorTypeOf(form.x).getDimSize(1), kindOf(givesX || givesW));
  int o = rule.addFactor(tensorTypeOf(form.w).getDimSize(0), kindOf(!givesX));
  auto factorsOf = [&](Value tensor, int first, int second) {
    TensorFactors dims{{first}, {second}};
    for (int64_t size : tensorTypeOf(tensor).getShape().drop_front(2))
      dims.push_back({rule.addFactor(size, FactorKind::replicated)});
    return dims;
  };
  // Of several groups w has only a part of the channels: a factor of its own.
  int own = op.getGroups() > 1 ? rule.addFactor(tensorTypeOf(form.w).getDimSize(1), FactorKind::replicated) : c;
  TensorFactors x = factorsOf(form.x, n, c), w = factorsOf(form.w, o, own), y = factorsOf(form.y, n, o);
  // By place and not by value: one tensor may be both operands.
  rule.operands = {givesX ? y : x, givesW ? y : w};
  rule.results = {givesX ? x : givesW ? w : y};
  return rule;
}

ShardingRule ConvolutionOp::getShardingRule() { return convolutionRule(*this); }
ShardingRule ConvolutionTransposeOp::getShardingRule() { return convolutionRule(*this); }
ShardingRule ConvolutionWeightOp::getShardingRule() { return convolutionRule(*this); }

/// Each element of y is one chain of multiplications by C/G · K.
template <typename OpTy> static int64_t convolutionFlops(OpTy op) {
  ConvolutionForm form = formOf(op);
  RankedTensorType w = tensorTypeOf(form.w);
  int64_t outputs = std::max<int64_t>(w.getDimSize(0), 1);
  return 2 * tensorTypeOf(form.y).getNumElements() * (w.getNumElements() / outputs);
}
int64_t ConvolutionOp::getFlops() { return convolutionFlops(*this); }
int64_t ConvolutionTransposeOp::getFlops() { return convolutionFlops(*this); }
int64_t ConvolutionWeightOp::getFlops() { return convolutionFlops(*this); }

/// Builds the op of the form that gives `type` from two others.
template <typename OpTy, typename From>
static Value derive(OpBuilder &builder, From op, StringRef suffix, Type type, Value lhs, Value rhs) {
  return DerivedOps(builder, op, ".grad")
      .create<OpTy>(suffix, type, lhs, rhs, op.getStridesAttr(), op.getDilationsAttr(), op.getLowAttr(),
                    op.getHighAttr(), op.getGroupsAttr());
}

LogicalResult ConvolutionOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                           SmallVectorImpl<Value> &results) {
  results.assign(2, Value());
  Value dy = cotangents[0], x = getLhs(), w = getRhs();
  if (dy && wanted[0])
    results[0] = derive<ConvolutionTransposeOp>(builder, *this, ".lhs", x.getType(), dy, w);
  if (dy && wanted[1])
    results[1] = derive<ConvolutionWeightOp>(builder, *this, ".rhs", w.getType(), x, dy);
  return success();
}

LogicalResult ConvolutionTransposeOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents,
                                                    ArrayRef<bool> wanted, SmallVectorImpl<Value> &results) {
  results.assign(2, Value());
  Value dx = cotangents[0], y = getLhs(), w = getRhs();
  if (dx && wanted[0])
    results[0] = derive<ConvolutionOp>(builder, *this, ".lhs", y.getType(), dx, w);
  if (dx && wanted[1])
    results[1] = derive<ConvolutionWeightOp>(builder, *this, ".rhs", w.getType(), dx, y);
  return success();
}

LogicalResult ConvolutionWeightOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                                 SmallVectorImpl<Value> &results) {
  results.assign(2, Value());
  Value dw = cotangents[0], x = getLhs(), y = getRhs();
  if (dw && wanted[0])
    results[0] = derive<ConvolutionTransposeOp>(builder, *this, ".lhs", x.getType(), y, dw);
  if (dw && wanted[1])
    results[1] = derive<ConvolutionOp>(builder, *this, ".rhs", y.getType(), x, dw);
  return success();
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

LogicalResult MaxPoolOp::verify() {
  RankedTensorType x = tensorTypeOf(getX()), y = tensorTypeOf(getResult()), indices = tensorTypeOf(getIndices());
  int64_t spatial = x.getRank() - 2;
  if (failed(verifyWindow(*this, "max_pool.ranks", spatial, getStrides(), getDilations(), getLow(), getHigh())))
    return failure();
  if (static_cast<int64_t>(getWindow().size()) != spatial)
    return emitOpError("[max_pool.ranks] has a window of ")
           << getWindow().size() << " dimensions, expected " << spatial << ", one a spatial dimension";
  SmallVector<int64_t> shape(x.getShape().take_front(2));
  for (int64_t d = 0; d < spatial; ++d) {
    std::optional<int64_t> positions = windowPositions(x.getDimSize(d + 2), getWindow()[d], getStrides()[d],
                                                       getDilations()[d], getLow()[d], getHigh()[d]);
    if (!positions)
      return emitOpError("[max_pool.positions] has a window of ")
             << getWindow()[d] << " elements along spatial dimension " << d << " of " << x << ", where it does not fit";
    shape.push_back(*positions);
  }
  if (y != RankedTensorType::get(shape, x.getElementType()) || indices.getShape() != ArrayRef(shape) ||
      !indices.getElementType().isInteger(64))
    return emitOpError("[max_pool.positions] gives ")
           << y << " and " << indices << ", expected " << RankedTensorType::get(shape, x.getElementType())
           << " and i64 of that shape";
  return success();
}

/// Samples and channels are pooled alone.
ShardingRule MaxPoolOp::getShardingRule() {
  ShardingRule rule;
  int n = rule.addFactor(tensorTypeOf(getX()).getDimSize(0)), c = rule.addFactor(tensorTypeOf(getX()).getDimSize(1));
  TensorFactors x{{n}, {c}}, y{{n}, {c}};
  for (int64_t size : tensorTypeOf(getX()).getShape().drop_front(2))
    x.push_back({rule.addFactor(size, FactorKind::replicated)});
  for (int64_t size : tensorTypeOf(getResult()).getShape().drop_front(2))
    y.push_back({rule.addFactor(size, FactorKind::replicated)});
  rule.operands = {x};
  rule.results = {y, y};
  return rule;
}

LogicalResult MaxPoolOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                       SmallVectorImpl<Value> &results) {
  results.assign(1, Value());
  if (!cotangents[0] || !wanted[0])
    return success();
  DerivedOps b(builder, *this, ".grad");
  RankedTensorType x = tensorTypeOf(getX()), y = tensorTypeOf(getResult());
  auto flat = [](RankedTensorType type, Type element) {
    int64_t places = 1;
    for (int64_t size : type.getShape().drop_front(2))
      places *= size;
    return RankedTensorType::get({type.getDimSize(0), type.getDimSize(1), places}, element);
  };
  Value places = b.create<ReshapeOp>(".places", flat(y, builder.getI64Type()), getIndices());
  Value updates = b.create<ReshapeOp>(".updates", flat(y, y.getElementType()), cotangents[0]);
  Value sums = b.create<ScatterOp>(".sums", flat(x, x.getElementType()), ReductionKind::sum, places, updates,
                                   /*dim=*/2, /*batch=*/2);
  results[0] = b.create<ReshapeOp>("", x, sums);
  return success();
}
