// Resuming from a checkpoint, and writing one: the part of all ranks, and that of rank 0.
#include "checkpoint/run_checkpoints.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/available_memory.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/resident.h"
#include "checkpoint/part_writer.h"
#include "checkpoint/state_reader.h"
#include "comm/exchanger.h"
#include "hycrt/memory_report.h"
#include "hycrt/resume.h"
#include "io/block_file.h"
#include "io/weights_files.h"

namespace hycrt {
namespace {

std::string inMiB(int64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; }

// Where a flag contradicts what the checkpoint's run had; `wayOut` goes on from there.
Status contradiction(const Checkpoint& checkpoint, const std::string& given, const std::string& held,
                     const char* wayOut = "leave it out") {
  return usageError("'" + checkpoint.folder + "' was written " + held + ", but " + given + "; " + wayOut +
                    ", or train anew");
}

bool isScaledAlike(const Adapter& a, const Adapter& b) {
  constexpr double kRounding = 1e-12;
  return a.hasMagnitudes == b.hasMagnitudes && std::abs(a.scale - b.scale) <= kRounding * std::abs(a.scale);
}

// "scaled by 2 (rank 4, alpha 8)", and in words what else there is.
std::string howScaled(const CheckpointTraining& training) {
  char text[128];
  std::snprintf(text, sizeof text, "scaled by %g", training.adapter->scale);
  std::string told = text;
  const Result<nlohmann::json> config = parseJson(training.adapterConfig, kAdapterFiles.config);
  if (config.ok() && config->is_object() && config->contains("r") && config->contains("lora_alpha")) {
    told += " (rank " + config->at("r").dump() + ", alpha " + config->at("lora_alpha").dump() +
            (config->contains("use_rslora") && config->at("use_rslora") == true ? ", variant rslora)" : ")");
  }
  return told + (training.adapter->hasMagnitudes ? " and have magnitudes" : "");
}

}  // namespace

Status RunCheckpoints::prepare(int rank, RunOptions* options, std::optional<Checkpoint> copy) {
  const auto tell = [&](const std::string& line) {
    if (rank == 0) note(line);
  };
  HYCRT_RETURN_IF_ERROR(takeResume(options, CheckpointCheck::kFiles, tell));
  Result<IoFaults> faults = IoFaults::fromEnvironment(rank);
  if (!faults.ok()) return faults.status();
  faults_ = std::move(*faults);
  if (copy || !options->resume.empty()) {
    Result<Checkpoint> checkpoint = copy ? Result<Checkpoint>(std::move(*copy)) : openCheckpoint(options->resume);
    if (!checkpoint.ok()) return checkpoint.status();
    const CheckpointManifest& manifest = checkpoint->manifest;
    if (options->seedGiven && options->seed != manifest.seed) {
      return contradiction(*checkpoint, "--seed is " + std::to_string(options->seed),
                           "with --seed " + std::to_string(manifest.seed));
    }
    options->seed = manifest.seed;
    if (const int64_t updates = updatesOf(manifest.counters); updates >= 0) {
      skipped_ = std::max<int64_t>(0, manifest.step - updates);
    }
    resumed_ = std::move(*checkpoint);
  }
  if (options->checkpoint.empty() || rank != 0) return {};
  HYCRT_RETURN_IF_ERROR(makeDirectory(options->checkpoint));
  Result<FileLock> lock = lockDirectory(options->checkpoint, LockPatience::kLeaving);
  if (!lock.ok()) return lock.status();
  lock_ = std::move(*lock);
  return {};
}

Status RunCheckpoints::checkFolder(int rank, const RunOptions& options) const {
  if (options.checkpoint.empty() || rank != 0) return {};
  return checkTargets(options.checkpoint, firstStep(), options.steps);
}

Status RunCheckpoints::checkData(const Dataset* data, const RunOptions& options, int64_t samplesOfStep) {
  samplesOfStep_ = samplesOfStep;
  if (data) {
    dataSamples_ = data->sampleCount();
    arrangement_ = data->arrangement();
  }
  if (!resumed_ || options.evaluate) return {};
  const CheckpointManifest& manifest = resumed_->manifest;
  if (manifest.dataSamples == 0 || !data) return {};
  if (manifest.shuffled != (options.order == WindowOrder::kShuffled)) {
    return contradiction(*resumed_, manifest.shuffled ? "--no-shuffle is given" : "--no-shuffle is not given",
                         manifest.shuffled ? "by a run without --no-shuffle" : "by a run with --no-shuffle",
                         manifest.shuffled ? "leave it out" : "give it");
  }
  if (manifest.arrangement != arrangement_) {
    const auto named = [](const std::string& arrangement) {
      return arrangement.empty() ? std::string("one file's samples") : "'" + arrangement + "'";
    };
    return contradiction(*resumed_, "--data and --shuffle-documents give it " + named(arrangement_),
                         "by a run whose data was read as " + named(manifest.arrangement), "read it so");
  }
  if (manifest.dataSamples == dataSamples_) return {};
  return dataError("'" + options.data + "' (--data) has " + std::to_string(dataSamples_) + " samples, but '" +
                   resumed_->folder + "' is of a run on " + std::to_string(manifest.dataSamples) +
                   "; give that data, or start a new training from the checkpoint's weights (hyc-checkpoint export)");
}

// What a layer's tensors do not tell; where they differ themselves, checkTensors names them.
Status RunCheckpoints::checkTraining(const Manifest& manifest) {
  training_ = {manifest.optimizer, manifest.adapter, {}};
  const std::string config = manifest.folder + "/model/" + kAdapterFiles.config;
  if (manifest.adapter && access(config.c_str(), F_OK) == 0) {
    Result<std::string> text = readWholeFile(config, kMaxConfigBytes);
    if (!text.ok()) return text.status();
    training_.adapterConfig = std::move(*text);
  }
  if (!resumed_ || !resumed_->manifest.training) return {};
  const CheckpointTraining& before = *resumed_->manifest.training;
  if (before.adapter && manifest.adapter && !isScaledAlike(*before.adapter, *manifest.adapter)) {
    return dataError(
        "'" + resumed_->folder + "' was trained with adapters that are " + howScaled(before) + ", but those in '" +
        manifest.folder + "' are " + howScaled(training_) +
        "; compile with the rank, alpha and variant that the checkpoint has, or go on from its adapters as "
        "a new training (hyc-checkpoint export FROM ADAPTER; hyc-compile --lora ADAPTER)");
  }
  return {};
}

// The schedule, as a program's manifest has it; an empty object where that says nothing.
static nlohmann::json learningRateOf(const Manifest& manifest) {
  const Result<nlohmann::json> root = parseJson(manifest.text, "manifest.json");
  return root.ok() && root->contains("learning_rate") ? root->at("learning_rate") : nlohmann::json::object();
}

// What goes on otherwise than it would have, and is meant to or is not.
void RunCheckpoints::tellOfChanges(const Manifest& manifest, const RunOptions& options) const {
  const CheckpointManifest& before = resumed_->manifest;
  const std::string optimizer = before.training ? before.training->optimizer : "";
  if (!optimizer.empty() && !manifest.optimizer.empty() && optimizer != manifest.optimizer) {
    note("another optimizer goes on from '" + resumed_->folder + "': it was " + optimizer + "; it is " +
         manifest.optimizer);
  }
  const nlohmann::json rate = learningRateOf(manifest);
  if (rate.empty() || before.learningRate.empty()) return;
  if (rate != before.learningRate) {
    note("another learning rate goes on from '" + resumed_->folder + "': its schedule was " +
         before.learningRate.dump() + "; it is " + rate.dump());
    return;
  }
  const std::string rule = rate.value("rule", "");
  if ((rule == "linear" || rule == "cosine") && before.steps != options.steps) {
    note("the learning rate decays over " + std::to_string(options.steps) + " steps (--steps); in the run that '" +
         resumed_->folder + "' is of it did over " + std::to_string(before.steps));
  }
}

// Another optimizer may go on where it keeps the same states.
Status RunCheckpoints::checkStates(const Context& ctx, const Manifest& manifest, const RunOptions& options) {
  const Result<CheckpointTensors> tensors = checkpointTensors(ctx);
  if (!tensors.ok()) return tensors.status();
  HYCRT_RETURN_IF_ERROR(checkTensors(*tensors, *resumed_));
  if (rankOf(ctx.mesh(), ctx.at()) == 0 && !options.evaluate) tellOfChanges(manifest, options);
  return {};
}

int64_t RunCheckpoints::itemShift(int64_t globalBatch) const {
  return resumed_ ? resumed_->manifest.samples - resumed_->manifest.step * globalBatch : 0;
}

Status RunCheckpoints::load(const Context& ctx, const Manifest& manifest, const RunOptions& options) {
  const ArenaBases arenas{ctx.arenas(), ctx.file()};
  std::vector<bool> filled;
  const int64_t begin = monotonicNs();
  if (resumed_) {
    HYCRT_RETURN_IF_ERROR(checkStates(ctx, manifest, options));
    HYCRT_RETURN_IF_ERROR(readStates(ctx, *resumed_, &filled));
  }
  HYCRT_RETURN_IF_ERROR(initializeStates(ctx.program(), ctx.at(), options.seed, manifest.modelFiles, arenas, filled));
  if (!resumed_) return {};
  setCounters(ctx, resumed_->manifest);
  if (rankOf(ctx.mesh(), ctx.at()) != 0) return {};
  loadSeconds_ = static_cast<double>(monotonicNs() - begin) * 1e-9;
  char text[64];
  std::snprintf(text, sizeof text, "%.2f s", loadSeconds_);
  note("resumed from '" + resumed_->folder + "', after step " + std::to_string(firstStep()) + ", in " + text);
  if (firstStep() >= options.steps && !options.evaluate) {
    note("--steps " + std::to_string(options.steps) + " is the total, which the checkpoint has: nothing is trained");
    if (!options.dumpGradients.empty()) {
      note("warning: '" + options.dumpGradients +
           "' (--dump-gradients) is not written, since there is no step that has gradients; raise --steps");
    }
  }
  return {};
}

Status RunCheckpoints::tellResume() const {
  return resumed_ ? tell({RunEvent::Kind::kResume, firstStep(), "", loadSeconds_, resumed_->folder}) : Status();
}

bool RunCheckpoints::isDueAfter(int64_t step, const RunOptions& options) const {
  if (options.checkpoint.empty()) return false;
  return step + 1 == options.steps || (options.checkpointEvery > 0 && (step + 1) % options.checkpointEvery == 0);
}

Status RunCheckpoints::open(const Context& ctx, const RunOptions& options, int ranksHere) {
  if (options.checkpoint.empty()) return {};
  Result<CheckpointTensors> tensors = checkpointTensors(ctx);
  if (!tensors.ok()) return tensors.status();
  plan_ = {&ctx.mesh(), ctx.at(), planPart(ctx, *tensors)};
  const Program& program = ctx.program();
  const int64_t needed = Snapshot::bytesOf(ctx, plan_.parts.states);
  const bool isDeclared = needed <= program.snapshotBytes, asks = options.checkpointMode == CheckpointMode::kAsync;
  if (options.checkpointMode == CheckpointMode::kSync) return {};
  if (asks && !isDeclared) {
    return usageError(std::string("--checkpoint-mode is async, but program '") + program.name + "' declares " +
                      std::to_string(program.snapshotBytes) + " bytes for copies of its states, expected " +
                      std::to_string(needed) + "; compile it again, or leave --checkpoint-mode out");
  }
  if (!isDeclared || (!asks && !hasRoom(ctx, needed, ranksHere))) return {};
  Result<Snapshot> snapshot = Snapshot::create(ctx, plan_.parts.states);
  if (!snapshot.ok()) return snapshot.status();
  snapshot_ = std::move(*snapshot);
  // Without a thread for it the first copy takes longer.
  if (options.checkpointEvery > 0) {
    (void)touching_.start("room for copies", [this] {
      snapshot_->touch(touching_.givesUp());
      return Status();
    });
  }
  return {};
}

// States are resident by now, other arenas may not be yet.
bool RunCheckpoints::hasRoom(const Context& ctx, int64_t needed, int ranksHere) const {
  const int64_t toCome = ctx.accelerator() ? 0 : plannedBytes(ctx.program()) - ResidentMemory().bytes();
  const int64_t own = needed + ctx.program().checkpointWriterBytes + std::max<int64_t>(0, toCome);
  const int64_t share = availableMemory() / std::max(1, ranksHere);
  if (own <= share) return true;
  note("training waits while checkpoints are written: to go on, rank " + std::to_string(rankOf(ctx.mesh(), ctx.at())) +
       " needs " + inMiB(own) + " more memory, of which " + inMiB(share) +
       " are free for each rank here; --checkpoint-mode async takes it even so");
  return false;
}

Status RunCheckpoints::begin(const Context& ctx, int64_t steps, const Manifest& manifest, const RunOptions& options,
                             const std::string& run, const std::string& cause, bool waits) {
  if (lastWritten_ == steps || steps == 0) return {};
  beginNs_ = monotonicNs();
  heldUpByFile_ = ctx.file() ? ctx.file()->secondsHeldUp() : 0;
  cause_ = cause;
  goneOn_ = 0;
  isAside_ = snapshot_ && !waits;
  goesOn_ = options.checkpointFailure == CheckpointFailure::kWarn;
  const std::string target = checkpointPath(options.checkpoint, steps);
  writing_ = std::make_unique<CheckpointWrite>(
      plan_, CheckpointWrite::Target{options.checkpoint, target, partialName(target, run), options.keep},
      describe(ctx, steps, manifest, options), &faults_);
  touching_.wait();
  HYCRT_RETURN_IF_ERROR(writing_->begin(ctx, isAside_ ? &*snapshot_ : nullptr));
  heldUpNs_ = monotonicNs() - beginNs_;
  return isAside_ ? Status() : finish(ctx);
}

Status RunCheckpoints::advance(const Context& ctx, const uint64_t* wordOfRank) {
  if (!writing_) return {};
  const int64_t begin = monotonicNs();
  const std::optional<Status> ended = writing_->advance(wordOfRank);
  heldUpNs_ += monotonicNs() - begin;
  return ended ? over(ctx, *ended) : Status();
}

Status RunCheckpoints::finish(const Context& ctx) {
  while (writing_) {
    const int64_t begin = monotonicNs();
    writing_->wait();
    const Result<const uint64_t*> all = ctx.exchanger().share(writing_->word());
    if (!all.ok()) return all.status();
    heldUpNs_ += monotonicNs() - begin;
    HYCRT_RETURN_IF_ERROR(advance(ctx, *all));
  }
  return {};
}

// All ranks know how it ended; the one that has failed says why.
Status RunCheckpoints::over(const Context& ctx, const Status& status) {
  const std::unique_ptr<CheckpointWrite> written = std::move(writing_);
  lastWritten_ = written->step();
  const bool leads = rankOf(ctx.mesh(), ctx.at()) == 0, isOwn = !status.ok() && status.code() != StatusCode::kPeerLost;
  if (isOwn && !goesOn_) return status;
  // Of one that fails with the run the others hear by its end.
  if (!status.ok() && !goesOn_) {
    HYCRT_RETURN_IF_ERROR(ctx.exchanger().barrier());
    return status;
  }
  const double seconds = static_cast<double>(written->endNs() - beginNs_) * 1e-9;
  double heldUp = static_cast<double>(heldUpNs_) * 1e-9;
  if (ctx.file()) heldUp += ctx.file()->secondsHeldUp() - heldUpByFile_;
  took(std::max(seconds, heldUp));
  if (isOwn || (leads && !status.ok())) {
    note("warning: checkpoint '" + written->folder() + "' was not written: " + status.message() + "; training goes on");
  }
  for (const std::string& warning : written->warnings()) note("warning: " + warning);
  if (!leads) return {};
  RunEvent event{RunEvent::Kind::kCheckpoint, written->step(), cause_, heldUp, written->folder()};
  event.written = std::max(seconds, heldUp);
  event.goneOn = goneOn_;
  if (!status.ok()) {
    event.kind = RunEvent::Kind::kCheckpointFailed;
    event.cause = status.message();
    return tell(event);
  }
  char text[96];
  std::snprintf(text, sizeof text, "%.3f s", event.written);
  if (isAside_) std::snprintf(text, sizeof text, "%.3f s, for %.3f s of which training waited", event.written, heldUp);
  note("checkpoint '" + written->folder() + "' written in " + text + " (" + cause_ + ")");
  return tell(event);
}

CheckpointManifest RunCheckpoints::describe(const Context& ctx, int64_t steps, const Manifest& manifest,
                                            const RunOptions& options) const {
  CheckpointManifest told;
  told.name = manifest.name;
  told.planHash = manifest.planHash;
  told.mesh = hycrt::describe(ctx.mesh());
  told.ranks = rankCount(ctx.mesh());
  told.step = steps;
  told.globalBatch = samplesOfStep_;
  told.samples = steps * told.globalBatch + itemShift(told.globalBatch);
  told.sequence = ctx.program().batch.sequence;
  told.dataSamples = dataSamples_;
  told.shuffled = options.order == WindowOrder::kShuffled;
  told.arrangement = arrangement_;
  told.seed = options.seed;
  told.steps = options.steps;
  told.counters = readCounters(ctx);
  told.training = training_;
  told.learningRate = learningRateOf(manifest);
  return told;
}

}  // namespace hycrt
