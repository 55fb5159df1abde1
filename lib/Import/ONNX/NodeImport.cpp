// Access to one node: inputs, attributes, results, diagnostics.
#include "Importer.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::ArrayRef;
using llvm::StringRef;

// Attribute types, by the format's numbers.
enum AttributeType { kFloat = 1, kInt = 2, kString = 3, kInts = 7 };

NodeImport::NodeImport(Importer &importer, const onnxfile::Node &node)
    : owner(importer), node(node), errorsBefore(importer.countErrors()) {}

static std::string quotedName(const onnxfile::Node &node) {
  return "\"" + (node.name().empty() && node.output_size() ? node.output(0) : node.name()) + "\"";
}

/// Names that are paths begin with the module's.
static std::string moduleSuffix(const onnxfile::Node &node) {
  std::string module = StringRef(node.name()).contains('/') ? "" : getScope(node);
  return module.empty() ? "" : " of module \"" + module + "\"";
}

std::string hyc::onnx::nameForMessages(const onnxfile::Node &node) { return quotedName(node) + moduleSuffix(node); }

std::string hyc::onnx::describe(const onnxfile::Node &node) {
  return "node " + quotedName(node) + " (" + node.op_type() + ")" + moduleSuffix(node);
}

std::string NodeImport::describe() const { return onnx::describe(node); }

InFlightDiagnostic NodeImport::error() const { return emitError(owner.currentLoc) << describe() << " "; }

const HostTensor *NodeImport::constant(int index) {
  if (inputs[index]->constant)
    return &*inputs[index]->constant;
  error() << "needs input " << index << " (\"" << node.input(index)
          << "\") when compiling, but it is computed when running";
  return nullptr;
}

std::optional<llvm::SmallVector<int64_t>> NodeImport::integers(int index) {
  const HostTensor *tensor = constant(index);
  if (!tensor)
    return std::nullopt;
  if (tensor->isReal() || tensor->getTensorRank() > 1 || tensor->getNumElements() > 4096) {
    error() << "has input " << index << " of type " << inputs[index]->type << ", expected a short list of integers";
    return std::nullopt;
  }
  return tensor->toIntegers();
}

const onnxfile::Attribute *NodeImport::find(StringRef name) const {
  for (const onnxfile::Attribute &attribute : node.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

const onnxfile::Attribute *NodeImport::findOf(StringRef name, int type) {
  const onnxfile::Attribute *attribute = find(name);
  if (!attribute || attribute->type() == type)
    return attribute;
  error() << "has attribute '" << name << "' of type " << nameOfAttributeKind(attribute->type()) << ", expected "
          << nameOfAttributeKind(type);
  attributeError = true;
  return nullptr;
}

int64_t NodeImport::getInt(StringRef name, int64_t otherwise) {
  const onnxfile::Attribute *attribute = findOf(name, kInt);
  return attribute ? attribute->i() : otherwise;
}

double NodeImport::getFloat(StringRef name, double otherwise) {
  const onnxfile::Attribute *attribute = findOf(name, kFloat);
  return attribute ? attribute->f() : otherwise;
}

std::string NodeImport::getString(StringRef name, StringRef otherwise) {
  const onnxfile::Attribute *attribute = findOf(name, kString);
  return attribute ? attribute->s() : otherwise.str();
}

std::optional<llvm::SmallVector<int64_t>> NodeImport::getInts(StringRef name) {
  const onnxfile::Attribute *attribute = findOf(name, kInts);
  if (!attribute)
    return std::nullopt;
  return llvm::SmallVector<int64_t>(attribute->ints().begin(), attribute->ints().end());
}

std::optional<int64_t> NodeImport::normalizeAxis(int64_t axis, int64_t tensorRank) {
  if (axis >= -tensorRank && axis < tensorRank)
    return axis < 0 ? axis + tensorRank : axis;
  error() << "names dimension " << axis << " of a tensor with " << tensorRank << " dimensions";
  return std::nullopt;
}

std::optional<llvm::SmallVector<int64_t>> NodeImport::normalizeAxes(ArrayRef<int64_t> axes, int64_t tensorRank) {
  llvm::SmallVector<int64_t> result;
  for (int64_t axis : axes) {
    std::optional<int64_t> normal = normalizeAxis(axis, tensorRank);
    if (!normal)
      return std::nullopt;
    if (llvm::is_contained(result, *normal)) {
      error() << "names dimension " << *normal << " twice";
      return std::nullopt;
    }
    result.push_back(*normal);
  }
  return result;
}

LogicalResult Operator::operator()(NodeImport &node) const {
  int64_t before = node.importer().countErrors();
  if (!node.checkAttributes() || !checkOperands(node, operands))
    return failure();
  if (succeeded(import(node)))
    return success();
  if (node.importer().countErrors() == before)
    node.error() << "cannot be imported with inputs of types " << node.describeInputs();
  return failure();
}

std::string hyc::onnx::describeList(ArrayRef<int64_t> values) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::interleaveComma(values.take_front(32), stream << "[");
  stream << (values.size() > 32 ? ", …]" : "]");
  return text;
}

std::string NodeImport::describeInputs() const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (const Binding *input : inputs) {
    stream << (text.empty() ? "" : ", ");
    if (input && input->type)
      stream << input->type;
    else
      stream << (input && input->sequence ? "(a list)" : "(none)");
  }
  return text;
}

LogicalResult NodeImport::finish(std::optional<Binding> result) {
  std::vector<std::optional<Binding>> results;
  results.push_back(std::move(result));
  return finish(std::move(results));
}

LogicalResult NodeImport::finish(std::vector<std::optional<Binding>> results) {
  if (attributeError)
    return failure();
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty())
      continue;
    if (i >= static_cast<int>(results.size()))
      return error() << "has a result " << i << " that hyc does not compute: \"" << node.output(i) << "\"";
    if (!results[i] && owner.countErrors() > errorsBefore)
      return failure();
    if (!results[i])
      return error() << "has a result known when compiling that is too large: more than " << HostTensor::kMaxStored
                     << " different values, or more than " << HostTensor::kMaxLive << " with those still needed";
    owner.bind(node.output(i), std::move(*results[i]));
  }
  return success();
}
