// Attention gradient on CPUs: one (batch, key head) is one job; blocks of queries outside, blocks of keys inside.
//
// Scores are computed again from q, k and lse. dq of a block is complete when its keys are done; dk and dv grow in
// ascending order of queries, in place, or, where they are of 16 bits, in scratch memory of the thread, rounded at
// last.
#include "kernels/attention/block.h"
#include "kernels/isa/dispatch.h"
#include "kernels/isa/scratch.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {
namespace HYC_ISA {

// What one thread holds. Rows of D values are filled up to whole vectors with zeros.
struct BackwardBlock {
  float queriesT[kMaxHeadLanes * kQueryBlock];  // [D, queries], scaled
  float dOT[kMaxHeadLanes * kQueryBlock];       // [D, queries]
  float queries[kQueryBlock * kMaxHeadLanes];   // [queries, D], scaled
  float dO[kQueryBlock * kMaxHeadLanes];        // [queries, D]
  float dq[kQueryBlock * kMaxHeadLanes];        // [queries, D]
  float keys[kKeyBlock * kMaxHeadLanes];        // [keys, D]
  float values[kKeyBlock * kMaxHeadLanes];      // [keys, D]
  float product[kKeyBlock * kMaxHeadLanes];     // [keys, D], about to be added to dk or dv
  float p[kKeyBlock * kQueryBlock];             // [keys, queries]
  float ds[kKeyBlock * kQueryBlock];            // [keys, queries]
  float lse[kQueryBlock], rowD[kQueryBlock];
  float shares[kKeyBlock * kQueryBlock];  // [keys, queries]: what dropout leaves of each probability
  DropoutStream dropout;
  HeadMask mask;
};

// Where the rows of dk or dv grow.
struct HeadGradient {
  float *base;
  int64_t row;
};

// Eight fixed lanes, added pairwise.
template <typename T>
static float dotOfRows(const T *x, const T *y, int64_t n) {
  float lane[8] = {};
  int64_t c = 0;
  for (; c + 8 <= n; c += 8)
    for (int64_t l = 0; l < 8; ++l) lane[l] += x[c + l] * y[c + l];
  for (; c < n; ++c) lane[c % 8] += x[c] * y[c];
  for (int64_t apart = 4; apart > 0; apart /= 2)
    for (int64_t l = 0; l < apart; ++l) lane[l] += lane[l + apart];
  return lane[0];
}

template <typename T>
static void loadQueries(const AttentionDesc &d, int64_t queries, const HeadView<T> &q, const HeadView<T> &o,
                        const HeadView<T> &dO, const float *lse, BackwardBlock &w) {
  const int64_t lanes = wholeLanes(d.headDim);
  const float scale = static_cast<float>(d.scale);
  transposeQueries(q, queries, d.headDim, scale, w.queriesT);
  transposeQueries(dO, queries, d.headDim, 1.0f, w.dOT);
  copyRows(q, queries, d.headDim, lanes, scale, w.queries);
  copyRows(dO, queries, d.headDim, lanes, 1.0f, w.dO);
  for (int64_t i = 0; i < queries; ++i) {
    w.lse[i] = lse[i] == -__builtin_inff() ? 0 : lse[i];  // of a query that sees no key: −∞ − 0 is −∞ and not NaN
    w.rowD[i] = dotOfRows(dO.base + i * dO.row, o.base + i * o.row, d.headDim);
  }
  for (int64_t i = queries; i < kQueryBlock; ++i) w.lse[i] = w.rowD[i] = 0;
  for (int64_t i = 0; i < queries * lanes; ++i) w.dq[i] = 0;
}

static void addToRows(const float *product, int64_t lanes, int64_t rows, int64_t headDim, float *dst, int64_t ldd) {
  for (int64_t j = 0; j < rows; ++j)
    for (int64_t c = 0; c < headDim; ++c) dst[j * ldd + c] += product[j * lanes + c];
}

// gradient[keys, D] += weights[keys, queries] · rows[queries, D], over the queries that see any of the keys.
static void addKeyGradient(const AttentionDesc &d, const ScoreBlock &s, const float *weights, const float *rows,
                           BackwardBlock &w, const HeadGradient &gradient) {
  const int64_t lanes = wholeLanes(d.headDim), from = firstSeeingQuery(s);
  multiplyBlocks(s.keys, d.headDim, s.queries - from,
                 {weights + from, kQueryBlock, 1, rows + from * lanes, lanes, w.product, lanes}, BlockResult::kStore);
  addToRows(w.product, lanes, s.keys, d.headDim, gradient.base + s.firstKey * gradient.row, gradient.row);
}

static void addQueryGradient(const AttentionDesc &d, const ScoreBlock &s, BackwardBlock &w) {
  const int64_t lanes = wholeLanes(d.headDim), from = firstSeeingQuery(s);
  multiplyBlocks(s.queries - from, d.headDim, s.keys,
                 {w.ds + from, 1, kQueryBlock, w.keys, lanes, w.dq + from * lanes, lanes}, BlockResult::kAdd);
}

// p and ds of one block of keys.
template <typename T>
static void computeScores(const AttentionDesc &d, const ScoreBlock &s, const HeadView<T> &k, const HeadView<T> &v,
                          BackwardBlock &w) {
  const int64_t lanes = wholeLanes(s.queries), from = firstSeeingQuery(s) / kLanes * kLanes;
  const int64_t headLanes = wholeLanes(d.headDim);
  copyRows(fromRow(k, s.firstKey), s.keys, d.headDim, headLanes, 1.0f, w.keys);
  copyRows(fromRow(v, s.firstKey), s.keys, d.headDim, headLanes, 1.0f, w.values);
  multiplyBlocks(s.keys, lanes - from, d.headDim,
                 {w.keys, headLanes, 1, w.queriesT + from, kQueryBlock, w.p + from, kQueryBlock}, BlockResult::kStore);
  if (d.causal) maskScores(s, w.p);
  maskScores(s, w.mask, w.p);
  multiplyBlocks(s.keys, lanes - from, d.headDim,
                 {w.values, headLanes, 1, w.dOT + from, kQueryBlock, w.ds + from, kQueryBlock}, BlockResult::kStore);
  if (d.dropout.rate > 0) {
    drawShares(w.dropout, s, from, w.shares);
    multiplyShares(s, from, w.shares, w.ds);
  }
  for (int64_t j = 0; j < s.keys; ++j) {
    float *p = w.p + j * kQueryBlock, *ds = w.ds + j * kQueryBlock;
    for (int64_t i = from; i < lanes; i += kLanes) {
      const Vector probability = expOfScore(load(p + i) - load(w.lse + i));
      store(p + i, probability);
      store(ds + i, probability * (load(ds + i) - load(w.rowD + i)));
    }
  }
  // From here on p is what met v.
  if (d.dropout.rate > 0) multiplyShares(s, from, w.shares, w.p);
}

template <typename T>
struct HeadOperands {
  HeadView<T> q, k, v, o, dO;
  const float *lse;
  T *dq;
  HeadGradient dk, dv;
};

template <typename T>
static void differentiateHead(const AttentionDesc &d, const HeadOperands<T> &x, BackwardBlock &w) {
  const int64_t lanes = wholeLanes(d.headDim), offset = d.keyLength - d.queryLength;
  for (int64_t first = 0; first < d.queryLength; first += kQueryBlock) {
    const int64_t queries = atMost(kQueryBlock, d.queryLength - first);
    loadQueries(d, queries, fromRow(x.q, first), fromRow(x.o, first), fromRow(x.dO, first), x.lse + first, w);
    const int64_t keyEnd = d.causal ? atMost(d.keyLength, first + queries + offset) : d.keyLength;
    for (int64_t key = 0; key < keyEnd; key += kKeyBlock) {
      const ScoreBlock s = {first, queries, key, atMost(kKeyBlock, keyEnd - key), d.causal ? offset : d.keyLength};
      if (isUnseen(s, w.mask)) continue;
      computeScores(d, s, x.k, x.v, w);
      addKeyGradient(d, s, w.p, w.dO, w, x.dv);
      addKeyGradient(d, s, w.ds, w.queries, w, x.dk);
      addQueryGradient(d, s, w);
    }
    const float scale = static_cast<float>(d.scale);
    for (int64_t i = 0; i < queries; ++i)
      for (int64_t c = 0; c < d.headDim; ++c) x.dq[(first + i) * d.dq.token + c] = scale * w.dq[i * lanes + c];
  }
}

static void clearRows(const HeadGradient &gradient, int64_t rows, int64_t headDim) {
  for (int64_t j = 0; j < rows; ++j)
    for (int64_t c = 0; c < headDim; ++c) gradient.base[j * gradient.row + c] = 0;
}

// Where dk and dv of one head grow: in place where they are f32.
template <typename T>
static HeadGradient sumsOf(const AttentionDesc &d, HeadView<T> gradient, float *scratch) {
  if constexpr (sizeof(T) == sizeof(float))
    return {const_cast<float *>(gradient.base), gradient.row};
  else
    return {scratch, d.headDim};
}

template <typename T>
static void writeRounded(const AttentionDesc &d, const HeadGradient &sums, HeadView<T> gradient) {
  if constexpr (sizeof(T) != sizeof(float)) {
    T *rows = const_cast<T *>(gradient.base);
    for (int64_t j = 0; j < d.keyLength; ++j)
      for (int64_t c = 0; c < d.headDim; ++c) rows[j * gradient.row + c] = sums.base[j * sums.row + c];
  }
}

template <typename T>
void attentionBackward(const AttentionDesc &d, const T *q, const T *k, const T *v, const T *o, const float *lse,
                       const T *dO, T *dq, T *dk, T *dv, void *workspace) {
  const int64_t group = d.heads / (d.kvHeads > 0 ? d.kvHeads : 1), headFloats = d.keyLength * d.headDim;
  forEachJob(attentionIsWorthATeam(d), d.batch * d.kvHeads, [&](int64_t job) {
    BackwardBlock w;
    const int64_t b = job / d.kvHeads, kvHead = job % d.kvHeads;
    float *scratch = nullptr;
    if (sizeof(T) != sizeof(float))
      scratch = workspace ? static_cast<float *>(workspace) + omp_get_thread_num() * 2 * headFloats
                          : threadScratch(2 * headFloats);
    const HeadView<T> dkHead = headView<T>(dk, d.dk, b, kvHead), dvHead = headView<T>(dv, d.dv, b, kvHead);
    const HeadGradient dkSums = sumsOf(d, dkHead, scratch), dvSums = sumsOf(d, dvHead, scratch + headFloats);
    clearRows(dkSums, d.keyLength, d.headDim);
    clearRows(dvSums, d.keyLength, d.headDim);
    for (int64_t h = kvHead * group; h < (kvHead + 1) * group; ++h) {
      w.dropout = dropoutStream(d, b, h);
      w.mask = headMask(d, b, h);
      differentiateHead<T>(d,
                           {headView(q, d.q, b, h), headView(k, d.k, b, kvHead), headView(v, d.v, b, kvHead),
                            headView(o, d.o, b, h), headView(dO, d.dO, b, h), lse + (b * d.heads + h) * d.queryLength,
                            dq + b * d.dq.batch + h * d.dq.head, dkSums, dvSums},
                           w);
    }
    writeRounded(d, dkSums, dkHead);
    writeRounded(d, dvSums, dvHead);
  });
}

HYC_INSTANTIATE(attentionBackward)

}  // namespace HYC_ISA

HYC_DISPATCH_TEMPLATE(void, attentionBackward,
                      (const AttentionDesc &d, const T *q, const T *k, const T *v, const T *o, const float *lse,
                       const T *dO, T *dq, T *dk, T *dv, void *workspace),
                      (d, q, k, v, o, lse, dO, dq, dk, dv, workspace))

}  // namespace hyc::kernels
