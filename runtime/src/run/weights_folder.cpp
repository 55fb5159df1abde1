// Folders of weights that transformers or peft loads: checked, then written aside and renamed.
#include "run/weights_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/file.h"
#include "base/staged_folder.h"
#include "comm/exchanger.h"
#include "hycrt/safetensors.h"
#include "hycrt/saved_weights.h"
#include "io/saved_adapter.h"
#include "io/weights_files.h"
#include "profile/profile_file.h"
#include "run/quantized_weights.h"
#include "run/state_file.h"

namespace hycrt {
namespace {

std::string withoutSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// Beside the target: "weights/.final.lock" of "weights/final".
std::string lockName(const std::string& target) {
  const std::string path = withoutSlash(target);
  const size_t name = path.rfind('/') + 1;
  return path.substr(0, name) + "." + path.substr(name) + ".lock";
}

// The first entry of a folder that saving would not have put there; empty where there is none.
Result<std::string> foreignEntry(const std::string& folder, bool ofAdapter) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR* entries = fd < 0 ? nullptr : fdopendir(fd);
  if (entries == nullptr) return errnoError("cannot read the folder '" + folder + "'", errno);
  std::string found;
  while (const dirent* entry = readdir(entries)) {
    const std::string name = entry->d_name;
    const std::string own[] = {".", "..", weightsFiles(ofAdapter).weights, weightsFiles(ofAdapter).config};
    if (std::find(std::begin(own), std::end(own), name) == std::end(own)) found = name;
  }
  closedir(entries);
  return found;
}

bool isOwnFile(const std::string& name) {
  for (const WeightsFiles& files : {kModelFiles, kAdapterFiles}) {
    if (name == files.weights || name == files.config) return true;
  }
  return name == std::string(kModelFiles.weights) + kAside;
}

// Only what saving puts into a folder goes; one with anything else in it stays, and a link is none.
void removeFolder(const std::string& folder) { removeOwnFolder(folder, isOwnFile); }

Status copyConfig(const std::string& from, const std::string& path) {
  if (access(from.c_str(), F_OK) != 0) return {};
  Result<std::string> text = readWholeFile(from, kMaxConfigBytes);
  if (!text.ok()) return text.status();
  Result<FileDescriptor> file = createNew(path, FolderLink::kRefuse);
  if (!file.ok()) return file.status();
  HYCRT_RETURN_IF_ERROR(writeAt(*file, path, text->data(), static_cast<int64_t>(text->size()), 0));
  if (fsync(file->get()) != 0) return errnoError("cannot sync '" + path + "'", errno);
  return {};
}

// What stands under the target's name, if anything, is a folder of weights and nothing else.
Status checkReplaceable(const std::string& target, const std::string& folder, bool ofAdapter) {
  struct stat info;
  if (lstat(folder.c_str(), &info) != 0) return {};
  HYCRT_RETURN_IF_ERROR(checkNoLink(folder));
  if (!S_ISDIR(info.st_mode)) {
    return ioError("--save-weights '" + target +
                   "' is not a folder; a file's name ends in .safetensors, any other is a folder's");
  }
  Result<std::string> foreign = foreignEntry(folder, ofAdapter);
  if (!foreign.ok()) return foreign.status();
  if (foreign->empty()) return {};
  return ioError("--save-weights '" + target + "' holds '" + *foreign +
                 "', which saving would remove; name a new folder");
}

Status publish(const std::string& partial, const std::string& target, bool ofAdapter) {
  HYCRT_RETURN_IF_ERROR(syncFolderOf(partial + "/" + weightsFiles(ofAdapter).weights));
  HYCRT_RETURN_IF_ERROR(checkReplaceable(target, target, ofAdapter));
  struct stat info;
  if (lstat(target.c_str(), &info) == 0) return exchangeFolder(partial, target, "the new weights", isOwnFile);
  if (rename(partial.c_str(), target.c_str()) != 0) return errnoError("cannot rename to '" + target + "'", errno);
  return syncFolderOf(target);
}

// What runs to the same target left that were killed together with their launcher. Its lock is held: none of them
// lives.
void removeLeftoversOf(const std::string& target) {
  const size_t name = target.rfind('/') + 1;
  const std::string own = target.substr(name);
  removeLeftovers(
      name == 0 ? "." : target.substr(0, name), [&](const std::string& of) { return of == own || of == own + kAside; },
      isOwnFile);
}

// Weights that are whole are not thrown away because something is in the way of their name.
Status keepAside(const Status& status, const std::string& partial, const std::string& target, const std::string& run) {
  const std::string kept = target + "." + run;
  if (rename(partial.c_str(), kept.c_str()) != 0) return status;
  return {status.code(), status.message() + "; the weights are in '" + kept + "'"};
}

// The model's own weights, from what the ranks hold and the file `aside`.
Status writeMade(Context& ctx, const WeightsToSave& what, bool decodes, const std::string& path,
                 const std::string& aside, FolderLink link) {
  SavedParameters saved;
  saved.inParts = true;
  std::optional<AdapterMerge> merge;
  std::optional<QuantizedWeights> quantized;
  if (what.adapter) {
    Result<AdapterMerge> opened = AdapterMerge::open(*what.adapter, aside);
    if (!opened.ok()) return opened.status();
    merge.emplace(std::move(*opened));
    saved.nameOf = [&](const std::string& name) { return nameInModel(*what.adapter, name); };
    saved.add = [&](const std::string& name, int64_t global, int64_t count, float* values) {
      return merge->add(name, global, count, values);
    };
  }
  if (decodes) {
    Result<QuantizedWeights> opened = QuantizedWeights::open(ctx.program(), aside);
    if (!opened.ok()) return opened.status();
    quantized.emplace(std::move(*opened));
    saved.decode = [&](const StateDesc& codes, int64_t global, int64_t count, const std::byte* from, float* values) {
      return quantized->decode(codes, global, count, from, values);
    };
  }
  HYCRT_RETURN_IF_ERROR(writeParameters(ctx, path, link, saved));
  if (!merge || !what.adapter->hasMagnitudes) return {};
  const int ranks = rankCount(ctx.mesh());
  HYCRT_RETURN_IF_ERROR(merge->toLengths(path, link, rankOf(ctx.mesh(), ctx.at()), ranks));
  return ctx.exchanger().barrier();
}

// Called by all ranks together. Makes the file `path` of what is saved. What every rank needs the whole of for its own
// part of a weight, adapters that are merged and what codes are multiplied with, goes by way of the file `aside`, which
// is gone afterwards.
Status writeWeights(Context& ctx, const WeightsToSave& what, const std::string& path, const std::string& aside,
                    FolderLink link) {
  const auto inAdapter = [&](const std::string& name) {
    return what.adapter ? nameInAdapter(*what.adapter, name) : std::string();
  };
  if (what.adapter && !what.merges) return writeParameters(ctx, path, link, {inAdapter, {}, {}});
  const Result<bool> decodes = holdsCodes(ctx);
  if (!decodes.ok()) return decodes.status();
  if (!what.adapter && !*decodes) return writeParameters(ctx, path, link, {{}, {}, {}, false, /*inParts=*/true});
  Status status = writeParameters(ctx, aside, link, {inAdapter, {}, {}, /*scales=*/*decodes});
  if (status.ok()) status = writeMade(ctx, what, *decodes, path, aside, link);
  if (rankOf(ctx.mesh(), ctx.at()) == 0) unlink(aside.c_str());
  return status;
}

Status saveFolder(Context& ctx, const std::string& target, const WeightsToSave& what) {
  const std::string partial = partialName(target, what.run);
  const bool leads = rankOf(ctx.mesh(), ctx.at()) == 0, ofAdapter = what.adapter && !what.merges;
  if (leads) HYCRT_RETURN_IF_ERROR(createFolder(partial));
  // Writing begins with rank 0 alone, and its barriers keep the others until there is a file.
  const std::string file = partial + "/" + weightsFiles(ofAdapter).weights;
  Status status = writeWeights(ctx, what, file, file + kAside, FolderLink::kRefuse);
  if (!leads) return status;
  const std::string config = weightsFiles(ofAdapter).config;
  if (status.ok()) status = copyConfig(what.modelFolder + "/" + config, partial + "/" + config);
  if (!status.ok()) {
    removeFolder(partial);
    return status;
  }
  status = publish(partial, target, ofAdapter);
  return status.ok() ? status : keepAside(status, partial, target, what.run);
}

Status saveFile(Context& ctx, const std::string& target, const WeightsToSave& what) {
  const std::string partial = partialName(target, what.run);
  const bool leads = rankOf(ctx.mesh(), ctx.at()) == 0;
  Status status = writeWeights(ctx, what, partial, partialName(target + kAside, what.run), FolderLink::kFollow);
  if (!leads) return status;
  if (!status.ok()) {
    unlink(partial.c_str());
    return status;
  }
  status = publishFile(partial, target);
  return status.ok() ? status : keepAside(status, partial, target, what.run);
}

}  // namespace

bool isWeightsFile(const std::string& target) {
  constexpr std::string_view ending = ".safetensors";
  return target.size() > ending.size() && target.compare(target.size() - ending.size(), ending.size(), ending) == 0;
}

std::vector<std::string> filesOfWeights(const std::string& target) {
  if (isWeightsFile(target)) return {target};
  std::vector<std::string> files{withoutSlash(target)};
  for (const WeightsFiles& own : {kModelFiles, kAdapterFiles}) {
    for (const char* name : {own.weights, own.config}) files.push_back(withoutSlash(target) + "/" + name);
  }
  return files;
}

Status checkWeightsTarget(const std::string& target, bool ofAdapter) {
  if (isWeightsFile(target)) return checkWritable(target);
  const std::string folder = withoutSlash(target);
  HYCRT_RETURN_IF_ERROR(checkReplaceable(target, folder, ofAdapter));
  return checkFolderWritable(folder);
}

Result<FileLock> lockWeightsTarget(const std::string& target) {
  Result<FileLock> lock = FileLock::take(lockName(target), "which saves '" + target + "'");
  if (lock.ok() && lock->isExclusive()) removeLeftoversOf(withoutSlash(target));
  if (lock.ok() || lock.status().code() != StatusCode::kUnavailable) return lock;
  return unavailableError("--save-weights '" + target + "' is another run's: " + lock.status().message() +
                          "; name another target, or wait for that run");
}

void removePartialOutputs(const RunOptions& options, const std::string& run) {
  if (run.empty()) return;
  for (const std::string* path :
       {&options.saveWeights, &options.dumpGradients, &options.trace, &options.measureMemory, &options.profile}) {
    if (path->empty()) continue;
    const std::string partial = partialName(withoutSlash(*path), run);
    if (unlink(partial.c_str()) != 0) removeFolder(partial);
    unlink(partialName(withoutSlash(*path) + kAside, run).c_str());
  }
  const ProfilePartials made = profilePartials(partialName(withoutSlash(options.profile), run));
  for (const std::string& path : {made.profile, made.page}) unlink(path.c_str());
  // A rank that was killed leaves its lock's file behind, which nobody holds.
  if (!options.saveWeights.empty()) (void)lockWeightsTarget(options.saveWeights);
}

Status saveWeights(Context& ctx, const std::string& target, const WeightsToSave& what) {
  return isWeightsFile(target) ? saveFile(ctx, target, what) : saveFolder(ctx, withoutSlash(target), what);
}

}  // namespace hycrt
