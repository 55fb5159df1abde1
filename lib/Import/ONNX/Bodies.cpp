// Graphs within the graph: what they take from around them, and how they are imported in the place of the node that has
// them. A loop's body is imported once for each step.
#include "Importer.h"

#include "llvm/ADT/StringSet.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;

/// Nodes that bodies may become, all steps of all loops together.
static constexpr int64_t kMostBodyNodes = int64_t(1) << 17;

static void forEachFreeName(const onnxfile::Graph &body, llvm::function_ref<void(const std::string &)> visit) {
  llvm::StringSet<> own;
  for (const onnxfile::Value &input : body.input())
    own.insert(input.name());
  for (const onnxfile::Tensor &tensor : body.initializer())
    own.insert(tensor.name());
  auto use = [&](const std::string &name) {
    if (!name.empty() && !own.contains(name))
      visit(name);
  };
  for (const onnxfile::Node &node : body.node()) {
    forEachUse(node, use);
    for (const std::string &output : node.output())
      own.insert(output);
  }
  for (const onnxfile::Value &output : body.output())
    use(output.name());
}

void hyc::onnx::forEachUse(const onnxfile::Node &node, llvm::function_ref<void(const std::string &)> visit) {
  for (const std::string &input : node.input())
    visit(input);
  for (const onnxfile::Attribute &attribute : node.attribute()) {
    if (attribute.has_g())
      forEachFreeName(attribute.g(), visit);
    for (const onnxfile::Graph &graph : attribute.graphs())
      forEachFreeName(graph, visit);
  }
}

namespace {
/// Names that a body gives values to, and what they were before it.
class Scope {
public:
  explicit Scope(Importer &importer) : importer(importer) {}
  ~Scope() {
    for (auto &[name, binding] : before) {
      importer.forget(name);
      if (binding)
        importer.bind(name, std::move(*binding));
    }
  }

  void hide(const std::string &name) {
    if (name.empty() || !hidden.insert(name).second)
      return;
    Binding *known = importer.lookup(name);
    before.push_back({name, known ? std::optional(*known) : std::nullopt});
  }

private:
  Importer &importer;
  llvm::StringSet<> hidden;
  std::vector<std::pair<std::string, std::optional<Binding>>> before;
};
} // namespace

LogicalResult Importer::importBody(const onnxfile::Graph &body, llvm::ArrayRef<Binding> inputs,
                                   std::vector<Binding> &outputs) {
  if (static_cast<int>(inputs.size()) != body.input_size())
    return emitError(currentLoc) << "a graph within the graph is given " << inputs.size() << " values, expected its "
                                 << body.input_size() << " inputs";
  bodyNodes += body.node_size() + 1;
  if (bodyNodes > kMostBodyNodes)
    return emitError(currentLoc) << "the steps of loops become more than " << kMostBodyNodes
                                 << " nodes, which hyc writes out one after another; make the loops shorter";
  Scope scope(*this);
  const Location outerLoc = currentLoc;
  const std::string outerScope = currentScope;
  for (auto [input, value] : llvm::zip_equal(body.input(), inputs)) {
    scope.hide(input.name());
    bind(input.name(), value);
  }
  for (const onnxfile::Tensor &tensor : body.initializer()) {
    std::optional<HostTensor> values = file.readTensor(tensor);
    if (!values)
      return emitError(currentLoc) << "tensor \"" << tensor.name() << "\" of a graph within the graph cannot be read";
    scope.hide(tensor.name());
    bind(tensor.name(), ofConstant(*values));
  }
  for (const onnxfile::Node &node : body.node()) {
    for (const std::string &output : node.output())
      scope.hide(output);
    if (failed(importNode(node)))
      return failure();
  }
  currentLoc = outerLoc;
  currentScope = outerScope;
  outputs.clear();
  for (const onnxfile::Value &output : body.output()) {
    Binding *made = lookup(output.name());
    if (!made)
      return emitError(currentLoc) << "a graph within the graph gives \"" << output.name() << "\", which nothing makes";
    outputs.push_back(*made);
  }
  return success();
}
