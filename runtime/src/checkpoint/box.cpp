// Rectangles of runs: each run is cut at its tensor's rows, and pieces that continue each other are joined.
#include "checkpoint/box.h"

#include <tuple>

namespace hycrt {
namespace {

constexpr size_t kOpenBoxes = 16;  // that a new piece is compared with at once

bool equalBut(const Box& a, const Box& b, int dim) {
  for (int d = 0; d < a.size.size; ++d) {
    if (d != dim && (a.offset[d] != b.offset[d] || a.size[d] != b.size[d])) return false;
  }
  return true;
}

// Makes `a` both where b follows it along `dim`.
bool joinAlong(Box* a, const Box& b, int dim) {
  if (a->offset[dim] + a->size[dim] != b.offset[dim] || !equalBut(*a, b, dim)) return false;
  a->size.items[dim] += b.size[dim];
  return true;
}

void add(const Box& box, std::vector<Box>* boxes) {
  const size_t first = boxes->size() > kOpenBoxes ? boxes->size() - kOpenBoxes : 0;
  for (size_t i = boxes->size(); i > first; --i) {
    for (int dim = 0; dim < box.size.size; ++dim) {
      if (joinAlong(&(*boxes)[i - 1], box, dim)) return;
    }
  }
  boxes->push_back(box);
}

void addRange(const Shape& shape, int64_t begin, int64_t end, std::vector<Box>* boxes) {
  int64_t stride[kMaxRank + 1] = {};
  stride[shape.size] = 1;
  for (int dim = shape.size - 1; dim >= 0; --dim) stride[dim] = stride[dim + 1] * shape[dim];
  while (begin < end) {
    // The outermost dimension of which something fits as a whole.
    int dim = 0;
    while (dim + 1 < shape.size && (begin % stride[dim + 1] != 0 || stride[dim + 1] > end - begin)) ++dim;
    Box box{shape, shape};
    for (int d = 0; d < shape.size; ++d) {
      box.offset.items[d] = d <= dim ? begin / stride[d + 1] % shape[d] : 0;
      if (d < dim) box.size.items[d] = 1;
    }
    int64_t taken = 1;
    if (shape.size > 0) {
      const int64_t count = std::min((end - begin) / stride[dim + 1], shape[dim] - box.offset[dim]);
      box.size.items[dim] = count;
      taken = count * stride[dim + 1];
    }
    add(box, boxes);
    begin += taken;
  }
}

bool isBefore(const Shape& a, const Shape& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

// Those that are alike but for `dim` become neighbours in the list.
void joinAll(int dim, std::vector<Box>* boxes) {
  const auto key = [dim](const Box& box) {
    Box other = box;
    other.offset.items[dim] = other.size.items[dim] = 0;
    return other;
  };
  std::sort(boxes->begin(), boxes->end(), [&](const Box& a, const Box& b) {
    const Box ka = key(a), kb = key(b);
    if (isBefore(ka.offset, kb.offset) || isBefore(kb.offset, ka.offset)) return isBefore(ka.offset, kb.offset);
    if (isBefore(ka.size, kb.size) || isBefore(kb.size, ka.size)) return isBefore(ka.size, kb.size);
    return a.offset[dim] < b.offset[dim];
  });
  std::vector<Box> joined;
  for (const Box& box : *boxes) {
    if (joined.empty() || !joinAlong(&joined.back(), box, dim)) joined.push_back(box);
  }
  *boxes = std::move(joined);
}

}  // namespace

std::vector<Box> boxesOf(const ShardLayout& layout, const Shape& shape) {
  std::vector<Box> boxes;
  layout.forEachRun([&](const ElementRun& run) {
    addRange(shape, run.global, run.global + run.count, &boxes);
    return true;
  });
  for (int dim = shape.size - 1; dim >= 0 && boxes.size() > 1; --dim) joinAll(dim, &boxes);
  std::sort(boxes.begin(), boxes.end(), [](const Box& a, const Box& b) { return isBefore(a.offset, b.offset); });
  return boxes;
}

BoxRows::BoxRows(const Box& box, const Shape& shape) : box_(box) {
  int64_t stride = 1;
  for (int dim = shape.size - 1; dim >= 0; --dim) {
    stride_[dim] = stride;
    stride *= shape[dim];
    elements_ *= box.size[dim];
  }
  outerDims_ = shape.size;
  while (outerDims_ > 0) {
    --outerDims_;
    runLength_ *= box.size[outerDims_];
    if (box.size[outerDims_] != shape[outerDims_]) break;
  }
}

BoxRow BoxRows::rowFrom(int64_t element) const {
  const int64_t inside = element % runLength_;
  int64_t row = element / runLength_, global = inside;
  for (int dim = outerDims_ - 1; dim >= 0; --dim) {
    global += (box_.offset[dim] + row % box_.size[dim]) * stride_[dim];
    row /= box_.size[dim];
  }
  if (outerDims_ < box_.size.size) global += box_.offset[outerDims_] * stride_[outerDims_];
  return {element, global, runLength_ - inside};
}

}  // namespace hycrt
