// Drawing one node.
#include "NodeDraft.h"

#include "ModelParts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <numeric>

using namespace hyc;
using namespace hyc::fuzzing;
using llvm::SmallVector;
using llvm::StringRef;

static int64_t countOf(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

std::string NodeDraft::nameNew(const onnxfile::Graph &graph) const {
  return "t" + std::to_string(graph.input_size() + graph.initializer_size() + graph.node_size());
}

/// n is the samples where nothing else binds it.
int64_t NodeDraft::sizeOf(char letter) {
  auto [entry, isNew] = sizes.try_emplace(letter, 0);
  if (isNew)
    entry->second = letter == 'n' ? batch : random.pick(std::initializer_list<int64_t>{1, 2, 2, 3, 4});
  return entry->second;
}

std::vector<int64_t> NodeDraft::broadcastTo(std::vector<int64_t> shape) {
  if (random.oneIn(3))
    return shape;
  shape.erase(shape.begin(), shape.begin() + random.below(static_cast<int64_t>(shape.size()) + 1));
  for (int64_t &size : shape)
    if (random.oneIn(4))
      size = 1;
  return shape;
}

std::vector<int64_t> NodeDraft::chooseShape(const OperandRecipe &operand) {
  std::vector<int64_t> shape;
  for (const OperandRecipe::Size &size : operand.shape)
    if (size.letter == '*' || size.letter == '~') {
      if (!star) {
        star.emplace();
        if (operand.shape.size() == 1)
          star->push_back(batch);
        for (int64_t rank = random.below(operand.shape.size() == 1 ? 4 : 3); rank > 0; --rank)
          star->push_back(random.pick(std::initializer_list<int64_t>{1, 2, 3, 4}));
      }
      std::vector<int64_t> chosen = size.letter == '*' ? *star : broadcastTo(*star);
      shape.insert(shape.end(), chosen.begin(), chosen.end());
    } else {
      shape.push_back(size.letter ? size.number * sizeOf(size.letter) : size.number);
    }
  return shape;
}

/// Whether `shape` is one that the operand may have beside what is bound; binds what it says.
bool NodeDraft::unify(const OperandRecipe &operand, const std::vector<int64_t> &shape) {
  auto bound = sizes;
  auto row = star;
  size_t at = 0;
  for (const OperandRecipe::Size &size : operand.shape) {
    if (size.letter == '*' || size.letter == '~') {
      std::vector<int64_t> rest(shape.begin() + std::min(at, shape.size()), shape.end());
      if (size.letter == '~' ? !row || *row != rest : row && *row != rest)
        return false;
      row = rest;
      at = shape.size();
      continue;
    }
    if (at >= shape.size() || (size.letter && shape[at] % size.number != 0))
      return false;
    int64_t value = size.letter ? shape[at] / size.number : shape[at];
    if (size.letter ? bound.try_emplace(size.letter, value).first->second != value : size.number != value)
      return false;
    ++at;
  }
  if (at != shape.size())
    return false;
  sizes = bound, star = row;
  return true;
}

std::optional<std::string> NodeDraft::takeExisting(const OperandRecipe &operand) {
  if (operand.isConstant || !operand.values.empty() || random.oneIn(6))
    return std::nullopt;
  for (const DraftValue &value : llvm::reverse(values))
    if (value.type == typeOfLetter(operand.elements) && !random.oneIn(4) && unify(operand, value.shape)) {
      if (first.empty())
        first = value.shape;
      return value.name;
    }
  return std::nullopt;
}

int64_t NodeDraft::evaluate(StringRef text) const {
  bool isNegative = text.consume_front("-");
  int64_t value = 0;
  if (text.consume_front("r")) {
    int64_t more = 0;
    if (!text.empty() && text.getAsInteger(10, more))
      more = 0;
    int64_t tensorRank = static_cast<int64_t>(first.size());
    return isNegative ? -tensorRank + more : tensorRank + more;
  }
  text.getAsInteger(10, value);
  return isNegative ? -value : value;
}

double NodeDraft::number(const std::string &range) {
  auto [low, high] = StringRef(range).split("..");
  return static_cast<double>(random.between(evaluate(low), evaluate(high)));
}

/// Sizes of as many elements: dimensions joined, cut or turned, one of them perhaps -1 or 0.
std::vector<double> NodeDraft::reshapeValues() {
  std::vector<int64_t> shape = first;
  if (shape.size() > 1 && random.oneIn(2)) {
    size_t at = random.below(static_cast<int64_t>(shape.size()) - 1);
    shape[at] *= shape[at + 1];
    shape.erase(shape.begin() + at + 1);
  }
  if (!shape.empty() && random.oneIn(2)) {
    size_t at = random.below(static_cast<int64_t>(shape.size()));
    if (shape[at] % 2 == 0)
      shape[at] /= 2, shape.insert(shape.begin() + at + random.below(2), 2);
    else
      shape.insert(shape.begin() + at, 1);
  }
  std::vector<double> result(shape.begin(), shape.end());
  if (!result.empty() && random.oneIn(2))
    result[random.below(static_cast<int64_t>(result.size()))] = -1;
  return result;
}

std::vector<double> NodeDraft::deriveValues(const std::string &rule, std::vector<int64_t> &shape) {
  std::vector<double> result(first.begin(), first.end());
  if (rule == "shape")
    result = reshapeValues();
  else if (rule == "repeats")
    for (double &value : result)
      value = static_cast<double>(random.between(1, 2));
  else if (rule == "broadcast") {
    for (double &value : result)
      value = value == 1 ? static_cast<double>(random.between(1, 3)) : value;
    if (random.oneIn(3))
      result.insert(result.begin(), 2);
  } else if (rule == "axes")
    result = {0, 1};
  else if (rule == "pads") {
    result.resize(2 * first.size());
    for (double &value : result)
      value = static_cast<double>(random.between(-1, 2));
  } else if (rule == "parts")
    result = {static_cast<double>(first[0] / 2), static_cast<double>(first[0] - first[0] / 2)};
  else if (rule == "share")
    return {random.pick(std::initializer_list<double>{0, 0.25, 0.5})};
  else if (rule == "scales")
    result = {1, 1, random.pick(std::initializer_list<double>{1, 2, 1.5, 0.5}), 2};
  else if (rule == "sizes")
    for (size_t dim = 2; dim < result.size(); ++dim)
      result[dim] = static_cast<double>(random.between(1, 6));
  shape = {static_cast<int64_t>(result.size())};
  return result;
}

std::vector<double> NodeDraft::chooseValues(const OperandRecipe &operand, std::vector<int64_t> &shape) {
  if (!operand.values.empty() && !StringRef(operand.values).contains(".."))
    return deriveValues(operand.values, shape);
  std::vector<double> result;
  for (int64_t count = countOf(shape); count > 0; --count)
    result.push_back(!operand.values.empty()   ? number(operand.values)
                     : operand.elements == 'f' ? 0.25 * static_cast<double>(random.between(-6, 6)) + 0.0625
                     : operand.elements == 'b' ? static_cast<double>(random.below(2))
                                               : static_cast<double>(random.between(0, 3)));
  return result;
}

std::string NodeDraft::makeOperand(onnxfile::Graph &graph, const OperandRecipe &operand) {
  std::string name = nameNew(graph);
  std::vector<int64_t> shape = chooseShape(operand);
  if (first.empty())
    first = shape;
  int32_t type = typeOfLetter(operand.elements);
  bool couldBeData = !operand.isConstant && !shape.empty() && shape.front() == batch &&
                     (type == kF32 || type == kI64) && (operand.elements == 'f' || !operand.values.empty());
  if (couldBeData && !random.oneIn(3)) {
    addInput(graph, name, type, shape, random.oneIn(3) ? "batch" : "");
    return name;
  }
  std::vector<double> content = chooseValues(operand, shape);
  if (operand.isConstant && (type == kF32 || random.oneIn(4))) // initializers of real numbers are parameters
    fillTensor(*addAttribute(addNode(graph, "Constant", {}, {name}), "value", 4).mutable_t(), type, shape, content);
  else
    addTensor(graph, name, type, shape, content);
  return name;
}

/// The list of tensors that the last node gives becomes one of them.
static void takeOfList(onnxfile::Graph &graph) {
  std::string list = graph.node().rbegin()->output(0);
  addTensor(graph, list + "_at", kI64, {}, {0});
  addNode(graph, "SequenceAt", {list, list + "_at"}, {list + "_0"});
}

void NodeDraft::setAttribute(onnxfile::Node &node, const AttributeRecipe &attribute) {
  SmallVector<StringRef> words;
  StringRef(attribute.values).split(words, ',', -1, false);
  auto integer = [&] {
    StringRef word = random.pick(words);
    return word.contains("..") ? static_cast<int64_t>(number(word.str())) : evaluate(word);
  };
  auto real = [&] { return static_cast<float>(random.pick(std::initializer_list<double>{0.5, 1, 0.25, 1.5, 0.01})); };
  if (attribute.kind == 'i')
    addAttribute(node, attribute.name, 2).set_i(integer());
  else if (attribute.kind == 'f')
    addAttribute(node, attribute.name, 1).set_f(real());
  else if (attribute.kind == 's')
    addAttribute(node, attribute.name, 3).set_s(random.pick(words).str());
  else if (attribute.kind == 't')
    fillTensor(*addAttribute(node, attribute.name, 4).mutable_t(), kF32, {1}, {1.5});
  else if (attribute.kind == 'I') {
    onnxfile::Attribute &list = addAttribute(node, attribute.name, 7);
    for (int64_t count = evaluate(attribute.count); count > 0; --count)
      list.add_ints(integer());
  } else if (attribute.kind == 'F') {
    onnxfile::Attribute &list = addAttribute(node, attribute.name, 6);
    for (int64_t count = evaluate(attribute.values); count > 0; --count)
      list.add_floats(real());
  } else if (attribute.kind == 'P') {
    std::vector<int64_t> order(first.size());
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[random.below(static_cast<int64_t>(i))]);
    addAttribute(node, attribute.name, 7).mutable_ints()->Add(order.begin(), order.end());
  }
}

void NodeDraft::addTo(onnxfile::Graph &graph) {
  std::vector<std::string> inputs;
  for (const OperandRecipe &operand : recipe.operands) {
    if (operand.isOptional && random.oneIn(3)) {
      inputs.push_back("");
      continue;
    }
    for (int64_t copies = operand.repeats ? random.between(1, 3) : 1; copies > 0; --copies) {
      std::optional<std::string> existing = takeExisting(operand);
      inputs.push_back(existing ? *existing : makeOperand(graph, operand));
    }
  }
  while (!inputs.empty() && inputs.back().empty() && !random.oneIn(4))
    inputs.pop_back();
  std::string name = "v" + std::to_string(graph.node_size());
  std::vector<std::string> outputs{name};
  for (int i = 1; i < recipe.outputs && random.oneIn(2); ++i)
    outputs.push_back(name + "_" + std::to_string(i));
  onnxfile::Node &node = addNode(graph, recipe.op, inputs, outputs);
  for (const AttributeRecipe &attribute : recipe.attributes)
    if (attribute.isRequired || random.oneIn(2))
      setAttribute(node, attribute);
  if (recipe.op == "SplitToSequence")
    takeOfList(graph);
}
