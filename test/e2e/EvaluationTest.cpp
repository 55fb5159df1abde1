// What runs read and tell beside training: losses of held-out data, samples of any kind, and models of which a part is
// trained.
#include "CompiledRun.h"
#include "SafeTensors.h"

#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

using namespace hyc_e2e;

namespace {

constexpr int64_t kSamples = 16, kSequence = 64; // of one global batch, and of one sample

std::string textOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The tiny GPT-2's windows of text.bin as tensors, in file order.
std::string writeSamples(const std::string &path) {
  const std::string text = textOf(model("text.bin"));
  const int64_t count = static_cast<int64_t>(text.size() - 1) / kSequence;
  HostTensor tokens{{count, kSequence}, {}}, labels = tokens;
  for (int64_t i = 0; i < count * kSequence; ++i) {
    tokens.values.push_back(static_cast<unsigned char>(text[static_cast<size_t>(i)]));
    labels.values.push_back(static_cast<unsigned char>(text[static_cast<size_t>(i) + 1]));
  }
  return writeSafeTensors(path, {{"input_ids", "I32", tokens}, {"labels", "I32", labels}});
}

/// The mean loss over the first `batches` global batches.
double evaluate(const std::string &folder, const std::string &data, int batches) {
  const std::string log = folder + "/evaluation.jsonl";
  Outcome outcome = execute(
      {tool("hyc-run"), folder, "--data", data, "--evaluate", "--steps", std::to_string(batches), "--log-file", log});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("perplexity"), std::string::npos) << outcome.output;
  std::ifstream file(log);
  std::string line, last;
  while (std::getline(file, line))
    last = line;
  nlohmann::json record = nlohmann::json::parse(last);
  EXPECT_EQ(record["step"], batches);
  EXPECT_NEAR(record["perplexity"].get<double>(), std::exp(record["loss"].get<double>()), 1e-9);
  return record["loss"];
}

double meanOf(const std::vector<double> &values) {
  double sum = 0;
  for (double value : values)
    sum += value;
  return sum / static_cast<double>(values.size());
}

TEST(Evaluation, TellsTheLossThatStepsWithoutAnUpdateHave) {
  const Layout one{1, 1, 1};
  // A rate of zero keeps the weights.
  const std::string still = scratch("evaluation-still");
  std::vector<std::string> arguments = compileArguments(one, still);
  *std::next(std::find(arguments.begin(), arguments.end(), "--lr")) = "0";
  Outcome outcome = execute(arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  Log untrained = train(still, 3);
  double loss = evaluate(compiled(one), model("text.bin"), 3);
  EXPECT_NEAR(loss, meanOf(untrained.losses), 1e-9);
  const auto reference = readSafeTensors(model("gpt2-tiny.reference.safetensors"));
  EXPECT_NEAR(evaluate(compiled(one), model("text.bin"), 1), reference.at("losses.adamw").values.front(), 1e-4);
}

TEST(Evaluation, IsTheSameInEveryLayout) {
  double loss = evaluate(compiled({1, 1, 1}), model("text.bin"), 2);
  for (const Layout &layout : {Layout{2, 2, 2}, Layout{1, 2, 2, "1f1b", "adamw", "f32", {"--zero", "3"}},
                               Layout{1, 2, 1, "1f1b", "adamw", "f32", {"--virtual-stages", "2"}}})
    EXPECT_NEAR(evaluate(compiled(layout), model("text.bin"), 2), loss, 1e-5 * loss) << layout.name();
}

TEST(Evaluation, ReadsWholeBatchesOfAllDataOnce) {
  const std::string folder = compiled({1, 1, 1});
  const std::string data = scratch("held-out") + ".bin";
  const auto writeWindows = [&](int64_t samples) {
    std::ofstream(data, std::ios::binary) << textOf(model("text.bin")).substr(0, samples * kSequence + 1);
  };
  writeWindows(2 * kSamples + 3);
  Outcome outcome = execute({tool("hyc-run"), folder, "--data", data, "--evaluate"});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("batch 2/2"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("the last 3 of 35 samples fill no global batch of 16"), std::string::npos)
      << outcome.output;
  writeWindows(kSamples - 1);
  outcome = execute({tool("hyc-run"), folder, "--data", data, "--evaluate"});
  EXPECT_EQ(outcome.status, 65) << outcome.output;
  EXPECT_NE(outcome.output.find("holds 15 samples, expected at least one global batch of 16"), std::string::npos)
      << outcome.output;
}

TEST(Evaluation, RefusesWhatOnlyTrainingWrites) {
  const std::string folder = compiled({1, 1, 1});
  Outcome outcome = execute({tool("hyc-run"), folder, "--data", model("text.bin"), "--evaluate", "--save-weights",
                             folder + "/weights.safetensors"});
  EXPECT_EQ(outcome.status, 64) << outcome.output;
  EXPECT_NE(outcome.output.find("--evaluate"), std::string::npos) << outcome.output;
}

TEST(Samples, OfAFileOfTensorsTrainAsTheSameTokensDo) {
  const std::string samples = writeSamples(scratch("samples") + ".safetensors");
  for (const Layout &layout : {Layout{1, 1, 1}, Layout{2, 2, 2}}) {
    const std::string folder = compiled(layout), log = folder + "/samples.jsonl";
    Log tokens = train(folder, 4);
    Outcome outcome =
        execute({tool("hyc-run"), folder, "--data", samples, "--steps", "4", "--no-shuffle", "--log-file", log});
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_EQ(readLog(log).losses, tokens.losses);
    EXPECT_EQ(evaluate(folder, samples, 2), evaluate(folder, model("text.bin"), 2));
  }
}

TEST(Frozen, ParametersKeepTheirBitsAndTheOthersTrain) {
  const Layout frozen{2, 2, 2, "1f1b", "adamw", "f32", {"--train", "^transformer\\.h\\.", "--freeze", "bias$"}};
  const std::string folder = compiled(frozen), before = folder + "/before.safetensors",
                    after = folder + "/after.safetensors";
  train(folder, 0, {"--save-weights", before});
  Log log = train(folder, 6, {"--save-weights", after});
  EXPECT_LT(log.losses.back(), log.losses.front());
  const auto first = readSafeTensors(before), last = readSafeTensors(after);
  ASSERT_EQ(first.size(), last.size());
  int kept = 0, changed = 0;
  for (const auto &[name, tensor] : first) {
    const bool isTrained = name.rfind("transformer.h.", 0) == 0 && name.substr(name.size() - 4) != "bias";
    EXPECT_EQ(last.at(name).values != tensor.values, isTrained) << name;
    (isTrained ? changed : kept) += 1;
  }
  EXPECT_GT(kept, 4);
  EXPECT_GT(changed, 4);
}

} // namespace
