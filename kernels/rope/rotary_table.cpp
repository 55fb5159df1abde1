// Tables of cosines and sines. Angles reach hundreds of thousands, where only f64 functions reduce them well; the
// library's are right to the last bit of f32 but for ties that hardly occur, whatever the instruction set.
#include <cmath>

#include "kernels/parallel/team.h"
#include "kernels/rope/op.h"

namespace hyc::kernels {

// Below this number of angles a second thread costs more than it brings.
constexpr int64_t kParallelAngles = 1024;

void rotaryTable(const RotaryTableDesc &d, const float *frequencies, float *cos, float *sin) {
  const float factor = static_cast<float>(d.factor);
  runTeam(d.positions * d.pairs >= kParallelAngles, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t p = 0; p < d.positions; ++p)
      for (int64_t i = 0; i < d.pairs; ++i) {
        const double angle = static_cast<float>(p) * frequencies[i];
        cos[p * d.pairs + i] = static_cast<float>(std::cos(angle)) * factor;
        sin[p * d.pairs + i] = static_cast<float>(std::sin(angle)) * factor;
      }
  });
}

}  // namespace hyc::kernels
