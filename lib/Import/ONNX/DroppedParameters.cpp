// The dynamo exporter's optimizer drops biases that are zero when it writes the file, as those of a model that has just
// been initialised are. What the nodes were before stands in their metadata: the biases are put back, to be trained.
// Parameters that are gone in other ways are told of.
#include "Importer.h"

#include "llvm/ADT/StringSet.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::StringRef;

/// How many channels a product has whose weight is its second input; none where nothing was dropped from it.
static std::optional<int64_t> countChannels(NodeImport &import) {
  StringRef type = import.opType();
  if (!import.has(1) || !import.input(1).isTensor() || import.has(2))
    return std::nullopt;
  llvm::ArrayRef<int64_t> weight = import.shapeOf(1);
  if (weight.size() < 2)
    return std::nullopt;
  if (type == "Gemm")
    return weight[import.getInt("transB", 0) != 0 ? 0 : 1];
  if (type == "Conv")
    return weight[0];
  if (type == "ConvTranspose")
    return weight[1] * std::max<int64_t>(import.getInt("group", 1), 1);
  return std::nullopt;
}

/// The bias's name: the program's, or where a part of a bias was taken, that of the weight's part.
static std::string nameOfBias(StringRef argument, const TracedProgram &traced, const ParameterNaming *weight) {
  StringRef name = traced.parameterOf(argument);
  if (!name.empty() || !weight || !weight->folded || !argument.starts_with("%"))
    return name.str();
  const size_t at = StringRef(weight->name).rfind("weight");
  return at == StringRef::npos ? weight->name + ".bias" : std::string(weight->name).replace(at, 6, "bias");
}

Binding *Importer::restoreBias(const onnxfile::Node &node, NodeImport &import) {
  const std::optional<TracedCall> call = tracedCallOf(node);
  const StringRef argument = call ? biasOf(*call) : StringRef();
  const std::optional<int64_t> channels = argument.empty() ? std::nullopt : countChannels(import);
  if (!channels)
    return nullptr;
  const auto weight = this->naming.find(import.input(1).parameter);
  const std::string name = nameOfBias(argument, traced, weight == this->naming.end() ? nullptr : &weight->second);
  // Another bias of that name is one that the exporter put elsewhere.
  if (name.empty() || names.contains(name))
    return nullptr;
  auto [found, isNew] = restored.try_emplace(name);
  if (!isNew)
    return found->second.type.getShape() == llvm::ArrayRef(*channels) ? &found->second : nullptr;
  ParameterNaming naming;
  naming.isParameter = true;
  naming.name = name;
  naming.start = 0;
  naming.type = RankedTensorType::get({*channels}, import.input(1).type.getElementType());
  found->second.type = naming.type;
  found->second.parameter = nextParameter;
  this->naming[nextParameter++] = std::move(naming);
  return &found->second;
}

/// "a", "b", "c" and 4 more
static std::string listed(llvm::ArrayRef<std::string> names) {
  static constexpr size_t kShown = 3;
  std::string text;
  for (const std::string &name : names.take_front(kShown))
    text += (text.empty() ? "\"" : ", \"") + name + "\"";
  return names.size() > kShown ? text + " and " + std::to_string(names.size() - kShown) + " more" : text;
}

/// Whether one of the calls that led to a folded tensor has done more than to lay it out otherwise or to look rows up:
/// values are named after calls, "exp", "exp_1".
static bool isComputed(StringRef tensor, llvm::ArrayRef<StringRef> from) {
  static constexpr StringRef kArithmetic[] = {"add", "sub",  "mul",   "div",  "neg",  "exp",     "log",      "pow",
                                              "abs", "sqrt", "rsqrt", "tanh", "relu", "sigmoid", "softplus", "clamp"};
  if (tensor.starts_with("embedding") || tensor.starts_with("index"))
    return false;
  auto isArithmetic = [](StringRef value) {
    StringRef call = value.rtrim("0123456789");
    return llvm::is_contained(kArithmetic, call == value ? value : call.rtrim('_'));
  };
  return isArithmetic(tensor) || llvm::any_of(from, isArithmetic);
}

/// The rest of a model trains without them, to other values than PyTorch's.
void Importer::warnOfLostParameters() {
  llvm::StringSet<> known, reported;
  std::vector<std::string> lost, computed, apart;
  for (auto &[index, each] : naming) {
    known.insert(each.name);
    if (!each.apartFrom.empty() && params.count(index))
      apart.push_back(each.apartFrom);
    if (!each.folded || !params.count(index))
      continue;
    const std::string &tensor = file.getGraph().initializer(storedAs(index)).name();
    if (isComputed(tensor, names.foldedInto(tensor)))
      computed.push_back(each.name);
  }
  auto report = [&](StringRef name) {
    if (!known.contains(name) && !names.contains(name) && reported.insert(name).second)
      lost.push_back(name.str());
  };
  for (const onnxfile::Node &node : file.getGraph().node())
    if (std::optional<TracedCall> call = tracedCallOf(node))
      for (StringRef name : traced.parametersOf(*call))
        report(name);
  for (const onnxfile::Tensor &tensor : file.getGraph().initializer())
    for (StringRef name : names.foldedInto(tensor.name()))
      if (traced.isParameter(name))
        report(name);
  for (std::vector<std::string> *found : {&lost, &computed, &apart}) {
    llvm::sort(*found);
    found->erase(std::unique(found->begin(), found->end()), found->end());
  }
  if (!lost.empty())
    emitWarning(file.getLoc()) << "the exporter's optimizer has computed " << listed(lost)
                               << " away: not in the file, and not trained; export the model with optimize=False";
  if (!computed.empty())
    emitWarning(file.getLoc())
        << "the exporter's optimizer has left of " << listed(computed)
        << " only what the model computes from them, such as 1 + weight: trained in their place, and what weight decay "
           "and saved weights are about; export the model with optimize=False to have themselves";
  if (!apart.empty())
    emitWarning(file.getLoc()) << "the exporter's optimizer has made of " << listed(apart)
                               << " several tensors that share values: trained apart, which is another model than "
                                  "PyTorch's; export the model with optimize=False";
  warnOfGeneratedConstants();
}

/// The legacy exporter folds what a module does to its parameters alone, such as a view, and makes a name up for the
/// result: nothing tells it from a constant.
void Importer::warnOfGeneratedConstants() {
  std::vector<std::string> constants;
  for (int index = 0; index < file.getGraph().initializer_size(); ++index)
    if (!naming.count(index) && names.mayBeParameter(index))
      constants.push_back(file.getGraph().initializer(index).name());
  if (!constants.empty())
    emitWarning(file.getLoc())
        << "the exporter has computed " << listed(constants)
        << " and lost what from: taken as constants, not trained; if they were parameters, export "
           "the model with do_constant_folding=False";
}
