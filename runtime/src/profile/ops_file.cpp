// Reads ops.json, which may be of another compilation, or damaged.
#include "base/file.h"
#include "base/json_text.h"
#include "profile/profile_file.h"

namespace hycrt {
namespace {

using Json = nlohmann::json;
constexpr int64_t kMostOpsBytes = int64_t{1} << 30;

std::string textOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}
double numberOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}
const Json& listOf(const Json& object, const char* key) {
  static const Json kNone = Json::array();
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : kNone;
}

OpsCall callOf(const Json& row) {
  OpsCall call;
  const std::string kind = textOf(row, "kind");
  call.kind = kind == "exchange" ? OpsCall::Kind::kExchange
              : kind == "move"   ? OpsCall::Kind::kMove
                                 : OpsCall::Kind::kKernel;
  call.what = textOf(row, "what");
  call.op = textOf(row, "op");
  call.layer = textOf(row, "layer");
  call.bound = textOf(row, "bound");
  call.operations = numberOf(row, "operations");
  call.bytes = numberOf(row, "bytes");
  call.roofSeconds = numberOf(row, "roof_seconds");
  call.cause = textOf(row, "cause");
  call.because = textOf(row, "because");
  for (const Json& axis : listOf(row, "axes")) call.axes.push_back(axis.is_string() ? axis.get<std::string>() : "");
  for (const Json& stage : listOf(row, "stages")) call.stages.push_back(stage.is_number() ? stage.get<int64_t>() : 0);
  call.members = static_cast<int64_t>(numberOf(row, "members"));
  call.messageBytes = numberOf(row, "message_bytes");
  return call;
}

Result<OpsStage> stageOf(const Json& object, const std::string& file) {
  OpsStage stage;
  for (const Json& row : listOf(object, "calls")) {
    if (!row.is_object()) return dataError(file + ": /stages: a call is no object");
    stage.calls.push_back(callOf(row));
  }
  const auto functions = object.find("functions");
  if (functions == object.end() || !functions->is_object()) return dataError(file + ": /stages: expected functions");
  const int64_t rows = static_cast<int64_t>(stage.calls.size());
  for (const auto& [name, list] : functions->items()) {
    std::vector<int64_t>& numbers = stage.functions[name];
    for (const Json& number : list) {
      const int64_t row = number.is_number_integer() ? number.get<int64_t>() : rows;
      if (row >= rows || row < -rows) {
        return dataError(file + ": /stages: function '" + name + "' names a call that is not there; compile again");
      }
      numbers.push_back(row);
    }
  }
  return stage;
}

}  // namespace

Result<OpsFile> readOps(const Manifest& manifest) {
  const std::string file = manifest.folder + "/ops.json";
  Result<std::string> text = readWholeFile(file, kMostOpsBytes);
  if (!text.ok()) {
    return dataError("--profile needs '" + file + "', which tells what is measured (" + text.status().message() +
                     "); compile again");
  }
  Result<Json> root = parseJson(*text, file);
  if (!root.ok()) return root.status();
  if (!root->is_object()) return dataError(file + ": expected an object");
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(manifest.planHash));
  if (textOf(*root, "plan_hash") != hash) {
    return dataError(file + ": /plan_hash is '" + textOf(*root, "plan_hash") + "', that of the programs " + hash +
                     "; compile again");
  }
  OpsFile ops;
  ops.machine = textOf(*root, "machine");
  for (const Json& stage : listOf(*root, "stages")) {
    if (!stage.is_object()) return dataError(file + ": a stage is no object");
    Result<OpsStage> read = stageOf(stage, file);
    if (!read.ok()) return read.status();
    ops.stages.push_back(std::move(*read));
  }
  if (static_cast<int>(ops.stages.size()) != manifest.mesh.stages) {
    return dataError(file + ": has " + std::to_string(ops.stages.size()) + " stages, expected " +
                     std::to_string(manifest.mesh.stages));
  }
  return ops;
}

}  // namespace hycrt
