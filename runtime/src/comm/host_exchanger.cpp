// Meeting, waiting and leaving. What is waited for is in group_work.cpp and transfers.cpp.
#include "comm/host_exchanger.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/futex.h"
#include "comm/tcp/meeting.h"

namespace hycrt {
namespace {

constexpr int kSleepMs = 100;  // how often a sleeper looks whether its peers still live
// Between hosts one may hear that a peer has ended before what a third one did before that.
constexpr int64_t kOvertakenMs = 400;

constexpr int64_t kSpinNs = 50000;  // of looks at connections, which are system calls

// Spinning pays only where every thread that may spin has a core to itself.
bool mayAllSpin(int threads) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  return threads <= count;
}

// Where there are several machines, what is said of a rank names its own.
HostExchangerOptions naming(const Transport& transport, const ChannelPlans& plans, HostExchangerOptions options) {
  for (int rank : plans.channels[static_cast<size_t>(plans.world)].members) {
    if (!transport.hostOf(rank).empty()) options.patience.ownHost = machineName();
  }
  return options;
}

// What a rank that has failed said of it; empty where it said nothing.
std::string wordsOf(const RankSigns& signs) { return {signs.lastWords, strnlen(signs.lastWords, kLastWordsBytes)}; }

}  // namespace

HostExchanger::HostExchanger(const TransportSetup& setup, std::byte* const* arenas,
                             std::unique_ptr<Transport> transport, HostExchangerOptions options)
    : program_(setup.program),
      rank_(setup.environment.rank),
      plans_(setup.plans),
      arenas_(arenas),
      transport_(std::move(transport)),
      options_(naming(*transport_, plans_, std::move(options))),
      patience_(*transport_, program_.mesh, rank_, options_.patience),
      pullPatience_(*transport_, program_.mesh, rank_, options_.patience),
      spins_(mayAllSpin(setup.environment.ranksHere * (options_.ownThread ? 2 : 1)) ? 4000 : 20),
      shared_(static_cast<size_t>(setup.environment.worldSize)) {
  lateness_.byRank.resize(static_cast<size_t>(setup.environment.worldSize));
  exchangeTimes_.resize(static_cast<size_t>(program_.collectives.size + program_.transfers.size));
}

HostExchanger::~HostExchanger() { (void)leave(false); }

Result<std::unique_ptr<HostExchanger>> HostExchanger::create(const TransportSetup& setup, std::byte* const* arenas,
                                                             std::unique_ptr<Transport> transport,
                                                             HostExchangerOptions options) {
  std::unique_ptr<HostExchanger> exchanger(new HostExchanger(setup, arenas, std::move(transport), options));
  const std::vector<int>& everyone = setup.plans.channels[static_cast<size_t>(setup.plans.world)].members;
  if (exchanger->spansHosts(everyone) && exchanger->spins_ > 20) exchanger->spinNs_ = kSpinNs;
  HYCRT_RETURN_IF_ERROR(exchanger->resolveChannels());
  exchanger->tellOfFetchedSums();
  exchanger->transport_->takePushes(exchanger.get());
  if (setup.environment.worldSize > 1) {
    HYCRT_RETURN_IF_ERROR(exchanger->heartbeat_.start(exchanger->transport_->signs(exchanger->rank_)));
  }
  if (options.ownThread) HYCRT_RETURN_IF_ERROR(exchanger->startThread());
  return exchanger;
}

Status HostExchanger::resolveChannels() {
  int shared = -1;  // an arena that peers have, too
  for (int64_t i = 0; i < program_.arenas.size && shared < 0; ++i) {
    if (program_.arenas[i].sharing == Sharing::kShared) shared = static_cast<int>(i);
  }
  bool fetchesTerms = false;
  for (const ChannelPlan& plan : plans_.channels) {
    Channel& channel = channels_.emplace_back();
    channel.index = static_cast<int>(channels_.size()) - 1;
    channel.members = plan.members;
    channel.spansHosts = spansHosts(plan.members);
    for (size_t i = 0; i < plan.members.size(); ++i) {
      const int member = plan.members[i];
      if (member == rank_) channel.self = static_cast<int>(i);
      ChannelSide* side = transport_->side(channel.index, static_cast<int>(i));
      if (!side) {
        return internalError("rank " + std::to_string(rank_) + " expects to talk with rank " + std::to_string(member) +
                             " (program '" + transport_->programOf(member) + "'), whose program knows nothing of it");
      }
      channel.sides.push_back(side);
      const Transport::Bytes bytes = shared < 0 ? Transport::Bytes() : transport_->find(member, shared, 0, 0);
      if (bytes.exist && !bytes.address) channel.isMapped = false;
      if (transport_->hostNumberOf(member) != transport_->hostNumberOf(rank_)) {
        channel.spansHosts = true;
        continue;
      }
      if (member == rank_) channel.place = static_cast<int>(channel.beside.size());
      channel.beside.push_back(side);
    }
  }
  for (int index : plans_.ofGroup) {
    if (index >= 0) channels_[static_cast<size_t>(index)].isGroup = true;
  }
  for (const CollectiveDesc& row : program_.collectives) {
    const int index = plans_.ofGroup[static_cast<size_t>(row.group)];
    if (index < 0 || !factsOf(row.kind).reduces) continue;
    Channel& channel = channels_[static_cast<size_t>(index)];
    layOutSums(channel);
    fetchesTerms = fetchesTerms || (!channel.isMapped && !channel.sums);
  }
  // A chunk, and a running sum of as many elements in a wider type.
  if (fetchesTerms) pulled_.resize(3 * static_cast<size_t>(kPulledChunkBytes));
  channels_[static_cast<size_t>(plans_.world)].isGroup = true;
  return {};
}

void HostExchanger::layOutSums(Channel& channel) {
  std::vector<int> numbers;
  for (int rank : channel.members) numbers.push_back(transport_->hostNumberOf(rank));
  HostLayout layout;
  if (channel.sums || !SumOverHosts::layOut(numbers, channel.self, &layout)) return;
  channel.sums = std::make_unique<SumOverHosts>(program_, *transport_, channel.index, channel.members, layout, arenas_);
}

// Once a group, by its first member.
void HostExchanger::tellOfFetchedSums() const {
  if (!options_.patience.note) return;
  for (const CollectiveDesc& row : program_.collectives) {
    const int index = plans_.ofGroup[static_cast<size_t>(row.group)];
    if (index < 0 || !factsOf(row.kind).reduces) continue;
    const Channel& channel = channels_[static_cast<size_t>(index)];
    if (!channel.spansHosts || channel.sums || channel.members.front() != rank_) continue;
    options_.patience.note(std::string("of sums such as '") + row.name + "' (group '" +
                           program_.groups[row.group].name +
                           "') each rank fetches the terms of all others, since the ranks of its hosts are not "
                           "neighbours in it, or not equally many; with as many on each host, in order, less is sent");
    return;
  }
}

int64_t HostExchanger::bufferBytes() const {
  int64_t bytes = transport_->bufferBytes() + static_cast<int64_t>(pulled_.capacity());
  for (const Channel& channel : channels_) bytes += channel.sums ? channel.sums->bufferBytes() : 0;
  return bytes;
}

std::byte* HostExchanger::placeFor(int rank, const Push& push, int64_t bytes) {
  const bool isKnown = push.channel >= 0 && static_cast<size_t>(push.channel) < channels_.size();
  SumOverHosts* const sums = isKnown ? channels_[static_cast<size_t>(push.channel)].sums.get() : nullptr;
  return sums ? sums->placeFor(rank, push, bytes) : nullptr;
}

bool HostExchanger::take(int rank, const Push& push, int64_t bytes) {
  const bool isKnown = push.channel >= 0 && static_cast<size_t>(push.channel) < channels_.size();
  SumOverHosts* const sums = isKnown ? channels_[static_cast<size_t>(push.channel)].sums.get() : nullptr;
  if (!sums || !sums->take(rank, push, bytes)) return false;
  receivedBytes_.fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

int HostExchanger::memberCount(int group) const {
  const int channel = plans_.ofGroup[static_cast<size_t>(group)];
  return channel < 0 ? 0 : static_cast<int>(channels_[static_cast<size_t>(channel)].members.size());
}

Status HostExchanger::leave(bool finished) {
  if (left_) return {};
  left_ = true;
  stopThread();
  heartbeat_.stop();
  transport_->leave(finished ? RankState::kFinished : RankState::kFailed);
  return {};
}

Status HostExchanger::checkPeer(int rank, Description what, bool thoroughly) const {
  if (rank == rank_) return {};
  const char* const how = transport_->lossOf(rank, thoroughly);
  if (!how) return {};
  const std::string elsewhere = transport_->hostOf(rank),
                    &host = elsewhere.empty() ? options_.patience.ownHost : elsewhere;
  const std::string text = "rank " + std::to_string(rank) + (host.empty() ? "" : " on host '" + host + "'") + " " +
                           how + " while this rank waited for it in " + what();
  const std::string words = wordsOf(transport_->signs(rank));
  return {StatusCode::kPeerLost, text + (words.empty() ? "" : ": " + words)};
}

std::unique_ptr<Patience> HostExchanger::makePatience() const {
  return std::make_unique<Patience>(*transport_, program_.mesh, rank_, options_.patience);
}

void HostExchanger::leaveWords(const Status& status) {
  char* const own = transport_->signs(rank_).lastWords;
  if (own[0] != '\0') return;
  std::string words = "rank " + std::to_string(rank_) + ": " + status.message();
  for (int rank = 0; status.code() == StatusCode::kPeerLost && rank < rankCount(program_.mesh); ++rank) {
    if (rank == rank_ || !transport_->lossOf(rank, false)) continue;
    if (const std::string first = wordsOf(transport_->signs(rank)); !first.empty()) words = first;
  }
  std::strncpy(own, words.c_str(), kLastWordsBytes - 1);
}

std::string HostExchanger::lostAmong(const std::vector<int>& ranks) const {
  std::string text;
  for (int rank : ranks) {
    const Status status = checkPeer(rank, [] { return std::string("an exchange between devices"); }, true);
    if (!status.ok()) text += (text.empty() ? "" : "; ") + status.message();
  }
  return text;
}

void HostExchanger::announce(int channel, uint64_t count) {
  channels_[static_cast<size_t>(channel)].own().announced.store(count, std::memory_order_release);
}

std::vector<int> HostExchanger::missingAt(int channelIndex, uint64_t number) const {
  const Channel& channel = channels_[static_cast<size_t>(channelIndex)];
  std::vector<int> missing;
  for (size_t i = 0; i < channel.sides.size(); ++i) {
    if (channel.sides[i]->announced.load(std::memory_order_acquire) <= number) missing.push_back(channel.members[i]);
  }
  std::sort(missing.begin(), missing.end());
  return missing;
}

Status HostExchanger::waitUntil(const std::vector<int>& peers, const Patience::Wait& wait, FunctionRef<bool()> ready,
                                Awaited whom) {
  if (ready()) return {};
  transport_->beginWait();
  Status status;
  if (!spin(ready)) {
    tellRest();
    patience_.begin();
    status = waitUntilReady(peers, wait, ready, areDistant(peers) ? Awaited::kDistant : whom);
    if (status.ok()) patience_.end();  // else others are to see what it has waited for
  }
  transport_->endWait();
  return status;
}

void HostExchanger::tellRest() {
  for (Channel& channel : channels_) {
    if (channel.isUntold.exchange(false, std::memory_order_acq_rel)) transport_->tell(channel.index);
  }
}

bool HostExchanger::spin(FunctionRef<bool()> ready) {
  if (spinNs_ == 0) {
    for (int i = 0; i < spins_; ++i) {
      if (ready()) return true;
      spinPause();
    }
    return false;
  }
  for (const int64_t end = monotonicNs() + spinNs_; monotonicNs() < end;) {
    transport_->poll();
    if (ready()) return true;
  }
  return false;
}

bool HostExchanger::areDistant(const std::vector<int>& ranks) const {
  return std::all_of(ranks.begin(), ranks.end(),
                     [this](int rank) { return rank == rank_ || !transport_->hostOf(rank).empty(); });
}

bool HostExchanger::spansHosts(const std::vector<int>& ranks) const {
  return std::any_of(ranks.begin(), ranks.end(), [this](int rank) { return !transport_->hostOf(rank).empty(); });
}

// Listening begins before looking, so that what is told between the look and the sleep ends the sleep at once.
Status HostExchanger::waitUntilReady(const std::vector<int>& peers, const Patience::Wait& wait,
                                     FunctionRef<bool()> ready, Awaited whom) {
  int64_t nextCheck = monotonicMs() + kSleepMs, lostMs = 0;
  for (;;) {
    const uint32_t heard = transport_->listen();
    const int64_t now = monotonicMs();
    const bool thoroughly = now >= nextCheck;
    if (thoroughly) nextCheck = now + kSleepMs;
    // Peers first: whatever a peer did before it ended is then seen by ready().
    Status lost;
    for (int peer : peers) {
      if (lost.ok()) lost = checkPeer(peer, wait.what, thoroughly);
    }
    if (!lost.ok() && spansHosts(peers)) {
      if (lostMs == 0) lostMs = now;
      if (now - lostMs < kOvertakenMs) lost = {};
    }
    const bool done = ready();
    if (!done && lost.ok() && thoroughly) {
      lost = patience_.look(wait);
      if (!lost.ok()) leaveWords(lost);
    }
    if (!done && lost.ok()) transport_->sleep(heard, kSleepMs, whom);
    transport_->stopListening();
    if (done) return {};
    if (!lost.ok()) return lost;
  }
}

// Of the thread of exchanges nothing is said: the caller, who will wait for it, notices what is missing.
Status HostExchanger::lookWhilePulling(int rank, FunctionRef<std::string()> what) {
  if (stopping_) return unavailableError("the rank ends");
  if (isExchangeThread()) return {};
  const auto attend = [&](Attendance& attendance) {
    attendance.arrived.push_back(rank_);
    attendance.missing.push_back(rank);
  };
  HYCRT_RETURN_IF_ERROR(checkPeer(rank, what, true));
  Status status = pullPatience_.look(Patience::Wait{what, attend});
  if (!status.ok()) leaveWords(status);
  return status;
}

void HostExchanger::addWait(int64_t nanoseconds, bool spansHosts) {
  waitedNs_ += nanoseconds;
  if (spansHosts) betweenHostsNs_ += nanoseconds;
}

ExchangeCounts HostExchanger::counts() const {
  return {waitedNs_, betweenHostsNs_, receivedBytes_.load(std::memory_order_relaxed),
          receivingNs_.load(std::memory_order_relaxed)};
}

Result<double> HostExchanger::rateFrom(int rank, int64_t bytes) {
  int arena = 0;
  constexpr int kMostArenas = 64;  // of programs
  while (arena < kMostArenas && !transport_->find(rank, arena, 0, bytes).exist) ++arena;
  if (arena == kMostArenas) return 0.0;
  if (!measured_.empty()) return internalError("a network is measured again after that was given up");
  measured_.resize(static_cast<size_t>(bytes));
  const auto what = [] { return std::string("a look at how fast the network is"); };
  const auto look = [&] { return lookWhilePulling(rank, what); };
  pullPatience_.begin();
  const int64_t begin = monotonicNs();
  HYCRT_RETURN_IF_ERROR(transport_->pull(rank, arena, 0, bytes, measured_.data(), look));
  const int64_t nanoseconds = std::max<int64_t>(monotonicNs() - begin, 1);
  std::vector<std::byte>().swap(measured_);
  return static_cast<double>(bytes) * 1e9 / static_cast<double>(nanoseconds);
}

// A barrier has no source, in whose place the number is published.
Result<const uint64_t*> HostExchanger::share(uint64_t own) {
  Publication publication{};
  publication.offset = static_cast<int64_t>(own);
  publication.kind = static_cast<uint8_t>(CollectiveKind::kBarrier);
  publication.name = static_cast<int32_t>(program_.collectives.size + program_.transfers.size);
  Result<Ticket> ticket =
      startOn(plans_.world, {-1, CollectiveKind::kBarrier, {}, {}, 0, DType::kU8, ReduceOp::kSum}, publication);
  if (!ticket.ok()) return ticket.status();
  HYCRT_RETURN_IF_ERROR(wait(*ticket));
  return static_cast<const uint64_t*>(shared_.data());
}

}  // namespace hycrt
