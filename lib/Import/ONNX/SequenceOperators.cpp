// Lists of tensors and optional values. They are gone once the model is imported: how many tensors a list has, and
// whether a value is there, is known when compiling.
#include "Expansion.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;

namespace {
constexpr int64_t kLongest = 4096; // lists

LogicalResult finishList(NodeImport &node, std::vector<Binding> tensors) {
  if (static_cast<int64_t>(tensors.size()) > kLongest)
    return node.error() << "makes a list of " << tensors.size() << " tensors, expected at most " << kLongest;
  Binding list;
  list.sequence = std::move(tensors);
  return node.finish(list);
}

LogicalResult importSplitToSequence(NodeImport &node) {
  std::optional<int64_t> axis = node.normalizeAxis(node.getInt("axis", 0), node.shapeOf(0).size());
  if (!axis)
    return failure();
  int64_t size = node.shapeOf(0)[*axis];
  llvm::SmallVector<int64_t> sizes;
  bool scalar = node.has(1) && node.input(1).type.getRank() == 0;
  if (scalar || !node.has(1)) {
    std::optional<llvm::SmallVector<int64_t>> part = node.has(1) ? node.integers(1) : llvm::SmallVector<int64_t>{1};
    if (!part)
      return failure();
    if (part->front() < 1 || size / part->front() > kLongest)
      return node.error() << "splits a dimension of size " << size << " into parts of size " << part->front();
    for (int64_t left = size; left > 0; left -= sizes.back())
      sizes.push_back(std::min(left, part->front()));
  } else {
    std::optional<llvm::SmallVector<int64_t>> given = getSplitSizes(node, size, 0);
    if (!given)
      return failure();
    sizes = *given;
  }
  const bool dropsDim = !node.has(1) && node.getInt("keepdims", 1) == 0;
  std::vector<Binding> tensors;
  for (std::optional<Binding> &part : splitInto(node, *axis, sizes)) {
    if (part && dropsDim) {
      llvm::SmallVector<int64_t> shape(part->type.getShape());
      shape.erase(shape.begin() + *axis);
      part = node.importer().reshape(*part, shape);
    }
    if (!part)
      return node.finish(std::nullopt);
    tensors.push_back(std::move(*part));
  }
  return finishList(node, std::move(tensors));
}

/// A place in the list that input 0 is, from the front; `isBehind` allows that after the last. Nothing, reported, where
/// it lies outside.
std::optional<int64_t> placeIn(NodeImport &node, int index, bool isBehind) {
  const HostTensor *position = node.constant(index);
  if (!position)
    return std::nullopt;
  const auto size = static_cast<int64_t>(node.input(0).sequence->size());
  int64_t place = position->getNumElements() == 1 && !position->isReal() ? position->atFlat(0).integer : size + 1;
  if (place >= -size && place < size + (isBehind ? 1 : 0))
    return place < 0 ? place + size : place;
  node.error() << "takes tensor " << place << " of a list of " << size << ", expected " << -size << " to "
               << size - (isBehind ? 0 : 1);
  return std::nullopt;
}

LogicalResult importSequenceAt(NodeImport &node) {
  std::optional<int64_t> place = placeIn(node, 1, false);
  return place ? node.finish((*node.input(0).sequence)[*place]) : failure();
}

LogicalResult importSequenceEmpty(NodeImport &node) { return finishList(node, {}); }

LogicalResult importSequenceConstruct(NodeImport &node) {
  std::vector<Binding> tensors;
  for (int i = 0; i < node.inputCount(); ++i)
    tensors.push_back(node.input(i));
  return finishList(node, std::move(tensors));
}

LogicalResult importSequenceInsert(NodeImport &node) {
  std::vector<Binding> tensors = *node.input(0).sequence;
  std::optional<int64_t> place = static_cast<int64_t>(tensors.size());
  if (node.has(2))
    place = placeIn(node, 2, true);
  if (!place)
    return failure();
  tensors.insert(tensors.begin() + *place, node.input(1));
  return finishList(node, std::move(tensors));
}

LogicalResult importSequenceErase(NodeImport &node) {
  std::vector<Binding> tensors = *node.input(0).sequence;
  if (tensors.empty())
    return node.error() << "takes a tensor away from a list that has none";
  std::optional<int64_t> place = static_cast<int64_t>(tensors.size()) - 1;
  if (node.has(1))
    place = placeIn(node, 1, false);
  if (!place)
    return failure();
  tensors.erase(tensors.begin() + *place);
  return finishList(node, std::move(tensors));
}

LogicalResult importSequenceLength(NodeImport &node) {
  Expansion e(node);
  return e.finish(e.integer(static_cast<int64_t>(node.input(0).sequence->size())));
}

LogicalResult importConcatFromSequence(NodeImport &node) {
  Expansion e(node);
  std::vector<Binding> tensors = *node.input(0).sequence;
  if (tensors.empty() || !node.hasAttribute("axis"))
    return node.error() << "joins " << tensors.size() << " tensors, expected at least one, and an axis";
  const bool isNew = node.getInt("new_axis", 0) != 0;
  std::optional<int64_t> axis =
      node.normalizeAxis(node.getInt("axis", 0), tensors.front().type.getRank() + (isNew ? 1 : 0));
  if (!axis)
    return failure();
  if (isNew)
    for (Binding &tensor : tensors)
      tensor = e("Unsqueeze", {tensor, e.integers({*axis})});
  return e.finish(e("Concat", tensors, {{"axis", *axis}}));
}

/// The value itself where there is one, else one that is not there.
LogicalResult importOptional(NodeImport &node) { return node.finish(node.has(0) ? node.input(0) : Binding()); }

LogicalResult importOptionalGetElement(NodeImport &node) {
  if (node.input(0).isAbsent())
    return node.error() << "takes an optional value that is not there";
  return node.finish(node.input(0));
}

LogicalResult importOptionalHasElement(NodeImport &node) {
  bool isThere = node.has(0) && !node.input(0).isAbsent();
  Builder &builder = node.importer().getBuilder();
  return node.finish(
      node.importer().ofConstant(HostTensor::splat(builder.getI1Type(), {}, HostElement::ofInteger(isThere ? 1 : 0))));
}
} // namespace

void hyc::onnx::addSequenceOperators(OperatorTable &table) {
  const OperandRule place = one("position").integer();
  table["SplitToSequence"] = {importSplitToSequence, {tensor("input").ranks(1), list("split").optional()}};
  table["SequenceAt"] = {importSequenceAt, {sequence("input_sequence"), place}};
  table["SequenceEmpty"] = {importSequenceEmpty, {}};
  table["SequenceConstruct"] = {importSequenceConstruct, OperandRules::many(tensor("inputs").orEmpty())};
  table["SequenceInsert"] = {importSequenceInsert,
                             {sequence("input_sequence"), tensor("tensor").orEmpty(), place.optional()}};
  table["SequenceErase"] = {importSequenceErase, {sequence("input_sequence"), place.optional()}};
  table["SequenceLength"] = {importSequenceLength, {sequence("input_sequence")}};
  table["ConcatFromSequence"] = {importConcatFromSequence, {sequence("input_sequence")}};
  table["Optional"] = {importOptional, {anything("input").optional()}};
  table["OptionalGetElement"] = {importOptionalGetElement, {anything("input")}};
  table["OptionalHasElement"] = {importOptionalHasElement, {anything("input").optional()}};
}
