// How ranks of several hosts meet and call one another, and what those come to who are none, or are ranks of another
// job, or begin as a rank would and go no further. The hosts are one, by its loopback.
#include "comm/tcp/meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <list>
#include <thread>

#include "base/clock.h"
#include "comm/shm/doorkeeper.h"
#include "comm/shm/sockets.h"
#include "comm/tcp/secure_stream.h"
#include "forked_ranks.h"
#include "test_mesh.h"

namespace hycrt {
namespace {

using testing::HasSubstr;

const std::string kToken = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
constexpr char kHub[] = "127.0.0.1";

int freePort() {
  int port = 0;
  EXPECT_TRUE(listenOn(kHub, 0, {}, &port).ok());
  return port;
}

// A job of some ranks, each a thread.
class Job {
 public:
  explicit Job(int ranks, int64_t timeoutMs = 20000) : ranks_(ranks), timeoutMs_(timeoutMs) {}
  ~Job() { wait(); }

  int port() const { return port_; }
  Environment environmentOf(int rank) const {
    Environment environment;
    environment.hosts = environment.worldSize = ranks_;
    environment.rank = rank;
    environment.masterAddress = kHub;
    environment.port = port_;
    environment.job = "job";
    environment.token = kToken;
    return environment;
  }
  HostHello helloOf(int rank) const {
    HostHello hello;
    hello.rank = rank;
    hello.processId = 1000 + rank;
    hello.worldSize = ranks_;
    hello.planHash = 1;
    hello.program = "stage0";
    hello.agreement = "--seed\t3\n";
    hello.host = "host" + std::to_string(rank);
    hello.machine = hello.host;
    return hello;
  }
  void start(HostHello hello) {
    outcomes_.emplace_back();
    threads_.emplace_back([this, hello, &outcome = outcomes_.back()] {
      outcome = meetOverTcp(environmentOf(hello.rank), {}, hello, timeoutMs_).status();
    });
  }
  void start(int rank) { start(helloOf(rank)); }
  // In the order in which they were started.
  const std::list<Status>& wait() {
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
    return outcomes_;
  }

 private:
  const int ranks_;
  const int64_t timeoutMs_;
  const int port_ = freePort();
  std::list<Status> outcomes_;
  std::list<std::thread> threads_;
};

void expectAllMeet(Job& job) {
  for (const Status& status : job.wait()) EXPECT_TRUE(status.ok()) << status.message();
}

// A connection to rank 0 once it listens.
FileDescriptor callHub(const Job& job) {
  Result<FileDescriptor> connection = reach(kHub, job.port(), monotonicMs() + 20000);
  EXPECT_TRUE(connection.ok()) << connection.status().message();
  return connection.ok() ? std::move(*connection) : FileDescriptor();
}

void say(const FileDescriptor& connection, const std::string& bytes) {
  EXPECT_EQ(send(connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

// The same as rank `rank` of the job: as far as both have proved to know the token.
FileDescriptor proveAs(const Job& job, int rank) {
  FileDescriptor connection = callHub(job);
  const Claim claim = claimFor(job.environmentOf(rank), "meeting", job.helloOf(rank).agreement);
  const Result<std::string> proved = proveOver(connection, kToken, claim, monotonicMs() + 20000);
  EXPECT_TRUE(proved.ok()) << proved.status().message();
  return connection;
}

TEST(AMeeting, NamesTheRanksThatDidNotCome) {
  Job job(4, 500);
  job.start(0);
  job.start(2);
  for (const Status& status : job.wait()) {
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(
        status.message(),
        HasSubstr("these ranks of 4 did not come in time to 127.0.0.1:" + std::to_string(job.port()) + ": 1, 3"));
  }
}

TEST(AMeeting, OfAnotherPlanIsRefusedAndNamesBothWithTheirHosts) {
  Job job(3);
  HostHello other = job.helloOf(2);
  other.planHash = 2;
  job.start(0);
  job.start(1);
  job.start(other);
  for (const Status& status : job.wait()) {
    EXPECT_EQ(status.code(), StatusCode::kData) << status.message();
    EXPECT_THAT(status.message(),
                HasSubstr("rank 2 (process 1002 on host 'host2', program 'stage0', plan 0000000000000002) and rank 0 "
                          "(process 1000 on host 'host0', program 'stage0', plan 0000000000000001) run programs of "
                          "different plans"));
  }
}

TEST(AMeeting, OfTwoRanksOfOneNumberIsRefusedAndNamesBothWithTheirHosts) {
  Job job(3);
  HostHello other = job.helloOf(1);
  other.processId = 7777;
  other.host = "elsewhere";
  job.start(0);
  job.start(1);
  job.start(other);
  for (const Status& status : job.wait()) {
    EXPECT_EQ(status.code(), StatusCode::kData) << status.message();
    EXPECT_THAT(status.message(), HasSubstr("process 7777 on host 'elsewhere'"));
    EXPECT_THAT(status.message(), HasSubstr("process 1001 on host 'host1'"));
  }
}

// Who knows the token and goes no further: the rank itself comes in beside it.
TEST(ATruncatedHandshake, DelaysNobody) {
  const std::string half("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  for (const std::string& beginning : {std::string(), half}) {
    for (const bool closes : {true, false}) {
      Job job(2);
      job.start(0);
      FileDescriptor unfinished = proveAs(job, 1);
      say(unfinished, beginning);
      if (closes) unfinished.reset(-1);
      const int64_t begin = monotonicMs();
      job.start(1);
      expectAllMeet(job);
      EXPECT_LT(monotonicMs() - begin, 4000) << "what is waited for is dropped after five seconds";
    }
  }
}

// By TLS with the right key, and then something else than a hello.
TEST(AGuest, ThatIsNotWhoItHasProvedToBeIsDropped) {
  Job job(2);
  job.start(0);
  SecureStream stream =
      SecureStream::encrypted(proveAs(job, 1), SecureStream::Side::kCaller, kToken, {"job", "meeting", 1, 0, 0});
  ASSERT_TRUE(stream.shakeHands(monotonicMs() + 20000).ok());
  const std::string bytes(1000, 'x');
  EXPECT_GT(stream.write(bytes.data(), static_cast<int64_t>(bytes.size())), 0);
  job.start(1);
  expectAllMeet(job);
}

// More of them than rank 0 has room for, and each says something from time to time, so that none is silent.
TEST(SlowCallers, DelayNobody) {
  Job job(2);
  job.start(0);
  std::list<FileDescriptor> callers;
  for (int i = 0; i < 400; ++i) callers.push_back(callHub(job));
  std::atomic<bool> isOver{false};
  std::thread slow([&] {
    const std::string frame = encodeFrame(std::string(kClaimBytes, 'x'));
    for (size_t at = 0; at < frame.size() && !isOver; ++at) {
      for (const FileDescriptor& caller : callers) (void)send(caller.get(), &frame[at], 1, MSG_NOSIGNAL | MSG_DONTWAIT);
      usleep(100000);
    }
  });
  usleep(300000);
  const int64_t begin = monotonicMs();
  job.start(1);
  expectAllMeet(job);
  EXPECT_LT(monotonicMs() - begin, 4000);
  isOver = true;
  slow.join();
}

// Says all that a rank with another token would; whether it was let in.
bool isLetIn(int port, const Environment& rank, int attempt) {
  Result<FileDescriptor> connection = reach(kHub, port, monotonicMs() + 300);
  if (!connection.ok()) return false;
  const Claim claim = claimFor(rank, "meeting", "--seed\t3\n");
  return proveOver(*connection, "a guess of 256 bits: number " + std::to_string(100000 + attempt), claim,
                   monotonicMs() + 20000)
      .ok();
}

// Ten thousand before the rank that has the token, and some beside it.
TEST(UnauthorisedJoins, NeverSucceedAndDelayNobody) {
  constexpr int kJoins = 10000;
  Job job(2, 120000);
  job.start(0);
  const Environment rank = job.environmentOf(1);
  std::atomic<int> letIn{0}, tried{0};
  std::atomic<bool> isOver{false};
  std::list<std::thread> strangers;
  for (int i = 0; i < 4; ++i) {
    strangers.emplace_back([&] {
      while (!isOver) {
        const int attempt = ++tried;
        if (attempt > kJoins && isOver) return;
        letIn += isLetIn(job.port(), rank, attempt);
      }
    });
  }
  while (tried < kJoins) usleep(1000);
  const int64_t begin = monotonicMs();
  job.start(1);
  expectAllMeet(job);
  const int64_t milliseconds = monotonicMs() - begin;
  isOver = true;
  for (std::thread& stranger : strangers) stranger.join();
  EXPECT_EQ(letIn, 0);
  RecordProperty("milliseconds_to_meet_beside_them", static_cast<int>(milliseconds));
  EXPECT_LT(milliseconds, 20000);
}

// ------------------------------------------------------------------------------------------ calls of those who have
// met

// Nothing but the mesh: ranks meet, and connect.
Program emptyProgram(int ranks) {
  Program program{};
  program.name = "empty";
  program.mesh = meshOf(1, 1, ranks);
  return program;
}

// A rank that does all of it, on a thread of its own: how that ended.
std::future<Status> connectAs(const Job& job, int rank, const Program& program) {
  return std::async(std::launch::async, [&job, rank, &program] {
    const Result<std::unique_ptr<HostSide>> side = HostSide::connect(program, job.environmentOf(rank), {});
    return side.ok() ? Status() : side.status();
  });
}

// One that is the test's from here on, on another host.
Result<Met> meetAs(const Job& job, int rank, const Program& program) {
  HostHello hello = job.helloOf(rank);
  hello.planHash = program.planHash;
  hello.program = program.name;
  hello.agreement.clear();
  return meetOverTcp(job.environmentOf(rank), {}, hello, 20000);
}

std::string purposeOfCallsTo(int rank, const Met& met) {
  return "exchanges " + met.name + " with rank " + std::to_string(rank);
}

// As rank `rank`, as far as both have proved to know the token.
FileDescriptor callRank0(const Job& job, int rank, const Met& met) {
  const int64_t deadline = monotonicMs() + 20000;
  Result<FileDescriptor> connection = reach(met.ranks[0].address.text, met.ranks[0].address.port, deadline);
  EXPECT_TRUE(connection.ok()) << connection.status().message();
  const Claim claim = claimFor(job.environmentOf(rank), purposeOfCallsTo(0, met), "");
  const Result<std::string> proved = proveOver(*connection, kToken, claim, deadline);
  EXPECT_TRUE(proved.ok()) << proved.status().message();
  return std::move(*connection);
}

SecureStream streamBetween(int caller, int listener, SecureStream::Side side, FileDescriptor connection,
                           const Met& met) {
  SecureStream stream = SecureStream::encrypted(std::move(connection), side, kToken,
                                                {"job " + met.name, "exchanges", caller, listener, 0});
  const Status shaken = stream.shakeHands(monotonicMs() + 20000);
  EXPECT_TRUE(shaken.ok()) << shaken.message();
  return stream;
}

// Whether the other end has said something by then. What came with the end of its handshake is in the stream already.
bool hasSpoken(SecureStream& stream, int64_t deadline) {
  for (char first = 0;;) {
    const int64_t count = stream.read(&first, 1);
    EXPECT_GE(count, 0) << stream.failure();
    if (count != 0) return count > 0;
    if (!pollUntil(stream.connection(), POLLIN, deadline)) return false;
  }
}

// Rank 2 has proved who it is and says nothing more: rank 1 gets through meanwhile.
TEST(ACall, ThatGoesNoFurtherDelaysNoOther) {
  Job job(3);
  const Program program = emptyProgram(3);
  std::future<Status> rank0 = connectAs(job, 0, program);
  std::future<Result<Met>> other = std::async(std::launch::async, [&] { return meetAs(job, 1, program); });
  const Result<Met> met = meetAs(job, 2, program), met1 = other.get();
  ASSERT_TRUE(met.ok() && met1.ok());
  FileDescriptor silent = callRank0(job, 2, *met);
  const int64_t begin = monotonicMs();
  SecureStream stream = streamBetween(1, 0, SecureStream::Side::kCaller, callRank0(job, 1, *met1), *met1);
  EXPECT_LT(monotonicMs() - begin, 4000);
  SecureStream last = streamBetween(2, 0, SecureStream::Side::kCaller, std::move(silent), *met);
  // By what rank 0 says then it has both.
  for (SecureStream* one : {&stream, &last}) EXPECT_TRUE(hasSpoken(*one, begin + 20000));
  for (const SecureStream* one : {&stream, &last}) shutdown(one->connection().get(), SHUT_RDWR);
  const Status ended = rank0.get();
  EXPECT_EQ(ended.code(), StatusCode::kPeerLost) << ended.message();
}

// As by a rank at whose door too many are at once.
TEST(ACall, ThatIsHungUpOnIsMadeAgain) {
  Job job(2);
  const Program program = emptyProgram(2);
  std::future<Status> rank1 = connectAs(job, 1, program);
  Result<Met> met = meetAs(job, 0, program);
  ASSERT_TRUE(met.ok()) << met.status().message();
  const int64_t deadline = monotonicMs() + 20000;
  ASSERT_TRUE(pollUntil(met->listener, POLLIN, deadline));
  acceptFrom(met->listener).reset(-1);
  Doorkeeper door(std::move(met->listener), kToken, claimFor(job.environmentOf(0), purposeOfCallsTo(0, *met), ""), "");
  door.keepAdmitted();
  std::vector<Doorkeeper::Admitted> admitted;
  while (admitted.empty() && monotonicMs() < deadline) {
    std::vector<pollfd> polled;
    door.addPolled(&polled);
    poll(polled.data(), polled.size(), 100);
    door.serve();
    admitted = door.takeAdmitted();
  }
  ASSERT_EQ(admitted.size(), 1u);
  {
    SecureStream stream = streamBetween(1, 0, SecureStream::Side::kListener, std::move(admitted[0].connection), *met);
    EXPECT_TRUE(hasSpoken(stream, deadline));
  }
  const Status ended = rank1.get();
  EXPECT_EQ(ended.code(), StatusCode::kPeerLost) << ended.message();
}

}  // namespace
}  // namespace hycrt
