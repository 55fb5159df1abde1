// What programs know of a rank's shard of what it holds whole.
#ifndef HYC_KERNELS_SHARD_SLICE_DESCRIPTION_H_
#define HYC_KERNELS_SHARD_SLICE_DESCRIPTION_H_

#include "kernels/description.h"
#include "kernels/shard_slice/op.h"

namespace hyc::kernels::described::shard_slice {

// Dimensions of the whole before `dim`, and behind it.
inline size_t dim(const Call &c) { return static_cast<size_t>(c.integer("dim")); }
inline int64_t outer(const Call &c) { return product(c.operand("whole").shape.first(dim(c))); }
inline int64_t whole(const Call &c) { return c.operand("whole").shape[dim(c)]; }
inline int64_t part(const Call &c) { return c.operand("part").shape[dim(c)]; }
inline int64_t inner(const Call &c) { return product(c.operand("whole").shape.from(dim(c) + 1)); }
inline int64_t elementBytes(const Call &c) { return c.operand("part").elementBytes; }
inline int64_t start(const ExecutedCall &c) { return c.coordinate() * part(c); }

inline constexpr KernelDescription kKernels[] = {
    {.name = "slice_shard",
     .outs = {{"part"}},
     .ins = {{"whole"}},
     .comment = "",
     .fields = {size<&ShardSliceDesc::outer>("outer", outer), size<&ShardSliceDesc::whole>("whole", whole),
                size<&ShardSliceDesc::part>("part", part), size<&ShardSliceDesc::inner>("inner", inner),
                sizeInStep<&ShardSliceDesc::start>("start", nullptr, "int64_t{#coordinate} * #size", start, part),
                size<&ShardSliceDesc::elementBytes>("elementBytes", elementBytes)},
     .cpu = {"kernels/shard_slice/op.h", "shardSlice(#desc, whole, part)"},
     .cuda = {"kernels/copy/cuda.h", "shardSlice(#desc, whole, part)"}},
    // Where this rank's shard begins. For CPUs an expression.
    {.name = "shard_offset",
     .outs = {{"offset"}},
     .comment = "",
     .cpu = {nullptr, "*offset = int64_t{#coordinate} * @size"},
     .cuda = {"kernels/copy/cuda.h", "fill<int64_t>(offset, 1, int64_t{#coordinate} * @size)"},
     .isViewInFrameworks = true},
};

}  // namespace hyc::kernels::described::shard_slice

#endif  // HYC_KERNELS_SHARD_SLICE_DESCRIPTION_H_
