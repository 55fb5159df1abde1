// Which chunks a rank needs, reading them by many threads, and handing out their elements.
#include "checkpoint/state_reader.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "base/crc32c.h"
#include "base/nearest.h"
#include "base/work_by_threads.h"
#include "checkpoint/state_names.h"
#include "io/float_convert.h"

namespace hycrt {
namespace {

constexpr size_t kMostTold = 16;  // tensors of an error

std::string textOf(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

bool fits(DType held, DType wanted) { return held == wanted || canConvert(held, wanted); }

// One slice of a tensor for one window of a state.
struct Want {
  const StateDesc* state;
  const ShardLayout* layout;
  StateWindow window;
  const std::string* tensor;
  const CheckpointSlice* slice;
  DType dtype;  // of the file
  BoxRows rows;
  int64_t firstGlobal;  // of the window

  int64_t elementBytes() const { return sizeOf(dtype); }
};

struct Use {
  const std::string* file;
  int64_t chunk;
  size_t want;
};

class ChunkReader {
 public:
  explicit ChunkReader(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  // `layout` and the window's memory last until the next read.
  void add(const StateDesc& state, const ShardLayout& layout, const StateWindow& window, const std::string& name,
           const CheckpointTensor& tensor) {
    int64_t first = -1;
    layout.forEachRunFrom(window.begin, [&](const ElementRun& whole) {
      if (const std::optional<ElementRun> run = window.clip(whole)) first = run->global;
      return false;
    });
    if (first < 0) return;  // padding
    layout.forEachRunFrom(window.begin, [&](const ElementRun& whole) {
      const std::optional<ElementRun> run = window.clip(whole);
      if (run) expected_ += run->count;
      return run.has_value();
    });
    for (const CheckpointSlice& slice : tensor.slices) {
      wants_.push_back({&state, &layout, window, &name, &slice, tensor.dtype, BoxRows(slice.box, tensor.shape), first});
    }
  }

  Status read() {
    std::vector<Use> uses;
    for (size_t i = 0; i < wants_.size(); ++i) findUses(i, &uses);
    std::stable_sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) {
      return *a.file != *b.file ? *a.file < *b.file : a.chunk < b.chunk;
    });
    HYCRT_RETURN_IF_ERROR(readUses(uses));
    const bool isWhole = filled_ == expected_;
    const std::string tensor = wants_.empty() ? "" : *wants_.front().tensor;
    wants_.clear();
    filled_ = expected_ = 0;
    if (isWhole) return {};
    return dataError("'" + checkpoint_.folder + "': slices of '" + tensor + "' or what is read with it overlap");
  }

 private:
  // The first element of the slice at `element` or behind it that the window has; -1: none.
  static int64_t nextElement(const Want& want, int64_t element) {
    while (element < want.rows.elements()) {
      const BoxRow row = want.rows.rowFrom(element);
      const int64_t from = std::max(row.global, want.firstGlobal), end = row.global + row.count;
      if (from < end) {
        int64_t found = -1;
        want.layout->forEachRunFromGlobal(from, [&](const ElementRun& whole) {
          const std::optional<ElementRun> run = want.window.clip(whole);
          if (!run || run->global >= end) return false;
          if (run->global + run->count <= from) return true;  // its flat shard ends before
          found = row.element + std::max(run->global, from) - row.global;
          return false;
        });
        if (found >= 0) return found;
      }
      element += row.count;
    }
    return -1;
  }

  void findUses(size_t index, std::vector<Use>* uses) const {
    const Want& want = wants_[index];
    const int64_t size = want.elementBytes();
    for (int64_t element = nextElement(want, 0); element >= 0;) {
      const int64_t chunk = (want.slice->byte + element * size) / kChunkBytes;
      uses->push_back({&want.slice->file, chunk, index});
      element = nextElement(want, ((chunk + 1) * kChunkBytes - want.slice->byte) / size);
    }
  }

  Status readUses(const std::vector<Use>& uses) {
    std::vector<std::pair<size_t, size_t>> units;  // ranges of uses of one chunk
    for (size_t i = 0; i < uses.size(); ++i) {
      const bool isNew = i == 0 || *uses[i].file != *uses[i - 1].file || uses[i].chunk != uses[i - 1].chunk;
      isNew ? units.emplace_back(i, i + 1) : std::pair<size_t, size_t>(units.back().second = i + 1, 0);
      if (isNew) HYCRT_RETURN_IF_ERROR(open(*uses[i].file));
    }
    return forEachPiece(units.size(), 2 * static_cast<size_t>(omp_get_max_threads()), "reading a checkpoint",
                        [&](size_t i, std::vector<std::byte>* staging) { return readUnit(uses, units[i], staging); });
  }

  Status open(const std::string& name) {
    if (files_.count(name)) return {};
    Result<FileDescriptor> file = openFileOf(checkpoint_, name);
    if (!file.ok()) return file.status();
    files_.emplace(name, std::move(*file));
    return {};
  }

  Status readUnit(const std::vector<Use>& uses, const std::pair<size_t, size_t>& unit,
                  std::vector<std::byte>* staging) {
    const std::string& name = *uses[unit.first].file;
    const std::string path = checkpoint_.folder + "/" + name;
    const FileSums& sums = checkpoint_.manifest.parts.files.at(name).sums;
    const int64_t chunk = uses[unit.first].chunk, begin = chunk * kChunkBytes;
    const int64_t end = std::min(begin + kChunkBytes, sums.bytes);
    staging->resize(static_cast<size_t>(end - begin));
    HYCRT_RETURN_IF_ERROR(readAt(files_.at(name), path, staging->data(), end - begin, begin));
    if (crc32c(0, staging->data(), staging->size()) != sums.chunks[static_cast<size_t>(chunk)]) {
      return dataError("'" + path + "': bytes [" + std::to_string(begin) + ", " + std::to_string(end) + ") with " +
                       tensorsIn(checkpoint_.manifest, name, begin, end) +
                       " are not what was written (CRC32C); resume from another checkpoint");
    }
    for (size_t i = unit.first; i < unit.second; ++i) take(wants_[uses[i].want], begin, end, staging->data());
    return {};
  }

  // Slices begin at multiples of their elements' size, and so do chunks: none is cut.
  void take(const Want& want, int64_t begin, int64_t end, const std::byte* from) {
    const int64_t size = want.elementBytes(), byte = want.slice->byte;
    const int64_t last = std::min(want.rows.elements(), (end - byte) / size);
    int64_t element = nextElement(want, std::max<int64_t>(0, (begin - byte) / size));
    while (element >= 0 && element < last) {
      const BoxRow row = want.rows.rowFrom(element);
      const int64_t rowEnd = row.global + std::min(row.count, last - element);
      want.layout->forEachRunFromGlobal(std::max(row.global, want.firstGlobal), [&](const ElementRun& whole) {
        const std::optional<ElementRun> run = want.window.clip(whole);
        if (!run || run->global >= rowEnd) return false;
        const int64_t first = std::max(run->global, row.global);
        const int64_t count = std::min(run->global + run->count, rowEnd) - first;
        if (count <= 0) return true;  // its flat shard ends before
        put(want, run->local + (first - run->global), count,
            from + (byte + (element + first - row.global) * size - begin));
        filled_ += count;
        return true;
      });
      element = nextElement(want, element + (rowEnd - row.global));
    }
  }

  static void put(const Want& want, int64_t local, int64_t count, const std::byte* from) {
    const DType type = want.state->dtype;
    std::byte* const to = want.window.memory + (local - want.window.begin) * sizeOf(type);
    if (want.dtype != type) return convertFloats(from, want.dtype, to, type, count);
    std::memcpy(to, from, static_cast<size_t>(count * sizeOf(type)));
  }

  const Checkpoint& checkpoint_;
  std::map<std::string, FileDescriptor> files_;
  std::vector<Want> wants_;
  int64_t expected_ = 0;
  std::atomic<int64_t> filled_{0};
};

std::vector<int64_t> listOf(const Shape& shape) { return {shape.begin(), shape.end()}; }

std::string nearestOf(const std::string& name, const std::vector<std::string>& names) {
  const std::string found = nearest(name, names);
  return found.empty() ? "" : " (the nearest is '" + found + "')";
}

// What an optimizer keeps of parameters, as in "exp_avg, exp_avg_sq"; nothing where one of the tensors is no such
// state.
std::optional<std::string> statesIn(const std::vector<std::string>& tensors) {
  std::set<std::string> keys;
  for (const std::string& tensor : tensors) {
    const std::optional<StateName> name = splitStateName(tensor);
    if (!name || name->key.empty()) return std::nullopt;
    keys.insert(name->key);
  }
  std::string text;
  for (const std::string& key : keys) text += (text.empty() ? "" : ", ") + key;
  return text.empty() ? "none" : text;
}

constexpr char kFromWeights[] =
    "; to start from its weights alone, export them (hyc-checkpoint export) and compile with --weights";

// Where all that differs is which states there are of parameters: another optimizer's. Else ok.
Status checkKeptStates(const std::vector<std::string>& unknown, const std::vector<std::string>& missing,
                       const std::string& folder) {
  const std::optional<std::string> had = statesIn(unknown), wanted = statesIn(missing);
  if (!had || !wanted || *had == *wanted) return {};
  return dataError("'" + folder + "' was trained by another optimizer: of parameters it has kept " + *had +
                   " that this program does not, and this one wants " + *wanted + kFromWeights);
}

}  // namespace

Status checkTensors(const CheckpointTensors& wanted, const Checkpoint& checkpoint) {
  const auto& held = checkpoint.manifest.parts.tensors;
  std::vector<std::string> heldNames, wantedNames, faults;
  for (const auto& [name, tensor] : held) {
    if (!wanted.rows.count(name) && !isOptionalTensor(name)) heldNames.push_back(name);
  }
  for (const auto& [name, row] : wanted.rows) {
    if (!held.count(name) && !row.isOptional) wantedNames.push_back(name);
  }
  for (const auto& [name, row] : wanted.rows) {
    const auto found = held.find(name);
    if (found == held.end()) {
      if (!row.isOptional) faults.push_back("'" + name + "' is missing" + nearestOf(name, heldNames));
      continue;
    }
    const std::vector<int64_t> shape = listOf(found->second.shape);
    if (shape != row.shape) {
      faults.push_back("'" + name + "' is " + textOf(shape) + ", expected " + textOf(row.shape));
    } else if (!fits(found->second.dtype, row.dtype)) {
      faults.push_back("'" + name + "' is " + nameOf(found->second.dtype) + ", expected " + nameOf(row.dtype));
    }
  }
  for (const std::string& name : heldNames) {
    faults.push_back("'" + name + "' is nothing that the programs keep" + nearestOf(name, wantedNames));
  }
  if (faults.empty()) return {};
  if (faults.size() == heldNames.size() + wantedNames.size()) {
    HYCRT_RETURN_IF_ERROR(checkKeptStates(heldNames, wantedNames, checkpoint.folder));
  }
  std::string text;
  for (size_t i = 0; i < std::min(faults.size(), kMostTold); ++i) text += (i > 0 ? "; " : "") + faults[i];
  if (faults.size() > kMostTold) text += "; and " + std::to_string(faults.size() - kMostTold) + " more";
  return dataError("'" + checkpoint.folder + "' is no checkpoint of this model and optimizer: " + text + kFromWeights);
}

Status readStates(const Context& ctx, const Checkpoint& checkpoint, std::vector<bool>* filled) {
  ChunkReader reader(checkpoint);
  std::vector<std::unique_ptr<ShardLayout>> layouts;
  filled->assign(static_cast<size_t>(ctx.program().states.size), false);
  for (int64_t i = 0; i < ctx.program().states.size; ++i) {
    const StateDesc& state = ctx.program().states[i];
    const Keeping keeping = keepingOf(state.role);
    if (keeping == Keeping::kCounter || keeping == Keeping::kRemade || keeping == Keeping::kNothing) continue;
    const auto found = checkpoint.manifest.parts.tensors.find(checkpointName(state.name, state.role));
    if (found == checkpoint.manifest.parts.tensors.end())
      continue;  // an optional one: the others are known to be there
    (*filled)[static_cast<size_t>(i)] = true;
    layouts.push_back(std::make_unique<ShardLayout>(state, ctx.mesh(), ctx.at()));
    const bool isInMemory = ctx.arena(state.buffer.arena) != nullptr;
    HYCRT_RETURN_IF_ERROR(
        forEachWindow(state, {ctx.arenas(), ctx.file()}, WindowUse::kFill, [&](const StateWindow& window) -> Status {
          reader.add(state, *layouts.back(), window, found->first, found->second);
          return isInMemory ? Status() : reader.read();  // the window's memory is the next one's too
        }));
  }
  return reader.read();
}

void setCounters(const Context& ctx, const CheckpointManifest& manifest) {
  const auto& counters = manifest.counters;
  const auto& states = ctx.program().states;
  const bool countsSkipped = std::any_of(states.begin(), states.end(), [](const StateDesc& state) {
    return std::strcmp(state.role, "applied_step") == 0;
  });
  for (const StateDesc& state : ctx.program().states) {
    if (keepingOf(state.role) != Keeping::kCounter || !ctx.arena(state.buffer.arena)) continue;
    auto found = counters.find(state.role);
    // Of a run that skipped nothing, or one that keeps no count of it: as many steps as there were updates.
    if (std::strcmp(state.role, "applied_step") == 0 && found == counters.end()) found = counters.find("step");
    if (std::strcmp(state.role, "step") == 0 && !countsSkipped && counters.count("applied_step")) {
      found = counters.find("applied_step");
    }
    if (found == counters.end()) continue;
    if (state.dtype == DType::kI64) *ctx.ptr<int64_t>(state.buffer) = static_cast<int64_t>(found->second);
    if (state.dtype == DType::kF32) *ctx.ptr<float>(state.buffer) = static_cast<float>(found->second);
  }
}

}  // namespace hycrt
