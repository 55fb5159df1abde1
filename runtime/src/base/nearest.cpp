// Edit distance over a list of candidates.
#include "base/nearest.h"

#include <algorithm>

namespace hycrt {

int editDistance(const std::string& a, const std::string& b) {
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  int bestDistance = -1;
  for (const std::string& candidate : candidates) {
    // A word from outside may be of any length; beyond this it resembles nothing.
    const int distance = editDistance(word.substr(0, 100), candidate);
    if (bestDistance < 0 || distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

std::string resembling(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string best = nearest(word, candidates);
  const bool resembles = editDistance(word.substr(0, 100), best) <= std::max(2, static_cast<int>(word.size()) / 3);
  return resembles ? best : "";
}

}  // namespace hycrt
