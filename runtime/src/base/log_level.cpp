// The environment's word for it.
#include "base/log_level.h"

#include <iterator>

#include "base/launchers.h"
#include "hycrt/log.h"

namespace hycrt {
namespace {

constexpr const char* kNames[] = {"error", "warning", "info", "debug"};
constexpr int kUnknown = -1;

int readLevel() {
  const std::string text = variable(kLogVariable);
  if (text.empty()) return static_cast<int>(LogLevel::kInfo);
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (text == kNames[i]) return static_cast<int>(i);
  }
  return kUnknown;
}

}  // namespace

bool logs(LogLevel level) {
  static const int found = readLevel();
  return static_cast<int>(level) <= (found == kUnknown ? static_cast<int>(LogLevel::kInfo) : found);
}

LogLevel levelOf(const std::string& line) {
  for (const char* begin : {"warning: ", "waiting for "}) {
    if (line.rfind(begin, 0) == 0) return LogLevel::kWarning;
  }
  return LogLevel::kInfo;
}

Status checkLogLevel() {
  if (readLevel() != kUnknown) return {};
  return usageError(std::string("environment variable ") + kLogVariable + " is '" + variable(kLogVariable) +
                    "', expected error, warning, info or debug");
}

}  // namespace hycrt
