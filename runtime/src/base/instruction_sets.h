// What this host's CPU can do that programs may have been compiled for, by the names that Linux has for it: "avx2",
// "avx512f", "asimd".
#ifndef HYCRT_SRC_BASE_INSTRUCTION_SETS_H_
#define HYCRT_SRC_BASE_INSTRUCTION_SETS_H_

#include <string>
#include <vector>

namespace hycrt {

// Those of `wanted` that it lacks.
std::vector<std::string> missingInstructions(const std::vector<std::string>& wanted);
// "AMD EPYC 7763 64-Core Processor"; empty where nothing tells.
std::string nameOfCpu();

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_INSTRUCTION_SETS_H_
