// Matrix products: the letters of an einsum grouped into batch, m, n and k, as strides allow.
#include "FunctionLowering.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace hyc;

namespace {

/// The letters of one tensor with the size and stride of each.
class LetterStrides {
public:
  LetterStrides(StringRef letters, rank::BufferType type)
      : letters(letters), sizes(type.getShape()), strides(type.getStridesOrDense()) {}

  int64_t size(char letter) const { return sizes[letters.find(letter)]; }
  int64_t stride(char letter) const { return strides[letters.find(letter)]; }

  /// The stride of a group of letters stepped through as one dimension; nothing if they are not contiguous. Letters of
  /// size 1 must have been left out.
  std::optional<int64_t> groupStride(StringRef group) const {
    for (size_t i = 0; i + 1 < group.size(); ++i)
      if (stride(group[i]) != stride(group[i + 1]) * size(group[i + 1]))
        return std::nullopt;
    return group.empty() ? 1 : stride(group.back());
  }

private:
  StringRef letters;
  ArrayRef<int64_t> sizes;
  SmallVector<int64_t> strides;
};

/// How a rows × cols matrix lies in memory.
struct MatrixLayout {
  bool transposed = false;
  int64_t leading = 0;
  int64_t batchStride = 0;
};

std::optional<MatrixLayout> matrixLayout(const LetterStrides &tensor, StringRef batch, StringRef rowLetters,
                                         StringRef colLetters, int64_t rows, int64_t cols) {
  auto batchStride = tensor.groupStride(batch), row = tensor.groupStride(rowLetters),
       col = tensor.groupStride(colLetters);
  if (!batchStride || !row || !col)
    return std::nullopt;
  MatrixLayout layout;
  layout.batchStride = batch.empty() ? 0 : *batchStride;
  if ((colLetters.empty() || *col == 1) && (rowLetters.empty() || *row >= cols)) {
    layout.leading = rowLetters.empty() ? cols : *row;
    return layout;
  }
  if ((rowLetters.empty() || *row == 1) && (colLetters.empty() || *col >= rows)) {
    layout.transposed = true;
    layout.leading = colLetters.empty() ? rows : *col;
    return layout;
  }
  return std::nullopt;
}

struct Groups {
  std::string batch, m, n, k;
  int64_t batchSize = 1, mSize = 1, nSize = 1, kSize = 1;
};

Groups groupLetters(StringRef lhs, StringRef rhs, StringRef result, const LetterStrides &left,
                    const LetterStrides &right) {
  Groups groups;
  auto add = [](std::string &group, int64_t &total, char letter, int64_t size) {
    total *= size;
    if (size != 1)
      group += letter;
  };
  for (char letter : result) {
    bool inLhs = lhs.contains(letter), inRhs = rhs.contains(letter);
    int64_t size = inLhs ? left.size(letter) : right.size(letter);
    if (inLhs && inRhs)
      add(groups.batch, groups.batchSize, letter, size);
    else if (inLhs)
      add(groups.m, groups.mSize, letter, size);
    else
      add(groups.n, groups.nSize, letter, size);
  }
  for (char letter : lhs)
    if (!result.contains(letter))
      add(groups.k, groups.kSize, letter, left.size(letter));
  return groups;
}

} // namespace

/// A dense copy whose dimensions stand in `order`; letters of size 1 that it leaves out are dropped.
Value FunctionLowering::permuted(Value buffer, StringRef letters, StringRef order, StringRef id) {
  auto type = cast<rank::BufferType>(buffer.getType());
  LetterStrides tensor(letters, type);
  SmallVector<int64_t> shape, strides;
  for (char letter : order) {
    shape.push_back(tensor.size(letter));
    strides.push_back(tensor.stride(letter));
  }
  Value dense = allocate(rank::BufferType::get(type.getContext(), shape, type.getElementType(), {}), rank::kActivations,
                         buffer.getLoc(), id);
  copy(dense, view(buffer, 0, type.withLayout(shape, strides)), id);
  return dense;
}

/// Puts the dense `from`, whose dimensions stand in `order`, where the result of `op` lies, in the result's own order.
void FunctionLowering::storeOrdered(Operation *op, Value from, StringRef order, StringRef letters,
                                    const Destination &to) {
  auto type = cast<rank::BufferType>(to.buffer.getType());
  LetterStrides ownOrder(letters, type);
  SmallVector<int64_t> shape, strides;
  for (char letter : order) {
    shape.push_back(ownOrder.size(letter));
    strides.push_back(ownOrder.stride(letter));
  }
  StringRef id = getId(op);
  if (to.mode == rank::WriteMode::overwrite)
    return copy(view(to.buffer, 0, type.withLayout(shape, strides)), from, id);
  Value dense = allocate(type, rank::kActivations, op->getLoc(), id);
  copy(view(dense, 0, type.withLayout(shape, strides)), from, id);
  call(op, "accumulate", to.buffer, dense, {}, to.mode);
}

LogicalResult FunctionLowering::lowerProduct(Operation *op, StringRef spec, Value lhs, Value rhs, Value bias) {
  Value result = op->getResult(0);
  auto resultType = cast<RankedTensorType>(result.getType());
  Type element = typeOf(lhs).getElementType();
  if (!element.isF32() && !isNarrowFloat(element))
    return op->emitOpError("has no kernel on this target: a product of ")
           << element << ", expected f32, bf16, f16, f8E4M3FN or f8E5M2";
  auto [lhsLetters, rhsLetters, resultLetters] = *EinsumOp::parseSpec(spec);
  StringRef id = getId(op);
  Groups groups =
      groupLetters(lhsLetters, rhsLetters, resultLetters, {lhsLetters, typeOf(lhs)}, {rhsLetters, typeOf(rhs)});

  auto operand = [&](Value tensor, StringRef letters, StringRef rows, StringRef cols, int64_t rowSize, int64_t colSize,
                     Value &buffer) {
    buffer = bufferOf(tensor);
    if (auto layout = matrixLayout({letters, typeOf(tensor)}, groups.batch, rows, cols, rowSize, colSize))
      return *layout;
    std::string order = (Twine(groups.batch) + rows + cols).str();
    buffer = permuted(buffer, letters, order, id);
    return *matrixLayout({order, cast<rank::BufferType>(buffer.getType())}, groups.batch, rows, cols, rowSize, colSize);
  };
  Value a, b;
  MatrixLayout layoutA = operand(lhs, lhsLetters, groups.m, groups.k, groups.mSize, groups.kSize, a);
  MatrixLayout layoutB = operand(rhs, rhsLetters, groups.k, groups.n, groups.kSize, groups.nSize, b);

  Destination to = accumulationOrDestination(result, Layout::Strided);
  Value c = to.buffer;
  auto layoutC = matrixLayout({resultLetters, cast<rank::BufferType>(c.getType())}, groups.batch, groups.m, groups.n,
                              groups.mSize, groups.nSize);
  std::string order = groups.batch + groups.m + groups.n;
  bool viaTemporary = !layoutC || (layoutC->transposed && bias);
  if (viaTemporary) {
    SmallVector<int64_t> shape;
    LetterStrides letters(resultLetters, cast<rank::BufferType>(c.getType()));
    for (char letter : order)
      shape.push_back(letters.size(letter));
    c = allocate(rank::BufferType::get(op->getContext(), shape, resultType.getElementType(), {}), rank::kActivations,
                 op->getLoc(), id);
    layoutC = matrixLayout({order, cast<rank::BufferType>(c.getType())}, groups.batch, groups.m, groups.n, groups.mSize,
                           groups.nSize);
  }
  int64_t m = groups.mSize, n = groups.nSize;
  if (layoutC->transposed) { // cᵀ = bᵀ·aᵀ
    std::swap(a, b);
    std::swap(layoutA, layoutB);
    std::swap(m, n);
    layoutA.transposed = !layoutA.transposed;
    layoutB.transposed = !layoutB.transposed;
  }
  auto gemm = rank::GemmOp::create(builder, op->getLoc(), c, a, b, bias ? denseBufferOf(bias) : Value(), m, n,
                                   groups.kSize, layoutA.leading, layoutB.leading, layoutC->leading, layoutA.transposed,
                                   layoutB.transposed, groups.batchSize, layoutA.batchStride, layoutB.batchStride,
                                   layoutC->batchStride, viaTemporary ? rank::WriteMode::overwrite : to.mode);
  if (!id.empty())
    setId(gemm, id);
  if (viaTemporary)
    storeOrdered(op, c, order, resultLetters, to);
  buffers[result] = to.buffer;
  return success();
}

template <> LogicalResult FunctionLowering::lower(EinsumOp op) {
  return lowerProduct(op, op.getSpec(), op.getLhs(), op.getRhs(), Value());
}

template <> LogicalResult FunctionLowering::lower(rank::LinearOp op) {
  return lowerProduct(op, op.getSpec(), op.getLhs(), op.getRhs(), op.getBias());
}

void hyc::addProductLowerings(LoweringTable &table) {
  table.add<EinsumOp, rank::LinearOp>();
  table.of<EinsumOp>().takesPaddedRows = [](OpOperand &) { return true; };
  table.of<rank::LinearOp>().takesPaddedRows = [](OpOperand &) { return true; };
}
