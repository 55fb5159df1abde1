// Key heads that several query heads share, as models repeat them: (batch, G, keys, size) is broadcast to
// (batch, G, R, keys, size) and merged to (batch, G · R, keys, size).
#ifndef HYC_LIB_TRANSFORMS_MODEL_REPEATEDHEADS_H
#define HYC_LIB_TRANSFORMS_MODEL_REPEATEDHEADS_H

#include "dialects/Hyc/HycDialect.h"

namespace hyc {

/// The dimension of the result along which `merge` lays out the copies that a broadcast made of each element before it,
/// if it does just that.
std::optional<int64_t> findRepeatedDim(ReshapeOp merge);

} // namespace hyc

#endif // HYC_LIB_TRANSFORMS_MODEL_REPEATEDHEADS_H
