// BenchProgram: the tables by which the runtime exchanges what hyc-bench measures, as a compiled program has them.
//
// Ranks of a host are consecutive. Where they are even in number a host is two stages, so that transfers, which go from
// stage to stage, can go from one half of it to the other:
//
//   2 hosts of 4 ranks    rank   0  1  2  3  4  5  6  7
//                         stage  0  0  1  1  2  2  3  3      within a host 0 to 1 and 2 to 3, between hosts 0 to 2
#ifndef HYC_BENCH_BENCH_PROGRAM_H_
#define HYC_BENCH_BENCH_PROGRAM_H_

#include <vector>

#include "figure.h"
#include "hycrt/program.h"

namespace hycbench {

enum Arena { kShared, kPrivate, kFile };

class BenchProgram {
 public:
  // `sizes` are the bytes of messages, the largest last. Without bytes of a file no arena is one.
  BenchProgram(int rank, int hosts, int ranksHere, std::vector<int64_t> sizes, int64_t fileBytes);
  BenchProgram(const BenchProgram&) = delete;
  BenchProgram& operator=(const BenchProgram&) = delete;

  const hycrt::Program& program() const { return program_; }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  // Of the tiers that there are: how many ranks meet, and the rows of their exchanges.
  int ranksOf(Tier tier) const;
  int collective(Tier tier, hycrt::CollectiveKind kind) const;
  // Whether some ranks send within this tier; of this one the row of its transfer of a size, -1 where it has none.
  bool hasTransfers(Tier tier) const;
  int transfer(Tier tier, size_t size) const;

 private:
  void addTransfers(Tier tier, int first, int second, int stage);

  const int hosts_, ranksHere_;
  const std::vector<int64_t> sizes_;
  bool isHalved_;
  std::vector<hycrt::ArenaDesc> arenas_;
  std::vector<hycrt::GroupDesc> groups_;
  std::vector<hycrt::CollectiveDesc> collectives_;
  std::vector<hycrt::TransferDesc> transfers_;
  int firstTransfer_[3] = {-1, -1, -1};  // by tier
  hycrt::Program program_{};
};

}  // namespace hycbench

#endif  // HYC_BENCH_BENCH_PROGRAM_H_
