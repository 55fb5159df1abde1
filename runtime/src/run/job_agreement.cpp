// Rows for the manifest's keys, the options and the data.
#include "run/job_agreement.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>

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
constexpr int64_t kEndBytes = 64 << 10;  // of the data

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

Result<std::string> identityOf(const std::string& path) {
  Result<FileDescriptor> file = openForReading(path);
  if (!file.ok()) return file.status();
  Result<int64_t> size = fileSize(*file, path);
  if (!size.ok()) return size.status();
  std::string ends(static_cast<size_t>(std::min(*size, 2 * kEndBytes)), '\0');
  const int64_t head = std::min(*size, kEndBytes), tail = static_cast<int64_t>(ends.size()) - head;
  HYCRT_RETURN_IF_ERROR(readAt(*file, path, ends.data(), head, 0));
  HYCRT_RETURN_IF_ERROR(readAt(*file, path, ends.data() + head, tail, *size - tail));
  char text[64];
  std::snprintf(text, sizeof text, "%" PRId64 " bytes, ends with hash %016" PRIx64, *size, hashOf(ends));
  return std::string(text);
}

}  // namespace

Result<std::string> jobAgreement(const Manifest& manifest, const RunOptions& options, bool readsData) {
  Agreement rows;
  Result<json> root = parseJson(manifest.text, manifest.folder + "/manifest.json");
  if (!root.ok()) return root.status();
  for (const auto& [key, value] : root->items()) {
    if (std::find(std::begin(kOwnKeys), std::end(kOwnKeys), key) == std::end(kOwnKeys)) addKey(key, value, &rows);
  }
  for (const auto& [flag, value] : optionsInCommon(options)) rows[flag] = shortened(value);
  rows["the file of --data"] = kNoSay;
  if (!readsData) return encodeAgreement(rows);
  Result<std::vector<DataSource>> sources = parseDataSources("--data", options.data);
  if (!sources.ok()) return sources.status();
  std::string all;
  for (const DataSource& source : *sources) {
    Result<std::string> identity = identityOf(source.path);
    if (!identity.ok()) return identity.status();
    all += (all.empty() ? "" : "; ") + *identity;
    if (source.weight > 0) all += ", weight " + std::to_string(source.weight);
  }
  rows["the file of --data"] = shortened(all);
  return encodeAgreement(rows);
}

}  // namespace hycrt
