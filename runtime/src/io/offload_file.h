// The arena that is a file: where a rank keeps it, and that it is there.
#ifndef HYCRT_SRC_IO_OFFLOAD_FILE_H_
#define HYCRT_SRC_IO_OFFLOAD_FILE_H_

#include <memory>
#include <string>

#include "hycrt/program.h"
#include "hycrt/status.h"
#include "io/block_file.h"

namespace hycrt {

// Null where no arena of the program is a file. A program with one wants a folder for it: a usage error without.
Result<std::unique_ptr<BlockFile>> openOffloadFile(const Program& program, int rank, const std::string& folder);

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_OFFLOAD_FILE_H_
