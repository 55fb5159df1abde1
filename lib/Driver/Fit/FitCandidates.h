// FitCandidates: what could be changed about a job so that its ranks need less memory, in the order of what it costs.
//
// A candidate is a whole choice: layout, micro-batch, ZeRO stage, recomputation, offload. The cost only orders; what a
// candidate needs is found out by planning it. Estimates from below keep the plans few: states shrink by no more than
// the ranks that divide them, and activations of one layout do not depend on how its states are divided.
#ifndef HYC_LIB_DRIVER_FIT_FITCANDIDATES_H
#define HYC_LIB_DRIVER_FIT_FITCANDIDATES_H

#include "hyc/Analysis/MemoryAccount.h"
#include "hyc/Plan/CompileOptions.h"

#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace hyc {

struct FitCandidate {
  int64_t tp = 1, pp = 1, dp = 1, microBatch = 1, gradAccum = 1, zero = 0;
  std::string recompute = "none";
  std::string offloadOptimizer = "none", offloadParam = "none", offloadActivations = "none";
  std::string offloadGradients = "none"; ///< only beside the optimizer
  double cost = 0;                       ///< in doublings of what is cheap

  int64_t ranks() const { return tp * pp * dp; }
  auto mesh() const { return std::tuple(tp, pp, dp); }
};

/// What `job`, planned under `options`, is.
FitCandidate describeChoice(const JobAccount &job, const CompileOptions &options, int64_t microBatch);

/// Choices of the same global batch that need less than `from` in one way at least and on no fewer ranks, cheapest
/// first.
std::vector<FitCandidate> makeCandidates(const FitCandidate &from);

/// Of the candidates on one candidate's mesh the one that takes most measures: where it does not fit, none of them
/// does.
FitCandidate mostFrugal(const std::vector<FitCandidate> &candidates, const FitCandidate &mesh);

/// `options` with the candidate's choice in place of what they say.
CompileOptions withCandidate(CompileOptions options, const FitCandidate &candidate);

/// The flags in which `to` differs from `from`: "--zero 3 --recompute layer".
std::string describeChange(const FitCandidate &from, const FitCandidate &to);

/// A little less than a candidate needs on the rank that needs most, going by what like ones did. Where that is too
/// much, a candidate is passed over that would have fitted; none is proposed that does not fit, since those are
/// planned.
class FitBounds {
public:
  FitBounds(const JobAccount &job, const FitCandidate &from);

  /// What planning a candidate has told.
  void learn(const FitCandidate &candidate, const JobAccount &job);
  double atLeast(const FitCandidate &candidate) const;

private:
  /// tp, pp, micro-batch, recomputation, where activations are saved
  using ActivationKey = std::tuple<int64_t, int64_t, int64_t, std::string, std::string>;
  static ActivationKey keyOf(const FitCandidate &candidate);

  double parameters = 0, gradients = 0, optimizer = 0; ///< of the whole model
  double fixed = 0;                                    ///< of a rank
  std::map<ActivationKey, double> activations;
};

/// The stage whose ranks need most device memory.
const StageAccount &neediestStage(const JobAccount &job);

} // namespace hyc

#endif // HYC_LIB_DRIVER_FIT_FITCANDIDATES_H
