// Attention forward on CPUs: one block of queries is one job, its keys are walked in ascending blocks.
//
// The bits of a query's result depend on its own row, the keys and the values only, whatever shares its block.
#include "kernels/attention/block.h"
#include "kernels/isa/dispatch.h"
#include "kernels/math/math.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {
namespace HYC_ISA {

// What one thread holds while it works on a block of queries.
struct ForwardBlock {
  float queries[kMaxHeadLanes * kQueryBlock];  // [D, queries], scaled
  float scores[kKeyBlock * kQueryBlock];       // [keys, queries]: scores, then exp(score − max)
  float sums[kMaxHeadLanes * kQueryBlock];     // [D, queries]: Σ p · v
  float keys[kKeyBlock * kMaxHeadLanes];       // [keys, D]
  float values[kKeyBlock * kMaxHeadLanes];     // [keys, D]
  float max[kQueryBlock], sum[kQueryBlock], correction[kQueryBlock];
  float shares[kKeyBlock * kQueryBlock];  // [keys, queries]: what dropout leaves of each probability
  DropoutStream dropout;
  HeadMask mask;
};

// Scores of one vector of queries, from lane i on, become exp(score − max); max, sum and the correction of what was
// summed before follow.
static void updateSoftmax(int64_t i, int64_t keys, ForwardBlock &f) {
  float *scores = f.scores + i;
  const Vector oldMax = load(f.max + i);
  Vector max = oldMax;
  for (int64_t j = 0; j < keys; ++j) max = maximum(load(scores + j * kQueryBlock), max);
  const Vector correction = expOfScore(oldMax - max);
  Vector sum = load(f.sum + i) * correction;
  for (int64_t j = 0; j < keys; ++j) {
    const Vector p = expOfScore(load(scores + j * kQueryBlock) - max);
    store(scores + j * kQueryBlock, p);
    sum = sum + p;
  }
  store(f.max + i, max);
  store(f.sum + i, sum);
  store(f.correction + i, correction);
}

template <typename T>
static void addKeyBlock(const AttentionDesc &d, const ScoreBlock &s, const HeadView<T> &k, const HeadView<T> &v,
                        ForwardBlock &f) {
  const int64_t lanes = wholeLanes(s.queries);
  const int64_t from = firstSeeingQuery(s) / kLanes * kLanes;
  copyRows(fromRow(k, s.firstKey), s.keys, d.headDim, d.headDim, 1.0f, f.keys);
  copyRows(fromRow(v, s.firstKey), s.keys, d.headDim, d.headDim, 1.0f, f.values);
  multiplyBlocks(s.keys, lanes - from, d.headDim,
                 {f.keys, d.headDim, 1, f.queries + from, kQueryBlock, f.scores + from, kQueryBlock},
                 BlockResult::kStore);
  if (d.causal) maskScores(s, f.scores);
  maskScores(s, f.mask, f.scores);
  for (int64_t i = from; i < lanes; i += kLanes) updateSoftmax(i, s.keys, f);
  if (d.dropout.rate > 0) {
    drawShares(f.dropout, s, from, f.shares);
    multiplyShares(s, from, f.shares, f.scores);
  }
  for (int64_t c = 0; c < d.headDim; ++c)
    for (int64_t i = from; i < lanes; ++i) f.sums[c * kQueryBlock + i] *= f.correction[i];
  multiplyBlocks(d.headDim, lanes - from, s.keys,
                 {f.values, 1, d.headDim, f.scores + from, kQueryBlock, f.sums + from, kQueryBlock}, BlockResult::kAdd);
}

template <typename T>
static void writeQueries(const AttentionDesc &d, int64_t queries, ForwardBlock &f, T *o, float *lse) {
  float factor[kQueryBlock];
  for (int64_t i = 0; i < queries; ++i) {
    const bool sawAny = f.sum[i] > 0;
    factor[i] = sawAny ? 1.0f / f.sum[i] : 0.0f;
    lse[i] = sawAny ? f.max[i] + math::log(f.sum[i]) : -__builtin_inff();
  }
  for (int64_t c = 0; c < d.headDim; ++c)
    for (int64_t i = 0; i < queries; ++i) f.sums[c * kQueryBlock + i] *= factor[i];
  if constexpr (sizeof(T) == sizeof(float)) {
    transposeBlock(f.sums, kQueryBlock, d.headDim, queries, o, d.o.token);
  } else {
    transposeBlock(f.sums, kQueryBlock, d.headDim, queries, f.queries, d.headDim);
    for (int64_t i = 0; i < queries; ++i)
      for (int64_t c = 0; c < d.headDim; ++c) o[i * d.o.token + c] = f.queries[i * d.headDim + c];
  }
}

template <typename T>
static void attendQueries(const AttentionDesc &d, int64_t b, int64_t h, int64_t firstQuery, const T *q, const T *k,
                          const T *v, T *o, float *lse) {
  ForwardBlock f;
  const int64_t queries = atMost(kQueryBlock, d.queryLength - firstQuery), kvHead = h / (d.heads / d.kvHeads);
  const int64_t offset = d.keyLength - d.queryLength;
  const int64_t keyEnd = d.causal ? atMost(d.keyLength, firstQuery + queries + offset) : d.keyLength;
  const HeadView<T> kHead = headView(k, d.k, b, kvHead), vHead = headView(v, d.v, b, kvHead);
  transposeQueries(fromRow(headView(q, d.q, b, h), firstQuery), queries, d.headDim, static_cast<float>(d.scale),
                   f.queries);
  for (int64_t i = 0; i < kQueryBlock; ++i) {
    f.max[i] = -1e30f;  // finite, so that −∞ − max is −∞ and not NaN
    f.sum[i] = 0;
  }
  for (int64_t i = 0; i < d.headDim * kQueryBlock; ++i) f.sums[i] = 0;
  f.dropout = dropoutStream(d, b, h);
  f.mask = headMask(d, b, h);
  for (int64_t key = 0; key < keyEnd; key += kKeyBlock) {
    const ScoreBlock s = {firstQuery, queries, key, atMost(kKeyBlock, keyEnd - key), d.causal ? offset : d.keyLength};
    if (!isUnseen(s, f.mask)) addKeyBlock(d, s, kHead, vHead, f);
  }
  writeQueries(d, queries, f, o + b * d.o.batch + firstQuery * d.o.token + h * d.o.head,
               lse + (b * d.heads + h) * d.queryLength + firstQuery);
}

template <typename T>
void attentionForward(const AttentionDesc &d, const T *q, const T *k, const T *v, T *o, float *lse) {
  const int64_t blocks = (d.queryLength + kQueryBlock - 1) / kQueryBlock, jobs = d.batch * d.heads * blocks;
  // Long rows of the causal triangle first, so that no thread is left with one at the end.
  forEachJob(jobs > 1, jobs, [&](int64_t job) {
    const int64_t head = job % (d.batch * d.heads), block = blocks - 1 - job / (d.batch * d.heads);
    attendQueries(d, head / d.heads, head % d.heads, block * kQueryBlock, q, k, v, o, lse);
  });
}

HYC_INSTANTIATE(attentionForward)

}  // namespace HYC_ISA

HYC_DISPATCH_TEMPLATE(void, attentionForward,
                      (const AttentionDesc &d, const T *q, const T *k, const T *v, T *o, float *lse),
                      (d, q, k, v, o, lse))

}  // namespace hyc::kernels
