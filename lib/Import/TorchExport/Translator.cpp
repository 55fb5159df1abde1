// The nodes' arguments, and the ONNX graph around them.
#include "Translator.h"

#include "hyc/Support/Truncation.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>
#include <limits>

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

Translation hyc::torchexport::findTranslation(StringRef target) {
  static const TranslationTable table = [] {
    TranslationTable result;
    addElementwise(result);
    addShape(result);
    addContraction(result);
    addConvolution(result);
    addNormalization(result);
    return result;
  }();
  auto found = table.find(target);
  return found == table.end() ? nullptr : found->second;
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

/// One error an operator, with all of its nodes.
llvm::LogicalResult Translator::checkOperators() {
  llvm::MapVector<StringRef, std::string> unknown;
  for (const Node &node : program.nodes)
    if (!findAnyTranslation(node.target)) {
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
  for (const Node &node : program.nodes) {
    NodeTranslation translation(*this, node);
    findAnyTranslation(node.target)(translation);
    if (!findTranslation(node.target))
      translation.writeResult();
    if (translation.failed())
      return llvm::failure();
    ++current;
  }
  markMutations();
  addOutputs();
  return std::move(result);
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

mlir::InFlightDiagnostic NodeTranslation::error() {
  hasFailed = true;
  return emitError(owner.loc) << "node \"" << node.name << "\" (" << node.target << ") ";
}

const Argument *NodeTranslation::find(StringRef name) const {
  for (const Argument &argument : node.arguments)
    if (argument.name == name)
      return argument.kind == "as_none" ? nullptr : &argument;
  return nullptr;
}

const Argument *NodeTranslation::need(StringRef name, StringRef what) {
  const Argument *argument = find(name);
  if (!argument && !hasFailed)
    error() << "lacks the argument '" << name << "', expected " << what;
  return argument;
}

static std::string tensorNameOf(const JsonValue &value) {
  const JsonValue *tensor = value.get("as_tensor");
  const JsonValue *name = (tensor ? *tensor : value).get("name");
  return name ? name->getString().value_or("").str() : "";
}

Name NodeTranslation::tensor(StringRef name) {
  const Argument *argument = need(name, "a tensor");
  if (!argument)
    return "";
  std::string value = tensorNameOf(*argument->value);
  if ((argument->kind == "as_tensor" || argument->kind == "as_optional_tensor") && !value.empty())
    return owner.nameOf(node.nameOf(value));
  if (argument->kind == "as_sym_int" && argument->value->get("as_name"))
    return argument->value->get("as_name")->getString().value_or("").str();
  if (!hasFailed)
    error() << "has the argument '" << name << "' of kind " << argument->kind << ", expected a tensor";
  return "";
}

/// An empty name stands for None.
std::vector<Name> NodeTranslation::tensors(StringRef name) {
  const Argument *argument = need(name, "a list of tensors");
  std::vector<Name> names;
  if (!argument || !argument->value->getArray()) {
    if (!hasFailed)
      error() << "has the argument '" << name << "' of kind " << argument->kind << ", expected a list of tensors";
    return names;
  }
  for (const JsonValue &element : *argument->value->getArray()) {
    std::string value = tensorNameOf(element);
    names.push_back(value.empty() ? "" : owner.nameOf(node.nameOf(value)));
  }
  return names;
}

std::vector<Name> NodeTranslation::joinedTensors(StringRef name) {
  std::vector<Name> all = tensors(name), kept;
  const Argument *argument = find(name);
  for (size_t i = 0; i < all.size() && !hasFailed; ++i) {
    auto meta = owner.program.values.find(node.nameOf(tensorNameOf((*argument->value->getArray())[i])));
    bool isNothing =
        meta != owner.program.values.end() && meta->second.sizes.size() == 1 && meta->second.sizes.front().value == 0;
    if (!isNothing)
      kept.push_back(all[i]);
  }
  return kept.empty() ? all : kept;
}

int64_t NodeTranslation::integer(StringRef name, std::optional<int64_t> otherwise) {
  if (!has(name) && otherwise)
    return *otherwise;
  const Argument *argument = need(name, "an integer");
  if (!argument)
    return 0;
  const JsonValue *value = argument->value;
  if (const JsonValue *inner = argument->kind == "as_sym_int" ? value->get("as_int") : nullptr)
    value = inner;
  if (std::optional<int64_t> number = value->getInteger())
    return *number;
  if (!hasFailed)
    error() << "has the argument '" << name << "' of kind " << argument->kind << ", expected a number known when "
            << "exporting";
  return 0;
}

std::vector<int64_t> NodeTranslation::integers(StringRef name) {
  std::vector<int64_t> numbers;
  const Argument *argument = need(name, "a list of integers");
  if (!argument)
    return numbers;
  // A single number stands for a list of it.
  if (std::optional<int64_t> one = argument->value->getInteger())
    return {*one};
  const std::vector<JsonValue> *elements = argument->value->getArray();
  bool good = elements != nullptr;
  for (const JsonValue &element : good ? ArrayRef<JsonValue>(*elements) : ArrayRef<JsonValue>()) {
    const JsonValue *inner = element.get("as_int");
    std::optional<int64_t> number = (inner ? *inner : element).getInteger();
    good &= number.has_value();
    numbers.push_back(number.value_or(0));
  }
  if (!good && !hasFailed)
    error() << "has the argument '" << name << "' of kind " << argument->kind
            << ", expected a list of numbers known when exporting";
  return numbers;
}

/// Infinities and NaN are strings in the schema.
static std::optional<double> numberOf(const JsonValue &value) {
  if (std::optional<double> number = value.getNumber())
    return number;
  if (std::optional<bool> flag = value.getBool())
    return *flag ? 1 : 0;
  StringRef text = value.getString().value_or("");
  if (text == "Infinity" || text == "-Infinity")
    return (text.front() == '-' ? -1 : 1) * std::numeric_limits<double>::infinity();
  if (text == "NaN")
    return std::nan("");
  return std::nullopt;
}

double NodeTranslation::number(StringRef name, std::optional<double> otherwise) {
  if (!has(name) && otherwise)
    return *otherwise;
  const Argument *argument = need(name, "a number");
  if (!argument)
    return 0;
  if (std::optional<double> value = numberOf(*argument->value))
    return *value;
  if (!hasFailed)
    error() << "has the argument '" << name << "' of kind " << argument->kind << ", expected a number";
  return 0;
}

bool NodeTranslation::boolean(StringRef name, bool otherwise) { return number(name, otherwise ? 1 : 0) != 0; }

std::string NodeTranslation::text(StringRef name, StringRef otherwise) {
  const Argument *argument = find(name);
  return (argument ? argument->value->getString().value_or("") : otherwise).str();
}

/// A number, {"as_int": N} or {"as_name": SYMBOL}, as a vector of one element.
Name NodeTranslation::sizeElement(const JsonValue &element, int64_t open) {
  const JsonValue *inner = element.get("as_int"), *symbol = element.get("as_name");
  if (symbol && symbol->getString())
    return emit("Reshape", {symbol->getString()->str(), constant(ArrayRef<int64_t>{1})});
  std::optional<int64_t> number = (inner ? *inner : element).getInteger();
  if (!number && !hasFailed)
    error() << "has a size that is neither a number nor a symbol";
  return constant({number.value_or(0) == -1 ? open : number.value_or(0)});
}

Name NodeTranslation::shape(StringRef name, int64_t open) {
  const Argument *argument = need(name, "a list of sizes");
  if (!argument || !argument->value->getArray()) {
    if (!hasFailed)
      error() << "has the argument '" << name << "' of kind " << argument->kind << ", expected a list of sizes";
    return "";
  }
  const std::vector<JsonValue> &elements = *argument->value->getArray();
  if (elements.empty())
    return constant(ArrayRef<int64_t>());
  std::vector<Name> parts;
  for (const JsonValue &element : elements)
    parts.push_back(sizeElement(element, open));
  return emit("Concat", parts, {{{"axis", 0}}});
}

Name NodeTranslation::size(StringRef name, int64_t otherwise) {
  const Argument *argument = find(name);
  return argument ? sizeElement(*argument->value, -1) : constant({otherwise});
}

const TensorMeta &NodeTranslation::metaOf(StringRef argument) {
  static const TensorMeta none;
  const Argument *found = find(argument);
  auto meta = owner.program.values.find(found ? node.nameOf(tensorNameOf(*found->value)) : "");
  if (meta != owner.program.values.end())
    return meta->second;
  if (!hasFailed)
    error() << "has the argument '" << argument << "', which the archive gives no type";
  return none;
}

const TensorMeta &NodeTranslation::resultMeta(size_t index) {
  static const TensorMeta none;
  auto meta = index < node.results.size() ? owner.program.values.find(node.results[index]) : owner.program.values.end();
  if (meta != owner.program.values.end())
    return meta->second;
  if (!hasFailed)
    error() << "has a result " << index << " that the archive gives no type";
  return none;
}

int64_t NodeTranslation::sizeOf(StringRef argument, int64_t dim) {
  const TensorMeta &meta = metaOf(argument);
  if (dim >= 0 && dim < static_cast<int64_t>(meta.sizes.size()) && meta.sizes[dim].value)
    return *meta.sizes[dim].value;
  if (!hasFailed)
    error() << "needs dimension " << dim << " of '" << argument << "' to be a number; export with that size fixed";
  return 1;
}

int64_t NodeTranslation::dimension(StringRef name, int64_t tensorRank, std::optional<int64_t> otherwise) {
  int64_t dim = integer(name, otherwise), most = std::max<int64_t>(tensorRank, 1);
  if (dim >= -most && dim < most)
    return dim < 0 ? dim + most : dim;
  if (!hasFailed)
    error() << "names dimension " << dim << " of a tensor with " << tensorRank << " dimensions";
  return 0;
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

/// Within a category the wider one wins, and floats over integers over booleans (torch's type promotion).
static int strength(ScalarType type) {
  switch (type) {
  case ScalarType::Bool:
    return 0;
  case ScalarType::U8:
    return 1;
  case ScalarType::I8:
    return 2;
  case ScalarType::I16:
    return 3;
  case ScalarType::I32:
    return 4;
  case ScalarType::I64:
    return 5;
  case ScalarType::F16:
    return 6;
  case ScalarType::BF16:
    return 7;
  case ScalarType::F32:
    return 8;
  case ScalarType::F64:
    return 9;
  }
  return 0;
}

ScalarType NodeTranslation::commonType(ArrayRef<StringRef> names) {
  ScalarType common = ScalarType::Bool;
  bool hasFloat = false, hasInteger = false;
  for (StringRef name : names) {
    const Argument *argument = need(name, "a tensor or a number");
    if (!argument)
      return common;
    if (argument->kind == "as_tensor") {
      ScalarType type = metaOf(name).type;
      // Two different half types meet in f32.
      if (strength(type) + strength(common) == 13 && isFloat(type) && isFloat(common))
        common = ScalarType::F32;
      else if (strength(type) > strength(common))
        common = type;
    } else {
      hasFloat |= argument->kind == "as_float";
      hasInteger |= argument->kind == "as_int" || argument->kind == "as_sym_int";
    }
  }
  // A number only decides the category.
  if (hasFloat && !isFloat(common))
    return ScalarType::F32;
  return hasInteger && common == ScalarType::Bool ? ScalarType::I64 : common;
}

Name NodeTranslation::operand(StringRef name, ScalarType type) {
  const Argument *argument = need(name, "a tensor or a number");
  if (!argument)
    return "";
  if (argument->kind == "as_tensor")
    return metaOf(name).type == type ? tensor(name) : cast(tensor(name), type);
  if (argument->kind == "as_sym_int" && argument->value->get("as_name"))
    return cast(tensor(name), type);
  const JsonValue *inner = argument->value->get("as_int");
  std::optional<double> value = numberOf(inner ? *inner : *argument->value);
  if (!value && !hasFailed)
    error() << "has the argument '" << name << "' of kind " << argument->kind << ", expected a tensor or a number";
  return constant(type, value.value_or(0));
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

onnxfile::Node &NodeTranslation::add(StringRef type, const std::vector<Name> &inputs, const Attributes &attributes) {
  enum { kFloat = 1, kInt = 2, kString = 3, kInts = 7 };
  onnxfile::Node &made = *owner.graph().add_node();
  made.set_op_type(type.str());
  made.set_name(node.name);
  for (const Name &input : inputs)
    made.add_input(input);
  auto attribute = [&](StringRef name, int kind) -> onnxfile::Attribute & {
    onnxfile::Attribute &result = *made.add_attribute();
    result.set_name(name.str());
    result.set_type(kind);
    return result;
  };
  for (auto [name, value] : attributes.integers)
    attribute(name, kInt).set_i(value);
  for (auto [name, value] : attributes.numbers)
    attribute(name, kFloat).set_f(static_cast<float>(value));
  for (const auto &[name, values] : attributes.lists)
    attribute(name, kInts).mutable_ints()->Add(values.begin(), values.end());
  for (const auto &[name, value] : attributes.texts)
    attribute(name, kString).set_s(value);
  onnxfile::Entry *scopes = made.add_metadata();
  scopes->set_key(onnx::kNameScopes.str());
  scopes->set_value("['" + node.scope + "', '']");
  return made;
}

Name NodeTranslation::emit(StringRef type, std::vector<Name> inputs, const Attributes &attributes) {
  Name name = node.name + ":" + std::to_string(made++);
  add(type, inputs, attributes).add_output(name);
  return name;
}

std::vector<Name> NodeTranslation::emitAll(StringRef type, std::vector<Name> inputs, const Attributes &attributes,
                                           int count) {
  onnxfile::Node &added = add(type, inputs, attributes);
  std::vector<Name> names;
  for (int i = 0; i < count; ++i) {
    names.push_back(node.name + ":" + std::to_string(made++));
    added.add_output(names.back());
  }
  return names;
}

void NodeTranslation::emitResults(StringRef type, std::vector<Name> inputs, const Attributes &attributes) {
  onnxfile::Node &made = add(type, inputs, attributes);
  for (const std::string &result : node.results)
    made.add_output(result);
}

void NodeTranslation::finish(const Name &value, size_t index) {
  if (index < node.results.size())
    add("Identity", {value}, {}).add_output(node.results[index]);
}

/// A tensor attribute called `value` with one element.
static void setValue(onnxfile::Node &node, ScalarType type, ArrayRef<int64_t> dims, double value) {
  onnxfile::Attribute *attribute = node.add_attribute();
  attribute->set_name("value");
  attribute->set_type(4);
  onnxfile::Tensor *tensor = attribute->mutable_t();
  tensor->set_data_type(onnxType(type));
  for (int64_t dim : dims)
    tensor->add_dims(dim);
  if (type == ScalarType::F64 || isFloat(type))
    tensor->add_double_data(value);
  else
    tensor->add_int64_data(truncated(value));
}

void NodeTranslation::write(StringRef argument, const Name &value) {
  const Argument *found = need(argument, "a tensor");
  std::string written = found ? node.nameOf(tensorNameOf(*found->value)) : "";
  if (written.empty())
    return;
  if (std::string objection = owner.objectionToWriting(written); !objection.empty() && !hasFailed) {
    error() << "writes into " << objection
            << "; export the program after .run_decompositions({}), which writes nothing in place";
    return;
  }
  owner.written[owner.canonical(written)] = value;
}

void NodeTranslation::writeResult() {
  if (!node.results.empty() && !node.arguments.empty())
    write(node.arguments.front().name, node.results.front());
}

Name NodeTranslation::constant(ScalarType type, double value) {
  Name name = node.name + ":" + std::to_string(made++);
  onnxfile::Node &made = add("Constant", {}, {});
  setValue(made, type, {}, value);
  made.add_output(name);
  return name;
}

Name NodeTranslation::constant(ArrayRef<int64_t> values) {
  return emit("Constant", {}, {{}, {}, {{"value_ints", values.vec()}}});
}

Name NodeTranslation::cast(const Name &value, ScalarType type) {
  return emit("Cast", {value}, {{{"to", onnxType(type)}}});
}

Name NodeTranslation::filled(ScalarType type, const Name &shape, double value) {
  Name name = node.name + ":" + std::to_string(made++);
  onnxfile::Node &made = add("ConstantOfShape", {shape}, {});
  setValue(made, type, {1}, value);
  made.add_output(name);
  return name;
}
