// Rewrites @microbatch from whole tensors to what one rank holds.
//
// The surprise: a value may exist in several versions (partial, summed, sliced). Each conversion is made once, beside the
// op that makes the value, and shared by all who need it.
#include "Exchanges.h"
#include "hyc/Analysis/OpSharding.h"
#include "hyc/Transforms/Local/Passes.h"
#include "mlir/IR/Builders.h"

namespace hyc {
#define GEN_PASS_DEF_PARTITION
#include "hyc/Transforms/Local/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;
using dist::AxisListAttr;
using dist::ShardingAttr;

namespace {

/// One value in one sharding.
struct Version {
  ShardingAttr sharding;
  Value local;
};

/// Rewrites one function, op by op, into `block`.
class Partitioner {
public:
  Partitioner(ModuleOp module, dist::MeshOp mesh, Block *block)
      : module(module), mesh(mesh), context(module.getContext()), builder(OpBuilder::atBlockEnd(block)) {}

  void define(Value original, ShardingAttr sharding, Value local) { versions[original] = {{sharding, local}}; }

  LogicalResult rewrite(Operation *op);

  RankedTensorType localType(Type type, ShardingAttr sharding) {
    auto whole = cast<RankedTensorType>(type);
    return RankedTensorType::get(dist::localShape(whole.getShape(), sharding, mesh), whole.getElementType());
  }

  int64_t exchanges = 0;

private:
  Value convert(Value original, ShardingAttr wanted);
  Value closePartial(Value original, Version from, ShardingAttr wanted, ArrayRef<StringAttr> axes, dist::ReduceKind kind);
  Value redistribute(Value original, Version from, ShardingAttr wanted);
  void placeLike(Operation *added, Value original);

  LogicalResult rewriteGeneric(Operation *op, ShardingRuleOpInterface rule);
  void rewriteConstant(ConstantOp op);
  void rewriteVocabularyLoss(CrossEntropyOp op, const ShardingRule &rule, const OpSharding &sharding);
  /// Where this rank's part of a dimension begins that `axes` split into shards of `size`.
  Value shardOffset(Operation *op, AxisListAttr axes, int64_t size);
  Value allReduceNow(Operation *op, dist::ReduceKind kind, Value value, AxisListAttr axes, StringRef why);

  /// Carries id, stage and the backward mark over to an op made for `from`.
  template <typename OpT> OpT mark(OpT made, Operation *from, StringRef suffix = "") {
    for (StringRef name : {StringRef("hyc.backward"), StringRef(dist::kStage)})
      if (Attribute attribute = from->getAttr(name))
        made->setAttr(name, attribute);
    if (!getId(from).empty())
      setId(made, getId(from) + suffix);
    return made;
  }

  ModuleOp module;
  dist::MeshOp mesh;
  MLIRContext *context;
  OpBuilder builder;
  Operation *user = nullptr; ///< the op that is being rewritten
  llvm::DenseMap<Value, SmallVector<Version>> versions;
};

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

/// Stage and direction of an op that converts `original`: those of the op that makes it. An argument is converted for the
/// op that needs it first.
void Partitioner::placeLike(Operation *added, Value original) {
  Operation *def = original.getDefiningOp() ? original.getDefiningOp() : user;
  for (StringRef name : {StringRef("hyc.backward"), StringRef(dist::kStage)})
    if (Attribute attribute = def->getAttr(name))
      added->setAttr(name, attribute);
}

Value Partitioner::convert(Value original, ShardingAttr wanted) {
  SmallVector<Version> &known = versions.find(original)->second;
  for (const Version &version : known)
    if (version.sharding == wanted)
      return version.local;
  auto missing = [](AxisListAttr have, AxisListAttr keep) {
    return llvm::filter_to_vector(have.getAxes(), [&](StringAttr axis) { return !keep.contains(axis); });
  };
  AxisListAttr none = AxisListAttr::get(context, {});
  // Sums that are closed already are not closed again.
  auto *closed = llvm::find_if(known, [&](const Version &version) {
    return missing(version.sharding.getPartial(), wanted.getPartial()).empty() && version.sharding.getPartialMax().empty();
  });
  Version version = closed == known.end() ? known.front() : *closed;
  if (SmallVector<StringAttr> axes = missing(version.sharding.getPartial(), wanted.getPartial()); !axes.empty()) {
    version.local = closePartial(original, version, wanted, axes, dist::ReduceKind::sum);
    version.sharding = ShardingAttr::get(context, version.sharding.getDims(), wanted.getPartial(),
                                         version.sharding.getPartialMax(), none);
    known.push_back(version);
  }
  if (SmallVector<StringAttr> axes = missing(version.sharding.getPartialMax(), none); !axes.empty()) {
    version.local = closePartial(original, version, wanted, axes, dist::ReduceKind::max);
    version.sharding = ShardingAttr::get(context, version.sharding.getDims(), version.sharding.getPartial(), none, none);
    known.push_back(version);
  }
  if (version.sharding.getDims() != wanted.getDims()) {
    version.local = redistribute(original, version, wanted);
    version.sharding = wanted;
    versions.find(original)->second.push_back(version);
  }
  return version.local;
}

Value Partitioner::closePartial(Value original, Version from, ShardingAttr wanted, ArrayRef<StringAttr> axes,
                                dist::ReduceKind kind) {
  OpBuilder start(context);
  start.setInsertionPointAfterValue(from.local);
  Operation *def = original.getDefiningOp();
  Value whole = local::allReduce(start, builder, original.getLoc(), kind, from.local, local::groupOf(context, axes),
                                 {def ? getId(def) : "input", local::textOf(from.sharding)});
  ++exchanges;
  placeLike(whole.getDefiningOp(), original);
  placeLike(whole.getDefiningOp()->getOperand(0).getDefiningOp(), original);
  return whole;
}

/// Joins the axes that are too many, dimension by dimension, then drops what the further axes of `wanted` give to others. In
/// this order: where an axis moves from one dimension to another, its ranks join parts of the same elements.
Value Partitioner::redistribute(Value original, Version from, ShardingAttr wanted) {
  auto whole = cast<RankedTensorType>(original.getType());
  Value value = from.local;
  Operation *def = original.getDefiningOp();
  auto axesOf = [](ShardingAttr sharding, int64_t dim) { return sharding.getDims()[dim].getAxes(); };
  auto countCommon = [&](int64_t dim) {
    ArrayRef<StringAttr> have = axesOf(from.sharding, dim), want = axesOf(wanted, dim);
    size_t common = 0;
    while (common < have.size() && common < want.size() && have[common] == want[common])
      ++common;
    return common;
  };
  for (int64_t dim = 0; dim < whole.getRank(); ++dim) {
    ArrayRef<StringAttr> have = axesOf(from.sharding, dim);
    size_t common = countCommon(dim);
    if (common == have.size())
      continue;
    int64_t joined =
        dist::shardSize(whole.getDimSize(dim), mesh.getSize(AxisListAttr::get(context, have.take_front(common))));
    OpBuilder start(context);
    start.setInsertionPointAfterValue(value);
    value = local::allGather(start, builder, original.getLoc(), value, dim, joined,
                             local::groupOf(context, have.drop_front(common)),
                             {def ? getId(def) : "input", local::textOf(from.sharding)});
    ++exchanges;
    placeLike(value.getDefiningOp(), original);
    placeLike(value.getDefiningOp()->getOperand(0).getDefiningOp(), original);
  }
  for (int64_t dim = 0; dim < whole.getRank(); ++dim) {
    ArrayRef<StringAttr> want = axesOf(wanted, dim);
    size_t common = countCommon(dim);
    if (common == want.size())
      continue;
    SmallVector<int64_t> shape(cast<RankedTensorType>(value.getType()).getShape());
    shape[dim] = dist::shardSize(whole.getDimSize(dim), mesh.getSize(wanted.getDims()[dim]));
    value = dist::SliceOp::create(builder, original.getLoc(), RankedTensorType::get(shape, whole.getElementType()), value,
                                  dim, AxisListAttr::get(context, want.drop_front(common)));
    placeLike(value.getDefiningOp(), original);
  }
  return value;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult Partitioner::rewrite(Operation *op) {
  user = op;
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    rewriteConstant(constant);
    return success();
  }
  if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
    auto state = module.lookupSymbol(accumulate.getTargetAttr())->getAttrOfType<ShardingAttr>(dist::kSharding);
    Value value = convert(accumulate.getValue(), state);
    mark(AccumulateOp::create(builder, op->getLoc(), value, accumulate.getTargetAttr()), op);
    return success();
  }
  if (auto rule = dyn_cast<ShardingRuleOpInterface>(op))
    return rewriteGeneric(op, rule);
  if (!isa<ReadOp>(op))
    return op->emitOpError("has no sharding rule, and can't be partitioned");
  ShardingAttr sharding = recordedSharding(op->getResult(0));
  Operation *clone = builder.clone(*op);
  clone->removeAttr(dist::kShardings);
  clone->getResult(0).setType(localType(op->getResult(0).getType(), sharding));
  define(op->getResult(0), sharding, clone->getResult(0));
  return success();
}

/// A constant that is split is a splat, so that every rank's part is one too.
void Partitioner::rewriteConstant(ConstantOp op) {
  ShardingAttr sharding = recordedSharding(op.getResult());
  RankedTensorType type = localType(op.getType(), sharding);
  auto value = cast<DenseElementsAttr>(op.getValue());
  if (type != op.getType())
    value = DenseElementsAttr::get(type, value.getSplatValue<Attribute>());
  auto made = mark(ConstantOp::create(builder, op.getLoc(), type, value), op);
  define(op.getResult(), sharding, made.getResult());
}

LogicalResult Partitioner::rewriteGeneric(Operation *op, ShardingRuleOpInterface ruleOp) {
  ShardingRule rule = ruleOp.getShardingRule();
  OpSharding sharding = recordedOpSharding(op, rule);
  SmallVector<Value> operands;
  for (auto [index, operand] : llvm::enumerate(op->getOperands()))
    operands.push_back(convert(operand, sharding.operandSharding(context, rule, static_cast<int>(index))));

  auto axesOf = [&](int operandIndex, int64_t dim) {
    return sharding.operandSharding(context, rule, operandIndex).getDims()[dim];
  };
  if (auto loss = dyn_cast<CrossEntropyOp>(op)) {
    int64_t dim = cast<RankedTensorType>(loss.getLogits().getType()).getRank() - 1;
    if (!axesOf(0, dim).empty()) {
      rewriteVocabularyLoss(loss, rule, sharding);
      return success();
    }
  }
  // Vocabulary-parallel ops learn where their shard begins.
  AxisListAttr vocabularyAxes = AxisListAttr::get(context, {});
  int64_t vocabulary = 0, shardRows = 0;
  if (auto embedding = dyn_cast<EmbeddingOp>(op)) {
    vocabularyAxes = axesOf(1, 0);
    shardRows = cast<RankedTensorType>(operands[1].getType()).getDimSize(0);
  } else if (auto gradient = dyn_cast<EmbeddingGradOp>(op)) {
    vocabularyAxes = recordedSharding(gradient.getResult()).getDims()[0];
    shardRows = localType(gradient.getType(), recordedSharding(gradient.getResult())).getDimSize(0);
  } else if (auto gradient = dyn_cast<CrossEntropyGradOp>(op)) {
    auto logits = cast<RankedTensorType>(gradient.getLogits().getType());
    vocabularyAxes = axesOf(1, logits.getRank() - 1);
    vocabulary = logits.getShape().back();
    shardRows = cast<RankedTensorType>(operands[1].getType()).getShape().back();
  }
  if (!vocabularyAxes.empty())
    operands.push_back(shardOffset(op, vocabularyAxes, shardRows));

  SmallVector<Type> types;
  for (Value result : op->getResults())
    types.push_back(localType(result.getType(), recordedSharding(result)));
  OperationState state(op->getLoc(), op->getName(), operands, types, op->getAttrs());
  state.attributes.erase(dist::kShardings);
  if (!vocabularyAxes.empty() && isa<CrossEntropyGradOp>(op))
    state.addAttribute("vocabulary", builder.getI64IntegerAttr(vocabulary));
  Operation *made = builder.create(state);
  for (auto [original, local] : llvm::zip_equal(op->getResults(), made->getResults()))
    define(original, recordedSharding(original), local);
  return success();
}

Value Partitioner::shardOffset(Operation *op, AxisListAttr axes, int64_t size) {
  auto type = RankedTensorType::get({}, builder.getI64Type());
  return mark(dist::ShardOffsetOp::create(builder, op->getLoc(), type, axes, size), op, ".offset").getResult();
}

Value Partitioner::allReduceNow(Operation *op, dist::ReduceKind kind, Value value, AxisListAttr axes, StringRef why) {
  ++exchanges;
  Value whole = local::allReduce(builder, builder, op->getLoc(), kind, value, local::groupOf(context, axes.getAxes()),
                                 {getId(op), why.str()});
  mark(whole.getDefiningOp(), op);
  mark(whole.getDefiningOp()->getOperand(0).getDefiningOp(), op);
  return whole;
}

/// The maximum, then the sum of exponentials and the label's logit, each combined over the vocabulary's axes: whole logits
/// are on no rank.
void Partitioner::rewriteVocabularyLoss(CrossEntropyOp op, const ShardingRule &rule, const OpSharding &sharding) {
  Value logits = convert(op.getLogits(), sharding.operandSharding(context, rule, 0));
  Value labels = convert(op.getLabels(), sharding.operandSharding(context, rule, 1));
  int64_t vocabulary = cast<RankedTensorType>(op.getLogits().getType()).getShape().back();
  ShardingAttr logitsSharding = sharding.operandSharding(context, rule, 0);
  AxisListAttr axes = logitsSharding.getDims().back();
  std::string why = local::textOf(logitsSharding);
  Location loc = op.getLoc();

  Value offset = shardOffset(op, axes, cast<RankedTensorType>(logits.getType()).getShape().back());
  Value localMax = mark(VocabMaxOp::create(builder, loc, logits, offset, vocabulary), op, ".max").getResult();
  Value max = allReduceNow(op, dist::ReduceKind::max, localMax, axes, why);
  auto sums = mark(VocabSumExpOp::create(builder, loc, logits, max, labels, offset, vocabulary), op, ".sum_exp");
  Value sumExp = allReduceNow(op, dist::ReduceKind::sum, sums.getSumExp(), axes, why);
  Value picked = allReduceNow(op, dist::ReduceKind::sum, sums.getPicked(), axes, why);
  auto loss = mark(VocabLossOp::create(builder, loc, max, sumExp, picked, labels, op.getIgnoreIndexAttr()), op);
  for (auto [original, local] : llvm::zip_equal(op->getResults(), loss->getResults()))
    define(original, recordedSharding(original), local);
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

struct Partition : hyc::impl::PartitionBase<Partition> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto func = module.lookupSymbol<FuncOp>("microbatch");
    dist::MeshOp mesh = dist::MeshOp::find(module);
    if (!func || !mesh) {
      module.emitError("has no ") << (func ? "dist.mesh" : "@microbatch") << " to partition";
      return signalPassFailure();
    }
    Block *old = &func.getBody().front();
    Block *fresh = new Block();
    func.getBody().push_back(fresh);
    Partitioner partitioner(module, mesh, fresh);
    for (BlockArgument argument : old->getArguments()) {
      ShardingAttr sharding = recordedSharding(argument);
      partitioner.define(argument, sharding,
                         fresh->addArgument(partitioner.localType(argument.getType(), sharding), argument.getLoc()));
    }
    for (Operation &op : old->without_terminator())
      if (failed(partitioner.rewrite(&op)))
        return signalPassFailure();
    OpBuilder builder = OpBuilder::atBlockEnd(fresh);
    ReturnOp::create(builder, func.getLoc(), ValueRange());
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*old)))
      op.erase();
    old->erase();
    func.setFunctionType(builder.getFunctionType(fresh->getArgumentTypes(), TypeRange()));
    localizeStates(module, partitioner);
    exchanges += partitioner.exchanges;
  }

private:
  /// Params and states are declared as what one rank holds.
  void localizeStates(ModuleOp module, Partitioner &partitioner) {
    auto localize = [&](auto symbol) {
      auto sharding = symbol->template getAttrOfType<ShardingAttr>(dist::kSharding);
      RankedTensorType whole = symbol.getTensorType(), local = partitioner.localType(whole, sharding);
      if (local == whole)
        return;
      symbol.setGlobalTypeAttr(TypeAttr::get(whole));
      symbol.setTypeAttr(TypeAttr::get(local));
    };
    for (auto param : module.getOps<ParamOp>())
      localize(param);
    for (auto state : module.getOps<StateOp>())
      localize(state);
  }
};
} // namespace
