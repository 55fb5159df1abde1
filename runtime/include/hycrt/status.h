// Status and Result: how every fallible call of the runtime answers. The numeric value of a code is the exit status
// that a process ends with when nothing handles it (sysexits), so a code is chosen by who has to act:
//   kUsage        the command line or the environment: the user types something else
//   kData         a file's content: the user mends the file
//   kUnavailable  something outside that is needed is not there
//   kInternal     the program's own tables contradict each other, or a system call failed that never should
//   kIo           reading or writing failed: disk full, no permission, no such file
//   kPeerLost     another rank ended first; this rank is only a consequence and never the one to blame
#ifndef HYCRT_STATUS_H_
#define HYCRT_STATUS_H_

#include <optional>
#include <string>
#include <utility>

namespace hycrt {

enum class StatusCode { kOk = 0, kUsage = 64, kData = 65, kUnavailable = 69, kInternal = 70, kIo = 74, kPeerLost = 75 };

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  int exitCode() const { return static_cast<int>(code_); }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status usageError(std::string message) { return {StatusCode::kUsage, std::move(message)}; }
inline Status dataError(std::string message) { return {StatusCode::kData, std::move(message)}; }
inline Status unavailableError(std::string message) { return {StatusCode::kUnavailable, std::move(message)}; }
inline Status internalError(std::string message) { return {StatusCode::kInternal, std::move(message)}; }
inline Status ioError(std::string message) { return {StatusCode::kIo, std::move(message)}; }

// An ioError that ends in what errno says; `what` reads like "cannot open 'x.bin'". Where it says that there are too
// many descriptors it is an unavailableError with their limit.
Status errnoError(const std::string& what, int error);

// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit by design
  // A reason that is none would be taken for a value that is not there.
  Result(Status status)  // NOLINT: implicit by design
      : status_(status.ok() ? internalError("failed without saying why") : std::move(status)) {}

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

#define HYCRT_RETURN_IF_ERROR(expression)                                                     \
  do {                                                                                        \
    if (::hycrt::Status hycrtStatus_ = (expression); !hycrtStatus_.ok()) return hycrtStatus_; \
  } while (false)

}  // namespace hycrt

#endif  // HYCRT_STATUS_H_
