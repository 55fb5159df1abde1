// What may be changed of a valid model, one function a kind.
#include "Change.h"

#include "ModelParts.h"

#include <initializer_list>
#include <limits>

using namespace hyc;
using namespace hyc::fuzzing;

namespace {
constexpr int64_t kIntegers[] = {0,
                                 1,
                                 2,
                                 3,
                                 5,
                                 7,
                                 -1,
                                 -2,
                                 -5,
                                 100,
                                 1 << 21,
                                 int64_t(1) << 31,
                                 int64_t(1) << 33,
                                 int64_t(1) << 40,
                                 int64_t(1) << 62,
                                 std::numeric_limits<int64_t>::max(),
                                 std::numeric_limits<int64_t>::min()};
constexpr double kReals[] = {0, -1, 1e-30, 1e30, 3e38, 0.5, 1, -0.5};
/// Strings, complex numbers, 4 bits and types that there are not, too.
constexpr int32_t kTypes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 19, 22, 99, -1};
constexpr const char *kWords[] = {"",     "NOTSET", "SAME_UPPER", "VALID", "linear", "cubic",  "reflect", "wrap",
                                  "none", "sum",    "add",        "mul",   "ij->ji", "ii->",   "...",     "->",
                                  "i,i",  "CRD",    "LEFT",       "tanh",  "Relu",   "reverse"};

class Changes {
public:
  Changes(onnxfile::Model &model, Random &random) : model(model), graph(*model.mutable_graph()), random(random) {}

  std::string run() {
    using Change = std::string (Changes::*)();
    static constexpr Change kChanges[] = {
        &Changes::attribute,   &Changes::attribute, &Changes::attributeKind, &Changes::input, &Changes::input,
        &Changes::rank,        &Changes::type,      &Changes::size,          &Changes::size,  &Changes::value,
        &Changes::operatorSet, &Changes::op,        &Changes::name};
    for (;;)
      if (std::string what = (this->*random.pick(kChanges))(); !what.empty())
        return what;
  }

private:
  onnxfile::Node &anyNode() { return *graph.mutable_node(static_cast<int>(random.below(graph.node_size()))); }

  std::string attribute();
  std::string attributeKind();
  std::string input();
  std::string rank();
  std::string type();
  std::string size();
  std::string value();
  std::string operatorSet();
  std::string op();
  std::string name();
  void spoil(onnxfile::Attribute &attribute);
  void changeList(google::protobuf::RepeatedField<int64_t> &list);

  onnxfile::Model &model;
  onnxfile::Graph &graph;
  Random &random;
};

void Changes::changeList(google::protobuf::RepeatedField<int64_t> &list) {
  int64_t kind = random.below(4);
  if (kind == 0 || list.empty())
    list.Add(random.pick(kIntegers));
  else if (kind == 1)
    list.RemoveLast();
  else
    list.Set(static_cast<int>(random.below(list.size())), random.pick(kIntegers));
}

void Changes::spoil(onnxfile::Attribute &attribute) {
  switch (attribute.type()) {
  case 1:
    attribute.set_f(static_cast<float>(random.pick(kReals)));
    break;
  case 2:
    attribute.set_i(random.pick(kIntegers));
    break;
  case 3:
    attribute.set_s(random.pick(kWords));
    break;
  case 7:
    changeList(*attribute.mutable_ints());
    break;
  default:
    attribute.clear_t();
    attribute.clear_floats();
  }
}

/// Its value, or whether it is there; or one that some operator asks for.
std::string Changes::attribute() {
  onnxfile::Node &node = anyNode();
  int64_t kind = random.below(4);
  if (node.attribute_size() && kind > 0) {
    int at = static_cast<int>(random.below(node.attribute_size()));
    std::string name = node.attribute(at).name();
    if (kind == 1) {
      node.mutable_attribute()->DeleteSubrange(at, 1);
      return "without attribute " + name;
    }
    spoil(*node.mutable_attribute(at));
    return "other attribute " + name;
  }
  constexpr const char *kNames[] = {
      "axis", "axes",  "keepdims", "group",     "kernel_shape", "strides",   "pads",         "perm",
      "to",   "alpha", "epsilon",  "mode",      "auto_pad",     "dilations", "split",        "k",
      "p",    "value", "layout",   "direction", "batch_dims",   "reduction", "output_shape", "hidden_size"};
  std::string name = random.pick(kNames);
  onnxfile::Attribute &added = addAttribute(node, name, random.pick(std::initializer_list<int32_t>{1, 2, 3, 7}));
  spoil(added);
  return "further attribute " + name;
}

std::string Changes::attributeKind() {
  onnxfile::Node &node = anyNode();
  if (!node.attribute_size())
    return "";
  onnxfile::Attribute &chosen = *node.mutable_attribute(static_cast<int>(random.below(node.attribute_size())));
  chosen.set_type(random.pick(std::initializer_list<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 99}));
  return "attribute " + chosen.name() + " of type " + std::to_string(chosen.type());
}

std::string Changes::input() {
  onnxfile::Node &node = anyNode();
  int64_t kind = random.below(6);
  if (kind == 0) {
    node.add_input(node.input_size() ? node.input(0) : "x");
    return "one input more";
  }
  if (!node.input_size())
    return "";
  int at = static_cast<int>(random.below(node.input_size()));
  if (kind == 1) {
    node.set_input(at, "");
    return "without input " + std::to_string(at);
  }
  if (kind == 2) {
    node.mutable_input()->DeleteSubrange(at, 1);
    return "one input less";
  }
  if (kind == 3 && node.input_size() > 1) {
    node.mutable_input()->SwapElements(at, static_cast<int>(random.below(node.input_size())));
    return "inputs swapped";
  }
  // What any other node takes: of a later one, it is a cycle.
  const onnxfile::Node &other = anyNode();
  std::string name = random.oneIn(2) && other.input_size() ? other.input(0) : other.output(0);
  node.set_input(at, name);
  return "input " + std::to_string(at) + " is " + name;
}

std::string Changes::rank() {
  bool isMore = random.oneIn(2);
  if (int count = graph.initializer_size(); count && random.oneIn(2)) {
    onnxfile::Tensor &tensor = *graph.mutable_initializer(static_cast<int>(random.below(count)));
    if (!isMore && (tensor.dims_size() == 0 || tensor.dims(0) != 1))
      return "";
    if (isMore)
      tensor.add_dims(1);
    else
      tensor.mutable_dims()->erase(tensor.mutable_dims()->begin());
    return "other rank of " + tensor.name();
  }
  if (!graph.input_size())
    return "";
  onnxfile::Value &value = *graph.mutable_input(static_cast<int>(random.below(graph.input_size())));
  auto &dims = *value.mutable_type()->mutable_tensor()->mutable_shape()->mutable_dim();
  if (isMore)
    dims.Add()->set_size(random.between(1, 2));
  else if (!dims.empty())
    dims.RemoveLast();
  return "other rank of " + value.name();
}

std::string Changes::type() {
  int32_t type = random.pick(kTypes);
  if (int count = graph.initializer_size(); count && random.oneIn(2)) {
    onnxfile::Tensor &tensor = *graph.mutable_initializer(static_cast<int>(random.below(count)));
    std::vector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
    int64_t elements = 1;
    for (int64_t size : shape)
      elements *= size;
    std::string name = tensor.name();
    tensor.Clear();
    tensor.set_name(name);
    fillTensor(tensor, type, shape, std::vector<double>(elements, 1));
    return name + " of type " + std::to_string(type);
  }
  if (!graph.input_size())
    return "";
  onnxfile::Value &value = *graph.mutable_input(static_cast<int>(random.below(graph.input_size())));
  value.mutable_type()->mutable_tensor()->set_element_type(type);
  return value.name() + " of type " + std::to_string(type);
}

std::string Changes::size() {
  constexpr int64_t kSizes[] = {0, 0, 1, 1, 2, 3, 4, 5, 6, 8, -1, 1 << 21, int64_t(1) << 33, int64_t(1) << 62};
  int64_t chosen = random.pick(kSizes);
  if (int count = graph.initializer_size(); count && random.oneIn(2)) {
    onnxfile::Tensor &tensor = *graph.mutable_initializer(static_cast<int>(random.below(count)));
    if (!tensor.dims_size())
      return "";
    int at = static_cast<int>(random.below(tensor.dims_size()));
    tensor.set_dims(at, chosen);
    // Data of the new size, mostly: a tensor of another size than its data is the byte parsers' business.
    std::vector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
    int64_t elements = 1;
    for (int64_t size : shape)
      elements = size < 0 || size > 4096 || elements > 65536 ? 1 << 20 : elements * size;
    if (elements < 65536 && !random.oneIn(8)) {
      std::string name = tensor.name();
      int32_t type = tensor.data_type();
      tensor.Clear();
      tensor.set_name(name);
      fillTensor(tensor, type, shape, std::vector<double>(elements, 1));
    }
    return tensor.name() + " of size " + std::to_string(chosen) + " in dimension " + std::to_string(at);
  }
  if (!graph.input_size())
    return "";
  onnxfile::Value &value = *graph.mutable_input(static_cast<int>(random.below(graph.input_size())));
  onnxfile::Shape &shape = *value.mutable_type()->mutable_tensor()->mutable_shape();
  if (!shape.dim_size())
    return "";
  int at = static_cast<int>(random.below(shape.dim_size()));
  if (random.oneIn(6))
    shape.mutable_dim(at)->set_symbol(random.oneIn(2) ? "batch" : "other");
  else
    shape.mutable_dim(at)->set_size(chosen);
  return value.name() + " of size " + std::to_string(chosen) + " in dimension " + std::to_string(at);
}

std::string Changes::value() {
  if (!graph.initializer_size())
    return "";
  onnxfile::Tensor &tensor = *graph.mutable_initializer(static_cast<int>(random.below(graph.initializer_size())));
  if (int count = tensor.int64_data_size())
    tensor.set_int64_data(static_cast<int>(random.below(count)), random.pick(kIntegers));
  else if (int count = tensor.int32_data_size())
    tensor.set_int32_data(static_cast<int>(random.below(count)), static_cast<int32_t>(random.pick(kIntegers)));
  else if (int count = tensor.float_data_size())
    tensor.set_float_data(static_cast<int>(random.below(count)), static_cast<float>(random.pick(kReals)));
  else
    return "";
  return "other value in " + tensor.name();
}

std::string Changes::operatorSet() {
  int64_t version = random.oneIn(6) ? random.pick(kIntegers) : random.between(6, 24);
  model.mutable_opset_import(0)->set_version(version);
  return "operator set " + std::to_string(version);
}

/// A tensor's name that hyc has a use for itself, or another's.
std::string Changes::name() {
  constexpr const char *kNames[] = {
      "forward", "backward",   "reduce",   "apply", "lr",   "step",        "loss_sum",   "labels",      "begin",
      "train",   "microbatch", "evaluate", "feeds", "host", "gradients",   "parameters", "activations", "w.grad",
      "w",       "x",          "stage0",   "a/b",   "..",   "token_count", "prepare",    "constants"};
  std::string chosen = random.pick(kNames), old;
  int inputs = graph.input_size(), initializers = graph.initializer_size();
  int64_t at = random.below(inputs + initializers + graph.node_size());
  if (at < inputs)
    old = graph.input(static_cast<int>(at)).name(), graph.mutable_input(static_cast<int>(at))->set_name(chosen);
  else if (at < inputs + initializers)
    old = graph.initializer(static_cast<int>(at) - inputs).name(),
    graph.mutable_initializer(static_cast<int>(at) - inputs)->set_name(chosen);
  else
    old = graph.node(static_cast<int>(at) - inputs - initializers).output(0);
  for (onnxfile::Node &node : *graph.mutable_node()) {
    for (std::string &input : *node.mutable_input())
      input = input == old ? chosen : input;
    for (std::string &output : *node.mutable_output())
      output = output == old ? chosen : output;
  }
  return old + " called " + chosen;
}

/// What another node does, to these inputs.
std::string Changes::op() {
  onnxfile::Node &node = anyNode();
  const onnxfile::Node other = anyNode();
  if (node.op_type() == other.op_type())
    return "";
  node.set_op_type(other.op_type());
  node.set_domain(other.domain());
  return node.name() + " as " + other.op_type();
}
} // namespace

std::string hyc::fuzzing::changeOneThing(onnxfile::Model &model, Random &random) {
  return Changes(model, random).run();
}
