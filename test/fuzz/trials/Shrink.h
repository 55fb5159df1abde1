// Delta debugging (Zeller and Hildebrandt 2002): of an input that shows a finding, one that shows the same finding and
// of which no single edit can be taken away.
#ifndef HYC_TEST_FUZZ_TRIALS_SHRINK_H
#define HYC_TEST_FUZZ_TRIALS_SHRINK_H

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace hyc::fuzzing {

/// What is left of an input after each of some edits, those that take most away first. Each has to be smaller than the
/// input by some measure that all edits share, or shrinking does not end before its trials do.
template <typename T> using Edits = std::function<std::vector<T>(const T &)>;
template <typename T> using Keeps = std::function<bool(const T &)>;

/// Tries edits until none keeps the finding or `trials`, which counts down, is used up.
template <typename T>
T shrink(T whole, const std::vector<Edits<T>> &kinds, const Keeps<T> &keepsFinding, int64_t &trials) {
  for (bool isSmaller = true; isSmaller;) {
    isSmaller = false;
    for (const Edits<T> &edits : kinds) {
      std::vector<T> candidates = edits(whole);
      for (size_t at = 0; at < candidates.size() && trials > 0;) {
        --trials;
        if (!keepsFinding(candidates[at])) {
          ++at;
          continue;
        }
        whole = std::move(candidates[at]);
        candidates = edits(whole); // what comes after what is gone now has its place
        isSmaller = true;
      }
    }
  }
  return whole;
}

/// The ranges of `count` elements to leave out: halves, quarters and so on to single ones, from the last to the first,
/// since what is made later rests on what is made before.
inline std::vector<std::pair<size_t, size_t>> rangesOf(size_t count) {
  std::vector<std::pair<size_t, size_t>> ranges;
  for (size_t length = count; length > 0; length /= 2)
    for (size_t end = count; end > 0; end = end > length ? end - length : 0)
      ranges.emplace_back(end > length ? end - length : 0, end);
  return ranges;
}

} // namespace hyc::fuzzing

#endif // HYC_TEST_FUZZ_TRIALS_SHRINK_H
