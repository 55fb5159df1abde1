// What processes that are not of the job can do to it, from either side: nothing of its token or its memory reaches
// them, none of them becomes a rank, and the job goes on. Those of another user take root's rights to start.
#include <arpa/inet.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "comm/shm/doorkeeper.h"
#include "comm/shm/handshake.h"
#include "comm/shm/rendezvous.h"
#include "forked_ranks.h"
#include "temporary_folder.h"

namespace hycrt {
namespace {

const std::string kToken = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
constexpr uid_t kNobody = 65534;

#define SKIP_UNLESS_ROOT() \
  if (geteuid() != 0) GTEST_SKIP() << "only root can start a process of another user"

// Runs the attack in a process of user nobody. Gives back what it says it came to.
class Attack {
 public:
  explicit Attack(const std::function<std::string()>& attack) {
    int ends[2];
    if (pipe(ends) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      const bool isNobody = setgroups(0, nullptr) == 0 && setgid(kNobody) == 0 && setuid(kNobody) == 0;
      const std::string outcome = isNobody ? attack() : "cannot become another user";
      const ssize_t written = write(ends[1], outcome.data(), outcome.size());
      _exit(written < 0);
    }
    close(ends[1]);
    pipe_.reset(ends[0]);
  }
  ~Attack() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  std::string outcome() {
    std::string text;
    char chunk[4096];
    for (ssize_t count; (count = read(pipe_.get(), chunk, sizeof chunk)) > 0;) {
      text.append(chunk, static_cast<size_t>(count));
    }
    return text;
  }

 private:
  pid_t pid_ = -1;
  FileDescriptor pipe_;
};

PeerHello helloOf(int rank, int worldSize) {
  PeerHello hello;
  hello.rank = rank;
  hello.processId = getpid();
  hello.worldSize = worldSize;
  hello.program = "stage0";
  hello.agreement = "--seed\t3\n";
  hello.blockBytes = 4096;
  hello.memfd.reset(memfd_create("test", MFD_CLOEXEC));
  return hello;
}

Environment environmentOf(int rank, const std::string& socketName, int port, const std::string& token) {
  Environment environment;
  environment.rank = rank;
  environment.worldSize = 2;
  environment.socketName = socketName;
  environment.port = port;
  environment.job = "job";
  environment.token = token;
  return environment;
}

Status meet(int rank, const std::string& socketName, int port, const std::string& token, int64_t timeoutMs) {
  return rendezvous(environmentOf(rank, socketName, port, token), helloOf(rank, 2), timeoutMs).status();
}

// A listener on the loopback, and its port.
FileDescriptor listenSomewhere(int* port) {
  FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length);
  EXPECT_EQ(listen(listener.get(), 8), 0);
  *port = ntohs(address.sin_port);
  return listener;
}

int freePort() {
  int port = 0;
  listenSomewhere(&port);
  return port;
}

void patience(int fd, int seconds) {
  const timeval limit{seconds, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

// Next frame of a stream; empty where there is none.
std::string nextFrame(int fd, std::string* pending) {
  std::string payload;
  for (;;) {
    const FrameState state = takeFrame(pending, &payload);
    if (state != FrameState::kIncomplete) return state == FrameState::kComplete ? payload : "";
    char chunk[1024];
    const ssize_t count = recv(fd, chunk, sizeof chunk, 0);
    if (count <= 0) return "";
    pending->append(chunk, static_cast<size_t>(count));
  }
}

// Whoever is gone does not hear it.
void sayFrame(int fd, const std::string& payload) {
  const std::string frame = encodeFrame(payload);
  const ssize_t sent = send(fd, frame.data(), frame.size(), MSG_NOSIGNAL);
  (void)sent;
}

// Everything that one caller says to whoever took MASTER_PORT first and plays rank 0 as well as it can.
std::string playHub(const FileDescriptor& listener, bool reflects) {
  FileDescriptor caller(accept(listener.get(), nullptr, nullptr));
  patience(caller.get(), 5);
  std::string pending;
  const std::string opening = nextFrame(caller.get(), &pending);
  Claim claim;
  claim.worldSize = 2;
  claim.job = sha256("job");
  HubHandshake guess("a token that is only a guess, 256 bits", claim);
  const Result<std::string> ownClaim = guess.challenge(opening);
  sayFrame(caller.get(), reflects ? opening : ownClaim.ok() ? *ownClaim : opening);
  const std::string proof = nextFrame(caller.get(), &pending);
  sayFrame(caller.get(), reflects ? proof + "hyc-elsewhere" : std::string(32, 'x') + "hyc-elsewhere");
  std::string more = pending;
  char chunk[1024];
  for (ssize_t count; (count = recv(caller.get(), chunk, sizeof chunk, 0)) > 0;) {
    more.append(chunk, static_cast<size_t>(count));
  }
  return opening + proof + more;
}

TEST(WhoeverTakesMasterPortFirst, LearnsNothingAndIsNotBelieved) {
  for (const bool reflects : {false, true}) {
    int port = 0;
    const FileDescriptor listener = listenSomewhere(&port);
    std::string heard;
    std::thread impostor([&] { heard = playHub(listener, reflects); });
    const Status status = meet(1, "", port, kToken, 500);
    impostor.join();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_NE(status.message().find("does not"), std::string::npos) << status.message();
    EXPECT_EQ(status.message().find(kToken), std::string::npos);
    EXPECT_EQ(heard.size(), kClaimBytes + sizeof(Digest)) << "more was said than the two first frames";
    EXPECT_EQ(heard.find(kToken.substr(0, 16)), std::string::npos);
  }
}

TEST(WhoeverTakesMasterPortFirst, IsNotBelievedAsAnotherUserEither) {
  SKIP_UNLESS_ROOT();
  int port = 0;
  const FileDescriptor listener = listenSomewhere(&port);
  Attack attack([&] { return playHub(listener, false); });
  const Status status = meet(1, "", port, kToken, 500);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.message();
  const std::string heard = attack.outcome();
  EXPECT_EQ(heard.size(), kClaimBytes + sizeof(Digest));
  EXPECT_EQ(heard.find(kToken.substr(0, 16)), std::string::npos);
}

FileDescriptor listenAbstract(const std::string& name) {
  FileDescriptor listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const socklen_t length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(listen(listener.get(), 64), 0);
  return listener;
}

// Takes the socket's name first, as another user; says whether anything came, and with it a descriptor.
TEST(AnotherUsersSocket, GetsNeitherTokenNorMemory) {
  SKIP_UNLESS_ROOT();
  for (const std::string& token : {std::string(), kToken}) {
    const std::string name = uniqueSocketName();
    Attack attack([&]() -> std::string {
      const FileDescriptor listener = listenAbstract(name);
      FileDescriptor connection(accept(listener.get(), nullptr, nullptr));
      patience(connection.get(), 5);
      Message message;
      FileDescriptor memfd;
      if (receiveMessage(connection, &message, &memfd) == Received::kMessage) return "heard something";
      return memfd.isOpen() ? "has the rank's memory" : "nothing";
    });
    const Status status = meet(1, name, 0, token, 3000);
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_NE(status.message().find("another user's process"), std::string::npos) << status.message();
    EXPECT_EQ(attack.outcome(), "nothing");
  }
}

// Of the same user, so that only the token tells.
TEST(AnotherJobsSocket, GetsNeitherTokenNorMemory) {
  const std::string name = uniqueSocketName();
  const FileDescriptor listener = listenAbstract(name);
  std::string heard;
  bool gotMemory = false;
  std::thread impostor([&] {
    FileDescriptor connection(accept(listener.get(), nullptr, nullptr));
    patience(connection.get(), 5);
    for (MessageType answer : {MessageType::kClaim, MessageType::kProof, MessageType::kGo}) {
      Message message, reply;
      FileDescriptor memfd;
      if (receiveMessage(connection, &message, &memfd) != Received::kMessage) break;
      gotMemory = gotMemory || memfd.isOpen();
      heard += message.text + message.agreement;
      reply.type = answer;
      reply.text = answer == MessageType::kClaim ? message.text : std::string(32, 'x');
      EXPECT_TRUE(sendMessage(connection, reply, -1).ok());
    }
  });
  const Status status = meet(1, name, 0, kToken, 3000);
  impostor.join();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("does not know this job's token"), std::string::npos) << status.message();
  EXPECT_FALSE(gotMemory);
  EXPECT_EQ(heard.size(), kClaimBytes + sizeof(Digest));
}

TEST(ARefusal, WithACodeThatIsNoneIsStillOne) {
  for (const int code : {0, 1, 139, -7}) {
    const std::string name = uniqueSocketName();
    const FileDescriptor listener = listenAbstract(name);
    std::thread impostor([&] {
      FileDescriptor connection(accept(listener.get(), nullptr, nullptr));
      Message message, reply;
      FileDescriptor memfd;
      EXPECT_EQ(receiveMessage(connection, &message, &memfd), Received::kMessage);
      reply.type = MessageType::kRefused;
      reply.code = code;
      reply.text = "because";
      EXPECT_TRUE(sendMessage(connection, reply, -1).ok());
    });
    const Status status = meet(1, name, 0, "", 3000);
    impostor.join();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_EQ(status.message(), "refused by rank 0: because");
  }
}

TEST(AResult, OfAStatusThatIsNoErrorIsAnError) {
  const Result<int> result{Status()};
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInternal);
}

// What was heard of a rank that came in serves nobody else.
TEST(AHandshake, CannotBeReplayed) {
  Claim claim;
  claim.worldSize = 2;
  claim.job = sha256("job");
  HubHandshake first(kToken, claim), second(kToken, claim);
  CallerHandshake rank(kToken, claim);
  const Result<std::string> proof = rank.prove(*first.challenge(rank.opening()));
  ASSERT_TRUE(first.accept(*proof, "").ok());
  ASSERT_TRUE(second.challenge(rank.opening()).ok());
  EXPECT_FALSE(second.accept(*proof, "").ok());
}

TEST(AHandshake, CoversAllThatWasClaimedAndSaid) {
  Claim claim;
  claim.rank = 1;
  claim.worldSize = 2;
  claim.job = sha256("job");
  claim.agreement = sha256("agreement");
  for (size_t byte = 4; byte < kClaimBytes; ++byte) {
    HubHandshake hub(kToken, claim);
    CallerHandshake rank(kToken, claim);
    std::string opening = rank.opening();
    opening[byte] ^= 1;
    const Result<std::string> challenge = hub.challenge(opening);
    if (!challenge.ok()) continue;  // of another job
    const Result<std::string> proof = rank.prove(*challenge);
    EXPECT_FALSE(proof.ok() && hub.accept(*proof, "").ok()) << byte;
  }
  HubHandshake hub(kToken, claim);
  CallerHandshake rank(kToken, claim);
  const Result<std::string> proof = rank.prove(*hub.challenge(rank.opening()));
  std::string answer = *hub.accept(*proof, "hyc-name");
  EXPECT_EQ(*rank.accept(answer), "hyc-name");
  answer.back() ^= 1;
  EXPECT_FALSE(rank.accept(answer).ok());
}

// RFC 4231, test case 2, and FIPS 180-2's "abc".
TEST(Proofs, AreHmacSha256) {
  EXPECT_EQ(hexadecimal(hmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hexadecimal(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// Connects and says what a rank with another token, or none, would; whether it was given anything but a claim.
std::string knockAtPort(int port, int attempt) {
  FileDescriptor connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(connection.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return "not reached";
  patience(connection.get(), 10);
  Claim claim;
  claim.rank = 1;
  claim.worldSize = 2;
  claim.job = sha256("job");
  CallerHandshake guess("a guess of 256 bits: number " + std::to_string(100000 + attempt), claim);
  sayFrame(connection.get(), guess.opening());
  std::string pending;
  const std::string challenge = nextFrame(connection.get(), &pending);
  if (challenge.empty()) return "dropped early";
  sayFrame(connection.get(), *guess.prove(challenge));
  return nextFrame(connection.get(), &pending).empty() ? "" : "admitted";
}

std::string knockAtSocket(const std::string& name) {
  FileDescriptor connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const socklen_t length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (connect(connection.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) return "not reached";
  patience(connection.get(), 10);
  const PeerHello own = helloOf(1, 2);
  Message hello;
  hello.rank = 1;
  hello.worldSize = 2;
  hello.text = own.program;
  hello.agreement = own.agreement;
  (void)sendMessage(connection, hello, own.memfd.get());
  Message answer;
  FileDescriptor memfd;
  const Received received = receiveMessage(connection, &answer, &memfd);
  return received == Received::kMessage || memfd.isOpen() ? "admitted" : "";
}

std::string repeat(int count, const std::function<std::string(int)>& knock) {
  for (int i = 0; i < count; ++i) {
    std::string outcome = knock(i);
    for (int retry = 0; outcome == "not reached" && retry < 500; ++retry) {
      usleep(10000);
      outcome = knock(i);
    }
    if (!outcome.empty()) return outcome + " at attempt " + std::to_string(i);
  }
  return "nobody came in";
}

constexpr int kJoins = 10000;  // a second or two

TEST(Strangers, WithGuessedTokensNeverComeInAndTheJobGoesOn) {
  const int port = freePort();
  Status hub, rank;
  std::thread first([&] { hub = meet(0, "", port, kToken, 120000); });
  EXPECT_EQ(repeat(kJoins, [&](int i) { return knockAtPort(port, i); }), "nobody came in");
  rank = meet(1, "", port, kToken, 20000);
  first.join();
  EXPECT_TRUE(hub.ok()) << hub.message();
  EXPECT_TRUE(rank.ok()) << rank.message();
}

TEST(Strangers, OfAnotherUserNeverComeInAndTheJobGoesOn) {
  SKIP_UNLESS_ROOT();
  const std::string name = uniqueSocketName();
  Status hub, rank;
  std::thread first([&] { hub = meet(0, name, 0, "", 120000); });
  Attack attack([&] { return repeat(kJoins, [&](int) { return knockAtSocket(name); }); });
  EXPECT_EQ(attack.outcome(), "nobody came in");
  rank = meet(1, name, 0, "", 20000);
  first.join();
  EXPECT_TRUE(hub.ok()) << hub.message();
  EXPECT_TRUE(rank.ok()) << rank.message();
}

// HYC_IMPOSTURES says how often; scripts/test --long asks for as many as there are joins above.
int impostures() {
  const char* text = std::getenv("HYC_IMPOSTURES");
  return text ? std::atoi(text) : 40;
}

// Ranks that call whoever has taken the port, side by side, for as long as it listens. None of them may be let in.
void callUntil(const std::atomic<bool>& isOver, int port) {
  std::vector<std::thread> ranks;
  std::atomic<int> believed{0};
  for (int i = 0; i < 8; ++i) {
    ranks.emplace_back([&] {
      while (!isOver) believed += meet(1, "", port, kToken, 1000).code() != StatusCode::kUnavailable;
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(believed, 0);
}

// Of so many ranks that called, no more than a claim and a proof.
std::string playHubs(const FileDescriptor& listener, int count) {
  int whole = 0;
  for (int i = 0; i < count; ++i) {
    const std::string heard = playHub(listener, i % 2 == 0);
    if (heard.size() > kClaimBytes + sizeof(Digest))
      return "more was said than two frames, at call " + std::to_string(i);
    if (heard.find(kToken.substr(0, 16)) != std::string::npos) return "the token was said at call " + std::to_string(i);
    whole += heard.size() == kClaimBytes + sizeof(Digest);
  }
  return whole > count / 2 ? "nothing was learned" : "too few ranks went on to their proof: " + std::to_string(whole);
}

TEST(Impostors, AtThePortLearnNothingHoweverManyRanksCall) {
  int port = 0;
  const FileDescriptor listener = listenSomewhere(&port);
  std::atomic<bool> isOver{false};
  std::string outcome;
  std::thread impostor([&] {
    outcome = playHubs(listener, impostures());
    isOver = true;
    shutdown(listener.get(), SHUT_RDWR);
  });
  callUntil(isOver, port);
  impostor.join();
  EXPECT_EQ(outcome, "nothing was learned");
}

TEST(Impostors, OfAnotherUserAtThePortLearnNothingHoweverManyRanksCall) {
  SKIP_UNLESS_ROOT();
  int port = 0;
  FileDescriptor listener = listenSomewhere(&port);
  Attack attack([&] { return playHubs(listener, impostures()); });
  listener.reset(-1);
  std::atomic<bool> isOver{false};
  std::string outcome;
  std::thread waiter([&] {
    outcome = attack.outcome();
    isOver = true;
  });
  callUntil(isOver, port);
  waiter.join();
  EXPECT_EQ(outcome, "nothing was learned");
}

TEST(Impostors, OfAnotherUserAtTheSocketGetNothingHoweverManyRanksCall) {
  SKIP_UNLESS_ROOT();
  const std::string name = uniqueSocketName();
  const int count = impostures();
  Attack attack([&]() -> std::string {
    const FileDescriptor listener = listenAbstract(name);
    for (int i = 0; i < count; ++i) {
      FileDescriptor connection(accept(listener.get(), nullptr, nullptr));
      patience(connection.get(), 5);
      Message message;
      FileDescriptor memfd;
      if (receiveMessage(connection, &message, &memfd) == Received::kMessage || memfd.isOpen()) {
        return "heard something at call " + std::to_string(i);
      }
    }
    return "heard nothing";
  });
  for (int i = 0; i < count; ++i) {
    const Status status = meet(1, name, 0, i % 2 == 0 ? kToken : "", 20000);
    ASSERT_EQ(status.code(), StatusCode::kUnavailable) << status.message();
    ASSERT_NE(status.message().find("another user's process"), std::string::npos) << status.message();
  }
  EXPECT_EQ(attack.outcome(), "heard nothing");
}

TEST(AMeetingFolder, ThatOthersMayEnterOrThatIsALinkIsRefusedByBothSides) {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder / "open");
  chmod((folder / "open").c_str(), 0755);
  std::filesystem::create_directory(folder / "own");
  chmod((folder / "own").c_str(), 0700);
  std::filesystem::create_directory_symlink(folder / "own", folder / "link");
  for (const char* name : {"open", "link"}) {
    const Status hub = meet(0, folder / (std::string(name) + "/1"), 0, "", 300);
    EXPECT_EQ(hub.code(), StatusCode::kUnavailable);
    EXPECT_NE(hub.message().find("is no folder that is this user's alone"), std::string::npos) << hub.message();
    const std::string path = folder / (std::string(name) + "/2");
    FileDescriptor listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(listener.get(), 8), 0);
    const Status rank = meet(1, path, 0, "", 300);
    EXPECT_EQ(rank.code(), StatusCode::kUnavailable);
    EXPECT_NE(rank.message().find("is no folder that is this user's alone"), std::string::npos) << rank.message();
  }
}

TEST(AMeetingFolder, IsClosedToAnotherUser) {
  SKIP_UNLESS_ROOT();
  TemporaryFolder folder;
  chmod(folder.path().c_str(), 0755);
  const std::string path = folder / "ranks/29500";
  Status hub;
  std::thread first([&] { hub = meet(0, path, 0, "", 20000); });
  while (!std::filesystem::exists(path)) usleep(1000);
  Attack attack([&]() -> std::string {
    FileDescriptor connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    const int result = connect(connection.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    return result == 0 ? "connected" : std::strerror(errno);
  });
  EXPECT_EQ(attack.outcome(), "Permission denied");
  EXPECT_TRUE(meet(1, path, 0, "", 20000).ok());
  first.join();
  EXPECT_TRUE(hub.ok()) << hub.message();
}

// How the environment of one rank of two is read.
class TokenSource : public testing::Test {
 protected:
  void SetUp() override {
    setenv("RANK", "1", 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("MASTER_PORT", "29500", 1);
    setenv("TMPDIR", folder_.path().c_str(), 1);
    path_ = folder_.write("token", kToken + "\n");
    chmod(path_.c_str(), 0600);
  }
  void TearDown() override {
    for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_PORT", "TMPDIR", "HYC_TOKEN", "HYC_TOKEN_FILE"})
      unsetenv(name);
  }
  static Result<Environment> read() {
    Mesh mesh;
    mesh.stages = 2;
    return readEnvironment(mesh);
  }

  static constexpr uid_t kUser = 4711;
  TemporaryFolder folder_;
  std::string path_;
};

TEST_F(TokenSource, IsAFileThatOnlyItsOwnerReads) {
  setenv("HYC_TOKEN_FILE", path_.c_str(), 1);
  ASSERT_TRUE(read().ok()) << read().status().message();
  EXPECT_EQ(read()->token, kToken);
  EXPECT_EQ(read()->socketName, "");
  for (const mode_t mode : {0640, 0604, 0660, 0666}) {
    chmod(path_.c_str(), mode);
    EXPECT_EQ(read().status().code(), StatusCode::kUsage);
    EXPECT_NE(read().status().message().find("chmod 600"), std::string::npos);
  }
}

// As a secret that Kubernetes mounts for a pod with an fsGroup.
TEST_F(TokenSource, MayBeRootsForAGroup) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  constexpr gid_t kGroup = 4711, kOther = 4712;
  chmod(folder_.path().c_str(), 0755);
  setenv("HYC_TOKEN_FILE", path_.c_str(), 1);
  ASSERT_EQ(chown(path_.c_str(), 0, kGroup), 0);
  const auto readsAs = [&](gid_t group, uid_t owner, mode_t mode) {
    EXPECT_EQ(chown(path_.c_str(), owner, kGroup), 0);
    chmod(path_.c_str(), mode);
    const pid_t child = fork();
    if (child == 0) {
      const bool changed = setgroups(0, nullptr) == 0 && setgid(group) == 0 && setuid(kUser) == 0;
      _exit(!changed ? 99 : static_cast<int>(read().status().code()));
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(readsAs(kGroup, 0, 0440), 0);
  EXPECT_EQ(readsAs(kGroup, 0, 0640), 0);
  EXPECT_EQ(readsAs(kOther, 0, 0440), 74);
  EXPECT_EQ(readsAs(kGroup, 0, 0444), 64);
  EXPECT_EQ(readsAs(kGroup, 0, 0460), 64);
  EXPECT_EQ(readsAs(kGroup, kUser + 1, 0440), 64);
}

TEST_F(TokenSource, IsTheVariable) {
  setenv("HYC_TOKEN", kToken.c_str(), 1);
  ASSERT_TRUE(read().ok());
  EXPECT_EQ(read()->token, kToken);
  setenv("HYC_TOKEN_FILE", path_.c_str(), 1);
  EXPECT_NE(read().status().message().find("are both set"), std::string::npos);
}

TEST_F(TokenSource, OfTooFewBytesIsRefusedAndNotShown) {
  setenv("HYC_TOKEN", "secret", 1);
  EXPECT_EQ(read().status().code(), StatusCode::kUsage);
  EXPECT_NE(read().status().message().find("a token of 6 bytes, expected 32 to 200"), std::string::npos);
  EXPECT_EQ(read().status().message().find("secret"), std::string::npos);
}

TEST_F(TokenSource, ThatIsMissingMeansAFolderOfThisUsersAndNeverTcp) {
  ASSERT_TRUE(read().ok()) << read().status().message();
  EXPECT_EQ(read()->socketName, folder_ / ("hyc-" + std::to_string(geteuid()) + "/29500"));
  EXPECT_EQ(meet(1, "", freePort(), "", 300).code(), StatusCode::kInternal);
  EXPECT_EQ(meet(0, "", freePort(), "", 300).code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace hycrt
