// dequantize as an op of the model, by the kernel's plain reference.
#include "Ops/OpTable.h"
#include "dialects/Hyc/HycDialect.h"
#include "kernels/dequantize/reference.h"
#include <type_traits>

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;
namespace reference = hyc::kernels::reference;

static LogicalResult evaluateDequantize(OpCall &call) {
  auto op = cast<DequantizeOp>(call.op);
  Tensor result = call.makeResult();
  kernels::DequantizeDesc desc;
  ArrayRef<int64_t> sizes = result.getShape(), strides = op.getStrides();
  if (sizes.size() > std::size(desc.sizes))
    return op.emitOpError("the interpreter dequantises up to 6 dimensions, not ") << op.getType();
  llvm::copy(sizes, std::end(desc.sizes) - sizes.size());
  llvm::copy(strides, std::end(desc.strides) - strides.size());
  desc.inputs = static_cast<int64_t>(op.getBlock());
  if (op.getOffset())
    desc.start = call.operands.back().getInteger();
  const int64_t *codes = call.operands[0].data<int64_t>();
  dispatchFloat(result.getKind(), [&](auto zero) {
    using T = decltype(zero);
    // Scales keep their f32 values whatever the result is: only a weight is rounded to its type, and once.
    constexpr ElementKind computed = std::is_same_v<T, double> ? ElementKind::F64 : ElementKind::F32;
    auto scale = [&](unsigned index) { return call.operands[1 + index].converted(computed); };
    if (op.getKind() == CodeKind::int8)
      reference::dequantizeInt8(desc, codes, scale(0).template data<T>(), result.mutableData<T>());
    else
      reference::dequantizeNf4(desc, codes, call.operands[1].data<int64_t>(), scale(1).template data<T>(),
                               scale(2).template data<T>(), result.mutableData<T>());
  });
  call.results.push_back(result);
  return success();
}

void hyc::interpreter::addQuantizedOps(OpTable &table) { table.add<DequantizeOp>(evaluateDequantize); }
