// Exact sums on CPUs.
#include <algorithm>

#include "kernels/exact_sum/digits.h"
#include "kernels/exact_sum/op.h"

namespace hyc::kernels {

static constexpr int64_t kValuesAtOnce = int64_t{1} << 30;  // a digit of 63 bits holds as many terms below 2^32

void addExact(int64_t *limbs, const double *values, int64_t count) {
  for (int64_t done = 0; done < count; done += kValuesAtOnce) {
    const int64_t end = std::min(count, done + kValuesAtOnce);
    for (int64_t i = done; i < end; ++i) splitExact(values[i], [&](int limb, int64_t term) { limbs[limb] += term; });
    moveCarries(limbs);
  }
}

double roundExactSum(const int64_t *limbs) { return roundDigits(limbs); }

}  // namespace hyc::kernels
