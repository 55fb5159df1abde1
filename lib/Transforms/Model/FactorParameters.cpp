// FactorParameters: splits move up, from where heads are first looked at to the parameters that make them. A split goes
// up only where all that is above it ends in parameters, so that none gets stuck half way.
#include "DeadOps.h"
#include "RewriteFunctions.h"
#include "dialects/Hyc/EinsumLetters.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/ReshapeGroups.h"
#include "hyc/Support/OpIds.h"
#include "hyc/Transforms/Model/Passes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace hyc;

namespace hyc {
#define GEN_PASS_DEF_FACTORPARAMETERS
#include "hyc/Transforms/Model/Passes.h.inc"
} // namespace hyc

namespace {
RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

RankedTensorType withShape(Value value, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, typeOf(value).getElementType());
}

/// For each dimension, the sizes that a split gives it.
using DimFactors = SmallVector<SmallVector<int64_t>>;

std::optional<DimFactors> splitOf(ReshapeOp op) {
  ArrayRef<int64_t> from = typeOf(op.getOperand()).getShape(), to = typeOf(op.getResult()).getShape();
  if (typeOf(op.getOperand()).getNumElements() == 0)
    return std::nullopt;
  ReshapeGroups groups = groupReshape(from, to);
  if (!isSplit(groups) || groups.size() != from.size())
    return std::nullopt;
  DimFactors factors;
  for (const ReshapeGroup &group : groups) {
    factors.emplace_back(to.slice(group.toBegin, group.toCount()));
    // A dimension that appears from nowhere is no factor; a batch of one sample stays what it is. One that is dropped
    // has none.
    if (group.toCount() == 0 || (group.toCount() > 1 && llvm::is_contained(factors.back(), 1)))
      return std::nullopt;
  }
  return factors;
}

SmallVector<int64_t> flatten(const DimFactors &factors) {
  SmallVector<int64_t> shape;
  for (const SmallVector<int64_t> &sizes : factors)
    shape.append(sizes);
  return shape;
}

/// Whether dimension `dim` of `value` can be split all the way up to parameters.
bool leadsToParameters(Value value, int64_t dim) {
  Operation *op = value.getDefiningOp();
  if (!op || !op->hasOneUse())
    return false;
  if (isa<ReadOp>(op))
    return true;
  if (auto constant = dyn_cast<ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue());
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    const auto *found = llvm::find(broadcast.getDims(), dim);
    return found == broadcast.getDims().end() ||
           leadsToParameters(broadcast.getOperand(), found - broadcast.getDims().begin());
  }
  if (auto einsum = dyn_cast<EinsumOp>(op)) {
    EinsumOp::Letters letters = einsum.getLetters();
    size_t lhs = letters.lhs.find(letters.result[dim]), rhs = letters.rhs.find(letters.result[dim]);
    return (lhs == StringRef::npos || leadsToParameters(einsum.getLhs(), lhs)) &&
           (rhs == StringRef::npos || leadsToParameters(einsum.getRhs(), rhs));
  }
  return op->hasTrait<Elementwise>() && op->getNumResults() == 1 &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return leadsToParameters(operand, dim); });
}

bool leadsToParameters(Value value, const DimFactors &factors) {
  for (auto [dim, sizes] : llvm::enumerate(factors))
    if (sizes.size() > 1 && !leadsToParameters(value, dim))
      return false;
  return true;
}

struct SplitPattern : OpRewritePattern<ReshapeOp> {
  SplitPattern(MLIRContext *context, OpIds &ids) : OpRewritePattern(context), ids(ids) {}

  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    Operation *def = op.getOperand().getDefiningOp();
    if (!def)
      return failure();
    std::optional<DimFactors> factors = splitOf(op);
    if (!factors || isa<ReadOp>(def) || !leadsToParameters(op.getOperand(), *factors))
      return failure();
    rewriter.setInsertionPoint(def);
    Value raised;
    if (auto einsum = dyn_cast<EinsumOp>(def))
      raised = raiseThrough(einsum, *factors, rewriter);
    else if (auto broadcast = dyn_cast<BroadcastOp>(def))
      raised = raiseThrough(broadcast, *factors, rewriter);
    else if (auto constant = dyn_cast<ConstantOp>(def))
      raised = ConstantOp::create(rewriter, def->getLoc(), op.getResult().getType(),
                                  cast<SplatElementsAttr>(constant.getValue()).resizeSplat(typeOf(op.getResult())));
    else
      raised = raiseThroughElementwise(def, flatten(*factors), rewriter);
    if (!raised)
      return failure();
    rewriter.replaceOp(op, raised);
    return success();
  }

private:
  Value split(Operation *cause, Value value, ArrayRef<int64_t> shape, PatternRewriter &rewriter) const {
    if (typeOf(value).getShape() == shape)
      return value;
    auto op = ReshapeOp::create(rewriter, cause->getLoc(), withShape(value, shape), value);
    ids.assign(op, getIdPath(cause));
    return op;
  }

  Value raiseThroughElementwise(Operation *op, ArrayRef<int64_t> shape, PatternRewriter &rewriter) const {
    IRMapping mapping;
    for (Value operand : op->getOperands())
      if (!mapping.contains(operand))
        mapping.map(operand, split(op, operand, shape, rewriter));
    Operation *raised = rewriter.clone(*op, mapping);
    raised->getResult(0).setType(withShape(op->getResult(0), shape));
    return raised->getResult(0);
  }

  Value raiseThrough(BroadcastOp op, const DimFactors &factors, PatternRewriter &rewriter) const {
    SmallVector<int64_t> shape, dims, first;
    for (int64_t dim = 0, next = 0; dim < static_cast<int64_t>(factors.size()); next += factors[dim++].size())
      first.push_back(next);
    for (int64_t dim : op.getDims())
      for (auto [index, size] : llvm::enumerate(factors[dim])) {
        shape.push_back(size);
        dims.push_back(first[dim] + static_cast<int64_t>(index));
      }
    Value operand = split(op, op.getOperand(), shape, rewriter);
    auto raised = BroadcastOp::create(rewriter, op.getLoc(), withShape(operand, flatten(factors)), operand, dims);
    copyId(op, raised);
    return raised;
  }

  Value raiseThrough(EinsumOp op, const DimFactors &factors, PatternRewriter &rewriter) const {
    EinsumOp::Letters letters = op.getLetters();
    std::string used = op.getSpec().str(), spec;
    llvm::SmallDenseMap<char, std::string> names;
    llvm::SmallDenseMap<char, ArrayRef<int64_t>> sizes;
    for (auto [letter, list] : llvm::zip(letters.result, factors)) {
      std::string &name = names[letter];
      name = letter;
      sizes[letter] = list;
      while (name.size() < list.size()) {
        std::optional<char> unused = unusedLetter(used);
        if (!unused)
          return {};
        name += *unused, used += *unused;
      }
    }
    SmallVector<Value, 2> operands;
    for (auto [text, operand] : {std::pair{letters.lhs, op.getLhs()}, std::pair{letters.rhs, op.getRhs()}}) {
      SmallVector<int64_t> shape;
      for (auto [letter, size] : llvm::zip(text, typeOf(operand).getShape())) {
        spec += names.count(letter) ? names[letter] : std::string(1, letter);
        if (sizes.count(letter))
          llvm::append_range(shape, sizes[letter]);
        else
          shape.push_back(size);
      }
      spec += operands.empty() ? "," : "->";
      operands.push_back(split(op, operand, shape, rewriter));
    }
    for (char letter : letters.result)
      spec += names[letter];
    auto raised = EinsumOp::create(rewriter, op.getLoc(), rewriter.getStringAttr(spec), operands[0], operands[1]);
    copyId(op, raised);
    return raised;
  }

  OpIds &ids;
};

/// split along a dimension, then the same reshape of every part: reshapes first, to (parts, factors…), splits then.
struct RaiseThroughSplit : OpRewritePattern<SplitOp> {
  RaiseThroughSplit(MLIRContext *context, OpIds &ids) : OpRewritePattern(context), ids(ids) {}

  LogicalResult matchAndRewrite(SplitOp op, PatternRewriter &rewriter) const override {
    std::optional<DimFactors> factors;
    SmallVector<ReshapeOp> reshapes;
    for (Value part : op.getParts()) {
      if (part.getType() != op.getParts().front().getType())
        return failure();
      for (Operation *user : part.getUsers()) {
        auto reshape = dyn_cast<ReshapeOp>(user);
        std::optional<DimFactors> own = reshape ? splitOf(reshape) : std::nullopt;
        if (!own || (factors && *own != *factors))
          return failure();
        factors = own;
        reshapes.push_back(reshape);
      }
    }
    int64_t dim = op.getDim(), count = op.getNumResults();
    if (!factors || (*factors)[dim].size() < 2)
      return failure();
    DimFactors whole = *factors, one = *factors;
    whole[dim].insert(whole[dim].begin(), count);
    one[dim].insert(one[dim].begin(), 1);
    if (!leadsToParameters(op.getOperand(), whole))
      return failure();
    int64_t newDim = 0;
    for (int64_t before = 0; before < dim; ++before)
      newDim += static_cast<int64_t>(whole[before].size());
    auto refined =
        ReshapeOp::create(rewriter, op.getLoc(), withShape(op.getOperand(), flatten(whole)), op.getOperand());
    ids.assign(refined, getIdPath(op));
    SmallVector<Type> types(count, withShape(op.getOperand(), flatten(one)));
    auto parts = SplitOp::create(rewriter, op.getLoc(), types, refined, rewriter.getI64IntegerAttr(newDim));
    copyId(op, parts);
    for (ReshapeOp reshape : reshapes) {
      unsigned index = cast<OpResult>(reshape.getOperand()).getResultNumber();
      rewriter.modifyOpInPlace(reshape, [&] { reshape.getOperandMutable().assign(parts.getResult(index)); });
    }
    rewriter.eraseOp(op);
    return success();
  }

  OpIds &ids;
};

/// Gives each parameter the type under which all of its readers want it.
void retypeParameters(ModuleOp module) {
  SymbolTable symbols(module);
  llvm::MapVector<StringRef, SmallVector<ReadOp>> readsOf;
  for (auto function : module.getOps<FuncOp>()) // not those of a module inside, which declares its own
    function.walk([&](ReadOp op) { readsOf[op.getSource()].push_back(op); });
  for (auto &[name, reads] : readsOf) {
    auto param = symbols.lookup<ParamOp>(name);
    RankedTensorType wanted;
    bool agreed = param != nullptr;
    SmallVector<ReshapeOp> reshapes;
    for (ReadOp read : reads)
      for (Operation *user : read->getUsers()) {
        auto reshape = dyn_cast<ReshapeOp>(user);
        agreed &= reshape && splitOf(reshape) && (!wanted || wanted == reshape.getResult().getType());
        if (agreed)
          wanted = typeOf(reshape.getResult()), reshapes.push_back(reshape);
      }
    if (!agreed || !wanted)
      continue;
    param.setShapeAttr(DenseI64ArrayAttr::get(module.getContext(), param.getLogicalShape()));
    param.setTypeAttr(TypeAttr::get(wanted));
    for (ReadOp read : reads)
      read.getResult().setType(wanted);
    for (ReshapeOp reshape : reshapes) {
      reshape.getResult().replaceAllUsesWith(reshape.getOperand());
      reshape.erase();
    }
  }
}

struct FactorParameters : hyc::impl::FactorParametersBase<FactorParameters> {
  void runOnOperation() override {
    OpIds ids(getOperation());
    RewritePatternSet patterns(&getContext());
    patterns.add<SplitPattern, RaiseThroughSplit>(&getContext(), ids);
    ReshapeOp::getCanonicalizationPatterns(patterns, &getContext());
    if (failed(rewriteFunctions(getOperation(), std::move(patterns))))
      return signalPassFailure();
    retypeParameters(getOperation());
    eraseDeadOps(getOperation());
  }
};
} // namespace
