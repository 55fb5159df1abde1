// SharedBlock: the layout of the one memfd that each rank makes and every other rank maps.
//
//   | header | arena rows | channel rows | names | catalog text | pages of the shared arenas … |
//
// A channel is an ordered conversation of fixed members: a group's collectives, or the transfers from one rank to
// another. Each member keeps its own side of it in its own block, and finds a peer's side by key (a hash of the member
// list), so no layout has to be agreed upon. Only the owner of a block writes its channels and header, except for
// the doorbell, which peers ring; results of collectives are written by peers into the arenas themselves.
//
// Numbers count the channel's items from 0: `published` says how many this side has offered (their descriptions are in
// the ring), `finished` how many it has done its part of. An item's place in the ring is free again once every member
// has finished it, which is why at most kRingSize may be pending.
#ifndef HYCRT_SRC_COMM_SHM_SHARED_BLOCK_H_
#define HYCRT_SRC_COMM_SHM_SHARED_BLOCK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hycrt/collectives.h"
#include "hycrt/program.h"

namespace hycrt {

inline constexpr uint64_t kBlockMagic = 0x3330304352594821;
inline constexpr int kRingSize = kMaxPending;
inline constexpr int kNameBytes = 96;
inline constexpr int kGreetingBytes = 128;

// What one side offers as item n of a channel. All but the addresses must be equal among the members.
struct Publication {
  uint32_t id;   // CollectiveDesc::id or TransferDesc::tag
  uint8_t kind;  // CollectiveKind, or kTransferKind
  DType dtype;
  ReduceOp op;
  int32_t microBatch;  // of a transfer
  int64_t count;       // elements; of a transfer: bytes
  int32_t name;        // index into the publisher's names
  int32_t arena;       // the publisher's source; of a flat exchange that of its first part
  int64_t offset;
  int32_t partCount = 0;  // of a flat exchange
  int64_t distance = 0;   // of a shift
};

inline constexpr uint8_t kTransferKind = 100;

struct alignas(64) ChannelRow {
  uint64_t key;
  std::byte greeting[kGreetingBytes];  // what the first member tells the others before all: an id of NCCL's
  alignas(64) std::atomic<uint64_t> published;
  alignas(64) std::atomic<uint64_t> finished;
  std::atomic<uint64_t> announced;  // exchanges that this side's device has come to; written where devices exchange
  alignas(64) Publication ring[kRingSize];
};

enum class RankState : uint32_t { kRunning, kFinished, kFailed };

struct ArenaRow {
  int64_t begin;  // of the arena's first page in the block; -1: private
  int64_t bytes;
};

struct NameRow {
  char text[kNameBytes];
};

struct alignas(64) BlockHeader {
  uint64_t magic;
  int32_t rank;
  int32_t stage;
  int32_t arenaCount;
  int32_t channelCount;
  int32_t nameCount;
  int64_t arenaRows;  // the following are byte offsets in the block
  int64_t channelRows;
  int64_t nameRows;
  int64_t catalog;
  int64_t catalogBytes;
  int64_t bytes;                               // of the whole block
  alignas(64) std::atomic<uint32_t> doorbell;  // a futex word: rung after whatever a peer may be waiting for
  std::atomic<uint32_t> asleep;                // how many of the owner's threads are, or are about to be, in futex wait
  alignas(64) std::atomic<RankState> state;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free,
              "atomics in memory shared by processes must not hide a lock");

// Typed access to a mapped block.
class SharedBlock {
 public:
  SharedBlock() = default;
  explicit SharedBlock(std::byte* base) : base_(base) {}

  BlockHeader& header() const { return *reinterpret_cast<BlockHeader*>(base_); }
  const ArenaRow& arena(int index) const { return rows<ArenaRow>(header().arenaRows)[index]; }
  ChannelRow& channel(int index) const { return rows<ChannelRow>(header().channelRows)[index]; }
  const char* name(int index) const { return rows<NameRow>(header().nameRows)[index].text; }
  const char* catalog() const { return reinterpret_cast<const char*>(base_) + header().catalog; }

  ChannelRow* findChannel(uint64_t key) const {
    for (int i = 0; i < header().channelCount; ++i) {
      if (channel(i).key == key) return &channel(i);
    }
    return nullptr;
  }

  // Null unless [offset, offset + bytes) lies in a shared arena.
  std::byte* address(int arenaIndex, int64_t offset, int64_t bytes) const {
    if (arenaIndex < 0 || arenaIndex >= header().arenaCount) return nullptr;
    const ArenaRow& row = arena(arenaIndex);
    if (row.begin < 0 || bytes < 0 || bytes > row.bytes || offset < 0 || offset > row.bytes - bytes) return nullptr;
    return base_ + row.begin + offset;
  }

 private:
  template <typename T>
  T* rows(int64_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }

  std::byte* base_ = nullptr;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_SHM_SHARED_BLOCK_H_
