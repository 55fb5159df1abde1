// One folder that trains and evaluates: what is told of held-out data between steps is what programs of their own tell
// of the weights, and training keeps its bits.
#include "CompiledRun.h"
#include "SafeTensors.h"

#include "gtest/gtest.h"
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

using namespace hyc_e2e;

namespace {

constexpr int kSteps = 5;

std::string textOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Windows that the steps do not train on: what follows them in the text.
std::string heldOut() {
  const std::string path = scratch("held-out-text") + ".bin";
  std::ofstream(path, std::ios::binary) << textOf(model("text.bin")).substr(kSteps * 16 * 64, 2 * 16 * 64 + 1);
  return path;
}

Layout withEntries(Layout layout) {
  layout.further.insert(layout.further.end(), {"--entry", "train,evaluate"});
  return layout;
}

/// The last record of an evaluation by programs that do nothing else.
nlohmann::json evaluated(const std::string &weights, const std::string &data, const std::string &precision) {
  const std::string folder =
      compiled({1, 1, 1, "1f1b", "adamw", precision, {"--entry", "evaluate", "--weights", weights}});
  const std::string log = folder + "/evaluation.jsonl";
  Outcome outcome = execute({tool("hyc-run"), folder, "--data", data, "--log-file", log});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return nlohmann::json::parse(lastLine(log));
}

/// The same of a folder that trains, too, from a checkpoint: over `data` alone, and after steps of which none is left.
void expectOfCheckpoint(const std::string &folder, const std::string &runs, const std::string &data, double loss) {
  const std::string log = folder + "/of-checkpoint.jsonl", steps = std::to_string(kSteps);
  const std::vector<std::string> resumed{tool("hyc-run"), folder, "--resume", runs, "--log-file", log};
  for (const std::vector<std::string> &more : std::vector<std::vector<std::string>>{
           {"--evaluate", "--data", data},
           {"--data", model("text.bin"), "--no-shuffle", "--steps", steps, "--evaluate-data", data}}) {
    std::filesystem::remove(log);
    std::vector<std::string> command = resumed;
    command.insert(command.end(), more.begin(), more.end());
    const Outcome outcome = execute(command);
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    bool isTold = false;
    std::ifstream lines(log);
    for (std::string line; std::getline(lines, line);) {
      const nlohmann::json record = nlohmann::json::parse(line);
      EXPECT_FALSE(record.contains("grad_norm")) << "a step was trained: " << line;
      const char *const key = more[0] == "--evaluate" ? "loss" : "evaluate_loss";
      // An evaluation alone tells the mean so far after each batch.
      if (!record.contains(key) || record.value("step", 0) != record.value("steps", -1))
        continue;
      isTold = true;
      EXPECT_EQ(record[key].get<double>(), loss) << line;
    }
    EXPECT_TRUE(isTold) << outcome.output;
  }
}

class Entries : public testing::TestWithParam<Layout> {};

TEST_P(Entries, EvaluateBetweenStepsAndChangeNoBitOfTraining) {
  const std::string data = heldOut(), alone = scratch("alone" + GetParam().name()) + ".safetensors",
                    beside = scratch("beside" + GetParam().name()) + ".safetensors";
  const Log trained = train(compiled(GetParam()), kSteps, {"--save-weights", alone});
  const std::string folder = compiled(withEntries(GetParam()));
  const std::string runs = scratch("checkpoints" + GetParam().name());
  const Log log =
      train(folder, kSteps,
            {"--save-weights", beside, "--evaluate-data", data, "--evaluate-every", "2", "--checkpoint", runs});
  EXPECT_EQ(log.losses, trained.losses);
  EXPECT_EQ(log.norms, trained.norms);
  EXPECT_TRUE(textOf(alone) == textOf(beside)) << "the weights differ";

  ASSERT_EQ(log.evaluations.size(), 3u);
  EXPECT_EQ(log.evaluations[0].step, 2);
  EXPECT_EQ(log.evaluations[1].step, 4);
  EXPECT_EQ(log.evaluations[2].step, kSteps);
  EXPECT_LT(log.evaluations[2].loss, log.evaluations[0].loss);
  const std::string precision = GetParam().precision == "fp8" ? "bf16" : GetParam().precision;
  const nlohmann::json expected = evaluated(beside, data, precision);
  const double tolerance = precision == "f32" ? 1e-5 : 2e-3, positions = 2 * 16 * 64;
  EXPECT_NEAR(log.evaluations[2].loss / expected["loss"].get<double>(), 1, tolerance);
  // 257 classes over two ranks are padded, and among padding nothing is the most likely: there the loss alone is told.
  if (GetParam().tp == 1)
    EXPECT_NEAR(log.evaluations[2].accuracy, expected["accuracy"].get<double>(),
                (precision == "f32" ? 2.1 : 20.1) / positions);
  else
    EXPECT_EQ(log.evaluations[2].accuracy, -1);
  expectOfCheckpoint(folder, runs, data, log.evaluations[2].loss);

  // The same folder, without training: of the initial weights.
  Outcome outcome = execute({tool("hyc-run"), folder, "--data", data, "--evaluate"});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("perplexity"), std::string::npos) << outcome.output;
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Entries,
    testing::Values(
        Layout{1, 1, 1}, Layout{2, 2, 2},
        Layout{1,
               1,
               4,
               "1f1b",
               "adamw",
               "f32",
               {"--zero", "3", "--stage3-param-persistence-threshold", "0", "--stage3-prefetch-bucket-size", "20000"}},
        Layout{1, 2, 2, "1f1b", "adamw", "bf16", {"--zero", "3", "--virtual-stages", "2", "--recompute", "layer"}},
        Layout{2, 1, 1, "1f1b", "adamw", "fp16", {"--offload-optimizer", "cpu", "--offload-param", "cpu"}},
        Layout{1, 1, 2, "1f1b", "adamw", "fp8", {"--clip-grad-norm", "1"}}),
    [](const auto &info) {
      std::string name = info.param.name();
      for (char &c : name)
        c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return name;
    });

/// Batches of the reference, as samples.
std::string imageSamples(const std::map<std::string, HostTensor> &reference, const std::string &name, int first,
                         int count) {
  std::vector<TypedTensor> tensors;
  for (const auto &[tensor, dtype] : {std::pair("pixel_values", "F32"), std::pair("labels", "I32")}) {
    HostTensor all = reference.at(tensor);
    const size_t size = all.values.size() / static_cast<size_t>(all.shape.front());
    const auto begin = all.values.begin() + static_cast<std::ptrdiff_t>(first * size);
    HostTensor part{{all.shape.begin() + 1, all.shape.end()},
                    {begin, begin + static_cast<std::ptrdiff_t>(count * size)}};
    part.shape.front() *= count;
    tensors.push_back({tensor, dtype, std::move(part)});
  }
  return writeSafeTensors(scratch(name) + ".safetensors", tensors);
}

/// Running averages are read, and not updated, by the entry that evaluates.
TEST(EntriesOf, BatchNormEvaluateByRunningAverages) {
  const auto reference = readSafeTensors(model("resnet.reference.safetensors"));
  const std::string training = imageSamples(reference, "bn-training", 0, 10),
                    held = imageSamples(reference, "bn-held-out", 10, 1);
  const auto run = [&](const std::string &entry, const std::vector<std::string> &more) {
    const std::string folder = scratch("bn-" + entry);
    Outcome outcome = execute({tool("hyc-compile"),
                               model("resnet.pt2"),
                               "--loss",
                               "cross_entropy",
                               "--logits",
                               "logits",
                               "--micro-batch",
                               "4",
                               "--dp",
                               "2",
                               "--zero",
                               "3",
                               "--optimizer",
                               "adamw",
                               "--lr",
                               "1e-3",
                               "--weight-decay",
                               "0.01",
                               "--entry",
                               entry,
                               "-o",
                               folder});
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    std::vector<std::string> arguments = {tool("hyc-run"),
                                          folder,
                                          "--data",
                                          training,
                                          "--no-shuffle",
                                          "--steps",
                                          "10",
                                          "--log-file",
                                          folder + "/log.jsonl",
                                          "--save-weights",
                                          folder + "/weights.safetensors"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    outcome = execute(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return folder;
  };
  const std::string alone = run("train", {}),
                    beside = run("train,evaluate", {"--evaluate-data", held, "--evaluate-every", "3"});
  const Log log = readLog(beside + "/log.jsonl");
  EXPECT_EQ(readLog(alone + "/log.jsonl").losses, log.losses);
  EXPECT_TRUE(textOf(alone + "/weights.safetensors") == textOf(beside + "/weights.safetensors"));
  ASSERT_EQ(log.evaluations.size(), 4u);
  EXPECT_NEAR(log.evaluations.back().loss / reference.at("loss.evaluation").values.front(), 1.0, 1e-4);
}

/// What training drops, the entry that evaluates does not.
TEST(EntriesOf, DropoutEvaluateTheWholeModel) {
  const std::string config = scratch("entries_dropout") + ".json", data = heldOut();
  std::ofstream(config) << R"({"model_type": "gpt2", "n_layer": 4, "n_head": 4, "n_embd": 32, "n_positions": 64,
      "vocab_size": 257, "attn_pdrop": 0.2, "embd_pdrop": 0.1, "resid_pdrop": 0.3, "initializer_range": 0.1})";
  const auto compile = [&](const std::string &name, const std::vector<std::string> &more) {
    const std::string folder = scratch("entries-" + name);
    std::vector<std::string> arguments = {
        tool("hyc-compile"), config, "--micro-batch", "4", "--grad-accum", "2", "--lr", "1e-3", "-o", folder};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Outcome outcome = execute(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return folder;
  };
  const std::vector<std::string> layout = {"--pp", "2", "--tp", "2"};
  const std::string alone = compile("dropout", layout);
  std::vector<std::string> both = layout;
  both.insert(both.end(), {"--entry", "train,evaluate"});
  const std::string beside = compile("dropout-both", both), weights = beside + "/weights.safetensors";
  const Log log = train(beside, 4, {"--evaluate-data", data, "--save-weights", weights});
  EXPECT_EQ(train(alone, 4).losses, log.losses);
  ASSERT_EQ(log.evaluations.size(), 1u);
  const std::string evaluates = compile("dropout-evaluate", {"--entry", "evaluate", "--weights", weights});
  const std::string record = evaluates + "/log.jsonl";
  Outcome outcome = execute({tool("hyc-run"), evaluates, "--data", data, "--log-file", record});
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NEAR(log.evaluations[0].loss / nlohmann::json::parse(lastLine(record))["loss"].get<double>(), 1, 1e-5);
}

TEST(EntriesOf, AFolderThatOnlyTrainsAreMissed) {
  const std::string folder = compiled({1, 1, 1});
  Outcome outcome =
      execute({tool("hyc-run"), folder, "--data", model("text.bin"), "--evaluate-data", model("text.bin")});
  EXPECT_EQ(outcome.status, 64) << outcome.output;
  EXPECT_NE(outcome.output.find("compile with --entry train,evaluate"), std::string::npos) << outcome.output;
  outcome = execute({tool("hyc-run"), folder, "--data", model("text.bin"), "--evaluate-every", "2"});
  EXPECT_EQ(outcome.status, 64) << outcome.output;
  EXPECT_NE(outcome.output.find("--evaluate-data FILE"), std::string::npos) << outcome.output;
}

} // namespace
