// Pooling by maximum on CPUs: a line of positions at a time, tap by tap, so that the innermost loop is over positions.
#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/parallel/team.h"
#include "kernels/pooling/op.h"

namespace hyc::kernels {
namespace HYC_ISA {

// Positions [begin, end) of a line whose window's element `shift` beyond the first lies inside.
struct Range {
  int64_t begin, end;
};
static Range insideOf(int64_t positions, int64_t size, int64_t stride, int64_t shift) {
  int64_t begin = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  int64_t end = shift >= size ? 0 : (size - 1 - shift) / stride + 1;
  if (end > positions) end = positions;
  return {begin < end ? begin : end, end};
}

template <typename T>
static void poolLine(const PoolingDesc &d, const T *plane, int64_t p0, int64_t p1, T *y, int64_t *indices) {
  const int64_t stride = d.stride[2];
  for (int64_t i = 0; i < d.positions[2]; ++i) y[i] = T(-__builtin_inff()), indices[i] = -1;
  for (int64_t k0 = 0; k0 < d.window[0]; ++k0) {
    const int64_t s0 = p0 * d.stride[0] + k0 * d.dilation[0] - d.low[0];
    for (int64_t k1 = 0; k1 < d.window[1]; ++k1) {
      const int64_t s1 = p1 * d.stride[1] + k1 * d.dilation[1] - d.low[1];
      if (s0 < 0 || s0 >= d.size[0] || s1 < 0 || s1 >= d.size[1]) continue;
      const int64_t line = (s0 * d.size[1] + s1) * d.size[2];
      for (int64_t k2 = 0; k2 < d.window[2]; ++k2) {
        const int64_t shift = k2 * d.dilation[2] - d.low[2];
        const Range range = insideOf(d.positions[2], d.size[2], stride, shift);
        const T *source = plane + line + shift;
#pragma omp simd
        for (int64_t i = range.begin; i < range.end; ++i) {
          const float value = source[i * stride], best = y[i];
          const bool takes = indices[i] < 0 || (best == best && (value > best || value != value));
          y[i] = takes ? source[i * stride] : y[i];
          indices[i] = takes ? line + shift + i * stride : indices[i];
        }
      }
    }
  }
}

template <typename T>
void maxPool(const PoolingDesc &d, const T *x, T *y, int64_t *indices) {
  const int64_t lines = d.positions[0] * d.positions[1], taps = d.window[0] * d.window[1] * d.window[2];
  runTeam(d.planes * d.places() * taps >= kParallelElements, [&] {
#pragma omp for schedule(static)
    for (int64_t job = 0; job < d.planes * lines; ++job) {
      const int64_t plane = job / lines, line = job % lines, at = job * d.positions[2];
      poolLine(d, x + plane * d.sizes(), line / d.positions[1], line % d.positions[1], y + at, indices + at);
    }
  });
}

HYC_INSTANTIATE(maxPool)

}  // namespace HYC_ISA

HYC_DISPATCH_TEMPLATE(void, maxPool, (const PoolingDesc &d, const T *x, T *y, int64_t *indices), (d, x, y, indices))

}  // namespace hyc::kernels
