// Sums and maxima over a row with a tree that no vector width changes: lane l of 32 takes elements l, l + 32, …; then
// lanes 16, 8, 4, 2 and 1 apart are combined.
#ifndef HYC_KERNELS_ISA_LANES_H_
#define HYC_KERNELS_ISA_LANES_H_

#include "kernels/isa/vector.h"

namespace hyc::kernels::HYC_ISA {

constexpr int64_t kRowLanes = 32;
constexpr int kLaneVectors = kRowLanes / kLanes;

// Below this number of elements a second thread costs more than it brings.
constexpr int64_t kParallelElements = 32768;

// A row's sum, 32 consecutive elements at a time.
class LaneSum {
 public:
  // Adds x[0 … 31], of any type that widens to f32.
  template <typename T>
  HYC_INLINE void add(const T *x) {
#pragma GCC unroll 8
    for (int i = 0; i < kLaneVectors; ++i) lane_[i] = lane_[i] + load(x + i * kLanes);
  }
  // Adds x[0 … n − 1], n < 32, to the first lanes.
  template <typename T>
  HYC_INLINE void addTail(const T *x, int64_t n) {
    float filled[kRowLanes] = {};
    for (int64_t l = 0; l < n; ++l) filled[l] = x[l];
    add(filled);
  }
  HYC_INLINE float total() const {
    float lane[kRowLanes];
    for (int i = 0; i < kLaneVectors; ++i) store(lane + i * kLanes, lane_[i]);
    for (int64_t apart = kRowLanes / 2; apart > 0; apart /= 2)
      for (int64_t l = 0; l < apart; ++l) lane[l] += lane[l + apart];
    return lane[0];
  }

 private:
  Vector lane_[kLaneVectors] = {};
};

template <typename T>
inline float sumOfRow(const T *x, int64_t n) {
  LaneSum sum;
  int64_t i = 0;
  for (; i + kRowLanes <= n; i += kRowLanes) sum.add(x + i);
  if (i < n) sum.addTail(x + i, n - i);
  return sum.total();
}

// Σ term(c) over the columns, in the same order.
template <typename Term>
HYC_INLINE float sumOfTerms(int64_t cols, Term term) {
  LaneSum sum;
  float terms[kRowLanes];
  int64_t c = 0;
  for (; c + kRowLanes <= cols; c += kRowLanes) {
    for (int64_t l = 0; l < kRowLanes; ++l) terms[l] = term(c + l);
    sum.add(terms);
  }
  for (int64_t l = 0; c + l < cols; ++l) terms[l] = term(c + l);
  sum.addTail(terms, cols - c);
  return sum.total();
}

// NaN is passed over; −∞ for an empty row.
template <typename T>
inline float maxOfRow(const T *x, int64_t n) {
  Vector lane[kLaneVectors];
  for (int v = 0; v < kLaneVectors; ++v) lane[v] = broadcast(-__builtin_inff());
  int64_t i = 0;
  for (; i + kRowLanes <= n; i += kRowLanes)
#pragma GCC unroll 8
    for (int v = 0; v < kLaneVectors; ++v) lane[v] = maximum(load(x + i + v * kLanes), lane[v]);
  float max = -__builtin_inff(), lanes[kRowLanes];
  for (int v = 0; v < kLaneVectors; ++v) store(lanes + v * kLanes, lane[v]);
  for (int64_t l = 0; l < kRowLanes; ++l) max = lanes[l] > max ? lanes[l] : max;
  for (; i < n; ++i) {
    const float last = x[i];
    max = last > max ? last : max;
  }
  return max;
}

}  // namespace hyc::kernels::HYC_ISA

#endif  // HYC_KERNELS_ISA_LANES_H_
