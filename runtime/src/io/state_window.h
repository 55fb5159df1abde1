// StateWindow: a state's elements in memory, wherever they lie. One that lies in an arena of memory is one window; one
// that lies in the rank's file goes through a buffer, a few megabytes at a time.
#ifndef HYCRT_SRC_IO_STATE_WINDOW_H_
#define HYCRT_SRC_IO_STATE_WINDOW_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "hycrt/program.h"
#include "hycrt/status.h"
#include "io/block_file.h"
#include "io/state_layout.h"

namespace hycrt {

// Where a rank's arenas are; `file` is null where none of them is one.
struct ArenaBases {
  std::byte* const* memory;
  BlockFile* file;
};

// Local elements [begin, begin + count); element `begin` is at `memory`.
struct StateWindow {
  std::byte* memory;
  int64_t begin;
  int64_t count;

  // The part of a run that lies inside.
  std::optional<ElementRun> clip(const ElementRun& run) const {
    const int64_t first = std::max(run.local, begin), last = std::min(run.local + run.count, begin + count);
    if (first >= last) return std::nullopt;
    return ElementRun{first, run.global + (first - run.local), last - first};
  }
};

enum class WindowUse {
  kRead,  // the visitor finds the elements
  kFill,  // the visitor finds zeros (memory: what is there), and what it leaves is kept
};

// Calls visit(const StateWindow&) -> Status for windows that cover the state in ascending order, until one fails.
Status forEachWindow(const StateDesc& state, const ArenaBases& arenas, WindowUse use,
                     const std::function<Status(const StateWindow&)>& visit);

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_STATE_WINDOW_H_
