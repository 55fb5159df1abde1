// Sizes: a compiled folder may hold programs for several numbers of ranks, of which a run takes one. Each is a folder
// of its own, with a manifest (manifest.h); the manifest above them only lists them:
//
//   {"format_version": 1, "sizes": [{"ranks": 8, "folder": "ranks-8"}, {"ranks": 6, "folder": "ranks-6"}]}
#ifndef HYCRT_SIZES_H_
#define HYCRT_SIZES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "hycrt/status.h"

namespace hycrt {

struct CompiledSize {
  int64_t ranks = 0;
  std::string folder;  // with the path of the folder above
};

// Descending; empty: OUT/manifest.json is of one size, or cannot be read, as readManifest will say.
Result<std::vector<CompiledSize>> readSizes(const std::string& out);

// "8, 6, 4 and 2".
std::string listOf(const std::vector<CompiledSize>& sizes);

// Of so many ranks; null: there is none.
const CompiledSize* sizeOf(const std::vector<CompiledSize>& sizes, int64_t ranks);
// The largest of at most so many ranks; null: there is none.
const CompiledSize* largestWithin(const std::vector<CompiledSize>& sizes, int64_t ranks);

// The rank and the number of ranks that a launcher tells this process by its environment (docs/hosts.md).
struct LaunchedRank {
  int rank = 0, worldSize = 0;
};
Result<LaunchedRank> launchedRank();

}  // namespace hycrt

#endif  // HYCRT_SIZES_H_
