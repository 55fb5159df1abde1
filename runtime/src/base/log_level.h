// How much a rank says of itself on standard error: HYC_LOG=error|warning|info|debug. What it prints as a result, steps
// and tables, is not ruled by it, nor is the error that ends it.
#ifndef HYCRT_SRC_BASE_LOG_LEVEL_H_
#define HYCRT_SRC_BASE_LOG_LEVEL_H_

#include <string>

#include "hycrt/status.h"

namespace hycrt {

enum class LogLevel { kError, kWarning, kInfo, kDebug };

inline constexpr char kLogVariable[] = "HYC_LOG";

// Whether the environment's level is this one or a later one; without one it is kInfo.
bool logs(LogLevel level);

// Of a line for people, by how it begins.
LogLevel levelOf(const std::string& line);

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_LOG_LEVEL_H_
