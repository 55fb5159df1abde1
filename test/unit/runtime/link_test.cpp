// Link: frames over one connection and over several, which are pairs of sockets here with little room in them, so that
// every frame stops and goes on somewhere.
#include "comm/tcp/link.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "comm/shm/sockets.h"
#include "comm/tcp/addresses.h"

namespace {

using namespace hycrt;

constexpr int kRoom = 4096;  // the kernel takes some more

struct Ends {
  std::unique_ptr<Link> here, there;
  std::vector<int> theirs;  // descriptors
};

Ends makeEnds(size_t connections) {
  std::vector<SecureStream> here, there;
  for (size_t i = 0; i < connections; ++i) {
    int pair[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    for (int one : pair) {
      EXPECT_EQ(setsockopt(one, SOL_SOCKET, SO_SNDBUF, &kRoom, sizeof kRoom), 0);
    }
    here.push_back(SecureStream::inTheClear(FileDescriptor(pair[0])));
    there.push_back(SecureStream::inTheClear(FileDescriptor(pair[1])));
  }
  Ends ends{std::make_unique<Link>(1, std::move(here)), std::make_unique<Link>(0, std::move(there)), {}};
  ends.theirs = ends.there->descriptors();
  return ends;
}

// By TCP, whose receiver may ask to be woken by much alone.
Ends makeTcpEnds(size_t connections, bool isEncrypted) {
  int port = 0;
  Result<FileDescriptor> listener = listenOn("127.0.0.1", 0, NetworkOptions{}, &port);
  EXPECT_TRUE(listener.ok());
  std::vector<SecureStream> streams[2];
  for (size_t i = 0; i < connections; ++i) {
    Result<FileDescriptor> caller = reach("127.0.0.1", port, monotonicMs() + 5000);
    EXPECT_TRUE(caller.ok());
    FileDescriptor ends[] = {std::move(*caller), acceptFrom(*listener)};
    for (size_t side = 0; side < 2; ++side) {
      prepareConnection(ends[side], NetworkOptions{});
      const KeyPurpose purpose{"job", "test", 0, 1, static_cast<int>(i)};
      streams[side].push_back(
          isEncrypted ? SecureStream::encrypted(std::move(ends[side]),
                                                side == 0 ? SecureStream::Side::kCaller : SecureStream::Side::kListener,
                                                "0123456789abcdef0123456789abcdef", purpose)
                      : SecureStream::inTheClear(std::move(ends[side])));
    }
    std::thread other([&] { EXPECT_TRUE(streams[0].back().shakeHands(monotonicMs() + 5000).ok()); });
    EXPECT_TRUE(streams[1].back().shakeHands(monotonicMs() + 5000).ok());
    other.join();
  }
  return {std::make_unique<Link>(1, std::move(streams[0])), std::make_unique<Link>(0, std::move(streams[1])), {}};
}

// Writes down what comes, in order; what belongs to one message is put together.
class Taker : public FrameTaker {
 public:
  std::byte* placeFor(int, const FrameHead& head, bool*) override {
    if (head.type != FrameType::kBytes) return nullptr;
    piece_.resize(head.bytes);
    return reinterpret_cast<std::byte*>(piece_.data());
  }
  bool take(int, const FrameHead& head, std::string_view bytes) override {
    if (head.type == FrameType::kBytes) {
      if (taken.empty() || taken.back().first != head.tag) taken.emplace_back(head.tag, "");
      taken.back().second += piece_;
    } else {
      taken.emplace_back(head.tag, bytes);
    }
    return true;
  }
  std::vector<std::pair<uint32_t, std::string>> taken;  // tags and what was said

 private:
  std::string piece_;
};

std::string noise(std::mt19937_64& random, size_t bytes) {
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

class LinkOf : public testing::TestWithParam<size_t> {};

TEST_P(LinkOf, SeveralConnectionsKeepsTheOrderOfFrames) {
  std::mt19937_64 random(GetParam());
  Ends ends = makeEnds(GetParam());
  std::vector<std::string> said;
  for (int i = 0; i < 60; ++i) said.push_back(noise(random, random() % (i % 3 == 0 ? 700000 : 5000)));
  std::atomic<uint64_t> sent{0};
  uint64_t isLong = 0;
  Taker taker;
  // Long ones wait for their turn, and short ones overtake them: the order within each kind is what is kept.
  std::vector<std::string> shorts, longs;
  for (size_t i = 0; i < said.size(); ++i) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(said[i].data());
    if (said[i].size() > 5000) {
      ends.here->sendLong({FrameType::kBytes, static_cast<uint32_t>(i)}, bytes, static_cast<int64_t>(said[i].size()),
                          &sent);
      longs.push_back(said[i]);
      ++isLong;
    } else {
      ends.here->send({FrameType::kPull, static_cast<uint32_t>(i)}, said[i]);
      shorts.push_back(said[i]);
    }
    if (random() % 2) ends.there->receive(taker);
    if (random() % 2) ends.here->flush();
  }
  for (int i = 0; i < 1000000 && !ends.here->hasSentAll(); ++i) {
    ends.here->flush();
    ends.there->receive(taker);
  }
  ends.there->receive(taker);
  EXPECT_TRUE(ends.here->hasSentAll());
  EXPECT_EQ(sent.load(), isLong) << "messages that have gone";
  std::vector<std::string> shortsTaken, longsTaken;
  std::map<uint32_t, size_t> placeOf;
  for (const auto& [tag, text] : taker.taken) {
    if (said[tag].size() <= 5000) {
      shortsTaken.push_back(text);
    } else if (placeOf.emplace(tag, longsTaken.size()).second) {
      longsTaken.push_back(text);
    } else {
      longsTaken[placeOf[tag]] += text;  // a short one went in between
    }
  }
  EXPECT_TRUE(shortsTaken == shorts);
  EXPECT_TRUE(longsTaken == longs);
}

TEST_P(LinkOf, SeveralConnectionsEndsInOrder) {
  Ends ends = makeEnds(GetParam());
  ends.there->send({FrameType::kLeave, 7}, "good-bye");
  ends.there->endAfterwards();
  Taker taker;
  ends.here->expectEnd();
  for (const int64_t begin = monotonicMs(); !ends.here->isOver() && monotonicMs() - begin < 5000;) {
    ends.here->receive(taker);
  }
  EXPECT_TRUE(ends.here->isOver());
  EXPECT_EQ(ends.here->failure(), "");
  ASSERT_EQ(taker.taken.size(), 1u);
  EXPECT_EQ(taker.taken[0].second, "good-bye");
}

// Each has heard of the other's end before it ends itself: else ranks that leave at once wait for one another in a
// ring.
TEST_P(LinkOf, SeveralConnectionsEndsWhenItIsOver) {
  Ends ends = makeEnds(GetParam());
  const auto awaitEnd = [](Link& link) {
    Taker taker;
    link.expectEnd();
    for (const int64_t begin = monotonicMs(); !link.isOver() && monotonicMs() - begin < 5000;) link.receive(taker);
    return link.isOver();
  };
  ends.there->endAfterwards();
  ASSERT_TRUE(awaitEnd(*ends.here));
  ends.here->send({FrameType::kLeave, 7}, "good-bye");
  ends.here->endAfterwards();
  EXPECT_TRUE(awaitEnd(*ends.there));
  EXPECT_EQ(ends.there->failure(), "");
}

// One connection alone ends, whichever of them it is: nothing that was sent before is lost, and then the link is over.
TEST_P(LinkOf, SeveralConnectionsIsOverWhenOneIs) {
  for (size_t cut = 0; cut < GetParam(); ++cut) {
    Ends ends = makeEnds(GetParam());
    ends.there->send({FrameType::kSigns, 3}, "alive");
    ASSERT_EQ(shutdown(ends.theirs[cut], SHUT_RDWR), 0);
    Taker taker;
    ends.here->expectEnd();
    const int64_t begin = monotonicMs();
    while (!ends.here->isOver() && monotonicMs() - begin < 5000) ends.here->receive(taker);
    EXPECT_TRUE(ends.here->isOver()) << "connection " << cut;
    EXPECT_LT(monotonicMs() - begin, 2000);
    ASSERT_EQ(taker.taken.size(), 1u) << "connection " << cut;
    EXPECT_EQ(taker.taken[0].second, "alive");
  }
}

// Who is woken by much alone while a piece comes is woken by little again behind it. A turn begins
// when the one before has come, so that nothing else wakes the receiver.
void sendAndBeWoken(Ends ends) {
  const FileDescriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  for (int descriptor : ends.there->descriptors()) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP | EPOLLET;
    ASSERT_EQ(epoll_ctl(epoll.get(), EPOLL_CTL_ADD, descriptor, &event), 0);
  }
  std::mt19937_64 random(5);
  const std::string text = noise(random, 3000000);
  for (uint32_t turn = 0; turn < 40; ++turn) {
    const size_t bytes = 5000 + random() % (text.size() - 5000);
    ends.here->sendLong({FrameType::kBytes, 2 * turn}, reinterpret_cast<const std::byte*>(text.data()),
                        static_cast<int64_t>(bytes));
    std::thread sender([&] {
      while (!ends.here->hasSentAll()) ends.here->flush();
      ends.here->send({FrameType::kSigns, 2 * turn + 1}, "x");
      while (!ends.here->hasSentAll()) ends.here->flush();
    });
    Taker taker;
    epoll_event event{};
    bool isWoken = true;
    while (isWoken && (taker.taken.empty() || taker.taken.back().first != 2 * turn + 1)) {
      isWoken = epoll_wait(epoll.get(), &event, 1, 3000) == 1;
      while (isWoken && ends.there->receive(taker)) continue;
    }
    EXPECT_TRUE(isWoken) << "turn " << turn << ": " << taker.taken.size() << " messages have come";
    while (!isWoken && !ends.here->hasSentAll()) ends.there->receive(taker);
    sender.join();
    if (!isWoken) return;
    EXPECT_TRUE(taker.taken[0].second == text.substr(0, bytes)) << "turn " << turn;
  }
}

TEST_P(LinkOf, SeveralConnectionsIsWokenByAllThatComes) { sendAndBeWoken(makeTcpEnds(GetParam(), false)); }

TEST_P(LinkOf, SeveralConnectionsIsWokenByAllThatComesEncrypted) {
  if (!canEncrypt()) GTEST_SKIP() << "this runtime was built without OpenSSL";
  sendAndBeWoken(makeTcpEnds(GetParam(), true));
}

INSTANTIATE_TEST_SUITE_P(Connections, LinkOf, testing::Values(1, 2, 3, 7));

}  // namespace
