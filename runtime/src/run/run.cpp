// runProgram: one rank from its command line to its exit status.
#include "hycrt/run.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "base/environment.h"
#include "base/limits.h"
#include "base/resident.h"
#include "base/threads.h"
#include "base/whereabouts.h"
#include "checkpoint/replica_check.h"
#include "checkpoint/run_checkpoints.h"
#include "comm/channels.h"
#include "comm/device_exchanger.h"
#include "comm/host_exchanger.h"
#include "comm/staged_exchanger.h"
#include "comm/transport.h"
#include "copies/run_copies.h"
#include "hycrt/log.h"
#include "hycrt/manifest.h"
#include "hycrt/memory_report.h"
#include "hycrt/options.h"
#include "io/initial_values.h"
#include "io/offload_file.h"
#include "memory/rank_memory.h"
#include "run/evaluation.h"
#include "run/exchange_report.h"
#include "run/interruption.h"
#include "run/job_agreement.h"
#include "run/measurement.h"
#include "run/network.h"
#include "run/nonfinite.h"
#include "run/program_check.h"
#include "run/stage_runner.h"
#include "run/state_file.h"
#include "run/step_observer.h"
#include "run/step_waits.h"
#include "run/terminal_events.h"
#include "run/weights_folder.h"
#include "run/whereabouts_signal.h"

namespace hycrt {
namespace {

constexpr int64_t kKeptImageBytes = int64_t{1} << 20;

double nowMs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

// OUT of OUT/bin/stage0.
Result<std::string> folderAboveExecutable() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return errnoError("cannot tell where this executable lies; give --out", errno);
  std::string folder(path, static_cast<size_t>(length));
  for (int i = 0; i < 2; ++i) folder.resize(std::max<size_t>(folder.rfind('/'), 1));
  return folder;
}

class RankRun {
 public:
  // Fills `environment`, which outlives this object as the others do.
  RankRun(const Program& program, RunOptions options, RunEvents& events, Environment& environment,
          MakeAccelerator makeAccelerator)
      : program_(program), options_(std::move(options)), events_(events), environment_(environment) {
    if (makeAccelerator) accelerator_ = makeAccelerator();
  }

  Status run() {
    HYCRT_RETURN_IF_ERROR(checkLogLevel());
    HYCRT_RETURN_IF_ERROR(checkProgram(program_));
    Status status = accelerator_ ? accelerator_->probe() : Status();
    if (const Status read = readSurroundings(); !read.ok()) return status.ok() ? read : status;
    if (status.ok() && environment_.checksOnly) return {};
    if (status.ok()) status = prepare();
    if (status.ok()) status = connect();
    if (!status.ok() && !meets_) tellOthers(status);
    if (!status.ok()) return status;
    status = train();
    // From here on peers are told, so that they need not find out.
    if (!status.ok()) host_->leaveWords(status);
    tellOfBlamed();
    const Status left = exchanger_->leave(status.ok());
    if (status.ok()) status = left;
    return status;
  }

  bool hasDevice() const { return accelerator_ != nullptr; }

 private:
  // Not this rank, which ends with an error, is to be left out, nor its host.
  void tellOfBlamed() {
    const int blamed = host_->blamedRank();
    if (blamed < 0) return;
    const std::string cause = "rank " + std::to_string(blamed) + " has not moved for " +
                              std::to_string(options_.exchangeTimeout) + " s (--exchange-timeout)";
    (void)events_.happened({RunEvent::Kind::kFailure, 0, cause, 0, "", blamed});
  }

  // All that can fail in one rank alone, before it meets the others.
  Status prepare() {
    enter("prepares");
    HYCRT_RETURN_IF_ERROR(takeEntry(manifest_, &options_));
    HYCRT_RETURN_IF_ERROR(openAccelerator());
    HYCRT_RETURN_IF_ERROR(checkOutputs(options_, filesReadBy(manifest_)));
    checkpoints_.note = [this](const std::string& line) { events_.note(line); };
    checkpoints_.tell = [this](const RunEvent& event) { return events_.happened(event); };
    checkpoints_.took = [this](double seconds) { timeLimit_.checkpointTook(seconds); };
    copies_.note = checkpoints_.note;
    copies_.tell = checkpoints_.tell;
    Result<std::optional<Checkpoint>> copy = copies_.prepare(environment_, options_);
    if (!copy.ok()) return copy.status();
    HYCRT_RETURN_IF_ERROR(checkpoints_.prepare(environment_.rank, &options_, std::move(*copy)));
    HYCRT_RETURN_IF_ERROR(takeTimeLimit());
    const int threads = threads_ = threadsPerRank(options_, manifest_.threads, environment_);
    HYCRT_RETURN_IF_ERROR(checkThreads(program_, threads));
    HYCRT_RETURN_IF_ERROR(checkPoison(program_, options_));
    ownThread_ = !accelerator_ && hasCommunicationThread(options_, threads, environment_);
    applyThreadPlan({threads, environment_.localRank, environment_.ranksHere, /*pins=*/!accelerator_});
    HYCRT_RETURN_IF_ERROR(startTeam(threads, [this](const Status& status) {
      events_.abandon(status);
      tellOthers(status);
    }));
    enter("opens the data");
    HYCRT_RETURN_IF_ERROR(checkMomentum(manifest_, options_));
    if (options_.evaluate) HYCRT_RETURN_IF_ERROR(checkEvaluation(program_));
    HYCRT_RETURN_IF_ERROR(measurement_.prepare(options_, manifest_, environment_.rank, accelerator_ != nullptr));
    HYCRT_RETURN_IF_ERROR(shares_.take(program_, options_.batchShares));
    HYCRT_RETURN_IF_ERROR(openData());
    HYCRT_RETURN_IF_ERROR(checkpoints_.checkData(data_.get(), options_, shares_.samples()));
    return lockOutputs();
  }

  // What SIGUSR1 will tell; text has to be a literal.
  void enter(const char* what) {
    Whereabouts::ofProcess().doing(what);
    events_.debug(what);
  }

  void tellHow(const TransportKind& kind) {
    const std::string master = environment_.hosts > 1
                                   ? ", at " + environment_.masterAddress + " port " + std::to_string(environment_.port)
                                   : "";
    events_.debug("rank " + std::to_string(environment_.rank) + " of " + std::to_string(environment_.worldSize) + ", " +
                  std::to_string(environment_.ranksHere) + " on this host; by " + kind.name + master +
                  (ownThread_ ? "; exchanges have a thread of their own" : ""));
  }

  Status takeTimeLimit() {
    int64_t bytes = 0;
    for (const StateDesc& state : program_.states) bytes += heldElements(state) * sizeOf(state.dtype);
    Result<TimeLimit> limit = TimeLimit::of(options_, bytes);
    if (!limit.ok()) return limit.status();
    timeLimit_ = *limit;
    return {};
  }

  // Those that are waiting for this rank, unless their launcher ends them.
  void tellOthers(const Status& failure) const {
    if (environment_.underHycRun || environment_.checksOnly) return;
    const NetworkOptions network = networkOptions(options_);
    if (const Result<const TransportKind*> kind = transportFor(environment_, network); kind.ok()) {
      (*kind)->tellOfFailure(environment_, network, program_.name, failure);
    }
  }

  Status readSurroundings() {
    Result<Environment> environment = readEnvironment(program_.mesh);
    if (!environment.ok()) return environment.status();
    environment_ = *environment;
    Whereabouts::ofProcess().beRank(environment_.rank);
    at_ = coordinatesOf(program_.mesh, environment_.rank);
    if (at_.stage != program_.stage) {
      return usageError("rank " + std::to_string(environment_.rank) + " is in stage " + std::to_string(at_.stage) +
                        ", but this is the program of stage " + std::to_string(program_.stage));
    }
    std::string folder = options_.out;
    if (folder.empty()) {
      Result<std::string> above = folderAboveExecutable();
      if (!above.ok()) return above.status();
      folder = *above;
    }
    Result<Manifest> manifest = readManifest(folder);
    if (!manifest.ok()) return manifest.status();
    manifest_ = std::move(*manifest);
    return checkAgainstManifest(program_, manifest_);
  }

  Status openAccelerator() {
    if (!accelerator_) {
      const char* const given = options_.tf32                              ? "--tf32 is given"
                                : options_.comm == DeviceComm::kNccl       ? "--comm is nccl"
                                : options_.cudaGraph == StepRecording::kOn ? "--cuda-graph is on"
                                                                           : nullptr;
      if (!given) return {};
      return usageError(std::string(given) + ", but program '" + program_.name +
                        "' is compiled for CPUs; leave it out, or compile with --target cuda");
    }
    HYCRT_RETURN_IF_ERROR(checkRecording());
    return accelerator_->open(program_, {environment_.localRank, environment_, options_.comm, options_.tf32});
  }

  // Staged exchanges want the host between kernels, and so do disks, checks, a trace and a profile.
  Status checkRecording() {
    static constexpr char kDisk[] = "the program moves states to and from a disk (nvme), which the host waits for";
    const bool isStaged = environment_.worldSize > 1 && options_.comm == DeviceComm::kStaged;
    const char* const reason = keepsOnDisk()               ? kDisk
                               : isStaged                  ? "the ranks exchange by way of the host (--comm shm)"
                               : !options_.trace.empty()   ? "--trace tells of the parts of a step"
                               : !options_.profile.empty() ? "--profile measures the parts of a step"
                               : program_.checksFinite     ? "the program checks what each op makes (--check-finite)"
                                                           : nullptr;
    recordsSteps_ = options_.cudaGraph != StepRecording::kOff && !reason && program_.scalars.learningRate.arena >= 0;
    if (reason == kDisk && options_.cudaGraph == StepRecording::kAuto && environment_.rank == 0)
      events_.note(std::string("steps are run without a graph: ") + kDisk);
    if (recordsSteps_ || options_.cudaGraph != StepRecording::kOn) return {};
    return usageError(std::string("--cuda-graph is on, but ") + (reason ? reason : "the program does not train") +
                      "; leave one of them out");
  }

  bool keepsOnDisk() const {
    return std::any_of(program_.arenas.begin(), program_.arenas.end(),
                       [](const ArenaDesc& arena) { return arena.sharing == Sharing::kFile; });
  }

  Status openData() {
    // A stage in the middle reads nothing, but in an evaluation has to know with the others when the data ends.
    if (program_.inputs.size > 0 || options_.evaluate) {
      if (options_.data.empty()) return usageError("the model reads data; give it with --data FILE");
      const Result<WindowOrder> order = orderOf(options_);
      if (!order.ok()) return order.status();
      HYCRT_RETURN_IF_ERROR(openData(
          {"--data", options_.data, options_.dataFormat, options_.evaluate ? WindowOrder::kInFile : *order}, data_));
    }
    if (options_.evaluateData.empty()) return {};
    return openData({"--evaluate-data", options_.evaluateData, options_.dataFormat, WindowOrder::kInFile}, heldOut_);
  }

  Status openData(const DataRequest& request, std::unique_ptr<Dataset>& data) {
    Result<std::unique_ptr<Dataset>> opened = openDataset(request, program_);
    if (!opened.ok()) return opened.status();
    data = std::move(*opened);
    if (at_.place != 0) return {};  // one rank of a stage is enough to find it
    for (const InputDesc& input : program_.inputs) HYCRT_RETURN_IF_ERROR(data->checkIndices(input));
    return {};
  }

  // A run that could not save in the end had better not begin.
  Status lockOutputs() {
    if (options_.saveWeights.empty() || environment_.rank != 0) return {};
    Result<FileLock> lock = lockWeightsTarget(options_.saveWeights);
    if (!lock.ok()) return lock.status();
    weightsLock_ = std::move(*lock);
    return {};
  }

  Status connect() {
    DeviceExchanger* const byDevice = accelerator_ ? accelerator_->exchanger() : nullptr;
    plans_ = planChannels(program_, at_);
    catalog_ = catalogOf(program_, environment_.run);
    Result<std::string> agreement = jobAgreement(manifest_, options_, data_ != nullptr);
    if (!agreement.ok()) return agreement.status();
    const TransportSetup setup{program_,
                               environment_,
                               plans_,
                               catalog_,
                               byDevice ? byDevice->greeter() : nullptr,
                               *agreement,
                               networkOptions(options_)};
    Result<const TransportKind*> kind = transportFor(environment_, setup.network);
    if (!kind.ok()) return kind.status();
    HYCRT_RETURN_IF_ERROR(allocateMemory((*kind)->headBytes(setup)));
    meets_ = true;
    enter("meets the other ranks");
    tellHow(**kind);
    Result<std::unique_ptr<Transport>> transport = (*kind)->connect(setup, *memory_);
    if (!transport.ok()) return transport.status();
    const auto note = [this](const std::string& line) { events_.note(line); };
    Result<std::unique_ptr<HostExchanger>> host =
        HostExchanger::create(setup, memory_->arenas(), std::move(*transport),
                              {ownThread_, measurement_.trace(), {options_.exchangeTimeout * 1000, note}});
    if (!host.ok()) return host.status();
    host_ = std::move(*host);
    exchanger_ = host_.get();
    run_ = runOf(host_->catalogOf(0));
    if (byDevice) {
      exchanger_ = byDevice;
      return byDevice->connect(program_, *host_, *accelerator_, [this](const Status& status) { abandon(status); });
    }
    if (accelerator_) {
      staged_ = std::make_unique<StagedExchanger>(program_, environment_.rank, *host_, *accelerator_);
      exchanger_ = staged_.get();
    }
    return {};
  }

  Status allocateMemory(int64_t headBytes) {
    Result<std::unique_ptr<BlockFile>> file = openOffloadFile(
        program_, environment_.rank, options_.nvmePath.empty() ? manifest_.nvmePath : options_.nvmePath);
    if (!file.ok()) return file.status();
    Result<RankMemory> memory = RankMemory::allocate(program_, {headBytes, /*reservesPages=*/!accelerator_});
    if (!memory.ok()) return memory.status();
    memory_ = std::make_unique<RankMemory>(std::move(*memory));
    file_ = std::move(*file);
    if (fillsArenas()) fillArenas();
    if (accelerator_) {
      const bool isStaged = !accelerator_->exchanger() && environment_.worldSize > 1;
      HYCRT_RETURN_IF_ERROR(accelerator_->allocate(program_, memory_->arenas(), isStaged, file_.get()));
    }
    if (file_ && environment_.rank == 0) events_.note(file_->description());
    return {};
  }

  // Of arenas on a device only the images are here.
  bool fillsArenas() const { return !options_.measureMemory.empty() && !accelerator_; }

  // All but states, which begin as zeros where their initializer says nothing else.
  void fillArenas() {
    for (int64_t i = 0; i < program_.arenas.size; ++i) {
      if (std::byte* arena = memory_->arenas()[i]) fillUntouched(arena, program_.arenas[i].bytes);
    }
    clearStates(program_, memory_->arenas());
  }

  Status train() {
    Context ctx(program_, at_, memory_->arenas(), exchanger_, file_.get(), accelerator_.get());
    enter("loads the states");
    ctx.setSeed(options_.seed);
    ctx.setPoisons(options_.poison);
    HYCRT_RETURN_IF_ERROR(checkpoints_.load(ctx, manifest_, options_));
    HYCRT_RETURN_IF_ERROR(uploadStates());
    HYCRT_RETURN_IF_ERROR(events_.begin());
    if (environment_.rank == 0) HYCRT_RETURN_IF_ERROR(checkpoints_.tellResume());
    measurement_.begin(program_, *exchanger_, accelerator_.get());
    StageRunner runner(ctx, program_.entries[0], data_.get(), measurement_.trace());
    runner.measureBy(measurement_.profile());
    runner.takeShares(shares_, checkpoints_.itemShift(shares_.samples()));
    runner.note = [this](const std::string& line) { events_.note(line); };
    if (recordsSteps_) runner.recordSteps(options_.cudaGraph == StepRecording::kOn);
    HYCRT_RETURN_IF_ERROR(checkpoints_.open(ctx, options_, environment_.ranksHere));
    HYCRT_RETURN_IF_ERROR(copies_.open(ctx));
    if (environment_.rank == 0 && environment_.worldSize > 1) exchanges_.open(program_);
    const StepObserver observer;
    // Nobody's first step includes another's start.
    enter("waits for all before the first step");
    HYCRT_RETURN_IF_ERROR(exchanger_->barrier());
    enter(options_.evaluate ? "evaluates" : "trains");
    if (options_.evaluate) return evaluate(ctx);
    runner.loader().readAhead();
    HYCRT_RETURN_IF_ERROR(openEvaluation(ctx));
    const int64_t first = checkpoints_.firstStep();
    for (int64_t step = first; step < options_.steps; ++step) {
      measurement_.stepBegins(step - first);
      if (step == first + 1) measureFrom_ = {monotonicNs(), exchanger_->waitedNs()};
      observer.stepBegins(step);
      HYCRT_RETURN_IF_ERROR(runStep(ctx, runner, step));
      const Result<uint32_t> wishes = wishesAfter(ctx, step);
      if (!wishes.ok()) return wishes.status();
      const bool ends = *wishes & (kEndRun | kTimeIsUp);
      if (!ends && evaluatesAfter(step)) HYCRT_RETURN_IF_ERROR(evaluateBetween(ctx, step));
      const bool writes = *wishes || checkpoints_.isDueAfter(step, options_), copies = copies_.isDueAfter(step);
      if (verifiesAfter(step, writes || copies)) HYCRT_RETURN_IF_ERROR(verifyStates(ctx, step));
      if (writes) HYCRT_RETURN_IF_ERROR(writeCheckpoint(ctx, step, *wishes));
      if (ends) return endEarly(step, *wishes);
      if (copies) HYCRT_RETURN_IF_ERROR(copyStates(ctx, step));
    }
    // What a run has not trained can have another layout.
    if (first >= options_.steps) HYCRT_RETURN_IF_ERROR(writeCheckpoint(ctx, first - 1, 0));
    observer.stepBegins(options_.steps);
    tellExposedCommunication();
    enter("ends the run");
    HYCRT_RETURN_IF_ERROR(reportMemory());
    const ProfileFacts facts{threads_, ownThread_, accelerator_ != nullptr};
    HYCRT_RETURN_IF_ERROR(measurement_.write(*exchanger_, environment_.worldSize, run_, facts, runner.note));
    if (!options_.saveWeights.empty()) {
      enter("writes the weights");
      HYCRT_RETURN_IF_ERROR(readBackStates());
      HYCRT_RETURN_IF_ERROR(checkWeights(ctx));
      const Adapter* const adapter = manifest_.adapter ? &*manifest_.adapter : nullptr;
      HYCRT_RETURN_IF_ERROR(
          saveWeights(ctx, options_.saveWeights, {run_, manifest_.folder + "/model", adapter, options_.merge}));
    }
    return exchanger_->barrier();
  }

  // All ranks come to the same; none of them ends before rank 0 has told of the step.
  // A checkpoint of before is what the user goes on from.
  Status checkFinite(const Context& ctx, const StepRecord& record, int64_t counted) {
    if (options_.allowNonfinite) return {};
    Status status = checkFiniteStep(record, counted, program_);
    if (!status.ok()) HYCRT_RETURN_IF_ERROR(checkpoints_.finish(ctx));
    if (!status.ok()) HYCRT_RETURN_IF_ERROR(exchanger_->barrier());
    return status;
  }

  // Nobody begins to write before everybody's part is known to be sound. Of a run that may diverge nothing is lost
  // where nothing was.
  Status checkWeights(const Context& ctx) {
    const bool isThere = access(options_.saveWeights.c_str(), F_OK) == 0;
    if (!options_.allowNonfinite || isThere) HYCRT_RETURN_IF_ERROR(checkFiniteWeights(ctx, options_.saveWeights));
    return exchanger_->barrier();
  }

  // All that the run does: the mean loss so far, after each batch.
  Status evaluate(Context& ctx) {
    Result<Evaluation> evaluation =
        Evaluation::create(ctx, *data_, "--data", options_.data, options_.limitsSteps ? options_.steps : 0, nullptr);
    if (!evaluation.ok()) return evaluation.status();
    noteLeftOut(*evaluation, *data_);
    const Result<EvaluationSums> sums = evaluation->run([&](const EvaluationSums& sums) {
      StepRecord record;
      record.evaluates = true;
      record.step = sums.batches;
      record.steps = evaluation->batches();
      record.loss = sums.loss();
      if (sums.correct >= 0) record.accuracy = sums.accuracy();
      record.milliseconds = sums.lastMilliseconds;
      setRate(sums.lastCounted, evaluation->globalBatch(), &record);
      record.etaSeconds = remaining_.after(record.milliseconds, record.steps - record.step);
      HYCRT_RETURN_IF_ERROR(tell(record));
      return checkFinite(ctx, record, sums.counted);
    });
    return sums.ok() ? exchanger_->barrier() : sums.status();
  }

  void noteLeftOut(const Evaluation& evaluation, const Dataset& data) {
    if (environment_.rank != 0 || evaluation.samplesLeftOut() == 0) return;
    events_.note("evaluation: the last " + std::to_string(evaluation.samplesLeftOut()) + " of " +
                 std::to_string(data.sampleCount()) + " samples fill no global batch of " +
                 std::to_string(evaluation.globalBatch()) + " and are left out");
  }

  Status openEvaluation(Context& ctx) {
    if (!heldOut_) return {};
    if (!findEntry(program_, kEvaluateEntry)) {
      return usageError(std::string("--evaluate-data is given, but program '") + program_.name +
                        "' has no entry that evaluates; compile with --entry train,evaluate");
    }
    Result<Evaluation> evaluation = Evaluation::create(ctx, *heldOut_, "--evaluate-data", options_.evaluateData,
                                                       options_.evaluateBatches, measurement_.trace());
    if (!evaluation.ok()) return evaluation.status();
    evaluation_.emplace(std::move(*evaluation));
    if (options_.evaluateBatches == 0) noteLeftOut(*evaluation_, *heldOut_);
    return {};
  }

  void setRate(int64_t tokens, int64_t samples, StepRecord* record) const {
    const double perSecond = 1e3 / record->milliseconds;
    record->tokensPerSecond = static_cast<double>(tokens) * perSecond;
    if (program_.batch.sequence <= 1) record->samplesPerSecond = static_cast<double>(samples) * perSecond;
  }

  // What a checkpoint would hold is looked at before it is written.
  bool verifiesAfter(int64_t step, bool writes) const {
    return options_.verifyStates > 0 && (writes || (step + 1) % options_.verifyStates == 0);
  }

  Status verifyStates(Context& ctx, int64_t step) {
    const Mark before{monotonicNs(), exchanger_->waitedNs()};
    HYCRT_RETURN_IF_ERROR(readBackStates());
    Status status = checkReplicas(ctx, step + 1);
    // All ranks know; the checkpoint of before is one of states that agreed.
    if (!status.ok() && status.code() != StatusCode::kPeerLost) HYCRT_RETURN_IF_ERROR(checkpoints_.finish(ctx));
    if (!status.ok()) return status;
    const int64_t took = monotonicNs() - before.begin;
    measureFrom_.begin += took;
    measureFrom_.waited += exchanger_->waitedNs() - before.waited;
    if (environment_.rank != 0) return {};
    return events_.happened({RunEvent::Kind::kVerify, step + 1, "", static_cast<double>(took) * 1e-9, ""});
  }

  // What any rank is asked for, so that all do it after the same step; after the last all is done anyway.
  // The checkpoint that is being written gets on by it, too.
  Result<uint32_t> wishesAfter(const Context& ctx, int64_t step) {
    if (options_.checkpoint.empty() || step + 1 == options_.steps) return uint32_t{0};
    const int64_t before = exchanger_->waitedNs();
    uint32_t own = events_.wishes();
    if (timeLimit_.isUp(checkpoints_.isWriting())) own |= kTimeIsUp;
    const Result<const uint64_t*> all = exchanger_->share(own | checkpoints_.word());
    measureFrom_.waited += exchanger_->waitedNs() - before;
    if (!all.ok()) return all.status();
    for (int rank = 0; rank < environment_.worldSize; ++rank) own |= static_cast<uint32_t>((*all)[rank]);
    HYCRT_RETURN_IF_ERROR(checkpoints_.advance(ctx, *all));
    return own;
  }

  // Every rank has told of it before any is gone.
  Status endEarly(int64_t step, uint32_t wishes) {
    const std::string cause = causeOfEnd(wishes);
    if (environment_.rank == 0) {
      events_.note("ends after step " + std::to_string(step + 1) + " (" + cause +
                   "), with status 75; with --resume auto the same command goes on");
    }
    HYCRT_RETURN_IF_ERROR(events_.happened({RunEvent::Kind::kEnd, step + 1, cause, 0, ""}));
    return exchanger_->barrier();
  }

  // Between two steps; what steps wait and take is told without it. One that comes due while another is being written
  // waits for that; of the last the end of the run does.
  Status writeCheckpoint(Context& ctx, int64_t step, uint32_t wishes) {
    if (options_.checkpoint.empty()) return {};
    enter("writes a checkpoint");
    const Mark before{monotonicNs(), exchanger_->waitedNs()};
    HYCRT_RETURN_IF_ERROR(checkpoints_.finish(ctx));
    if (ctx.file()) copies_.awaitStates();
    HYCRT_RETURN_IF_ERROR(readBackStates());
    const bool isLast = step + 1 >= options_.steps, ends = wishes & (kEndRun | kTimeIsUp);
    const std::string cause = causeOfCheckpoint(wishes, options_, isLast);
    HYCRT_RETURN_IF_ERROR(checkpoints_.begin(ctx, step + 1, manifest_, options_, run_, cause, isLast || ends));
    measureFrom_.begin += monotonicNs() - before.begin;
    measureFrom_.waited += exchanger_->waitedNs() - before.waited;
    return {};
  }

  // The one before is over (finishCopy). What lies on a disk or in the image of a device is read for one thing at a
  // time.
  Status copyStates(Context& ctx, int64_t step) {
    enter("copies the states to another host");
    const Mark before{monotonicNs(), exchanger_->waitedNs()};
    if (ctx.file()) HYCRT_RETURN_IF_ERROR(checkpoints_.finish(ctx));
    HYCRT_RETURN_IF_ERROR(readBackStates());
    HYCRT_RETURN_IF_ERROR(copies_.begin(ctx, checkpoints_.describe(ctx, step + 1, manifest_, options_)));
    measureFrom_.begin += monotonicNs() - before.begin;
    measureFrom_.waited += exchanger_->waitedNs() - before.waited;
    enter("trains");
    return {};
  }

  // Before a step is told after which the next copy is due, and the last: of what was told, one step at most is in
  // none.
  Status finishCopy(const Context& ctx, int64_t step) {
    if (!copies_.isDueAfter(step) && step + 1 < options_.steps) return {};
    const Mark before{monotonicNs(), exchanger_->waitedNs()};
    HYCRT_RETURN_IF_ERROR(copies_.finish(ctx));
    measureFrom_.begin += monotonicNs() - before.begin;
    measureFrom_.waited += exchanger_->waitedNs() - before.waited;
    return {};
  }

  bool evaluatesAfter(int64_t step) const {
    if (!evaluation_) return false;
    const bool isDue = options_.evaluateEvery > 0 && (step + 1) % options_.evaluateEvery == 0;
    return isDue || step + 1 == options_.steps;
  }

  // Between two steps, over the held-out data, by parameters that nobody changes meanwhile.
  Status evaluateBetween(const Context& ctx, int64_t step) {
    enter("evaluates between two steps");
    const Mark before{monotonicNs(), exchanger_->waitedNs()};
    const Result<EvaluationSums> sums = evaluation_->run();
    if (!sums.ok()) return sums.status();
    StepRecord record;
    record.evaluates = true;
    record.step = step + 1;
    record.steps = options_.steps;
    record.batches = sums->batches;
    record.loss = sums->loss();
    if (sums->correct >= 0) record.accuracy = sums->accuracy();
    record.milliseconds = sums->milliseconds;
    setRate(sums->counted, sums->batches * evaluation_->globalBatch(), &record);
    // What steps wait and take is told without this.
    measureFrom_.begin += monotonicNs() - before.begin;
    measureFrom_.waited += exchanger_->waitedNs() - before.waited;
    HYCRT_RETURN_IF_ERROR(tell(record));
    return checkFinite(ctx, record, sums->counted);
  }

  Status runStep(Context& ctx, StageRunner& runner, int64_t step) {
    const double begin = nowMs();
    const LossScaling scaling = runner.lossScaling();
    // A step that is skipped does not move the schedule on.
    const int64_t applied = scaling.scale == 0 ? step - checkpoints_.skippedSteps() : scaling.appliedSteps;
    const double learningRate = manifest_.learningRate.at(applied, options_.steps);
    std::optional<double> momentum;
    if (manifest_.learningRate.cyclesMomentum()) {
      momentum = manifest_.learningRate.momentumAt(applied);
      *ctx.ptr<double>(program_.scalars.momentum) = *momentum;
      if (accelerator_) HYCRT_RETURN_IF_ERROR(accelerator_->upload(program_.scalars.momentum, sizeof(double)));
    }
    ctx.setStep(step);
    Whereabouts::ofProcess().beginStep(step + 1, options_.steps);
    runner.afterReduce = nullptr;
    const bool dumps = step == checkpoints_.firstStep() && !options_.dumpGradients.empty();
    if (dumps) runner.afterReduce = [&] { return dumpGradients(ctx, runner); };
    waits_.begin(*exchanger_);
    HYCRT_RETURN_IF_ERROR(runner.runStep(learningRate));
    const StepResult result = runner.result();
    StepRecord record;
    record.step = step + 1;
    record.steps = options_.steps;
    record.loss = result.lossSum / static_cast<double>(result.tokenCount);
    record.gradNorm = result.gradientNorm;
    record.learningRate = learningRate;
    record.momentum = momentum;
    record.milliseconds = nowMs() - begin;
    setRate(result.tokenCount, shares_.samples(), &record);
    record.etaSeconds = remaining_.after(record.milliseconds, options_.steps - step - 1);
    const LossScaling after = runner.lossScaling();
    if (environment_.worldSize > 1) waits_.tell(*exchanger_, &record);
    record.lossScale = scaling.scale;
    record.skipped = scaling.scale == 0 ? 0 : step + 1 - after.appliedSteps;
    if (!accelerator_ && environment_.rank == 0) {
      record.residentBytes = resident_.bytes();
      record.plannedBytes = plannedBytes(program_) + checkpointMemory().bytes();
    }
    timeLimit_.stepTook(record.milliseconds / 1e3);
    checkpoints_.stepTook(record.milliseconds / 1e3);
    HYCRT_RETURN_IF_ERROR(finishCopy(ctx, step));
    HYCRT_RETURN_IF_ERROR(tell(record));
    const bool isApplied = scaling.scale == 0 || after.appliedSteps != scaling.appliedSteps;
    if (isApplied) HYCRT_RETURN_IF_ERROR(checkFinite(ctx, record, result.tokenCount));
    if (!after.exhausted) return {};
    return dataError("step " + std::to_string(step + 1) + ": the gradients overflow at the least loss scale, " +
                     std::to_string(after.scale) + "; lower the learning rate, or compute in bf16");
  }

  // States between the device, where there is one, and their images.
  Status uploadStates() {
    if (!accelerator_) return {};
    for (const StateDesc& state : program_.states) {
      if (program_.arenas[state.buffer.arena].onHost) continue;  // the image is the arena
      HYCRT_RETURN_IF_ERROR(accelerator_->upload(state.buffer, heldElements(state) * sizeOf(state.dtype)));
    }
    HYCRT_RETURN_IF_ERROR(accelerator_->finish());
    // Their images are read again only after they were copied back. What is small may hold what the host still counts.
    for (int i = 0; i < program_.arenas.size; ++i) {
      const ArenaDesc& arena = program_.arenas[i];
      if (!arena.onHost && arena.bytes > kKeptImageBytes) memory_->release(i);
    }
    if (environment_.rank == 0) events_.note(accelerator_->describe());
    return {};
  }
  Status readBackStates() {
    if (!accelerator_) return {};
    checkpoints_.awaitStates();
    copies_.awaitStates();
    for (const StateDesc& state : program_.states) {
      HYCRT_RETURN_IF_ERROR(accelerator_->copyToHost(state.buffer, heldElements(state) * sizeOf(state.dtype)));
    }
    return accelerator_->finish();
  }

  // Of the steps after the first, on the rank that also reports the steps.
  void tellExposedCommunication() const {
    const int64_t run = options_.steps - checkpoints_.firstStep();
    if (environment_.rank != 0 || environment_.worldSize == 1 || run < 2) return;
    if (exchanger_->waitedNs() < 0) return;  // the host waits for none of them
    const double steps = static_cast<double>(run - 1) * 1e6;
    const double waited = static_cast<double>(exchanger_->waitedNs() - measureFrom_.waited) / steps;
    const double whole = static_cast<double>(monotonicNs() - measureFrom_.begin) / steps;
    const StepEstimate& estimate = ownThread_ ? manifest_.estimateOwnThread : manifest_.estimateInTurn;
    char expected[96] = "";
    if (estimate.milliseconds > 0) {
      std::snprintf(expected, sizeof expected, "; the plan's estimate: %.1f %% of %.1f ms", estimate.waiting * 100,
                    estimate.milliseconds);
    }
    char line[256];
    std::snprintf(line, sizeof line, "communication: %.1f of %.1f ms a step exposed (%.1f %%), %s%s", waited, whole,
                  waited / whole * 100, ownThread_ ? "on a thread of its own" : "on the computing thread", expected);
    events_.note(line);
  }

  Status tell(const StepRecord& record) {
    if (environment_.rank != 0) return {};
    HYCRT_RETURN_IF_ERROR(events_.step(record));
    return record.evaluates ? Status() : exchanges_.tell(*exchanger_, events_, record.step == record.steps);
  }

  // Without waiting for the device, whose kernels may be waiting for ranks that are gone.
  [[noreturn]] void abandon(const Status& status) {
    events_.abandon(status);
    std::fflush(stderr);
    std::_Exit(status.exitCode());
  }

  CheckpointMemory checkpointMemory() const {
    CheckpointMemory memory;
    const auto add = [&](const char* name, const Snapshot* room) {
      if (room) memory.rooms.push_back({name, room->base(), room->bytes()});
    };
    add("snapshot", checkpoints_.snapshot());
    add("copy", copies_.snapshot());
    memory.writerBytes = program_.checkpointWriterBytes * (checkpoints_.hasWritten() + (copies_.snapshot() != nullptr));
    return memory;
  }

  // While every rank still has all that it had: of pages that several ranks map, each counts its part.
  Status reportMemory() {
    HYCRT_RETURN_IF_ERROR(exchanger_->barrier());
    const MeasuredMemory memory{memory_->arenas(),  file_.get(),          memory_->headBytes(), fillsArenas(),
                                checkpointMemory(), measurement_.bytes(), host_->bufferBytes()};
    MemoryRecord record = measureMemory(program_, memory, environment_.rank);
    if (accelerator_) {
      const Result<DeviceMemory> device = accelerator_->measureMemory();
      if (!device.ok()) return device.status();
      record.device = *device;
    }
    HYCRT_RETURN_IF_ERROR(events_.memory(record));
    return exchanger_->barrier();
  }

  // The states hold sums over tokens; what is written are gradients of the mean loss.
  Status dumpGradients(Context& ctx, const StageRunner& runner) {
    HYCRT_RETURN_IF_ERROR(readBackStates());
    const double count = static_cast<double>(runner.result().tokenCount);
    return saveStates(ctx, "gradient", options_.dumpGradients, run_, {count});
  }

  const Program& program_;
  RunOptions options_;
  RunEvents& events_;
  Environment& environment_;
  Coordinates at_;
  Manifest manifest_;
  BatchShares shares_;
  std::unique_ptr<Dataset> data_, heldOut_;
  std::optional<Evaluation> evaluation_;  // between steps
  struct Mark {
    int64_t begin = 0, waited = 0;
  };
  Mark measureFrom_;  // ns, when the second step began
  int threads_ = 1;
  bool ownThread_ = false;
  bool meets_ = false;  // the other ranks, who then hear of this one's end
  bool recordsSteps_ = false;
  Measurement measurement_;
  StepWaits waits_;
  ExchangeReport exchanges_;
  ChannelPlans plans_;
  std::string catalog_;
  std::string run_;       // the job's name for it: rank 0's
  FileLock weightsLock_;  // of rank 0
  TimeLimit timeLimit_;
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

}  // namespace

// What a device that has failed may still use is left to the end of the process.
static Status runRank(const Program& program, const RunOptions& options, RunEvents& events, Environment& environment,
                      MakeAccelerator makeAccelerator) {
  auto run = std::make_unique<RankRun>(program, options, events, environment, makeAccelerator);
  Status status = run->run();
  if (!status.ok() && run->hasDevice()) (void)run.release();
  return status;
}

Status runProgram(const Program& program, const RunOptions& settings, RunEvents& events,
                  MakeAccelerator makeAccelerator) {
  if (settings.out.empty()) return usageError("no folder is given (RunOptions::out)");
  // Of a run that fails, what may live on keeps a reference to it.
  auto environment = std::make_unique<Environment>();
  Status status = runRank(program, settings, events, *environment, makeAccelerator);
  if (!status.ok()) (void)environment.release();
  return status;
}

int runProgram(int argc, char** argv, const Program& program, MakeAccelerator makeAccelerator) {
  Environment environment;
  Result<ParsedCommandLine> parsed = parseCommandLine(argc, argv, CommandLine::kRank);
  if (!parsed.ok()) return TerminalEvents(environment, {}).report(parsed.status());
  if (!parsed->help.empty()) {
    std::fputs(parsed->help.c_str(), stdout);
    return 0;
  }
  raiseDescriptorLimit();
  TerminalEvents events(environment, parsed->options);
  const WhereaboutsSignal signal(TerminalEvents::tellWhere);
  const Status status = runRank(program, parsed->options, events, environment, makeAccelerator);
  const int code = events.report(status);
  if (status.ok() || !makeAccelerator) return code;
  // Without waiting for the device, whose kernels may be waiting for ranks that are gone.
  std::fflush(stderr);
  std::_Exit(code);
}

}  // namespace hycrt
