// Rotary positions on CPUs: one row of the tables serves all heads of a position.
#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/parallel/team.h"
#include "kernels/rope/op.h"

namespace hyc::kernels {
namespace HYC_ISA {

// `sign` is 1, or -1 for the inverse.
template <typename T>
static void turnHead(const RopeDesc &d, const T *x, const float *__restrict cos, const float *__restrict sin,
                     float sign, T *y) {
  for (int64_t i = 0; i < d.pairs; ++i) {
    const float first = x[i], second = x[d.pairs + i], s = sign * sin[i];
    y[i] = T(first * cos[i] - second * s);
    y[d.pairs + i] = T(second * cos[i] + first * s);
  }
  for (int64_t i = 2 * d.pairs; i < d.headDim; ++i) y[i] = x[i];
}

template <typename T>
void rope(const RopeDesc &d, const T *x, const float *cos, const float *sin, T *y) {
  const float sign = d.inverse ? -1.0f : 1.0f;
  const int64_t rows = d.batch * d.length, width = d.heads * d.headDim;
  runTeam(rows * width >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t table = (d.tablePerSample ? row : row % d.length) * d.pairs;
      for (int64_t h = 0; h < d.heads; ++h)
        turnHead(d, x + row * width + h * d.headDim, cos + table, sin + table, sign, y + row * width + h * d.headDim);
    }
  });
}

HYC_INSTANTIATE(rope)

}  // namespace HYC_ISA

HYC_DISPATCH_TEMPLATE(void, rope, (const RopeDesc &d, const T *x, const float *cos, const float *sin, T *y),
                      (d, x, cos, sin, y))

}  // namespace hyc::kernels
