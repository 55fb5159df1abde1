// Attention in plain loops, one query at a time, for any scalar type.
#ifndef HYC_KERNELS_ATTENTION_REFERENCE_H_
#define HYC_KERNELS_ATTENTION_REFERENCE_H_

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention/op.h"
#include "kernels/description.h"

namespace hyc::kernels::reference {

template <typename T>
const T *headRow(const T *base, const HeadStrides &s, int64_t b, int64_t token, int64_t head) {
  return base + b * s.batch + token * s.token + head * s.head;
}
template <typename T>
T *headRow(T *base, const HeadStrides &s, int64_t b, int64_t token, int64_t head) {
  return base + b * s.batch + token * s.token + head * s.head;
}

template <typename T>
T dotProduct(const T *x, const T *y, int64_t n) {
  T sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

// The number of leading keys that query i sees.
inline int64_t visibleKeys(const AttentionDesc &d, int64_t i) {
  return d.causal ? i + 1 + d.keyLength - d.queryLength : d.keyLength;
}

// Whether query i sees key j of those.
inline bool isSeen(const AttentionMask &m, int64_t b, int64_t h, int64_t i, int64_t j) {
  return !m.at || m.at[b * m.batch + h * m.head + i * m.query + j] != 0;
}

// What dropout multiplies probability (b, h, i, j) with.
template <typename T>
T keptShare(const AttentionDesc &d, int64_t b, int64_t h, int64_t i, int64_t j) {
  if (d.dropout.rate == 0) return T(1);
  const int64_t n = d.dropout.place + (h * d.queryLength + i) * dropoutRow(d.keyLength) + j;
  const bool isKept = randomWord(d.dropout.keys[b * d.dropout.keyStride], n) >= dropoutThreshold(d.dropout.rate);
  return isKept ? T(dropoutScale(d.dropout.rate)) : T(0);
}

template <typename T>
void attentionForward(const AttentionDesc &d, const T *q, const T *k, const T *v, T *o, T *lse) {
  std::vector<T> p(d.keyLength);
  for (int64_t b = 0; b < d.batch; ++b)
    for (int64_t h = 0; h < d.heads; ++h)
      for (int64_t i = 0; i < d.queryLength; ++i) {
        const int64_t kvHead = h / (d.heads / d.kvHeads), keys = visibleKeys(d, i);
        const T *qRow = headRow(q, d.q, b, i, h);
        T *oRow = headRow(o, d.o, b, i, h);
        T max = -std::numeric_limits<T>::infinity(), sum = 0;
        for (int64_t j = 0; j < keys; ++j) {
          p[j] = T(d.scale) * dotProduct(qRow, headRow(k, d.k, b, j, kvHead), d.headDim);
          if (isSeen(d.mask, b, h, i, j)) max = p[j] > max ? p[j] : max;
        }
        for (int64_t j = 0; j < keys; ++j) sum += p[j] = isSeen(d.mask, b, h, i, j) ? std::exp(p[j] - max) : T(0);
        for (int64_t j = 0; j < keys; ++j) p[j] *= keptShare<T>(d, b, h, i, j);
        for (int64_t c = 0; c < d.headDim; ++c) {
          T value = 0;
          for (int64_t j = 0; j < keys; ++j) value += p[j] * headRow(v, d.v, b, j, kvHead)[c];
          oRow[c] = sum > 0 ? value / sum : T(0);
        }
        lse[(b * d.heads + h) * d.queryLength + i] = max + std::log(sum);
      }
}

template <typename T>
void attentionBackward(const AttentionDesc &d, const T *q, const T *k, const T *v, const T *o, const T *lse,
                       const T *dO, T *dq, T *dk, T *dv) {
  for (int64_t b = 0; b < d.batch; ++b)
    for (int64_t j = 0; j < d.keyLength; ++j)
      for (int64_t h = 0; h < d.kvHeads; ++h)
        for (int64_t c = 0; c < d.headDim; ++c) headRow(dk, d.dk, b, j, h)[c] = headRow(dv, d.dv, b, j, h)[c] = 0;
  for (int64_t b = 0; b < d.batch; ++b)
    for (int64_t h = 0; h < d.heads; ++h)
      for (int64_t i = 0; i < d.queryLength; ++i) {
        const int64_t kvHead = h / (d.heads / d.kvHeads), keys = visibleKeys(d, i);
        const T *qRow = headRow(q, d.q, b, i, h), *doRow = headRow(dO, d.dO, b, i, h);
        T *dqRow = headRow(dq, d.dq, b, i, h);
        const T rowLse = lse[(b * d.heads + h) * d.queryLength + i];
        const T rowD = dotProduct(doRow, headRow(o, d.o, b, i, h), d.headDim);
        for (int64_t c = 0; c < d.headDim; ++c) dqRow[c] = 0;
        for (int64_t j = 0; j < keys; ++j) {
          if (!isSeen(d.mask, b, h, i, j)) continue;
          const T *kRow = headRow(k, d.k, b, j, kvHead);
          T *dkRow = headRow(dk, d.dk, b, j, kvHead), *dvRow = headRow(dv, d.dv, b, j, kvHead);
          const T p = std::exp(T(d.scale) * dotProduct(qRow, kRow, d.headDim) - rowLse);
          const T kept = keptShare<T>(d, b, h, i, j);
          const T dp = kept * dotProduct(doRow, headRow(v, d.v, b, j, kvHead), d.headDim);
          const T ds = T(d.scale) * p * (dp - rowD);
          for (int64_t c = 0; c < d.headDim; ++c) {
            dqRow[c] += ds * kRow[c];
            dkRow[c] += ds * qRow[c];
            dvRow[c] += p * kept * doRow[c];
          }
        }
      }
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::attention {

// The struct; the interpreter keeps booleans as i64, of which `mask` holds the bytes.
inline AttentionDesc descOf(const ExecutedCall &c, std::vector<uint8_t> &mask) {
  AttentionDesc desc = c.desc<AttentionDesc>();
  if (!c.has("mask")) return desc;
  const Extents extents = c.operand("mask");
  const int64_t *values = c.in<int64_t>("mask");
  mask.assign(values, values + extents.elements());
  desc.mask = denseAttentionMask(mask.data(), extents.shape.begin());
  return desc;
}

inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("attention",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        std::vector<uint8_t> mask;
                        reference::attentionForward(descOf(c, mask), c.in<T>("q"), c.in<T>("k"), c.in<T>("v"),
                                                    c.out<T>("o"), c.out<T>("lse"));
                      }),
    referenceOfFloats("attention_grad",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        std::vector<uint8_t> mask;
                        reference::attentionBackward(descOf(c, mask), c.in<T>("q"), c.in<T>("k"), c.in<T>("v"),
                                                     c.in<T>("o"), c.in<T>("lse"), c.in<T>("dO"), c.out<T>("dq"),
                                                     c.out<T>("dk"), c.out<T>("dv"));
                      }),
};

}  // namespace hyc::kernels::executed::attention

#endif  // HYC_KERNELS_ATTENTION_REFERENCE_H_
