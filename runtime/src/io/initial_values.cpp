// Filling a rank's part of every state before the first step.
#include "io/initial_values.h"

#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "hycrt/philox.h"
#include "io/rule_values.h"
#include "io/state_layout.h"
#include "io/state_window.h"
#include "io/weight_parts.h"
#include "io/weight_reader.h"
#include "kernels/narrow_float.h"

namespace hycrt {
namespace {

using hyc::kernels::Bf16;
using hyc::kernels::F16;

bool isNarrow(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

void roundFromF32(const float* from, DType toType, std::byte* to, int64_t count) {
  if (toType == DType::kBF16) {
    for (int64_t i = 0; i < count; ++i) reinterpret_cast<Bf16*>(to)[i] = Bf16(from[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) reinterpret_cast<F16*>(to)[i] = F16(from[i]);
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

 private:
  std::byte* addressOf(const ElementRun& run) const {
    return window_.memory + (run.local - window_.begin) * sizeOf(state_.dtype);
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

// What reading took, and each of its threads kept for itself, is not part of what training needs.
static void returnFreedMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

Status initializeStates(const Program& program, const Coordinates& at, uint64_t seed,
                        const std::vector<ModelFile>& modelFiles, const ArenaBases& arenas,
                        const std::vector<bool>& filled) {
  WeightReader reader(modelFiles);
  WeightParts parts({program.mesh, at, seed, modelFiles, arenas});
  std::vector<std::unique_ptr<ShardLayout>> layouts;  // of what is read
  for (int64_t i = 0; i < program.states.size; ++i) {
    const StateDesc& state = program.states[i];
    const bool isFilled = !filled.empty() && filled[static_cast<size_t>(i)];
    if (isFilled) continue;
    if (state.init.part != WeightPart::kWhole) {
      parts.add(state);
      continue;
    }
    if (state.init.kind == InitKind::kZeros) continue;
    auto layout = std::make_unique<ShardLayout>(state, program.mesh, at);
    const bool isRead = state.init.kind == InitKind::kFile, isInMemory = arenas.memory[state.buffer.arena] != nullptr;
    HYCRT_RETURN_IF_ERROR(forEachWindow(state, arenas, WindowUse::kFill, [&](const StateWindow& window) -> Status {
      if (!isRead) {
        Initialization(state, *layout, window).byRule(seed);
        return {};
      }
      HYCRT_RETURN_IF_ERROR(reader.add(state, *layout, window));
      return isInMemory ? Status() : reader.read();  // the window's memory is the next one's too
    }));
    if (isRead && isInMemory) layouts.push_back(std::move(layout));
  }
  HYCRT_RETURN_IF_ERROR(reader.read());
  HYCRT_RETURN_IF_ERROR(parts.fill());
  returnFreedMemory();
  return {};
}

}  // namespace hycrt
