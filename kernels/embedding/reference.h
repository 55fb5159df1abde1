// Embedding lookup and gradient in plain loops, for any scalar type.
#ifndef HYC_KERNELS_EMBEDDING_REFERENCE_H_
#define HYC_KERNELS_EMBEDDING_REFERENCE_H_

#include "kernels/description.h"
#include "kernels/embedding/op.h"

namespace hyc::kernels::reference {

template <typename T>
void embedding(const EmbeddingDesc &d, const int64_t *ids, const T *table, T *out) {
  for (int64_t t = 0; t < d.tokens; ++t) {
    const bool local = ids[t] >= d.start && ids[t] < d.start + d.rows;
    for (int64_t c = 0; c < d.width; ++c) out[t * d.width + c] = local ? table[(ids[t] - d.start) * d.width + c] : T(0);
  }
}

template <typename T>
void embeddingGrad(const EmbeddingDesc &d, const int64_t *ids, const T *dout, T *dtable, WriteMode mode) {
  for (int64_t i = 0; i < d.rows * d.width && mode == WriteMode::kOverwrite; ++i) dtable[i] = 0;
  for (int64_t t = 0; t < d.tokens; ++t) {
    if (ids[t] < d.start || ids[t] >= d.start + d.rows) continue;
    for (int64_t c = 0; c < d.width; ++c) dtable[(ids[t] - d.start) * d.width + c] += dout[t * d.width + c];
  }
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::embedding {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("embedding",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::embedding(c.desc<EmbeddingDesc>(), c.in<int64_t>("ids"), c.in<T>("table"),
                                             c.out<T>("y"));
                      }),
    referenceOfFloats("embedding_grad",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::embeddingGrad(c.desc<EmbeddingDesc>(), c.in<int64_t>("ids"), c.in<T>("dy"),
                                                 c.out<T>("table"), WriteMode::kOverwrite);
                      }),
};

}  // namespace hyc::kernels::executed::embedding

#endif  // HYC_KERNELS_EMBEDDING_REFERENCE_H_
