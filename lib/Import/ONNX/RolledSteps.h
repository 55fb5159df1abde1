// Steps that are all alike, as one op that repeats them (hyc.scan).
#ifndef HYC_IMPORT_ONNX_ROLLEDSTEPS_H
#define HYC_IMPORT_ONNX_ROLLEDSTEPS_H

#include "Importer.h"
#include "dialects/Hyc/StepFacts.h"

namespace hyc::onnx {

/// The most steps: programs still have a row for each.
inline constexpr int64_t kMostRolled = int64_t(1) << 16;

/// What repeats: how often, which way, what the first step is given, and what all of them go through along dimension 0.
struct Repeated {
  int64_t steps = 0;
  bool isReverse = false; ///< from the last element to the first
  std::vector<Binding> init, sequences;
};

/// What a step computes: what it carries on, in as many values as it is given, and what it gives besides.
struct Step {
  std::vector<Binding> carried, given;
};

/// Whether steps may better be rolled than written out: there are many, what they go through is computed when running,
/// and none of what they carry is known when compiling from step to step, as a counter is.
bool areWorthRolling(const Repeated &repeated);

/// Builds one step from what is carried to it and its elements; nothing, reported, where it cannot.
using StepBuilder =
    llvm::function_ref<std::optional<Step>(llvm::ArrayRef<Binding> carried, llvm::ArrayRef<Binding> elements)>;

} // namespace hyc::onnx

#endif // HYC_IMPORT_ONNX_ROLLEDSTEPS_H
