// A block of every source passes through one small buffer that stays in the first-level cache; the lines just read are
// still in a cache when the result overwrites them, so memory is read once and written once: 2pn in all.
#include "comm/vector_reduce.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

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

// How elements of a type become terms of a sum, and a sum an element.
template <typename T>
struct SumOf {
  using Type = T;
};
template <>
struct SumOf<hyc::kernels::F16> {
  using Type = float;
};
template <>
struct SumOf<hyc::kernels::Bf16> {
  using Type = float;
};

template <typename Sum, typename T>
void widen(Sum* __restrict to, const T* __restrict from, int64_t count) {
  if constexpr (std::is_same_v<Sum, T>) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
  }
}

struct Fold {
  const ReduceRange& range;
  const std::byte* before;
  const std::vector<const std::byte*>& sources;
  std::byte* after;
  const std::vector<std::byte*>& targets;
};

// Elements [begin, begin + count), of which a block at most.
template <typename T, ReduceOp op, int64_t kBlock>
void foldBlock(const Fold& fold, int64_t begin, int64_t count) {
  using Sum = typename SumOf<T>::Type;
  constexpr bool kNarrow = !std::is_same_v<Sum, T>;
  alignas(64) Sum sum[kBlock], wide[kNarrow ? kBlock : 1];
  alignas(64) T narrow[kNarrow ? kBlock : 1];
  const int64_t fromStart = begin - fold.range.begin;
  if (fold.before) widen(sum, reinterpret_cast<const Sum*>(fold.before) + fromStart, count);
  for (size_t i = 0; i < fold.sources.size(); ++i) {
    const T* const source = reinterpret_cast<const T*>(fold.sources[i]) + begin;
    if (i == 0 && !fold.before) {
      widen(sum, source, count);
    } else if constexpr (!kNarrow) {
      combine<Sum, op>(sum, source, count);
    } else {
      widen(wide, source, count);
      combine<Sum, op>(sum, wide, count);
    }
  }
  if (fold.after) {
    std::memcpy(reinterpret_cast<Sum*>(fold.after) + fromStart, sum, static_cast<size_t>(count) * sizeof(Sum));
    return;
  }
  if constexpr (kNarrow) {
    for (int64_t i = 0; i < count; ++i) narrow[i] = T(sum[i]);
  }
  const void* const rounded = kNarrow ? static_cast<const void*>(narrow) : static_cast<const void*>(sum);
  for (std::byte* target : fold.targets) {
    std::memcpy(reinterpret_cast<T*>(target) + begin - fold.range.targetShift, rounded,
                static_cast<size_t>(count) * sizeof(T));
  }
}

template <typename T, ReduceOp op>
void foldTyped(const Fold& fold) {
  constexpr int64_t kBlock = kBlockBytes / int64_t{sizeof(typename SumOf<T>::Type)};
  const int64_t elements = fold.range.end - fold.range.begin, blocks = (elements + kBlock - 1) / kBlock;
  hyc::kernels::runTeam(elements * int64_t{sizeof(T)} > kParallelBytes, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = fold.range.begin + block * kBlock;
      foldBlock<T, op, kBlock>(fold, begin, std::min(kBlock, fold.range.end - begin));
    }
  });
}

template <typename T>
void foldOf(const Fold& fold) {
  if (fold.range.op == ReduceOp::kSum) {
    foldTyped<T, ReduceOp::kSum>(fold);
  } else {
    foldTyped<T, ReduceOp::kMax>(fold);
  }
}

}  // namespace

void reduceRange(const ReduceRange& range, const std::vector<const std::byte*>& sources,
                 const std::vector<std::byte*>& targets) {
  foldRange(range, nullptr, sources, nullptr, targets);
}

void foldRange(const ReduceRange& range, const std::byte* before, const std::vector<const std::byte*>& sources,
               std::byte* after, const std::vector<std::byte*>& targets) {
  const Fold fold{range, before, sources, after, targets};
  switch (range.dtype) {
    case DType::kF32:
      return foldOf<float>(fold);
    case DType::kF64:
      return foldOf<double>(fold);
    case DType::kI32:
      return foldOf<int32_t>(fold);
    case DType::kI64:
      return foldOf<int64_t>(fold);
    case DType::kF16:
      return foldOf<hyc::kernels::F16>(fold);
    case DType::kBF16:
      return foldOf<hyc::kernels::Bf16>(fold);
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
