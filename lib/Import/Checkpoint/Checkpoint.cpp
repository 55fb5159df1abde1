// The files of a checkpoint, and their directory.
#include "hyc/Import/Checkpoint/Checkpoint.h"

#include "hyc/Support/InputFile.h"
#include "hyc/Support/LocatedJson.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace llvm;
using namespace hyc;

static constexpr StringLiteral kWhole = "model.safetensors", kIndex = "model.safetensors.index.json";
/// What transformers wrote before safetensors.
static constexpr StringLiteral kPickles[] = {"pytorch_model.bin", "pytorch_model.bin.index.json"};
static constexpr uint64_t kMaxIndexBytes = uint64_t(100) << 20;

static std::string inFolder(StringRef folder, StringRef name) {
  SmallString<128> path(folder);
  sys::path::append(path, name);
  return std::string(path);
}

static Error fail(StringRef path, const Twine &what) {
  return createStringError(inconvertibleErrorCode(), path + ": " + what);
}

bool Checkpoint::isIn(StringRef folder) {
  auto has = [&](StringRef name) { return sys::fs::exists(inFolder(folder, name)); };
  return has(kWhole) || has(kIndex) || llvm::any_of(kPickles, has);
}

Error Checkpoint::addFile(StringRef name, function_ref<bool(StringRef)> wanted) {
  Expected<std::vector<SafeTensor>> stored = readSafeTensorsHeader(inFolder(folder, name));
  if (!stored)
    return stored.takeError();
  for (SafeTensor &tensor : *stored)
    if (wanted(tensor.name)) {
      std::string key = tensor.name;
      tensors[key] = {std::move(tensor), name.str()};
    }
  return Error::success();
}

/// {"metadata": …, "weight_map": {TENSOR: FILE}}
Error Checkpoint::readIndex(StringRef name) {
  std::string index = inFolder(folder, name);
  auto buffer = openInputFile(index, kMaxIndexBytes);
  if (!buffer)
    return fail(index, "cannot be read as an index of a checkpoint: " + toString(buffer.takeError()));
  Expected<JsonValue> json = parseJson((*buffer)->getBuffer(), index);
  if (!json)
    return json.takeError();
  const JsonValue *map = json->get("weight_map");
  if (!map || !map->getObject())
    return fail(index, "has no \"weight_map\", expected an object of tensors and their files");
  StringMap<StringRef> fileOf;
  std::map<std::string, StringSet<>> wanted;
  for (const JsonValue::Member &member : *map->getObject()) {
    StringRef file = member.value.getString().value_or("");
    if (!file.ends_with(".safetensors") || file.contains('/') || file.starts_with("."))
      return locatedError(index, member.value.getPosition(),
                          "tensor \"" + member.key + "\" is in " + member.value.describe() +
                              ", expected the name of a .safetensors file in the same folder");
    wanted[file.str()].insert(member.key);
  }
  for (auto &[file, names] : wanted) {
    if (Error error = addFile(file, [&, &names = names](StringRef tensor) { return names.contains(tensor); }))
      return error;
    for (auto &tensor : names)
      if (auto found = tensors.find(tensor.getKey().str()); found == tensors.end() || found->second.file != file)
        return fail(index, "says that tensor \"" + tensor.getKey() + "\" is in '" + file + "', which does not have it");
  }
  return Error::success();
}

Expected<Checkpoint> Checkpoint::open(StringRef path) {
  Checkpoint result;
  result.path = path.str();
  std::string name;
  if (sys::fs::is_directory(path)) {
    result.folder = path.str();
    for (StringRef candidate : {kWhole, kIndex})
      if (name.empty() && sys::fs::exists(inFolder(path, candidate)))
        name = candidate.str();
    for (StringRef pickle : kPickles)
      if (name.empty() && sys::fs::exists(inFolder(path, pickle)))
        return fail(path, "has its weights in '" + pickle +
                              "', a pickle, which can run code when it is read; save the model with safetensors");
    if (name.empty())
      return fail(path, "is a folder without " + kWhole + " and without " + kIndex);
  } else {
    StringRef parent = sys::path::parent_path(path);
    result.folder = parent.empty() ? "." : parent.str();
    name = sys::path::filename(path).str();
  }
  Error error = StringRef(name).ends_with(".json") ? result.readIndex(name)
                                                   : result.addFile(name, [](StringRef) { return true; });
  if (error)
    return error;
  return result;
}
