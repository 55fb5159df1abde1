// DeepSpeed's universal checkpoint: zero/NAME/fp32.pt has a parameter, the other files of its folder what the optimizer
// keeps for it, each a dict with the whole tensor under "param"; step.pt is the number of updates.
#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/torch/foreign_states.h"

namespace hycrt {
namespace {

constexpr std::string_view kEnding = ".pt", kStepFile = "step.pt", kWeightsFile = "fp32.pt";

// Names in a folder, of folders or of files, in their order. A link is neither.
Result<std::vector<std::string>> namesIn(const std::string& folder, mode_t kind) {
  DIR* entries = opendir(folder.c_str());
  if (entries == nullptr) return errnoError("cannot read the folder '" + folder + "'", errno);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(entries)) {
    struct stat info;
    const std::string name = entry->d_name;
    if (name == "." || name == ".." || lstat((folder + "/" + name).c_str(), &info) != 0) continue;
    if ((info.st_mode & S_IFMT) == kind) names.push_back(name);
  }
  closedir(entries);
  std::sort(names.begin(), names.end());
  return names;
}

class UniversalReader {
 public:
  UniversalReader(const std::string& folder, const ForeignNames& names) : names_(names), zero_(folder + "/zero") {
    states_.kind = "DeepSpeed's universal checkpoint";
    states_.folder = folder;
    states_.key = "param";
  }

  Result<ForeignStates> read() {
    Result<std::vector<std::string>> names = namesIn(zero_, S_IFDIR);
    if (!names.ok()) return names.status();
    for (const std::string& name : *names) {
      if (!isTensorName(name)) return dataError("'" + zero_ + "': a folder's name is no tensor's");
      HYCRT_RETURN_IF_ERROR(readFolder(name));
    }
    if (!states_.tensors.empty()) return std::move(states_);
    return dataError("'" + zero_ + "' holds no parameters, expected folders with fp32.pt");
  }

 private:
  Status readFolder(const std::string& name) {
    const std::string folder = zero_ + "/" + name;
    const std::string& begin = names_.weights;
    if (name.compare(0, begin.size(), begin) != 0 || name.size() == begin.size()) {
      return dataError("'" + folder + "': does not begin with '" + begin + "' (--weights-prefix)");
    }
    const std::string own = name.substr(begin.size());
    if (names_.leavesOut(own, &states_)) {
      ++states_.leftOut;
      return {};
    }
    Result<std::vector<std::string>> files = namesIn(folder, S_IFREG);
    if (!files.ok()) return files.status();
    if (std::find(files->begin(), files->end(), kWeightsFile) == files->end()) {
      return dataError("'" + folder + "' has no fp32.pt");
    }
    for (const std::string& file : *files) {
      if (file.size() <= kEnding.size() || file.substr(file.size() - kEnding.size()) != kEnding) continue;
      const std::string key = file.substr(0, file.size() - kEnding.size());
      HYCRT_RETURN_IF_ERROR(file == kStepFile      ? readStep(folder, own)
                            : file == kWeightsFile ? readTensor(folder, file, own)
                                                   : readTensor(folder, file, "optimizer.state." + own + "." + key));
    }
    return {};
  }

  static Result<TorchFile> open(const FileDescriptor& file, const std::string& path, int64_t* bytes) {
    Result<int64_t> size = fileSize(file, path);
    if (!size.ok()) return size.status();
    *bytes = *size;
    return TorchFile::open(file, path, 0, *size);
  }

  Status readTensor(const std::string& folder, const std::string& name, const std::string& own) {
    const std::string path = folder + "/" + name;
    Result<FileDescriptor> file = openCheckpointFile(folder, name);
    if (!file.ok()) return file.status();
    ForeignPart part;
    Result<TorchFile> archive = open(*file, path, &part.bytes);
    if (!archive.ok()) return archive.status();
    const Pickle& pickle = archive->pickle();
    const std::optional<Pickle::Value> value = pickle.find(pickle.root(), states_.key);
    if (!value) return dataError("'" + path + "': has no '" + states_.key + "'");
    Result<TorchTensor> tensor = archive->tensorOf(*value);
    if (!tensor.ok()) return tensor.status();
    part.folder = folder, part.file = name;
    part.box.size = part.box.offset = tensor->shape;
    for (int dim = 0; dim < tensor->shape.size; ++dim) part.box.offset.items[dim] = 0;
    states_.tensors[own] = {tensor->dtype, tensor->shape, {std::move(part)}};
    return {};
  }

  // A number, or a tensor that is one.
  Status readStep(const std::string& folder, const std::string& own) {
    const std::string path = folder + "/" + std::string(kStepFile);
    Result<FileDescriptor> file = openCheckpointFile(folder, std::string(kStepFile));
    if (!file.ok()) return file.status();
    int64_t bytes = 0;
    Result<TorchFile> archive = open(*file, path, &bytes);
    if (!archive.ok()) return archive.status();
    const Pickle& pickle = archive->pickle();
    Result<int64_t> count = 0;
    if (const std::optional<double> number = pickle.realOf(pickle.root())) {
      count = wholeUpdates(*number, "'" + path + "'");
    } else {
      Result<TorchTensor> tensor = archive->tensorOf(pickle.root());
      if (!tensor.ok()) return tensor.status();
      std::vector<std::byte> elements;
      HYCRT_RETURN_IF_ERROR(archive->read(*tensor, &elements));
      count = updatesIn(tensor->dtype, elements, "'" + path + "'");
    }
    if (count.ok()) states_.updates.emplace(*count, own);
    return count.ok() ? Status() : count.status();
  }

  const ForeignNames& names_;
  std::string zero_;
  ForeignStates states_;
};

}  // namespace

Result<ForeignStates> openUniversalCheckpoint(const std::string& folder, const ForeignNames& names) {
  return UniversalReader(folder, names).read();
}

}  // namespace hycrt
