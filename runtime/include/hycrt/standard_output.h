// The end of what a tool prints: output that nobody got is a failure of one that has none else.
#ifndef HYCRT_STANDARD_OUTPUT_H_
#define HYCRT_STANDARD_OUTPUT_H_

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "hycrt/status.h"

namespace hycrt {

// Of a write that failed earlier one more says why: the end of the line that was cut off.
inline Status flushOutput() {
  const bool isCut = std::ferror(stdout) != 0;
  if (std::fflush(stdout) != 0 || (isCut && write(STDOUT_FILENO, "\n", 1) != 1)) {
    return errnoError("cannot write to standard output", errno);
  }
  return isCut ? ioError("cannot write to standard output; a part of what was printed is lost") : Status();
}

}  // namespace hycrt

#endif  // HYCRT_STANDARD_OUTPUT_H_
