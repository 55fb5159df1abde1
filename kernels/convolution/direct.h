// Convolutions of groups of few channels (depthwise ones, mostly) by direct loops over planes, for cpu.cpp alone.
//
// A plane of x is copied out first, its padding as zeros, and split by the stride: of stride 2 the even and the odd
// elements are planes of their own (phases). Rows of all planes, and of y, are then equally long (`pitch`), so that
// under each element of the kernel the whole plane is one line at a fixed distance from another: vectors run over the
// ends of rows, however short these are. What is computed between rows is not copied back.
//
// Numerics: an element of y or x is one chain of multiply-adds from 0 over the group's channels and the kernel, in
// ascending order; a weight's part of one sample is summed in kSumLanes lanes along the plane.
#ifndef HYC_KERNELS_CONVOLUTION_DIRECT_H_
#define HYC_KERNELS_CONVOLUTION_DIRECT_H_

#include "kernels/convolution/lines.h"
#include "kernels/convolution/op.h"
#include "kernels/isa/vector.h"

namespace hyc::kernels::HYC_ISA {

constexpr int64_t kSumLanes = 16;
constexpr int kSumVectors = kSumLanes / kLanes;

// out[q] (=, +=) Σ weights[t] · plane[q + offsets[t]] for q < count, and some beyond: up to DirectPlane::kOver are
// written.
template <int kVectors>
HYC_INLINE void correlateBlock(const float *plane, const int64_t *offsets, const float *weights, int64_t taps,
                               bool adds, float *out) {
  Vector sum[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) sum[v] = adds ? load(out + v * kLanes) : Vector{};
  for (int64_t t = 0; t < taps; ++t) {
    const Vector weight = broadcast(weights[t]);
    const float *source = plane + offsets[t];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[v] = multiplyAdd(weight, load(source + v * kLanes), sum[v]);
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) store(out + v * kLanes, sum[v]);
}
inline void correlate(const float *plane, const int64_t *offsets, const float *weights, int64_t taps, int64_t count,
                      bool adds, float *out) {
  int64_t q = 0;
  for (; q + 8 * kLanes <= count; q += 8 * kLanes) correlateBlock<8>(plane + q, offsets, weights, taps, adds, out + q);
  for (; q < count; q += 2 * kLanes) correlateBlock<2>(plane + q, offsets, weights, taps, adds, out + q);
}

HYC_INLINE float joinLanes(const Vector (&sum)[kSumVectors]) {
  float lanes[kSumLanes];
  for (int v = 0; v < kSumVectors; ++v) store(lanes + v * kLanes, sum[v]);
  for (int64_t width = kSumLanes / 2; width > 0; width /= 2)
    for (int64_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  return lanes[0];
}

// sums[t] += Σ plane[q + offsets[t]] · y[q] for q < count, which is rounded up: y is 0 beyond.
inline void correlateSums(const float *plane, const int64_t *offsets, int64_t taps, const float *y, int64_t count,
                          float *sums) {
  constexpr int kTaps = HYC_ISA_ID == 2 ? 8 : 4;  // sums that registers hold beside y's vector
  for (int64_t first = 0; first < taps; first += kTaps) {
    Vector sum[kTaps][kSumVectors] = {};
    const float *source[kTaps];
    for (int t = 0; t < kTaps; ++t) source[t] = plane + offsets[first + t < taps ? first + t : taps - 1];
    for (int64_t q = 0; q < count; q += kSumLanes)
#pragma GCC unroll 4
      for (int v = 0; v < kSumVectors; ++v) {
        const Vector factor = load(y + q + v * kLanes);
#pragma GCC unroll 8
        for (int t = 0; t < kTaps; ++t) sum[t][v] = multiplyAdd(load(source[t] + q + v * kLanes), factor, sum[t][v]);
      }
    for (int t = 0; t < kTaps && first + t < taps; ++t) sums[first + t] += joinLanes(sum[t]);
  }
}

// One thread's workspace: where each kernel element finds its operand, and planes.
class DirectPlanes {
 public:
  // `scratch` holds directFloats(desc) floats.
  DirectPlanes(const ConvolutionDesc &desc, float *scratch) : d_(desc), plane_(directPlane(desc)) {
    offsets_ = reinterpret_cast<int64_t *>(scratch);
    taps_ = offsets_ + d_.kernels();
    ends_ = taps_ + d_.kernels();
    weights_ = reinterpret_cast<float *>(ends_ + plane_.phases());
    result_ = scratch + directTableFloats(d_);
    planes_ = result_ + plane_.room();
  }

  // y of one sample and all of a group's outputs, from x of its channels.
  void outputs(const float *x, const float *w, float *y) {
    for (int64_t c = 0; c < d_.groupChannels(); ++c) splitInput(x + c * d_.sizes(), channel(c));
    for (int64_t o = 0; o < d_.groupOutputs(); ++o) {
      for (int64_t c = 0; c < d_.groupChannels(); ++c, w += d_.kernels())
        correlate(channel(c), offsets_, w, d_.kernels(), plane_.reached(), c > 0, result_);
      forEachRow([&](int64_t from, int64_t at) {
        float *row = y + o * d_.places() + at;
        for (int64_t i = 0; i < d_.positions[2]; ++i) row[i] = result_[from + i];
      });
    }
  }

  // x of one sample and all of a group's channels, from y of its outputs.
  void inputs(const float *y, const float *w, float *x) {
    for (int64_t o = 0; o < d_.groupOutputs(); ++o) spreadOutput(y + o * d_.places(), output(o));
    for (int64_t c = 0; c < d_.groupChannels(); ++c, x += d_.sizes()) {
      for (int64_t i = 0; i < d_.sizes(); ++i) x[i] = 0;  // some are under no element of the kernel
      for (int64_t phase = 0, tap = 0; phase < plane_.phases(); tap = ends_[phase++]) {
        if (tap == ends_[phase]) continue;
        for (int64_t o = 0; o < d_.groupOutputs(); ++o)
          addPhase(output(o), w + (o * d_.groupChannels() + c) * d_.kernels(), tap, ends_[phase], o > 0);
        forEachLineOf(phase, [&](int64_t at, int64_t element, Inside in) {
          for (int64_t i = in.begin; i < in.end; ++i) x[element + i * d_.stride[2]] = result_[at + i];
        });
      }
    }
  }

  // w += …, of one sample and output: x is of its group's channels, w [channels, kernel…].
  void weights(const float *x, const float *y, float *w) {
    spreadOutput(y, result_ + plane_.lead());
    for (int64_t c = 0; c < d_.groupChannels(); ++c) {
      splitInput(x + c * d_.sizes(), planes_);
      correlateSums(planes_, offsets_, d_.kernels(), result_ + plane_.lead(), plane_.reached(), w + c * d_.kernels());
    }
  }

  // Kernel elements by themselves, as outputs() and weights() read planes of x …
  void prepareByElement() {
    for (int64_t k = 0; k < d_.kernels(); ++k) offsets_[k] = phaseOf(k) * plane_.room() + shiftOf(k);
  }
  // … and those of one phase after another, as inputs() reads planes of y.
  void prepareByPhase() {
    int64_t count = 0;
    for (int64_t phase = 0; phase < plane_.phases(); ++phase) {
      for (int64_t k = 0; k < d_.kernels(); ++k)
        if (phaseOf(k) == phase) taps_[count] = k, offsets_[count++] = -shiftOf(k);
      ends_[phase] = count;
    }
  }

  // For sums over all channels at once: one channel of x into its planes, and where these, and in them each element of
  // the kernel finds its operand.
  void takeChannel(const float *x, int64_t c) const { splitInput(x + c * d_.sizes(), channel(c)); }
  const float *planes() const { return planes_; }
  int64_t offset(int64_t c, int64_t k) const { return c * plane_.phases() * plane_.room() + offsets_[k]; }
  const DirectPlane &shape() const { return plane_; }

 private:
  float *channel(int64_t c) const { return planes_ + c * plane_.phases() * plane_.room(); }
  float *output(int64_t o) const { return planes_ + o * plane_.room() + plane_.lead(); }

  int64_t moved(int64_t k, int dim) const {
    const int64_t at = dim == 2   ? k % d_.kernel[2]
                       : dim == 1 ? k / d_.kernel[2] % d_.kernel[1]
                                  : k / (d_.kernel[1] * d_.kernel[2]);
    return at * d_.dilation[dim];
  }
  int64_t phaseOf(int64_t k) const {
    int64_t phase = 0;
    for (int i = 0; i < 3; ++i) phase = phase * plane_.phase[i] + moved(k, i) % d_.stride[i];
    return phase;
  }
  int64_t shiftOf(int64_t k) const {
    int64_t shift = 0;
    for (int i = 0; i < 3; ++i) shift = shift * plane_.pitch[i] + moved(k, i) / d_.stride[i];
    return shift;
  }

  // row(first of a row of positions in a plane, in y).
  template <typename Row>
  void forEachRow(Row row) const {
    for (int64_t p0 = 0; p0 < d_.positions[0]; ++p0)
      for (int64_t p1 = 0; p1 < d_.positions[1]; ++p1)
        row((p0 * plane_.pitch[1] + p1) * plane_.pitch[2], (p0 * d_.positions[1] + p1) * d_.positions[2]);
  }

  // line(first of a line in the phase's plane, element of x that its place 0 is, places of it inside of x) for each
  // line of which some are; x's element may lie before x.
  template <typename Line>
  void forEachLineOf(int64_t phase, Line line) const {
    const int64_t r[3] = {phase / (plane_.phase[1] * plane_.phase[2]), phase / plane_.phase[2] % plane_.phase[1],
                          phase % plane_.phase[2]};
    Inside in[3];
    for (int i = 0; i < 3; ++i) in[i] = elementsOfPhase(d_, i, r[i], plane_.pitch[i]);
    for (int64_t j0 = in[0].begin; j0 < in[0].end; ++j0)
      for (int64_t j1 = in[1].begin; j1 < in[1].end; ++j1) {
        const int64_t s0 = j0 * d_.stride[0] + r[0] - d_.low[0], s1 = j1 * d_.stride[1] + r[1] - d_.low[1];
        line((j0 * plane_.pitch[1] + j1) * plane_.pitch[2], (s0 * d_.size[1] + s1) * d_.size[2] + r[2] - d_.low[2],
             in[2]);
      }
  }

  // One channel of x into its phases' planes.
  void splitInput(const float *x, float *planes) const {
    for (int64_t phase = 0; phase < plane_.phases(); ++phase) {
      float *plane = planes + phase * plane_.room();
      for (int64_t i = 0; i < plane_.room(); ++i) plane[i] = 0;
      forEachLineOf(phase, [&](int64_t at, int64_t element, Inside in) {
        loadEvery(x + element, d_.stride[2], in.begin, in.end, plane + at);
      });
    }
  }
  // One output of y into a plane with lead() zeros before it.
  void spreadOutput(const float *y, float *plane) const {
    for (int64_t i = -plane_.lead(); i < plane_.room() - plane_.lead(); ++i) plane[i] = 0;
    forEachRow([&](int64_t at, int64_t from) {
      for (int64_t i = 0; i < d_.positions[2]; ++i) plane[at + i] = y[from + i];
    });
  }
  // result (=, +=) the kernel elements [begin, end) of a phase, in w's order.
  void addPhase(const float *y, const float *w, int64_t begin, int64_t end, bool adds) {
    for (int64_t t = begin; t < end; ++t) weights_[t] = w[taps_[t]];
    correlate(y, offsets_ + begin, weights_ + begin, end - begin, plane_.floats(), adds, result_);
  }

  const ConvolutionDesc &d_;
  const DirectPlane plane_;
  int64_t *offsets_, *taps_, *ends_;
  float *weights_, *result_, *planes_;
};

}  // namespace hyc::kernels::HYC_ISA

#endif  // HYC_KERNELS_CONVOLUTION_DIRECT_H_
