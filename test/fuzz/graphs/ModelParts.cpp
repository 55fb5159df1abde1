// Pieces of ONNX models.
#include "ModelParts.h"

using namespace hyc;
using namespace hyc::fuzzing;

int32_t hyc::fuzzing::typeOfLetter(char letter) {
  switch (letter) {
  case 'i':
    return kI64;
  case 'w':
    return kI32;
  case 'b':
    return kBool;
  case 'u':
    return kU8;
  case 's':
    return kI8;
  default:
    return kF32;
  }
}

bool hyc::fuzzing::isReal(int32_t type) { return type == kF32 || type == kF16 || type == kF64 || type == kBF16; }

void hyc::fuzzing::addInput(onnxfile::Graph &graph, const std::string &name, int32_t type,
                            const std::vector<int64_t> &shape, const std::string &firstSymbol) {
  onnxfile::Value &value = *graph.add_input();
  value.set_name(name);
  onnxfile::TensorType &tensor = *value.mutable_type()->mutable_tensor();
  tensor.set_element_type(type);
  tensor.mutable_shape();
  for (size_t dim = 0; dim < shape.size(); ++dim)
    if (dim == 0 && !firstSymbol.empty())
      tensor.mutable_shape()->add_dim()->set_symbol(firstSymbol);
    else
      tensor.mutable_shape()->add_dim()->set_size(shape[dim]);
}

void hyc::fuzzing::fillTensor(onnxfile::Tensor &tensor, int32_t type, const std::vector<int64_t> &shape,
                              const std::vector<double> &values) {
  tensor.set_data_type(type);
  tensor.mutable_dims()->Assign(shape.begin(), shape.end());
  for (double value : values)
    if (type == kF32)
      tensor.add_float_data(static_cast<float>(value));
    else if (type == kF64)
      tensor.add_double_data(value);
    else if (type == kI64)
      tensor.add_int64_data(static_cast<int64_t>(value));
    else
      tensor.add_int32_data(static_cast<int32_t>(value));
}

void hyc::fuzzing::addTensor(onnxfile::Graph &graph, const std::string &name, int32_t type,
                             const std::vector<int64_t> &shape, const std::vector<double> &values) {
  onnxfile::Tensor &tensor = *graph.add_initializer();
  tensor.set_name(name);
  fillTensor(tensor, type, shape, values);
}

onnxfile::Node &hyc::fuzzing::addNode(onnxfile::Graph &graph, llvm::StringRef op,
                                      const std::vector<std::string> &inputs, const std::vector<std::string> &outputs) {
  auto [domain, name] = op.contains(':') ? op.rsplit(':') : std::pair(llvm::StringRef(), op);
  onnxfile::Node &node = *graph.add_node();
  node.set_name("n" + std::to_string(graph.node_size()));
  node.set_op_type(name.str());
  if (!domain.empty())
    node.set_domain(domain.str());
  for (const std::string &input : inputs)
    node.add_input(input);
  for (const std::string &output : outputs)
    node.add_output(output);
  return node;
}

onnxfile::Attribute &hyc::fuzzing::addAttribute(onnxfile::Node &node, const std::string &name, int32_t type) {
  onnxfile::Attribute &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

void hyc::fuzzing::setInt(onnxfile::Node &node, const std::string &name, int64_t value) {
  addAttribute(node, name, 2).set_i(value);
}
