// What programs know of resampling.
#ifndef HYC_KERNELS_RESAMPLE_DESCRIPTION_H_
#define HYC_KERNELS_RESAMPLE_DESCRIPTION_H_

#include "kernels/description.h"
#include "kernels/resample/passes.h"

namespace hyc::kernels::described::resample {

inline size_t dim(const Call &c) { return static_cast<size_t>(c.integer("dim")); }
inline int64_t outer(const Call &c) { return product(c.operand("x").shape.first(dim(c))); }
inline int64_t inner(const Call &c) { return product(c.operand("x").shape.from(dim(c) + c.list("taps").size())); }
inline Sizes resampledSizes(const Call &c, const char *operand) {
  return three(c.operand(operand).shape.from(dim(c)).first(c.list("taps").size()), 1);
}
inline Sizes taps(const Call &c, const char *attribute) { return three(c.list(attribute), 0); }

inline int64_t workspace(const Call &c, int64_t threads) {
  ResampleDesc desc;
  desc.outer = outer(c), desc.inner = inner(c);
  const Sizes from = resampledSizes(c, "x"), to = resampledSizes(c, "y"), counts = taps(c, "taps");
  for (int i = 0; i < kResampledDims; ++i)
    desc.from[i] = from.at[i], desc.to[i] = to.at[i], desc.taps[i] = counts.at[i];
  return resampling::workspaceBytes(desc, threads);
}

inline constexpr KernelDescription kKernels[] = {
    {.name = "resample",
     .outs = {{"y"}},
     .ins = {{"x"}, {"firsts"}, {"weights"}},
     .comment = "{x} -> {y}",
     .fields = {size<&ResampleDesc::outer>("outer", outer), size<&ResampleDesc::inner>("inner", inner),
                sizes<&ResampleDesc::from>("from", resampledSizes, "x"),
                sizes<&ResampleDesc::to>("to", resampledSizes, "y"), sizes<&ResampleDesc::taps>("taps", taps, "taps")},
     .cpu = {"kernels/resample/op.h", "resample(#desc, x, firsts, weights, y[, #workspace])"},
     .cuda = {"kernels/resample/cuda.h", "resample(#desc, x, firsts, weights, y)"},
     .workspace = workspace},
};

}  // namespace hyc::kernels::described::resample

#endif  // HYC_KERNELS_RESAMPLE_DESCRIPTION_H_
