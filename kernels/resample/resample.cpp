// Resampling on CPUs: the plan of its passes, once for all instruction sets.
#include <omp.h>

#include "kernels/isa/scratch.h"
#include "kernels/narrow_float.h"
#include "kernels/resample/passes.h"

namespace hyc::kernels {

template <typename T>
void resample(const ResampleDesc &d, const T *x, const int64_t *firsts, const float *weights, T *y, void *workspace) {
  const resampling::Plan plan = resampling::planOf(d);
  if (plan.slabs == 0) return;
  if (!workspace)
    workspace =
        threadScratch(resampling::workspaceBytes(d, omp_get_max_threads()) / static_cast<int64_t>(sizeof(float)));
  const int64_t left = d.outer - (plan.slabs - 1) * plan.slabOuter;
  resampling::resampleSlabs(d, plan, resampling::planOf(d, left), x, {firsts, weights}, y, workspace);
}
template void resample(const ResampleDesc &, const float *, const int64_t *, const float *, float *, void *);
template void resample(const ResampleDesc &, const Bf16 *, const int64_t *, const float *, Bf16 *, void *);
template void resample(const ResampleDesc &, const F16 *, const int64_t *, const float *, F16 *, void *);

}  // namespace hyc::kernels
