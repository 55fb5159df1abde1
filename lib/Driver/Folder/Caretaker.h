// Caretaker: a child that removes a staging folder where this process is killed and can do so no more. It knows by a
// pipe whose other end nobody else holds: a byte in it, and there is nothing to do; its end without one is this
// process' too. It waits for compilers to be gone, which ProcessGroup ends at the same time.
#ifndef HYC_LIB_DRIVER_FOLDER_CARETAKER_H
#define HYC_LIB_DRIVER_FOLDER_CARETAKER_H

#include "llvm/ADT/ArrayRef.h"

#include <string>
#include <sys/types.h>

namespace hyc {

class Caretaker {
public:
  /// `created`: folders that go, too, where they are empty then; outermost first. Where no process can be had, nobody
  /// takes care, and the folder stays for the next compilation to remove.
  Caretaker(const std::string &staging, llvm::ArrayRef<std::string> created);
  /// From here on the folder is this process' own matter.
  ~Caretaker();
  Caretaker(const Caretaker &) = delete;
  Caretaker &operator=(const Caretaker &) = delete;

private:
  pid_t child = -1;
  int pipeEnd = -1;
};

} // namespace hyc

#endif // HYC_LIB_DRIVER_FOLDER_CARETAKER_H
