// Resampling on CPUs: dimension by dimension, a slab that fits the cache at a time. Vectors run along what lies behind
// the dimension; where that is little, lines are turned, so that several lie side by side.
#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/isa/transpose.h"
#include "kernels/parallel/team.h"
#include "kernels/resample/passes.h"

namespace hyc::kernels::resampling {
namespace HYC_ISA {
namespace {

using namespace kernels::HYC_ISA;

// The passes over a slab are one thread's of several that have a slab each (Alone), or those of all threads of a team
// together, which then wait for one another.
struct Together {
  template <typename Job>
  static HYC_INLINE void forEach(int64_t count, const Job &job) {
#pragma omp for schedule(static)
    for (int64_t i = 0; i < count; ++i) job(i);
  }
};

// One row of results: y[c] = Σ weights[t] · x[t · stride + c].
template <typename In, typename Out>
HYC_INLINE void weightedSum(const float *weights, int64_t taps, const In *x, int64_t stride, int64_t count, Out *y) {
  constexpr int64_t kVectors = 4;
  int64_t c = 0;
  for (; c + kVectors * kLanes <= count; c += kVectors * kLanes) {
    Vector sums[kVectors];
    const Vector first = broadcast(weights[0]);
    for (int64_t v = 0; v < kVectors; ++v) sums[v] = first * load(x + c + v * kLanes);
    for (int64_t t = 1; t < taps; ++t) {
      const Vector weight = broadcast(weights[t]);
      for (int64_t v = 0; v < kVectors; ++v) sums[v] = sums[v] + weight * load(x + t * stride + c + v * kLanes);
    }
    for (int64_t v = 0; v < kVectors; ++v) store(y + c + v * kLanes, sums[v]);
  }
  for (; c + kLanes <= count; c += kLanes) {
    Vector sum = broadcast(weights[0]) * load(x + c);
    for (int64_t t = 1; t < taps; ++t) sum = sum + broadcast(weights[t]) * load(x + t * stride + c);
    store(y + c, sum);
  }
  for (; c < count; ++c) {
    float sum = weights[0] * static_cast<float>(x[c]);
    for (int64_t t = 1; t < taps; ++t) sum = sum + weights[t] * static_cast<float>(x[t * stride + c]);
    y[c] = static_cast<Out>(sum);
  }
}

// Results i of [from, width]; a line, or several that lie side by side.
template <typename In, typename Out>
HYC_INLINE void resampleRow(const Pass &pass, const Tables &tables, int64_t width, int64_t i, const In *x, Out *y) {
  weightedSum(tables.weights + i * pass.taps, pass.taps, x + tables.firsts[i] * width, width, width, y + i * width);
}

template <typename To, typename From>
inline void convertRow(const From *from, int64_t count, To *to) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, load(from + i));
  for (; i < count; ++i) to[i] = static_cast<To>(static_cast<float>(from[i]));
}

// Lines of f32 as rows of `turned`, or as columns of it.
inline void turn(const float *lines, int64_t count, int64_t size, float *turned, float *) {
  transposeBlock(lines, size, count, size, turned, count);
}
inline void turnBack(const float *turned, int64_t count, int64_t size, float *lines, float *) {
  transposeBlock(turned, count, size, count, lines, size);
}
// The same of narrower ones, by way of `wide`.
template <typename T>
inline void turn(const T *lines, int64_t count, int64_t size, float *turned, float *wide) {
  convertRow(lines, count * size, wide);
  turn(wide, count, size, turned, nullptr);
}
template <typename T>
inline void turnBack(const float *turned, int64_t count, int64_t size, T *lines, float *wide) {
  turnBack(turned, count, size, wide, static_cast<float *>(nullptr));
  convertRow(wide, count * size, lines);
}

// `count` lines at x.
template <typename In, typename Out>
void resampleLines(const Pass &pass, const Tables &tables, const In *x, int64_t count, Out *y, float *scratch) {
  const int64_t read = pass.from * pass.inner, written = pass.to * pass.inner, width = pass.inner * count;
  float *const before = scratch, *const after = before + read * count, *const wide = after + written * count;
  turn(x, count, read, before, wide);
  for (int64_t i = 0; i < pass.to; ++i) resampleRow(pass, tables, width, i, before, after);
  turnBack(after, count, written, y, wide);
}

template <typename Share, typename In, typename Out>
void runPass(const Pass &pass, const Tables &all, const In *x, Out *y, float *scratch) {
  const Tables tables = {all.firsts + pass.firstOfTable, all.weights + pass.firstWeight};
  if (pass.lines == 0) {
    Share::forEach(pass.outer * pass.to, [&](int64_t job) {
      const int64_t o = job / pass.to;
      resampleRow(pass, tables, pass.inner, job % pass.to, x + o * pass.from * pass.inner,
                  y + o * pass.to * pass.inner);
    });
    return;
  }
  const int64_t lines = pass.lines;
  Share::forEach((pass.outer + lines - 1) / lines, [&](int64_t job) {
    const int64_t first = job * lines, left = pass.outer - first;
    resampleLines(pass, tables, x + first * pass.from * pass.inner, left < lines ? left : lines,
                  y + first * pass.to * pass.inner, scratch);
  });
}

// All passes over a slab; `between` has room for what is between them, twice where there are three.
template <typename Share, typename T>
void runPasses(const Plan &plan, const Tables &tables, const T *x, T *y, float *between, int64_t apart,
               float *scratch) {
  const Pass *const passes = plan.passes;
  if (plan.count == 1) return runPass<Share>(passes[0], tables, x, y, scratch);
  runPass<Share>(passes[0], tables, x, between, scratch);
  if (plan.count == 2) return runPass<Share>(passes[1], tables, between, y, scratch);
  runPass<Share>(passes[1], tables, between, between + apart, scratch);
  runPass<Share>(passes[2], tables, between + apart, y, scratch);
}

template <typename Share, typename T>
void resampleSlab(const ResampleDesc &d, const Plan &plan, const Plan &last, int64_t slab, const T *x,
                  const Tables &tables, T *y, float *between, float *scratch) {
  const int64_t read = d.from[0] * d.from[1] * d.from[2] * d.inner, written = d.to[0] * d.to[1] * d.to[2] * d.inner;
  const int64_t first = slab * plan.slabOuter;
  runPasses<Share>(slab + 1 == plan.slabs ? last : plan, tables, x + first * read, y + first * written, between,
                   plan.between, scratch);
}

}  // namespace

template <typename T>
void resampleSlabs(const ResampleDesc &d, const Plan &plan, const Plan &last, const T *x, const Tables &tables, T *y,
                   void *workspace) {
  const int64_t elements = d.outer * d.to[0] * d.to[1] * d.to[2] * d.inner;
  float *const scratch = static_cast<float *>(workspace);
  float *const between = scratch + omp_get_max_threads() * plan.scratch;
  runTeam(elements >= kParallelElements, [&] {
    const int64_t thread = omp_get_thread_num();
    float *const own = scratch + thread * plan.scratch;
    if (plan.slabs < omp_get_num_threads()) {
      for (int64_t slab = 0; slab < plan.slabs; ++slab)
        resampleSlab<Together>(d, plan, last, slab, x, tables, y, between, own);
      return;
    }
#pragma omp for schedule(static) nowait
    for (int64_t slab = 0; slab < plan.slabs; ++slab)
      resampleSlab<Alone>(d, plan, last, slab, x, tables, y, between + thread * plan.buffers * plan.between, own);
  });
}
HYC_INSTANTIATE(resampleSlabs)

}  // namespace HYC_ISA

HYC_DISPATCH_TEMPLATE(void, resampleSlabs,
                      (const ResampleDesc &d, const Plan &plan, const Plan &last, const T *x, const Tables &tables,
                       T *y, void *workspace),
                      (d, plan, last, x, tables, y, workspace))

}  // namespace hyc::kernels::resampling
