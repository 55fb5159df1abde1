// Ranks that nobody has told where rank 0 is: under MPICH's and Open MPI's launchers, which are asked by PMI and PMIx,
// and beside the store of torch that an agent of torchrun keeps. Each of them is the real one, where it is installed.
#include "comm/launch/hub_address.h"
#include "comm/launch/torch_store.h"
#include "comm/tcp/addresses.h"
#include "hosts_fixture.h"
#include "test/Places.h"

namespace {

class Boards : public Hosts {
 protected:
  // A command that is called as ssh, and enters a host.
  std::string makeEntry() const {
    std::string script = "#!/bin/bash\nwhile [[ $1 = -* ]]; do shift; done\ncase $1 in\n";
    for (int host = 0; host < 2; ++host) {
      std::string words;
      for (const std::string& word : namespaces_->on(host)) words += word + " ";
      script += namespaces_->addressOf(host) + ") enter='" + words + "' ;;\n";
    }
    const std::string path =
        folder_.files().write("enter", script + "*) exit 255 ;;\nesac\nshift\nexec $enter /bin/sh -c \"$*\"\n");
    chmod(path.c_str(), 0700);
    return path;
  }
  std::vector<std::string> asRanks() const {
    return {kHycRun,   folder_.path(), "--as-rank",  "--threads",    "1", "--data", folder_ / "text", "--seed", "3",
            "--steps", "20",           "--log-file", folder_ / "log"};
  }
  void expectLosses(std::vector<std::string> words, const std::vector<double>& expected, const Environment& more = {}) {
    for (const std::string& word : asRanks()) words.push_back(word);
    std::filesystem::remove(folder_ / "log");
    const CommandResult result = runCommand(words, more);
    EXPECT_EQ(result.status, 0) << result.output << result.errors;
    EXPECT_EQ(lossesOf(folder_ / "log"), expected);
  }
};

#define SKIP_WITHOUT(file) \
  if (access(file, F_OK) != 0) GTEST_SKIP() << "there is no " << file

TEST_F(Boards, OfMpichTellWhereRankZeroIs) {
  constexpr char kMpiexec[] = "/usr/bin/mpiexec.hydra";
  SKIP_WITHOUT(kMpiexec);
  const std::vector<double> expected = lossesOnOneHost();
  expectLosses({kMpiexec, "-n", "8"}, expected);
  MAKE_HOSTS(2);
  std::vector<std::string> words = namespaces_->on(0);
  const std::string hosts = namespaces_->addressOf(0) + ":4," + namespaces_->addressOf(1) + ":4";
  words.insert(words.end(), {kMpiexec, "-hosts", hosts, "-iface", "eth0", "-launcher", "ssh", "-launcher-exec",
                             makeEntry(), "-n", "8"});
  expectLosses(words, expected, {{"HYC_TOKEN_FILE", token_}});
}

TEST_F(Boards, OfOpenMpiTellWhereRankZeroIs) {
  constexpr char kMpirun[] = "/usr/bin/mpirun.openmpi";
  SKIP_WITHOUT(kMpirun);
  SKIP_WITHOUT("/usr/lib/x86_64-linux-gnu/libpmix.so.2");
  const std::vector<double> expected = lossesOnOneHost();
  const std::vector<std::string> flags{"--allow-run-as-root", "--bind-to", "none", "-n", "8"};
  std::vector<std::string> words{kMpirun, "--oversubscribe"};
  words.insert(words.end(), flags.begin(), flags.end());
  expectLosses(words, expected);
  MAKE_HOSTS(2);
  words = namespaces_->on(0);
  const std::string hosts = namespaces_->addressOf(0) + ":4," + namespaces_->addressOf(1) + ":4";
  words.insert(words.end(), {kMpirun, "--host", hosts, "--mca", "plm_rsh_agent", makeEntry(), "--mca",
                             "oob_tcp_if_include", "eth0", "-x", "HYC_TOKEN_FILE"});
  words.insert(words.end(), flags.begin(), flags.end());
  expectLosses(words, expected, {{"HYC_TOKEN_FILE", token_}});
}

// The agent that keeps the store is not where rank 0 is, as where torchrun's endpoint is the host of another agent.
TEST_F(Boards, OfTorchTellWhereRankZeroIs) {
  const std::string python = hyc::places::python();
  if (runCommand({"/usr/bin/env", python, "-c", "import torch.distributed"}).status != 0) {
    GTEST_SKIP() << python << " has no torch";
  }
  const std::vector<double> expected = lossesOnOneHost();
  MAKE_HOSTS(2);
  for (const char* server : {"True", "False"}) {
    std::vector<std::string> words = namespaces_->on(1);
    words.insert(words.end(), {"/usr/bin/env", python, "-c",
                               "import datetime, sys, time; from torch.distributed import TCPStore\n"
                               "store = TCPStore('" +
                                   namespaces_->addressOf(1) +
                                   "', 4713, None, True, "
                                   "datetime.timedelta(seconds=60), wait_for_workers=False, use_libuv=" +
                                   server +
                                   ")\n"
                                   "open('" +
                                   (folder_ / "ready") + "', 'w').close(); time.sleep(60)"});
    std::filesystem::remove(folder_ / "ready");
    std::filesystem::remove(folder_ / "log");
    RunningCommand agent(words);
    for (int i = 0; i < 6000 && !std::filesystem::exists(folder_ / "ready"); ++i) usleep(10000);
    start(2, {"--steps", "20", "--log-file", folder_ / "log"},
          {{"MASTER_ADDR", namespaces_->addressOf(1)},
           {"MASTER_PORT", "4713"},
           {"TORCHELASTIC_USE_AGENT_STORE", "True"},
           {"TORCHELASTIC_RUN_ID", "run"},
           {"TORCHELASTIC_RESTART_COUNT", "0"}});
    for (const CommandResult& result : finish()) EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(lossesOf(folder_ / "log"), expected) << server;
  }
}

// Who answers there and does not speak torch's language: then the port beside it is taken, at the agent's host.
TEST_F(Boards, ThatAreNoneAreDoneWithout) {
  MAKE_HOSTS(2);
  std::vector<std::string> words = namespaces_->on(0);
  words.insert(words.end(),
               {"/usr/bin/env", "python3", "-m", "http.server", "4713", "--bind", namespaces_->addressOf(0)});
  RunningCommand other(words);
  start(2, {"--steps", "3", "--log-file", folder_ / "log"},
        {{"MASTER_PORT", "4713"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RUN_ID", "run"}});
  for (const CommandResult& result : finish()) EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(lossesOf(folder_ / "log").size(), 3u);
}

TEST(AnAddress, IsOneThatAllCanReach) {
  using hycrt::chooseAddress;
  EXPECT_EQ(chooseAddress({"10.0.0.1/24,192.168.7.1/16"}), "10.0.0.1");
  EXPECT_EQ(chooseAddress({"172.17.0.1/16,10.0.0.1/24", "172.18.0.1/16,10.0.0.2/24"}), "10.0.0.1");
  EXPECT_EQ(chooseAddress({"172.17.0.1/16,10.0.0.1/24", "192.168.1.1/24"}), "172.17.0.1") << "of none the first";
  EXPECT_EQ(chooseAddress({"10.0.0.1", "10.9.0.2"}), "10.0.0.1") << "as --interface has named them";
  EXPECT_EQ(chooseAddress({"fd00::1/64,10.0.0.1/8", "fd00::2/64,11.0.0.1/8"}), "fd00::1");
  EXPECT_EQ(chooseAddress({""}), "");
  EXPECT_EQ(chooseAddress({}), "");
}

}  // namespace
