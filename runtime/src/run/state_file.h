// Saving: the shards of all ranks as one safetensors file of whole tensors, logical names and shapes, no padding.
//
// Nothing is gathered. Every rank knows all stages' catalogs, so all of them compute the same directory, and each
// writes its own runs at their final place. The file is made beside its target (".partial"), synced and renamed.
#ifndef HYCRT_SRC_RUN_STATE_FILE_H_
#define HYCRT_SRC_RUN_STATE_FILE_H_

#include <string>

#include "hycrt/context.h"
#include "hycrt/program.h"
#include "hycrt/status.h"

namespace hycrt {

// What a rank publishes of its states, for its transport's catalog.
std::string catalogOf(const Program& program);

// How a state's elements are changed on their way out.
struct Scaling {
  double divisor = 1;
};

// Called by all ranks together. Writes the states of one role ("parameter", "gradient"); one that several stages hold
// is written by the lowest. Only f32 and f64 are divided.
Status saveStates(Context& ctx, const std::string& role, const std::string& path, Scaling scaling);

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_STATE_FILE_H_
