// Numbers of rows, classes or elements that a model computes are checked where they are used: the kernels take one that
// lies outside for one that another rank holds, and give zeros. What comes from the data as it is, the loader checks.
#ifndef HYCRT_INDICES_H_
#define HYCRT_INDICES_H_

#include <cstdint>
#include <limits>

#include "hycrt/context.h"

namespace hycrt {

// Fails `ctx` with a data error that names the step, the op and the place where one of `count` indices is neither in
// [0, bound) nor `uncounted`.
void checkIndices(Context& ctx, const char* op, const int64_t* indices, int64_t count, int64_t bound,
                  int64_t uncounted = std::numeric_limits<int64_t>::min());

}  // namespace hycrt

#endif  // HYCRT_INDICES_H_
