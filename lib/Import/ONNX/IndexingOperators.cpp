// Operators that pick elements by index. On the running model slices and rows of a table by integer ids (an embedding)
// are ops of their own, the rest is hyc.gather; arithmetic on shapes and positions is evaluated here.
#include "Expansion.h"
#include "mlir/IR/Matchers.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::ArrayRef;

namespace {
LogicalResult finishConstant(NodeImport &node, std::optional<HostTensor> tensor) {
  return node.finish(tensor ? std::optional<Binding>(node.importer().ofConstant(*tensor)) : std::nullopt);
}

LogicalResult importSlice(NodeImport &node) {
  // Attributes before operator set 10, inputs since.
  bool areInputs = node.opset() >= 10;
  std::optional<llvm::SmallVector<int64_t>> starts, ends, axes, steps;
  starts = areInputs ? node.integers(1) : node.getInts("starts");
  ends = !starts ? std::nullopt : areInputs ? node.integers(2) : node.getInts("ends");
  if (!ends)
    return areInputs || node.failed() ? failure() : node.error() << "has no starts or no ends";
  axes = !areInputs && node.hasAttribute("axes") ? node.getInts("axes")
         : node.has(3)                           ? node.integers(3)
                                                 : llvm::to_vector(llvm::seq<int64_t>(0, starts->size()));
  if (axes)
    axes = node.normalizeAxes(*axes, node.shapeOf(0).size());
  steps = node.has(4) ? node.integers(4) : llvm::SmallVector<int64_t>(starts->size(), 1);
  if (!axes || !steps)
    return failure();
  if (ends->size() != starts->size() || axes->size() != starts->size() || steps->size() != starts->size())
    return node.error() << "has lists of different lengths for where to start, end and step";
  Binding result = node.input(0);
  for (auto [start, end, axis, step] : llvm::zip(*starts, *ends, *axes, *steps)) {
    int64_t size = result.type.getDimSize(axis);
    if (step == 0 || step == std::numeric_limits<int64_t>::min())
      return node.error() << "steps by " << step << ", expected a step forward or back";
    // Counted from the end where negative, then clamped; a backward slice may end before the first element.
    auto clamp = [&](int64_t position, int64_t low, int64_t high) {
      return std::clamp(position < 0 ? (position < -size ? low : position + size) : position, low, high);
    };
    int64_t first = step > 0 ? clamp(start, 0, size) : clamp(start, 0, size - 1);
    int64_t last = step > 0 ? clamp(end, 0, size) : clamp(end, -1, size - 1);
    int64_t distance = step > 0 ? last - first : first - last, stride = std::abs(step);
    int64_t count = distance <= 0 ? 0 : 1 + (distance - 1) / stride;
    if (step < 0 && !result.constant) {
      Expansion e(node);
      Binding numbers = e.integers(count, [&, first = first, step = step](int64_t i) { return first + i * step; });
      result = e("Gather", {result, numbers}, {{"axis", axis}});
      if (!e.ok())
        return failure();
      continue;
    }
    std::optional<Binding> part = node.importer().slice(result, axis, count ? first : 0, count, step);
    if (!part)
      return node.finish(std::nullopt);
    result = *part;
  }
  return node.finish(result);
}

//===----------------------------------------------------------------------===//
// Gather
//===----------------------------------------------------------------------===//

/// Indices counted from the front; reports one that lies outside [-size, size).
std::optional<HostTensor> normalizeIndices(NodeImport &node, const HostTensor &indices, int64_t size) {
  int64_t outside = 0;
  bool good = true;
  std::optional<HostTensor> result = HostTensor::map(indices.getElementType(), {indices}, [&](ArrayRef<HostElement> e) {
    if (e[0].integer < -size || e[0].integer >= size)
      good = false, outside = e[0].integer;
    return HostElement::ofInteger(e[0].integer < 0 ? e[0].integer + size : e[0].integer);
  });
  if (!result || !good) {
    node.error() << "takes element " << outside << " of a dimension of size " << size << ", expected " << -size
                 << " to " << size - 1;
    return std::nullopt;
  }
  return result;
}

std::optional<HostTensor> gatherConstant(const HostTensor &data, const HostTensor &indices, int64_t axis,
                                         ArrayRef<int64_t> shape) {
  int64_t indexRank = indices.getTensorRank();
  llvm::SmallVector<bool> varies(shape.size());
  for (int64_t dim = 0; dim < static_cast<int64_t>(shape.size()); ++dim) {
    bool ofIndices = dim >= axis && dim < axis + indexRank;
    varies[dim] = ofIndices ? data.variesAlong(axis) && indices.variesAlong(dim - axis)
                            : data.variesAlong(dim < axis ? dim : dim - indexRank + 1);
  }
  HostTensor::Shape at(data.getTensorRank());
  return HostTensor::generate(data.getElementType(), shape, varies, [&](ArrayRef<int64_t> index) {
    for (int64_t dim = 0; dim < data.getTensorRank(); ++dim)
      at[dim] = dim < axis    ? index[dim]
                : dim == axis ? indices.at(index.slice(axis, indexRank)).integer
                              : index[dim + indexRank - 1];
    return data.at(at);
  });
}

/// Whether the indices are start, start + step, … in row-major order.
bool isProgression(const HostTensor &indices, int64_t &start, int64_t &step) {
  int64_t count = indices.getNumElements();
  if (count == 0 || count > HostTensor::kMaxStored)
    return false;
  start = indices.atFlat(0).integer;
  step = count > 1 ? indices.atFlat(1).integer - start : 1;
  for (int64_t i = 2; i < count; ++i)
    if (indices.atFlat(i).integer != start + i * step)
      return false;
  return step > 0;
}

bool contains(const HostTensor &indices, int64_t wanted) {
  for (int64_t i = 0, e = indices.getNumElements(); i < e; ++i)
    if (indices.atFlat(i).integer == wanted)
      return true;
  return false;
}

/// Whether numbers are known not to be below 0: an input's, in any order or width, of which the loader refuses others;
/// an order, a count, a truth, a constant; and what sums, products and the like make of such.
bool areNeverNegative(Value numbers, int depth = 0) {
  constexpr int kMostDepth = 8;
  if (auto argument = dyn_cast<BlockArgument>(numbers))
    return isa<FuncOp>(argument.getOwner()->getParentOp());
  auto type = cast<RankedTensorType>(numbers.getType()).getElementType();
  Operation *op = numbers.getDefiningOp();
  if (!isa<IntegerType>(type) || depth == kMostDepth)
    return false;
  if (type.isInteger(1) || isa<ArgSortOp, IotaOp>(op))
    return true;
  DenseIntElementsAttr constant;
  if (matchPattern(numbers, m_Constant(&constant)))
    return llvm::none_of(constant, [](const APInt &number) { return number.isNegative(); });
  if (auto reduce = dyn_cast<ReduceOp>(op); reduce && reduce.getKind() == ReductionKind::prod)
    return false; // of many it wraps round
  auto from = isa<SelectOp>(op) ? op->getOperands().drop_front() : op->getOperands();
  return isa<ReshapeOp, TransposeOp, BroadcastOp, SliceOp, ConcatOp, ConvertOp, AddOp, MulOp, MaxOp, MinOp, SelectOp,
             ReduceOp, CumSumOp>(op) &&
         llvm::all_of(from, [&](Value operand) { return areNeverNegative(operand, depth + 1); });
}

/// Whether indices need not be counted from the end: PyTorch refuses to look up what is below 0.
bool countsFromFront(NodeImport &node) {
  std::optional<TracedCall> call = node.traced();
  return node.getInt(kCountsFromFront, 0) != 0 || (call && call->target == "aten.embedding.default") ||
         areNeverNegative(node.value(1));
}

LogicalResult importGather(NodeImport &node) {
  Importer &importer = node.importer();
  Binding &data = node.input(0), &indices = node.input(1);
  ArrayRef<int64_t> dataShape = data.type.getShape();
  std::optional<int64_t> axis = node.normalizeAxis(node.getInt("axis", 0), dataShape.size());
  if (!axis)
    return failure();
  if (!isa<IntegerType>(indices.type.getElementType()))
    return node.error() << "takes elements by " << indices.type << ", expected integers";
  llvm::SmallVector<int64_t> shape(dataShape.take_front(*axis));
  llvm::append_range(shape, indices.type.getShape());
  llvm::append_range(shape, dataShape.drop_front(*axis + 1));
  if (!countElements(shape))
    return node.error() << "has a result of more elements than 63 bits can count";
  Builder &builder = importer.getBuilder();
  IntegerAttr padding;
  int64_t row = node.getInt(kPaddingRow, -1);
  if (std::optional<TracedCall> call = node.traced())
    row = paddingRowOf(*call).value_or(row);
  if (row >= 0 && row < dataShape[*axis])
    padding = builder.getI64IntegerAttr(row);
  if (indices.constant) {
    std::optional<HostTensor> positions = normalizeIndices(node, *indices.constant, dataShape[*axis]);
    if (!positions)
      return failure();
    if (data.constant)
      return finishConstant(node, gatherConstant(*data.constant, *positions, *axis, shape));
    const bool readsPadding = padding && contains(*positions, padding.getInt());
    int64_t start, step;
    if (!readsPadding && isProgression(*positions, start, step)) {
      std::optional<Binding> part = importer.slice(data, *axis, start, positions->getNumElements(), step);
      return node.finish(importer.reshape(*part, shape));
    }
    Expansion e(node);
    Binding normal = e.cast(importer.ofConstant(*positions), importer.getBuilder().getI64Type());
    if (!e.ok())
      return failure();
    if (*axis == 0 && dataShape.size() == 2)
      return node.finish(importer.ofValue(
          importer.emit<EmbeddingOp>(RankedTensorType::get(shape, data.type.getElementType()),
                                     importer.materialise(normal), importer.materialise(data), Value(), padding)));
  } else if (*axis == 0 && dataShape.size() == 2 && isa<FloatType>(data.type.getElementType())) {
    Expansion e(node);
    Binding ids = countsFromFront(node) ? e.cast(indices, importer.getBuilder().getI64Type())
                                        : e.fromFront(indices, dataShape.front());
    return e.finish(e.emit([&] {
      return importer.emit<EmbeddingOp>(RankedTensorType::get(shape, data.type.getElementType()),
                                        importer.materialise(ids), node.value(0), Value(), padding);
    }));
  }
  return importRunningGather(node, *axis);
}

LogicalResult importGatherND(NodeImport &node) {
  if (!node.input(0).constant || !node.input(1).constant)
    return importRunningGatherND(node);
  const HostTensor *data = node.constant(0), *indices = node.constant(1);
  int64_t batch = node.getInt("batch_dims", 0), indexRank = indices->getTensorRank();
  int64_t depth = indexRank > 0 ? indices->getShape().back() : 0;
  if (batch < 0 || indexRank < 1 || batch >= indexRank || batch + depth > data->getTensorRank() || depth < 1 ||
      data->getShape().take_front(batch) != indices->getShape().take_front(batch))
    return node.error() << "takes elements of " << node.input(0).type << " by " << node.input(1).type
                        << " with batch_dims " << batch;
  llvm::SmallVector<int64_t> shape(indices->getShape().drop_back());
  llvm::append_range(shape, data->getShape().drop_front(batch + depth));
  if (!countElements(shape))
    return node.error() << "has a result of more elements than 63 bits can count";
  llvm::SmallVector<HostTensor> components;
  for (int64_t i = 0; i < depth; ++i) {
    std::optional<HostTensor> component =
        normalizeIndices(node, indices->slice(indexRank - 1, i, 1, 1), data->getShape()[batch + i]);
    if (!component)
      return failure();
    components.push_back(*component);
  }
  llvm::SmallVector<bool> varies(shape.size(), false);
  for (int64_t dim = 0; dim < static_cast<int64_t>(shape.size()); ++dim) {
    if (dim >= indexRank - 1)
      varies[dim] = data->variesAlong(dim - (indexRank - 1) + batch + depth);
    else
      for (int64_t i = 0; i < depth; ++i)
        varies[dim] = varies[dim] || (data->variesAlong(batch + i) && components[i].variesAlong(dim)) ||
                      (dim < batch && data->variesAlong(dim));
  }
  HostTensor::Shape at(data->getTensorRank()), position(indexRank);
  return finishConstant(node, HostTensor::generate(data->getElementType(), shape, varies, [&](ArrayRef<int64_t> index) {
                          std::copy(index.begin(), index.begin() + indexRank - 1, position.begin());
                          position.back() = 0;
                          for (int64_t dim = 0; dim < data->getTensorRank(); ++dim)
                            at[dim] = dim < batch           ? index[dim]
                                      : dim < batch + depth ? components[dim - batch].at(position).integer
                                                            : index[dim - batch - depth + indexRank - 1];
                          return data->at(at);
                        }));
}

//===----------------------------------------------------------------------===//
// Positions
//===----------------------------------------------------------------------===//

LogicalResult importRange(NodeImport &node) {
  HostElement bounds[3];
  for (int i = 0; i < 3; ++i) {
    const HostTensor *tensor = node.constant(i);
    if (!tensor)
      return failure();
    if (tensor->getNumElements() != 1 || tensor->getElementType() != node.input(0).type.getElementType())
      return node.error() << "has input " << i << " of type " << node.input(i).type << ", expected one number of type "
                          << node.input(0).type.getElementType();
    bounds[i] = tensor->atFlat(0);
  }
  bool real = isa<FloatType>(node.input(0).type.getElementType());
  double distance = real ? bounds[1].real - bounds[0].real
                         : static_cast<double>(bounds[1].integer) - static_cast<double>(bounds[0].integer);
  double step = real ? bounds[2].real : static_cast<double>(bounds[2].integer);
  double count = std::max(0.0, std::ceil(distance / step));
  if (!(count <= static_cast<double>(HostTensor::kMaxStored)))
    return node.error() << "counts " << count << " numbers, expected at most " << HostTensor::kMaxStored
                        << ", by a step other than 0";
  return finishConstant(
      node, HostTensor::range(node.input(0).type.getElementType(), bounds[0], bounds[2], static_cast<int64_t>(count)));
}

LogicalResult importCumSum(NodeImport &node) {
  std::optional<llvm::SmallVector<int64_t>> axes = node.integers(1);
  std::optional<int64_t> axis =
      axes && axes->size() == 1 ? node.normalizeAxis(axes->front(), node.shapeOf(0).size()) : std::nullopt;
  if (!axis)
    return failure();
  if (!node.input(0).constant) {
    Importer &importer = node.importer();
    Builder &builder = importer.getBuilder();
    auto flag = [&](llvm::StringRef name) { return node.getInt(name, 0) ? builder.getUnitAttr() : UnitAttr(); };
    return node.finish(importer.ofValue(
        importer.emit<CumSumOp>(node.value(0), builder.getI64IntegerAttr(*axis), flag("reverse"), flag("exclusive"))));
  }
  const HostTensor *data = node.constant(0);
  bool reverse = node.getInt("reverse", 0) != 0, exclusive = node.getInt("exclusive", 0) != 0, real = data->isReal();
  // Summed along the last dimension, which `generate` visits innermost.
  llvm::SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, data->getTensorRank()));
  std::swap(permutation[*axis], permutation.back());
  HostTensor turned = data->transpose(permutation);
  llvm::SmallVector<bool> varies;
  for (int64_t dim = 0; dim < turned.getTensorRank(); ++dim)
    varies.push_back(turned.variesAlong(dim));
  varies.back() = true;
  int64_t size = turned.getShape().back();
  HostElement sum = HostElement::ofInteger(0);
  HostTensor::Shape at;
  std::optional<HostTensor> result =
      HostTensor::generate(turned.getElementType(), turned.getShape(), varies, [&](ArrayRef<int64_t> index) {
        at.assign(index.begin(), index.end());
        if (index.back() == 0)
          sum = real ? HostElement::ofReal(0) : HostElement::ofInteger(0);
        if (reverse)
          at.back() = size - 1 - index.back();
        HostElement element = turned.at(at), before = sum;
        sum = real ? HostElement::ofReal(sum.real + element.real)
                   : HostElement::ofInteger(static_cast<int64_t>(static_cast<uint64_t>(sum.integer) +
                                                                 static_cast<uint64_t>(element.integer)));
        return exclusive ? before : sum;
      });
  if (result && reverse && size > 0)
    result = result->slice(turned.getTensorRank() - 1, size - 1, size, -1);
  return finishConstant(node, result ? std::optional<HostTensor>(result->transpose(permutation)) : std::nullopt);
}

LogicalResult importTrilu(NodeImport &node) {
  const std::optional<HostTensor> &data = node.input(0).constant;
  int64_t tensorRank = node.shapeOf(0).size(), diagonal = 0;
  if (node.has(1)) {
    std::optional<llvm::SmallVector<int64_t>> offset = node.integers(1);
    if (!offset || offset->size() != 1)
      return failure();
    diagonal = std::clamp<int64_t>(offset->front(), -(int64_t(1) << 40), int64_t(1) << 40);
  }
  if (tensorRank < 2)
    return node.error() << "takes a triangle of " << node.input(0).type;
  bool upper = node.getInt("upper", 1) != 0;
  if (!data) {
    Expansion e(node);
    Binding row = e.iota(node.shapeOf(0)[tensorRank - 2], 0, 2), column = e.iota(node.shapeOf(0).back(), 1, 2);
    Binding kept = e(upper ? "GreaterOrEqual" : "LessOrEqual", {column, e.add(row, e.integer(diagonal))});
    return e.finish(e.where(kept, node.input(0), e.number(node.input(0), 0)));
  }
  llvm::SmallVector<bool> varies;
  for (int64_t dim = 0; dim < tensorRank; ++dim)
    varies.push_back(dim >= tensorRank - 2 || data->variesAlong(dim));
  HostElement zero = data->isReal() ? HostElement::ofReal(0) : HostElement::ofInteger(0);
  return finishConstant(
      node, HostTensor::generate(data->getElementType(), data->getShape(), varies, [&](ArrayRef<int64_t> index) {
        int64_t row = index[tensorRank - 2], column = index[tensorRank - 1];
        bool kept = upper ? column >= row + diagonal : column <= row + diagonal;
        return kept ? data->at(index) : zero;
      }));
}
} // namespace

void hyc::onnx::addIndexingOperators(OperatorTable &table) {
  table["Slice"] = {importSlice,
                    {tensor("data").orEmptyConstant(), list("starts").since(10), list("ends").since(10),
                     list("axes").optional(), list("steps").optional()}};
  table["Gather"] = {importGather, {tensor("data").ranks(1), tensor("indices").integer().orEmptyConstant()}};
  table["GatherND"] = {importGatherND, {tensor("data").ranks(1), tensor("indices").integer().ranks(1)}};
  table["Range"] = {importRange, {one("start"), one("limit"), one("delta")}};
  table["CumSum"] = {importCumSum, {tensor("x").ranks(1), one("axis").integer()}};
  table["Trilu"] = {importTrilu, {tensor("input").ranks(2).orEmptyConstant(), one("k").integer().optional()}};
}
