// The roofline of a kernel, and the tier of a group.
#include "hyc/Analysis/MachineRates.h"

#include <algorithm>
#include <cmath>

using namespace hyc;

double hyc::valueAt(const std::vector<SizedValue> &points, double size) {
  auto above = std::find_if(points.begin(), points.end(), [&](const SizedValue &point) { return point.size >= size; });
  if (above == points.begin())
    return above->value;
  if (above == points.end())
    return points.back().value;
  const SizedValue &low = *std::prev(above), &high = *above;
  double part = std::log(size / low.size) / std::log(high.size / low.size);
  return low.value * std::pow(high.value / low.value, part);
}

int64_t RankGroup::members() const {
  int64_t count = 1;
  for (const Dimension &each : dimensions)
    count *= each.size;
  return count;
}

int64_t RankGroup::extent() const {
  int64_t last = 0;
  for (const Dimension &each : dimensions)
    last += (each.size - 1) * each.stride;
  return last + 1;
}

int64_t RankGroup::membersWithin(int64_t ranks) const {
  int64_t count = 1;
  for (const Dimension &each : dimensions)
    count *= std::min(each.size, std::max<int64_t>(1, ranks / each.stride));
  return count;
}

const char *hyc::getName(TimeBound bound) {
  switch (bound) {
  case TimeBound::Products:
    return "products";
  case TimeBound::Memory:
    return "memory";
  case TimeBound::Launch:
    return "launch";
  case TimeBound::Link:
    return "link";
  case TimeBound::Latency:
    return "latency";
  case TimeBound::Host:
    return "host";
  case TimeBound::Disk:
    return "disk";
  }
  return "";
}

/// Seconds that the operations alone take.
static double productSeconds(const MachineRates &rates, const KernelWork &work) {
  double rate = work.elementBytes > 2 ? rates.products : rates.narrowProducts;
  if (work.elementBytes == 1)
    rate = std::max(rate, rates.fp8Products);
  if (work.isAttention && rates.attentionShare > 0)
    rate *= rates.attentionShare;
  else if (work.operations > 0 && !rates.productShare.empty())
    rate *= valueAt(rates.productShare, work.operations);
  return work.operations / rate;
}

static double memorySeconds(const MachineRates &rates, double bytes) {
  return bytes / (rates.memory * rates.memoryShare);
}

/// Of a product that does not compute while it brings its operands into place.
static double besideOperations(const MachineRates &rates, const KernelWork &work) {
  bool isProduct = work.operations > 0 && !work.isAttention;
  return isProduct && rates.productMemory > 0 ? work.bytes / rates.productMemory : 0;
}

double MachineRates::kernelSeconds(const KernelWork &work) const {
  double operations = productSeconds(*this, work), beside = besideOperations(*this, work);
  return std::max({operations + beside, memorySeconds(*this, work.bytes), launch});
}

TimeBound MachineRates::kernelBound(const KernelWork &work) const {
  double operations = productSeconds(*this, work), beside = besideOperations(*this, work);
  double memory = std::max(beside, memorySeconds(*this, work.bytes));
  if (launch > std::max(operations + beside, memory))
    return TimeBound::Launch;
  return work.operations > 0 && operations >= memory ? TimeBound::Products : TimeBound::Memory;
}

//===----------------------------------------------------------------------===//
// Kinds of ranks
//===----------------------------------------------------------------------===//

int64_t MachineRates::mostRanks() const {
  if (kinds.empty())
    return tiers.empty() ? 0 : tiers.back().ranks;
  int64_t ranks = 0;
  for (const RankKind &kind : kinds)
    ranks += kind.ranks;
  return ranks;
}

static void takeKind(MachineRates &rates, const RankKind &kind) {
  rates.products = kind.products;
  rates.narrowProducts = kind.narrowProducts;
  rates.fp8Products = kind.fp8Products;
  rates.productMemory *= kind.memory / rates.memory;
  rates.memory = kind.memory;
  rates.deviceMemory = kind.deviceMemory;
}

MachineRates MachineRates::ofKind(size_t kind) const {
  MachineRates rates = *this;
  takeKind(rates, kinds[kind]);
  rates.kinds.clear();
  return rates;
}

std::vector<size_t> MachineRates::kindsAmong(int64_t first, int64_t count) const {
  std::vector<size_t> among;
  int64_t begin = 0;
  for (size_t kind = 0; kind < kinds.size(); begin += kinds[kind++].ranks) {
    bool isLast = kind + 1 == kinds.size();
    if (first < begin + kinds[kind].ranks || isLast)
      if (first + count > begin)
        among.push_back(kind);
  }
  return among;
}

MachineRates MachineRates::slowestAmong(int64_t first, int64_t count) const {
  if (kinds.empty())
    return *this;
  MachineRates slowest = *this;
  slowest.kinds.clear();
  std::vector<size_t> among = kindsAmong(first, count);
  takeKind(slowest, kinds[among.front()]);
  for (size_t kind : among)
    for (auto [rate, own] : {std::pair(&MachineRates::products, &RankKind::products),
                             {&MachineRates::narrowProducts, &RankKind::narrowProducts},
                             {&MachineRates::fp8Products, &RankKind::fp8Products},
                             {&MachineRates::memory, &RankKind::memory}})
      slowest.*rate = std::min(slowest.*rate, kinds[kind].*own);
  for (size_t kind : among) // those that tell theirs
    if (double own = kinds[kind].deviceMemory; own > 0 && (slowest.deviceMemory == 0 || own < slowest.deviceMemory))
      slowest.deviceMemory = own;
  slowest.productMemory = productMemory * slowest.memory / memory;
  return slowest;
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

const std::vector<SizedValue> &MachineTier::ratesOf(Traffic traffic) const {
  const std::vector<SizedValue> *own = traffic == Traffic::AllGather       ? &gatherRates
                                       : traffic == Traffic::ReduceScatter ? &scatterRates
                                       : traffic == Traffic::Transfer      ? &transferRates
                                                                           : &rates;
  return own->empty() ? rates : *own;
}

void MachineTier::scaleRates(double factor) {
  for (std::vector<SizedValue> *list : {&rates, &gatherRates, &scatterRates, &transferRates})
    for (SizedValue &rate : *list)
      rate.value *= factor;
}

double MachineRates::hopSeconds(const MachineTier &tier, const MachineTier *inner, int64_t members, int64_t together,
                                Traffic traffic) const {
  if (traffic == Traffic::Transfer || tier.hopLatency == 0 || tier.measuredRanks == 0)
    return 0;
  auto ring = [&](int64_t ranks, int64_t units) {
    double inside = inner ? inner->hopLatency : 0;
    return static_cast<double>(units) * tier.hopLatency + static_cast<double>(ranks - units) * inside;
  };
  auto unitsOf = [](int64_t ranks, int64_t each) { return (ranks + each - 1) / each; };
  int64_t units = unitsOf(members, together), measured = unitsOf(tier.measuredRanks, inner ? inner->ranks : 1);
  double longer = std::max(0.0, ring(members, units) - ring(tier.measuredRanks, measured));
  if (traffic != Traffic::AllReduce)
    return longer;
  double levels = std::log2(static_cast<double>(units) / static_cast<double>(measured));
  return std::min(2 * longer, 2 * std::max(0.0, levels) * tier.hopLatency);
}

double MachineRates::exchangeSeconds(const RankGroup &group, double message, double sent, Traffic traffic) const {
  if (group.members() < 2)
    return 0;
  if (tiers.empty())
    return latency + sent / link;
  // Ranks beyond the last tier are as those in it.
  auto tier = std::find_if(tiers.begin(), std::prev(tiers.end()),
                           [&](const MachineTier &each) { return group.extent() <= each.ranks; });
  double rate = valueAt(tier->ratesOf(traffic), message);
  const MachineTier *inner = tier == tiers.begin() ? nullptr : &*std::prev(tier);
  int64_t together = inner ? group.membersWithin(inner->ranks) : 1;
  if (inner) {
    rate *= static_cast<double>(together) / static_cast<double>(inner->ranks);
    if (together > 1)
      rate = std::min(rate, valueAt(inner->ratesOf(traffic), message));
  }
  return std::max(tier->latency, sent / rate) + hopSeconds(*tier, inner, group.members(), together, traffic);
}

double MachineRates::transferSeconds(int64_t stride, double bytes) const {
  return exchangeSeconds({{{2, stride}}}, bytes, bytes, Traffic::Transfer);
}
