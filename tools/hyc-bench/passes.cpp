// Sorting by what was measured.
#include "passes.h"

#include <algorithm>
#include <tuple>

namespace hycbench {
namespace {

bool isOfOneThing(const Figure& a, const Figure& b) {
  return std::tie(a.measure, a.tier, a.size) == std::tie(b.measure, b.tier, b.size);
}

// Those that say how fast something is.
bool isRate(Measure measure) { return measure != Measure::kOverlap && measure != Measure::kDeviceMemory; }

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<Figure> mediansOf(const std::vector<Figure>& told) {
  std::vector<Figure> merged;
  for (const Figure& first : told) {
    const auto isSame = [&](const Figure& other) { return isOfOneThing(first, other); };
    if (std::any_of(merged.begin(), merged.end(), isSame)) continue;
    std::vector<double> seconds, rates;
    for (const Figure& figure : told) {
      if (!isSame(figure)) continue;
      seconds.push_back(figure.seconds);
      rates.push_back(figure.rate);
    }
    merged.push_back({first.measure, first.tier, first.size, median(seconds), median(rates)});
  }
  return merged;
}

std::optional<Spread> widestSpread(const std::vector<Figure>& told) {
  std::optional<Spread> widest;
  for (const Figure& first : mediansOf(told)) {
    Spread spread{first, first};
    int64_t largest = first.size;
    int times = 0;
    for (const Figure& figure : told) {
      if (figure.measure == first.measure && figure.tier == first.tier) largest = std::max(largest, figure.size);
      if (!isOfOneThing(first, figure)) continue;
      if (times == 0 || figure.rate < spread.slowest.rate) spread.slowest = figure;
      if (times == 0 || figure.rate > spread.fastest.rate) spread.fastest = figure;
      ++times;
    }
    if (times < 2 || first.size < largest || !isRate(first.measure)) continue;
    if (!widest || spread.ratio() > widest->ratio()) widest = spread;
  }
  return widest;
}

std::string describe(const Spread& spread) {
  const std::string tier = nameOf(spread.slowest.tier);
  return nameOf(spread.slowest.measure) + (tier.empty() ? "" : " in a " + tier) + " " + rateOf(spread.slowest) +
         " to " + rateOf(spread.fastest);
}

}  // namespace hycbench
