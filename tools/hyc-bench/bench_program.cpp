// Groups by host, and pairs of stages.
#include "bench_program.h"

#include "base/table_of.h"

namespace hycbench {
namespace {

using hycrt::CollectiveKind;
using hycrt::Direction;
using hycrt::tableOf;

constexpr hycrt::Axis kPlace{0};

struct Exchange {
  CollectiveKind kind;
  const char *withinHosts, *betweenHosts;
};
constexpr Exchange kExchanges[] = {
    {CollectiveKind::kAllReduce, "all_reduce within hosts", "all_reduce between hosts"},
    {CollectiveKind::kAllGather, "all_gather within hosts", "all_gather between hosts"},
    {CollectiveKind::kReduceScatter, "reduce_scatter within hosts", "reduce_scatter between hosts"}};

}  // namespace

BenchProgram::BenchProgram(int rank, int hosts, int ranksHere, std::vector<int64_t> sizes, int64_t fileBytes)
    : hosts_(hosts), ranksHere_(ranksHere), sizes_(std::move(sizes)), isHalved_(ranksHere % 2 == 0) {
  const int halves = isHalved_ ? 2 : 1, places = ranksHere / halves;
  const int stage = rank / places, host = rank / ranksHere;
  arenas_ = {{"communication", 2 * sizes_.back(), hycrt::Sharing::kShared},
             {"host", sizes_.back(), hycrt::Sharing::kPrivate}};
  if (fileBytes > 0) arenas_.push_back({"nvme", fileBytes, hycrt::Sharing::kFile});
  hycrt::GroupDesc here{"host", kPlace, {host * halves}};
  if (isHalved_) here.stages = {host * 2, host * 2 + 1};
  groups_ = {here, {"cluster", kPlace | hycrt::AxisSet::allStages(), {}}};
  uint32_t id = 0;
  for (const Exchange& each : kExchanges) collectives_.push_back({++id, each.withinHosts, each.kind, 0});
  for (const Exchange& each : kExchanges) collectives_.push_back({++id, each.betweenHosts, each.kind, 1});
  if (isHalved_) addTransfers(Tier::kHost, host * 2, host * 2 + 1, stage);
  if (hosts > 1) addTransfers(Tier::kCluster, 0, halves, stage);
  program_.name = "hyc-bench";
  program_.mesh.stages = hosts * halves;
  program_.mesh.axes = {{"place", places}};
  program_.stage = stage;
  program_.arenas = tableOf(arenas_);
  program_.groups = tableOf(groups_);
  program_.collectives = tableOf(collectives_);
  program_.transfers = tableOf(transfers_);
}

void BenchProgram::addTransfers(Tier tier, int first, int second, int stage) {
  if (stage != first && stage != second) return;
  const bool sends = stage == first;
  firstTransfer_[static_cast<int>(tier)] = static_cast<int>(transfers_.size());
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const uint32_t tag = static_cast<uint32_t>(tier) * 1000 + static_cast<uint32_t>(i);
    transfers_.push_back({tag,
                          nameOf(Measure::kSendReceive),
                          sends ? Direction::kSend : Direction::kReceive,
                          sends ? second : first,
                          {kShared, sends ? 0 : sizes_.back()},
                          0,
                          sizes_[i]});
  }
}

int BenchProgram::ranksOf(Tier tier) const {
  if (tier == Tier::kHost) return ranksHere_;
  return tier == Tier::kCluster && hosts_ > 1 ? hosts_ * ranksHere_ : 1;
}

int BenchProgram::collective(Tier tier, CollectiveKind kind) const {
  int row = tier == Tier::kHost ? 0 : static_cast<int>(std::size(kExchanges));
  while (collectives_[static_cast<size_t>(row)].kind != kind) ++row;
  return row;
}

bool BenchProgram::hasTransfers(Tier tier) const { return tier == Tier::kHost ? isHalved_ : hosts_ > 1; }

int BenchProgram::transfer(Tier tier, size_t size) const {
  const int first = firstTransfer_[static_cast<int>(tier)];
  return first < 0 ? -1 : first + static_cast<int>(size);
}

}  // namespace hycbench
