// TensorPlan: how a model's authors would have its modules split, in the words of transformers' base_model_tp_plan:
// `hyc.tensor_plan = ["model.layers.*.mlp.up_proj=colwise", …]`.
#ifndef HYC_LIB_TRANSFORMS_PLAN_TENSORPLAN_H
#define HYC_LIB_TRANSFORMS_PLAN_TENSORPLAN_H

#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/FactorClasses.h"
#include "llvm/ADT/DenseSet.h"

namespace hyc {

class TensorPlan {
public:
  struct Split {
    int cls;
    ParamOp param;
    llvm::StringRef entry;
  };

  /// An error names the entry that is none. A module without an attribute has an empty plan.
  static llvm::FailureOr<TensorPlan> read(mlir::ModuleOp module, const FactorClasses &classes);

  llvm::ArrayRef<Split> getSplits() const { return splits; }
  bool keepsWhole(int cls) const { return whole.contains(cls); }

private:
  void add(ParamOp param, llvm::StringRef entry, llvm::StringRef style, const FactorClasses &classes);

  llvm::SmallVector<Split> splits;
  llvm::DenseSet<int> whole;
};

} // namespace hyc

#endif // HYC_LIB_TRANSFORMS_PLAN_TENSORPLAN_H
