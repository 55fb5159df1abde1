// A rank's part of a copy, and what all ranks know of it.
#include "copies/run_copies.h"

#include <fcntl.h>

#include <algorithm>
#include <map>

#include "base/clock.h"
#include "checkpoint/part_writer.h"
#include "comm/exchanger.h"
#include "copies/copy_client.h"
#include "io/block_file.h"

namespace hycrt {
namespace {

constexpr uint64_t kWhole = 1, kFailed = 2;
constexpr int kMostDoublings = 6;  // of the time to the next try

Result<FileDescriptor> inMemory(const std::string& text) {
  Result<FileDescriptor> memory = makeCopyMemory();
  if (!memory.ok()) return memory.status();
  HYCRT_RETURN_IF_ERROR(writeAt(*memory, "a copy of the states", text.data(), static_cast<int64_t>(text.size()), 0));
  HYCRT_RETURN_IF_ERROR(sealCopy(*memory));
  return memory;
}

}  // namespace

Result<std::optional<Checkpoint>> RunCopies::prepare(const Environment& environment, const RunOptions& options) {
  socket_ = environment.copySocket;
  start_ = environment.copyStart;
  steps_ = options.steps;
  if (options.copy == CopyPlace::kNeighbour) {
    if (socket_.empty()) {
      return usageError(
          "--copy neighbour is given to a rank that no hyc-run on several hosts has started; leave it "
          "out, or start the ranks with hyc-run --hostfile");
    }
    every_ = options.copyEvery;
  }
  whole_ = parseCopyKey(environment.copyResume);
  if (whole_.isNone()) return std::optional<Checkpoint>();
  Result<Checkpoint> copy = openCopy(socket_, whole_);
  if (!copy.ok()) return copy.status();
  return std::optional<Checkpoint>(std::move(*copy));
}

Status RunCopies::open(const Context& ctx) {
  if (every_ == 0) return {};
  Result<CheckpointTensors> tensors = checkpointTensors(ctx);
  if (!tensors.ok()) return tensors.status();
  plan_ = {&ctx.mesh(), ctx.at(), planPart(ctx, *tensors)};
  const Program& program = ctx.program();
  const int64_t needed = Snapshot::bytesOf(ctx, plan_.parts.states);
  if (needed > program.snapshotBytes) {
    return usageError(std::string("--copy is neighbour, but program '") + program.name + "' declares " +
                      std::to_string(program.snapshotBytes) + " bytes for copies of its states, expected " +
                      std::to_string(needed) + "; compile it again, or leave --copy out");
  }
  Result<Snapshot> snapshot = Snapshot::create(ctx, plan_.parts.states);
  if (!snapshot.ok()) return snapshot.status();
  snapshot_ = std::move(*snapshot);
  return {};
}

bool RunCopies::isDueAfter(int64_t step) const {
  return every_ > 0 && step + 1 < steps_ && (step + 1) % every_ == 0 && step + 1 >= nextTry_;
}

Status RunCopies::begin(const Context& ctx, const CheckpointManifest& told) {
  beginNs_ = monotonicNs();
  told_ = told;
  key_ = {start_, told.step};
  isMaking_ = true;
  snapshot_->take(ctx);
  source_.emplace(PartSource{plan_.parts, *plan_.mesh, plan_.at,
                             [this](const StateDesc& state) { return snapshot_->memoryOf(state); }, ctx.file(),
                             /*letsGo=*/true, updatesOf(told_.counters)});
  const auto work = [this] {
    Status status = make();
    if (source_->file) source_->file->letGoOfAll();
    return status;
  };
  if (!job_.start("copying states to another host", work).ok()) job_.runNow(work);
  heldUpNs_ = monotonicNs() - beginNs_;
  return {};
}

// Table and head come last: what is not whole has none.
Status RunCopies::putPart(CopyClient& client) {
  std::map<std::string, FileDescriptor> files;
  const MakePartFile makeFile = [&](const std::string& name) -> Result<StreamFile> {
    Result<FileDescriptor> memory = makeCopyMemory();
    if (!memory.ok()) return memory.status();
    FileDescriptor& kept = files[name];
    kept.reset(fcntl(memory->get(), F_DUPFD_CLOEXEC, 0));
    if (!kept.isOpen()) return errnoError("cannot make memory for a copy of the states", errno);
    return StreamFile::over(std::move(*memory), describe(key_) + "/" + name, &job_.givesUp());
  };
  const Result<CheckpointParts> parts = writePart(*source_, makeFile);
  if (!parts.ok()) return parts.status();
  for (const auto& [name, memory] : files) {
    HYCRT_RETURN_IF_ERROR(sealCopy(memory));
    HYCRT_RETURN_IF_ERROR(client.put(key_, whole_, name, memory, job_.givesUp()));
  }
  const int rank = rankOf(*plan_.mesh, plan_.at);
  if (rank == 0) {
    Result<FileDescriptor> head = inMemory(encodeCheckpointManifest(told_));
    if (!head.ok()) return head.status();
    HYCRT_RETURN_IF_ERROR(client.put(key_, whole_, kCopyHead, *head, job_.givesUp()));
  }
  Result<FileDescriptor> table = inMemory(encodeCheckpointParts(*parts));
  if (!table.ok()) return table.status();
  return client.put(key_, whole_, copyTableName(rank), *table, job_.givesUp());
}

Status RunCopies::make() {
  Result<CopyClient> client = CopyClient::connect(socket_);
  return client.ok() ? putPart(*client) : client.status();
}

Status RunCopies::finish(const Context& ctx) {
  if (!isMaking_) return {};
  const int64_t begin = monotonicNs();
  job_.wait();
  const Result<const uint64_t*> all = ctx.exchanger().share(job_.status().ok() ? kWhole : kFailed);
  if (!all.ok()) return all.status();
  heldUpNs_ += monotonicNs() - begin;
  isMaking_ = false;
  const uint64_t* const end = *all + rankCount(*plan_.mesh);
  const uint64_t* const failed = std::find_if(*all, end, [](uint64_t word) { return word != kWhole; });
  const bool isWhole = failed == end, wasFailing = failures_ > 0;
  if (isWhole) whole_ = key_;
  // Each may have cost a keeper's patience: of a host that does not answer training is not to be held up all the time.
  failures_ = isWhole ? 0 : failures_ + 1;
  nextTry_ = isWhole ? 0 : key_.step + every_ * (int64_t{1} << std::min(failures_, kMostDoublings));
  // Once, and not after every step.
  if (!job_.status().ok() && !wasFailing) {
    note("warning: " + describe(key_) + " was not made: " + job_.status().message() + "; training goes on");
  }
  if (rankOf(*plan_.mesh, plan_.at) != 0) return {};
  if (isWhole && wasFailing) note("copies are made again, from step " + std::to_string(key_.step) + " on");
  RunEvent event{RunEvent::Kind::kCopy, key_.step, "", static_cast<double>(heldUpNs_) * 1e-9, ""};
  if (isWhole) {
    event.written = static_cast<double>(job_.endNs() - beginNs_) * 1e-9;
    return tell(event);
  }
  event.kind = RunEvent::Kind::kCopyFailed;
  event.cause = !job_.status().ok() ? job_.status().message()
                                    : "rank " + std::to_string(failed - *all) + " could not put its part";
  return tell(event);
}

}  // namespace hycrt
