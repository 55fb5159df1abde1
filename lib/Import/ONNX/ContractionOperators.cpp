// Matrix products, which all become hyc.einsum; its spec says what is transposed and what is batched.
#include "Importer.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::ArrayRef;

namespace {
LogicalResult checkOperands(NodeImport &node) {
  Type lhs = node.input(0).type.getElementType(), rhs = node.input(1).type.getElementType();
  if (lhs == rhs && isa<FloatType>(lhs))
    return success();
  return node.error() << "multiplies " << node.input(0).type << " and " << node.input(1).type
                      << ", expected one floating-point type";
}

/// a · b, reshaped without the dimensions of size 1 that the other operand repeats.
LogicalResult importMatMul(NodeImport &node) {
  if (failed(checkOperands(node)))
    return failure();
  ArrayRef<int64_t> a = node.shapeOf(0), b = node.shapeOf(1);
  auto mismatch = [&] {
    return node.error() << "cannot multiply " << node.input(0).type << " and " << node.input(1).type;
  };
  if (a.empty() || b.empty() || a.size() > 20 || b.size() > 20)
    return mismatch();
  int64_t inner = b.size() == 1 ? b[0] : b[b.size() - 2];
  ArrayRef<int64_t> batchA = a.drop_back(std::min<size_t>(a.size(), 2)),
                    batchB = b.drop_back(std::min<size_t>(b.size(), 2));
  std::optional<HostTensor::Shape> batch = broadcastShapes(batchA, batchB);
  if (a.back() != inner || !batch)
    return mismatch();
  std::string specA, specB, specResult;
  llvm::SmallVector<int64_t> shapeA, shapeB, shape(batch->begin(), batch->end());
  for (size_t i = 0; i < batch->size(); ++i) {
    char letter = static_cast<char>('a' + i);
    auto add = [&](ArrayRef<int64_t> own, std::string &spec, llvm::SmallVectorImpl<int64_t> &kept) {
      size_t missing = batch->size() - own.size();
      // A size-1 dimension that is repeated is left out; where both have it, it is a batch of one.
      if (i >= missing && own[i - missing] == (*batch)[i])
        spec += letter, kept.push_back(own[i - missing]);
    };
    add(batchA, specA, shapeA);
    add(batchB, specB, shapeB);
    specResult += letter;
  }
  if (a.size() > 1)
    specA += 'm', specResult += 'm', shapeA.push_back(a[a.size() - 2]), shape.push_back(a[a.size() - 2]);
  specA += 'k', shapeA.push_back(a.back());
  specB += 'k', shapeB.push_back(inner);
  if (b.size() > 1)
    specB += 'n', specResult += 'n', shapeB.push_back(b.back()), shape.push_back(b.back());
  if (!countElements(shape))
    return mismatch();
  Importer &importer = node.importer();
  std::optional<Binding> lhs = importer.reshape(node.input(0), shapeA), rhs = importer.reshape(node.input(1), shapeB);
  if (!lhs || !rhs)
    return node.finish(std::nullopt);
  StringAttr spec = importer.getBuilder().getStringAttr(specA + "," + specB + "->" + specResult);
  return node.finish(
      importer.ofValue(importer.emit<EinsumOp>(spec, importer.materialise(*lhs), importer.materialise(*rhs))));
}

Value scaled(Importer &importer, Value value, double factor) {
  if (factor == 1)
    return value;
  Binding constant = importer.splatLike(cast<RankedTensorType>(value.getType()), factor);
  return importer.emit<MulOp>(value, importer.materialise(constant));
}

/// alpha · op(a) op(b) + beta · c
LogicalResult importGemm(NodeImport &node) {
  if (failed(checkOperands(node)))
    return failure();
  bool transA = node.getInt("transA", 0) != 0, transB = node.getInt("transB", 0) != 0;
  ArrayRef<int64_t> a = node.shapeOf(0), b = node.shapeOf(1);
  if (a.size() != 2 || b.size() != 2 || a[transA ? 0 : 1] != b[transB ? 1 : 0])
    return node.error() << "cannot multiply " << node.input(0).type << " and " << node.input(1).type;
  Importer &importer = node.importer();
  std::string spec = std::string(transA ? "km," : "mk,") + (transB ? "nk" : "kn") + "->mn";
  Value result = importer.emit<EinsumOp>(importer.getBuilder().getStringAttr(spec), node.value(0), node.value(1));
  result = scaled(importer, result, node.getFloat("alpha", 1));
  double beta = node.getFloat("beta", 1);
  if (node.has(2) && beta != 0) {
    auto type = cast<RankedTensorType>(result.getType());
    std::optional<HostTensor::Shape> shape = broadcastShapes(node.shapeOf(2), type.getShape());
    if (!shape || ArrayRef<int64_t>(*shape) != type.getShape() ||
        node.input(2).type.getElementType() != type.getElementType())
      return node.error() << "adds " << node.input(2).type << " to " << type;
    std::optional<Binding> added = importer.broadcast(node.input(2), type.getShape());
    result = importer.emit<AddOp>(result, scaled(importer, importer.materialise(*added), beta));
  }
  return node.finish(importer.ofValue(result));
}

/// Two operands and no diagonal, which is what hyc.einsum says too.
LogicalResult importEinsum(NodeImport &node) {
  if (failed(checkOperands(node)))
    return failure();
  std::string equation = node.getString("equation", "");
  llvm::erase(equation, ' ');
  std::optional<EinsumOp::Letters> letters = EinsumOp::parseSpec(equation);
  Importer &importer = node.importer();
  if (!letters || letters->lhs.size() != node.shapeOf(0).size() || letters->rhs.size() != node.shapeOf(1).size())
    return node.error() << "has the equation '" << equation << "' for " << node.input(0).type << " and "
                        << node.input(1).type << "; hyc supports two operands and an explicit result";
  llvm::SmallVector<Value> operands{node.value(0), node.value(1)};
  StringAttr spec = importer.getBuilder().getStringAttr(equation);
  llvm::SmallVector<Type> types;
  EinsumOp::Properties properties;
  properties.spec = spec;
  if (failed(EinsumOp::inferReturnTypes(importer.getContext(), operands[0].getLoc(), operands, DictionaryAttr(),
                                        mlir::OpaqueProperties(&properties), {}, types)))
    return node.error() << "has the equation '" << equation << "', which hyc does not support";
  return node.finish(importer.ofValue(importer.emit<EinsumOp>(spec, operands[0], operands[1])));
}
} // namespace

void hyc::onnx::addContractionOperators(OperatorTable &table) {
  table["MatMul"] = {2, 2, importMatMul};
  table["Gemm"] = {2, 3, importGemm};
  table["Einsum"] = {2, 2, importEinsum};
}
