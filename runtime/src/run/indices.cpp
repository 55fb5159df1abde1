// One pass over the indices; what is wrong with one is looked for only where there is one.
#include "hycrt/indices.h"

#include <string>

namespace hycrt {

Status indexError(const Context& ctx, const char* op, int64_t index, int64_t place, int64_t count, int64_t bound) {
  return dataError("step " + std::to_string(ctx.step() + 1) + ": " + op + " takes element " + std::to_string(index) +
                   " of " + std::to_string(bound) + " (at place " + std::to_string(place) + " of " +
                   std::to_string(count) + " indices), expected 0 to " + std::to_string(bound - 1));
}

void checkIndices(Context& ctx, const char* op, const int64_t* indices, int64_t count, int64_t bound,
                  int64_t uncounted) {
  const bool excepts = bound > 0;  // of no rows not even kAllCounted is one
  const auto isGood = [&](int64_t index) {
    return static_cast<uint64_t>(index) < static_cast<uint64_t>(bound) || (excepts && index == uncounted);
  };
  bool good = true;
  for (int64_t i = 0; i < count; ++i) good &= isGood(indices[i]);
  if (good || !ctx.status().ok()) return;
  int64_t at = 0;
  while (isGood(indices[at])) ++at;
  ctx.fail(indexError(ctx, op, indices[at], at, count, bound));
}

}  // namespace hycrt
