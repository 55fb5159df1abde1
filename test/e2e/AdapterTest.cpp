// Adapters of low rank as executables: peft's own losses and gradients over its own adapters, on one rank and on
// meshes; what is saved loads in peft, goes on from where it was, and merges into whole weights.
#include "CompiledRun.h"
#include "SafeTensors.h"

#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

using namespace hyc_e2e;

namespace {

constexpr int kSteps = 20, kGlobalBatch = 8, kSequence = 16;

struct Case {
  const char *base, *adapter;
  int tp = 1, pp = 1, dp = 1;
  std::vector<std::string> further = {};
  const char *frozen = nullptr; // how frozen weights are kept, if not as they are
  std::string name() const {
    std::string own = adapter; // a name of a test has no other letters
    std::replace(own.begin(), own.end(), '-', '_');
    return own + (frozen ? std::string("_") + frozen : "") + "_tp" + std::to_string(tp) + "_pp" + std::to_string(pp) +
           "_dp" + std::to_string(dp);
  }
  friend void PrintTo(const Case &c, std::ostream *out) { *out << c.name(); }
};

/// Compiles the base model with `lora`, or without adapters where it is empty.
std::string compile(const Case &c, const std::string &lora, const std::string &suffix = "",
                    const std::vector<std::string> &further = {}) {
  std::string folder = scratch("adapter-" + c.name() + suffix);
  std::vector<std::string> arguments = {
      tool("hyc-compile"), model(c.base), "--loss", "causal_lm", "--dim", "seq=16", "-o", folder, "--lr", "5e-3"};
  for (auto [option, value] : {std::pair("--tp", c.tp),
                               {"--pp", c.pp},
                               {"--dp", c.dp},
                               {"--micro-batch", 2},
                               {"--grad-accum", kGlobalBatch / 2 / c.dp}})
    arguments.insert(arguments.end(), {option, std::to_string(value)});
  if (!lora.empty())
    arguments.insert(arguments.end(), {"--lora", lora});
  if (!lora.empty() && c.frozen)
    arguments.insert(arguments.end(), {"--frozen-weights", c.frozen});
  arguments.insert(arguments.end(), c.further.begin(), c.further.end());
  arguments.insert(arguments.end(), further.begin(), further.end());
  Outcome outcome = execute(trainingOnly(arguments));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return folder;
}

std::string adapterOf(const Case &c) { return model(std::string("adapters/") + c.adapter); }
std::map<std::string, HostTensor> referenceOf(const Case &c) {
  return readSafeTensors(adapterOf(c) + "." + (c.frozen ? c.frozen : "reference") + ".safetensors");
}

/// `losses` against peft's from step `first` on.
void expectLosses(const Case &c, const std::vector<double> &losses, size_t first, size_t count) {
  const std::vector<double> expected = referenceOf(c).at("losses.adamw").values;
  ASSERT_EQ(losses.size(), count);
  for (size_t step = 0; step < count; ++step)
    EXPECT_NEAR(losses[step], expected[first + step], 1e-5) << "step " << first + step + 1;
}

/// text.bin without what the first `steps` steps read.
std::string textAfter(int steps) {
  std::ifstream whole(model("text.bin"), std::ios::binary);
  whole.seekg(steps * kGlobalBatch * kSequence);
  std::string path = scratch("adapter-text") + ".bin";
  std::ofstream(path, std::ios::binary) << whole.rdbuf();
  return path;
}

std::vector<double> lossesOn(const std::string &data, const std::string &folder, int steps) {
  std::string log = folder + "/after.jsonl";
  Outcome outcome = execute({tool("hyc-run"), folder, "--data", data, "--data-format", "bytes", "--no-shuffle",
                             "--steps", std::to_string(steps), "--log-file", log});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return readLog(log).losses;
}

class Adapter : public testing::TestWithParam<Case> {};

TEST_P(Adapter, TrainsToPeftsLossesAndGradients) {
  const Case &c = GetParam();
  std::string folder = compile(c, adapterOf(c)), dumped = folder + "/gradients.safetensors";
  expectLosses(c, train(folder, kSteps, {"--dump-gradients", dumped}).losses, 0, kSteps);
  const auto gradients = readSafeTensors(dumped), expected = referenceOf(c);
  size_t compared = 0;
  for (const auto &[name, gradient] : expected)
    if (name.rfind("start.", 0) != 0 &&
        (name.find(".weight") != std::string::npos || name.find(".lora_magnitude_vector") != std::string::npos)) {
      ASSERT_EQ(gradients.count(name), 1U) << name;
      EXPECT_EQ(gradients.at(name).shape, gradient.shape) << name;
      EXPECT_LT(relativeDifference(gradients.at(name), gradient), 1e-4) << name;
      ++compared;
    }
  // What is frozen has none.
  EXPECT_EQ(compared, gradients.size());
  EXPECT_GE(compared, 4U);
}

const Case kQwen{"qwen2", "qwen2", 1, 1, 4, {"--zero", "3", "--stage3-param-persistence-threshold", "100"}};
const Case kLlama{"llama", "llama", 2, 1, 2, {"--train", "^model.norm"}};
const Case kPipeline{"llama", "llama", 1, 2, 1, {"--train", "^model.norm", "--recompute", "layer"}};
const Case kGpt2{"gpt2-formats", "gpt2", 2};
// With magnitudes, of heads and of joined ones stored [in, out], split and divided.
const Case kMagnitudes{"llama", "llama-dora", 2, 1, 2};
const Case kMagnitudesZero{"llama", "llama-dora", 1, 1, 4, kQwen.further};
const Case kMagnitudesJoined{"gpt2-formats", "gpt2-dora", 2};

INSTANTIATE_TEST_SUITE_P(Models, Adapter,
                         testing::Values(kQwen, kLlama, kPipeline, kGpt2, kMagnitudes, kMagnitudesZero,
                                         kMagnitudesJoined),
                         [](const auto &info) { return info.param.name(); });

const Case kQwenNf4{"qwen2", "qwen2", 1, 1, 4, kQwen.further, "nf4"};
const Case kLlamaInt8{"llama", "llama", 2, 1, 2, kLlama.further, "int8"};
const Case kLlamaNf4{"llama", "llama", 1, 2, 1, kPipeline.further, "nf4"};
const Case kGpt2Int8{"gpt2-formats", "gpt2", 1, 1, 1, {}, "int8"}, kGpt2Nf4{"gpt2-formats", "gpt2", 2, 1, 1, {}, "nf4"};

const Case kMagnitudesInt8{"llama", "llama-dora", 2, 1, 2, {}, "int8"},
    kMagnitudesNf4{"llama", "llama-dora", 1, 1, 4, kQwen.further, "nf4"},
    kMagnitudesJoinedNf4{"gpt2-formats", "gpt2-dora", 2, 1, 1, {}, "nf4"};

// Over weights that bitsandbytes has quantised and dequantised.
INSTANTIATE_TEST_SUITE_P(Quantized, Adapter,
                         testing::Values(kQwenNf4, kLlamaInt8, kLlamaNf4, kGpt2Int8, kGpt2Nf4, kMagnitudesInt8,
                                         kMagnitudesNf4, kMagnitudesJoinedNf4),
                         [](const auto &info) { return info.param.name(); });

/// Loads `adapter` over `base` by peft and prints the largest difference of its logits from those in `reference`. With
/// no adapter, what transformers makes of `base` alone.
constexpr const char *kLoad = R"(
import sys
import peft, safetensors.torch, torch, transformers
base, adapter, reference, text = sys.argv[1:5]
model = transformers.AutoModelForCausalLM.from_pretrained(base)
if adapter != "none":
    model = peft.PeftModel.from_pretrained(model, adapter)
    loaded = {name.replace(".default", "").replace(".modules_to_save", "").replace("_vector.weight", "_vector")
              for name, _ in model.named_parameters()}
    stored = set(safetensors.torch.load_file(adapter + "/adapter_model.safetensors"))
    assert stored <= loaded, stored - loaded
tokens = torch.tensor(list(open(text, "rb").read(32))).reshape(2, 16)
expected = safetensors.torch.load_file(reference)["trained.logits"]
with torch.no_grad():
    print("DIFFERENCE %.9f" % (model.eval()(tokens).logits - expected).abs().max())
)";

void expectLoads(const Case &c, const std::string &base, const std::string &adapter) {
  Outcome outcome = executePython(kLoad, {base, adapter, adapterOf(c) + ".reference.safetensors", model("text.bin")});
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  size_t at = outcome.output.find("DIFFERENCE ");
  ASSERT_NE(at, std::string::npos) << outcome.output;
  EXPECT_LT(std::stod(outcome.output.substr(at + 11)), 1e-4);
}

/// Saved after ten of peft's twenty steps, alone and merged, on several ranks that split the weights; both then have
/// peft's eleventh loss.
TEST(Adapter, IsSavedAloneAndMerged) {
  for (const Case &c : {kLlama, kGpt2, kMagnitudes, kMagnitudesJoined}) {
    const std::string folder = compile(c, adapterOf(c)), alone = folder + "/alone", merged = folder + "/merged",
                      text = textAfter(kSteps / 2);
    train(folder, kSteps / 2, {"--save-weights", alone});
    train(folder, kSteps / 2, {"--save-weights", merged, "--merge"});
    const auto tensors = readSafeTensors(merged + "/model.safetensors");
    EXPECT_EQ(tensors.size(), readSafeTensors(model(c.base) + "/model.safetensors").size());
    Case one = c;
    one.tp = one.dp = 1;
    one.further = {};
    expectLosses(c, lossesOn(text, compile(one, alone, "-alone"), 1), kSteps / 2, 1);
    expectLosses(c, lossesOn(text, compile(one, "", "-merged", {"--weights", merged}), 1), kSteps / 2, 1);
    // An adapter takes no model's place.
    Outcome outcome = execute({tool("hyc-run"), folder, "--data", text, "--save-weights", merged});
    EXPECT_EQ(outcome.status, 74) << outcome.output;
    EXPECT_NE(outcome.output.find("which saving would remove"), std::string::npos) << outcome.output;
  }
}

/// What is exported of a checkpoint is what the same run saves: the adapter as peft has it, or whole weights.
TEST(Adapter, IsExportedFromACheckpointAsItIsSaved) {
  for (const Case &c : {kLlama, kMagnitudesJoined}) {
    const std::string folder = compile(c, adapterOf(c)), checkpoints = folder + ".checkpoints",
                      text = textAfter(kSteps / 2);
    std::filesystem::remove_all(checkpoints);
    for (const std::string merge : {"", "--merge"}) {
      const std::string saved = folder + "/saved" + merge, exported = folder + "/exported" + merge,
                        file = merge.empty() ? "/adapter_model.safetensors" : "/model.safetensors";
      std::filesystem::remove_all(exported);
      std::vector<std::string> more{"--save-weights", saved},
          command{tool("hyc-checkpoint"), "export", checkpoints, exported};
      if (merge.empty())
        more.insert(more.end(), {"--checkpoint", checkpoints});
      else
        more.push_back(merge), command.push_back(merge);
      train(folder, kSteps / 2, more);
      Outcome outcome = execute(command);
      ASSERT_EQ(outcome.status, 0) << outcome.output;
      const auto tensors = readSafeTensors(exported + file), expected = readSafeTensors(saved + file);
      EXPECT_EQ(tensors.size(), expected.size());
      for (const auto &[name, tensor] : expected) {
        ASSERT_EQ(tensors.count(name), 1u) << name;
        EXPECT_TRUE(tensors.at(name).shape == tensor.shape && tensors.at(name).values == tensor.values) << name;
      }
      EXPECT_EQ(std::filesystem::exists(exported + "/adapter_config.json"), merge.empty());
    }
    Case one = c;
    one.tp = one.dp = 1;
    one.further = {};
    expectLosses(c, lossesOn(text, compile(one, folder + "/exported", "-exported"), 1), kSteps / 2, 1);
  }
}

/// As peft's adapters, of which the script that made them left the magnitudes alone, do.
TEST(Adapter, StartsWithTheLengthsOfWeightsAsMagnitudes) {
  for (auto [c, lora] :
       {std::pair(kMagnitudesZero, "rank=4,alpha=8,variant=dora,targets=q_proj,v_proj,o_proj,down_proj"),
        std::pair(kMagnitudesJoined, "rank=2,alpha=4,variant=dora,targets=c_attn")}) {
    const std::string folder = compile(c, lora, "-fresh", {"--lr", "1e-12"}), saved = folder + "/fresh";
    train(folder, 1, {"--save-weights", saved});
    const auto tensors = readSafeTensors(saved + "/adapter_model.safetensors"),
               expected = readSafeTensors(adapterOf(c) + "/adapter_model.safetensors");
    ASSERT_EQ(tensors.size(), expected.size());
    for (const auto &[name, tensor] : expected)
      if (name.find(".lora_magnitude_vector") != std::string::npos) {
        EXPECT_EQ(tensors.at(name).shape, tensor.shape) << name;
        EXPECT_LT(relativeDifference(tensors.at(name), tensor), 1e-6) << name;
      }
  }
}

/// As peft's do over weights that were quantised and dequantised.
TEST(Adapter, StartsWithTheLengthsOfWhatCodesMean) {
  for (auto [c, lora] :
       {std::pair(kMagnitudesInt8, "rank=4,alpha=8,variant=dora,targets=q_proj,v_proj,o_proj,down_proj"),
        std::pair(kMagnitudesNf4, "rank=4,alpha=8,variant=dora,targets=q_proj,v_proj,o_proj,down_proj"),
        std::pair(kMagnitudesJoinedNf4, "rank=2,alpha=4,variant=dora,targets=c_attn")}) {
    const std::string folder = compile(c, lora, "-fresh", {"--lr", "1e-12"}), saved = folder + "/fresh";
    train(folder, 1, {"--save-weights", saved});
    const auto tensors = readSafeTensors(saved + "/adapter_model.safetensors"), expected = referenceOf(c);
    size_t compared = 0;
    for (const auto &[name, tensor] : expected)
      if (name.rfind("start.", 0) == 0) {
        EXPECT_LT(relativeDifference(tensors.at("base_model.model." + name.substr(6)), tensor), 1e-6) << name;
        ++compared;
      }
    EXPECT_GE(compared, 2U);
  }
}

TEST(Adapter, LoadsInPeftWithTheLogitsOfItsOwnTraining) {
  if (Outcome found = executePython("import peft, torch, transformers", {}); found.status != 0)
    GTEST_SKIP() << "there is no peft (HYC_TEST_PYTHON names a Python that has it)";
  for (const Case &c : {kQwen, kLlama, kGpt2, kMagnitudes, kMagnitudesJoined}) {
    const std::string folder = compile(c, adapterOf(c)), alone = folder + "/trained", merged = folder + "/whole";
    train(folder, kSteps, {"--save-weights", alone});
    expectLoads(c, model(c.base), alone);
    train(folder, kSteps, {"--save-weights", merged, "--merge"});
    expectLoads(c, merged, "none");
  }
}

/// Codes become weights again, with the adapters added, on ranks that split both and divide scales.
TEST(Adapter, OverCodesIsMergedIntoWhatTheyMean) {
  for (const Case &c : {kQwenNf4, kLlamaInt8, kGpt2Nf4, kMagnitudesInt8, kMagnitudesJoinedNf4}) {
    const std::string folder = compile(c, adapterOf(c)), merged = folder + "/merged", text = textAfter(kSteps / 2);
    train(folder, kSteps / 2, {"--save-weights", merged, "--merge"});
    EXPECT_EQ(readSafeTensors(merged + "/model.safetensors").size(),
              readSafeTensors(model(c.base) + "/model.safetensors").size());
    Case one = c;
    one.tp = one.dp = 1;
    one.further = {};
    expectLosses(c, lossesOn(text, compile(one, "", "-merged", {"--weights", merged}), 1), kSteps / 2, 1);
  }
}

/// Checkpoints have no codes: they are made of the model's files again, in another layout, too.
TEST(Adapter, OverCodesGoesOnFromACheckpoint) {
  const std::string folder = compile(kQwenNf4, adapterOf(kQwenNf4)), checkpoints = folder + ".checkpoints";
  std::filesystem::remove_all(checkpoints);
  train(folder, kSteps / 2, {"--checkpoint", checkpoints});
  Case other = kQwenNf4;
  other.dp = 1, other.further = {};
  expectLosses(other, train(compile(other, adapterOf(other)), kSteps, {"--resume", checkpoints}).losses, kSteps / 2,
               kSteps / 2);
}

TEST(Adapter, GoesOnFromACheckpoint) {
  const std::string folder = compile(kQwen, adapterOf(kQwen)), checkpoints = folder + ".checkpoints";
  std::filesystem::remove_all(checkpoints);
  train(folder, kSteps / 2, {"--checkpoint", checkpoints});
  expectLosses(kQwen, train(folder, kSteps, {"--resume", checkpoints}).losses, kSteps / 2, kSteps / 2);
}

} // namespace
