// Reading adapters as peft saves them: adapter_config.json says what they are, adapter_model.safetensors holds them.
#include "Model/AdapterInput.h"

#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/Adapters.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Analysis/StoredTypes.h"
#include "hyc/Import/Checkpoint/Checkpoint.h"
#include "hyc/Support/DriverError.h"
#include "hyc/Support/InputFile.h"
#include "hyc/Support/LocatedJson.h"
#include "hyc/Support/NearestName.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <set>

using namespace mlir;
using namespace hyc;
using llvm::Error;
using llvm::Expected;

static constexpr StringLiteral kConfig = "adapter_config.json", kValues = "adapter_model.safetensors",
                               kPickle = "adapter_model.bin";
/// What peft puts in front of the model's own names.
static constexpr StringLiteral kPrefix = "base_model.model.";

static std::string inFolder(StringRef folder, StringRef name) {
  SmallString<128> path(folder);
  llvm::sys::path::append(path, name);
  return std::string(path);
}

//===----------------------------------------------------------------------===//
// adapter_config.json
//===----------------------------------------------------------------------===//

namespace {
/// A key with which an adapter computes something else than hyc does, and the values under which it does not.
struct OtherwiseKey {
  StringLiteral key, expected;
};
} // namespace

/// Keys that have to be false, null, or empty.
static constexpr OtherwiseKey kMustBeEmpty[] = {{"use_qalora", "false"},       {"rank_pattern", "{}"},
                                                {"alpha_pattern", "{}"},       {"layer_replication", "null"},
                                                {"target_parameters", "null"}, {"megatron_config", "null"},
                                                {"lora_bias", "false"},        {"trainable_token_indices", "null"}};

static bool isEmpty(const JsonValue &value) {
  if (value.isNull() || value.getBool() == false)
    return true;
  return (value.getArray() && value.getArray()->empty()) || (value.getObject() && value.getObject()->empty());
}

static Error refuseAt(StringRef path, const JsonValue &value, StringRef key, const Twine &expected) {
  return locatedError(path, value.getPosition(), "\"" + key + "\" is " + value.describe() + ", expected " + expected);
}

/// Rank, alpha and variant; targets are the file's.
static Error readConfig(StringRef path, AdapterSettings &settings) {
  auto buffer = openInputFile(path, kMaxTextBytes);
  if (!buffer)
    return makeError(ExitCode::Data, path + ": " + llvm::toString(buffer.takeError()));
  Expected<JsonValue> config = parseJson((*buffer)->getBuffer(), path);
  if (!config)
    return config.takeError();
  Expected<JsonObjectReader> reader = JsonObjectReader::open(path, *config);
  if (!reader)
    return reader.takeError();
  if (const JsonValue *type = config->get("peft_type"); type && type->getString() != StringRef("LORA"))
    return refuseAt(path, *type, "peft_type", "\"LORA\"");
  for (const OtherwiseKey &each : kMustBeEmpty)
    if (const JsonValue *value = config->get(each.key); value && !isEmpty(*value))
      return refuseAt(path, *value, each.key, each.expected + ", which is what hyc has");
  if (const JsonValue *bias = config->get("bias"); bias && bias->getString() != StringRef("none"))
    return refuseAt(path, *bias, "bias", "\"none\"");
  if (Error error = reader->read("r", settings.rank, 1, AdapterSettings::kMostRank))
    return error;
  settings.alpha = 8; // as peft has it
  if (reader->has("lora_alpha"))
    if (Error error = reader->read("lora_alpha", settings.alpha, 1e-9, AdapterSettings::kMostAlpha))
      return error;
  auto isTrue = [&](StringRef key) {
    const JsonValue *value = config->get(key);
    return value && value->getBool() == true;
  };
  settings.variant = isTrue("use_dora") ? "dora" : isTrue("use_rslora") ? "rslora" : "lora";
  if (isTrue("use_dora") && isTrue("use_rslora"))
    return refuseAt(path, *config->get("use_rslora"), "use_rslora", "false beside \"use_dora\", which is what hyc has");
  return Error::success();
}

//===----------------------------------------------------------------------===//
// adapter_model.safetensors
//===----------------------------------------------------------------------===//

/// The model's name of a stored tensor.
static StringRef nameIn(StringRef stored) {
  (void)stored.consume_front(kPrefix);
  return stored;
}

static Expected<Checkpoint> openValues(StringRef folder) {
  std::string path = inFolder(folder, kValues);
  if (!llvm::sys::fs::exists(path) && llvm::sys::fs::exists(inFolder(folder, kPickle)))
    return makeError(ExitCode::Data, "--lora: " + folder + ": has its weights in '" + kPickle +
                                         "', a pickle, which can run code when it is read; save the adapter with "
                                         "safetensors");
  Expected<Checkpoint> values = Checkpoint::open(path);
  if (!values)
    return makeError(ExitCode::Data, "--lora: " + llvm::toString(values.takeError()));
  return values;
}

Error hyc::resolveAdapters(CompileOptions &options) {
  StringRef text = *options.lora;
  if (text.empty())
    return Error::success();
  if (!AdapterSettings::isFolder(text)) {
    Expected<AdapterSettings> settings = AdapterSettings::parse(text);
    if (!settings)
      return settings.takeError(); // which checkRanges has told already
    options.adapters = std::move(*settings);
    return Error::success();
  }
  if (!llvm::sys::fs::is_directory(text))
    return usageError("--lora is \"" + text.take_front(200) +
                      "\", which is no folder; expected one that peft saved, or settings, as in "
                      "rank=8,alpha=16,targets=q_proj,v_proj");
  AdapterSettings settings;
  if (Error error = readConfig(inFolder(text, kConfig), settings))
    return makeError(ExitCode::Data, "--lora: " + llvm::toString(std::move(error)));
  Expected<Checkpoint> values = openValues(text);
  if (!values)
    return values.takeError();
  for (const auto &[stored, tensor] : values->getTensors()) {
    StringRef path = stored;
    bool isInner = path.consume_back(kInnerName);
    if (!isInner && !path.consume_back(kOuterName))
      continue;
    std::string other = (path + (isInner ? kOuterName : kInnerName)).str();
    if (values->getTensors().count(other) == 0)
      return makeError(ExitCode::Data, "--lora: " + inFolder(text, kValues) + ": has \"" + stored + "\", but no \"" +
                                           other + "\"; expected both of each adapted layer");
    const bool hasLengths = values->getTensors().count((path + kMagnitudeName).str()) != 0;
    if (isInner && hasLengths != settings.hasMagnitudes())
      return makeError(ExitCode::Data, "--lora: " + inFolder(text, kValues) + ": has " + (hasLengths ? "a" : "no") +
                                           " \"" + path + kMagnitudeName + "\", but its " + kConfig +
                                           " says \"use_dora\": " + (hasLengths ? "false" : "true"));
    if (isInner)
      settings.targets.push_back(nameIn(path).str());
  }
  if (settings.targets.empty())
    return makeError(ExitCode::Data, "--lora: " + inFolder(text, kValues) + ": has no tensor *" + kInnerName +
                                         ", expected one of each adapted layer");
  options.adapters = std::move(settings);
  return Error::success();
}

static Type typeOf(Builder &builder, StringRef stored) {
  return llvm::StringSwitch<Type>(stored)
      .Case("F64", builder.getF64Type())
      .Case("F32", builder.getF32Type())
      .Case("F16", builder.getF16Type())
      .Case("BF16", builder.getBF16Type())
      .Default(Type());
}

namespace {
/// Finds in one module what each tensor of an adapter is for.
class AdapterStart {
public:
  AdapterStart(ModuleOp module, const Checkpoint &values) : module(module), values(values), builder(module) {
    for (auto param : module.getOps<ParamOp>()) {
      params[param.getSymName()] = param;
      names.push_back(param.getSymName());
    }
  }

  Error run() {
    for (const auto &[stored, tensor] : values.getTensors())
      if (Error error = take(nameIn(stored), tensor))
        return error;
    module->setAttr(kAdapterValues, found.getDictionary(module.getContext()));
    setStoredTypes(module, storedTypes);
    return Error::success();
  }

private:
  Error fail(const Twine &what) const { return makeError(ExitCode::Data, "--lora: " + values.getPath() + ": " + what); }

  Error take(StringRef name, const CheckpointTensor &tensor) {
    Type type = typeOf(builder, tensor.stored.type);
    if (!type)
      return fail("tensor \"" + tensor.stored.name + "\" is of " + tensor.stored.type +
                  ", expected F64, F32, F16 or BF16");
    SmallString<128> path(values.getFolder());
    llvm::sys::path::append(path, tensor.file);
    llvm::sys::fs::make_absolute(path);
    llvm::sys::path::remove_dots(path);
    auto file = FileAttr::get(module.getContext(), path, tensor.stored.offset);
    StringRef layer = name;
    bool isOfAdapter =
        layer.consume_back(kInnerName) || layer.consume_back(kOuterName) || layer.consume_back(kMagnitudeName);
    ParamOp param = params.lookup(isOfAdapter ? (layer + ".weight").str() : name.str());
    if (!param)
      return fail("is an adapter of another model: it has \"" + tensor.stored.name + "\", but this model has no \"" +
                  (isOfAdapter ? layer + ".weight" : name) + "\"; the nearest is \"" + nearestName(name, names) + "\"");
    if (type != param.getTensorType().getElementType())
      storedTypes.push_back({file, type});
    if (isOfAdapter) {
      found.set(name, builder.getArrayAttr({file, builder.getDenseI64ArrayAttr(tensor.stored.shape)}));
      return Error::success();
    }
    if (param.getLogicalShape() != tensor.stored.shape)
      return fail("is an adapter of another model: \"" + tensor.stored.name + "\" has another shape than \"" + name +
                  "\" of this model");
    param.setInitAttr(file);
    return Error::success();
  }

  ModuleOp module;
  const Checkpoint &values;
  OpBuilder builder;
  llvm::StringMap<ParamOp> params;
  SmallVector<StringRef> names;
  NamedAttrList found;
  SmallVector<std::pair<FileAttr, Type>> storedTypes;
};
} // namespace

Error hyc::startFromAdapter(ModuleOp module, const CompileOptions &options) {
  if (!AdapterSettings::isFolder(*options.lora))
    return Error::success();
  Expected<Checkpoint> values = openValues(*options.lora);
  if (!values)
    return values.takeError();
  if (Error error = AdapterStart(module, *values).run())
    return error;
  if (ModuleOp evaluation = evaluationOf(module))
    return AdapterStart(evaluation, *values).run();
  return Error::success();
}
