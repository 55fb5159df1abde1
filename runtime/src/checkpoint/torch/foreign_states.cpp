// Which kind a folder is, and tensors put together.
#include "checkpoint/torch/foreign_states.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/nearest.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/state_names.h"
#include "io/float_convert.h"
#include "io/text_check.h"

namespace hycrt {
namespace {

constexpr size_t kMostNameBytes = 4096;
constexpr double kMostUpdates = 9007199254740992;  // 2^53

bool isThere(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0;
}

// The tensor of a part's archive, whose sizes have to be those that were told.
Status readPart(const ForeignStates& states, const std::string& name, const ForeignTensor& tensor,
                const ForeignPart& part, std::vector<std::byte>* elements) {
  const std::string path = part.folder + "/" + part.file;
  Result<FileDescriptor> file = openCheckpointFile(part.folder, part.file);
  if (!file.ok()) return file.status();
  Result<TorchFile> archive = TorchFile::open(*file, path, part.begin, part.bytes);
  if (!archive.ok()) return archive.status();
  const Pickle& pickle = archive->pickle();
  const std::optional<Pickle::Value> value =
      states.key.empty() ? pickle.root() : pickle.find(pickle.root(), states.key);
  if (!value) return dataError("'" + path + "': has no '" + states.key + "'");
  Result<TorchTensor> held = archive->tensorOf(*value);
  if (!held.ok()) return held.status();
  const Shape& size = part.box.size;
  if (held->dtype != tensor.dtype || !std::equal(size.begin(), size.end(), held->shape.begin(), held->shape.end())) {
    return dataError("'" + path + "': the part of '" + name + "' at byte " + std::to_string(part.begin) +
                     " has another type or shape than its checkpoint tells");
  }
  return archive->read(*held, elements);
}

}  // namespace

Result<int64_t> wholeUpdates(double number, const std::string& label) {
  if (number >= 0 && number <= kMostUpdates && number == std::floor(number)) return static_cast<int64_t>(number);
  return dataError(label + ": found " + std::to_string(number) + ", expected a number of updates");
}

Result<int64_t> updatesIn(DType dtype, const std::vector<std::byte>& bytes, const std::string& label) {
  float number = 0;
  int64_t whole = 0;
  int32_t half = 0;
  if (static_cast<int64_t>(bytes.size()) != sizeOf(dtype)) return dataError(label + ": expected one number");
  if (dtype == DType::kI64) {
    std::memcpy(&whole, bytes.data(), sizeof whole);
    return wholeUpdates(static_cast<double>(whole), label);
  }
  if (dtype == DType::kI32) {
    std::memcpy(&half, bytes.data(), sizeof half);
    return wholeUpdates(half, label);
  }
  if (!canConvert(dtype, DType::kF32)) return dataError(label + ": is " + nameOf(dtype) + ", expected a number");
  if (dtype == DType::kF32) {
    std::memcpy(&number, bytes.data(), sizeof number);
  } else {
    convertFloats(bytes.data(), dtype, reinterpret_cast<std::byte*>(&number), DType::kF32, 1);
  }
  return wholeUpdates(number, label);
}

bool isTensorName(const std::string& name) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(name.data());
  return !name.empty() && name.size() <= kMostNameBytes && checkText(bytes, name.size()).valid == name.size() &&
         std::none_of(bytes, bytes + name.size(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

bool ForeignNames::leavesOut(const std::string& tensor, ForeignStates* states) const {
  const std::optional<StateName> name = splitStateName(tensor);
  const auto found = std::find_if(without.begin(), without.end(), [&](const std::string& spared) {
    return spared == tensor || (name && spared == name->parameter);
  });
  if (found == without.end()) return false;
  states->spared.insert(*found);
  return true;
}

// What was to be left out has to be there: else it is a slip, and what was meant is taken.
Status checkSpared(const ForeignNames& names, const ForeignStates& states) {
  for (const std::string& name : names.without) {
    if (states.spared.count(name)) continue;
    std::vector<std::string> known;
    for (const auto& [tensor, facts] : states.tensors) known.push_back(tensor);
    return dataError("'" + states.folder + "' has no '" + name + "', which --without names; the nearest is '" +
                     nearest(name, known) + "'");
  }
  return {};
}

Result<ForeignStates> openForeignStates(const std::string& folder, const ForeignNames& names) {
  if (isThere(folder + "/.metadata")) return openDistributedCheckpoint(folder, names);
  if (isThere(folder + "/zero")) return openUniversalCheckpoint(folder, names);
  if (!isThere(folder)) return ioError("'" + folder + "' is not there");
  std::string found = "is no checkpoint that can be imported";
  std::string way = "expected PyTorch's (.metadata) or DeepSpeed's universal one (zero/)";
  if (isThere(folder + "/model.safetensors") || isThere(folder + "/model.safetensors.index.json")) {
    found = "has weights alone";
    way = "start from them with hyc-compile --weights '" + folder + "'";
  } else if (isThere(folder + "/latest") || isThere(folder + "/mp_rank_00_model_states.pt")) {
    found = "is a checkpoint of DeepSpeed's that is not universal";
    way = "convert it with python3 -m deepspeed.checkpoint.ds_to_universal --input_folder STEP --output_folder OUT";
  } else if (struct stat info; stat(folder.c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
    found = "is a file";
    way = "of torch.save: convert it with python3 -m torch.distributed.checkpoint.format_utils torch_to_dcp FILE OUT";
  } else if (isCheckpoint(folder)) {
    found = "is a checkpoint of hyc-run's";
    way = "resume it as it is";
  }
  return dataError("'" + folder + "' " + found + "; " + way);
}

Status readForeignTensor(const ForeignStates& states, const std::string& name, std::vector<std::byte>* whole) {
  const ForeignTensor& tensor = states.tensors.at(name);
  if (tensor.parts.size() == 1) return readPart(states, name, tensor, tensor.parts[0], whole);
  const int64_t size = sizeOf(tensor.dtype), elements = elementCount(tensor.shape);
  whole->assign(static_cast<size_t>(elements * size), std::byte{0});
  std::vector<bool> isFilled(static_cast<size_t>(elements));
  std::vector<std::byte> part;
  for (const ForeignPart& own : tensor.parts) {
    HYCRT_RETURN_IF_ERROR(readPart(states, name, tensor, own, &part));
    const BoxRows rows(own.box, tensor.shape);
    for (int64_t element = 0; element < rows.elements();) {
      const BoxRow row = rows.rowFrom(element);
      const auto begin = isFilled.begin() + row.global, end = begin + row.count;
      if (std::find(begin, end, true) != end)
        return dataError("'" + states.folder + "': parts of '" + name + "' overlap");
      std::fill(begin, end, true);
      std::memcpy(whole->data() + row.global * size, part.data() + element * size,
                  static_cast<size_t>(row.count * size));
      element += row.count;
    }
  }
  return {};
}

}  // namespace hycrt
