// The hyc dialect: ops, attributes and interfaces. Start with HycOps.td; RATIONALE.md tells why.
#ifndef HYC_DIALECTS_HYC_HYCDIALECT_H
#define HYC_DIALECTS_HYC_HYCDIALECT_H

#include "dialects/Hyc/LocalPart.h"
#include "dialects/Hyc/OpId.h"
#include "dialects/Hyc/PrecisionRule.h"
#include "dialects/Hyc/ShardingRule.h"
#include "dialects/Hyc/StateRoles.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace hyc {
class ReturnOp;

/// Marks ops that compute each element of their results from the same element of their operands.
template <typename ConcreteOp> class Elementwise : public mlir::OpTrait::TraitBase<ConcreteOp, Elementwise> {};

/// Facts of ops that are so whatever the op's attributes and shapes are; the interfaces say what each means.
template <typename ConcreteOp> class PreservesZeros : public mlir::OpTrait::TraitBase<ConcreteOp, PreservesZeros> {};
template <typename ConcreteOp>
class PassesPartialSums : public mlir::OpTrait::TraitBase<ConcreteOp, PassesPartialSums> {};
template <typename ConcreteOp> class ComputesInF32 : public mlir::OpTrait::TraitBase<ConcreteOp, ComputesInF32> {};

/// Elements of an exact sum (kernels/exact_sum/op.h), an i64 tensor of one dimension.
inline constexpr int64_t kExactSumLimbs = 68;

/// Whether `type` is bf16 or f16.
inline bool isHalfWidth(mlir::Type type) { return type.isBF16() || type.isF16(); }

/// Whether `type` is one of the 8-bit floats that tensors are quantised to: e4m3 without infinities, or e5m2.
inline bool isFloat8(mlir::Type type) { return mlir::isa<mlir::Float8E4M3FNType, mlir::Float8E5M2Type>(type); }

/// Whether `type` is a float that memory keeps in fewer bits than it is computed with.
inline bool isNarrowFloat(mlir::Type type) { return isHalfWidth(type) || isFloat8(type); }

/// The element type of what is accumulated over elements of `type`, and of statistics: f32 for narrow floats.
inline mlir::Type accumulationType(mlir::Type type) {
  return isNarrowFloat(type) ? mlir::Float32Type::get(type.getContext()) : type;
}

/// All operands and results have one shape, dimension by dimension; the default sharding rule.
ShardingRule sameShapeRule(mlir::Operation *op);

/// Whether a dimension of one of the rule's tensors has the factor.
inline bool hasFactor(const TensorFactors &dims, int factor) {
  return llvm::any_of(dims, [&](const DimFactors &factors) { return llvm::is_contained(factors, factor); });
}

/// Checks what an update names: symbols of one whole shape, that of the first.
llvm::LogicalResult verifyUpdate(mlir::SymbolTableCollection &symbols, mlir::Operation *op,
                                 llvm::ArrayRef<mlir::FlatSymbolRefAttr> names);

/// The attributes of an update that are numbers or flags, and no names of symbols.
llvm::SmallVector<mlir::NamedAttribute> numbersOf(mlir::Operation *op);

/// One operation an element of the first result; the default cost.
int64_t elementwiseFlops(mlir::Operation *op);
} // namespace hyc

#include "dialects/Hyc/HycDialect.h.inc"
#include "dialects/Hyc/HycEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Hyc/HycAttrs.h.inc"
#include "dialects/Hyc/HycInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialects/Hyc/HycOps.h.inc"

namespace hyc {
/// The values that a param or state starts from: of what is made of a weight, those of the weight.
inline mlir::Attribute valuesOf(mlir::Attribute init) {
  auto ofWeight = mlir::dyn_cast_or_null<OfWeightAttr>(init);
  return ofWeight ? ofWeight.getValues() : init;
}

/// Whether it is one of the attributes that say what a parameter starts from: #hyc.file, #hyc.parts, or by rule.
bool isInitialValue(mlir::Attribute init);
inline constexpr llvm::StringLiteral kInitialValues =
    "#hyc.file, #hyc.parts, #hyc.normal, #hyc.uniform, #hyc.fill or #hyc.sinusoids";

/// The places in files that these values come from, in the order of their elements; none of those by rule.
llvm::SmallVector<FileAttr> filesOf(mlir::Attribute init);
} // namespace hyc

#endif // HYC_DIALECTS_HYC_HYCDIALECT_H
