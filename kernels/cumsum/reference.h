// Running sums in plain loops, for any scalar type.
#ifndef HYC_KERNELS_CUMSUM_REFERENCE_H_
#define HYC_KERNELS_CUMSUM_REFERENCE_H_

#include "kernels/cumsum/op.h"
#include "kernels/description.h"

namespace hyc::kernels::reference {

template <typename T>
void cumSum(const CumSumDesc &d, const T *x, T *y) {
  for (int64_t o = 0; o < d.outer; ++o)
    for (int64_t r = 0; r < d.inner; ++r) {
      T sum = 0;
      for (int64_t i = 0; i < d.size; ++i) {
        const int64_t at = (o * d.size + (d.reverse ? d.size - 1 - i : i)) * d.inner + r;
        const T before = sum;
        sum = static_cast<T>(sum + x[at]);
        y[at] = d.exclusive ? before : sum;
      }
    }
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::cumsum {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfAnyType("cumsum",
                       [](auto zero, const ExecutedCall &c) {
                         using T = decltype(zero);
                         reference::cumSum(c.desc<CumSumDesc>(), c.in<T>("x"), c.out<T>("y"));
                       }),
};

}  // namespace hyc::kernels::executed::cumsum

#endif  // HYC_KERNELS_CUMSUM_REFERENCE_H_
