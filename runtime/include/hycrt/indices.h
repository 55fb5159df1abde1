// Numbers of rows, classes or elements that a model computes are checked where they are used: the kernels take one that
// lies outside for one that another rank holds, and give zeros. What comes from the data as it is, the loader checks.
#ifndef HYCRT_INDICES_H_
#define HYCRT_INDICES_H_

#include <cstdint>

#include "hycrt/context.h"
#include "hycrt/status.h"

namespace hycrt {

// As `uncounted`: an index that is good anyway, so that no other is excepted.
inline constexpr int64_t kAllCounted = 0;

// Fails `ctx` with a data error that names the step, the op and the place where one of `count` indices is neither in
// [0, bound) nor `uncounted`.
void checkIndices(Context& ctx, const char* op, const int64_t* indices, int64_t count, int64_t bound,
                  int64_t uncounted = kAllCounted);

// What is said of index `index` at place `place` of `count`, in the step that `ctx` is at.
Status indexError(const Context& ctx, const char* op, int64_t index, int64_t place, int64_t count, int64_t bound);

}  // namespace hycrt

#endif  // HYCRT_INDICES_H_
