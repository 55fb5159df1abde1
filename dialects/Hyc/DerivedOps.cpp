// Building blocks shared by gradients and decompositions.
#include "dialects/Hyc/DerivedOps.h"

using namespace mlir;
using namespace hyc;

Value DerivedOps::splat(const Twine &suffix, Type type, double value) {
  auto tensor = cast<RankedTensorType>(type);
  Attribute element;
  if (auto floating = dyn_cast<FloatType>(tensor.getElementType()))
    element = FloatAttr::get(floating, value);
  else
    element = IntegerAttr::get(tensor.getElementType(), static_cast<int64_t>(value));
  return create<ConstantOp>(suffix, tensor, cast<ElementsAttr>(DenseElementsAttr::get(tensor, element)));
}

Value DerivedOps::restore(const Twine &suffix, Value operand, ArrayRef<int64_t> dims, RankedTensorType type) {
  SmallVector<int64_t> kept;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (!llvm::is_contained(dims, dim))
      kept.push_back(dim);
  auto result = RankedTensorType::get(type.getShape(), tensorTypeOf(operand).getElementType());
  return create<BroadcastOp>(suffix, result, operand, kept);
}

Value DerivedOps::reduce(const Twine &suffix, ReductionKind kind, Value operand, ArrayRef<int64_t> dims) {
  return create<ReduceOp>(suffix, kind, operand, dims);
}

Value DerivedOps::compare(const Twine &suffix, ComparePredicate predicate, Value lhs, Value rhs) {
  auto type = RankedTensorType::get(tensorTypeOf(lhs).getShape(), builder.getI1Type());
  return create<CompareOp>(suffix, type, predicate, lhs, rhs);
}

Value DerivedOps::select(const Twine &suffix, Value condition, Value lhs, Value rhs) {
  return create<SelectOp>(suffix, lhs.getType(), condition, lhs, rhs);
}

Value DerivedOps::einsum(const Twine &suffix, const Twine &spec, Value lhs, Value rhs) {
  return create<EinsumOp>(suffix, builder.getStringAttr(spec), lhs, rhs);
}
