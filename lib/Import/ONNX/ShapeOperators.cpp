// Operators that only rearrange, and those that make tensors out of shapes.
#include "Importer.h"
#include "llvm/ADT/STLExtras.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::ArrayRef;

namespace {
LogicalResult importConstant(NodeImport &node) {
  Importer &importer = node.importer();
  Builder &builder = importer.getBuilder();
  auto finish = [&](std::optional<HostTensor> tensor) {
    return node.finish(tensor ? std::optional<Binding>(importer.ofConstant(*tensor)) : std::nullopt);
  };
  if (const onnxfile::Attribute *value = node.find("value"); value && value->has_t())
    return finish(importer.getFile().readTensor(value->t()));
  if (node.find("value_int"))
    return finish(HostTensor::splat(builder.getI64Type(), {}, HostElement::ofInteger(node.getInt("value_int", 0))));
  if (node.find("value_float"))
    return finish(HostTensor::splat(builder.getF32Type(), {}, HostElement::ofReal(node.getFloat("value_float", 0))));
  if (std::optional<llvm::SmallVector<int64_t>> values = node.getInts("value_ints"))
    return finish(HostTensor::fromIntegers(builder.getI64Type(), *values));
  if (const onnxfile::Attribute *list = node.find("value_floats")) {
    std::vector<HostElement> values;
    for (float value : list->floats())
      values.push_back(HostElement::ofReal(value));
    return finish(HostTensor::fromElements(builder.getF32Type(), {list->floats_size()}, std::move(values)));
  }
  return node.error() << "has no tensor, number or list of numbers as its value";
}

/// A shape that an input gives: not negative, and its product countable.
std::optional<llvm::SmallVector<int64_t>> getTargetShape(NodeImport &node, int index) {
  std::optional<llvm::SmallVector<int64_t>> shape = node.integers(index);
  if (shape && !countElements(*shape)) {
    node.error() << "asks for a shape with a negative dimension, or of more elements than 63 bits can count";
    return std::nullopt;
  }
  return shape;
}

LogicalResult importConstantOfShape(NodeImport &node) {
  std::optional<llvm::SmallVector<int64_t>> shape = getTargetShape(node, 0);
  if (!shape)
    return failure();
  Type type = node.importer().getBuilder().getF32Type();
  HostElement element = HostElement::ofReal(0);
  if (const onnxfile::Attribute *value = node.find("value"); value && value->has_t()) {
    std::optional<HostTensor> tensor = node.importer().getFile().readTensor(value->t());
    if (!tensor || tensor->getNumElements() != 1)
      return node.error() << "has a value that is not one number";
    type = tensor->getElementType();
    element = tensor->atFlat(0);
  }
  return node.finish(node.importer().ofConstant(HostTensor::splat(type, *shape, element)));
}

LogicalResult importShape(NodeImport &node) {
  ArrayRef<int64_t> shape = node.shapeOf(0);
  int64_t tensorRank = shape.size();
  auto clamp = [&](int64_t position) {
    return std::clamp<int64_t>(position < 0 ? position + tensorRank : position, 0, tensorRank);
  };
  int64_t start = clamp(node.getInt("start", 0)), end = std::max(start, clamp(node.getInt("end", tensorRank)));
  return node.finish(node.importer().ofConstant(
      HostTensor::fromIntegers(node.importer().getBuilder().getI64Type(), shape.slice(start, end - start))));
}

LogicalResult importSize(NodeImport &node) {
  int64_t count = *countElements(node.shapeOf(0));
  return node.finish(node.importer().ofConstant(
      HostTensor::splat(node.importer().getBuilder().getI64Type(), {}, HostElement::ofInteger(count))));
}

LogicalResult importReshape(NodeImport &node) {
  std::optional<llvm::SmallVector<int64_t>> wanted = node.integers(1);
  if (!wanted)
    return failure();
  ArrayRef<int64_t> from = node.shapeOf(0);
  llvm::SmallVector<int64_t> shape(*wanted);
  bool zeroCopies = node.getInt("allowzero", 0) == 0;
  int64_t known = 1, open = -1, count = *countElements(from);
  auto mismatch = [&]() -> LogicalResult {
    return node.error() << "cannot give " << node.input(0).type << " the shape " << describeList(*wanted)
                        << ": expected " << count << " elements, with at most one size -1 that follows from the others";
  };
  for (auto [index, size] : llvm::enumerate(shape)) {
    if (size == 0 && zeroCopies) {
      if (index >= from.size())
        return mismatch();
      size = from[index];
    }
    if (size == -1 && open < 0)
      open = static_cast<int64_t>(index);
    else if (size < 0 || llvm::MulOverflow(known, size, known))
      return mismatch();
  }
  if (open >= 0)
    shape[open] = known == 0 ? 0 : count / known;
  if (std::optional<int64_t> total = countElements(shape); !total || *total != count)
    return mismatch();
  return node.finish(node.importer().reshape(node.input(0), shape));
}

LogicalResult importFlatten(NodeImport &node) {
  ArrayRef<int64_t> from = node.shapeOf(0);
  int64_t tensorRank = from.size(), axis = node.getInt("axis", 1);
  if (axis < -tensorRank || axis > tensorRank)
    return node.error() << "names dimension " << axis << " of a tensor with " << tensorRank << " dimensions";
  axis = axis < 0 ? axis + tensorRank : axis;
  return node.finish(node.importer().reshape(
      node.input(0), {*countElements(from.take_front(axis)), *countElements(from.drop_front(axis))}));
}

/// The axes of Squeeze and Unsqueeze: an attribute before operator set 13, an input since.
bool hasAxes(NodeImport &node) { return node.opset() < 13 ? node.hasAttribute("axes") : node.has(1); }
std::optional<llvm::SmallVector<int64_t>> getAxes(NodeImport &node) {
  return node.opset() < 13 ? node.getInts("axes") : node.integers(1);
}

LogicalResult importSqueeze(NodeImport &node) {
  ArrayRef<int64_t> from = node.shapeOf(0);
  llvm::SmallVector<bool> drop(from.size());
  if (hasAxes(node)) {
    std::optional<llvm::SmallVector<int64_t>> axes = getAxes(node);
    if (axes)
      axes = node.normalizeAxes(*axes, from.size());
    if (!axes)
      return failure();
    for (int64_t axis : *axes) {
      if (from[axis] != 1)
        return node.error() << "removes dimension " << axis << " of " << node.input(0).type
                            << ", which is not of size 1";
      drop[axis] = true;
    }
  } else {
    for (size_t dim = 0; dim < from.size(); ++dim)
      drop[dim] = from[dim] == 1;
  }
  llvm::SmallVector<int64_t> shape;
  for (size_t dim = 0; dim < from.size(); ++dim)
    if (!drop[dim])
      shape.push_back(from[dim]);
  return node.finish(node.importer().reshape(node.input(0), shape));
}

LogicalResult importUnsqueeze(NodeImport &node) {
  if (!hasAxes(node))
    return node.error() << "names no dimensions to add, expected its axes";
  std::optional<llvm::SmallVector<int64_t>> axes = getAxes(node);
  if (axes)
    axes = node.normalizeAxes(*axes, node.shapeOf(0).size() + axes->size());
  if (!axes)
    return failure();
  llvm::SmallVector<int64_t> shape(node.shapeOf(0));
  llvm::sort(*axes);
  for (int64_t axis : *axes)
    shape.insert(shape.begin() + axis, 1);
  return node.finish(node.importer().reshape(node.input(0), shape));
}

LogicalResult importTranspose(NodeImport &node) {
  int64_t tensorRank = node.shapeOf(0).size();
  std::optional<llvm::SmallVector<int64_t>> permutation = node.getInts("perm");
  if (!permutation)
    permutation = llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(0, tensorRank)));
  llvm::SmallVector<int64_t> sorted(*permutation);
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(0, tensorRank)))
    return node.error() << "has the 'perm' " << describeList(*permutation) << ", expected each of the " << tensorRank
                        << " dimensions once";
  return node.finish(node.importer().transpose(node.input(0), *permutation));
}

LogicalResult importExpand(NodeImport &node) {
  std::optional<llvm::SmallVector<int64_t>> target = getTargetShape(node, 1);
  if (!target)
    return failure();
  std::optional<HostTensor::Shape> shape = broadcastShapes(node.shapeOf(0), *target);
  if (!shape || !countElements(*shape))
    return node.error() << "cannot repeat " << node.input(0).type << " to the shape " << describeList(*target)
                        << ": expected the same size or 1 on either side, and a result that 63 bits can count";
  return node.finish(node.importer().broadcast(node.input(0), *shape));
}

LogicalResult importConcat(NodeImport &node) {
  if (node.opset() >= 4 && !node.hasAttribute("axis"))
    return node.error() << "has no attribute 'axis', expected the dimension along which it joins";
  std::optional<int64_t> axis = node.normalizeAxis(node.getInt("axis", 0), node.shapeOf(0).size());
  if (!axis)
    return failure();
  llvm::SmallVector<Binding> operands;
  int64_t total = 0;
  for (int i = 0; i < node.inputCount(); ++i) {
    llvm::SmallVector<int64_t> expected(node.shapeOf(0)), actual(node.shapeOf(i));
    bool sameRank = expected.size() == actual.size();
    if (sameRank) {
      if (llvm::AddOverflow(total, actual[*axis], total))
        return node.error() << "has a result of more elements than 63 bits can count";
      expected[*axis] = actual[*axis];
    }
    if (!sameRank || expected != actual || node.input(i).type.getElementType() != node.input(0).type.getElementType())
      return node.error() << "joins " << node.input(0).type << " and " << node.input(i).type << " along dimension "
                          << *axis << ", expected the same sizes in all others, and one element type";
    operands.push_back(node.input(i));
  }
  // What is empty adds nothing.
  llvm::erase_if(operands, [&](const Binding &operand) { return total > 0 && operand.type.getDimSize(*axis) == 0; });
  return node.finish(node.importer().concat(operands, *axis));
}

} // namespace

std::optional<llvm::SmallVector<int64_t>> hyc::onnx::getSplitSizes(NodeImport &node, int64_t size, int64_t parts) {
  llvm::SmallVector<int64_t> sizes;
  if (node.has(1) || node.hasAttribute("split")) {
    std::optional<llvm::SmallVector<int64_t>> given = node.has(1) ? node.integers(1) : node.getInts("split");
    if (!given)
      return std::nullopt;
    sizes = *given;
  } else {
    int64_t part = llvm::divideCeil(size, std::max<int64_t>(parts, 1));
    for (int64_t i = 0, left = size; i < parts; ++i, left -= sizes.back())
      sizes.push_back(std::min(part, left));
  }
  int64_t sum = 0;
  bool good = true;
  for (int64_t part : sizes)
    good &= part >= 0 && !llvm::AddOverflow(sum, part, sum);
  if (!good || sum != size) {
    node.error() << "splits a dimension of size " << size << " into parts of " << describeList(sizes)
                 << ", expected sizes that add up to it";
    return std::nullopt;
  }
  return sizes;
}

std::vector<std::optional<Binding>> hyc::onnx::splitInto(NodeImport &node, int64_t axis, ArrayRef<int64_t> sizes) {
  Importer &importer = node.importer();
  std::vector<std::optional<Binding>> parts;
  Binding &operand = node.input(0);
  if (!operand.constant && sizes.size() > 1) {
    llvm::SmallVector<Type> types;
    for (int64_t size : sizes) {
      llvm::SmallVector<int64_t> shape(operand.type.getShape());
      shape[axis] = size;
      types.push_back(RankedTensorType::get(shape, operand.type.getElementType()));
    }
    Builder &builder = importer.getBuilder();
    Value first =
        importer.emit<SplitOp>(TypeRange(types), importer.materialise(operand), builder.getI64IntegerAttr(axis));
    for (Value part : first.getDefiningOp()->getResults())
      parts.push_back(importer.ofValue(part));
    return parts;
  }
  int64_t offset = 0;
  for (int64_t size : sizes) {
    parts.push_back(importer.slice(operand, axis, offset, size, 1));
    offset += size;
  }
  return parts;
}

namespace {
LogicalResult importSplit(NodeImport &node) {
  std::optional<int64_t> axis = node.normalizeAxis(node.getInt("axis", 0), node.shapeOf(0).size());
  int64_t parts = node.getInt("num_outputs", node.outputCount());
  if (!axis || parts != node.outputCount())
    return axis ? node.error() << "names " << parts << " parts but has " << node.outputCount() << " results"
                : failure();
  std::optional<llvm::SmallVector<int64_t>> sizes = getSplitSizes(node, node.shapeOf(0)[*axis], parts);
  if (!sizes)
    return failure();
  if (static_cast<int64_t>(sizes->size()) != parts)
    return node.error() << "names the sizes of " << sizes->size() << " parts but has " << parts << " results";
  return node.finish(splitInto(node, *axis, *sizes));
}
} // namespace

void hyc::onnx::addShapeOperators(OperatorTable &table) {
  table["Constant"] = {importConstant, {}};
  table["ConstantOfShape"] = {importConstantOfShape, {list("input")}};
  table["Shape"] = {importShape, {tensor("data").orEmpty()}};
  table["Size"] = {importSize, {tensor("data").orEmpty()}};
  table["Reshape"] = {importReshape, {tensor("data").orEmptyConstant(), list("shape")}};
  table["Flatten"] = {importFlatten, {tensor("input")}};
  table["Squeeze"] = {importSqueeze, {tensor("data").orEmptyConstant(), list("axes").optional()}};
  table["Unsqueeze"] = {importUnsqueeze, {tensor("data").orEmptyConstant(), list("axes").optional()}};
  table["Transpose"] = {importTranspose, {tensor("data").orEmptyConstant()}};
  table["Expand"] = {importExpand, {tensor("input").orEmptyConstant(), list("shape")}};
  table["Concat"] = {importConcat, OperandRules::many(tensor("inputs").ranks(1).orEmpty())};
  table["Split"] = {importSplit, {tensor("input").ranks(1).orEmpty(), list("split").optional()}};
}
