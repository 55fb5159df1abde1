// Resuming from a checkpoint, and writing one: the part of all ranks, and that of rank 0.
#include "checkpoint/run_checkpoints.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/clock.h"
#include "base/json_text.h"
#include "checkpoint/part_writer.h"
#include "checkpoint/state_reader.h"
#include "checkpoint/stream_file.h"
#include "comm/exchanger.h"
#include "hycrt/resume.h"

namespace hycrt {
namespace {

constexpr mode_t kFolderMode = 0755;
constexpr int64_t kMostTableBytes = int64_t{1} << 30;

std::string tableOf(const std::string& folder, int rank) {
  char name[32];
  std::snprintf(name, sizeof name, "/part-%05d.json", rank);
  return folder + name;
}

Status writeText(const std::string& path, const std::string& text, IoFaults* faults) {
  Result<StreamFile> file = StreamFile::create(path, faults);
  if (!file.ok()) return file.status();
  HYCRT_RETURN_IF_ERROR(file->write(text.data(), static_cast<int64_t>(text.size())));
  return file->finish("").status();
}

// Where a flag contradicts what the checkpoint's run had.
Status contradiction(const Checkpoint& checkpoint, const std::string& given, const std::string& held) {
  return usageError("'" + checkpoint.folder + "' was written " + held + ", but " + given +
                    "; leave it out, or train anew");
}

}  // namespace

int64_t globalBatchOf(const Program& program) {
  return program.batch.samples * program.batch.microBatches * sizeOf(program.mesh, program.mesh.batch);
}

Status RunCheckpoints::prepare(int rank, RunOptions* options) {
  const auto tell = [&](const std::string& line) {
    if (rank == 0) note(line);
  };
  HYCRT_RETURN_IF_ERROR(takeResume(options, CheckpointCheck::kFiles, tell));
  Result<IoFaults> faults = IoFaults::fromEnvironment(rank);
  if (!faults.ok()) return faults.status();
  faults_ = std::move(*faults);
  if (!options->resume.empty()) {
    Result<Checkpoint> checkpoint = openCheckpoint(options->resume);
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
  Result<FileLock> lock = lockDirectory(options->checkpoint);
  if (!lock.ok()) return lock.status();
  lock_ = std::move(*lock);
  return {};
}

Status RunCheckpoints::checkData(const Dataset* data, const RunOptions& options) {
  if (data) dataSamples_ = data->sampleCount();
  if (!resumed_) return {};
  const CheckpointManifest& manifest = resumed_->manifest;
  if (manifest.dataSamples == 0 || !data) return {};
  if (manifest.shuffled != (options.order == WindowOrder::kShuffled)) {
    return contradiction(*resumed_, manifest.shuffled ? "--no-shuffle is given" : "--no-shuffle is not given",
                         manifest.shuffled ? "by a run without --no-shuffle" : "by a run with --no-shuffle");
  }
  if (manifest.dataSamples == dataSamples_) return {};
  return dataError("'" + options.data + "' (--data) has " + std::to_string(dataSamples_) + " samples, but '" +
                   resumed_->folder + "' is of a run on " + std::to_string(manifest.dataSamples) +
                   "; give that data, or start a new training from the checkpoint's weights (hyc-checkpoint export)");
}

int64_t RunCheckpoints::itemShift(int64_t globalBatch) const {
  return resumed_ ? resumed_->manifest.samples - resumed_->manifest.step * globalBatch : 0;
}

Status RunCheckpoints::load(const Context& ctx, const Manifest& manifest, const RunOptions& options) {
  const ArenaBases arenas{ctx.arenas(), ctx.file()};
  std::vector<bool> filled;
  const int64_t begin = monotonicNs();
  if (resumed_) {
    Result<CheckpointTensors> tensors = checkpointTensors(ctx);
    if (!tensors.ok()) return tensors.status();
    HYCRT_RETURN_IF_ERROR(checkTensors(*tensors, *resumed_));
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
  if (firstStep() >= options.steps) {
    note("--steps " + std::to_string(options.steps) + " is the total, which the checkpoint has: nothing is trained");
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

Status RunCheckpoints::write(const Context& ctx, int64_t steps, const Manifest& manifest, const RunOptions& options,
                             const std::string& run, const std::string& cause) {
  if (lastWritten_ == steps || steps == 0) return {};
  const int64_t begin = monotonicNs();
  const int rank = rankOf(ctx.mesh(), ctx.at());
  const bool leads = rank == 0, goesOn = options.checkpointFailure == CheckpointFailure::kWarn;
  const std::string target = checkpointPath(options.checkpoint, steps), partial = partialName(target, run);
  Status status;
  if (leads && mkdir(partial.c_str(), kFolderMode) != 0) {
    status = errnoError("cannot create the folder '" + partial + "'", errno);
  }
  HYCRT_RETURN_IF_ERROR(ctx.exchanger().barrier());
  if (status.ok()) status = writeOwnPart(ctx, partial);
  // Rank 0 takes a table for a part that is on the disk: one whose own writing failed must not be found, even whole.
  if (!status.ok() && unlink(tableOf(partial, rank).c_str()) != 0 && errno != ENOENT && errno != ENOTDIR) return status;
  HYCRT_RETURN_IF_ERROR(ctx.exchanger().barrier());
  // The one whose part failed says so; the others hear of it at the barrier.
  if (!leads && !status.ok() && !goesOn) return status;
  Status ownPart = status;
  if (leads && status.ok()) status = publish(ctx, steps, manifest, options, run);
  if (leads && !status.ok()) removeCheckpointFolder(partial);
  if (leads && !status.ok() && status.code() != StatusCode::kPeerLost && !goesOn) return status;
  HYCRT_RETURN_IF_ERROR(ctx.exchanger().barrier());
  lastWritten_ = steps;
  if (!status.ok() && !goesOn) return status;
  const double seconds = static_cast<double>(monotonicNs() - begin) * 1e-9;
  if (!status.ok()) {
    note("warning: checkpoint '" + target + "' was not written: " + status.message() + "; training goes on");
    return leads ? tell({RunEvent::Kind::kCheckpointFailed, steps, status.message(), seconds, target}) : Status();
  }
  if (!leads) return {};
  char text[64];
  std::snprintf(text, sizeof text, "%.3f s", seconds);
  note("checkpoint '" + target + "' written in " + text + " (" + cause + ")");
  return tell({RunEvent::Kind::kCheckpoint, steps, cause, seconds, target});
}

Status RunCheckpoints::writeOwnPart(const Context& ctx, const std::string& partial) {
  const int rank = rankOf(ctx.mesh(), ctx.at());
  struct stat info;
  if (lstat(partial.c_str(), &info) != 0) {
    return ioError("rank " + std::to_string(rank) + " does not see '" + partial +
                   "', which rank 0 has made; --checkpoint has to name a folder that all hosts share");
  }
  Result<CheckpointTensors> tensors = checkpointTensors(ctx);
  if (!tensors.ok()) return tensors.status();
  Result<CheckpointParts> parts = writePart(ctx, *tensors, partial, &faults_);
  if (!parts.ok()) return parts.status();
  return writeText(tableOf(partial, rank), encodeCheckpointParts(*parts), &faults_);
}

// The parts of all ranks; slices in the order of ranks.
Result<CheckpointParts> RunCheckpoints::collectParts(const Context& ctx, const std::string& partial) const {
  CheckpointParts all;
  for (int rank = 0; rank < rankCount(ctx.mesh()); ++rank) {
    const std::string path = tableOf(partial, rank);
    Result<std::string> text = readWholeFile(path, kMostTableBytes);
    if (!text.ok()) return Status(StatusCode::kPeerLost, "rank " + std::to_string(rank) + " did not write its part");
    Result<CheckpointParts> parts = parseCheckpointParts(*text, "'" + path + "'");
    // Nothing, or a part of it: the rank has failed, and says why.
    if (!parts.ok()) return Status(StatusCode::kPeerLost, parts.status().message());
    all.files.merge(parts->files);
    for (auto& [name, tensor] : parts->tensors) {
      CheckpointTensor& whole = all.tensors[name];
      whole.dtype = tensor.dtype;
      whole.shape = tensor.shape;
      std::move(tensor.slices.begin(), tensor.slices.end(), std::back_inserter(whole.slices));
    }
  }
  return all;
}

CheckpointManifest RunCheckpoints::describe(const Context& ctx, int64_t steps, const Manifest& manifest,
                                            const RunOptions& options) const {
  CheckpointManifest told;
  told.name = manifest.name;
  told.planHash = manifest.planHash;
  told.mesh = hycrt::describe(ctx.mesh());
  told.ranks = rankCount(ctx.mesh());
  told.step = steps;
  told.globalBatch = globalBatchOf(ctx.program());
  told.samples = steps * told.globalBatch + itemShift(told.globalBatch);
  told.sequence = ctx.program().batch.sequence;
  told.dataSamples = dataSamples_;
  told.shuffled = options.order == WindowOrder::kShuffled;
  told.seed = options.seed;
  told.steps = options.steps;
  told.counters = readCounters(ctx);
  const Result<nlohmann::json> root = parseJson(manifest.text, "manifest.json");
  if (root.ok() && root->contains("learning_rate")) told.learningRate = root->at("learning_rate");
  return told;
}

Status RunCheckpoints::publish(const Context& ctx, int64_t steps, const Manifest& manifest, const RunOptions& options,
                               const std::string& run) {
  const std::string target = checkpointPath(options.checkpoint, steps), partial = partialName(target, run);
  Result<CheckpointParts> parts = collectParts(ctx, partial);
  if (!parts.ok()) return parts.status();
  CheckpointManifest told = describe(ctx, steps, manifest, options);
  told.parts = std::move(*parts);
  const std::string text = encodeCheckpointManifest(told);
  // What could not be read again is not published.
  Result<CheckpointManifest> again = parseCheckpointManifest(text, "'" + partial + "/" + kCheckpointManifest + "'");
  if (!again.ok()) return internalError("the checkpoint contradicts itself: " + again.status().message());
  HYCRT_RETURN_IF_ERROR(writeText(partial + "/" + kCheckpointManifest, text, &faults_));
  for (int rank = 0; rank < rankCount(ctx.mesh()); ++rank) unlink(tableOf(partial, rank).c_str());
  HYCRT_RETURN_IF_ERROR(publishCheckpoint(partial, target, &faults_));
  return removeOldCheckpoints(options.checkpoint, steps, options.keep, run);
}

}  // namespace hycrt
