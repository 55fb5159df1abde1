// What peers say, and what they are told.
#include "comm/tcp/peers.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/futex.h"
#include "base/progress.h"
#include "comm/tcp/wire.h"

namespace hycrt {
namespace {

constexpr uint32_t kLayout = static_cast<uint32_t>(sizeof(Publication) << 8) + kRingSize;
constexpr uint32_t kVersion = 3;
constexpr int kLookMs = 100;

struct Question {
  int32_t arena;
  int64_t offset, bytes;
};

struct SideHead {
  uint64_t key, published, finished, reduced, announced;
  uint32_t count;  // of publications that follow, each with what it carries; the last one is published - 1
};

template <typename T>
std::string_view viewOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

template <typename T>
bool read(std::string_view bytes, T* value) {
  if (bytes.size() != sizeof *value) return false;
  std::memcpy(value, bytes.data(), sizeof *value);
  return true;
}

}  // namespace

Peers::Peers(const TransportSetup& setup, const std::vector<HostHello>& hellos, Transport& local)
    : program_(setup.program),
      wantsUcx_(setup.network.byUcx),
      plans_(setup.plans),
      catalog_(setup.catalog),
      self_(setup.environment.rank),
      local_(local),
      peers_(hellos.size()) {
  for (size_t i = 0; i < setup.plans.channels.size(); ++i) {
    channels_[setup.plans.channels[i].key] = static_cast<int>(i);
    told_.emplace_back();
  }
  distant_.resize(setup.plans.channels.size());
  for (size_t rank = 0; rank < hellos.size(); ++rank) {
    if (hellos[rank].host.empty()) continue;
    peers_[rank] = std::make_unique<Peer>();
    peers_[rank]->rank = static_cast<int>(rank);
    peers_[rank]->host = hellos[rank].host;
    peers_[rank]->program = hellos[rank].program;
    peers_[rank]->sides.resize(setup.plans.channels.size());
    peers_[rank]->carried.resize(setup.plans.channels.size());
    peers_[rank]->theirs.resize(setup.plans.channels.size(), -1);
    peers_[rank]->signs.beatMs = monotonicMs();
    for (size_t i = 0; i < setup.plans.channels.size(); ++i) {
      const std::vector<int>& members = setup.plans.channels[i].members;
      if (std::find(members.begin(), members.end(), static_cast<int>(rank)) != members.end()) {
        distant_[i].push_back(static_cast<int>(rank));
      }
    }
  }
}

std::string Peers::introduction() const {
  WireWriter writer;
  writer.number(kVersion);
  writer.number(kLayout);
  writer.number(static_cast<uint32_t>(program_.arenas.size));
  for (const ArenaDesc& arena : program_.arenas) {
    writer.number(arena.sharing == Sharing::kShared ? arena.bytes : int64_t{-1});
  }
  const std::vector<const char*> names = publicationNames(program_);
  writer.number(static_cast<uint32_t>(names.size()));
  for (const char* name : names) writer.text(name);
  writer.number(static_cast<uint32_t>(plans_.channels.size()));
  for (size_t i = 0; i < plans_.channels.size(); ++i) {
    const std::vector<int>& members = plans_.channels[i].members;
    const size_t self = static_cast<size_t>(std::find(members.begin(), members.end(), self_) - members.begin());
    const ChannelSide* const side = local_.side(static_cast<int>(i), static_cast<int>(self));
    writer.number(plans_.channels[i].key);
    writer.text({reinterpret_cast<const char*>(side->greeting), kGreetingBytes});
  }
  writer.text(catalog_);
  writer.text(fabric_ ? fabric_->address() : "");
  return writer.take();
}

bool Peers::takeIntroduction(Peer& peer, int rank, std::string_view bytes) {
  WireReader reader(bytes);
  if (reader.number<uint32_t>() != kVersion || reader.number<uint32_t>() != kLayout) return false;
  const uint32_t arenas = reader.number<uint32_t>();
  if (!reader.holds(arenas, sizeof(int64_t))) return false;
  for (uint32_t i = 0; i < arenas; ++i) peer.arenas.push_back(reader.number<int64_t>());
  const uint32_t names = reader.number<uint32_t>();
  if (!reader.holds(names, sizeof(uint64_t))) return false;
  for (uint32_t i = 0; i < names; ++i) peer.names.push_back(reader.text());
  const uint32_t channels = reader.number<uint32_t>();
  if (!reader.holds(channels, 2 * sizeof(uint64_t))) return false;
  for (uint32_t i = 0; i < channels; ++i) {
    const auto known = channels_.find(reader.number<uint64_t>());
    const std::string greeting = reader.text();
    if (known == channels_.end()) continue;
    const std::vector<int>& distant = distant_[static_cast<size_t>(known->second)];
    if (greeting.size() != kGreetingBytes || std::find(distant.begin(), distant.end(), rank) == distant.end()) {
      return false;
    }
    std::unique_ptr<ChannelSide> side(new ChannelSide());
    side->key = known->first;
    std::memcpy(side->greeting, greeting.data(), kGreetingBytes);
    peer.sides[static_cast<size_t>(known->second)] = std::move(side);
    peer.carried[static_cast<size_t>(known->second)] = std::make_unique<Carried>();
    peer.theirs[static_cast<size_t>(known->second)] = static_cast<int32_t>(i);
  }
  peer.catalog = reader.text();
  peer.fabricAddress = reader.text();
  if (!reader.isWhole() || reader.left() != 0) return false;
  peer.isIntroduced.store(true, std::memory_order_release);
  return true;
}

void Peers::send(Peer& peer, const FrameHead& head, std::string_view bytes) {
  usesFabric_.load(std::memory_order_acquire) ? fabric_->send(peer.rank, head, bytes) : peer.link->send(head, bytes);
}

void Peers::sendLong(Peer& peer, const FrameHead& head, const std::byte* bytes, int64_t count,
                     std::atomic<uint64_t>* sent) {
  usesFabric_.load(std::memory_order_acquire) ? fabric_->sendLong(peer.rank, head, bytes, count, sent)
                                              : peer.link->sendLong(head, bytes, count, sent);
}

// What was published since the last time is described, too.
void Peers::describeSide(int channel, uint64_t published, Told& told) const {
  const ChannelPlan& plan = plans_.channels[static_cast<size_t>(channel)];
  const size_t self =
      static_cast<size_t>(std::find(plan.members.begin(), plan.members.end(), self_) - plan.members.begin());
  const ChannelSide& side = *local_.side(channel, static_cast<int>(self));
  SideHead head{plan.key, published, 0, 0, 0, 0};
  head.finished = side.finished.load(std::memory_order_acquire);
  head.reduced = side.reduced.load(std::memory_order_acquire);
  head.announced = side.announced.load(std::memory_order_acquire);
  head.count = static_cast<uint32_t>(head.published - told.published);
  told.frame.assign(viewOf(head));
  for (; told.published < head.published; ++told.published) {
    Publication publication = side.ring[told.published % kRingSize];
    const Transport::Bytes found = local_.find(self_, publication.arena, publication.offset, publication.carried);
    if (!found.address) publication.carried = 0;
    told.frame.append(viewOf(publication));
    told.frame.append(reinterpret_cast<const char*>(found.address), static_cast<size_t>(publication.carried));
  }
}

// Two threads of the rank may tell of one channel.
void Peers::tell(int channel) {
  const std::vector<int>& distant = distant_[static_cast<size_t>(channel)];
  if (distant.empty()) return;
  Told& told = told_[static_cast<size_t>(channel)];
  const std::lock_guard<std::mutex> lock(told.mutex);
  describeSide(channel, told.published, told);
  for (int rank : distant) send(of(rank), {FrameType::kSide}, told.frame);
}

void Peers::publish(int channel, FunctionRef<void()> showBeside) {
  Told& told = told_[static_cast<size_t>(channel)];
  const std::lock_guard<std::mutex> lock(told.mutex);
  const std::vector<int>& distant = distant_[static_cast<size_t>(channel)];
  if (!distant.empty()) describeSide(channel, told.published + 1, told);
  for (int rank : distant) send(of(rank), {FrameType::kSide}, told.frame);
  showBeside();
}

bool Peers::takeSide(Peer& peer, std::string_view bytes) {
  SideHead head;
  if (bytes.size() < sizeof head || !read(bytes.substr(0, sizeof head), &head)) return false;
  bytes.remove_prefix(sizeof head);
  const auto known = channels_.find(head.key);
  if (known == channels_.end()) return false;
  const size_t channel = static_cast<size_t>(known->second);
  ChannelSide* const side = peer.sides[channel].get();
  if (!side || head.count > kRingSize) return false;
  if (side->published.load(std::memory_order_relaxed) + head.count != head.published) return false;
  for (uint64_t item = head.published - head.count; item < head.published; ++item) {
    Publication publication;
    if (bytes.size() < sizeof publication || !read(bytes.substr(0, sizeof publication), &publication)) return false;
    bytes.remove_prefix(sizeof publication);
    if (publication.carried < 0 || static_cast<size_t>(publication.carried) > bytes.size()) return false;
    side->ring[item % kRingSize] = publication;
    std::vector<std::byte>& carried = (*peer.carried[channel])[item % kRingSize];
    const std::byte* const begin = reinterpret_cast<const std::byte*>(bytes.data());
    carried.assign(begin, begin + publication.carried);
    bytes.remove_prefix(static_cast<size_t>(publication.carried));
  }
  if (!bytes.empty()) return false;
  side->published.store(head.published, std::memory_order_release);
  side->announced.store(head.announced, std::memory_order_release);
  side->reduced.store(head.reduced, std::memory_order_release);
  side->finished.store(head.finished, std::memory_order_release);
  return true;
}

const std::byte* Peers::carriedBy(int channel, int rank, uint64_t item) const {
  const std::vector<std::byte>& bytes = (*of(rank).carried[static_cast<size_t>(channel)])[item % kRingSize];
  return bytes.empty() ? nullptr : bytes.data();
}

void Peers::push(int rank, const Push& push, const std::byte* from, int64_t bytes, std::atomic<uint64_t>* sent) {
  Peer& peer = of(rank);
  FrameHead head{FrameType::kPush, static_cast<uint32_t>(peer.theirs[static_cast<size_t>(push.channel)])};
  head.number = push.number;
  head.begin = push.begin;
  head.part = push.part;
  head.stream = push.stream;
  if (sent) {
    sendLong(peer, head, from, bytes, sent);
  } else {
    send(peer, head, {reinterpret_cast<const char*>(from), static_cast<size_t>(bytes)});
  }
}

int64_t Peers::bufferBytes() const {
  int64_t bytes = fabric_ ? fabric_->bufferBytes() : 0;
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (!peer) continue;
    bytes += static_cast<int64_t>(sizeof *peer) + (peer->link ? peer->link->bufferBytes() : 0);
    for (const std::unique_ptr<ChannelSide>& side : peer->sides) bytes += side ? sizeof *side + sizeof(Carried) : 0;
    for (const std::unique_ptr<Carried>& carried : peer->carried) {
      if (!carried) continue;
      for (const std::vector<std::byte>& one : *carried) bytes += static_cast<int64_t>(one.capacity());
    }
  }
  return bytes;
}

bool Peers::isShared(int rank, int arena, int64_t offset, int64_t bytes) const {
  if (bytes == 0) return true;  // whatever the arena
  const std::vector<int64_t>& arenas = of(rank).arenas;
  if (arena < 0 || static_cast<size_t>(arena) >= arenas.size()) return false;
  const int64_t size = arenas[static_cast<size_t>(arena)];
  return size >= 0 && bytes >= 0 && bytes <= size && offset >= 0 && offset <= size - bytes;
}

bool Peers::answer(Peer& peer, const FrameHead& head, std::string_view bytes) {
  Question question;
  if (!read(bytes, &question)) return false;
  const Transport::Bytes found = local_.find(self_, question.arena, question.offset, question.bytes);
  if (!found.address || question.bytes <= 0) return false;
  sendLong(peer, {FrameType::kBytes, head.tag}, found.address, question.bytes, nullptr);
  return true;
}

Peers::Pull* Peers::claimPull(std::byte* to, int64_t bytes) {
  const std::lock_guard<std::mutex> lock(pullMutex_);
  for (Pull& pull : pulls_) {
    if (pull.isUsed) continue;
    pull.isUsed = true;
    pull.tag = nextTag_++;
    pull.to = to;
    pull.left = bytes;
    pull.isDone.store(0, std::memory_order_relaxed);
    return &pull;
  }
  return nullptr;
}

Peers::Pull* Peers::pullOf(uint32_t tag) {
  for (Pull& pull : pulls_) {
    if (pull.isUsed && pull.tag == tag) return &pull;
  }
  return nullptr;
}

Status Peers::pull(int rank, int arena, int64_t offset, int64_t bytes, std::byte* to, FunctionRef<Status()> look) {
  Pull* const pull = claimPull(to, bytes);
  if (!pull) return internalError("more threads pull bytes than a rank has");
  const Question question{arena, offset, bytes};
  beginWait();
  send(of(rank), {FrameType::kPull, pull->tag}, viewOf(question));
  Status status = awaitPull(rank, *pull, look);
  endWait();
  const std::lock_guard<std::mutex> lock(pullMutex_);
  pull->isUsed = false;
  return status;
}

Status Peers::awaitPull(int rank, Pull& pull, FunctionRef<Status()> look) {
  int64_t nextLookMs = monotonicMs() + kLookMs;
  for (;;) {
    const auto isDone = [&] { return pull.isDone.load(std::memory_order_acquire) != 0; };
    poll();
    if (isDone()) return {};
    if (!sleep(kLookMs, isDone)) {
      pauseWait();
      futexWait(&pull.isDone, 0, kLookMs);
      beginWait();
    }
    if (isDone()) return {};
    if (monotonicMs() < nextLookMs) continue;
    nextLookMs = monotonicMs() + kLookMs;
    HYCRT_RETURN_IF_ERROR(look());
    if (const char* const how = lossOf(rank)) {
      return {StatusCode::kPeerLost, "rank " + std::to_string(rank) + " on host '" + hostOf(rank) + "' " + how};
    }
  }
}

void Peers::takeBytes(const FrameHead& head) {
  const std::lock_guard<std::mutex> lock(pullMutex_);
  Pull* const pull = pullOf(head.tag);
  if (!pull) return;  // nobody waits for it any more
  pull->to += head.bytes;
  pull->left -= static_cast<int64_t>(head.bytes);
  noteProgress();
  if (pull->left > 0) return;
  pull->isDone.store(1, std::memory_order_release);
  futexWakeAll(&pull->isDone);
}

static Push pushOf(const FrameHead& head) {
  return {static_cast<int32_t>(head.tag), head.stream, head.number, head.part, head.begin};
}

std::byte* Peers::placeFor(int rank, const FrameHead& head, bool* refuses) {
  if (head.type == FrameType::kPush) {
    PushTaker* const taker = taker_.load(std::memory_order_acquire);
    const bool fits = taker && head.bytes <= static_cast<uint64_t>(kMostPushedBytes);
    std::byte* const place = fits ? taker->placeFor(rank, pushOf(head), static_cast<int64_t>(head.bytes)) : nullptr;
    *refuses = !place;
    return place;
  }
  if (head.type != FrameType::kBytes) return nullptr;
  const std::lock_guard<std::mutex> lock(pullMutex_);
  const Pull* const pull = pullOf(head.tag);
  if (!pull) return nullptr;
  *refuses = head.bytes == 0 || head.bytes > static_cast<uint64_t>(pull->left);
  return pull->to;
}

// Bytes of a message, though it is not whole: both sides move. Signs of life are none, since who waits gives them, too.
void Peers::hear(int rank, const FrameHead& head) {
  RankSigns& signs = of(rank).signs;
  signs.beatMs.store(monotonicMs(), std::memory_order_release);
  if (head.type != FrameType::kBytes && head.type != FrameType::kPush) return;
  signs.heard.fetch_add(1, std::memory_order_relaxed);
  noteProgress();
}

bool Peers::take(int rank, const FrameHead& head, std::string_view bytes) {
  Peer& peer = of(rank);
  // Who waits for bytes is woken apart.
  hasNews_ = hasNews_ || (head.type != FrameType::kPull && head.type != FrameType::kBytes);
  if (head.type == FrameType::kIntroduction) {
    return !peer.isIntroduced.load(std::memory_order_relaxed) && takeIntroduction(peer, rank, bytes);
  }
  if (!peer.isIntroduced.load(std::memory_order_relaxed)) return false;
  hear(rank, head);
  switch (head.type) {
    case FrameType::kSide:
      return takeSide(peer, bytes);
    case FrameType::kPull:
      return answer(peer, head, bytes);
    case FrameType::kBytes:
      takeBytes(head);
      return true;
    case FrameType::kPush: {
      PushTaker* const taker = taker_.load(std::memory_order_acquire);
      noteProgress();
      return taker && taker->take(rank, pushOf(head), static_cast<int64_t>(head.bytes));
    }
    case FrameType::kSigns: {
      WireReader reader(bytes);
      peer.signs.moved.store(reader.number<uint64_t>(), std::memory_order_relaxed);
      peer.signs.waitsFor.store(reader.number<int32_t>(), std::memory_order_release);
      const std::lock_guard<std::mutex> lock(lookMutex_);
      peer.look.processId = reader.number<int32_t>();
      peer.look.state = reader.number<char>();
      peer.look.switches = reader.number<int64_t>();
      return reader.isWhole();
    }
    case FrameType::kLeave:
      std::memcpy(peer.signs.lastWords, bytes.data(), std::min<size_t>(bytes.size(), kLastWordsBytes - 1));
      peer.state.store(static_cast<RankState>(head.tag), std::memory_order_release);
      return true;
    case FrameType::kIntroduction:
      break;
  }
  return false;
}

const char* Peers::lossOf(int rank) const {
  const Peer& peer = of(rank);
  const RankState state = peer.state.load(std::memory_order_acquire);
  if (state == RankState::kFailed) return "failed";
  if (state == RankState::kFinished) return "has ended its run";
  return peer.loss.load(std::memory_order_acquire);
}

ProcessLook Peers::look(int rank) const {
  const std::lock_guard<std::mutex> lock(lookMutex_);
  return of(rank).look;
}

const char* Peers::nameOf(int rank, int index) const {
  const std::vector<std::string>& names = of(rank).names;
  return index >= 0 && static_cast<size_t>(index) < names.size() ? names[static_cast<size_t>(index)].c_str() : "?";
}

}  // namespace hycrt
