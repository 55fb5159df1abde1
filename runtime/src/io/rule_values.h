// Initial values by rule: elements of a stream that a state's key and the run's seed begin, or of a formula.
#ifndef HYCRT_SRC_IO_RULE_VALUES_H_
#define HYCRT_SRC_IO_RULE_VALUES_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "hycrt/philox.h"
#include "hycrt/program.h"

namespace hycrt {

// Element number `element` of Initializer::sinusoids.
inline double sinusoid(const Initializer& init, int64_t element) {
  const int64_t width = static_cast<int64_t>(init.second), half = width / 2, column = element % width;
  const double angle = static_cast<double>(element / width) * std::pow(init.first, static_cast<double>(column % half));
  return column < half ? std::sin(angle) : std::cos(angle);
}

// Elements [global, global + count) of the rule's stream.
template <typename T>
void fillByRule(const Initializer& init, const PhiloxStream& stream, T* to, int64_t global, int64_t count) {
  if (init.kind == InitKind::kConstant || init.kind == InitKind::kZeros) {
    std::fill(to, to + count, static_cast<T>(init.first));
    return;
  }
  if (init.kind == InitKind::kSinusoids) {
#pragma omp parallel for schedule(static) if (count >= 16384)
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(sinusoid(init, global + i));
    return;
  }
  const int64_t firstBlock = global / 4, lastBlock = (global + count - 1) / 4;
#pragma omp parallel for schedule(static) if (count >= 16384)
  for (int64_t block = firstBlock; block <= lastBlock; ++block) {
    const std::array<float, 4> values = init.kind == InitKind::kNormal ? stream.normals(static_cast<uint64_t>(block))
                                                                       : stream.uniforms(static_cast<uint64_t>(block));
    const double scale = init.kind == InitKind::kNormal ? init.second : init.second - init.first;
    for (int64_t element = std::max(block * 4, global); element < std::min(block * 4 + 4, global + count); ++element) {
      to[element - global] = static_cast<T>(init.first + scale * static_cast<double>(values[element % 4]));
    }
  }
}

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_RULE_VALUES_H_
