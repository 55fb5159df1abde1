// Reading scales, and decoding element by element.
#include "run/quantized_weights.h"

#include "io/weight_parts.h"
#include "kernels/dequantize/codes.h"

namespace hycrt {

namespace codes = hyc::kernels;

Result<QuantizedWeights> QuantizedWeights::open(const Program& program, const std::string& path) {
  Result<TensorDirectory> directory = readSafetensorsDirectory(path);
  if (!directory.ok()) return directory.status();
  Result<FileDescriptor> file = openForReading(path);
  if (!file.ok()) return file.status();
  return QuantizedWeights(program, path, std::move(*file), std::move(*directory));
}

Status QuantizedWeights::load(const StateDesc& state) {
  if (loaded_ == &state) return {};
  std::vector<uint8_t> bytes;
  std::vector<float> scales, mean;
  const auto read = [&](const StateDesc& scale, auto* values) -> Status {
    const auto found = directory_.find(scale.name);
    using Value = typename std::remove_pointer_t<decltype(values)>::value_type;
    if (found == directory_.end() || found->second.bytes != sizeOfPart(scale.init) * int64_t{sizeof(Value)}) {
      return internalError(std::string("no program has the scales of ") + state.name);
    }
    values->resize(static_cast<size_t>(found->second.bytes) / sizeof(Value));
    return readAt(file_, path_, values->data(), found->second.bytes, found->second.begin);
  };
  for (const StateDesc& scale : program_->states) {
    if (&scale == &state || !areOfOneWeight(scale.init, state.init)) continue;
    switch (scale.init.part) {
      case WeightPart::kInt8Absmax:
        HYCRT_RETURN_IF_ERROR(read(scale, &absmax_));
        break;
      case WeightPart::kNf4Absmax:
        HYCRT_RETURN_IF_ERROR(read(scale, &bytes));
        break;
      case WeightPart::kNf4Scale:
        HYCRT_RETURN_IF_ERROR(read(scale, &scales));
        break;
      case WeightPart::kNf4Mean:
        HYCRT_RETURN_IF_ERROR(read(scale, &mean));
        break;
      default:
        break;
    }
  }
  if (state.init.part == WeightPart::kNf4Codes) {
    if (bytes.empty() || scales.empty() || mean.empty()) {
      return internalError(std::string("no program has all scales of ") + state.name);
    }
    absmax_.resize(bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i) {
      absmax_[i] = codes::nf4Absmax(bytes[i], scales[i / static_cast<size_t>(codes::kNf4Group)], mean[0]);
    }
  }
  loaded_ = &state;
  return {};
}

Status QuantizedWeights::decode(const StateDesc& state, int64_t global, int64_t count, const std::byte* from,
                                float* values) {
  HYCRT_RETURN_IF_ERROR(load(state));
  const Initializer& init = state.init;
  const auto placeOf = [&](int64_t stored) {
    return init.inputsFirst ? stored % init.outputs * init.inputs + stored / init.outputs : stored;
  };
  for (int64_t i = 0; i < count; ++i) {
    const auto byte = static_cast<uint8_t>(from[i]);
    if (init.part == WeightPart::kInt8Codes) {
      values[i] =
          codes::int8Value(static_cast<int8_t>(byte), absmax_[static_cast<size_t>(placeOf(global + i) / init.inputs)]);
      continue;
    }
    for (const int64_t half : {0, 1}) {
      const int64_t block = placeOf(2 * (global + i) + half) / codes::kNf4Block;
      values[2 * i + half] = codes::nf4Value(half == 0 ? byte >> 4 : byte & 15, absmax_[static_cast<size_t>(block)]);
    }
  }
  return {};
}

}  // namespace hycrt
