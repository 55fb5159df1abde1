// What fits into the time that a run has. Times are thousands of seconds, so that those of the test itself are none.
#include "run/interruption.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace hycrt {
namespace {

RunOptions limitedTo(int64_t seconds) {
  RunOptions options;
  options.checkpoint = "runs";
  options.timeLimit = seconds;
  return options;
}

TimeLimit limitOf(const RunOptions& options, int64_t stateBytes = 0) {
  Result<TimeLimit> limit = TimeLimit::of(options, stateBytes);
  EXPECT_TRUE(limit.ok()) << limit.status().message();
  return limit.ok() ? *limit : TimeLimit();
}

TEST(TimeLimit, ThatIsNoneIsNeverUp) {
  TimeLimit limit = limitOf(limitedTo(0));
  limit.stepTook(1e6);
  limit.evaluationTook(1e6);
  EXPECT_FALSE(limit.isUp(false));
  EXPECT_TRUE(limit.fitsEvaluation(true));
}

TEST(TimeLimit, LeavesTwiceTheLongestStepAndCheckpoint) {
  TimeLimit limit = limitOf(limitedTo(100000));
  limit.stepTook(20000);
  limit.stepTook(10);
  limit.checkpointTook(25000);
  limit.checkpointTook(10);
  EXPECT_FALSE(limit.isUp(false));
  EXPECT_TRUE(limit.isUp(true)) << "the one that is being written comes before";
  limit.stepTook(30000);
  EXPECT_TRUE(limit.isUp(false));
}

TEST(TimeLimit, EstimatesTheFirstCheckpointByTheBytesOfTheStates) {
  EXPECT_FALSE(limitOf(limitedTo(100000), /*stateBytes=*/int64_t{4} << 40).isUp(false));
  TimeLimit limit = limitOf(limitedTo(100000), /*stateBytes=*/int64_t{6} << 40);
  EXPECT_TRUE(limit.isUp(false));
  limit.checkpointTook(1000);
  EXPECT_FALSE(limit.isUp(false)) << "one that was measured stands for the estimate";
}

TEST(TimeLimit, LeavesAnEvaluationOutThatIsNotOverInTimeAndIsNotUpForThat) {
  TimeLimit limit = limitOf(limitedTo(100000));
  limit.stepTook(10000);
  EXPECT_TRUE(limit.fitsEvaluation(false)) << "nobody knows yet how long one takes";
  limit.evaluationTook(70000);
  EXPECT_TRUE(limit.fitsEvaluation(false));
  limit.evaluationTook(90000);
  limit.evaluationTook(10);
  EXPECT_FALSE(limit.fitsEvaluation(false));
  EXPECT_FALSE(limit.isUp(false));
}

TEST(TimeLimit, IsThatOfTheJobWhereThatEndsEarlier) {
  for (const bool isEarlier : {true, false}) {
    setenv("SLURM_JOB_END_TIME", std::to_string(std::time(nullptr) + (isEarlier ? 50000 : 500000)).c_str(), 1);
    TimeLimit limit = limitOf(limitedTo(100000));
    limit.stepTook(30000);
    EXPECT_EQ(limit.isUp(false), isEarlier);
  }
  setenv("SLURM_JOB_END_TIME", "soon", 1);
  const Result<TimeLimit> limit = TimeLimit::of(limitedTo(0), 0);
  ASSERT_FALSE(limit.ok());
  EXPECT_EQ(limit.status().code(), StatusCode::kUsage) << limit.status().message();
  unsetenv("SLURM_JOB_END_TIME");
}

}  // namespace
}  // namespace hycrt
