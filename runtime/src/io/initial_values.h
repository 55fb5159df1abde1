// The values that states start from: by rule or from the model's files, this rank's part only. Padding stays zero.
#ifndef HYCRT_SRC_IO_INITIAL_VALUES_H_
#define HYCRT_SRC_IO_INITIAL_VALUES_H_

#include <vector>

#include "hycrt/file_sums.h"
#include "hycrt/mesh.h"
#include "hycrt/program.h"
#include "hycrt/status.h"
#include "io/state_window.h"

namespace hycrt {

// Zeros wherever a state lies in memory that is not overwritten before it is read; for arenas that do not begin as
// zeros.
void clearStates(const Program& program, std::byte* const* arenas);

// `arenas` hold zeros. A file that is not what the model was compiled against, or
// is too short for a tensor, is a data error that names file and tensor. Rows of the program's table that `filled` has
// are left as they are.
Status initializeStates(const Program& program, const Coordinates& at, uint64_t seed,
                        const std::vector<ModelFile>& modelFiles, const ArenaBases& arenas,
                        const std::vector<bool>& filled = {});

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_INITIAL_VALUES_H_
