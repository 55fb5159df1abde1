// Reading the list of sizes, and picking one.
#include "hycrt/sizes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "base/launchers.h"

namespace hycrt {
namespace {

constexpr int64_t kMostBytes = int64_t{64} << 20;
constexpr int64_t kMostRanks = 1 << 20;

}  // namespace

Result<std::vector<CompiledSize>> readSizes(const std::string& out) {
  std::vector<CompiledSize> sizes;
  const std::string file = out + "/manifest.json";
  Result<std::string> text = readWholeFile(file, kMostBytes);
  if (!text.ok() || text->find("\"sizes\"") == std::string::npos) return sizes;
  Result<nlohmann::json> root = parseJson(*text, file);
  if (!root.ok() || !root->is_object() || !root->contains("sizes")) return sizes;
  const nlohmann::json& list = root->at("sizes");
  const auto error = [&](const std::string& what) { return dataError(file + ": /sizes" + what); };
  if (root->size() != 2 || root->value("format_version", nlohmann::json()) != 1) {
    return dataError(file + ": expected the keys format_version, which is 1, and sizes");
  }
  if (!list.is_array() || list.empty()) return error(": expected a list of sizes");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string at = "/" + std::to_string(i);
    const nlohmann::json& row = list[i];
    if (!row.is_object() || row.size() != 2 || !row.contains("ranks") || !row.contains("folder")) {
      return error(at + ": expected the keys ranks and folder");
    }
    const nlohmann::json &ranks = row["ranks"], &folder = row["folder"];
    if (!ranks.is_number_integer() || ranks < 1 || ranks > kMostRanks || sizeOf(sizes, ranks)) {
      return error(at + "/ranks: expected a whole number from 1, each once");
    }
    if (!folder.is_string() || folder != "ranks-" + std::to_string(ranks.get<int64_t>())) {
      return error(at + "/folder: expected ranks-" + std::to_string(ranks.get<int64_t>()));
    }
    sizes.push_back({ranks, out + "/" + folder.get<std::string>()});
  }
  std::sort(sizes.begin(), sizes.end(), [](const CompiledSize& a, const CompiledSize& b) { return a.ranks > b.ranks; });
  return sizes;
}

std::string listOf(const std::vector<CompiledSize>& sizes) {
  std::string text;
  for (size_t i = 0; i < sizes.size(); ++i) {
    text += (i == 0 ? "" : i + 1 < sizes.size() ? ", " : " and ") + std::to_string(sizes[i].ranks);
  }
  return text;
}

const CompiledSize* sizeOf(const std::vector<CompiledSize>& sizes, int64_t ranks) {
  const auto found =
      std::find_if(sizes.begin(), sizes.end(), [&](const CompiledSize& size) { return size.ranks == ranks; });
  return found == sizes.end() ? nullptr : &*found;
}

const CompiledSize* largestWithin(const std::vector<CompiledSize>& sizes, int64_t ranks) {
  const auto found =
      std::find_if(sizes.begin(), sizes.end(), [&](const CompiledSize& size) { return size.ranks <= ranks; });
  return found == sizes.end() ? nullptr : &*found;
}

Result<LaunchedRank> launchedRank() {
  Result<Launch> launch = readLaunch(/*mayBeAlone=*/false);
  if (!launch.ok()) return launch.status();
  if (launch->worldSize == 0) {
    return usageError("--as-rank is for what a launcher starts, and neither RANK nor WORLD_SIZE is set");
  }
  return LaunchedRank{launch->rank, launch->worldSize};
}

}  // namespace hycrt
