// Lion on CPUs: one pass over memory, element-wise, in the operations of the reference.
#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/lion/op.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {
namespace HYC_ISA {

struct LionFactors {
  float gradScale, decay, lr, beta1, oneMinusBeta1, beta2, oneMinusBeta2;
};

template <typename T>
static void updateRange(const LionFactors &f, int64_t n, float *__restrict param, const T *__restrict grad,
                        float *__restrict m) {
  for (int64_t i = 0; i < n; ++i) {
    const float g = grad[i] * f.gradScale;
    const float c = m[i] * f.beta1 + f.oneMinusBeta1 * g;
    const float move = c > 0 ? f.lr : c < 0 ? -f.lr : c * f.lr;
    param[i] = param[i] * f.decay - move;
    m[i] = m[i] * f.beta2 + f.oneMinusBeta2 * g;
  }
}

template <typename T>
void lion(const LionParams &p, int64_t n, float *param, const T *grad, float *m) {
  constexpr int64_t kChunk = 16384;
  const LionFactors f = {static_cast<float>(p.gradScale), static_cast<float>(1 - p.lr * p.weightDecay),
                         static_cast<float>(p.lr),        static_cast<float>(p.beta1),
                         static_cast<float>(1 - p.beta1), static_cast<float>(p.beta2),
                         static_cast<float>(1 - p.beta2)};
  runTeam(n >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t start = 0; start < n; start += kChunk)
      updateRange(f, n - start < kChunk ? n - start : kChunk, param + start, grad + start, m + start);
  });
}

HYC_INSTANTIATE(lion)

}  // namespace HYC_ISA

HYC_DISPATCH_TEMPLATE(void, lion, (const LionParams &p, int64_t n, float *param, const T *grad, float *m),
                      (p, n, param, grad, m))

}  // namespace hyc::kernels
