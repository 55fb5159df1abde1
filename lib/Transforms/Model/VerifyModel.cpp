// VerifyModel: the invariant of phase 1, constraint by constraint as Passes.td lists them.
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Transforms/Model/Passes.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace hyc {
#define GEN_PASS_DEF_VERIFYMODEL
#include "hyc/Transforms/Model/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

/// Every argument or result, `attributes(i)` being those of the i-th, has a name of its own.
static LogicalResult verifyNames(FuncOp entry, unsigned count, StringRef kind,
                                 llvm::function_ref<StringAttr(unsigned)> nameOf) {
  llvm::StringSet<> names;
  for (unsigned index = 0; index < count; ++index) {
    StringAttr name = nameOf(index);
    if (!name)
      return entry.emitError("[model.entry] ") << kind << " " << index << " has no hyc." << kind;
    if (!names.insert(name.getValue()).second)
      return entry.emitError("[model.entry] has two ") << kind << "s called \"" << name.getValue() << "\"";
  }
  return success();
}

static LogicalResult verifyEntry(FuncOp entry) {
  return success(succeeded(verifyNames(entry, entry.getNumArguments(), "input",
                                       [&](unsigned i) { return entry.getArgAttrOfType<StringAttr>(i, kInput); })) &&
                 succeeded(verifyNames(entry, entry.getNumResults(), "output",
                                       [&](unsigned i) { return entry.getResultAttrOfType<StringAttr>(i, kOutput); })));
}

static LogicalResult verifyOps(ModuleOp module, FuncOp entry) {
  llvm::StringMap<Operation *> owners;
  for (Operation &op : entry.getBody().front().without_terminator()) {
    if (getId(&op).empty()) {
      if (isa<ReadOp, ConstantOp, IotaOp>(op))
        continue;
      return op.emitOpError("[model.ids] has no id");
    }
    auto [owner, inserted] = owners.try_emplace(getId(&op), &op);
    if (!inserted)
      return (op.emitOpError("[model.ids] has id \"") << getId(&op) << "\", which another op has")
                 .attachNote(owner->second->getLoc())
             << "that op is here";
  }
  SymbolTable symbols(module);
  llvm::StringSet<> written;
  for (Operation &op : entry.getBody().front().without_terminator()) {
    if (isMemoryEffectFree(&op))
      continue;
    auto read = dyn_cast<ReadOp>(op);
    if (read && symbols.lookup<ParamOp>(read.getSource()))
      continue;
    auto write = dyn_cast<WriteOp>(op);
    if (!write)
      return op.emitOpError("[model.effects] changes or reads state, which no model of phase 1 has");
    auto buffer = symbols.lookup<ParamOp>(write.getTarget());
    if (!buffer || !buffer.getFrozen())
      return op.emitOpError("[model.effects] writes ")
             << write.getTargetAttr() << ", expected a frozen parameter: nothing but the model changes a buffer";
    if (!written.insert(write.getTarget()).second)
      return op.emitOpError("[model.effects] writes ") << write.getTargetAttr() << " a second time";
  }
  return success();
}

namespace {
struct VerifyModel : hyc::impl::VerifyModelBase<VerifyModel> {
  void runOnOperation() override {
    if (failed(verify(getOperation())))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

  static LogicalResult verify(ModuleOp module) {
    auto entry = module.lookupSymbol<FuncOp>(kTrain);
    if (!entry)
      return module.emitError("[model.entry] has no @train");
    for (auto state : module.getOps<StateOp>())
      return state.emitOpError("[model.effects] is state, which no model of phase 1 has");
    for (auto param : module.getOps<ParamOp>())
      if (!isInitialValue(param.getInit()))
        return param.emitOpError("[model.values] starts from ") << param.getInit() << ", expected " << kInitialValues;
    return success(succeeded(verifyEntry(entry)) && succeeded(verifyOps(module, entry)));
  }
};
} // namespace
