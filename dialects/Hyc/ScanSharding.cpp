// How a scan may be split: along every index that goes through its steps untouched. What a step contracts, cuts or
// joins stays whole, since no step can wait for other ranks.
#include "dialects/Hyc/DerivedOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace hyc;

namespace {
/// The indices of a body: which dimensions of its values are one, and which of these may be split.
class StepIndices {
public:
  explicit StepIndices(ScanOp scan);

  /// The index of a dimension, as a number below count().
  int indexOf(Value value, int64_t dim) const { return find(nodes.lookup({value, dim})); }
  int count() const { return static_cast<int>(parent.size()); }
  bool isWhole(int index) const { return facts[index].isWhole; }
  /// Whether zeros at the end of it stay zeros.
  bool keepsZeros(int index) const { return facts[index].keepsZeros; }

private:
  struct Facts {
    int64_t size;
    bool isWhole = false, keepsZeros = true;
  };

  void add(Value value) {
    for (auto [dim, size] : llvm::enumerate(tensorTypeOf(value).getShape())) {
      nodes[{value, static_cast<int64_t>(dim)}] = count();
      parent.push_back(count());
      facts.push_back({size});
    }
  }
  void add(Operation *op);
  void keepWhole(ValueRange values) {
    for (Value value : values)
      for (int64_t dim = 0; dim < tensorTypeOf(value).getRank(); ++dim)
        facts[indexOf(value, dim)].isWhole = true;
  }
  int find(int node) const {
    while (parent[node] != node)
      node = parent[node];
    return node;
  }
  void unite(int a, int b);

  llvm::DenseMap<std::pair<Value, int64_t>, int> nodes;
  std::vector<int> parent;
  std::vector<Facts> facts; ///< of the roots
};

StepIndices::StepIndices(ScanOp scan) {
  for (BlockArgument argument : scan.getStep().getArguments())
    add(argument);
  for (Operation &op : scan.getStep().without_terminator()) {
    for (Value result : op.getResults())
      add(result);
    add(&op);
  }
  for (auto [argument, next] : llvm::zip(scan.getCarriedArguments(), scan.getYielded()))
    for (int64_t dim = 0; dim < tensorTypeOf(next).getRank(); ++dim)
      unite(indexOf(argument, dim), indexOf(next, dim));
  // Splitting what stands on two dimensions of one value would leave blocks of its diagonal.
  for (auto &[place, node] : nodes)
    for (int64_t dim = 0; dim < place.second; ++dim)
      if (int index = find(node); indexOf(place.first, dim) == index)
        facts[index].isWhole = true;
}

/// Dimensions of two sizes are never one index that can be split.
void StepIndices::unite(int a, int b) {
  a = find(a), b = find(b);
  if (a == b)
    return;
  if (b < a)
    std::swap(a, b);
  parent[b] = a;
  facts[a].isWhole |= facts[b].isWhole || facts[a].size != facts[b].size;
  facts[a].keepsZeros &= facts[b].keepsZeros;
}

void StepIndices::add(Operation *op) {
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  // What must know its place among the ranks is not told it inside of a step.
  if (!ruled || (isa<LocalFormOpInterface>(op) && !isa<ConstantOp>(op))) {
    keepWhole(op->getOperands());
    return keepWhole(op->getResults());
  }
  ShardingRule rule = ruled.getShardingRule();
  std::vector<int> first(rule.factors.size(), -1);
  std::vector<bool> stays(rule.factors.size(), true); // whole
  for (auto [factor, facts] : llvm::enumerate(rule.factors)) {
    const int number = static_cast<int>(factor);
    stays[factor] = facts.kind != FactorKind::parallel ||
                    !llvm::all_of(rule.results, [&](const TensorFactors &dims) { return hasFactor(dims, number); });
  }
  auto link = [&](Value value, const TensorFactors &dims) {
    for (auto [dim, factors] : llvm::enumerate(dims)) {
      int self = indexOf(value, static_cast<int64_t>(dim));
      if (factors.size() > 1)
        facts[self].isWhole = true;
      for (int factor : factors) {
        stays[factor] = stays[factor] || factors.size() > 1;
        if (first[factor] >= 0 && factors.size() == 1)
          unite(first[factor], self);
        if (factors.size() == 1)
          first[factor] = self;
      }
    }
  };
  for (auto [value, dims] : llvm::zip_equal(op->getOperands(), rule.operands))
    link(value, dims);
  for (auto [value, dims] : llvm::zip_equal(op->getResults(), rule.results))
    link(value, dims);
  for (auto [factor, node] : llvm::enumerate(first))
    if (node >= 0) {
      Facts &known = facts[find(node)];
      known.isWhole |= stays[factor];
      known.keepsZeros &= ruled.preservesZeros(rule, static_cast<int>(factor));
    }
}

/// Visits every dimension that goes in or out: the operand or result, its dimension, and the value of the body and the
/// dimension of it that it is there. The dimension of the steps, which is none there, is left out.
template <typename Visit> void forEachOutside(ScanOp scan, Visit visit) {
  auto visitDims = [&](bool isResult, size_t index, int64_t shift, Value inside) {
    for (int64_t dim = 0; dim < tensorTypeOf(inside).getRank(); ++dim)
      visit(isResult, index, dim + shift, inside, dim);
  };
  const size_t carried = scan.countCarried(), sequences = scan.getSequences().size();
  for (auto [index, argument] : llvm::enumerate(scan.getStep().getArguments()))
    visitDims(false, index, index >= carried && index < carried + sequences ? 1 : 0, argument);
  for (auto [index, value] : llvm::enumerate(scan.getYielded()))
    visitDims(true, index, index >= carried ? 1 : 0, value);
}

/// The rule, and which index of the body each factor but the first is.
std::pair<ShardingRule, SmallVector<int>> ruleOf(ScanOp scan, const StepIndices &indices) {
  ShardingRule rule;
  SmallVector<int> indexOf{-1};
  llvm::DenseMap<int, int> factorOf;
  const int steps = rule.addFactor(static_cast<int64_t>(scan.getSteps()), FactorKind::replicated);
  for (Value value : scan->getOperands())
    rule.operands.push_back(TensorFactors(tensorTypeOf(value).getRank(), {steps}));
  for (Value value : scan->getResults())
    rule.results.push_back(TensorFactors(tensorTypeOf(value).getRank(), {steps}));
  forEachOutside(scan, [&](bool isResult, size_t index, int64_t dim, Value inside, int64_t insideDim) {
    int own = indices.indexOf(inside, insideDim);
    auto [entry, inserted] = factorOf.try_emplace(own, 0);
    if (inserted) {
      entry->second = rule.addFactor(tensorTypeOf(inside).getDimSize(insideDim),
                                     indices.isWhole(own) ? FactorKind::replicated : FactorKind::parallel);
      indexOf.push_back(own);
    }
    (isResult ? rule.results[index] : rule.operands[index])[dim] = {entry->second};
  });
  // What a result lacks would be a sum of it over ranks.
  for (int number = 0, count = static_cast<int>(rule.factors.size()); number < count; ++number)
    if (!llvm::all_of(rule.results, [&](const TensorFactors &dims) { return hasFactor(dims, number); }))
      rule.factors[number].kind = FactorKind::replicated;
  return {rule, indexOf};
}
} // namespace

ShardingRule ScanOp::getShardingRule() { return ruleOf(*this, StepIndices(*this)).first; }

bool ScanOp::preservesZeros(const ShardingRule &, int factor) {
  StepIndices indices(*this);
  int index = ruleOf(*this, indices).second[factor];
  return index >= 0 && indices.keepsZeros(index);
}

void ScanOp::addPlace(LocalPart &, SmallVectorImpl<Value> &, NamedAttrList &) {}

/// The same steps over what this rank has of each index.
void ScanOp::buildLocal(LocalPart &part, ValueRange operands, SmallVectorImpl<Value> &results) {
  StepIndices indices(*this);
  llvm::DenseMap<int, int64_t> sizes;
  forEachOutside(*this, [&](bool isResult, size_t index, int64_t dim, Value inside, int64_t insideDim) {
    RankedTensorType local = isResult ? part.typeOf(getResult(index)) : tensorTypeOf(operands[index]);
    sizes[indices.indexOf(inside, insideDim)] = local.getDimSize(dim);
  });
  auto localType = [&](Value value) {
    RankedTensorType whole = tensorTypeOf(value);
    SmallVector<int64_t> shape(whole.getShape());
    for (auto [dim, size] : llvm::enumerate(shape))
      if (auto known = sizes.find(indices.indexOf(value, static_cast<int64_t>(dim))); known != sizes.end())
        size = known->second;
    return RankedTensorType::get(shape, whole.getElementType());
  };
  auto step = std::make_unique<Block>();
  IRMapping mapping;
  for (BlockArgument argument : getStep().getArguments())
    mapping.map(argument, step->addArgument(localType(argument), argument.getLoc()));
  OpBuilder inside(getContext());
  inside.setInsertionPointToEnd(step.get());
  for (Operation &op : getStep()) {
    Operation *made = inside.clone(op, mapping);
    for (auto [whole, local] : llvm::zip_equal(op.getResults(), made->getResults()))
      local.setType(localType(whole));
    if (auto constant = dyn_cast<ConstantOp>(made); constant && constant.getValue().getType() != constant.getType())
      constant.setValueAttr(
          cast<DenseElementsAttr>(constant.getValue()).resizeSplat(cast<ShapedType>(constant.getType())));
  }
  const size_t carried = countCarried(), sequences = getSequences().size();
  auto made =
      ofStep(part.builder(), getLoc(), static_cast<int64_t>(getSteps()), getReverse(), operands.take_front(carried),
             operands.slice(carried, sequences), operands.drop_front(carried + sequences), std::move(step));
  part.mark(made, "");
  llvm::append_range(results, made.getResults());
}
