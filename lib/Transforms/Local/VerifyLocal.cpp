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
using dist::InstructionKind;

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
  FuncOp find(InstructionKind kind, int64_t chunkOrStage) {
    return getAnalysis<SymbolTable>().lookup<FuncOp>(dist::functionName(kind, chunkOrStage));
  }

  LogicalResult verifyThere(InstructionKind kind, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      if (!find(kind, i))
        return getOperation().emitError("has no @") << dist::functionName(kind, i);
    return success();
  }

  LogicalResult verifyModule() {
    ModuleOp module = getOperation();
    dist::MeshOp mesh = dist::MeshOp::find(module);
    if (!mesh)
      return module.emitError("has no dist.mesh");
    int64_t chunks = mesh.getChunks(), stages = mesh.getStages();
    if (failed(verifyThere(InstructionKind::forward, chunks)) ||
        failed(verifyThere(InstructionKind::backward, chunks)) ||
        failed(verifyThere(InstructionKind::reduce, stages)) || failed(verifyThere(InstructionKind::apply, stages)))
      return failure();
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      FuncOp forward = find(InstructionKind::forward, chunk), backward = find(InstructionKind::backward, chunk);
      if (failed(verifyPorts(forward, backward, "hyc.saved")))
        return failure();
      if (chunk + 1 < chunks &&
          (failed(verifyPorts(forward, find(InstructionKind::forward, chunk + 1), dist::kChannel)) ||
           failed(verifyPorts(find(InstructionKind::backward, chunk + 1), backward, dist::kChannel))))
        return failure();
    }
    return success();
  }
};
} // namespace
