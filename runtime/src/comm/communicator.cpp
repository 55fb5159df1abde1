// Meeting, waiting and leaving. What is waited for is in group_work.cpp and exchange.cpp.
#include "comm/communicator.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/futex.h"
#include "comm/shm/rendezvous.h"
#include "comm/shm/sockets.h"

namespace hycrt {
namespace {

constexpr int kSleepMs = 100;       // how often a sleeper looks whether its peers still live
constexpr int64_t kSlowMs = 60000;  // after that a wait is worth a line on stderr

// Spinning pays only where every thread that may spin has a core to itself.
int spinCount(int threads) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  return threads <= count ? 4000 : 20;
}

FileDescriptor openProcess(int processId) {
  return FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, processId, 0)));
}

bool hasEnded(const FileDescriptor& process) {
  pollfd item{process.get(), POLLIN, 0};
  return process.isOpen() && poll(&item, 1, 0) > 0;
}

Status checkBlock(SharedBlock block, int64_t bytes, int rank) {
  const BlockHeader& header = block.header();
  if (header.magic == kBlockMagic && header.bytes == bytes && header.rank == rank) return {};
  return dataError("rank " + std::to_string(rank) + " runs a different version of the runtime; compile again");
}

}  // namespace

Communicator::Communicator(const Program& program, const Environment& environment, const RankMemory& memory,
                           ChannelPlans plans, CommunicatorOptions options)
    : program_(program),
      memory_(memory),
      rank_(environment.rank),
      plans_(std::move(plans)),
      spins_(spinCount(environment.worldSize * (options.ownThread ? 2 : 1))),
      options_(options) {}

Communicator::~Communicator() { leave(RankState::kFailed); }

Result<std::unique_ptr<Communicator>> Communicator::connect(const Program& program, const Environment& environment,
                                                            const RankMemory& memory, ChannelPlans plans,
                                                            CommunicatorOptions options) {
  PeerHello own;
  own.rank = environment.rank;
  own.processId = getpid();
  own.worldSize = environment.worldSize;
  own.planHash = program.planHash;
  own.program = program.name;
  own.blockBytes = memory.blockBytes();
  own.memfd.reset(memory.memfd());
  Result<std::vector<PeerHello>> hellos = rendezvous(environment, own);
  own.memfd.release();  // it was lent
  if (!hellos.ok()) return hellos.status();
  std::unique_ptr<Communicator> communicator(new Communicator(program, environment, memory, std::move(plans), options));
  HYCRT_RETURN_IF_ERROR(communicator->mapPeers(std::move(*hellos)));
  HYCRT_RETURN_IF_ERROR(communicator->resolveChannels());
  if (options.ownThread) communicator->startThread();
  return communicator;
}

Status Communicator::mapPeers(std::vector<PeerHello> hellos) {
  peers_.resize(hellos.size());
  for (size_t rank = 0; rank < hellos.size(); ++rank) {
    Peer& peer = peers_[rank];
    if (static_cast<int>(rank) == rank_) {
      peer.block = memory_.block();
      continue;
    }
    const PeerHello& hello = hellos[rank];
    Result<Mapping> mapping = Mapping::ofMemfd(hello.memfd.get(), hello.blockBytes);
    if (!mapping.ok()) return mapping.status();
    peer.mapping = std::move(*mapping);
    peer.block = SharedBlock(peer.mapping.base());
    peer.program = hello.program;
    HYCRT_RETURN_IF_ERROR(checkBlock(peer.block, hello.blockBytes, static_cast<int>(rank)));
    peer.process = openProcess(hello.processId);
    if (!peer.process.isOpen() && errno == ESRCH) {
      return {StatusCode::kPeerLost, "rank " + std::to_string(rank) + " has ended before the first step"};
    }
  }
  return {};
}

Status Communicator::resolveChannels() {
  for (const ChannelPlan& plan : plans_.channels) {
    Channel& channel = channels_.emplace_back();
    channel.members = plan.members;
    for (size_t i = 0; i < plan.members.size(); ++i) {
      const int member = plan.members[i];
      if (member == rank_) channel.self = static_cast<int>(i);
      ChannelRow* row = peers_[static_cast<size_t>(member)].block.findChannel(plan.key);
      if (!row) {
        return internalError("rank " + std::to_string(rank_) + " expects to talk with rank " + std::to_string(member) +
                             " (program '" + peers_[static_cast<size_t>(member)].program +
                             "'), whose program knows nothing of it");
      }
      channel.rows.push_back(row);
    }
  }
  for (int index : plans_.ofGroup) {
    if (index >= 0) channels_[static_cast<size_t>(index)].isGroup = true;
  }
  channels_[static_cast<size_t>(plans_.world)].isGroup = true;
  return {};
}

int Communicator::memberCount(int group) const {
  const int channel = plans_.ofGroup[static_cast<size_t>(group)];
  return channel < 0 ? 0 : static_cast<int>(channels_[static_cast<size_t>(channel)].members.size());
}

std::string Communicator::catalogOf(int rank) const {
  const SharedBlock& block = peers_[static_cast<size_t>(rank)].block;
  return std::string(block.catalog(), static_cast<size_t>(block.header().catalogBytes));
}

void Communicator::ring(const std::vector<int>& ranks) const {
  for (int rank : ranks) {
    if (rank == rank_) continue;
    BlockHeader& header = peers_[static_cast<size_t>(rank)].block.header();
    header.doorbell.fetch_add(1, std::memory_order_seq_cst);
    if (header.asleep.load(std::memory_order_seq_cst) != 0) futexWakeAll(&header.doorbell);
  }
}

void Communicator::leave(RankState state) {
  if (left_) return;
  left_ = true;
  stopThread();
  memory_.block().header().state.store(state, std::memory_order_release);
  std::vector<int> mapped;
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    if (peers_[rank].mapping.base()) mapped.push_back(static_cast<int>(rank));
  }
  ring(mapped);
}

Status Communicator::checkPeer(int rank, Description what, bool askKernel) const {
  if (rank == rank_) return {};
  const Peer& peer = peers_[static_cast<size_t>(rank)];
  const RankState state = peer.block.header().state.load(std::memory_order_acquire);
  const char* how = state == RankState::kFailed           ? "failed"
                    : state == RankState::kFinished       ? "has ended its run"
                    : askKernel && hasEnded(peer.process) ? "was killed or crashed"
                                                          : nullptr;
  if (!how) return {};
  return {StatusCode::kPeerLost,
          "rank " + std::to_string(rank) + " " + how + " while this rank waited for it in " + what()};
}

std::string Communicator::lostAmong(const std::vector<int>& ranks) const {
  std::string text;
  for (int rank : ranks) {
    const Status status = checkPeer(rank, [] { return std::string("an exchange between devices"); }, true);
    if (!status.ok()) text += (text.empty() ? "" : "; ") + status.message();
  }
  return text;
}

void Communicator::announce(int channel, uint64_t count) {
  channels_[static_cast<size_t>(channel)].own().announced.store(count, std::memory_order_release);
}

std::vector<int> Communicator::missingAt(int channelIndex, uint64_t number) const {
  const Channel& channel = channels_[static_cast<size_t>(channelIndex)];
  std::vector<int> missing;
  for (size_t i = 0; i < channel.rows.size(); ++i) {
    if (channel.rows[i]->announced.load(std::memory_order_acquire) <= number) missing.push_back(channel.members[i]);
  }
  std::sort(missing.begin(), missing.end());
  return missing;
}

// The doorbell's value is taken before looking, so that a ring between the look and the sleep ends the sleep at once.
Status Communicator::waitUntil(const std::vector<int>& peers, Description what, FunctionRef<bool()> ready) {
  for (int i = 0; i < spins_; ++i) {
    if (ready()) return {};
    spinPause();
  }
  BlockHeader& own = memory_.block().header();
  const int64_t begin = monotonicMs();
  int64_t nextCheck = begin + kSleepMs;
  bool warned = false;
  for (;;) {
    const uint32_t seen = own.doorbell.load(std::memory_order_acquire);
    own.asleep.fetch_add(1, std::memory_order_seq_cst);
    const int64_t now = monotonicMs();
    const bool askKernel = now >= nextCheck;
    if (askKernel) nextCheck = now + kSleepMs;
    // Peers first: whatever a peer did before it ended is then seen by ready().
    Status lost;
    for (int peer : peers) {
      if (lost.ok()) lost = checkPeer(peer, what, askKernel);
    }
    const bool done = ready();
    if (!done && lost.ok()) futexWait(&own.doorbell, seen, kSleepMs);
    own.asleep.fetch_sub(1, std::memory_order_relaxed);
    if (done) return {};
    if (!lost.ok()) return lost;
    if (!warned && now - begin > kSlowMs) {
      std::fprintf(stderr, "warning: waiting for %d s already in %s\n", static_cast<int>(kSlowMs / 1000),
                   what().c_str());
      warned = true;
    }
  }
}

Status Communicator::barrier() {
  Publication publication{};
  publication.kind = static_cast<uint8_t>(CollectiveKind::kBarrier);
  publication.name = static_cast<int32_t>(program_.collectives.size + program_.transfers.size);
  Result<Ticket> ticket =
      startOn(plans_.world, {-1, CollectiveKind::kBarrier, {}, {}, 0, DType::kU8, ReduceOp::kSum}, publication);
  if (!ticket.ok()) return ticket.status();
  return wait(*ticket);
}

}  // namespace hycrt
