// PyTorch's exporters say in metadata which initializers are parameters (dynamo) or not at all (legacy); both rename
// the parameters that their optimizers fold.
#include "Importer.h"

using namespace hyc;
using namespace hyc::onnx;
using llvm::StringRef;

static constexpr StringRef kFoldedFrom = "pkg.onnxscript.optimizer.folded_from";

template <typename Message> static StringRef findMetadata(const Message &message, StringRef key) {
  for (const onnxfile::Entry &entry : message.metadata())
    if (entry.key() == key)
      return entry.value();
  return "";
}

/// The strings of a list that Python printed, such as ['', 'h.0', 'add'].
static llvm::SmallVector<StringRef> parsePythonList(StringRef text) {
  llvm::SmallVector<StringRef> items;
  while (!text.empty()) {
    size_t open = text.find_first_of("'\"");
    if (open == StringRef::npos)
      break;
    size_t close = text.find(text[open], open + 1);
    if (close == StringRef::npos)
      break;
    items.push_back(text.slice(open + 1, close));
    text = text.drop_front(close + 1);
  }
  return items;
}

std::string hyc::onnx::getScope(const onnxfile::Node &node) {
  // The last entry is the operation itself, the one before it the module that calls it.
  llvm::SmallVector<StringRef> scopes = parsePythonList(findMetadata(node, kNameScopes));
  if (scopes.size() >= 2)
    return scopes[scopes.size() - 2].str();
  StringRef name = StringRef(node.name()).ltrim('/');
  if (!name.contains('/'))
    return "";
  std::string path = name.rsplit('/').first.str();
  std::replace(path.begin(), path.end(), '/', '.');
  return path;
}

ParameterNames::ParameterNames(const OnnxFile &file, const TracedProgram &traced) : file(file), traced(traced) {
  for (auto [index, tensor] : llvm::enumerate(file.getGraph().initializer()))
    initializers[tensor.name()] = static_cast<int>(index);
  for (const onnxfile::Value &value : file.getGraph().value_info()) {
    infos[value.name()] = &value;
    hasSignature |= !findMetadata(value, kInputKind).empty();
  }
  for (const onnxfile::Node &node : file.getGraph().node())
    for (const std::string &input : node.input())
      users[input].push_back(&node);
  for (const onnxfile::Node &node : file.getGraph().node())
    if (node.op_type() == "BatchNormalization" && node.input_size() == 5) {
      averages.try_emplace(node.input(3), 0.0);
      averages.try_emplace(node.input(4), 1.0);
    }
}

static bool isFloat(int32_t dataType) { return dataType == 1 || dataType == 10 || dataType == 11 || dataType == 16; }

static bool hasOneElement(const onnxfile::Tensor &tensor) {
  return llvm::all_of(tensor.dims(), [](int64_t size) { return size == 1; });
}

llvm::SmallVector<StringRef> ParameterNames::foldedInto(StringRef initializer) const {
  auto info = infos.find(initializer);
  return info == infos.end() ? llvm::SmallVector<StringRef>()
                             : parsePythonList(findMetadata(*info->second, kFoldedFrom));
}

/// The only name of a parameter among the names that a constant was folded from.
StringRef ParameterNames::findFoldedParameter(StringRef initializer) const {
  StringRef found;
  for (StringRef name : foldedInto(initializer)) {
    if (!traced.isParameter(name) && !name.ends_with(".weight") && !name.ends_with(".bias"))
      continue;
    if (!found.empty())
      return "";
    found = name;
  }
  return found;
}

/// A table that was looked up by positions of the whole batch, (batch, …, rows, width), is rows of one parameter, as
/// long as all samples have the same ones.
int ParameterNames::countRepeatedDims(int initializer) const {
  int count = 0;
  for (int rank = file.getGraph().initializer(initializer).dims_size(); rank - count > 2; ++count)
    if (!file.initializerRepeats(initializer, count))
      break;
  return count;
}

ParameterNaming ParameterNames::operator()(int initializer) const {
  const onnxfile::Tensor &tensor = file.getGraph().initializer(initializer);
  ParameterNaming naming;
  naming.name = tensor.name();
  auto info = infos.find(tensor.name());
  StringRef kind = info == infos.end() ? "" : findMetadata(*info->second, kInputKind);
  // Running averages belong to a checkpoint, also where the model only reads them.
  auto average = averages.find(tensor.name());
  if (kind == kStateKind || average != averages.end()) {
    naming.isParameter = true;
    naming.trainable = false;
    if (average != averages.end())
      naming.start = average->second;
    return naming;
  }
  if (!isFloat(tensor.data_type()))
    return naming;
  if (!kind.empty()) {
    naming.isParameter = kind == "PARAMETER" || kind == kFrozenKind;
    naming.trainable = kind != kFrozenKind;
    return naming;
  }
  StringRef folded = findFoldedParameter(tensor.name());
  if (!folded.empty()) {
    naming.isParameter = naming.folded = true;
    naming.repeatedDims = countRepeatedDims(initializer);
    // Where the parameter itself is there, too, as the other name of a tied weight, this is its transposed copy.
    if (auto own = initializers.find(folded); own == initializers.end())
      naming.name = folded.str();
    else if (file.initializerIsTransposeOf(initializer, own->second))
      naming.transposeOf = own->second;
    return naming;
  }
  if (hasSignature || hasOneElement(tensor) || StringRef(tensor.name()).ends_with("_output_0"))
    return naming;
  if (StringRef(tensor.name()).starts_with("onnx::"))
    return recoverGenerated(initializer);
  naming.isParameter = true;
  return naming;
}

/// The legacy exporter folds a weight's transposition, loses its name for onnx::MatMul_123, and with it the tie to an
/// embedding.
ParameterNaming ParameterNames::recoverGenerated(int initializer) const {
  const onnxfile::Graph &graph = file.getGraph();
  const onnxfile::Tensor &tensor = graph.initializer(initializer);
  ParameterNaming naming;
  naming.name = tensor.name();
  llvm::ArrayRef<const onnxfile::Node *> readers = usersOf(tensor.name());
  StringRef prefix = StringRef(tensor.name()).drop_front(StringRef("onnx::").size()).rsplit('_').first;
  naming.isParameter = prefix == "MatMul" || prefix == "Gemm" || prefix == "Conv";
  if (!naming.isParameter || readers.empty())
    return naming;
  for (int other = 0; other < graph.initializer_size(); ++other)
    if (other != initializer && !StringRef(graph.initializer(other).name()).starts_with("onnx::") &&
        file.initializerIsTransposeOf(initializer, other)) {
      naming.transposeOf = other;
      return naming;
    }
  std::string recovered = getScope(*readers.front()) + (tensor.dims_size() == 1 ? ".bias" : ".weight");
  bool taken = llvm::any_of(graph.initializer(), [&](const onnxfile::Tensor &t) { return t.name() == recovered; });
  if (!taken && recovered.front() != '.')
    naming.name = recovered;
  return naming;
}
