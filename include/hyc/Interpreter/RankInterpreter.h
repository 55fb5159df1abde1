// RankInterpreter: executes a phase 5 module on every rank of its mesh, over arenas of bytes.
//
// Every byte that no state, input, scalar or living record occupies is forgotten when a function begins, so that a
// program which reads what it did not write, or what has been freed, is told so, with the byte. Exchanges complete as
// late as they may: until its wait, a collective's source must not be written and its destination not be touched.
// Collectives and transfers meet as in MeshInterpreter.
#ifndef HYC_INTERPRETER_RANKINTERPRETER_H
#define HYC_INTERPRETER_RANKINTERPRETER_H

#include "hyc/Interpreter/Interpreter.h"
#include <memory>

namespace hyc::interpreter {

class RankInterpreter {
public:
  /// Fails after a diagnostic where a program or a schedule is missing or initial values cannot be had. `module`
  /// outlives the interpreter.
  static llvm::FailureOr<RankInterpreter> create(mlir::ModuleOp module, const Options &options = {});
  RankInterpreter(RankInterpreter &&);
  RankInterpreter &operator=(RankInterpreter &&);
  ~RankInterpreter();

  /// One step of every rank; the batch is as MeshInterpreter::runStep takes it.
  llvm::FailureOr<StepResult> runStep(const NamedTensors &globalBatch, StepScalars scalars);

  /// The whole value of a state by its symbol, from its shards; as MeshInterpreter::gatherState.
  llvm::FailureOr<Tensor> gatherState(llvm::StringRef symbol);

private:
  struct Impl;
  explicit RankInterpreter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace hyc::interpreter

#endif // HYC_INTERPRETER_RANKINTERPRETER_H
