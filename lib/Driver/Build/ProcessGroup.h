// ProcessGroup: children that do not outlive this process, however it ends, and neither do their own: a compiler starts
// others, which no signal to it reaches. The group is led by a child that waits for this process to be gone, which is
// when nobody holds the other end of its pipe any more, and then ends the group and with it itself.
#ifndef HYC_LIB_DRIVER_BUILD_PROCESSGROUP_H
#define HYC_LIB_DRIVER_BUILD_PROCESSGROUP_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <sys/types.h>

namespace hyc {

class ProcessGroup {
public:
  /// Where it cannot be made children are in this process's own group.
  ProcessGroup();
  /// Ends what still runs.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup &) = delete;
  ProcessGroup &operator=(const ProcessGroup &) = delete;

  /// Without a shell; nothing to read, and all that is written goes to `logPath`. Whoever starts a process waits for
  /// it.
  llvm::Expected<pid_t> start(llvm::ArrayRef<std::string> command, const std::string &logPath) const;

private:
  pid_t leader = -1;
  int pipeEnd = -1;
};

} // namespace hyc

#endif // HYC_LIB_DRIVER_BUILD_PROCESSGROUP_H
