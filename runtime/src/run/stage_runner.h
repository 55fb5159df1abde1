// StageRunner: executes an entry's schedule on one stage, instruction by instruction, and keeps its inputs filled.
#ifndef HYCRT_SRC_RUN_STAGE_RUNNER_H_
#define HYCRT_SRC_RUN_STAGE_RUNNER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/trace.h"
#include "hycrt/context.h"
#include "hycrt/options.h"
#include "hycrt/status.h"
#include "io/dataset.h"
#include "profile/profile.h"
#include "run/batch_loader.h"
#include "run/batch_shares.h"

namespace hycrt {

// The scalars of a step that is over, as the generated code left them.
struct StepResult {
  double lossSum = 0;
  int64_t tokenCount = 0;
  double gradientNorm = 0;
  int64_t correctCount = -1;  // of tokenCount; -1: the program does not tell
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
  StageRunner(Context& ctx, const Entry& entry, Dataset* data, Trace* trace = nullptr)
      : ctx_(ctx), entry_(&entry), loader_(std::make_unique<BatchLoader>(ctx, entry, data)), trace_(trace) {
    selectSizes([](int64_t) { return true; });
  }

  // Takes lines for people.
  std::function<void(const std::string&)> note;

  // Runs between reduce and apply, where gradients are complete and not used up.
  std::function<Status()> afterReduce;

  // Steps after the first are recorded once and run as one thing. `insists`: an error where none can be recorded;
  // otherwise that is told, and steps run as before.
  void recordSteps(bool insists) { recording_ = insists ? Recording::kInsisted : Recording::kWanted; }

  // What measures the steps, and outlives the runner; null: nothing.
  void measureBy(Profile* profile) { profile_ = profile; }

  BatchLoader& loader() { return *loader_; }

  // Of a step this rank takes the micro-batches that are its coordinate's; `itemShift`: BatchLoader::shiftItems.
  void takeShares(const BatchShares& shares, int64_t itemShift);

  // Of an entry with smaller sizes beside it: the step that comes next, ctx.step(), is run at the smallest that its
  // samples fit in. All ranks come to the same, so all of them call it, or none.
  Status chooseSize();
  // Steps are run at the largest size, whatever their samples are.
  void holdLargestSize(bool holds) { holdsLargest_ = holds; }
  // Of the step: 0 where the entry has none.
  int64_t size() const { return entry_->size; }

  // One step; ctx.step() says which. The first error of the program, the data or a peer.
  Status runStep(double learningRate);

  // Forward alone of one global batch: what the schedule has of it, in its order, and the job-wide sums of the loss.
  Status evaluateBatch();

  // As of the last step, or of its reduction where afterReduce asks.
  StepResult result() const;
  LossScaling lossScaling() const;

 private:
  enum class Recording { kOff, kWanted, kInsisted, kDone };

  // What of the entry's schedule is executed, with transfers of its own that the instructions count in.
  struct Steps {
    std::vector<Instruction> schedule;
    std::vector<TransferUse> transferUses;
  };
  struct Size {
    const Entry* entry;
    Steps steps;
  };
  // The micro-batches for which `isTaken`, and all or what forward takes.
  Steps selectSteps(const Entry& entry, const std::function<bool(int64_t)>& isTaken, bool trains) const;
  void selectSizes(const std::function<bool(int64_t)>& isTaken);
  void takeSize(const Size& size);
  Status runSchedule(double learningRate);
  Status recordStep(double learningRate);
  Status refillStep(double learningRate);
  Status execute(const Steps& steps, const Instruction& instruction, double learningRate);
  Status compute(const Instruction& instruction);
  Status beginStep();
  // From the image to the device, where there is one.
  Status upload(BufferRef buffer, int64_t bytes);
  // The scalars of a step from the device, where there is one.
  Status readScalars();
  Status fillInputs(int64_t microBatch);
  void beginFunction(const Instruction& instruction);
  void endFunction();
  void leaveWord(const Instruction& instruction) const;
  void traceInstruction(const Instruction& instruction, int64_t beginNs, int64_t endNs);
  Status markDevice();
  Status traceDevice();

  Context& ctx_;
  const Entry* entry_;  // of the step
  std::unique_ptr<BatchLoader> loader_;
  Recording recording_ = Recording::kOff;
  bool hasRun_ = false;  // a whole step, which has chosen all that is chosen once
  Trace* trace_;
  Profile* profile_ = nullptr;
  std::vector<Size> sizes_;       // the smallest first; without smaller ones the entry alone
  const Steps* steps_ = nullptr;  // of the step's size
  bool holdsLargest_ = false;
  Steps forward_;                  // of evaluateBatch
  int64_t filledMicroBatch_ = -1;  // what the input buffers hold
  std::vector<bool> seenForward_;  // by virtual stage, since begin_step
  std::vector<bool> seenBackward_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_STAGE_RUNNER_H_
