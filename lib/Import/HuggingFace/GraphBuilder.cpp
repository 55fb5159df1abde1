// Parameters stand before @train, ops at its end.
#include "GraphBuilder.h"

using namespace mlir;
using namespace hyc;

Attribute GraphBuilder::normal(double stddev) {
  return NormalAttr::get(params.getContext(), params.getF64FloatAttr(0.0), params.getF64FloatAttr(stddev));
}

Attribute GraphBuilder::fill(double value) { return FillAttr::get(params.getContext(), params.getF64FloatAttr(value)); }

Value GraphBuilder::beginTrain(ArrayRef<int64_t> tokens, ArrayRef<int64_t> logits) {
  auto ids = RankedTensorType::get(tokens, params.getI64Type());
  auto func = FuncOp::create(params, module.getLoc(), "train", params.getFunctionType(ids, type(logits)));
  func.setArgAttr(0, "hyc.input", params.getStringAttr("input_ids"));
  func.setResultAttr(0, "hyc.output", params.getStringAttr("logits"));
  params.setInsertionPoint(func);
  Block &block = func.getBody().empty() ? *func.addEntryBlock() : func.getBody().front();
  ops.setInsertionPointToEnd(&block);
  return block.getArgument(0);
}

void GraphBuilder::endTrain(Value logits) { ReturnOp::create(ops, module.getLoc(), logits); }

Value GraphBuilder::param(const Twine &name, ArrayRef<int64_t> shape, Attribute init, ArrayRef<int64_t> logical) {
  std::string text = name.str();
  Location loc = NameLoc::get(params.getStringAttr(text));
  auto op = ParamOp::create(params, loc, text, type(shape), init,
                            logical.empty() ? DenseI64ArrayAttr() : params.getDenseI64ArrayAttr(logical),
                            /*frozen=*/false, TypeAttr());
  return ReadOp::create(ops, loc, op.getTensorType(), text);
}

Value GraphBuilder::read(StringRef name) {
  auto param = module.lookupSymbol<ParamOp>(name);
  return ReadOp::create(ops, param.getLoc(), param.getTensorType(), name);
}

Value GraphBuilder::addBias(StringRef path, Value x, Value bias) {
  auto xType = cast<RankedTensorType>(x.getType());
  int64_t count = cast<RankedTensorType>(bias.getType()).getRank();
  auto dims = llvm::to_vector(llvm::seq<int64_t>(xType.getRank() - count, xType.getRank()));
  Value wide = make<BroadcastOp>(path, xType, bias, dims);
  return make<AddOp>(path, x, wide);
}
