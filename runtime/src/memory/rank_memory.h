// RankMemory: the arenas of one rank. Private ones are anonymous pages; shared ones lie in one memfd, behind a head
// that whoever shares it uses as it likes (comm/shm/shared_block.h). Everything is allocated here, once, and starts as
// zeros.
#ifndef HYCRT_SRC_MEMORY_RANK_MEMORY_H_
#define HYCRT_SRC_MEMORY_RANK_MEMORY_H_

#include <cstddef>
#include <string>
#include <vector>

#include "base/file.h"
#include "hycrt/program.h"
#include "hycrt/status.h"

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
  int64_t headBytes = 0;      // in front of the shared arenas
  bool reservesPages = true;  // false: arenas are images of a device's, mostly untouched
};

class RankMemory {
 public:
  static Result<RankMemory> allocate(const Program& program, const RankMemoryOptions& options = {});

  // By arena; null for one that is a file (io/offload_file.h).
  std::byte* const* arenas() const { return arenas_.data(); }
  // Gives the pages of a private arena back: it holds zeros from then on.
  void release(int arena);

  // What peers may map: the head, then the shared arenas.
  std::byte* shared() const { return shared_.base(); }
  int memfd() const { return memfd_.get(); }
  int64_t sharedBytes() const { return sharedBytes_; }
  int64_t headBytes() const { return headBytes_; }                                                // whole pages
  int64_t sharedBegin(int64_t arena) const { return sharedBegins_[static_cast<size_t>(arena)]; }  // -1: private

 private:
  FileDescriptor memfd_;
  Mapping shared_;
  int64_t sharedBytes_ = 0, headBytes_ = 0;
  std::vector<int64_t> sharedBegins_;
  std::vector<Mapping> private_;
  std::vector<std::byte*> arenas_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_MEMORY_RANK_MEMORY_H_
