// How a rank of the conformance suite is set up, by each way to exchange.
#include "exchange_ranks.h"

#include <cstdlib>
#include <cstring>

#include "comm/device_exchanger.h"
#include "comm/staged_exchanger.h"
#include "passing_transport.h"

using namespace hycrt;

namespace {

constexpr int kArchitectures[] = {90};  // the emulated device's

// Shared memory, as if peers' arenas could not be mapped.
class Pulling : public PassingTransport {
 public:
  Pulling(std::unique_ptr<Transport> inner, int self) : PassingTransport(std::move(inner)), self_(self) {}
  Bytes find(int rank, int arena, int64_t offset, int64_t bytes) const override {
    Bytes found = inner_->find(rank, arena, offset, bytes);
    if (rank != self_) found.address = nullptr;
    return found;
  }

 private:
  const int self_;
};

std::unique_ptr<Transport> wrapPulling(std::unique_ptr<Transport> inner, int rank) {
  return std::make_unique<Pulling>(std::move(inner), rank);
}

}  // namespace

const std::vector<Implementation>& implementations() {
  static const std::vector<Implementation> all{
      {"host", false, DeviceComm::kAuto, true},
      {"pulled", false, DeviceComm::kAuto, true, true},
      {"tcp", false, DeviceComm::kAuto, true, false, Network::kEncrypted},
      {"tcpInTheClear", false, DeviceComm::kAuto, true, false, Network::kPlain},
      {"tcpOfTwo", false, DeviceComm::kAuto, true, false, Network::kPlain, 2},
      {"tcpOfThreeSockets", false, DeviceComm::kAuto, true, false, Network::kEncrypted, 1, 3},
      {"tcpOfTwoInTheClearByTwoSockets", false, DeviceComm::kAuto, true, false, Network::kPlain, 2, 2},
      {"ucx", false, DeviceComm::kAuto, true, false, Network::kUcx},
      {"staged", true, DeviceComm::kStaged, true},
      {"nccl", true, DeviceComm::kNccl, false},
  };
  return all;
}

Result<std::unique_ptr<ExchangeRank>> ExchangeRank::connect(const Implementation& implementation, Program* program,
                                                            const Environment& environment, int64_t patienceMs) {
  auto rank = std::make_unique<ExchangeRank>();
  if (implementation.onDevice) {
    setenv("HYC_EMULATION_DEVICES", std::to_string(environment.ranksHere).c_str(), 1);
    program->architectures = kArchitectures;
    rank->accelerator_ = makeCudaDevice();
    HYCRT_RETURN_IF_ERROR(rank->accelerator_->probe());
    HYCRT_RETURN_IF_ERROR(
        rank->accelerator_->open(*program, {environment.localRank, environment, implementation.comm, false}));
  }
  Accelerator* const device = rank->accelerator_.get();
  DeviceExchanger* const byDevice = device ? device->exchanger() : nullptr;
  NetworkOptions network;
  network.ranksTogether = implementation.network == Network::kNone ? 0 : implementation.ranksTogether;
  network.plaintext = implementation.network == Network::kPlain;
  network.byUcx = implementation.network == Network::kUcx;
  network.sockets = implementation.sockets;
  network.timeoutMs = patienceMs;
  Result<std::unique_ptr<HostSide>> host = HostSide::connect(
      *program, environment,
      {byDevice ? byDevice->greeter() : nullptr, implementation.pulls ? wrapPulling : nullptr, patienceMs, network});
  if (!host.ok()) return host.status();
  rank->host_ = std::move(*host);
  rank->exchanger_ = rank->host_->exchanger.get();
  std::byte* const* const arenas = rank->host_->memory->arenas();
  if (device) HYCRT_RETURN_IF_ERROR(device->allocate(*program, arenas, !byDevice, nullptr));
  if (byDevice) {
    rank->exchanger_ = byDevice;
    HYCRT_RETURN_IF_ERROR(
        byDevice->connect(*program, *rank->host_->exchanger, *device, [](const Status& status) { endRank(status); }));
  } else if (device) {
    rank->staged_ = std::make_unique<StagedExchanger>(*program, environment.rank, *rank->host_->exchanger, *device);
    rank->exchanger_ = rank->staged_.get();
  }
  rank->context_ = std::make_unique<Context>(*program, coordinatesOf(program->mesh, environment.rank), arenas,
                                             rank->exchanger_, nullptr, device);
  return rank;
}

ExchangeRank::~ExchangeRank() = default;

Status ExchangeRank::put(BufferRef to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(context_->ptr<std::byte>(to), from, static_cast<size_t>(bytes));
  return accelerator_ ? accelerator_->upload(to, bytes) : Status();
}

Status ExchangeRank::get(BufferRef from, void* to, int64_t bytes) {
  HYCRT_RETURN_IF_ERROR(context_->status());
  if (accelerator_) {
    HYCRT_RETURN_IF_ERROR(accelerator_->copyToHost(from, bytes));
    HYCRT_RETURN_IF_ERROR(accelerator_->finish());
  }
  if (bytes > 0) std::memcpy(to, context_->ptr<std::byte>(from), static_cast<size_t>(bytes));
  return {};
}

Status ExchangeRank::meet() {
  HYCRT_RETURN_IF_ERROR(context_->status());
  if (accelerator_) HYCRT_RETURN_IF_ERROR(accelerator_->finish());
  return exchanger_->barrier();
}
