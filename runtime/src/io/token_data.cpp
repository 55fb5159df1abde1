// A window is read once for all inputs of its sample.
#include "io/token_data.h"

#include <algorithm>

namespace hycrt {
namespace {

bool isOfTokens(const InputDesc& input) {
  return input.source != InputSource::kPositions && input.source != InputSource::kPresence;
}

}  // namespace

TokenData::TokenData(TokenFile file, int64_t sequence, WindowOrder order)
    : Dataset(order), file_(std::move(file)), sequence_(sequence) {
  const size_t size = static_cast<size_t>(sequence + 1);
  tokens_.resize(size);
  begins_.resize(size);
  counts_.resize(size);
  positions_.resize(size);
}

Result<std::unique_ptr<Dataset>> TokenData::open(const std::string& path, const Program& program, DataFormat format,
                                                 WindowOrder order) {
  Result<TokenFile> tokens = TokenFile::open(path, program.batch.sequence, format);
  if (!tokens.ok()) return tokens.status();
  std::unique_ptr<TokenData> data(new TokenData(std::move(*tokens), program.batch.sequence, order));
  if (order == WindowOrder::kByDocument) {
    DocumentIndex* const documents = data->file_.documents();
    if (!documents) {
      return dataError("'" + path +
                       "' does not tell where documents begin, by which --shuffle-documents would order "
                       "them; hyc data writes files that do, and Megatron's have an .idx");
    }
    data->documentOrder_.emplace(documents);
  }
  return std::unique_ptr<Dataset>(std::move(data));
}

Status TokenData::checkIndices(const InputDesc& input) {
  if (isOfTokens(input)) return file_.checkTokens(input.bound);
  if (input.source != InputSource::kPositions || sequence_ <= input.bound) return {};
  return dataError("a sample has " + std::to_string(sequence_) + " tokens, but the model knows " +
                   std::to_string(input.bound) + " positions (" + input.name + ")");
}

Status TokenData::loadInFile(int64_t window, int64_t bound) {
  const int64_t first = window * sequence_, count = sequence_ + 1;
  HYCRT_RETURN_IF_ERROR(file_.readTokens(first, count, bound, tokens_.data()));
  HYCRT_RETURN_IF_ERROR(file_.readMask(first, count, counts_.data()));
  if (file_.documents()) return file_.documents()->mark(first, count, begins_.data());
  std::fill(begins_.begin(), begins_.end(), uint8_t{0});
  return {};
}

Status TokenData::loadByDocument(uint64_t seed, uint64_t epoch, int64_t window, int64_t bound) {
  std::fill(begins_.begin(), begins_.end(), uint8_t{0});
  for (int64_t done = 0; done <= sequence_;) {
    DocumentOrder::Part part;
    HYCRT_RETURN_IF_ERROR(documentOrder_->at(seed, epoch, window * sequence_ + done, sequence_ + 1 - done, &part));
    HYCRT_RETURN_IF_ERROR(file_.readTokens(part.first, part.count, bound, tokens_.data() + done));
    HYCRT_RETURN_IF_ERROR(file_.readMask(part.first, part.count, counts_.data() + done));
    begins_[static_cast<size_t>(done)] = part.begins;
    done += part.count;
  }
  return {};
}

Status TokenData::load(uint64_t item, uint64_t seed, int64_t bound) {
  if (isLoaded_ && item_ == item && seed_ == seed && bound_ <= bound) return {};
  isLoaded_ = false;
  const uint64_t windows = static_cast<uint64_t>(sampleCount());
  if (documentOrder_) {
    HYCRT_RETURN_IF_ERROR(loadByDocument(seed, item / windows, static_cast<int64_t>(item % windows), bound));
  } else {
    HYCRT_RETURN_IF_ERROR(loadInFile(sampleOf(item, seed), bound));
  }
  for (size_t i = 0; i < positions_.size(); ++i) positions_[i] = i == 0 || begins_[i] ? 0 : positions_[i - 1] + 1;
  isLoaded_ = true;
  item_ = item, seed_ = seed, bound_ = bound;
  return {};
}

int64_t TokenData::valueOf(const InputDesc& input, size_t i) const {
  const bool isLabel = input.uncounted != INT64_MIN;
  const auto token = [&](size_t at, bool own) {
    const bool counts = !isLabel || (counts_[at] && !(own && begins_[at]));
    return counts ? int64_t{tokens_[at]} : input.uncounted;
  };
  switch (input.source) {
    case InputSource::kTokens:
      return token(i, false);
    case InputSource::kNextTokens:
      return token(i + 1, false);
    case InputSource::kOwnTokens:
      return token(i, true);
    case InputSource::kNextOwnTokens:
      return token(i + 1, true);
    case InputSource::kPositions:
      return positions_[i];
    case InputSource::kPresence:
      return 1;
    case InputSource::kRandomKeys:
    case InputSource::kSamples:
      break;
  }
  return 0;
}

template <typename T>
void TokenData::store(const InputDesc& input, T* to) const {
  const size_t count = static_cast<size_t>(elementCount(input.sample));
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<T>(valueOf(input, i));
}

Status TokenData::read(uint64_t item, uint64_t seed, const InputDesc& input, std::byte* to) {
  HYCRT_RETURN_IF_ERROR(load(item, seed, isOfTokens(input) ? input.bound : INT64_MAX));
  if (input.dtype == DType::kI64) {
    store(input, reinterpret_cast<int64_t*>(to));
  } else if (input.dtype == DType::kI32) {
    store(input, reinterpret_cast<int32_t*>(to));
  } else {
    store(input, reinterpret_cast<float*>(to));
  }
  return {};
}

}  // namespace hycrt
