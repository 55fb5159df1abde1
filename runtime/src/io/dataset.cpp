// Which kind of data a file is, and which sample a step reads.
#include "io/dataset.h"

#include <string_view>
#include <vector>

#include "io/sample_file.h"
#include "io/shuffle.h"
#include "io/token_file.h"

namespace hycrt {
namespace {

template <typename T>
void store(const std::vector<uint32_t>& window, size_t first, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) reinterpret_cast<T*>(to)[i] = static_cast<T>(window[first + size_t(i)]);
}

class TokenData : public Dataset {
 public:
  explicit TokenData(TokenFile file) : file_(std::move(file)) {}

  int64_t sampleCount() const override { return file_.windowCount(); }

  Status checkIndices(const InputDesc& input) override { return file_.checkTokens(input.bound); }

  Status read(int64_t sample, const InputDesc& input, std::byte* to) override {
    HYCRT_RETURN_IF_ERROR(file_.read(sample, input.bound, &window_));
    const size_t first = input.source == InputSource::kNextTokens ? 1 : 0;
    const int64_t count = elementCount(input.sample);
    if (input.dtype == DType::kI64) {
      store<int64_t>(window_, first, count, to);
    } else if (input.dtype == DType::kI32) {
      store<int32_t>(window_, first, count, to);
    } else {
      store<float>(window_, first, count, to);
    }
    return {};
  }

 private:
  TokenFile file_;
  std::vector<uint32_t> window_;
};

}  // namespace

int64_t Dataset::sampleAt(uint64_t item, int64_t sampleCount, uint64_t seed, WindowOrder order) {
  const uint64_t count = static_cast<uint64_t>(sampleCount);
  const uint64_t place = item % count;
  if (order == WindowOrder::kInFile) return static_cast<int64_t>(place);
  return static_cast<int64_t>(Shuffle(seed, item / count, count)(place));
}

bool isSampleFile(const std::string& path) {
  constexpr std::string_view kEnding = ".safetensors";
  return path.size() >= kEnding.size() && path.compare(path.size() - kEnding.size(), kEnding.size(), kEnding) == 0;
}

Result<std::unique_ptr<Dataset>> openDataset(const char* flag, const std::string& path, const Program& program,
                                             DataFormat format) {
  if (isSampleFile(path)) {
    if (format == DataFormat::kAuto) return SampleFile::open(path, program.inputs);
    return usageError("--data-format says how a file holds tokens, but '" + path + "' (" + flag +
                      ") holds tensors, which say it themselves; leave it out");
  }
  for (const InputDesc& input : program.inputs) {
    if (input.source != InputSource::kSamples) continue;
    return usageError("'" + path + "' (" + flag + ") is taken for a file of tokens, but input '" + input.name +
                      "' is read sample by sample; give a .safetensors file with a tensor of that name, whose "
                      "dimension 0 is the sample");
  }
  Result<TokenFile> tokens = TokenFile::open(path, program.batch.sequence, format);
  if (!tokens.ok()) return tokens.status();
  return std::unique_ptr<Dataset>(std::make_unique<TokenData>(std::move(*tokens)));
}

}  // namespace hycrt
