// Between settings and the module's dictionary.
#include "hyc/Plan/Policies.h"

#include "hyc/Support/NearestName.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace hyc;

/// No policy is a list.
static Attribute toAttribute(const SettingValue &value, Builder &builder) {
  if (const bool *flag = std::get_if<bool>(&value))
    return builder.getBoolAttr(*flag);
  if (const int64_t *number = std::get_if<int64_t>(&value))
    return builder.getI64IntegerAttr(*number);
  if (const double *number = std::get_if<double>(&value))
    return builder.getF64FloatAttr(*number);
  return builder.getStringAttr(std::get<std::string>(value));
}

/// The value that `attribute` has if it is of the type of `like`.
static std::optional<SettingValue> fromAttribute(Attribute attribute, const SettingValue &like) {
  if (auto flag = dyn_cast<BoolAttr>(attribute); flag && std::holds_alternative<bool>(like))
    return flag.getValue();
  if (auto number = dyn_cast<IntegerAttr>(attribute);
      number && number.getType().isSignlessInteger(64) && std::holds_alternative<int64_t>(like))
    return number.getInt();
  if (auto number = dyn_cast<FloatAttr>(attribute);
      number && number.getType().isF64() && std::holds_alternative<double>(like))
    return number.getValueAsDouble();
  if (auto text = dyn_cast<StringAttr>(attribute); text && std::holds_alternative<std::string>(like))
    return text.str();
  return std::nullopt;
}

DictionaryAttr hyc::policiesOf(const Plan &plan, MLIRContext *context) {
  Builder builder(context);
  SmallVector<NamedAttribute> policies;
  for (const SettingRow &row : getSettings())
    if (row.isPolicy)
      policies.push_back(
          builder.getNamedAttr(row.policyName(), toAttribute(valueOf(row.ofPlan(const_cast<Plan &>(plan))), builder)));
  return builder.getDictionaryAttr(policies);
}

std::vector<std::string> hyc::spellPolicies(const Plan &plan) {
  std::vector<std::string> spelled;
  for (const SettingRow &row : getSettings())
    if (row.isPolicy)
      spelled.push_back(row.policyName() + "=" + print(valueOf(row.ofPlan(const_cast<Plan &>(plan)))));
  return spelled;
}

/// "unknown policy "x"; the nearest known one is …".
static std::string unknownPolicy(StringRef name) {
  std::vector<std::string> names;
  for (const SettingRow &row : getSettings())
    if (row.isPolicy)
      names.push_back(row.policyName());
  std::vector<StringRef> known(names.begin(), names.end());
  return ("unknown policy \"" + name + "\"; the nearest known one is \"" + nearestName(name, known) + "\"").str();
}

/// "policy "threads" is -1, expected 0 to 4096".
static std::string wrongValue(const SettingRow &row, StringRef value) {
  std::string expected = describe(row.range);
  if (expected.empty()) {
    SettingValue like = valueOf(row.in(CompileOptions()));
    expected = std::holds_alternative<bool>(like) ? "true or false" : "a value such as " + print(like);
  }
  return ("policy \"" + row.policyName() + "\" is " + value + ", expected " + expected).str();
}

llvm::Expected<DictionaryAttr> hyc::parsePolicies(ArrayRef<std::string> spelled, MLIRContext *context) {
  CompileOptions options;
  for (StringRef each : spelled) {
    auto [name, text] = each.split('=');
    const SettingRow *row = findPolicy(name);
    if (!row)
      return llvm::createStringError(unknownPolicy(name));
    SettingRef setting = row->in(options);
    std::optional<SettingValue> value = parseLike(valueOf(setting), text);
    // What stands for nothing is no word of a choice.
    if (!value || (text != "-" && !isWithin(row->range, *value)))
      return llvm::createStringError(wrongValue(*row, text));
    offerTo(setting, *value, Origin::Flag, "");
  }
  return policiesOf(options, context);
}

FailureOr<SettingValue> hyc::readPolicy(ModuleOp module, const SettingRow &row) {
  SettingValue fallback = valueOf(row.in(CompileOptions()));
  Attribute all = module->getAttr(kPolicyAttribute);
  if (!all)
    return fallback;
  auto dictionary = dyn_cast<DictionaryAttr>(all);
  if (!dictionary)
    return module.emitError() << "\"" << kPolicyAttribute << "\" is " << all << ", expected a dictionary of policies";
  Attribute said = dictionary.get(row.policyName());
  if (!said)
    return fallback;
  std::optional<SettingValue> value = fromAttribute(said, fallback);
  if (value && (*value == fallback || isWithin(row.range, *value)))
    return *value;
  std::string shown;
  llvm::raw_string_ostream(shown) << said;
  return module.emitError() << wrongValue(row, shown);
}

LogicalResult hyc::verifyPolicies(ModuleOp module) {
  auto dictionary = module->getAttrOfType<DictionaryAttr>(kPolicyAttribute);
  for (NamedAttribute policy : dictionary ? dictionary.getValue() : ArrayRef<NamedAttribute>())
    if (!findPolicy(policy.getName()))
      return module.emitError() << unknownPolicy(policy.getName());
  for (const SettingRow &row : getSettings())
    if (row.isPolicy && failed(readPolicy(module, row)))
      return failure();
  return success();
}
