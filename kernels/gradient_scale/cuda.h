// The single numbers of an update on GPUs: what a host would compute in a statement, by one thread of the device, so
// that a step never waits for the host. Every pointer is device memory; formulas are those of the headers named.
#ifndef HYC_KERNELS_GRADIENT_SCALE_CUDA_H_
#define HYC_KERNELS_GRADIENT_SCALE_CUDA_H_

#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/gradient_scale/op.h"
#include "kernels/lamb/op.h"
#include "kernels/loss_scale/op.h"

namespace hyc::kernels::cuda {

// kernels/gradient_scale/op.h. lossScale null: 1; else the loss factor is *lossScale / normalizer.
void gradientScale(Stream stream, const double *sumOfSquares, const int64_t *count, double maxNorm, float *scale,
                   float *norm, const float *lossScale = nullptr, double normalizer = 1);

// *counter += 1, or += *predicate where that is not null.
void increment(Stream stream, int64_t *counter, const uint8_t *predicate = nullptr);

// kernels/lamb/op.h
void trustRatio(Stream stream, const TrustRatioBounds &bounds, const double *squaresOfParam,
                const double *squaresOfDirection, double *ratio);

// kernels/loss_scale/op.h, in place.
void updateLossScale(Stream stream, const LossScaleRules &rules, float *scale, int64_t *goodSteps,
                     int64_t *hysteresisLeft, const uint8_t *isFinite);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_GRADIENT_SCALE_CUDA_H_
