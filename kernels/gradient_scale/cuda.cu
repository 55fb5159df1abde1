// Single numbers on GPUs: kernels of one thread.
#include "kernels/cuda/launch.h"
#include "kernels/gradient_scale/cuda.h"

namespace hyc::kernels::cuda {
namespace {

__global__ void gradientScaleKernel(const double *sumOfSquares, const int64_t *count, double maxNorm, float *scale,
                                    float *norm, const float *lossScale, double normalizer) {
  kernels::gradientScale(*sumOfSquares, *count, maxNorm, scale, norm,
                         lossScale ? static_cast<double>(*lossScale) / normalizer : 1.0);
}

__global__ void incrementKernel(int64_t *counter, const uint8_t *predicate) {
  *counter += predicate ? int64_t{*predicate} : 1;
}

__global__ void trustRatioKernel(TrustRatioBounds bounds, const double *squaresOfParam,
                                 const double *squaresOfDirection, double *ratio) {
  *ratio = kernels::trustRatio(bounds, *squaresOfParam, *squaresOfDirection);
}

__global__ void lossScaleKernel(LossScaleRules rules, float *scale, int64_t *goodSteps, int64_t *hysteresisLeft,
                                const uint8_t *isFinite) {
  const LossScaleState next = nextLossScale(rules, {*scale, *goodSteps, *hysteresisLeft}, *isFinite != 0);
  *scale = static_cast<float>(next.scale);
  *goodSteps = next.goodSteps;
  *hysteresisLeft = next.hysteresisLeft;
}

Grid oneThread() { return {dim3(1), dim3(1)}; }

}  // namespace

void gradientScale(Stream stream, const double *sumOfSquares, const int64_t *count, double maxNorm, float *scale,
                   float *norm, const float *lossScale, double normalizer) {
  kernel(gradientScaleKernel)
      .launch(stream, oneThread(), sumOfSquares, count, maxNorm, scale, norm, lossScale, normalizer);
}

void increment(Stream stream, int64_t *counter, const uint8_t *predicate) {
  kernel(incrementKernel).launch(stream, oneThread(), counter, predicate);
}

void trustRatio(Stream stream, const TrustRatioBounds &bounds, const double *squaresOfParam,
                const double *squaresOfDirection, double *ratio) {
  kernel(trustRatioKernel).launch(stream, oneThread(), bounds, squaresOfParam, squaresOfDirection, ratio);
}

void updateLossScale(Stream stream, const LossScaleRules &rules, float *scale, int64_t *goodSteps,
                     int64_t *hysteresisLeft, const uint8_t *isFinite) {
  kernel(lossScaleKernel).launch(stream, oneThread(), rules, scale, goodSteps, hysteresisLeft, isFinite);
}

}  // namespace hyc::kernels::cuda
