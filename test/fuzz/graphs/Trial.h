// One model under one layout, through hyc::compile to the rank dialect, and what of the outcome is a finding.
#ifndef HYC_TEST_FUZZ_GRAPHS_TRIAL_H
#define HYC_TEST_FUZZ_GRAPHS_TRIAL_H

#include "Random.h"
#include "hyc/Driver/Compile.h"

#include <string>
#include <vector>

namespace hyc::fuzzing {

/// Flags of hyc-compile, as --tp=2, at random: mesh, batch, schedule, ZeRO, optimizer, precision, recomputation,
/// offload.
std::vector<std::string> randomFlags(Random &random, int64_t batch, const std::string &loss);
/// The options that `flags` mean. Ends the process where there is no such flag.
CompileOptions optionsOf(const std::string &input, const std::vector<std::string> &flags);

struct TrialOutcome {
  int code = 0;        ///< as the tool ends
  std::string finding; ///< what should not be; empty: nothing
  std::string said;    ///< the first error
  std::string text;    ///< the module, after success
};

/// Whether errors were said in a way that a user can act on, and the code is one that input may give.
TrialOutcome judge(const CompileResult &result);
TrialOutcome compileToRank(const std::string &path, const std::vector<std::string> &flags);

} // namespace hyc::fuzzing

#endif // HYC_TEST_FUZZ_GRAPHS_TRIAL_H
