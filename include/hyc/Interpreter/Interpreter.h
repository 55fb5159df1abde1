// Interpreter: executes the functions of a phase 1, 2 or 3 module on one device, op by op, plainly. It is the oracle
// that partitioned programs are held against, so it shares no code with what transforms them.
//
//   auto interpreter = Interpreter::create(module, {Arithmetic::Wide});
//   auto results = interpreter->call("train", {{"input_ids", ids}, {"labels", labels}});
//   auto step = runTrainStep(*interpreter, splitMicroBatches(globalBatch, 4), 1e-3);      // phases 2 and 3
//   Tensor gradient = *interpreter->getState("fc1.weight.grad");
//
// Failures are diagnostics at the op that could not be executed; nothing asserts on a verified module.
#ifndef HYC_INTERPRETER_INTERPRETER_H
#define HYC_INTERPRETER_INTERPRETER_H

#include "dialects/Hyc/StateRoles.h"
#include "hyc/Interpreter/Device.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/LogicalResult.h"

namespace hyc::interpreter {

class Interpreter {
public:
  /// Gives every param and state its initial value. `module` is verified and outlives the interpreter.
  static llvm::FailureOr<Interpreter> create(mlir::ModuleOp module, const Options &options = {});

  /// Arguments by position. Floating-point arguments are converted to the kind that the arithmetic asks for.
  llvm::FailureOr<llvm::SmallVector<Tensor>> call(llvm::StringRef function, llvm::ArrayRef<Tensor> arguments);
  /// Arguments by their `hyc.input` or `hyc.scalar`; names that no argument has are ignored.
  llvm::FailureOr<llvm::SmallVector<Tensor>> call(llvm::StringRef function, const NamedTensors &arguments);

  /// From here on the first accumulation into each state overwrites.
  void beginStep() { device.accumulated.clear(); }

  /// The present value of a param or state, or null if there is none of this name.
  const Tensor *getState(llvm::StringRef symbol) const;
  /// Fails, after a diagnostic, where the symbol does not exist or has another shape.
  llvm::LogicalResult setState(llvm::StringRef symbol, const Tensor &value);

  mlir::ModuleOp getModule() const { return module; }
  const Options &getOptions() const { return device.options; }

private:
  Interpreter(mlir::ModuleOp module, Device device) : module(module), device(std::move(device)) {}

  mlir::ModuleOp module;
  Device device;
};

/// What the runtime sets before @apply.
struct StepScalars {
  StepScalars(double lr, double momentum = 0.9) : lr(lr), momentum(momentum) {}
  double lr, momentum;

  /// By the name that hyc.scalar has; none where there is no such scalar.
  std::optional<double> get(llvm::StringRef name) const {
    if (name == "lr")
      return lr;
    return name == "momentum" ? std::optional<double>(momentum) : std::nullopt;
  }
};

/// What a training step reports.
struct StepResult {
  double lossSum = 0;
  int64_t tokenCount = 0;
  double gradNorm = 0;

  /// Whether a state of this role is a part of it.
  static bool has(StateRole role);
  void take(StateRole role, const Tensor &value);

  /// Over the tokens counted; 0 where none were.
  double meanLoss() const { return tokenCount ? lossSum / static_cast<double>(tokenCount) : 0; }
};

/// Cuts every input's first dimension, the samples, into `count` equal micro-batches, in order. Fails, without a
/// diagnostic, where an input's samples cannot be cut so.
llvm::FailureOr<std::vector<NamedTensors>> splitMicroBatches(const NamedTensors &globalBatch, int64_t count);

/// One step of a phase 2 or 3 module: begin, `@microbatch` for each, `@apply` with `scalars`. The states of roles
/// loss_sum, token_count and grad_norm give the result; one that the module lacks is reported as 0.
llvm::FailureOr<StepResult> runTrainStep(Interpreter &interpreter, llvm::ArrayRef<NamedTensors> microBatches,
                                         StepScalars scalars);

} // namespace hyc::interpreter

#endif // HYC_INTERPRETER_INTERPRETER_H
