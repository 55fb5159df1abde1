// Edits of a model, one function a kind; each gives models that are smaller.
#include "ModelEdits.h"

#include "ModelParts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <set>

using namespace hyc;
using namespace hyc::fuzzing;
using onnxfile::Graph;
using onnxfile::Model;
using onnxfile::Node;

using Specimens = std::vector<Specimen>;

//===----------------------------------------------------------------------===//
// Flags and nodes
//===----------------------------------------------------------------------===//

/// How far a compilation goes is no part of what it is of.
static Specimens withoutFlags(const Specimen &whole) {
  Specimens smaller;
  for (auto [begin, end] : rangesOf(whole.flags.size())) {
    Specimen next{whole.model, {}};
    for (size_t i = 0; i < whole.flags.size(); ++i)
      if (i < begin || i >= end || whole.flags[i].rfind("--emit=", 0) == 0)
        next.flags.push_back(whole.flags[i]);
    if (next.flags.size() < whole.flags.size())
      smaller.push_back(std::move(next));
  }
  return smaller;
}

/// Drops nodes whose results nothing takes, then tensors.
static void dropUnused(Graph &graph) {
  std::set<std::string> used;
  for (const auto &output : graph.output())
    used.insert(output.name());
  auto isUsed = [&](const std::string &name) { return used.count(name) != 0; };
  for (int i = graph.node_size() - 1; i >= 0; --i) {
    const Node &node = graph.node(i);
    if (llvm::none_of(node.output(), isUsed)) {
      graph.mutable_node()->DeleteSubrange(i, 1);
      continue;
    }
    used.insert(node.input().begin(), node.input().end());
  }
  auto drop = [&](auto &list) {
    for (int i = list.size() - 1; i >= 0; --i)
      if (!isUsed(list.Get(i).name()))
        list.DeleteSubrange(i, 1);
  };
  drop(*graph.mutable_initializer());
  drop(*graph.mutable_input());
}

static Specimens withoutUnused(const Specimen &whole) {
  Specimen next = whole;
  Graph &graph = *next.model.mutable_graph();
  dropUnused(graph);
  graph.clear_value_info();
  next.model.clear_functions();
  if (next.model.ByteSizeLong() < whole.model.ByteSizeLong())
    return {next};
  return {};
}

/// The model ends with an earlier node's result; the loss goes with it.
static Specimens endingEarlier(const Specimen &whole) {
  Specimens smaller;
  const Graph &graph = whole.model.graph();
  for (int last = 0; last < graph.node_size(); ++last) {
    const std::string &name = graph.node(last).output_size() ? graph.node(last).output(0) : "";
    bool isLast = last + 1 == graph.node_size() && graph.output_size() == 1 && graph.output(0).name() == name;
    if (name.empty() || isLast)
      continue;
    Specimen next = whole;
    Graph &cut = *next.model.mutable_graph();
    cut.mutable_node()->DeleteSubrange(last + 1, graph.node_size() - last - 1);
    cut.clear_output();
    cut.add_output()->set_name(name);
    dropUnused(cut);
    auto loss = llvm::find_if(next.flags, [](const std::string &flag) { return flag.rfind("--loss=", 0) == 0; });
    if (loss != next.flags.end())
      for (const std::string &ending : {name, std::string("mse")}) {
        *loss = "--loss=" + ending;
        smaller.push_back(next);
      }
    else
      smaller.push_back(std::move(next));
  }
  return smaller;
}

static void rename(Graph &graph, const std::string &from, const std::string &to) {
  for (Node &node : *graph.mutable_node())
    for (std::string &input : *node.mutable_input())
      input = input == from ? to : input;
  for (auto &output : *graph.mutable_output())
    if (output.name() == from)
      output.set_name(to);
}

/// Ones: they are in the range of most operands.
static void addOnes(Graph &graph, const std::string &name, const TensorFacts &facts) {
  int64_t count = 1;
  for (int64_t size : facts.shape)
    count *= size;
  if (count <= 1 << 16)
    addTensor(graph, name, facts.type, facts.shape, std::vector<double>(count, 1));
}

namespace {
class NodeEdits {
public:
  NodeEdits(const Specimen &whole, const Facts &facts) : whole(whole), facts(facts) {
    for (const auto &tensor : whole.model.graph().initializer())
      this->facts[tensor.name()] = {tensor.data_type(), {tensor.dims().begin(), tensor.dims().end()}};
    for (const auto &input : whole.model.graph().input()) {
      TensorFacts &known = this->facts[input.name()];
      known.type = input.type().tensor().element_type();
      for (const auto &dim : input.type().tensor().shape().dim())
        known.shape.push_back(dim.size());
    }
  }

  Specimens run() {
    for (int i = whole.model.graph().node_size() - 1; i >= 0; --i)
      leaveOut(i);
    return std::move(smaller);
  }

private:
  using Replace = llvm::function_ref<void(Graph &, const std::string &)>;

  /// Without node `i`, each of whose results `replace` makes or renames.
  void add(int i, Replace replace) {
    Specimen next = whole;
    Graph &graph = *next.model.mutable_graph();
    const Node node = graph.node(i);
    graph.mutable_node()->DeleteSubrange(i, 1);
    for (const std::string &output : node.output())
      if (!output.empty())
        replace(graph, output);
    dropUnused(graph);
    if (graph.node_size())
      smaller.push_back(std::move(next));
  }

  void leaveOut(int i) {
    const Node node = whole.model.graph().node(i);
    bool isKnown = llvm::all_of(node.output(), [&](const std::string &name) { return facts.count(name); });
    for (const std::string &input : node.input()) {
      bool isLike = isKnown && node.output_size() && facts.count(input) &&
                    facts[input].type == facts[node.output(0)].type &&
                    facts[input].shape.size() == facts[node.output(0)].shape.size();
      if (isLike || (!isKnown && !input.empty()))
        add(i, [&](Graph &graph, const std::string &output) { rename(graph, output, input); });
    }
    if (!isKnown)
      return;
    add(i, [&](Graph &graph, const std::string &output) {
      addInput(graph, output, facts[output].type, facts[output].shape);
    });
    add(i, [&](Graph &graph, const std::string &output) { addOnes(graph, output, facts[output]); });
  }

  const Specimen &whole;
  Facts facts;
  Specimens smaller;
};
} // namespace

//===----------------------------------------------------------------------===//
// Attributes and operands
//===----------------------------------------------------------------------===//

static Specimens withoutAttributes(const Specimen &whole) {
  Specimens smaller;
  for (int i = 0; i < whole.model.graph().node_size(); ++i)
    for (auto [begin, end] : rangesOf(whole.model.graph().node(i).attribute_size())) {
      Specimen next = whole;
      next.model.mutable_graph()->mutable_node(i)->mutable_attribute()->DeleteSubrange(static_cast<int>(begin),
                                                                                       static_cast<int>(end - begin));
      smaller.push_back(std::move(next));
    }
  return smaller;
}

/// Inputs that are left out, and results that nothing takes.
static Specimens withoutOperands(const Specimen &whole) {
  Specimens smaller;
  for (int i = 0; i < whole.model.graph().node_size(); ++i) {
    const Node &node = whole.model.graph().node(i);
    for (int at = node.input_size() - 1; at >= 0; --at) {
      Specimen next = whole;
      auto &inputs = *next.model.mutable_graph()->mutable_node(i)->mutable_input();
      if (at + 1 == node.input_size())
        inputs.RemoveLast();
      else if (!node.input(at).empty())
        inputs[at].clear();
      else
        continue;
      dropUnused(*next.model.mutable_graph());
      smaller.push_back(std::move(next));
    }
    if (node.output_size() > 1) {
      Specimen next = whole;
      next.model.mutable_graph()->mutable_node(i)->mutable_output()->RemoveLast();
      smaller.push_back(std::move(next));
    }
  }
  return smaller;
}

//===----------------------------------------------------------------------===//
// Sizes, ranks and values
//===----------------------------------------------------------------------===//

/// The tensor under another shape, with as many of its values.
static void reshape(onnxfile::Tensor &tensor, const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count = size < 0 || count > 1 << 20 ? 1 << 21 : count * size;
  if (count > 1 << 20)
    return;
  std::vector<double> values;
  values.insert(values.end(), tensor.float_data().begin(), tensor.float_data().end());
  values.insert(values.end(), tensor.double_data().begin(), tensor.double_data().end());
  values.insert(values.end(), tensor.int32_data().begin(), tensor.int32_data().end());
  values.insert(values.end(), tensor.int64_data().begin(), tensor.int64_data().end());
  values.resize(count, values.empty() ? 1 : values.back());
  std::string name = tensor.name();
  int32_t type = tensor.data_type();
  tensor.Clear();
  tensor.set_name(name);
  fillTensor(tensor, type, shape, values);
}

/// The shapes of inputs and initializers, as `change` leaves them.
static void changeShapes(Graph &graph, llvm::function_ref<void(std::vector<int64_t> &, const std::string &)> change) {
  for (auto &tensor : *graph.mutable_initializer()) {
    std::vector<int64_t> shape(tensor.dims().begin(), tensor.dims().end()), before = shape;
    change(shape, tensor.name());
    if (shape != before)
      reshape(tensor, shape);
  }
  for (auto &input : *graph.mutable_input()) {
    auto &dims = *input.mutable_type()->mutable_tensor()->mutable_shape()->mutable_dim();
    std::vector<int64_t> shape, before;
    for (const auto &dim : dims)
      shape.push_back(dim.has_symbol() ? -1 : dim.size());
    before = shape;
    change(shape, input.name());
    if (shape == before)
      continue;
    dims.Clear();
    for (int64_t size : shape)
      dims.Add()->set_size(size);
  }
}

/// Numbers in attributes and initializers that say sizes, too.
static void changeNumbers(Graph &graph, int64_t from, int64_t to) {
  for (Node &node : *graph.mutable_node())
    for (auto &attribute : *node.mutable_attribute()) {
      std::replace(attribute.mutable_ints()->begin(), attribute.mutable_ints()->end(), from, to);
      if (attribute.has_i() && attribute.i() == from)
        attribute.set_i(to);
    }
  for (auto &tensor : *graph.mutable_initializer())
    std::replace(tensor.mutable_int64_data()->begin(), tensor.mutable_int64_data()->end(), from, to);
}

/// One size everywhere, with and without the numbers that name it; then in one tensor alone.
static Specimens withSmallerSizes(const Specimen &whole) {
  std::set<int64_t, std::greater<>> sizes;
  Graph look = whole.model.graph();
  changeShapes(look,
               [&](std::vector<int64_t> &shape, const std::string &) { sizes.insert(shape.begin(), shape.end()); });
  Specimens smaller;
  auto add = [&](int64_t from, int64_t to, const std::string &only, bool isInNumbers) {
    Specimen next = whole;
    Graph &graph = *next.model.mutable_graph();
    changeShapes(graph, [&](std::vector<int64_t> &shape, const std::string &name) {
      if (only.empty() || only == name)
        std::replace(shape.begin(), shape.end(), from, to);
    });
    if (isInNumbers)
      changeNumbers(graph, from, to);
    if (next.model.SerializeAsString() != whole.model.SerializeAsString())
      smaller.push_back(std::move(next));
  };
  for (int64_t size : sizes)
    for (int64_t to : {int64_t(1), int64_t(2), size / 2}) {
      if (to < 1 || to >= size)
        continue;
      add(size, to, "", false);
      add(size, to, "", true);
      changeShapes(look, [&](std::vector<int64_t> &shape, const std::string &name) {
        if (llvm::is_contained(shape, size))
          add(size, to, name, false);
      });
    }
  return smaller;
}

/// Without the dimension at a place, from the first or the last, of all tensors or of one.
static Specimens withLowerRanks(const Specimen &whole) {
  Specimens smaller;
  auto add = [&](size_t place, bool isFromLast, const std::string &only) {
    Specimen next = whole;
    bool isChanged = false;
    changeShapes(*next.model.mutable_graph(), [&](std::vector<int64_t> &shape, const std::string &name) {
      if (place >= shape.size() || (!only.empty() && only != name))
        return;
      shape.erase(isFromLast ? shape.end() - 1 - static_cast<ptrdiff_t>(place)
                             : shape.begin() + static_cast<ptrdiff_t>(place));
      isChanged = true;
    });
    if (isChanged)
      smaller.push_back(std::move(next));
  };
  for (size_t place = 0; place < 4; ++place)
    for (bool isFromLast : {true, false})
      add(place, isFromLast, "");
  Graph look = whole.model.graph();
  changeShapes(look, [&](std::vector<int64_t> &shape, const std::string &name) {
    for (size_t place = 0; place < shape.size(); ++place)
      add(place, false, name);
  });
  return smaller;
}

/// Sizes in the place of symbols, and ones in that of other real numbers.
static Specimens withPlainValues(const Specimen &whole) {
  Specimens smaller;
  Specimen fixed = whole;
  bool hasSymbol = false;
  for (auto &input : *fixed.model.mutable_graph()->mutable_input())
    for (auto &dim : *input.mutable_type()->mutable_tensor()->mutable_shape()->mutable_dim())
      if (dim.has_symbol()) {
        dim.clear_symbol();
        dim.set_size(4);
        hasSymbol = true;
      }
  if (hasSymbol)
    smaller.push_back(std::move(fixed));
  for (int i = 0; i < whole.model.graph().initializer_size(); ++i) {
    const auto &data = whole.model.graph().initializer(i).float_data();
    if (llvm::all_of(data, [](float value) { return value == 1; }))
      continue;
    Specimen next = whole;
    auto &values = *next.model.mutable_graph()->mutable_initializer(i)->mutable_float_data();
    std::fill(values.begin(), values.end(), 1.0f);
    smaller.push_back(std::move(next));
  }
  return smaller;
}

std::vector<Edits<Specimen>> hyc::fuzzing::specimenEdits(std::function<Facts(const Model &)> lookAt) {
  auto withoutNodes = [lookAt](const Specimen &whole) { return NodeEdits(whole, lookAt(whole.model)).run(); };
  // What takes most away first.
  return {endingEarlier,   withoutFlags,     withoutNodes,   withoutUnused,  withoutAttributes,
          withoutOperands, withSmallerSizes, withLowerRanks, withPlainValues};
}
