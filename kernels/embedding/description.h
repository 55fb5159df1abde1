// What programs know of embeddings and their gradient.
#ifndef HYC_KERNELS_EMBEDDING_DESCRIPTION_H_
#define HYC_KERNELS_EMBEDDING_DESCRIPTION_H_

#include "kernels/description.h"
#include "kernels/embedding/cuda.h"
#include "kernels/embedding/op.h"

namespace hyc::kernels::described::embedding {

inline int64_t tokens(const Call &c) { return c.operand("ids").elements(); }
inline int64_t rows(const Call &c) { return c.operand("table").shape[0]; }
inline int64_t width(const Call &c) { return c.operand("table").shape[1]; }

// `table` is its gradient there.
inline int64_t gradientWorkspace(const Call &c) {
  EmbeddingDesc desc;
  desc.tokens = tokens(c);
  return static_cast<int64_t>(cuda::embeddingGradWorkspaceBytes(desc));
}

inline constexpr KernelDescription kKernels[] = {
    {.name = "embedding",
     .outs = {{"y"}},
     .ins = {{"ids"}, {"table", .touchedAs = "y"}, {"start", Role::kOptional}},
     .comment = "table {table}",
     .fields = {size<&EmbeddingDesc::tokens>("tokens", tokens), size<&EmbeddingDesc::rows>("rows", rows),
                size<&EmbeddingDesc::width>("width", width), scalar<&EmbeddingDesc::start>("start", "start")},
     .cpu = {"kernels/embedding/op.h", "embedding(#desc, ids, table, y)"},
     .cuda = {"kernels/embedding/cuda.h", "embedding(#desc, start, ids, table, y)"}},
    {.name = "embedding_grad",
     .outs = {{"table", Role::kByMode, .touchedAs = "dy"}},
     .ins = {{"ids"}, {"dy"}, {"start", Role::kOptional}},
     .comment = "table {table}",
     .fields = {size<&EmbeddingDesc::tokens>("tokens", tokens), size<&EmbeddingDesc::rows>("rows", rows),
                size<&EmbeddingDesc::width>("width", width), scalar<&EmbeddingDesc::start>("start", "start")},
     .cpu = {"kernels/embedding/op.h", "embeddingGrad(#desc, ids, dy, table, #mode)"},
     .cuda = {"kernels/embedding/cuda.h", "embeddingGrad(#desc, start, ids, dy, table, #mode[, #workspace])"},
     .cudaWorkspace = gradientWorkspace},
};

}  // namespace hyc::kernels::described::embedding

#endif  // HYC_KERNELS_EMBEDDING_DESCRIPTION_H_
