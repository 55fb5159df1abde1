// How ranks meet, and what strangers on the port, other programs and second copies of a rank come to.
#include "comm/shm/rendezvous.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "comm/agreement.h"
#include "comm/shm/doorkeeper.h"
#include "comm/shm/sockets.h"
#include "comm/tcp/addresses.h"
#include "forked_ranks.h"
#include "temporary_folder.h"

namespace hycrt {
namespace {

const std::string kToken = "0123456789abcdef0123456789abcdef";

int freePort() {
  FileDescriptor listener(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) return 0;
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

PeerHello helloOf(int rank, int worldSize, uint64_t planHash = 1, const std::string& program = "gpt2.stage0") {
  PeerHello hello;
  hello.rank = rank;
  hello.processId = 1000 + rank;
  hello.worldSize = worldSize;
  hello.planHash = planHash;
  hello.program = program;
  hello.blockBytes = 4096;
  hello.memfd.reset(memfd_create("test", MFD_CLOEXEC));
  return hello;
}

struct Meeting {
  std::string socketName = uniqueSocketName();
  int port = 0;
  std::string token = {};
  int64_t timeoutMs = 20000;

  // One participant as a thread of this process; the result's message ends up in `outcome`.
  std::thread join(int rank, PeerHello hello, Status* outcome, size_t* peers = nullptr) const {
    return std::thread([this, rank, hello = std::move(hello), outcome, peers] {
      Environment environment;
      environment.rank = rank;
      environment.worldSize = hello.worldSize;
      environment.socketName = port == 0 ? socketName : "";
      environment.port = port;
      environment.job = "job";
      environment.token = token;
      Result<std::vector<PeerHello>> result = rendezvous(environment, hello, timeoutMs);
      *outcome = result.status();
      if (result.ok() && peers) {
        *peers = 0;
        for (const PeerHello& peer : *result) *peers += peer.memfd.isOpen();
      }
    });
  }
};

std::string meetAll(const Meeting& meeting, std::vector<PeerHello> hellos, std::vector<Status>* outcomes) {
  outcomes->resize(hellos.size());
  std::vector<size_t> peers(hellos.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < hellos.size(); ++i) {
    const int rank = hellos[i].rank;
    threads.push_back(meeting.join(rank, std::move(hellos[i]), &(*outcomes)[i], &peers[i]));
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < hellos.size(); ++i) {
    if (!(*outcomes)[i].ok()) return (*outcomes)[i].message();
    if (peers[i] + 1 != hellos.size()) return "participant " + std::to_string(i) + " met " + std::to_string(peers[i]);
  }
  return "";
}

std::vector<PeerHello> hellosOf(int count) {
  std::vector<PeerHello> hellos;
  for (int rank = 0; rank < count; ++rank) hellos.push_back(helloOf(rank, count));
  return hellos;
}

TEST(Rendezvous, OverAUnixSocketHandsEveryoneEveryoneElsesMemory) {
  std::vector<Status> outcomes;
  EXPECT_EQ(meetAll({}, hellosOf(6), &outcomes), "");
}

TEST(Rendezvous, OverAUnixSocketWithATokenIsTheSame) {
  Meeting meeting;
  meeting.token = kToken;
  std::vector<Status> outcomes;
  EXPECT_EQ(meetAll(meeting, hellosOf(6), &outcomes), "");
}

TEST(Rendezvous, InAFolderLeavesNothingThere) {
  TemporaryFolder folder;
  Meeting meeting;
  meeting.socketName = folder / "ranks/29500";
  std::vector<Status> outcomes;
  EXPECT_EQ(meetAll(meeting, hellosOf(4), &outcomes), "");
  EXPECT_TRUE(std::filesystem::is_empty(folder / "ranks"));
  // What a job that was killed has left is in nobody's way.
  folder.write("ranks/29500", "");
  folder.write("ranks/29500.lock", "process 1");
  EXPECT_EQ(meetAll(meeting, hellosOf(4), &outcomes), "");
}

TEST(Rendezvous, OverMasterPortFindsTheUnixSocket) {
  Meeting meeting;
  meeting.port = freePort();
  meeting.token = kToken;
  std::vector<Status> outcomes;
  EXPECT_EQ(meetAll(meeting, hellosOf(4), &outcomes), "");
}

// Sends bytes to the port as soon as someone listens; the connection stays open until the stranger is destroyed.
class Stranger {
 public:
  Stranger(int port, const std::string& bytes) {
    for (int attempt = 0; attempt < 500; ++attempt) {
      connection_.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(static_cast<uint16_t>(port));
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      if (connect(connection_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) break;
      usleep(10000);
    }
    EXPECT_EQ(send(connection_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  void say(const std::string& bytes) {
    EXPECT_EQ(send(connection_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // What it is answered before the connection closes or ten seconds pass.
  std::string answer() {
    char bytes[256];
    timeval limit{10, 0};
    setsockopt(connection_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    const ssize_t count = recv(connection_.get(), bytes, sizeof bytes, 0);
    return count > 0 ? std::string(bytes, static_cast<size_t>(count)) : "";
  }

 private:
  FileDescriptor connection_;
};

// In a network of its own, in which calls get one of two ports, and nobody listens at either.
TEST(Rendezvous, OfARankThatWaitsIsNotWithItself) {
  constexpr int kPort = 40000;
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNET) != 0) _exit(77);
    const FileDescriptor any(socket(AF_INET, SOCK_DGRAM, 0));
    ifreq loopback{};
    std::strcpy(loopback.ifr_name, "lo");
    loopback.ifr_flags = IFF_UP;
    std::ofstream range("/proc/sys/net/ipv4/ip_local_port_range");
    if (ioctl(any.get(), SIOCSIFFLAGS, &loopback) != 0 || !(range << kPort << " " << kPort + 1 << std::flush))
      _exit(77);
    for (int i = 0; i < 20; ++i) {
      const Result<FileDescriptor> shm = connectLoopback(kPort);
      const Result<FileDescriptor> tcp = reach("127.0.0.1", kPort, monotonicMs());
      if (shm.ok() || tcp.ok()) _exit(1);
    }
    // Nor does anything of that hold the port.
    int taken = 0;
    if (!listenLoopback(kPort).ok()) _exit(2);
    _exit(listenOn("127.0.0.1", kPort, {}, &taken).ok() ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no network namespace can be made here";
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Rendezvous, DropsStrangersAndGoesOn) {
  Meeting meeting;
  meeting.port = freePort();
  meeting.token = kToken;
  Status hubStatus, rankStatus;
  size_t peers = 0;
  testing::internal::CaptureStderr();
  std::thread hub = meeting.join(0, helloOf(0, 2), &hubStatus, &peers);
  {
    Stranger http(meeting.port, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    Stranger tls(meeting.port, std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11));
    Stranger huge(meeting.port, std::string("HYCR\x00\x00\x00\x80", 8));
    Stranger wrong(meeting.port, encodeFrame("wrong!"));
    Claim claim;
    claim.rank = 1;
    claim.worldSize = 2;
    claim.job = sha256("job");
    CallerHandshake guess("fedcba9876543210fedcba9876543210", claim);
    Stranger guesser(meeting.port, encodeFrame(guess.opening()));
    std::string heard = guesser.answer(), claimOfHub;
    ASSERT_EQ(takeFrame(&heard, &claimOfHub), FrameState::kComplete);
    guesser.say(encodeFrame(*guess.prove(claimOfHub)));
    EXPECT_EQ(guesser.answer(), "");
    Stranger silent(meeting.port, "");
    Stranger half(meeting.port, "HY");
    EXPECT_EQ(http.answer(), "");
    EXPECT_EQ(tls.answer(), "");
    EXPECT_EQ(huge.answer(), "");
    EXPECT_EQ(wrong.answer(), "");
    // The silent ones are still connected when the rank comes, and do not hold it up.
    const auto begin = std::chrono::steady_clock::now();
    std::thread rank = meeting.join(1, helloOf(1, 2), &rankStatus);
    rank.join();
    hub.join();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  }
  const std::string warnings = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(hubStatus.ok()) << hubStatus.message();
  EXPECT_TRUE(rankStatus.ok()) << rankStatus.message();
  EXPECT_EQ(peers, 1u);
  EXPECT_NE(warnings.find("is no frame of this protocol"), std::string::npos) << warnings;
  EXPECT_NE(warnings.find("its token is not this job's"), std::string::npos) << warnings;
}

TEST(Rendezvous, DropsASlowStrangerAfterAWhile) {
  Meeting meeting;
  meeting.port = freePort();
  meeting.token = kToken;
  Status status;
  std::thread hub = meeting.join(0, helloOf(0, 2), &status);
  Stranger slow(meeting.port, "HYC");
  EXPECT_EQ(slow.answer(), "");  // closed by the other side, within the ten seconds that answer() waits
  Status rankStatus;
  meeting.join(1, helloOf(1, 2), &rankStatus).join();
  hub.join();
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Rendezvous, OfDifferentProgramsIsRefusedAndNamesBoth) {
  std::vector<PeerHello> hellos = hellosOf(2);
  hellos[1] = helloOf(1, 2, 2, "llama.stage0");
  std::vector<Status> outcomes;
  meetAll({}, std::move(hellos), &outcomes);
  for (const Status& status : outcomes) {
    EXPECT_EQ(status.code(), StatusCode::kData);
    EXPECT_NE(status.message().find("'llama.stage0', plan 0000000000000002"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("rank 0 (process 1000, program 'gpt2.stage0', plan 0000000000000001)"),
              std::string::npos)
        << status.message();
  }
}

TEST(Rendezvous, OfDuplicateRanksIsRefusedAndNamesBoth) {
  std::vector<PeerHello> hellos = hellosOf(3);
  hellos[2] = helloOf(1, 3);
  hellos[2].processId = 7777;
  std::vector<Status> outcomes;
  meetAll({}, std::move(hellos), &outcomes);
  for (const Status& status : outcomes) {
    EXPECT_EQ(status.code(), StatusCode::kData);
    EXPECT_NE(status.message().find("process 7777"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("process 1001"), std::string::npos) << status.message();
  }
}

TEST(Rendezvous, NamesTheRanksThatDidNotCome) {
  Meeting meeting;
  meeting.timeoutMs = 300;
  Status hub, rank;
  std::thread first = meeting.join(0, helloOf(0, 4), &hub);
  std::thread second = meeting.join(2, helloOf(2, 4), &rank);
  first.join();
  second.join();
  EXPECT_EQ(hub.code(), StatusCode::kUnavailable);
  EXPECT_NE(hub.message().find("did not come in time: 1, 3"), std::string::npos) << hub.message();
  EXPECT_NE(rank.message().find("did not come in time: 1, 3"), std::string::npos) << rank.message();
}

TEST(Rendezvous, WithoutRankZeroSaysWhereItWasExpected) {
  for (const bool byPort : {false, true}) {
    Meeting meeting;
    meeting.timeoutMs = 300;
    if (byPort) meeting.port = freePort();
    if (byPort) meeting.token = kToken;
    Status status;
    meeting.join(1, helloOf(1, 2), &status).join();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    const std::string where = byPort ? "127.0.0.1:" + std::to_string(meeting.port) : meeting.socketName;
    EXPECT_NE(status.message().find(where), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("has it begun with another rank 1, left from an earlier start?"), std::string::npos)
        << status.message();
  }
}

TEST(Rendezvous, OfRanksThatDisagreeNamesWhatDiffers) {
  std::vector<PeerHello> hellos = hellosOf(3);
  const Agreement common{{"--seed", "3"}, {"--steps", "10"}, {"/learning_rate/base of manifest.json", "0.5"}};
  Agreement other = common;
  other["--seed"] = "4";
  other["/learning_rate/base of manifest.json"] = "0.1";
  for (PeerHello& hello : hellos) hello.agreement = encodeAgreement(hello.rank == 2 ? other : common);
  std::vector<Status> outcomes;
  meetAll({}, std::move(hellos), &outcomes);
  EXPECT_EQ(outcomes[0].code(), StatusCode::kData);
  EXPECT_EQ(outcomes[2].code(), StatusCode::kData);
  EXPECT_NE(outcomes[0].message().find("rank 2 (process 1002"), std::string::npos) << outcomes[0].message();
  for (const char* part : {"--seed is 4 and 3", "/learning_rate/base of manifest.json is 0.1 and 0.5"}) {
    EXPECT_NE(outcomes[0].message().find(part), std::string::npos) << outcomes[0].message();
    EXPECT_NE(outcomes[2].message().find(part), std::string::npos) << outcomes[2].message();
  }
  EXPECT_EQ(outcomes[0].message().find("--steps"), std::string::npos);
}

// Rank 0 reads no data: then ranks 1 and 2 have to agree with each other.
TEST(Rendezvous, OfRanksThatDisagreeAboutWhatRankZeroDoesNotKnowIsRefusedToo) {
  std::vector<PeerHello> hellos = hellosOf(3);
  for (PeerHello& hello : hellos) {
    hello.agreement = encodeAgreement({{"data", hello.rank == 0 ? kNoSay : std::to_string(hello.rank)}});
  }
  std::vector<Status> outcomes;
  meetAll({}, std::move(hellos), &outcomes);
  EXPECT_EQ(outcomes[0].code(), StatusCode::kData) << outcomes[0].message();
  EXPECT_NE(outcomes[0].message().find("data is "), std::string::npos) << outcomes[0].message();
}

TEST(Rendezvous, WithATokenOfOneSideSaysSo) {
  for (const bool hubHas : {false, true}) {
    Meeting with, without;
    with.token = kToken;
    without.socketName = with.socketName;
    with.timeoutMs = without.timeoutMs = 2000;
    Status hub, rank;
    std::thread first = (hubHas ? with : without).join(0, helloOf(0, 2), &hub);
    std::thread second = (hubHas ? without : with).join(1, helloOf(1, 2), &rank);
    first.join();
    second.join();
    EXPECT_EQ(rank.code(), StatusCode::kUsage) << rank.message();
    EXPECT_NE(rank.message().find("give all ranks the same HYC_TOKEN"), std::string::npos) << rank.message();
  }
}

TEST(Frames, AreCheckedAsTheyArrive) {
  std::string payload, bytes;
  const std::string frame = encodeFrame("token");
  for (size_t length = 0; length < frame.size(); ++length) {
    bytes = frame.substr(0, length);
    EXPECT_EQ(takeFrame(&bytes, &payload), FrameState::kIncomplete) << length;
  }
  bytes = frame + "HY";
  EXPECT_EQ(takeFrame(&bytes, &payload), FrameState::kComplete);
  EXPECT_EQ(payload, "token");
  EXPECT_EQ(bytes, "HY");
  bytes = "G";
  EXPECT_EQ(takeFrame(&bytes, &payload), FrameState::kInvalid);
  bytes = std::string("HYCR\x00\x00\x00\x80", 8);
  EXPECT_EQ(takeFrame(&bytes, &payload), FrameState::kInvalid);
}

}  // namespace
}  // namespace hycrt
