// Work of many equal pieces, such as the chunks of a file, by a few threads.
#ifndef HYCRT_SRC_BASE_WORK_BY_THREADS_H_
#define HYCRT_SRC_BASE_WORK_BY_THREADS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "hycrt/status.h"

namespace hycrt {

// `staging` is the calling thread's own, from one piece to the next.
using WorkOnPiece = std::function<Status(size_t piece, std::vector<std::byte>* staging)>;

// Does pieces 0 to count - 1, each once, on this thread and up to threads - 1 others: fewer will do where the system
// gives no more. The error of the first piece that has one; those behind it may be left out. Not OpenMP's threads,
// which a process that was forked after their first use would wait for.
Status forEachPiece(size_t count, size_t threads, const std::string& purpose, const WorkOnPiece& work);

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_WORK_BY_THREADS_H_
