// MeshInterpreter: executes a phase 4 module on every rank of its mesh, in one process and one thread.
//
// Each rank follows the dist.schedule of its stage and runs until it has to wait; ranks take turns. A collective
// completes when all its members have started it and it is the oldest unfinished one of each of them, as on a device
// with one communication queue; a transfer completes when both ends have reached it (rendezvous). Where no rank can go
// on, all would hang: the diagnostic lists what each of them waits for. Members that start different collectives, or
// ends of a transfer that mean different tensors, are diagnostics that name both.
//
//   auto ranks = MeshInterpreter::create(module, {Arithmetic::Wide});
//   auto step = ranks->runStep(globalBatch, 1e-3);
//   auto gradient = ranks->gatherState("fc1.weight.grad");
#ifndef HYC_INTERPRETER_MESHINTERPRETER_H
#define HYC_INTERPRETER_MESHINTERPRETER_H

#include "hyc/Interpreter/Interpreter.h"
#include <memory>

namespace hyc::interpreter {

class MeshInterpreter {
public:
  /// Cuts every initial value by its `dist.sharding` over the ranks of its `dist.stages`; padding is zero. Fails after
  /// a diagnostic where mesh, schedules and functions do not fit each other. `module` outlives the interpreter.
  static llvm::FailureOr<MeshInterpreter> create(mlir::ModuleOp module, const Options &options = {});
  MeshInterpreter(MeshInterpreter &&);
  MeshInterpreter &operator=(MeshInterpreter &&);
  ~MeshInterpreter();

  /// One step of every rank. The first dimension of each input counts the samples of the global batch: sample i of
  /// micro-batch m at dp coordinate d is number m·(DP·B) + d·B + i.
  llvm::FailureOr<StepResult> runStep(const NamedTensors &globalBatch, StepScalars scalars);

  /// The whole value of a param or state from its shards. Fails, after a diagnostic, where ranks that should hold equal
  /// copies differ in a bit, or padding is not zero.
  llvm::FailureOr<Tensor> gatherState(llvm::StringRef symbol) const;
  /// Cuts a whole value over the ranks that hold `symbol`.
  llvm::LogicalResult setState(llvm::StringRef symbol, const Tensor &whole);
  /// What one rank holds, or null where it holds nothing of this name.
  const Tensor *getLocalState(int64_t worldRank, llvm::StringRef symbol) const;

  int64_t getNumRanks() const;
  int64_t getNumMicroBatches() const;

private:
  struct Impl;
  explicit MeshInterpreter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace hyc::interpreter

#endif // HYC_INTERPRETER_MESHINTERPRETER_H
