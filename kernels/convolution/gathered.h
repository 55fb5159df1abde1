// Convolutions on planes (direct.h), for cpu.cpp alone: the product of patches with the weights, whose columns are read
// where they lie. Under each element of the kernel a vector of places is one in a plane, at a fixed distance from it,
// so that patches are neither written nor packed, which of few outputs takes longer than to multiply them.
//
// Numerics: those of the product (kernels/gemm/op.h), bit for bit.
#ifndef HYC_KERNELS_CONVOLUTION_GATHERED_H_
#define HYC_KERNELS_CONVOLUTION_GATHERED_H_

#include "kernels/convolution/direct.h"
#include "kernels/gemm/panels.h"
#include "kernels/isa/lanes.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels::HYC_ISA {

// sum = Σ over steps of A's column, kRows elements at a time, times the vectors at b + offsets[step].
template <int kRows>
HYC_INLINE void multiplyGathered(Vector (&sum)[kRows][kPanelVectors], int64_t steps, const float *a,
                                 const int64_t *offsets, const float *b) {
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kPanelVectors; ++j) sum[i][j] = Vector{};
#pragma GCC unroll 2
  for (int64_t p = 0; p < steps; ++p, a += kRows) {
    const float *source = b + offsets[p];
    Vector row[kPanelVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kPanelVectors; ++j) row[j] = load(source + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const Vector element = broadcast(a[i]);
#pragma GCC unroll 4
      for (int j = 0; j < kPanelVectors; ++j) sum[i][j] = multiplyAdd(element, row[j], sum[i][j]);
    }
  }
}

// y of one group, in `scratch` of floats(desc).
class GatheredProduct {
 public:
  GatheredProduct(const ConvolutionDesc &desc, float *scratch)
      : d_(desc),
        depth_(desc.groupChannels() * desc.kernels()),
        tileRows_(rowsOfTile(desc.groupOutputs())),
        planes_(desc, scratch),
        offsets_(reinterpret_cast<int64_t *>(scratch + directFloats(desc))),
        weights_(scratch + directFloats(desc) + offsetFloats(desc)) {
    planes_.prepareByElement();
    for (int64_t row = 0; row < depth_; ++row) offsets_[row] = planes_.offset(row / d_.kernels(), row % d_.kernels());
  }

  // Whether most of what vectors compute are places, and not what is between the lines of planes.
  static bool isDense(const ConvolutionDesc &d) {
    return 4 * ceilDiv(directPlane(d).reached(), kPanelColumns) * kPanelColumns <= 5 * d.places();
  }
  static int64_t floats(const ConvolutionDesc &d) {
    const int64_t rows = rowsOfTile(d.groupOutputs());
    return directFloats(d) + offsetFloats(d) + ceilDiv(d.groupOutputs(), rows) * rows * d.groupChannels() * d.kernels();
  }

  // The weights of the samples to come, weight(output, row), tile by tile, a column of each at a time.
  template <typename Weight>
  void setWeights(Weight weight) {
    for (int64_t o = 0; o < ceilDiv(d_.groupOutputs(), tileRows_) * tileRows_; ++o) {
      float *to = weights_ + o / tileRows_ * tileRows_ * depth_ + o % tileRows_;
      for (int64_t row = 0; row < depth_; ++row) to[row * tileRows_] = o < d_.groupOutputs() ? weight(o, row) : 0;
    }
  }

  // On the whole team.
  void multiply(const float *x, float *y) const { multiplyOf<kPanelRows>(x, y); }

 private:
  static constexpr int64_t kPlacesAtOnce = 4 * kPanelColumns;

  static int64_t offsetFloats(const ConvolutionDesc &d) {
    const int64_t floats = 2 * d.groupChannels() * d.kernels();
    return ceilDiv(floats, DirectPlane::kLine) * DirectPlane::kLine;
  }

  template <int kRows>
  void multiplyOf(const float *x, float *y) const {
    if constexpr (kRows > 2)
      if (tileRows_ < kRows) return multiplyOf<kRows - 2>(x, y);
    const int64_t places = planes_.shape().reached();
    runTeam(d_.groupOutputs() * depth_ * places >= kParallelElements, [&] {
#pragma omp for schedule(static)
      for (int64_t c = 0; c < d_.groupChannels(); ++c) planes_.takeChannel(x, c);
#pragma omp for schedule(static)
      for (int64_t first = 0; first < places; first += kPlacesAtOnce)
        multiplyPlaces<kRows>(first, first + kPlacesAtOnce < places ? first + kPlacesAtOnce : places, y);
    });
  }

  // Places of a plane from `first` to `end`, of all outputs: a tile's weights stay in the first cache meanwhile.
  template <int kRows>
  void multiplyPlaces(int64_t first, int64_t end, float *y) const {
    for (int64_t o = 0; o < d_.groupOutputs(); o += kRows) {
      const int64_t rows = o + kRows < d_.groupOutputs() ? kRows : d_.groupOutputs() - o;
      for (int64_t at = first; at < end; at += kPanelColumns)
        multiplyTile<kRows>(at, weights_ + o * depth_, rows, y + o * d_.places());
    }
  }
  template <int kRows>
  HYC_INLINE void multiplyTile(int64_t first, const float *weights, int64_t rows, float *y) const {
    float result[kRows * kPanelColumns];
    for (int64_t run = 0; run < depth_; run += kGemmRun) {
      Vector sum[kRows][kPanelVectors];
      multiplyGathered<kRows>(sum, run + kGemmRun < depth_ ? kGemmRun : depth_ - run, weights + run * kRows,
                              offsets_ + run, planes_.planes() + first);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < kPanelVectors; ++j) {
          float *at = result + i * kPanelColumns + j * kLanes;
          store(at, run > 0 ? load(at) + sum[i][j] : sum[i][j]);
        }
    }
    copyPlaces(first, result, rows, y);
  }

  // Those places of a plane, from `first` on, that are places of y.
  void copyPlaces(int64_t first, const float *result, int64_t rows, float *y) const {
    const int64_t pitch = planes_.shape().pitch[2], lines = planes_.shape().pitch[1];
    int64_t line = first / pitch, at = first % pitch;
    for (int64_t i = 0; i < kPanelColumns; ++line, at = 0) {
      const int64_t p0 = line / lines, p1 = line % lines;
      if (p0 >= d_.positions[0]) return;
      const int64_t left = kPanelColumns - i, inLine = pitch - at < left ? pitch - at : left;
      int64_t count = d_.positions[2] - at < inLine ? d_.positions[2] - at : inLine;
      if (p1 >= d_.positions[1]) count = 0;
      float *to = y + (p0 * d_.positions[1] + p1) * d_.positions[2] + at;
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t j = 0; j < count; ++j) to[row * d_.places() + j] = result[row * kPanelColumns + i + j];
      i += inLine;
    }
  }

  const ConvolutionDesc &d_;
  const int64_t depth_, tileRows_;
  DirectPlanes planes_;
  int64_t *offsets_;
  float *weights_;
};

}  // namespace hyc::kernels::HYC_ISA

#endif  // HYC_KERNELS_CONVOLUTION_GATHERED_H_
