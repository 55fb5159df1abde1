// A rank until its first step: what its options, its surroundings and its folder say, and how it meets the others.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>

#include "base/threads.h"
#include "base/whereabouts.h"
#include "comm/device_exchanger.h"
#include "comm/launch/hub_address.h"
#include "comm/shm/rendezvous.h"
#include "hycrt/log.h"
#include "io/initial_values.h"
#include "run/job_agreement.h"
#include "run/network.h"
#include "run/nonfinite.h"
#include "run/program_check.h"
#include "run/rank_run.h"
#include "run/state_file.h"

namespace hycrt {
namespace {

// OUT of OUT/bin/stage0.
Result<std::string> folderAboveExecutable() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return errnoError("cannot tell where this executable lies; give --out", errno);
  std::string folder(path, static_cast<size_t>(length));
  for (int i = 0; i < 2; ++i) folder.resize(std::max<size_t>(folder.rfind('/'), 1));
  return folder;
}

}  // namespace

Status RankRun::run() {
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

// Not this rank, which ends with an error, is to be left out, nor its host.
void RankRun::tellOfBlamed() {
  const int blamed = host_->blamedRank();
  if (blamed < 0) return;
  const std::string cause = "rank " + std::to_string(blamed) + " has not moved for " +
                            std::to_string(options_.exchangeTimeout) + " s (--exchange-timeout)";
  (void)events_.happened({RunEvent::Kind::kFailure, 0, cause, 0, "", blamed});
}

// All that can fail in one rank alone, before it meets the others.
Status RankRun::prepare() {
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
  HYCRT_RETURN_IF_ERROR(checkpoints_.checkFolder(environment_.rank, options_));
  HYCRT_RETURN_IF_ERROR(checkpoints_.checkTraining(manifest_));
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
void RankRun::enter(const char* what) {
  Whereabouts::ofProcess().doing(what);
  events_.debug(what);
}

void RankRun::tellHow(const TransportKind& kind) {
  const std::string master =
      environment_.hosts > 1 ? ", at " + environment_.masterAddress + " port " + std::to_string(environment_.port) : "";
  events_.debug("rank " + std::to_string(environment_.rank) + " of " + std::to_string(environment_.worldSize) + ", " +
                std::to_string(environment_.ranksHere) + " on this host; by " + kind.name + master +
                (ownThread_ ? "; exchanges have a thread of their own" : ""));
}

Status RankRun::takeTimeLimit() {
  int64_t bytes = 0;
  for (const StateDesc& state : program_.states) bytes += heldElements(state) * sizeOf(state.dtype);
  Result<TimeLimit> limit = TimeLimit::of(options_, bytes);
  if (!limit.ok()) return limit.status();
  timeLimit_ = *limit;
  return {};
}

// Those that are waiting for this rank, unless their launcher ends them.
void RankRun::tellOthers(const Status& failure) const {
  const bool isKnown = environment_.hosts == 1 ? !environment_.socketName.empty() || environment_.port != 0
                                               : !environment_.masterAddress.empty();
  if (environment_.underHycRun || environment_.checksOnly || !isKnown) return;
  const NetworkOptions network = networkOptions(options_);
  if (const Result<const TransportKind*> kind = transportFor(environment_, network); kind.ok()) {
    (*kind)->tellOfFailure(environment_, network, program_.name, failure);
  }
}

Status RankRun::readSurroundings() {
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
  HYCRT_RETURN_IF_ERROR(checkCpu(manifest_));
  return checkAgainstManifest(program_, manifest_);
}

Status RankRun::openAccelerator() {
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
Status RankRun::checkRecording() {
  static constexpr char kDisk[] = "the program moves states to and from a disk (nvme), which the host waits for";
  const bool isStaged = environment_.worldSize > 1 && options_.comm == DeviceComm::kStaged;
  const char* const reason = keepsOnDisk()             ? kDisk
                             : isStaged                ? "the ranks exchange by way of the host (--comm shm)"
                             : !options_.trace.empty() ? "--trace tells of the parts of a step"
                             : !options_.profile.empty() && options_.replanAfter == 0
                                 ? "--profile measures the parts of a step"
                             : program_.entries[0].size > 0 ? "steps are of several sizes (--dim)"
                             : program_.checksFinite        ? "the program checks what each op makes (--check-finite)"
                                                            : nullptr;
  recordsSteps_ = options_.cudaGraph != StepRecording::kOff && !reason && program_.scalars.learningRate.arena >= 0;
  if (reason == kDisk && options_.cudaGraph == StepRecording::kAuto && environment_.rank == 0)
    events_.note(std::string("steps are run without a graph: ") + kDisk);
  if (recordsSteps_ || options_.cudaGraph != StepRecording::kOn) return {};
  return usageError(std::string("--cuda-graph is on, but ") + (reason ? reason : "the program does not train") +
                    "; leave one of them out");
}

bool RankRun::keepsOnDisk() const {
  return std::any_of(program_.arenas.begin(), program_.arenas.end(),
                     [](const ArenaDesc& arena) { return arena.sharing == Sharing::kFile; });
}

Status RankRun::openData() {
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

Status RankRun::openData(const DataRequest& request, std::unique_ptr<Dataset>& data) {
  Result<std::unique_ptr<Dataset>> opened = openDataset(request, program_);
  if (!opened.ok()) return opened.status();
  data = std::move(*opened);
  if (at_.place != 0) return {};  // one rank of a stage is enough to find it
  for (const InputDesc& input : program_.inputs) HYCRT_RETURN_IF_ERROR(data->checkIndices(input));
  return {};
}

// A run that could not save in the end had better not begin.
Status RankRun::lockOutputs() {
  if (options_.saveWeights.empty() || environment_.rank != 0) return {};
  Result<FileLock> lock = lockWeightsTarget(options_.saveWeights);
  if (!lock.ok()) return lock.status();
  weightsLock_ = std::move(*lock);
  return {};
}

Status RankRun::connect() {
  DeviceExchanger* const byDevice = accelerator_ ? accelerator_->exchanger() : nullptr;
  plans_ = planChannels(program_, at_);
  catalog_ = catalogOf(program_, environment_.run);
  Result<std::string> agreement = jobAgreement(manifest_, options_, environment_, environment_.rank, data_ != nullptr);
  if (!agreement.ok()) return agreement.status();
  HYCRT_RETURN_IF_ERROR(findHub(networkOptions(options_), kRendezvousMs, &environment_));
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
  Result<std::unique_ptr<HostExchanger>> host = HostExchanger::create(
      setup, memory_->arenas(), std::move(*transport),
      {ownThread_, measurement_.trace(), {options_.exchangeTimeout * 1000, /*ownHost=*/"", note}});
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

Status RankRun::allocateMemory(int64_t headBytes) {
  Result<std::unique_ptr<BlockFile>> file =
      openOffloadFile(program_, environment_.rank, options_.nvmePath.empty() ? manifest_.nvmePath : options_.nvmePath);
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

// All but states, which begin as zeros where their initializer says nothing else.
void RankRun::fillArenas() {
  for (int64_t i = 0; i < program_.arenas.size; ++i) {
    if (std::byte* arena = memory_->arenas()[i]) fillUntouched(arena, program_.arenas[i].bytes);
  }
  clearStates(program_, memory_->arenas());
}

// Without waiting for the device, whose kernels may be waiting for ranks that are gone.
[[noreturn]] void RankRun::abandon(const Status& status) {
  events_.abandon(status);
  std::fflush(stderr);
  std::_Exit(status.exitCode());
}

}  // namespace hycrt
