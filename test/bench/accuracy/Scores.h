// How well predictions meet and order what was measured.
#ifndef HYC_TEST_BENCH_ACCURACY_SCORES_H
#define HYC_TEST_BENCH_ACCURACY_SCORES_H

#include <cstddef>
#include <vector>

namespace hyc::accuracy {

struct Pairs {
  std::vector<double> predicted, measured;
  void add(double prediction, double measurement) {
    predicted.push_back(prediction);
    measured.push_back(measurement);
  }
};

/// |predicted / measured − 1|: that of which this part of all are smaller.
double errorAt(const Pairs &pairs, double part);
/// Rank correlation; equal values share the mean of their ranks.
double spearman(const Pairs &pairs);
/// Of pairs measured more than `apart` from each other, the part that is predicted in their order.
double inOrder(const Pairs &pairs, double apart);
/// How much slower than the best is what was predicted fastest; or the fastest of the first `among`.
double regret(const Pairs &pairs, std::size_t among);

}  // namespace hyc::accuracy

#endif  // HYC_TEST_BENCH_ACCURACY_SCORES_H
