// Which tensor of the checkpoint each parameter starts from.
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/StoredTypes.h"
#include "hyc/Import/Checkpoint/Checkpoint.h"
#include "hyc/Support/NearestName.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace hyc;

/// A list in a message stays readable.
static constexpr size_t kMostListed = 20;

namespace {
class Start {
public:
  Start(ModuleOp module, const Checkpoint &checkpoint, const StartOptions &options)
      : module(module), checkpoint(checkpoint), options(options), builder(module.getContext()) {}

  LogicalResult run();

private:
  Location loc() { return FileLineColLoc::get(module.getContext(), checkpoint.getPath(), 0, 0); }
  void matchExactly();
  void matchParts();
  bool takeParts(ParamOp param);
  std::string whyUnfit(ParamOp param, const StoredParts &parts, ArrayRef<const CheckpointTensor *> found);
  void matchBySuffix();
  void matchTied();
  void take(ParamOp param, const CheckpointTensor &tensor);
  bool fits(ParamOp param, const CheckpointTensor &tensor);
  FileAttr placeOf(ParamOp param, const CheckpointTensor &tensor);
  Type typeOf(const CheckpointTensor &tensor);
  SmallVector<StringRef> leftOver() const;
  LogicalResult reportMissing();
  void reportExtra();
  void report(ArrayRef<std::string> lines, InFlightDiagnostic diagnostic);

  ModuleOp module;
  const Checkpoint &checkpoint;
  const StartOptions &options;
  Builder builder;
  SmallVector<ParamOp> open; ///< parameters that have nothing yet, in the module's order
  llvm::StringSet<> taken;   ///< tensors
  std::vector<std::string> misshapen;
  std::vector<std::string> incomplete; ///< what is wrong with those that are stored in parts
  SmallVector<std::pair<FileAttr, Type>> storedTypes;
};
} // namespace

static std::string spell(ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (auto [index, size] : llvm::enumerate(shape))
    text += (index ? ", " : "") + std::to_string(size);
  return text + "]";
}

Type Start::typeOf(const CheckpointTensor &tensor) {
  return llvm::StringSwitch<Type>(tensor.stored.type)
      .Case("F64", builder.getF64Type())
      .Case("F32", builder.getF32Type())
      .Case("F16", builder.getF16Type())
      .Case("BF16", builder.getBF16Type())
      .Case("I64", builder.getI64Type())
      .Case("I32", builder.getI32Type())
      .Default(Type());
}

bool Start::fits(ParamOp param, const CheckpointTensor &tensor) {
  Type stored = typeOf(tensor);
  return param.getLogicalShape() == tensor.stored.shape && stored &&
         canStartFrom(param.getTensorType().getElementType(), stored);
}

void Start::take(ParamOp param, const CheckpointTensor &tensor) {
  taken.insert(tensor.stored.name);
  if (!fits(param, tensor)) {
    std::string line;
    llvm::raw_string_ostream(line) << "\"" << tensor.stored.name << "\" is " << tensor.stored.type << " "
                                   << spell(tensor.stored.shape) << ", expected " << spell(param.getLogicalShape())
                                   << " of floating point for parameter \"" << param.getSymName() << "\"";
    misshapen.push_back(line);
    return;
  }
  param.setInitAttr(placeOf(param, tensor));
}

/// Notes the type of what is there.
FileAttr Start::placeOf(ParamOp param, const CheckpointTensor &tensor) {
  SmallString<128> path(tensor.file);
  if (!options.relative) {
    path = checkpoint.getFolder();
    llvm::sys::path::append(path, tensor.file);
    llvm::sys::fs::make_absolute(path);
    llvm::sys::path::remove_dots(path);
  }
  auto file = FileAttr::get(module.getContext(), path, tensor.stored.offset);
  if (Type stored = typeOf(tensor); stored != param.getTensorType().getElementType())
    storedTypes.push_back({file, stored});
  return file;
}

void Start::matchExactly() {
  SmallVector<ParamOp> rest;
  const auto &tensors = checkpoint.getTensors();
  for (ParamOp param : module.getOps<ParamOp>()) {
    auto found = tensors.find(options.storedName ? options.storedName(param.getSymName()) : param.getSymName().str());
    if (found == tensors.end())
      found = tensors.find(param.getSymName().str());
    if (found == tensors.end())
      rest.push_back(param);
    else
      take(param, found->second);
  }
  open = rest;
}

/// What is wrong with the tensors of these names, null where there is none; nothing where they are as they must be.
std::string Start::whyUnfit(ParamOp param, const StoredParts &parts, ArrayRef<const CheckpointTensor *> found) {
  std::string line;
  llvm::raw_string_ostream os(line);
  const std::string whole = "parameter \"" + param.getSymName().str() + "\"",
                    count = std::to_string(parts.names.size());
  const size_t missing = llvm::count(found, nullptr);
  if (missing != 0) {
    StringRef first = parts.names[llvm::find(found, nullptr) - found.begin()];
    os << "\"" << first << "\" " << spell(parts.shape) << " is not there"
       << (missing > 1 ? ", nor " + std::to_string(missing - 1) + " more" : "") << " of the " << count
       << " tensors that " << whole << " is made of";
    if (std::string nearest = nearestName(first, leftOver()).str(); !nearest.empty())
      os << "; the nearest that is left is \"" << nearest << "\"";
    return line;
  }
  for (const CheckpointTensor *tensor : found) {
    Type stored = typeOf(*tensor);
    if (tensor->stored.shape == parts.shape && stored && canStartFrom(param.getTensorType().getElementType(), stored))
      continue;
    os << "\"" << tensor->stored.name << "\" is " << tensor->stored.type << " " << spell(tensor->stored.shape)
       << ", expected " << spell(parts.shape) << " of floating point, as of all " << count << " tensors that " << whole
       << " is made of";
    return line;
  }
  if (checkpoint.getTensors().count(parts.following))
    os << "\"" << parts.following << "\" is one more than the " << count << " tensors that " << whole << " is made of";
  return line;
}

/// Whether any of the parameter's parts is there; its values are these then, or what is wrong is noted.
bool Start::takeParts(ParamOp param) {
  const SmallVector<int64_t> shape = param.getLogicalShape();
  const StoredParts parts = options.storedParts(param.getSymName(), shape);
  SmallVector<const CheckpointTensor *> found;
  for (const std::string &name : parts.names) {
    auto tensor = checkpoint.getTensors().find(name);
    found.push_back(tensor == checkpoint.getTensors().end() ? nullptr : &tensor->second);
  }
  if (llvm::all_of(found, [](const CheckpointTensor *tensor) { return !tensor; }))
    return false;
  if (std::string unfit = whyUnfit(param, parts, found); !unfit.empty()) {
    incomplete.push_back(std::move(unfit));
    return true;
  }
  SmallVector<PartAttr> attributes;
  for (const CheckpointTensor *tensor : found)
    attributes.push_back(
        PartAttr::get(module.getContext(), tensor->stored.name, tensor->stored.shape, placeOf(param, *tensor)));
  param.setInitAttr(PartsAttr::get(module.getContext(), attributes));
  return true;
}

void Start::matchParts() {
  if (!options.storedParts)
    return;
  // All of them first, so that none is left over to another.
  for (ParamOp param : open)
    for (const std::string &name : options.storedParts(param.getSymName(), param.getLogicalShape()).names)
      if (checkpoint.getTensors().count(name))
        taken.insert(name);
  llvm::erase_if(open, [&](ParamOp param) { return takeParts(param); });
}

/// `name` after each of its dots: every suffix of whole components.
static void forEachSuffix(StringRef name, llvm::function_ref<void(StringRef)> visit) {
  for (size_t dot = name.find('.'); dot != StringRef::npos; dot = name.find('.', dot + 1))
    visit(name.drop_front(dot + 1));
}

void Start::matchBySuffix() {
  // For each tensor left the suffixes of its name, and the other way round; two candidates are none.
  llvm::StringMap<SmallVector<const CheckpointTensor *, 1>> bySuffix;
  for (StringRef name : leftOver())
    forEachSuffix(
        name, [&](StringRef suffix) { bySuffix[suffix].push_back(&checkpoint.getTensors().find(name.str())->second); });
  llvm::StringMap<int> claims;
  SmallVector<std::pair<ParamOp, const CheckpointTensor *>> found;
  SmallVector<ParamOp> rest;
  for (ParamOp param : open) {
    SmallVector<const CheckpointTensor *> candidates(bySuffix.lookup(param.getSymName()));
    forEachSuffix(param.getSymName(), [&](StringRef suffix) {
      auto tensor = checkpoint.getTensors().find(suffix.str());
      if (tensor != checkpoint.getTensors().end() && !taken.contains(suffix))
        candidates.push_back(&tensor->second);
    });
    if (candidates.size() != 1) {
      rest.push_back(param);
      continue;
    }
    ++claims[candidates.front()->stored.name];
    found.push_back({param, candidates.front()});
  }
  for (auto [param, tensor] : found)
    if (claims[tensor->stored.name] == 1)
      take(param, *tensor);
    else
      rest.push_back(param);
  open = rest;
}

/// Whether the parameter is an embedding's table and is used for something else too, as an output projection is.
static bool isTiedEmbedding(ModuleOp module, ParamOp param) {
  bool embeds = false, isElsewhere = false;
  module.walk([&](ReadOp read) {
    if (read.getSource() != param.getSymName())
      return;
    for (Operation *user : read->getUsers()) {
      bool isTable = isa<EmbeddingOp>(user);
      embeds |= isTable;
      isElsewhere |= !isTable;
    }
  });
  return embeds && isElsewhere;
}

void Start::matchTied() {
  SmallVector<ParamOp> rest;
  for (ParamOp param : open) {
    SmallVector<const CheckpointTensor *> candidates;
    if (isTiedEmbedding(module, param))
      for (StringRef name : leftOver())
        if (const CheckpointTensor &tensor = checkpoint.getTensors().find(name.str())->second; fits(param, tensor))
          candidates.push_back(&tensor);
    if (candidates.size() != 1) {
      rest.push_back(param);
      continue;
    }
    emitRemark(loc()) << "tensor \"" << candidates.front()->stored.name << "\" is taken for the tied parameter \""
                      << param.getSymName() << "\"";
    take(param, *candidates.front());
  }
  open = rest;
}

/// What no parameter has taken and nobody knows to be something else.
SmallVector<StringRef> Start::leftOver() const {
  SmallVector<StringRef> names;
  for (const auto &[name, tensor] : checkpoint.getTensors())
    if (!taken.contains(name) && !(options.ignored && options.ignored(name)))
      names.push_back(name);
  return names;
}

void Start::report(ArrayRef<std::string> lines, InFlightDiagnostic diagnostic) {
  for (const std::string &line : lines.take_front(kMostListed))
    diagnostic.attachNote(loc()) << line;
  if (lines.size() > kMostListed)
    diagnostic.attachNote(loc()) << "and " << lines.size() - kMostListed << " more";
}

LogicalResult Start::reportMissing() {
  std::vector<std::string> lines = misshapen;
  llvm::append_range(lines, incomplete);
  SmallVector<StringRef> others = leftOver();
  size_t missing = options.mayMiss ? 0 : open.size();
  for (ParamOp param : ArrayRef<ParamOp>(open).take_front(missing)) {
    // Only what is shown is looked for: there may be hundreds of thousands.
    StringRef nearest = lines.size() < kMostListed ? nearestName(param.getSymName(), others) : StringRef();
    lines.push_back("parameter \"" + param.getSymName().str() + "\" " + spell(param.getLogicalShape()) +
                    " is not there" +
                    (nearest.empty() ? "" : "; the nearest that is left is \"" + nearest.str() + "\""));
  }
  if (lines.empty())
    return success();
  report(
      lines,
      emitError(loc()) << missing << " of the model's tensors missing, " << misshapen.size()
                       << " of another shape or type, "
                       << (incomplete.empty() ? "" : std::to_string(incomplete.size()) + " in parts that do not fit, ")
                       << others.size() << " left over");
  return failure();
}

void Start::reportExtra() {
  SmallVector<StringRef> others = leftOver(), known;
  if (others.empty())
    return;
  for (ParamOp param : module.getOps<ParamOp>())
    known.push_back(param.getSymName());
  std::vector<std::string> lines;
  for (StringRef name : others)
    lines.push_back("\"" + name.str() + "\"; the nearest parameter is \"" +
                    (lines.size() < kMostListed ? nearestName(name, known).str() : "") + "\"");
  report(lines, emitWarning(loc()) << others.size() << " tensors that no parameter of the model asks for");
}

LogicalResult Start::run() {
  matchExactly();
  matchParts();
  matchBySuffix();
  matchTied();
  if (failed(reportMissing()))
    return failure();
  reportExtra();
  setStoredTypes(module, storedTypes);
  return success();
}

LogicalResult hyc::startFromCheckpoint(ModuleOp module, const Checkpoint &checkpoint, const StartOptions &options) {
  return Start(module, checkpoint, options).run();
}
