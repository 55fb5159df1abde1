// Which states are copied, and the copying, by all threads that compute.
#include "checkpoint/snapshot.h"

#include <algorithm>
#include <cstring>

#include "io/block_file.h"
#include "kernels/parallel/team.h"

namespace hycrt {
namespace {

constexpr int64_t kAlignment = 64;  // lib/Analysis/SnapshotAccount.cpp counts by it, too
constexpr int64_t kPageBytes = 4096;
constexpr int64_t kChunkBytes = 4 << 20;  // of what a thread copies

int64_t bytesOf(const StateDesc& state) { return heldElements(state) * sizeOf(state.dtype); }
int64_t roomOf(const StateDesc& state) { return (bytesOf(state) + kAlignment - 1) / kAlignment * kAlignment; }

bool isCopied(const Context& ctx, const StateDesc& state) {
  const ArenaDesc& arena = ctx.program().arenas[state.buffer.arena];
  return arena.sharing != Sharing::kFile && (!ctx.accelerator() || arena.onHost);
}

}  // namespace

const std::byte* stateInMemory(const Context& ctx, const StateDesc& state) {
  const std::byte* const arena = ctx.arena(state.buffer.arena);
  return arena ? arena + state.buffer.offset : nullptr;
}

int64_t Snapshot::bytesOf(const Context& ctx, const std::vector<const StateDesc*>& states) {
  int64_t bytes = 0;
  for (const StateDesc* state : states) bytes += isCopied(ctx, *state) ? roomOf(*state) : 0;
  return bytes;
}

Result<Snapshot> Snapshot::create(const Context& ctx, const std::vector<const StateDesc*>& states) {
  Snapshot snapshot;
  snapshot.bytes_ = bytesOf(ctx, states);
  Result<Mapping> room = Mapping::anonymous(snapshot.bytes_, "snapshot");
  if (!room.ok()) return room.status();
  snapshot.room_ = std::move(*room);
  std::byte* next = snapshot.room_.base();
  for (const StateDesc* state : states) {
    snapshot.places_[state] = isCopied(ctx, *state) ? next : stateInMemory(ctx, *state);
    if (!snapshot.places_[state]) snapshot.onDisk_.push_back(state);
    if (!isCopied(ctx, *state)) continue;
    // In pieces that threads can share.
    const int64_t bytes = hycrt::bytesOf(*state);
    for (int64_t at = 0; at < bytes; at += kChunkBytes) {
      const BufferRef from{state->buffer.arena, state->buffer.offset + at};
      snapshot.copies_.push_back({next + at, from, std::min(kChunkBytes, bytes - at)});
    }
    next += roomOf(*state);
  }
  return snapshot;
}

void Snapshot::touch(const std::atomic<bool>& givesUp) {
  for (int64_t at = 0; at < bytes_ && !givesUp; at += kPageBytes) room_.base()[at] = std::byte{0};
}

void Snapshot::take(const Context& ctx) {
  if (!onDisk_.empty()) {
    std::vector<FileRange> ranges;
    for (const StateDesc* state : onDisk_) ranges.push_back({state->buffer.offset, hycrt::bytesOf(*state)});
    ctx.file()->hold(std::move(ranges));
  }
  const int64_t count = static_cast<int64_t>(copies_.size());
  hyc::kernels::runTeam(count > 1, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t i = 0; i < count; ++i) {
      const Copy& copy = copies_[static_cast<size_t>(i)];
      std::memcpy(copy.to, ctx.ptr<std::byte>(copy.from), static_cast<size_t>(copy.bytes));
    }
  });
}

}  // namespace hycrt
