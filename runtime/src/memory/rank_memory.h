// RankMemory: the arenas of one rank. Private ones are anonymous pages; shared ones lie in one memfd behind the block
// that describes them (comm/shm/shared_block.h); one may be a file on a disk. Everything is allocated here, once, and
// starts as zeros.
#ifndef HYCRT_SRC_MEMORY_RANK_MEMORY_H_
#define HYCRT_SRC_MEMORY_RANK_MEMORY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "comm/channels.h"
#include "comm/shm/shared_block.h"
#include "hycrt/program.h"
#include "hycrt/status.h"
#include "io/block_file.h"

namespace hycrt {

// What /proc calls the memory of shared arenas.
inline constexpr char kArenaFileName[] = "hyc-arenas";

// A mapping that ends with its owner.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* base, size_t bytes) : base_(base), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  // Whole memfd, readable and writable by every process that has it.
  static Result<Mapping> ofMemfd(int fd, int64_t bytes);
  // Zeros, between two pages that nobody may touch: an address that runs out of an arena ends the rank.
  static Result<Mapping> anonymous(int64_t bytes, const std::string& arena, bool reservesPages = true);

  std::byte* base() const { return base_ ? base_ + guard_ : nullptr; }
  // Gives the pages back, guards kept: zeros again. Of anonymous() alone.
  void clear();

 private:
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;  // guards included
  size_t guard_ = 0;  // bytes in front
};

struct RankMemoryOptions {
  std::string nvmePath;                 // folder of the arena that is a file
  bool reservesPages = true;            // false: arenas are images of a device's, mostly untouched
  void (*greet)(std::byte*) = nullptr;  // fills the greeting of each channel whose first member this rank is
};

class RankMemory {
 public:
  // `catalog` is text that peers may read (io/state_catalog.h). A program with an arena that is a file wants a folder
  // for it: a usage error without.
  static Result<RankMemory> allocate(const Program& program, const Coordinates& at, const ChannelPlans& channels,
                                     const std::string& catalog, const RankMemoryOptions& options = {});

  std::byte* const* arenas() const { return arenas_.data(); }
  BlockFile* file() const { return file_.get(); }  // null: no arena is a file
  // Gives the pages of a private arena back: it holds zeros from then on.
  void release(int arena);
  SharedBlock block() const { return SharedBlock(block_.base()); }
  int memfd() const { return memfd_.get(); }
  int64_t blockBytes() const { return blockBytes_; }
  // Of the block, what is no arena: headers, rings of channels, names.
  int64_t tableBytes() const { return tableBytes_; }

 private:
  FileDescriptor memfd_;
  Mapping block_;
  int64_t blockBytes_ = 0, tableBytes_ = 0;
  std::vector<Mapping> private_;
  std::vector<std::byte*> arenas_;
  std::unique_ptr<BlockFile> file_;  // last: transfers end before the memory they use
};

}  // namespace hycrt

#endif  // HYCRT_SRC_MEMORY_RANK_MEMORY_H_
