// How several dimensions are resampled on CPUs: by passes over one dimension each, of slabs that fit the cache. The
// surprise: what cpu.cpp reads are plain fields, since it must not call inline functions (isa/dispatch.h).
#ifndef HYC_KERNELS_RESAMPLE_PASSES_H_
#define HYC_KERNELS_RESAMPLE_PASSES_H_

#include "kernels/resample/op.h"

namespace hyc::kernels::resampling {

// One dimension of a slab [outer, from, inner].
struct Pass {
  int64_t outer = 1, from = 1, to = 1, taps = 1, inner = 1;
  int64_t firstOfTable = 0, firstWeight = 0;  // where the tables of the dimension begin
  // Where `inner` is too short for vectors: how many lines (elements of `outer`) are turned to lie side by side. Else
  // 0.
  int64_t lines = 0;
};

struct Plan {
  Pass passes[kResampledDims];
  int count = 0;
  int64_t slabs = 0, slabOuter = 0;  // elements of the outer dimension in a slab; the last has what is left
  int64_t between = 0, buffers = 0;  // floats that a pass leaves to the next, and how many times they are kept
  int64_t scratch = 0;               // floats of a thread, for lines
};

struct Tables {
  const int64_t *firsts = nullptr;
  const float *weights = nullptr;
};

// resample of the slabs of `plan`; `last`: the plan of the last one alone.
template <typename T>
void resampleSlabs(const ResampleDesc &desc, const Plan &plan, const Plan &last, const T *x, const Tables &tables, T *y,
                   void *workspace);

constexpr int64_t kShortRow = 16, kMostLines = 64, kFewestLines = 16;
constexpr int64_t kLineFloats = 8192, kSlabFloats = 32768;  // of the first cache, and of the second

// Whether dimension a comes before b, which is behind it: the one that makes less of what it reads. Of equal ones the
// inner where they grow, so that its lines, which are turned, are fewer.
constexpr bool comesFirst(const ResampleDesc &d, int a, int b) {
  const int64_t left = d.to[a] * d.from[b], right = d.to[b] * d.from[a];
  return left != right ? left < right : d.to[a] <= d.from[a];
}

constexpr int64_t linesOf(const Pass &pass) {
  if (pass.inner >= kShortRow) return 0;
  int64_t count = kMostLines;
  while (count > kFewestLines && (pass.from + pass.to) * pass.inner * count > kLineFloats) count /= 2;
  return pass.outer < count ? pass.outer : count;
}

// Lines before and after, and once more as they lie, where they are no f32.
constexpr int64_t scratchOf(const Pass &pass) {
  return pass.lines * pass.inner * (pass.from + pass.to + (pass.from > pass.to ? pass.from : pass.to));
}

// Of slabs of `slabOuter` elements of the outer dimension; 0: as many as fit.
constexpr Plan planOf(const ResampleDesc &d, int64_t slabOuter = 0) {
  Plan plan;
  int order[kResampledDims] = {};
  int64_t largest = d.inner;
  for (int dim = 0; dim < kResampledDims; ++dim) {
    largest *= d.from[dim] > d.to[dim] ? d.from[dim] : d.to[dim];
    if (d.taps[dim] == 0) continue;
    int at = plan.count++;
    for (; at > 0 && !comesFirst(d, order[at - 1], dim); --at) order[at] = order[at - 1];
    order[at] = dim;
  }
  plan.slabOuter = slabOuter > 0 ? slabOuter : largest > 0 && largest < kSlabFloats ? kSlabFloats / largest : 1;
  if (plan.slabOuter > d.outer) plan.slabOuter = d.outer;
  plan.slabs = plan.slabOuter ? (d.outer + plan.slabOuter - 1) / plan.slabOuter : 0;
  plan.buffers = plan.count > 2 ? 2 : plan.count - 1;
  int64_t sizes[kResampledDims] = {d.from[0], d.from[1], d.from[2]};
  for (int i = 0; i < plan.count; ++i) {
    const int dim = order[i];
    Pass &pass = plan.passes[i];
    pass.outer = plan.slabOuter, pass.inner = d.inner;
    pass.from = d.from[dim], pass.to = d.to[dim], pass.taps = d.taps[dim];
    for (int other = 0; other < dim; ++other) {
      pass.outer *= sizes[other];
      if (d.taps[other] == 0) continue;
      pass.firstOfTable += d.to[other];
      pass.firstWeight += d.to[other] * d.taps[other];
    }
    for (int other = dim + 1; other < kResampledDims; ++other) pass.inner *= sizes[other];
    pass.lines = linesOf(pass);
    sizes[dim] = d.to[dim];
    const int64_t written = pass.outer * pass.to * pass.inner, scratch = scratchOf(pass);
    if (i + 1 < plan.count && written > plan.between) plan.between = written;
    if (scratch > plan.scratch) plan.scratch = scratch;
  }
  return plan;
}

// Scratch memory on up to `threads` threads.
constexpr int64_t workspaceBytes(const ResampleDesc &d, int64_t threads) {
  const Plan plan = planOf(d);
  const int64_t slabs = plan.slabs < threads ? plan.slabs : threads;
  return (threads * plan.scratch + slabs * plan.buffers * plan.between) * static_cast<int64_t>(sizeof(float));
}

}  // namespace hyc::kernels::resampling

#endif  // HYC_KERNELS_RESAMPLE_PASSES_H_
