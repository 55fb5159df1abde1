// How a rank of the conformance suite is set up, by each way to exchange.
#include "exchange_ranks.h"

#include <cstdlib>
#include <cstring>

#include "comm/channels.h"
#include "comm/device_collectives.h"
#include "forked_ranks.h"

using namespace hycrt;

namespace {
constexpr int kArchitectures[] = {90};  // the emulated device's
}

const std::vector<Implementation>& implementations() {
  static const std::vector<Implementation> all{
      {"host", false, DeviceComm::kAuto, true},
      {"staged", true, DeviceComm::kStaged, true},
      {"nccl", true, DeviceComm::kNccl, false},
  };
  return all;
}

Result<std::unique_ptr<ExchangeRank>> ExchangeRank::connect(const Implementation& implementation, Program* program,
                                                            const Environment& environment) {
  auto rank = std::make_unique<ExchangeRank>();
  const Coordinates at = coordinatesOf(program->mesh, environment.rank);
  if (implementation.onDevice) {
    setenv("HYC_EMULATION_DEVICES", std::to_string(environment.worldSize).c_str(), 1);
    program->architectures = kArchitectures;
    rank->accelerator_ = makeCudaDevice();
    HYCRT_RETURN_IF_ERROR(rank->accelerator_->probe());
    HYCRT_RETURN_IF_ERROR(
        rank->accelerator_->open(*program, {environment.localRank, environment.worldSize, implementation.comm, false}));
  }
  DeviceCollectives* const collectives = rank->accelerator_ ? rank->accelerator_->collectives() : nullptr;
  RankMemoryOptions options;
  if (collectives) options.greet = collectives->greeter();
  ChannelPlans plans = planChannels(*program, at);
  Result<RankMemory> memory = RankMemory::allocate(*program, at, plans, "", options);
  if (!memory.ok()) return memory.status();
  rank->memory_ = std::make_unique<RankMemory>(std::move(*memory));
  if (rank->accelerator_) {
    HYCRT_RETURN_IF_ERROR(rank->accelerator_->allocate(*program, rank->memory_->arenas(), !collectives, nullptr));
  }
  Result<std::unique_ptr<Communicator>> communicator =
      Communicator::connect(*program, environment, *rank->memory_, std::move(plans),
                            {std::getenv("HYC_TEST_COMMUNICATION_THREAD") != nullptr, nullptr});
  if (!communicator.ok()) return communicator.status();
  rank->communicator_ = std::move(*communicator);
  if (collectives) {
    HYCRT_RETURN_IF_ERROR(collectives->connect(*program, *rank->communicator_, environment.rank,
                                               [](const Status& status) { endRank(status); }));
  }
  rank->context_ = std::make_unique<Context>(*program, at, rank->memory_->arenas(), rank->communicator_.get(), nullptr,
                                             rank->accelerator_.get());
  return rank;
}

ExchangeRank::~ExchangeRank() = default;

Status ExchangeRank::put(BufferRef to, const void* from, int64_t bytes) {
  std::memcpy(context_->ptr<std::byte>(to), from, static_cast<size_t>(bytes));
  return accelerator_ ? accelerator_->upload(to, bytes) : Status();
}

Status ExchangeRank::get(BufferRef from, void* to, int64_t bytes) {
  HYCRT_RETURN_IF_ERROR(context_->status());
  if (accelerator_) {
    HYCRT_RETURN_IF_ERROR(accelerator_->copyToHost(from, bytes));
    HYCRT_RETURN_IF_ERROR(accelerator_->finish());
  }
  std::memcpy(to, context_->ptr<std::byte>(from), static_cast<size_t>(bytes));
  return {};
}

Status ExchangeRank::end() {
  HYCRT_RETURN_IF_ERROR(context_->status());
  if (accelerator_) HYCRT_RETURN_IF_ERROR(accelerator_->finish());
  if (accelerator_ && accelerator_->collectives()) accelerator_->collectives()->endWatch();
  return communicator_->barrier();
}
