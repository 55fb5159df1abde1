// Running sums along one dimension.
#ifndef HYC_KERNELS_CUMSUM_OP_H_
#define HYC_KERNELS_CUMSUM_OP_H_

#include <cstdint>

namespace hyc::kernels {

// x and y: [outer, size, inner].
struct CumSumDesc {
  int64_t outer = 1, size = 0, inner = 1;
  bool reverse = false;    // from the end
  bool exclusive = false;  // without the element itself
};

// y[o, i, :] = Σ x[o, j, :] over j ≤ i, added one by one.
void cumSum(const CumSumDesc &desc, const float *x, float *y);
void cumSum(const CumSumDesc &desc, const double *x, double *y);
void cumSum(const CumSumDesc &desc, const int64_t *x, int64_t *y);
void cumSum(const CumSumDesc &desc, const int32_t *x, int32_t *y);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_CUMSUM_OP_H_
