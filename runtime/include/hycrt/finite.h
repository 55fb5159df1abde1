// Finding the first op that makes a NaN or an infinity. Programs compiled with --check-finite call checkFinite behind
// each call that writes floating-point values, in program order, so that the first failure is where the value was made
// and not where it ended up. The surprise: an infinity may be meant (a mask writes -inf), so one is an error only where
// nothing that the call reads has one and no constant of the call is one. A NaN never is meant.
#ifndef HYCRT_FINITE_H_
#define HYCRT_FINITE_H_

#include <cstdint>
#include <initializer_list>

#include "hycrt/context.h"
#include "hycrt/types.h"

namespace hycrt {

// Where a check stands.
struct Site {
  const char* function;  // "forward", "backward", "reduce" or "apply"
  const char* op;        // "transformer.h.0.mlp.c_fc"
};

// Values of a call. `shape` and `strides` (in elements) where they are not dense, both empty otherwise.
struct CheckedValues {
  const void* data;
  DType dtype;    // a floating-point type
  int64_t count;  // elements, dense or not
  Shape shape = {};
  Shape strides = {};
};

enum class Infinities : uint8_t { kErrors, kAllowed };

// Fails `ctx` with a data error that names step, micro-batch and site if `outs` hold what they may not. `ins` are
// looked at only then; of those that `outs` have overwritten it is remembered whether they had an infinity.
void checkFinite(Context& ctx, const Call& call, const Site& site, std::initializer_list<CheckedValues> outs,
                 std::initializer_list<CheckedValues> ins, Infinities infinities = Infinities::kErrors);

}  // namespace hycrt

#endif  // HYCRT_FINITE_H_
