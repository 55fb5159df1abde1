// Exporters write tensors once that are equal when they write them: the scales of all norms, all biases of zeros.
// Trained, they would stay one. A tensor of equal elements that several modules read is therefore a parameter for each
// of them, which all start from the same bytes; so is one of several values, where the exporter notes that the program
// had a parameter for each.
#include "Importer.h"

#include "llvm/ADT/STLExtras.h"
#include <set>

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::StringRef;

/// What is compared element by element; a larger tensor of one value is no norm's and no bias.
static constexpr int64_t kMostCompared = int64_t(1) << 22;

/// What norms call their inputs.
static constexpr StringRef kNormRoles[] = {"", "weight", "bias", "running_mean", "running_var"};

/// A module's path without what tells its calls apart: "layers.0@1".
static std::string withoutCalls(llvm::StringRef scope) {
  std::string path;
  for (size_t at = 0; at < scope.size(); ++at) {
    if (scope[at] == '@')
      while (at + 1 < scope.size() && scope[at + 1] >= '0' && scope[at + 1] <= '9')
        ++at;
    else
      path += scope[at];
  }
  return path;
}

/// The module of a node; where the exporter says nothing of it, those of the nodes that read its results, since it has
/// written what is the same for several of them once.
std::vector<std::string> Importer::modulesOf(const onnxfile::Node &node) const {
  std::vector<std::string> modules;
  if (std::string own = getScope(node); !own.empty())
    modules.push_back(withoutCalls(own));
  for (int i = 0; modules.empty() && i < node.output_size(); ++i)
    for (const onnxfile::Node *user : names.usersOf(node.output(i)))
      if (std::string module = withoutCalls(getScope(*user)); !module.empty() && !llvm::is_contained(modules, module))
        modules.push_back(std::move(module));
  if (modules.empty())
    modules.emplace_back();
  return modules;
}

/// Whether an input is where a node adds the bias of the call that it came from.
static bool isBias(const onnxfile::Node &node, int input) {
  StringRef type = node.op_type();
  return type == "Add" || (input == 2 && (type == "Gemm" || type == "Conv" || type == "ConvTranspose"));
}

static Reader readerOf(const onnxfile::Node &node, int input, StringRef module) {
  if (StringRef(node.op_type()).ends_with("Normalization"))
    return {module.str(),
            input < static_cast<int>(std::size(kNormRoles)) ? kNormRoles[input].str() : std::to_string(input)};
  // Elsewhere one module reads a vector in one role, unless its calls are known to have had other biases.
  const bool isRepeated = getScope(node).find('@') != std::string::npos;
  const std::optional<TracedCall> call = isRepeated || !isBias(node, input) ? std::nullopt : tracedCallOf(node);
  return {module.str(), call ? biasOf(*call).str() : ""};
}

/// What several modules read.
struct hyc::onnx::Shared {
  std::map<Reader, Binding> readers;
  std::set<Reader> byName; // whose calls name it: what they read was this one before the export, too
  bool isUnclear = false;  // read by somebody who has no module, or given as it is
  bool isNoted = true;     // of all who read it the calls are known
};

/// What a parameter is called inside the module that reads it: "out_proj.weight" of "h.0.attn.out_proj.weight", where
/// "h.0.attn" is among the readers; empty where no reader's module begins its name.
static StringRef nameInside(StringRef name, const std::map<Reader, Binding> &readers) {
  StringRef inside;
  size_t longest = 0;
  for (const auto &[reader, binding] : readers)
    if (StringRef rest = name;
        reader.first.size() > longest && rest.consume_front(reader.first) && rest.consume_front(".") && !rest.empty()) {
      longest = reader.first.size();
      inside = rest;
    }
  return inside;
}

/// A part of a parameter, for one reader: what the program called it, or its module, and whether it is trained.
static ParameterNaming namePart(const ParameterNaming &whole, const std::map<Reader, Binding> &readers,
                                const Reader &reader, const TracedProgram &traced) {
  ParameterNaming part = whole;
  if (StringRef bias = traced.parameterOf(reader.second); !bias.empty()) {
    part.name = bias.str();
    return part;
  }
  const auto norms = llvm::ArrayRef(kNormRoles).drop_front();
  const auto *role = llvm::find(norms, reader.second);
  if (role == norms.end()) {
    StringRef leaf = StringRef(whole.name).rsplit('.').second;
    part.name = reader.first + "." + nameInside(whole.name, readers).str();
    if (!traced.isParameter(part.name))
      part.name = reader.first + "." + (leaf.empty() ? "weight" : leaf.str());
    return part;
  }
  const auto place = role - norms.begin();
  part.name = reader.first + "." + role->str();
  part.trainable = place < 2;
  part.start = place < 2 ? std::nullopt : std::optional<double>(place - 2);
  return part;
}

/// Whether the program had a parameter of its own for each reader. Of a tensor of several values nothing else tells
/// that it was not one on purpose.
static bool hadOwnParameters(const Shared &shared, const ParameterNaming &whole, const TracedProgram &traced) {
  llvm::StringSet<> seen;
  if (!shared.isNoted)
    return false;
  for (const auto &[reader, binding] : shared.readers) {
    const std::string name = namePart(whole, shared.readers, reader, traced).name;
    if (!traced.isParameter(name) || !seen.insert(name).second || (shared.byName.count(reader) && name != whole.name))
      return false;
  }
  return true;
}

bool Importer::wasMerged(int index, const Binding &whole, const Shared &shared) const {
  const ParameterNaming &naming = this->naming.find(index)->second;
  if (shared.readers.size() < 2 || shared.isUnclear || naming.transposeOf >= 0 || naming.part ||
      whole.type.getNumElements() > kMostCompared)
    return false;
  std::optional<StoredValues> stored = file.locateInitializer(index);
  if (stored && stored->absent)
    return false;
  if (hadOwnParameters(shared, naming, traced))
    return true;
  std::optional<HostTensor> values = file.readInitializer(index);
  return values && values->isSplat();
}

void Importer::findMergedParameters() {
  const onnxfile::Graph &graph = file.getGraph();
  llvm::StringMap<Shared> all;
  for (const onnxfile::Node &node : graph.node()) {
    const std::optional<TracedCall> call = tracedCallOf(node);
    for (const std::string &module : modulesOf(node))
      for (int i = 0; i < node.input_size(); ++i) {
        Reader reader = readerOf(node, i, module);
        Shared &shared = all[node.input(i)];
        shared.isUnclear |= reader.first.empty();
        shared.isNoted &= call.has_value();
        if (call && llvm::is_contained(traced.parametersOf(*call), node.input(i)))
          shared.byName.insert(reader);
        shared.readers[reader];
      }
  }
  for (const onnxfile::Value &output : graph.output())
    all[output.name()].isUnclear = true;
  llvm::StringSet<> taken;
  for (const onnxfile::Tensor &tensor : graph.initializer())
    taken.insert(tensor.name());
  for (int index = 0; index < graph.initializer_size(); ++index) {
    const std::string &name = graph.initializer(index).name();
    Binding *whole = lookup(name);
    if (auto found = all.find(name);
        found != all.end() && whole && whole->parameter == index && wasMerged(index, *whole, found->second))
      split(index, *whole, std::move(found->second.readers), taken);
  }
}

void Importer::split(int index, const Binding &whole, std::map<Reader, Binding> parts, llvm::StringSet<> &taken) {
  const ParameterNaming asWhole = naming[index];
  const std::string &name = file.getGraph().initializer(index).name();
  std::string told;
  for (auto &[reader, part] : parts) {
    part = whole;
    ParameterNaming own = namePart(asWhole, parts, reader, traced);
    own.valuesOf = index;
    while (own.name != asWhole.name && !taken.insert(own.name).second)
      own.name += "_";
    told += (told.empty() ? "\"" : ", \"") + own.name + "\"";
    part.parameter = own.name == asWhole.name ? index : nextParameter;
    naming[own.name == asWhole.name ? index : nextParameter++] = own;
  }
  emitWarning(file.getLoc(name)) << "tensor \"" << name << "\" is read by " << parts.size()
                                 << " modules, and has one value or was several: taken as what an exporter merged, and "
                                    "as the parameters "
                                 << told << "; --keep-merged leaves it one";
  merged[name] = std::move(parts);
}

Binding *Importer::lookupFor(const onnxfile::Node &node, int input, StringRef module) {
  const std::string &name = node.input(input);
  if (auto found = merged.find(name); found != merged.end())
    if (auto part = found->second.find(readerOf(node, input, module)); part != found->second.end())
      return &part->second;
  if (auto found = apart.find(name); found != apart.end())
    if (auto part = found->second.find(module.str()); part != found->second.end())
      return &part->second;
  return lookup(name);
}

/// A node of several modules is imported for each of them where it reads what an exporter merged.
LogicalResult Importer::importNode(const onnxfile::Node &node) {
  const std::vector<std::string> modules = modulesOf(node);
  const bool readsMerged = llvm::any_of(
      node.input(), [&](const std::string &name) { return merged.contains(name) || apart.contains(name); });
  if (modules.size() == 1 || !readsMerged)
    return importFor(node, modules.front());
  for (const std::string &module : modules) {
    if (failed(importFor(node, module)))
      return failure();
    for (const std::string &output : node.output())
      if (Binding *result = lookup(output))
        apart[output][module] = *result;
  }
  return success();
}
