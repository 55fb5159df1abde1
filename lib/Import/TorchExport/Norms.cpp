// Roots and powers of sums, which norms, deviations and distances are made of.
#include "Translator.h"

#include <cmath>
#include <limits>

using namespace hyc::torchexport;

Name hyc::torchexport::rootOf(NodeTranslation &node, const Name &squares, ScalarType type) {
  Name zero = node.constant(type, 0), isNone = node.emit("Equal", {squares, zero});
  // The root is taken of 1 there: that of 0 would hand an infinite slope back, whatever is chosen after it.
  Name safe = node.emit("Where", {isNone, node.constant(type, 1), squares});
  return node.emit("Where", {isNone, zero, node.emit("Sqrt", {safe})});
}

/// The same of other powers; from 1 on none has an infinite slope.
static Name powerOf(NodeTranslation &node, const Name &sizes, double exponent, ScalarType type) {
  auto power = [&](const Name &of) { return node.emit("Pow", {of, node.constant(type, exponent)}); };
  if (exponent >= 1)
    return power(sizes);
  Name ofNone = node.constant(type, exponent > 0 ? 0 : std::numeric_limits<double>::infinity());
  Name isNone = node.emit("Equal", {sizes, node.constant(type, 0)});
  return node.emit("Where", {isNone, ofNone, power(node.emit("Where", {isNone, node.constant(type, 1), sizes}))});
}

Name hyc::torchexport::normOf(NodeTranslation &node, const Name &value, double order, ScalarType type,
                              const std::vector<int64_t> &dims, bool keepsDims) {
  auto over = [&](const char *reduction, const Name &of) {
    std::vector<Name> inputs{of};
    if (!dims.empty())
      inputs.push_back(node.constant(dims));
    return node.emit(reduction, inputs, {{{"keepdims", keepsDims}}});
  };
  if (order == 0)
    return over("ReduceSum", node.cast(node.cast(value, ScalarType::Bool), type));
  if (order == 2)
    return rootOf(node, over("ReduceSum", node.emit("Mul", {value, value})), type);
  Name size = node.emit("Abs", {value});
  if (std::isinf(order))
    return over(order > 0 ? "ReduceMax" : "ReduceMin", size);
  if (order == 1)
    return over("ReduceSum", size);
  return powerOf(node, over("ReduceSum", powerOf(node, size, order, type)), 1 / order, type);
}
