// plan.json as text: reading with checks, writing.
#include "JsonFile.h"
#include "PlanFile.h"
#include "hyc/Driver/DriverError.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <functional>

using namespace llvm;
using namespace hyc;

static constexpr int64_t kFormatVersion = 1;
static constexpr int64_t kMaxElements = int64_t(1) << 48;
static constexpr uint64_t kMaxBytes = uint64_t(64) << 20;

/// Rules that give `property` ("sharding").
static Error readRules(const JsonObjectReader &root, StringRef key, StringRef property, std::vector<PlanRule> &rules) {
  return root.readObjects(key, [&](const JsonObjectReader &rule) -> Error {
    rules.emplace_back();
    std::vector<StringRef> others;
    if (property == "sharding")
      others.assign(std::begin(kStateProperties), std::end(kStateProperties));
    if (Error error = rule.checkKeys({"match", property}, others))
      return error;
    if (Error error = rule.read("match", rules.back().match))
      return error;
    for (StringRef name : others)
      if (rule.has(name))
        if (Error error = rule.read(name, rules.back().states[name.str()]))
          return error;
    return rule.read(property, rules.back().value);
  });
}

static Error readZero(const JsonObjectReader &root, std::optional<ZeroPlan> &plan) {
  if (!root.has("zero"))
    return Error::success();
  Expected<JsonObjectReader> reader = root.child("zero");
  if (!reader)
    return reader.takeError();
  ZeroPlan &zero = plan.emplace();
  if (Error error = reader->checkKeys({"stage", "gradient_reduction", "persistence_threshold", "prefetch",
                                       "max_live_parameters", "reduce_bucket", "allgather_bucket"},
                                      {"prefetch_bucket", "reductions_in_flight"}))
    return error;
  if (Error error = reader->read("stage", zero.stage, 0, 3))
    return error;
  for (auto [key, value] : {std::pair{"persistence_threshold", &zero.persistenceThreshold},
                            {"prefetch", &zero.prefetch},
                            {"max_live_parameters", &zero.maxLiveParameters},
                            {"reduce_bucket", &zero.reduceBucket},
                            {"allgather_bucket", &zero.gatherBucket}})
    if (Error error = reader->read(key, *value, 0, kMaxElements))
      return error;
  // A plan without them is one that bounds what is ahead by `prefetch` alone and awaits sums where they are made.
  zero.prefetchBucket = kMaxElements;
  for (auto [key, value] : {std::pair{"prefetch_bucket", &zero.prefetchBucket},
                            {"reductions_in_flight", &zero.reductionsInFlight}})
    if (reader->has(key))
      if (Error error = reader->read(key, *value, 0, kMaxElements))
        return error;
  return reader->read("gradient_reduction", zero.gradientReduction);
}

static Error readMesh(const JsonObjectReader &root, PlanFile &plan) {
  Expected<JsonObjectReader> mesh = root.child("mesh");
  if (!mesh)
    return mesh.takeError();
  if (Error error = mesh->checkKeys({"tp", "pp", "dp"}))
    return error;
  for (auto [key, size] : {std::pair{"tp", &plan.tp}, {"pp", &plan.pp}, {"dp", &plan.dp}})
    if (Error error = mesh->read(key, *size, 1, kMaxRanks))
      return error;
  return Error::success();
}

static Error readOffload(const JsonObjectReader &root, std::optional<OffloadPlan> &plan) {
  if (!root.has("offload"))
    return Error::success();
  Expected<JsonObjectReader> reader = root.child("offload");
  if (!reader)
    return reader.takeError();
  OffloadPlan &offload = plan.emplace();
  if (Error error = reader->checkKeys(
          {"optimizer", "param", "ratio", "max_in_cpu", "sub_group_size", "pipeline_read", "pipeline_write"},
          {"gradients", "prefetch"}))
    return error;
  if (reader->has("gradients"))
    if (Error error = reader->read("gradients", offload.gradients))
      return error;
  // A plan without it is one that fetches where a tensor is needed.
  if (reader->has("prefetch"))
    if (Error error = reader->read("prefetch", offload.prefetch, 0, kMaxElements))
      return error;
  if (offload.gradients != "none" && offload.gradients != "cpu")
    return reader->fail("gradients", "\"gradients\" is \"" + offload.gradients + "\", expected none or cpu");
  for (auto [key, device] : {std::pair{"optimizer", &offload.optimizer}, {"param", &offload.param}}) {
    if (Error error = reader->read(key, *device))
      return error;
    if (*device != "none" && *device != "cpu" && *device != "nvme")
      return reader->fail(key, "\"" + Twine(key) + "\" is \"" + *device + "\", expected none, cpu or nvme");
  }
  for (auto [key, value] : {std::pair{"pipeline_read", &offload.readAhead}, {"pipeline_write", &offload.writeBehind}})
    if (Error error = reader->read(key, *value))
      return error;
  if (Error error = reader->read("ratio", offload.ratio, 0, 1))
    return error;
  if (Error error = reader->read("max_in_cpu", offload.maxInHost, 0, kMaxElements))
    return error;
  return reader->read("sub_group_size", offload.subGroup, 1, kMaxElements);
}

static Error readFields(const JsonObjectReader &root, PlanFile &plan) {
  int64_t version = 0;
  const std::function<Error()> steps[] = {
      [&] {
        return root.checkKeys(
            {"format_version", "mesh", "schedule", "partition_method", "cuts", "inputs", "parameters"},
            {"virtual_stages", "precision", "recompute", "lifetimes", "forms", "zero", "offload"});
      },
      [&] { return root.read("format_version", version, kFormatVersion, kFormatVersion); },
      [&] { return readMesh(root, plan); },
      [&] { return root.read("schedule", plan.schedule); },
      [&] {
        return root.has("virtual_stages") ? root.read("virtual_stages", plan.virtualStages, 1, kMaxRanks)
                                          : Error::success();
      },
      [&] { return root.read("partition_method", plan.partitionMethod); },
      [&] { return root.has("precision") ? root.read("precision", plan.precision) : Error::success(); },
      [&] { return root.has("recompute") ? root.read("recompute", plan.recompute) : Error::success(); },
      [&] { return readOffload(root, plan.offload); },
      [&] { return root.read("cuts", plan.cuts); },
      [&] { return readZero(root, plan.zero); },
      [&] { return readRules(root, "inputs", "sharding", plan.inputs); },
      [&] { return readRules(root, "parameters", "sharding", plan.parameters); },
      [&] {
        return root.has("lifetimes") ? readRules(root, "lifetimes", "lifetime", plan.lifetimes) : Error::success();
      },
      [&] { return root.has("forms") ? readRules(root, "forms", "form", plan.forms) : Error::success(); },
  };
  for (const std::function<Error()> &step : steps)
    if (Error error = step())
      return error;
  int64_t expected = plan.pp * plan.virtualStages - 1;
  if (static_cast<int64_t>(plan.cuts.size()) == expected)
    return Error::success();
  std::string chunks = "pp " + std::to_string(plan.pp);
  if (plan.virtualStages > 1)
    chunks += " × virtual_stages " + std::to_string(plan.virtualStages);
  return root.fail("cuts", "\"cuts\" has " + Twine(plan.cuts.size()) + " entries, expected " + Twine(expected) +
                               " for " + chunks);
}

Expected<PlanFile> hyc::readPlanFile(const std::string &path) {
  PlanFile plan;
  if (Error error = readJsonFile("plan", path, kMaxBytes,
                                 [&](const JsonObjectReader &root) { return readFields(root, plan); }))
    return std::move(error);
  return plan;
}

static void writeRules(json::OStream &json, StringRef key, StringRef property, ArrayRef<PlanRule> rules) {
  json.attributeArray(key, [&] {
    // One line a rule.
    for (const PlanRule &rule : rules)
      json.rawValue([&](raw_ostream &os) {
        os << "{\"match\": " << json::Value(json::fixUTF8(rule.match)) << ", \"" << property
           << "\": " << json::Value(rule.value);
        for (const char *name : kStateProperties)
          if (auto said = rule.states.find(name); said != rule.states.end())
            os << ", \"" << name << "\": " << json::Value(said->second);
        os << "}";
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
    if (virtualStages > 1)
      json.attribute("virtual_stages", virtualStages);
    json.attribute("partition_method", partitionMethod);
    if (!precision.empty())
      json.attribute("precision", precision);
    json.attribute("recompute", recompute);
    if (offload)
      json.attributeObject("offload", [&] {
        json.attribute("optimizer", offload->optimizer);
        json.attribute("param", offload->param);
        json.attribute("gradients", offload->gradients);
        json.attribute("ratio", offload->ratio);
        json.attribute("max_in_cpu", offload->maxInHost);
        json.attribute("sub_group_size", offload->subGroup);
        json.attribute("pipeline_read", offload->readAhead);
        json.attribute("pipeline_write", offload->writeBehind);
        json.attribute("prefetch", offload->prefetch);
      });
    json.attributeArray("cuts", [&] {
      for (const std::string &cut : cuts)
        json.value(cut);
    });
    if (zero)
      json.attributeObject("zero", [&] {
        json.attribute("stage", zero->stage);
        json.attribute("gradient_reduction", zero->gradientReduction);
        json.attribute("persistence_threshold", zero->persistenceThreshold);
        json.attribute("prefetch", zero->prefetch);
        json.attribute("prefetch_bucket", zero->prefetchBucket);
        json.attribute("max_live_parameters", zero->maxLiveParameters);
        json.attribute("reductions_in_flight", zero->reductionsInFlight);
        json.attribute("reduce_bucket", zero->reduceBucket);
        json.attribute("allgather_bucket", zero->gatherBucket);
      });
    writeRules(json, "inputs", "sharding", inputs);
    writeRules(json, "parameters", "sharding", parameters);
    writeRules(json, "lifetimes", "lifetime", lifetimes);
    if (!forms.empty())
      writeRules(json, "forms", "form", forms);
  });
  os << "\n";
  return text;
}

/// Fills `setting` from the plan; a flag or a config that says something else contradicts it.
template <typename T>
static Error take(Setting<T> &setting, const T &planned, StringRef key, const std::string &planFile) {
  if (!setting.isGiven() || *setting == planned) {
    setting.offer(planned, Origin::Plan, planFile);
    return Error::success();
  }
  bool isFlag = setting.getOrigin() == Origin::Flag;
  std::string said, wanted;
  raw_string_ostream(said) << *setting;
  raw_string_ostream(wanted) << planned;
  return makeError(isFlag ? ExitCode::Usage : ExitCode::Data,
                   setting.getSource() + " is " + said + ", but " + planFile + " has " + key + " " + wanted +
                       (isFlag ? "; leave the flag out or edit the plan" : "; change one of the two files"));
}

static Error takeZero(CompileOptions &options, const ZeroPlan &zero) {
  struct Number {
    StringRef key;
    Setting<int64_t> &setting;
    int64_t planned;
  };
  for (const Number &number : {Number{"zero/stage", options.zero, zero.stage},
                               {"zero/persistence_threshold", options.persistenceThreshold, zero.persistenceThreshold},
                               {"zero/prefetch", options.prefetch, zero.prefetch},
                               {"zero/prefetch_bucket", options.prefetchBucket, zero.prefetchBucket},
                               {"zero/max_live_parameters", options.maxLiveParameters, zero.maxLiveParameters},
                               {"zero/reductions_in_flight", options.reductionsInFlight, zero.reductionsInFlight},
                               {"zero/reduce_bucket", options.reduceBucket, zero.reduceBucket},
                               {"zero/allgather_bucket", options.gatherBucket, zero.gatherBucket}})
    if (Error error = take(number.setting, number.planned, number.key, options.planFile))
      return error;
  return take(options.gradientReduction, zero.gradientReduction, "zero/gradient_reduction", options.planFile);
}

static Error takeOffload(CompileOptions &options, const OffloadPlan &offload) {
  const std::function<Error()> steps[] = {
      [&] { return take(options.offloadOptimizer, offload.optimizer, "offload/optimizer", options.planFile); },
      [&] { return take(options.offloadParam, offload.param, "offload/param", options.planFile); },
      [&] { return take(options.offloadGradients, offload.gradients, "offload/gradients", options.planFile); },
      [&] { return take(options.offloadRatio, offload.ratio, "offload/ratio", options.planFile); },
      [&] { return take(options.maxInHost, offload.maxInHost, "offload/max_in_cpu", options.planFile); },
      [&] { return take(options.subGroup, offload.subGroup, "offload/sub_group_size", options.planFile); },
      [&] { return take(options.readAhead, offload.readAhead, "offload/pipeline_read", options.planFile); },
      [&] { return take(options.writeBehind, offload.writeBehind, "offload/pipeline_write", options.planFile); },
      [&] { return take(options.offloadPrefetch, offload.prefetch, "offload/prefetch", options.planFile); },
  };
  for (const std::function<Error()> &step : steps)
    if (Error error = step())
      return error;
  return Error::success();
}

Error hyc::takePlan(CompileOptions &options, const PlanFile &plan) {
  struct Size {
    StringRef key;
    Setting<int64_t> &setting;
    int64_t planned;
  };
  for (const Size &size : {Size{"tp", options.tp, plan.tp},
                           {"pp", options.pp, plan.pp},
                           {"dp", options.dp, plan.dp},
                           {"virtual_stages", options.virtualStages, plan.virtualStages}})
    if (Error error = take(size.setting, size.planned, size.key, options.planFile))
      return error;
  if (Error error = take(options.schedule, plan.schedule, "schedule", options.planFile))
    return error;
  if (Error error = take(options.partitionMethod, plan.partitionMethod, "partition_method", options.planFile))
    return error;
  if (!plan.precision.empty())
    if (Error error = take(options.precision, plan.precision, "precision", options.planFile))
      return error;
  if (plan.zero)
    if (Error error = takeZero(options, *plan.zero))
      return error;
  if (plan.offload)
    if (Error error = takeOffload(options, *plan.offload))
      return error;
  if (Error error = take(options.recompute, plan.recompute, "recompute", options.planFile))
    return error;
  auto mentions = [](ArrayRef<PlanRule> rules, StringRef text) {
    return any_of(rules, [&](const PlanRule &rule) { return StringRef(rule.value).contains(text); });
  };
  struct Promise {
    const Setting<bool> &setting;
    bool isKept;
    StringRef broken;
  };
  for (const Promise &promise :
       {Promise{options.partitionActivations, mentions(plan.lifetimes, "save over"), "saves nothing over tp"},
        Promise{options.sequenceParallel, mentions(plan.inputs, "tp"), "splits no input over tp"}}) {
    if (!*promise.setting || promise.isKept || plan.tp == 1)
      continue;
    bool isFlag = promise.setting.getOrigin() == Origin::Flag;
    return makeError(isFlag ? ExitCode::Usage : ExitCode::Data,
                     promise.setting.getSource() + " is given, but " + options.planFile + " " + promise.broken + "; " +
                         (isFlag ? "leave the flag out or edit the plan" : "change one of the two files"));
  }
  if (*options.offloadActivations != "none" && !mentions(plan.lifetimes, "offload")) {
    bool isFlag = options.offloadActivations.getOrigin() == Origin::Flag;
    return makeError(isFlag ? ExitCode::Usage : ExitCode::Data,
                     options.offloadActivations.getSource() + " is given, but " + options.planFile +
                         " offloads no activation; " +
                         (isFlag ? "leave the flag out or edit the plan" : "change one of the two files"));
  }
  return Error::success();
}
