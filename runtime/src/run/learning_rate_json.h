// The learning_rate of a manifest (hycrt/manifest.h shows its forms).
#ifndef HYCRT_SRC_RUN_LEARNING_RATE_JSON_H_
#define HYCRT_SRC_RUN_LEARNING_RATE_JSON_H_

#include <nlohmann/json.hpp>
#include <string>

#include "hycrt/learning_rate.h"
#include "hycrt/status.h"

namespace hycrt {

// Each rule has its own keys: all are required, none other is allowed. `file` labels errors.
Result<LearningRateRule> readLearningRate(const nlohmann::json& value, const std::string& file);

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_LEARNING_RATE_JSON_H_
