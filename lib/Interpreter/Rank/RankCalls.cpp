// Addresses of operands, write modes, and matrix products.
#include "Rank/RankCalls.h"

#include "Values/Contraction.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

static rank::BufferType typeOf(Value buffer) { return cast<rank::BufferType>(buffer.getType()); }

Extent hyc::interpreter::shardRegion(Address address, rank::BufferType shard,
                                     const llvm::StringMap<AxisPosition> &axes) {
  int64_t coordinate = 0, size = shard.getNumElements(), whole = shard.getWholeElements();
  for (StringAttr axis : shard.getShardAxes().getAxes()) {
    AxisPosition position = axes.lookup(axis.getValue());
    coordinate = coordinate * position.size + position.coordinate;
  }
  int64_t begin = std::min(whole, coordinate * size);
  return Extent::dense(address.arena, address.offset + begin * shard.getElementBytes(), shard.getElementType(),
                       {std::min(size, whole - begin)});
}

Extent RankCall::regionOf(Value buffer) const {
  rank::BufferType type = typeOf(buffer);
  if (type.isShard())
    return shardRegion(addresses.lookup(buffer), type, axes);
  return stridedAt(buffer, type.getShape(), type.getStridesOrDense());
}

Extent RankCall::denseAt(Value buffer, ArrayRef<int64_t> shape) const {
  return stridedAt(buffer, shape, rowMajorStrides(shape));
}

Extent RankCall::stridedAt(Value buffer, ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) const {
  Address address = addresses.lookup(buffer);
  return {address.arena, address.offset, typeOf(buffer).getElementType(), SmallVector<int64_t>(shape),
          SmallVector<int64_t>(strides)};
}

ElementKind RankCall::kindOf(Value buffer) const { return *elementKind(typeOf(buffer).getElementType(), arithmetic); }

/// total += term, in the arithmetic of their kind.
static void addInto(Tensor &total, const Tensor &term) {
  ElementKind kind = total.getKind();
  dispatchStorage(kind, [&](auto zero) {
    using T = decltype(zero);
    T *sum = total.mutableData<T>();
    const T *x = term.data<T>();
    for (int64_t i = 0, e = total.getNumElements(); i < e; ++i) {
      if constexpr (std::is_integral_v<T>)
        sum[i] = wrapInteger(kind, static_cast<T>(static_cast<uint64_t>(sum[i]) + static_cast<uint64_t>(x[i])));
      else
        sum[i] += x[i];
    }
  });
}

LogicalResult RankCall::store(Operation *op, const Extent &region, Tensor value, rank::WriteMode mode) const {
  if (mode == rank::WriteMode::add || (mode == rank::WriteMode::first && !isFirst)) {
    FailureOr<Tensor> old = memory.load(op, region);
    if (failed(old))
      return failure();
    addInto(*old, value);
    value = *old;
  }
  return memory.store(op, region, value);
}

LogicalResult hyc::interpreter::executeGemm(RankCall &call, rank::GemmOp op) {
  int64_t batch = static_cast<int64_t>(op.getBatch()), m = static_cast<int64_t>(op.getM());
  int64_t n = static_cast<int64_t>(op.getN()), k = static_cast<int64_t>(op.getK());
  int64_t lda = static_cast<int64_t>(op.getLda()), ldb = static_cast<int64_t>(op.getLdb());
  // Both come dense as (batch, rows, contracted) and (batch, contracted, columns), whichever way they are stored.
  auto strides = [](uint64_t batchStride, int64_t leading, bool transposed) {
    SmallVector<int64_t> result{static_cast<int64_t>(batchStride), transposed ? 1 : leading, transposed ? leading : 1};
    return result;
  };
  FailureOr<Tensor> a =
      call.memory.load(op, call.stridedAt(op.getA(), {batch, m, k}, strides(op.getStrideA(), lda, op.getTransA())));
  FailureOr<Tensor> b =
      call.memory.load(op, call.stridedAt(op.getB(), {batch, k, n}, strides(op.getStrideB(), ldb, op.getTransB())));
  if (failed(a) || failed(b))
    return failure();
  Tensor c(call.kindOf(op.getC()), {batch, m, n});
  dispatchStorage(c.getKind(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < batch; ++i)
      multiplyInto(m, n, k, a->data<T>() + i * m * k, b->data<T>() + i * k * n, c.mutableData<T>() + i * m * n);
  });
  if (op.getBias()) {
    FailureOr<Tensor> bias = call.memory.load(op, call.denseAt(op.getBias(), {n}));
    if (failed(bias))
      return failure();
    dispatchStorage(c.getKind(), [&](auto zero) {
      using T = decltype(zero);
      T *data = c.mutableData<T>();
      for (int64_t i = 0, e = c.getNumElements(); i < e; ++i)
        data[i] += bias->data<T>()[i % n];
    });
  }
  Extent target = call.stridedAt(op.getC(), {batch, m, n},
                                 {static_cast<int64_t>(op.getStrideC()), static_cast<int64_t>(op.getLdc()), 1});
  return call.store(op, target, c, op.getMode());
}
