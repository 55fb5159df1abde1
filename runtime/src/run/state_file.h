// Saving: the shards of all ranks as one safetensors file of whole tensors, logical names and shapes, no padding.
//
// Nothing is gathered. Every rank knows all stages' catalogs, so all of them compute the same directory, and each
// writes its own runs at their final place. The file is made beside its target, under a name that is the run's own,
// synced and renamed.
#ifndef HYCRT_SRC_RUN_STATE_FILE_H_
#define HYCRT_SRC_RUN_STATE_FILE_H_

#include <functional>
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

// Which parameters are written, under which names, and what is added to them on their way out.
struct SavedParameters {
  std::function<std::string(const std::string&)> nameOf;  // empty: it is not written; without this, all are
  // Of elements [global, global + count) of a parameter, as f32 whatever it is kept in; may be left out.
  std::function<Status(const std::string& parameter, int64_t global, int64_t count, float* values)> add;
  // Where codes are kept in a parameter's place: `count` elements of the codes from `global` on, as the weights that
  // they mean, one or several each. Left out: such parameters are not written.
  std::function<Status(const StateDesc& codes, int64_t global, int64_t count, const std::byte* from, float* values)>
      decode;
  bool scales = false;   // what codes are multiplied with is written, too, under its own names
  bool inParts = false;  // what was read as several tensors is written as these, under their names
};

// Whether any stage keeps codes in a parameter's place.
Result<bool> holdsCodes(const Context& ctx);

// Called by all ranks together. Makes the file `path` of parameters, which must not exist. `link`: what its folder's
// name may be.
Status writeParameters(Context& ctx, const std::string& path, FolderLink link, const SavedParameters& saved);

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_STATE_FILE_H_
