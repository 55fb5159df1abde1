// What is wrong with --data, told once before there are ranks (manifest.h).
#include <unistd.h>

#include <cerrno>

#include "hycrt/manifest.h"
#include "hycrt/options.h"
#include "io/dataset.h"
#include "io/mixture.h"
#include "io/token_file.h"

namespace hycrt {

static Status checkSources(const char* flag, const std::string& text, bool areTokens, const Manifest& manifest,
                           DataFormat format) {
  if (text.empty()) return {};
  Result<std::vector<DataSource>> sources = parseDataSources(flag, text);
  if (!sources.ok()) return sources.status();
  for (const DataSource& source : *sources) {
    if (access(source.path.c_str(), R_OK) != 0) {
      return errnoError("cannot read '" + source.path + "' (" + flag + ")", errno);
    }
    if (!areTokens || isSampleFile(source.path)) continue;
    HYCRT_RETURN_IF_ERROR(TokenFile::open(source.path, manifest.batch.sequence, format).status());
  }
  return {};
}

Status checkData(const Manifest& manifest, const RunOptions& options) {
  HYCRT_RETURN_IF_ERROR(orderOf(options).status());
  const bool areTokens = manifest.data == DataKind::kTokens;
  HYCRT_RETURN_IF_ERROR(checkSources("--data", options.data, areTokens, manifest, options.dataFormat));
  HYCRT_RETURN_IF_ERROR(checkSources("--evaluate-data", options.evaluateData, false, manifest, options.dataFormat));
  if (manifest.data == DataKind::kNothing || !options.data.empty()) return {};
  return usageError("the model reads data; give it with --data FILE");
}

}  // namespace hycrt
