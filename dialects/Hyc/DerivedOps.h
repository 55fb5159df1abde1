// DerivedOps: builds the ops that stand in for another op (its gradient, its decomposition), at that op's location and
// with ids derived from its id. The one surprise: an op without an id lends its mnemonic, so every op built has an id.
#ifndef HYC_DIALECTS_HYC_DERIVEDOPS_H
#define HYC_DIALECTS_HYC_DERIVEDOPS_H

#include "dialects/Hyc/HycDialect.h"
#include "mlir/IR/Builders.h"

#include <string>

namespace hyc {

class DerivedOps {
public:
  /// Ids are `<id of origin><infix><suffix>`, with the suffix that each call gives.
  DerivedOps(mlir::OpBuilder &builder, mlir::Operation *origin, llvm::StringRef infix)
      : builder(builder), loc(origin->getLoc()) {
    llvm::StringRef id = getId(origin);
    stem = ((id.empty() ? origin->getName().stripDialect() : id) + infix).str();
  }

  template <typename OpTy, typename... Args> OpTy create(const llvm::Twine &suffix, Args &&...args) {
    auto op = OpTy::create(builder, loc, std::forward<Args>(args)...);
    setId(op, stem + suffix);
    return op;
  }

  /// All elements `value`, converted to the element type.
  mlir::Value splat(const llvm::Twine &suffix, mlir::Type type, double value);

  /// `operand` (a reduction over `dims` of a tensor of `type`) repeated along the reduced dimensions.
  mlir::Value restore(const llvm::Twine &suffix, mlir::Value operand, llvm::ArrayRef<int64_t> dims,
                      mlir::RankedTensorType type);

  mlir::Value reduce(const llvm::Twine &suffix, ReductionKind kind, mlir::Value operand, llvm::ArrayRef<int64_t> dims);
  mlir::Value compare(const llvm::Twine &suffix, ComparePredicate predicate, mlir::Value lhs, mlir::Value rhs);
  mlir::Value select(const llvm::Twine &suffix, mlir::Value condition, mlir::Value lhs, mlir::Value rhs);
  mlir::Value einsum(const llvm::Twine &suffix, const llvm::Twine &spec, mlir::Value lhs, mlir::Value rhs);
  mlir::Value add(const llvm::Twine &suffix, mlir::Value lhs, mlir::Value rhs) {
    return create<AddOp>(suffix, lhs, rhs);
  }
  mlir::Value sub(const llvm::Twine &suffix, mlir::Value lhs, mlir::Value rhs) {
    return create<SubOp>(suffix, lhs, rhs);
  }
  mlir::Value mul(const llvm::Twine &suffix, mlir::Value lhs, mlir::Value rhs) {
    return create<MulOp>(suffix, lhs, rhs);
  }
  mlir::Value div(const llvm::Twine &suffix, mlir::Value lhs, mlir::Value rhs) {
    return create<DivOp>(suffix, lhs, rhs);
  }

private:
  mlir::OpBuilder &builder;
  mlir::Location loc;
  std::string stem;
};

inline mlir::RankedTensorType tensorTypeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

} // namespace hyc

#endif // HYC_DIALECTS_HYC_DERIVEDOPS_H
