// What tables of cosines and sines are made of: recognised by their values, however they were computed.
#ifndef HYC_LIB_TRANSFORMS_MODEL_ROTARYTABLES_H
#define HYC_LIB_TRANSFORMS_MODEL_ROTARYTABLES_H

#include "hyc/Analysis/HostTensor.h"

namespace hyc {

/// Row-major values of one table: `positions` rows of `pairs`, as f32.
struct RotaryValues {
  int64_t positions = 0, pairs = 0;
  std::vector<float> cos, sin;
};

struct Rotation {
  std::vector<float> frequencies;
  double factor = 1;
};

/// The frequencies and the factor for which cos[p, i] = factor · cos(p · frequencies[i]), and so sin, to within
/// rounding; nothing where there are none, or one position does not tell.
std::optional<Rotation> findRotation(const RotaryValues &values);

} // namespace hyc

#endif // HYC_LIB_TRANSFORMS_MODEL_ROTARYTABLES_H
