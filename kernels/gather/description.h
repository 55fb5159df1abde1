// What programs know of gather and scatter.
#ifndef HYC_KERNELS_GATHER_DESCRIPTION_H_
#define HYC_KERNELS_GATHER_DESCRIPTION_H_

#include "kernels/description.h"
#include "kernels/gather/op.h"

namespace hyc::kernels::described::gather {

// Of the data's dimensions: those before `batch`, from there to `dim`, `dim` itself, and those behind it.
inline size_t dim(const Call &c) { return static_cast<size_t>(c.integer("dim")); }
inline size_t batchDims(const Call &c) { return static_cast<size_t>(c.integer("batch")); }
inline int64_t batch(const Call &c) { return product(c.operand("data").shape.first(batchDims(c))); }
inline int64_t lead(const Call &c) { return product(c.operand("data").shape.first(dim(c)).from(batchDims(c))); }
inline int64_t sizeOfDim(const Call &c) { return c.operand("data").shape[dim(c)]; }
inline int64_t picked(const Call &c) { return product(c.operand("indices").shape.from(batchDims(c))); }
inline int64_t inner(const Call &c) { return product(c.operand("data").shape.from(dim(c) + 1)); }

inline constexpr Field kBatch = size<&GatherDesc::batch>("batch", batch);
inline constexpr Field kLead = size<&GatherDesc::lead>("lead", lead);
inline constexpr Field kSize = size<&GatherDesc::size>("size", sizeOfDim);
inline constexpr Field kPicked = size<&GatherDesc::picked>("picked", picked);
inline constexpr Field kInner = size<&GatherDesc::inner>("inner", inner);

inline constexpr KernelDescription kKernels[] = {
    {.name = "gather",
     .outs = {{"rows"}},
     .ins = {{"data", .touchedAs = "rows"}, {"indices"}},
     .comment = "{data} by {indices}",
     .fields = {kBatch, kLead, kSize, kPicked, kInner},
     .cpu = {"kernels/gather/op.h", "gather(#desc, #bytes(data), data, indices, rows)"},
     .cuda = {"kernels/gather/cuda.h", "gather(#desc, #bytes(data), data, indices, rows)"}},
    {.name = "scatter",
     .outs = {{"data"}},
     .ins = {{"indices"}, {"rows"}},
     .comment = "{data} by {indices}",
     .fields = {kBatch, kLead, kSize, kPicked, kInner},
     .cpu = {"kernels/gather/op.h", "scatter(#desc, ScatterKind::k@kind, indices, rows, data)"},
     .cuda = {"kernels/gather/cuda.h", "scatter(#desc, ScatterKind::k@kind, indices, rows, data)"}},
};

}  // namespace hyc::kernels::described::gather

#endif  // HYC_KERNELS_GATHER_DESCRIPTION_H_
