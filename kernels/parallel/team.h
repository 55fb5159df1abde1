// Teams of threads that allocate nothing. libgomp keeps the team of the last region and takes it again for one of as
// many threads; for a region of one thread it allocates a team each time, which a training step must not do. Work that
// is not worth a team, or has none to go to, is therefore done by the caller, outside of any region.
//
// Worksharing constructs (`#pragma omp for schedule(static)`) may stand inside `region`: where there is no team they
// run whole. A dynamic schedule would allocate there; forEachJob and shareJobs are for that.
#ifndef HYC_KERNELS_PARALLEL_TEAM_H_
#define HYC_KERNELS_PARALLEL_TEAM_H_

#include <omp.h>

#include <cstdint>

namespace hyc::kernels {

// Runs `region` on every thread of a team, or once.
template <typename Region>
inline void runTeam(bool worthwhile, Region &&region) {
  if (!worthwhile || omp_get_max_threads() == 1) {
    region();
    return;
  }
#pragma omp parallel
  region();
}

// Inside a team: job(0) … job(count - 1), handed out as threads become free. Ends when all are done.
template <typename Job>
inline void shareJobs(int64_t count, Job &&job) {
  if (omp_get_num_threads() == 1) {
    for (int64_t i = 0; i < count; ++i) job(i);
    return;
  }
#pragma omp for schedule(dynamic)
  for (int64_t i = 0; i < count; ++i) job(i);
}

// Who does the passes over a slab, for functions that are told by a type: this is one thread of several that have a
// slab each. Its counterpart, all threads together, is the kernel's: it says whether they are a team already.
struct Alone {
  template <typename Job>
  [[gnu::always_inline]] static inline void forEach(int64_t count, const Job &job) {
    for (int64_t i = 0; i < count; ++i) job(i);
  }
};

// Jobs of unequal size, handed out as threads become free.
template <typename Job>
inline void forEachJob(bool worthwhile, int64_t count, Job &&job) {
  runTeam(worthwhile, [&] { shareJobs(count, job); });
}

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_PARALLEL_TEAM_H_
