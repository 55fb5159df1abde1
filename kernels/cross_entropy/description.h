// What programs know of the loss of a vocabulary, whole or split over ranks.
//
// Where it is split, `first` is the first column that this rank holds, which follows from its place and is therefore
// read while a step runs; columns beyond the vocabulary are padding.
#ifndef HYC_KERNELS_CROSS_ENTROPY_DESCRIPTION_H_
#define HYC_KERNELS_CROSS_ENTROPY_DESCRIPTION_H_

#include "kernels/cross_entropy/op.h"
#include "kernels/description.h"

namespace hyc::kernels::described::cross_entropy {

// The widest vocabulary, halved so that what is subtracted from it does not overflow.
constexpr int64_t kAnyVocabulary = INT64_MAX / 2;

inline int64_t rowsOfLogits(const Call &c) { return c.operand("logits").rows(); }
inline int64_t columns(const Call &c) { return c.operand("logits").last(); }
// Rows may stand apart; the strides of whole dimensions follow from the last one's.
inline int64_t rowStride(const Call &c) {
  const Extents logits = c.operand("logits");
  for (size_t i = logits.shape.size(); i-- > 1;)
    if (logits.shape[i - 1] != 1) return logits.strides[i - 1];
  return columns(c);
}
inline bool isDense(const Call &c) { return rowStride(c) == columns(c); }
inline bool isWholeAndDense(const Call &c) { return (c.onGpu() || !c.has("first")) && isDense(c); }
inline int64_t ignoreIndex(const Call &c) { return c.integer("ignore_index", -100); }
inline bool ignoresAsUsual(const Call &c) { return ignoreIndex(c) == -100; }

inline int64_t localColumns(const ExecutedCall &c) {
  if (!c.has("first")) return columns(c);
  const int64_t left = c.integer("vocabulary", kAnyVocabulary) - c.integerValue("first");
  return left < 0 ? 0 : left < columns(c) ? left : columns(c);
}

inline constexpr Field kTokens = size<&CrossEntropyDesc::tokens>("tokens", rowsOfLogits);
inline constexpr Field kLocalVocab = sizeInStep<&CrossEntropyDesc::localVocab>(
    "localVocab", "first", "std::clamp<int64_t>(@vocabulary|4611686018427387903 - *first, 0, #size)", localColumns,
    columns);
inline constexpr Field kRowStride = size<&CrossEntropyDesc::ld>("ld", rowStride, isWholeAndDense);
inline constexpr Field kFirst = scalar<&CrossEntropyDesc::vocabStart>("vocabStart", "first");
inline constexpr Field kIgnored = size<&CrossEntropyDesc::ignoreIndex>("ignoreIndex", ignoreIndex, ignoresAsUsual);

inline constexpr KernelDescription kKernels[] = {
    {.name = "cross_entropy",
     .outs = {{"loss"}, {"count"}, {"lse"}, {"picked", Role::kScratch}},
     .ins = {{"logits"}, {"labels"}},
     .comment = "logits {logits}",
     .fields = {kTokens, size<&CrossEntropyDesc::localVocab>("localVocab", columns),
                size<&CrossEntropyDesc::ld>("ld", rowStride, isDense), kIgnored},
     .cpu = {"kernels/cross_entropy/op.h", "crossEntropyForward(#desc, logits, labels, lse, picked, loss, count)"},
     .cuda = {"kernels/cross_entropy/cuda.h", "crossEntropyForward(#desc, logits, labels, lse, picked, loss, count)"}},
    {.name = "cross_entropy_grad",
     .outs = {{"dlogits"}},
     .ins = {{"cotangent"}, {"logits"}, {"labels"}, {"lse"}, {"first", Role::kOptional}},
     .comment = "logits {logits}",
     .fields = {kTokens, kLocalVocab, kRowStride, kFirst, kIgnored},
     .cpu = {"kernels/cross_entropy/op.h", "crossEntropyGrad(#desc, logits, labels, lse, *cotangent, dlogits)"},
     .cuda = {"kernels/cross_entropy/cuda.h",
              "crossEntropyGrad(#desc, {[first, @vocabulary|4611686018427387903, #last(logits)]}, logits, labels, lse, "
              "cotangent, dlogits)"},
     .reuses = {{"dlogits", "logits"}}},
    {.name = "vocab_max",
     .outs = {{"max"}},
     .ins = {{"logits"}, {"first"}},
     .comment = "logits {logits}",
     .fields = {kTokens, kLocalVocab, kRowStride, kFirst, kIgnored},
     .cpu = {"kernels/cross_entropy/op.h", "crossEntropyRowMax(#desc, logits, max)"},
     .cuda = {"kernels/cross_entropy/cuda.h",
              "crossEntropyRowMax(#desc, {first, @vocabulary|4611686018427387903, #last(logits)}, logits, max)"}},
    {.name = "vocab_sum_exp",
     .outs = {{"sum_exp"}, {"picked"}},
     .ins = {{"logits"}, {"max"}, {"labels"}, {"first"}},
     .comment = "logits {logits}",
     .fields = {kTokens, kLocalVocab, kRowStride, kFirst, kIgnored},
     .cpu = {"kernels/cross_entropy/op.h", "crossEntropySumExp(#desc, logits, labels, max, sum_exp, picked)"},
     .cuda = {"kernels/cross_entropy/cuda.h",
              "crossEntropySumExp(#desc, {first, @vocabulary|4611686018427387903, #last(logits)}, logits, labels, max, "
              "sum_exp, picked)"}},
    {.name = "vocab_loss",
     .outs = {{"loss"}, {"count"}, {"lse"}},
     .ins = {{"max"}, {"sum_exp"}, {"picked"}, {"labels"}},
     .comment = "{max}",
     .fields = {size<&CrossEntropyDesc::tokens>("tokens", [](const Call &c) { return c.operand("max").elements(); }),
                kIgnored},
     .cpu = {"kernels/cross_entropy/op.h",
             "crossEntropyCombine(#desc, labels, max, sum_exp, picked, lse, loss, count)"},
     .cuda = {"kernels/cross_entropy/cuda.h",
              "crossEntropyCombine(#desc, labels, max, sum_exp, picked, lse, loss, count)"}},
};

}  // namespace hyc::kernels::described::cross_entropy

#endif  // HYC_KERNELS_CROSS_ENTROPY_DESCRIPTION_H_
