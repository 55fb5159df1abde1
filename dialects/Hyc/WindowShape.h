// How many positions a sliding window has.
#ifndef HYC_DIALECTS_HYC_WINDOWSHAPE_H
#define HYC_DIALECTS_HYC_WINDOWSHAPE_H

#include <cstdint>
#include <optional>

namespace hyc {

/// Positions of a window of `window` elements, `dilation` apart, that moves by `stride` over `size` elements padded by
/// `low` and `high`: ⌊(size + low + high - dilation·(window - 1) - 1) / stride⌋ + 1. Nothing where it does not fit
/// once, where a number is negative, a stride, dilation or window 0, or a number beyond 2³¹.
std::optional<int64_t> windowPositions(int64_t size, int64_t window, int64_t stride, int64_t dilation, int64_t low,
                                       int64_t high);

} // namespace hyc

#endif // HYC_DIALECTS_HYC_WINDOWSHAPE_H
