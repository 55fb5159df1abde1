// Samples out of a safetensors file, converted to the inputs' types.
#include "io/sample_file.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/nearest.h"
#include "kernels/narrow_float.h"

namespace hycrt {
namespace {

using hyc::kernels::Bf16;
using hyc::kernels::F16;

constexpr const char* kDocuments = "document_ids";     // the number of each token's document, from 1; 0: padding
constexpr int64_t kLookedAtBytes = int64_t{64} << 20;  // of an input, as it is in memory

bool isInteger(DType dtype) { return dtype == DType::kI64 || dtype == DType::kI32 || dtype == DType::kU8; }

std::string describe(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

template <typename From, typename To>
void convert(const std::byte* from, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * int64_t{sizeof(From)}, sizeof value);
    reinterpret_cast<To*>(to)[i] = static_cast<To>(value);
  }
}

template <typename To>
void convertTo(DType type, const std::byte* from, int64_t count, std::byte* to) {
  switch (type) {
    case DType::kI64:
      return convert<int64_t, To>(from, count, to);
    case DType::kI32:
      return convert<int32_t, To>(from, count, to);
    case DType::kU8:
      return convert<uint8_t, To>(from, count, to);
    case DType::kF64:
      return convert<double, To>(from, count, to);
    case DType::kF32:
      return convert<float, To>(from, count, to);
    case DType::kF16:
    case DType::kBF16:
      break;
  }
  if constexpr (std::is_same_v<To, float>) {
    if (type == DType::kF16) return convert<F16, float>(from, count, to);
    return convert<Bf16, float>(from, count, to);
  }
}

}  // namespace

Result<std::unique_ptr<Dataset>> SampleFile::open(const std::string& path, Table<InputDesc> inputs, WindowOrder order) {
  SafetensorsMetadata metadata;
  Result<TensorDirectory> directory = readSafetensorsDirectory(path, &metadata);
  if (!directory.ok()) return directory.status();
  Result<FileDescriptor> file = openForReading(path);
  if (!file.ok()) return file.status();
  std::unique_ptr<SampleFile> samples(new SampleFile(order));
  samples->path_ = path;
  samples->file_ = std::move(*file);
  samples->count_ = -1;
  Result<std::optional<ImageView>> images = ImageView::of(path, *directory, metadata);
  if (!images.ok()) return images.status();
  samples->images_ = std::move(*images);
  for (const InputDesc& input : inputs) {
    if (input.source != InputSource::kRandomKeys) HYCRT_RETURN_IF_ERROR(samples->check(*directory, input));
  }
  HYCRT_RETURN_IF_ERROR(samples->checkDocuments(*directory, inputs));
  if (samples->count_ < 0) HYCRT_RETURN_IF_ERROR(samples->count(*directory));
  return std::unique_ptr<Dataset>(std::move(samples));
}

// What is packed wants a model that tells documents apart.
Status SampleFile::checkDocuments(const TensorDirectory& directory, Table<InputDesc> inputs) const {
  const auto isRead = [&](const char* name) {
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](const InputDesc& input) { return name == std::string_view(input.name); });
  };
  if (directory.find(kDocuments) == directory.end() || !isRead("input_ids")) return {};
  if (isRead(kDocuments) || isRead("position_ids")) return {};
  return dataError("'" + path_ + "' has several documents in a sample (" + kDocuments +
                   "), which a model tells apart by position_ids, but this one does not read them: documents would "
                   "attend to each other; compile with --separate-documents, or pack nothing");
}

// For a stage that reads none of them.
Status SampleFile::count(const TensorDirectory& directory) {
  for (const auto& [name, entry] : directory) {
    const int64_t samples = entry.shape.empty() ? 0 : entry.shape.front();
    if (samples < 1 || (count_ >= 0 && samples != count_)) {
      return dataError("'" + path_ + "': " + name + " has shape " + describe(entry.shape) +
                       ", expected as many samples, from 1, as every other tensor has");
    }
    count_ = samples;
  }
  return count_ >= 0 ? Status() : dataError("'" + path_ + "' holds no tensor");
}

Status SampleFile::check(const TensorDirectory& directory, const InputDesc& input) {
  auto found = directory.find(input.name);
  if (found == directory.end()) {
    std::vector<std::string> names;
    for (const auto& [name, entry] : directory) names.push_back(name);
    const std::string near = nearest(input.name, names);
    return dataError("'" + path_ + "' has no tensor '" + input.name + "', which the model reads" +
                     (near.empty() ? "" : "; the nearest is '" + near + "'"));
  }
  const TensorEntry& entry = found->second;
  std::vector<int64_t> wanted{entry.shape.empty() ? 1 : entry.shape.front()};
  wanted.insert(wanted.end(), input.sample.begin(), input.sample.end());
  const bool isTaken = isImage(input) && entry.shape.front() >= 1;  // a part of each
  if (!isTaken && (entry.shape != wanted || wanted.front() < 1)) {
    return dataError("'" + path_ + "': " + input.name + " has shape " + describe(entry.shape) +
                     ", expected a number of samples from 1, and of each " +
                     describe({wanted.begin() + 1, wanted.end()}));
  }
  if (isInteger(input.dtype) && !isInteger(entry.dtype)) {
    return dataError("'" + path_ + "': " + input.name + " has type " + nameOf(entry.dtype) +
                     ", expected integers, as the model has them");
  }
  if (count_ >= 0 && wanted.front() != count_) {
    return dataError("'" + path_ + "': " + input.name + " has " + std::to_string(wanted.front()) +
                     " samples, expected " + std::to_string(count_) + " as the inputs before it have");
  }
  count_ = wanted.front();
  tensors_[input.name] = entry;
  return {};
}

Status SampleFile::checkIndices(const InputDesc& input) {
  if (input.bound == std::numeric_limits<int64_t>::max() || input.source == InputSource::kRandomKeys) return {};
  const int64_t bytes = elementCount(input.sample) * sizeOf(input.dtype);
  std::vector<int64_t> sample(static_cast<size_t>(bytes / 8 + 1));
  const int64_t most = std::min(count_, kLookedAtBytes / std::max<int64_t>(bytes, 1));
  for (int64_t i = 0; i < most; ++i) {
    HYCRT_RETURN_IF_ERROR(readSample(i, input, reinterpret_cast<std::byte*>(sample.data())));
  }
  return {};
}

// Whether the file's images give what the input is: three channels of their size, as floats.
bool SampleFile::isImage(const InputDesc& input) const {
  return images_ && images_->tensor() == input.name && input.dtype == DType::kF32 && input.sample.size == 3 &&
         input.sample[0] == ImageView::kChannels && input.sample[1] == images_->size() &&
         input.sample[2] == images_->size();
}

Status SampleFile::read(uint64_t item, uint64_t seed, const InputDesc& input, std::byte* to) {
  const int64_t sample = sampleOf(item, seed);
  if (!isImage(input)) return readSample(sample, input, to);
  const TensorEntry& entry = tensors_.find(std::string_view(input.name))->second;
  const int64_t bytes = entry.bytes / count_;
  bytes_.resize(static_cast<size_t>(bytes));
  HYCRT_RETURN_IF_ERROR(readAt(file_, path_, bytes_.data(), bytes, entry.begin + sample * bytes));
  float* const floats = reinterpret_cast<float*>(to);
  if (order() == WindowOrder::kInFile) {
    images_->middle(bytes_.data(), floats);
  } else {
    images_->drawn(bytes_.data(), seed, item, floats);
  }
  return {};
}

Status SampleFile::readSample(int64_t sample, const InputDesc& input, std::byte* to) {
  const TensorEntry& entry = tensors_.find(std::string_view(input.name))->second;
  const int64_t count = elementCount(input.sample);
  const int64_t bytes = count * sizeOf(entry.dtype);
  bytes_.resize(static_cast<size_t>(bytes));
  HYCRT_RETURN_IF_ERROR(readAt(file_, path_, bytes_.data(), bytes, entry.begin + sample * bytes));
  switch (input.dtype) {
    case DType::kI64:
      convertTo<int64_t>(entry.dtype, bytes_.data(), count, to);
      return checkBound(reinterpret_cast<const int64_t*>(to), count, input, sample);
    case DType::kI32:
      // Checked as they are in the file: narrowed, 2^32 would be 0.
      wide_.resize(static_cast<size_t>(count));
      convertTo<int64_t>(entry.dtype, bytes_.data(), count, reinterpret_cast<std::byte*>(wide_.data()));
      HYCRT_RETURN_IF_ERROR(checkBound(wide_.data(), count, input, sample));
      for (int64_t i = 0; i < count; ++i) {
        const int32_t narrow = static_cast<int32_t>(wide_[static_cast<size_t>(i)]);
        if (narrow != wide_[static_cast<size_t>(i)]) {
          return dataError("'" + path_ + "': " + input.name + ", sample " + std::to_string(sample) + ", element " +
                           std::to_string(i) + ": found " + std::to_string(wide_[static_cast<size_t>(i)]) +
                           ", which the model's 32 bits do not hold");
        }
        std::memcpy(to + i * static_cast<int64_t>(sizeof(narrow)), &narrow, sizeof(narrow));
      }
      return {};
    default:
      convertTo<float>(entry.dtype, bytes_.data(), count, to);
      return {};
  }
}

Status SampleFile::checkBound(const int64_t* values, int64_t count, const InputDesc& input, int64_t sample) const {
  if (input.bound == std::numeric_limits<int64_t>::max()) return {};
  for (int64_t i = 0; i < count; ++i) {
    if ((values[i] >= 0 && int64_t{values[i]} < input.bound) || values[i] == input.uncounted) continue;
    return dataError("'" + path_ + "': " + input.name + ", sample " + std::to_string(sample) + ", element " +
                     std::to_string(i) + ": found " + std::to_string(values[i]) + ", expected 0 to " +
                     std::to_string(input.bound - 1) +
                     (input.uncounted == std::numeric_limits<int64_t>::min()
                          ? ""
                          : ", or " + std::to_string(input.uncounted) + " for a label that is not counted"));
  }
  return {};
}

}  // namespace hycrt
