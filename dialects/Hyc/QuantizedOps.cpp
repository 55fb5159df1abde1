// dequantize: its verifier, and what partitioning asks of it.
#include "dialects/Hyc/DerivedOps.h"

#include "llvm/ADT/SmallVectorExtras.h"

using namespace mlir;
using namespace hyc;

static bool isByte(RankedTensorType type) { return type.getElementType().isUnsignedInteger(8); }

LogicalResult OfWeightAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, WeightPart, StringRef parameter,
                                   Attribute values, int64_t outputs, int64_t inputs, bool) {
  if (parameter.empty() || !isInitialValue(values))
    return emitError() << "is made of \"" << parameter << "\" from " << values << ", expected a parameter's name and "
                       << kInitialValues;
  if (outputs < 1 || inputs < 1)
    return emitError() << "is of " << outputs << " outputs and " << inputs << " inputs, expected at least one of each";
  return success();
}

static LogicalResult verifyScales(DequantizeOp op) {
  SmallVector<RankedTensorType> scales = llvm::map_to_vector(op.getScales(), tensorTypeOf);
  bool hasOffset = scales.size() > op.getNumScales();
  if (scales.size() < op.getNumScales() || scales.size() > op.getNumScales() + 1 ||
      (hasOffset && (scales.back().getRank() != 0 || !scales.back().getElementType().isSignlessInteger(64))))
    return op.emitOpError("[dequantize.scales] has ") << scales.size() << " operands beside its codes, expected "
                                                      << op.getNumScales() << " and perhaps an offset, an i64 scalar";
  bool isNf4 = op.getKind() == CodeKind::nf4;
  bool areTyped = llvm::all_of(llvm::seq<unsigned>(0, op.getNumScales()), [&](unsigned index) {
    return isNf4 && index == 0 ? isByte(scales[index]) : scales[index].getElementType().isF32();
  });
  int64_t blocks = scales[0].getNumElements();
  bool areSized = scales[0].getRank() == 1 && (!isNf4 || (scales[1].getRank() == 1 && scales[2].getRank() == 0 &&
                                                          scales[1].getNumElements() == op.scaleGroupsOf(blocks)));
  if (areTyped && areSized)
    return success();
  return op.emitOpError("[dequantize.scales] has ")
         << op.getScales().getTypes() << ", expected " << (isNf4 ? "ui8 (n), f32 (n / 256) and f32 ()" : "f32 (n)");
}

LogicalResult DequantizeOp::verify() {
  RankedTensorType codes = tensorTypeOf(getCodes()), result = tensorTypeOf(getResult());
  SmallVector<int64_t> shape(codes.getShape());
  if (getKind() == CodeKind::nf4 && !shape.empty())
    shape.back() *= 2;
  if (!isByte(codes) || shape.empty() || ArrayRef<int64_t>(shape) != result.getShape() ||
      !isa<FloatType>(result.getElementType()))
    return emitOpError("[dequantize.codes] makes ")
           << result << " of codes " << codes << ", expected ui8 of that shape, nf4's last dimension halved";
  if (static_cast<int64_t>(getStrides().size()) != result.getRank() || static_cast<int64_t>(getBlock()) < 1)
    return emitOpError("[dequantize.place] has block ")
           << getBlock() << " and strides [" << getStrides() << "] for " << result;
  return verifyScales(*this);
}

/// Codes are split as the weight is; scales are read by place. Two codes a byte are one index with their byte.
ShardingRule DequantizeOp::getShardingRule() {
  ShardingRule rule;
  TensorFactors codes, result;
  for (int64_t size : tensorTypeOf(getCodes()).getShape())
    codes.push_back({rule.addFactor(size)});
  result = codes;
  if (getKind() == CodeKind::nf4)
    result.back().push_back(rule.addFactor(2, FactorKind::replicated));
  rule.operands.push_back(codes);
  for (Value scale : getScales()) {
    TensorFactors whole;
    for (int64_t size : tensorTypeOf(scale).getShape())
      whole.push_back({rule.addFactor(size, FactorKind::replicated)});
    rule.operands.push_back(whole);
  }
  rule.results.push_back(result);
  return rule;
}

/// Where in the whole matrix this rank's part begins: one number, whatever dimensions are split.
void DequantizeOp::addPlace(LocalPart &part, SmallVectorImpl<Value> &operands, NamedAttrList &) {
  RankedTensorType type = part.typeOf(getResult());
  Value offset;
  for (auto [dim, stride] : llvm::enumerate(getStrides())) {
    LocalDim own(getResult(), static_cast<int64_t>(dim));
    if (!part.isSplit(own))
      continue;
    Value next = part.offset(own, type.getDimSize(own.dim) * stride);
    offset = offset ? part.marked(AddOp::create(part.builder(), getLoc(), offset, next), ".place").getResult() : next;
  }
  if (offset)
    operands.push_back(offset);
}

void DequantizeOp::buildLocal(LocalPart &, ValueRange, SmallVectorImpl<Value> &) {}
