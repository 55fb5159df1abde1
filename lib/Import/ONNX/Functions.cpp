// Calls of local functions, replaced by what they call.
#include "Functions.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"

using namespace hyc;
using namespace hyc::onnx;
using mlir::emitError;

namespace {
constexpr int kMostNodes = 1 << 17, kDeepest = 64;
/// What the written-out nodes may take beyond this is a multiple of what the model itself takes.
constexpr size_t kMostBytes = size_t(64) << 20, kMostCopies = 4;

class Inliner {
public:
  Inliner(onnxfile::Model &model, mlir::Location loc)
      : model(model), loc(loc), bytesLeft(kMostBytes + kMostCopies * model.ByteSizeLong()) {}

  bool checkFunctions(int64_t opset);
  bool run();

private:
  using Names = llvm::StringMap<std::string>;

  const onnxfile::Function *find(const onnxfile::Node &node) const {
    auto found = functions.find(node.domain() + "\n" + node.op_type());
    return found == functions.end() ? nullptr : found->second;
  }
  /// Counts one more node, or call, and the bytes that it takes; false where there have been too many.
  bool count(const onnxfile::Node &node);
  using Nodes = google::protobuf::RepeatedPtrField<onnxfile::Node>;

  /// Puts the node, or what it calls, at the end of `into`.
  bool add(const onnxfile::Node &node, int depth, Nodes &into);
  bool expand(const onnxfile::Node &call, const onnxfile::Function &function, int depth, Nodes &into);
  /// Writes out the calls of a graph within the graph.
  bool expandGraph(onnxfile::Graph &graph, int depth);
  void substitute(onnxfile::Node &node, const onnxfile::Node &call, const onnxfile::Function &function);

  onnxfile::Model &model;
  mlir::Location loc;
  size_t bytesLeft;
  int counted = 0; // nodes and calls: one that calls nothing takes time, too
  llvm::StringMap<const onnxfile::Function *> functions;
};

/// The graphs among a node's attributes.
void forEachGraph(onnxfile::Node &node, llvm::function_ref<void(onnxfile::Graph &)> visit) {
  for (onnxfile::Attribute &attribute : *node.mutable_attribute()) {
    if (attribute.has_g())
      visit(*attribute.mutable_g());
    for (onnxfile::Graph &graph : *attribute.mutable_graphs())
      visit(graph);
  }
}

/// Every name that a node takes or gives, those of graphs within it included.
void renameAll(onnxfile::Node &node, llvm::function_ref<void(std::string &)> rename) {
  for (std::string &name : *node.mutable_input())
    rename(name);
  for (std::string &name : *node.mutable_output())
    rename(name);
  forEachGraph(node, [&](onnxfile::Graph &graph) {
    for (auto *list : {graph.mutable_input(), graph.mutable_output()})
      for (onnxfile::Value &value : *list)
        rename(*value.mutable_name());
    for (onnxfile::Tensor &tensor : *graph.mutable_initializer())
      rename(*tensor.mutable_name());
    for (onnxfile::Node &inner : *graph.mutable_node())
      renameAll(inner, rename);
  });
}

bool Inliner::checkFunctions(int64_t opset) {
  for (const onnxfile::Function &function : model.functions()) {
    functions[function.domain() + "\n" + function.name()] = &function;
    for (const onnxfile::OperatorSet &set : function.opset_import())
      if ((set.domain().empty() || set.domain() == "ai.onnx") && set.version() != opset) {
        emitError(loc) << "function \"" << function.name() << "\" uses operator set " << set.version()
                       << ", but the model uses " << opset << "; export the model again";
        return false;
      }
  }
  return true;
}

const onnxfile::Attribute *findAttribute(const google::protobuf::RepeatedPtrField<onnxfile::Attribute> &list,
                                         const std::string &name) {
  for (const onnxfile::Attribute &attribute : list)
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

/// Attributes that refer to the function's take what the call says, or the default; without either they are left out.
void Inliner::substitute(onnxfile::Node &node, const onnxfile::Node &call, const onnxfile::Function &function) {
  google::protobuf::RepeatedPtrField<onnxfile::Attribute> attributes;
  for (const onnxfile::Attribute &attribute : node.attribute()) {
    if (attribute.function_attribute().empty()) {
      *attributes.Add() = attribute;
      continue;
    }
    const onnxfile::Attribute *given = findAttribute(call.attribute(), attribute.function_attribute());
    if (!given)
      given = findAttribute(function.attribute_default(), attribute.function_attribute());
    if (!given)
      continue;
    *attributes.Add() = *given;
    attributes.rbegin()->set_name(attribute.name());
  }
  node.mutable_attribute()->Swap(&attributes);
  forEachGraph(node, [&](onnxfile::Graph &graph) {
    for (onnxfile::Node &inner : *graph.mutable_node())
      substitute(inner, call, function);
  });
}

bool Inliner::expand(const onnxfile::Node &call, const onnxfile::Function &function, int depth, Nodes &into) {
  if (depth > kDeepest) {
    emitError(loc) << "function \"" << function.name() << "\" calls itself, or functions call each other " << kDeepest
                   << " deep";
    return false;
  }
  if (call.input_size() > function.input_size() || call.output_size() > function.output_size()) {
    emitError(loc) << "node \"" << (call.name().empty() && call.output_size() ? call.output(0) : call.name())
                   << "\" calls function \"" << function.name() << "\" with " << call.input_size() << " inputs and "
                   << call.output_size() << " results, expected at most " << function.input_size() << " and "
                   << function.output_size();
    return false;
  }
  std::string prefix = (call.output_size() ? call.output(0) : call.name()) + "/";
  Names names;
  for (int i = 0; i < function.input_size(); ++i)
    names[function.input(i)] = i < call.input_size() ? call.input(i) : "";
  for (int i = 0; i < call.output_size(); ++i)
    if (!call.output(i).empty())
      names.try_emplace(function.output(i), call.output(i));
  auto rename = [&](std::string &name) {
    if (name.empty())
      return;
    auto [entry, isNew] = names.try_emplace(name, prefix + name);
    name = entry->second;
  };
  for (const onnxfile::Node &body : function.node()) {
    onnxfile::Node node = body;
    substitute(node, call, function);
    renameAll(node, rename);
    node.set_name(call.name().empty() ? body.name() : call.name() + "/" + body.name());
    if (node.metadata_size() == 0)
      *node.mutable_metadata() = call.metadata();
    if (!add(node, depth + 1, into))
      return false;
  }
  // A result that is an input: no node of the function gives it its name outside.
  for (int i = 0; i < call.output_size(); ++i)
    for (int j = 0; j < function.input_size(); ++j)
      if (function.output(i) == function.input(j) && j < call.input_size()) {
        onnxfile::Node same;
        same.set_op_type("Identity");
        same.add_input(call.input(j));
        same.add_output(call.output(i));
        if (!count(same))
          return false;
        into.Add()->Swap(&same);
      }
  return true;
}

bool Inliner::count(const onnxfile::Node &node) {
  if (counted++ >= kMostNodes) {
    emitError(loc) << "the model has more than " << kMostNodes << " nodes and calls once its functions are written out";
    return false;
  }
  size_t bytes = node.ByteSizeLong();
  if (bytes > bytesLeft) {
    emitError(loc) << "the model's nodes take more than " << (kMostBytes >> 20) << " MiB and " << kMostCopies
                   << " times its own size once its functions are written out";
    return false;
  }
  bytesLeft -= bytes;
  return true;
}

bool Inliner::add(const onnxfile::Node &node, int depth, Nodes &into) {
  if (!count(node))
    return false;
  if (const onnxfile::Function *function = find(node))
    return expand(node, *function, depth, into);
  onnxfile::Node &added = *into.Add();
  added = node;
  bool isGood = true;
  forEachGraph(added, [&](onnxfile::Graph &graph) { isGood = isGood && expandGraph(graph, depth); });
  return isGood;
}

bool Inliner::expandGraph(onnxfile::Graph &graph, int depth) {
  Nodes nodes;
  for (const onnxfile::Node &node : graph.node())
    if (!add(node, depth, nodes))
      return false;
  graph.mutable_node()->Swap(&nodes);
  return true;
}

bool Inliner::run() { return expandGraph(*model.mutable_graph(), 0); }
} // namespace

bool hyc::onnx::inlineFunctions(onnxfile::Model &model, mlir::Location loc, int64_t opset) {
  if (model.functions_size() == 0)
    return true;
  Inliner inliner(model, loc);
  return inliner.checkFunctions(opset) && inliner.run();
}
