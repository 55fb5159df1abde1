// The suggestion in "unknown key": the candidate with the least edit distance.
#ifndef HYCRT_SRC_BASE_NEAREST_H_
#define HYCRT_SRC_BASE_NEAREST_H_

#include <string>
#include <vector>

namespace hycrt {

// Insertions, deletions and substitutions, each one.
int editDistance(const std::string& a, const std::string& b);

// Of equal ones the first; empty where there are no candidates.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

// The same where it resembles the word, so that this may be a slip of the hand: up to two letters differ, or a third of
// them. Else empty.
std::string resembling(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_NEAREST_H_
