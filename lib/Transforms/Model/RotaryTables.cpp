// Frequencies follow from the second row, whose angles they are. Rounding leaves a few neighbours to choose from: the
// one whose whole column comes nearest is taken, which is the model's own unless two give the same values anyway.
#include "RotaryTables.h"

#include <cmath>
#include <limits>

using namespace hyc;

/// Of values of magnitude 1, which other libraries' functions round otherwise in their last bit or two.
static constexpr double kTolerance = 2.5e-7;
/// How far rounded values may lead away from a frequency, in units of its last place.
static constexpr int kNeighbours = 8;

/// The largest difference of column `pair` from what `frequency` gives; stops counting beyond `enough`.
static double largestDifference(const RotaryValues &values, int64_t pair, float frequency, float factor,
                                double enough) {
  double largest = 0;
  for (int64_t p = 0; p < values.positions && largest <= enough; ++p) {
    double angle = static_cast<float>(p) * frequency;
    float cos = static_cast<float>(std::cos(angle)) * factor, sin = static_cast<float>(std::sin(angle)) * factor;
    largest = std::max({largest, std::fabs(double(cos) - values.cos[p * values.pairs + pair]),
                        std::fabs(double(sin) - values.sin[p * values.pairs + pair])});
  }
  return largest;
}

static std::optional<float> findFrequency(const RotaryValues &values, int64_t pair, float factor) {
  float estimate = static_cast<float>(std::atan2(values.sin[values.pairs + pair], values.cos[values.pairs + pair]));
  double best = kTolerance * factor;
  std::optional<float> found;
  float lower = estimate, upper = estimate;
  for (int step = 0; step <= kNeighbours; ++step) {
    for (float candidate : {lower, upper}) {
      double difference = largestDifference(values, pair, candidate, factor, best);
      if (difference < best || (!found && difference <= best)) {
        best = difference;
        found = candidate;
      }
    }
    lower = std::nextafter(lower, -std::numeric_limits<float>::infinity());
    upper = std::nextafter(upper, std::numeric_limits<float>::infinity());
  }
  return found;
}

std::optional<Rotation> hyc::findRotation(const RotaryValues &values) {
  if (values.positions < 2 || values.pairs < 1)
    return std::nullopt;
  Rotation rotation;
  float factor = values.cos.front(); // of an angle of 0
  if (!(factor > 0) || !std::isfinite(factor))
    return std::nullopt;
  rotation.factor = factor;
  for (int64_t pair = 0; pair < values.pairs; ++pair) {
    std::optional<float> frequency = findFrequency(values, pair, factor);
    if (!frequency)
      return std::nullopt;
    rotation.frequencies.push_back(*frequency);
  }
  return rotation;
}
