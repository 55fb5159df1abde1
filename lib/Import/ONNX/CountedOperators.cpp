// Operators whose results have as many elements as values ask for: what they are given has to be known when compiling.
#include "Expansion.h"

#include <map>

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::ArrayRef;

namespace {
/// Elements that are looked at one by one when compiling.
constexpr int64_t kMostCounted = int64_t(1) << 20;

/// An input that decides how many elements there will be.
const HostTensor *counted(NodeImport &node, int index) {
  if (const std::optional<HostTensor> &known = node.input(index).constant) {
    if (known->getNumElements() <= kMostCounted)
      return &*known;
    node.error() << "looks at the " << known->getNumElements() << " elements of input " << index
                 << ", expected at most " << kMostCounted;
    return nullptr;
  }
  node.error() << "has as many results as values of input " << index
               << " ask for, which are known only when it runs; make them constants, or write it with a mask (Where)";
  return nullptr;
}

/// A matrix of integers by rows.
Binding matrixOf(NodeImport &node, const std::vector<std::vector<int64_t>> &rows, int64_t columns) {
  std::vector<HostElement> elements;
  for (const std::vector<int64_t> &row : rows)
    for (int64_t value : row)
      elements.push_back(HostElement::ofInteger(value));
  Type i64 = node.importer().getBuilder().getI64Type();
  return node.importer().ofConstant(
      HostTensor::fromElements(i64, {static_cast<int64_t>(rows.size()), columns}, std::move(elements)));
}

bool isZero(const HostTensor &tensor, HostElement element) {
  return tensor.isReal() ? element.real == 0 : element.integer == 0;
}

/// (dimensions, found): where elements are not 0, in order.
LogicalResult importNonZero(NodeImport &node) {
  const HostTensor *x = counted(node, 0);
  if (!x)
    return failure();
  const int64_t tensorRank = x->getTensorRank();
  std::vector<std::vector<int64_t>> found(tensorRank);
  for (int64_t flat = 0, count = x->getNumElements(); flat < count; ++flat) {
    if (isZero(*x, x->atFlat(flat)))
      continue;
    int64_t rest = flat;
    for (int64_t dim = tensorRank; dim-- > 0; rest /= x->getShape()[dim])
      found[dim].push_back(rest % x->getShape()[dim]);
  }
  return node.finish(matrixOf(node, found, found.empty() ? 0 : static_cast<int64_t>(found.front().size())));
}

//===----------------------------------------------------------------------===//
// Unique
//===----------------------------------------------------------------------===//

/// Slices of a dimension, or single elements, that differ; in their order or that in which they are met.
class Distinct {
public:
  Distinct(const HostTensor &x, std::optional<int64_t> axis) : x(x), axis(axis) {
    count = axis ? x.getShape()[*axis] : x.getNumElements();
    for (int64_t i = 0; i < count; ++i)
      meet(i);
  }

  void sort() {
    std::vector<int64_t> order(first.size()), place(first.size());
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = static_cast<int64_t>(i);
    llvm::stable_sort(order, [&](int64_t a, int64_t b) { return keys[a] < keys[b]; });
    for (size_t i = 0; i < order.size(); ++i)
      place[order[i]] = static_cast<int64_t>(i);
    auto reordered = [&](const std::vector<int64_t> &values) {
      std::vector<int64_t> result;
      for (int64_t from : order)
        result.push_back(values[from]);
      return result;
    };
    first = reordered(first), times = reordered(times);
    for (int64_t &which : inverse)
      which = place[which];
  }

  std::vector<int64_t> first, inverse, times; ///< where each is met first, which one each is, and how often it is there

private:
  using Key = std::vector<double>;

  void meet(int64_t i) {
    Key key;
    if (axis) {
      HostTensor slice = x.slice(*axis, i, 1, 1);
      for (int64_t k = 0, e = slice.getNumElements(); k < e; ++k)
        key.push_back(valueOf(slice.atFlat(k)));
    } else {
      key.push_back(valueOf(x.atFlat(i)));
    }
    auto [known, isNew] = numbers.try_emplace(std::move(key), static_cast<int64_t>(first.size()));
    if (isNew) {
      keys.push_back(known->first);
      first.push_back(i);
      times.push_back(0);
    }
    ++times[known->second];
    inverse.push_back(known->second);
  }

  double valueOf(HostElement element) const { return x.isReal() ? element.real : static_cast<double>(element.integer); }

  const HostTensor &x;
  std::optional<int64_t> axis;
  int64_t count = 0;
  std::map<Key, int64_t> numbers;
  std::vector<Key> keys;
};

LogicalResult importUnique(NodeImport &node) {
  const HostTensor *x = counted(node, 0);
  if (!x)
    return failure();
  std::optional<int64_t> axis;
  if (node.hasAttribute("axis") && !(axis = node.normalizeAxis(node.getInt("axis", 0), x->getTensorRank())))
    return failure();
  Distinct distinct(*x, axis);
  if (node.getInt("sorted", 1) != 0)
    distinct.sort();
  Expansion e(node);
  auto list = [&](const std::vector<int64_t> &values) { return e.integers(ArrayRef<int64_t>(values)); };
  Binding data = axis ? node.input(0) : e.reshape(node.input(0), {x->getNumElements()});
  Binding values = e("Gather", {data, list(distinct.first)}, {{"axis", axis.value_or(0)}});
  return e.finish({values, list(distinct.first), list(distinct.inverse), list(distinct.times)});
}

//===----------------------------------------------------------------------===//
// NonMaxSuppression
//===----------------------------------------------------------------------===//

struct Box {
  double bottom, left, top, right;

  double area() const { return (top - bottom) * (right - left); }
  /// The share of what both cover that both have.
  double overlap(const Box &other) const {
    double height = std::min(top, other.top) - std::max(bottom, other.bottom),
           width = std::min(right, other.right) - std::max(left, other.left);
    double both = height > 0 && width > 0 ? height * width : 0, all = area() + other.area() - both;
    return all > 0 ? both / all : 0;
  }
};

Box boxOf(const HostTensor &boxes, int64_t batch, int64_t index, bool isCentred) {
  double values[4];
  for (int64_t i = 0; i < 4; ++i)
    values[i] = boxes.at({batch, index, i}).real;
  if (isCentred) // x, y, width, height
    return {values[1] - values[3] / 2, values[0] - values[2] / 2, values[1] + values[3] / 2, values[0] + values[2] / 2};
  return {std::min(values[0], values[2]), std::min(values[1], values[3]), std::max(values[0], values[2]),
          std::max(values[1], values[3])};
}

struct Suppression {
  int64_t most = 0;
  double overlap = 0;
  std::optional<double> score;
};

/// One number of an input, if it is given.
std::optional<double> numberOf(NodeImport &node, int index) {
  if (!node.has(index))
    return std::nullopt;
  const HostTensor *tensor = counted(node, index);
  if (!tensor || tensor->getNumElements() != 1)
    return std::nullopt;
  HostElement element = tensor->atFlat(0);
  return tensor->isReal() ? element.real : static_cast<double>(element.integer);
}

/// The best boxes of one class, none of which has too much in common with a better one.
void keepBest(const HostTensor &boxes, const HostTensor &scores, int64_t batch, int64_t cls, bool isCentred,
              const Suppression &limits, std::vector<std::vector<int64_t>> &kept) {
  std::vector<int64_t> order;
  auto scoreOf = [&](int64_t index) { return scores.at({batch, cls, index}).real; };
  for (int64_t i = 0; i < scores.getShape()[2]; ++i)
    if (!limits.score || scoreOf(i) > *limits.score)
      order.push_back(i);
  llvm::stable_sort(order, [&](int64_t a, int64_t b) { return scoreOf(a) > scoreOf(b); });
  std::vector<Box> chosen;
  for (int64_t index : order) {
    if (static_cast<int64_t>(chosen.size()) >= limits.most)
      return;
    Box box = boxOf(boxes, batch, index, isCentred);
    if (llvm::any_of(chosen, [&](const Box &better) { return better.overlap(box) > limits.overlap; }))
      continue;
    chosen.push_back(box);
    kept.push_back({batch, cls, index});
  }
}

LogicalResult importNonMaxSuppression(NodeImport &node) {
  const HostTensor *boxes = counted(node, 0), *scores = boxes ? counted(node, 1) : nullptr;
  if (!scores)
    return failure();
  ArrayRef<int64_t> b = boxes->getShape(), s = scores->getShape();
  if (b[2] != 4 || s[0] != b[0] || s[2] != b[1])
    return node.error() << "has boxes " << node.input(0).type << " with scores " << node.input(1).type
                        << ", expected four numbers a box, and for each class a score a box";
  constexpr int64_t kMostBoxes = 4096, kMostScores = int64_t(1) << 18; // each is compared with all that are kept
  if (b[1] > kMostBoxes || scores->getNumElements() > kMostScores)
    return node.error() << "compares " << b[1] << " boxes with one another, expected at most " << kMostBoxes << ", and "
                        << kMostScores << " scores";
  for (int index = 2; index < 5; ++index)
    if (node.has(index) && !counted(node, index))
      return failure();
  Suppression limits{static_cast<int64_t>(numberOf(node, 2).value_or(0)), numberOf(node, 3).value_or(0),
                     numberOf(node, 4)};
  std::vector<std::vector<int64_t>> kept;
  for (int64_t batch = 0; batch < b[0]; ++batch)
    for (int64_t cls = 0; cls < s[1]; ++cls)
      keepBest(*boxes, *scores, batch, cls, node.getInt("center_point_box", 0) != 0, limits, kept);
  return node.finish(matrixOf(node, kept, 3));
}
} // namespace

void hyc::onnx::addCountedOperators(OperatorTable &table) {
  table["NonZero"] = {importNonZero, {tensor("X").orEmptyConstant()}};
  table["Unique"] = {importUnique, {tensor("X")}};
  table["NonMaxSuppression"] = {importNonMaxSuppression,
                                {tensor("boxes").real().rank(3), tensor("scores").real().rank(3),
                                 one("max_output_boxes_per_class").integer().optional(),
                                 one("iou_threshold").real().optional(), one("score_threshold").real().optional()}};
}
