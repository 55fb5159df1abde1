// Reductions, and the normalizations that are operators of their own.
#include "Expansion.h"
#include "hyc/Support/Decimal.h"

#include <cmath>

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::ArrayRef;

namespace {
enum class Reduction { Sum, Mean, Max, Min, Prod };

/// The dimensions to reduce, sorted: an attribute before opset 18 (13 for sums), an input since; all unless given.
std::optional<llvm::SmallVector<int64_t>> getReducedDims(NodeImport &node) {
  int64_t tensorRank = node.shapeOf(0).size();
  std::optional<llvm::SmallVector<int64_t>> axes = node.getInts("axes");
  if (node.has(1)) {
    axes = node.integers(1);
    if (!axes)
      return std::nullopt;
  }
  if (axes && !axes->empty()) {
    axes = node.normalizeAxes(*axes, tensorRank);
    if (axes)
      llvm::sort(*axes);
    return axes;
  }
  if (node.getInt("noop_with_empty_axes", 0) != 0)
    return llvm::SmallVector<int64_t>();
  return llvm::to_vector(llvm::seq<int64_t>(0, tensorRank));
}

HostElement combine(Reduction kind, bool real, HostElement a, HostElement b) {
  auto apply = [&](auto x, auto y) {
    switch (kind) {
    case Reduction::Max:
      return std::max(x, y);
    case Reduction::Min:
      return std::min(x, y);
    case Reduction::Prod:
      return x * y;
    default:
      return x + y;
    }
  };
  if (real && std::isnan(b.real)) // is the extremum; as the first operand it stays so
    return b;
  if (real)
    return HostElement::ofReal(apply(a.real, b.real));
  if (kind == Reduction::Max || kind == Reduction::Min)
    return HostElement::ofInteger(apply(a.integer, b.integer));
  return HostElement::ofInteger(
      static_cast<int64_t>(apply(static_cast<uint64_t>(a.integer), static_cast<uint64_t>(b.integer))));
}

/// Reduces to `shape`, in which reduced dimensions have size 1.
std::optional<HostTensor> reduceConstant(const HostTensor &data, Reduction kind, ArrayRef<int64_t> dims,
                                         ArrayRef<int64_t> shape) {
  int64_t perResult = 1, results = 1, steps;
  llvm::SmallVector<bool> varies(shape.size());
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    bool reduced = llvm::is_contained(dims, dim);
    perResult *= reduced ? data.getShape()[dim] : 1;
    varies[dim] = !reduced && data.variesAlong(dim);
    results *= varies[dim] ? shape[dim] : 1;
  }
  // What repeats itself is stored once, but added up as often as it is there.
  if (llvm::MulOverflow(perResult, results, steps) || steps > HostTensor::kMaxStored)
    return std::nullopt;
  bool real = data.isReal();
  HostTensor::Shape at;
  return HostTensor::generate(data.getElementType(), shape, varies, [&](ArrayRef<int64_t> index) {
    HostElement result = HostElement::ofInteger(0);
    for (int64_t i = 0; i < perResult; ++i) {
      at.assign(index.begin(), index.end());
      int64_t rest = i;
      for (int64_t dim : llvm::reverse(dims)) {
        at[dim] = rest % data.getShape()[dim];
        rest /= data.getShape()[dim];
      }
      result = i == 0 ? data.at(at) : combine(kind, real, result, data.at(at));
    }
    if (kind == Reduction::Mean)
      result = real ? HostElement::ofReal(result.real / static_cast<double>(perResult))
                    : HostElement::ofInteger(result.integer / perResult);
    return result;
  });
}

Value emitReduction(NodeImport &node, Reduction kind, ArrayRef<int64_t> dims) {
  Importer &importer = node.importer();
  ReductionKind kinds[] = {ReductionKind::sum, ReductionKind::sum, ReductionKind::max, ReductionKind::min,
                           ReductionKind::prod};
  ReduceOp::Properties properties;
  properties.kind = ReductionKindAttr::get(importer.getContext(), kinds[static_cast<int>(kind)]);
  properties.dims = importer.getBuilder().getDenseI64ArrayAttr(dims);
  Value result = importer.emitInferred<ReduceOp>(node.value(0), properties);
  if (!result || kind != Reduction::Mean)
    return result;
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= node.shapeOf(0)[dim];
  auto type = cast<RankedTensorType>(result.getType());
  const bool real = isa<FloatType>(type.getElementType()); // of integers 1 / count is 0
  Binding factor = importer.splatLike(type, real ? 1.0 / static_cast<double>(count) : static_cast<double>(count));
  Value by = importer.materialise(factor);
  return real ? importer.emit<MulOp>(result, by) : importer.emit<DivOp>(result, by);
}

template <Reduction Kind> LogicalResult importReduce(NodeImport &node) {
  std::optional<llvm::SmallVector<int64_t>> dims = getReducedDims(node);
  if (!dims)
    return failure();
  if (dims->empty())
    return node.finish(node.input(0));
  ArrayRef<int64_t> from = node.shapeOf(0);
  llvm::SmallVector<int64_t> kept, dropped;
  for (int64_t dim = 0; dim < static_cast<int64_t>(from.size()); ++dim) {
    bool reduced = llvm::is_contained(*dims, dim);
    if (reduced && from[dim] == 0)
      return node.error() << "reduces dimension " << dim << " of " << node.input(0).type << ", which is empty";
    kept.push_back(reduced ? 1 : from[dim]);
    if (!reduced)
      dropped.push_back(from[dim]);
  }
  llvm::SmallVector<int64_t> &shape = node.getInt("keepdims", 1) != 0 ? kept : dropped;
  Importer &importer = node.importer();
  if (node.input(0).constant) {
    std::optional<HostTensor> result = reduceConstant(*node.input(0).constant, Kind, *dims, kept);
    if (!result)
      return node.finish(std::nullopt);
    Binding binding = importer.ofConstant(*result);
    return node.finish(importer.reshape(binding, shape));
  }
  Value reduced = emitReduction(node, Kind, *dims);
  if (!reduced)
    return failure();
  Binding binding = importer.ofValue(reduced);
  return node.finish(importer.reshape(binding, shape));
}

/// Where it is 0 a length has no gradient in PyTorch, and a root an infinite slope: it is taken of 1 there.
Binding rootOf(Expansion &e, const Binding &squares) {
  Binding zero = e.number(squares, 0), isNone = e("Equal", {squares, zero});
  return e.where(isNone, zero, e("Sqrt", {e.where(isNone, e.number(squares, 1), squares)}));
}

/// Reductions of what has been mapped, and maps of what has been reduced.
LogicalResult importComposedReduction(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  std::optional<llvm::SmallVector<int64_t>> dims = getReducedDims(node);
  if (!dims)
    return failure();
  bool keeps = node.getInt("keepdims", 1) != 0;
  llvm::StringRef name = node.opType();
  if (name == "ReduceL1")
    return e.finish(e.reduce("ReduceSum", e("Abs", {x}), *dims, keeps));
  if (name == "ReduceSumSquare")
    return e.finish(e.reduce("ReduceSum", e.mul(x, x), *dims, keeps));
  if (name == "ReduceL2")
    return e.finish(rootOf(e, e.reduce("ReduceSum", e.mul(x, x), *dims, keeps)));
  if (name == "ReduceLogSum")
    return e.finish(e("Log", {e.reduce("ReduceSum", x, *dims, keeps)}));
  // ReduceLogSumExp, with the largest taken out; of a row of infinities there is nothing to be less than.
  Binding largest = e.reduce("ReduceMax", x, *dims, true);
  Binding isInfinite = e("Equal", {e("Abs", {largest}), e.number(x, INFINITY)});
  Binding by = e.where(isInfinite, e.number(x, 0), largest);
  Binding sum = e.reduce("ReduceSum", e("Exp", {e.sub(x, by)}), *dims, true);
  Binding result = e.add(e("Log", {sum}), by);
  return e.finish(keeps ? result : e("Squeeze", {result, e.integers(*dims)}));
}

//===----------------------------------------------------------------------===//
// Normalizations
//===----------------------------------------------------------------------===//

LogicalResult importSoftmax(NodeImport &node) {
  Importer &importer = node.importer();
  int64_t tensorRank = node.shapeOf(0).size();
  bool flattens = node.opset() < 13; // the dimensions from `axis` on together
  std::optional<int64_t> axis = node.normalizeAxis(node.getInt("axis", flattens ? 1 : -1), tensorRank);
  if (!axis)
    return failure();
  if (flattens) {
    llvm::SmallVector<int64_t> merged(node.shapeOf(0).take_front(*axis)), shape(node.shapeOf(0));
    merged.push_back(*countElements(node.shapeOf(0).drop_front(*axis)));
    std::optional<Binding> rows = importer.reshape(node.input(0), merged);
    Binding result = importer.ofValue(importer.emit<SoftmaxOp>(importer.materialise(*rows)));
    return node.finish(importer.reshape(result, shape));
  }
  llvm::SmallVector<int64_t> swap = llvm::to_vector(llvm::seq<int64_t>(0, tensorRank));
  std::swap(swap[*axis], swap.back());
  std::optional<Binding> turned = importer.transpose(node.input(0), swap);
  Binding result = importer.ofValue(importer.emit<SoftmaxOp>(importer.materialise(*turned)));
  return node.finish(importer.transpose(result, swap));
}

/// Scale or bias as a vector over the normalized elements.
std::optional<Value> getNormVector(NodeImport &node, int index, RankedTensorType rows) {
  Importer &importer = node.importer();
  int64_t width = rows.getShape().back();
  RankedTensorType type = RankedTensorType::get({width}, rows.getElementType());
  if (!node.has(index)) {
    Binding zero = importer.splatLike(type, 0);
    return importer.materialise(zero);
  }
  if (node.input(index).type.getNumElements() != width ||
      node.input(index).type.getElementType() != rows.getElementType()) {
    node.error() << "normalizes " << width << " elements of " << rows.getElementType() << " with "
                 << node.input(index).type << ", expected as many of that type";
    return std::nullopt;
  }
  std::optional<Binding> vector = importer.reshape(node.input(index), {width});
  return vector ? std::optional<Value>(importer.materialise(*vector)) : std::nullopt;
}

/// Y, mean and 1/deviation; the dimensions from `axis` on are normalized together.
LogicalResult importLayerNormalization(NodeImport &node) {
  Importer &importer = node.importer();
  ArrayRef<int64_t> shape = node.shapeOf(0);
  std::optional<int64_t> axis = node.normalizeAxis(node.getInt("axis", -1), shape.size());
  if (!axis || !isa<FloatType>(node.input(0).type.getElementType()))
    return axis ? node.error() << "normalizes " << node.input(0).type << ", expected floating point" : failure();
  llvm::SmallVector<int64_t> merged(shape.take_front(*axis)), statistics(merged);
  merged.push_back(*countElements(shape.drop_front(*axis)));
  statistics.append(shape.size() - *axis, 1);
  std::optional<Binding> x = importer.reshape(node.input(0), merged);
  if (!x)
    return node.finish(std::nullopt);
  std::optional<Value> scale = getNormVector(node, 1, x->type),
                       bias = scale ? getNormVector(node, 2, x->type) : std::nullopt;
  if (!bias)
    return failure();
  LayerNormOp::Properties properties;
  properties.epsilon = importer.getBuilder().getF64FloatAttr(shortestDecimal(node.getFloat("epsilon", 1e-5)));
  Value y = importer.emitInferred<LayerNormOp>({importer.materialise(*x), *scale, *bias}, properties);
  if (!y)
    return failure();
  std::vector<std::optional<Binding>> results;
  for (Value value : y.getDefiningOp()->getResults()) {
    Binding result = importer.ofValue(value);
    if (static_cast<int>(results.size()) < node.outputCount())
      results.push_back(importer.reshape(result, results.empty() ? shape : ArrayRef<int64_t>(statistics)));
  }
  return node.finish(std::move(results));
}
} // namespace

void hyc::onnx::addReductionOperators(OperatorTable &table) {
  table["ReduceSum"] = {importReduce<Reduction::Sum>, {tensor("data").orEmptyConstant(), list("axes").optional()}};
  table["ReduceMean"] = {importReduce<Reduction::Mean>, {tensor("data").orEmptyConstant(), list("axes").optional()}};
  table["ReduceMax"] = {importReduce<Reduction::Max>, {tensor("data").orEmptyConstant(), list("axes").optional()}};
  table["ReduceMin"] = {importReduce<Reduction::Min>, {tensor("data").orEmptyConstant(), list("axes").optional()}};
  table["ReduceProd"] = {importReduce<Reduction::Prod>, {tensor("data").orEmptyConstant(), list("axes").optional()}};
  for (llvm::StringRef name : {"ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"})
    table[name] = {importComposedReduction, {tensor("data"), list("axes").optional()}};
  table["Softmax"] = {importSoftmax, {tensor("X").real().ranks(1)}};
  table["LayerNormalization"] = {importLayerNormalization,
                                 {tensor("X").real().ranks(1), tensor("Scale").real(), tensor("B").real().optional()}};
}
