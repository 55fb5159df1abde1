// Between a plan's rules and the attributes of a module.
#include "Model/PlanRules.h"

#include "dialects/Dist/Placement.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/Cuts.h"
#include "hyc/Analysis/FlatStates.h"
#include "hyc/Analysis/Repetition.h"
#include "hyc/Plan/StateProperties.h"
#include "hyc/Support/DriverError.h"
#include "hyc/Support/NearestName.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <map>

using namespace mlir;
using namespace hyc;
using llvm::Error;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// From rules to attributes
//===----------------------------------------------------------------------===//

/// Whether `name` matches `pattern`, in which '*' stands for any characters but a dot. The last '*' is the only one
/// that ever has to be tried again, so the work is the product of the lengths at most.
static bool matches(StringRef pattern, StringRef name) {
  size_t p = 0, n = 0, star = StringRef::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != StringRef::npos && name[resume] != '.') {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  return pattern.drop_front(p).find_first_not_of('*') == StringRef::npos;
}

/// What a rule says, for messages: of what is long the beginning.
static std::string shown(StringRef text) { return text.size() > 100 ? (text.take_front(100) + "…").str() : text.str(); }

/// The attribute of `kind` ("sharding") that a rule spells, or null.
static Attribute parseProperty(StringRef kind, StringRef text, MLIRContext *context) {
  // MLIR's parser recurses per bracket; no property has this many characters.
  if (text.size() > 1000 || text.count('<') + text.count('{') > 64)
    return {};
  ScopedDiagnosticHandler silence(context, [](Diagnostic &) { return success(); });
  return parseAttribute(("#dist." + kind + "<" + text + ">").str(), context);
}

/// What rules are read with: the names that the plan's mesh has for its axes, and for those that are cut in parts.
struct RuleContext {
  MLIRContext *context;
  std::vector<std::string> axes;

  RuleContext(MLIRContext *context, const PlanRules &rules) : context(context), axes{"dp", "tp"} {
    for (StringRef axis : rules.axes) {
      auto [parent, name] = axis.rsplit(':').first.rsplit('.');
      axes.push_back((name.empty() ? parent : name).str());
    }
  }

  bool hasAll(dist::AxisListAttr list) const {
    return llvm::all_of(list.getAxes(), [&](StringAttr axis) { return llvm::is_contained(axes, axis.getValue()); });
  }

  /// "dp and tp", "dp, tp and ep".
  std::string listAxes() const { return llvm::join(ArrayRef(axes).drop_back(), ", ") + " and " + axes.back(); }

  /// Whether the sharding only splits dimensions and is maybe flat, over axes that the mesh has.
  bool splitsOnly(dist::ShardingAttr sharding) const {
    return llvm::all_of(sharding.getDims(), [&](dist::AxisListAttr list) { return hasAll(list); }) &&
           hasAll(sharding.getFlat()) && sharding.getPartial().empty() && sharding.getPartialMax().empty();
  }
};

/// Calls `set` with the index of each match of one rule; an error where there is none.
static Error applyRule(const PlanRule &rule, StringRef what, ArrayRef<StringRef> names,
                       llvm::function_ref<Error(size_t)> set) {
  bool matched = false;
  for (auto [index, name] : llvm::enumerate(names))
    if (matches(rule.match, name)) {
      if (Error error = set(index))
        return error;
      matched = true;
    }
  return matched ? Error::success()
                 : makeError(ExitCode::Data,
                             rule.place + ": \"" + shown(rule.match) + "\" matches no " + what + " of the model");
}

static dist::ShardingAttr parseSharding(StringRef text, MLIRContext *context) {
  return dyn_cast_or_null<dist::ShardingAttr>(parseProperty("sharding", text, context));
}

static Error applyRules(ArrayRef<PlanRule> rules, StringRef what, ArrayRef<StringRef> names, const RuleContext &known,
                        llvm::function_ref<Error(size_t, dist::ShardingAttr, const PlanRule &)> set) {
  for (const PlanRule &rule : rules) {
    dist::ShardingAttr sharding = parseSharding(rule.value, known.context);
    bool isLeftOpen = rule.value.empty() && !rule.states.empty();
    if (!isLeftOpen && (!sharding || !known.splitsOnly(sharding)))
      return makeError(ExitCode::Data, rule.place + ": \"" + shown(rule.match) + "\" has sharding \"" +
                                           shown(rule.value) + "\", expected one list of the axes " + known.listAxes() +
                                           " a dimension, as in \"[{dp}, {}, {tp}]\"");
    if (Error error = applyRule(rule, what, names, [&](size_t index) { return set(index, sharding, rule); }))
      return error;
  }
  return Error::success();
}

/// The axes of `{dp}`, of the mesh; an error at the rule otherwise.
static Expected<dist::AxisListAttr> parseFlat(const PlanRule &rule, StringRef key, StringRef text,
                                              const RuleContext &known) {
  dist::ShardingAttr parsed;
  if (text == "{}")
    return dist::AxisListAttr::get(known.context, {});
  if (!text.contains_insensitive("flat"))
    parsed = parseSharding(("[] flat " + text).str(), known.context);
  if (parsed && known.splitsOnly(parsed))
    return parsed.getFlat();
  return makeError(ExitCode::Data, rule.place + ": \"" + shown(rule.match) + "\" has " + key + " \"" + shown(text) +
                                       "\", expected the axes that it is flat over, as in \"{dp}\", or \"{}\"");
}

/// The symbols of one parameter that hold a property; none where the parameter lacks them.
static SmallVector<Operation *> holdersOf(const StateProperty &property, const ParamStates &states) {
  StateOp gradient = states.gradient;
  ParamOp param = states.param;
  switch (property.holder) {
  case StateProperty::Holder::Gradient:
    return gradient ? SmallVector<Operation *>{gradient} : SmallVector<Operation *>();
  case StateProperty::Holder::Optimizer:
    return SmallVector<Operation *>(states.optimizer.begin(), states.optimizer.end());
  case StateProperty::Holder::Master:
    return states.copy ? SmallVector<Operation *>{param} : SmallVector<Operation *>();
  case StateProperty::Holder::Used:
    return {states.used()};
  }
  return {};
}

/// The attribute that `text` spells, as one of the property's kind.
static Expected<NamedAttribute> parseState(const StateProperty &property, const PlanRule &rule, StringRef text,
                                           const RuleContext &known) {
  Builder builder(known.context);
  auto refuse = [&](StringRef expected) {
    return makeError(ExitCode::Data, rule.place + ": \"" + shown(rule.match) + "\" has " + property.key + " \"" +
                                         shown(text) + "\", expected " + expected);
  };
  switch (property.kind) {
  case StateProperty::Kind::Flat: {
    Expected<dist::AxisListAttr> axes = parseFlat(rule, property.key, text, known);
    if (!axes)
      return axes.takeError();
    return builder.getNamedAttr(dist::kFlat, *axes);
  }
  case StateProperty::Kind::Reduction:
    if (text != "step" && text != "micro_batch")
      return refuse("step or micro_batch");
    return builder.getNamedAttr(dist::kReduction, builder.getStringAttr(text));
  case StateProperty::Kind::Placement: {
    bool isGradient = property.holder == StateProperty::Holder::Gradient;
    if (text != dist::kOnDevice && text != dist::kOnHost && (text != dist::kOnDisk || isGradient))
      return refuse(isGradient ? "device or host" : "device, host or nvme");
    return builder.getNamedAttr(dist::kPlacement, builder.getStringAttr(text));
  }
  }
  return makeError(ExitCode::Internal, "a property of states has no kind");
}

/// Hangs on the states of one parameter what a rule says of them, for hyc-shard-states and hyc-place-states to find.
static Error applyToStates(const ParamStates &states, const PlanRule &rule, const RuleContext &known) {
  for (const StateProperty &property : kStateProperties) {
    auto text = rule.states.find(property.key);
    if (text == rule.states.end())
      continue;
    Expected<NamedAttribute> attribute = parseState(property, rule, text->second, known);
    if (!attribute)
      return attribute.takeError();
    for (Operation *holder : holdersOf(property, states))
      holder->setAttr(attribute->getName(), attribute->getValue());
  }
  return Error::success();
}

static std::vector<StringRef> inputNames(FuncOp function) {
  std::vector<StringRef> names;
  for (unsigned index = 0, e = function.getNumArguments(); index < e; ++index) {
    auto name = function.getArgAttrOfType<StringAttr>(index, kInput);
    names.push_back(name ? name.getValue() : StringRef());
  }
  return names;
}

Error hyc::applyShardingRules(const PlanRules &rules, ModuleOp module) {
  RuleContext known(module.getContext(), rules);
  SmallVector<ParamOp> params = llvm::to_vector(module.getOps<ParamOp>());
  std::vector<StringRef> names;
  for (ParamOp param : params)
    names.push_back(param.getSymName());
  SmallVector<ParamStates> states = collectParamStates(module);
  auto setParam = [&](size_t index, dist::ShardingAttr sharding, const PlanRule &rule) {
    if (!sharding)
      return applyToStates(states[index], rule, known);
    params[index]->setAttr(dist::kSharding, sharding.withoutFlat());
    if (rules.objects.count("zero") || !sharding.getFlat().empty())
      states[index].used()->setAttr(dist::kFlat, sharding.getFlat());
    return applyToStates(states[index], rule, known);
  };
  if (Error error = applyRules(rules.parameters, "parameter", names, known, setParam))
    return error;
  auto microbatch = module.lookupSymbol<FuncOp>(kMicrobatch);
  if (!microbatch)
    return makeError(ExitCode::Internal, "the module has no @microbatch to apply a plan to");
  auto setInput = [&](size_t index, dist::ShardingAttr sharding, const PlanRule &rule) -> Error {
    if (!sharding || !sharding.getFlat().empty() || !rule.states.empty())
      return makeError(ExitCode::Data,
                       rule.place + ": \"" + shown(rule.match) + "\" is an input, of which nothing is flat");
    microbatch.setArgAttr(index, dist::kSharding, sharding);
    return Error::success();
  };
  if (Error error = applyRules(rules.inputs, "input", inputNames(microbatch), known, setInput))
    return error;
  // The dialect checks each sharding against its tensor and says which is wrong.
  return failed(verify(module)) ? makeError(ExitCode::Data, "") : Error::success();
}

Error hyc::applyStateRules(const PlanRules &rules, ModuleOp module) {
  RuleContext known(module.getContext(), rules);
  std::map<std::string, const PlanRule *, std::less<>> byName;
  for (const PlanRule &rule : rules.parameters)
    byName[rule.match] = &rule;
  for (const ParamStates &states : collectParamStates(module)) {
    ParamOp param = states.param;
    auto rule = byName.find(param.getSymName());
    if (rule != byName.end())
      if (Error error = applyToStates(states, *rule->second, known))
        return error;
  }
  return Error::success();
}

/// The ops of @microbatch that have an id and a lifetime, or could have one.
static SmallVector<Operation *> forwardOps(FuncOp microbatch) {
  SmallVector<Operation *> ops;
  for (Operation &op : microbatch.getBody().front())
    if (!isBackward(&op) && op.getNumResults() > 0 && !getId(&op).empty() && !isFree(&op))
      ops.push_back(&op);
  return ops;
}

/// Plain saving is not written, so that equal plans are equal text.
static void setLifetime(Operation *op, dist::LifetimeAttr lifetime) {
  op->setAttr(dist::kLifetime, lifetime);
  if (lifetime == dist::LifetimeAttr::get(op->getContext(), dist::LifetimeKind::save))
    op->removeAttr(dist::kLifetime);
}

Error hyc::applyLifetimeRules(const PlanRules &rules, ModuleOp module) {
  auto microbatch = module.lookupSymbol<FuncOp>(kMicrobatch);
  if (!microbatch)
    return makeError(ExitCode::Internal, "the module has no @microbatch to apply a plan to");
  SmallVector<Operation *> ops = forwardOps(microbatch);
  std::vector<StringRef> ids;
  for (Operation *op : ops)
    ids.push_back(getId(op));
  for (const PlanRule &rule : rules.lifetimes) {
    auto lifetime = dyn_cast_or_null<dist::LifetimeAttr>(parseProperty("lifetime", rule.value, module.getContext()));
    if (!lifetime)
      return makeError(ExitCode::Data,
                       rule.place + ": \"" + shown(rule.match) + "\" has lifetime \"" + shown(rule.value) +
                           "\", expected \"save\", \"save over {tp}\", \"offload\", \"offload over {tp}\" or "
                           "\"recompute\"");
    if (Error error = applyRule(rule, "forward op", ids, [&](size_t index) {
          setLifetime(ops[index], lifetime);
          return Error::success();
        }))
      return error;
  }
  return Error::success();
}

Error hyc::checkCutRules(const PlanRules &rules, ModuleOp module) {
  auto microbatch = module.lookupSymbol<FuncOp>(kMicrobatch);
  if (!microbatch)
    return makeError(ExitCode::Internal, "the module has no @microbatch to apply a plan to");
  std::vector<StringRef> ids;
  for (Operation &op : microbatch.getBody().front())
    if (!isBackward(&op) && !getId(&op).empty())
      ids.push_back(getId(&op));
  for (const std::string &cut : rules.cuts)
    if (!llvm::is_contained(ids, cut))
      return makeError(ExitCode::Data,
                       rules.cutsPlace + ": \"cuts\" names \"" + shown(cut) + "\", which is no op of the model" +
                           (ids.empty() ? "" : "; the nearest is \"" + nearestName(cut, ids).str() + "\""));
  return Error::success();
}

Error hyc::applyFormRules(const PlanRules &rules, ModuleOp module) {
  auto train = module.lookupSymbol<FuncOp>(kTrain);
  if (!train)
    return makeError(ExitCode::Internal, "the module has no @train to apply a plan to");
  SmallVector<Operation *> ops;
  std::vector<StringRef> ids;
  train.walk([&](DecomposableOpInterface op) {
    if (getId(op).empty())
      return;
    ops.push_back(op);
    ids.push_back(getId(op));
  });
  for (const PlanRule &rule : rules.forms) {
    if (rule.value != "whole" && rule.value != "decomposed")
      return makeError(ExitCode::Data, rule.place + ": \"" + shown(rule.match) + "\" has form \"" + shown(rule.value) +
                                           "\", expected whole or decomposed");
    if (Error error = applyRule(rule, "composite op", ids, [&](size_t index) {
          ops[index]->removeAttr(kForm);
          if (rule.value != "whole")
            ops[index]->setAttr(kForm, StringAttr::get(module.getContext(), rule.value));
          return Error::success();
        }))
      return error;
  }
  return Error::success();
}

//===----------------------------------------------------------------------===//
// From attributes to rules
//===----------------------------------------------------------------------===//

/// The inside of `#dist.kind<…>`.
static std::string spell(Attribute property) {
  std::string text;
  llvm::raw_string_ostream(text) << property;
  std::string result = StringRef(text).split('<').second.drop_back().str();
  for (size_t at; (at = result.find("} ]")) != std::string::npos;)
    result.erase(at + 1, 1);
  return result;
}

/// `h.3.mlp.weight` gives `h.*.mlp.weight`.
static std::string generalize(StringRef name) {
  SmallVector<StringRef> parts;
  name.split(parts, '.');
  for (StringRef &part : parts)
    if (!part.empty() && llvm::all_of(part, llvm::isDigit))
      part = "*";
  return llvm::join(parts, ".");
}

/// One rule for the names that differ in numbers alone, and an exception for each that is not like most of them.
static std::vector<PlanRule> summarize(ArrayRef<PlanRule> all) {
  llvm::StringMap<std::vector<PlanRule>> byPattern;
  std::vector<std::string> order;
  for (const PlanRule &rule : all) {
    std::string pattern = generalize(rule.match);
    if (!byPattern.contains(pattern))
      order.push_back(pattern);
    byPattern[pattern].push_back(rule);
  }
  std::vector<PlanRule> rules;
  for (const std::string &pattern : order) {
    const std::vector<PlanRule> &members = byPattern[pattern];
    std::map<decltype(PlanRule().said()), std::pair<size_t, const PlanRule *>> votes; // and the first that says so
    for (const PlanRule &member : members) {
      auto &[count, first] = votes[member.said()];
      first = count++ ? first : &member;
    }
    // Of equally many the one whose text is first, so that the order of parameters does not matter.
    auto most =
        std::max_element(votes.begin(), votes.end(), [](auto &a, auto &b) { return a.second.first < b.second.first; });
    PlanRule winner = *most->second.second;
    if (members.size() > 1)
      winner.match = pattern;
    rules.push_back(winner);
    for (const PlanRule &member : members)
      if (member.said() != winner.said())
        rules.push_back(member);
  }
  return rules;
}

/// Rules for all lifetimes but plain saving, which is what an op has that no rule names.
static std::vector<PlanRule> describeLifetimes(FuncOp microbatch) {
  std::vector<PlanRule> all;
  for (Operation *op : forwardOps(microbatch))
    all.push_back({getId(op).str(), spell(dist::LifetimeAttr::of(op))});
  std::vector<PlanRule> rules = summarize(all);
  llvm::erase_if(rules, [](const PlanRule &rule) { return rule.value == "save"; });
  // A pattern may reach further than the ops that it was made of.
  std::vector<PlanRule> exceptions;
  for (const PlanRule &wanted : all) {
    StringRef given = "save";
    for (const PlanRule &rule : rules)
      if (matches(rule.match, wanted.match))
        given = rule.value;
    if (given != wanted.value)
      exceptions.push_back(wanted);
  }
  // The last rule that matches holds, and a name has one rule of its own.
  llvm::erase_if(rules, [&](const PlanRule &rule) {
    return llvm::any_of(exceptions, [&](const PlanRule &exception) { return exception.match == rule.match; });
  });
  llvm::append_range(rules, exceptions);
  return rules;
}

/// `{dp}` of a state's flat axes.
static std::string spellFlat(Operation *state) {
  std::string text;
  llvm::raw_string_ostream(text) << flatAxesOf(state);
  StringRef inner = text;
  inner = inner.take_front(inner.rfind('>')).drop_front(inner.find('<') + 1);
  return inner.str();
}

/// What a rule says of a property's holder.
static std::string spellState(const StateProperty &property, Operation *holder) {
  switch (property.kind) {
  case StateProperty::Kind::Flat:
    return spellFlat(holder);
  case StateProperty::Kind::Reduction:
    return isReducedPerMicroBatch(holder) ? "micro_batch" : "step";
  case StateProperty::Kind::Placement:
    return dist::placementOf(holder).str();
  }
  return "";
}

/// Whether a module has decisions that a plan without ZeRO cannot say.
static bool hasFlatStates(ModuleOp module) {
  return llvm::any_of(module.getBody()->getOperations(), [](Operation &op) {
    return isa<ParamOp, StateOp>(op) && (!flatAxesOf(&op).empty() || isReducedPerMicroBatch(&op));
  });
}

/// Whether anything is kept off the device.
static bool hasPlacedStates(ModuleOp module) {
  return llvm::any_of(module.getBody()->getOperations(),
                      [](Operation &op) { return dist::placementOf(&op) != dist::kOnDevice; });
}

/// Axes that the model had cut in parts, as `tp.tp0:2`, beside those that somebody has said.
static void addParts(dist::MeshOp mesh, std::vector<std::string> &axes) {
  if (!mesh.getParents())
    return;
  for (auto [name, parent, size] : llvm::zip_equal(mesh.getAxes().getAsValueRange<StringAttr>(),
                                                   mesh.getParents()->getAsValueRange<StringAttr>(), mesh.getSizes()))
    if (std::string text = (parent + "." + name + ":" + Twine(size)).str();
        !parent.empty() && !llvm::is_contained(axes, text))
      axes.push_back(text);
}

Plan hyc::describePlan(ModuleOp module, const Plan &chosen) {
  Plan plan = chosen;
  PlanRules &rules = plan.rules;
  rules = PlanRules();
  rules.forms = chosen.rules.forms;
  rules.axes = chosen.rules.axes;
  rules.order = chosen.rules.order;
  MLIRContext *context = module.getContext();
  if (dist::MeshOp mesh = dist::MeshOp::find(module)) {
    plan.tp = mesh.getSize(StringAttr::get(context, "tp"));
    plan.dp = mesh.getSize(StringAttr::get(context, "dp"));
    plan.pp = mesh.getStages();
    plan.virtualStages = mesh.getVirtualStages();
    addParts(mesh, rules.axes);
  }
  if (*plan.zero > 0 || hasFlatStates(module))
    rules.objects.insert("zero");
  if (hasPlacedStates(module))
    rules.objects.insert("offload");
  std::vector<PlanRule> params;
  for (const ParamStates &states : collectParamStates(module)) {
    ParamOp param = states.param;
    Attribute sharding = states.used()->getAttr(dist::kSharding);
    if (!sharding)
      continue;
    PlanRule rule{param.getSymName().str(), spell(sharding)};
    for (const StateProperty &property : kStateProperties) {
      // What is frozen is divided by its sharding alone, but placed like everything.
      bool isSaid = rules.objects.count(property.object()) &&
                    (property.kind == StateProperty::Kind::Placement || states.gradient);
      SmallVector<Operation *> holders = isSaid ? holdersOf(property, states) : SmallVector<Operation *>();
      if (!holders.empty())
        rule.states[property.key] = spellState(property, holders.front());
    }
    params.push_back(rule);
  }
  rules.parameters = summarize(params);
  if (auto microbatch = module.lookupSymbol<FuncOp>(kMicrobatch)) {
    for (auto [index, name] : llvm::enumerate(inputNames(microbatch)))
      if (Attribute sharding = microbatch.getArgAttr(index, dist::kSharding))
        rules.inputs.push_back({name.str(), spell(sharding)});
    rules.cuts = findCuts(microbatch, *plan.pp * *plan.virtualStages);
    rules.lifetimes = describeLifetimes(microbatch);
    if (rules.offloadsActivations())
      rules.objects.insert("offload");
  }
  return plan;
}
