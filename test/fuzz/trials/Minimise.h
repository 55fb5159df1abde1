// One attempt after another in child processes, to tell whether what is left of an input shows the finding it showed.
#ifndef HYC_TEST_FUZZ_TRIALS_MINIMISE_H
#define HYC_TEST_FUZZ_TRIALS_MINIMISE_H

#include "Shrink.h"
#include "Supervisor.h"

#include <optional>
#include <string>

namespace hyc::fuzzing {

/// Whether two trials of inputs that differ in names and sizes have come upon the same thing: the same finding, with
/// the same words.
bool isSameFinding(const Verdict &one, const Verdict &other);

/// A verdict of which a diagnostic that matches `pattern`, where there is one, is the finding, and else nothing but a
/// crash is: `finding` of the options that look for a diagnostic of one's own choice.
Verdict lookFor(Verdict verdict, const std::string &pattern);

template <typename T> struct Minimised {
  T smallest;
  Verdict verdict;    ///< of the input as it was
  int64_t trials = 0; ///< that it took
};

/// Nothing where `whole` shows no finding. `attempt` runs in a child process.
template <typename T>
std::optional<Minimised<T>> minimise(const Supervision &options, const T &whole, const std::vector<Edits<T>> &edits,
                                     const std::function<Verdict(const T &)> &attempt, int64_t trials = 4000) {
  Supervision quiet = options;
  quiet.log.clear();
  quiet.folder = options.folder + "/minimising";
  auto judge = [&](const T &candidate) { return runAlone(quiet, [&] { return attempt(candidate); }); };
  Minimised<T> result{whole, judge(whole), 0};
  if (result.verdict.finding.empty())
    return std::nullopt;
  int64_t left = trials;
  result.smallest = shrink<T>(
      whole, edits, [&](const T &candidate) { return isSameFinding(judge(candidate), result.verdict); }, left);
  result.trials = trials - left;
  return result;
}

} // namespace hyc::fuzzing

#endif // HYC_TEST_FUZZ_TRIALS_MINIMISE_H
