// Figures as keys of a machine's file.
#include "machine_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "hycrt/token.h"
#include "passes.h"

namespace hycbench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostBytes = int64_t{1} << 24;  // of a machine's file

// Three digits: more is noise. Whole numbers are written as such.
Json rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  const double few = std::strtod(text, nullptr);
  if (few < 0 || few > 1e17 || few != std::floor(few)) return few;
  return static_cast<int64_t>(few);
}

std::vector<Figure> of(const std::vector<Figure>& figures, Measure measure, Tier tier = Tier::kNone) {
  std::vector<Figure> chosen;
  for (const Figure& figure : figures) {
    if (figure.measure == measure && figure.tier == tier) chosen.push_back(figure);
  }
  std::stable_sort(chosen.begin(), chosen.end(), [](const Figure& a, const Figure& b) { return a.size < b.size; });
  return chosen;
}

double best(const std::vector<Figure>& figures) {
  double rate = 0;
  for (const Figure& figure : figures) rate = std::max(rate, figure.rate);
  return rate;
}

// Of what reaches a disk and what comes from it, as many bytes each.
double mean(double a, double b) { return a > 0 && b > 0 ? 2 / (1 / a + 1 / b) : a + b; }

// How fast bytes pass; the smallest message tells what an exchange takes whatever it carries, and is not among them.
Json ratesBySize(const std::vector<Figure>& exchanges) {
  Json rates = Json::array();
  for (size_t i = 1; i < exchanges.size(); ++i) {
    rates.push_back({{"bytes", exchanges[i].size}, {"rate", rounded(exchanges[i].rate)}});
  }
  return rates;
}

Json tierOf(const std::vector<Figure>& figures, Tier tier, int ranks) {
  const std::vector<Figure> sums = of(figures, Measure::kAllReduce, tier);
  if (sums.size() < 2) return nullptr;
  Json found = {
      {"name", nameOf(tier)}, {"ranks", ranks}, {"latency", rounded(sums[0].seconds)}, {"rates", ratesBySize(sums)}};
  for (const auto& [key, measure] : {std::pair("gather_rates", Measure::kAllGather),
                                     {"scatter_rates", Measure::kReduceScatter},
                                     {"transfer_rates", Measure::kSendReceive}}) {
    const Json rates = ratesBySize(of(figures, measure, tier));
    if (!rates.empty()) found[key] = rates;
  }
  return found;
}

std::string today() {
  const time_t now = time(nullptr);
  tm utc{};
  char text[16] = "";
  if (gmtime_r(&now, &utc)) std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

// Bytes a second: of what a thin product takes longer than one of as many operations whose matrices are in a cache,
// with which it was measured in turns; the median of all passes. Nothing where that is noise.
double productMemory(const std::vector<Figure>& told) {
  const std::vector<Figure> thin = of(told, Measure::kThinProduct), cached = of(told, Measure::kCachedProduct);
  std::vector<double> longer;
  for (size_t i = 0; i < std::min(thin.size(), cached.size()); ++i) {
    longer.push_back(thin[i].seconds / cached[i].seconds - 1);
  }
  if (longer.empty()) return 0;
  const double part = median(longer);
  return part > 0.05 ? static_cast<double>(kThinBytes) / (part * mediansOf(cached)[0].seconds) : 0;
}

// How the figures came about, for people.
void addSources(const Bench& bench, const std::vector<Figure>& told, Json* file) {
  Json& sources = (*file)["sources"] = Json::array();
  const std::string how = std::string(bench.onDevice ? "" : "; the slowest rank's") + "; the median of " +
                          std::to_string(bench.passes) + (bench.passes == 1 ? " pass" : " passes") + " of 3 blocks";
  sources.push_back("all: hyc-bench on " + today() + ", " + describe(bench) + how);
  if (const std::optional<Spread> widest = widestSpread(told)) {
    sources.push_back("between passes differed most: " + describe(*widest));
  }
  if (bench.onDevice) {
    sources.push_back("product_share: of bf16; attention_share: forward and gradient, of heads of 64 and of 128");
    return;
  }
  sources.push_back("attention_share: forward and gradient, f32, of heads of 64 in sequences of 256");
  sources.push_back("product_memory: what a product of " + std::to_string(kThinRows) +
                    " rows takes longer than one of as many operations in a cache, in turns");
  sources.push_back("overlap_share: products beside an all_reduce of the largest size");
  sources.push_back(
      "tiers: rates of all_reduce, gather_rates of all_gather, scatter_rates of reduce_scatter, transfer_rates of "
      "send/receive, of f32, as busbw; latency: of all_reduce of 8 bytes");
}

}  // namespace

std::string describe(const Bench& bench) {
  if (bench.onDevice) return "one GPU, " + bench.cpu;
  const auto counted = [](int count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
  };
  return counted(bench.hosts * bench.ranksHere, "rank") + " of " + counted(bench.threads, "thread") + " at once on " +
         counted(bench.hosts, "host") + ", " + bench.cpu;
}

std::string machineFile(const Bench& bench, const std::vector<Figure>& told) {
  const std::vector<Figure> figures = mediansOf(told);
  Json file;
  file["name"] = bench.name;
  const auto set = [&](const char* key, double value) {
    if (value > 0) file[key] = rounded(value);
  };
  const std::vector<Figure> memories = of(figures, Measure::kDeviceMemory);
  if (!memories.empty()) file["device_memory"] = memories[0].size;
  const double narrow = best(of(figures, Measure::kNarrowProduct));
  const std::vector<Figure> products = of(figures, bench.onDevice ? Measure::kNarrowProduct : Measure::kProduct);
  set("products", best(of(figures, Measure::kProduct)));
  set("narrow_products", narrow);
  set("fp8_products", best(of(figures, Measure::kFloat8Product)));
  set("memory", best(of(figures, Measure::kMemory)));
  set("host", best(of(figures, Measure::kHost)));
  set("disk", mean(best(of(figures, Measure::kDiskWrite)), best(of(figures, Measure::kDiskRead))));
  for (const Figure& launch : of(figures, Measure::kLaunch)) set("launch", launch.seconds);
  double attention = 0;
  for (const Figure& shape : of(figures, Measure::kAttention)) attention = mean(attention, shape.rate);
  const double wide = best(products);
  if (attention > 0 && wide > 0) set("attention_share", std::min(1.0, attention / wide));
  set("product_memory", productMemory(told));
  for (const Figure& product : products) {
    file["product_share"].push_back(
        {{"operations", product.size}, {"share", rounded(std::max(1e-3, product.rate / best(products)))}});
  }
  Json tiers = Json::array();
  const auto add = [&](Tier tier, int ranks) {
    const Json found = tierOf(figures, tier, ranks);
    if (!found.is_null()) tiers.push_back(found);
  };
  add(Tier::kHost, bench.ranksHere);
  add(Tier::kCluster, bench.ranksHere * bench.hosts);
  if (!tiers.empty()) file["tiers"] = tiers;
  for (Tier tier : {Tier::kHost, Tier::kCluster}) {
    for (const Figure& beside : of(figures, Measure::kOverlap, tier)) file["overlap_share"] = rounded(beside.rate);
  }
  addSources(bench, told, &file);
  return file.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// A machine's file has rates of products.
hycrt::Status checkMachineFile(const std::string& path) {
  HYCRT_RETURN_IF_ERROR(hycrt::checkWritable(path));
  struct stat info{};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) return {};
  const hycrt::Result<std::string> text =
      info.st_size > kMostBytes ? hycrt::Result<std::string>("") : hycrt::readWholeFile(path, kMostBytes);
  if (!text.ok()) return text.status();
  const Json found = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (found.is_object() && found.contains("products")) return {};
  return hycrt::dataError("'" + path +
                          "' (-o) is there and is no machine's file, which would be replaced; give another "
                          "name, or remove it");
}

hycrt::Status writeMachineFile(const std::string& path, const std::string& text) {
  const std::string partial = hycrt::partialName(path, hycrt::makeName());
  hycrt::Result<hycrt::FileDescriptor> file = hycrt::createNew(partial);
  if (!file.ok()) return file.status();
  hycrt::Status status = hycrt::writeAt(*file, partial, text.data(), static_cast<int64_t>(text.size()), 0);
  if (status.ok() && fsync(file->get()) != 0) status = hycrt::errnoError("cannot write '" + path + "'", errno);
  if (status.ok()) status = hycrt::publishFile(partial, path);
  if (!status.ok()) unlink(partial.c_str());
  return status;
}

}  // namespace hycbench
