// Exporters write tensors once that are equal when they write them: the scales of all norms, all biases of zeros.
// Trained, they would stay one. A tensor of equal elements that several modules read is therefore a parameter for each
// of them, which all start from the same bytes.
#include "Importer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::StringRef;

/// What is compared element by element; a larger tensor of one value is no norm's and no bias.
static constexpr int64_t kMostCompared = int64_t(1) << 22;

std::pair<std::string, int> hyc::onnx::readerOf(const onnxfile::Node &node, int input) {
  std::string scope = getScope(node);
  // A module that is called several times: "layers.0@1".
  std::string path;
  for (size_t at = 0; at < scope.size(); ++at) {
    if (scope[at] == '@')
      while (at + 1 < scope.size() && scope[at + 1] >= '0' && scope[at + 1] <= '9')
        ++at;
    else
      path += scope[at];
  }
  // Elsewhere than in a norm one module reads a vector in one role.
  const bool hasRoles = StringRef(node.op_type()).ends_with("Normalization");
  return {path, hasRoles ? input : 0};
}

/// What a part is called beside its module, and whether it is trained, where a norm reads it in that role.
static void nameByRole(ParameterNaming &naming, StringRef module, int role, StringRef otherwise) {
  static constexpr StringRef roles[] = {"", "weight", "bias", "running_mean", "running_var"};
  const bool isNorms = role > 0 && role < static_cast<int>(std::size(roles));
  naming.name = (module + "." + (isNorms ? roles[role] : otherwise)).str();
  if (isNorms) {
    naming.trainable = role < 3;
    naming.start = role < 3 ? std::nullopt : std::optional<double>(role - 3);
  }
}

void Importer::findMergedParameters() {
  const onnxfile::Graph &graph = file.getGraph();
  llvm::StringMap<std::map<std::pair<std::string, int>, Binding>> readers;
  llvm::StringSet<> unclear; // read by somebody who has no module, or given as they are
  for (const onnxfile::Node &node : graph.node())
    for (int i = 0; i < node.input_size(); ++i) {
      auto reader = readerOf(node, i);
      if (reader.first.empty())
        unclear.insert(node.input(i));
      readers[node.input(i)][reader];
    }
  for (const onnxfile::Value &output : graph.output())
    unclear.insert(output.name());
  llvm::StringSet<> taken;
  for (const onnxfile::Tensor &tensor : graph.initializer())
    taken.insert(tensor.name());
  int next = graph.initializer_size();
  for (int index = 0; index < graph.initializer_size(); ++index) {
    const std::string &name = graph.initializer(index).name();
    auto found = readers.find(name);
    Binding *whole = lookup(name);
    if (found == readers.end() || found->second.size() < 2 || unclear.contains(name) || !whole ||
        whole->parameter < 0 || naming[index].transposeOf >= 0 || whole->type.getNumElements() > kMostCompared)
      continue;
    std::optional<StoredValues> stored = file.locateInitializer(index);
    if (stored && stored->absent)
      continue;
    std::optional<HostTensor> values = file.readInitializer(index);
    if (!values || !values->isSplat())
      continue;
    const ParameterNaming asWhole = naming[index];
    StringRef leaf = StringRef(asWhole.name).rsplit('.').second;
    std::string parts;
    for (auto &[reader, part] : found->second) {
      part = *whole;
      ParameterNaming own = asWhole;
      own.valuesOf = index;
      nameByRole(own, reader.first, reader.second, leaf.empty() ? "weight" : leaf);
      while (own.name != asWhole.name && !taken.insert(own.name).second)
        own.name += "_";
      parts += (parts.empty() ? "\"" : ", \"") + own.name + "\"";
      part.parameter = own.name == asWhole.name ? index : next;
      naming[own.name == asWhole.name ? index : next++] = own;
    }
    emitWarning(file.getLoc(name)) << "tensor \"" << name << "\" has one value and is read by " << found->second.size()
                                   << " modules: taken as what an exporter merged, and as the parameters " << parts
                                   << "; --keep-merged leaves it one";
    merged[name] = std::move(found->second);
  }
}

Binding *Importer::lookupFor(const onnxfile::Node &node, int input) {
  auto found = merged.find(node.input(input));
  if (found == merged.end())
    return lookup(node.input(input));
  auto part = found->second.find(readerOf(node, input));
  return part == found->second.end() ? lookup(node.input(input)) : &part->second;
}
