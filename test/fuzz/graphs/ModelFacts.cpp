// What is known of a model's values, and the model as text.
#include "ModelEdits.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <sstream>

using namespace hyc;
using namespace hyc::fuzzing;

Facts hyc::fuzzing::importFacts(const onnxfile::Model &model, int64_t batch,
                                const std::function<void(const std::string &)> &write) {
  Facts facts;
  onnxfile::Model part = model;
  part.mutable_graph()->clear_node();
  for (const onnxfile::Node &node : model.graph().node()) {
    *part.mutable_graph()->add_node() = node;
    part.mutable_graph()->clear_output();
    for (const std::string &name : node.output())
      if (!name.empty())
        part.mutable_graph()->add_output()->set_name(name);
    auto values = importOutputs(part, batch);
    if (!values || static_cast<int>(values->size()) != part.graph().output_size())
      continue;
    for (int i = 0; i < part.graph().output_size(); ++i) {
      const TensorFacts &value = (*values)[i];
      facts[part.graph().output(i).name()] = value;
      std::string line = part.graph().output(i).name() + "\t" + std::to_string(value.type);
      for (int64_t size : value.shape)
        line += "\t" + std::to_string(size);
      write(line + "\n");
    }
  }
  return facts;
}

Facts hyc::fuzzing::parseFacts(const std::string &text) {
  Facts facts;
  std::stringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::stringstream parts(line);
    std::string name, number;
    std::getline(parts, name, '\t');
    std::getline(parts, number, '\t');
    TensorFacts &value = facts[name];
    value.type = std::atoi(number.c_str());
    while (std::getline(parts, number, '\t'))
      value.shape.push_back(std::strtoll(number.c_str(), nullptr, 10));
  }
  return facts;
}

template <typename List> static std::string listed(const List &list) {
  return llvm::join(llvm::map_range(list, [](const auto &item) { return std::to_string(item); }), ", ");
}

static std::string valueOf(const onnxfile::Attribute &attribute) {
  switch (attribute.type()) {
  case 1:
    return std::to_string(attribute.f());
  case 2:
    return std::to_string(attribute.i());
  case 3:
    return "\"" + attribute.s() + "\"";
  case 6:
    return "[" + listed(attribute.floats()) + "]";
  case 7:
    return "[" + listed(attribute.ints()) + "]";
  default:
    return "(type " + std::to_string(attribute.type()) + ")";
  }
}

std::string hyc::fuzzing::describeModel(const onnxfile::Model &model) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "opset " << (model.opset_import_size() ? model.opset_import(0).version() : 0) << "\n";
  for (const auto &input : model.graph().input()) {
    os << "input " << input.name() << ": type " << input.type().tensor().element_type() << " [";
    for (const auto &dim : input.type().tensor().shape().dim())
      os << " " << (dim.has_symbol() ? dim.symbol() : std::to_string(dim.size()));
    os << " ]\n";
  }
  for (const auto &tensor : model.graph().initializer()) {
    os << "initializer " << tensor.name() << ": type " << tensor.data_type() << " [" << listed(tensor.dims()) << "]";
    if (tensor.int64_data_size() && tensor.int64_data_size() <= 8)
      os << " = " << listed(tensor.int64_data());
    os << "\n";
  }
  for (const auto &node : model.graph().node()) {
    os << "node " << llvm::join(node.output(), ", ") << " = " << (node.domain().empty() ? "" : node.domain() + ":")
       << node.op_type() << "(" << llvm::join(node.input(), ", ") << ")";
    for (const auto &attribute : node.attribute())
      os << " " << attribute.name() << "=" << valueOf(attribute);
    os << "\n";
  }
  for (const auto &output : model.graph().output())
    os << "output " << output.name() << "\n";
  return text;
}
