// Stacks: tensors of one shape side by side, as concatenations of a function have them.
//
// Dimensions of size 1 are of no account: the results of a recurrent layer's steps are stacked as rows of size 1, and
// used without that dimension, or the other way round.
#ifndef HYC_LIB_TRANSFORMS_TRAIN_STACKS_H
#define HYC_LIB_TRANSFORMS_TRAIN_STACKS_H

#include "dialects/Hyc/DerivedOps.h"
#include "hyc/Support/OpIds.h"

namespace hyc::train {

/// Parts [first, first + n) of a concatenation.
struct Stack {
  ConcatOp concat;
  int64_t first = 0;
};

/// Tensors side by side along `dim`, without other dimensions of size 1.
struct StackedValue {
  mlir::Value value;
  int64_t dim = 0;
};

class Stacks {
public:
  Stacks(FuncOp function, OpIds &ids);

  /// Where `values` stand side by side in this order.
  std::optional<Stack> find(llvm::ArrayRef<mlir::Value> values) const;

  /// `values` side by side: read from `stack`, or from a concatenation that is made (and found from then on). All of
  /// one shape; at least two.
  StackedValue read(llvm::ArrayRef<mlir::Value> values, const std::optional<Stack> &stack, DerivedOps &ops,
                    llvm::StringRef suffix);

private:
  struct Place {
    ConcatOp concat;
    int64_t index;
  };
  void note(ConcatOp concat);

  OpIds &ids;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Place, 1>> places;
};

} // namespace hyc::train

#endif // HYC_LIB_TRANSFORMS_TRAIN_STACKS_H
