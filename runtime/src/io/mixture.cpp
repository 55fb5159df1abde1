// Reading the list of sources, and dealing out the items of a block.
#include "io/mixture.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "io/shuffle.h"

namespace hycrt {
namespace {

constexpr size_t kMostSources = 1024;

bool isThere(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// Keys of permutations of blocks differ from those of epochs.
constexpr uint64_t kBlockKey = 0x6d69787475726573;

Result<DataSource> parseSource(const char* flag, const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || isThere(text)) return DataSource{text, 0};
  const std::string number = text.substr(equals + 1), path = text.substr(0, equals);
  char* end = nullptr;
  const double weight = std::strtod(number.c_str(), &end);
  const bool isNumber = !number.empty() && *end == 0;
  if (isNumber && std::isfinite(weight) && weight > 0) return DataSource{path, weight};
  return usageError(std::string("'") + number + "' is the weight of '" + path + "' (" + flag +
                    "), expected a number above 0");
}

// Whole numbers of kBlock items, at least one each, that are nearest to the weights.
std::vector<uint64_t> sharesOf(const std::vector<DataSource>& sources) {
  double largest = 0, sum = 0;
  for (const DataSource& source : sources) largest = std::max(largest, source.weight);
  for (const DataSource& source : sources) sum += source.weight / largest;
  std::vector<uint64_t> shares;
  std::vector<double> rest;
  for (const DataSource& source : sources) {
    const double exact = source.weight / largest / sum * static_cast<double>(Mixture::kBlock);
    shares.push_back(std::max<uint64_t>(1, static_cast<uint64_t>(exact)));
    rest.push_back(exact - static_cast<double>(shares.back()));
  }
  std::vector<size_t> order(sources.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rest[a] > rest[b]; });
  uint64_t dealt = std::accumulate(shares.begin(), shares.end(), uint64_t{0});
  for (size_t i = 0; dealt < Mixture::kBlock; ++i, ++dealt) ++shares[order[i % order.size()]];
  for (; dealt > Mixture::kBlock; --dealt) --*std::max_element(shares.begin(), shares.end());
  return shares;
}

}  // namespace

Result<std::vector<DataSource>> parseDataSources(const char* flag, const std::string& text) {
  if (isThere(text) || (text.find(',') == std::string::npos && text.find('=') == std::string::npos)) {
    return std::vector<DataSource>{{text, 0}};
  }
  std::vector<DataSource> sources;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    Result<DataSource> source = parseSource(flag, text.substr(begin, end - begin));
    if (!source.ok()) return source.status();
    if (source->path.empty() || sources.size() == kMostSources) {
      return usageError("'" + text + "' (" + flag + ") names " +
                        (source->path.empty() ? "a file without a name" : "more than 1024 files") +
                        ", expected FILE=WEIGHT,FILE=WEIGHT,…");
    }
    if (!sources.empty() && (sources.front().weight == 0) != (source->weight == 0)) {
      return usageError("'" + (source->weight == 0 ? source->path : sources.front().path) + "' (" + flag +
                        ") has no weight, but others have one; give one to each file, or to none");
    }
    sources.push_back(std::move(*source));
    begin = end + 1;
  }
  return sources;
}

Result<std::unique_ptr<Dataset>> Mixture::of(const std::vector<DataSource>& sources,
                                             std::vector<std::unique_ptr<Dataset>> data, WindowOrder order) {
  const bool isWeighted = sources.front().weight > 0;
  if (!isWeighted && order == WindowOrder::kByDocument) {
    return usageError(
        "--shuffle-documents orders the documents of each file; say by weights, FILE=WEIGHT, how often "
        "each of several is read");
  }
  std::unique_ptr<Mixture> mixture(new Mixture(std::move(data), order));
  for (const auto& source : mixture->data_) mixture->sampleCount_ += source->sampleCount();
  if (isWeighted) mixture->shares_ = sharesOf(sources);
  return std::unique_ptr<Dataset>(std::move(mixture));
}

std::string Mixture::arrangement() const {
  std::string text = Dataset::arrangement();
  for (size_t i = 0; i < data_.size(); ++i) {
    text += (text.empty() ? "" : " + ") + std::to_string(data_[i]->sampleCount());
    if (!shares_.empty()) text += " × " + std::to_string(shares_[i]) + "/65536";
  }
  return text;
}

bool Mixture::isOfOneLength() const {
  return std::all_of(data_.begin(), data_.end(), [](const auto& data) { return data->isOfOneLength(); });
}

Status Mixture::checkIndices(const InputDesc& input) {
  for (const auto& source : data_) HYCRT_RETURN_IF_ERROR(source->checkIndices(input));
  return {};
}

Mixture::Drawn Mixture::drawOfAll(uint64_t item, uint64_t seed) const {
  uint64_t sample = static_cast<uint64_t>(sampleOf(item, seed));
  size_t source = 0;
  for (; sample >= static_cast<uint64_t>(data_[source]->sampleCount()); ++source) {
    sample -= static_cast<uint64_t>(data_[source]->sampleCount());
  }
  return {source, sample};
}

Mixture::Drawn Mixture::draw(uint64_t item, uint64_t seed) const {
  if (shares_.empty()) return drawOfAll(item, seed);
  const uint64_t block = item / kBlock, place = item % kBlock;
  // Multiplied by an odd number near kBlock · 0.618, places of one source lie evenly apart.
  uint64_t at =
      order() == WindowOrder::kInFile ? place * 40503 % kBlock : Shuffle(mix64(seed, kBlockKey), block, kBlock)(place);
  size_t source = 0;
  for (; at >= shares_[source]; ++source) at -= shares_[source];
  return {source, block * shares_[source] + at};
}

Status Mixture::read(uint64_t item, uint64_t seed, const InputDesc& input, std::byte* to) {
  const Drawn drawn = draw(item, seed);
  return data_[drawn.source]->read(drawn.item, mix64(seed, drawn.source), input, to);
}

}  // namespace hycrt
