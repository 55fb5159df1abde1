// The files of a folder of weights, by the names under which transformers loads a model and peft an adapter.
#ifndef HYCRT_SRC_IO_WEIGHTS_FILES_H_
#define HYCRT_SRC_IO_WEIGHTS_FILES_H_

#include <cstdint>

namespace hycrt {

struct WeightsFiles {
  const char *weights, *config;
};
inline constexpr WeightsFiles kModelFiles = {"model.safetensors", "config.json"};
inline constexpr WeightsFiles kAdapterFiles = {"adapter_model.safetensors", "adapter_config.json"};

constexpr const WeightsFiles& weightsFiles(bool ofAdapter) { return ofAdapter ? kAdapterFiles : kModelFiles; }

// What is added to the name of a file of weights for that in which adapters and scales lie while it is made of them.
inline constexpr const char* kAside = ".adapter";

// More than any config has.
inline constexpr int64_t kMaxConfigBytes = 16 << 20;

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_WEIGHTS_FILES_H_
