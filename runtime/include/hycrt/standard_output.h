// The end of what a tool prints: output that nobody got is a failure of one that has none else.
#ifndef HYCRT_STANDARD_OUTPUT_H_
#define HYCRT_STANDARD_OUTPUT_H_

#include <cerrno>
#include <cstdio>

#include "hycrt/status.h"

namespace hycrt {

// Of a write that failed earlier the one that is tried again here says why; where that is too late, nobody knows.
inline Status flushOutput() {
  const bool isCut = std::ferror(stdout) != 0;
  if (std::fflush(stdout) != 0) return errnoError("cannot write to standard output", errno);
  return isCut ? ioError("cannot write to standard output; a part of what was printed is lost") : Status();
}

}  // namespace hycrt

#endif  // HYCRT_STANDARD_OUTPUT_H_
