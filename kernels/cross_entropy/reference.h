// Cross entropy in plain loops, for any scalar type.
#ifndef HYC_KERNELS_CROSS_ENTROPY_REFERENCE_H_
#define HYC_KERNELS_CROSS_ENTROPY_REFERENCE_H_

#include <cmath>
#include <limits>

#include "kernels/cross_entropy/op.h"
#include "kernels/description.h"

namespace hyc::kernels::reference {

template <typename T>
void crossEntropyRowMax(const CrossEntropyDesc &d, const T *logits, T *rowMax) {
  for (int64_t t = 0; t < d.tokens; ++t) {
    T max = -std::numeric_limits<T>::infinity();
    for (int64_t v = 0; v < d.localVocab; ++v) max = std::fmax(max, logits[t * d.rowStride() + v]);
    rowMax[t] = max;
  }
}

template <typename T>
void crossEntropySumExp(const CrossEntropyDesc &d, const T *logits, const int64_t *labels, const T *rowMax, T *sumExp,
                        T *picked) {
  for (int64_t t = 0; t < d.tokens; ++t) {
    const T *row = logits + t * d.rowStride();
    T sum = 0;
    for (int64_t v = 0; v < d.localVocab; ++v) sum += std::exp(row[v] - rowMax[t]);
    const int64_t label = labels[t] - d.vocabStart;
    sumExp[t] = sum;
    picked[t] = labels[t] != d.ignoreIndex && label >= 0 && label < d.localVocab ? row[label] : T(0);
  }
}

template <typename T>
void crossEntropyCombine(const CrossEntropyDesc &d, const int64_t *labels, const T *rowMax, const T *sumExp,
                         const T *picked, T *lse, T *lossSum, int64_t *count) {
  double sum = 0;
  *count = 0;
  for (int64_t t = 0; t < d.tokens; ++t) {
    const T rowLse = std::log(sumExp[t]) + rowMax[t];
    if (labels[t] != d.ignoreIndex) {
      sum += double(rowLse) - double(picked[t]);
      ++*count;
    }
    lse[t] = rowLse;
  }
  *lossSum = T(sum);
}

template <typename T>
void crossEntropyForward(const CrossEntropyDesc &d, const T *logits, const int64_t *labels, T *lse, T *picked,
                         T *lossSum, int64_t *count) {
  double sum = 0;
  *count = 0;
  for (int64_t t = 0; t < d.tokens; ++t) {
    CrossEntropyDesc row = d;
    row.tokens = 1;
    T max, sumExp;
    // Qualified: the kernels of the same name would be found through their argument.
    reference::crossEntropyRowMax(row, logits + t * d.rowStride(), &max);
    reference::crossEntropySumExp(row, logits + t * d.rowStride(), labels + t, &max, &sumExp, picked + t);
    lse[t] = std::log(sumExp) + max;
    if (labels[t] != d.ignoreIndex) {
      sum += double(lse[t]) - double(picked[t]);
      ++*count;
    }
  }
  *lossSum = T(sum);
}

template <typename T>
void crossEntropyGrad(const CrossEntropyDesc &d, const T *logits, const int64_t *labels, const T *lse, T scale,
                      T *dlogits) {
  for (int64_t t = 0; t < d.tokens; ++t)
    for (int64_t v = 0; v < d.rowStride(); ++v) {
      const int64_t i = t * d.rowStride() + v;
      if (labels[t] == d.ignoreIndex || v >= d.localVocab)
        dlogits[i] = 0;
      else
        dlogits[i] = scale * (std::exp(logits[i] - lse[t]) - (labels[t] - d.vocabStart == v ? T(1) : T(0)));
    }
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::cross_entropy {

// The three pieces one after the other.
inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("cross_entropy",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        const CrossEntropyDesc desc = c.desc<CrossEntropyDesc>();
                        const int64_t *labels = c.in<int64_t>("labels");
                        std::vector<T> max(desc.tokens), sumExp(desc.tokens), picked(desc.tokens);
                        reference::crossEntropyRowMax(desc, c.in<T>("logits"), max.data());
                        reference::crossEntropySumExp(desc, c.in<T>("logits"), labels, max.data(), sumExp.data(),
                                                      picked.data());
                        reference::crossEntropyCombine(desc, labels, max.data(), sumExp.data(), picked.data(),
                                                       c.out<T>("lse"), c.out<T>("loss"), c.out<int64_t>("count"));
                      }),
    referenceOfFloats("cross_entropy_grad",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::crossEntropyGrad(c.desc<CrossEntropyDesc>(), c.in<T>("logits"),
                                                    c.in<int64_t>("labels"), c.in<T>("lse"),
                                                    static_cast<T>(c.value("cotangent")), c.out<T>("dlogits"));
                      }),
    referenceOfFloats("vocab_max",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::crossEntropyRowMax(c.desc<CrossEntropyDesc>(), c.in<T>("logits"), c.out<T>("max"));
                      }),
    referenceOfFloats("vocab_sum_exp",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::crossEntropySumExp(c.desc<CrossEntropyDesc>(), c.in<T>("logits"),
                                                      c.in<int64_t>("labels"), c.in<T>("max"), c.out<T>("sum_exp"),
                                                      c.out<T>("picked"));
                      }),
    referenceOfFloats("vocab_loss",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::crossEntropyCombine(c.desc<CrossEntropyDesc>(), c.in<int64_t>("labels"),
                                                       c.in<T>("max"), c.in<T>("sum_exp"), c.in<T>("picked"),
                                                       c.out<T>("lse"), c.out<T>("loss"), c.out<int64_t>("count"));
                      }),
};

}  // namespace hyc::kernels::executed::cross_entropy

#endif  // HYC_KERNELS_CROSS_ENTROPY_REFERENCE_H_
