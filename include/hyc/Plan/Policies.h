// Policies: settings that passes of phases 4 and 5 act on, and which no op carries: `dist.policy` of the module, a
// dictionary by SettingRow::policyName. hyc-record-policies writes it at the end of phase 3, so that the text after
// phase 3 is the whole plan and those passes take no options.
//
//   module attributes {dist.policy = {offload_prefetch = 2 : i64, reduce_bucket_size = 500000000 : i64, …}} {
//
// A module that says nothing of a policy has the default; one that says something wrong is refused by the pass that
// asks.
#ifndef HYC_PLAN_POLICIES_H
#define HYC_PLAN_POLICIES_H

#include "hyc/Plan/SettingTable.h"
#include "mlir/IR/BuiltinOps.h"

namespace hyc {

inline constexpr llvm::StringLiteral kPolicyAttribute = "dist.policy";

/// All policies of a plan, defaults included.
mlir::DictionaryAttr policiesOf(const Plan &plan, mlir::MLIRContext *context);
/// "name=value" of every policy, as the option of hyc-record-policies takes them.
std::vector<std::string> spellPolicies(const Plan &plan);
/// The policies of a default plan but for those that are spelled; a message names what is wrong.
llvm::Expected<mlir::DictionaryAttr> parsePolicies(llvm::ArrayRef<std::string> spelled, mlir::MLIRContext *context);

/// Whether all that the module says are policies, of their types and in their ranges; errors are at the module.
mlir::LogicalResult verifyPolicies(mlir::ModuleOp module);

/// What the module says of one policy; fails after an error at the module.
mlir::FailureOr<SettingValue> readPolicy(mlir::ModuleOp module, const SettingRow &row);

/// The same as its own type: `FailureOr<int64_t> subGroup = policyOf<&Plan::subGroup>(module)`.
template <auto Member> auto policyOf(mlir::ModuleOp module) {
  using T = std::decay_t<decltype((std::declval<Plan &>().*Member).get())>;
  mlir::FailureOr<SettingValue> value = readPolicy(module, rowOf(memberOfPlan<Member>));
  return failed(value) ? mlir::FailureOr<T>(mlir::failure()) : mlir::FailureOr<T>(std::get<Plain<T>>(*value));
}

} // namespace hyc

#endif // HYC_PLAN_POLICIES_H
