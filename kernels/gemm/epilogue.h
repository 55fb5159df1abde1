// What becomes of the sums of one run of k (op.h).
#ifndef HYC_KERNELS_GEMM_EPILOGUE_H_
#define HYC_KERNELS_GEMM_EPILOGUE_H_

#include <cstdint>

#include "kernels/isa/vector.h"

namespace hyc::kernels::HYC_ISA {

struct Epilogue {
  float alpha;
  const float *bias;  // at the first column; null where none is added
  bool addC;
};

inline void finishRow(const float *sums, const Epilogue &e, int64_t columns, float *c) {
  for (int64_t j = 0; j < columns; ++j) {
    float value = e.alpha * sums[j];
    if (e.bias) value += e.bias[j];
    c[j] = e.addC ? value + c[j] : value;
  }
}

}  // namespace hyc::kernels::HYC_ISA

#endif  // HYC_KERNELS_GEMM_EPILOGUE_H_
