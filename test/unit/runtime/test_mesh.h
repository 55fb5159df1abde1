// The mesh that most tests of the runtime use: stages, and axes dp and tp, of which dp splits the samples.
#ifndef HYC_TEST_UNIT_RUNTIME_TEST_MESH_H_
#define HYC_TEST_UNIT_RUNTIME_TEST_MESH_H_

#include "hycrt/mesh.h"

namespace hycrt {

inline constexpr Axis kDp{0}, kTp{1};
inline constexpr AxisSet kPp = AxisSet::allStages();

constexpr Mesh meshOf(int tp, int pp, int dp) { return {pp, {{"dp", dp}, {"tp", tp}}, {kDp}}; }

constexpr Coordinates placeOn(const Mesh& mesh, int tp, int pp, int dp) { return {pp, dp * sizeOf(mesh, kTp) + tp}; }

}  // namespace hycrt

#endif  // HYC_TEST_UNIT_RUNTIME_TEST_MESH_H_
