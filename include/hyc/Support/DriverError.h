// DriverError: why a compilation ends, with the exit status that it ends with (sysexits). A code is chosen by who has
// to act: the user types something else (usage), mends a file (data), installs something (unavailable), makes room
// (io), or reports a fault of hyc (internal).
#ifndef HYC_SUPPORT_DRIVERERROR_H
#define HYC_SUPPORT_DRIVERERROR_H

#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

namespace hyc {

enum class ExitCode { Ok = 0, Usage = 64, Data = 65, Unavailable = 69, Internal = 70, Io = 74 };

class DriverError : public llvm::ErrorInfo<DriverError> {
public:
  static char ID;
  /// An empty message means that diagnostics have said it already.
  DriverError(ExitCode code, const llvm::Twine &message) : code(code), message(message.str()) {}

  ExitCode getCode() const { return code; }
  const std::string &getMessage() const { return message; }
  void log(llvm::raw_ostream &os) const override { os << message; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

private:
  ExitCode code;
  std::string message;
};

inline llvm::Error makeError(ExitCode code, const llvm::Twine &message) {
  return llvm::make_error<DriverError>(code, message);
}
inline llvm::Error usageError(const llvm::Twine &message) { return makeError(ExitCode::Usage, message); }
/// "cannot write 'x': No space left on device"
inline llvm::Error ioError(const llvm::Twine &what, std::error_code error) {
  return makeError(ExitCode::Io, what + ": " + error.message());
}

} // namespace hyc

#endif // HYC_SUPPORT_DRIVERERROR_H
