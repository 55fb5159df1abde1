// One training step of a single-device module: micro-batches in order, then the update.
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Interpreter/Interpreter.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

FailureOr<std::vector<NamedTensors>> hyc::interpreter::splitMicroBatches(const NamedTensors &globalBatch,
                                                                         int64_t count) {
  if (count < 1)
    return failure();
  std::vector<NamedTensors> microBatches(count);
  for (const auto &input : globalBatch) {
    const Tensor &whole = input.second;
    if (!whole || whole.getTensorRank() == 0 || whole.getDim(0) % count != 0)
      return failure();
    int64_t samples = whole.getDim(0) / count;
    for (int64_t m = 0; m < count; ++m)
      microBatches[m][input.first()] = whole.window(0, m * samples, samples);
  }
  return microBatches;
}

bool StepResult::has(StateRole role) {
  return role == StateRole::lossSum || role == StateRole::tokenCount || role == StateRole::gradNorm;
}

void StepResult::take(StateRole role, const Tensor &value) {
  if (role == StateRole::lossSum)
    lossSum = value.getDouble();
  else if (role == StateRole::tokenCount)
    tokenCount = value.getInteger();
  else if (role == StateRole::gradNorm)
    gradNorm = value.getDouble();
}

FailureOr<StepResult> hyc::interpreter::runTrainStep(Interpreter &interpreter, ArrayRef<NamedTensors> microBatches,
                                                     StepScalars scalars) {
  interpreter.beginStep();
  for (const NamedTensors &inputs : microBatches)
    if (failed(interpreter.call(kMicrobatch, inputs)))
      return failure();
  NamedTensors arguments;
  for (StringRef name : {"lr", "momentum"})
    arguments[name] = Tensor::scalar(ElementKind::F64, *scalars.get(name));
  if (failed(interpreter.call(kApply, arguments)))
    return failure();
  StepResult result;
  for (StateOp state : interpreter.getModule().getOps<StateOp>())
    result.take(state.getFacts().role, *interpreter.getState(state.getSymName()));
  return result;
}
