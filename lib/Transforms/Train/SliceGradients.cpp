// What slices of one value give it is joined row by row.
#include "SliceGradients.h"

#include "TrainingState.h"
#include "dialects/Hyc/DerivedOps.h"

#include <map>

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

/// The one dimension in which a pad's result is larger than its operand, if it keeps elements side by side there.
static std::optional<int64_t> paddedDim(PadOp pad) {
  ArrayRef<int64_t> part = tensorTypeOf(pad.getOperand()).getShape(), whole = tensorTypeOf(pad.getResult()).getShape();
  std::optional<int64_t> found;
  for (auto [dim, sizes] : llvm::enumerate(llvm::zip_equal(part, whole))) {
    if (std::get<0>(sizes) == std::get<1>(sizes))
      continue;
    if (found || pad.getStrides()[dim] != 1 || std::get<0>(sizes) == 0)
      return std::nullopt;
    found = static_cast<int64_t>(dim);
  }
  return found;
}

bool SliceGradients::collect(Value value, Value cotangent) {
  auto pad = cotangent.getDefiningOp<PadOp>();
  if (!pad || !pad->use_empty() || !paddedDim(pad))
    return false;
  pieces[value].push_back(pad);
  return true;
}

namespace {
/// Slices of one value along one dimension, none of which overlap, by where they begin.
struct Row {
  int64_t dim = 0;
  std::map<int64_t, PadOp> pads;

  /// Whether there is room for `pad`; then it is in the row.
  bool take(PadOp pad) {
    const int64_t begin = pad.getOffsets()[dim], end = endOf(pad);
    auto after = pads.lower_bound(begin);
    if (after != pads.end() && after->first < end)
      return false;
    if (after != pads.begin() && endOf(std::prev(after)->second) > begin)
      return false;
    pads.emplace_hint(after, begin, pad);
    return true;
  }

  int64_t endOf(PadOp pad) const { return pad.getOffsets()[dim] + tensorTypeOf(pad.getOperand()).getDimSize(dim); }
};
} // namespace

/// The concatenation of a row's slices, with zeros where none is.
static Value joinRow(Row &row, OpBuilder &builder) {
  PadOp first = row.pads.begin()->second;
  if (row.pads.size() == 1)
    return first.getResult();
  RankedTensorType whole = tensorTypeOf(first.getResult());
  DerivedOps b(builder, first, "");
  SmallVector<Value> parts;
  int64_t reached = 0;
  auto fill = [&](int64_t end) {
    if (end == reached)
      return;
    SmallVector<int64_t> shape(whole.getShape());
    shape[row.dim] = end - reached;
    parts.push_back(b.splat(".zero." + Twine(reached), RankedTensorType::get(shape, whole.getElementType()), 0));
  };
  for (auto &[begin, pad] : row.pads) {
    fill(begin);
    parts.push_back(pad.getOperand());
    reached = row.endOf(pad);
  }
  fill(whole.getDimSize(row.dim));
  auto joined = ConcatOp::create(builder, first.getLoc(), whole, parts, row.dim);
  setId(joined, getId(first));
  if (llvm::all_of(row.pads, [](auto &entry) { return entry.second->hasAttr(kWide); }))
    joined->setAttr(kWide, builder.getUnitAttr());
  return joined;
}

SmallVector<Value> SliceGradients::join(Value value, OpBuilder &builder) {
  auto found = pieces.find(value);
  if (found == pieces.end())
    return {};
  SmallVector<Row> rows;
  for (PadOp pad : found->second) {
    const int64_t dim = *paddedDim(pad);
    if (llvm::any_of(rows, [&](Row &row) { return row.dim == dim && row.take(pad); }))
      continue;
    rows.push_back({dim, {}});
    rows.back().take(pad);
  }
  pieces.erase(found);
  SmallVector<Value> joined;
  for (Row &row : rows)
    joined.push_back(joinRow(row, builder));
  return joined;
}
