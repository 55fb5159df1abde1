// Figures as lines, between processes and for people.
#include "figure.h"

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <iterator>

namespace hycbench {
namespace {

constexpr const char* kMeasures[] = {"all_reduce", "all_gather", "send/receive", "product f32", "product bf16",
                                     "memory",     "host copy",  "disk write",   "disk read",   "product fp8",
                                     "attention",  "launch",     "GPU memory",   "product f32", "reduce_scatter",
                                     "beside",     "product f32"};
constexpr const char* kTiers[] = {"", "host", "cluster"};

std::string withUnit(double value, std::initializer_list<std::pair<double, const char*>> units) {
  char text[32];
  for (const auto& [unit, name] : units) {
    if (value < unit && unit != std::prev(units.end())->first) continue;
    std::snprintf(text, sizeof text, "%.4g %s", value / unit, name);
    return text;
  }
  return "";
}

std::string sizeOf(const Figure& figure) {
  const double size = static_cast<double>(figure.size);
  if (figure.measure == Measure::kLaunch) return "";
  if (figure.measure == Measure::kThinProduct) return std::to_string(kThinRows) + " rows, cold";
  if (figure.measure == Measure::kCachedProduct) return std::to_string(kCachedEdge) + " rows, in turns";
  if (figure.measure == Measure::kAttention) return withUnit(size, {{1e9, "Gflop"}, {1, "flop"}});
  if (isProduct(figure.measure)) {
    const double edge = std::cbrt(size / 2);
    char text[64];
    std::snprintf(text, sizeof text, "%.0f x %.0f x %.0f", edge, edge, edge);
    return text;
  }
  return withUnit(size, {{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}, {1, "bytes"}});
}

bool countsOperations(Measure measure) {
  return isProduct(measure) || measure == Measure::kAttention || measure == Measure::kThinProduct ||
         measure == Measure::kCachedProduct;
}

}  // namespace

bool isProduct(Measure measure) {
  return measure == Measure::kProduct || measure == Measure::kNarrowProduct || measure == Measure::kFloat8Product;
}

const char* nameOf(Measure measure) { return kMeasures[static_cast<int>(measure)]; }
const char* nameOf(Tier tier) { return kTiers[static_cast<int>(tier)]; }

std::string encode(const Figure& figure) {
  char line[160];
  std::snprintf(line, sizeof line, "%c%d %d %" PRId64 " %.9g %.9g", kFigureMark, static_cast<int>(figure.measure),
                static_cast<int>(figure.tier), figure.size, figure.seconds, figure.rate);
  return line;
}

hycrt::Result<Figure> decode(const std::string& line) {
  int measure = -1, tier = -1;
  Figure figure{};
  const int found = std::sscanf(line.c_str() + 1, "%d %d %" SCNd64 " %lg %lg", &measure, &tier, &figure.size,
                                &figure.seconds, &figure.rate);
  const auto isPositive = [](double value) { return value > 0 && std::isfinite(value); };
  bool isWhole = found == 5 && measure >= 0 && measure < static_cast<int>(std::size(kMeasures)) && tier >= 0 &&
                 tier < static_cast<int>(std::size(kTiers)) && figure.size > 0 && isPositive(figure.seconds);
  if (isWhole) {
    figure.measure = static_cast<Measure>(measure);
    figure.tier = static_cast<Tier>(tier);
    const bool isPart = figure.measure == Measure::kOverlap;
    isWhole = isPart ? figure.rate >= 0 && figure.rate <= 1 : isPositive(figure.rate);
  }
  if (!isWhole) return hycrt::internalError("a rank has told a figure that is none: '" + line.substr(1) + "'");
  return figure;
}

std::string headOfRows() { return "what            tier     size                      time         a rank\n"; }

std::string rateOf(const Figure& figure) {
  if (figure.measure == Measure::kDeviceMemory) return "";
  if (figure.measure == Measure::kOverlap) return withUnit(100 * figure.rate, {{1, "%"}});
  if (figure.measure == Measure::kLaunch) return withUnit(figure.rate, {{1e3, "k/s"}, {1, "/s"}});
  if (countsOperations(figure.measure)) return withUnit(figure.rate, {{1e12, "Tflop/s"}, {1e9, "Gflop/s"}});
  return withUnit(figure.rate, {{1e9, "GB/s"}, {1e6, "MB/s"}, {1e3, "kB/s"}});
}

std::string toRow(const Figure& figure) {
  const bool isTimed = figure.measure != Measure::kDeviceMemory;
  const std::string time = isTimed ? withUnit(figure.seconds, {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}}) : "",
                    rate = rateOf(figure);
  char row[160];
  std::snprintf(row, sizeof row, "%-14s  %-7s  %-20s  %12s  %13s\n", nameOf(figure.measure), nameOf(figure.tier),
                sizeOf(figure).c_str(), time.c_str(), rate.c_str());
  return row;
}

}  // namespace hycbench
