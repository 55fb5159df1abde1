// Embedding on GPUs: the contract of op.h, its order of summation included. `start`, where it is not null, takes the
// place of EmbeddingDesc::start: where a shard begins is a number in device memory.
#ifndef HYC_KERNELS_EMBEDDING_CUDA_H_
#define HYC_KERNELS_EMBEDDING_CUDA_H_

#include "kernels/cuda/stream.h"
#include "kernels/embedding/op.h"

namespace hyc::kernels::cuda {

template <typename T>
void embedding(Stream stream, const EmbeddingDesc &desc, const int64_t *start, const int64_t *ids, const T *table,
               T *out);

template <typename T>
void embeddingGrad(Stream stream, const EmbeddingDesc &desc, const int64_t *start, const int64_t *ids, const T *dout,
                   float *dtable, WriteMode mode);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_EMBEDDING_CUDA_H_
