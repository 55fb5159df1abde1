// The two trees of op.h in plain loops, for any scalar type: the same bits as loops.h gives.
#ifndef HYC_KERNELS_REDUCE_REFERENCE_H_
#define HYC_KERNELS_REDUCE_REFERENCE_H_

#include "kernels/description.h"
#include "kernels/reduce/op.h"

namespace hyc::kernels::reference {

// One result of rows; value(step, i) for i < width.
template <typename Combine, typename Value>
typename Combine::Value combineRow(int64_t steps, int64_t width, Value value) {
  using T = typename Combine::Value;
  const RowBlocks blocks(steps, width);
  T total = Combine::identity();
  for (int64_t b = 0; b < blocks.count; ++b) {
    T lane[kReduceLanes];
    for (T &x : lane) x = Combine::identity();
    const RowBlocks::Range range = blocks.range(b);
    for (int64_t step = range.firstStep; step < range.endStep; ++step)
      for (int64_t i = range.first; i < range.end; ++i) {
        T &x = lane[(i - range.first) % kReduceLanes];
        x = Combine::combine(x, value(step, i));
      }
    for (int64_t apart = kReduceLanes / 2; apart > 0; apart /= 2)
      for (int64_t l = 0; l < apart; ++l) lane[l] = Combine::combine(lane[l], lane[l + apart]);
    total = Combine::combine(total, lane[0]);
  }
  return total;
}

// One result of columns; value(step).
template <typename Combine, typename Value>
typename Combine::Value combineColumn(int64_t steps, Value value) {
  using T = typename Combine::Value;
  T total = Combine::identity();
  for (int64_t first = 0; first < steps; first += kColumnBlock) {
    T block = Combine::identity();
    for (int64_t step = first; step < steps && step < first + kColumnBlock; ++step)
      block = Combine::combine(block, value(step));
    total = Combine::combine(total, block);
  }
  return total;
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::reduce {

// None: generated kernels call reductions.
inline constexpr View<ReferenceRow> kReferences;

}  // namespace hyc::kernels::executed::reduce

#endif  // HYC_KERNELS_REDUCE_REFERENCE_H_
