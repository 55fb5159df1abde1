// Memory that is sealed, and looking through what is held.
#include "copies/copy_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/crc32c.h"
#include "checkpoint/manifest.h"

namespace hycrt {
namespace {

constexpr int64_t kMostTableBytes = int64_t{1} << 30;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

bool isTable(const std::string& name, int* rank) {
  int end = 0;
  return std::sscanf(name.c_str(), "part-%d.json%n", rank, &end) == 1 && static_cast<size_t>(end) == name.size();
}

bool isAsWritten(const CopyFile& file, const FileSums& sums, const std::string& name,
                 const std::function<void()>& looksOn) {
  if (file.bytes != sums.bytes) return false;
  std::vector<std::byte> chunk(static_cast<size_t>(std::min(kChunkBytes, sums.bytes)));
  for (size_t i = 0; i < sums.chunks.size(); ++i) {
    const int64_t begin = static_cast<int64_t>(i) * kChunkBytes, end = std::min(begin + kChunkBytes, sums.bytes);
    if (!readAt(*file.memory, name, chunk.data(), end - begin, begin).ok()) return false;
    if (crc32c(0, chunk.data(), static_cast<size_t>(end - begin)) != sums.chunks[i]) return false;
    if (looksOn) looksOn();
  }
  return true;
}

using Files = std::map<std::string, CopyFile>;

CopyHolding holdingOf(const Files& files, const std::string& table, const CopyFile& tableFile,
                      const std::function<void()>& looksOn) {
  CopyHolding holding;
  const Result<std::string> text = readWholeFile(*tableFile.memory, table, kMostTableBytes);
  const Result<CheckpointParts> parts =
      text.ok() ? parseCheckpointParts(*text, table) : Result<CheckpointParts>(text.status());
  if (!parts.ok()) return holding;
  holding.hasTable = true;
  for (const auto& [name, told] : parts->files) {
    holding.files.insert(name);
    const auto file = files.find(name);
    if (file != files.end() && isAsWritten(file->second, told.sums, name, looksOn)) holding.held.insert(name);
  }
  return holding;
}

}  // namespace

Result<FileDescriptor> makeCopyMemory() {
  FileDescriptor memory(memfd_create("hyc-copy", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.isOpen()) return errnoError("cannot make memory for a copy of the states", errno);
  return memory;
}

Status sealCopy(const FileDescriptor& memory) {
  return fcntl(memory.get(), F_ADD_SEALS, kSeals | F_SEAL_SEAL) == 0
             ? Status()
             : errnoError("cannot seal a copy of the states", errno);
}

Result<CopyFile> takeSealed(FileDescriptor memory, int64_t bytes) {
  const int seals = memory.isOpen() ? fcntl(memory.get(), F_GET_SEALS) : -1;
  struct stat info;
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(memory.get(), &info) != 0 || info.st_size != bytes) {
    return dataError("a copy of the states is no sealed memory of " + std::to_string(bytes) + " bytes");
  }
  return CopyFile{std::make_shared<const FileDescriptor>(std::move(memory)), bytes};
}

std::string copyTableName(int rank) {
  char name[32];
  std::snprintf(name, sizeof name, "part-%05d.json", rank);
  return name;
}

void CopyStore::count() {
  bytes_ = 0;
  for (const auto* copies : {&copies_, &fetched_}) {
    for (const auto& [key, files] : *copies) {
      for (const auto& [name, file] : files) bytes_ += file.bytes;
    }
  }
  mostBytes_ = std::max(mostBytes_, bytes_);
}

Status CopyStore::put(const CopyKey& key, const CopyKey& base, const std::string& name, CopyFile file) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (key < newest_) return unavailableError("a newer copy than " + describe(key) + " has begun");
  newest_ = key;
  fetched_.clear();
  for (auto copy = copies_.begin(); copy != copies_.end();) {
    copy = copy->first == key || copy->first == base ? std::next(copy) : copies_.erase(copy);
  }
  copies_[key][name] = std::move(file);
  count();
  return {};
}

void CopyStore::keep(const CopyKey& key, const std::string& name, CopyFile file) {
  const std::lock_guard<std::mutex> lock(mutex_);
  fetched_[key][name] = std::move(file);
  count();
}

std::optional<CopyFile> CopyStore::find(const CopyKey& key, const std::string& name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto* copies : {&copies_, &fetched_}) {
    const auto copy = copies->find(key);
    if (copy == copies->end()) continue;
    if (const auto file = copy->second.find(name); file != copy->second.end()) return file->second;
  }
  return std::nullopt;
}

int64_t CopyStore::bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return bytes_;
}

int64_t CopyStore::mostBytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return mostBytes_;
}

std::vector<CopyHolding> CopyStore::holdings(const std::function<void()>& looksOn) const {
  std::map<CopyKey, Files> copies;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    copies = copies_;  // descriptors, not bytes
    for (const auto& [key, files] : fetched_) copies[key].insert(files.begin(), files.end());
  }
  std::vector<CopyHolding> all;
  for (const auto& [key, files] : copies) {
    int64_t ranks = 0;
    if (const auto head = files.find(kCopyHead); head != files.end()) {
      const Result<std::string> text = readWholeFile(*head->second.memory, kCopyHead, kMostTableBytes);
      const Result<CheckpointManifest> told =
          text.ok() ? parseCheckpointManifest(*text, kCopyHead) : Result<CheckpointManifest>(text.status());
      if (told.ok() && told->step == key.step) ranks = told->ranks;
    }
    for (const auto& [name, file] : files) {
      int rank = 0;
      if (!isTable(name, &rank)) continue;
      CopyHolding holding = holdingOf(files, name, file, looksOn);
      holding.key = key;
      holding.rank = rank;
      holding.ranks = ranks;
      all.push_back(std::move(holding));
    }
  }
  return all;
}

}  // namespace hycrt
