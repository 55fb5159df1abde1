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
static double productSeconds(const MachineRates &rates, double operations, bool isNarrow) {
  double rate = isNarrow ? rates.narrowProducts : rates.products;
  if (operations > 0 && !rates.productShare.empty())
    rate *= valueAt(rates.productShare, operations);
  return operations / rate;
}

double MachineRates::kernelSeconds(double operations, bool isNarrow, double bytes) const {
  return std::max({productSeconds(*this, operations, isNarrow), bytes / memory, launch});
}

TimeBound MachineRates::kernelBound(double operations, bool isNarrow, double bytes) const {
  double seconds = kernelSeconds(operations, isNarrow, bytes);
  if (operations > 0 && seconds == productSeconds(*this, operations, isNarrow))
    return TimeBound::Products;
  return seconds == bytes / memory ? TimeBound::Memory : TimeBound::Launch;
}

double MachineRates::exchangeSeconds(const RankGroup &group, double message, double sent) const {
  if (group.members() < 2)
    return 0;
  if (tiers.empty())
    return latency + sent / link;
  // Ranks beyond the last tier are as those in it.
  auto tier = std::find_if(tiers.begin(), std::prev(tiers.end()),
                           [&](const MachineTier &each) { return group.extent() <= each.ranks; });
  double rate = valueAt(tier->rates, message);
  if (tier != tiers.begin()) {
    const MachineTier &inner = *std::prev(tier);
    int64_t together = group.membersWithin(inner.ranks);
    rate *= static_cast<double>(together) / static_cast<double>(inner.ranks);
    if (together > 1)
      rate = std::min(rate, valueAt(inner.rates, message));
  }
  return std::max(tier->latency, sent / rate);
}

double MachineRates::transferSeconds(int64_t stride, double bytes) const {
  return exchangeSeconds({{{2, stride}}}, bytes, bytes);
}
