// One rank of hyc-bench: it meets the others as the ranks of a training do, and measures together with them. Rank 0
// tells the figures on its standard output.
#ifndef HYC_BENCH_RANK_H_
#define HYC_BENCH_RANK_H_

#include "bench_options.h"
#include "hycrt/status.h"

namespace hycbench {

hycrt::Status runRank(const BenchOptions& options);

}  // namespace hycbench

#endif  // HYC_BENCH_RANK_H_
