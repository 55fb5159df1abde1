// Reading the faults that a test asks for, and giving one to the operation that it is meant for.
#include "io/io_fault.h"

#include <cerrno>
#include <cstdlib>
#include <optional>

namespace hycrt {
namespace {

constexpr const char* kVariable = "HYC_IO_FAULT";
constexpr int64_t kMostDigits = 9;

std::vector<std::string> splitAt(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end = text.find(separator); end != std::string::npos; end = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// -1 for *, nothing for what is no number.
std::optional<int64_t> numberOrAll(const std::string& text) {
  if (text == "*") return -1;
  if (text.empty() || text.size() > kMostDigits) return std::nullopt;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
  }
  return std::strtoll(text.c_str(), nullptr, 10);
}

std::optional<IoOperation> operationOf(const std::string& word) {
  constexpr const char* kWords[] = {"read", "write", "sync", "rename"};
  for (int i = 0; i < 4; ++i) {
    if (word == kWords[i]) return static_cast<IoOperation>(i);
  }
  return std::nullopt;
}

Status cannotRead(const std::string& fault) {
  return usageError(std::string(kVariable) + ": cannot read '" + fault +
                    "', expected RANK:read|write|sync|rename:PIECE:EIO|ENOSPC|EACCES|short|end|delay=MS, with * for "
                    "all ranks or pieces");
}

}  // namespace

Result<IoFaults> IoFaults::parse(const std::string& text, int rank) {
  IoFaults faults;
  if (text.empty()) return faults;
  for (const std::string& spelled : splitAt(text, ',')) {
    const std::vector<std::string> parts = splitAt(spelled, ':');
    const std::optional<IoOperation> operation =
        parts.size() == 4 ? operationOf(parts[1]) : std::optional<IoOperation>();
    if (!operation) return cannotRead(spelled);
    const std::optional<int64_t> wantedRank = numberOrAll(parts[0]), piece = numberOrAll(parts[2]);
    if (!wantedRank || !piece) return cannotRead(spelled);
    Rule rule{*operation, *piece, {}, Rule::Arrives::kAll};
    constexpr const char* kDelay = "delay=";
    if (parts[3] == "EIO") {
      rule.fault.error = EIO;
    } else if (parts[3] == "ENOSPC") {
      rule.fault.error = ENOSPC;
    } else if (parts[3] == "EACCES") {
      rule.fault.error = EACCES;
    } else if (parts[3] == "short") {
      rule.arrives = Rule::Arrives::kHalf;
    } else if (parts[3] == "end") {
      rule.arrives = Rule::Arrives::kNothing;
    } else if (parts[3].rfind(kDelay, 0) == 0) {
      const std::optional<int64_t> delay = numberOrAll(parts[3].substr(std::string(kDelay).size()));
      if (!delay || *delay < 0) return cannotRead(spelled);
      rule.fault.delayMs = static_cast<int>(*delay);
    } else {
      return cannotRead(spelled);
    }
    if (*wantedRank == -1 || *wantedRank == rank) faults.rules_.push_back(rule);
  }
  return faults;
}

Result<IoFaults> IoFaults::fromEnvironment(int rank) {
  const char* text = std::getenv(kVariable);
  return parse(text ? text : "", rank);
}

IoFault IoFaults::next(IoOperation operation, int64_t pieceBytes) {
  const int64_t piece = seen_[static_cast<int>(operation)]++;
  IoFault fault;
  for (const Rule& rule : rules_) {
    if (rule.operation != operation || (rule.piece != -1 && rule.piece != piece)) continue;
    if (rule.fault.error) fault.error = rule.fault.error;
    if (rule.fault.delayMs) fault.delayMs = rule.fault.delayMs;
    if (rule.arrives == Rule::Arrives::kHalf) fault.mostBytes = pieceBytes / 2;
    if (rule.arrives == Rule::Arrives::kNothing) fault.mostBytes = 0;
  }
  return fault;
}

}  // namespace hycrt
