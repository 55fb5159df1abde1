// A block of every source passes through one small buffer that stays in the first-level cache; the lines just read are
// still in a cache when the result overwrites them, so memory is read once and written once: 2pn in all.
#include "comm/vector_reduce.h"

#include <algorithm>
#include <cstring>

#include "kernels/narrow_float.h"
#include "kernels/parallel/team.h"

namespace hycrt {
namespace {

constexpr int64_t kBlockBytes = 8192;
constexpr int64_t kParallelBytes = 1 << 20;  // below this a thread team costs more than it brings

template <typename T, ReduceOp op>
void combine(T* __restrict into, const T* __restrict from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (op == ReduceOp::kSum) {
      into[i] = static_cast<T>(into[i] + from[i]);
    } else {
      into[i] = from[i] > into[i] ? from[i] : into[i];
    }
  }
}

template <typename T, ReduceOp op>
void reduceTyped(const ReduceRange& range, const std::vector<const std::byte*>& sources,
                 const std::vector<std::byte*>& targets) {
  constexpr int64_t kBlock = kBlockBytes / int64_t{sizeof(T)};
  const int64_t blocks = (range.end - range.begin + kBlock - 1) / kBlock;
  hyc::kernels::runTeam((range.end - range.begin) * int64_t{sizeof(T)} > kParallelBytes, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t block = 0; block < blocks; ++block) {
      alignas(64) T sum[kBlock];
      const int64_t begin = range.begin + block * kBlock;
      const int64_t count = std::min(kBlock, range.end - begin);
      std::memcpy(sum, reinterpret_cast<const T*>(sources[0]) + begin, static_cast<size_t>(count) * sizeof(T));
      for (size_t i = 1; i < sources.size(); ++i) {
        combine<T, op>(sum, reinterpret_cast<const T*>(sources[i]) + begin, count);
      }
      for (std::byte* target : targets) {
        std::memcpy(reinterpret_cast<T*>(target) + begin - range.targetShift, sum,
                    static_cast<size_t>(count) * sizeof(T));
      }
    }
  });
}

template <typename T>
void reduceOf(const ReduceRange& range, const std::vector<const std::byte*>& sources,
              const std::vector<std::byte*>& targets) {
  if (range.op == ReduceOp::kSum) {
    reduceTyped<T, ReduceOp::kSum>(range, sources, targets);
  } else {
    reduceTyped<T, ReduceOp::kMax>(range, sources, targets);
  }
}

// Of 16 bits: the terms are added in f32, and their sum is rounded once.
template <typename T>
void reduceNarrow(const ReduceRange& range, const std::vector<const std::byte*>& sources,
                  const std::vector<std::byte*>& targets) {
  constexpr int64_t kBlock = kBlockBytes / int64_t{sizeof(float)};
  const int64_t blocks = (range.end - range.begin + kBlock - 1) / kBlock;
  hyc::kernels::runTeam((range.end - range.begin) * int64_t{sizeof(T)} > kParallelBytes, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t block = 0; block < blocks; ++block) {
      alignas(64) float sum[kBlock], term[kBlock];
      alignas(64) T rounded[kBlock];
      const int64_t begin = range.begin + block * kBlock;
      const int64_t count = std::min(kBlock, range.end - begin);
      for (size_t i = 0; i < sources.size(); ++i) {
        const T* source = reinterpret_cast<const T*>(sources[i]) + begin;
        float* wide = i == 0 ? sum : term;
        for (int64_t e = 0; e < count; ++e) wide[e] = source[e];
        if (i == 0) continue;
        if (range.op == ReduceOp::kSum) {
          combine<float, ReduceOp::kSum>(sum, term, count);
        } else {
          combine<float, ReduceOp::kMax>(sum, term, count);
        }
      }
      for (int64_t e = 0; e < count; ++e) rounded[e] = T(sum[e]);
      for (std::byte* target : targets) {
        std::memcpy(reinterpret_cast<T*>(target) + begin - range.targetShift, rounded,
                    static_cast<size_t>(count) * sizeof(T));
      }
    }
  });
}

}  // namespace

void reduceRange(const ReduceRange& range, const std::vector<const std::byte*>& sources,
                 const std::vector<std::byte*>& targets) {
  switch (range.dtype) {
    case DType::kF32:
      return reduceOf<float>(range, sources, targets);
    case DType::kF64:
      return reduceOf<double>(range, sources, targets);
    case DType::kI32:
      return reduceOf<int32_t>(range, sources, targets);
    case DType::kI64:
      return reduceOf<int64_t>(range, sources, targets);
    case DType::kF16:
      return reduceNarrow<hyc::kernels::F16>(range, sources, targets);
    case DType::kBF16:
      return reduceNarrow<hyc::kernels::Bf16>(range, sources, targets);
    case DType::kU8:
      return;  // refused before anything is published
  }
}

int64_t sliceBegin(int64_t count, int members, int index) {
  if (index >= members) return count;
  constexpr int64_t kLine = 16;
  const int64_t lines = (count + kLine - 1) / kLine;
  // lines / members first: lines * index could overflow for absurd counts.
  const int64_t begin = lines / members * index + std::min<int64_t>(lines % members, index);
  return std::min(begin * kLine, count);
}

}  // namespace hycrt
