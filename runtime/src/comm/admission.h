// Admission: which ranks may take part in a job, as rank 0 decides over whatever the ranks meet by.
#ifndef HYCRT_SRC_COMM_ADMISSION_H_
#define HYCRT_SRC_COMM_ADMISSION_H_

#include <cstdint>
#include <string>

#include "comm/agreement.h"

namespace hycrt {

// What a rank says of itself.
struct RankHello {
  int rank = -1;
  int processId = 0;
  int worldSize = 0;
  uint64_t planHash = 0;
  std::string program;
  std::string agreement;  // what must be the same in all ranks; see Disagreement
  std::string host;       // what its machine is called; empty: there is only one
};

// "rank 3 (process 4711 on host 'b', program 'stage0', plan 0123456789abcdef)"
std::string describe(const RankHello& hello);

class Admission {
 public:
  // `own` is rank 0's, and outlives it.
  explicit Admission(const RankHello& own);

  // Why a rank ends the job; empty: it may take part. `holder`: who has come with its number before; null: nobody has.
  std::string misfit(const RankHello& hello, const RankHello* holder);

 private:
  const RankHello& own_;
  Agreement agreement_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_ADMISSION_H_
