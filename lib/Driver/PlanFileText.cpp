// plan.json as text: reading with checks, writing.
#include "PlanFile.h"
#include "hyc/Driver/DriverError.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;
using namespace hyc;

static constexpr int64_t kFormatVersion = 1;
static constexpr unsigned kMaxNesting = 32;
static constexpr uint64_t kMaxBytes = uint64_t(64) << 20;

namespace {
/// One object of the file; knows where it stands, for messages.
class ObjectReader {
public:
  ObjectReader(const std::string &file, std::string path, const json::Object &object)
      : file(file), path(std::move(path)), object(object) {}

  Error fail(StringRef key, const Twine &what) const {
    return makeError(ExitCode::Data, file + ": " + path + "/" + key + ": " + what);
  }

  Error checkKeys(ArrayRef<StringRef> known) const {
    for (const auto &entry : object)
      if (StringRef key = entry.first; !is_contained(known, key)) {
        StringRef nearest =
            *min_element(known, [&](StringRef a, StringRef b) { return key.edit_distance(a) < key.edit_distance(b); });
        return fail(key, "unknown key; the nearest known one is \"" + nearest + "\"");
      }
    for (StringRef key : known)
      if (!object.get(key))
        return fail(key, "is missing");
    return Error::success();
  }

  Error read(StringRef key, int64_t &value, int64_t least, int64_t most) const {
    std::optional<int64_t> number = object.getInteger(key);
    if (!number || *number < least || *number > most)
      return fail(key, "expected an integer from " + Twine(least) + " to " + Twine(most));
    value = *number;
    return Error::success();
  }

  Error read(StringRef key, std::string &value) const {
    std::optional<StringRef> text = object.getString(key);
    if (!text)
      return fail(key, "expected a string");
    value = text->str();
    return Error::success();
  }

  Error read(StringRef key, std::vector<std::string> &values) const {
    const json::Array *array = object.getArray(key);
    for (size_t i = 0; array && i < array->size(); ++i) {
      std::optional<StringRef> text = (*array)[i].getAsString();
      if (!text)
        return fail(key, "expected strings only");
      values.push_back(text->str());
    }
    return array ? Error::success() : fail(key, "expected an array");
  }

  Expected<ObjectReader> child(StringRef key) const {
    if (const json::Object *inner = object.getObject(key))
      return ObjectReader(file, path + "/" + key.str(), *inner);
    return fail(key, "expected an object");
  }

  Error read(StringRef key, std::vector<ShardingRuleText> &rules) const {
    const json::Array *array = object.getArray(key);
    if (!array)
      return fail(key, "expected an array");
    for (size_t i = 0; i < array->size(); ++i) {
      const json::Object *rule = (*array)[i].getAsObject();
      if (!rule)
        return fail(key, "expected objects only");
      ObjectReader reader(file, path + "/" + key.str() + "/" + std::to_string(i), *rule);
      rules.emplace_back();
      if (Error error = reader.checkKeys({"match", "sharding"}))
        return error;
      if (Error error = reader.read("match", rules.back().match))
        return error;
      if (Error error = reader.read("sharding", rules.back().sharding))
        return error;
    }
    return Error::success();
  }

private:
  const std::string &file;
  std::string path;
  const json::Object &object;
};
} // namespace

/// The parser recurses once per bracket: depth is checked before.
static Error checkNesting(StringRef text, const std::string &path) {
  unsigned depth = 0;
  bool inString = false;
  for (size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (c == '"')
      inString = !inString;
    else if (c == '\\' && inString)
      ++at;
    else if (!inString && (c == '[' || c == '{') && ++depth > kMaxNesting)
      return makeError(ExitCode::Data,
                       path + ": nested deeper than " + Twine(kMaxNesting) + " brackets, at byte " + Twine(at));
    else if (!inString && (c == ']' || c == '}') && depth > 0)
      --depth;
  }
  return Error::success();
}

static Error readFields(const ObjectReader &root, PlanFile &plan) {
  int64_t version = 0;
  Expected<ObjectReader> mesh = root.child("mesh");
  if (!mesh)
    return mesh.takeError();
  const std::function<Error()> steps[] = {
      [&] { return root.read("format_version", version, kFormatVersion, kFormatVersion); },
      [&] {
        return mesh->checkKeys({"tp", "pp", "dp"});
      },
      [&] { return mesh->read("tp", plan.tp, 1, kMaxRanks); },
      [&] { return mesh->read("pp", plan.pp, 1, kMaxRanks); },
      [&] { return mesh->read("dp", plan.dp, 1, kMaxRanks); },
      [&] { return root.read("schedule", plan.schedule); },
      [&] { return root.read("partition_method", plan.partitionMethod); },
      [&] { return root.read("cuts", plan.cuts); },
      [&] { return root.read("inputs", plan.inputs); },
      [&] { return root.read("parameters", plan.parameters); },
  };
  for (const std::function<Error()> &step : steps)
    if (Error error = step())
      return error;
  if (static_cast<int64_t>(plan.cuts.size()) != plan.pp - 1)
    return root.fail("cuts", "has " + Twine(plan.cuts.size()) + " entries, expected " + Twine(plan.pp - 1) +
                                 " for pp " + Twine(plan.pp));
  return Error::success();
}

Expected<PlanFile> hyc::readPlanFile(const std::string &path) {
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/true);
  if (!buffer)
    return ioError("cannot read --plan '" + path + "'", buffer.getError());
  StringRef text = (*buffer)->getBuffer();
  if (text.size() > kMaxBytes)
    return makeError(ExitCode::Data, path + ": has " + Twine(text.size()) + " bytes, which is no plan");
  if (Error error = checkNesting(text, path))
    return error;
  Expected<json::Value> value = json::parse(text);
  if (!value)
    return makeError(ExitCode::Data, path + ": " + toString(value.takeError()));
  const json::Object *object = value->getAsObject();
  if (!object)
    return makeError(ExitCode::Data, path + ": expected an object");
  PlanFile plan;
  ObjectReader root(path, "", *object);
  if (Error error =
          root.checkKeys({"format_version", "mesh", "schedule", "partition_method", "cuts", "inputs", "parameters"}))
    return error;
  if (Error error = readFields(root, plan))
    return error;
  return plan;
}

static void writeRules(json::OStream &json, StringRef key, ArrayRef<ShardingRuleText> rules) {
  json.attributeArray(key, [&] {
    // One line a rule.
    for (const ShardingRuleText &rule : rules)
      json.rawValue([&](raw_ostream &os) {
        os << "{\"match\": " << json::Value(json::fixUTF8(rule.match))
           << ", \"sharding\": " << json::Value(rule.sharding) << "}";
      });
  });
}

std::string PlanFile::toJson() const {
  std::string text;
  raw_string_ostream os(text);
  json::OStream json(os, /*IndentSize=*/2);
  json.object([&] {
    json.attribute("format_version", kFormatVersion);
    json.attributeBegin("mesh");
    json.rawValue([&](raw_ostream &os) { os << "{\"tp\": " << tp << ", \"pp\": " << pp << ", \"dp\": " << dp << "}"; });
    json.attributeEnd();
    json.attribute("schedule", schedule);
    json.attribute("partition_method", partitionMethod);
    json.attributeArray("cuts", [&] {
      for (const std::string &cut : cuts)
        json.value(cut);
    });
    writeRules(json, "inputs", inputs);
    writeRules(json, "parameters", parameters);
  });
  os << "\n";
  return text;
}

Error hyc::takePlan(CompileOptions &options, const PlanFile &plan) {
  auto contradiction = [&](StringRef flag, const Twine &typed, const Twine &planned) {
    return usageError("--" + flag + " is " + typed + ", but " + options.planFile + " has " + planned +
                      "; leave the flag out or edit the plan");
  };
  struct Size {
    StringRef flag;
    std::optional<int64_t> &typed;
    int64_t planned;
  };
  for (const Size &size : {Size{"tp", options.tp, plan.tp}, {"pp", options.pp, plan.pp}, {"dp", options.dp, plan.dp}}) {
    if (size.typed && *size.typed != size.planned)
      return contradiction(size.flag, Twine(*size.typed), Twine(size.planned));
    size.typed = size.planned;
  }
  if (options.schedule && *options.schedule != plan.schedule)
    return contradiction("schedule", *options.schedule, plan.schedule);
  if (options.partitionMethod && *options.partitionMethod != plan.partitionMethod)
    return contradiction("partition-method", *options.partitionMethod, plan.partitionMethod);
  options.schedule = plan.schedule;
  options.partitionMethod = plan.partitionMethod;
  return Error::success();
}
