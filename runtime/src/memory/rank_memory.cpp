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

// Byte offsets of the block's parts, and where each shared arena begins (-1: private).
struct BlockPlan {
  int64_t arenaRows, channelRows, nameRows, catalog, tableBytes, bytes;
  std::vector<int64_t> arenaBegins;
};

// Names by index: the collectives' first, then the transfers', then the barrier's.
int64_t nameCount(const Program& program) { return program.collectives.size + program.transfers.size + 1; }

Result<BlockPlan> planBlock(const Program& program, const ChannelPlans& channels, size_t catalogBytes) {
  BlockPlan plan;
  plan.arenaRows = sizeof(BlockHeader);
  plan.channelRows = roundUp(plan.arenaRows + program.arenas.size * int64_t{sizeof(ArenaRow)}, alignof(ChannelRow));
  plan.nameRows = plan.channelRows + static_cast<int64_t>(channels.channels.size() * sizeof(ChannelRow));
  plan.catalog = plan.nameRows + nameCount(program) * int64_t{sizeof(NameRow)};
  plan.bytes = roundUp(plan.catalog + static_cast<int64_t>(catalogBytes), kPageBytes);
  plan.tableBytes = plan.bytes;
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

void fillNames(SharedBlock block, const Program& program) {
  NameRow* row = reinterpret_cast<NameRow*>(reinterpret_cast<std::byte*>(&block.header()) + block.header().nameRows);
  const auto add = [&row](const char* text) { std::strncpy((row++)->text, text, kNameBytes - 1); };
  for (const CollectiveDesc& collective : program.collectives) add(collective.name);
  for (const TransferDesc& transfer : program.transfers) add(transfer.name);
  add("the end of a phase of the run");
}

// The memory is zeros already, which is the right start of every count.
void fillBlock(std::byte* base, const BlockPlan& plan, const Program& program, const Coordinates& at,
               const ChannelPlans& channels, const std::string& catalog, void (*greet)(std::byte*)) {
  BlockHeader* header = new (base) BlockHeader();
  header->rank = rankOf(program.mesh, at);
  header->stage = at.pp;
  header->arenaCount = static_cast<int32_t>(program.arenas.size);
  header->channelCount = static_cast<int32_t>(channels.channels.size());
  header->nameCount = static_cast<int32_t>(nameCount(program));
  header->arenaRows = plan.arenaRows;
  header->channelRows = plan.channelRows;
  header->nameRows = plan.nameRows;
  header->catalog = plan.catalog;
  header->catalogBytes = static_cast<int64_t>(catalog.size());
  header->bytes = plan.bytes;
  for (int64_t i = 0; i < program.arenas.size; ++i) {
    new (base + plan.arenaRows + i * int64_t{sizeof(ArenaRow)}) ArenaRow{plan.arenaBegins[i], program.arenas[i].bytes};
  }
  const std::vector<bool> greeted = deviceChannels(program, channels);
  for (size_t i = 0; i < channels.channels.size(); ++i) {
    ChannelRow* row = new (base + plan.channelRows + i * sizeof(ChannelRow)) ChannelRow();
    row->key = channels.channels[i].key;
    if (greet && greeted[i] && channels.channels[i].members.front() == header->rank) greet(row->greeting);
  }
  std::memcpy(base + plan.catalog, catalog.data(), catalog.size());
  fillNames(SharedBlock(base), program);
  header->magic = kBlockMagic;
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

static Result<std::unique_ptr<BlockFile>> createFile(const Program& program, const Coordinates& at, int64_t bytes,
                                                     const std::string& nvmePath) {
  if (nvmePath.empty()) {
    return usageError("the plan keeps " + std::to_string(bytes) +
                      " bytes a rank on a disk; say where with --nvme-path DIR");
  }
  BlockFileOptions options;
  options.folder = nvmePath;
  options.rank = rankOf(program.mesh, at);
  options.bytes = bytes;
  return BlockFile::create(options);
}

Result<RankMemory> RankMemory::allocate(const Program& program, const Coordinates& at, const ChannelPlans& channels,
                                        const std::string& catalog, const RankMemoryOptions& options) {
  Result<BlockPlan> plan = planBlock(program, channels, catalog.size());
  if (!plan.ok()) return plan.status();
  RankMemory memory;
  Result<FileDescriptor> memfd = makeMemfd(plan->bytes, options.reservesPages);
  if (!memfd.ok()) return memfd.status();
  memory.memfd_ = std::move(*memfd);
  Result<Mapping> block = Mapping::ofMemfd(memory.memfd_.get(), plan->bytes);
  if (!block.ok()) return block.status();
  memory.block_ = std::move(*block);
  memory.blockBytes_ = plan->bytes;
  memory.tableBytes_ = plan->tableBytes;
  fillBlock(memory.block_.base(), *plan, program, at, channels, catalog, options.greet);
  for (int64_t i = 0; i < program.arenas.size; ++i) {
    if (plan->arenaBegins[i] >= 0) {
      memory.arenas_.push_back(memory.block_.base() + plan->arenaBegins[i]);
      continue;
    }
    if (program.arenas[i].sharing == Sharing::kFile) {
      Result<std::unique_ptr<BlockFile>> file = createFile(program, at, program.arenas[i].bytes, options.nvmePath);
      if (!file.ok()) return file.status();
      memory.file_ = std::move(*file);
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
