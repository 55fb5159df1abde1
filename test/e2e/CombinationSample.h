// CombinationSample: a table of properties that combine, and a sample of combinations in which every two choices of
// different properties meet, but for those that cannot. A property that hyc gains is one more column.
#ifndef HYC_TEST_E2E_COMBINATIONSAMPLE_H
#define HYC_TEST_E2E_COMBINATIONSAMPLE_H

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace hyc_e2e {

struct Choice {
  std::string name;               // letters and digits; part of a test's name
  std::vector<std::string> flags; // of hyc-compile
};

struct Column {
  std::string property;
  std::vector<Choice> choices; // the first goes with everything
};

/// Of each column the index of its choice.
using Combination = std::vector<size_t>;

/// Choices of some columns, in ascending order of the column: (column, choice).
using PartialChoice = std::set<std::pair<size_t, size_t>>;

/// Of two columns.
PartialChoice pairOf(size_t column, size_t choice, size_t otherColumn, size_t otherChoice);

/// Every two choices of one combination.
std::set<PartialChoice> pairsOf(const Combination &combination);

struct Sample {
  std::vector<Combination> combinations;
  /// The fewest choices that are refused together, whatever else is chosen first; none is part of a combination.
  std::vector<PartialChoice> refused;
};

/// Few combinations that cover all pairs, the same in every run: each new one takes, column by column, the choice that
/// meets most of the earlier ones for the first time (Cohen et al. 1997, "The AETG system"). `accepts` is asked about
/// every combination before it is taken; where it says no, columns go back to their first choice, one after the other,
/// until what is left is what it refuses. Throws std::logic_error where it refuses a single choice.
Sample samplePairwise(const std::vector<Column> &columns, const std::function<bool(const Combination &)> &accepts);

std::string nameOf(const std::vector<Column> &columns, const Combination &combination);
std::vector<std::string> flagsOf(const std::vector<Column> &columns, const Combination &combination);

} // namespace hyc_e2e

#endif // HYC_TEST_E2E_COMBINATIONSAMPLE_H
