#include "io/initial_values.h"

#include <algorithm>
#include <cstring>

#include "hycrt/philox.h"
#include "io/file.h"
#include "io/state_layout.h"
#include "io/state_window.h"
#include "kernels/narrow_float.h"

namespace hycrt {
namespace {

using hyc::kernels::Bf16;
using hyc::kernels::F16;

bool isNarrow(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

template <typename T>
void convertElements(const std::byte* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * int64_t{sizeof(T)}, sizeof value);
    to[i] = value;
  }
}

void convertToF32(const std::byte* from, DType fromType, float* to, int64_t count) {
  if (fromType == DType::kBF16) {
    convertElements<Bf16>(from, to, count);
  } else if (fromType == DType::kF16) {
    convertElements<F16>(from, to, count);
  } else if (fromType == DType::kF64) {
    for (int64_t i = 0; i < count; ++i) {
      double value;
      std::memcpy(&value, from + i * 8, sizeof value);
      to[i] = static_cast<float>(value);
    }
  } else {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  }
}

void roundFromF32(const float* from, DType toType, std::byte* to, int64_t count) {
  if (toType == DType::kBF16) {
    for (int64_t i = 0; i < count; ++i) reinterpret_cast<Bf16*>(to)[i] = Bf16(from[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) reinterpret_cast<F16*>(to)[i] = F16(from[i]);
  }
}

// Elements [global, global + count) of the rule's stream.
template <typename T>
void fillByRule(const Initializer& init, const PhiloxStream& stream, T* to, int64_t global, int64_t count) {
  if (init.kind == InitKind::kConstant) {
    std::fill(to, to + count, static_cast<T>(init.first));
    return;
  }
  const int64_t firstBlock = global / 4, lastBlock = (global + count - 1) / 4;
#pragma omp parallel for schedule(static) if (count > 65536)
  for (int64_t block = firstBlock; block <= lastBlock; ++block) {
    const std::array<float, 4> values = init.kind == InitKind::kNormal ? stream.normals(static_cast<uint64_t>(block))
                                                                       : stream.uniforms(static_cast<uint64_t>(block));
    const double scale = init.kind == InitKind::kNormal ? init.second : init.second - init.first;
    for (int64_t element = std::max(block * 4, global); element < std::min(block * 4 + 4, global + count); ++element) {
      to[element - global] = static_cast<T>(init.first + scale * static_cast<double>(values[element % 4]));
    }
  }
}

class Initialization {
 public:
  Initialization(const StateDesc& state, const ShardLayout& layout, const StateWindow& window)
      : state_(state), layout_(layout), window_(window) {}

  void byRule(uint64_t seed) {
    const PhiloxStream stream(seed, state_.init.key);
    layout_.forEachRun([&](const ElementRun& whole) {
      const std::optional<ElementRun> run = window_.clip(whole);
      if (!run) return true;
      if (state_.dtype == DType::kF64) {
        fillByRule(state_.init, stream, reinterpret_cast<double*>(addressOf(*run)), run->global, run->count);
      } else if (state_.dtype == DType::kI64) {
        fillByRule(state_.init, stream, reinterpret_cast<int64_t*>(addressOf(*run)), run->global, run->count);
      } else if (isNarrow(state_.dtype)) {
        // Rules do not fail.
        (void)inChunks(*run, [&](int64_t done, int64_t count, float* to) {
          fillByRule(state_.init, stream, to, run->global + done, count);
          return Status();
        });
      } else {
        fillByRule(state_.init, stream, reinterpret_cast<float*>(addressOf(*run)), run->global, run->count);
      }
      return true;
    });
  }

  Status fromFile(const FileDescriptor& file, const std::string& path, int64_t fileBytes) {
    const int64_t elementBytes = sizeOf(state_.init.fileDType);
    const int64_t bytes = elementCount(state_.global) * elementBytes;  // the product was checked with the tables
    const int64_t begin = state_.init.fileOffset;
    if (begin < 0 || bytes > fileBytes || begin > fileBytes - bytes) {
      return dataError("'" + path + "': " + state_.name + " should lie at bytes [" + std::to_string(begin) + ", " +
                       std::to_string(begin) + " + " + std::to_string(bytes) + "), but the file has " +
                       std::to_string(fileBytes));
    }
    Status status;
    std::vector<std::byte> staging;
    layout_.forEachRun([&](const ElementRun& whole) {
      const std::optional<ElementRun> run = window_.clip(whole);
      if (run) status = readRun(file, path, *run, begin + run->global * elementBytes, &staging);
      return status.ok();
    });
    return status;
  }

 private:
  std::byte* addressOf(const ElementRun& run) const {
    return window_.memory + (run.local - window_.begin) * sizeOf(state_.dtype);
  }

  Status readRun(const FileDescriptor& file, const std::string& path, const ElementRun& run, int64_t offset,
                 std::vector<std::byte>* staging) {
    const DType from = state_.init.fileDType;
    if (from == state_.dtype) {
      return readAt(file, path, addressOf(run), run.count * sizeOf(from), offset);
    }
    return inChunks(run, [&](int64_t done, int64_t count, float* to) -> Status {
      staging->resize(static_cast<size_t>(count * sizeOf(from)));
      HYCRT_RETURN_IF_ERROR(readAt(file, path, staging->data(), count * sizeOf(from), offset + done * sizeOf(from)));
      convertToF32(staging->data(), from, to, count);
      return {};
    });
  }

  // Has `make(done, count, float* to)` make the run's values piece by piece: in place, or on their way to 16 bits.
  template <typename Make>
  Status inChunks(const ElementRun& run, Make make) {
    constexpr int64_t kChunk = 1 << 16;
    std::vector<float> wide(isNarrow(state_.dtype) ? static_cast<size_t>(std::min(kChunk, run.count)) : 0);
    for (int64_t done = 0; done < run.count; done += kChunk) {
      const int64_t count = std::min(kChunk, run.count - done);
      std::byte* place = addressOf(run) + done * sizeOf(state_.dtype);
      HYCRT_RETURN_IF_ERROR(make(done, count, wide.empty() ? reinterpret_cast<float*>(place) : wide.data()));
      if (!wide.empty()) roundFromF32(wide.data(), state_.dtype, place, count);
    }
    return {};
  }

  const StateDesc& state_;
  const ShardLayout& layout_;
  const StateWindow window_;
};

struct OpenFile {
  FileDescriptor file;
  int64_t bytes = 0;
};

}  // namespace

void clearStates(const Program& program, std::byte* const* arenas) {
  for (const StateDesc& state : program.states) {
    // A step's first micro-batch overwrites gradients; of a flat shard the padding has to be zeros all the same.
    const bool isOverwritten = std::strcmp(state.role, "gradient") == 0 && state.storage != FlatStorage::kShard;
    if (!arenas[state.buffer.arena] || isOverwritten) continue;
    std::memset(arenas[state.buffer.arena] + state.buffer.offset, 0,
                static_cast<size_t>(heldElements(state) * sizeOf(state.dtype)));
  }
}

Status initializeStates(const Program& program, const Coordinates& at, uint64_t seed,
                        const std::vector<std::string>& modelFiles, const ArenaBases& arenas) {
  std::vector<OpenFile> files(modelFiles.size());
  for (const StateDesc& state : program.states) {
    if (state.init.kind == InitKind::kZeros) continue;
    const ShardLayout layout(state, program.mesh, at);
    if (state.init.kind != InitKind::kFile) {
      HYCRT_RETURN_IF_ERROR(forEachWindow(state, arenas, WindowUse::kFill, [&](const StateWindow& window) -> Status {
        Initialization(state, layout, window).byRule(seed);
        return {};
      }));
      continue;
    }
    const size_t index = static_cast<size_t>(state.init.file);  // in range: checked against the manifest
    OpenFile& open = files[index];
    if (!open.file.isOpen()) {
      Result<FileDescriptor> file = openForReading(modelFiles[index]);
      if (!file.ok()) return file.status();
      Result<int64_t> bytes = fileSize(*file, modelFiles[index]);
      if (!bytes.ok()) return bytes.status();
      open = {std::move(*file), *bytes};
    }
    HYCRT_RETURN_IF_ERROR(forEachWindow(state, arenas, WindowUse::kFill, [&](const StateWindow& window) {
      return Initialization(state, layout, window).fromFile(open.file, modelFiles[index], open.bytes);
    }));
  }
  return {};
}

}  // namespace hycrt
