// Forking ranks and collecting what each of them came to.
#include "forked_ranks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include "claimed_port.h"
#include "comm/channels.h"
#include "comm/shm/sockets.h"
#include "comm/transport.h"
#include "io/offload_file.h"
#include "run/state_file.h"

namespace {

using hycrt::Environment;
using hycrt::Status;
using hycrt::StatusCode;

constexpr int64_t kPatienceMs = 60000;

int outcomePipe = -1;  // of a rank

struct Child {
  pid_t pid = -1;
  int pipe = -1;
};

Child startRank(const Environment& environment, const RankFunction& function) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    outcomePipe = ends[1];
    endRank(function(environment));
  }
  close(ends[1]);
  return {pid, ends[0]};
}

std::string readAll(int fd) {
  std::string text;
  char chunk[4096];
  for (ssize_t count; (count = read(fd, chunk, sizeof chunk)) > 0;) text.append(chunk, static_cast<size_t>(count));
  close(fd);
  return text;
}

}  // namespace

void endRank(const Status& status) {
  const ssize_t written = write(outcomePipe, status.message().data(), status.message().size());
  _exit(written < 0 ? 1 : status.exitCode());
}

std::string uniqueSocketName() {
  static int counter = 0;
  return "hyc-test-" + std::to_string(getpid()) + "-" + std::to_string(counter++);
}

std::vector<RankOutcome> runRanks(int count, const RankFunction& function) {
  const std::string socketName = uniqueSocketName();
  // In turns: a claim lasts as long as the process, and costs a descriptor.
  static std::array<int, 16> ports{};
  static size_t turn = 0;
  int& port = ports[turn++ % ports.size()];
  if (port == 0) port = claimPort();
  const int64_t begin = hycrt::monotonicMs();
  std::vector<Child> children;
  for (int rank = 0; rank < count; ++rank) {
    Environment environment;
    environment.rank = environment.localRank = rank;
    environment.ranksHere = environment.worldSize = count;
    environment.socketName = environment.job = socketName;
    environment.token = "a token of this test, and of no other";
    environment.masterAddress = "127.0.0.1";
    environment.port = port;
    children.push_back(startRank(environment, function));
  }
  std::vector<RankOutcome> outcomes(children.size());
  size_t left = children.size();
  bool killed = false;
  while (left > 0) {
    for (size_t i = 0; i < children.size(); ++i) {
      int status = 0;
      if (children[i].pid < 0 || waitpid(children[i].pid, &status, WNOHANG) <= 0) continue;
      children[i].pid = -1;
      --left;
      outcomes[i].seconds = static_cast<double>(hycrt::monotonicMs() - begin) / 1e3;
      if (WIFSIGNALED(status)) outcomes[i].signal = WTERMSIG(status);
      if (WIFEXITED(status)) outcomes[i].code = static_cast<StatusCode>(WEXITSTATUS(status));
      outcomes[i].message = readAll(children[i].pipe);
    }
    if (!killed && hycrt::monotonicMs() - begin > kPatienceMs) {
      for (const Child& child : children) {
        if (child.pid > 0) kill(child.pid, SIGKILL);
      }
      killed = true;
    }
    usleep(1000);
  }
  return outcomes;
}

hycrt::Result<std::unique_ptr<HostSide>> HostSide::connect(const hycrt::Program& program,
                                                           const Environment& environment, const Options& options) {
  auto side = std::make_unique<HostSide>();
  side->plans = hycrt::planChannels(program, hycrt::coordinatesOf(program.mesh, environment.rank));
  side->catalog = hycrt::catalogOf(program);
  const hycrt::TransportSetup setup{program,       environment, side->plans,    side->catalog,
                                    options.greet, {},          options.network};
  hycrt::Result<const hycrt::TransportKind*> kind = hycrt::transportFor(environment, options.network);
  if (!kind.ok()) return kind.status();
  hycrt::Result<hycrt::RankMemory> memory = hycrt::RankMemory::allocate(program, {(*kind)->headBytes(setup), true});
  if (!memory.ok()) return memory.status();
  side->memory = std::make_unique<hycrt::RankMemory>(std::move(*memory));
  hycrt::Result<std::unique_ptr<hycrt::Transport>> transport = (*kind)->connect(setup, *side->memory);
  if (!transport.ok()) return transport.status();
  if (options.wrap) *transport = options.wrap(std::move(*transport), environment.rank);
  hycrt::Result<std::unique_ptr<hycrt::HostExchanger>> exchanger = hycrt::HostExchanger::create(
      setup, side->memory->arenas(), std::move(*transport),
      {std::getenv("HYC_TEST_COMMUNICATION_THREAD") != nullptr, nullptr, {options.patienceMs}});
  if (!exchanger.ok()) return exchanger.status();
  side->exchanger = std::move(*exchanger);
  return side;
}

hycrt::Result<std::unique_ptr<ConnectedRank>> ConnectedRank::connect(const hycrt::Program& program,
                                                                     const Environment& environment,
                                                                     const std::string& nvmePath) {
  auto rank = std::make_unique<ConnectedRank>();
  hycrt::Result<std::unique_ptr<hycrt::BlockFile>> file = hycrt::openOffloadFile(program, environment.rank, nvmePath);
  if (!file.ok()) return file.status();
  rank->file_ = std::move(*file);
  hycrt::Result<std::unique_ptr<HostSide>> host = HostSide::connect(program, environment, {});
  if (!host.ok()) return host.status();
  rank->host_ = std::move(*host);
  rank->context_ =
      std::make_unique<hycrt::Context>(program, hycrt::coordinatesOf(program.mesh, environment.rank),
                                       rank->host_->memory->arenas(), rank->host_->exchanger.get(), rank->file_.get());
  return rank;
}
