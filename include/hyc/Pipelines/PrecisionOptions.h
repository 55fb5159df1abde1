// In which types a model is trained: what --precision and its companions say.
#ifndef HYC_PIPELINES_PRECISIONOPTIONS_H
#define HYC_PIPELINES_PRECISIONOPTIONS_H

#include <cstdint>
#include <string>

namespace hyc {

/// Loss scaling, with the names, defaults and rules of DeepSpeed's fp16 section; only fp16 scales its loss.
struct LossScaling {
  double lossScale = 0;           ///< a fixed one; 0: dynamic
  int64_t initialScalePower = 16; ///< dynamic: begins at 2 to this power
  int64_t window = 1000;
  int64_t hysteresis = 2;
  bool consecutiveHysteresis = false;
  double minLossScale = 1;
};

struct PrecisionOptions {
  std::string compute = "f32";              ///< f32, bf16, fp16 or fp8
  std::string gradientAccumulation = "f32"; ///< f32 or bf16
  std::string communication;                ///< f32, bf16 or fp16, of gradients; empty: as they are accumulated
  LossScaling lossScaling;
};

} // namespace hyc

#endif // HYC_PIPELINES_PRECISIONOPTIONS_H
