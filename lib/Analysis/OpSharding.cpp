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
    for (int factor : factors)
      llvm::append_range(axes.back(), sharding.factorAxes[factor]);
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

ArrayAttr OpSharding::splitAttr(MLIRContext *context) const {
  if (llvm::all_of(factorAxes, [](const Axes &axes) { return axes.empty(); }))
    return {};
  SmallVector<Attribute> lists;
  for (const Axes &axes : factorAxes)
    lists.push_back(dist::AxisListAttr::get(context, axes));
  return ArrayAttr::get(context, lists);
}

void hyc::legalize(OpSharding &sharding, const ShardingRule &rule, dist::MeshOp mesh) {
  auto parts = [&](int factor) {
    return mesh.getSize(dist::AxisListAttr::get(mesh.getContext(), sharding.factorAxes[factor]));
  };
  auto dropMinor = [&](ArrayRef<TensorFactors> tensors) {
    for (const TensorFactors &dims : tensors)
      for (const DimFactors &factors : dims)
        for (size_t minor = 1; minor < factors.size(); ++minor) {
          int major = factors[minor - 1], factor = factors[minor];
          if (parts(major) != rule.factors[major].size || rule.factors[factor].size % parts(factor) != 0)
            sharding.factorAxes[factor].clear();
        }
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
  auto ruleOp = dyn_cast<ShardingRuleOpInterface>(op);
  unsigned summed = ruleOp ? ruleOp.getNumPartialOperands() : 0;
  if (summed == 0)
    return passed;
  operands = operands.take_front(summed);
  // Where others need an operand too, its sum is closed once for all of them.
  if (!llvm::all_of(op->getOperands(), [](Value operand) { return operand.hasOneUse(); }))
    return passed;
  // A sum of partial sums is partial only where all of its terms are: a whole term would be counted once a rank.
  auto splitsElements = [&](StringAttr axis) {
    return llvm::any_of(factorAxes, [&](const Axes &axes) { return llvm::is_contained(axes, axis); });
  };
  for (StringAttr axis : operands.front().getPartial().getAxes())
    if (!splitsElements(axis) &&
        llvm::all_of(operands, [&](ShardingAttr operand) { return operand.getPartial().contains(axis); }))
      for (Axes &axes : MutableArrayRef(passed).take_front(operands.size()))
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

FailureOr<OpSharding> hyc::recordedOpSharding(Operation *op, const ShardingRule &rule, dist::MeshOp mesh) {
  MLIRContext *context = op->getContext();
  OpSharding sharding;
  sharding.factorAxes.resize(rule.factors.size());
  sharding.passedPartial.resize(op->getNumOperands());
  if (auto split = op->getAttrOfType<ArrayAttr>(dist::kSplit)) {
    if (split.size() != rule.factors.size())
      return op->emitError("dist.split has ")
             << split.size() << " axis lists, expected " << rule.factors.size() << ", one a factor of " << rule.str();
    for (auto [axes, factor] : llvm::zip_equal(sharding.factorAxes, split.getAsRange<dist::AxisListAttr>()))
      axes = Axes(factor.getAxes());
  }
  OpSharding legal = sharding;
  legalize(legal, rule, mesh);
  if (legal.factorAxes != sharding.factorAxes) {
    InFlightDiagnostic error = op->emitError("dist.split is ") << op->getAttr(dist::kSplit) << ", but " << rule.str();
    if (ArrayAttr possible = legal.splitAttr(context))
      return error << " can only be split as " << possible;
    return error << " can't be split over these axes";
  }
  if (op->getNumResults() == 0)
    return sharding;
  ShardingAttr first = recordedSharding(op->getResult(0));
  if (!first)
    return op->emitError("has no dist.shardings");
  SmallVector<ShardingAttr> operands = llvm::map_to_vector(op->getOperands(), recordedSharding);
  // Of what the operands leave open the result may have kept some; the rest is closed before the op.
  sharding.passedPartial = passablePartial(op, operands, sharding.factorAxes);
  for (Axes &passed : sharding.passedPartial)
    llvm::erase_if(passed, [&](StringAttr axis) { return !first.getPartial().contains(axis); });
  for (auto [index, result] : llvm::enumerate(op->getResults()))
    if (ShardingAttr implied = sharding.resultSharding(context, rule, static_cast<int>(index));
        recordedSharding(result) != implied)
      return op->emitError("result ") << index << " has sharding " << recordedSharding(result)
                                      << ", but its split and its operands give " << implied;
  return sharding;
}
