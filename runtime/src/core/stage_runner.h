// StageRunner: executes one stage's schedule, instruction by instruction, and keeps its inputs filled.
#ifndef HYCRT_SRC_CORE_STAGE_RUNNER_H_
#define HYCRT_SRC_CORE_STAGE_RUNNER_H_

#include <functional>
#include <optional>
#include <vector>

#include "core/trace.h"
#include "hycrt/context.h"
#include "hycrt/options.h"
#include "hycrt/status.h"
#include "io/token_file.h"

namespace hycrt {

// The scalars of a step that is over, as the generated code left them.
struct StepResult {
  double lossSum = 0;
  int64_t tokenCount = 0;
  double gradientNorm = 0;
};

// What loss scaling has come to.
struct LossScaling {
  double scale = 0;  // of the next step; 0: there is none
  int64_t appliedSteps = 0;
  bool exhausted = false;  // the last step overflowed at the least scale
};

class StageRunner {
 public:
  // `data` may be null for a stage without inputs.
  StageRunner(Context& ctx, const TokenFile* data, WindowOrder order, Trace* trace = nullptr)
      : ctx_(ctx), data_(data), order_(order), trace_(trace) {}

  // Runs between reduce and apply, where gradients are complete and not used up.
  std::function<Status()> afterReduce;

  // One step; ctx.step() says which. The first error of the program, the data or a peer.
  Status runStep(double learningRate);

  // As of the last step, or of its reduction where afterReduce asks.
  StepResult result() const;
  LossScaling lossScaling() const;

 private:
  Status execute(const Instruction& instruction, double learningRate);
  Status compute(const Instruction& instruction);
  Status exchange(const Instruction& instruction);
  Status beginStep();
  // From the image to the device, where there is one.
  Status upload(BufferRef buffer, int64_t bytes);
  // The scalars of a step from the device, where there is one.
  Status readScalars();
  Status fillInputs(int64_t microBatch);
  Status fillInput(const InputDesc& input, int64_t microBatch);

  Context& ctx_;
  const TokenFile* data_;
  WindowOrder order_;
  Trace* trace_;
  int64_t filledMicroBatch_ = -1;  // what the input buffers hold
  std::vector<bool> seenForward_;  // by virtual stage, since begin_step
  std::vector<bool> seenBackward_;
  std::vector<uint32_t> window_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_CORE_STAGE_RUNNER_H_
