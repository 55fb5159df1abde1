// SGD on CPUs: one pass over memory, element-wise, in the operations of the reference.
#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/parallel/team.h"
#include "kernels/sgd/op.h"

namespace hyc::kernels {
namespace HYC_ISA {

struct SgdFactors {
  float gradScale, decay, momentum, undamped, negativeLr;
};

// With compile-time choices, so that the loop has no branch.
template <bool kDecay, bool kMomentum, typename T>
static void updateRange(const SgdParams &p, const SgdFactors &f, int64_t n, float *__restrict param,
                        const T *__restrict grad, float *__restrict buffer) {
  const bool first = p.step == 1, nesterov = p.kind == MomentumKind::kNesterov;
  for (int64_t i = 0; i < n; ++i) {
    float g = grad[i] * f.gradScale;
    if (kDecay) g = g + f.decay * param[i];
    if (kMomentum) {
      const float moved = first ? g : buffer[i] * f.momentum + f.undamped * g;
      buffer[i] = moved;
      g = nesterov ? g + f.momentum * moved : moved;
    }
    param[i] = param[i] + f.negativeLr * g;
  }
}

template <typename T>
void sgd(const SgdParams &p, int64_t n, float *param, const T *grad, float *buffer) {
  constexpr int64_t kChunk = 16384;
  const SgdFactors f = {static_cast<float>(p.gradScale), static_cast<float>(p.weightDecay),
                        static_cast<float>(p.momentum), static_cast<float>(1 - p.dampening), static_cast<float>(-p.lr)};
  const bool decay = p.weightDecay != 0, momentum = p.momentum != 0;
  const auto update = decay ? (momentum ? updateRange<true, true, T> : updateRange<true, false, T>)
                            : (momentum ? updateRange<false, true, T> : updateRange<false, false, T>);
  runTeam(n >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t start = 0; start < n; start += kChunk)
      update(p, f, n - start < kChunk ? n - start : kChunk, param + start, grad + start,
             momentum ? buffer + start : nullptr);
  });
}

HYC_INSTANTIATE(sgd)

}  // namespace HYC_ISA

HYC_DISPATCH_TEMPLATE(void, sgd, (const SgdParams &p, int64_t n, float *param, const T *grad, float *buffer),
                      (p, n, param, grad, buffer))

}  // namespace hyc::kernels
