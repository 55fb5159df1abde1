// The nodes that matter, in order, and the ONNX graph around them.
#include "Translator.h"

#include "mlir/IR/Location.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

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
  if (!name.starts_with("aten.") || !name.consume_back("_") || name.ends_with("_"))
    return std::nullopt;
  return (name + "." + overload).str();
}

/// The translation of an operator, or of the one whose result it writes into its operand.
static Translation findAnyTranslation(StringRef target) {
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
  if (withoutWriting(target) || target.starts_with("aten.batch_norm")) // the latter writes its averages
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
    if (isLive[index])
      for (const Argument &argument : node.arguments)
        forEachText(*argument.value, [&](StringRef text) { wanted.insert(node.nameOf(text)); });
  }
}

/// One error an operator, with all of its nodes.
llvm::LogicalResult Translator::checkOperators() {
  llvm::MapVector<StringRef, std::string> unknown;
  for (auto [index, node] : llvm::enumerate(program.nodes))
    if (isLive[index] && !findAnyTranslation(node.target)) {
      std::string &nodes = unknown[node.target];
      nodes += (nodes.empty() ? "\"" : ", \"") + node.name + "\"";
    }
  for (auto &[target, nodes] : unknown)
    emitError(loc) << "operator \"" << target << "\" is not known to hyc; used by " << nodes;
  return llvm::success(unknown.empty());
}

void Translator::addTensors() {
  for (const StoredTensor &stored : program.tensors) {
    onnxfile::Tensor *tensor = graph().add_initializer();
    tensor->set_name(stored.name);
    tensor->set_data_type(onnxType(stored.meta.type));
    for (const Size &size : stored.meta.sizes)
      tensor->add_dims(*size.value);
    result.values.push_back({stored.offset, stored.bytes});
    onnxfile::Value *info = graph().add_value_info();
    info->set_name(stored.name);
    onnxfile::Entry *kind = info->add_metadata();
    kind->set_key(onnx::kInputKind.str());
    kind->set_value(stored.isParameter ? "PARAMETER" : "BUFFER");
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
      if (size.value)
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
// Writing in place
//===----------------------------------------------------------------------===//

/// Whether an operator's result may be its first operand's memory under another shape.
static bool isView(StringRef target) {
  static const llvm::StringSet<> views = {
      "view",  "_unsafe_view", "reshape", "flatten", "expand", "unsqueeze", "squeeze", "transpose",
      "t",     "permute",      "slice",   "select",  "alias",  "detach",    "split",   "split_with_sizes",
      "chunk", "contiguous",   "to",      "narrow",  "dropout"};
  target.consume_front("aten.");
  return views.contains(target.split('.').first);
}

/// The tensors that an argument names, as the program calls them.
static void forEachTensor(const Node &node, const Argument &argument, llvm::function_ref<void(StringRef)> visit) {
  auto visitOne = [&](const JsonValue &value) {
    const JsonValue *tensor = value.get("as_tensor");
    const JsonValue *name = (tensor ? *tensor : value).get("name");
    if (name && name->getString())
      visit(node.nameOf(*name->getString()));
  };
  if (const std::vector<JsonValue> *list = argument.value->getArray())
    llvm::for_each(*list, visitOne);
  else
    visitOne(*argument.value);
}

void Translator::findStorage() {
  for (const auto &tensor : program.tensorOf)
    sameAs[tensor.getKey()] = "#" + std::to_string(tensor.getValue());
  for (auto [index, node] : llvm::enumerate(program.nodes)) {
    for (const Argument &argument : node.arguments)
      forEachTensor(node, argument, [&, index = index](StringRef value) { lastUse[canonical(value)] = index; });
    bool writes = withoutWriting(node.target).has_value();
    if (node.arguments.empty() || !(writes || isView(node.target)))
      continue;
    std::string first;
    forEachTensor(node, node.arguments.front(), [&](StringRef value) { first = canonical(value).str(); });
    for (const std::string &result : node.results)
      if (writes)
        sameAs[result] = first;
      else
        storageOf[result] = storageOf.count(first) ? storageOf[first] : first;
  }
  for (const auto &[value, name] : program.outputs)
    lastUse[canonical(value)] = program.nodes.size();
}

std::string Translator::objectionToWriting(StringRef value) const {
  auto tensor = program.tensorOf.find(value);
  if (tensor != program.tensorOf.end() && program.tensors[tensor->second].isParameter)
    return "the parameter \"" + program.tensors[tensor->second].name + "\"";
  StringRef own = canonical(value);
  auto shown = storageOf.find(own);
  StringRef storage = shown == storageOf.end() ? own : StringRef(shown->second);
  auto isUsedLater = [&](StringRef other) {
    auto use = lastUse.find(other);
    return other != own && (other.starts_with("#") || (use != lastUse.end() && use->second > current));
  };
  if (isUsedLater(storage))
    return "a view of what is used later as well";
  for (const auto &view : storageOf)
    if (view.second == storage && isUsedLater(view.getKey()))
      return "a tensor of which \"" + view.getKey().str() + "\" is a view that is used later";
  return "";
}

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

/// A value that is detached counts as a constant for PyTorch's gradient, but not for hyc's: where it lies between a
/// parameter and an output, the model would train otherwise.
llvm::LogicalResult Translator::checkGradients() {
  llvm::StringSet<> trained, wanted;
  for (const auto &tensor : program.tensorOf)
    if (program.tensors[tensor.getValue()].isParameter)
      trained.insert(canonical(tensor.getKey()));
  for (const auto &[value, name] : program.outputs)
    wanted.insert(canonical(value));
  auto takes = [&](const Node &node, const llvm::StringSet<> &values) {
    bool found = false;
    for (const Argument &argument : node.arguments)
      forEachTensor(node, argument, [&](StringRef value) { found |= values.contains(canonical(value)); });
    return found;
  };
  std::vector<const Node *> detached; // of what depends on a parameter
  for (const Node &node : program.nodes)
    if (takes(node, trained)) {
      if (StringRef(node.target).starts_with("aten.detach") || node.keepsGradient)
        detached.push_back(&node);
      for (const std::string &result : node.results)
        trained.insert(canonical(result));
    }
  for (const Node &node : llvm::reverse(program.nodes)) {
    bool isWanted = llvm::any_of(node.results, [&](const std::string &r) { return wanted.contains(canonical(r)); });
    if (isWanted && llvm::is_contained(detached, &node))
      return emitError(loc)
             << "node \"" << node.name << "\" (" << node.target << ")"
             << (node.keepsGradient ? ", called in torch.no_grad()," : "")
             << " keeps the gradient from a parameter, which hyc does not; freeze what it depends on, or "
                "export the model without it";
    if (isWanted)
      for (const Argument &argument : node.arguments)
        forEachTensor(node, argument, [&](StringRef value) { wanted.insert(canonical(value)); });
  }
  return llvm::success();
}

llvm::FailureOr<onnx::AssembledModel> Translator::run() {
  findLiveNodes();
  if (llvm::failed(checkOperators()))
    return llvm::failure();
  onnxfile::OperatorSet *opset = result.model.add_opset_import();
  opset->set_version(onnx::kAssembledOpset);
  addTensors();
  if (llvm::failed(addInputs()))
    return llvm::failure();
  findStorage();
  if (llvm::failed(checkGradients()))
    return llvm::failure();
  for (; current < program.nodes.size(); ++current) {
    const Node &node = program.nodes[current];
    if (!isLive[current])
      continue;
    NodeTranslation translation(*this, node);
    findAnyTranslation(node.target)(translation);
    if (!findTranslation(node.target))
      translation.writeResult();
    if (translation.failed())
      return llvm::failure();
  }
  markMutations();
  addOutputs();
  return std::move(result);
}
