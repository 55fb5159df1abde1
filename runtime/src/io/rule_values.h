// Initial values by rule: elements of a stream that a state's key and the run's seed begin.
#ifndef HYCRT_SRC_IO_RULE_VALUES_H_
#define HYCRT_SRC_IO_RULE_VALUES_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "hycrt/philox.h"
#include "hycrt/program.h"

namespace hycrt {

// Elements [global, global + count) of the rule's stream.
template <typename T>
void fillByRule(const Initializer& init, const PhiloxStream& stream, T* to, int64_t global, int64_t count) {
  if (init.kind == InitKind::kConstant || init.kind == InitKind::kZeros) {
    std::fill(to, to + count, static_cast<T>(init.first));
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
