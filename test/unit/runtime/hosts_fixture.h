// Fixtures of runs whose ranks stand on several hosts: namespaces that the tests make. Where they cannot be made the
// tests are skipped, and say why.
#ifndef HYC_TEST_RUNTIME_HOSTS_FIXTURE_H_
#define HYC_TEST_RUNTIME_HOSTS_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "compiled_folder.h"
#include "host_namespaces.h"
#include "hycrt/step_report.h"
#include "run_command.h"

#define EXPECT_CONTAINS(text, part) EXPECT_THAT(text, testing::HasSubstr(part))

inline constexpr Layout kEight{2, 2, 2};
inline constexpr int kPort = 4600;

inline std::vector<double> lossesOf(const std::string& log) {
  std::vector<double> losses;
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);) {
    if (hycrt::Result<hycrt::StepRecord> record = hycrt::parseStepRecord(line); record.ok()) {
      losses.push_back(record->loss);
    }
  }
  return losses;
}

class Hosts : public testing::Test {
 protected:
  void SetUp() override {
    token_ = folder_.files().write("token", "0123456789abcdef0123456789abcdef\n");
    chmod(token_.c_str(), 0600);
  }
  // False: the test is skipped.
  bool make(int hosts) {
    namespaces_ = std::make_unique<HostNamespaces>(hosts);
    return namespaces_->missing().empty();
  }
  int hostOf(int rank) const { return placeInTurn_ ? rank % (kEight.ranks() / ranksHere_) : rank / ranksHere_; }
  int localRank(int rank) const { return placeInTurn_ ? rank / (kEight.ranks() / ranksHere_) : rank % ranksHere_; }

  // As any launcher that sets variables alone.
  void start(int hosts, const std::vector<std::string>& options, const Environment& more = {}) {
    ranksHere_ = kEight.ranks() / hosts;
    for (int rank = 0; rank < kEight.ranks(); ++rank) startRank(rank, options, more);
  }
  void startRank(int rank, const std::vector<std::string>& options, const Environment& more = {}) {
    Environment environment{{"RANK", std::to_string(rank)},
                            {"WORLD_SIZE", std::to_string(kEight.ranks())},
                            {"LOCAL_RANK", std::to_string(localRank(rank))},
                            {"LOCAL_WORLD_SIZE", std::to_string(ranksHere_)},
                            {"MASTER_ADDR", namespaces_->addressOf(0)},
                            {"MASTER_PORT", std::to_string(kPort)},
                            {"HYC_TOKEN_FILE", token_}};
    environment.insert(environment.end(), more.begin(), more.end());
    std::vector<std::string> words = namespaces_->on(hostOf(rank));
    words.insert(words.end(), {folder_ / ("bin/stage" + std::to_string(rank / kEight.tp / kEight.dp)), "--out",
                               folder_.path(), "--threads", "1", "--data", folder_ / "text", "--seed", "3"});
    words.insert(words.end(), options.begin(), options.end());
    ranks_.push_back(std::make_unique<RunningCommand>(words, environment));
  }
  std::vector<CommandResult> finish() {
    std::vector<CommandResult> results;
    for (const auto& rank : ranks_) results.push_back(rank->finish());
    ranks_.clear();
    return results;
  }
  void awaitFirstStep(const std::string& log) {
    for (int i = 0; i < 3000 && lossesOf(log).empty(); ++i) usleep(10000);
    ASSERT_FALSE(lossesOf(log).empty());
  }
  std::vector<double> lossesOnOneHost() {
    const std::string log = folder_ / "one";
    EXPECT_EQ(runCommand(folder_.command({"--steps", "20", "--log-file", log})).status, 0);
    return lossesOf(log);
  }
  // Of all that end because of another: one line each, which names it.
  static std::string saidByAll(const std::vector<CommandResult>& results) {
    std::string said;
    for (const CommandResult& result : results) said += result.errors;
    return said;
  }

  CompiledFolder folder_{kEight};
  std::string token_;
  std::unique_ptr<HostNamespaces> namespaces_;
  std::vector<std::unique_ptr<RunningCommand>> ranks_;
  int ranksHere_ = 8;
  bool placeInTurn_ = false;  // rank 0 on the first host, rank 1 on the second, …
};

#define MAKE_HOSTS(count) \
  if (!make(count)) GTEST_SKIP() << namespaces_->missing()

// Under hyc-run, which reaches the hosts by ssh.
class HostsBySsh : public Hosts {
 protected:
  // False: the test is skipped.
  bool makeWithSsh(int hosts) {
    if (access("/usr/sbin/sshd", X_OK) != 0 || !make(hosts)) return false;
    const std::string keys = folder_ / "ssh";
    const CommandResult made =
        runCommand({"/bin/sh", "-c",
                    "mkdir " + keys + " && for k in host user; do ssh-keygen -q -t ed25519 -N '' -f " + keys +
                        "/$k || exit 1; done"});
    EXPECT_EQ(made.status, 0) << made.errors;
    folder_.files().write("sshd_config", "Port 2222\nHostKey " + keys + "/host\nAuthorizedKeysFile " + keys +
                                             "/user.pub\nStrictModes no\nUsePAM no\nPidFile none\n"
                                             "PermitRootLogin yes\n");
    folder_.files().write("ssh_config", "Host *\n  IdentityFile " + keys +
                                            "/user\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  "
                                            "LogLevel ERROR\n");
    std::string hostfile = "# as DeepSpeed has it\n";
    for (int host = 0; host < hosts; ++host) {
      std::vector<std::string> words = namespaces_->on(host);
      words.insert(words.end(),
                   {"/bin/sh", "-c",
                    "mount -t tmpfs none /run && mkdir /run/sshd && mount --bind " + (folder_ / "ssh_config") +
                        " /etc/ssh/ssh_config && exec /usr/sbin/sshd -D -e -f " + (folder_ / "sshd_config")});
      servers_.push_back(std::make_unique<RunningCommand>(words));
      hostfile += namespaces_->addressOf(host) + " slots=" + std::to_string(8 / hosts) + "\n";
    }
    folder_.files().write("hosts", hostfile);
    for (int host = 0; host < hosts; ++host) awaitServer(host);
    return true;
  }
  void awaitServer(int host) const {
    std::vector<std::string> words = namespaces_->on(host);
    const std::string address = namespaces_->addressOf(host);
    words.insert(words.end(), {"/bin/bash", "-c",
                               "for i in $(seq 200); do (exec 3<>/dev/tcp/" + address +
                                   "/2222) 2>/dev/null && exit 0; sleep 0.05; done; exit 1"});
    EXPECT_EQ(runCommand(words).status, 0) << "sshd does not listen";
  }
  std::vector<std::string> command(const std::vector<std::string>& more) const {
    std::vector<std::string> words = namespaces_->on(0);
    for (const std::string& word : folder_.command({"--hostfile", folder_ / "hosts", "--ssh-port", "2222"})) {
      words.push_back(word);
    }
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Of the ranks, on whichever host.
  std::vector<pid_t> processes() const {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "cmdline");
      std::string words((std::istreambuf_iterator<char>(file)), {});
      if (words.compare(0, (folder_ / "bin/").size(), folder_ / "bin/") == 0) {
        found.push_back(std::stoi(entry.path().filename()));
      }
    }
    return found;
  }
  static std::string networkOf(const std::string& process) {
    std::error_code ignored;
    return std::filesystem::read_symlink("/proc/" + process + "/ns/net", ignored).string();
  }
  // One that lives there as long as the host does: its sshd that listens. (Its children are sessions, which end.)
  pid_t hostProcess(size_t host) const { return servers_[host]->pid(); }
  // All of a host's sshd, so that it cannot be reached any more.
  void endServersOf(size_t host) const {
    const std::string network = networkOf(std::to_string(hostProcess(host)));
    ASSERT_NE(network, "");
    ASSERT_NE(network, networkOf("self"));
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string process = entry.path().filename();
      if (process.find_first_not_of("0123456789") != std::string::npos || networkOf(process) != network) continue;
      std::ifstream file(entry.path() / "comm");
      std::string name;
      std::getline(file, name);
      if (name.rfind("sshd", 0) == 0) kill(std::stoi(process), SIGKILL);
    }
  }
  void expectNoneLeft() const {
    for (int i = 0; i < 3000 && !processes().empty(); ++i) usleep(10000);
    EXPECT_TRUE(processes().empty());
  }

  std::vector<std::unique_ptr<RunningCommand>> servers_;
};

#define MAKE_HOSTS_WITH_SSH(count) \
  if (!makeWithSsh(count)) GTEST_SKIP() << (namespaces_ ? namespaces_->missing() : "there is no /usr/sbin/sshd")

#endif  // HYC_TEST_RUNTIME_HOSTS_FIXTURE_H_
