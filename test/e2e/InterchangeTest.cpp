// Training that goes on in PyTorch from a checkpoint of hyc-run's, and the other way round, to the losses of PyTorch's
// undisturbed training; and what docs/checkpoints.md shows of reading a checkpoint without hyc. Skipped without torch.
#include "CompiledRun.h"
#include "SafeTensors.h"
#include "test/Places.h"

#include "gtest/gtest.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace hyc_e2e;
namespace fs = std::filesystem;

namespace {

constexpr int kHalf = 5;
const std::string kDocs = hyc::places::inTree("docs/checkpoints.md");

bool hasTorch() {
  return executePython("import torch.distributed.checkpoint.hf_storage, safetensors.torch", {}).status == 0;
}

/// The GPT-2 that the reference trained, by all kinds of parallelism at once.
const std::string &program() {
  static const std::string folder = [] {
    std::string made = scratch("interchange");
    Outcome outcome = execute(trainingOnly({tool("hyc-compile"),
                                            model("gpt2-formats"),
                                            "--tp",
                                            "2",
                                            "--pp",
                                            "2",
                                            "--dp",
                                            "2",
                                            "--zero",
                                            "3",
                                            "--optimizer",
                                            "adamw",
                                            "--lr",
                                            "1e-3",
                                            "-o",
                                            made,
                                            "--stage3-param-persistence-threshold",
                                            "0",
                                            "--micro-batch",
                                            "2",
                                            "--grad-accum",
                                            "4",
                                            "--weight-decay",
                                            "0.01"}));
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return made;
  }();
  return folder;
}

/// Runs hyc-checkpoint.
void checkpoint(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), tool("hyc-checkpoint"));
  Outcome outcome = execute(arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.output;
}

/// After the first half of the steps.
const std::string &half() {
  static const std::string folder = [] {
    std::string runs = scratch("interchange-runs");
    train(program(), kHalf, {"--checkpoint", runs});
    return runs + "/step-" + std::to_string(kHalf);
  }();
  return folder;
}

/// What torch_gpt2.py prints.
std::vector<double> torchLosses(const std::vector<std::string> &arguments) {
  const char *chosen = std::getenv("HYC_TEST_PYTHON");
  std::vector<std::string> command = {"/usr/bin/env", chosen ? chosen : "python3", "-W", "ignore"};
  command.push_back(hyc::places::inTree("test/e2e/torch_gpt2.py"));
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.insert(command.end(), {std::to_string(kHalf), hyc::places::model("")});
  Outcome outcome = execute(command);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  std::vector<double> losses;
  std::istringstream text(outcome.output);
  for (std::string line; std::getline(text, line);)
    if (line.rfind("loss ", 0) == 0)
      losses.push_back(std::stod(line.substr(5)));
  return losses;
}

/// Steps 6 to 10 of PyTorch's own training.
void expectTheSecondHalf(const std::vector<double> &losses) {
  const std::vector<double> expected =
      readSafeTensors(model("gpt2-formats.reference.safetensors")).at("losses.adamw").values;
  ASSERT_EQ(losses.size(), static_cast<size_t>(kHalf));
  for (int step = 0; step < kHalf; ++step)
    EXPECT_NEAR(losses[step] / expected[kHalf + step], 1.0, 1e-5) << "step " << kHalf + step + 1;
}

TEST(Interchange, PyTorchGoesOnFromAnExport) {
  if (!hasTorch())
    GTEST_SKIP() << "no torch";
  std::string exported = scratch("interchange-exported");
  fs::remove_all(exported);
  checkpoint({"export", half(), exported, "--format", "dcp", "--weights-prefix", "model."});
  expectTheSecondHalf(torchLosses({"continue", exported, kDocs}));
}

TEST(Interchange, HycGoesOnFromWhatPyTorchHasSaved) {
  if (!hasTorch())
    GTEST_SKIP() << "no torch";
  std::string saved = scratch("interchange-saved"), imported = scratch("interchange-imported");
  EXPECT_EQ(torchLosses({"save", saved}).size(), static_cast<size_t>(kHalf));
  checkpoint({"import", saved, imported, "--weights-prefix", "model.", "--samples", std::to_string(16 * kHalf)});
  expectTheSecondHalf(train(program(), 2 * kHalf, {"--resume", imported}).losses);
}

/// As a state dict has them, weights below the model and moments not.
TEST(Interchange, WeightsUnderOtherNamesThanTheirMomentsAreRefused) {
  std::string exported = scratch("interchange-prefix"), imported = scratch("interchange-prefix-imported");
  fs::remove_all(exported);
  fs::remove_all(imported);
  checkpoint({"export", half(), exported, "--format", "dcp", "--weights-prefix", "model."});
  Outcome outcome = execute({tool("hyc-checkpoint"), "import", exported, imported});
  EXPECT_EQ(outcome.status, 65) << outcome.output;
  EXPECT_NE(outcome.output.find("give --weights-prefix model."), std::string::npos) << outcome.output;
  EXPECT_FALSE(fs::exists(imported));
  checkpoint({"import", exported, imported, "--weights-prefix", "model."});
}

/// The lines of docs/checkpoints.md, word for word, where the checkpoint has the name that they give it.
TEST(Interchange, PyTorchReadsACheckpointByTheLinesOfTheDocs) {
  if (!hasTorch())
    GTEST_SKIP() << "no torch";
  std::string folder = scratch("interchange-docs");
  fs::create_directories(folder + "/runs/a");
  fs::create_directory_symlink(half(), folder + "/runs/a/step-4000");
  checkpoint({"export", half(), folder + "/whole.safetensors", "--states"});
  Outcome outcome = executePython(R"(
import os, re, sys
from safetensors.torch import load_file
snippet = next(text for text in re.findall("```python\n(.*?)```", open(sys.argv[1]).read(), re.DOTALL)
               if "HuggingFaceStorageReader" in text)
assert len(snippet.strip().splitlines()) <= 10 and "hyc" not in snippet
os.chdir(sys.argv[2])
found = {}
exec(snippet, found)
whole, state, torch = load_file("whole.safetensors"), found["state"], found["torch"]
assert set(state) == set(whole) and len(state) == 112, len(state)
for name, tensor in state.items():
    assert torch.equal(tensor, whole[name]), name
)",
                                  {kDocs, folder});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

/// Files as torch.load reads them, with the weights and moments of the checkpoint.
TEST(Interchange, AUniversalCheckpointIsWhatTorchLoadsAndBecomesTheSameStates) {
  if (!hasTorch())
    GTEST_SKIP() << "no torch";
  std::string folder = scratch("interchange-universal"), made = folder + "/made";
  fs::create_directories(folder);
  checkpoint({"export", half(), made, "--format", "deepspeed"});
  checkpoint({"import", made, folder + "/runs"});
  checkpoint({"export", half(), folder + "/whole.safetensors", "--states"});
  checkpoint({"export", folder + "/runs", folder + "/again.safetensors", "--states"});
  std::ostringstream whole, again;
  whole << std::ifstream(folder + "/whole.safetensors", std::ios::binary).rdbuf();
  again << std::ifstream(folder + "/again.safetensors", std::ios::binary).rdbuf();
  EXPECT_FALSE(whole.str().empty());
  EXPECT_EQ(whole.str(), again.str());
  Outcome outcome = executePython(R"(
import os, sys, torch
from safetensors.torch import load_file
zero, whole, seen = sys.argv[1] + "/made/zero", load_file(sys.argv[1] + "/whole.safetensors"), 0
for name in os.listdir(zero):
    for file in os.listdir(f"{zero}/{name}"):
        read, key = torch.load(f"{zero}/{name}/{file}", weights_only=True), file.removesuffix(".pt")
        expected = whole[name if key == "fp32" else f"optimizer.state.{name}.{key}"]
        assert read == int(expected) if key == "step" else torch.equal(read["param"], expected), (name, file)
        seen += 1
assert seen == len(whole), (seen, len(whole))
)",
                                  {folder});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

/// By DeepSpeed's own reader of a parameter's folder, into what would be its flat f32 fragment.
TEST(Interchange, DeepSpeedReadsAUniversalCheckpoint) {
  if (executePython("import deepspeed.checkpoint.universal_checkpoint, safetensors.torch", {}).status != 0)
    GTEST_SKIP() << "no deepspeed";
  std::string folder = scratch("interchange-deepspeed");
  fs::create_directories(folder);
  checkpoint({"export", half(), folder + "/made", "--format", "deepspeed"});
  checkpoint({"export", half(), folder + "/whole.safetensors", "--states"});
  Outcome outcome = executePython(R"(
import os, sys, torch, types
from types import SimpleNamespace
from deepspeed.checkpoint.universal_checkpoint import load_hp_checkpoint_state
from safetensors.torch import load_file
whole = load_file(sys.argv[1] + "/whole.safetensors")
zero = sys.argv[1] + "/made/zero"
for name in os.listdir(zero):
    parameter = torch.nn.Parameter(torch.zeros_like(whole[name]))
    flat = torch.zeros(parameter.numel())
    parameter._hp_mapping = SimpleNamespace(get_hp_fragment=lambda: flat, optim_fragment=None,
                                            lp_fragment_address=SimpleNamespace(start=0, numel=parameter.numel()))
    step = types.MethodType(load_hp_checkpoint_state, parameter)(f"{zero}/{name}", 0, 1)
    assert step == 5 and torch.equal(flat, whole[name].flatten()), (name, step)
    states = parameter._hp_mapping.optim_fragment
    assert set(states) == {"exp_avg", "exp_avg_sq"}, states
    for key, state in states.items():
        assert torch.equal(state, whole[f"optimizer.state.{name}.{key}"].flatten()), (name, key)
)",
                                  {folder});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

/// DeepSpeed's engine, on a CPU, with torch's AdamW.
TEST(Interchange, DeepSpeedGoesOnFromAnExportAndHycFromWhatItHasSaved) {
  if (executePython("import deepspeed, safetensors.torch", {}).status != 0)
    GTEST_SKIP() << "no deepspeed";
  std::string folder = scratch("interchange-engine"), saved = folder + "/saved", made = folder + "/made/tag",
              universal = folder + "/universal/tag";
  fs::create_directories(folder + "/made");
  EXPECT_EQ(torchLosses({"deepspeed-save", saved}).size(), static_cast<size_t>(kHalf));
  Outcome outcome =
      executePython(R"(
from deepspeed.checkpoint.ds_to_universal import main, parse_arguments
main(parse_arguments()))",
                    {"--input_folder", saved + "/tag", "--output_folder", universal, "--inject_missing_state"});
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  checkpoint({"import", universal, folder + "/imported", "--samples", std::to_string(16 * kHalf)});
  expectTheSecondHalf(train(program(), 2 * kHalf, {"--resume", folder + "/imported"}).losses);

  checkpoint({"export", half(), made, "--format", "deepspeed", "--steps-as-tensors"});
  for (const char *file : {"/mp_rank_00_model_states.pt", "/zero/optimizer_state.pt"})
    fs::copy_file(universal + file, made + file);
  expectTheSecondHalf(torchLosses({"deepspeed-continue", folder + "/made"}));
}

} // namespace
