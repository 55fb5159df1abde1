// Matrix product in plain loops, for any scalar type.
#ifndef HYC_KERNELS_GEMM_REFERENCE_H_
#define HYC_KERNELS_GEMM_REFERENCE_H_

#include "kernels/description.h"
#include "kernels/gemm/op.h"

namespace hyc::kernels::reference {

template <typename T>
void gemm(const GemmDesc &d, const T *a, const T *b, const T *bias, T *c) {
  const int64_t lda = d.rowStrideA(), ldb = d.rowStrideB(), ldc = d.rowStrideC();
  for (int64_t batch = 0; batch < d.batch; ++batch) {
    const T *aBatch = a + batch * d.strideA;
    const T *bBatch = b + batch * d.strideB;
    T *cBatch = c + batch * d.strideC;
    for (int64_t i = 0; i < d.m; ++i)
      for (int64_t j = 0; j < d.n; ++j) {
        T sum = 0;
        for (int64_t p = 0; p < d.k; ++p)
          sum += aBatch[d.transA ? p * lda + i : i * lda + p] * bBatch[d.transB ? j * ldb + p : p * ldb + j];
        T result = T(d.alpha) * sum;
        if (d.hasBias) result += bias[j];
        if (d.beta != 0) result += T(d.beta) * cBatch[i * ldc + j];
        cBatch[i * ldc + j] = result;
      }
  }
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::gemm {

// None: rank.gemm is an op of its own.
inline constexpr View<ReferenceRow> kReferences;

}  // namespace hyc::kernels::executed::gemm

#endif  // HYC_KERNELS_GEMM_REFERENCE_H_
