// RankRun: one rank of a run, from its options to its end.
#ifndef HYCRT_SRC_RUN_RANK_RUN_H_
#define HYCRT_SRC_RUN_RANK_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/environment.h"
#include "base/resident.h"
#include "checkpoint/run_checkpoints.h"
#include "comm/channels.h"
#include "comm/host_exchanger.h"
#include "comm/staged_exchanger.h"
#include "comm/transport.h"
#include "copies/run_copies.h"
#include "hycrt/accelerator.h"
#include "hycrt/manifest.h"
#include "hycrt/memory_report.h"
#include "hycrt/options.h"
#include "hycrt/run.h"
#include "io/dataset.h"
#include "io/offload_file.h"
#include "memory/rank_memory.h"
#include "run/evaluation.h"
#include "run/exchange_report.h"
#include "run/interruption.h"
#include "run/measurement.h"
#include "run/stage_runner.h"
#include "run/step_times.h"
#include "run/step_waits.h"
#include "run/weights_folder.h"

namespace hycrt {

class RankRun {
 public:
  // Fills `environment`, which outlives this object as the others do.
  RankRun(const Program& program, RunOptions options, RunEvents& events, Environment& environment,
          MakeAccelerator makeAccelerator)
      : program_(program), options_(std::move(options)), events_(events), environment_(environment) {
    if (makeAccelerator) accelerator_ = makeAccelerator();
  }

  Status run();

  bool hasDevice() const { return accelerator_ != nullptr; }

 private:
  // rank_setup.cpp
  void tellOfBlamed();
  Status prepare();
  void enter(const char* what);
  void tellHow(const TransportKind& kind);
  Status takeTimeLimit();
  void tellOthers(const Status& failure) const;
  Status readSurroundings();
  Status openAccelerator();
  Status checkRecording();
  bool keepsOnDisk() const;
  Status openData();
  Status openData(const DataRequest& request, std::unique_ptr<Dataset>& data);
  Status lockOutputs();
  Status connect();
  Status allocateMemory(int64_t headBytes);
  void fillArenas();
  [[noreturn]] void abandon(const Status& status);
  // Of arenas on a device only the images are here.
  bool fillsArenas() const { return !options_.measureMemory.empty() && !accelerator_; }

  // rank_steps.cpp
  Status train();
  void measure(StageRunner& runner);
  Status startTogether();
  Status evaluate(Context& ctx);
  void setRate(int64_t tokens, int64_t samples, StepRecord* record) const;
  Status runStep(Context& ctx, StageRunner& runner, int64_t step);
  Status fillMemory(Context& ctx);
  Status uploadStates();
  Status readBackStates();
  void releaseImages();
  Status saveTrained(Context& ctx);
  Status tellOfTiers();
  Status tell(const StepRecord& record);
  CheckpointMemory checkpointMemory() const;
  ProfileFacts profileFacts() const { return {threads_, ownThread_, accelerator_ != nullptr}; }
  Status reportMemory();
  Status dumpGradients(Context& ctx, const StageRunner& runner);

  // rank_pauses.cpp
  Status checkFinite(const Context& ctx, const StepRecord& record, int64_t counted);
  Status checkWeights(const Context& ctx);
  void noteLeftOut(const Evaluation& evaluation, const Dataset& data);
  Status openEvaluation(Context& ctx);
  bool verifiesAfter(int64_t step, bool writes) const;
  Status verifyStates(Context& ctx, int64_t step);
  Result<uint32_t> wishesAfter(const Context& ctx, int64_t step);
  Result<uint32_t> wishesNow(const Context& ctx);
  Status endEarly(int64_t step, uint32_t wishes);
  Status writeCheckpoint(Context& ctx, int64_t step, uint32_t wishes);
  Status copyStates(Context& ctx, int64_t step);
  Status finishCopy(const Context& ctx, int64_t step);
  Status writeMeasurement(StageRunner& runner, int64_t step);
  bool evaluatesAfter(int64_t step) const;
  Result<uint32_t> evaluateBetween(const Context& ctx, int64_t step);
  Result<bool> fitsEvaluation(int64_t step);
  Result<uint32_t> measureAndEvaluate(const Context& ctx, StageRunner& runner, int64_t step);

  const Program& program_;
  RunOptions options_;
  RunEvents& events_;
  Environment& environment_;
  Coordinates at_;
  Manifest manifest_;
  BatchShares shares_;
  std::unique_ptr<Dataset> data_, heldOut_;
  std::optional<Evaluation> evaluation_;  // between steps
  int threads_ = 1;
  StepTimes times_;
  bool ownThread_ = false;
  double linkRate_ = 0;  // bytes a second, from another host
  bool meets_ = false;   // the other ranks, who then hear of this one's end
  bool recordsSteps_ = false;
  Measurement measurement_;
  StepWaits waits_;
  ExchangeReport exchanges_;
  ChannelPlans plans_;
  std::string catalog_;
  std::string run_;       // the job's name for it: rank 0's
  FileLock weightsLock_;  // of rank 0
  TimeLimit timeLimit_;
  bool hasLeftOutEvaluation_ = false;  // for want of time, which was told
  // What is below goes before what it stands on.
  std::unique_ptr<RankMemory> memory_;
  std::unique_ptr<BlockFile> file_;
  std::unique_ptr<HostExchanger> host_;
  std::unique_ptr<Accelerator> accelerator_;  // and with it the exchanges between devices
  std::unique_ptr<StagedExchanger> staged_;
  Exchanger* exchanger_ = nullptr;  // one of these three
  RemainingTime remaining_;
  const ResidentMemory resident_;
  RunCheckpoints checkpoints_;  // its thread uses the others
  RunCopies copies_;            // so does its
};

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_RANK_RUN_H_
