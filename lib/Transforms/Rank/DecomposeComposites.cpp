// DecomposeComposites: the last chance of a composite op that the target has no kernel for.
#include "dialects/Hyc/HycDialect.h"
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
    if (names.empty())
      names.insert("hyc.softmax");
    SmallVector<DecomposableOpInterface> composites;
    auto find = [&] {
      composites.clear();
      getOperation().walk([&](DecomposableOpInterface op) {
        if (names.contains(op->getName().getStringRef()))
          composites.push_back(op);
      });
      return !composites.empty();
    };
    // Again, since composite ops may be made of others.
    for (; find(); decomposed += composites.size())
      for (DecomposableOpInterface op : composites)
        if (failed(replace(op)))
          return signalPassFailure();
  }

private:
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
