// What two plans decide differently, and what that costs: for `hyc-compile --compare A B`.
#ifndef HYC_LIB_DRIVER_REPORT_PLANCOMPARISON_H
#define HYC_LIB_DRIVER_REPORT_PLANCOMPARISON_H

#include "llvm/Support/Error.h"

#include <string>

namespace hyc {

/// Of two plan.json, or the folders that they are in. Memory and time stand in memory.json beside each; without
/// it the decisions alone are compared, and that is said.
llvm::Expected<std::string> comparePlanFiles(const std::string &a, const std::string &b);

} // namespace hyc

#endif // HYC_LIB_DRIVER_REPORT_PLANCOMPARISON_H
