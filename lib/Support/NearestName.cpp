// Names by edit distance, looked at up to a bounded length.
#include "hyc/Support/NearestName.h"

using namespace llvm;

static constexpr size_t kMostCharacters = 100;

/// Given a bound, what lies beyond it is only known to.
static unsigned distanceUpTo(StringRef a, StringRef b, unsigned most) {
  a = a.take_front(kMostCharacters);
  b = b.take_front(kMostCharacters);
  size_t difference = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  return difference > most ? most + 1 : a.edit_distance(b, /*AllowReplacements=*/true, most);
}

unsigned hyc::nameDistance(StringRef a, StringRef b) {
  return a.take_front(kMostCharacters).edit_distance(b.take_front(kMostCharacters));
}

StringRef hyc::nearestName(StringRef name, ArrayRef<StringRef> known) {
  StringRef best;
  unsigned least = kMostCharacters + 1;
  for (StringRef candidate : known)
    if (unsigned distance = least > 0 ? distanceUpTo(name, candidate, least - 1) : 1; distance < least) {
      best = candidate;
      least = distance;
    }
  return best;
}
