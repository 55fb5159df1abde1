// hyc-check: what it finds on this machine, whom a host hears, and what follows from what hosts say.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "check_options.h"
#include "comm/tcp/addresses.h"
#include "findings.h"
#include "inspection.h"
#include "processes.h"
#include "reach.h"
#include "report.h"
#include "run_command.h"
#include "temporary_folder.h"
#include "test/Places.h"

namespace {

const std::string kHycCheck = hyc::places::program("hyc-check");
namespace fs = std::filesystem;
using namespace hyccheck;
using nlohmann::json;

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Facts, AreThoseOfTheKernelAndComeBackTheSame) {
  const Facts facts = collectFacts("/tmp");
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  EXPECT_EQ(facts.name, name);
  EXPECT_EQ(facts.memory, int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE));
  EXPECT_LE(facts.available, facts.memory);
  EXPECT_GE(facts.cores, 1);
  ASSERT_FALSE(facts.disks.empty());
  EXPECT_EQ(facts.disks[0].folder, "/tmp");
  EXPECT_GT(facts.disks[0].total, 0);
  const json told = toJson(facts);
  const hycrt::Result<Facts> again = factsFrom(told);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(toJson(*again), told);
  for (const auto& [key, value] : told.items()) {
    json less = told;
    less.erase(key);
    EXPECT_FALSE(factsFrom(less).ok()) << key;
    less[key] = {{"another", "type"}};
    EXPECT_FALSE(factsFrom(less).ok()) << key;
  }
}

TEST(Facts, TellOfADiskOnce) {
  const TemporaryFolder here;
  fs::create_directory(here / "temporary");
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "";
  const auto foldersWith = [&](const std::string& temporary) {
    setenv("TMPDIR", temporary.c_str(), 1);
    std::vector<std::string> folders;
    for (const Disk& disk : collectFacts(here.path()).disks) folders.push_back(disk.folder);
    return folders;
  };
  EXPECT_EQ(foldersWith(here / "temporary"), std::vector<std::string>{here.path()});
  EXPECT_EQ(foldersWith("/proc"), (std::vector<std::string>{here.path(), "/proc"}));  // a file system of its own
  EXPECT_EQ(foldersWith(here / "none"), (std::vector<std::string>{here.path(), here / "none"}));
  before ? setenv("TMPDIR", kept.c_str(), 1) : unsetenv("TMPDIR");
}

TEST(Facts, TellNoToken) {
  setenv("HYC_TOKEN", "a secret of this job", 1);
  setenv("NCCL_SOCKET_IFNAME", "eth7", 1);
  const std::string told = toJson(collectFacts("/tmp")).dump();
  unsetenv("HYC_TOKEN");
  unsetenv("NCCL_SOCKET_IFNAME");
  EXPECT_FALSE(says(told, "a secret")) << told;
  EXPECT_TRUE(says(told, "HYC_TOKEN=(set)")) << told;
  EXPECT_TRUE(says(told, "NCCL_SOCKET_IFNAME=eth7")) << told;
}

// A rank that nobody waits for any more is found, with what ends it.
TEST(LeftRanks, AreAProblem) {
  TemporaryFolder folder;
  fs::create_directory(folder / "bin");
  const std::string program = folder / "bin/stage9";
  fs::copy_file("/bin/sleep", program);
  const CommandResult left = runCommand({"/bin/sh", "-c", "RANK=5 " + program + " 600 >/dev/null 2>&1 & echo $!"});
  const int pid = std::stoi(left.output);
  const auto find = [&] {
    const std::vector<Process> all = findProcesses();
    const auto found = std::find_if(all.begin(), all.end(), [&](const Process& one) { return one.pid == pid; });
    return found == all.end() ? Process() : *found;
  };
  for (int i = 0; i < 1000 && find().parent != 1; ++i) usleep(10000);
  const Process process = find();
  EXPECT_EQ(process.what, "rank 5 of " + program);
  if (process.pid == pid && process.parent != 1) {
    kill(pid, SIGKILL);
    GTEST_SKIP() << "another process than number 1 inherits what is left here";
  }
  EXPECT_TRUE(process.isLeft);
  const CommandResult checked = runCommand({kHycCheck});
  kill(pid, SIGKILL);
  EXPECT_EQ(checked.status, 69) << checked.output;
  const size_t problem = checked.output.find("problem: this machine still runs ranks of an earlier run");
  ASSERT_NE(problem, std::string::npos) << checked.output;
  EXPECT_NE(checked.output.find(" " + std::to_string(pid), problem), std::string::npos) << checked.output;
}

TEST(Listener, AnswersThoseWhoKnowItsWordWhoeverElseComes) {
  hycrt::NetworkOptions options;
  options.interface = "127.0.0.0/8";
  const hycrt::Result<std::unique_ptr<Listener>> listener = Listener::open("", options);
  ASSERT_TRUE(listener.ok()) << listener.status().message();
  Meeting right = (*listener)->where(), wrong = right, nobody = right;
  right.host = "right";
  wrong.word = std::string(right.word.size(), 'x');
  int port = 0;
  // A port that was free a moment ago.
  {
    ASSERT_TRUE(hycrt::listenOn("127.0.0.1", 0, {}, &port).ok());
  }
  nobody.port = port;
  std::vector<hycrt::FileDescriptor> silent;
  for (int i = 0; i < 3; ++i) {
    hycrt::Result<hycrt::FileDescriptor> one = hycrt::reach(right.address, right.port, hycrt::monotonicMs() + 10000);
    ASSERT_TRUE(one.ok());
    silent.push_back(std::move(*one));
  }
  const std::vector<Attempt> attempts = tryAll({right, wrong}, 20);
  EXPECT_EQ(attempts[0].error, "");
  EXPECT_EQ(attempts[0].host, "right");
  EXPECT_TRUE(says(attempts[1].error, "is not that host's hyc-check")) << attempts[1].error;
  EXPECT_TRUE(says(tryAll({nobody}, 0.1)[0].error, "cannot reach 127.0.0.1:" + std::to_string(port)));
}

HostReport reportOf(const std::string& name) {
  HostReport report;
  report.host = name;
  Facts& facts = report.facts;
  facts.tool = "0123";
  facts.sets = {"avx2", "avx512f"};
  facts.cores = 8;
  facts.memory = facts.available = int64_t{64} << 30;
  facts.disks = {{"/work", int64_t{100} << 30, int64_t{200} << 30}};
  facts.descriptors = 65536;
  return report;
}

// What is found where one thing of one of three hosts is changed.
std::vector<std::string> foundWhere(const std::function<void(HostReport&)>& change) {
  Inspection inspection;
  inspection.hasHosts = true;
  for (const char* name : {"a", "b", "c"}) inspection.hosts.push_back(reportOf(name));
  change(inspection.hosts[1]);
  std::vector<std::string> texts;
  for (const Finding& finding : findingsOf(inspection)) {
    texts.push_back((finding.weight == Weight::kProblem ? "problem: " : "note: ") + finding.text);
  }
  return texts;
}

TEST(Findings, AreOneForEachThingInTheWay) {
  EXPECT_TRUE(foundWhere([](HostReport&) {}).empty());
  const std::vector<std::pair<std::function<void(HostReport&)>, std::string>> rows{
      {[](HostReport& b) { b.error = "has no hyc"; }, "problem: host 'b' has no hyc"},
      {[](HostReport& b) { b.facts.tool = "4567"; }, "problem: hyc of 'b' is another than that of 'a'"},
      {[](HostReport& b) { b.listenError = "no port"; }, "problem: host 'b' cannot be reached by ranks: no port"},
      {[](HostReport& b) {
         b.attempts = {{"c", "10.0.0.3", 4700, 0, "cannot reach 10.0.0.3:4700: Connection refused"}};
       },
       "problem: host 'c' is not reached from 'b': cannot reach 10.0.0.3:4700: Connection refused; "},
      {[](HostReport& b) { b.facts.running = {{12, 1, 60, "rank 0 of x", true}, {13, 1, 60, "rank 1 of x", true}}; },
       "problem: host 'b' still runs ranks of an earlier run, which hold memory and devices; end them: kill 12 13"},
      {[](HostReport& b) { b.facts.descriptors = 256; }, "note: host 'b' allows 256 open files"},
      {[](HostReport& b) { b.facts.disks[0].free = 5 << 20; }, "note: host 'b' has 0.0 GiB free in '/work'"},
      {[](HostReport& b) { b.facts.available = int64_t{1} << 30; }, "note: host 'b' has only 1.0 GiB of its 64.0 GiB"},
      {[](HostReport& b) { b.facts.sets = {"avx2"}; },
       "note: instruction sets differ: avx2 on 'b'; avx2 avx512f on 'a', 'c'"},
      {[](HostReport& b) { b.facts.memory = b.facts.available = int64_t{32} << 30; },
       "note: host 'b' has 32.0 GiB of memory, another 64.0 GiB"},
      {[](HostReport& b) { b.facts.cores = 4; }, "note: cores differ: 4 on 'b'; 8 on 'a', 'c'"},
      {[](HostReport& b) { b.facts.nccl = "2.28.9"; },
       "note: versions of NCCL differ: none on 'a', 'c'; 2.28.9 on 'b'"},
      {[](HostReport& b) { b.clock = -90; }, "note: host 'b' has a clock that is 90.0 s behind"}};
  for (const auto& [change, expected] : rows) {
    const std::vector<std::string> found = foundWhere(change);
    ASSERT_EQ(found.size(), 1U) << expected;
    EXPECT_EQ(found[0].substr(0, expected.size()), expected);
  }
  // A slow way says nothing of clocks.
  EXPECT_TRUE(foundWhere([](HostReport& b) { b.clock = 3, b.clockError = 5; }).empty());
}

TEST(CommandLine, IsRefusedWithWhatIsExpected) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> rows{
      {{"--ports", "9-5", "--hostfile", "x"}, "--ports: found '9-5', expected a range as in 4000-4100"},
      {{"--ssh-port", "0", "--hostfile", "x"}, "--ssh-port: found '0', expected a whole number from 1 to 65535"},
      {{"--seconds", "-1", "--hostfile", "x"}, "--seconds: found '-1', expected a number from 0.1 to 600"},
      {{"--interface", "eth0"}, "--interface is given without hosts; name them with --hostfile FILE"},
      {{"--hostfiles", "x"}, "unknown option '--hostfiles'; the nearest is '--hostfile'"},
      {{"--hostfile", ""}, "--hostfile: found '', expected a value"},
      {{"--seconds", "", "--hostfile", "x"}, "--seconds: found '', expected a value"},
      {{"--agent"}, "--agent is for hyc-check itself"}};
  for (const auto& [words, expected] : rows) {
    std::vector<std::string> command{kHycCheck};
    command.insert(command.end(), words.begin(), words.end());
    const CommandResult result = runCommand(command);
    EXPECT_EQ(result.status, 64) << expected;
    EXPECT_TRUE(says(result.errors, expected)) << result.errors;
    EXPECT_EQ(result.output, "");
  }
  EXPECT_EQ(runCommand({kHycCheck, "--hostfile", "/nowhere"}).status, 74);
  EXPECT_EQ(runCommand({"/bin/sh", "-c", kHycCheck + " --json > /dev/full"}).status, 74);
}

// Alone, with no compiler in sight.
TEST(Missing, ToolsAreNamed) {
  TemporaryFolder folder;
  fs::copy_file(kHycCheck, folder / "hyc-check");
  const CommandResult result = runCommand({folder / "hyc-check"}, {{"PATH", folder.path()}});
  EXPECT_EQ(result.status, 69);
  EXPECT_TRUE(says(result.output, "\nhyc-compile     not found\n")) << result.output;
  EXPECT_TRUE(says(result.output, "\nC++ compiler    none\n")) << result.output;
  EXPECT_TRUE(says(result.output, "trains on CPUs: no: see what is missing above\n")) << result.output;
}

TEST(Json, HasEverything) {
  const CommandResult result = runCommand({kHycCheck, "--json"});
  const json told = json::parse(result.output);
  EXPECT_EQ(told.at("hosts").size(), 1U);
  EXPECT_TRUE(factsFrom(told.at("hosts")[0].at("facts")).ok());
  const json& tools = told.at("tools");
  const bool able = told.at("problems").empty() && tools.at("hyc-compile") != "" && tools.at("hyc-run") != "" &&
                    tools.at("openmp_threads") > 0;
  EXPECT_EQ(result.status, able ? 0 : 69) << result.output;
}

}  // namespace
