// Which kind of data a file is, and which sample a step reads.
#include "io/dataset.h"

#include <string_view>
#include <vector>

#include "io/mixture.h"
#include "io/sample_file.h"
#include "io/shuffle.h"
#include "io/token_data.h"

namespace hycrt {
namespace {

Result<std::unique_ptr<Dataset>> openFile(const DataRequest& request, const std::string& path, const Program& program) {
  if (isSampleFile(path)) {
    if (request.order == WindowOrder::kByDocument) {
      return usageError("--shuffle-documents is given, but '" + path + "' (" + request.flag +
                        ") holds samples, which are shuffled whole; leave it out");
    }
    if (request.format == DataFormat::kAuto) return SampleFile::open(path, program.inputs, request.order);
    return usageError("--data-format says how a file holds tokens, but '" + path + "' (" + request.flag +
                      ") holds tensors, which say it themselves; leave it out");
  }
  for (const InputDesc& input : program.inputs) {
    if (input.source != InputSource::kSamples) continue;
    return usageError("'" + path + "' (" + request.flag + ") is taken for a file of tokens, but input '" + input.name +
                      "' is read sample by sample; give a .safetensors file with a tensor of that name, whose "
                      "dimension 0 is the sample");
  }
  return TokenData::open(path, program, request.format, request.order);
}

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

Result<std::unique_ptr<Dataset>> openDataset(const DataRequest& request, const Program& program) {
  Result<std::vector<DataSource>> sources = parseDataSources(request.flag, request.text);
  if (!sources.ok()) return sources.status();
  if (sources->size() == 1 && sources->front().weight == 0) return openFile(request, request.text, program);
  std::vector<std::unique_ptr<Dataset>> opened;
  DataRequest each = request;
  if (sources->front().weight == 0) each.order = WindowOrder::kInFile;  // all of them are shuffled as one
  for (const DataSource& source : *sources) {
    Result<std::unique_ptr<Dataset>> data = openFile(each, source.path, program);
    if (!data.ok()) return data.status();
    opened.push_back(std::move(*data));
  }
  return Mixture::of(*sources, std::move(opened), request.order);
}

}  // namespace hycrt
