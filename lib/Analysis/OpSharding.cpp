// The split of one op: from factors to operands and results, and back from what phase 3 recorded.
#include "hyc/Analysis/OpSharding.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace hyc;
using dist::ShardingAttr;

static SmallVector<SmallVector<StringAttr>> dimAxes(const OpSharding &sharding, const TensorFactors &dims) {
  SmallVector<SmallVector<StringAttr>> axes;
  for (const DimFactors &factors : dims) {
    axes.emplace_back();
    if (!factors.empty())
      llvm::append_range(axes.back(), sharding.factorAxes[factors.front()]);
  }
  return axes;
}

ShardingAttr OpSharding::operandSharding(MLIRContext *context, const ShardingRule &rule, int index) const {
  return ShardingAttr::get(context, dimAxes(*this, rule.operands[index]), passedPartial[index]);
}

ShardingAttr OpSharding::resultSharding(MLIRContext *context, const ShardingRule &rule, int index) const {
  SmallVector<StringAttr> partial, partialMax;
  for (auto [factor, axes] : llvm::enumerate(factorAxes)) {
    bool present = llvm::any_of(rule.results[index], [&](const DimFactors &factors) {
      return llvm::is_contained(factors, static_cast<int>(factor));
    });
    if (!present && rule.factors[factor].kind != FactorKind::exchanged)
      llvm::append_range(rule.factors[factor].kind == FactorKind::max ? partialMax : partial, axes);
  }
  for (const Axes &axes : passedPartial)
    for (StringAttr axis : axes)
      if (!llvm::is_contained(partial, axis))
        partial.push_back(axis);
  return ShardingAttr::get(context, dimAxes(*this, rule.results[index]), partial, partialMax);
}

void hyc::legalize(OpSharding &sharding, const ShardingRule &rule) {
  auto dropMinor = [&](ArrayRef<TensorFactors> tensors) {
    for (const TensorFactors &dims : tensors)
      for (const DimFactors &factors : dims)
        for (int factor : ArrayRef(factors).drop_front(factors.empty() ? 0 : 1))
          sharding.factorAxes[factor].clear();
  };
  dropMinor(rule.operands);
  dropMinor(rule.results);
  SmallVector<StringAttr> used;
  for (auto [axes, factor] : llvm::zip_equal(sharding.factorAxes, rule.factors)) {
    if (factor.kind == FactorKind::replicated)
      axes.clear();
    llvm::erase_if(axes, [&](StringAttr axis) { return llvm::is_contained(used, axis); });
    llvm::append_range(used, axes);
  }
}

SmallVector<Axes, 3> hyc::passablePartial(Operation *op, ArrayRef<ShardingAttr> operands, ArrayRef<Axes> factorAxes) {
  SmallVector<Axes, 3> passed(op->getNumOperands());
  bool unary = isa<NegOp, ReshapeOp, TransposeOp, BroadcastOp, SliceOp, PadOp, SplitOp>(op);
  if (auto reduce = dyn_cast<ReduceOp>(op))
    unary = reduce.getKind() == ReductionKind::sum;
  if (!unary && !isa<AddOp, SubOp, ConcatOp>(op))
    return passed;
  // Where others need an operand too, its sum is closed once for all of them.
  if (!llvm::all_of(op->getOperands(), [](Value operand) { return operand.hasOneUse(); }))
    return passed;
  // A sum of partial sums is partial only where all of its terms are: a whole term would be counted once a rank.
  auto splitsElements = [&](StringAttr axis) {
    return llvm::any_of(factorAxes, [&](const Axes &axes) { return llvm::is_contained(axes, axis); });
  };
  for (StringAttr axis : operands.front().getPartial().getAxes())
    if (!splitsElements(axis) && llvm::all_of(operands, [&](ShardingAttr operand) { return operand.getPartial().contains(axis); }))
      for (Axes &axes : passed)
        axes.push_back(axis);
  return passed;
}

ShardingAttr hyc::recordedSharding(Value value) {
  if (auto result = dyn_cast<OpResult>(value)) {
    auto shardings = result.getOwner()->getAttrOfType<ArrayAttr>(dist::kShardings);
    return shardings ? cast<ShardingAttr>(shardings[result.getResultNumber()]) : ShardingAttr();
  }
  auto argument = cast<BlockArgument>(value);
  auto func = cast<FuncOp>(argument.getOwner()->getParentOp());
  return func.getArgAttrOfType<ShardingAttr>(argument.getArgNumber(), dist::kSharding);
}

OpSharding hyc::recordedOpSharding(Operation *op, const ShardingRule &rule) {
  OpSharding sharding;
  sharding.factorAxes.resize(rule.factors.size());
  SmallVector<ShardingAttr> operands = llvm::map_to_vector(op->getOperands(), recordedSharding);
  SmallVector<StringAttr> open;
  for (auto [result, dims] : llvm::zip_equal(op->getResults(), rule.results)) {
    ShardingAttr recorded = recordedSharding(result);
    for (auto [axes, factors] : llvm::zip_equal(recorded.getDims(), dims))
      if (!factors.empty())
        sharding.factorAxes[factors.front()] = Axes(axes.getAxes());
    llvm::append_range(open, recorded.getPartial().getAxes());
    llvm::append_range(open, recorded.getPartialMax().getAxes());
  }
  // A contracted factor is split as some operand already is, over axes that the results leave open.
  auto contracted = [&](int factor) {
    return llvm::any_of(rule.results, [&](const TensorFactors &dims) {
      return llvm::none_of(dims, [&](const DimFactors &factors) { return llvm::is_contained(factors, factor); });
    });
  };
  for (auto [operand, dims] : llvm::zip_equal(operands, rule.operands))
    for (auto [axes, factors] : llvm::zip_equal(operand.getDims(), dims)) {
      if (factors.empty() || !contracted(factors.front()))
        continue;
      Axes &split = sharding.factorAxes[factors.front()];
      bool exchanged = rule.factors[factors.front()].kind == FactorKind::exchanged;
      for (StringAttr axis : axes.getAxes())
        if ((exchanged || llvm::is_contained(open, axis)) && !llvm::is_contained(split, axis))
          split.push_back(axis);
    }
  legalize(sharding, rule);
  sharding.passedPartial = passablePartial(op, operands, sharding.factorAxes);
  return sharding;
}
