// Layouts that hyc finds for eight ranks, as executables: the losses of one rank on the same samples.
#include "CompiledRun.h"
#include "SafeTensors.h"

#include "gtest/gtest.h"
#include <string>

using namespace hyc_e2e;

namespace {

constexpr int kSteps = 4, kGlobalBatch = 8;

struct Fixture {
  const char *input, *loss, *images;
  friend void PrintTo(const Fixture &fixture, std::ostream *out) { *out << fixture.input; }
};

Log trainWith(const Fixture &fixture, const std::string &name, const std::vector<std::string> &layout) {
  std::string folder = scratch("planner-" + name);
  std::vector<std::string> arguments = {tool("hyc-compile"),
                                        model(fixture.input),
                                        "--loss",
                                        fixture.loss,
                                        "--optimizer",
                                        "adamw",
                                        "--lr",
                                        "1e-3",
                                        "-o",
                                        folder};
  arguments.insert(arguments.end(), layout.begin(), layout.end());
  Outcome compiled = execute(trainingOnly(arguments));
  EXPECT_EQ(compiled.status, 0) << compiled.output;
  std::string data = model("text.bin");
  if (*fixture.images)
    data = writeImageSamples(model(fixture.images), folder + "/samples.safetensors");
  Outcome run = execute({tool("hyc-run"), folder, "--data", data, "--no-shuffle", "--seed", "1", "--steps",
                         std::to_string(kSteps), "--log-file", folder + "/log.jsonl"});
  EXPECT_EQ(run.status, 0) << run.output;
  return readLog(folder + "/log.jsonl");
}

class Planned : public testing::TestWithParam<Fixture> {};

TEST_P(Planned, EightRanksAloneTrainAsOneDoes) {
  std::string name = GetParam().input;
  Log one = trainWith(GetParam(), name + "-one", {"--micro-batch", std::to_string(kGlobalBatch)});
  Log found = trainWith(GetParam(), name + "-found", {"--ranks", "8", "--global-batch", std::to_string(kGlobalBatch)});
  ASSERT_EQ(one.losses.size(), static_cast<size_t>(kSteps));
  ASSERT_EQ(found.losses.size(), one.losses.size());
  for (size_t step = 0; step < one.losses.size(); ++step)
    EXPECT_NEAR(found.losses[step] / one.losses[step], 1.0, 1e-5) << "step " << step + 1;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Planned,
                         testing::Values(Fixture{"gpt2-tiny.onnx", "cross_entropy", ""},
                                         Fixture{"llama.pt2", "causal_lm", ""},
                                         Fixture{"vit.pt2", "cross_entropy", "vit.reference.safetensors"},
                                         Fixture{"resnet.pt2", "cross_entropy", "resnet.reference.safetensors"}),
                         [](const auto &info) {
                           std::string name = info.param.input;
                           return name.substr(0, name.find_first_of("-."));
                         });

} // namespace
