// Programs with one fault each, for tests of what is refused before anything runs.
#ifndef HYC_TEST_EQUIVALENCE_SCHEDULEMUTATION_H
#define HYC_TEST_EQUIVALENCE_SCHEDULEMUTATION_H

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <string>

namespace hyc::equivalence {

/// Changes one thing of a phase 4 module, chosen by `seed`. Tells what; "" where twenty choices found nothing to
/// change.
std::string mutate(mlir::ModuleOp module, uint64_t seed);

} // namespace hyc::equivalence

#endif // HYC_TEST_EQUIVALENCE_SCHEDULEMUTATION_H
