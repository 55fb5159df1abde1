// Lines of a dimension under a kernel's elements: which positions lie inside of x, and how strided ones are read. For
// this folder alone.
#ifndef HYC_KERNELS_CONVOLUTION_LINES_H_
#define HYC_KERNELS_CONVOLUTION_LINES_H_

#include "kernels/convolution/op.h"
#include "kernels/isa/vector.h"

namespace hyc::kernels::HYC_ISA {

// Positions [begin, end) of a dimension at which kernel element `tap` lies inside the input.
struct Inside {
  int64_t begin, end;
};
inline Inside insideOf(const ConvolutionDesc &d, int dim, int64_t tap) {
  const int64_t shift = tap * d.dilation[dim] - d.low[dim], stride = d.stride[dim];
  int64_t begin = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  int64_t end = shift >= d.size[dim] ? 0 : (d.size[dim] - 1 - shift) / stride + 1;
  if (end > d.positions[dim]) end = d.positions[dim];
  if (begin > end) begin = end;
  return {begin, end};
}

// Of the elements j · stride + phase − low of a dimension, j < count, those that are inside of x.
inline Inside elementsOfPhase(const ConvolutionDesc &d, int dim, int64_t phase, int64_t count) {
  const int64_t before = d.low[dim] - phase, stride = d.stride[dim], last = d.size[dim] - 1 + before;
  const int64_t begin = before > 0 ? (before + stride - 1) / stride : 0;
  int64_t end = last < 0 ? 0 : last / stride + 1;
  if (end > count) end = count;
  return {begin < end ? begin : end, end};
}

// Every other of 2 · kLanes − 1 floats.
HYC_INLINE Vector loadEveryOther(const float *source) {
  WordVector even;
  for (int64_t l = 0; l < kLanes; ++l) even[l] = static_cast<uint32_t>(2 * l < kLanes ? 2 * l : 2 * l + 1);
  return __builtin_shuffle(load(source), load(source + kLanes - 1), even);
}

// line[i] = source[i · stride]. Of every other element, lines are short where images are small: the last of a line are
// loaded with some of those before them once more.
HYC_INLINE void loadEvery(const float *source, int64_t stride, int64_t begin, int64_t end, float *line) {
  if (stride == 1) {
    for (int64_t i = begin; i < end; ++i) line[i] = source[i];
  } else if (stride == 2 && end - begin >= kLanes) {
    for (int64_t i = begin; i + kLanes < end; i += kLanes) store(line + i, loadEveryOther(source + 2 * i));
    store(line + end - kLanes, loadEveryOther(source + 2 * (end - kLanes)));
  } else {
    for (int64_t i = begin; i < end; ++i) line[i] = source[i * stride];
  }
}

}  // namespace hyc::kernels::HYC_ISA

#endif  // HYC_KERNELS_CONVOLUTION_LINES_H_
