// Llama, Qwen2, BERT and ViT as executables: PyTorch's losses and gradients on one rank and on eight, and weights that
// transformers loads. The layouts and formats between are compared in test/equivalence.
#include "CompiledRun.h"
#include "SafeTensors.h"

#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

using namespace hyc_e2e;

namespace {

constexpr int kSteps = 10, kGlobalBatch = 8, kMicroBatch = 2;

struct Case {
  const char *input, *reference, *loss;
  int tp = 1, pp = 1, dp = 1;
  std::vector<std::string> further = {};
  std::string name() const {
    std::string text = std::string("transformers-") + input + "-tp" + std::to_string(tp);
    for (char &c : text)
      c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    return text;
  }
  friend void PrintTo(const Case &c, std::ostream *out) { *out << c.name(); }
};

std::string compile(const Case &c) {
  std::string folder = scratch(c.name());
  std::vector<std::string> arguments = {tool("hyc-compile"), model(c.input), "--loss", c.loss, "-o", folder};
  for (auto [option, value] : {std::pair("--tp", c.tp),
                               {"--pp", c.pp},
                               {"--dp", c.dp},
                               {"--micro-batch", kMicroBatch},
                               {"--grad-accum", kGlobalBatch / kMicroBatch / c.dp}})
    arguments.insert(arguments.end(), {option, std::to_string(value)});
  for (const char *argument : {"--optimizer", "adamw", "--lr", "1e-3", "--weight-decay", "0.01"})
    arguments.push_back(argument);
  arguments.insert(arguments.end(), c.further.begin(), c.further.end());
  Outcome outcome = execute(trainingOnly(arguments));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return folder;
}

std::map<std::string, HostTensor> referenceOf(const Case &c) {
  return readSafeTensors(model(std::string(c.reference) + ".reference.safetensors"));
}

double largestOf(const HostTensor &tensor) {
  double largest = 0;
  for (double value : tensor.values)
    largest = std::max(largest, std::fabs(value));
  return largest;
}

HostTensor transposed(const HostTensor &matrix) {
  HostTensor result{{matrix.shape[1], matrix.shape[0]}, {}};
  for (int64_t column = 0; column < matrix.shape[1]; ++column)
    for (int64_t row = 0; row < matrix.shape[0]; ++row)
      result.values.push_back(matrix.values[static_cast<size_t>(row * matrix.shape[1] + column)]);
  return result;
}

/// That of `actual`, or of its transpose where that is nearer: ONNX's exporters keep the weights of products
/// transposed.
double nearestDifference(const HostTensor &actual, const HostTensor &expected) {
  double best = actual.shape == expected.shape ? relativeDifference(actual, expected) : INFINITY;
  if (actual.shape.size() == 2 && expected.shape == std::vector<int64_t>{actual.shape[1], actual.shape[0]})
    best = std::min(best, relativeDifference(transposed(actual), expected));
  return best;
}

/// The losses of `log` and the gradients that the run left in `folder`.
void expectPyTorchs(const Case &c, const std::string &folder, const Log &log) {
  auto reference = referenceOf(c);
  const std::vector<double> &expected = reference.at("losses.adamw").values;
  ASSERT_EQ(log.losses.size(), static_cast<size_t>(kSteps));
  for (int step = 0; step < kSteps; ++step)
    EXPECT_NEAR(log.losses[step] / expected[step], 1.0, 1e-4) << "step " << step + 1;
  int compared = 0;
  const auto gradients = readSafeTensors(folder + "/gradients.safetensors");
  double largest = 0;
  for (auto &[name, gradient] : gradients)
    largest = std::max(largest, largestOf(gradient));
  for (auto &[name, gradient] : gradients) {
    auto wanted = reference.find(name);
    if (wanted == reference.end())
      continue; // renamed by ONNX's exporters
    // A bias of keys that are not rotated moves no probability: what is there is the rounding of zeros.
    if (largestOf(wanted->second) < 1e-6 * largest)
      EXPECT_LT(largestOf(gradient), 1e-6 * largest) << name;
    else
      EXPECT_LE(nearestDifference(gradient, wanted->second), 1e-4) << name;
    ++compared;
  }
  EXPECT_GE(compared, 5);
}

void expectPyTorchsTraining(const Case &c, const std::string &folder, const std::vector<std::string> &further = {}) {
  std::vector<std::string> arguments = {"--dump-gradients", folder + "/gradients.safetensors"};
  arguments.insert(arguments.end(), further.begin(), further.end());
  expectPyTorchs(c, folder, train(folder, kSteps, arguments));
}

class TransformersRun : public testing::TestWithParam<Case> {};

TEST_P(TransformersRun, TrainsToPyTorchsLossesAndGradients) { expectPyTorchsTraining(GetParam(), compile(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Models, TransformersRun,
                         testing::Values(Case{"llama.pt2", "llama", "causal_lm"},
                                         Case{"qwen2.onnx", "qwen2", "causal_lm", 2, 1, 2, {"--zero", "3"}},
                                         Case{"bert.pt2", "bert", "cross_entropy"}),
                         [](const auto &info) { return info.param.name(); });

TEST(TransformersRun, VitTrainsOnImages) {
  for (const Case &c : {Case{"vit.pt2", "vit", "cross_entropy"}, Case{"vit.onnx", "vit", "cross_entropy", 2, 1, 2}}) {
    const std::string folder = compile(c), log = folder + "/log.jsonl",
                      data = writeImageSamples(model("vit.reference.safetensors"), scratch("vit") + ".safetensors");
    Outcome outcome =
        execute({tool("hyc-run"), folder, "--data", data, "--no-shuffle", "--steps", std::to_string(kSteps),
                 "--log-file", log, "--dump-gradients", folder + "/gradients.safetensors"});
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    expectPyTorchs(c, folder, readLog(log));
  }
  // Tokens are no images.
  Outcome outcome =
      execute({tool("hyc-run"), compile({"vit.pt2", "vit", "cross_entropy"}), "--data", model("text.bin")});
  EXPECT_EQ(outcome.status, 64) << outcome.output;
  EXPECT_NE(outcome.output.find("input 'pixel_values' is read sample by sample"), std::string::npos) << outcome.output;
}

/// Loads `folder` with transformers and prints its own loss on the tokens of `reference` at a step; skips where Python
/// lacks it.
constexpr const char *kLoad = R"(
import sys
try:
    import safetensors.torch, torch, transformers
except ImportError as missing:
    print("SKIP", missing); sys.exit(77)
folder, reference, step = sys.argv[1], sys.argv[2], int(sys.argv[3])
model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
assert not info["missing_keys"] and not info["unexpected_keys"], info
assert type(model).__name__ == "LlamaForCausalLM", type(model)
model.eval()
tokens = safetensors.torch.load_file(reference)["tokens"][step].long()[:, :-1]
with torch.no_grad():
    print("LOSS %.9f" % model(tokens, labels=tokens).loss)
)";

/// What came out of ten steps on eight ranks goes into transformers, whose loss on the eleventh batch is the eleventh
/// of PyTorch's own training.
TEST(TransformersRun, LlamaSavedByEightRanksLoadsInTransformers) {
  Case c{"llama", "llama", "causal_lm", 2, 2, 2, {"--dim", "seq=16"}};
  std::string folder = compile(c), weights = folder + "/trained";
  expectPyTorchsTraining(c, folder, {"--save-weights", weights});
  Outcome outcome = executePython(kLoad, {weights, model("llama.reference.safetensors"), std::to_string(kSteps)});
  if (outcome.status == 77)
    GTEST_SKIP() << "transformers: " << outcome.output << " (HYC_TEST_PYTHON names a Python that has it)";
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  size_t at = outcome.output.find("LOSS ");
  ASSERT_NE(at, std::string::npos) << outcome.output;
  double loss = std::stod(outcome.output.substr(at + 5)),
         expected = referenceOf(c).at("losses.adamw").values.at(kSteps);
  EXPECT_NEAR(loss / expected, 1.0, 1e-4);
}

} // namespace
