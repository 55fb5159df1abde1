// What each key of a ds_config comes to: offered to a setting, without effect, or refused with the reason.
#include "Config/ConfigResolution.h"

#include "hyc/Support/ByteCount.h"
#include "hyc/Support/DriverError.h"
#include "hyc/Support/Optimizers.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;
using namespace hyc;

//===----------------------------------------------------------------------===//
// What cannot be done
//===----------------------------------------------------------------------===//

static SmallVector<StringRef> split(StringRef list) {
  SmallVector<StringRef> parts;
  list.split(parts, '|', -1, /*KeepEmpty=*/false);
  return parts;
}

static bool takes(const ConfigKey &key, StringRef type) {
  if (StringRef parameter = key.path; parameter.consume_front("optimizer.params.")) {
    const Optimizer *optimizer = findOptimizer(type);
    return !optimizer || optimizer->takesParameter(parameter);
  }
  SmallVector<StringRef> types = split(key.scope);
  return types.empty() || any_of(types, [&](StringRef each) { return each.equals_insensitive(type); });
}

/// `1`, `1.0` and `1e0` are one value.
static bool isNeutral(const JsonValue &value, StringRef neutral) {
  for (StringRef candidate : split(neutral)) {
    double number = 0;
    if (value.getNumber() && !candidate.getAsDouble(number) && *value.getNumber() == number)
      return true;
    if (value.getBool() && (*value.getBool() ? "true" : "false") == candidate)
      return true;
    if (value.getString() == candidate)
      return true;
  }
  return false;
}

/// The parameters that `type` takes, of the object that holds `path`.
static std::string parametersOf(StringRef path, StringRef type) {
  StringRef object = path.take_front(path.rfind('.') + 1);
  SmallVector<StringRef> names;
  for (const ConfigKey &key : getConfigKeys())
    if (key.path.starts_with(object) && !key.path.ends_with("*") && takes(key, type))
      names.push_back(key.path.drop_front(object.size()));
  return join(names, ", ");
}

/// `AdamW` for `optimizer.params.lr`: the type that the same file gives; empty where it gives none.
static StringRef typeFor(const ConfigFile &file, const ConfigKey &key) {
  StringRef object = key.path.split('.').first;
  const JsonValue *type = file.get((object + ".type").str());
  return type ? *type->getString() : StringRef();
}

std::string hyc::refusalOf(const ConfigFile &file, const ConfigEntry &entry) {
  const ConfigKey &key = *entry.key;
  if (entry.isAuto())
    return "";
  if (StringRef type = typeFor(file, key); key.path.contains(".params.") && !type.empty() && !takes(key, type))
    return ("but " + type + " has no such parameter: it takes " + parametersOf(key.path, type)).str();
  if (key.treatment.kind != Treatment::Only || isNeutral(*entry.value, key.treatment.neutral))
    return "";
  std::string instead = join(split(key.treatment.neutral), " or ");
  return ("but " + key.why + "; " + (instead.empty() ? "leave it out" : "set it to " + instead + " or leave it out"))
      .str();
}

//===----------------------------------------------------------------------===//
// Contradictions
//===----------------------------------------------------------------------===//

static bool isTrue(const ConfigFile &file, StringRef path) {
  const JsonValue *value = file.get(path);
  return value && value->getBool() == true;
}

static Error checkPrecisions(const ConfigFile &file) {
  if (!isTrue(file, "fp16.enabled") || !isTrue(file, "bf16.enabled"))
    return Error::success();
  return file.refuse(*file.find("bf16.enabled"),
                     "and so is " + file.sourceOf(*file.find("fp16.enabled")) + ": one type for computing, not both");
}

/// A disk needs a path, and only a ZeRO stage that splits something lets it be moved out.
static Error checkOffload(const ConfigFile &file, const std::string &object, int64_t leastStage) {
  const ConfigEntry *device = file.find(object + ".device");
  if (!device || device->isAuto() || device->value->getString() == "none")
    return Error::success();
  if (device->value->getString() == "nvme" && !file.get(object + ".nvme_path"))
    return file.refuse(*device, "which needs " + object + ".nvme_path, the folder on that disk");
  const JsonValue *stage = file.get("zero_optimization.stage");
  int64_t given = stage ? *stage->getInteger() : 0;
  if (given >= leastStage)
    return Error::success();
  return file.refuse(*device, "which needs zero_optimization.stage of at least " + Twine(leastStage) +
                                  ", and that is " + Twine(given));
}

/// torch.optim.AdamW decays by 0.01 where nothing is said, DeepSpeed's own and hyc's not at all.
static Error checkTorchDefaults(const ConfigFile &file) {
  if (!isTrue(file, "optimizer.params.torch_adam") || file.find("optimizer.params.weight_decay"))
    return Error::success();
  return file.refuse(*file.find("optimizer.params.torch_adam"),
                     "whose default decay is not DeepSpeed's: give optimizer.params.weight_decay too");
}

/// DeepSpeed passes over adam_w_mode of AdamW in silence.
static Error checkDecay(const ConfigFile &file) {
  const ConfigEntry *mode = file.find("optimizer.params.adam_w_mode"), *type = file.find("optimizer.type");
  if (!mode || mode->value->getBool() != false || !type || type->isAuto() ||
      !type->value->getString()->equals_insensitive("adamw"))
    return Error::success();
  return file.refuse(*mode, "but " + file.sourceOf(*type) +
                                " is \"AdamW\", which decouples the decay: write \"Adam\" there, or leave this out");
}

/// A bucket is memory of the device too; without a stage there are none.
static Error checkBuckets(const ConfigFile &file, const CompileOptions &options) {
  const JsonValue *stage = file.get("zero_optimization.stage");
  if (options.deviceMemory->empty() || !stage || *stage->getInteger() == 0)
    return Error::success();
  Expected<int64_t> limit = parseByteCount("device-memory", *options.deviceMemory);
  if (!limit)
    return limit.takeError();
  for (StringRef name : {"reduce_bucket_size", "allgather_bucket_size", "stage3_prefetch_bucket_size"}) {
    const ConfigEntry *entry = file.find(("zero_optimization." + name).str());
    if (!entry || entry->isAuto())
      continue;
    constexpr int64_t bytesPerElement = 4;
    int64_t elements = *entry->value->getInteger();
    if (elements > *limit / bytesPerElement)
      return file.refuse(*entry, "which is " + Twine(elements) + " elements of " + Twine(bytesPerElement) +
                                     " bytes, but --device-memory is " + *options.deviceMemory);
  }
  return Error::success();
}

static Error checkContradictions(const ConfigFile &file, const CompileOptions &options) {
  if (Error error = checkBuckets(file, options))
    return error;
  if (Error error = checkDecay(file))
    return error;
  if (Error error = checkTorchDefaults(file))
    return error;
  if (Error error = checkPrecisions(file))
    return error;
  if (Error error = checkOffload(file, "zero_optimization.offload_optimizer", 1))
    return error;
  return checkOffload(file, "zero_optimization.offload_param", 3);
}

//===----------------------------------------------------------------------===//
// Settings
//===----------------------------------------------------------------------===//

bool hyc::isInForce(const ConfigKey &key, const CompileOptions &options) {
  // What cycles is a beta, and not every optimizer has one.
  bool isMomentum = key.path.starts_with("scheduler.params.cycle_m") && key.path.contains("_mom");
  const Optimizer *optimizer = findOptimizer(*options.optimizer);
  if (isMomentum && optimizer && !optimizer->cyclesMomentum)
    return false;
  if (key.path.starts_with("scheduler.params."))
    return takes(key, *options.learningRateSchedule);
  return !key.path.starts_with("optimizer.params.") || takes(key, *options.optimizer);
}

/// What a schedule of DeepSpeed means where its parameters are left out.
static Error completeSchedule(const ConfigFile &file, CompileOptions &options) {
  const ConfigEntry *type = file.find("scheduler.type");
  StringRef rule = *options.learningRateSchedule;
  if (!type || options.learningRateSchedule.getOrigin() != Origin::Config)
    return Error::success();
  auto isGiven = [&](StringRef name) { return file.find(("scheduler.params." + name).str()) != nullptr; };
  auto byDefault = [&](auto &setting, auto value) {
    setting.offer(value, Origin::Derived, (rule + "'s default").str());
  };
  if (rule == "OneCycle") {
    for (StringRef name : {"cycle_min_lr", "cycle_max_lr"})
      if (!isGiven(name))
        return file.refuse(*type, "which needs scheduler.params." + name);
    byDefault(options.cycleMomentum, true);
    byDefault(options.cycleSecondSteps, *options.cycleFirstSteps);
    byDefault(options.cycleSecondStairs, *options.cycleFirstStairs);
    return Error::success();
  }
  byDefault(options.warmupSteps, int64_t(1000));
  // WarmupLR goes up to the optimizer's rate where it is not told; WarmupDecayLR, to 0.001 whatever the optimizer says.
  if (rule == "WarmupDecayLR" && !isGiven("warmup_max_lr"))
    options.learningRate.offer(1e-3, Origin::Config, file.sourceOf(*type));
  return Error::success();
}

/// The first key of the file that hyc refuses, as an error.
static Error firstRefusal(const ConfigFile &file, CompileOptions &) {
  const ConfigEntry *first = nullptr;
  int64_t count = 0;
  for (const ConfigEntry &entry : file.getEntries()) {
    if (refusalOf(file, entry).empty())
      continue;
    first = first ? first : &entry;
    ++count;
  }
  if (!first)
    return Error::success();
  std::string others = count > 1 ? " (and " + std::to_string(count - 1) + " more: see --explain-config)" : "";
  return file.refuse(*first, refusalOf(file, *first) + others);
}

Error hyc::applyConfig(const ConfigFile &file, CompileOptions &options) {
  Error first = checkContradictions(file, options);
  // In the table's order: the type of an optimizer comes before its parameters.
  for (const ConfigKey &key : getConfigKeys()) {
    const ConfigEntry *entry = file.find(key.path);
    if (!entry || entry->isAuto() || key.treatment.kind != Treatment::Connected || !isInForce(key, options))
      continue;
    if (Error error = key.treatment.offer(settingOf(key).in(options), *entry, file))
      first = first ? (consumeError(std::move(error)), std::move(first)) : std::move(error);
  }
  for (Error (*check)(const ConfigFile &, CompileOptions &) : {completeSchedule, firstRefusal}) {
    Error error = check(file, options);
    if (!first)
      first = std::move(error);
    else
      consumeError(std::move(error));
  }
  return first;
}
