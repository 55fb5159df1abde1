// Embedding on GPUs: the contract of op.h, its order of summation included. `start`, where it is not null, takes the
// place of EmbeddingDesc::start: where a shard begins is a number in device memory.
#ifndef HYC_KERNELS_EMBEDDING_CUDA_H_
#define HYC_KERNELS_EMBEDDING_CUDA_H_

#include <cstddef>

#include "kernels/cuda/stream.h"
#include "kernels/embedding/op.h"

namespace hyc::kernels::cuda {

template <typename T>
void embedding(Stream stream, const EmbeddingDesc &desc, const int64_t *start, const int64_t *ids, const T *table,
               T *out);

// Two numbers of 32 bits a token, of which there are less than 2^31.
constexpr size_t embeddingGradWorkspaceBytes(const EmbeddingDesc &d) { return static_cast<size_t>(d.tokens) * 8; }

// workspace: embeddingGradWorkspaceBytes.
template <typename T>
void embeddingGrad(Stream stream, const EmbeddingDesc &desc, const int64_t *start, const int64_t *ids, const T *dout,
                   float *dtable, WriteMode mode, void *workspace);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_EMBEDDING_CUDA_H_
