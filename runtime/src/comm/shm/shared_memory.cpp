// Blocks: made, exchanged, mapped; and the futex that ranks sleep on.
#include "comm/shm/shared_memory.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <numeric>

#include "base/clock.h"
#include "base/futex.h"
#include "comm/shm/rendezvous.h"
#include "comm/shm/shared_block.h"

namespace hycrt {
namespace {

int64_t roundUp(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// Byte offsets of the head's parts.
struct HeadPlan {
  int64_t arenaRows, channelRows, nameRows, catalog, bytes;
};

HeadPlan planHead(const TransportSetup& setup) {
  HeadPlan plan;
  plan.arenaRows = sizeof(BlockHeader);
  plan.channelRows =
      roundUp(plan.arenaRows + setup.program.arenas.size * int64_t{sizeof(ArenaRow)}, alignof(ChannelSide));
  plan.nameRows = plan.channelRows + static_cast<int64_t>(setup.plans.channels.size() * sizeof(ChannelSide));
  plan.catalog = plan.nameRows + static_cast<int64_t>(publicationNames(setup.program).size() * sizeof(NameRow));
  plan.bytes = plan.catalog + static_cast<int64_t>(setup.catalog.size());
  return plan;
}

// The memory is zeros already, which is the right start of every count.
void fillHead(const TransportSetup& setup, const RankMemory& memory) {
  std::byte* const base = memory.shared();
  const HeadPlan plan = planHead(setup);
  const std::vector<const char*> names = publicationNames(setup.program);
  BlockHeader* header = new (base) BlockHeader();
  header->rank = setup.environment.rank;
  header->arenaCount = static_cast<int32_t>(setup.program.arenas.size);
  header->channelCount = static_cast<int32_t>(setup.plans.channels.size());
  header->nameCount = static_cast<int32_t>(names.size());
  header->arenaRows = plan.arenaRows;
  header->channelRows = plan.channelRows;
  header->nameRows = plan.nameRows;
  header->catalog = plan.catalog;
  header->catalogBytes = static_cast<int64_t>(setup.catalog.size());
  header->bytes = memory.sharedBytes();
  header->signs.beatMs = monotonicMs();
  header->signs.thread = static_cast<int32_t>(gettid());
  for (int64_t i = 0; i < setup.program.arenas.size; ++i) {
    new (base + plan.arenaRows + i * int64_t{sizeof(ArenaRow)})
        ArenaRow{memory.sharedBegin(i), setup.program.arenas[i].bytes};
  }
  const std::vector<bool> greeted = deviceChannels(setup.program, setup.plans);
  for (size_t i = 0; i < setup.plans.channels.size(); ++i) {
    const ChannelPlan& channel = setup.plans.channels[i];
    ChannelSide* side = new (base + plan.channelRows + i * sizeof(ChannelSide)) ChannelSide();
    side->key = channel.key;
    if (setup.greet && greeted[i] && channel.members.front() == header->rank) setup.greet(side->greeting);
  }
  NameRow* row = reinterpret_cast<NameRow*>(base + plan.nameRows);
  for (const char* name : names) std::strncpy((row++)->text, name, kNameBytes - 1);
  std::memcpy(base + plan.catalog, setup.catalog.data(), setup.catalog.size());
  header->magic = kBlockMagic;
}

FileDescriptor openProcess(int processId) {
  return FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, processId, 0)));
}

bool hasEnded(const FileDescriptor& process) {
  pollfd item{process.get(), POLLIN, 0};
  return process.isOpen() && poll(&item, 1, 0) > 0;
}

// Of /proc/PID/task/TID: the state, which follows the name in brackets, and how often the thread has run.
ProcessLook lookAt(int processId, int thread) {
  ProcessLook look;
  const std::string folder = "/proc/" + std::to_string(processId) + "/task/" + std::to_string(thread);
  std::ifstream stat(folder + "/stat"), status(folder + "/status");
  std::string line;
  if (!std::getline(stat, line)) return look;
  const size_t name = line.rfind(") ");
  if (name == std::string::npos || name + 2 >= line.size()) return look;
  look.processId = processId;
  look.state = line[name + 2];
  while (std::getline(status, line)) {
    if (line.find("voluntary_ctxt_switches:") == std::string::npos) continue;
    look.switches += std::strtoll(line.c_str() + line.find(':') + 1, nullptr, 10);
  }
  return look;
}

Status checkBlock(SharedBlock block, int64_t bytes, int rank) {
  const BlockHeader& header = block.header();
  if (header.magic == kBlockMagic && header.bytes == bytes && header.rank == rank) return {};
  return dataError("rank " + std::to_string(rank) + " runs a different version of the runtime; compile again");
}

class SharedMemory : public Transport {
 public:
  SharedMemory(const TransportSetup& setup, const RankMemory& memory)
      : plans_(setup.plans), self_(setup.environment.rank), own_(memory.shared()) {}

  // `ranks`: whose the hellos are.
  Status mapPeers(std::vector<PeerHello> hellos, const std::vector<int>& ranks, const TransportSetup& setup) {
    peers_.resize(static_cast<size_t>(setup.environment.worldSize));
    for (size_t i = 0; i < hellos.size(); ++i) {
      const int rank = ranks[i];
      Peer& peer = peers_[static_cast<size_t>(rank)];
      if (rank == self_) {
        peer.block = own_;
        peer.program = setup.program.name;
        peer.processId = getpid();
        continue;
      }
      PeerHello& hello = hellos[i];
      Result<Mapping> mapping = Mapping::ofMemfd(hello.memfd.get(), hello.blockBytes);
      if (!mapping.ok()) return mapping.status();
      peer.mapping = std::move(*mapping);
      peer.block = SharedBlock(peer.mapping.base());
      peer.program = hello.program;
      HYCRT_RETURN_IF_ERROR(checkBlock(peer.block, hello.blockBytes, rank));
      hello.memfd.reset(-1);  // the mapping stays
      peer.process = openProcess(hello.processId);
      peer.processId = hello.processId;
      if (!peer.process.isOpen() && (errno == EMFILE || errno == ENFILE)) {
        return errnoError("cannot watch rank " + std::to_string(rank), errno);
      }
      if (!peer.process.isOpen() && errno == ESRCH) {
        return {StatusCode::kPeerLost, "rank " + std::to_string(rank) + " has ended before the first step"};
      }
    }
    return {};
  }

  ChannelSide* side(int channel, int member) override {
    const ChannelPlan& plan = plans_.channels[static_cast<size_t>(channel)];
    return blockOf(plan.members[static_cast<size_t>(member)]).findChannel(plan.key);
  }
  void tell(int channel) override { ring(plans_.channels[static_cast<size_t>(channel)].members); }
  void publish(int channel) override {
    own_.findChannel(plans_.channels[static_cast<size_t>(channel)].key)
        ->published.fetch_add(1, std::memory_order_release);
    tell(channel);
  }

  Bytes find(int rank, int arena, int64_t offset, int64_t bytes) const override {
    std::byte* const address = blockOf(rank).address(arena, offset, bytes);
    return {address != nullptr, address};
  }
  Status pull(int rank, int arena, int64_t offset, int64_t bytes, std::byte* to, FunctionRef<Status()>) override {
    std::memcpy(to, blockOf(rank).address(arena, offset, bytes), static_cast<size_t>(bytes));
    return {};
  }

  const char* lossOf(int rank, bool thoroughly) const override {
    const Peer& peer = peers_[static_cast<size_t>(rank)];
    const RankState state = peer.block.header().state.load(std::memory_order_acquire);
    return state == RankState::kFailed            ? "failed"
           : state == RankState::kFinished        ? "has ended its run"
           : thoroughly && hasEnded(peer.process) ? "was killed or crashed"
                                                  : nullptr;
  }
  void leave(RankState state) override {
    own_.header().state.store(state, std::memory_order_release);
    std::vector<int> mapped;
    for (size_t rank = 0; rank < peers_.size(); ++rank) {
      if (peers_[rank].mapping.base()) mapped.push_back(static_cast<int>(rank));
    }
    ring(mapped);
  }

  RankSigns& signs(int rank) override { return blockOf(rank).header().signs; }
  ProcessLook look(int rank) const override {
    const Peer& peer = peers_[static_cast<size_t>(rank)];
    return lookAt(peer.processId, peer.block.header().signs.thread.load(std::memory_order_acquire));
  }

  uint32_t listen() override {
    BlockHeader& own = own_.header();
    const uint32_t heard = own.doorbell.load(std::memory_order_acquire);
    own.asleep.fetch_add(1, std::memory_order_seq_cst);
    return heard;
  }
  void sleep(uint32_t heard, int milliseconds, Awaited) override {
    futexWait(&own_.header().doorbell, heard, milliseconds);
  }
  void stopListening() override { own_.header().asleep.fetch_sub(1, std::memory_order_relaxed); }
  void wakeSelf() override { ringBlock(own_); }

  const char* nameOf(int rank, int index) const override {
    const SharedBlock block = blockOf(rank);
    return index >= 0 && index < block.header().nameCount ? block.name(index) : "?";
  }
  std::string programOf(int rank) const override { return peers_[static_cast<size_t>(rank)].program; }
  std::string catalogOf(int rank) const override {
    const SharedBlock block = blockOf(rank);
    return std::string(block.catalog(), static_cast<size_t>(block.header().catalogBytes));
  }

 private:
  struct Peer {
    Mapping mapping;
    SharedBlock block;
    FileDescriptor process;  // becomes readable when the process ends
    int processId = 0;
    std::string program;
  };

  SharedBlock blockOf(int rank) const { return peers_[static_cast<size_t>(rank)].block; }

  static void ringBlock(SharedBlock block) {
    BlockHeader& header = block.header();
    header.doorbell.fetch_add(1, std::memory_order_seq_cst);
    if (header.asleep.load(std::memory_order_seq_cst) != 0) futexWakeAll(&header.doorbell);
  }
  void ring(const std::vector<int>& ranks) const {
    for (int rank : ranks) {
      if (rank != self_ && peers_[static_cast<size_t>(rank)].mapping.base()) ringBlock(blockOf(rank));
    }
  }

  const ChannelPlans& plans_;
  const int self_;
  const SharedBlock own_;
  std::vector<Peer> peers_;  // by rank; the own entry has no mapping
};

}  // namespace

int64_t sharedMemoryHeadBytes(const TransportSetup& setup) { return planHead(setup).bytes; }

Result<std::unique_ptr<Transport>> connectSharedMemory(const TransportSetup& setup, const RankMemory& memory) {
  std::vector<int> everyone(static_cast<size_t>(setup.environment.worldSize));
  std::iota(everyone.begin(), everyone.end(), 0);
  return connectSharedMemoryOf(setup, memory, setup.environment, everyone);
}

Result<std::unique_ptr<Transport>> connectSharedMemoryOf(const TransportSetup& setup, const RankMemory& memory,
                                                         const Environment& meeting, const std::vector<int>& ranks) {
  fillHead(setup, memory);
  PeerHello own;
  own.rank = meeting.rank;
  own.processId = getpid();
  own.worldSize = meeting.worldSize;
  own.planHash = setup.program.planHash;
  own.program = setup.program.name;
  own.agreement = setup.agreement;
  own.blockBytes = memory.sharedBytes();
  own.memfd.reset(memory.memfd());
  Result<std::vector<PeerHello>> hellos = rendezvous(meeting, own);
  own.memfd.release();  // it was lent
  if (!hellos.ok()) return hellos.status();
  auto transport = std::make_unique<SharedMemory>(setup, memory);
  HYCRT_RETURN_IF_ERROR(transport->mapPeers(std::move(*hellos), ranks, setup));
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace hycrt
