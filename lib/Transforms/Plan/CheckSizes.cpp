// CheckSizes: modules of several sizes share their states, and their samples tell how long they are.
#include "dialects/Dist/DistDialect.h"
#include "dialects/Dist/Placement.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Transforms/Plan/Passes.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

namespace hyc {
#define GEN_PASS_DEF_CHECKSIZES
#include "hyc/Transforms/Plan/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

/// What decides where a state lies, and which part of it a rank holds.
constexpr StringLiteral kLayout[] = {dist::kSharding, dist::kStages, dist::kPlacement, dist::kOwned, dist::kReduction};

std::string spell(ModelSize size) { return size.dim.str() + "=" + std::to_string(size.size); }

Attribute typeOf(Operation *symbol) {
  auto param = dyn_cast<ParamOp>(symbol);
  return TypeAttr::get(param ? param.getTensorType() : cast<StateOp>(symbol).getTensorType());
}

/// Whether what a label counts depends on nothing that comes after it in the dimension of the sizes. The forward ops of
/// both sizes are compared: what differs is that dimension, and by an op's sharding rule it is seen whether its places
/// are computed apart from one another.
class BackwardLook {
public:
  BackwardLook(FuncOp whole, FuncOp part) : whole(whole) {
    for (Operation &op : part.getBody().front())
      if (!getId(&op).empty())
        ofPart[getId(&op)] = &op;
  }

  /// The id of an op, on the way from the inputs to the logits, that joins places; empty where none does but causal
  /// attention.
  std::string findJoining() {
    llvm::DenseSet<Value> fromInputs;
    fromInputs.insert_range(whole.getArguments());
    llvm::SetVector<Operation *> wanted;
    for (auto loss : whole.getBody().front().getOps<CrossEntropyOp>())
      if (Operation *logits = loss.getLogits().getDefiningOp())
        wanted.insert(logits);
    for (size_t i = 0; i < wanted.size(); ++i)
      for (Value operand : wanted[i]->getOperands())
        if (Operation *def = operand.getDefiningOp())
          wanted.insert(def);
    for (Operation &op : whole.getBody().front()) {
      if (llvm::none_of(op.getOperands(), [&](Value operand) { return fromInputs.contains(operand); }))
        continue;
      fromInputs.insert_range(op.getResults());
      if (wanted.contains(&op) && joins(&op))
        return getId(&op).str();
    }
    return "";
  }

private:
  bool joins(Operation *op) {
    Operation *other = ofPart.lookup(getId(op));
    if (!other || other->getName() != op->getName() || other->getNumOperands() != op->getNumOperands())
      return true;
    if (llvm::equal(op->getOperandTypes(), other->getOperandTypes()))
      return false; // nothing of the dimension is read
    if (auto attention = dyn_cast<AttentionOp>(op))
      return !attention.getCausal();
    if (auto slice = dyn_cast<SliceOp>(op))
      return !keepsBeginning(slice, other);
    auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
    auto otherRuled = dyn_cast<ShardingRuleOpInterface>(other);
    if (!ruled || !otherRuled)
      return true;
    ShardingRule rule = ruled.getShardingRule(), otherRule = otherRuled.getShardingRule();
    if (rule.factors.size() != otherRule.factors.size())
      return true;
    for (size_t i = 0; i < rule.factors.size(); ++i)
      if (rule.factors[i].size != otherRule.factors[i].size && !isApart(rule, static_cast<int>(i)))
        return true;
    return false;
  }

  /// Whether every result has the factor, and no two of its places meet.
  static bool isApart(const ShardingRule &rule, int factor) {
    return rule.factors[factor].kind == FactorKind::parallel && countsPlaces(rule, factor) &&
           llvm::all_of(rule.results, [&](const TensorFactors &result) {
             return llvm::any_of(result, [&](const DimFactors &dim) { return llvm::is_contained(dim, factor); });
           });
  }

  /// Whether the factor counts places of a sample: nothing stands before it in its dimension but samples. Behind
  /// another, as of a sequence that is cut into four, which places it joins depends on the size.
  static bool countsPlaces(const ShardingRule &rule, int factor) {
    DimFactors samples;
    for (ArrayRef<TensorFactors> tensors : {ArrayRef(rule.operands), ArrayRef(rule.results)})
      for (const TensorFactors &tensor : tensors)
        if (!tensor.empty() && tensor.front().size() == 1)
          samples.push_back(tensor.front().front());
    auto isAlone = [&](const DimFactors &dim) {
      return llvm::all_of(llvm::make_range(dim.begin(), llvm::find(dim, factor)),
                          [&](int before) { return llvm::is_contained(samples, before); });
    };
    for (ArrayRef<TensorFactors> tensors : {ArrayRef(rule.operands), ArrayRef(rule.results)})
      for (const TensorFactors &tensor : tensors)
        for (const DimFactors &dim : tensor)
          if (llvm::is_contained(dim, factor) && !isAlone(dim))
            return false;
    return true;
  }

  /// Whether place i of the result is place i of the operand, in dimensions that differ.
  static bool keepsBeginning(SliceOp slice, Operation *other) {
    auto type = cast<RankedTensorType>(slice->getOperand(0).getType());
    auto otherType = cast<RankedTensorType>(other->getOperand(0).getType());
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      if (type.getDimSize(dim) != otherType.getDimSize(dim) &&
          (slice.getOffsets()[dim] != 0 || slice.getStrides()[dim] != 1))
        return false;
    return true;
  }

  FuncOp whole;
  llvm::StringMap<Operation *> ofPart;
};

struct CheckSizes : hyc::impl::CheckSizesBase<CheckSizes> {
  void runOnOperation() override {
    largest = getOperation();
    markAllAnalysesPreserved();
    SmallVector<ModuleOp> sizes = sizesInside(largest);
    if (sizes.empty())
      return;
    std::optional<ModelSize> known = sizeOf(largest);
    around = largest.lookupSymbol<FuncOp>(kMicrobatch);
    if (!known || !around) {
      largest.emitError("[sizes.largest] has modules of further sizes inside, but no ")
          << (known ? "@microbatch" : "hyc.size of its own");
      return signalPassFailure();
    }
    largestSize = *known;
    for (ModuleOp size : sizes)
      if (failed(check(size, *sizeOf(size))))
        return signalPassFailure();
  }

private:
  LogicalResult check(ModuleOp module, ModelSize size) {
    if (size.dim != largestSize.dim || size.size < 1 || size.size >= largestSize.size)
      return module.emitError("[sizes.largest] is of size ")
             << spell(size) << " inside a module of size " << spell(largestSize) << ", expected a smaller one of "
             << largestSize.dim;
    if (failed(checkStates(module, size)))
      return failure();
    auto microbatch = module.lookupSymbol<FuncOp>(kMicrobatch);
    if (!microbatch)
      return module.emitError("[sizes.inputs] has no @microbatch");
    if (failed(checkLoss(microbatch, size)))
      return failure();
    return checkInputs(microbatch, size);
  }

  LogicalResult checkStates(ModuleOp module, ModelSize size) {
    SymbolTable ofLargest(largest), ofSize(module);
    auto isState = [](Operation &op) { return isa<ParamOp, StateOp>(op); };
    for (Operation &op : llvm::make_filter_range(module.getOps(), isState)) {
      Operation *same = ofLargest.lookup(SymbolTable::getSymbolName(&op));
      if (!same || !isa<ParamOp, StateOp>(same))
        return refuse(&op, size) << "is there for " << spell(size) << " alone";
      if (typeOf(&op) != typeOf(same))
        return refuse(&op, size) << "is " << typeOf(&op) << " for " << spell(size) << ", and " << typeOf(same)
                                 << " for " << spell(largestSize);
      for (StringRef name : kLayout)
        if (op.getAttr(name) != same->getAttr(name))
          return refuse(&op, size) << "has " << name << " " << describe(op.getAttr(name)) << " for " << spell(size)
                                   << ", and " << describe(same->getAttr(name)) << " for " << spell(largestSize);
    }
    for (Operation &op : llvm::make_filter_range(largest.getOps(), isState))
      if (!ofSize.lookup(SymbolTable::getSymbolName(&op)))
        return refuse(&op, size) << "is there for " << spell(largestSize) << ", but not for " << spell(size);
    return success();
  }

  static std::string describe(Attribute attribute) {
    std::string text = "none";
    if (attribute) {
      text.clear();
      llvm::raw_string_ostream(text) << attribute;
    }
    return text;
  }

  /// The reason is added by the caller; the way out goes with it.
  InFlightDiagnostic refuse(Operation *symbol, ModelSize size) {
    InFlightDiagnostic error = symbol->emitError("[sizes.states] @")
                               << SymbolTable::getSymbolName(symbol).getValue() << " cannot be shared between sizes of "
                               << size.dim << " (give --dim one size, the largest, or another layout): it ";
    return error;
  }

  /// What a micro-batch's number of places, or of labels, is; null where nothing counts them.
  static Operation *findCount(FuncOp microbatch) {
    auto module = microbatch->getParentOfType<ModuleOp>();
    for (auto accumulate : microbatch.getBody().front().getOps<AccumulateOp>())
      if (auto state = module.lookupSymbol<StateOp>(accumulate.getTarget()); state && state.getRole() == "token_count")
        return accumulate.getValue().getDefiningOp();
    return nullptr;
  }

  /// Places that padding fills have no part in the loss, or those that a smaller size cuts off would be missed.
  LogicalResult checkLoss(FuncOp microbatch, ModelSize size) {
    auto whole = dyn_cast_or_null<ConstantOp>(findCount(around));
    auto own = dyn_cast_or_null<ConstantOp>(findCount(microbatch));
    if (!whole && !own)
      return success(); // labels that count, in number
    if (!whole || !own || whole.getValueAttr() != own.getValueAttr())
      return microbatch.emitError("[sizes.loss] the loss is a mean over all places of ")
             << size.dim << ", padding too, so that " << spell(size) << " would not have that of " << spell(largestSize)
             << "; give --dim one size, the largest";
    auto &ops = around.getBody().front();
    auto comparesNumbers = [](Operation &op) { return getId(&op) == "loss.error" || getId(&op) == "loss.each"; };
    if (!ops.getOps<CrossEntropyOp>().empty() || llvm::any_of(ops, comparesNumbers))
      return success();
    return microbatch.emitError(
               "[sizes.loss] the model's own loss is no cross entropy, of which it is known that labels of "
               "padding have no part in it, so that ")
           << spell(size) << " may not have that of " << spell(largestSize) << "; give --dim one size, the largest";
  }

  LogicalResult checkInputs(FuncOp microbatch, ModelSize size) {
    if (microbatch.getNumArguments() != around.getNumArguments())
      return microbatch.emitError("[sizes.inputs] has ")
             << microbatch.getNumArguments() << " inputs, expected " << around.getNumArguments() << " as for "
             << spell(largestSize);
    bool byLabels = false, byPresence = false;
    for (unsigned i = 0, e = around.getNumArguments(); i < e; ++i) {
      auto own = cast<RankedTensorType>(microbatch.getArgument(i).getType());
      auto whole = cast<RankedTensorType>(around.getArgument(i).getType());
      Attribute name = around.getArgAttr(i, kInput);
      bool fits = microbatch.getArgAttr(i, kInput) == name && own.getRank() == whole.getRank() &&
                  own.getElementType() == whole.getElementType();
      for (int64_t dim = 0, rank = fits ? own.getRank() : 0; dim < rank; ++dim)
        fits &= own.getDimSize(dim) == whole.getDimSize(dim) ||
                (dim > 0 && own.getDimSize(dim) == size.size && whole.getDimSize(dim) == largestSize.size);
      if (!fits)
        return microbatch.emitError("[sizes.inputs] input ")
               << (name ? name : StringAttr::get(&getContext(), "#" + Twine(i))) << " is " << own << " for "
               << spell(size) << ", and " << whole << " for " << spell(largestSize)
               << ", expected the same but for dimensions of a sample that are " << size.dim
               << "; give --dim one size, the largest";
      if (around.getArgument(i).use_empty() != microbatch.getArgument(i).use_empty())
        return microbatch.emitError("[sizes.inputs] input ")
               << (name ? name : StringAttr::get(&getContext(), "#" + Twine(i))) << " is read of "
               << spell(microbatch.getArgument(i).use_empty() ? largestSize : size)
               << " alone, expected of both; leave " << spell(size) << " out";
      // Of one place of the dimension each, and read: nobody brings what nobody reads.
      bool tells = own != whole && own.getRank() == 2 && !around.getArgument(i).use_empty();
      byLabels |= tells && lengthToldBy(around, i) == LengthTeller::labels;
      byPresence |= tells && lengthToldBy(around, i) == LengthTeller::presence;
    }
    if (byPresence || (byLabels && largest->hasAttr(kCausalAttribute)))
      return success();
    std::string joining = byLabels ? BackwardLook(around, microbatch).findJoining() : "";
    if (byLabels && joining.empty())
      return success();
    return microbatch.emitError("[sizes.length] no input tells how long a sample is, so that one of ")
           << size.dim << " " << largestSize.size << " cannot be known to fit in " << size.size
           << (byLabels ? ": \"" + joining + "\" may see what lies behind the last label that counts" : "")
           << "; give the model an input attention_mask (a folder's: --padding-mask), or --dim one size";
  }

  ModuleOp largest;
  FuncOp around;
  ModelSize largestSize;
};
} // namespace
