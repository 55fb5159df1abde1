// Faults that a test asks a BlockFile or the writer of checkpoints for, so that what happens on a failing disk is
// tested and not hoped.
//
// HYC_IO_FAULT is a list of faults, separated by commas, each RANK:OPERATION:WHICH:WHAT
//   RANK       a number, or * for all
//   OPERATION  read or write; of checkpoints also sync and rename
//   WHICH      the number of the piece (from 0, counted for each operation), or * for all
//   WHAT       EIO, ENOSPC, EACCES, short (half of the piece arrives, the rest on the next try), end (nothing arrives),
//   or
//              delay=MS
// "1:write:5:ENOSPC,*:read:*:delay=20"
#ifndef HYCRT_SRC_IO_IO_FAULT_H_
#define HYCRT_SRC_IO_IO_FAULT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "hycrt/status.h"

namespace hycrt {

enum class IoOperation { kRead, kWrite, kSync, kRename };

// What shall happen to one piece; the default is nothing.
struct IoFault {
  int error = 0;                  // errno
  int64_t mostBytes = INT64_MAX;  // at most so many arrive on the first try
  int delayMs = 0;
};

class IoFaults {
 public:
  // Those of `rank`; a usage error quotes what cannot be read.
  static Result<IoFaults> parse(const std::string& text, int rank);
  // From the environment; none without the variable.
  static Result<IoFaults> fromEnvironment(int rank);

  // Counts the piece, so it is asked once a piece.
  IoFault next(IoOperation operation, int64_t pieceBytes);

 private:
  struct Rule {
    IoOperation operation;
    int64_t piece;  // -1: all
    IoFault fault;
    enum class Arrives { kAll, kHalf, kNothing } arrives;
  };
  std::vector<Rule> rules_;
  int64_t seen_[4] = {};  // by operation
};

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_IO_FAULT_H_
