// Products of the blocks that attention works on, from operands as they lie in memory, and their fixed sizes.
//
// Scores are kept transposed, one row per key and one lane per query: softmax then runs down the rows in whole vectors,
// and K and V need no packing. They are only copied together: rows of a fused projection lie so far apart that they
// would share a few sets of the first-level cache.
#ifndef HYC_KERNELS_ATTENTION_BLOCK_H_
#define HYC_KERNELS_ATTENTION_BLOCK_H_

#include "kernels/attention/op.h"
#include "kernels/isa/micro_kernel.h"
#include "kernels/isa/transpose.h"
#include "kernels/math/math.h"

namespace hyc::kernels::HYC_ISA {

constexpr int64_t kQueryBlock = 96;  // a multiple of three vectors of any width
constexpr int64_t kKeyBlock = 64;
// A head's lanes, filled up to whole vectors of any width.
constexpr int64_t kMaxHeadLanes = kAttentionMaxHeadDim;

constexpr int kBlockRows = HYC_ISA_ID == 2 ? 8 : 4;
constexpr int kBlockVectors = 3;

HYC_INLINE int64_t atMost(int64_t a, int64_t b) { return a < b ? a : b; }
HYC_INLINE int64_t wholeLanes(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

template <int kRows, int kVectors>
HYC_INLINE void multiplyRows(int64_t &row, int64_t rows, int64_t k, const MicroOperands &x, BlockResult result) {
  for (; row + kRows <= rows; row += kRows)
    microKernel<kRows, kVectors>(k, {x.a + row * x.aRow, x.aRow, x.aStep, x.b, x.bStep, x.c + row * x.cRow, x.cRow},
                                 result);
}

template <int kVectors>
void multiplyPanel(int64_t rows, int64_t k, const MicroOperands &x, BlockResult result) {
  int64_t row = 0;
  multiplyRows<kBlockRows, kVectors>(row, rows, k, x, result);
  if (kBlockRows > 4) multiplyRows<4, kVectors>(row, rows, k, x, result);
  multiplyRows<2, kVectors>(row, rows, k, x, result);
  multiplyRows<1, kVectors>(row, rows, k, x, result);
}

// C[rows, lanes] (=, +=) A[rows, k] · B[k, lanes]; lanes are rounded up to whole vectors.
inline void multiplyBlocks(int64_t rows, int64_t lanes, int64_t k, MicroOperands x, BlockResult result) {
  const int64_t vectors = wholeLanes(lanes) / kLanes;
  const int64_t panels = (vectors + kBlockVectors - 1) / kBlockVectors;
  for (int64_t panel = 0, done = 0; panel < panels; ++panel) {
    const int64_t wide = (vectors - done + panels - panel - 1) / (panels - panel);  // panels of nearly equal width
    if (wide == 3)
      multiplyPanel<3>(rows, k, x, result);
    else if (wide == 2)
      multiplyPanel<2>(rows, k, x, result);
    else
      multiplyPanel<1>(rows, k, x, result);
    x.b += wide * kLanes;
    x.c += wide * kLanes;
    done += wide;
  }
}

// One head of one sample: where its rows start and how far apart they are.
template <typename T>
struct HeadView {
  const T *base;
  int64_t row;
};
template <typename T>
HYC_INLINE HeadView<T> headView(const T *base, const HeadStrides &s, int64_t b, int64_t h) {
  return {base + b * s.batch + h * s.head, s.token};
}
// The same from a row on.
template <typename T>
HYC_INLINE HeadView<T> fromRow(const HeadView<T> &view, int64_t row) {
  return {view.base + row * view.row, view.row};
}

// dst[c · kQueryBlock + i] = factor · src[i, c] for the queries of a block; lanes past `count` become 0.
template <typename T>
inline void transposeQueries(const HeadView<T> &src, int64_t count, int64_t headDim, float factor, float *dst) {
  const int64_t lanes = wholeLanes(count);
  if constexpr (sizeof(T) == sizeof(float)) {
    transposeBlock(src.base, src.row, count, headDim, dst, kQueryBlock);
  } else {
    float rows[kQueryBlock * kMaxHeadLanes];
    for (int64_t i = 0; i < count; ++i)
      for (int64_t c = 0; c < headDim; ++c) rows[i * headDim + c] = src.base[i * src.row + c];
    transposeBlock(rows, headDim, count, headDim, dst, kQueryBlock);
  }
  for (int64_t c = 0; c < headDim; ++c) {
    float *row = dst + c * kQueryBlock;
    for (int64_t i = 0; i < count; ++i) row[i] *= factor;
    for (int64_t i = count; i < lanes; ++i) row[i] = 0;
  }
}

// dst[i · lanes + c] = factor · src[i, c], filled up with zeros to `lanes` columns.
template <typename T>
inline void copyRows(const HeadView<T> &src, int64_t count, int64_t headDim, int64_t lanes, float factor, float *dst) {
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < headDim; ++c) dst[i * lanes + c] = factor * src.base[i * src.row + c];
    for (int64_t c = headDim; c < lanes; ++c) dst[i * lanes + c] = 0.0f;
  }
}

typedef int32_t IntVector __attribute__((vector_size(sizeof(Vector))));

// exp(x) for x at most a little above 0, to about 1 unit in the last place; 0 below −88. The formula is math::exp's,
// without its care for large arguments, and with fused multiply-add like the products around it.
HYC_INLINE Vector expOfScore(Vector x) {
  constexpr float kRound = 12582912.0f;  // 1.5 · 2^23
  constexpr int32_t kRoundBits = 0x4b400000;
  x = maximum(x, broadcast(-104.0f));
  const Vector shifted = multiplyAdd(x, broadcast(math::detail::kLog2E), broadcast(kRound));
  const Vector nearest = shifted - broadcast(kRound);
  Vector r = multiplyAdd(nearest, broadcast(-math::detail::kLn2High), x);
  r = multiplyAdd(nearest, broadcast(-math::detail::kLn2Low), r);
  Vector p = broadcast(1.392618181e-3f);
  p = multiplyAdd(p, r, broadcast(8.363177630e-3f));
  p = multiplyAdd(p, r, broadcast(4.166655463e-2f));
  p = multiplyAdd(p, r, broadcast(1.666657700e-1f));
  p = multiplyAdd(p, r, broadcast(0.5f));
  p = multiplyAdd(p, r * r, r) + broadcast(1.0f);
  IntVector exponent = reinterpret_cast<IntVector>(shifted) - (kRoundBits - 127);
  exponent = exponent > 0 ? exponent : 0;
  return p * reinterpret_cast<Vector>(exponent << 23);
}

// Where the probabilities of one head lie in the random stream of its sample.
struct DropoutStream {
  uint64_t key = 0;
  int64_t place = 0, row = 0;
  uint32_t threshold = 0;
  float scale = 1;
};
HYC_INLINE DropoutStream dropoutStream(const AttentionDesc &d, int64_t b, int64_t h) {
  DropoutStream stream;
  if (d.dropout.rate == 0) return stream;
  stream.key = static_cast<uint64_t>(d.dropout.keys[b * d.dropout.keyStride]);
  stream.row = dropoutRow(d.keyLength);
  stream.place = d.dropout.place + h * d.queryLength * stream.row;
  stream.threshold = static_cast<uint32_t>(dropoutThreshold(d.dropout.rate));
  stream.scale = dropoutScale(d.dropout.rate);
  return stream;
}

// The mask of one head.
struct HeadMask {
  const uint8_t *at = nullptr;  // null: none
  int64_t query = 0;
};
HYC_INLINE HeadMask headMask(const AttentionDesc &d, int64_t b, int64_t h) {
  if (!d.mask.at) return {};
  return {d.mask.at + b * d.mask.batch + h * d.mask.head, d.mask.query};
}

// The queries first … first + count − 1 against the keys key … key + keys − 1 of one head.
struct ScoreBlock {
  int64_t firstQuery, queries, firstKey, keys;
  int64_t offset;  // query i sees the keys up to i + offset
};

// The first query of the block, counted from firstQuery, that sees any of its keys.
HYC_INLINE int64_t firstSeeingQuery(const ScoreBlock &s) {
  const int64_t first = s.firstKey - s.offset - s.firstQuery;
  return first > 0 ? first : 0;
}
// The first query that sees key j of the block.
HYC_INLINE int64_t firstQueryOfKey(const ScoreBlock &s, int64_t j) {
  const int64_t first = s.firstKey + j - s.offset - s.firstQuery;
  return first > 0 ? atMost(first, kQueryBlock) : 0;
}

// −∞ where a query does not see a key. Only blocks on the diagonal have such pairs.
inline void maskScores(const ScoreBlock &s, float *scores) {
  if (firstQueryOfKey(s, s.keys - 1) == 0) return;
  for (int64_t j = 0; j < s.keys; ++j)
    for (int64_t i = 0; i < firstQueryOfKey(s, j); ++i) scores[j * kQueryBlock + i] = -__builtin_inff();
}

// Whether no query of the block sees any of its keys: of several documents in a sequence most blocks are such.
inline bool isUnseen(const ScoreBlock &s, const HeadMask &mask) {
  if (!mask.at) return false;
  const int64_t rows = mask.query == 0 ? 1 : s.queries;
  uint8_t any = 0;
  for (int64_t i = 0; i < rows && any == 0; ++i) {
    const uint8_t *row = mask.at + (s.firstQuery + i) * mask.query + s.firstKey;
    for (int64_t j = 0; j < s.keys; ++j) any |= row[j];
  }
  return any == 0;
}

// −∞ where the mask says so.
inline void maskScores(const ScoreBlock &s, const HeadMask &mask, float *scores) {
  if (!mask.at) return;
  for (int64_t i = 0; i < s.queries; ++i) {
    const uint8_t *row = mask.at + (s.firstQuery + i) * mask.query + s.firstKey;
    for (int64_t j = 0; j < s.keys; ++j)
      if (row[j] == 0) scores[j * kQueryBlock + i] = -__builtin_inff();
  }
}

// share[j · kQueryBlock + i] is what dropout multiplies the probability of query i and key j with, for lanes from
// `from` on. Four keys share an evaluation.
inline void drawShares(const DropoutStream &stream, const ScoreBlock &s, int64_t from, float *share) {
  const int64_t lanes = wholeLanes(s.queries), first = stream.place + s.firstQuery * stream.row + s.firstKey;
  for (int64_t j = 0; j < s.keys; j += 4) {
    float *rows = share + j * kQueryBlock;
#pragma omp simd
    for (int64_t i = from; i < lanes; ++i) {
      const PhiloxWords words = randomWords(stream.key, static_cast<uint64_t>(first + i * stream.row + j) / 4);
      rows[i] = words.word[0] >= stream.threshold ? stream.scale : 0.0f;
      rows[kQueryBlock + i] = words.word[1] >= stream.threshold ? stream.scale : 0.0f;
      rows[2 * kQueryBlock + i] = words.word[2] >= stream.threshold ? stream.scale : 0.0f;
      rows[3 * kQueryBlock + i] = words.word[3] >= stream.threshold ? stream.scale : 0.0f;
    }
  }
}

// values *= share, for the same elements.
inline void multiplyShares(const ScoreBlock &s, int64_t from, const float *share, float *values) {
  const int64_t lanes = wholeLanes(s.queries);
  for (int64_t j = 0; j < s.keys; ++j)
    for (int64_t i = from; i < lanes; i += kLanes) {
      const int64_t at = j * kQueryBlock + i;
      store(values + at, load(values + at) * load(share + at));
    }
}

}  // namespace hyc::kernels::HYC_ISA

#endif  // HYC_KERNELS_ATTENTION_BLOCK_H_
