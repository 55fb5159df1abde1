// One GPT-2 in every format that hyc reads: trained from each it gives PyTorch's losses and gradients, and what is
// saved is what transformers loads.
#include "CompiledRun.h"
#include "SafeTensors.h"

#include "gtest/gtest.h"
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

using namespace hyc_e2e;
namespace fs = std::filesystem;

namespace {

constexpr int kSteps = 10;

const std::map<std::string, HostTensor> &reference() {
  static const auto tensors = readSafeTensors(model("gpt2-formats.reference.safetensors"));
  return tensors;
}

std::string bytesOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The folder that `input` compiles to in this layout, at a global batch of 16 and AdamW as the reference has it.
std::string compile(const std::string &input, const std::string &name, int tp, int pp, int dp,
                    const std::vector<std::string> &further = {}) {
  std::string folder = scratch(name);
  std::vector<std::string> arguments = {tool("hyc-compile"),
                                        input[0] == '/' ? input : model(input),
                                        "--tp",
                                        std::to_string(tp),
                                        "--pp",
                                        std::to_string(pp),
                                        "--dp",
                                        std::to_string(dp)};
  for (const char *argument : {"--micro-batch", "2", "--optimizer", "adamw", "--lr", "1e-3", "--weight-decay", "0.01"})
    arguments.push_back(argument);
  arguments.insert(arguments.end(), {"--grad-accum", std::to_string(8 / dp), "-o", folder});
  arguments.insert(arguments.end(), further.begin(), further.end());
  Outcome outcome = execute(trainingOnly(arguments));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return folder;
}

void expectPyTorchsTraining(const std::string &folder, const std::vector<std::string> &further = {}) {
  std::vector<std::string> arguments = {"--dump-gradients", folder + "/gradients.safetensors"};
  arguments.insert(arguments.end(), further.begin(), further.end());
  Log log = train(folder, kSteps, arguments);
  const std::vector<double> &expected = reference().at("losses.adamw").values;
  ASSERT_EQ(log.losses.size(), static_cast<size_t>(kSteps));
  for (int step = 0; step < kSteps; ++step)
    EXPECT_NEAR(log.losses[step] / expected[step], 1.0, 1e-4) << "step " << step + 1;
  auto gradients = readSafeTensors(folder + "/gradients.safetensors");
  int compared = 0;
  for (auto &[name, gradient] : reference()) {
    if (name.find("transformer.") != 0)
      continue;
    // ONNX's dynamo exporter keeps the tied weight's other name.
    std::string known = gradients.count(name) ? name : "lm_head.weight";
    ASSERT_TRUE(gradients.count(known)) << name;
    EXPECT_LE(relativeDifference(gradients.at(known), gradient), 1e-4) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 28);
}

class EveryFormat : public testing::TestWithParam<const char *> {};

TEST_P(EveryFormat, TrainsToPyTorchsLossesAndGradients) {
  std::string name = std::string("formats-") + (GetParam() + 5);
  expectPyTorchsTraining(compile(GetParam(), name, 1, 1, 1));
}

INSTANTIATE_TEST_SUITE_P(Gpt2, EveryFormat,
                         testing::Values("gpt2-formats", "gpt2-formats.pt2", "gpt2-formats.onnx",
                                         "gpt2-formats-legacy.onnx"),
                         [](const auto &info) {
                           std::string name = info.param;
                           for (char &c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

/// Loads `folder` with transformers and compares its logits on the tokens of `tokensFile` with hyc's loss at the next
/// step; skips where Python lacks them.
constexpr const char *kLoad = R"(
import sys
try:
    import safetensors.torch, torch, transformers
except ImportError as missing:
    print("SKIP", missing); sys.exit(77)
folder, reference, step = sys.argv[1], sys.argv[2], int(sys.argv[3])
model, info = transformers.GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
assert not info["missing_keys"] and not info["unexpected_keys"], info
assert model.lm_head.weight.data_ptr() == model.transformer.wte.weight.data_ptr()
model.eval()
tokens = safetensors.torch.load_file(reference)["tokens"][step].long()
with torch.no_grad():
    logits = model(tokens[:, :-1]).logits
print("LOSS %.9f" % torch.nn.functional.cross_entropy(logits.flatten(0, 1).double(), tokens[:, 1:].flatten()))
)";

Outcome loadWithTransformers(const std::string &folder, int step) {
  return executePython(kLoad, {folder, model("gpt2-formats.reference.safetensors"), std::to_string(step)});
}

/// How many names in the folder of `path` begin as it does.
int entriesBeginning(const std::string &path) {
  int count = 0;
  for (const fs::directory_entry &entry : fs::directory_iterator(fs::path(path).parent_path()))
    count += entry.path().string().rfind(path, 0) == 0;
  return count;
}

struct Saved {
  const char *name;
  int tp, pp, dp;
  std::vector<std::string> further;
  friend void PrintTo(const Saved &saved, std::ostream *out) { *out << saved.name; }
};

class SavedWeights : public testing::TestWithParam<Saved> {};

/// What came out of ten steps goes into transformers, whose loss on the eleventh batch is the eleventh loss of
/// PyTorch's own training, and back into hyc, which goes on with that loss.
TEST_P(SavedWeights, LoadInTransformersAndInHyc) {
  const Saved &saved = GetParam();
  std::string folder =
      compile("gpt2-formats", std::string("formats-saved-") + saved.name, saved.tp, saved.pp, saved.dp, saved.further);
  std::string weights = folder + "/trained";
  expectPyTorchsTraining(folder, {"--save-weights", weights});
  EXPECT_EQ(bytesOf(weights + "/config.json"), bytesOf(model("gpt2-formats/config.json")));
  EXPECT_EQ(entriesBeginning(weights), 1) << "something is left beside the weights";
  double expected = reference().at("losses.adamw").values.at(kSteps);

  Outcome outcome = loadWithTransformers(weights, kSteps);
  if (outcome.status == 77)
    GTEST_SKIP() << "transformers: " << outcome.output << " (HYC_TEST_PYTHON names a Python that has it)";
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  size_t at = outcome.output.find("LOSS ");
  ASSERT_NE(at, std::string::npos) << outcome.output;
  EXPECT_NEAR(std::stod(outcome.output.substr(at + 5)) / expected, 1.0, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, SavedWeights,
    testing::Values(Saved{"one", 1, 1, 1, {}}, Saved{"tp2pp2dp2", 2, 2, 2, {}},
                    Saved{"zero3", 1, 1, 4, {"--zero", "3", "--stage3-param-persistence-threshold", "0"}}),
    [](const auto &info) { return info.param.name; });

/// A run without a step saves what it starts from, to the bit: every rank has read its own parts and written them.
TEST(SavedWeights, OfNoStepAreThoseOfTheFolder) {
  std::string folder = compile("gpt2-formats", "formats-no-step", 2, 2, 2), weights = folder + "/same";
  train(folder, 0, {"--save-weights", weights});
  auto before = readSafeTensors(model("gpt2-formats/model.safetensors")),
       after = readSafeTensors(weights + "/model.safetensors");
  ASSERT_EQ(before.size(), after.size());
  for (auto &[name, tensor] : before) {
    ASSERT_TRUE(after.count(name)) << name;
    EXPECT_EQ(tensor.shape, after.at(name).shape) << name;
    EXPECT_EQ(tensor.values, after.at(name).values) << name;
  }
}

/// Bytes that are tokens of the small families' vocabulary.
std::string smallText() {
  const std::string path = scratch("formats-small-text") + ".bin";
  std::ofstream file(path, std::ios::binary);
  for (uint32_t i = 0, word = 1; i < 20000; ++i)
    file.put(static_cast<char>(((word = word * 1664525u + 1013904223u) >> 24) % 17));
  return path;
}

std::vector<double> lossesOf(const std::string &folder, const std::string &text, int steps,
                             const std::vector<std::string> &further = {}) {
  std::vector<std::string> arguments = {tool("hyc-run"),
                                        folder,
                                        "--data",
                                        text,
                                        "--data-format",
                                        "bytes",
                                        "--no-shuffle",
                                        "--steps",
                                        std::to_string(steps),
                                        "--log-file",
                                        folder + "/log.jsonl"};
  arguments.insert(arguments.end(), further.begin(), further.end());
  Outcome outcome = execute(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return steps == 0 ? std::vector<double>() : readLog(folder + "/log.jsonl").losses;
}

/// Prints OK where transformers loads `folder` without a key too many or too few, as the weights of `same`.
constexpr const char *kLoadSame = R"(
import sys
try:
    import torch, transformers
except ImportError as missing:
    print("SKIP", missing); sys.exit(77)
load = lambda folder: transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
(model, info), (same, _) = load(sys.argv[1]), load(sys.argv[2])
assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], info
expected = same.state_dict()
assert model.state_dict().keys() == expected.keys()
assert all(torch.equal(value, expected[name]) for name, value in model.state_dict().items())
print("OK")
)";

class SavedExperts : public testing::TestWithParam<const char *> {};

/// A tensor for each matrix of each expert, in several files, is read by ranks that have some of it each, and saved as
/// it was read; training from it has the bits of training from one tensor for all experts.
TEST_P(SavedExperts, ThatWereStoredApartAreStoredApart) {
  const std::string family = GetParam(), together = model("families/" + family), apart = together + "-apart";
  const std::vector<std::string> split = {
      "--loss", "causal_lm", "--dim", "seq=16", "--zero", "3", "--stage3-param-persistence-threshold", "0"};
  const std::string first = compile(together, "formats-together-" + family, 2, 1, 2, split),
                    second = compile(apart, "formats-apart-" + family, 2, 1, 2, split), text = smallText();
  const std::vector<double> losses = lossesOf(second, text, 4);
  EXPECT_EQ(losses.size(), 4U);
  EXPECT_EQ(losses, lossesOf(first, text, 4));

  const std::string saved = second + "/same";
  lossesOf(second, text, 0, {"--save-weights", saved});
  auto after = readSafeTensors(saved + "/model.safetensors");
  size_t count = 0, experts = 0;
  for (const fs::directory_entry &entry : fs::directory_iterator(apart)) {
    if (entry.path().extension() != ".safetensors")
      continue;
    for (const auto &[name, tensor] : readSafeTensors(entry.path().string())) {
      ++count;
      if (name.find(".experts.") == std::string::npos)
        continue;
      ASSERT_TRUE(after.count(name)) << name;
      EXPECT_EQ(tensor.shape, after.at(name).shape) << name;
      EXPECT_EQ(tensor.values, after.at(name).values) << name;
      ++experts;
    }
  }
  EXPECT_EQ(after.size(), count);
  EXPECT_GE(experts, 12U);

  const Outcome outcome = executePython(kLoadSame, {saved, together});
  if (outcome.status == 77)
    GTEST_SKIP() << "transformers: " << outcome.output << " (HYC_TEST_PYTHON names a Python that has it)";
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

INSTANTIATE_TEST_SUITE_P(Families, SavedExperts, testing::Values("mixtral", "qwen3_moe"),
                         [](const auto &info) { return std::string(info.param); });

/// `--weights` starts any model from a checkpoint, here one by torch.export from the folder that hyc saved.
TEST(SavedWeights, StartAnotherModel) {
  std::string first = compile("gpt2-formats", "formats-first", 1, 1, 1), weights = first + "/trained";
  Log whole = train(first, kSteps, {"--save-weights", weights});
  std::string second = compile("gpt2-formats.pt2", "formats-second", 2, 1, 2, {"--weights", weights});
  train(second, 0, {"--save-weights", second + "/same.safetensors"});
  auto before = readSafeTensors(weights + "/model.safetensors"), after = readSafeTensors(second + "/same.safetensors");
  ASSERT_EQ(before.size(), after.size());
  for (auto &[name, tensor] : before)
    EXPECT_EQ(tensor.values, after.at(name).values) << name;
}

/// The fixture's folder with its weights cut off to bf16, and what they are as f32.
std::map<std::string, std::vector<double>> writeNarrowFolder(const std::string &folder) {
  fs::create_directories(folder);
  std::ofstream(folder + "/config.json") << bytesOf(model("gpt2-formats/config.json"));
  std::string file = bytesOf(model("gpt2-formats/model.safetensors")), data;
  uint64_t length;
  std::memcpy(&length, file.data(), 8);
  auto header = nlohmann::json::parse(file.substr(8, length)), narrow = nlohmann::json::object();
  std::map<std::string, std::vector<double>> values;
  for (auto &[name, entry] : header.items()) {
    if (name == "__metadata__")
      continue;
    size_t begin = data.size();
    for (size_t at = 8 + length + entry["data_offsets"][0].get<size_t>(),
                end = 8 + length + entry["data_offsets"][1].get<size_t>();
         at < end; at += 4) {
      char widened[4] = {0, 0, file[at + 2], file[at + 3]};
      float value;
      std::memcpy(&value, widened, 4);
      values[name].push_back(value);
      data.append(widened + 2, 2);
    }
    narrow[name] = {{"dtype", "BF16"}, {"shape", entry["shape"]}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = narrow.dump();
  length = text.size();
  std::ofstream(folder + "/model.safetensors", std::ios::binary)
      << std::string(reinterpret_cast<const char *>(&length), 8) << text << data;
  return values;
}

/// Every rank widens the parts that it reads, flat shards of split tensors among them.
TEST(SavedWeights, OfABf16FolderAreItsValuesAsF32) {
  std::string narrow = scratch("formats-narrow") + "/gpt2";
  auto expected = writeNarrowFolder(narrow);
  std::string folder =
      compile(narrow, "formats-widened", 2, 1, 2, {"--zero", "3", "--stage3-param-persistence-threshold", "0"});
  train(folder, 0, {"--save-weights", folder + "/wide.safetensors"});
  auto wide = readSafeTensors(folder + "/wide.safetensors");
  ASSERT_EQ(wide.size(), expected.size());
  for (auto &[name, values] : expected)
    EXPECT_EQ(wide.at(name).values, values) << name;
}

/// A folder with anything else in it is not touched, and said so before training.
TEST(SavedWeights, ReplaceAnEarlierSaveAndNothingElse) {
  std::string folder = compile("gpt2-formats", "formats-replace", 1, 1, 1), weights = folder + "/trained";
  train(folder, 1, {"--save-weights", weights});
  std::string first = bytesOf(weights + "/model.safetensors");
  train(folder, 2, {"--save-weights", weights + "/"});
  EXPECT_NE(bytesOf(weights + "/model.safetensors"), first);
  EXPECT_EQ(entriesBeginning(weights), 1) << "something is left beside the weights";
  std::ofstream(weights + "/notes.txt") << "mine";
  Outcome outcome =
      execute({tool("hyc-run"), folder, "--data", model("text.bin"), "--steps", "1", "--save-weights", weights});
  EXPECT_EQ(outcome.status, 74);
  EXPECT_NE(outcome.output.find("holds 'notes.txt', which saving would remove"), std::string::npos) << outcome.output;
  EXPECT_TRUE(fs::exists(weights + "/notes.txt"));
  outcome = execute(
      {tool("hyc-run"), folder, "--data", model("text.bin"), "--steps", "1", "--save-weights", model("gpt2-formats")});
  EXPECT_EQ(outcome.status, 64) << outcome.output;
  EXPECT_NE(outcome.output.find("would overwrite"), std::string::npos) << outcome.output;
}

} // namespace
