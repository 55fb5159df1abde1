// Sums of squares that are the same in whatever order they are added up, by whoever has which part of them: a fixed
// point of 128 bits in place of a floating one.
#ifndef HYC_KERNELS_EXACT_SQUARES_H_
#define HYC_KERNELS_EXACT_SQUARES_H_

#include <cmath>
#include <cstdint>

namespace hyc::kernels {

// Of numbers below 2^13 in magnitude, up to 2^20 of them, each square to 2^-80. What is greater, or no number, is
// refused: weights have none.
class ExactSquares {
 public:
  static constexpr float kLimit = 8192;

  // Whether the number may be added.
  static bool takes(float value) { return std::fabs(value) < kLimit; }

  void add(float value) {
    // Exact: a square has twice the 24 bits of its number, and a scale by a power of two changes none of them.
    const double square = static_cast<double>(value) * static_cast<double>(value);
    const double high = std::floor(std::ldexp(square, 32));             // in 2^-32, below 2^58
    const double low = std::ldexp(square - std::ldexp(high, -32), 80);  // in 2^-80, below 2^48
    sum_ += (static_cast<Wide>(static_cast<uint64_t>(high)) << 48) + static_cast<uint64_t>(low);
  }
  void add(const ExactSquares &other) { sum_ += other.sum_; }

  // √ of the sum.
  float root() const {
    const double high = std::ldexp(static_cast<double>(static_cast<uint64_t>(sum_ >> 64)), 64);
    const double all = high + static_cast<double>(static_cast<uint64_t>(sum_));
    return static_cast<float>(std::sqrt(std::ldexp(all, -80)));
  }

 private:
  __extension__ typedef unsigned __int128 Wide;
  Wide sum_ = 0;
};

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_EXACT_SQUARES_H_
