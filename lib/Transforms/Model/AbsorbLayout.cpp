// AbsorbLayout: everything here moves down, merges and transposes alike, until a contraction takes it in or its inverse
// meets it; so does padding, into the convolution that reads it. Nothing moves up, so that it ends.
#include "RepeatedHeads.h"
#include "RewriteFunctions.h"
#include "dialects/Hyc/EinsumLetters.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/ConstantEvaluation.h"
#include "hyc/Analysis/ReshapeGroups.h"
#include "hyc/Support/OpIds.h"
#include "hyc/Transforms/Model/Passes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace hyc;

namespace hyc {
#define GEN_PASS_DEF_ABSORBLAYOUT
#include "hyc/Transforms/Model/Passes.h.inc"
} // namespace hyc

namespace {
RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

RankedTensorType withShape(Value value, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, typeOf(value).getElementType());
}

/// A pattern that names the ops it creates.
template <typename OpTy> struct LayoutPattern : OpRewritePattern<OpTy> {
  LayoutPattern(MLIRContext *context, OpIds &ids) : OpRewritePattern<OpTy>(context), ids(ids) {}

  Value reshape(PatternRewriter &rewriter, Operation *cause, Value value, ArrayRef<int64_t> shape) const {
    if (typeOf(value).getShape() == shape)
      return value;
    auto op = ReshapeOp::create(rewriter, cause->getLoc(), withShape(value, shape), value);
    ids.assign(op, getIdPath(cause));
    return op;
  }

  Value transpose(PatternRewriter &rewriter, Operation *cause, Value value, ArrayRef<int64_t> permutation) const {
    auto op = TransposeOp::create(rewriter, cause->getLoc(), value, permutation);
    ids.assign(op, getIdPath(cause));
    return op;
  }

  OpIds &ids;
};

ReshapeGroups groupsOf(ReshapeOp op) {
  return groupReshape(typeOf(op.getOperand()).getShape(), typeOf(op.getResult()).getShape());
}

bool isEmpty(Value value) { return typeOf(value).getNumElements() == 0; }

int64_t countLarger(ArrayRef<int64_t> sizes) {
  return llvm::count_if(sizes, [](int64_t size) { return size > 1; });
}

/// Whether a reshape only merges dimensions, or only adds and removes ones of size 1. Repeated heads stay as they are
/// written, for hyc-raise-attention to find.
bool isSinkable(ReshapeOp op) {
  if (isEmpty(op.getOperand()) || findRepeatedDim(op))
    return false;
  ArrayRef<int64_t> to = typeOf(op.getResult()).getShape();
  return llvm::all_of(groupsOf(op), [&](const ReshapeGroup &group) {
    return countLarger(to.slice(group.toBegin, group.toCount())) <= 1;
  });
}

//===----------------------------------------------------------------------===//
// Through elementwise ops
//===----------------------------------------------------------------------===//

/// Where the dimensions of a broadcast go when the result is seen before a reshape; nothing if one is taken apart.
std::optional<SmallVector<int64_t>> unreshapeDims(ArrayRef<int64_t> dims, ReshapeOp op) {
  ArrayRef<int64_t> from = typeOf(op.getOperand()).getShape(), to = typeOf(op.getResult()).getShape();
  ReshapeGroups groups = groupsOf(op);
  SmallVector<int64_t> result;
  for (int64_t dim : dims) {
    for (const ReshapeGroup &group : groups) {
      if (dim < group.toBegin || dim >= group.toEnd)
        continue;
      for (int64_t source = group.fromBegin; source < group.fromEnd; ++source)
        if (from[source] == to[dim] && (from[source] > 1 || group.fromCount() == 1))
          result.push_back(source);
    }
    // Two of size 1 that come of one dimension have no place each.
    if (result.size() > 1 && result.back() <= result[result.size() - 2])
      return std::nullopt;
  }
  return result.size() == dims.size() ? std::optional(result) : std::nullopt;
}

std::optional<SmallVector<int64_t>> untransposeDims(ArrayRef<int64_t> dims, TransposeOp op) {
  SmallVector<int64_t> result;
  for (int64_t dim : dims) {
    result.push_back(op.getPermutation()[dim]);
    if (result.size() > 1 && result.back() <= result[result.size() - 2])
      return std::nullopt;
  }
  return result;
}

/// An elementwise op of one result, one of whose operands was moved: computes first, moves then. All other operands
/// must be free to take the earlier layout: moved in the same way, constant, or repeated.
struct SinkThroughElementwise : RewritePattern {
  SinkThroughElementwise(MLIRContext *context, OpIds &ids)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context), ids(ids) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!op->hasTrait<Elementwise>() || op->getNumResults() != 1)
      return failure();
    for (Value operand : op->getOperands()) {
      Operation *mover = operand.getDefiningOp();
      bool moves = isa_and_nonnull<TransposeOp>(mover);
      if (auto reshape = dyn_cast_or_null<ReshapeOp>(mover))
        moves = isSinkable(reshape);
      if (moves && succeeded(sink(op, mover, rewriter)))
        return success();
    }
    return failure();
  }

private:
  LogicalResult sink(Operation *op, Operation *mover, PatternRewriter &rewriter) const {
    ArrayRef<int64_t> shape = typeOf(mover->getOperand(0)).getShape();
    SmallVector<SmallVector<int64_t>> dims(op->getNumOperands());
    for (auto [index, operand] : llvm::enumerate(op->getOperands()))
      if (!isFree(operand, mover, dims[index]))
        return failure();
    IRMapping mapping;
    for (auto [index, operand] : llvm::enumerate(op->getOperands()))
      if (!mapping.contains(operand))
        mapping.map(operand, unmove(operand, mover, dims[index], shape, rewriter));
    Operation *early = rewriter.clone(*op, mapping);
    early->getResult(0).setType(withShape(op->getResult(0), shape));
    Operation *late;
    if (auto transpose = dyn_cast<TransposeOp>(mover))
      late = TransposeOp::create(rewriter, op->getLoc(), early->getResult(0), transpose.getPermutation());
    else
      late = ReshapeOp::create(rewriter, op->getLoc(), op->getResult(0).getType(), early->getResult(0));
    ids.assign(late, getIdPath(op));
    rewriter.replaceOp(op, late->getResults());
    return success();
  }

  bool isFree(Value operand, Operation *mover, SmallVector<int64_t> &dims) const {
    Operation *def = operand.getDefiningOp();
    if (!def)
      return false;
    if (def == mover)
      return true;
    auto transpose = dyn_cast<TransposeOp>(mover);
    if (auto constant = dyn_cast<ConstantOp>(def))
      return isa<SplatElementsAttr>(constant.getValue());
    if (isa<ReshapeOp>(def) && !transpose)
      return def->getOperand(0).getType() == withShape(operand, typeOf(mover->getOperand(0)).getShape());
    if (isa<TransposeOp>(def) && transpose)
      return cast<TransposeOp>(def).getPermutation() == transpose.getPermutation();
    auto broadcast = dyn_cast<BroadcastOp>(def);
    if (!broadcast)
      return false;
    auto earlier = transpose ? untransposeDims(broadcast.getDims(), transpose)
                             : unreshapeDims(broadcast.getDims(), cast<ReshapeOp>(mover));
    if (earlier)
      dims = *earlier;
    return earlier.has_value();
  }

  Value unmove(Value operand, Operation *mover, ArrayRef<int64_t> dims, ArrayRef<int64_t> shape,
               PatternRewriter &rewriter) const {
    Operation *def = operand.getDefiningOp();
    RankedTensorType type = withShape(operand, shape);
    if (auto constant = dyn_cast<ConstantOp>(def)) {
      auto value = cast<SplatElementsAttr>(constant.getValue()).resizeSplat(type);
      return ConstantOp::create(rewriter, def->getLoc(), type, value);
    }
    if (!isa<BroadcastOp>(def))
      return def->getOperand(0);
    auto broadcast = BroadcastOp::create(rewriter, def->getLoc(), type, def->getOperand(0), dims);
    ids.assign(broadcast, getIdPath(def));
    return broadcast;
  }

  OpIds &ids;
};

//===----------------------------------------------------------------------===//
// Through transposes and softmax
//===----------------------------------------------------------------------===//

/// transpose(merge(x)) -> merge(transpose(x))
struct SinkMergeThroughTranspose : LayoutPattern<TransposeOp> {
  using LayoutPattern::LayoutPattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    auto merge = op.getOperand().getDefiningOp<ReshapeOp>();
    if (!merge || isEmpty(merge.getOperand()) || findRepeatedDim(merge))
      return failure();
    ReshapeGroups groups = groupsOf(merge);
    if (!isMerge(groups) || groups.size() != op.getPermutation().size())
      return failure();
    SmallVector<int64_t> permutation;
    for (int64_t dim : op.getPermutation())
      for (int64_t source = groups[dim].fromBegin; source < groups[dim].fromEnd; ++source)
        permutation.push_back(source);
    Value turned = transpose(rewriter, op, merge.getOperand(), permutation);
    rewriter.replaceOp(op, reshape(rewriter, op, turned, typeOf(op.getResult()).getShape()));
    return success();
  }
};

/// softmax(merge(x)) -> merge(softmax(x)), where the last dimension is untouched.
struct SinkMergeThroughSoftmax : LayoutPattern<SoftmaxOp> {
  using LayoutPattern::LayoutPattern;
  LogicalResult matchAndRewrite(SoftmaxOp op, PatternRewriter &rewriter) const override {
    auto merge = op.getOperand().getDefiningOp<ReshapeOp>();
    if (!merge || isEmpty(merge.getOperand()) || !isMerge(groupsOf(merge)) || groupsOf(merge).back().fromCount() != 1)
      return failure();
    auto early = SoftmaxOp::create(rewriter, op.getLoc(), merge.getOperand());
    early->setAttrs(op->getAttrs());
    rewriter.replaceOp(op, reshape(rewriter, op, early, typeOf(op.getResult()).getShape()));
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Into einsum
//===----------------------------------------------------------------------===//

std::string makeSpec(StringRef lhs, StringRef rhs, StringRef result) { return (lhs + "," + rhs + "->" + result).str(); }

struct AbsorbOperandTranspose : LayoutPattern<EinsumOp> {
  using LayoutPattern::LayoutPattern;
  LogicalResult matchAndRewrite(EinsumOp op, PatternRewriter &rewriter) const override {
    std::string letters[2] = {op.getLetters().lhs.str(), op.getLetters().rhs.str()};
    bool changed = false;
    SmallVector<Value, 2> operands(op->getOperands());
    for (int side = 0; side < 2; ++side) {
      auto transpose = operands[side].getDefiningOp<TransposeOp>();
      if (!transpose)
        continue;
      std::string turned(letters[side].size(), ' ');
      for (auto [index, dim] : llvm::enumerate(transpose.getPermutation()))
        turned[dim] = letters[side][index];
      letters[side] = turned;
      operands[side] = transpose.getOperand();
      changed = true;
    }
    if (!changed)
      return failure();
    std::string spec = makeSpec(letters[0], letters[1], op.getLetters().result);
    rewriter.modifyOpInPlace(op, [&] {
      op.setSpec(spec);
      op->setOperands(operands);
    });
    return success();
  }
};

/// transpose(einsum(…)) -> einsum with its result in that order, where nobody else reads it.
struct AbsorbResultTranspose : LayoutPattern<TransposeOp> {
  using LayoutPattern::LayoutPattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    auto einsum = op.getOperand().getDefiningOp<EinsumOp>();
    if (!einsum || !einsum->hasOneUse())
      return failure();
    EinsumOp::Letters letters = einsum.getLetters();
    std::string result;
    for (int64_t dim : op.getPermutation())
      result += letters.result[dim];
    StringAttr spec = rewriter.getStringAttr(makeSpec(letters.lhs, letters.rhs, result));
    auto turned = EinsumOp::create(rewriter, einsum.getLoc(), spec, einsum.getLhs(), einsum.getRhs());
    copyId(einsum, turned);
    rewriter.replaceOp(op, turned);
    return success();
  }
};

/// einsum(x, broadcast(w)) -> einsum(x, w) without the letters of the dimensions that were added, where x has them and
/// the result keeps them: a linear layer over a transposed batch is exported as a product with a copy of its weight a
/// sample.
struct AbsorbOperandBroadcast : LayoutPattern<EinsumOp> {
  using LayoutPattern::LayoutPattern;
  LogicalResult matchAndRewrite(EinsumOp op, PatternRewriter &rewriter) const override {
    EinsumOp::Letters letters = op.getLetters();
    std::string own[2] = {letters.lhs.str(), letters.rhs.str()};
    for (int side = 0; side < 2; ++side) {
      auto broadcast = op->getOperand(side).getDefiningOp<BroadcastOp>();
      if (!broadcast)
        continue;
      std::string kept;
      SmallVector<int64_t> dims, shape;
      for (auto [dim, letter] : llvm::enumerate(own[side])) {
        const bool isAdded = !llvm::is_contained(broadcast.getDims(), static_cast<int64_t>(dim));
        if (isAdded && own[1 - side].find(letter) != std::string::npos && letters.result.contains(letter))
          continue;
        if (!isAdded)
          dims.push_back(static_cast<int64_t>(kept.size()));
        kept += letter;
        shape.push_back(typeOf(broadcast.getResult()).getDimSize(dim));
      }
      if (kept == own[side])
        continue;
      Value narrow = broadcast.getOperand();
      if (kept.size() > dims.size()) {
        auto rest = BroadcastOp::create(rewriter, broadcast.getLoc(), withShape(narrow, shape), narrow, dims);
        ids.assign(rest, getIdPath(broadcast));
        narrow = rest;
      }
      own[side] = kept;
      std::string spec = makeSpec(own[0], own[1], letters.result);
      rewriter.modifyOpInPlace(op, [&] {
        op.setSpec(spec);
        op->setOperand(side, narrow);
      });
      return success();
    }
    return failure();
  }
};

/// einsum(merge(x), y): each merged letter becomes the letters of its factors, everywhere.
struct AbsorbOperandMerge : LayoutPattern<EinsumOp> {
  using LayoutPattern::LayoutPattern;

  LogicalResult matchAndRewrite(EinsumOp op, PatternRewriter &rewriter) const override {
    for (int side = 0; side < 2; ++side) {
      auto merge = op->getOperand(side).getDefiningOp<ReshapeOp>();
      if (merge && !isEmpty(merge.getOperand()) && !findRepeatedDim(merge) &&
          succeeded(absorb(op, side, merge, rewriter)))
        return success();
    }
    return failure();
  }

private:
  /// The factors of a letter: new letters and their sizes.
  struct Factors {
    std::string letters;
    SmallVector<int64_t> sizes;
  };
  using FactorMap = llvm::SmallDenseMap<char, Factors>;

  LogicalResult absorb(EinsumOp op, int side, ReshapeOp merge, PatternRewriter &rewriter) const {
    EinsumOp::Letters letters = op.getLetters();
    StringRef own = side == 0 ? letters.lhs : letters.rhs;
    ArrayRef<int64_t> from = typeOf(merge.getOperand()).getShape();
    ReshapeGroups groups = groupsOf(merge);
    if (!isMerge(groups) || groups.size() != own.size())
      return failure();
    std::string used = op.getSpec().str();
    FactorMap factors;
    for (auto [group, letter] : llvm::zip(groups, own)) {
      ArrayRef<int64_t> sizes = from.slice(group.fromBegin, group.fromCount());
      // A batch of one sample is merged too, and is a dimension as any other.
      if (sizes.size() < 2)
        continue;
      Factors &entry = factors[letter];
      entry.letters = letter;
      entry.sizes.assign(sizes.begin(), sizes.end());
      while (entry.letters.size() < entry.sizes.size()) {
        std::optional<char> unused = unusedLetter(used);
        if (!unused)
          return failure();
        entry.letters += *unused, used += *unused;
      }
    }
    if (factors.empty())
      return failure();
    Value lhs = refine(op, op.getLhs(), letters.lhs, factors, rewriter);
    Value rhs = refine(op, op.getRhs(), letters.rhs, factors, rewriter);
    StringAttr spec = rewriter.getStringAttr(
        makeSpec(expand(letters.lhs, factors), expand(letters.rhs, factors), expand(letters.result, factors)));
    auto refined = EinsumOp::create(rewriter, op.getLoc(), spec, lhs, rhs);
    copyId(op, refined);
    rewriter.replaceOp(op, reshape(rewriter, op, refined, typeOf(op.getResult()).getShape()));
    return success();
  }

  static std::string expand(StringRef text, const FactorMap &factors) {
    std::string result;
    for (char letter : text) {
      auto found = factors.find(letter);
      result += found == factors.end() ? std::string(1, letter) : found->second.letters;
    }
    return result;
  }

  Value refine(EinsumOp op, Value operand, StringRef text, const FactorMap &factors, PatternRewriter &rewriter) const {
    SmallVector<int64_t> shape;
    for (auto [letter, size] : llvm::zip(text, typeOf(operand).getShape())) {
      auto found = factors.find(letter);
      if (found == factors.end())
        shape.push_back(size);
      else
        shape.append(found->second.sizes);
    }
    return reshape(rewriter, op, operand, shape);
  }
};

//===----------------------------------------------------------------------===//
// Into convolutions
//===----------------------------------------------------------------------===//

/// The part of a concatenation whose others are zeros, and how long those before it are; null where there is none.
std::pair<Value, int64_t> withoutZeros(ConcatOp concat) {
  std::pair<Value, int64_t> found;
  int64_t before = 0;
  for (Value part : concat.getParts()) {
    DenseElementsAttr constant;
    bool isZero = matchPattern(part, m_Constant(&constant)) && constant.isSplat() &&
                  constant.getSplatValue<APFloat>().isPosZero();
    if (!isZero && found.first)
      return {};
    if (!isZero)
      found = {part, before};
    before += typeOf(part).getDimSize(static_cast<int64_t>(concat.getDim()));
  }
  return found;
}

/// convolution(concat(0, x, 0)) along a spatial dimension -> convolution(x), padded by so much more
struct AbsorbPadding : OpRewritePattern<ConvolutionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConvolutionOp op, PatternRewriter &rewriter) const override {
    auto concat = op.getLhs().getDefiningOp<ConcatOp>();
    if (!concat || concat.getDim() < 2)
      return failure();
    auto type = typeOf(concat.getResult());
    if (!isa<FloatType>(type.getElementType()))
      return failure();
    auto [x, before] = withoutZeros(concat);
    if (!x)
      return failure();
    int64_t dim = static_cast<int64_t>(concat.getDim()), size = typeOf(x).getDimSize(dim);
    SmallVector<int64_t> low(op.getLow()), high(op.getHigh());
    low[dim - 2] += before;
    high[dim - 2] += type.getDimSize(dim) - before - size;
    rewriter.modifyOpInPlace(op, [&] {
      op.getLhsMutable().assign(x);
      op.setLow(low);
      op.setHigh(high);
    });
    return success();
  }
};

struct AbsorbLayout : hyc::impl::AbsorbLayoutBase<AbsorbLayout> {
  void runOnOperation() override {
    OpIds ids(getOperation());
    RewritePatternSet patterns(&getContext());
    patterns.add<SinkThroughElementwise, SinkMergeThroughTranspose, SinkMergeThroughSoftmax, AbsorbOperandBroadcast,
                 AbsorbOperandTranspose, AbsorbResultTranspose, AbsorbOperandMerge>(&getContext(), ids);
    patterns.add<AbsorbPadding>(&getContext());
    ReshapeOp::getCanonicalizationPatterns(patterns, &getContext());
    TransposeOp::getCanonicalizationPatterns(patterns, &getContext());
    if (failed(rewriteFunctions(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
