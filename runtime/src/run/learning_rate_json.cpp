// Reading a rule out of the manifest, each with the keys that it has and no others.
#include "run/learning_rate_json.h"

#include <cmath>

#include "base/json_text.h"

namespace hycrt {
namespace {

using nlohmann::json;

constexpr char kPath[] = "/learning_rate";
constexpr int64_t kMostSteps = int64_t{1} << 53;

struct RuleKeys {
  const char* name;
  LearningRateKind kind;
  std::vector<std::string> keys;  // beside "rule"
};

const std::vector<RuleKeys>& rules() {
  static const std::vector<RuleKeys> table = {
      {"constant", LearningRateKind::kConstant, {"base", "warmup_steps"}},
      {"linear", LearningRateKind::kLinear, {"base", "warmup_steps"}},
      {"cosine", LearningRateKind::kCosine, {"base", "warmup_steps"}},
      {"WarmupLR", LearningRateKind::kWarmup, {"warmup_min_lr", "warmup_max_lr", "warmup_num_steps", "warmup_type"}},
      {"WarmupDecayLR",
       LearningRateKind::kWarmupDecay,
       {"warmup_min_lr", "warmup_max_lr", "warmup_num_steps", "warmup_type", "total_num_steps"}},
      {"WarmupCosineLR",
       LearningRateKind::kWarmupCosine,
       {"base", "warmup_min_ratio", "cos_min_ratio", "warmup_num_steps", "warmup_type", "total_num_steps"}},
      {"OneCycle",
       LearningRateKind::kOneCycle,
       {"cycle_min_lr", "cycle_max_lr", "decay_lr_rate", "cycle_first_step_size", "cycle_second_step_size",
        "cycle_first_stair_count", "cycle_second_stair_count", "decay_step_size", "cycle_momentum", "cycle_min_mom",
        "cycle_max_mom", "decay_mom_rate"}},
  };
  return table;
}

Status error(const std::string& file, const std::string& key, const std::string& what) {
  return dataError(file + ": " + kPath + "/" + key + ": " + what);
}

// The rule that the object names. Only then is it known which keys it may have.
Result<const RuleKeys*> ruleOf(const json& value, const std::string& file) {
  if (!value.contains("rule")) return error(file, "rule", "missing, expected a string");
  const json& name = value["rule"];
  std::string known;
  for (const RuleKeys& rule : rules()) {
    if (name.is_string() && name.get_ref<const std::string&>() == rule.name) return &rule;
    known += (known.empty() ? "" : ", ") + std::string(rule.name);
  }
  return error(file, "rule", "found " + name.dump() + ", expected one of " + known);
}

class Reader {
 public:
  Reader(const json& value, const std::string& file, const RuleKeys& keys)
      : object_(value, file, kPath, withRule(keys.keys)), file_(file), keys_(keys) {
    rule_.kind = keys.kind;
  }

  Result<LearningRateRule> read() {
    rule_.base = rate(highestKey());
    if (has("warmup_steps")) rule_.warmupSteps = steps("warmup_steps");
    if (has("warmup_num_steps")) readWarmup();
    if (has("cycle_min_lr")) readCycle();
    HYCRT_RETURN_IF_ERROR(object_.status());
    HYCRT_RETURN_IF_ERROR(status_);
    return rule_;
  }

 private:
  static std::vector<std::string> withRule(std::vector<std::string> keys) {
    keys.push_back("rule");
    return keys;
  }

  bool has(const std::string& key) const {
    for (const std::string& known : keys_.keys) {
      if (known == key) return true;
    }
    return false;
  }

  const char* highestKey() const {
    if (has("warmup_max_lr")) return "warmup_max_lr";
    return has("cycle_max_lr") ? "cycle_max_lr" : "base";
  }

  void readWarmup() {
    rule_.warmupSteps = steps("warmup_num_steps");
    const std::string type = object_.text("warmup_type");
    rule_.warmupType = type == "linear" ? WarmupType::kLinear : WarmupType::kLog;
    if (type != "linear" && type != "log") fail("warmup_type", "found '" + type + "', expected log or linear");
    if (has("warmup_min_lr")) rule_.lowest = rate("warmup_min_lr");
    if (has("total_num_steps")) rule_.totalSteps = steps("total_num_steps");
    if (has("cos_min_ratio")) {
      rule_.lowestRatio = rate("warmup_min_ratio");
      rule_.finalRatio = rate("cos_min_ratio");
    }
  }

  void readCycle() {
    rule_.lowest = rate("cycle_min_lr");
    rule_.cycle.firstSteps = object_.integer("cycle_first_step_size", 1, kMostSteps);
    rule_.cycle.secondSteps = steps("cycle_second_step_size");
    rule_.cycle.firstStairs = steps("cycle_first_stair_count");
    rule_.cycle.secondStairs = steps("cycle_second_stair_count");
    rule_.cycle.decaySteps = steps("decay_step_size");
    rule_.cycle.decayRate = rate("decay_lr_rate");
    rule_.cycle.cyclesMomentum = object_.boolean("cycle_momentum");
    rule_.cycle.momentumLeast = rate("cycle_min_mom");
    rule_.cycle.momentumMost = rate("cycle_max_mom");
    rule_.cycle.momentumDecayRate = rate("decay_mom_rate");
  }

  int64_t steps(const char* key) { return object_.integer(key, 0, kMostSteps); }

  double rate(const char* key) {
    const double value = object_.number(key);
    if (!(value >= 0)) fail(key, "is negative, expected 0 or more");
    return value;
  }

  void fail(const char* key, const std::string& what) {
    if (status_.ok() && object_.status().ok()) status_ = error(file_, key, what);
  }

  ObjectReader object_;
  const std::string& file_;
  const RuleKeys& keys_;
  Status status_;
  LearningRateRule rule_;
};

}  // namespace

Result<LearningRateRule> readLearningRate(const json& value, const std::string& file) {
  Result<const RuleKeys*> keys = ruleOf(value, file);
  if (!keys.ok()) return keys.status();
  return Reader(value, file, **keys).read();
}

}  // namespace hycrt
