// expert_matmul and its gradient: verifiers, gradients, decomposition, and what partitioning, precision and cost ask.
#include "dialects/Hyc/DerivedOps.h"
#include "dialects/Hyc/LetterRule.h"

using namespace mlir;
using namespace hyc;

/// `rows` (N,K) and `results` (N,M) with `matrices` (E,K,M), or (E,M,K).
static LogicalResult verifyShapes(Operation *op, RankedTensorType rows, RankedTensorType matrices,
                                  RankedTensorType results, RankedTensorType experts, bool isTransposed) {
  bool agree = rows.getRank() == 2 && matrices.getRank() == 3 && results.getRank() == 2 && experts.getRank() == 1 &&
               experts.getElementType().isInteger(64);
  if (agree) {
    int64_t n = experts.getDimSize(0), k = matrices.getDimSize(isTransposed ? 2 : 1),
            m = matrices.getDimSize(isTransposed ? 1 : 2);
    agree = rows.getShape() == ArrayRef({n, k}) && results.getShape() == ArrayRef({n, m});
  }
  if (agree)
    return success();
  return op->emitOpError("[expert_matmul.shapes] has rows ")
         << rows << ", matrices " << matrices << ", results " << results << " and experts " << experts
         << ", expected (N,K), " << (isTransposed ? "(E,M,K)" : "(E,K,M)") << ", (N,M) and i64 (N)";
}

LogicalResult ExpertMatmulOp::verify() {
  RankedTensorType x = tensorTypeOf(getX()), w = tensorTypeOf(getW()), result = tensorTypeOf(getResult());
  if (x.getElementType() != w.getElementType() || x.getElementType() != result.getElementType())
    return emitOpError("[expert_matmul.shapes] multiplies ")
           << x << " and " << w << " into " << result << ", expected one element type";
  return verifyShapes(*this, x, w, result, tensorTypeOf(getExperts()), getTransposed());
}

LogicalResult ExpertMatmulGradOp::verify() {
  RankedTensorType x = tensorTypeOf(getX()), cotangent = tensorTypeOf(getCotangent()),
                   result = tensorTypeOf(getResult());
  Type from = x.getElementType(), to = result.getElementType();
  if (from != cotangent.getElementType() || (from != to && accumulationType(from) != to))
    return emitOpError("[expert_matmul.shapes] multiplies ")
           << x << " and " << cotangent << " into " << result << ", expected one element type, or f32 sums of it";
  return verifyShapes(*this, x, result, cotangent, tensorTypeOf(getExperts()), getTransposed());
}

/// An expert that a rank lacks gives zeros there, so that splitting experts leaves a sum.
ShardingRule ExpertMatmulOp::getShardingRule() {
  SmallVector<StringRef> operands{"nk", getTransposed() ? "emk" : "ekm", "n"};
  if (getOffset())
    operands.push_back("");
  return letterRule(*this, operands, {"nm"}, "", /*sums=*/"ke");
}

ShardingRule ExpertMatmulGradOp::getShardingRule() {
  SmallVector<StringRef> operands{"nk", "nm", "n"};
  if (getOffset())
    operands.push_back("");
  return withMissingAsSums(letterRule(*this, operands, {getTransposed() ? "emk" : "ekm"}));
}

PrecisionRule ExpertMatmulOp::getPrecisionRule() { return {"nn-", "n"}; }
PrecisionRule ExpertMatmulGradOp::getPrecisionRule() { return {"nn-", "s"}; }

/// Of a padded row the expert is 0, and so is the row.
bool ExpertMatmulOp::preservesZeros(const ShardingRule &, int) { return true; }

void ExpertMatmulOp::buildLocal(LocalPart &, ValueRange, SmallVectorImpl<Value> &) {}
void ExpertMatmulGradOp::buildLocal(LocalPart &, ValueRange, SmallVectorImpl<Value> &) {}

/// The first expert that this rank holds.
void ExpertMatmulOp::addPlace(LocalPart &part, SmallVectorImpl<Value> &operands, NamedAttrList &) {
  if (LocalDim held(getWMutable(), 0); part.isSplit(held))
    operands.push_back(part.offset(held, tensorTypeOf(operands[1]).getDimSize(0)));
}

void ExpertMatmulGradOp::addPlace(LocalPart &part, SmallVectorImpl<Value> &operands, NamedAttrList &) {
  if (LocalDim held(getResult(), 0); part.isSplit(held))
    operands.push_back(part.offset(held, part.typeOf(getResult()).getDimSize(0)));
}

/// As many as if every row had an expert here, however many experts there are.
static int64_t productFlops(Value rows, Value results) {
  return 2 * tensorTypeOf(results).getNumElements() * tensorTypeOf(rows).getDimSize(1);
}
int64_t ExpertMatmulOp::getFlops() { return productFlops(getX(), getResult()); }
int64_t ExpertMatmulGradOp::getFlops() { return productFlops(getX(), getCotangent()); }

LogicalResult ExpertMatmulOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                            SmallVectorImpl<Value> &results) {
  results.assign(getNumOperands(), Value());
  if (!cotangents[0])
    return success();
  DerivedOps b(builder, *this, ".grad");
  UnitAttr transposed = getTransposedAttr(), other = transposed ? UnitAttr() : builder.getUnitAttr();
  if (wanted[0])
    results[0] =
        b.create<ExpertMatmulOp>(".x", getX().getType(), cotangents[0], getW(), getExperts(), getOffset(), other);
  if (wanted[1])
    results[1] = b.create<ExpertMatmulGradOp>(".w", getW().getType(), getX(), cotangents[0], getExperts(), getOffset(),
                                              transposed);
  return success();
}

/// Every row times every matrix, of which those of other experts are left out.
LogicalResult ExpertMatmulOp::decompose(OpBuilder &builder, SmallVectorImpl<Value> &results) {
  if (getOffset())
    return failure();
  DerivedOps b(builder, *this, ".");
  RankedTensorType x = tensorTypeOf(getX()), experts = tensorTypeOf(getExperts());
  int64_t count = tensorTypeOf(getW()).getDimSize(0);
  auto numbers = RankedTensorType::get({x.getDimSize(0), count}, experts.getElementType());
  Value own = b.create<BroadcastOp>("own", numbers, getExperts(), ArrayRef<int64_t>{0});
  Value isOwn = b.compare("is_own", ComparePredicate::eq, own, b.create<IotaOp>("every", numbers, 1));
  auto apart = RankedTensorType::get({x.getDimSize(0), count, x.getDimSize(1)}, x.getElementType());
  auto chosen = RankedTensorType::get(apart.getShape(), builder.getI1Type());
  Value rows = b.create<BroadcastOp>("rows", apart, getX(), ArrayRef<int64_t>{0, 2});
  Value mask = b.create<BroadcastOp>("mask", chosen, isOwn, ArrayRef<int64_t>{0, 1});
  Value kept = b.select("kept", mask, rows, b.splat("zero", apart, 0));
  results.push_back(b.einsum("product", getTransposed() ? "nek,emk->nm" : "nek,ekm->nm", kept, getW()));
  return success();
}
