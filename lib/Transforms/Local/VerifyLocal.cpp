// Checks the invariant of phase 4.
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Transforms/Local/Passes.h"
#include <map>

namespace hyc {
#define GEN_PASS_DEF_VERIFYLOCAL
#include "hyc/Transforms/Local/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

using Ports = std::map<std::string, Type>;

Ports argumentsOf(FuncOp func, StringRef kind) {
  Ports ports;
  for (BlockArgument argument : func.getArguments())
    if (auto id = func.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kind))
      ports[id.str()] = argument.getType();
  return ports;
}

Ports resultsOf(FuncOp func, StringRef kind) {
  Ports ports;
  for (auto [index, type] : llvm::enumerate(func.getResultTypes()))
    if (auto id = func.getResultAttrOfType<StringAttr>(index, kind))
      ports[id.str()] = type;
  return ports;
}

/// What `from` gives is what `to` takes.
LogicalResult verifyPorts(FuncOp from, FuncOp to, StringRef kind) {
  Ports given = resultsOf(from, kind), taken = argumentsOf(to, kind);
  for (auto &[id, type] : taken) {
    auto entry = given.find(id);
    if (entry == given.end())
      return to.emitError("takes ") << kind << " \"" << id << "\", which @" << from.getSymName() << " does not give";
    if (entry->second != type)
      return to.emitError("takes ") << kind << " \"" << id << "\" as " << type << ", but @" << from.getSymName()
                                    << " gives " << entry->second;
  }
  for (auto &[id, type] : given)
    if (!taken.count(id))
      return from.emitError("gives ") << kind << " \"" << id << "\", which @" << to.getSymName() << " does not take";
  return success();
}

struct VerifyLocal : hyc::impl::VerifyLocalBase<VerifyLocal> {
  void runOnOperation() override {
    if (failed(verifyModule()))
      signalPassFailure();
  }

private:
  FuncOp stageFunction(StringRef name, int64_t stage) {
    return getOperation().lookupSymbol<FuncOp>((name + "." + Twine(stage)).str());
  }

  LogicalResult verifyModule() {
    ModuleOp module = getOperation();
    dist::MeshOp mesh = dist::MeshOp::find(module);
    if (!mesh)
      return module.emitError("has no dist.mesh");
    for (int64_t stage = 0, stages = mesh.getStages(); stage < stages; ++stage) {
      for (StringRef name : {"forward", "backward", "reduce", "apply"})
        if (!stageFunction(name, stage))
          return module.emitError("has no @") << name << "." << stage;
      if (failed(verifyPorts(stageFunction("forward", stage), stageFunction("backward", stage), "hyc.saved")))
        return failure();
      if (stage + 1 == stages)
        continue;
      if (failed(verifyPorts(stageFunction("forward", stage), stageFunction("forward", stage + 1), dist::kChannel)) ||
          failed(verifyPorts(stageFunction("backward", stage + 1), stageFunction("backward", stage), dist::kChannel)))
        return failure();
    }
    return success();
  }
};
} // namespace
