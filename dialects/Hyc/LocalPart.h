// LocalPart: what partitioning tells an op that becomes local, and makes for it. The hyc dialect knows no mesh: an op
// asks about dimensions of its own operands and results, and partitioning answers with what their axes are.
#ifndef HYC_DIALECTS_HYC_LOCALPART_H
#define HYC_DIALECTS_HYC_LOCALPART_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace hyc {

/// One dimension of an operand or a result of the op that becomes local.
struct LocalDim {
  mlir::OpOperand *operand; ///< null: of the result
  mlir::Value result;
  int64_t dim;

  LocalDim(mlir::OpOperand &operand, int64_t dim) : operand(&operand), dim(dim) {}
  LocalDim(mlir::Value result, int64_t dim) : operand(nullptr), result(result), dim(dim) {}
};

class LocalPart {
public:
  virtual ~LocalPart() = default;

  /// Whether ranks hold different parts of the dimension. Of an operand: as the op reads it.
  virtual bool isSplit(const LocalDim &dim) = 0;
  /// The type of this rank's part of a result.
  virtual mlir::RankedTensorType typeOf(mlir::Value result) = 0;
  /// An i64 scalar: this rank's place among the parts of a dimension that is split, times `size`.
  virtual mlir::Value offset(const LocalDim &dim, int64_t size) = 0;
  /// `value` summed over the ranks that hold the parts of a dimension that is split, or the greatest of theirs.
  virtual mlir::Value sumOver(const LocalDim &dim, mlir::Value value) = 0;
  virtual mlir::Value maxOver(const LocalDim &dim, mlir::Value value) = 0;
  /// Where local ops are built.
  virtual mlir::OpBuilder &builder() = 0;
  /// Marks an op that was built for the one that becomes local: its id with a suffix, its stage and direction.
  virtual void mark(mlir::Operation *made, llvm::StringRef suffix) = 0;

  template <typename OpT> OpT marked(OpT made, llvm::StringRef suffix = "") {
    mark(made, suffix);
    return made;
  }
};

} // namespace hyc

#endif // HYC_DIALECTS_HYC_LOCALPART_H
