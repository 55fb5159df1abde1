// Embedding lookup over the rows of a table that one rank holds, and its gradient.
//
// The surprise: an id outside the rows held here gives a row of zeros, so that the sum over the ranks that split the
// vocabulary is the whole lookup. Nothing here checks that some rank holds the id; the data loader does.
#ifndef HYC_KERNELS_EMBEDDING_OP_H_
#define HYC_KERNELS_EMBEDDING_OP_H_

#include <cstdint>

#include "kernels/narrow_float.h"
#include "kernels/write_mode.h"

namespace hyc::kernels {

// ids: [tokens]; table: [rows, width], its row r being the vocabulary's row start + r; out: [tokens, width].
struct EmbeddingDesc {
  int64_t tokens = 0, rows = 0, width = 0;
  int64_t start = 0;
};

// out[t, :] = table[ids[t] - start, :], or 0 if ids[t] is outside [start, start + rows). T: float, Bf16 or F16.
template <typename T>
void embedding(const EmbeddingDesc &desc, const int64_t *ids, const T *table, T *out);

// dtable[r, :] = (or +=) Σ dout[t, :] over the tokens t with ids[t] = start + r. Tokens are added one by one in
// ascending order, to the old contents when accumulating.
template <typename T>
void embeddingGrad(const EmbeddingDesc &desc, const int64_t *ids, const T *dout, float *dtable, WriteMode mode);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_EMBEDDING_OP_H_
