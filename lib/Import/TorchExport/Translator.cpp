// The nodes that matter, in order, and the ONNX graph around them.
#include "Translator.h"

#include "mlir/IR/Location.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>

using namespace hyc;
using namespace hyc::torchexport;
using llvm::ArrayRef;
using llvm::StringRef;

int32_t hyc::torchexport::onnxType(ScalarType type) {
  switch (type) {
  case ScalarType::U8:
    return 2;
  case ScalarType::I8:
    return 3;
  case ScalarType::I16:
    return 5;
  case ScalarType::I32:
    return 6;
  case ScalarType::I64:
    return 7;
  case ScalarType::F16:
    return 10;
  case ScalarType::F32:
  case ScalarType::C64: // as pairs
    return 1;
  case ScalarType::F64:
    return 11;
  case ScalarType::Bool:
    return 9;
  case ScalarType::BF16:
    return 16;
  }
  return 0;
}

const TranslationTable &hyc::torchexport::allTranslations() {
  static const TranslationTable table = [] {
    TranslationTable result;
    addElementwise(result);
    addActivation(result);
    addShape(result);
    addPadding(result);
    addIndex(result);
    addReduction(result);
    addContraction(result);
    addConvolution(result);
    addResize(result);
    addNormalization(result);
    addLoss(result);
    addExperts(result);
    addWindow(result);
    addScatter(result);
    addJoin(result);
    addRandom(result);
    addStrided(result);
    addDistance(result);
    addBits(result);
    addRecurrent(result);
    addMargin(result);
    addOrder(result);
    addSpecial(result);
    addAdaptivePool(result);
    addMatrix(result);
    return result;
  }();
  return table;
}

Translation hyc::torchexport::findTranslation(StringRef target) {
  auto found = allTranslations().find(target);
  return found == allTranslations().end() ? nullptr : found->second;
}

std::optional<std::string> hyc::torchexport::withoutWriting(StringRef target) {
  auto [name, overload] = target.rsplit('.');
  if (!name.starts_with("aten."))
    return std::nullopt;
  if (writesOut(target)) {
    for (const char *pure : {".default", ".Tensor"})
      if (findTranslation((name + pure).str()))
        return (name + pure).str();
    return std::nullopt;
  }
  if (!name.consume_back("_") || name.ends_with("_"))
    return std::nullopt;
  return (name + "." + overload).str();
}

const Argument *hyc::torchexport::writtenArgument(const Node &node) {
  if (!writesOut(node.target))
    return node.arguments.empty() ? nullptr : &node.arguments.front();
  for (const Argument &argument : node.arguments)
    if (argument.name == kOutArgument)
      return &argument;
  return nullptr;
}

/// The translation of an operator, or of the one whose result it writes into its operand.
Translation hyc::torchexport::findAnyTranslation(StringRef target) {
  if (Translation own = findTranslation(target))
    return own;
  std::optional<std::string> pure = withoutWriting(target);
  return pure ? findTranslation(*pure) : nullptr;
}

//===----------------------------------------------------------------------===//
// The graph
//===----------------------------------------------------------------------===//

Translator::Translator(mlir::MLIRContext &context, StringRef path, const Program &program)
    : loc(mlir::FileLineColLoc::get(&context, path, 0, 0)), program(program) {}

std::string Translator::nameOf(StringRef value) const {
  if (auto now = written.find(canonical(value)); now != written.end())
    return now->second;
  auto tensor = program.tensorOf.find(value);
  return tensor == program.tensorOf.end() ? value.str() : program.tensors[tensor->second].name;
}

/// Every text within a value: names of tensors and sizes among them.
static void forEachText(const JsonValue &value, llvm::function_ref<void(StringRef)> visit) {
  if (std::optional<StringRef> text = value.getString())
    visit(*text);
  if (const std::vector<JsonValue> *elements = value.getArray())
    for (const JsonValue &element : *elements)
      forEachText(element, visit);
  if (const std::vector<JsonValue::Member> *members = value.getObject())
    for (const JsonValue::Member &member : *members)
      forEachText(member.value, visit);
}

/// Whether a node does something besides giving results.
static bool hasEffect(const Node &node) {
  StringRef target = node.target;
  if (isMarker(target))
    return true;
  // Batch norms may write their averages.
  if (withoutWriting(target) || target.starts_with("aten.batch_norm") ||
      target == "aten._native_batch_norm_legit.default")
    return true;
  // What checks sizes or values checks what hyc is told when compiling.
  bool isCheck = target.contains("assert") || target.contains("constrain_range") || target == "torch._check.default";
  return node.results.empty() && !isCheck;
}

/// Archives hold what nobody reads: sizes compared for an assertion, values of masks that turned out to be none.
void Translator::findLiveNodes() {
  llvm::StringSet<> wanted;
  for (const auto &[value, name] : program.outputs)
    wanted.insert(value);
  for (const auto &[tensor, value] : program.mutations)
    wanted.insert(value);
  isLive.assign(program.nodes.size(), false);
  for (size_t index = program.nodes.size(); index-- > 0;) {
    const Node &node = program.nodes[index];
    isLive[index] = hasEffect(node) ||
                    llvm::any_of(node.results, [&](const std::string &result) { return wanted.contains(result); });
    const bool joins =
        StringRef(node.target).starts_with("aten.cat.") || StringRef(node.target).starts_with("aten.concat");
    if (isLive[index])
      for (const Argument &argument : node.arguments)
        forEachText(*argument.value, [&](StringRef text) {
          auto meta = program.values.find(node.nameOf(text));
          // What has no elements adds nothing to what it is joined to.
          if (!joins || meta == program.values.end() || !meta->second.isEmpty())
            wanted.insert(node.nameOf(text));
        });
  }
}

/// One error an operator, with all of its nodes.
llvm::LogicalResult Translator::checkOperators() {
  llvm::MapVector<StringRef, std::string> unknown;
  llvm::StringSet<> complex;
  for (auto [index, node] : llvm::enumerate(program.nodes))
    if (isLive[index] && !isMarker(node.target) && !translationOf(node)) {
      std::string &nodes = unknown[node.target];
      if (isComplex(node) && findAnyTranslation(node.target))
        complex.insert(node.target);
      nodes += (nodes.empty() ? "" : ", ") + node.nameForMessages();
    }
  for (auto &[target, nodes] : unknown) {
    StringRef why = refusalOf(target);
    emitError(loc) << "operator \"" << target << (why.empty() ? "\" is not known to hyc" : "\" is refused: ") << why
                   << (complex.contains(target) ? " over complex numbers" : "") << "; used by " << nodes;
  }
  return llvm::success(unknown.empty());
}

bool Translator::isComplex(StringRef value) const {
  auto meta = program.values.find(value);
  return meta != program.values.end() && meta->second.type == ScalarType::C64;
}

bool Translator::isComplex(const Node &node) const {
  bool result = llvm::any_of(node.results, [&](const std::string &each) { return isComplex(each); });
  for (const Argument &argument : node.arguments)
    forEachTensor(node, argument, [&](StringRef value) { result |= isComplex(value); });
  return result;
}

/// Null where hyc does not know the operator, over these numbers.
Translation Translator::translationOf(const Node &node) const {
  if (Translation flow = findControlFlow(node.target))
    return flow;
  Translation own = isComplex(node) ? nullptr : findAnyTranslation(node.target);
  if (own)
    return own;
  // Some take real numbers for complex ones.
  Translation complex = complexTranslations().lookup(node.target);
  std::optional<std::string> pure = withoutWriting(node.target);
  return complex || !pure ? complex : complexTranslations().lookup(*pure);
}

/// Pairs are what the graph is made of; who gives or gets values knows nothing of them.
llvm::LogicalResult Translator::checkComplex() {
  for (const std::string &input : program.inputs)
    if (isComplex(input))
      return emitError(loc) << "input \"" << input
                            << "\" is complex; take its parts as floats, and make it by "
                               "torch.view_as_complex";
  for (const auto &[value, name] : program.outputs)
    if (isComplex(value))
      return emitError(loc) << "output \"" << name << "\" is complex; give torch.view_as_real of it";
  return llvm::success();
}

void Translator::addTensors() {
  for (const StoredTensor &stored : program.tensors) {
    onnxfile::Tensor *tensor = graph().add_initializer();
    tensor->set_name(stored.name);
    tensor->set_data_type(onnxType(stored.meta.type));
    for (const Size &size : stored.meta.sizes)
      tensor->add_dims(*size.value);
    if (stored.meta.type == ScalarType::C64) // real parts and imaginary ones lie side by side
      tensor->add_dims(2);
    result.values.push_back({stored.offset, stored.bytes});
    onnxfile::Value *info = graph().add_value_info();
    info->set_name(stored.name);
    onnxfile::Entry *kind = info->add_metadata();
    kind->set_key(onnx::kInputKind.str());
    kind->set_value(stored.isTrained ? "PARAMETER" : stored.isParameter ? onnx::kFrozenKind.data() : "BUFFER");
  }
}

llvm::LogicalResult Translator::addInputs() {
  for (const std::string &name : program.inputs) {
    auto meta = program.values.find(name);
    if (meta == program.values.end())
      return emitError(loc) << "input \"" << name << "\" has no type in the archive's tensor_values";
    onnxfile::Value *input = graph().add_input();
    input->set_name(name);
    onnxfile::TensorType *type = input->mutable_type()->mutable_tensor();
    type->set_element_type(onnxType(meta->second.type));
    type->mutable_shape();
    for (const Size &size : meta->second.sizes) {
      onnxfile::Dimension *dim = type->mutable_shape()->add_dim();
      if (size.symbol.empty())
        dim->set_size(*size.value);
      else
        dim->set_symbol(size.symbol);
    }
  }
  return llvm::success();
}

/// Outputs have the model's names where it gives them some.
void Translator::addOutputs() {
  for (const auto &[value, name] : program.outputs) {
    graph().add_output()->set_name(name);
    if (name == nameOf(value))
      continue;
    onnxfile::Node *node = graph().add_node();
    node->set_op_type("Identity");
    node->set_name(name);
    node->add_input(nameOf(value));
    node->add_output(name);
  }
}

//===----------------------------------------------------------------------===//
// What a program does besides
//===----------------------------------------------------------------------===//

/// Tells the importer which tensors the model replaces, and by what.
void Translator::markMutations() {
  llvm::StringMap<std::string> next;
  for (const auto &[tensor, value] : program.mutations)
    next[program.tensors[tensor].name] = nameOf(value);
  for (const auto &tensor : program.tensorOf)
    if (auto now = written.find(canonical(tensor.getKey())); now != written.end())
      next[program.tensors[tensor.getValue()].name] = now->second;
  for (onnxfile::Value &info : *graph().mutable_value_info()) {
    auto found = next.find(info.name());
    if (found == next.end())
      continue;
    info.mutable_metadata(0)->set_value(onnx::kStateKind.str());
    onnxfile::Entry *entry = info.add_metadata();
    entry->set_key(onnx::kNextValue.str());
    entry->set_value(found->second);
  }
}

/// Which nodes keep the gradient from a parameter: those that detach what depends on one, or are called on it where no
/// gradient is taken. What they give counts as constant, so that what follows them keeps nothing more.
llvm::LogicalResult Translator::findStops() {
  llvm::StringSet<> trained;
  for (const auto &tensor : program.tensorOf)
    if (program.tensors[tensor.getValue()].isTrained)
      trained.insert(canonical(tensor.getKey()));
  const Node *nodeAt = nullptr;
  auto takes = [&](const Argument &argument) {
    bool found = false;
    forEachTensor(*nodeAt, argument, [&](StringRef value) { found |= trained.contains(canonical(value)); });
    return found;
  };
  stops.assign(program.nodes.size(), false);
  for (auto [index, node] : llvm::enumerate(program.nodes)) {
    nodeAt = &node;
    if (!llvm::any_of(node.arguments, takes))
      continue;
    stops[index] = node.keepsGradient || StringRef(node.target).starts_with("aten.detach");
    const Argument *written = withoutWriting(node.target) ? writtenArgument(node) : nullptr;
    if (node.keepsGradient && written && takes(*written))
      return emitError(loc) << node.describe()
                            << ", called in torch.no_grad(), writes into what depends on a parameter, whose gradient "
                               "then passes by it; compute a new tensor instead";
    if (!stops[index])
      for (const std::string &result : node.results)
        trained.insert(canonical(result));
  }
  return llvm::success();
}

void Translator::mark(const Node &node) {
  if (node.target == kBodyBegins) {
    open.push_back(std::make_unique<onnxfile::Graph>());
    conditions.push_back("");
    for (const std::string &given : node.results)
      graph().add_input()->set_name(given);
    return;
  }
  std::vector<std::string> values;
  for (const Argument &argument : node.arguments)
    forEachTensor(node, argument, [&](StringRef value) { values.push_back(nameOf(value)); });
  if (node.target == kGoesOn) {
    conditions.back() = values.empty() ? "" : values.front();
    return;
  }
  if (!conditions.back().empty()) { // a loop's: it is given the number of its step and whether it goes on, too
    graph().add_output()->set_name(conditions.back());
    auto *inputs = graph().mutable_input();
    for (const char *given : {"/step", "/goes_on"})
      inputs->Add()->set_name(node.name + given);
    std::rotate(inputs->pointer_begin(), inputs->pointer_end() - 2, inputs->pointer_end());
  }
  for (const std::string &value : values)
    graph().add_output()->set_name(value);
  finished.push_back(std::move(*open.back()));
  open.pop_back();
  conditions.pop_back();
}

llvm::FailureOr<onnx::AssembledModel> Translator::run() {
  findLiveNodes();
  if (llvm::failed(checkOperators()) || llvm::failed(checkComplex()))
    return llvm::failure();
  onnxfile::OperatorSet *opset = result.model.add_opset_import();
  opset->set_version(onnx::kAssembledOpset);
  addTensors();
  if (llvm::failed(addInputs()))
    return llvm::failure();
  findStorage();
  if (llvm::failed(findStops()))
    return llvm::failure();
  for (; current < program.nodes.size(); ++current) {
    const Node &node = program.nodes[current];
    if (!isLive[current])
      continue;
    if (isMarker(node.target)) {
      mark(node);
      continue;
    }
    NodeTranslation translation(*this, node);
    if (!translation.checkArguments())
      return llvm::failure();
    if (withoutWriting(node.target) && !node.results.empty() && translation.resultMeta().isEmpty())
      continue; // written into no elements
    translationOf(node)(translation);
    if (withoutWriting(node.target) && (isComplex(node) || !findTranslation(node.target)))
      translation.writeResult();
    if (translation.failed())
      return llvm::failure();
  }
  markMutations();
  addOutputs();
  return std::move(result);
}
