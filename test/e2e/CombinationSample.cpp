// Greedy pairwise sampling.
#include "CombinationSample.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

using namespace hyc_e2e;

namespace {

constexpr size_t kOpen = static_cast<size_t>(-1);

PartialChoice chosenIn(const Combination &combination) {
  PartialChoice chosen;
  for (size_t column = 0; column < combination.size(); ++column)
    if (combination[column] != kOpen)
      chosen.insert({column, combination[column]});
  return chosen;
}

class Sampler {
public:
  Sampler(const std::vector<Column> &columns, const std::function<bool(const Combination &)> &accepts)
      : columns(columns), accepts(accepts) {
    for (size_t a = 0; a < columns.size(); ++a)
      for (size_t b = a + 1; b < columns.size(); ++b)
        for (size_t i = 0; i < columns[a].choices.size(); ++i)
          for (size_t j = 0; j < columns[b].choices.size(); ++j)
            missing.insert(pairOf(a, i, b, j));
  }

  Sample run() {
    while (!missing.empty()) {
      // Each begins with a pair that is still missing, so that the sample ends.
      PartialChoice pair = *missing.begin();
      std::optional<Combination> combination = complete(pair);
      if (!combination) {
        missing.erase(pair);
        continue;
      }
      if (!accepts(*combination)) {
        refuse(*combination);
        continue;
      }
      for (const PartialChoice &closed : pairsOf(*combination))
        missing.erase(closed);
      sample.combinations.push_back(*combination);
    }
    return std::move(sample);
  }

private:
  bool isRefused(const Combination &combination) const {
    PartialChoice chosen = chosenIn(combination);
    return std::any_of(sample.refused.begin(), sample.refused.end(), [&](const PartialChoice &together) {
      return std::includes(chosen.begin(), chosen.end(), together.begin(), together.end());
    });
  }

  /// Nothing where the pair goes with nothing.
  std::optional<Combination> complete(const PartialChoice &pair) const {
    Combination combination(columns.size(), kOpen);
    for (auto [column, choice] : pair)
      combination[column] = choice;
    if (isRefused(combination))
      return std::nullopt;
    for (size_t column = 0; column < columns.size(); ++column) {
      if (combination[column] != kOpen)
        continue;
      std::optional<std::pair<size_t, size_t>> bestGain;
      size_t best = kOpen;
      for (size_t choice = 0; choice < columns[column].choices.size(); ++choice) {
        Combination next = combination;
        next[column] = choice;
        std::pair<size_t, size_t> gain = gainOf(combination, column, choice);
        if (isRefused(next) || (bestGain && gain <= *bestGain))
          continue;
        bestGain = gain;
        best = choice;
      }
      if (best == kOpen)
        return std::nullopt;
      combination[column] = best;
    }
    return combination;
  }

  /// Pairs that a choice closes with those that stand already; of equal ones, the choice that is in more missing pairs
  /// altogether.
  std::pair<size_t, size_t> gainOf(const Combination &combination, size_t column, size_t choice) const {
    size_t closed = 0, open = 0;
    for (size_t other = 0; other < combination.size(); ++other)
      if (combination[other] != kOpen && other != column)
        closed += missing.count(pairOf(column, choice, other, combination[other]));
    for (const PartialChoice &pair : missing)
      open += pair.count({column, choice});
    return {closed, open};
  }

  void refuse(Combination combination) {
    for (size_t column = 0; column < columns.size(); ++column) {
      Combination simpler = combination;
      simpler[column] = 0;
      // What is refused already says nothing about the rest.
      if (simpler != combination && !isRefused(simpler) && !accepts(simpler))
        combination = simpler;
    }
    PartialChoice together;
    for (auto [column, choice] : chosenIn(combination))
      if (choice != 0)
        together.insert({column, choice});
    // A first choice may be what another one cannot do with: it goes with everything by declaration, so it is named.
    if (together.size() < 2)
      for (size_t column = 0; column < columns.size() && together.size() == 1; ++column)
        for (size_t choice = 1; choice < columns[column].choices.size(); ++choice) {
          Combination other = combination;
          other[column] = choice;
          if (combination[column] == 0 && accepts(other)) {
            together.insert({column, 0});
            break;
          }
        }
    if (together.size() < 2)
      throw std::logic_error("refused by itself: " + nameOf(columns, combination));
    sample.refused.push_back(together);
  }

  const std::vector<Column> &columns;
  const std::function<bool(const Combination &)> &accepts;
  std::set<PartialChoice> missing;
  Sample sample;
};

} // namespace

Sample hyc_e2e::samplePairwise(const std::vector<Column> &columns,
                               const std::function<bool(const Combination &)> &accepts) {
  return Sampler(columns, accepts).run();
}

PartialChoice hyc_e2e::pairOf(size_t column, size_t choice, size_t otherColumn, size_t otherChoice) {
  PartialChoice pair;
  pair.emplace(column, choice);
  pair.emplace(otherColumn, otherChoice);
  return pair;
}

std::set<PartialChoice> hyc_e2e::pairsOf(const Combination &combination) {
  std::set<PartialChoice> pairs;
  for (size_t a = 0; a < combination.size(); ++a)
    for (size_t b = a + 1; b < combination.size(); ++b)
      pairs.insert(pairOf(a, combination[a], b, combination[b]));
  return pairs;
}

std::string hyc_e2e::nameOf(const std::vector<Column> &columns, const Combination &combination) {
  std::string name;
  for (size_t column = 0; column < columns.size(); ++column)
    name += (column == 0 ? "" : "_") + columns[column].choices[combination[column]].name;
  return name;
}

std::vector<std::string> hyc_e2e::flagsOf(const std::vector<Column> &columns, const Combination &combination) {
  std::vector<std::string> flags;
  for (size_t column = 0; column < columns.size(); ++column) {
    const std::vector<std::string> &more = columns[column].choices[combination[column]].flags;
    flags.insert(flags.end(), more.begin(), more.end());
  }
  return flags;
}
