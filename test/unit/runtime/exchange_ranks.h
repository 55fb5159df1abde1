// Forked ranks that exchange by one of the runtime's ways: what a suite that runs over all of them needs.
//
// Tensors are put into arenas and read back by put() and get(), wherever the arenas are; everything between is what
// generated code calls.
#ifndef HYC_TEST_RUNTIME_EXCHANGE_RANKS_H_
#define HYC_TEST_RUNTIME_EXCHANGE_RANKS_H_

#include <memory>
#include <string>
#include <vector>

#include "base/environment.h"
#include "comm/exchanger.h"
#include "forked_ranks.h"
#include "hycrt/accelerator.h"
#include "hycrt/context.h"

// Whether ranks exchange as those of several hosts do.
enum class Network { kNone, kEncrypted, kPlain, kUcx };

// A way to exchange, and what of the contract is not asked of it.
struct Implementation {
  const char* name;
  bool onDevice;
  hycrt::DeviceComm comm;
  // Ranks that disagree about an exchange are told of both sides. Of NCCL, a rank that is not there is all that can be
  // told: what its ranks disagree about happens on the device.
  bool comparesCalls;
  // By a transport that maps no other rank's memory: every byte is pulled.
  bool pulls = false;
  Network network = Network::kNone;
  int ranksTogether = 1;  // as if so many stood on each host
  int sockets = 1;
};

const std::vector<Implementation>& implementations();

class ExchangeRank {
 public:
  // `program` needs no architectures: it is taken to be compiled for the device that is there.
  static hycrt::Result<std::unique_ptr<ExchangeRank>> connect(const Implementation& implementation,
                                                              hycrt::Program* program,
                                                              const hycrt::Environment& environment,
                                                              int64_t patienceMs = hycrt::kDefaultPatienceMs);
  ~ExchangeRank();

  hycrt::Context& context() { return *context_; }
  hycrt::Exchanger& exchanger() { return *exchanger_; }

  hycrt::Status put(hycrt::BufferRef to, const void* from, int64_t bytes);
  hycrt::Status get(hycrt::BufferRef from, void* to, int64_t bytes);
  // All that was started is over, here and on the others.
  hycrt::Status meet();

 private:
  std::unique_ptr<HostSide> host_;
  std::unique_ptr<hycrt::Accelerator> accelerator_;
  std::unique_ptr<hycrt::Exchanger> staged_;
  hycrt::Exchanger* exchanger_ = nullptr;
  std::unique_ptr<hycrt::Context> context_;
};

#endif  // HYC_TEST_RUNTIME_EXCHANGE_RANKS_H_
