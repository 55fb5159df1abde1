// DecomposeComposites: the last chance of a composite op that the target has no kernel for.
#include "dialects/Hyc/DerivedOps.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Transforms/Rank/Passes.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSet.h"

namespace hyc {
#define GEN_PASS_DEF_DECOMPOSECOMPOSITES
#include "hyc/Transforms/Rank/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {
struct DecomposeComposites : hyc::impl::DecomposeCompositesBase<DecomposeComposites> {
  using DecomposeCompositesBase::DecomposeCompositesBase;

  void runOnOperation() override {
    llvm::StringSet<> names;
    for (const std::string &name : ops)
      names.insert("hyc." + name);
    // Of scans in scans the outer one is a loop.
    auto hasNoKernel = [&](Operation *op) {
      if (names.empty())
        return isa<SoftmaxOp>(op) || (isa<ScanOp>(op) && isa<ScanOp>(op->getParentOp()));
      return names.contains(op->getName().getStringRef());
    };
    SmallVector<DecomposableOpInterface> composites;
    auto find = [&] {
      composites.clear();
      walkFunctions(getOperation(), [&](DecomposableOpInterface op) {
        if (hasNoKernel(op))
          composites.push_back(op);
      });
      return !composites.empty();
    };
    // Again, since composite ops may be made of others.
    for (; find(); decomposed += composites.size())
      for (DecomposableOpInterface op : composites)
        if (failed(replace(op)))
          return signalPassFailure();
    SmallVector<EinsumOp> products;
    walkFunctions(getOperation(), [&](EinsumOp op) {
      Type element = tensorTypeOf(op.getLhs()).getElementType();
      if (!element.isF32() && !isNarrowFloat(element))
        products.push_back(op);
    });
    llvm::for_each(products, replaceProduct);
    decomposed += products.size();
  }

private:
  /// Matrix products have a kernel for f32 and narrower floats. Others are sums of products, which clusters fuse: over
  /// the letters of the result, then those that are contracted.
  static void replaceProduct(EinsumOp op) {
    OpBuilder builder(op);
    DerivedOps b(builder, op, ".");
    EinsumOp::Letters letters = op.getLetters();
    std::string all = letters.result.str();
    for (char letter : letters.lhs)
      if (!letters.result.contains(letter))
        all += letter;
    SmallVector<int64_t> space(all.size()), contracted;
    auto noteSizes = [&](StringRef own, Value tensor) {
      for (auto [letter, size] : llvm::zip_equal(own, tensorTypeOf(tensor).getShape()))
        space[all.find(letter)] = size;
    };
    noteSizes(letters.lhs, op.getLhs());
    noteSizes(letters.rhs, op.getRhs());
    for (size_t dim = letters.result.size(); dim < all.size(); ++dim)
      contracted.push_back(static_cast<int64_t>(dim));
    auto type = RankedTensorType::get(space, tensorTypeOf(op.getLhs()).getElementType());
    auto spread = [&](StringRef suffix, StringRef own, Value tensor) {
      // In the order of the space, as broadcasts want it.
      SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, own.size())), dims;
      llvm::sort(order, [&](int64_t i, int64_t j) { return all.find(own[i]) < all.find(own[j]); });
      for (int64_t dim : order)
        dims.push_back(static_cast<int64_t>(all.find(own[dim])));
      Value turned = b.create<TransposeOp>(suffix + ".turned", tensor, order);
      return Value(b.create<BroadcastOp>(suffix, type, turned, dims));
    };
    Value lhs = spread("lhs", letters.lhs, op.getLhs()), rhs = spread("rhs", letters.rhs, op.getRhs());
    Value product = b.mul("product", lhs, rhs);
    op.getResult().replaceAllUsesWith(b.reduce("sum", ReductionKind::sum, product, contracted));
    op.erase();
  }

  LogicalResult replace(DecomposableOpInterface op) {
    OpBuilder builder(op);
    SmallVector<Value> results;
    if (failed(op.decompose(builder, results)))
      return op->emitOpError("has neither a kernel on this target nor a decomposition");
    op->replaceAllUsesWith(results);
    op->erase();
    return success();
  }
};
} // namespace
