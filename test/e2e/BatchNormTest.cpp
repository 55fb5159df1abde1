// A ResNet as executables, on one rank and with its batch over two: PyTorch's losses, gradients and running averages,
// weights with the averages among them, and the loss of evaluation, which goes by these.
#include "CompiledRun.h"
#include "SafeTensors.h"

#include "gtest/gtest.h"
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

using namespace hyc_e2e;

namespace {

constexpr int kSteps = 10, kBatch = 8;

std::map<std::string, HostTensor> reference() { return readSafeTensors(model("resnet.reference.safetensors")); }

std::string compile(const std::string &input, int dp, const std::string &name,
                    const std::vector<std::string> &further = {}) {
  std::string folder = scratch("batch-norm-" + name);
  std::vector<std::string> arguments = {tool("hyc-compile"),
                                        model(input),
                                        "--loss",
                                        "cross_entropy",
                                        "--logits",
                                        "logits",
                                        "--micro-batch",
                                        std::to_string(kBatch / dp),
                                        "--dp",
                                        std::to_string(dp),
                                        "--optimizer",
                                        "adamw",
                                        "--lr",
                                        "1e-3",
                                        "--weight-decay",
                                        "0.01",
                                        "-o",
                                        folder};
  arguments.insert(arguments.end(), further.begin(), further.end());
  Outcome outcome = execute(trainingOnly(arguments));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return folder;
}

/// Trains `folder` on the reference's batches; the weights are in the file that is returned.
std::string trainOnBatches(const std::string &folder) {
  const std::string weights = folder + "/trained.safetensors";
  Outcome outcome = execute({tool("hyc-run"), folder, "--data",
                             writeImageSamples(model("resnet.reference.safetensors"), folder + "/samples.safetensors"),
                             "--no-shuffle", "--steps", std::to_string(kSteps), "--log-file", folder + "/log.jsonl",
                             "--dump-gradients", folder + "/gradients.safetensors", "--save-weights", weights});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return weights;
}

void expectPyTorchs(const std::string &folder, const std::string &weights) {
  const auto expected = reference();
  Log log = readLog(folder + "/log.jsonl");
  ASSERT_EQ(log.losses.size(), static_cast<size_t>(kSteps));
  for (size_t step = 0; step < kSteps; ++step)
    EXPECT_NEAR(log.losses[step] / expected.at("losses.adamw").values[step], 1.0, 1e-4) << "step " << step + 1;
  size_t gradients = 0, buffers = 0;
  for (const auto &[name, gradient] : readSafeTensors(folder + "/gradients.safetensors")) {
    EXPECT_LE(relativeDifference(gradient, expected.at(name)), 1e-4) << name;
    ++gradients;
  }
  const auto saved = readSafeTensors(weights);
  for (const auto &[name, value] : expected)
    if (name.rfind("buffers.", 0) == 0) {
      const std::string buffer = name.substr(std::string("buffers.").size());
      ASSERT_TRUE(saved.count(buffer)) << buffer;
      EXPECT_EQ(saved.at(buffer).shape, value.shape) << buffer;
      EXPECT_LE(relativeDifference(saved.at(buffer), value), 1e-5) << buffer;
      ++buffers;
    }
  EXPECT_EQ(gradients, 29u);
  EXPECT_EQ(buffers, 27u);
  EXPECT_EQ(saved.size(), gradients + buffers);
}

/// The loss that `folder` tells of the eleventh batch.
double evaluate(const std::string &folder) {
  auto batches = reference();
  std::vector<TypedTensor> last;
  for (const auto &[name, dtype] : {std::pair("pixel_values", "F32"), std::pair("labels", "I32")}) {
    HostTensor batch = batches.at(name);
    const size_t size = batch.values.size() / static_cast<size_t>(batch.shape.front());
    batch.values.erase(batch.values.begin(), batch.values.begin() + static_cast<std::ptrdiff_t>(kSteps * size));
    batch.values.resize(size);
    batch.shape.erase(batch.shape.begin());
    last.push_back({name, dtype, std::move(batch)});
  }
  const std::string log = folder + "/evaluation.jsonl";
  Outcome outcome = execute({tool("hyc-run"), folder, "--data", writeSafeTensors(folder + "/last.safetensors", last),
                             "--evaluate", "--log-file", log});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  std::ifstream file(log);
  std::string line;
  std::getline(file, line);
  return nlohmann::json::parse(line)["loss"];
}

TEST(BatchNormRun, TrainsAndIsEvaluatedAsPyTorchDoes) {
  const std::string folder = compile("resnet.pt2", 1, "one"), weights = trainOnBatches(folder);
  expectPyTorchs(folder, weights);

  // What updates its averages is not what they are to be tested with.
  Outcome refused = execute({tool("hyc-run"), folder, "--data", folder + "/samples.safetensors", "--evaluate"});
  EXPECT_EQ(refused.status, 64) << refused.output;
  EXPECT_NE(refused.output.find("--entry evaluate --weights"), std::string::npos) << refused.output;

  const double expected = reference().at("loss.evaluation").values.front();
  for (int dp : {1, 2}) {
    const std::string evaluating = compile("resnet.pt2", dp, "evaluation-dp" + std::to_string(dp),
                                           {dp == 1 ? "--mode" : "--entry", "evaluate", "--weights", weights});
    EXPECT_NEAR(evaluate(evaluating) / expected, 1.0, 1e-4) << "dp " << dp;
  }
}

TEST(BatchNormRun, OverTwoRanksTakesStatisticsOfAllSamples) {
  const std::string folder =
      compile("resnet.pt2", 2, "dp2", {"--zero", "3", "--stage3-param-persistence-threshold", "0"});
  expectPyTorchs(folder, trainOnBatches(folder));
}

/// Loads weights into transformers' own model, in which nothing may be missing or left over, and prints the loss that
/// it has of a step's batch in evaluation.
constexpr const char *kLoad = R"(
import sys
try:
    import safetensors.torch, torch, transformers
except ImportError as missing:
    print("SKIP", missing); sys.exit(77)
weights, reference, step = sys.argv[1], sys.argv[2], int(sys.argv[3])
model = transformers.ResNetForImageClassification(transformers.ResNetConfig(
    num_channels=3, embedding_size=8, hidden_sizes=[16, 32], depths=[1, 2], layer_type="basic", num_labels=10))
model.load_state_dict(safetensors.torch.load_file(weights), strict=True)
data = safetensors.torch.load_file(reference)
with torch.no_grad():
    logits = model.eval()(data["pixel_values"][step]).logits
    print("LOSS %.9f" % torch.nn.functional.cross_entropy(logits, data["labels"][step].long()))
)";

TEST(BatchNormRun, SavedWeightsLoadInTransformers) {
  const std::string weights = trainOnBatches(compile("resnet.pt2", 1, "saved"));
  Outcome outcome = executePython(kLoad, {weights, model("resnet.reference.safetensors"), std::to_string(kSteps)});
  if (outcome.status == 77)
    GTEST_SKIP() << "transformers: " << outcome.output << " (HYC_TEST_PYTHON names a Python that has it)";
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const size_t at = outcome.output.find("LOSS ");
  ASSERT_NE(at, std::string::npos) << outcome.output;
  EXPECT_NEAR(std::stod(outcome.output.substr(at + 5)) / reference().at("loss.evaluation").values.front(), 1.0, 1e-4);
}

} // namespace
