// A flat folder of <hash>.o files.
#include "Build/ObjectCache.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/SHA256.h"

#include <filesystem>
#include <map>

using namespace llvm;
using namespace hyc;
namespace fs = std::filesystem;

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

std::string ObjectCache::pathOf(StringRef key) const { return (folder + "/" + key + ".o").str(); }

bool ObjectCache::fetch(StringRef key, StringRef object) const {
  if (folder.empty() || sys::fs::copy_file(pathOf(key), object))
    return false;
  std::error_code ignored;
  fs::last_write_time(pathOf(key), fs::file_time_type::clock::now(), ignored);
  return true;
}

void ObjectCache::store(StringRef key, StringRef object) const {
  if (folder.empty())
    return;
  SmallString<128> aside;
  sys::fs::createUniquePath(pathOf(key) + ".%%%%%%%%", aside, /*MakeAbsolute=*/false);
  if (sys::fs::copy_file(object, aside) || sys::fs::rename(aside, pathOf(key)))
    sys::fs::remove(aside);
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

std::string hyc::hashHeaders(ArrayRef<std::string> folders) {
  std::map<std::string, std::string> contents;
  for (const std::string &folder : folders) {
    std::error_code error;
    for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      if (entry->path().extension() != ".h")
        continue;
      if (auto buffer = MemoryBuffer::getFile(entry->path().string()))
        contents[fs::relative(entry->path(), folder).string()] = (*buffer)->getBuffer().str();
    }
  }
  SmallVector<StringRef> parts;
  for (const auto &[name, text] : contents)
    parts.append({name, text});
  return hashParts(parts);
}
