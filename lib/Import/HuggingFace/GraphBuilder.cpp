// Parameters stand before @train, ops at its end.
#include "GraphBuilder.h"

#include "dialects/Hyc/PhaseNames.h"

using namespace mlir;
using namespace hyc;

Attribute GraphBuilder::normal(double stddev) {
  return NormalAttr::get(params.getContext(), params.getF64FloatAttr(0.0), params.getF64FloatAttr(stddev));
}

Attribute GraphBuilder::fill(double value) { return FillAttr::get(params.getContext(), params.getF64FloatAttr(value)); }

SmallVector<Value> GraphBuilder::beginTrain(ArrayRef<Named> inputs, ArrayRef<Named> outputs) {
  auto typeOf = [](const Named &named) -> Type { return named.second; };
  auto func =
      FuncOp::create(params, module.getLoc(), kTrain,
                     params.getFunctionType(llvm::map_to_vector(inputs, typeOf), llvm::map_to_vector(outputs, typeOf)));
  for (auto [index, input] : llvm::enumerate(inputs))
    func.setArgAttr(static_cast<unsigned>(index), kInput, params.getStringAttr(input.first));
  for (auto [index, output] : llvm::enumerate(outputs))
    func.setResultAttr(static_cast<unsigned>(index), kOutput, params.getStringAttr(output.first));
  params.setInsertionPoint(func);
  Block &block = func.getBody().empty() ? *func.addEntryBlock() : func.getBody().front();
  ops.setInsertionPointToEnd(&block);
  return SmallVector<Value>(block.getArguments());
}

void GraphBuilder::endTrain(ArrayRef<Value> outputs) { ReturnOp::create(ops, module.getLoc(), ValueRange(outputs)); }

Value GraphBuilder::param(const Twine &name, ArrayRef<int64_t> shape, Attribute init, ArrayRef<int64_t> logical,
                          bool frozen) {
  std::string text = name.str();
  Location loc = NameLoc::get(params.getStringAttr(text));
  auto op =
      ParamOp::create(params, loc, text, type(shape), init,
                      logical.empty() ? DenseI64ArrayAttr() : params.getDenseI64ArrayAttr(logical), frozen, TypeAttr());
  return ReadOp::create(ops, loc, op.getTensorType(), text);
}

Value GraphBuilder::read(StringRef name) {
  auto param = module.lookupSymbol<ParamOp>(name);
  return ReadOp::create(ops, param.getLoc(), param.getTensorType(), name);
}

Value GraphBuilder::splat(Type type, double value) {
  auto tensor = cast<RankedTensorType>(type);
  Attribute element = tensor.getElementType().isF32() ? Attribute(FloatAttr::get(f32, value))
                                                      : IntegerAttr::get(tensor.getElementType(), int64_t(value));
  auto values = DenseElementsAttr::get(tensor, element);
  return ConstantOp::create(ops, ops.getUnknownLoc(), type, cast<ElementsAttr>(values));
}

Value GraphBuilder::scaled(StringRef path, Value x, double factor) {
  return factor == 1 ? x : make<MulOp>(path, x, splat(x.getType(), factor));
}

Value GraphBuilder::divided(StringRef path, Value x, double divisor) {
  return divisor == 1 ? x : make<DivOp>(path, x, splat(x.getType(), divisor));
}

Value GraphBuilder::capped(StringRef path, Value x, double cap) {
  if (cap == 0)
    return x;
  Value bent = make<TanhOp>(path, make<DivOp>(path, x, splat(x.getType(), cap)));
  return make<MulOp>(path, bent, splat(x.getType(), cap));
}

Value GraphBuilder::reshaped(StringRef path, Value x, ArrayRef<int64_t> shape) {
  auto result = RankedTensorType::get(shape, cast<RankedTensorType>(x.getType()).getElementType());
  return x.getType() == result ? x : make<ReshapeOp>(path, result, x);
}

Value GraphBuilder::sliced(StringRef path, Value x, int64_t dim, int64_t begin, int64_t size) {
  SmallVector<int64_t> shape(shapeOf(x)), offsets(shape.size(), 0), strides(shape.size(), 1);
  shape[dim] = size;
  offsets[dim] = begin;
  return make<SliceOp>(path, RankedTensorType::get(shape, cast<RankedTensorType>(x.getType()).getElementType()), x,
                       offsets, strides);
}

Value GraphBuilder::spread(StringRef path, Value x, ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  auto result = RankedTensorType::get(shape, cast<RankedTensorType>(x.getType()).getElementType());
  return make<BroadcastOp>(path, result, x, dims);
}

/// Every letter has a size, that of its dimension.
Value GraphBuilder::einsum(StringRef path, StringRef spec, Value lhs, Value rhs) {
  auto [operands, result] = spec.split("->");
  auto [left, right] = operands.split(',');
  SmallVector<int64_t> shape;
  for (char letter : result) {
    size_t at = left.find(letter);
    shape.push_back(at != StringRef::npos ? shapeOf(lhs)[at] : shapeOf(rhs)[right.find(letter)]);
  }
  return make<EinsumOp>(path, type(shape), spec, lhs, rhs);
}

Value GraphBuilder::addBias(StringRef path, Value x, Value bias) {
  auto xType = cast<RankedTensorType>(x.getType());
  int64_t count = cast<RankedTensorType>(bias.getType()).getRank();
  auto dims = llvm::to_vector(llvm::seq<int64_t>(xType.getRank() - count, xType.getRank()));
  return make<AddOp>(path, x, spread(path, bias, xType.getShape(), dims));
}
