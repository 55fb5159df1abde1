// What the tests of kernels for GPUs share: memory of the device, rounding to 16 bits, comparison with references.
//
// They are linked twice: with the kernels as nvcc makes them, for a machine with a GPU (without one each test says that
// it was skipped), and with the same sources as g++ makes them, run by test/emulation on any machine.
#ifndef HYC_TEST_UNIT_CUDA_DEVICE_TEST_H_
#define HYC_TEST_UNIT_CUDA_DEVICE_TEST_H_

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/narrow_float.h"

namespace hyc::kernels::cuda {

using Doubles = std::vector<double>;

class CudaTest : public testing::Test {
protected:
  void SetUp() override {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0)
      GTEST_SKIP() << "there is no CUDA device: " << cudaGetErrorString(error);
  }
  void TearDown() override {
    if (!IsSkipped()) {
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
  }
};

// A vector on the device.
template <typename T> class DeviceArray {
public:
  explicit DeviceArray(const std::vector<T> &values) : size_(values.size()) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void **>(&data_), bytes() + 16), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice), cudaSuccess);
  }
  // NaN, or −1.
  explicit DeviceArray(int64_t size) : size_(static_cast<size_t>(size)) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void **>(&data_), bytes() + 16), cudaSuccess);
    EXPECT_EQ(cudaMemset(data_, 0xFF, bytes() + 16), cudaSuccess);
  }
  DeviceArray(const DeviceArray &) = delete;
  ~DeviceArray() { cudaFree(data_); }

  T *get() { return data_; }
  operator T *() { return data_; } // NOLINT: it stands for its memory
  std::vector<T> read() const {
    std::vector<T> values(size_);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }
  Doubles readDoubles() const {
    const std::vector<T> values = read();
    Doubles doubles;
    for (const T &value : values)
      doubles.push_back(static_cast<double>(static_cast<float>(value)));
    return doubles;
  }

private:
  size_t bytes() const { return size_ * sizeof(T); }
  T *data_ = nullptr;
  size_t size_;
};

// Random numbers in [−1, 1], as T holds them.
template <typename T> std::vector<T> randomValues(int64_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<T> values(static_cast<size_t>(n));
  for (T &value : values)
    value = static_cast<T>(uniform(generator));
  return values;
}
template <typename T> Doubles widened(const std::vector<T> &values) {
  Doubles doubles;
  for (const T &value : values)
    doubles.push_back(static_cast<double>(static_cast<float>(value)));
  return doubles;
}

// max |got − want| over max |want|; infinite where a number is missing.
inline double relativeError(const Doubles &got, const Doubles &want) {
  EXPECT_EQ(got.size(), want.size());
  double error = 0, largest = 1e-30;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::fabs(got[i] - want[i]);
    if (!(difference <= error))
      error = std::isnan(difference) ? INFINITY : difference;
    largest = std::fmax(largest, std::fabs(want[i]));
  }
  return error / largest;
}

template <typename T> bool sameBits(const std::vector<T> &a, const std::vector<T> &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// One rounding of T.
template <typename T> constexpr double kEpsilon = sizeof(T) == 4 ? 1.2e-7 : std::is_same_v<T, Bf16> ? 7.9e-3 : 9.8e-4;

} // namespace hyc::kernels::cuda

#endif // HYC_TEST_UNIT_CUDA_DEVICE_TEST_H_
