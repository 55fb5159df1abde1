// Putting folders in each other's place, and removing what they hold.
#include "base/staged_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>  // renameat2
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"

namespace hycrt {
namespace {

constexpr const char kBegin[] = ".hyc-", kEnd[] = ".partial";
constexpr std::string_view kOld = ".old";  // of a partial name: what its target was, until the new one is in its place
constexpr size_t kDigits = 32;

// What a run's partial name stands for; empty: it is none.
std::string targetOf(const std::string& name) {
  const size_t tail = sizeof kBegin - 1 + kDigits + sizeof kEnd - 1;
  if (name.size() <= tail) return {};
  const size_t begin = name.size() - tail, digits = begin + sizeof kBegin - 1;
  if (name.compare(begin, sizeof kBegin - 1, kBegin) != 0) return {};
  if (name.compare(digits + kDigits, std::string::npos, kEnd) != 0) return {};
  if (name.substr(digits, kDigits).find_first_not_of("0123456789abcdef") != std::string::npos) return {};
  return name.substr(0, begin);
}

}  // namespace

bool removeOwnFolder(const std::string& folder, const IsOwnFile& isOwn) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR* entries = fd < 0 ? nullptr : fdopendir(fd);
  if (entries == nullptr) return false;
  std::vector<std::string> names;
  while (const dirent* entry = readdir(entries)) {
    if (isOwn(entry->d_name)) names.push_back(entry->d_name);
  }
  for (const std::string& name : names) unlinkat(fd, name.c_str(), 0);
  closedir(entries);
  return rmdir(folder.c_str()) == 0;
}

std::vector<std::string> foreignIn(const std::string& folder, const IsOwnFile& isOwn) {
  std::vector<std::string> names;
  DIR* entries = opendir(folder.c_str());
  if (entries == nullptr) return names;
  while (const dirent* entry = readdir(entries)) {
    const std::string name = entry->d_name;
    if (name != "." && name != ".." && !isOwn(name)) names.push_back(name);
  }
  closedir(entries);
  std::sort(names.begin(), names.end());
  return names;
}

Status exchangeFolder(const std::string& partial, const std::string& target, const std::string& what,
                      const IsOwnFile& isOwn, std::string* left) {
  const auto failed = [&] { return errnoError("cannot put " + what + " in the place of '" + target + "'", errno); };
  std::string old = partial;
  if (renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno != EINVAL && errno != ENOSYS) return failed();
    old = partial + std::string(kOld);
    if (rename(target.c_str(), old.c_str()) != 0) return failed();
    if (rename(partial.c_str(), target.c_str()) != 0) {
      const Status status = failed();
      rename(old.c_str(), target.c_str());
      return status;
    }
  }
  HYCRT_RETURN_IF_ERROR(syncFolderOf(target));
  if (!removeOwnFolder(old, isOwn) && left) *left = old;
  return {};
}

void removeLeftovers(const std::string& directory, const std::function<bool(const std::string&)>& isTarget,
                     const IsOwnFile& isOwn) {
  DIR* entries = opendir(directory.c_str());
  if (entries == nullptr) return;
  std::vector<std::string> partials;
  std::vector<std::pair<std::string, std::string>> olds;  // and their targets
  while (const dirent* entry = readdir(entries)) {
    std::string name = entry->d_name;
    const bool isOld = name.size() > kOld.size() && name.compare(name.size() - kOld.size(), kOld.size(), kOld) == 0;
    if (isOld) name.resize(name.size() - kOld.size());
    const std::string target = targetOf(name), path = directory + "/" + entry->d_name;
    if (target.empty() || !isTarget(target)) continue;
    if (isOld)
      olds.emplace_back(path, directory + "/" + target);
    else
      partials.push_back(path);
  }
  closedir(entries);
  // One that was taken away, and nothing put in its place, is what there is of the target.
  for (const auto& [old, target] : olds) {
    if (access(target.c_str(), F_OK) == 0 || rename(old.c_str(), target.c_str()) != 0) partials.push_back(old);
  }
  for (const std::string& partial : partials) {
    if (unlink(partial.c_str()) != 0) removeOwnFolder(partial, isOwn);
  }
}

}  // namespace hycrt
