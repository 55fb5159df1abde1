// MergeProducts: contributions to one gradient are grouped by what has to be alike; a group is merged where its last
// member stands, or behind the concatenation that it reads.
#include "Stacks.h"
#include "TrainingState.h"
#include "dialects/Hyc/DerivedOps.h"
#include "dialects/Hyc/EinsumLetters.h"
#include "hyc/Analysis/Layers.h"
#include "hyc/Analysis/Origin.h"
#include "hyc/Transforms/Train/Passes.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

namespace hyc {
#define GEN_PASS_DEF_MERGEPRODUCTS
#include "hyc/Transforms/Train/Passes.h.inc"
} // namespace hyc

namespace {
/// What contributions have to share: the gradient, the op with its attributes (but for the id) and types, the layer.
using Key = std::tuple<Attribute, StringRef, Attribute, SmallVector<Type>, size_t>;
using Group = SmallVector<AccumulateOp>; // in the order of the model: the step that comes first, first

/// Finds the layer of the model that a gradient op belongs to.
class LayersOfGradients {
public:
  explicit LayersOfGradients(FuncOp function) {
    DenseMap<Operation *, size_t> layerOf;
    for (auto [index, layer] : llvm::enumerate(findLayers(function)))
      for (Operation *op : layer)
        layerOf[op] = index;
    for (Operation &op : function.getBody().front()) {
      if (isBackward(&op) || getId(&op).empty())
        continue;
      // What depends on parameters alone, as a bias for all samples does, goes where it is used.
      SmallVector<Operation *> candidates{&op};
      llvm::append_range(candidates, op.getUsers());
      for (Operation *candidate : candidates)
        if (auto found = layerOf.find(candidate); found != layerOf.end()) {
          layerOfId[getId(&op)] = found->second;
          break;
        }
    }
  }

  std::optional<size_t> find(Operation *gradient) const { return findOfOrigin(getId(gradient), layerOfId); }

private:
  llvm::StringMap<size_t> layerOfId;
};

/// A product's spec in its parts.
struct Letters {
  std::string lhs, rhs, result;
};

class Merger {
public:
  Merger(FuncOp function) : function(function), ids(function), stacks(function, ids) {}

  /// Merges the groups of products, then those of sums that find their operands stacked. Returns how many ops became
  /// part of another.
  uint64_t run();

private:
  template <typename OpTy> llvm::MapVector<Key, Group> findGroups();
  bool mergeProducts(const Group &group);
  bool mergeSums(const Group &group);
  /// Puts `merged`, made by `build` at the builder's place, in the place of the group's contributions.
  void replace(const Group &group, Operation *merged, OpBuilder &builder);
  static Operation *producerOf(AccumulateOp accumulate) { return accumulate.getValue().getDefiningOp(); }

  FuncOp function;
  OpIds ids;
  Stacks stacks;
};
} // namespace

template <typename OpTy> llvm::MapVector<Key, Group> Merger::findGroups() {
  const LayersOfGradients layers(function);
  llvm::MapVector<Key, Group> groups;
  for (auto accumulate : function.getBody().front().getOps<AccumulateOp>()) {
    auto producer = accumulate.getValue().getDefiningOp<OpTy>();
    if (!producer || !producer->hasOneUse() || !isBackward(producer))
      continue;
    std::optional<size_t> layer = layers.find(producer);
    if (!layer)
      continue;
    NamedAttrList attributes(producer->getAttrDictionary());
    attributes.erase(kId);
    SmallVector<Type> types(producer->getOperandTypes());
    types.push_back(accumulate.getValue().getType());
    groups[{accumulate.getTargetAttr(), producer->getName().getStringRef(),
            attributes.getDictionary(function.getContext()), types, *layer}]
        .push_back(accumulate);
  }
  groups.remove_if([](auto &entry) { return entry.second.size() < 2; });
  for (auto &[key, group] : groups)
    std::reverse(group.begin(), group.end()); // backward runs the other way
  return groups;
}

/// The letters of a product without contracted ones of size 1; nothing if the result has a dimension of size 1.
static std::optional<Letters> lettersOf(EinsumOp op) {
  EinsumOp::Letters spec = op.getLetters();
  auto without = [](StringRef letters, Value value) {
    std::string kept;
    for (auto [letter, size] : llvm::zip_equal(letters, tensorTypeOf(value).getShape()))
      if (size != 1)
        kept += letter;
    return kept;
  };
  Letters letters{without(spec.lhs, op.getLhs()), without(spec.rhs, op.getRhs()), spec.result.str()};
  if (without(spec.result, op.getResult()) != letters.result)
    return std::nullopt;
  return letters;
}

void Merger::replace(const Group &group, Operation *merged, OpBuilder &builder) {
  AccumulateOp last = group.front(); // backward has come to the first step at last
  merged->setDiscardableAttrs(llvm::to_vector(producerOf(last)->getDiscardableAttrs())); // spec and dims are its own
  auto accumulate = AccumulateOp::create(builder, last.getLoc(), merged->getResult(0), last.getTargetAttr());
  accumulate->setAttrs(last->getAttrs());
  for (AccumulateOp contribution : group) {
    Operation *producer = producerOf(contribution);
    contribution.erase();
    producer->erase();
  }
}

bool Merger::mergeProducts(const Group &group) {
  auto first = cast<EinsumOp>(producerOf(group.front()));
  std::optional<Letters> letters = lettersOf(first);
  std::optional<char> step = letters ? unusedLetter(letters->lhs + letters->rhs + letters->result) : std::nullopt;
  const int64_t operands =
      tensorTypeOf(first.getLhs()).getNumElements() + tensorTypeOf(first.getRhs()).getNumElements();
  if (!step || 2 * operands > tensorTypeOf(first.getResult()).getNumElements())
    return false;
  SmallVector<Value> lhs, rhs;
  for (AccumulateOp contribution : group) {
    auto product = cast<EinsumOp>(producerOf(contribution));
    lhs.push_back(product.getLhs());
    rhs.push_back(product.getRhs());
  }
  // Any order will do, as long as both have it: the one in which either is side by side already.
  const bool isBackwards =
      !stacks.find(lhs) && !stacks.find(rhs) &&
      (stacks.find(llvm::to_vector(llvm::reverse(lhs))) || stacks.find(llvm::to_vector(llvm::reverse(rhs))));
  if (isBackwards) {
    std::reverse(lhs.begin(), lhs.end());
    std::reverse(rhs.begin(), rhs.end());
  }
  std::optional<Stack> stackedLhs = stacks.find(lhs), stackedRhs = stacks.find(rhs);
  Operation *last = group.front();
  for (const std::optional<Stack> &stack : {stackedLhs, stackedRhs})
    if (stack && last->isBeforeInBlock(stack->concat))
      last = stack->concat;
  OpBuilder builder(last->getContext());
  builder.setInsertionPointAfter(last);
  DerivedOps derived(builder, first, "");
  StackedValue left = stacks.read(lhs, stackedLhs, derived, ".lhs"),
               right = stacks.read(rhs, stackedRhs, derived, ".rhs");
  letters->lhs.insert(left.dim, 1, *step);
  letters->rhs.insert(right.dim, 1, *step);
  auto merged = EinsumOp::create(builder, first.getLoc(), letters->lhs + "," + letters->rhs + "->" + letters->result,
                                 left.value, right.value);
  replace(group, merged, builder);
  return true;
}

bool Merger::mergeSums(const Group &group) {
  auto first = cast<ReduceOp>(producerOf(group.front()));
  ArrayRef<int64_t> shape = tensorTypeOf(first.getOperand()).getShape();
  if (first.getKind() != ReductionKind::sum || llvm::is_contained(tensorTypeOf(first.getResult()).getShape(), 1))
    return false;
  SmallVector<Value> operands;
  for (AccumulateOp contribution : group)
    operands.push_back(producerOf(contribution)->getOperand(0));
  if (!stacks.find(operands))
    std::reverse(operands.begin(), operands.end());
  std::optional<Stack> stack = stacks.find(operands);
  if (!stack)
    return false;
  Operation *last = group.front();
  if (last->isBeforeInBlock(stack->concat))
    last = stack->concat;
  OpBuilder builder(last->getContext());
  builder.setInsertionPointAfter(last);
  DerivedOps derived(builder, first, "");
  StackedValue stacked = stacks.read(operands, stack, derived, ".operand");
  SmallVector<bool> isSummed;
  for (auto [dim, size] : llvm::enumerate(shape))
    if (size != 1)
      isSummed.push_back(llvm::is_contained(first.getDims(), static_cast<int64_t>(dim)));
  isSummed.insert(isSummed.begin() + stacked.dim, true);
  SmallVector<int64_t> dims;
  for (auto [dim, summed] : llvm::enumerate(isSummed))
    if (summed)
      dims.push_back(static_cast<int64_t>(dim));
  auto merged = ReduceOp::create(builder, first.getLoc(), ReductionKind::sum, stacked.value, dims);
  replace(group, merged, builder);
  return true;
}

uint64_t Merger::run() {
  uint64_t merged = 0;
  for (auto &[key, group] : findGroups<EinsumOp>())
    if (mergeProducts(group))
      merged += group.size() - 1;
  for (auto &[key, group] : findGroups<ReduceOp>())
    if (mergeSums(group))
      merged += group.size() - 1;
  return merged;
}

namespace {
struct MergeProducts : hyc::impl::MergeProductsBase<MergeProducts> {
  void runOnOperation() override {
    if (FuncOp function = findFunction(getOperation(), kMicrobatch, "run hyc-differentiate first"))
      mergedProducts += Merger(function).run();
    else
      signalPassFailure();
  }
};
} // namespace
