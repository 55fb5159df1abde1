// Sums over a profile's rows, and ratios of them.
#include "hyc/Planner/Measured.h"

#include "hyc/Analysis/TimedCalls.h"
#include "hyc/Support/JsonFile.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace llvm;
using namespace hyc;

static constexpr uint64_t kMaxBytes = uint64_t(256) << 20;
static constexpr double kMostSeconds = 1e9, kMostOperations = 1e30;
static constexpr int64_t kMostProfiledRanks = int64_t(1) << 24;
/// Ranks whose speeds differ by less than this part are alike: so much the same run differs by.
static constexpr double kAlike = 0.05;

namespace {
/// What something took, and what it should have.
struct Ratio {
  double seconds = 0, roof = 0;
  void add(double took, double should) {
    if (took > 0 && should > 0)
      seconds += took, roof += should;
  }
  /// Of a rate that was believed, what is reached.
  double share() const { return shareOr(1); }
  double shareOr(double other) const { return seconds > 0 ? roof / seconds : other; }
};

struct RankSpeed {
  int64_t stage = 0;
  double compute = 0;
};

struct Profile {
  /// Of products that their operations decide, of those that memory does, of fused attention, and of all else.
  Ratio products, productMemory, attention, memory;
  Ratio exchanges;
  std::map<int64_t, RankSpeed> ranks;
  bool hidesExchanges = false, isOnDevice = false;
};
} // namespace

static Error readOp(const JsonObjectReader &op, const MachineRates &rates, Profile &profile) {
  std::string bound, name;
  double operations = 0, seconds = 0, roof = 0;
  if (Error error = op.read("kernel", name))
    return error;
  if (Error error = op.read("operations", operations, 0, kMostOperations))
    return error;
  if (Error error = op.read("bound", bound))
    return error;
  if (Error error = op.read("seconds", seconds, 0, kMostSeconds))
    return error;
  if (Error error = op.read("roof_seconds", roof, 0, kMostSeconds))
    return error;
  bool isAttention = isFusedAttention(name);
  bool hasOwnMemory = operations > 0 && !isAttention && rates.productMemory > 0;
  if (bound == "products")
    (isAttention ? profile.attention : profile.products).add(seconds, roof);
  else if (bound == "memory")
    (hasOwnMemory ? profile.productMemory : profile.memory).add(seconds, roof);
  return Error::success();
}

/// Waiting for ranks that have not come is no fault of the link.
static Error readExchange(const JsonObjectReader &exchange, Profile &profile) {
  double seconds = 0, late = 0, roof = 0;
  if (Error error = exchange.read("seconds", seconds, 0, kMostSeconds))
    return error;
  if (Error error = exchange.read("late_seconds", late, 0, kMostSeconds))
    return error;
  if (Error error = exchange.read("roof_seconds", roof, 0, kMostSeconds))
    return error;
  profile.exchanges.add(seconds - late, roof);
  return Error::success();
}

static Error readRank(const JsonObjectReader &from, Profile &profile) {
  int64_t rank = 0;
  RankSpeed speed;
  if (Error error = from.read("rank", rank, 0, kMostProfiledRanks))
    return error;
  if (Error error = from.read("stage", speed.stage, 0, kMostProfiledRanks))
    return error;
  Expected<JsonObjectReader> step = from.child("step");
  if (!step)
    return step.takeError();
  if (Error error = step->read("compute", speed.compute, 0, kMostSeconds))
    return error;
  if (!profile.ranks.emplace(rank, speed).second)
    return from.fail("rank", "rank " + Twine(rank) + " is there twice");
  return Error::success();
}

static Error readProfile(const JsonObjectReader &root, const MachineRates &rates, Profile &profile) {
  int64_t version = 0;
  std::string machine;
  if (Error error = root.read("format_version", version, 1, 1))
    return error;
  if (Error error = root.read("machine", machine))
    return error;
  if (machine != rates.name)
    return root.fail("machine", "the profile is of programs that were compiled for " +
                                    (machine.empty() ? "no --machine" : "--machine \"" + machine + "\"") +
                                    ", but here it is " + (rates.name.empty() ? "none" : "\"" + rates.name + "\"") +
                                    "; give the same --machine");
  if (Error error = root.read("communication_thread", profile.hidesExchanges))
    return error;
  if (Error error = root.read("device", profile.isOnDevice))
    return error;
  Error stages = root.readObjects("stages", [&](const JsonObjectReader &stage) -> Error {
    if (Error error = stage.readObjects("ops", [&](const JsonObjectReader &op) { return readOp(op, rates, profile); }))
      return error;
    return stage.readObjects("exchanges",
                             [&](const JsonObjectReader &exchange) { return readExchange(exchange, profile); });
  });
  if (stages)
    return stages;
  return root.readObjects("ranks", [&](const JsonObjectReader &rank) { return readRank(rank, profile); });
}

/// Consecutive ranks of one speed each, where there are several speeds. Ranks of one stage do the same; those of
/// another are compared with their own, so that a stage that is slow as a whole is not told from one that has more to
/// do: `speeds` are relative to the mean of a stage.
static std::vector<RankKind> kindsOf(const Profile &profile, const MachineRates &rates) {
  std::map<int64_t, std::pair<double, int64_t>> ofStages; // seconds, ranks
  for (const auto &[rank, speed] : profile.ranks) {
    ofStages[speed.stage].first += speed.compute;
    ++ofStages[speed.stage].second;
  }
  std::vector<RankKind> kinds;
  double fastest = 0, slowest = 0;
  for (const auto &[rank, speed] : profile.ranks) {
    auto [sum, count] = ofStages[speed.stage];
    double relative = speed.compute > 0 ? sum / static_cast<double>(count) / speed.compute : 1;
    fastest = std::max(fastest, relative);
    slowest = slowest == 0 ? relative : std::min(slowest, relative);
    double rate = relative * rates.products;
    if (!kinds.empty() && std::abs(kinds.back().products / rate - 1) < kAlike) {
      ++kinds.back().ranks;
      continue;
    }
    kinds.push_back({"ranks from " + std::to_string(rank), 1, rate, relative * rates.narrowProducts,
                     relative * rates.fp8Products, relative * rates.memory, rates.deviceMemory});
  }
  return fastest > slowest * (1 + kAlike) ? kinds : std::vector<RankKind>();
}

Expected<MachineRates> hyc::takeMeasured(const std::string &path, MachineRates rates) {
  Profile profile;
  if (Error error = readJsonFile("measured", path, kMaxBytes,
                                 [&](const JsonObjectReader &root) { return readProfile(root, rates, profile); }))
    return error;
  double products = profile.products.share(), memory = profile.memory.share();
  rates.products *= products;
  rates.narrowProducts *= products;
  rates.fp8Products *= products;
  rates.productMemory *= profile.productMemory.shareOr(products);
  // It is of the rate of products, which has changed.
  if (double attention = profile.attention.shareOr(products); attention != products)
    rates.attentionShare = (rates.attentionShare > 0 ? rates.attentionShare : 1) * attention / products;
  rates.memory *= memory;
  for (RankKind &kind : rates.kinds) {
    kind.products *= products;
    kind.narrowProducts *= products;
    kind.fp8Products *= products;
    kind.memory *= memory;
  }
  if (!profile.hidesExchanges) {
    double links = profile.exchanges.share();
    rates.link *= links;
    for (MachineTier &tier : rates.tiers)
      tier.scaleRates(links);
    if (!profile.isOnDevice)
      rates.overlapShare = 0;
  }
  if (rates.kinds.empty())
    rates.kinds = kindsOf(profile, rates);
  return rates;
}
