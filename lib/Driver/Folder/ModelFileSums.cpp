// An entry of the cache is the numbers of FileSums, one a line.
#include "Folder/ModelFileSums.h"

#include "Build/ObjectCache.h"
#include "hyc/Support/DriverError.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

using namespace llvm;
using namespace hyc;

static std::string writeSums(const hycrt::FileSums &sums) {
  return std::to_string(sums.bytes) + "\n" + std::to_string(sums.headerBytes) + "\n" + hycrt::digitsOf({sums.header}) +
         "\n" + hycrt::digitsOf(sums.chunks);
}

static std::optional<hycrt::FileSums> readSums(StringRef text) {
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  hycrt::FileSums sums;
  if (lines.size() != 4 || lines[0].getAsInteger(10, sums.bytes) || lines[1].getAsInteger(10, sums.headerBytes))
    return std::nullopt;
  auto header = hycrt::sumsFromDigits(lines[2]), chunks = hycrt::sumsFromDigits(lines[3]);
  if (!header || header->size() != 1 || !chunks ||
      static_cast<int64_t>(chunks->size()) != hycrt::chunkCount(sums.bytes))
    return std::nullopt;
  sums.header = header->front();
  sums.chunks = std::move(*chunks);
  return sums;
}

Expected<hycrt::FileSums> hyc::measureModelFile(const std::string &path) {
  ObjectCache cache = ObjectCache::ofUser();
  std::optional<std::string> identity = hycrt::identityOfFile(path);
  std::string key = identity ? hashParts({"sums of a model's file", *identity}) : "";
  if (identity)
    if (std::optional<std::string> known = cache.read(key))
      if (std::optional<hycrt::FileSums> sums = readSums(*known))
        return *sums;
  hycrt::Result<hycrt::FileSums> measured = hycrt::measureFile(path);
  if (!measured.ok())
    return makeError(static_cast<ExitCode>(measured.status().exitCode()), measured.status().message());
  if (identity && hycrt::identityOfFile(path) == identity)
    cache.write(key, writeSums(*measured));
  return std::move(*measured);
}
