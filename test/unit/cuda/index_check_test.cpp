// What computed indices are compared with: the first check that finds something tells its lowest place, in whatever
// order threads and blocks come.
#include "device_test.h"
#include "kernels/index_check/cuda.h"

#include <new>

namespace hyc::kernels::cuda {
namespace {

struct IndexChecking : CudaTest {
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped())
      return;
    void *memory = nullptr;
    ASSERT_EQ(cudaMallocHost(&memory, sizeof(BadIndex)), cudaSuccess);
    found = new (memory) BadIndex;
  }
  void TearDown() override {
    CudaTest::TearDown();
    if (found) {
      EXPECT_EQ(cudaFreeHost(found), cudaSuccess);
    }
  }

  void check(unsigned number, const std::vector<int64_t> &indices, int64_t bound, int64_t uncounted = 0) {
    DeviceArray<int64_t> onDevice(indices);
    checkIndices(nullptr, {number, onDevice, static_cast<int64_t>(indices.size()), bound, uncounted}, found);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  void expectFound(unsigned number, int64_t place, int64_t index) {
    EXPECT_EQ(found->check, number);
    EXPECT_EQ(found->place, place);
    EXPECT_EQ(found->index, index);
    EXPECT_EQ(found->lock, 0u);
    *found = {};
  }

  BadIndex *found = nullptr;
};

TEST_F(IndexChecking, FindsNothingInGoodIndices) {
  check(1, {0, 8, 3}, 9);
  check(2, {0, -100, 3}, 9, -100);
  check(3, {INT64_MIN}, 9, INT64_MIN);
  check(4, {}, 0);
  check(5, std::vector<int64_t>(100000, 7), 8);
  expectFound(0, 0, 0);
}

TEST_F(IndexChecking, FindsEachThatIsOutside) {
  for (const int64_t index : {INT64_MIN, INT64_C(-100), INT64_C(-1), INT64_C(9), INT64_C(1) << 40, INT64_MAX}) {
    check(1, {0, 1, index, 8}, 9);
    expectFound(1, 2, index);
  }
  check(1, {0}, 0);
  expectFound(1, 0, 0);
}

TEST_F(IndexChecking, TellsTheLowestPlaceOfAnyBlock) {
  const int64_t threads = 4096 * 256; // of the largest grid
  const auto checkBad = [&](std::initializer_list<int64_t> places, int64_t count) {
    std::vector<int64_t> indices(static_cast<size_t>(count), 3);
    for (const int64_t place : places)
      indices[static_cast<size_t>(place)] = 1000 + place;
    check(7, indices, 9);
  };
  checkBad({777, 778, 30000, 39999}, 40000);
  expectFound(7, 777, 1777);
  // The first block finds it last, in its second round.
  checkBad({threads + 200, threads + 400}, threads + 500);
  expectFound(7, threads + 200, 1000 + threads + 200);
}

TEST_F(IndexChecking, KeepsWhatTheFirstCheckFound) {
  check(3, {0, 1, 2}, 9);
  check(4, {0, 9, 10}, 9);
  check(1, {11}, 9);
  check(5, {12}, 9);
  expectFound(4, 1, 9);
}

} // namespace
} // namespace hyc::kernels::cuda
