// The reader of manifest.h. What is read is checked completely before anything is started: the ranks' coordinates are
// compared with the mesh, and a program's path must stay inside the folder.
#include "hycrt/manifest.h"

#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "base/instruction_sets.h"
#include "base/json_text.h"
#include "hycrt/sizes.h"
#include "io/adapter_json.h"
#include "run/learning_rate_json.h"

namespace hycrt {
namespace {

using nlohmann::json;

constexpr int64_t kMaxRanks = int64_t{1} << 20;
constexpr int64_t kMaxThreads = 4096;
constexpr char kLedgerName[] = "files.json";      // what hyc-compile made, beside the manifest
constexpr char kStagesKey[] = "pp";               // of the mesh, and of each rank
constexpr int64_t kMaxManifestBytes = 128 << 20;  // a line a rank

bool parseHash(const std::string& text, uint64_t* hash) {
  if (text.size() != 16) return false;
  *hash = 0;
  for (char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && !(c >= 'a' && c <= 'f')) return false;
    *hash = *hash * 16 + static_cast<uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  return true;
}

// Relative, and without a ".." part.
bool staysInside(const std::string& path) {
  if (path.empty() || path[0] == '/') return false;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (path.substr(begin, end - begin) == "..") return false;
    begin = end + 1;
  }
  return true;
}

class Reader {
 public:
  Reader(const json& root, std::string file, std::string folder) : root_(root), file_(std::move(file)) {
    manifest_.folder = std::move(folder);
  }

  Result<Manifest> read() {
    ObjectReader object(
        root_, file_, "",
        {"format_version", "name", "plan_hash", "mesh", "batch", "schedule", "threads", "nvme_path", "learning_rate",
         "estimate", "model_files", "ranks", "entry", "adapter", "data", "axes", "cpu", "dim", "optimizer"});
    object.integer("format_version", kManifestVersion, kManifestVersion);
    manifest_.name = object.text("name");
    const std::string hash = object.text("plan_hash");
    if (object.status().ok() && !parseHash(hash, &manifest_.planHash)) {
      object.fail("/plan_hash", "found '" + hash + "', expected 16 lower-case hexadecimal digits");
    }
    manifest_.schedule = object.text("schedule");
    manifest_.threads = static_cast<int>(object.integer("threads", 0, kMaxThreads));
    manifest_.nvmePath = object.text("nvme_path");
    const json* mesh = object.object("mesh");
    const json* batch = object.object("batch");
    const json* rate = object.object("learning_rate");
    const json* files = object.array("model_files");
    const json* ranks = object.array("ranks");
    HYCRT_RETURN_IF_ERROR(object.status());
    if (manifest_.schedule != "gpipe" && manifest_.schedule != "1f1b") {
      return error("/schedule", "found '" + manifest_.schedule + "', expected gpipe or 1f1b");
    }
    HYCRT_RETURN_IF_ERROR(readMesh(*mesh));
    if (root_.contains("axes")) HYCRT_RETURN_IF_ERROR(orderAxes(root_["axes"]));
    HYCRT_RETURN_IF_ERROR(readBatch(*batch));
    Result<LearningRateRule> rule = readLearningRate(*rate, file_);
    if (!rule.ok()) return rule.status();
    manifest_.learningRate = *rule;
    if (root_.contains("entry")) {
      manifest_.evaluates = root_["entry"] == "evaluate";
      manifest_.evaluatesBeside = root_["entry"] == "train,evaluate";
      if (!manifest_.evaluates && !manifest_.evaluatesBeside) {
        return error("/entry", "expected evaluate, or train,evaluate, or no such key");
      }
    }
    if (root_.contains("optimizer")) {
      manifest_.optimizer = object.text("optimizer");
      HYCRT_RETURN_IF_ERROR(object.status());
    }
    if (root_.contains("adapter")) {
      Result<Adapter> adapter = readAdapter(root_["adapter"], file_, "/adapter");
      if (!adapter.ok()) return adapter.status();
      manifest_.adapter = std::move(*adapter);
    }
    if (root_.contains("dim")) HYCRT_RETURN_IF_ERROR(readDim(root_["dim"]));
    if (root_.contains("data")) {
      const bool tokens = root_["data"] == "tokens";
      if (!tokens && root_["data"] != "samples") return error("/data", "expected tokens, samples, or no such key");
      manifest_.data = tokens ? DataKind::kTokens : DataKind::kSamples;
    }
    if (root_.contains("cpu")) HYCRT_RETURN_IF_ERROR(readCpu(root_["cpu"]));
    if (root_.contains("estimate")) HYCRT_RETURN_IF_ERROR(readEstimate(root_["estimate"]));
    HYCRT_RETURN_IF_ERROR(readModelFiles(*files));
    HYCRT_RETURN_IF_ERROR(readRanks(*ranks));
    return std::move(manifest_);
  }

 private:
  Status error(const std::string& path, const std::string& what) {
    return dataError(file_ + ": " + path + ": " + what);
  }

  Status readDim(const json& value) {
    ObjectReader object(value, file_, "/dim", {"name", "sizes"});
    manifest_.dim = object.text("name");
    const json* sizes = object.array("sizes");
    HYCRT_RETURN_IF_ERROR(object.status());
    for (const json& size : *sizes) {
      const int64_t number = size.is_number_unsigned() && size <= int64_t{1} << 31 ? size.get<int64_t>() : 0;
      if (number <= (manifest_.sizes.empty() ? 0 : manifest_.sizes.back())) {
        return error("/dim/sizes", "expected numbers from 1 to 2^31, each more than the one before");
      }
      manifest_.sizes.push_back(number);
    }
    if (manifest_.dim.empty() || manifest_.sizes.size() < 2) return error("/dim", "expected a name and two sizes");
    return {};
  }

  Status readMesh(const json& value) {
    std::vector<std::string> keys;
    for (const auto& member : value.items()) keys.push_back(member.key());  // in the order of names
    if (keys.size() > kMaxRank + 1) return error("/mesh", "has more than " + std::to_string(kMaxRank) + " axes");
    keys.push_back(kStagesKey);
    ObjectReader object(value, file_, "/mesh", keys);
    keys.pop_back();
    ShortList<MeshAxis>& axes = manifest_.mesh.axes;
    for (const std::string& name : keys) {
      if (name == kStagesKey) continue;
      if (name.empty() || name.size() >= sizeof MeshAxis::name)
        return error("/mesh", "'" + name + "' is no axis' name");
      MeshAxis& axis = axes.items[axes.size++];
      name.copy(axis.name, name.size());
      axis.size = static_cast<int>(object.integer(name.c_str(), 1, kMaxRanks));
    }
    manifest_.mesh.stages = static_cast<int>(object.integer(kStagesKey, 1, kMaxRanks));
    return object.status();
  }

  Status orderAxes(const json& value) {
    const ShortList<MeshAxis> given = manifest_.mesh.axes;
    ShortList<MeshAxis> ordered;
    for (const json& name : value) {
      for (const MeshAxis& axis : given) {
        if (ordered.size < given.size && name == std::string(axis.name)) ordered.items[ordered.size++] = axis;
      }
    }
    bool isOrder = value.is_array() && value.size() == static_cast<size_t>(given.size) && ordered.size == given.size;
    for (const MeshAxis& axis : given) {
      isOrder = isOrder && std::count(value.begin(), value.end(), json(std::string(axis.name))) == 1;
    }
    if (!isOrder) return error("/axes", "expected the axes of /mesh, each once");
    manifest_.mesh.axes = ordered;
    return {};
  }

  Status readBatch(const json& value) {
    ObjectReader object(value, file_, "/batch", {"micro_batch", "grad_accum", "sequence"});
    manifest_.batch.samples = object.integer("micro_batch", 1, int64_t{1} << 31);
    manifest_.batch.microBatches = object.integer("grad_accum", 1, int64_t{1} << 31);
    manifest_.batch.sequence = object.integer("sequence", 1, int64_t{1} << 31);
    return object.status();
  }

  Status readEstimate(const json& value) {
    ObjectReader object(value, file_, "/estimate", {"own_thread", "in_turn"});
    for (auto [key, estimate] :
         {std::pair{"own_thread", &manifest_.estimateOwnThread}, {"in_turn", &manifest_.estimateInTurn}}) {
      const json* part = object.object(key);
      HYCRT_RETURN_IF_ERROR(object.status());
      ObjectReader reader(*part, file_, std::string("/estimate/") + key, {"step_ms", "waiting"});
      estimate->milliseconds = reader.number("step_ms");
      estimate->waiting = reader.number("waiting");
      HYCRT_RETURN_IF_ERROR(reader.status());
      if (!(estimate->milliseconds >= 0 && estimate->waiting >= 0 && estimate->waiting <= 1)) {
        return error(std::string("/estimate/") + key, "expected milliseconds from 0 and a part from 0 to 1");
      }
    }
    return object.status();
  }

  Status readModelFiles(const json& value) {
    for (size_t i = 0; i < value.size(); ++i) {
      const std::string path = "/model_files/" + std::to_string(i);
      if (!value[i].is_object()) {
        return error(path, "expected a path and what the file held; compile the model again");
      }
      ObjectReader object(value[i], file_, path, {"path", "bytes", "header_bytes", "header_crc32c", "crc32c"});
      const std::string name = object.text("path");
      FileSums sums;
      sums.bytes = object.integer("bytes", 0, INT64_MAX);
      sums.headerBytes = object.integer("header_bytes", 0, INT64_MAX);
      const auto header = sumsFromDigits(object.text("header_crc32c")), chunks = sumsFromDigits(object.text("crc32c"));
      HYCRT_RETURN_IF_ERROR(object.status());
      if (name.empty() || name.find('\0') != std::string::npos) return error(path + "/path", "expected a file name");
      if (sums.headerBytes > sums.bytes) return error(path + "/header_bytes", "is more than the file has");
      if (!header || header->size() != 1) {
        return error(path + "/header_crc32c", "expected eight lower-case hexadecimal digits");
      }
      if (!chunks || static_cast<int64_t>(chunks->size()) != chunkCount(sums.bytes)) {
        return error(path + "/crc32c", "expected eight lower-case hexadecimal digits for each of " +
                                           std::to_string(chunkCount(sums.bytes)) + " MiB");
      }
      sums.header = header->front();
      sums.chunks = *chunks;
      manifest_.modelFiles.emplace_back(name[0] == '/' ? name : manifest_.folder + "/" + name, std::move(sums));
    }
    return {};
  }

  Status readCpu(const json& value) {
    ObjectReader object(value, file_, "/cpu", {"march", "instructions"});
    manifest_.march = object.text("march");
    const json* instructions = object.array("instructions");
    HYCRT_RETURN_IF_ERROR(object.status());
    for (const json& one : *instructions) {
      if (!one.is_string()) return error("/cpu/instructions", "expected texts, as \"avx2\"");
      manifest_.instructions.push_back(one);
    }
    return {};
  }

  Status readRanks(const json& value) {
    int64_t expected = manifest_.mesh.stages;  // each at most 2^20
    for (const MeshAxis& axis : manifest_.mesh.axes) expected = std::min(expected * axis.size, kMaxRanks + 1);
    if (expected > kMaxRanks || static_cast<int64_t>(value.size()) != expected) {
      return error("/ranks", "has " + std::to_string(value.size()) + " rows, expected " + describe(manifest_.mesh) +
                                 " = " + std::to_string(expected) + ", at most " + std::to_string(kMaxRanks));
    }
    for (size_t i = 0; i < value.size(); ++i) HYCRT_RETURN_IF_ERROR(readRank(value[i], static_cast<int>(i)));
    return {};
  }

  Status readRank(const json& value, int rank) {
    const std::string path = "/ranks/" + std::to_string(rank);
    std::vector<std::string> keys{"rank", kStagesKey, "program"};
    for (const MeshAxis& axis : manifest_.mesh.axes) keys.emplace_back(axis.name);
    ObjectReader object(value, file_, path, keys);
    const Coordinates at = coordinatesOf(manifest_.mesh, rank);
    object.integer("rank", rank, rank);
    object.integer(kStagesKey, at.stage, at.stage);
    for (int i = 0; i < manifest_.mesh.axes.size; ++i) {
      const int coordinate = coordinateOf(manifest_.mesh, at, Axis{static_cast<uint8_t>(i)});
      object.integer(manifest_.mesh.axes[i].name, coordinate, coordinate);
    }
    const std::string program = object.text("program");
    HYCRT_RETURN_IF_ERROR(object.status());
    if (!staysInside(program)) {
      return error(path + "/program", "found '" + program + "', expected a path inside the folder, like bin/stage0");
    }
    manifest_.ranks.push_back({at, program});
    return {};
  }

  const json& root_;
  std::string file_;
  Manifest manifest_;
};

}  // namespace

std::vector<std::string> filesReadBy(const Manifest& manifest) {
  std::vector<std::string> files;
  for (const ModelFile& file : manifest.modelFiles) files.push_back(file.path);
  files.push_back(manifest.folder + "/manifest.json");
  for (const ManifestRank& rank : manifest.ranks) files.push_back(manifest.folder + "/" + rank.program);
  for (const std::string& made : manifest.madeFiles) files.push_back(manifest.folder + "/" + made);
  return files;
}

// A folder that was put together by hand has no such list.
static Status readMadeFiles(Manifest* manifest) {
  const std::string path = manifest->folder + "/" + kLedgerName;
  if (access(path.c_str(), F_OK) != 0) return {};
  Result<std::string> text = readWholeFile(path, kMaxManifestBytes);
  if (!text.ok()) return text.status();
  Result<json> root = parseJson(*text, path);
  if (!root.ok()) return root.status();
  if (!root->is_object() || !root->contains("files") || !(*root)["files"].is_array()) {
    return dataError(path + ": expected an object with the list \"files\", as hyc-compile writes it");
  }
  manifest->madeFiles.push_back(kLedgerName);
  for (const json& row : (*root)["files"]) {
    if (row.is_object() && row.contains("path") && row["path"].is_string()) manifest->madeFiles.push_back(row["path"]);
  }
  return {};
}

Status checkCpu(const Manifest& manifest) {
  const std::vector<std::string> missing = missingInstructions(manifest.instructions);
  if (missing.empty()) return {};
  std::string names;
  for (const std::string& one : missing) names += (names.empty() ? "" : ", ") + one;
  return unavailableError("'" + manifest.folder + "' was compiled for CPUs with " + names + ", and this host's (" +
                          nameOfCpu() + ") has " + (missing.size() == 1 ? "it not" : "none of these") +
                          "; compile with --march, as in --march x86-64-v3, or on the oldest of the hosts");
}

Result<Manifest> parseManifest(std::string_view text, const std::string& folder) {
  const std::string file = folder + "/manifest.json";
  Result<json> root = parseJson(text, file);
  if (!root.ok()) return root.status();
  Result<Manifest> manifest = Reader(*root, file, folder).read();
  if (manifest.ok()) manifest->text = text;
  return manifest;
}

Result<Manifest> readManifest(const std::string& folder) {
  Result<std::string> text = readWholeFile(folder + "/manifest.json", kMaxManifestBytes);
  if (!text.ok()) {
    return Status(text.status().code(), text.status().message() + "; expected in a folder that hyc-compile wrote");
  }
  Result<std::vector<CompiledSize>> sizes = readSizes(folder);
  if (!sizes.ok()) return sizes.status();
  if (!sizes->empty()) {
    return usageError("'" + folder + "' holds programs for " + listOf(*sizes) +
                      " ranks; name one of the folders in it, or start hyc-run, which takes one");
  }
  Result<Manifest> manifest = parseManifest(*text, folder);
  if (manifest.ok()) HYCRT_RETURN_IF_ERROR(readMadeFiles(&*manifest));
  return manifest;
}

}  // namespace hycrt
