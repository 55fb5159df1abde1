// Choosing a size, and becoming one of its ranks.
#include "sizes.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "hycrt/manifest.h"

namespace hycrun {

using hycrt::CompiledSize;
using hycrt::Result;
using hycrt::Status;

Result<std::vector<Host>> hostsOf(const hycrt::RunOptions& options, const std::set<std::string>& leftOut) {
  Result<std::vector<Host>> hosts = readHostfile(options.hostfile);
  if (!hosts.ok()) return hosts.status();
  HYCRT_RETURN_IF_ERROR(selectHosts(options.include, options.exclude, &*hosts));
  hosts->erase(
      std::remove_if(hosts->begin(), hosts->end(), [&](const Host& host) { return leftOut.count(host.name) != 0; }),
      hosts->end());
  return hosts;
}

int64_t slotsOf(const std::vector<Host>& hosts) {
  int64_t slots = 0;
  for (const Host& host : hosts) slots += static_cast<int64_t>(host.slots.size());
  return slots;
}

Result<std::string> folderFor(const hycrt::RunOptions& options, const std::vector<CompiledSize>& sizes,
                              const std::set<std::string>& leftOut) {
  if (sizes.empty()) return options.out;
  const std::string held = "'" + options.out + "' holds programs for " + listOf(sizes) + " ranks";
  if (options.ranks > 0) {
    if (const CompiledSize* size = sizeOf(sizes, options.ranks)) return size->folder;
    return hycrt::usageError("--ranks is " + std::to_string(options.ranks) + ", but " + held +
                             "; take one of these, or compile for it");
  }
  if (options.hostfile.empty()) return sizes.front().folder;
  Result<std::vector<Host>> hosts = hostsOf(options, leftOut);
  if (!hosts.ok()) return hosts.status();
  const int64_t slots = slotsOf(*hosts);
  if (const CompiledSize* size = largestWithin(sizes, slots)) return size->folder;
  return hycrt::unavailableError("the hosts have " + std::to_string(slots) + " slots, but " + held);
}

Status becomeRank(const hycrt::RunOptions& options, const std::vector<CompiledSize>& sizes) {
  const Result<hycrt::LaunchedRank> launched = hycrt::launchedRank();
  if (!launched.ok()) return launched.status();
  std::string folder = options.out;
  if (!sizes.empty()) {
    const CompiledSize* const size = sizeOf(sizes, launched->worldSize);
    if (!size) {
      return hycrt::usageError("the launcher has started " + std::to_string(launched->worldSize) + " ranks, but '" +
                               options.out + "' holds programs for " + listOf(sizes) +
                               " ranks; start one of these numbers, or compile for it");
    }
    folder = size->folder;
  }
  Result<hycrt::Manifest> manifest = hycrt::readManifest(folder);
  if (!manifest.ok()) return manifest.status();
  const int ranks = static_cast<int>(manifest->ranks.size());
  if (launched->worldSize != ranks || launched->rank >= ranks) {
    return hycrt::usageError("the launcher has started " + std::to_string(launched->worldSize) + " ranks, but '" +
                             folder + "' was compiled for " + std::to_string(ranks));
  }
  HYCRT_RETURN_IF_ERROR(hycrt::checkCpu(*manifest));
  std::vector<std::string> words{folder + "/" + manifest->ranks[static_cast<size_t>(launched->rank)].program,
                                 "--out=" + folder};
  for (std::string& word : hycrt::argumentsForRanks(options)) words.push_back(std::move(word));
  for (std::string& word : hycrt::argumentsForTelling(options)) words.push_back(std::move(word));
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  return hycrt::errnoError("cannot execute '" + words[0] + "'", errno);
}

}  // namespace hycrun
