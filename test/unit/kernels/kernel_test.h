// What the kernels' tests share: data, comparison with a reference in f64, finite differences, numbers of threads.
#ifndef HYC_TEST_UNIT_KERNELS_KERNEL_TEST_H_
#define HYC_TEST_UNIT_KERNELS_KERNEL_TEST_H_

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace hyc::kernels {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

inline Floats randomFloats(int64_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Floats x(n);
  for (float &value : x) value = uniform(generator);
  return x;
}
inline Doubles widen(const Floats &x) { return Doubles(x.begin(), x.end()); }
inline Floats notANumber(int64_t n) { return Floats(n, std::nanf("")); }

// max |got − want| over max |want|, or over `floor` if that is larger (for results that cancel to nothing); infinite
// where a difference is not a number.
inline double relativeError(const Floats &got, const Doubles &want, double floor = 1e-30) {
  EXPECT_EQ(got.size(), want.size());
  double error = 0, largest = floor;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::fabs(got[i] - want[i]);
    if (!(difference <= error)) error = std::isnan(difference) ? INFINITY : difference;
    largest = std::fmax(largest, std::fabs(want[i]));
  }
  return error / largest;
}

inline bool sameBits(const Floats &a, const Floats &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Runs `compute`, which returns its results, with one, two and three threads, and expects the same bits.
template <typename Compute>
void expectBitsIndependentOfThreads(Compute compute) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const Floats one = compute();
  for (int threads : {2, 3}) {
    omp_set_num_threads(threads);
    EXPECT_TRUE(sameBits(one, compute())) << threads << " threads differ from one";
  }
  omp_set_num_threads(before);
}

// The gradient of a scalar function of x by central differences in f64.
template <typename Function>
Doubles finiteDifferences(Doubles x, Function function) {
  constexpr double kStep = 1e-5;
  Doubles gradient(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double value = x[i];
    x[i] = value + kStep;
    const double above = function(x);
    x[i] = value - kStep;
    gradient[i] = (above - function(x)) / (2 * kStep);
    x[i] = value;
  }
  return gradient;
}

inline double dot(const Doubles &a, const Doubles &b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline void expectNear(const Doubles &got, const Doubles &want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << "element " << i;
}

}  // namespace hyc::kernels

#endif  // HYC_TEST_UNIT_KERNELS_KERNEL_TEST_H_
