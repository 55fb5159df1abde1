// Measuring weights, and coding this rank's part of them.
#include "io/weight_parts.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <string>

#include "io/float_convert.h"
#include "io/rule_values.h"
#include "io/state_layout.h"
#include "io/weight_reader.h"
#include "kernels/dequantize/codes.h"
#include "kernels/exact_squares.h"

namespace hycrt {
namespace {

namespace codes = hyc::kernels;

bool isNf4(WeightPart part) {
  return (part >= WeightPart::kNf4Codes && part <= WeightPart::kNf4Mean) || part == WeightPart::kNf4RowNorms;
}
// Whether what it is made of are the weight's own values.
bool isPlain(WeightPart part) { return part == WeightPart::kRowNorms; }
bool isCodes(WeightPart part) { return part == WeightPart::kInt8Codes || part == WeightPart::kNf4Codes; }

// The greatest magnitude of each block, which several threads raise. Magnitudes are never negative, so that their bits
// compare as they do; what is no number is greater than all that are.
class Greatest {
 public:
  explicit Greatest(size_t blocks) : bits_(blocks) {}

  void raise(int64_t block, float magnitude) {
    uint32_t bits;
    std::memcpy(&bits, &magnitude, sizeof bits);
    std::atomic<uint32_t>& shared = bits_[static_cast<size_t>(block)];
    uint32_t known = shared.load(std::memory_order_relaxed);
    while (bits > known && !shared.compare_exchange_weak(known, bits, std::memory_order_relaxed)) {
    }
  }

  std::vector<float> take() const {
    std::vector<float> values(bits_.size());
    for (size_t i = 0; i < bits_.size(); ++i) {
      const uint32_t bits = bits_[i].load(std::memory_order_relaxed);
      std::memcpy(&values[i], &bits, sizeof bits);
    }
    return values;
  }

 private:
  std::vector<std::atomic<uint32_t>> bits_;  // zeros at first
};

class Weight {
 public:
  Weight(const WeightParts::Place& place, const std::vector<const StateDesc*>& states)
      : place_(place), states_(states), init_(states.front()->init), isNf4_(isNf4(init_.part)) {}

  Status fill() {
    if (!isPlain(init_.part)) HYCRT_RETURN_IF_ERROR(measureBlocks());
    if (isNf4_) {
      const auto blocks = static_cast<int64_t>(absmax_.size());
      absmaxCodes_.resize(absmax_.size());
      scales_.resize(static_cast<size_t>(codes::nf4Groups(blocks)));
      codes::quantizeAbsmax(absmax_.data(), blocks, absmaxCodes_.data(), scales_.data(), &mean_);
    }
    const auto isOfNorms = [](const StateDesc* state) { return isNorms(state->init.part); };
    if (std::any_of(states_.begin(), states_.end(), isOfNorms)) HYCRT_RETURN_IF_ERROR(measureNorms());
    for (const StateDesc* state : states_) HYCRT_RETURN_IF_ERROR(fillState(*state));
    return {};
  }

 private:
  int64_t block() const { return isNf4_ ? codes::kNf4Block : init_.inputs; }
  // Of an element, as it is stored, its number in the matrix of outputs × inputs.
  int64_t placeOf(int64_t stored) const {
    return init_.inputsFirst ? stored % init_.outputs * init_.inputs + stored / init_.outputs : stored;
  }

  // Calls take(run, values) for what the window has of the state, `perElement` values an element.
  Status forEachValue(const StateDesc& state, const ShardLayout& layout, const StateWindow& window, int64_t perElement,
                      const WeightReader::Take& take) const {
    if (state.init.kind == InitKind::kFile) {
      WeightReader reader(place_.modelFiles);
      HYCRT_RETURN_IF_ERROR(reader.add(state, layout, window, perElement, take));
      return reader.read();
    }
    constexpr int64_t kChunk = 1 << 16;
    const PhiloxStream stream(place_.seed, state.init.key);
    std::vector<float> values(static_cast<size_t>(kChunk * perElement));
    layout.forEachRun([&](const ElementRun& whole) {
      const std::optional<ElementRun> run = window.clip(whole);
      for (int64_t done = 0; run && done < run->count; done += kChunk) {
        const int64_t some = std::min(kChunk, run->count - done);
        fillByRule(state.init, stream, values.data(), (run->global + done) * perElement, some * perElement);
        take({run->local + done, run->global + done, some}, values.data());
      }
      return true;
    });
    return {};
  }

  // Calls take(run, values) for all of the weight.
  Status forAllValues(const WeightReader::Take& take) const {
    const int64_t count = init_.outputs * init_.inputs;
    StateDesc whole = *states_.front();
    whole.logical = whole.global = whole.local = {count};
    whole.splits = {};
    whole.storage = FlatStorage::kWhole;
    const ShardLayout layout(whole, place_.mesh, place_.at);
    return forEachValue(whole, layout, {nullptr, 0, count}, 1, take);
  }

  // The code of element number `place` of the matrix.
  uint8_t codeOf(int64_t place, float value) const {
    const float most = absmax_[static_cast<size_t>(place / block())];
    return isNf4_ ? codes::nf4Code(value, most) : static_cast<uint8_t>(codes::int8Code(value, most));
  }

  // What is computed with in its place: the value, or what its code means.
  float meaningOf(int64_t place, float value) const {
    if (isPlain(init_.part)) return value;
    const uint8_t code = codeOf(place, value);
    const auto at = static_cast<size_t>(place / block());
    if (!isNf4_) return codes::int8Value(static_cast<int8_t>(code), absmax_[at]);
    return codes::nf4Value(code, codes::nf4Absmax(absmaxCodes_[at], scales_[at / codes::kNf4Group], mean_));
  }

  // Sums are exact, so that no order of runs changes them.
  Status measureNorms() {
    std::vector<codes::ExactSquares> sums(static_cast<size_t>(init_.outputs));
    std::mutex mutex;
    float refused = 0;
    const auto take = [&](const ElementRun& run, const float* values) {
      const std::lock_guard<std::mutex> lock(mutex);
      for (int64_t i = 0; i < run.count; ++i) {
        const int64_t place = placeOf(run.global + i);
        const float value = meaningOf(place, values[i]);
        if (!codes::ExactSquares::takes(value)) {
          refused = value;
        } else {
          sums[static_cast<size_t>(place / init_.inputs)].add(value);
        }
      }
    };
    HYCRT_RETURN_IF_ERROR(forAllValues(take));
    if (refused != 0 || std::isnan(refused)) {
      return dataError(std::string(states_.front()->name) + " starts from lengths of weights, of which one is " +
                       std::to_string(refused) + "; expected magnitudes below 8192");
    }
    for (const codes::ExactSquares& sum : sums) norms_.push_back(sum.root());
    return {};
  }

  Status measureBlocks() {
    const int64_t count = init_.outputs * init_.inputs;
    Greatest greatest(static_cast<size_t>((count + block() - 1) / block()));
    const auto take = [&](const ElementRun& run, const float* values) {
      int64_t at = placeOf(run.global) / block();
      float most = 0;
      for (int64_t i = 0; i < run.count; ++i) {
        const int64_t next = placeOf(run.global + i) / block();
        if (next != at) {
          greatest.raise(at, most);
          at = next;
          most = 0;
        }
        const float size = std::fabs(values[i]);
        most = size > most || std::isnan(size) ? size : most;
      }
      greatest.raise(at, most);
    };
    HYCRT_RETURN_IF_ERROR(forAllValues(take));
    absmax_ = greatest.take();
    return {};
  }

  Status fillState(const StateDesc& state) {
    const ShardLayout layout(state, place_.mesh, place_.at);
    return forEachWindow(state, place_.arenas, WindowUse::kFill, [&](const StateWindow& window) -> Status {
      if (isCodes(state.init.part)) return fillCodes(state, layout, window);
      const std::byte* from = valuesOf(state.init.part);
      const int64_t size = sizeOf(state.dtype);
      layout.forEachRun([&](const ElementRun& whole) {
        const std::optional<ElementRun> run = window.clip(whole);
        if (!run) return true;
        std::byte* const to = window.memory + (run->local - window.begin) * size;
        if (isNorms(state.init.part)) {  // of a parameter, or of a copy of fewer bits
          convertFloats(from + run->global * int64_t{sizeof(float)}, DType::kF32, to, state.dtype, run->count);
        } else {
          std::memcpy(to, from + run->global * size, static_cast<size_t>(run->count * size));
        }
        return true;
      });
      return {};
    });
  }

  const std::byte* valuesOf(WeightPart part) const {
    if (isNorms(part)) return reinterpret_cast<const std::byte*>(norms_.data());
    if (part == WeightPart::kInt8Absmax) return reinterpret_cast<const std::byte*>(absmax_.data());
    if (part == WeightPart::kNf4Absmax) return reinterpret_cast<const std::byte*>(absmaxCodes_.data());
    if (part == WeightPart::kNf4Scale) return reinterpret_cast<const std::byte*>(scales_.data());
    return reinterpret_cast<const std::byte*>(&mean_);
  }

  Status fillCodes(const StateDesc& state, const ShardLayout& layout, const StateWindow& window) const {
    const auto code = [&](int64_t stored, float value) { return codeOf(placeOf(stored), value); };
    const auto take = [&](const ElementRun& run, const float* values) {
      auto* to = reinterpret_cast<uint8_t*>(window.memory + (run.local - window.begin));
      for (int64_t i = 0; i < run.count; ++i) {
        const int64_t first = run.global + i;
        to[i] = isNf4_
                    ? static_cast<uint8_t>(code(2 * first, values[2 * i]) << 4 | code(2 * first + 1, values[2 * i + 1]))
                    : code(first, values[i]);
      }
    };
    return forEachValue(state, layout, window, isNf4_ ? 2 : 1, take);
  }

  const WeightParts::Place& place_;
  const std::vector<const StateDesc*>& states_;
  const Initializer init_;
  const bool isNf4_;
  std::vector<float> norms_;   // of each output's weights
  std::vector<float> absmax_;  // of each block
  // Of nf4: those once more, in 8 bits.
  std::vector<uint8_t> absmaxCodes_;
  std::vector<float> scales_;
  float mean_ = 0;
};

}  // namespace

DType typeOfPart(WeightPart part) { return isCodes(part) || part == WeightPart::kNf4Absmax ? DType::kU8 : DType::kF32; }

int64_t sizeOfPart(const Initializer& init) {
  const int64_t count = init.outputs * init.inputs, blocks = codes::nf4Blocks(count);
  switch (init.part) {
    case WeightPart::kInt8Codes:
    case WeightPart::kWhole:
      return count;
    case WeightPart::kInt8Absmax:
    case WeightPart::kRowNorms:
    case WeightPart::kInt8RowNorms:
    case WeightPart::kNf4RowNorms:
      return init.outputs;
    case WeightPart::kNf4Codes:
      return count / 2;
    case WeightPart::kNf4Absmax:
      return blocks;
    case WeightPart::kNf4Scale:
      return codes::nf4Groups(blocks);
    case WeightPart::kNf4Mean:
      return 1;
  }
  return -1;
}

bool isNorms(WeightPart part) {
  return part == WeightPart::kRowNorms || part == WeightPart::kInt8RowNorms || part == WeightPart::kNf4RowNorms;
}

bool areOfOneWeight(const Initializer& a, const Initializer& b) {
  return a.kind == b.kind && a.key == b.key && a.file == b.file && a.fileOffset == b.fileOffset &&
         a.parts.rows == b.parts.rows && a.first == b.first && a.second == b.second && a.outputs == b.outputs &&
         a.inputs == b.inputs && isNf4(a.part) == isNf4(b.part) && isPlain(a.part) == isPlain(b.part);
}

void WeightParts::add(const StateDesc& state) {
  for (std::vector<const StateDesc*>& weight : weights_) {
    if (!areOfOneWeight(weight.front()->init, state.init)) continue;
    weight.push_back(&state);
    return;
  }
  weights_.push_back({&state});
}

Status WeightParts::fill() {
  for (const std::vector<const StateDesc*>& weight : weights_) {
    HYCRT_RETURN_IF_ERROR(Weight(place_, weight).fill());
  }
  return {};
}

}  // namespace hycrt
