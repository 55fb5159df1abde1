// Adapters by the names of their parameters, and as JSON.
#include "Folder/AdapterFiles.h"

#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/Adapters.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <set>

using namespace mlir;
using namespace hyc;
namespace json = llvm::json;

/// The module that a parameter belongs to: its name without the last part.
static StringRef moduleOf(StringRef parameter) { return parameter.rsplit('.').first; }

/// Parameters that are looked up and multiplied with, too: embeddings that are tied to the output.
static llvm::StringSet<> tiedParameters(ModuleOp module) {
  llvm::StringSet<> lookedUp, used;
  SymbolTable symbols(module);
  module.walk([&](ReadOp read) {
    StringRef name = read.getSource();
    if (auto copy = symbols.lookup<StateOp>(name); copy && copy.getParam())
      name = *copy.getParam();
    SmallVector<Value> values{read.getResult()};
    while (!values.empty())
      for (Operation *user : values.pop_back_val().getUsers()) {
        if (isBackward(user))
          continue;
        if (isa<EmbeddingOp>(user))
          lookedUp.insert(name);
        else if (user->getNumOperands() == 1 && user->getNumResults() == 1) // another type, another shape
          values.push_back(user->getResult(0));
        else
          used.insert(name);
      }
  });
  llvm::StringSet<> tied;
  for (StringRef name : lookedUp.keys())
    if (used.contains(name))
      tied.insert(name);
  return tied;
}

AdapterFacts hyc::collectAdapters(ModuleOp module, const AdapterSettings &settings) {
  AdapterFacts facts{settings, {}, {}, {}};
  llvm::StringSet<> tied = tiedParameters(module);
  llvm::StringSet<> trained;
  for (auto param : module.getOps<ParamOp>()) {
    StringRef name = param.getSymName();
    if (!isOfAdapter(param)) {
      if (param.getFrozen())
        continue;
      trained.insert(moduleOf(name));
      if (tied.contains(name))
        facts.tied.push_back(name.str());
    } else if (name.consume_back(kInnerName)) {
      facts.layers.push_back({name.str(), param->hasAttr(kInputsFirst)});
    }
  }
  // peft saves modules, with all that is in them.
  for (auto param : module.getOps<ParamOp>())
    if (!isOfAdapter(param) && trained.contains(moduleOf(param.getSymName())))
      facts.whole.push_back(param.getSymName().str());
  llvm::sort(facts.layers, [](const auto &a, const auto &b) { return a.path < b.path; });
  return facts;
}

std::string hyc::describeAdapter(const AdapterFacts &facts) {
  json::Array layers;
  for (const AdapterFacts::Layer &layer : facts.layers)
    layers.push_back(json::Object{{"path", layer.path}, {"inputs_first", layer.inputsFirst}});
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(json::Object{{"scale", facts.settings.scale()},
                                                             {"magnitudes", facts.settings.hasMagnitudes()},
                                                             {"layers", std::move(layers)},
                                                             {"whole", json::Array(facts.whole)},
                                                             {"tied", json::Array(facts.tied)}});
  return text;
}

/// Whole paths, so that peft finds these layers and no others.
static json::Array targetModules(const AdapterFacts &facts) {
  json::Array paths;
  for (const AdapterFacts::Layer &layer : facts.layers)
    paths.push_back(layer.path);
  return paths;
}

std::string hyc::adapterConfig(const AdapterFacts &facts, const std::string &base, StringRef configText) {
  bool isLanguageModel = configText.contains("ForCausalLM\"") || configText.contains("LMHeadModel\"");
  bool isInputsFirst = llvm::any_of(facts.layers, [](const auto &layer) { return layer.inputsFirst; });
  std::set<std::string> modules;
  for (const std::string &parameter : facts.whole)
    modules.insert(moduleOf(parameter).str());
  json::Value whole = nullptr;
  if (!modules.empty())
    whole = json::Array(modules);
  json::Object config{{"peft_type", "LORA"},
                      {"task_type", isLanguageModel ? json::Value("CAUSAL_LM") : json::Value(nullptr)},
                      {"base_model_name_or_path", json::fixUTF8(base)},
                      {"inference_mode", true},
                      {"r", facts.settings.rank},
                      {"lora_alpha", facts.settings.alpha},
                      {"lora_dropout", 0.0},
                      {"use_rslora", facts.settings.variant == "rslora"},
                      {"use_dora", facts.settings.hasMagnitudes()},
                      {"bias", "none"},
                      {"fan_in_fan_out", isInputsFirst},
                      {"init_lora_weights", true},
                      {"target_modules", targetModules(facts)},
                      {"modules_to_save", std::move(whole)}};
  std::string text;
  llvm::raw_string_ostream(text) << llvm::formatv("{0:2}", json::Value(std::move(config))) << "\n";
  return text;
}
