// A node's arguments, in torch's types, and the nodes that it becomes.
#include "Translator.h"

#include "hyc/Support/Truncation.h"
#include "mlir/IR/Location.h"

#include <cmath>
#include <limits>
#include <utility>

using namespace hyc;
using namespace hyc::torchexport;
using llvm::ArrayRef;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

mlir::InFlightDiagnostic NodeTranslation::error() {
  hasFailed = true;
  return emitError(owner.loc) << node.describe() << " ";
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
  const bool isSymbol = argument->kind == "as_sym_int" || argument->kind == "as_sym_bool";
  if (isSymbol && argument->value->get("as_name"))
    return owner.nameOf(node.nameOf(argument->value->get("as_name")->getString().value_or("")));
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

const TensorMeta *NodeTranslation::metaAt(StringRef list, size_t index) const {
  const Argument *argument = find(list);
  auto meta = owner.program.values.find(node.nameOf(tensorNameOf((*argument->value->getArray())[index])));
  return meta == owner.program.values.end() ? nullptr : &meta->second;
}

std::vector<Name> NodeTranslation::promotedTensors(StringRef name) {
  std::vector<Name> all = tensors(name);
  const ScalarType type = resultMeta().type;
  for (size_t i = 0; i < all.size() && !hasFailed; ++i) {
    const TensorMeta *meta = metaAt(name, i);
    if (meta && meta->type != type)
      all[i] = cast(all[i], type);
  }
  return all;
}

std::vector<Name> NodeTranslation::joinedTensors(StringRef name) {
  std::vector<Name> all = promotedTensors(name), kept;
  for (size_t i = 0; i < all.size() && !hasFailed; ++i) {
    const TensorMeta *meta = metaAt(name, i);
    if (!meta || !meta->isEmpty())
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
            << "exporting; export with that size fixed";
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
            << ", expected a list of numbers known when exporting; export with these sizes fixed";
  return numbers;
}

int64_t NodeTranslation::integerAt(StringRef name, int64_t index) {
  const Argument *argument = need(name, "a list of integers");
  const std::vector<JsonValue> *elements = argument ? argument->value->getArray() : nullptr;
  if (elements && index >= 0 && index < static_cast<int64_t>(elements->size())) {
    const JsonValue &element = (*elements)[index];
    const JsonValue *inner = element.get("as_int");
    if (std::optional<int64_t> number = (inner ? *inner : element).getInteger())
      return *number;
  }
  if (!hasFailed)
    error() << "needs element " << index << " of '" << name << "' to be a number; export with that size fixed";
  return 1;
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

std::optional<std::pair<double, double>> NodeTranslation::complexNumber(StringRef name) {
  const Argument *argument = find(name);
  if (!argument || argument->kind != "as_complex")
    return std::nullopt;
  const JsonValue *real = argument->value->get("real"), *imaginary = argument->value->get("imag");
  std::optional<double> x = real ? numberOf(*real) : std::nullopt, y = imaginary ? numberOf(*imaginary) : std::nullopt;
  if ((!x || !y) && !hasFailed)
    error() << "has the argument '" << name << "' of kind " << argument->kind << ", expected it to have both parts";
  return std::pair(x.value_or(0), y.value_or(0));
}

std::vector<double> NodeTranslation::numbers(StringRef name) {
  const Argument *argument = find(name);
  const std::vector<JsonValue> *elements = argument ? argument->value->getArray() : nullptr;
  std::vector<double> result;
  for (const JsonValue &element : elements ? ArrayRef<JsonValue>(*elements) : ArrayRef<JsonValue>()) {
    const JsonValue *inner = element.get("as_float");
    std::optional<double> value = numberOf(inner ? *inner : element);
    if (!value && !hasFailed)
      error() << "has the argument '" << name << "' of kind " << argument->kind << ", expected a list of numbers";
    result.push_back(value.value_or(0));
  }
  return result;
}

bool NodeTranslation::boolean(StringRef name, bool otherwise) { return number(name, otherwise ? 1 : 0) != 0; }

bool NodeTranslation::isNumber(StringRef name) const {
  const Argument *argument = find(name);
  const JsonValue *inner = argument ? argument->value->get("as_int") : nullptr;
  return !argument || (inner ? *inner : *argument->value).getInteger().has_value();
}

bool NodeTranslation::isText(StringRef name) const {
  const Argument *argument = find(name);
  return argument && argument->value->getString().has_value();
}

std::string NodeTranslation::text(StringRef name, StringRef otherwise) {
  const Argument *argument = find(name);
  return (argument ? argument->value->getString().value_or("") : otherwise).str();
}

/// A number, {"as_int": N} or {"as_name": SYMBOL}, as a vector of one element.
Name NodeTranslation::sizeElement(const JsonValue &element, int64_t open) {
  const JsonValue *inner = element.get("as_int"), *symbol = element.get("as_name");
  if (symbol && symbol->getString())
    return emit("Reshape", {owner.nameOf(node.nameOf(*symbol->getString())), constant(ArrayRef<int64_t>{1})});
  std::optional<int64_t> number = (inner ? *inner : element).getInteger();
  if (!number && !hasFailed)
    error() << "has a size that is neither a number nor a symbol";
  return constant({number.value_or(0) == -1 ? open : number.value_or(0)});
}

int64_t NodeTranslation::listSize(StringRef name) {
  const Argument *argument = need(name, "a list");
  const std::vector<JsonValue> *elements = argument ? argument->value->getArray() : nullptr;
  return elements ? static_cast<int64_t>(elements->size()) : 0;
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

std::vector<const TensorMeta *> NodeTranslation::metasOf(StringRef argument) {
  static const TensorMeta none;
  std::vector<const TensorMeta *> metas;
  const Argument *found = need(argument, "a list of tensors");
  const std::vector<JsonValue> *elements = found ? found->value->getArray() : nullptr;
  for (const JsonValue &element : elements ? ArrayRef<JsonValue>(*elements) : ArrayRef<JsonValue>())
    if (auto meta = owner.program.values.find(node.nameOf(tensorNameOf(element))); meta != owner.program.values.end())
      metas.push_back(&meta->second);
  if (metas.empty() && !hasFailed)
    error() << "has the argument '" << argument << "' without a tensor that the archive gives a type";
  return metas.empty() ? std::vector<const TensorMeta *>{&none} : metas;
}

bool NodeTranslation::isComplex(StringRef argument) {
  bool result = false;
  if (const Argument *found = find(argument))
    forEachTensor(node, *found, [&](StringRef value) { result |= owner.isComplex(value); });
  return result;
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
  case ScalarType::C64:
    return 10;
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
  if ((argument->kind == "as_sym_int" || argument->kind == "as_sym_bool") && argument->value->get("as_name"))
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
  if (auto [domain, own] = type.split(':'); own.empty()) {
    made.set_op_type(type.str());
  } else { // of hyc's own domain
    made.set_domain(domain.str());
    made.set_op_type(own.str());
  }
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
  Name name = node.name + suffix + ":" + std::to_string(made++);
  add(type, inputs, attributes).add_output(name);
  return name;
}

std::vector<Name> NodeTranslation::emitAll(StringRef type, std::vector<Name> inputs, const Attributes &attributes,
                                           int count) {
  onnxfile::Node &added = add(type, inputs, attributes);
  std::vector<Name> names;
  for (int i = 0; i < count; ++i) {
    names.push_back(node.name + suffix + ":" + std::to_string(made++));
    added.add_output(names.back());
  }
  return names;
}

void NodeTranslation::emitResults(StringRef type, std::vector<Name> inputs, const Attributes &attributes) {
  onnxfile::Node &made = add(type, inputs, attributes);
  for (const std::string &result : node.results)
    made.add_output(result + suffix);
}

void NodeTranslation::emitWithBodies(StringRef type, std::vector<Name> inputs, const Attributes &attributes,
                                     ArrayRef<StringRef> bodies) {
  enum { kGraph = 5 };
  onnxfile::Node &made = add(type, inputs, attributes);
  const size_t first = owner.finished.size() - bodies.size();
  for (auto [index, name] : llvm::enumerate(bodies)) {
    onnxfile::Attribute *attribute = made.add_attribute();
    attribute->set_name(name.str());
    attribute->set_type(kGraph);
    *attribute->mutable_g() = std::move(owner.finished[first + index]);
  }
  owner.finished.resize(first);
  for (const std::string &result : node.results)
    made.add_output(result);
}

Name NodeTranslation::condition() { return std::exchange(owner.conditions.back(), ""); }

void NodeTranslation::finish(const Name &value, size_t index) {
  if (index < node.results.size())
    add(owner.stops[owner.current] ? StringRef(onnx::kStopGradient) : StringRef("Identity"), {value}, {})
        .add_output(node.results[index] + suffix);
}

const onnxfile::Node *NodeTranslation::sourceOf(Name &value) {
  const auto &nodes = owner.graph().node();
  for (int index = nodes.size(); index-- > 0;) {
    const onnxfile::Node &made = nodes[index];
    if (!llvm::is_contained(made.output(), value))
      continue;
    if (made.op_type() != "Identity" && made.op_type() != "Cast")
      return &made;
    value = made.input(0); // nodes stand in an order in which they can be computed
  }
  return nullptr;
}

std::optional<int64_t> NodeTranslation::knownInteger(Name value) {
  const onnxfile::Node *made = sourceOf(value);
  if (!made || made->op_type() != "Constant")
    return std::nullopt;
  for (const onnxfile::Attribute &attribute : made->attribute())
    if (attribute.name() == "value" && attribute.t().int64_data_size() == 1)
      return attribute.t().int64_data(0);
  return std::nullopt;
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
  hasFailed |= !owner.store(written, value);
}

void NodeTranslation::writeResult() {
  if (node.results.empty())
    return;
  if (const Argument *written = writtenArgument(node))
    write(written->name, node.results.front());
  else
    need(kOutArgument, "a tensor");
}

Name NodeTranslation::constant(ScalarType type, double value) {
  Name name = node.name + suffix + ":" + std::to_string(made++);
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

/// What one body has made is not there in another.
Name &NodeTranslation::shared(StringRef what) {
  return owner.shared[(what + " in " + llvm::Twine(owner.open.empty() ? 0 : owner.current)).str()];
}

Name NodeTranslation::filled(ScalarType type, const Name &shape, double value) {
  Name name = node.name + suffix + ":" + std::to_string(made++);
  onnxfile::Node &made = add("ConstantOfShape", {shape}, {});
  setValue(made, type, {1}, value);
  made.add_output(name);
  return name;
}
