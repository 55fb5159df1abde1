// What programs know of attention and its gradient.
#ifndef HYC_KERNELS_ATTENTION_DESCRIPTION_H_
#define HYC_KERNELS_ATTENTION_DESCRIPTION_H_

#include "kernels/attention/cuda.h"
#include "kernels/attention/op.h"
#include "kernels/description.h"

namespace hyc::kernels::described::attention {

inline int64_t batch(const Call &c) { return c.operand("q").shape[0]; }
inline int64_t queryLength(const Call &c) { return c.operand("q").shape[1]; }
inline int64_t keyLength(const Call &c) { return c.operand("k").shape[1]; }
inline int64_t heads(const Call &c) { return c.operand("q").shape[2]; }
inline int64_t kvHeads(const Call &c) { return c.operand("k").shape[2]; }
inline int64_t headDim(const Call &c) { return c.operand("q").shape[3]; }
inline int64_t keyStride(const Call &c) { return c.operand("keys").strides[0]; }
inline bool dropsNothing(const Call &c) { return !c.has("keys"); }
inline bool masksNothing(const Call &c) { return !c.has("mask"); }
// The step of the mask's dimension, 0 where it is 1.
template <int kDim>
int64_t maskStep(const Call &c) {
  const Extents mask = c.operand("mask");
  return mask.shape[kDim] == 1 ? 0 : mask.strides[kDim];
}

// Where element (b, s, h, d) lies: {batch, token, head}.
inline Sizes headStrides(const Call &c, const char *operand) {
  const Extents x = c.operand(operand);
  return {.at = {x.strides[0], x.strides[1], x.strides[2]}, .count = 3};
}

inline AttentionDesc shapesOf(const Call &c) {
  AttentionDesc desc;
  desc.batch = batch(c), desc.queryLength = queryLength(c), desc.keyLength = keyLength(c);
  desc.heads = heads(c), desc.kvHeads = kvHeads(c), desc.headDim = headDim(c);
  return desc;
}

// Of two products of all queries with all keys, five in the gradient; half of them where causal.
inline double operations(const Call &c, double products) {
  const double product = 2.0 * static_cast<double>(batch(c)) * static_cast<double>(queryLength(c)) *
                         static_cast<double>(heads(c)) * static_cast<double>(headDim(c)) *
                         static_cast<double>(keyLength(c));
  return product * products * (c.flag("causal") ? 0.5 : 1);
}

inline int64_t gradientWorkspace(const Call &c, int64_t threads) {
  const AttentionDesc desc = shapesOf(c);
  const int most = static_cast<int>(threads);
  return static_cast<int64_t>(c.operand("q").type == ElementType::kF32
                                  ? attentionBackwardWorkspaceBytes<float>(desc, most)
                                  : attentionBackwardWorkspaceBytes<Bf16>(desc, most));
}

inline constexpr Field kBatch = size<&AttentionDesc::batch>("batch", batch);
inline constexpr Field kQueryLength = size<&AttentionDesc::queryLength>("queryLength", queryLength);
inline constexpr Field kKeyLength = size<&AttentionDesc::keyLength>("keyLength", keyLength);
inline constexpr Field kHeads = size<&AttentionDesc::heads>("heads", heads);
inline constexpr Field kKvHeads = size<&AttentionDesc::kvHeads>("kvHeads", kvHeads);
inline constexpr Field kHeadDim = size<&AttentionDesc::headDim>("headDim", headDim);
inline constexpr Field kCausal = flag<&AttentionDesc::causal>("causal", "causal");
inline constexpr Field kScale = real<&AttentionDesc::scale>("scale", "scale");
inline constexpr Field kRate =
    real<&AttentionDesc::dropout, &AttentionDropout::rate>("dropout.rate", "dropout", dropsNothing);
inline constexpr Field kKeys = address<&AttentionDesc::dropout, &AttentionDropout::keys>("dropout.keys", "keys");
inline constexpr Field kKeyStride =
    size<&AttentionDesc::dropout, &AttentionDropout::keyStride>("dropout.keyStride", keyStride, dropsNothing);
inline constexpr Field kPlace = scalar<&AttentionDesc::dropout, &AttentionDropout::place>("dropout.place", "place");
inline constexpr Field kMask = address<&AttentionDesc::mask, &AttentionMask::at>("mask.at", "mask");
inline constexpr Field kMaskBatch =
    size<&AttentionDesc::mask, &AttentionMask::batch>("mask.batch", maskStep<0>, masksNothing);
inline constexpr Field kMaskHead =
    size<&AttentionDesc::mask, &AttentionMask::head>("mask.head", maskStep<1>, masksNothing);
inline constexpr Field kMaskQuery =
    size<&AttentionDesc::mask, &AttentionMask::query>("mask.query", maskStep<2>, masksNothing);
inline constexpr Field kQ = sizes<&AttentionDesc::q>("q", headStrides, "q");
inline constexpr Field kK = sizes<&AttentionDesc::k>("k", headStrides, "k");
inline constexpr Field kV = sizes<&AttentionDesc::v>("v", headStrides, "v");
inline constexpr Field kO = sizes<&AttentionDesc::o>("o", headStrides, "o");
inline constexpr Field kDq = sizes<&AttentionDesc::dq>("dq", headStrides, "dq");
inline constexpr Field kDk = sizes<&AttentionDesc::dk>("dk", headStrides, "dk");
inline constexpr Field kDv = sizes<&AttentionDesc::dv>("dv", headStrides, "dv");
inline constexpr Field kDO = sizes<&AttentionDesc::dO>("dO", headStrides, "dO");

inline constexpr KernelDescription kKernels[] = {
    {.name = "attention",
     .outs = {{"o"}, {"lse"}},
     .ins = {{"q"},
             {"k"},
             {"v"},
             {"mask", Role::kOptional, "masked"},
             {"keys", Role::kOptional},
             {"place", Role::kOptional}},
     .comment = "q {q}, k and v {k}",
     .fields = {kBatch,    kQueryLength, kKeyLength, kHeads, kKvHeads,   kHeadDim, kCausal, kScale, kMask, kMaskBatch,
                kMaskHead, kMaskQuery,   kRate,      kKeys,  kKeyStride, kPlace,   kQ,      kK,     kV,    kO},
     .cpu = {"kernels/attention/op.h", "attentionForward(#desc, q, k, v, o, lse)"},
     .cuda = {"kernels/attention/cuda.h", "attentionForward(#desc, place, q, k, v, o, lse)"},
     .operations = [](const Call &c) { return operations(c, 2); },
     .isAttention = true},
    {.name = "attention_grad",
     .outs = {{"dq"}, {"dk"}, {"dv"}},
     .ins = {{"q"},
             {"k"},
             {"v"},
             {"o"},
             {"lse"},
             {"dO"},
             {"mask", Role::kOptional, "masked"},
             {"keys", Role::kOptional},
             {"place", Role::kOptional}},
     .comment = "q {q}, k and v {k}",
     .fields = {kBatch, kQueryLength, kKeyLength, kHeads,     kKvHeads, kHeadDim, kCausal,    kScale,
                kMask,  kMaskBatch,   kMaskHead,  kMaskQuery, kRate,    kKeys,    kKeyStride, kPlace,
                kQ,     kK,           kV,         kO,         kDq,      kDk,      kDv,        kDO},
     .cpu = {"kernels/attention/op.h", "attentionBackward(#desc, q, k, v, o, lse, dO, dq, dk, dv[, #workspace])"},
     .cuda = {"kernels/attention/cuda.h",
              "attentionBackward(#desc, place, q, k, v, o, lse, dO, dq, dk, dv[, #workspace])"},
     .workspace = gradientWorkspace,
     .cudaWorkspace =
         [](const Call &c) { return static_cast<int64_t>(cuda::attentionBackwardWorkspaceBytes(shapesOf(c))); },
     .operations = [](const Call &c) { return operations(c, 5); },
     .isAttention = true},
};

}  // namespace hyc::kernels::described::attention

#endif  // HYC_KERNELS_ATTENTION_DESCRIPTION_H_
