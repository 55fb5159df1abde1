// Adds a bias where the matrix product is written.
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Analysis/Workspaces.h"
#include "hyc/Transforms/Rank/Passes.h"

namespace hyc {
#define GEN_PASS_DEF_FUSEBIAS
#include "hyc/Transforms/Rank/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

/// Whether `dims` are the last dimensions of the result, and all of their letters stand in the second operand alone.
static bool isBiasOf(EinsumOp product, BroadcastOp bias) {
  auto [lhs, rhs, result] = product.getLetters();
  ArrayRef<int64_t> dims = bias.getDims();
  size_t first = result.size() - dims.size();
  for (auto [i, dim] : llvm::enumerate(dims))
    if (dim != static_cast<int64_t>(first + i))
      return false;
  StringRef along = result.substr(first);
  // The bias must run along all of n: a product whose other n letters come earlier would need it repeated.
  for (char letter : result)
    if ((rhs.contains(letter) && !lhs.contains(letter)) != along.contains(letter))
      return false;
  return !dims.empty();
}

static bool fuse(AddOp add, bool isForGpu) {
  // Of 16 bits the product is rounded before the bias is added: fused, it would depend on who else uses it. The bits of
  // products on GPUs are the library's anyway, and a pass over the result counts there.
  if (!isForGpu && isHalfWidth(cast<RankedTensorType>(add.getType()).getElementType()))
    return false;
  for (unsigned side : {0u, 1u}) {
    auto product = add->getOperand(side).getDefiningOp<EinsumOp>();
    auto bias = add->getOperand(1 - side).getDefiningOp<BroadcastOp>();
    if (!product || !bias || !product->hasOneUse() || !isBiasOf(product, bias))
      continue;
    OpBuilder builder(add);
    auto linear = rank::LinearOp::create(builder, add.getLoc(), add.getType(), product.getSpec(), product.getLhs(),
                                         product.getRhs(), bias.getOperand());
    linear->setDiscardableAttrs(product->getDiscardableAttrDictionary());
    add.replaceAllUsesWith(linear.getResult());
    add.erase();
    product.erase();
    if (bias.use_empty())
      bias.erase();
    return true;
  }
  return false;
}

namespace {
struct FuseBias : hyc::impl::FuseBiasBase<FuseBias> {
  void runOnOperation() override {
    SmallVector<AddOp> adds;
    walkFunctions(getOperation(), [&](AddOp add) { adds.push_back(add); });
    bool isForGpu = getOperation()->hasAttr(kTargetAttribute);
    for (AddOp add : adds)
      fuse(add, isForGpu);
  }
};
} // namespace
