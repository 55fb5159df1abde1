// Optimizer steps as graphs have them (domain ai.onnx.preview.training), written out.
#include "Expansion.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;

namespace {
/// Tensors come in groups: all parameters, then all gradients, then the states, each of as many.
struct Groups {
  int count;
  Binding of(NodeImport &node, int group, int index) const { return node.input(2 + group * count + index); }
};

std::optional<Groups> getGroups(NodeImport &node, int kinds) {
  int tensors = node.inputCount() - 2;
  if (tensors > 0 && tensors % kinds == 0)
    return Groups{tensors / kinds};
  node.error() << "has " << tensors << " tensors, expected a multiple of " << kinds;
  return std::nullopt;
}

/// The gradient with L2 decay.
Binding decayed(Expansion &e, NodeImport &node, const Binding &x, const Binding &gradient) {
  return e.add(e.mul(e.number(x, node.getFloat("norm_coefficient", 0)), x), gradient);
}

LogicalResult importMomentum(NodeImport &node) {
  Expansion e(node);
  std::optional<Groups> groups = getGroups(node, 3);
  if (!groups)
    return failure();
  std::string mode = node.getString("mode", "standard");
  if (mode != "standard" && mode != "nesterov")
    return node.error() << "has the mode '" << mode << "', expected standard or nesterov";
  double alpha = node.getFloat("alpha", 0), beta = node.getFloat("beta", 0);
  std::vector<Binding> parameters, momenta;
  for (int i = 0; i < groups->count; ++i) {
    Binding x = groups->of(node, 0, i), v = groups->of(node, 2, i);
    Binding gradient = decayed(e, node, x, groups->of(node, 1, i));
    // The first step, number 0, takes the gradient whole.
    Binding isFirst = e("Equal", {e.reshape(node.input(1), {}), e.integer(0)});
    Binding share = e.where(isFirst, e.number(x, 1), e.number(x, beta));
    Binding next = e.add(e.mul(e.number(x, alpha), v), e.mul(share, gradient));
    Binding direction = mode == "standard" ? next : e.add(gradient, e.mul(e.number(x, alpha), next));
    parameters.push_back(e.sub(x, e.mul(e.reshape(node.input(0), {}), direction)));
    momenta.push_back(next);
  }
  parameters.insert(parameters.end(), momenta.begin(), momenta.end());
  return e.finish(parameters);
}

LogicalResult importAdagrad(NodeImport &node) {
  Expansion e(node);
  std::optional<Groups> groups = getGroups(node, 3);
  if (!groups)
    return failure();
  std::vector<Binding> parameters, sums;
  for (int i = 0; i < groups->count; ++i) {
    Binding x = groups->of(node, 0, i), h = groups->of(node, 2, i);
    Binding gradient = decayed(e, node, x, groups->of(node, 1, i));
    Binding steps = e.cast(e.reshape(node.input(1), {}), x.type.getElementType());
    Binding decay = e.add(e.number(x, 1), e.mul(steps, e.number(x, node.getFloat("decay_factor", 0))));
    Binding rate = e.div(e.reshape(node.input(0), {}), decay), next = e.add(h, e.mul(gradient, gradient));
    Binding adaptive = e.add(e("Sqrt", {next}), e.number(x, node.getFloat("epsilon", 1e-6)));
    parameters.push_back(e.sub(x, e.div(e.mul(rate, gradient), adaptive)));
    sums.push_back(next);
  }
  parameters.insert(parameters.end(), sums.begin(), sums.end());
  return e.finish(parameters);
}

LogicalResult importAdam(NodeImport &node) {
  Expansion e(node);
  std::optional<Groups> groups = getGroups(node, 4);
  if (!groups)
    return failure();
  double alpha = node.getFloat("alpha", 0.9), beta = node.getFloat("beta", 0.999);
  std::vector<Binding> parameters, first, second;
  for (int i = 0; i < groups->count; ++i) {
    Binding x = groups->of(node, 0, i), one = e.number(x, 1);
    Binding gradient = decayed(e, node, x, groups->of(node, 1, i));
    Binding v = e.add(e.mul(e.number(x, alpha), groups->of(node, 2, i)), e.mul(e.number(x, 1 - alpha), gradient));
    Binding h = e.add(e.mul(e.number(x, beta), groups->of(node, 3, i)),
                      e.mul(e.number(x, 1 - beta), e.mul(gradient, gradient)));
    // Step 0 is not corrected.
    Binding steps = e.cast(e.reshape(node.input(1), {}), x.type.getElementType()), rate = e.reshape(node.input(0), {});
    Binding corrected = e.div(e.mul(rate, e("Sqrt", {e.sub(one, e("Pow", {e.number(x, beta), steps}))})),
                              e.sub(one, e("Pow", {e.number(x, alpha), steps})));
    rate = e.where(e("Greater", {steps, e.number(x, 0)}), corrected, rate);
    Binding moved = e.sub(x, e.div(e.mul(rate, v), e.add(e("Sqrt", {h}), e.number(x, node.getFloat("epsilon", 1e-6)))));
    parameters.push_back(e.mul(e.number(x, 1 - node.getFloat("norm_coefficient_post", 0)), moved));
    first.push_back(v);
    second.push_back(h);
  }
  parameters.insert(parameters.end(), first.begin(), first.end());
  parameters.insert(parameters.end(), second.begin(), second.end());
  return e.finish(parameters);
}
} // namespace

void hyc::onnx::addUpdateOperators(OperatorTable &table) {
  table["ai.onnx.preview.training:Momentum"] = {importMomentum,
                                                {{one("R"), one("T").integer(), tensor("inputs").real()}, true}};
  table["ai.onnx.preview.training:Adagrad"] = {importAdagrad,
                                               {{one("R"), one("T").integer(), tensor("inputs").real()}, true}};
  table["ai.onnx.preview.training:Adam"] = {importAdam,
                                            {{one("R"), one("T").integer(), tensor("inputs").real()}, true}};
}
