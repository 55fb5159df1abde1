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
#include <sstream>

using namespace hyc_e2e;

namespace {

constexpr int64_t kSamples = 16, kSequence = 64; // of one global batch, and of one sample

std::string textOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The tiny GPT-2's windows of text.bin as tensors, in file order; with labels of which none counts, where asked.
std::string writeSamples(const std::string &path, bool labelled = true) {
  const std::string text = textOf(model("text.bin"));
  const int64_t count = static_cast<int64_t>(text.size() - 1) / kSequence;
  HostTensor tokens{{count, kSequence}, {}}, labels = tokens;
  for (int64_t i = 0; i < count * kSequence; ++i) {
    tokens.values.push_back(static_cast<unsigned char>(text[static_cast<size_t>(i)]));
    labels.values.push_back(labelled ? static_cast<unsigned char>(text[static_cast<size_t>(i) + 1]) : -100.0);
  }
  return writeSafeTensors(path, {{"input_ids", "I32", tokens}, {"labels", "I32", labels}});
}

/// What is told after the first `batches` global batches.
nlohmann::json evaluation(const std::string &folder, const std::string &data, int batches,
                          const std::vector<std::string> &further = {}) {
  const std::string log = folder + "/evaluation.jsonl";
  std::vector<std::string> arguments = {tool("hyc-run"),         folder,       "--data", data, "--steps",
                                        std::to_string(batches), "--log-file", log};
  arguments.insert(arguments.end(), further.begin(), further.end());
  Outcome outcome = execute(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("perplexity"), std::string::npos) << outcome.output;
  nlohmann::json record = nlohmann::json::parse(lastLine(log));
  EXPECT_EQ(record["step"], batches);
  const double loss = record["loss"], perplexity = record["perplexity"];
  EXPECT_NEAR(perplexity / std::exp(loss), 1, 1e-9);
  return record;
}

/// The mean loss over the first `batches` global batches, by programs that train.
double evaluate(const std::string &folder, const std::string &data, int batches) {
  return evaluation(folder, data, batches, {"--evaluate"})["loss"];
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

/// Programs of their own for it: the same loss, and how often the right token had the highest score, in every layout
/// and for a model with dropout; with neither gradients nor states of an optimizer.
TEST(Evaluation, OfItsOwnProgramsCountsWhatIsRight) {
  const Layout trained{1, 1, 1};
  const std::string weights = scratch("evaluated") + ".safetensors";
  Log log = train(compiled(trained), 8, {"--save-weights", weights});
  const std::vector<std::string> entry = {"--entry", "evaluate", "--weights", weights};
  const auto with = [&](Layout layout, const std::vector<std::string> &more) {
    layout.further = entry;
    layout.further.insert(layout.further.end(), more.begin(), more.end());
    return layout;
  };
  const std::string one = compiled(with({1, 1, 1}, {}));
  const nlohmann::json expected = evaluation(one, model("text.bin"), 2);
  const double loss = expected["loss"], accuracy = expected["accuracy"];
  EXPECT_LT(loss, log.losses.front());
  // What is counted is held to PyTorch's logits below; here it is a whole number of positions, and neither none nor
  // all.
  EXPECT_GT(accuracy, 0.05);
  EXPECT_LT(accuracy, 0.5);
  const double counted = accuracy * 2 * kSamples * kSequence;
  EXPECT_NEAR(counted, std::round(counted), 1e-6);
  for (const Layout &layout : {with({2, 2, 2}, {}), with({1, 2, 2}, {"--zero", "3", "--virtual-stages", "2"})}) {
    const nlohmann::json found = evaluation(compiled(layout), model("text.bin"), 2);
    EXPECT_NEAR(found["loss"].get<double>(), loss, 1e-5 * loss) << layout.name();
    EXPECT_NEAR(found["accuracy"].get<double>(), accuracy, 2.1 / (2 * kSamples * kSequence)) << layout.name();
  }
  const auto memory = nlohmann::json::parse(textOf(one + "/memory.json"));
  for (const auto &arena : memory["stages"][0]["arenas"])
    EXPECT_TRUE(arena["arena"] != "gradients" && arena["arena"] != "optimizer") << arena.dump();
  Outcome outcome =
      execute({tool("hyc-run"), one, "--data", model("text.bin"), "--save-weights", one + "/weights.safetensors"});
  EXPECT_EQ(outcome.status, 64) << outcome.output;
  EXPECT_NE(outcome.output.find("--entry evaluate"), std::string::npos) << outcome.output;
}

/// Both folders train on the same samples, from a known loss down, with equal losses.
void expectFallingAlike(const std::string &one, const std::string &two, const std::string &data, double first) {
  std::vector<Log> logs;
  for (const std::string &folder : {one, two}) {
    const std::string log = folder + "/log.jsonl";
    Outcome outcome =
        execute({tool("hyc-run"), folder, "--data", data, "--no-shuffle", "--steps", "6", "--log-file", log});
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    logs.push_back(readLog(log));
  }
  EXPECT_NEAR(logs[0].losses.front(), first, 1e-5 * first);
  EXPECT_LT(logs[0].losses.back(), 0.7 * logs[0].losses.front());
  for (size_t step = 0; step < logs[0].losses.size(); ++step)
    EXPECT_NEAR(logs[1].losses[step] / logs[0].losses[step], 1, 1e-5) << step;
}

/// The losses of numbers, against PyTorch's logits of the same images; and they fall when trained, alike on two ranks.
TEST(Evaluation, OfNumbersComparesWithPyTorchsOutputs) {
  const auto reference = readSafeTensors(model("vit.reference.safetensors"));
  const HostTensor &logits = reference.at("logits"), &pixels = reference.at("pixel_values");
  const int64_t samples = logits.shape[0], classes = logits.shape[1];
  HostTensor images{{samples, 3, 16, 16}, {}}, targets{{samples, classes}, {}};
  images.values.assign(pixels.values.begin(), pixels.values.begin() + samples * 3 * 16 * 16);
  for (int64_t i = 0; i < samples * classes; ++i)
    targets.values.push_back(static_cast<double>(i * 7 % 5 < 2));
  const std::string data = writeSafeTensors(scratch("numbers") + ".safetensors",
                                            {{"pixel_values", "F32", images}, {"goals", "F32", targets}});
  double squares = 0, entropy = 0, right = 0;
  for (size_t i = 0; i < logits.values.size(); ++i) {
    const double x = logits.values[i], y = targets.values[i];
    squares += (x - y) * (x - y);
    entropy += std::log1p(std::exp(-std::fabs(x))) + std::fmax(x, 0) - x * y;
    right += (x > 0) == (y > 0.5);
  }
  const double count = static_cast<double>(samples * classes);
  int folders = 0;
  const auto compile = [&](const char *loss, const std::vector<std::string> &more) {
    const std::string folder = scratch("numbers-" + std::to_string(folders++));
    std::vector<std::string> arguments = {tool("hyc-compile"), model("vit.pt2"), "--loss", loss,
                                          "--labels",          "goals",          "-o",     folder};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Outcome outcome = execute(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return folder;
  };
  const std::vector<std::string> evaluates = {"--entry", "evaluate", "--micro-batch", std::to_string(samples)};
  nlohmann::json told = evaluation(compile("mse", evaluates), data, 1);
  EXPECT_NEAR(told["loss"].get<double>(), squares / count, 1e-5 * squares / count);
  EXPECT_FALSE(told.contains("accuracy"));
  told = evaluation(compile("binary_cross_entropy", evaluates), data, 1);
  EXPECT_NEAR(told["loss"].get<double>(), entropy / count, 1e-5 * entropy / count);
  EXPECT_NEAR(told["accuracy"].get<double>(), right / count, 1e-9);

  // Of classes: the first image has the label that PyTorch finds most likely, the others one that it does not.
  HostTensor labels{{samples}, {}};
  for (int64_t i = 0; i < samples; ++i) {
    const auto row = logits.values.begin() + i * classes;
    const int64_t best = std::max_element(row, row + classes) - row;
    labels.values.push_back(static_cast<double>(i == 0 ? best : (best + 1) % classes));
  }
  const std::string classified = writeSafeTensors(scratch("classes") + ".safetensors",
                                                  {{"pixel_values", "F32", images}, {"goals", "I32", labels}});
  told = evaluation(compile("cross_entropy", evaluates), classified, 1);
  EXPECT_NEAR(told["accuracy"].get<double>(), 1.0 / static_cast<double>(samples), 1e-9);

  const auto train = [&](const char *dp) {
    return compile("mse", {"--dp", dp, "--micro-batch", dp[0] == '1' ? "2" : "1", "--lr", "1e-2"});
  };
  expectFallingAlike(train("1"), train("2"), data, squares / count);
}

/// Held-out data of thousands of batches: it is an evaluation that a signal, or a time limit, comes in.
TEST(Evaluation, BetweenStepsEndsWithTheRunThatIsAskedToEnd) {
  Layout layout{1, 1, 2};
  layout.further = {"--entry", "train,evaluate"};
  const std::string folder = compiled(layout), data = scratch("evaluation-long") + ".bin", log = folder + "/ended.log",
                    runs = folder + "/ended";
  const std::string text = textOf(model("text.bin"));
  std::ofstream file(data, std::ios::binary);
  for (int i = 0; i < 200; ++i)
    file << text;
  file.close();
  const std::string command = "'" + tool("hyc-run") + "' '" + folder + "' --data '" + model("text.bin") +
                              "' --steps 1000 --evaluate-data '" + data + "' --evaluate-every 1 --checkpoint '" + runs +
                              "' --log-file '" + log + "'";
  for (const std::string how : {"SIGTERM", "the time limit"}) {
    std::filesystem::remove_all(runs);
    std::filesystem::remove(log);
    const std::string asked = how == "SIGTERM"
                                  ? command + " & p=$!; i=0; while [ $i -lt 600 ] && ! grep -qs loss '" + log +
                                        "'; do sleep 0.1; i=$((i+1)); done; sleep 0.3; kill -TERM $p; wait $p"
                                  : "exec " + command + " --time-limit 5";
    const Outcome outcome = execute({"/bin/sh", "-c", asked});
    EXPECT_EQ(outcome.status, 75) << outcome.output;
    EXPECT_NE(outcome.output.find("the evaluation after step 1 was ended after"), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find("(" + how + "), and gives no figure"), std::string::npos) << outcome.output;
    EXPECT_TRUE(std::filesystem::exists(runs + "/step-1")) << outcome.output;
    EXPECT_EQ(textOf(log).find("evaluate_loss"), std::string::npos);
  }
}

/// Of those that are short beside the limit: the last that would not be over in time are not begun, and training goes
/// on. One that takes longer than all before it, on a machine that has other work, is ended instead: tried again.
TEST(Evaluation, BetweenStepsIsLeftOutWhereItDoesNotFitATimeLimit) {
  Layout layout{1, 1, 2};
  layout.further = {"--entry", "train,evaluate"};
  const std::string folder = compiled(layout), log = folder + "/left-out.log", runs = folder + "/left-out";
  const std::string words = "evaluations are left out from step ";
  Outcome outcome;
  size_t said = std::string::npos;
  for (int tries = 0; tries < 4 && said == std::string::npos; ++tries) {
    std::filesystem::remove_all(runs);
    std::filesystem::remove(log);
    outcome = execute({tool("hyc-run"), folder, "--data", model("text.bin"), "--steps", "1000000", "--evaluate-data",
                       model("text.bin"), "--evaluate-batches", "150", "--evaluate-every", "1", "--checkpoint", runs,
                       "--time-limit", "6", "--log-file", log});
    ASSERT_EQ(outcome.status, 75) << outcome.output;
    if (outcome.output.find("was ended after") == std::string::npos)
      said = outcome.output.find(words);
  }
  ASSERT_NE(said, std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find(words, said + 1), std::string::npos) << "once";
  const int64_t first = std::atoll(outcome.output.c_str() + said + words.size());
  int64_t step = 0, evaluated = 0;
  std::istringstream lines(textOf(log));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json record = nlohmann::json::parse(line);
    if (record.contains("evaluate_loss"))
      evaluated = record["step"];
    if (record.contains("loss"))
      step = record["step"];
  }
  EXPECT_EQ(evaluated, first - 1);
  EXPECT_GE(step, first);
  EXPECT_TRUE(std::filesystem::exists(runs + "/step-" + std::to_string(step))) << outcome.output;
}

/// Held-out data that has no loss end the run with an error, and behind what it was for.
TEST(Evaluation, ThatFailsAfterTheLastStepLosesNeitherWeightsNorCheckpoint) {
  Layout layout{1, 1, 2};
  layout.further = {"--entry", "train,evaluate"};
  const std::string folder = compiled(layout), weights = folder + "/kept.safetensors", runs = folder + "/kept";
  const std::string unlabelled = writeSamples(scratch("unlabelled") + ".safetensors", /*labelled=*/false);
  const Outcome outcome = execute({tool("hyc-run"), folder, "--data", model("text.bin"), "--steps", "2",
                                   "--evaluate-data", unlabelled, "--save-weights", weights, "--checkpoint", runs});
  EXPECT_EQ(outcome.status, 65) << outcome.output;
  EXPECT_NE(outcome.output.find("evaluation after step 2"), std::string::npos) << outcome.output;
  EXPECT_TRUE(std::filesystem::exists(weights)) << outcome.output;
  EXPECT_TRUE(std::filesystem::exists(runs + "/step-2")) << outcome.output;
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
