// plan.json as text: reading with checks, writing. Which settings it has is the table's affair.
#include "hyc/Plan/PlanText.h"

#include "hyc/Plan/SettingTable.h"
#include "hyc/Plan/StateProperties.h"
#include "hyc/Support/DriverError.h"
#include "hyc/Support/JsonFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <functional>

using namespace llvm;
using namespace hyc;

static constexpr int64_t kFormatVersion = 1;
static constexpr uint64_t kMaxBytes = uint64_t(64) << 20;
/// The object that every plan has, and which stands on one line.
static constexpr StringLiteral kMesh = "mesh";

/// "zero" and "stage" of "zero/stage"; no object and "schedule" of "schedule".
static std::pair<StringRef, StringRef> splitKey(const SettingRow &row) {
  auto [object, name] = row.planKey.split('/');
  return name.empty() ? std::pair(StringRef(), object) : std::pair(object, name);
}

/// The rows of one object, in the table's order; "": those of the root.
static SmallVector<const SettingRow *> rowsIn(StringRef object) {
  SmallVector<const SettingRow *> rows;
  for (const SettingRow &row : getSettings())
    if (!row.planKey.empty() && splitKey(row).first == object)
      rows.push_back(&row);
  return rows;
}

/// The objects that settings are in.
static SmallVector<StringRef> objects() {
  SmallVector<StringRef> names;
  for (const SettingRow &row : getSettings())
    if (StringRef object = splitKey(row).first; !object.empty() && !is_contained(names, object))
      names.push_back(object);
  return names;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static Error readValue(const JsonObjectReader &reader, StringRef key, const SettingRange &range, bool &value) {
  return reader.read(key, value);
}
static Error readValue(const JsonObjectReader &reader, StringRef key, const SettingRange &range, int64_t &value) {
  return reader.read(key, value, static_cast<int64_t>(range.least), static_cast<int64_t>(range.most));
}
static Error readValue(const JsonObjectReader &reader, StringRef key, const SettingRange &range, double &value) {
  return reader.read(key, value, range.least, range.most);
}
static Error readValue(const JsonObjectReader &reader, StringRef key, const SettingRange &range, std::string &value) {
  if (Error error = reader.read(key, value))
    return error;
  if (isWithin(range, value))
    return Error::success();
  return reader.fail(key, "\"" + key + "\" is \"" + value + "\", expected " + describe(range));
}
template <typename T>
static Error readValue(const JsonObjectReader &reader, StringRef key, const SettingRange &range, T &value) {
  llvm_unreachable("no list is a setting of plan.json");
}

static Error readSettings(const JsonObjectReader &reader, StringRef object, const std::string &path, Plan &plan) {
  for (const SettingRow *row : rowsIn(object)) {
    StringRef key = splitKey(*row).second;
    SettingRef setting = row->ofPlan(plan);
    SettingValue value = valueOf(setting);
    if (reader.has(key)) {
      if (Error error = std::visit([&](auto &typed) { return readValue(reader, key, row->range, typed); }, value))
        return error;
    } else if (row->planFallback.empty()) {
      continue;
    } else {
      value = *parseLike(value, row->planFallback);
    }
    offerTo(setting, value, Origin::Plan, path);
  }
  return Error::success();
}

/// The keys of one object of settings.
static void addKeys(StringRef object, SmallVectorImpl<StringRef> &required, SmallVectorImpl<StringRef> &optional) {
  for (const SettingRow *row : rowsIn(object))
    (row->isPlanOptional ? optional : required).push_back(splitKey(*row).second);
}

/// Axes of names of their own. How they fit the mesh is a pass's to check (hyc-create-mesh).
static Error readFurtherAxes(const JsonObjectReader &mesh, PlanRules &rules) {
  for (auto [key, list] : {std::pair{"axes", &rules.axes}, {"order", &rules.order}})
    if (mesh.has(key))
      if (Error error = mesh.read(key, *list))
        return error;
  std::set<StringRef> names = {"dp", "tp", "pp"};
  for (StringRef axis : rules.axes) {
    auto [parent, size] = axis.rsplit(':');
    StringRef name = parent.contains('.') ? parent.rsplit('.').second : parent;
    int64_t count = 0;
    if (name.empty() || size.getAsInteger(10, count) || count < 1 || count > kMaxRanks)
      return mesh.fail("axes", "\"axes\" holds \"" + axis +
                                   "\", expected NAME:SIZE or PARENT.NAME:SIZE, of a size from 1 to " +
                                   Twine(kMaxRanks));
    if (!names.insert(name).second)
      return mesh.fail("axes", "\"axes\" names \"" + name + "\", which the mesh has already; expected another name");
  }
  return Error::success();
}

int64_t Plan::furtherRanks() const {
  int64_t ranks = 1, size = 1;
  for (StringRef axis : rules.axes)
    if (!axis.contains('.') && !axis.rsplit(':').second.getAsInteger(10, size))
      ranks *= std::clamp<int64_t>(size, 1, kMaxRanks);
  return std::min<int64_t>(ranks, kMaxRanks + 1);
}

bool PlanRules::offloadsActivations() const {
  return any_of(lifetimes, [](const PlanRule &rule) { return StringRef(rule.value).split(' ').first == "offload"; });
}

bool PlanRules::dividesActivations() const {
  return any_of(lifetimes, [](const PlanRule &rule) { return StringRef(rule.value).contains(" over "); });
}

std::string Plan::describeFurtherAxes() const {
  std::string text;
  for (StringRef axis : rules.axes)
    if (!axis.contains('.'))
      text += " × " + axis.rsplit(':').first.str() + " " + axis.rsplit(':').second.str();
  return text;
}

static Error readObject(const JsonObjectReader &root, StringRef object, const std::string &path, Plan &plan) {
  if (object != kMesh && !root.has(object))
    return Error::success();
  Expected<JsonObjectReader> reader = root.child(object);
  if (!reader)
    return reader.takeError();
  SmallVector<StringRef> required, optional;
  addKeys(object, required, optional);
  if (object == kMesh)
    optional.append({"axes", "order"});
  if (Error error = reader->checkKeys(required, optional))
    return error;
  if (object != kMesh)
    plan.rules.objects.insert(object.str());
  else if (Error error = readFurtherAxes(*reader, plan.rules))
    return error;
  return readSettings(*reader, object, path, plan);
}

/// Rules that give `property` ("sharding"); or of parameters' states alone, whose sharding is then hyc's to choose.
static Error readRules(const JsonObjectReader &root, StringRef key, StringRef property, std::vector<PlanRule> &rules) {
  return root.readObjects(key, [&](const JsonObjectReader &rule) -> Error {
    rules.emplace_back();
    std::vector<StringRef> others;
    if (property == "sharding")
      for (const StateProperty &said : kStateProperties)
        others.push_back(said.key);
    if (!rule.has(property) && !any_of(others, [&](StringRef name) { return rule.has(name); }))
      return rule.checkKeys({"match", property}, others);
    others.push_back(property);
    if (Error error = rule.checkKeys({"match"}, others))
      return error;
    others.pop_back();
    if (Error error = rule.read("match", rules.back().match))
      return error;
    rules.back().place = rule.placeOf("match");
    for (const PlanRule &earlier : ArrayRef(rules).drop_back())
      if (earlier.match == rules.back().match)
        return rule.fail("match", "\"" + earlier.match + "\" has two rules in \"" + key + "\", the first at " +
                                      earlier.place + "; expected one");
    for (StringRef name : others)
      if (rule.has(name))
        if (Error error = rule.read(name, rules.back().states[name.str()]))
          return error;
    return rule.has(property) ? rule.read(property, rules.back().value) : Error::success();
  });
}

static Error checkRootKeys(const JsonObjectReader &root) {
  SmallVector<StringRef> required = {"format_version", kMesh},
                         optional = {"cuts", "inputs", "parameters", "lifetimes", "forms"};
  addKeys("", required, optional);
  for (StringRef object : objects())
    if (object != kMesh)
      optional.push_back(object);
  return root.checkKeys(required, optional);
}

/// One cut between every two chunks; a file without the key leaves them to the method.
static Error readCuts(const JsonObjectReader &root, Plan &plan) {
  if (!root.has("cuts"))
    return Error::success();
  if (Error error = root.read("cuts", plan.rules.cuts))
    return error;
  plan.rules.cutsPlace = root.placeOf("cuts");
  int64_t expected = *plan.pp * *plan.virtualStages - 1;
  if (static_cast<int64_t>(plan.rules.cuts.size()) == expected)
    return Error::success();
  std::string chunks = "pp " + std::to_string(*plan.pp);
  if (*plan.virtualStages > 1)
    chunks += " × virtual_stages " + std::to_string(*plan.virtualStages);
  return root.fail("cuts", "\"cuts\" has " + Twine(plan.rules.cuts.size()) + " entries, expected " + Twine(expected) +
                               " for " + chunks + "; leave the key out to have hyc choose them");
}

static Error readFields(const JsonObjectReader &root, const std::string &path, Plan &plan) {
  int64_t version = 0;
  auto readOptionalRules = [&](StringRef key, StringRef property, std::vector<PlanRule> &rules) {
    return root.has(key) ? readRules(root, key, property, rules) : Error::success();
  };
  const std::function<Error()> steps[] = {
      [&] { return checkRootKeys(root); },
      [&] { return root.read("format_version", version, kFormatVersion, kFormatVersion); },
      [&]() -> Error {
        for (StringRef object : objects())
          if (Error error = readObject(root, object, path, plan))
            return error;
        return Error::success();
      },
      [&] { return readSettings(root, "", path, plan); },
      [&] { return readCuts(root, plan); },
      [&] { return readOptionalRules("inputs", "sharding", plan.rules.inputs); },
      [&] { return readOptionalRules("parameters", "sharding", plan.rules.parameters); },
      [&] { return readOptionalRules("lifetimes", "lifetime", plan.rules.lifetimes); },
      [&] { return readOptionalRules("forms", "form", plan.rules.forms); },
  };
  for (const std::function<Error()> &step : steps)
    if (Error error = step())
      return error;
  return Error::success();
}

Expected<Plan> hyc::readPlan(const std::string &path) {
  Plan plan;
  if (Error error = readJsonFile("plan", path, kMaxBytes,
                                 [&](const JsonObjectReader &root) { return readFields(root, path, plan); }))
    return error;
  return plan;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static json::Value toJson(bool value) { return value; }
static json::Value toJson(int64_t value) { return value; }
static json::Value toJson(double value) { return value; }
static json::Value toJson(const std::string &value) { return json::fixUTF8(value); }
template <typename T> static json::Value toJson(const T &) { llvm_unreachable("no list is a setting of plan.json"); }

static json::Value valueIn(const Plan &plan, const SettingRow &row) {
  return std::visit([](const auto &typed) { return toJson(typed); }, valueOf(row.ofPlan(const_cast<Plan &>(plan))));
}

static bool isLeftOut(const Plan &plan, const SettingRow &row) {
  Plan defaults;
  return row.isOmitted && valueOf(row.ofPlan(const_cast<Plan &>(plan))) == valueOf(row.ofPlan(defaults));
}

static void writeSettings(json::OStream &json, StringRef object, const Plan &plan) {
  for (const SettingRow *row : rowsIn(object))
    if (!isLeftOut(plan, *row))
      json.attribute(splitKey(*row).second, valueIn(plan, *row));
}

/// {"tp": 2, "pp": 2, "dp": 2}, or with "axes": ["ep:2"]
static void writeMesh(json::OStream &json, const Plan &plan) {
  json.attributeBegin(kMesh);
  json.rawValue([&](raw_ostream &os) {
    StringRef separator = "{";
    for (const SettingRow *row : rowsIn(kMesh)) {
      os << separator << '"' << splitKey(*row).second << "\": " << valueIn(plan, *row);
      separator = ", ";
    }
    for (auto [key, list] : {std::pair{"axes", &plan.rules.axes}, {"order", &plan.rules.order}})
      if (!list->empty())
        os << ", \"" << key << "\": " << json::Value(json::Array(*list));
    os << '}';
  });
  json.attributeEnd();
}

static void writeRules(json::OStream &json, StringRef key, StringRef property, ArrayRef<PlanRule> rules) {
  json.attributeArray(key, [&] {
    // One line a rule.
    for (const PlanRule &rule : rules)
      json.rawValue([&](raw_ostream &os) {
        os << "{\"match\": " << json::Value(json::fixUTF8(rule.match)) << ", \"" << property
           << "\": " << json::Value(rule.value);
        for (const StateProperty &state : kStateProperties)
          if (auto said = rule.states.find(state.key); said != rule.states.end())
            os << ", \"" << state.key << "\": " << json::Value(said->second);
        os << "}";
      });
  });
}

std::string hyc::writePlan(const Plan &plan) {
  std::string text;
  raw_string_ostream os(text);
  json::OStream json(os, /*IndentSize=*/2);
  const PlanRules &rules = plan.rules;
  json.object([&] {
    json.attribute("format_version", kFormatVersion);
    writeMesh(json, plan);
    writeSettings(json, "", plan);
    for (StringRef object : objects())
      if (rules.objects.count(object))
        json.attributeObject(object, [&] { writeSettings(json, object, plan); });
    json.attributeArray("cuts", [&] {
      for (const std::string &cut : rules.cuts)
        json.value(cut);
    });
    writeRules(json, "inputs", "sharding", rules.inputs);
    writeRules(json, "parameters", "sharding", rules.parameters);
    writeRules(json, "lifetimes", "lifetime", rules.lifetimes);
    if (!rules.forms.empty())
      writeRules(json, "forms", "form", rules.forms);
  });
  os << "\n";
  return text;
}

//===----------------------------------------------------------------------===//
// Joining
//===----------------------------------------------------------------------===//

static Error contradiction(Origin said, const std::string &source, const Twine &what) {
  bool isFlag = said == Origin::Flag;
  return makeError(isFlag ? ExitCode::Usage : ExitCode::Data,
                   source + " is " + what +
                       (isFlag ? "; leave the flag out or edit the plan" : "; change one of the two files"));
}

/// Fills one setting from the plan's, where the file says it.
static Error takeSetting(CompileOptions &options, const SettingRow &row, SettingRef planned) {
  SettingRef setting = row.in(options);
  if (originOf(planned) != Origin::Plan)
    return Error::success();
  SettingValue wanted = valueOf(planned);
  bool isGiven = originOf(setting) >= Origin::Config;
  if (!isGiven || valueOf(setting) == wanted) {
    offerTo(setting, wanted, Origin::Plan, sourceOf(planned));
    return Error::success();
  }
  auto [object, name] = splitKey(row);
  return contradiction(originOf(setting), sourceOf(setting),
                       print(valueOf(setting)) + ", but " + sourceOf(planned) + " has " +
                           (object.empty() || object == kMesh ? name : row.planKey) + " " + print(wanted));
}

/// What a flag asks for by a name of its own, and a plan says by its rules.
static Error checkPromises(const CompileOptions &options, const Plan &plan) {
  bool splitsInputs =
      any_of(plan.rules.inputs, [](const PlanRule &rule) { return StringRef(rule.value).contains("tp"); });
  struct Promise {
    const Setting<bool> &setting;
    bool isKept;
    StringRef broken;
  };
  for (const Promise &promise :
       {Promise{options.partitionActivations, plan.rules.dividesActivations(), "saves nothing over tp"},
        Promise{options.sequenceParallel, splitsInputs, "splits no input over tp"}}) {
    if (!*promise.setting || promise.isKept || *plan.tp == 1)
      continue;
    return contradiction(promise.setting.getOrigin(), promise.setting.getSource(),
                         "given, but " + *options.planFile + " " + promise.broken);
  }
  if (*options.offloadActivations != OffloadPlace::None && !plan.rules.offloadsActivations())
    return contradiction(options.offloadActivations.getOrigin(), options.offloadActivations.getSource(),
                         "given, but " + *options.planFile + " offloads no activation");
  return Error::success();
}

Error hyc::takePlan(CompileOptions &options, const Plan &plan) {
  for (const SettingRow &row : getSettings())
    if (!row.planKey.empty())
      if (Error error = takeSetting(options, row, row.ofPlan(const_cast<Plan &>(plan))))
        return error;
  if (Error error = checkPromises(options, plan))
    return error;
  options.rules = plan.rules;
  return Error::success();
}
