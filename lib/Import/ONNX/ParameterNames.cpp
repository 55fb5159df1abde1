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
  isLegacy = file.getModel().producer_name() == "pytorch" && !hasSignature;
  for (const onnxfile::Node &node : file.getGraph().node()) {
    isLegacy = isLegacy && !StringRef(node.name()).starts_with("node_"); // which dynamo's are called
    for (const std::string &input : node.input())
      users[input].push_back(&node);
  }
  for (auto [index, tensor] : llvm::enumerate(file.getGraph().initializer()))
    if (StringRef parameter = findFoldedParameter(tensor.name()); !parameter.empty())
      partsOf[parameter].push_back(static_cast<int>(index));
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

/// A parameter that an exporter has cut to several lengths is one, of which the shorter tensors are slices.
void ParameterNames::findWhole(int initializer, StringRef parameter, ParameterNaming &naming) const {
  auto countOf = [&](int index) { return *countElements(file.getGraph().initializer(index).dims()); };
  const auto own = initializers.find(parameter);
  const int itself = own == initializers.end() ? -1 : own->second;
  llvm::SmallVector<int> others(partsOf.lookup(parameter));
  if (itself >= 0)
    others.insert(others.begin(), itself);
  bool sharesValues = itself >= 0;
  for (int other : others) {
    const int64_t more = countOf(other) - countOf(initializer);
    const bool isLarger = more > 0 || (more == 0 && (other == itself || other < initializer));
    const std::optional<Overlap> overlap = other == initializer ? std::nullopt : file.findOverlap(other, initializer);
    if (overlap && overlap->isWithin && isLarger) {
      naming.part = PartOf{other, overlap->dim, overlap->offset};
      return;
    }
    sharesValues |= overlap && !overlap->isWithin;
  }
  if (sharesValues)
    naming.apartFrom = parameter.str();
}

//===----------------------------------------------------------------------===//
// Tensors that nothing is noted of
//===----------------------------------------------------------------------===//

/// Whether exporters have made the name up for a constant, such as an epsilon: "Const__45", "/act/Constant_output_0",
/// "val_12", "12".
static bool isMadeUp(StringRef name) {
  static constexpr StringRef kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  bool isNumber = true;
  for (StringRef rest = name; !rest.empty();) {
    StringRef word = rest.drop_front(std::min(rest.find_first_of(kLetters), rest.size()));
    rest = word.drop_front(std::min(word.find_first_not_of(kLetters), word.size()));
    word = word.drop_back(rest.size());
    if (word.equals_insensitive("const") || word.starts_with_insensitive("constant"))
      return true;
    isNumber = isNumber && (word.empty() || word == "val");
  }
  return isNumber || name.ends_with("_output_0");
}

/// Whether operators have weights at this place.
static bool isWeightPlace(StringRef type, int input) {
  if (type == "MatMul")
    return true;
  if (type == "LSTM" || type == "GRU" || type == "RNN")
    return input >= 1 && input <= 3;
  if (type == "Conv" || type == "ConvTranspose" || type == "Gemm")
    return input == 1 || input == 2;
  return type == "PRelu" && input == 1;
}

bool ParameterNames::isReadWhere(StringRef initializer, llvm::function_ref<bool(StringRef, int)> isPlace) const {
  return llvm::any_of(usersOf(initializer), [&](const onnxfile::Node *node) {
    return llvm::any_of(llvm::seq(node->input_size()), [&](int input) {
      return node->input(input) == initializer && isPlace(node->op_type(), input);
    });
  });
}

/// One number is an epsilon as often as a bias. It is a parameter by what it is called, by where it is read, or since
/// PyTorch's legacy exporter has it: what that writes under a module's name is of its state. A number that others are
/// only compared with, or replaced by, is nobody's weight, though (GPT-2's masked_bias).
bool ParameterNames::isParameterOfOne(const onnxfile::Tensor &tensor) const {
  static constexpr StringRef kChoices[] = {"Where", "Clip", "Max", "Min", "Pad", "Less", "Greater", "Equal"};
  StringRef name = tensor.name();
  if (name.ends_with(".weight") || name.ends_with(".bias"))
    return true;
  if (isMadeUp(name))
    return false;
  return isReadWhere(name, isWeightPlace) ||
         (isLegacy && isReadWhere(name, [](StringRef type, int) { return !llvm::is_contained(kChoices, type); }));
}

/// Whether a node wants numbers there that no model trains: scales, and what a recurrent layer begins with.
static bool isPlaceOfNumbers(StringRef type, int input) {
  return type == "Resize" || type == "Upsample" ||
         ((type == "LSTM" || type == "GRU" || type == "RNN") && (input == 5 || input == 6));
}

bool ParameterNames::mayBeParameter(int initializer) const {
  const onnxfile::Tensor &tensor = file.getGraph().initializer(initializer);
  return isFloat(tensor.data_type()) && !hasOneElement(tensor) && StringRef(tensor.name()).starts_with("onnx::") &&
         isReadWhere(tensor.name(), [](StringRef type, int input) { return !isPlaceOfNumbers(type, input); });
}

//===----------------------------------------------------------------------===//
// One initializer
//===----------------------------------------------------------------------===//

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
    if (naming.transposeOf < 0)
      findWhole(initializer, folded, naming);
    return naming;
  }
  if (hasSignature || StringRef(tensor.name()).ends_with("_output_0"))
    return naming;
  if (StringRef(tensor.name()).starts_with("onnx::"))
    return recoverGenerated(initializer);
  naming.isParameter = !hasOneElement(tensor) || isParameterOfOne(tensor);
  return naming;
}

/// What a module would call the weight: the two matrices of a recurrent layer and its biases are laid out as ONNX has
/// them, and called so.
static std::string nameInModule(const onnxfile::Node &node, const onnxfile::Tensor &tensor) {
  StringRef type = node.op_type();
  if (type != "LSTM" && type != "GRU" && type != "RNN")
    return tensor.dims_size() == 1 ? "bias" : "weight";
  static constexpr StringRef kNames[] = {"W", "R", "B"};
  for (int input = 1; input < node.input_size() && input <= 3; ++input)
    if (node.input(input) == tensor.name())
      return kNames[input - 1].str();
  return "weight";
}

/// The legacy exporter folds a weight's transposition, loses its name for onnx::MatMul_123, and with it the tie to an
/// embedding.
ParameterNaming ParameterNames::recoverGenerated(int initializer) const {
  const onnxfile::Graph &graph = file.getGraph();
  const onnxfile::Tensor &tensor = graph.initializer(initializer);
  ParameterNaming naming;
  naming.name = tensor.name();
  llvm::ArrayRef<const onnxfile::Node *> readers = usersOf(tensor.name());
  naming.isParameter = isReadWhere(tensor.name(), isWeightPlace);
  if (!naming.isParameter)
    return naming;
  for (int other = 0; other < graph.initializer_size(); ++other)
    if (other != initializer && !StringRef(graph.initializer(other).name()).starts_with("onnx::") &&
        file.initializerIsTransposeOf(initializer, other)) {
      naming.transposeOf = other;
      return naming;
    }
  std::string recovered = getScope(*readers.front()) + "." + nameInModule(*readers.front(), tensor);
  bool taken = llvm::any_of(graph.initializer(), [&](const onnxfile::Tensor &t) { return t.name() == recovered; });
  if (!taken && recovered.front() != '.')
    naming.name = recovered;
  return naming;
}
