// What programs know of products of rows with their experts' matrices, and of the gradient of these.
#ifndef HYC_KERNELS_EXPERT_MATMUL_DESCRIPTION_H_
#define HYC_KERNELS_EXPERT_MATMUL_DESCRIPTION_H_

#include "kernels/description.h"
#include "kernels/expert_matmul/cuda.h"
#include "kernels/expert_matmul/op.h"

namespace hyc::kernels::described::expert_matmul {

// `w` is its gradient there, and `dy` the result's.
inline Extents result(const Call &c) { return c.has("y") ? c.operand("y") : c.operand("dy"); }
inline int64_t rows(const Call &c) { return c.operand("x").shape[0]; }
inline int64_t inputs(const Call &c) { return c.operand("x").shape[1]; }
inline int64_t outputs(const Call &c) { return result(c).shape[1]; }
inline int64_t experts(const Call &c) { return c.operand("w").shape[0]; }
inline bool isPlain(const Call &c) { return !c.flag("transposed"); }

inline ExpertMatmulDesc shapesOf(const Call &c) {
  ExpertMatmulDesc desc;
  desc.rows = rows(c), desc.experts = experts(c), desc.inputs = inputs(c), desc.outputs = outputs(c);
  desc.transposed = c.flag("transposed");
  return desc;
}

template <bool kIsGradient>
int64_t workspace(const Call &c, int64_t threads) {
  const ExpertMatmulDesc desc = shapesOf(c);
  const int most = static_cast<int>(threads);
  // What a program plans for one number of threads has to do for fewer.
  const auto bytes = [&](auto zero) {
    using T = decltype(zero);
    int64_t all = 0;
    for (int count = 1; count <= most; ++count) {
      const int64_t wanted = ExpertWorkspace<T>(desc, count, kIsGradient).bytes;
      if (wanted > all) all = wanted;
    }
    return all;
  };
  switch (c.operand("x").type) {
    case ElementType::kBf16:
      return bytes(Bf16());
    case ElementType::kF16:
      return bytes(F16());
    default:
      return bytes(0.0f);
  }
}

inline int64_t cudaWorkspace(const Call &c) { return static_cast<int64_t>(cuda::expertWorkspaceBytes(shapesOf(c))); }

inline double operations(const Call &c) {
  return 2.0 * static_cast<double>(rows(c)) * static_cast<double>(inputs(c)) * static_cast<double>(outputs(c));
}

inline constexpr Field kRows = size<&ExpertMatmulDesc::rows>("rows", rows);
inline constexpr Field kExperts = size<&ExpertMatmulDesc::experts>("experts", experts);
inline constexpr Field kInputs = size<&ExpertMatmulDesc::inputs>("inputs", inputs);
inline constexpr Field kOutputs = size<&ExpertMatmulDesc::outputs>("outputs", outputs);
inline constexpr Field kTransposed = flag<&ExpertMatmulDesc::transposed>("transposed", "transposed", isPlain);
inline constexpr Field kStart = scalar<&ExpertMatmulDesc::start>("start", "start");

inline constexpr KernelDescription kKernels[] = {
    {.name = "expert_matmul",
     .outs = {{"y"}},
     .ins = {{"x"}, {"w"}, {"ids"}, {"start", Role::kOptional}},
     .comment = "rows {x}, matrices {w}",
     .fields = {kRows, kExperts, kInputs, kOutputs, kTransposed, kStart},
     .cpu = {"kernels/expert_matmul/op.h", "expertMatmul(#desc, ids, x, w, y[, #workspace])"},
     .cuda = {"kernels/expert_matmul/cuda.h", "expertMatmul(#desc, start, ids, x, w, y[, #workspace])"},
     .workspace = workspace<false>,
     .cudaWorkspace = cudaWorkspace,
     .operations = operations},
    {.name = "expert_matmul_grad",
     .outs = {{"w", Role::kByMode}},
     .ins = {{"x"}, {"dy"}, {"ids"}, {"start", Role::kOptional}},
     .comment = "rows {x}, matrices {w}",
     .fields = {kRows, kExperts, kInputs, kOutputs, kTransposed, kStart},
     .cpu = {"kernels/expert_matmul/op.h", "expertMatmulGrad(#desc, ids, x, dy, w, #mode[, #workspace])"},
     .cuda = {"kernels/expert_matmul/cuda.h", "expertMatmulGrad(#desc, start, ids, x, dy, w, #mode[, #workspace])"},
     .workspace = workspace<true>,
     .cudaWorkspace = cudaWorkspace,
     .operations = operations},
};

}  // namespace hyc::kernels::described::expert_matmul

#endif  // HYC_KERNELS_EXPERT_MATMUL_DESCRIPTION_H_
