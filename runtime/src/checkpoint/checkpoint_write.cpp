// The parts, their agreement, and what rank 0 makes of them.
#include "checkpoint/checkpoint_write.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/file.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/stream_file.h"
#include "comm/exchanger.h"
#include "io/block_file.h"

namespace hycrt {
namespace {

constexpr int64_t kMostTableBytes = int64_t{1} << 30;

std::string tableOf(const std::string& folder, int rank) {
  char name[32];
  std::snprintf(name, sizeof name, "/part-%05d.json", rank);
  return folder + name;
}

}  // namespace

Status CheckpointWrite::makeFolder(const Context& ctx, Status* made) const {
  if (rank() == 0) *made = createFolder(target_.partial);
  const Result<const uint64_t*> all = ctx.exchanger().share(made->ok());
  if (!all.ok()) return all.status();
  if (made->ok() && (*all)[0] == 0) *made = {StatusCode::kPeerLost, "rank 0 could not make '" + target_.partial + "'"};
  return {};
}

Status CheckpointWrite::begin(const Context& ctx, Snapshot* snapshot) {
  waits_ = !snapshot;
  Status made;
  HYCRT_RETURN_IF_ERROR(makeFolder(ctx, &made));
  source_.emplace(PartSource{plan_.parts, *plan_.mesh, plan_.at, {}, ctx.file(), !waits_, updatesOf(told_.counters)});
  if (snapshot) {
    snapshot->take(ctx);
    source_->memoryOf = [snapshot](const StateDesc& state) { return snapshot->memoryOf(state); };
  } else {
    source_->memoryOf = [&ctx](const StateDesc& state) { return stateInMemory(ctx, state); };
  }
  start(waits_, "writing checkpoints", [this, made] {
    Status status = made.ok() ? writeOwnPart(*source_) : made;
    // Nobody waits for what nobody reads.
    if (source_->letsGo && source_->file) source_->file->letGoOfAll();
    return status;
  });
  return {};
}

void CheckpointWrite::start(bool waits, const std::string& purpose, const std::function<Status()>& work) {
  if (waits || !job_.start(purpose, work).ok()) job_.runNow(work);
}

uint64_t CheckpointWrite::word() const {
  if (!job_.isOver()) return 0;
  return job_.status().ok() ? kDone : kFailed;
}

std::optional<Status> CheckpointWrite::advance(const uint64_t* wordOfRank) {
  const int ranks = rankCount(*plan_.mesh);
  if (phase_ == Phase::kPublishing) {
    if ((wordOfRank[0] & kBits) == 0) return std::nullopt;
    if (rank() == 0) return job_.status();
    return wordOfRank[0] & kDone ? Status() : Status(StatusCode::kPeerLost, "rank 0 could not publish it");
  }
  const uint64_t* const end = wordOfRank + ranks;
  if (std::any_of(wordOfRank, end, [](uint64_t word) { return (word & kBits) == 0; })) return std::nullopt;
  const uint64_t* const failed = std::find_if(wordOfRank, end, [](uint64_t word) { return word & kFailed; });
  if (failed != end) {
    if (rank() == 0) removePartial();
    if (!job_.status().ok()) return job_.status();
    return Status(StatusCode::kPeerLost, "rank " + std::to_string(failed - wordOfRank) + " did not write its part");
  }
  phase_ = Phase::kPublishing;
  if (rank() != 0) return std::nullopt;
  start(waits_, "publishing checkpoints", [this] {
    Status status = publish();
    if (!status.ok()) removePartial();
    return status;
  });
  return std::nullopt;
}

void CheckpointWrite::removePartial() const { removeCheckpointFolder(target_.partial); }

Status CheckpointWrite::writeOwnPart(const PartSource& source) {
  struct stat info;
  if (lstat(target_.partial.c_str(), &info) != 0) {
    return ioError("rank " + std::to_string(rank()) + " does not see '" + target_.partial +
                   "', which rank 0 has made; --checkpoint has to name a folder that all hosts share");
  }
  // Its name is no link: rank 0 has made it.
  Result<CheckpointParts> parts = writePart(source, [this](const std::string& name) {
    return StreamFile::create(target_.partial + "/" + name, faults_, &job_.givesUp());
  });
  if (!parts.ok()) return parts.status();
  return writeTextFile(tableOf(target_.partial, rank()), encodeCheckpointParts(*parts), faults_);
}

// The parts of all ranks; slices in the order of ranks.
Result<CheckpointParts> CheckpointWrite::collectParts() const {
  CheckpointParts all;
  for (int rank = 0; rank < rankCount(*plan_.mesh); ++rank) {
    const std::string path = tableOf(target_.partial, rank);
    Result<std::string> text = readWholeFile(path, kMostTableBytes);
    if (!text.ok()) return text.status();
    Result<CheckpointParts> parts = parseCheckpointParts(*text, "'" + path + "'");
    if (!parts.ok()) return parts.status();
    addParts(std::move(*parts), &all);
  }
  return all;
}

Status CheckpointWrite::publish() {
  const std::string& partial = target_.partial;
  Result<CheckpointParts> parts = collectParts();
  if (!parts.ok()) return parts.status();
  told_.parts = std::move(*parts);
  const std::string text = encodeCheckpointManifest(told_);
  // What could not be read again is not published.
  Result<CheckpointManifest> again = parseCheckpointManifest(text, "'" + partial + "/" + kCheckpointManifest + "'");
  if (!again.ok()) return internalError("the checkpoint contradicts itself: " + again.status().message());
  HYCRT_RETURN_IF_ERROR(writeTextFile(partial + "/" + kCheckpointManifest, text, faults_));
  for (int rank = 0; rank < rankCount(*plan_.mesh); ++rank) unlink(tableOf(partial, rank).c_str());
  const auto warn = [this](const std::string& line) { warnings_.push_back(line); };
  HYCRT_RETURN_IF_ERROR(publishCheckpoint(partial, target_.folder, faults_, warn));
  removeOldCheckpoints(target_.directory, told_.step, target_.keep, warn);
  return {};
}

}  // namespace hycrt
