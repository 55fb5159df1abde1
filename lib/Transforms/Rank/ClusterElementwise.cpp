// Fuses elementwise ops over one shape into clusters. The walk goes backwards, so that a consumer sees its producers
// before they could have become clusters of their own.
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "dialects/Rank/ScalarFunctions.h"
#include "hyc/Transforms/Rank/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

namespace hyc {
#define GEN_PASS_DEF_CLUSTERELEMENTWISE
#include "hyc/Transforms/Rank/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

/// The name by which rank.compute knows an elementwise op.
static std::string functionName(Operation *op) {
  if (auto compare = dyn_cast<CompareOp>(op))
    return ("compare_" + stringifyComparePredicate(compare.getPredicate())).str();
  if (auto gelu = dyn_cast<GeluOp>(op))
    return gelu.getTanh() ? "gelu_tanh" : "gelu";
  if (auto gelu = dyn_cast<GeluGradOp>(op))
    return gelu.getTanh() ? "gelu_tanh_grad" : "gelu_grad";
  return op->getName().stripDialect().str();
}

static bool isElementwise(Operation *op) {
  return op->hasTrait<Elementwise>() && rank::findScalarFunction(functionName(op));
}

static bool isSplat(Operation *op) {
  auto constant = dyn_cast<ConstantOp>(op);
  return constant && isa<SplatElementsAttr>(constant.getValue());
}

/// Costs less to compute again than to keep in memory. A broadcast adds nothing: its operand is read either way.
static bool isCheap(Operation *op) { return isSplat(op) || isa<BroadcastOp, IotaOp, ConvertOp, CompareOp, NotOp>(op); }

namespace {

class ClusterBuilder {
public:
  explicit ClusterBuilder(Operation *root)
      : root(root), shape(cast<RankedTensorType>(root->getResult(0).getType()).getShape()), builder(root) {
    members.insert(root);
  }

  void build();

private:
  bool joins(Operation *producer) const;
  void collect();
  unsigned addInput(Value tensor, ArrayRef<int64_t> dims);
  Value scalarOf(Value tensor);
  Value cloneScalar(Operation *op);

  Operation *root;
  ArrayRef<int64_t> shape;
  OpBuilder builder;
  SetVector<Operation *> members;
  SmallVector<Value> inputs;
  SmallVector<SmallVector<int64_t>> inputDims;
  Block *body = nullptr;
  DenseMap<Value, Value> scalars;
};

bool ClusterBuilder::joins(Operation *producer) const {
  if (!producer || producer->getBlock() != root->getBlock() || producer->getNumResults() != 1 ||
      members.contains(producer))
    return false;
  if (!isElementwise(producer) && !isSplat(producer) && !isa<BroadcastOp, IotaOp>(producer))
    return false;
  if (cast<RankedTensorType>(producer->getResult(0).getType()).getShape() != shape)
    return false;
  return isCheap(producer) ||
         llvm::all_of(producer->getUsers(), [&](Operation *user) { return members.contains(user); });
}

void ClusterBuilder::collect() {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < members.size(); ++i) {
      if (isa<BroadcastOp>(members[i]))
        continue;
      for (Value operand : members[i]->getOperands())
        if (joins(operand.getDefiningOp()))
          changed |= members.insert(operand.getDefiningOp());
    }
  }
}

unsigned ClusterBuilder::addInput(Value tensor, ArrayRef<int64_t> dims) {
  for (auto [i, known] : llvm::enumerate(inputs))
    if (known == tensor && inputDims[i] == dims)
      return i;
  inputs.push_back(tensor);
  inputDims.emplace_back(dims);
  body->addArgument(cast<RankedTensorType>(tensor.getType()).getElementType(), tensor.getLoc());
  return inputs.size() - 1;
}

Value ClusterBuilder::scalarOf(Value tensor) {
  if (Value known = scalars.lookup(tensor))
    return known;
  Operation *producer = tensor.getDefiningOp();
  Value scalar;
  if (producer && members.contains(producer))
    scalar = cloneScalar(producer);
  else
    scalar = body->getArgument(addInput(tensor, llvm::to_vector(llvm::seq<int64_t>(0, shape.size()))));
  return scalars[tensor] = scalar;
}

Value ClusterBuilder::cloneScalar(Operation *op) {
  Type type = cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  if (auto constant = dyn_cast<ConstantOp>(op))
    return rank::LiteralOp::create(builder, op->getLoc(),
                                   cast<SplatElementsAttr>(constant.getValue()).getSplatValue<TypedAttr>());
  if (auto iota = dyn_cast<IotaOp>(op))
    return rank::IndexOp::create(builder, op->getLoc(), type, iota.getDim());
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    Operation *source = broadcast.getOperand().getDefiningOp();
    if (source && isSplat(source))
      return cloneScalar(source);
    return body->getArgument(addInput(broadcast.getOperand(), broadcast.getDims()));
  }
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(scalarOf(operand));
  return rank::ScalarComputeOp::create(builder, op->getLoc(), type, functionName(op), operands);
}

void ClusterBuilder::build() {
  collect();
  Region region;
  body = &region.emplaceBlock();
  builder.setInsertionPointToStart(body);
  Value result = scalarOf(root->getResult(0));
  rank::YieldOp::create(builder, root->getLoc(), result);

  builder.setInsertionPoint(root);
  SmallVector<Attribute> dims;
  for (ArrayRef<int64_t> list : inputDims)
    dims.push_back(builder.getDenseI64ArrayAttr(list));
  auto cluster = rank::ClusterOp::create(builder, root->getLoc(), root->getResult(0).getType(), inputs,
                                         builder.getArrayAttr(dims));
  cluster.getBody().takeBody(region);
  cluster->setDiscardableAttrs(root->getDiscardableAttrDictionary());
  root->getResult(0).replaceAllUsesWith(cluster.getResult());
  root->erase();
}

struct ClusterElementwise : hyc::impl::ClusterElementwiseBase<ClusterElementwise> {
  void runOnOperation() override {
    getOperation().walk([&](FuncOp func) { runOnBlock(func.getBody().front()); });
  }

  void runOnBlock(Block &block) {
    // Backwards; what became part of a cluster and has no other user is gone by then.
    for (Operation *op = &block.back(); op;) {
      Operation *previous = op->getPrevNode();
      if (op->use_empty() && (isElementwise(op) || isSplat(op) || isa<BroadcastOp, IotaOp>(op))) {
        op->erase();
      } else if (isElementwise(op) || isa<BroadcastOp, IotaOp>(op)) {
        ClusterBuilder(op).build();
      }
      op = previous;
    }
  }
};

} // namespace
