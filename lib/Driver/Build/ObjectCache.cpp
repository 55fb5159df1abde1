// A flat folder of <hash>.o files.
#include "Build/ObjectCache.h"

#include "Folder/UniqueName.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

#include <filesystem>
#include <map>

using namespace llvm;
using namespace hyc;
namespace fs = std::filesystem;

static constexpr size_t kSealBytes = 64; ///< of SHA-256 in hexadecimal

ObjectCache ObjectCache::ofUser() {
  ObjectCache cache;
  SmallString<128> path;
  if (auto chosen = sys::Process::GetEnv("HYC_CACHE_DIR"); chosen && !chosen->empty())
    path = *chosen;
  else if (auto shared = sys::Process::GetEnv("XDG_CACHE_HOME"); shared && !shared->empty())
    sys::path::append(path, *shared, "hyc");
  else if (sys::path::home_directory(path))
    sys::path::append(path, ".cache", "hyc");
  else
    return cache;
  if (!sys::fs::create_directories(path))
    cache.folder = std::string(path);
  return cache;
}

static bool writeTo(StringRef path, StringRef contents) {
  std::error_code error;
  raw_fd_ostream os(path, error);
  if (error)
    return false;
  os << contents;
  os.close();
  error = os.error();
  os.clear_error();
  return !error;
}

std::string ObjectCache::pathOf(StringRef key) const { return (folder + "/" + key + ".o").str(); }

/// What an entry ends with.
static std::string seal(StringRef key, StringRef contents) { return hashParts({"hyc object cache 1", key, contents}); }

std::optional<std::string> ObjectCache::read(StringRef key) const {
  if (folder.empty())
    return std::nullopt;
  auto buffer = MemoryBuffer::getFile(pathOf(key), /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return std::nullopt;
  StringRef entry = (*buffer)->getBuffer();
  StringRef contents = entry.drop_back(std::min<size_t>(entry.size(), kSealBytes));
  std::error_code ignored;
  if (entry.substr(contents.size()) != seal(key, contents)) {
    fs::remove(pathOf(key), ignored);
    return std::nullopt;
  }
  fs::last_write_time(pathOf(key), fs::file_time_type::clock::now(), ignored);
  return contents.str();
}

bool ObjectCache::fetch(StringRef key, StringRef object) const {
  std::optional<std::string> contents = read(key);
  return contents && writeTo(object, *contents);
}

void ObjectCache::write(StringRef key, StringRef contents) const {
  if (folder.empty())
    return;
  const std::string aside = folder + "/" + uniqueName(key.str() + ".");
  if (!writeTo(aside, (contents + seal(key, contents)).str()) || sys::fs::rename(aside, pathOf(key)))
    sys::fs::remove(aside);
}

void ObjectCache::store(StringRef key, StringRef object) const {
  auto contents = MemoryBuffer::getFile(object, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (contents)
    write(key, (*contents)->getBuffer());
}

void ObjectCache::prune(uint64_t maxBytes) const {
  if (folder.empty())
    return;
  std::multimap<fs::file_time_type, std::pair<fs::path, uint64_t>> byAge;
  uint64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    uint64_t bytes = entry->file_size(ignored);
    if (ignored || entry->path().extension() != ".o")
      continue;
    total += bytes;
    byAge.emplace(entry->last_write_time(ignored), std::pair{entry->path(), bytes});
  }
  for (auto oldest = byAge.begin(); oldest != byAge.end() && total > maxBytes; ++oldest) {
    fs::remove(oldest->second.first, error);
    total -= oldest->second.second;
  }
}

std::string hyc::hashParts(ArrayRef<StringRef> parts) {
  SHA256 hash;
  for (StringRef part : parts) {
    hash.update(std::to_string(part.size()) + ":");
    hash.update(part);
  }
  return toHex(hash.final(), /*LowerCase=*/true);
}
