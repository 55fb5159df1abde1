// Rows for the manifest's keys, the options and the data.
#include "run/job_agreement.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/json_text.h"
#include "comm/agreement.h"
#include "hycrt/philox.h"
#include "io/mixture.h"

namespace hycrt {
namespace {

using nlohmann::json;

constexpr const char* kOwnKeys[] = {"threads", "nvme_path", "estimate"};  // of the manifest
constexpr size_t kMostParts = 64;                                         // of one key that are told apart
constexpr size_t kMostShownBytes = 100;
constexpr int64_t kBlockBytes = 64 << 10;
constexpr int64_t kBlocks = 256;  // of a file of data that are looked at: all of it, or as many at equal distances

uint64_t hashOf(const std::string& text) {
  uint64_t hash = text.size();
  for (unsigned char c : text) hash = mix64(hash, c);
  return hash;
}

// Itself, or where it is long its hash.
std::string shortened(const std::string& value) {
  if (value.size() <= kMostShownBytes) return value;
  char text[64];
  std::snprintf(text, sizeof text, "%zu bytes with hash %016" PRIx64, value.size(), hashOf(value));
  return text;
}

// Part by part, "/learning_rate/base"; what has very many parts is one row.
void addKey(const std::string& key, const json& value, Agreement* rows) {
  const json parts = json({{key, value}}).flatten();
  if (parts.size() > kMostParts) {
    (*rows)["/" + key + " of manifest.json"] = shortened(value.dump(-1, ' ', false, json::error_handler_t::replace));
    return;
  }
  for (const auto& [path, part] : parts.items()) {
    (*rows)[path + " of manifest.json"] = shortened(part.dump(-1, ' ', false, json::error_handler_t::replace));
  }
}

// A file of terabytes on a disk that all hosts share had better not be read by each of them first.
Result<std::string> identityOf(const std::string& path, int64_t mostBlocks) {
  Result<FileDescriptor> file = openForReading(path);
  if (!file.ok()) return file.status();
  Result<int64_t> size = fileSize(*file, path);
  if (!size.ok()) return size.status();
  const int64_t all = (*size + kBlockBytes - 1) / kBlockBytes, blocks = std::min(all, mostBlocks);
  std::string block(static_cast<size_t>(std::min(*size, kBlockBytes)), '\0');
  uint32_t sum = 0;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t begin = blocks == 1 ? 0 : (all - 1) * i / (blocks - 1) * kBlockBytes;  // the last is among them
    const int64_t bytes = std::min(*size - begin, kBlockBytes);
    HYCRT_RETURN_IF_ERROR(readAt(*file, path, block.data(), bytes, begin));
    sum = crc32c(sum, block.data(), static_cast<size_t>(bytes));
  }
  char text[96];
  std::snprintf(text, sizeof text, "%" PRId64 " bytes with hash %08" PRIx32 "%s", *size, sum,
                blocks < all ? " of a part of them" : "");
  return std::string(text);
}

// The files of an option, of ranks that read them, and their weights.
Status addData(const char* flag, const std::string& text, bool reads, Agreement* rows) {
  std::string& row = (*rows)[std::string("the file of ") + flag];
  row = kNoSay;
  if (!reads || text.empty()) return {};
  Result<std::vector<DataSource>> sources = parseDataSources(flag, text);
  if (!sources.ok()) return sources.status();
  std::string all;
  for (const DataSource& source : *sources) {
    Result<std::string> identity = identityOf(source.path, kBlocks);
    if (!identity.ok()) return identity.status();
    all += (all.empty() ? "" : "; ") + *identity;
    if (source.weight > 0) all += ", weight " + std::to_string(source.weight);
  }
  row = shortened(all);
  return {};
}

}  // namespace

Result<std::string> jobAgreement(const Manifest& manifest, const RunOptions& options, const Surroundings& surroundings,
                                 int rank, bool readsData) {
  Agreement rows;
  Result<json> root = parseJson(manifest.text, manifest.folder + "/manifest.json");
  if (!root.ok()) return root.status();
  for (const auto& [key, value] : root->items()) {
    if (std::find(std::begin(kOwnKeys), std::end(kOwnKeys), key) == std::end(kOwnKeys)) addKey(key, value, &rows);
  }
  for (const auto& [flag, value] : optionsInCommon(options)) rows[flag] = shortened(value);
  HYCRT_RETURN_IF_ERROR(addData("--data", options.data, readsData, &rows));
  HYCRT_RETURN_IF_ERROR(addData("--evaluate-data", options.evaluateData, readsData, &rows));
  for (const ManifestRank& each : manifest.ranks) rows[each.program] = kNoSay;
  // A program that has hyc's in it may have no other.
  const std::string& program = manifest.ranks[static_cast<size_t>(rank)].program;
  const std::string path = manifest.folder + "/" + program;
  if (surroundings.hosts > 1 && access(path.c_str(), R_OK) == 0) {
    Result<std::string> identity = identityOf(path, INT64_MAX);
    if (!identity.ok()) return identity.status();
    rows[program] = *identity;
  }
  return encodeAgreement(rows);
}

}  // namespace hycrt
