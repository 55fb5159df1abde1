// SharedBlock: the layout of the one memfd that each rank makes and every other rank maps.
//
//   | header | arena rows | channel sides | names | catalog text | pages of the shared arenas … |
//
// A rank keeps its own sides of its channels (transport.h) in its own block, and finds a peer's by key (a hash of the
// member list), so no layout has to be agreed upon. Only the owner of a block writes its sides and header, except for
// the doorbell, which peers ring; results of collectives are written by peers into the arenas themselves.
#ifndef HYCRT_SRC_COMM_SHM_SHARED_BLOCK_H_
#define HYCRT_SRC_COMM_SHM_SHARED_BLOCK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "comm/transport.h"

namespace hycrt {

inline constexpr uint64_t kBlockMagic = 0x3530304352594821;
inline constexpr int kNameBytes = 96;

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
  RankSigns signs;
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
  ChannelSide& channel(int index) const { return rows<ChannelSide>(header().channelRows)[index]; }
  const char* name(int index) const { return rows<NameRow>(header().nameRows)[index].text; }
  const char* catalog() const { return reinterpret_cast<const char*>(base_) + header().catalog; }

  ChannelSide* findChannel(uint64_t key) const {
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
