// Copies of states in the memory of hosts (--copy neighbour): what keepers hold and whom they trust, and runs that lose
// ranks and hosts and go on from there with the bits of an undisturbed one.
#include "hycrt/copies.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/clock.h"
#include "base/crc32c.h"
#include "comm/shm/doorkeeper.h"
#include "comm/shm/sockets.h"
#include "comm/tcp/addresses.h"
#include "copies/copy_client.h"
#include "copies/copy_lines.h"
#include "copies/copy_peer.h"
#include "hosts_fixture.h"
#include "hycrt/token.h"

namespace {

using hycrt::CopyFile;
using hycrt::CopyHolding;
using hycrt::CopyKey;
using hycrt::FileDescriptor;
using hycrt::KeeperAddress;
using hycrt::KeeperTask;
using hycrt::Result;
using hycrt::Status;
using nlohmann::json;

const std::atomic<bool> kGoesOn{false};

FileDescriptor memoryOf(const std::string& text, bool seals = true) {
  Result<FileDescriptor> memory = hycrt::makeCopyMemory();
  EXPECT_TRUE(memory.ok());
  EXPECT_TRUE(hycrt::writeAt(*memory, "test", text.data(), static_cast<int64_t>(text.size()), 0).ok());
  if (seals) {
    EXPECT_TRUE(hycrt::sealCopy(*memory).ok());
  }
  return std::move(*memory);
}

CopyFile fileOf(const std::string& text) {
  Result<CopyFile> file = hycrt::takeSealed(memoryOf(text), static_cast<int64_t>(text.size()));
  EXPECT_TRUE(file.ok());
  return *file;
}

std::string textOf(const FileDescriptor& file) {
  const Result<std::string> text = hycrt::readWholeFile(file, "test", 1 << 20);
  return text.ok() ? *text : "?";
}

// A rank's table of one file, as the format has it.
std::string tableOf(const std::string& name, const std::string& bytes) {
  hycrt::CheckpointParts parts;
  hycrt::CheckpointFile& file = parts.files[name];
  file.sums.bytes = static_cast<int64_t>(bytes.size());
  file.sums.headerBytes = 8;
  file.sums.chunks = {hycrt::crc32c(0, bytes.data(), bytes.size())};
  return encodeCheckpointParts(parts);
}

std::string headOf(int64_t step, int64_t ranks) {
  hycrt::CheckpointManifest told;
  told.name = "m";
  told.mesh = "dp 2";
  told.ranks = ranks;
  told.step = step;
  told.learningRate = json::object();
  return encodeCheckpointManifest(told);
}

const std::string kPart0 = "part-00000-0.safetensors", kPart1 = "part-00001-0.safetensors";

TEST(CopyStore, KeepsTheNewestAndTheOneThatIsKnownToBeWhole) {
  hycrt::CopyStore store;
  const CopyKey first{0, 1}, second{0, 2}, third{0, 3}, again{1, 2};
  ASSERT_TRUE(store.put(first, {}, kPart0, fileOf("first")).ok());
  ASSERT_TRUE(store.put(second, first, kPart0, fileOf("second")).ok());
  EXPECT_TRUE(store.find(first, kPart0).has_value());
  EXPECT_EQ(store.bytes(), 11);
  ASSERT_TRUE(store.put(third, second, kPart0, fileOf("3")).ok());
  EXPECT_FALSE(store.find(first, kPart0).has_value());
  EXPECT_TRUE(store.find(second, kPart0).has_value());
  EXPECT_EQ(store.bytes(), 7);
  EXPECT_EQ(store.mostBytes(), 11);
  // A rank that is being ended does not drive out what the next start has put.
  ASSERT_TRUE(store.put(again, second, kPart0, fileOf("again")).ok());
  EXPECT_FALSE(store.put(third, second, kPart1, fileOf("late")).ok());
  EXPECT_FALSE(store.find(third, kPart1).has_value());
  EXPECT_TRUE(store.find(again, kPart0).has_value());
}

TEST(CopyStore, HoldsWhatItHasFetchedOnlyUntilANewerOneBegins) {
  hycrt::CopyStore store;
  const CopyKey whole{0, 1}, next{1, 2};
  ASSERT_TRUE(store.put(whole, {}, kPart0, fileOf("own")).ok());
  store.keep(whole, kPart1, fileOf("fetched"));
  EXPECT_TRUE(store.find(whole, kPart1).has_value());
  EXPECT_EQ(store.bytes(), 10);
  ASSERT_TRUE(store.put(next, whole, kPart0, fileOf("new")).ok());
  EXPECT_FALSE(store.find(whole, kPart1).has_value());
  EXPECT_TRUE(store.find(whole, kPart0).has_value());
  EXPECT_EQ(store.bytes(), 6);
}

TEST(CopyStore, TakesNothingThatMayStillChange) {
  EXPECT_FALSE(hycrt::takeSealed(memoryOf("open", /*seals=*/false), 4).ok());
  EXPECT_FALSE(hycrt::takeSealed(memoryOf("short"), 6).ok());
  EXPECT_FALSE(hycrt::takeSealed(FileDescriptor(open("/dev/zero", O_RDONLY | O_CLOEXEC)), 0).ok());
  EXPECT_TRUE(hycrt::takeSealed(memoryOf("whole"), 5).ok());
}

TEST(CopyStore, TellsOnlyOfWhatIsAsItWasWritten) {
  hycrt::CopyStore store;
  const CopyKey key{0, 7};
  ASSERT_TRUE(store.put(key, {}, kPart0, fileOf("the bytes")).ok());
  ASSERT_TRUE(store.put(key, {}, hycrt::kCopyHead, fileOf(headOf(7, 2))).ok());
  EXPECT_TRUE(store.holdings().empty());  // nobody has said what there is to be
  ASSERT_TRUE(store.put(key, {}, hycrt::copyTableName(0), fileOf(tableOf(kPart0, "the bytes"))).ok());
  ASSERT_TRUE(store.put(key, {}, kPart1, fileOf("the bytez")).ok());
  ASSERT_TRUE(store.put(key, {}, hycrt::copyTableName(1), fileOf(tableOf(kPart1, "the bytes"))).ok());
  const std::vector<CopyHolding> holdings = store.holdings();
  ASSERT_EQ(holdings.size(), 2u);
  EXPECT_EQ(holdings[0].ranks, 2);
  EXPECT_EQ(holdings[0].held, std::set<std::string>{kPart0});
  EXPECT_EQ(holdings[1].files, std::set<std::string>{kPart1});
  EXPECT_TRUE(holdings[1].held.empty());
  std::string why;
  EXPECT_TRUE(hycrt::newestWholeCopy(holdings, &why).isNone());
  EXPECT_EQ(why, "the copy of step 7 in memory lacks 'part-00001-0.safetensors' of rank 1");
}

// Whoever waits for what it holds hears from it while all of that is looked through.
TEST(CopyStore, GivesASignOfEveryChunkThatItHasLookedAt) {
  hycrt::CopyStore store;
  const std::string bytes(5 * hycrt::kChunkBytes / 2, 'x');
  hycrt::CheckpointParts parts;
  hycrt::FileSums& sums = parts.files[kPart0].sums;
  sums.bytes = static_cast<int64_t>(bytes.size());
  sums.headerBytes = 8;
  for (int64_t at = 0; at < sums.bytes; at += hycrt::kChunkBytes) {
    const int64_t count = std::min(hycrt::kChunkBytes, sums.bytes - at);
    sums.chunks.push_back(hycrt::crc32c(0, bytes.data() + at, static_cast<size_t>(count)));
  }
  const CopyKey key{0, 1};
  ASSERT_TRUE(store.put(key, {}, kPart0, fileOf(bytes)).ok());
  ASSERT_TRUE(store.put(key, {}, hycrt::copyTableName(0), fileOf(encodeCheckpointParts(parts))).ok());
  int signs = 0;
  const std::vector<CopyHolding> holdings = store.holdings([&] { ++signs; });
  EXPECT_EQ(signs, 3);
  ASSERT_EQ(holdings.size(), 1u);
  EXPECT_EQ(holdings[0].held, std::set<std::string>{kPart0});
}

TEST(CopyLines, SayWhichCopyIsWholeOverAllHosts) {
  const auto holding = [](const CopyKey& key, int rank, int64_t ranks, bool isHeld) {
    CopyHolding one;
    one.key = key;
    one.rank = rank;
    one.ranks = ranks;
    one.hasTable = true;
    one.files = {"part-0000" + std::to_string(rank) + "-0.safetensors"};
    if (isHeld) one.held = one.files;
    // As it goes from one host to another.
    CopyHolding heard;
    EXPECT_EQ(hycrt::parseHolding(encodeHolding(one), &heard), hycrt::KeeperLine::kHolding);
    return heard;
  };
  std::string why;
  EXPECT_TRUE(hycrt::newestWholeCopy({}, &why).isNone());
  EXPECT_EQ(why, "no host holds one");
  // Of the newer one rank 1's part is nowhere; that rank 0's lies in two places helps nothing.
  const CopyKey whole{0, 4}, newer{0, 5};
  const std::vector<CopyHolding> rows{holding(whole, 0, 2, true), holding(whole, 1, 0, false),
                                      holding(whole, 1, 0, true), holding(newer, 0, 2, true),
                                      holding(newer, 0, 2, true)};
  EXPECT_EQ(hycrt::newestWholeCopy(rows, &why), whole);
  EXPECT_EQ(why, "the copy of step 5 in memory lacks the part of rank 1");
  EXPECT_TRUE(hycrt::newestWholeCopy({holding(whole, 1, 0, true)}, &why).isNone());
  EXPECT_EQ(why, "the copy of step 4 in memory lacks what rank 0 says of it");
  // One of a later start is newer, whatever its step.
  EXPECT_EQ(hycrt::newestWholeCopy({holding(newer, 0, 1, true), holding({1, 3}, 0, 1, true)}, &why), (CopyKey{1, 3}));
}

TEST(CopyLines, AreNotBelievedWhereTheyMakeNoSense) {
  for (const std::string text : {"", "/", "1/", "/1", "1/2/3", "-1/2", "1/99999999999999999999", "x/1", "1 /2"}) {
    EXPECT_TRUE(hycrt::parseCopyKey(text).isNone()) << text;
  }
  EXPECT_EQ(hycrt::parseCopyKey("3/1200"), (CopyKey{3, 1200}));
  CopyHolding holding;
  for (const std::string line : {"", "x", "[]", "{\"copy\":1}", "{\"copy\":\"0/1\",\"rank\":-1}", "{\"copies\":3}"}) {
    EXPECT_EQ(hycrt::parseHolding(line, &holding), hycrt::KeeperLine::kOther) << line;
  }
  EXPECT_EQ(hycrt::parseHolding(hycrt::encodeLooking(), &holding), hycrt::KeeperLine::kLooking);
  hycrt::CopyMessage message, heard;
  message.kind = hycrt::CopyMessage::Kind::kPut;
  message.key = {0, 1};
  message.name = kPart0;
  EXPECT_TRUE(decode(encode(message), &heard));
  for (size_t bytes = 0; bytes < encode(message).size(); ++bytes) {
    EXPECT_FALSE(decode(encode(message).substr(0, bytes), &heard)) << bytes;
  }
  message.name = "../part-0";
  EXPECT_FALSE(decode(encode(message), &heard));
}

// A keeper of this host, as hyc-run starts one on another.
class RunningKeeper {
 public:
  explicit RunningKeeper(const KeeperTask& task) : task_(task) {
    int input[2], output[2];
    EXPECT_EQ(pipe2(input, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(output, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(input[0], STDIN_FILENO);
      dup2(output[1], STDOUT_FILENO);
      execl(kHycRun.c_str(), kHycRun.c_str(), "--keep-copies", nullptr);
      _exit(127);
    }
    close(input[0]);
    close(output[1]);
    input_.reset(input[1]);
    output_ = fdopen(output[0], "r");
    tell(encodeKeeperTask(task));
    EXPECT_TRUE(isReady(line(), &address_));
  }
  ~RunningKeeper() { end(); }

  void end() {
    if (pid_ <= 0) return;
    input_.reset(-1);
    waitpid(pid_, nullptr, 0);
    fclose(output_);
    pid_ = -1;
  }
  void tell(const std::string& text) {
    EXPECT_EQ(write(input_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void beBefore(const std::vector<const RunningKeeper*>& others) {
    std::vector<KeeperAddress> rows;
    for (const RunningKeeper* other : others) rows.push_back(other->address_);
    tell(hycrt::encodeRing(rows.front().number, rows));
    // Whose answer says that it has heard.
    CopyHolding all;
    tell(hycrt::kAskForBytes);
    EXPECT_EQ(hycrt::parseHolding(line(), &all), hycrt::KeeperLine::kLast);
  }
  std::vector<CopyHolding> holdings() {
    tell(hycrt::kAskForHoldings);
    std::vector<CopyHolding> all;
    for (;;) {
      CopyHolding one;
      const hycrt::KeeperLine kind = hycrt::parseHolding(line(), &one);
      if (kind == hycrt::KeeperLine::kLooking) continue;
      if (kind != hycrt::KeeperLine::kHolding) return all;
      all.push_back(one);
    }
  }
  const KeeperAddress& address() const { return address_; }
  const KeeperTask& task() const { return task_; }

 private:
  std::string line() {
    char text[65536];
    return fgets(text, sizeof text, output_) ? text : "";
  }

  KeeperTask task_;
  pid_t pid_ = -1;
  FileDescriptor input_;
  FILE* output_ = nullptr;
  KeeperAddress address_;
};

KeeperTask taskOf(int number, const std::string& token, bool plaintext = false) {
  KeeperTask task;
  task.job = "test";
  task.token = token;
  task.number = number;
  task.interface = "127.0.0.0/8";
  task.plaintext = plaintext;
  task.patienceMs = 2000;
  return task;
}

Status putAsRank(const RunningKeeper& keeper, const CopyKey& key, const std::string& name, const std::string& text) {
  Result<hycrt::CopyClient> client = hycrt::CopyClient::connect(keeper.address().socket);
  return client.ok() ? client->put(key, {}, name, memoryOf(text), kGoesOn) : client.status();
}

TEST(CopyKeeper, HasWhatARankPutInTwoPlacesAndGivesItBack) {
  for (const bool plaintext : {false, true}) {
    const std::string token = hycrt::makeToken();
    auto first = std::make_unique<RunningKeeper>(taskOf(0, token, plaintext));
    auto second = std::make_unique<RunningKeeper>(taskOf(1, token, plaintext));
    first->beBefore({second.get()});
    second->beBefore({first.get()});
    const CopyKey key{0, 3};
    const std::string bytes(3000000, 'x');
    ASSERT_TRUE(putAsRank(*first, key, kPart0, bytes).ok());
    const std::string table = "{\"tensors\": {}, \"files\": {}}";
    ASSERT_TRUE(putAsRank(*first, key, hycrt::copyTableName(0), table).ok());
    for (RunningKeeper* keeper : {first.get(), second.get()}) EXPECT_EQ(keeper->holdings().size(), 1u);
    // The host is lost, and another takes its place: what its ranks want comes from the neighbour.
    first->end();
    RunningKeeper third(taskOf(2, token, plaintext));
    third.beBefore({second.get()});
    Result<hycrt::CopyClient> client = hycrt::CopyClient::connect(third.address().socket);
    ASSERT_TRUE(client.ok());
    const Result<FileDescriptor> got = client->get(key, kPart0);
    ASSERT_TRUE(got.ok()) << got.status().message();
    EXPECT_EQ(hycrt::readWholeFile(*got, "test", 1 << 30).ok() ? *hycrt::readWholeFile(*got, "test", 1 << 30) : "",
              bytes);
    EXPECT_EQ(third.holdings().size(), 0u);
    EXPECT_TRUE(client->get(key, hycrt::copyTableName(0)).ok());
    EXPECT_EQ(third.holdings().size(), 1u);
    const Result<FileDescriptor> none = client->get({0, 4}, kPart0);
    ASSERT_FALSE(none.ok());
    EXPECT_CONTAINS(none.status().message(), "no host has 'part-00000-0.safetensors' of the copy of step 4 in memory");
  }
}

TEST(CopyKeeper, RefusesAnotherKey) {
  for (const bool plaintext : {false, true}) {
    RunningKeeper keeper(taskOf(0, hycrt::makeToken(), plaintext));
    RunningKeeper stranger(taskOf(1, hycrt::makeToken(), plaintext));
    stranger.beBefore({&keeper});
    const Status put = putAsRank(stranger, {0, 1}, hycrt::copyTableName(0), "{\"tensors\": {}, \"files\": {}}");
    EXPECT_FALSE(put.ok());
    EXPECT_CONTAINS(put.message(), "is not reached");
    EXPECT_TRUE(keeper.holdings().empty());
  }
}

TEST(CopyKeeper, TakesNothingInTheClearWhereAllIsEncrypted) {
  const std::string token = hycrt::makeToken();
  RunningKeeper keeper(taskOf(0, token));
  Result<hycrt::CopyPeer> peer = hycrt::CopyPeer::call(taskOf(1, token, /*plaintext=*/true), keeper.address());
  ASSERT_TRUE(peer.ok());  // it knows the token, and has nothing else to prove in the clear
  EXPECT_FALSE(peer->put({0, 1}, {}, hycrt::copyTableName(0), fileOf("{\"tensors\": {}, \"files\": {}}")).ok());
  EXPECT_TRUE(keeper.holdings().empty());
}

TEST(CopyKeeper, ForgetsWhatWasInterruptedInTheMiddle) {
  const std::string token = hycrt::makeToken();
  RunningKeeper keeper(taskOf(0, token, /*plaintext=*/true));
  const KeeperTask own = taskOf(1, token, /*plaintext=*/true);
  const CopyKey before{0, 1}, key{0, 2};
  Result<hycrt::CopyPeer> peer = hycrt::CopyPeer::call(own, keeper.address());
  ASSERT_TRUE(peer.ok());
  ASSERT_TRUE(peer->put(before, {}, kPart0, fileOf("the one before")).ok());
  const int64_t deadline = hycrt::monotonicMs() + 5000;
  Result<FileDescriptor> connection = hycrt::reach(keeper.address().host, keeper.address().port, deadline);
  ASSERT_TRUE(connection.ok());
  ASSERT_TRUE(hycrt::proveOver(*connection, token, hycrt::copyClaim(own, 0), deadline).ok());
  hycrt::CopyMessage message;
  message.kind = hycrt::CopyMessage::Kind::kPut;
  message.key = key;
  message.base = before;
  message.name = kPart0;
  message.bytes = 1 << 20;
  const std::string head = encode(message);
  const uint32_t length = static_cast<uint32_t>(head.size());
  std::string sent(reinterpret_cast<const char*>(&length), sizeof length);
  sent += head + std::string(1 << 19, 'h');
  for (size_t at = 0; at < sent.size();) {
    const ssize_t count = write(connection->get(), sent.data() + at, sent.size() - at);
    if (count > 0) at += static_cast<size_t>(count);
    if (count < 0) {
      ASSERT_TRUE(hycrt::pollUntil(*connection, POLLOUT, deadline));
    }
  }
  connection->reset(-1);
  usleep(100000);
  const Result<std::optional<CopyFile>> half = peer->get(key, kPart0), whole = peer->get(before, kPart0);
  ASSERT_TRUE(half.ok() && whole.ok());
  EXPECT_FALSE(half->has_value());
  ASSERT_TRUE(whole->has_value());
  EXPECT_EQ(textOf(*(*whole)->memory), "the one before");
}

// ------------------------------------------------------------------------------------------------------------- runs

constexpr int kSteps = 400;

class Copies : public HostsBySsh {
 protected:
  std::vector<std::string> run(std::vector<std::string> more = {}, int steps = kSteps) const {
    std::vector<std::string> words{"--steps", std::to_string(steps), "--log-file",     folder_ / "log",
                                   "--copy",  "neighbour",           "--max-restarts", "4"};
    words.insert(words.end(), more.begin(), more.end());
    return command(words);
  }
  std::vector<json> logLines() const {
    std::vector<json> lines;
    std::ifstream file(folder_ / "log");
    for (std::string line; std::getline(file, line);) {
      json row = json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!row.is_discarded()) lines.push_back(std::move(row));
    }
    return lines;
  }
  std::vector<json> events(const std::string& kind) const {
    std::vector<json> found;
    for (const json& line : logLines()) {
      if (line.value("event", "") == kind) found.push_back(line);
    }
    return found;
  }
  // Of steps that were trained since the last start, and told.
  void awaitSteps(size_t restarts, int64_t step) const {
    for (int i = 0; i < 20000; ++i, usleep(5000)) {
      size_t seen = 0;
      int64_t last = 0;
      for (const json& line : logLines()) {
        const std::string event = line.value("event", "");
        seen += event == "restart" || event == "resize";
        if (event == "restart" || event == "resize") last = 0;
        if (line.contains("loss")) last = line["step"];
      }
      if (seen >= restarts && last >= step) return;
    }
    FAIL() << "step " << step << " did not come";
  }
  std::vector<double> undisturbed(int steps = kSteps) const {
    const std::string log = folder_ / "undisturbed";
    EXPECT_EQ(runCommand(folder_.command({"--steps", std::to_string(steps), "--log-file", log})).status, 0);
    return lossesOf(log);
  }
  // Every step's loss, however often it was made, is the undisturbed run's, and of no restart more than one is done
  // again.
  void expectOneStepAgainAtMost(const std::vector<double>& expected) const {
    std::set<int64_t> made;
    int64_t again = 0, last = 0;
    for (const json& line : logLines()) {
      const std::string event = line.value("event", "");
      if (event == "restart") {
        EXPECT_CONTAINS(line.value("path", ""), "the copy of step ");
        EXPECT_GE(line["step"].get<int64_t>(), last - 1) << json(events("copy_failed"));
      }
      if (!line.contains("loss")) continue;
      last = line["step"];
      again += !made.insert(last).second;
      EXPECT_EQ(line["loss"].get<double>(), expected[static_cast<size_t>(last - 1)]) << "step " << last;
    }
    EXPECT_EQ(made.size(), expected.size());
    EXPECT_LE(again, static_cast<int64_t>(events("restart").size()));
  }
  // What runs on a host, but for its sshd that listens.
  std::vector<pid_t> on(int host, const std::string& flag) const {
    std::vector<pid_t> found;
    const std::string network = networkOf(std::to_string(hostProcess(static_cast<size_t>(host))));
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string process = entry.path().filename();
      if (process.find_first_not_of("0123456789") != std::string::npos || networkOf(process) != network) continue;
      std::ifstream file(entry.path() / "cmdline");
      std::string words((std::istreambuf_iterator<char>(file)), {});
      std::replace(words.begin(), words.end(), '\0', ' ');
      const bool isRank = words.compare(0, (folder_ / "bin/").size(), folder_ / "bin/") == 0;
      const bool isRun = words.compare(0, kHycRun.size(), kHycRun) == 0;
      if (flag == "ranks" ? isRank : isRun && words.find(flag) != std::string::npos)
        found.push_back(std::stoi(process));
    }
    return found;
  }
  // As where their power goes and comes back, at one moment: nothing trains on while the next is found.
  void lose(const std::vector<int>& hosts) const {
    std::vector<pid_t> all;
    for (int host : hosts) {
      for (const char* what : {"ranks", "--agent", "--keep-copies"}) {
        const std::vector<pid_t> found = on(host, what);
        EXPECT_FALSE(found.empty()) << what;
        all.insert(all.end(), found.begin(), found.end());
      }
    }
    for (pid_t process : all) kill(process, SIGSTOP);
    for (pid_t process : all) kill(process, SIGKILL);
  }
};

// Where they do not come the run says why.
#define AWAIT_STEPS(restarts, step)    \
  awaitSteps(restarts, step);          \
  if (HasFatalFailure()) {             \
    kill(running.pid(), SIGINT);       \
    FAIL() << running.finish().errors; \
  }

TEST_F(Copies, LoseOneStepAtMostOfKilledRanksAndHostsWithoutADisk) {
  const std::vector<double> expected = undisturbed();
  MAKE_HOSTS_WITH_SSH(2);
  RunningCommand running(run());
  AWAIT_STEPS(0, 20);
  kill(on(1, "ranks").front(), SIGKILL);
  AWAIT_STEPS(1, 60);
  lose({1});
  AWAIT_STEPS(2, 120);
  // The host of rank 0, and of hyc-run.
  lose({0});
  AWAIT_STEPS(3, 180);
  kill(on(0, "--agent").front(), SIGKILL);
  const CommandResult result = running.finish();
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(events("restart").size(), 4u);
  EXPECT_EQ(events("resume").size(), 4u);
  expectOneStepAgainAtMost(expected);
  EXPECT_CONTAINS(result.errors, ", from the copy of step ");
  EXPECT_CONTAINS(result.errors, "copies in memory took at most: " + namespaces_->addressOf(0) + " ");
  EXPECT_THAT(result.output, testing::ContainsRegex("[0-9]+ copies in memory "));
  ASSERT_FALSE(events("report").empty());
  EXPECT_GT(events("report").back()["copies"].get<int>(), 300);
  expectNoneLeft();
}

// Four of them, in the clear: the copy of the third is the fourth's, which is not the one that holds the fourth's.
TEST_F(Copies, GoRoundARingOfHosts) {
  const std::vector<double> expected = undisturbed(200);
  MAKE_HOSTS_WITH_SSH(4);
  RunningCommand running(run({"--plaintext"}, 200));
  AWAIT_STEPS(0, 20);
  lose({2});
  const CommandResult result = running.finish();
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(events("restart").size(), 1u);
  expectOneStepAgainAtMost(expected);
  expectNoneLeft();
}

// Which has nothing of it in its memory, and gets what it needs from the one that is left.
TEST_F(Copies, GoOnOnAHostThatTakesTheLostOnesPlace) {
  const std::vector<double> expected = undisturbed(200);
  MAKE_HOSTS_WITH_SSH(3);
  std::string hosts;
  for (int host : {0, 1, 2}) hosts += namespaces_->addressOf(host) + " slots=4\n";
  folder_.files().write("hosts", hosts);
  RunningCommand running(run({}, 200));
  AWAIT_STEPS(0, 20);
  endServersOf(1);
  const CommandResult result = running.finish();
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(events("restart").size(), 1u);
  EXPECT_CONTAINS(result.errors, "host '" + namespaces_->addressOf(1) + "' is left out from now on");
  EXPECT_CONTAINS(result.errors, namespaces_->addressOf(2) + " ");
  expectOneStepAgainAtMost(expected);
  expectNoneLeft();
}

// What keeps them outlives the signal that asks the ranks for a checkpoint, wherever it is sent.
TEST_F(Copies, StayWhereAllProcessesAreAskedToEnd) {
  MAKE_HOSTS_WITH_SSH(2);
  RunningCommand running(run({"--checkpoint", folder_ / "runs"}, 1000000));
  AWAIT_STEPS(0, 5);
  for (int host : {0, 1}) {
    for (const pid_t keeper : on(host, "--keep-copies")) kill(keeper, SIGTERM);
  }
  AWAIT_STEPS(0, 40);
  kill(running.pid(), SIGTERM);
  const CommandResult result = running.finish();
  EXPECT_EQ(result.status, 75) << result.errors;
  EXPECT_EQ(events("restart").size(), 0u) << result.errors;
  EXPECT_EQ(events("copy_failed").size(), 0u) << result.errors;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "runs"));
  expectNoneLeft();
}

// Of a copy that a host's end interrupts nothing is taken: the one before it is whole.
TEST_F(Copies, LeaveTheOneBeforeWholeWhereTheyAreInterrupted) {
  const std::vector<double> expected = undisturbed(200);
  MAKE_HOSTS_WITH_SSH(2);
  RunningCommand running(run({}, 200));
  AWAIT_STEPS(0, 20);
  const std::vector<pid_t> keepers = on(1, "--keep-copies");
  ASSERT_EQ(keepers.size(), 1u);
  kill(keepers[0], SIGSTOP);
  // Ranks wait for the copy that cannot be ended, after the step at which it was begun and one more.
  size_t seen = 0;
  for (int i = 0; i < 200; ++i, usleep(20000)) {
    const size_t now = lossesOf(folder_ / "log").size();
    if (i % 20 != 0) continue;
    if (now == seen) break;
    seen = now;
  }
  ASSERT_LT(seen, 200u);
  for (pid_t rank : on(0, "ranks")) kill(rank, SIGKILL);
  usleep(300000);
  kill(keepers[0], SIGCONT);
  const CommandResult result = running.finish();
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(events("restart").size(), 1u);
  expectOneStepAgainAtMost(expected);
}

TEST_F(Copies, GoBackToTheDiskWhereAHostAndItsNeighbourAreLost) {
  const std::vector<double> expected = undisturbed(200);
  MAKE_HOSTS_WITH_SSH(2);
  RunningCommand running(run({"--checkpoint", folder_ / "runs", "--checkpoint-every", "25", "--keep", "3"}, 200));
  AWAIT_STEPS(0, 60);
  lose({0, 1});
  const CommandResult result = running.finish();
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.errors, "no copy in memory is whole (no host holds one); the checkpoint on the disk is taken");
  ASSERT_EQ(events("restart").size(), 1u);
  EXPECT_CONTAINS(events("restart")[0]["path"].get<std::string>(), "runs/step-");
  std::map<int64_t, double> last;
  for (const json& line : logLines()) {
    if (line.contains("loss")) last[line["step"]] = line["loss"];
  }
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(last[static_cast<int64_t>(i) + 1], expected[i]) << i;
}

// The states of eight ranks go on as those of four, on the host that is left.
TEST_F(Copies, AreReadByTheSizeThatIsLeft) {
  MAKE_HOSTS_WITH_SSH(2);
  const CompiledFolder four{Layout{1, 2, 2}};
  std::filesystem::create_directory(folder_ / "out");
  std::filesystem::create_directory_symlink(folder_.path(), folder_ / "out/ranks-8");
  std::filesystem::create_directory_symlink(four.path(), folder_ / "out/ranks-4");
  folder_.files().write("out/manifest.json",
                        "{\"format_version\": 1, \"sizes\": [{\"ranks\": 8, \"folder\": \"ranks-8\"}, {\"ranks\": 4, "
                        "\"folder\": \"ranks-4\"}]}");
  const std::vector<double> expected = undisturbed(200);
  std::vector<std::string> words = run({}, 200);
  std::replace(words.begin(), words.end(), folder_.path(), folder_ / "out");
  RunningCommand running(words);
  AWAIT_STEPS(0, 20);
  endServersOf(1);
  const CommandResult result = running.finish();
  EXPECT_EQ(result.status, 0) << result.errors;
  ASSERT_EQ(events("resize").size(), 1u) << result.errors;
  EXPECT_CONTAINS(events("resize")[0]["path"].get<std::string>(), "the copy of step ");
  EXPECT_CONTAINS(result.errors, "no copies are kept in memory from now on: all ranks stand on one host");
  std::map<int64_t, double> last;
  for (const json& line : logLines()) {
    if (line.contains("loss")) last[line["step"]] = line["loss"];
  }
  ASSERT_EQ(last.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(last[static_cast<int64_t>(i) + 1] / expected[i], 1, 1e-5) << i;
}

TEST(CopyOptions, AreRefusedWhereThereIsNothingToCopyToOrFor) {
  CompiledFolder folder(kEight);
  folder.files().write("hosts", "a slots=8\n");
  folder.files().write("two", "a slots=4\nb slots=4\n");
  const std::vector<std::pair<std::vector<std::string>, std::string>> rows{
      {{"--copy", "neighbour", "--max-restarts", "1"}, "there is one host; name more with --hostfile FILE"},
      {{"--copy", "neighbour", "--hostfile", folder / "two"}, "give --max-restarts N"},
      {{"--copy", "neighbour", "--max-restarts", "1", "--hostfile", folder / "hosts"}, "all ranks stand on one"},
      {{"--copy-every", "2"}, "--copy-every is given without copies"},
      {{"--copy", "neighbour", "--copy-every", "0", "--max-restarts", "1", "--hostfile", folder / "two"},
       "--copy-every is 0, expected a number of steps"}};
  for (const auto& [words, why] : rows) {
    const CommandResult result = runCommand(folder.command(words));
    EXPECT_EQ(result.status, 64) << result.errors;
    EXPECT_CONTAINS(result.errors, why);
  }
  // A rank that another launcher has started.
  const CompiledFolder one{Layout{1, 1, 1}};
  const CommandResult alone =
      runCommand({one / "bin/stage0", "--out", one.path(), "--copy", "neighbour", "--data", folder / "text"});
  EXPECT_EQ(alone.status, 64) << alone.errors;
  EXPECT_CONTAINS(alone.errors, "given to a rank that no hyc-run on several hosts has started");
}

}  // namespace
