// Checks the invariant of phase 4.
#include "dialects/Dist/Placement.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Transforms/Local/Passes.h"
#include "llvm/ADT/DenseMap.h"
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

/// Follows one function's copies of states from move to move.
class CopyVerifier {
public:
  explicit CopyVerifier(const SymbolTable &symbols) : symbols(symbols) {}

  LogicalResult verify(FuncOp func) {
    for (Operation &op : func.getBody().front())
      if (failed(verify(&op)))
        return failure();
    return success();
  }

private:
  LogicalResult verify(Operation *op) {
    if (auto fetch = dyn_cast<dist::FetchStartOp>(op))
      return verifyFetch(fetch);
    if (auto evict = dyn_cast<dist::EvictStartOp>(op))
      return verifyEvict(evict);
    if (auto accumulate = dyn_cast<AccumulateOp>(op))
      return verifyChange(op, accumulate.getTargetAttr());
    if (auto write = dyn_cast<WriteOp>(op))
      return verifyChange(op, write.getTargetAttr());
    return success();
  }

  /// A copy that was changed and is not written back yet would be lost.
  LogicalResult verifyFetch(dist::FetchStartOp fetch) {
    Copy &copy = copies[fetch.getStateAttr()];
    if (copy.change) {
      InFlightDiagnostic error = fetch.emitOpError("replaces the copy of @")
                                 << fetch.getState() << " before what was changed of it is written back";
      error.attachNote(copy.change->getLoc()) << "changed here; expected an evict_start in between";
      return failure();
    }
    copy.fetch = fetch;
    copy.evict = nullptr;
    return success();
  }

  LogicalResult verifyEvict(dist::EvictStartOp evict) {
    Copy &copy = copies[evict.getStateAttr()];
    if (!copy.fetch) {
      InFlightDiagnostic error = evict.emitOpError("evicts @")
                                 << evict.getState() << ", of which there is no copy; expected a fetch_start before";
      if (copy.evict)
        error.attachNote(copy.evict->getLoc()) << "evicted here already";
      return failure();
    }
    copy = {nullptr, nullptr, evict};
    return success();
  }

  /// What is added or written is computed on the device, and the state has to be there.
  LogicalResult verifyChange(Operation *op, FlatSymbolRefAttr state) {
    Operation *kept = symbols.lookup(state.getAttr());
    if (!kept || dist::placementOf(kept) == dist::kOnDevice)
      return success();
    Copy &copy = copies[state];
    if (!copy.fetch)
      return op->emitOpError("changes @") << state.getValue() << ", which is kept on \"" << dist::placementOf(kept)
                                          << "\"; expected a fetch_start to \"device\" before";
    copy.change = op;
    return success();
  }

  struct Copy {
    Operation *fetch = nullptr;  ///< that made it; null while there is none
    Operation *change = nullptr; ///< that it has and the state does not
    Operation *evict = nullptr;  ///< that ended the last one
  };
  const SymbolTable &symbols;
  llvm::DenseMap<Attribute, Copy> copies;
};

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
      if (failed(verifyPorts(forward, backward, kSaved)))
        return failure();
      if (chunk + 1 < chunks &&
          (failed(verifyPorts(forward, find(InstructionKind::forward, chunk + 1), dist::kChannel)) ||
           failed(verifyPorts(find(InstructionKind::backward, chunk + 1), backward, dist::kChannel))))
        return failure();
    }
    for (auto func : module.getOps<FuncOp>())
      if (failed(CopyVerifier(getAnalysis<SymbolTable>()).verify(func)))
        return failure();
    return success();
  }
};
} // namespace
