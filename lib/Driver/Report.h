// report.txt: what the compiled program will exchange and allocate, each line with the op that causes it.
#ifndef HYC_LIB_DRIVER_REPORT_H
#define HYC_LIB_DRIVER_REPORT_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace hyc {

/// Collectives and transfers of a phase-4 module, per rank and step.
std::string reportExchanges(mlir::ModuleOp local);

/// Arenas of a phase-5 module: peak bytes beside the liveness lower bound.
std::string reportArenas(mlir::ModuleOp rank);

} // namespace hyc

#endif // HYC_LIB_DRIVER_REPORT_H
