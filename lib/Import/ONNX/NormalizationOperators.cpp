// Normalizations: over the batch as reductions and elementwise ops, so that splitting the batch splits their sums
// rightly; of groups of channels, which no batch touches, by hyc.group_norm.
#include "Expansion.h"
#include "hyc/Support/Decimal.h"

#include "llvm/ADT/STLExtras.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::ArrayRef;

namespace {
llvm::SmallVector<int64_t> range(int64_t first, int64_t last) {
  return llvm::to_vector(llvm::seq<int64_t>(first, last));
}

struct Moments {
  Binding mean, variance; // biased; reduced dimensions have size 1
  Binding centred;        // x less its mean
};

Moments momentsOf(Expansion &e, const Binding &x, ArrayRef<int64_t> axes) {
  Binding mean = e.reduce("ReduceMean", x, axes, true), centred = e.sub(x, mean);
  return {mean, e.reduce("ReduceMean", e.mul(centred, centred), axes, true), centred};
}

Binding deviation(Expansion &e, const Moments &moments, double epsilon) {
  return e("Sqrt", {e.add(moments.variance, e.number(moments.variance, epsilon))});
}

/// A vector over the channels (dimension 1) of a tensor.
Binding alongChannels(Expansion &e, const Binding &vector, const Binding &x) {
  llvm::SmallVector<int64_t> shape(x.type.getRank(), 1);
  shape[1] = x.type.getDimSize(1);
  if (vector.type.getNumElements() != shape[1]) {
    e.fail("has a vector of " + std::to_string(vector.type.getNumElements()) +
           " elements, expected one for each of the " + std::to_string(shape[1]) + " channels");
    return {};
  }
  return e.reshape(vector, shape);
}

/// The running average `input`, with this batch's value taken in. Where it is a tensor of the model, it is kept.
Binding takeIntoAverage(NodeImport &node, Expansion &e, int input, const Binding &now, double momentum) {
  const Binding &before = node.input(input);
  Binding flat = e.ok() ? e.reshape(now, before.type.getShape()) : Binding();
  Binding after = e.add(e.mul(before, e.number(before, momentum)), e.mul(flat, e.number(before, 1 - momentum)));
  if (e.ok() && before.parameter >= 0)
    node.importer().keep(before.parameter, after);
  return after;
}

/// When training by the batch's own moments, of which it also gives the running averages.
LogicalResult importBatchNormalization(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  if (x.type.getRank() < 2)
    return node.error() << "normalizes " << x.type << ", expected at least a batch and channels";
  double epsilon = node.getFloat("epsilon", 1e-5), momentum = node.getFloat("momentum", 0.9);
  ModelMode mode = node.importer().getMode();
  bool trains = mode == ModelMode::AsExported ? node.getInt("training_mode", 0) != 0 : mode == ModelMode::Train;
  if (node.opset() < 14 && node.outputCount() > 1)
    return node.error() << "gives running statistics as before operator set 14; export the model again";
  Moments moments;
  std::vector<Binding> results(1);
  if (trains) {
    llvm::SmallVector<int64_t> axes{0};
    llvm::append_range(axes, range(2, x.type.getRank()));
    Moments own = momentsOf(e, x, axes);
    Binding variance = own.variance;
    if (node.getInt(kUnbiasedAverage, 0)) {
      double count = static_cast<double>(x.type.getNumElements()) / static_cast<double>(x.type.getDimSize(1));
      if (count < 2)
        return node.error() << "has one value a channel, of which there is no variance; expected a larger batch";
      variance = e.mul(variance, e.number(variance, count / (count - 1)));
    }
    results.push_back(takeIntoAverage(node, e, 3, own.mean, momentum));
    results.push_back(takeIntoAverage(node, e, 4, variance, momentum));
    moments = own;
  } else {
    moments = {alongChannels(e, node.input(3), x), alongChannels(e, node.input(4), x), {}};
    moments.centred = e.sub(x, moments.mean);
    if (node.outputCount() > 1)
      results.insert(results.end(), {node.input(3), node.input(4)});
  }
  // One factor a channel: the whole tensor is multiplied once, and its gradient reads one tensor that is kept.
  Binding factor = e.div(alongChannels(e, node.input(1), x), deviation(e, moments, epsilon));
  results[0] = e.add(e.mul(moments.centred, factor), alongChannels(e, node.input(2), x));
  return e.finish(results);
}

/// Whether hyc.group_norm takes such elements: there is a kernel of 32 bits and fewer.
bool hasGroupNorm(RankedTensorType type) {
  return (type.getElementType().isF32() || isNarrowFloat(type.getElementType())) && type.getNumElements() > 0;
}

/// `x`, whose channels are `groups` groups, each normalized by itself; scale and bias are vectors over the channels.
Binding groupsNormalized(NodeImport &node, Expansion &e, int64_t groups, Binding scale, Binding bias) {
  Binding x = node.input(0);
  double epsilon = node.getFloat("epsilon", 1e-5);
  llvm::ArrayRef<int64_t> shape = x.type.getShape();
  scale = alongChannels(e, scale, x), bias = alongChannels(e, bias, x);
  if (!e.ok())
    return {};
  int64_t channels = shape[1] / groups;
  if (!hasGroupNorm(x.type) || scale.type.getElementType() != x.type.getElementType() ||
      bias.type.getElementType() != x.type.getElementType()) {
    llvm::SmallVector<int64_t> apart{shape[0], groups, channels};
    llvm::append_range(apart, shape.drop_front(2));
    Binding grouped = e.reshape(x, apart);
    Moments moments = momentsOf(e, grouped, range(2, apart.size()));
    Binding normal = e.div(moments.centred, deviation(e, moments, epsilon));
    return e.add(e.mul(e.reshape(normal, shape), scale), bias);
  }
  int64_t positions = x.type.getNumElements() / (shape[0] * shape[1]);
  Binding grouped = e.reshape(x, {shape[0], groups, channels, positions});
  scale = e.reshape(scale, {groups, channels}), bias = e.reshape(bias, {groups, channels});
  GroupNormOp::Properties properties;
  properties.epsilon = node.importer().getBuilder().getF64FloatAttr(shortestDecimal(epsilon));
  Binding y = e.emit([&] {
    return node.importer().emitInferred<GroupNormOp>({e.value(grouped), e.value(scale), e.value(bias)}, properties);
  });
  return e.reshape(y, shape);
}

LogicalResult importInstanceNormalization(NodeImport &node) {
  Expansion e(node);
  return e.finish(groupsNormalized(node, e, node.input(0).type.getDimSize(1), node.input(1), node.input(2)));
}

/// A vector over the groups of channels, with its element for each channel of a group.
Binding spreadOverGroups(Expansion &e, const Binding &vector, int64_t groups, int64_t channels) {
  if (vector.type.getNumElements() != groups) {
    e.fail("has a vector of " + std::to_string(vector.type.getNumElements()) +
           " elements, expected one for each of the " + std::to_string(groups) + " groups");
    return {};
  }
  return e.reshape(e.broadcast(e.reshape(vector, {groups, 1}), {groups, channels / groups}), {channels});
}

/// Scale and bias are of the channels from operator set 21 on, and of the groups before it.
LogicalResult importGroupNormalization(NodeImport &node) {
  Expansion e(node);
  RankedTensorType x = node.input(0).type;
  int64_t groups = node.getInt("num_groups", 0);
  if (groups < 1 || x.getDimSize(1) % groups != 0)
    return node.error() << "normalizes " << x << " in " << groups << " groups of channels";
  Binding scale = node.input(1), bias = node.input(2);
  if (node.opset() < 21) {
    scale = spreadOverGroups(e, scale, groups, x.getDimSize(1));
    bias = spreadOverGroups(e, bias, groups, x.getDimSize(1));
    if (!e.ok())
      return failure();
  }
  return e.finish(groupsNormalized(node, e, groups, scale, bias));
}

LogicalResult importMeanVarianceNormalization(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  std::optional<llvm::SmallVector<int64_t>> axes = node.getInts("axes");
  axes = node.normalizeAxes(axes.value_or(llvm::SmallVector<int64_t>{0, 2, 3}), x.type.getRank());
  if (!axes)
    return failure();
  Moments moments = momentsOf(e, x, *axes);
  return e.finish(e.div(e.sub(x, moments.mean), e.add(e("Sqrt", {moments.variance}), e.number(x, 1e-9))));
}

/// x / (bias + alpha/size · Σ x² over neighbouring channels)^beta; the sum is a product with a band of ones.
LogicalResult importLRN(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  if (x.type.getRank() < 2)
    return node.error() << "normalizes " << x.type << ", expected channels";
  int64_t size = node.getInt("size", 1), channels = x.type.getDimSize(1);
  double alpha = node.getFloat("alpha", 1e-4), beta = node.getFloat("beta", 0.75), bias = node.getFloat("bias", 1);
  if (size < 1)
    return node.error() << "sums over " << size << " of " << channels << " channels";
  auto band = [&](int64_t place) {
    int64_t to = place / channels, from = place % channels;
    return from >= to - (size - 1) / 2 && from <= to + size / 2 ? 1.0 : 0.0;
  };
  int64_t rest = 1;
  for (int64_t dim : x.type.getShape().drop_front(2))
    rest *= dim;
  Binding flat = e.reshape(e.mul(x, x), {x.type.getDimSize(0), channels, rest});
  Binding sums = e("MatMul", {e.reals({channels, channels}, band, x.type.getElementType()), flat});
  Binding scale = e.add(e.mul(e.reshape(sums, x.type.getShape()), e.number(x, alpha / static_cast<double>(size))),
                        e.number(x, bias));
  return e.finish(e.mul(x, e("Pow", {scale, e.number(x, -beta)})));
}

LogicalResult importLpNormalization(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  std::optional<int64_t> axis = node.normalizeAxis(node.getInt("axis", -1), x.type.getRank());
  if (!axis)
    return failure();
  Binding norm = e.reduce(node.getInt("p", 2) == 1 ? "ReduceL1" : "ReduceL2", x, {*axis}, true);
  // Of nothing but zeros the format says 0.
  Binding isNone = e("Equal", {norm, e.number(norm, 0)});
  return e.finish(e.div(x, e.where(isNone, e.number(norm, 1), norm)));
}

/// x - max - log Σ exp(x - max); the dimensions from `axis` on together before operator set 13.
LogicalResult importLogSoftmax(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  bool flattens = node.opset() < 13;
  int64_t tensorRank = x.type.getRank();
  std::optional<int64_t> axis = node.normalizeAxis(node.getInt("axis", flattens ? 1 : -1), tensorRank);
  if (!axis)
    return failure();
  llvm::SmallVector<int64_t> axes = flattens ? range(*axis, tensorRank) : llvm::SmallVector<int64_t>{*axis};
  Binding shifted = e.sub(x, e.reduce("ReduceMax", x, axes, true));
  return e.finish(e.sub(shifted, e("Log", {e.reduce("ReduceSum", e("Exp", {shifted}), axes, true)})));
}

/// 1 at the first largest element, 0 elsewhere.
LogicalResult importHardmax(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  bool flattens = node.opset() < 13;
  std::optional<int64_t> axis = node.normalizeAxis(node.getInt("axis", flattens ? 1 : -1), x.type.getRank());
  if (!axis)
    return failure();
  llvm::SmallVector<int64_t> shape(x.type.getShape());
  if (flattens) {
    int64_t rows = 1, columns = 1;
    for (auto [dim, size] : llvm::enumerate(shape))
      (static_cast<int64_t>(dim) < *axis ? rows : columns) *= size;
    x = e.reshape(x, {rows, columns});
    axis = 1;
  }
  Binding place = e("ArgMax", {x}, {{"axis", *axis}, {"keepdims", int64_t(1)}});
  Binding numbers = e.ok() ? e.iota(x.type.getDimSize(*axis), *axis, x.type.getRank()) : Binding();
  return e.finish(e.reshape(e.cast(e("Equal", {numbers, place}), x.type.getElementType()), shape));
}
} // namespace

void hyc::onnx::addNormalizationOperators(OperatorTable &table) {
  table["BatchNormalization"] = {importBatchNormalization,
                                 {tensor("X").real().ranks(2), tensor("scale").real().rank(1),
                                  tensor("B").real().rank(1), tensor("input_mean").real().rank(1),
                                  tensor("input_var").real().rank(1)}};
  table["InstanceNormalization"] = {
      importInstanceNormalization,
      {tensor("input").real().ranks(3), tensor("scale").real().rank(1), tensor("B").real().rank(1)}};
  table["GroupNormalization"] = {
      importGroupNormalization,
      {tensor("X").real().ranks(2), tensor("scale").real().rank(1), tensor("bias").real().rank(1)}};
  table["MeanVarianceNormalization"] = {importMeanVarianceNormalization, {tensor("X").real().ranks(1)}};
  table["LRN"] = {importLRN, {tensor("X").real().ranks(2)}};
  table["LpNormalization"] = {importLpNormalization, {tensor("X").real().ranks(1)}};
  table["LogSoftmax"] = {importLogSoftmax, {tensor("X").real().ranks(1)}};
  table["Hardmax"] = {importHardmax, {tensor("input").ranks(1)}};
}
