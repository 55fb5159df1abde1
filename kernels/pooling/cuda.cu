// Pooling by maximum on GPUs: a thread a window, whose elements are looked at in the order of the CPU's kernel.
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"
#include "kernels/pooling/cuda.h"

namespace hyc::kernels::cuda {
namespace {

template <typename T>
__global__ void maxPoolKernel(PoolingDesc d, const T *x, T *y, int64_t *indices) {
  forEach(d.planes * d.places(), [&](int64_t i) {
    const int64_t p = i % d.places();
    const T *plane = x + i / d.places() * d.sizes();
    const int64_t p0 = p / (d.positions[1] * d.positions[2]), p1 = p / d.positions[2] % d.positions[1];
    const int64_t p2 = p % d.positions[2];
    T most = T(-__builtin_inff());
    int64_t index = -1;
    for (int64_t k0 = 0; k0 < d.window[0]; ++k0) {
      const int64_t s0 = p0 * d.stride[0] + k0 * d.dilation[0] - d.low[0];
      if (s0 < 0 || s0 >= d.size[0]) continue;
      for (int64_t k1 = 0; k1 < d.window[1]; ++k1) {
        const int64_t s1 = p1 * d.stride[1] + k1 * d.dilation[1] - d.low[1];
        if (s1 < 0 || s1 >= d.size[1]) continue;
        for (int64_t k2 = 0; k2 < d.window[2]; ++k2) {
          const int64_t s2 = p2 * d.stride[2] + k2 * d.dilation[2] - d.low[2];
          if (s2 < 0 || s2 >= d.size[2]) continue;
          const int64_t at = (s0 * d.size[1] + s1) * d.size[2] + s2;
          const float value = plane[at], best = most;
          if (index >= 0 && !(best == best && (value > best || value != value))) continue;
          most = plane[at];
          index = at;
        }
      }
    }
    y[i] = most;
    indices[i] = index;
  });
}

}  // namespace

template <typename T>
void maxPool(Stream stream, const PoolingDesc &d, const T *x, T *y, int64_t *indices) {
  kernel(maxPoolKernel<T>).launch(stream, gridOver(d.planes * d.places()), d, x, y, indices);
}
template void maxPool<float>(Stream, const PoolingDesc &, const float *, float *, int64_t *);
template void maxPool<Bf16>(Stream, const PoolingDesc &, const Bf16 *, Bf16 *, int64_t *);
template void maxPool<F16>(Stream, const PoolingDesc &, const F16 *, F16 *, int64_t *);

}  // namespace hyc::kernels::cuda
