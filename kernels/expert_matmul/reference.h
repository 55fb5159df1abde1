// Products of rows with their experts' matrices in plain loops, for any scalar type.
#ifndef HYC_KERNELS_EXPERT_MATMUL_REFERENCE_H_
#define HYC_KERNELS_EXPERT_MATMUL_REFERENCE_H_

#include "kernels/description.h"
#include "kernels/expert_matmul/op.h"

namespace hyc::kernels::reference {

// Where the element (input k, output m) of expert e's matrix stands; −1 of an expert that is not held.
inline int64_t expertElement(const ExpertMatmulDesc &d, int64_t id, int64_t k, int64_t m) {
  if (id < d.start || id - d.start >= d.experts) return -1;
  const int64_t matrix = (id - d.start) * d.inputs * d.outputs;
  return matrix + (d.transposed ? m * d.inputs + k : k * d.outputs + m);
}

template <typename T>
void expertMatmul(const ExpertMatmulDesc &d, const int64_t *ids, const T *x, const T *w, T *y) {
  for (int64_t n = 0; n < d.rows; ++n)
    for (int64_t m = 0; m < d.outputs; ++m) {
      T sum = 0;
      for (int64_t k = 0; k < d.inputs; ++k)
        if (const int64_t at = expertElement(d, ids[n], k, m); at >= 0) sum += x[n * d.inputs + k] * w[at];
      y[n * d.outputs + m] = sum;
    }
}

template <typename T>
void expertMatmulGrad(const ExpertMatmulDesc &d, const int64_t *ids, const T *x, const T *dy, T *dw, WriteMode mode) {
  for (int64_t i = 0; i < d.experts * d.inputs * d.outputs && mode == WriteMode::kOverwrite; ++i) dw[i] = 0;
  for (int64_t n = 0; n < d.rows; ++n)
    for (int64_t k = 0; k < d.inputs; ++k)
      for (int64_t m = 0; m < d.outputs; ++m)
        if (const int64_t at = expertElement(d, ids[n], k, m); at >= 0)
          dw[at] += x[n * d.inputs + k] * dy[n * d.outputs + m];
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::expert_matmul {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("expert_matmul",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::expertMatmul(c.desc<ExpertMatmulDesc>(), c.in<int64_t>("ids"), c.in<T>("x"),
                                                c.in<T>("w"), c.out<T>("y"));
                      }),
    referenceOfFloats("expert_matmul_grad",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::expertMatmulGrad(c.desc<ExpertMatmulDesc>(), c.in<int64_t>("ids"), c.in<T>("x"),
                                                    c.in<T>("dy"), c.out<T>("w"), WriteMode::kOverwrite);
                      }),
};

}  // namespace hyc::kernels::executed::expert_matmul

#endif  // HYC_KERNELS_EXPERT_MATMUL_REFERENCE_H_
