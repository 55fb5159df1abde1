// Whole tensors, one after the other, into a checkpoint of one part.
#include "checkpoint/torch/import_torch.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/file.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/part_writer.h"
#include "checkpoint/state_names.h"
#include "hycrt/safetensors.h"
#include "hycrt/token.h"

namespace hycrt {
namespace {

constexpr const char* kFirstMoment = "exp_avg";

// Counts of updates that are tensors become what the states tell.
Status takeUpdates(ForeignStates* states) {
  std::vector<std::byte> bytes;
  for (auto next = states->tensors.begin(); next != states->tensors.end();) {
    if (!isStepName(next->first)) {
      ++next;
      continue;
    }
    if (elementCount(next->second.shape) != 1) {
      return dataError("'" + states->folder + "': '" + next->first + "' is no number of updates");
    }
    HYCRT_RETURN_IF_ERROR(readForeignTensor(*states, next->first, &bytes));
    Result<int64_t> count = updatesIn(next->second.dtype, bytes, "'" + states->folder + "': '" + next->first + "'");
    if (!count.ok()) return count.status();
    states->updates.emplace(*count, next->first);
    next = states->tensors.erase(next);
  }
  return {};
}

// Step and number of updates.
Status findStep(const ForeignStates& states, const ImportOptions& options, int64_t* step, int64_t* updates) {
  const auto& told = states.updates;
  if (told.size() > 1 && options.step == 0) {
    const auto &first = *told.begin(), &last = *told.rbegin();
    return dataError("'" + states.folder + "' has " + std::to_string(first.first) + " updates of '" + first.second +
                     "', but " + std::to_string(last.first) + " of '" + last.second +
                     "'; say which step it is by --step");
  }
  if (options.step == 0 && (told.empty() || told.begin()->first == 0)) {
    return dataError("'" + states.folder +
                     "' tells of no updates; say by --step after which step it is, or start from " +
                     "its weights (hyc-compile --weights)");
  }
  *updates = told.size() == 1 ? told.begin()->first : options.step;
  *step = options.step > 0 ? options.step : *updates;
  if (*updates <= *step) return {};
  return usageError("--step " + std::to_string(*step) + " is less than the " + std::to_string(*updates) +
                    " updates that '" + states.folder + "' tells of");
}

// The parameter that a first moment is of; empty for other tensors.
std::string parameterOfMoment(const std::string& tensor) {
  const std::optional<StateName> name = splitStateName(tensor);
  return name && name->key == kFirstMoment ? name->parameter : std::string();
}

// Weights and moments under names of one kind: else no program would take both.
Status checkPrefix(const ForeignStates& states, const ForeignNames& names) {
  for (const auto& [tensor, ignored] : states.tensors) {
    const std::string parameter = parameterOfMoment(tensor);
    if (parameter.empty() || states.tensors.count(parameter) > 0) continue;
    for (const auto& [weight, alsoIgnored] : states.tensors) {
      const size_t more = weight.size() - std::min(weight.size(), parameter.size());
      if (more == 0 || !isParameterName(weight) || weight[more - 1] != '.' || weight.substr(more) != parameter)
        continue;
      return dataError("'" + states.folder + "' has moments of '" + parameter + "', but that weight is called '" +
                       weight + "' in it; give --weights-prefix " + names.weights + weight.substr(0, more));
    }
  }
  return {};
}

class Importer {
 public:
  Importer(const ForeignStates& states, int64_t updates, std::string folder)
      : states_(states), updates_(static_cast<float>(updates)), folder_(std::move(folder)) {}

  Result<CheckpointParts> write() {
    for (const auto& [name, tensor] : states_.tensors) {
      if (elementCount(tensor.shape) == 0) return dataError("'" + states_.folder + "': '" + name + "' has no elements");
      files_[partFileName(0, 0, tensor.dtype)].insert(name);
      const std::string parameter = parameterOfMoment(name);
      if (!parameter.empty()) files_[partFileName(0, 0, DType::kF32)].insert(stepName(parameter));
    }
    for (const auto& [file, names] : files_) HYCRT_RETURN_IF_ERROR(writeFile(file, names));
    return std::move(parts_);
  }

 private:
  Status writeFile(const std::string& name, const std::set<std::string>& names) {
    TensorDirectory directory;
    std::map<std::string, Shape> offsets;
    for (const std::string& own : names) {
      const auto tensor = states_.tensors.find(own);
      const bool isStep = tensor == states_.tensors.end();
      CheckpointTensor& told = parts_.tensors[own];
      told.dtype = isStep ? DType::kF32 : tensor->second.dtype;
      told.shape = isStep ? Shape{} : tensor->second.shape;
      directory[own].dtype = told.dtype;
      directory[own].shape.assign(told.shape.begin(), told.shape.end());
      Shape& offset = offsets[own] = told.shape;
      for (int dim = 0; dim < offset.size; ++dim) offset.items[dim] = 0;
    }
    const std::string header = encodePartHeader(&directory, offsets);
    Result<StreamFile> file = StreamFile::create(folder_ + "/" + name, nullptr);
    if (!file.ok()) return file.status();
    HYCRT_RETURN_IF_ERROR(file->write(header.data(), static_cast<int64_t>(header.size())));
    for (const std::string& own : names) {
      CheckpointTensor& told = parts_.tensors[own];
      told.slices.push_back({name, file->position(), {offsets[own], told.shape}});
      if (states_.tensors.count(own) == 0) {
        HYCRT_RETURN_IF_ERROR(file->write(&updates_, sizeof updates_));
        continue;
      }
      HYCRT_RETURN_IF_ERROR(readForeignTensor(states_, own, &whole_));
      HYCRT_RETURN_IF_ERROR(file->write(whole_.data(), static_cast<int64_t>(whole_.size())));
    }
    Result<CheckpointFile> sums = file->finish(header);
    if (!sums.ok()) return sums.status();
    parts_.files[name] = std::move(*sums);
    return {};
  }

  const ForeignStates& states_;
  float updates_;
  std::string folder_;
  std::map<std::string, std::set<std::string>> files_;
  CheckpointParts parts_;
  std::vector<std::byte> whole_;
};

Status writeCheckpoint(const ForeignStates& states, const ImportOptions& options, int64_t step, int64_t updates,
                       const std::string& partial, const std::string& target) {
  Result<CheckpointParts> parts = Importer(states, updates, partial).write();
  if (!parts.ok()) return parts.status();
  CheckpointManifest manifest;
  manifest.name = "imported";
  manifest.mesh = states.kind;
  manifest.step = step;
  manifest.samples = options.samples;
  manifest.seed = options.seed;
  manifest.counters["step"] = static_cast<double>(step);
  if (updates != step) manifest.counters["applied_step"] = static_cast<double>(updates);
  manifest.parts = std::move(*parts);
  const std::string text = encodeCheckpointManifest(manifest);
  const std::string path = partial + "/" + kCheckpointManifest;
  // What could not be read again is not published.
  Result<CheckpointManifest> again = parseCheckpointManifest(text, "'" + path + "'");
  if (!again.ok()) return internalError("the checkpoint contradicts itself: " + again.status().message());
  HYCRT_RETURN_IF_ERROR(writeTextFile(path, text));
  return publishCheckpoint(partial, target, nullptr, [](const std::string&) {});
}

}  // namespace

Result<Imported> importCheckpoint(const std::string& source, const std::string& directory,
                                  const ImportOptions& options) {
  Result<ForeignStates> states = openForeignStates(source, options.names);
  if (!states.ok()) return states.status();
  HYCRT_RETURN_IF_ERROR(checkPrefix(*states, options.names));
  HYCRT_RETURN_IF_ERROR(checkSpared(options.names, *states));
  HYCRT_RETURN_IF_ERROR(takeUpdates(&*states));
  int64_t step = 0, updates = 0;
  HYCRT_RETURN_IF_ERROR(findStep(*states, options, &step, &updates));
  HYCRT_RETURN_IF_ERROR(makeDirectory(directory));
  Result<FileLock> lock = lockDirectory(directory);
  if (!lock.ok()) return lock.status();
  const std::string target = checkpointPath(directory, step), partial = partialName(target, "hyc-" + makeName());
  struct stat info;
  if (lstat(target.c_str(), &info) == 0) return ioError("'" + target + "' is there already; name another folder");
  HYCRT_RETURN_IF_ERROR(createFolder(partial));
  const Status status = writeCheckpoint(*states, options, step, updates, partial, target);
  if (!status.ok()) removeCheckpointFolder(partial);
  if (!status.ok()) return status;
  return Imported{target, states->kind, static_cast<int64_t>(states->tensors.size()), states->leftOut};
}

}  // namespace hycrt
