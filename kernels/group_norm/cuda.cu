// Normalisation of groups of channels on GPUs: a warp or a block a group. The gradient goes over channels first, then
// over groups, whose sums follow from those of their channels.
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/rows.h"
#include "kernels/group_norm/cuda.h"

namespace hyc::kernels::cuda {
namespace {

// Rows of groups and channels whose packs lie in one channel. Short ones that have no packs are a warp's, too.
template <typename T, typename Launch>
void chooseGroupRows(const GroupNormDesc &d, int64_t cols, bool isPacked, Launch launch) {
  isPacked = isPacked && d.positions % kPackSize<T> == 0;
  if (!isPacked && cols <= kWarp * kHeldElements) return launch(WarpRows<1>());
  chooseRows<T>(cols, isPacked, launch);
}

template <typename Rows, typename T>
__global__ void forwardKernel(GroupNormDesc d, const T *x, const float *scale, const float *bias, T *y, float *mean,
                              float *rstd) {
  constexpr int n = Rows::kPack;
  const int64_t row = Rows::row(), size = d.channels * d.positions;
  if (row >= d.samples * d.groups) return;
  const RowElements<Rows, T> elements(x + row * size, size);
  const float count = static_cast<float>(size);
  float sum = 0;
  elements.forEach([&](int64_t, const Pack<T, n> &pack) {
    for (int i = 0; i < n; ++i) sum += pack.at[i];
  });
  const float groupMean = Rows::sum(sum) / count;
  float squares = 0;
  elements.forEach([&](int64_t, const Pack<T, n> &pack) {
    for (int i = 0; i < n; ++i) squares += (pack.at[i] - groupMean) * (pack.at[i] - groupMean);
  });
  const float groupRstd = 1.0f / sqrtf(Rows::sum(squares) / count + static_cast<float>(d.epsilon));
  const int64_t firstChannel = row % d.groups * d.channels;
  elements.forEach([&](int64_t at, const Pack<T, n> &pack) {
    const int64_t c = firstChannel + at / d.positions;
    const float factor = groupRstd * scale[c], shift = bias[c];
    Pack<T, n> out;
    for (int i = 0; i < n; ++i) out.at[i] = T((pack.at[i] - groupMean) * factor + shift);
    storePack(y + row * size + at, out);
  });
  if (Rows::thread() == 0) {
    mean[row] = groupMean;
    rstd[row] = groupRstd;
  }
}

// sums: of each channel of each sample those of dy and dy · x̂.
template <typename Rows, typename T>
__global__ void channelKernel(GroupNormDesc d, const T *x, const float *mean, const float *rstd, const T *dy,
                              float *sums) {
  constexpr int n = Rows::kPack;
  const int64_t row = Rows::row();
  if (row >= d.samples * d.groups * d.channels) return;
  const float groupMean = mean[row / d.channels], groupRstd = rstd[row / d.channels];
  const RowElements<Rows, T> xs(x + row * d.positions, d.positions), dys(dy + row * d.positions, d.positions);
  float sum = 0, product = 0;
  xs.forEachWith(dys, [&](int, int64_t, const Pack<T, n> &xPack, const Pack<T, n> &dyPack) {
    for (int i = 0; i < n; ++i) {
      const float g = dyPack.at[i];
      sum += g;
      product += g * ((xPack.at[i] - groupMean) * groupRstd);
    }
  });
  sum = Rows::sum(sum), product = Rows::sum(product);
  if (Rows::thread() == 0) {
    sums[2 * row] = sum;
    sums[2 * row + 1] = product;
  }
}

// dx of a group, which may take the place of dy.
template <typename Rows, typename T>
__global__ void groupKernel(GroupNormDesc d, const T *x, const float *scale, const float *mean, const float *rstd,
                            const float *sums, const T *dy, T *dx) {
  constexpr int n = Rows::kPack;
  const int64_t row = Rows::row(), size = d.channels * d.positions;
  if (row >= d.samples * d.groups) return;
  const float groupMean = mean[row], groupRstd = rstd[row], count = static_cast<float>(size);
  const int64_t firstChannel = row % d.groups * d.channels;
  float sumG = 0, sumGx = 0;
  for (int64_t c = Rows::thread(); c < d.channels; c += Rows::kThreads) {
    sumG += sums[2 * (row * d.channels + c)] * scale[firstChannel + c];
    sumGx += sums[2 * (row * d.channels + c) + 1] * scale[firstChannel + c];
  }
  const float shift = groupRstd * (Rows::sum(sumG) / count);
  const float slope = groupRstd * (groupRstd * (Rows::sum(sumGx) / count));
  const RowElements<Rows, T> xs(x + row * size, size), dys(dy + row * size, size);
  xs.forEachWith(dys, [&](int, int64_t at, const Pack<T, n> &xPack, const Pack<T, n> &dyPack) {
    const float factor = groupRstd * scale[firstChannel + at / d.positions];
    Pack<T, n> out;
    for (int i = 0; i < n; ++i) out.at[i] = T(dyPack.at[i] * factor - shift - (xPack.at[i] - groupMean) * slope);
    storePack(dx + row * size + at, out);
  });
}

// The parameters' gradients: samples in their order.
__global__ void combineKernel(int64_t samples, int64_t width, const float *sums, WriteMode mode, float *dscale,
                              float *dbias) {
  forEach(width, [&](int64_t c) {
    float sum = 0, product = 0;
    for (int64_t sample = 0; sample < samples; ++sample) {
      sum += sums[2 * (sample * width + c)];
      product += sums[2 * (sample * width + c) + 1];
    }
    const bool adds = mode == WriteMode::kAccumulate;
    dbias[c] = adds ? dbias[c] + sum : sum;
    dscale[c] = adds ? dscale[c] + product : product;
  });
}

}  // namespace

template <typename T>
void groupNormForward(Stream stream, const GroupNormDesc &d, const T *x, const float *scale, const float *bias, T *y,
                      float *mean, float *rstd) {
  const int64_t size = d.channels * d.positions;
  chooseGroupRows<T>(d, size, isPackable(size * int64_t{sizeof(T)}, x, y), [&](auto rows) {
    kernel(forwardKernel<decltype(rows), T>)
        .launch(stream, rows.grid(d.samples * d.groups), d, x, scale, bias, y, mean, rstd);
  });
}

template <typename T>
void groupNormBackward(Stream stream, const GroupNormDesc &d, const T *x, const float *scale, const float *mean,
                       const float *rstd, const T *dy, T *dx, float *dscale, float *dbias, WriteMode mode,
                       void *workspace) {
  const int64_t width = d.groups * d.channels, size = d.channels * d.positions;
  float *sums = static_cast<float *>(workspace);
  chooseGroupRows<T>(d, d.positions, isPackable(d.positions * int64_t{sizeof(T)}, x, dy), [&](auto rows) {
    kernel(channelKernel<decltype(rows), T>).launch(stream, rows.grid(d.samples * width), d, x, mean, rstd, dy, sums);
  });
  kernel(combineKernel).launch(stream, gridOver(width), d.samples, width, sums, mode, dscale, dbias);
  chooseGroupRows<T>(d, size, isPackable(size * int64_t{sizeof(T)}, x, dy, dx), [&](auto rows) {
    kernel(groupKernel<decltype(rows), T>)
        .launch(stream, rows.grid(d.samples * d.groups), d, x, scale, mean, rstd, sums, dy, dx);
  });
}

#define HYC_INSTANTIATE(T)                                                                                       \
  template void groupNormForward<T>(Stream, const GroupNormDesc &, const T *, const float *, const float *, T *, \
                                    float *, float *);                                                           \
  template void groupNormBackward<T>(Stream, const GroupNormDesc &, const T *, const float *, const float *,     \
                                     const float *, const T *, T *, float *, float *, WriteMode, void *);
HYC_INSTANTIATE(float)
HYC_INSTANTIATE(Bf16)
HYC_INSTANTIATE(F16)

}  // namespace hyc::kernels::cuda
