// Rotary positions on GPUs: a thread has a pack of pairs, first and second elements, or a pack of what is only copied.
#include <cmath>

#include "kernels/cuda/device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"
#include "kernels/rope/cuda.h"

namespace hyc::kernels::cuda {
namespace {

template <int n>
struct Angles {
  float cos[n], sin[n];
};
template <int n>
__device__ inline Angles<n> anglesAt(const float *cos, const float *sin, int64_t at, float sign) {
  constexpr int kPart = n < 4 ? n : 4;
  Angles<n> angles;
  for (int first = 0; first < n; first += kPart) {
    const Pack<float, kPart> c = loadPack<kPart>(cos + at + first), s = loadPack<kPart>(sin + at + first);
    for (int i = 0; i < kPart; ++i) {
      angles.cos[first + i] = c.at[i];
      angles.sin[first + i] = sign * s.at[i];
    }
  }
  return angles;
}

// n pairs, or n elements that are copied, a thread; both numbers are multiples of n.
template <int n, typename T>
__global__ void ropeKernel(RopeDesc d, const T *x, const float *cos, const float *sin, T *y) {
  const int64_t turned = d.pairs / n, units = turned + (d.headDim - 2 * d.pairs) / n;
  const float sign = d.inverse ? -1.0f : 1.0f;
  forEach(d.batch * d.length * d.heads * units, [&](int64_t index) {
    const int64_t unit = index % units, head = index / units, row = head / d.heads;
    const T *from = x + head * d.headDim;
    T *to = y + head * d.headDim;
    if (unit >= turned) {
      const int64_t at = 2 * d.pairs + (unit - turned) * n;
      storePack(to + at, loadPack<n>(from + at));
      return;
    }
    const int64_t table = (d.tablePerSample ? row : row % d.length) * d.pairs;
    const Angles<n> angles = anglesAt<n>(cos, sin, table + unit * n, sign);
    const Pack<T, n> first = loadPack<n>(from + unit * n), second = loadPack<n>(from + d.pairs + unit * n);
    Pack<T, n> newFirst, newSecond;
    for (int i = 0; i < n; ++i) {
      newFirst.at[i] = T(first.at[i] * angles.cos[i] - second.at[i] * angles.sin[i]);
      newSecond.at[i] = T(second.at[i] * angles.cos[i] + first.at[i] * angles.sin[i]);
    }
    storePack(to + unit * n, newFirst);
    storePack(to + d.pairs + unit * n, newSecond);
  });
}

template <int n, typename T>
void launch(Stream stream, const RopeDesc &d, const T *x, const float *cos, const float *sin, T *y) {
  const int64_t units = (d.headDim - d.pairs) / n;
  kernel(ropeKernel<n, T>).launch(stream, gridOver(d.batch * d.length * d.heads * units), d, x, cos, sin, y);
}

// As many as a launch's parameters have room for beside the rest.
constexpr int kFrequencies = 512;
struct Frequencies {
  float at[kFrequencies];
};

__global__ void tableKernel(RotaryTableDesc d, Frequencies frequencies, int64_t first, int64_t count, float *cosines,
                            float *sines) {
  const float factor = static_cast<float>(d.factor);
  forEach(d.positions * count, [&](int64_t index) {
    const int64_t p = index / count, i = index % count;
    const double angle = static_cast<float>(p) * frequencies.at[i];
    cosines[p * d.pairs + first + i] = static_cast<float>(cos(angle)) * factor;
    sines[p * d.pairs + first + i] = static_cast<float>(sin(angle)) * factor;
  });
}

}  // namespace

template <typename T>
void rope(Stream stream, const RopeDesc &d, const T *x, const float *cos, const float *sin, T *y) {
  constexpr int n = kPackSize<T>;
  if (d.pairs % n == 0 && d.headDim % n == 0 && isPackable(0, x, cos, sin, y))
    launch<n>(stream, d, x, cos, sin, y);
  else
    launch<1>(stream, d, x, cos, sin, y);
}

void rotaryTable(Stream stream, const RotaryTableDesc &d, const float *frequencies, float *cos, float *sin) {
  for (int64_t first = 0; first < d.pairs; first += kFrequencies) {
    const int64_t count = d.pairs - first < kFrequencies ? d.pairs - first : kFrequencies;
    Frequencies part{};
    for (int64_t i = 0; i < count; ++i) part.at[i] = frequencies[first + i];
    kernel(tableKernel).launch(stream, gridOver(d.positions * count), d, part, first, count, cos, sin);
  }
}

#define HYC_INSTANTIATE(T) \
  template void rope<T>(Stream, const RopeDesc &, const T *, const float *, const float *, T *);
HYC_INSTANTIATE(float)
HYC_INSTANTIATE(Bf16)
HYC_INSTANTIATE(F16)

}  // namespace hyc::kernels::cuda
