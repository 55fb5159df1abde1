// All that can be wrong with a graph's names and operators, reported together before anything is imported.
#include "Importer.h"
#include "llvm/ADT/MapVector.h"
#include <queue>

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::StringRef;

/// The nodes of a graph, and of graphs within it.
static void forEachNode(const onnxfile::Graph &graph, llvm::function_ref<void(const onnxfile::Node &)> visit) {
  for (const onnxfile::Node &node : graph.node()) {
    visit(node);
    for (const onnxfile::Attribute &attribute : node.attribute()) {
      if (attribute.has_g())
        forEachNode(attribute.g(), visit);
      for (const onnxfile::Graph &inner : attribute.graphs())
        forEachNode(inner, visit);
    }
  }
}

/// One error an operator, with all of its nodes.
static LogicalResult checkOperators(const OnnxFile &file) {
  llvm::MapVector<StringRef, std::string> unknown;
  llvm::StringMap<std::string> storage;
  forEachNode(file.getGraph(), [&](const onnxfile::Node &node) {
    if (findOperator(node))
      return;
    std::string name = node.domain().empty() ? node.op_type() : node.domain() + "::" + node.op_type();
    std::string &nodes = unknown[storage.try_emplace(name).first->getKey()];
    nodes += (nodes.empty() ? "" : ", ") + nameForMessages(node);
  });
  for (auto &[name, nodes] : unknown)
    emitError(file.getLoc()) << "operator \"" << name << "\" is not known to hyc; used by " << nodes;
  return success(unknown.empty());
}

namespace {
/// Which node defines each name; -1 for inputs and initializers.
struct Definitions {
  llvm::StringMap<int> by;
  bool good = true;
};
} // namespace

static Definitions collectDefinitions(const OnnxFile &file) {
  const onnxfile::Graph &graph = file.getGraph();
  Definitions definitions;
  auto fail = [&](StringRef name, const std::string &what) {
    definitions.good = false;
    emitError(file.getLoc()) << "the name \"" << name << "\" is defined twice, the second time by " << what;
  };
  for (const onnxfile::Value &input : graph.input())
    if (!definitions.by.try_emplace(input.name(), -1).second)
      fail(input.name(), "an input");
  // An initializer may give an input its default; two initializers may not share a name.
  llvm::StringSet<> initializers;
  for (const onnxfile::Tensor &tensor : graph.initializer()) {
    if (!initializers.insert(tensor.name()).second)
      fail(tensor.name(), "an initializer");
    definitions.by.try_emplace(tensor.name(), -1);
  }
  for (int i = 0; i < graph.node_size(); ++i)
    for (const std::string &output : graph.node(i).output())
      if (!output.empty() && !definitions.by.try_emplace(output, i).second)
        fail(output, describe(graph.node(i)));
  return definitions;
}

/// Orders the nodes, the smallest index first among those that are ready.
static LogicalResult sortNodes(const OnnxFile &file, const llvm::StringMap<int> &definedBy,
                               llvm::SmallVectorImpl<int> &order) {
  const onnxfile::Graph &graph = file.getGraph();
  llvm::SmallVector<llvm::SmallVector<int, 2>, 0> users(graph.node_size());
  llvm::SmallVector<int, 0> waitingFor(graph.node_size(), 0);
  auto forEachMaker = [&](int node, auto visit) {
    forEachUse(graph.node(node), [&](const std::string &name) {
      if (auto found = definedBy.find(name); !name.empty() && found != definedBy.end() && found->second >= 0)
        visit(found->second);
    });
  };
  for (int i = 0; i < graph.node_size(); ++i)
    forEachMaker(i, [&](int maker) {
      users[maker].push_back(i);
      ++waitingFor[i];
    });
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (int i = 0; i < graph.node_size(); ++i)
    if (waitingFor[i] == 0)
      ready.push(i);
  while (!ready.empty()) {
    int node = ready.top();
    ready.pop();
    order.push_back(node);
    for (int user : users[node])
      if (--waitingFor[user] == 0)
        ready.push(user);
  }
  if (static_cast<int>(order.size()) == graph.node_size())
    return success();
  // What only comes after the cycle is left over too: take away, from the end, what nobody left waits for.
  llvm::SmallVector<int, 0> usersLeft(graph.node_size(), 0);
  for (int i = 0; i < graph.node_size(); ++i)
    usersLeft[i] = llvm::count_if(users[i], [&](int user) { return waitingFor[user] > 0; });
  llvm::SmallVector<int> leaves;
  for (int i = 0; i < graph.node_size(); ++i)
    if (waitingFor[i] > 0 && usersLeft[i] == 0)
      leaves.push_back(i);
  while (!leaves.empty()) {
    int leaf = leaves.pop_back_val();
    waitingFor[leaf] = 0;
    forEachMaker(leaf, [&](int maker) {
      if (--usersLeft[maker] == 0 && waitingFor[maker] > 0)
        leaves.push_back(maker);
    });
  }
  std::string cycle;
  for (int i = 0; i < graph.node_size(); ++i)
    if (waitingFor[i] > 0)
      cycle += (cycle.empty() ? "" : ", ") + describe(graph.node(i));
  return emitError(file.getLoc()) << "the graph has a cycle among " << cycle;
}

/// An attribute that is given twice has no one value.
static LogicalResult checkAttributes(const OnnxFile &file) {
  bool good = true;
  forEachNode(file.getGraph(), [&](const onnxfile::Node &node) {
    llvm::StringSet<> names;
    for (const onnxfile::Attribute &attribute : node.attribute())
      if (!names.insert(attribute.name()).second) {
        good = false;
        emitError(file.getLoc()) << describe(node) << " has the attribute '" << attribute.name()
                                 << "' twice, expected once";
      }
  });
  return success(good);
}

LogicalResult hyc::onnx::checkGraph(const OnnxFile &file, llvm::SmallVectorImpl<int> &order) {
  const onnxfile::Graph &graph = file.getGraph();
  bool good = succeeded(checkOperators(file));
  Definitions definitions = collectDefinitions(file);
  good &= definitions.good;
  good &= succeeded(checkAttributes(file));
  llvm::StringSet<> reported;
  auto checkUse = [&](const std::string &name, const std::string &user) {
    if (name.empty() || definitions.by.count(name) || !reported.insert(name).second)
      return;
    good = false;
    emitError(file.getLoc()) << "the name \"" << name << "\" is used by " << user << ", but nothing defines it";
  };
  for (const onnxfile::Node &node : graph.node())
    forEachUse(node, [&](const std::string &name) { checkUse(name, describe(node)); });
  for (auto [index, output] : llvm::enumerate(graph.output())) {
    checkUse(output.name(), "the graph's outputs");
    if (output.name().empty()) {
      good = false;
      emitError(file.getLoc()) << "output " << index << " of the graph has no name";
    }
  }
  if (graph.output_size() == 0) {
    good = false;
    emitError(file.getLoc()) << "the graph has no outputs";
  }
  return success(succeeded(sortNodes(file, definitions.by, order)) && good);
}
