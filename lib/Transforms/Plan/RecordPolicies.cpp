// Writes down what phases 4 and 5 act on and no op carries.
#include "hyc/Analysis/Workspaces.h"
#include "hyc/Plan/Policies.h"
#include "hyc/Transforms/Plan/Passes.h"

namespace hyc {
#define GEN_PASS_DEF_RECORDPOLICIES
#include "hyc/Transforms/Plan/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

struct RecordPolicies : hyc::impl::RecordPoliciesBase<RecordPolicies> {
  using RecordPoliciesBase::RecordPoliciesBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::vector<std::string> spelled(policies.begin(), policies.end());
    llvm::Expected<DictionaryAttr> recorded = parsePolicies(spelled, module.getContext());
    if (!recorded) {
      module.emitError() << llvm::toString(recorded.takeError());
      return signalPassFailure();
    }
    module->setAttr(kPolicyAttribute, *recorded);
    if (target != "cpu")
      module->setAttr(kTargetAttribute, StringAttr::get(module.getContext(), target));
  }
};

} // namespace
