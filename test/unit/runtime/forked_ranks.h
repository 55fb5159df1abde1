// Ranks as forked processes: each runs the same function with its own environment, and hands its Status back.
#ifndef HYC_TEST_RUNTIME_FORKED_RANKS_H_
#define HYC_TEST_RUNTIME_FORKED_RANKS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/table_of.h"
#include "comm/host_exchanger.h"
#include "hycrt/context.h"
#include "io/block_file.h"
#include "memory/rank_memory.h"

// How a forked rank ended. A crash is a signal; otherwise the Status that its function returned.
struct RankOutcome {
  int signal = 0;
  hycrt::StatusCode code = hycrt::StatusCode::kOk;
  std::string message;
  double seconds = 0;  // from the start of all
};

using RankFunction = std::function<hycrt::Status(const hycrt::Environment&)>;

// Runs ranks 0 … count - 1 with a private meeting point and waits for all; kills what is left after 60 s.
std::vector<RankOutcome> runRanks(int count, const RankFunction& function);

// Ends the calling rank at once, on any of its threads, with this outcome.
[[noreturn]] void endRank(const hycrt::Status& status);

// A meeting point that no other test uses.
std::string uniqueSocketName();

// The memory of a rank, and its exchanges with others by way of the host.
struct HostSide {
  struct Options {
    void (*greet)(std::byte*) = nullptr;
    // What is used in place of the transport that a run would use.
    std::unique_ptr<hycrt::Transport> (*wrap)(std::unique_ptr<hycrt::Transport>, int rank) = nullptr;
    int64_t patienceMs = hycrt::kDefaultPatienceMs;
    hycrt::NetworkOptions network = {};
  };
  // Collectives have a thread of their own where HYC_TEST_COMMUNICATION_THREAD is set.
  static hycrt::Result<std::unique_ptr<HostSide>> connect(const hycrt::Program& program,
                                                          const hycrt::Environment& environment,
                                                          const Options& options);

  hycrt::ChannelPlans plans;
  std::string catalog;
  std::unique_ptr<hycrt::RankMemory> memory;
  std::unique_ptr<hycrt::HostExchanger> exchanger;
};

// A rank that is connected: what a generated function is given.
class ConnectedRank {
 public:
  static hycrt::Result<std::unique_ptr<ConnectedRank>> connect(const hycrt::Program& program,
                                                               const hycrt::Environment& environment,
                                                               const std::string& nvmePath = "");
  hycrt::Context& context() { return *context_; }
  hycrt::HostExchanger& exchanger() { return *host_->exchanger; }

 private:
  std::unique_ptr<HostSide> host_;
  std::unique_ptr<hycrt::BlockFile> file_;
  std::unique_ptr<hycrt::Context> context_;
};

using hycrt::tableOf;

#endif  // HYC_TEST_RUNTIME_FORKED_RANKS_H_
