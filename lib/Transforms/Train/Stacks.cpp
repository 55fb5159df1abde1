// Stacks: found by what their parts are but for dimensions of size 1.
#include "Stacks.h"

#include "TrainingState.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

static SmallVector<int64_t> withoutOnes(ArrayRef<int64_t> shape) {
  return llvm::to_vector(llvm::make_filter_range(shape, [](int64_t size) { return size != 1; }));
}

/// What a value is but for dimensions of size 1.
static Value withoutReshapes(Value value) {
  for (auto reshape = value.getDefiningOp<ReshapeOp>(); reshape; reshape = value.getDefiningOp<ReshapeOp>()) {
    if (withoutOnes(tensorTypeOf(reshape.getOperand()).getShape()) != withoutOnes(tensorTypeOf(value).getShape()))
      break;
    value = reshape.getOperand();
  }
  return value;
}

Stacks::Stacks(FuncOp function, OpIds &ids) : ids(ids) {
  for (auto concat : function.getBody().front().getOps<ConcatOp>())
    note(concat);
}

void Stacks::note(ConcatOp concat) {
  for (auto [index, part] : llvm::enumerate(concat.getParts()))
    if (tensorTypeOf(part).getDimSize(concat.getDim()) == 1)
      places[withoutReshapes(part)].push_back({concat, static_cast<int64_t>(index)});
}

std::optional<Stack> Stacks::find(ArrayRef<Value> values) const {
  auto found = places.find(withoutReshapes(values.front()));
  if (found == places.end())
    return std::nullopt;
  for (const Place &place : found->second) {
    OperandRange parts = ConcatOp(place.concat).getParts();
    const int64_t dim = ConcatOp(place.concat).getDim();
    if (place.index + values.size() > parts.size())
      continue;
    auto isThere = [&](auto entry) {
      Value part = parts[place.index + entry.index()];
      return tensorTypeOf(part).getDimSize(dim) == 1 && withoutReshapes(part) == withoutReshapes(entry.value());
    };
    // Only rows before them: elsewhere a part's number is not where it begins.
    auto isRow = [&](Value part) { return tensorTypeOf(part).getDimSize(dim) == 1; };
    if (llvm::all_of(llvm::enumerate(values), isThere) && llvm::all_of(parts.take_front(place.index), isRow))
      return Stack{place.concat, place.index};
  }
  return std::nullopt;
}

StackedValue Stacks::read(ArrayRef<Value> values, const std::optional<Stack> &stack, DerivedOps &ops,
                          StringRef suffix) {
  auto made = [&](auto op) {
    setId(op, ids.claim(getId(op)));
    op->setAttr(kBackward, UnitAttr::get(op->getContext()));
    return op;
  };
  const auto count = static_cast<int64_t>(values.size());
  RankedTensorType type = tensorTypeOf(values.front());
  SmallVector<int64_t> shape = withoutOnes(type.getShape());
  if (!stack) {
    SmallVector<int64_t> row{1};
    llvm::append_range(row, shape);
    RankedTensorType rowType = RankedTensorType::get(row, type.getElementType());
    SmallVector<Value> rows;
    for (Value value : values)
      rows.push_back(value.getType() == rowType ? value : made(ops.create<ReshapeOp>(suffix + ".row", rowType, value)));
    row.front() = count;
    auto concat = made(ops.create<ConcatOp>(suffix, RankedTensorType::get(row, type.getElementType()), rows, 0));
    note(concat);
    return {concat, 0};
  }
  ConcatOp concat = stack->concat;
  Value whole = concat.getResult();
  const int64_t dim = concat.getDim();
  SmallVector<int64_t> sizes(tensorTypeOf(whole).getShape()), offsets(sizes.size(), 0), strides(sizes.size(), 1);
  if (sizes[dim] != count) {
    sizes[dim] = count;
    offsets[dim] = stack->first;
    whole =
        made(ops.create<SliceOp>(suffix, RankedTensorType::get(sizes, type.getElementType()), whole, offsets, strides));
  }
  const auto before = withoutOnes(ArrayRef<int64_t>(sizes).take_front(dim)).size();
  shape.insert(shape.begin() + before, count);
  RankedTensorType narrow = RankedTensorType::get(shape, type.getElementType());
  if (whole.getType() != narrow)
    whole = made(ops.create<ReshapeOp>(suffix + ".narrow", narrow, whole));
  return {whole, static_cast<int64_t>(before)};
}
