// Gradients of a convolution's weights on planes (direct.h), for cpu.cpp alone: the product of y with patches, whose
// columns, one a channel and element of the kernel, are vectors of channels. The planes of x are transposed once, so
// that channels are side by side; under each element of the kernel those of all places are then at a fixed distance.
//
// Numerics: those of the product (kernels/gemm/op.h) over a sample's places, bit for bit.
#ifndef HYC_KERNELS_CONVOLUTION_GATHERED_WEIGHTS_H_
#define HYC_KERNELS_CONVOLUTION_GATHERED_WEIGHTS_H_

#include "kernels/convolution/direct.h"
#include "kernels/gemm/panels.h"
#include "kernels/isa/lanes.h"
#include "kernels/isa/transpose.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels::HYC_ISA {

// w of one group, in `scratch` of floats(desc) floats.
class GatheredWeights {
 public:
  GatheredWeights(const ConvolutionDesc &desc, float *scratch) : d_(desc), at_(desc), planes_(desc, scratch) {
    planes_.prepareByElement();
    x_ = scratch + directFloats(desc);
    y_ = x_ + at_.planeFloats();
    sums_ = y_ + at_.outputFloats(desc);
    // Of channels and outputs that there are not.
    for (int64_t i = 0; i < at_.planeFloats() + at_.outputFloats(desc); ++i) x_[i] = 0;
  }

  static int64_t floats(const ConvolutionDesc &d) {
    const Layout at(d);
    return directFloats(d) + at.planeFloats() + at.outputFloats(d) + at.sumFloats();
  }
  // Whether most of what vectors compute are channels, and lines are long.
  static bool isDense(const ConvolutionDesc &d) {
    return 4 * Layout(d).channels <= 5 * d.groupChannels() && d.positions[2] >= kShortestLine;
  }

  // What samples are added to, and what has become of it. w: [outputs, channels, kernel…] of the group.
  void begin(const float *w) {
    forEachSum(w, [](const float &weight, float &sum) { sum = weight; });
  }
  void end(float *w) {
    forEachSum(w, [](float &weight, const float &sum) { weight = sum; });
  }

  // Adds a sample, or begins with it, on the whole team.
  void add(const float *x, const float *y, bool isFirst) { addOf<kPanelRows>(x, y, isFirst); }

 private:
  static constexpr int64_t kShortestLine = 16;

  struct Layout {
    int64_t channels, tileRows, tiles, vectors, places;  // places: of all planes of a channel

    explicit Layout(const ConvolutionDesc &d)
        : channels(ceilDiv(d.groupChannels(), kLanes) * kLanes),
          tileRows(rowsOfTile(d.groupOutputs())),
          tiles(ceilDiv(d.groupOutputs(), tileRows)),
          vectors(channels / kLanes * d.kernels()),
          places(directPlane(d).phases() * directPlane(d).room()) {}
    int64_t planeFloats() const { return places * channels; }
    int64_t outputFloats(const ConvolutionDesc &d) const {
      return ceilDiv(tiles * tileRows * d.places(), kLanes) * kLanes;
    }
    int64_t sumFloats() const { return tiles * tileRows * vectors * kLanes; }
  };

  // Vector v is of element v / blocks of the kernel, and of a block of channels.
  int64_t blocks() const { return at_.channels / kLanes; }
  int64_t offset(int64_t v) const { return planes_.offset(0, v / blocks()) * at_.channels + v % blocks() * kLanes; }

  template <typename Weight, typename Each>
  void forEachSum(Weight *w, Each each) {
    for (int64_t o = 0; o < d_.groupOutputs(); ++o)
      for (int64_t c = 0; c < d_.groupChannels(); ++c)
        for (int64_t k = 0; k < d_.kernels(); ++k) {
          const int64_t v = k * blocks() + c / kLanes, tile = o / at_.tileRows;
          each(w[(o * d_.groupChannels() + c) * d_.kernels() + k],
               sums_[((tile * at_.vectors + v) * at_.tileRows + o % at_.tileRows) * kLanes + c % kLanes]);
        }
  }

  template <int kRows>
  void addOf(const float *x, const float *y, bool isFirst) {
    if constexpr (kRows > 2)
      if (at_.tileRows < kRows) return addOf<kRows - 2>(x, y, isFirst);
    const int64_t pairs = ceilDiv(at_.vectors, kPanelVectors);
    runTeam(at_.sumFloats() * d_.places() >= kParallelElements, [&] {
#pragma omp for schedule(static)
      for (int64_t block = 0; block < blocks(); ++block) takeChannels(x, block * kLanes);
#pragma omp for schedule(static)
      for (int64_t tile = 0; tile < at_.tiles; ++tile) {
        const int64_t first = tile * kRows,
                      rows = kRows < d_.groupOutputs() - first ? kRows : d_.groupOutputs() - first;
        transposeBlock(y + first * d_.places(), d_.places(), rows, d_.places(), y_ + first * d_.places(), kRows);
      }
      // A run at a time, whose places stay in the caches while all tiles are summed; a thread has the same tiles each
      // time.
      for (int64_t run = 0; run < d_.places(); run += kGemmRun) {
#pragma omp for schedule(static) nowait
        for (int64_t job = 0; job < at_.tiles * pairs; ++job)
          addTile<kRows>(job / pairs, job % pairs * kPanelVectors, run, isFirst && run == 0);
      }
    });
  }

  void takeChannels(const float *x, int64_t first) {
    const int64_t count = kLanes < d_.groupChannels() - first ? kLanes : d_.groupChannels() - first;
    for (int64_t c = first; c < first + count; ++c) planes_.takeChannel(x, c);
    transposeBlock(planes_.planes() + first * at_.places, at_.places, count, at_.places, x_ + first, at_.channels);
  }

  // The sums of one tile of outputs with the vectors from `v` on, over a run of places.
  template <int kRows>
  void addTile(int64_t tile, int64_t v, int64_t run, bool isFirst) {
    const float *source[kPanelVectors];
    for (int j = 0; j < kPanelVectors; ++j) source[j] = x_ + offset(v + j < at_.vectors ? v + j : v);
    Vector sum[kRows][kPanelVectors];
    sumRun<kRows>(sum, run, run + kGemmRun < d_.places() ? run + kGemmRun : d_.places(),
                  y_ + tile * kRows * d_.places(), source);
    for (int j = 0; j < kPanelVectors && v + j < at_.vectors; ++j) {
      float *to = sums_ + (tile * at_.vectors + v + j) * kRows * kLanes;
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) store(to + i * kLanes, isFirst ? sum[i][j] : sum[i][j] + load(to + i * kLanes));
    }
  }

  template <int kRows>
  HYC_INLINE void sumRun(Vector (&sum)[kRows][kPanelVectors], int64_t place, int64_t end, const float *y,
                         const float *const (&source)[kPanelVectors]) const {
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kPanelVectors; ++j) sum[i][j] = Vector{};
    const DirectPlane &plane = planes_.shape();
    while (place < end) {
      const int64_t line = place / d_.positions[2], at = place % d_.positions[2];
      const int64_t p0 = line / d_.positions[1], p1 = line % d_.positions[1];
      const int64_t left = d_.positions[2] - at, steps = left < end - place ? left : end - place;
      const float *a = y + place * kRows;
      int64_t from = ((p0 * plane.pitch[1] + p1) * plane.pitch[2] + at) * at_.channels;
      for (int64_t p = 0; p < steps; ++p, a += kRows, from += at_.channels) {
        Vector row[kPanelVectors];
#pragma GCC unroll 4
        for (int j = 0; j < kPanelVectors; ++j) row[j] = load(source[j] + from);
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) {
          const Vector element = broadcast(a[i]);
#pragma GCC unroll 4
          for (int j = 0; j < kPanelVectors; ++j) sum[i][j] = multiplyAdd(element, row[j], sum[i][j]);
        }
      }
      place += steps;
    }
  }

  const ConvolutionDesc &d_;
  const Layout at_;
  DirectPlanes planes_;
  float *x_, *y_, *sums_;
};

}  // namespace hyc::kernels::HYC_ISA

#endif  // HYC_KERNELS_CONVOLUTION_GATHERED_WEIGHTS_H_
