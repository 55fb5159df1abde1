// Block by block, whose sums stay in the first-level cache; the lines just read are still in a cache when the result
// overwrites them, so memory is read once and written once: 2pn in all.
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

// `to` may be one of the others, or lies apart from them.
template <typename T, ReduceOp op>
void combine(T* to, const T* sum, const T* term, int64_t count) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (op == ReduceOp::kSum) {
      to[i] = static_cast<T>(sum[i] + term[i]);
    } else {
      to[i] = term[i] > sum[i] ? term[i] : sum[i];
    }
  }
}

template <typename T>
bool isSameOrApart(const T* one, const T* other, int64_t count) {
  const auto a = reinterpret_cast<uintptr_t>(one), b = reinterpret_cast<uintptr_t>(other),
             bytes = static_cast<uintptr_t>(count) * sizeof(T);
  return a == b || a + bytes <= b || b + bytes <= a;
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
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}

struct Fold {
  const ReduceRange& range;
  const std::byte* before;
  const std::vector<const std::byte*>& sources;
  std::byte* after;
  const std::vector<std::byte*>& targets;
};

// Elements [begin, begin + count), of which a block at most. Of types that are summed as they are, two terms are read
// and one sum written at a time, the last one where it belongs.
template <typename T, ReduceOp op, int64_t kBlock>
void foldBlock(const Fold& fold, int64_t begin, int64_t count) {
  alignas(64) T between[kBlock];
  const int64_t fromStart = begin - fold.range.begin;
  const auto inTarget = [&](std::byte* target) {
    return fold.after ? reinterpret_cast<T*>(target) + fromStart
                      : reinterpret_cast<T*>(target) + begin - fold.range.targetShift;
  };
  const auto termAt = [&](size_t i) {
    if (fold.before && i == 0) return reinterpret_cast<const T*>(fold.before) + fromStart;
    return reinterpret_cast<const T*>(fold.sources[i - (fold.before ? 1 : 0)]) + begin;
  };
  const size_t terms = fold.sources.size() + (fold.before ? 1 : 0);
  T* const first = inTarget(fold.after ? fold.after : fold.targets[0]);
  // Where it would be written over what is still to be read, it is not written yet.
  bool isApart = true;
  for (size_t i = 0; i < terms; ++i) isApart = isApart && isSameOrApart<T>(first, termAt(i), count);
  const T* sum = termAt(0);
  for (size_t i = 1; i < terms; ++i) {
    T* const to = i + 1 == terms && isApart ? first : between;
    combine<T, op>(to, sum, termAt(i), count);
    sum = to;
  }
  const auto put = [&](T* to) {
    if (to != sum) std::memmove(to, sum, static_cast<size_t>(count) * sizeof(T));
  };
  put(first);
  sum = first;
  for (size_t i = 1; !fold.after && i < fold.targets.size(); ++i) put(inTarget(fold.targets[i]));
}

// The same of narrow types, whose terms and sums are wider: a target is written once all terms of the block are read.
template <typename T, ReduceOp op, int64_t kBlock>
void foldNarrowBlock(const Fold& fold, int64_t begin, int64_t count) {
  using Sum = typename SumOf<T>::Type;
  alignas(64) Sum sum[kBlock], wide[kBlock];
  alignas(64) T narrow[kBlock];
  const int64_t fromStart = begin - fold.range.begin;
  if (fold.before) {
    std::memcpy(sum, reinterpret_cast<const Sum*>(fold.before) + fromStart, static_cast<size_t>(count) * sizeof(Sum));
  }
  for (size_t i = 0; i < fold.sources.size(); ++i) {
    const bool isFirst = i == 0 && !fold.before;
    widen(isFirst ? sum : wide, reinterpret_cast<const T*>(fold.sources[i]) + begin, count);
    if (!isFirst) combine<Sum, op>(sum, sum, wide, count);
  }
  if (fold.after) {
    std::memcpy(reinterpret_cast<Sum*>(fold.after) + fromStart, sum, static_cast<size_t>(count) * sizeof(Sum));
    return;
  }
  for (int64_t i = 0; i < count; ++i) narrow[i] = T(sum[i]);
  for (std::byte* target : fold.targets) {
    std::memcpy(reinterpret_cast<T*>(target) + begin - fold.range.targetShift, narrow,
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
      const int64_t count = std::min(kBlock, fold.range.end - begin);
      if constexpr (std::is_same_v<typename SumOf<T>::Type, T>) {
        foldBlock<T, op, kBlock>(fold, begin, count);
      } else {
        foldNarrowBlock<T, op, kBlock>(fold, begin, count);
      }
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
