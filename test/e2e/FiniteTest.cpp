// --check-finite: where a run that diverges ends, and that one which does not is left alone.
#include "CompiledRun.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <filesystem>
#include <fstream>

using namespace hyc_e2e;

namespace {

std::vector<std::string> runArguments(const std::string &folder) {
  return {tool("hyc-run"), folder, "--data", model("text.bin"), "--no-shuffle", "--steps", "4"};
}

class CheckFinite : public testing::TestWithParam<Layout> {};

TEST_P(CheckFinite, LeavesAFiniteRunAsItIs) {
  Layout checked = GetParam();
  checked.further.push_back("--check-finite");
  Log plain = train(compiled(GetParam()), 4), watched = train(compiled(checked), 4);
  EXPECT_EQ(plain.losses, watched.losses);
  EXPECT_EQ(plain.norms, watched.norms);
}

/// The first update moves every weight by about the learning rate, after which the first products overflow.
TEST_P(CheckFinite, NamesTheStepAndTheFirstOpOfADivergingRun) {
  Layout diverging = GetParam();
  for (const char *flag : {"--lr", "1e30", "--check-finite"})
    diverging.further.push_back(flag);
  Outcome outcome = execute(runArguments(compiled(diverging)));
  EXPECT_EQ(outcome.status, 65) << outcome.output;
  EXPECT_THAT(outcome.output, testing::HasSubstr("step 2, micro-batch 1 of "));
  // Whatever the layout: embeddings of 1e30 are finite and so is their norm, times a scale of 1e30, but no product of
  // it.
  EXPECT_THAT(outcome.output, testing::HasSubstr("forward: transformer.h.0.attn.c_attn.einsum makes "));
  EXPECT_THAT(outcome.output, testing::Not(testing::HasSubstr("step 3")));
}

/// --measure-memory fills what nobody writes with NaNs, and gradients of 257x60 elements leave such room between them.
TEST(CheckedExchanges, LeaveWhatLiesBetweenGradientsAlone) {
  const std::string folder = scratch("finite-gaps"), config = folder + "/config.json";
  std::filesystem::create_directories(folder);
  std::ofstream(config) << R"({"model_type": "gpt2", "n_layer": 1, "n_head": 3, "n_embd": 60, "n_positions": 16,)"
                        << R"( "vocab_size": 257})";
  for (const char *zero : {"0", "2"}) {
    SCOPED_TRACE(std::string("ZeRO ") + zero);
    const std::string programs = folder + "/zero" + zero;
    Outcome outcome = execute(trainingOnly({tool("hyc-compile"), config, "--dp", "2", "--zero", zero, "--micro-batch",
                                            "2", "--check-finite", "-o", programs}));
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_EQ(train(programs, 2, {"--measure-memory", folder + "/memory.jsonl"}).losses.size(), 2u);
  }
}

/// Without the check, which costs time, the step is found all the same, and who can name the op.
TEST(Diverging, EndsWhereTheLossIsNoNumber) {
  Layout diverging;
  for (const char *flag : {"--lr", "1e30"})
    diverging.further.push_back(flag);
  Outcome outcome = execute(runArguments(compiled(diverging)));
  EXPECT_EQ(outcome.status, 65) << outcome.output;
  EXPECT_THAT(outcome.output, testing::ContainsRegex("error: step 2: the loss is (NaN|infinity); lower"));
  EXPECT_THAT(outcome.output, testing::HasSubstr("hyc-compile --check-finite"));
  EXPECT_THAT(outcome.output, testing::Not(testing::HasSubstr("step 3")));
}

INSTANTIATE_TEST_SUITE_P(Layouts, CheckFinite,
                         testing::Values(Layout{}, Layout{2, 2, 2, "1f1b", "adamw", "f32", {"--zero", "2"}},
                                         Layout{1, 1, 2, "1f1b", "adamw", "bf16"}),
                         [](const auto &info) { return info.param.name(); });

} // namespace
