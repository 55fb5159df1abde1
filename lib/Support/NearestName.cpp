// Names by edit distance, looked at up to a bounded length.
#include "hyc/Support/NearestName.h"

using namespace llvm;

static constexpr size_t kMostCharacters = 100;

unsigned hyc::nameDistance(StringRef a, StringRef b) {
  return a.take_front(kMostCharacters).edit_distance(b.take_front(kMostCharacters));
}

StringRef hyc::nearestName(StringRef name, ArrayRef<StringRef> known) {
  StringRef best;
  unsigned least = ~0u;
  for (StringRef candidate : known)
    if (unsigned distance = nameDistance(name, candidate); distance < least) {
      best = candidate;
      least = distance;
    }
  return best;
}
