// Laying out and mapping the arenas of a rank, shared ones behind the block that describes them.
#include "memory/rank_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

namespace hycrt {
namespace {

constexpr int64_t kPageBytes = 4096;
// Of huge pages, which arenas then begin with.
constexpr size_t kGuardBytes = size_t{2} << 20;
constexpr int64_t kMaxBlockBytes = int64_t{1} << 46;

int64_t roundUp(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// Byte offsets in the memfd: where each shared arena begins (-1: private), behind the head.
struct SharedPlan {
  int64_t headBytes, bytes;
  std::vector<int64_t> arenaBegins;
};

Result<SharedPlan> planShared(const Program& program, int64_t headBytes) {
  SharedPlan plan;
  plan.headBytes = plan.bytes = roundUp(headBytes, kPageBytes);
  for (const ArenaDesc& arena : program.arenas) {
    if (arena.sharing != Sharing::kShared) {
      plan.arenaBegins.push_back(-1);
      continue;
    }
    plan.arenaBegins.push_back(plan.bytes);
    if (arena.bytes > kMaxBlockBytes - plan.bytes) {
      return unavailableError(std::string("arena '") + arena.name + "' needs " + std::to_string(arena.bytes) +
                              " bytes of shared memory");
    }
    plan.bytes = roundUp(plan.bytes + arena.bytes, kPageBytes);
  }
  return plan;
}

// Reserves the pages, so that a machine without room says so now and not by a signal later; sealed, so that no
// holder can shrink it under another.
Result<FileDescriptor> makeMemfd(int64_t bytes, bool reservesPages) {
  FileDescriptor fd(memfd_create(kArenaFileName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.isOpen()) return errnoError("cannot make shared memory", errno);
  if (!reservesPages && ftruncate(fd.get(), bytes) != 0) return errnoError("cannot size shared memory", errno);
  if (const int error = reservesPages ? posix_fallocate(fd.get(), 0, bytes) : 0) {
    return unavailableError("cannot reserve " + std::to_string(bytes) +
                            " bytes of shared memory for arenas: " + std::strerror(error));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return errnoError("cannot seal shared memory", errno);
  }
  return fd;
}

}  // namespace

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(guard_, other.guard_);
  return *this;
}

Mapping::~Mapping() {
  if (base_) munmap(base_, bytes_);
}

Result<Mapping> Mapping::ofMemfd(int fd, int64_t bytes) {
  void* base = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return errnoError("cannot map " + std::to_string(bytes) + " bytes of shared memory", errno);
  madvise(base, static_cast<size_t>(bytes), MADV_HUGEPAGE);  // advice only: where it is not taken nothing is lost
  return Mapping(static_cast<std::byte*>(base), static_cast<size_t>(bytes));
}

Result<Mapping> Mapping::anonymous(int64_t bytes, const std::string& arena, bool reservesPages) {
  if (bytes == 0) return Mapping();
  const size_t inner = static_cast<size_t>(roundUp(bytes, kPageBytes));
  Mapping mapping;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (reservesPages ? 0 : MAP_NORESERVE);
  void* base = mmap(nullptr, inner + 2 * kGuardBytes, PROT_NONE, flags, -1, 0);
  if (base != MAP_FAILED) {
    mapping.base_ = static_cast<std::byte*>(base);
    mapping.bytes_ = inner + 2 * kGuardBytes;
    mapping.guard_ = kGuardBytes;
  }
  if (base == MAP_FAILED || mprotect(mapping.base(), inner, PROT_READ | PROT_WRITE) != 0) {
    return unavailableError("cannot allocate arena '" + arena + "' of " + std::to_string(bytes) +
                            " bytes: " + std::strerror(errno));
  }
  madvise(mapping.base(), inner, MADV_HUGEPAGE);
  return mapping;
}

void Mapping::clear() { madvise(base(), bytes_ - 2 * guard_, MADV_DONTNEED); }

Result<RankMemory> RankMemory::allocate(const Program& program, const RankMemoryOptions& options) {
  Result<SharedPlan> plan = planShared(program, options.headBytes);
  if (!plan.ok()) return plan.status();
  RankMemory memory;
  Result<FileDescriptor> memfd = makeMemfd(plan->bytes, options.reservesPages);
  if (!memfd.ok()) return memfd.status();
  memory.memfd_ = std::move(*memfd);
  Result<Mapping> shared = Mapping::ofMemfd(memory.memfd_.get(), plan->bytes);
  if (!shared.ok()) return shared.status();
  memory.shared_ = std::move(*shared);
  memory.sharedBytes_ = plan->bytes;
  memory.headBytes_ = plan->headBytes;
  memory.sharedBegins_ = plan->arenaBegins;
  for (int64_t i = 0; i < program.arenas.size; ++i) {
    if (plan->arenaBegins[i] >= 0) {
      memory.arenas_.push_back(memory.shared_.base() + plan->arenaBegins[i]);
      continue;
    }
    if (program.arenas[i].sharing == Sharing::kFile) {
      memory.arenas_.push_back(nullptr);
      continue;
    }
    Result<Mapping> arena = Mapping::anonymous(program.arenas[i].bytes, program.arenas[i].name, options.reservesPages);
    if (!arena.ok()) return arena.status();
    memory.arenas_.push_back(arena->base());
    memory.private_.push_back(std::move(*arena));
  }
  return memory;
}

void RankMemory::release(int arena) {
  for (Mapping& mapping : private_) {
    if (mapping.base() && mapping.base() == arenas_[static_cast<size_t>(arena)]) mapping.clear();
  }
}

}  // namespace hycrt
