// Board: where the launcher of a job lets its ranks leave words for each other, before they have met. What stands there
// is no secret and nobody's word for anything: it tells where rank 0 may be asked, who then has to prove that it is one
// of the job (comm/shm/handshake.h). A token never goes there.
#ifndef HYCRT_SRC_COMM_LAUNCH_BOARD_H_
#define HYCRT_SRC_COMM_LAUNCH_BOARD_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/file.h"
#include "hycrt/status.h"

namespace hycrt {

// Keys and values have neither spaces nor line ends in them, nor '=', and values at most kMostValueBytes.
inline constexpr size_t kMostValueBytes = 500;

class Board {
 public:
  // The launcher is told that this process needs it no more.
  virtual ~Board() = default;
  virtual Status put(const std::string& key, const std::string& value) = 0;
  // Returns when all ranks have called it: what each has put until then is seen by all.
  virtual Status fence() = 0;
  // What `rank` has put.
  virtual Result<std::string> get(int rank, const std::string& key) = 0;
};

// MPICH's launcher, and Slurm's with --mpi=pmi2: version 1 of PMI's lines of text over the descriptor that PMI_FD
// names.
Result<std::unique_ptr<Board>> openPmi(int descriptor, int64_t timeoutMs);

// Open MPI's launcher: PMIx, by its library (libpmix.so.2), which is opened now.
Result<std::unique_ptr<Board>> openPmix(int64_t timeoutMs);

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_LAUNCH_BOARD_H_
