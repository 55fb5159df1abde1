// IndexChecks: the host is told of the op that the device found an index of, in steps that are recorded, between them,
// and where recording fails.
#include "cuda/index_checks.h"

#include <gtest/gtest.h>

#include <string>

#include "hycrt/indices.h"

namespace hycrt {
namespace {

class IndexChecksTest : public testing::Test {
protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
      GTEST_SKIP() << "there is no CUDA device";
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void **>(&indices_), 4 * sizeof(int64_t)), cudaSuccess);
    const Status opened = checks_.open();
    ASSERT_TRUE(opened.ok()) << opened.message();
    set(0);
  }
  void TearDown() override {
    if (!stream_)
      return;
    if (step_) {
      EXPECT_EQ(cudaGraphExecDestroy(step_), cudaSuccess);
    }
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(cudaFree(indices_), cudaSuccess);
  }

  // The last of four indices; the others are 0.
  void set(int64_t last) {
    const int64_t all[] = {0, 0, 0, last};
    ASSERT_EQ(cudaMemcpy(indices_, all, sizeof all, cudaMemcpyHostToDevice), cudaSuccess);
  }
  void add(const char *op, int64_t bound) { checks_.add(ctx_, op, indices_, 4, bound, kAllCounted, stream_); }
  std::string take() {
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    const Status status = checks_.take();
    EXPECT_TRUE(status.ok() || status.exitCode() == 65);
    return status.ok() ? "" : status.message();
  }
  void record(bool failed) {
    checks_.beginRecording();
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    add("first", 9);
    add("second", 5);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    checks_.endRecording(failed);
    if (!failed) {
      ASSERT_EQ(cudaGraphInstantiate(&step_, graph, 0), cudaSuccess);
    }
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  void launch() { ASSERT_EQ(cudaGraphLaunch(step_, stream_), cudaSuccess); }

  Program program_{};
  Context ctx_{program_, {}, nullptr, nullptr};
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t step_ = nullptr;
  int64_t *indices_ = nullptr;
  IndexChecks checks_;
};

TEST_F(IndexChecksTest, NameTheFirstOpInTheOrderOfTheStream) {
  for (int step = 0; step < 3; ++step) {
    add("first", 9);
    EXPECT_EQ(take(), "");
  }
  set(6);
  ctx_.setStep(3);
  add("first", 9);
  add("second", 5);
  add("third", 3);
  EXPECT_EQ(take(), "step 4: second takes element 6 of 5 (at place 3 of 4 indices), expected 0 to 4");
}

TEST_F(IndexChecksTest, StandForAllStepsThatWereRecorded) {
  add("first", 9);
  EXPECT_EQ(take(), "");
  record(/*failed=*/false);
  launch();
  EXPECT_EQ(take(), "");
  add("evaluated", 2);
  EXPECT_EQ(take(), "");
  set(6);
  ctx_.setStep(7);
  launch();
  EXPECT_EQ(take(), "step 8: second takes element 6 of 5 (at place 3 of 4 indices), expected 0 to 4");
}

TEST_F(IndexChecksTest, BetweenRecordedStepsAreTheirOwn) {
  record(/*failed=*/false);
  launch();
  EXPECT_EQ(take(), "");
  set(4);
  add("evaluated", 2);
  add("evaluated later", 1);
  EXPECT_EQ(take(), "step 1: evaluated takes element 4 of 2 (at place 3 of 4 indices), expected 0 to 1");
}

TEST_F(IndexChecksTest, OfWhatCouldNotBeRecordedAreForgotten) {
  record(/*failed=*/true);
  set(6);
  add("called", 4);
  EXPECT_EQ(take(), "step 1: called takes element 6 of 4 (at place 3 of 4 indices), expected 0 to 3");
}

} // namespace
} // namespace hycrt
