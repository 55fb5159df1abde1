// report.txt: what the compiled program will exchange, each line with the op that causes it. What it allocates:
// MemoryReport.h.
#ifndef HYC_LIB_DRIVER_REPORT_REPORT_H
#define HYC_LIB_DRIVER_REPORT_REPORT_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace hyc {

/// Collectives and transfers of a phase-4 module, per rank and step.
std::string reportExchanges(mlir::ModuleOp local);

} // namespace hyc

#endif // HYC_LIB_DRIVER_REPORT_REPORT_H
