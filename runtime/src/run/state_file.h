// Saving: the shards of all ranks as one safetensors file of whole tensors, logical names and shapes, no padding.
//
// Nothing is gathered. Every rank knows all stages' catalogs, so all of them compute the same directory, and each
// writes its own runs at their final place. The file is made beside its target, under a name that is the run's own,
// synced and renamed.
#ifndef HYCRT_SRC_RUN_STATE_FILE_H_
#define HYCRT_SRC_RUN_STATE_FILE_H_

#include <string>

#include "base/file.h"
#include "hycrt/context.h"
#include "hycrt/program.h"
#include "hycrt/status.h"

namespace hycrt {

// What a rank publishes of its states, for its transport's catalog, with its name of the run.
std::string catalogOf(const Program& program, const std::string& run = {});
// The name of the run by such a catalog; the ranks of a job take rank 0's.
std::string runOf(const std::string& catalog);

// How a state's elements are changed on their way out.
struct Scaling {
  double divisor = 1;
};

// Called by all ranks together. Writes the states of one role ("parameter", "gradient"); one that several stages hold
// is written by the lowest. Only f32 and f64 are divided.
Status saveStates(Context& ctx, const std::string& role, const std::string& path, const std::string& run,
                  Scaling scaling);

// The same, but for the name: makes the file `path`, which must not exist. `link`: what its folder's name may be.
Status writeStates(Context& ctx, const std::string& role, const std::string& path, FolderLink link, Scaling scaling);

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_STATE_FILE_H_
