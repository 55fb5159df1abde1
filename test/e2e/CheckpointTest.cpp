// Checkpoints of compiled programs: a run that goes on in the same layout computes the same bits, whatever the
// precision, the ZeRO stage and where states lie; every other layout takes up the same states; and PyTorch's
// distributed checkpoint reads them.
#include "CompiledRun.h"
#include "SafeTensors.h"

#include "gtest/gtest.h"
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

using namespace hyc_e2e;

namespace {

constexpr int kSteps = 6, kHalf = 3;

struct Case {
  std::string name;
  std::vector<std::string> flags;
};

/// Eight samples a step.
const std::vector<Case> &cases() {
  static const std::vector<Case> all = {
      {"one", {"--micro-batch", "4", "--grad-accum", "2"}},
      {"zero3",
       {"--tp", "2", "--pp", "2", "--dp", "2", "--zero", "3", "--stage3-param-persistence-threshold", "0",
        "--micro-batch", "2", "--grad-accum", "2", "--precision", "fp16"}},
      {"disk",
       {"--dp", "2", "--zero", "1", "--micro-batch", "2", "--grad-accum", "2", "--precision", "bf16",
        "--offload-optimizer", "nvme"}},
      {"host",
       {"--tp", "2", "--dp", "2", "--zero", "2", "--micro-batch", "2", "--grad-accum", "2", "--offload-optimizer",
        "cpu"}}};
  return all;
}

std::string fileText(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// With dropout, whose masks have to go on where they were.
std::string compile(const Case &chosen) {
  static std::map<std::string, std::string> folders;
  if (auto found = folders.find(chosen.name); found != folders.end())
    return found->second;
  std::string folder = scratch("checkpoint_" + chosen.name), config = folder + ".json";
  std::ofstream(config) << R"({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 24,
      "vocab_size": 257, "attn_pdrop": 0.2, "embd_pdrop": 0.1, "resid_pdrop": 0.3, "initializer_range": 0.1})";
  std::vector<std::string> arguments = {
      tool("hyc-compile"), config, "--optimizer", "adamw", "--lr", "1e-2", "-o", folder};
  arguments.insert(arguments.end(), chosen.flags.begin(), chosen.flags.end());
  std::filesystem::create_directories(folder + "-disk");
  if (chosen.name == "disk")
    arguments.insert(arguments.end(), {"--nvme-path", folder + "-disk"});
  Outcome outcome = execute(trainingOnly(arguments));
  if (outcome.status != 0)
    throw std::runtime_error(outcome.output);
  return folders[chosen.name] = folder;
}

Log run(const Case &chosen, int steps, const std::vector<std::string> &further) {
  std::string folder = compile(chosen), log = folder + "/log.jsonl";
  std::vector<std::string> arguments = {tool("hyc-run"),       folder,       "--data", model("text.bin"), "--steps",
                                        std::to_string(steps), "--log-file", log};
  arguments.insert(arguments.end(), further.begin(), further.end());
  std::filesystem::remove(log); // a resumed run goes on with the log that it finds
  Outcome outcome = execute(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return readLog(log);
}

/// All states of a checkpoint as whole tensors.
std::string states(const std::string &checkpoint) {
  std::string file = checkpoint + ".states.safetensors";
  std::filesystem::remove(file);
  Outcome outcome = execute({tool("hyc-checkpoint"), "export", checkpoint, file, "--states"});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return fileText(file);
}

/// Where a whole run of this layout has left its checkpoints, at half of its steps and at the end.
struct Whole {
  std::string folder;
  Log log;
  std::string half() const { return folder + "/step-" + std::to_string(kHalf); }
  std::string end() const { return folder + "/step-" + std::to_string(kSteps); }
};

const Whole &whole(const Case &chosen) {
  static std::map<std::string, Whole> runs;
  auto [entry, isNew] = runs.try_emplace(chosen.name);
  if (isNew) {
    entry->second.folder = scratch("checkpoint_" + chosen.name + "_runs");
    entry->second.log =
        run(chosen, kSteps,
            {"--seed", "5", "--checkpoint", entry->second.folder, "--checkpoint-every", std::to_string(kHalf)});
  }
  return entry->second;
}

void expectTheSameLayoutToGoOnBitForBit() {
  for (const Case &chosen : cases()) {
    const Whole &expected = whole(chosen);
    std::string folder = scratch("checkpoint_" + chosen.name + "_resumed");
    Log log = run(chosen, kSteps, {"--resume", expected.half(), "--checkpoint", folder});
    ASSERT_EQ(log.losses.size(), static_cast<size_t>(kSteps - kHalf)) << chosen.name;
    for (size_t i = 0; i < log.losses.size(); ++i) {
      EXPECT_EQ(log.losses[i], expected.log.losses[kHalf + i]) << chosen.name;
      EXPECT_EQ(log.norms[i], expected.log.norms[kHalf + i]) << chosen.name;
    }
    EXPECT_EQ(log.scales.empty(), chosen.name != "zero3");
    std::string found = states(folder + "/step-" + std::to_string(kSteps));
    EXPECT_EQ(found, states(expected.end())) << chosen.name;
    EXPECT_NE(found, states(expected.half())) << chosen.name;
    EXPECT_NE(found.find("optimizer.state.transformer.h.0.mlp.c_fc.weight.exp_avg_sq"), found.npos);
  }
}

void expectTheSameStatesInEveryLayout() {
  for (const Case &writer : cases())
    for (const Case &reader : cases()) {
      std::string folder = scratch("checkpoint_" + writer.name + "_as_" + reader.name);
      run(reader, kHalf, {"--resume", whole(writer).half(), "--checkpoint", folder});
      EXPECT_EQ(states(folder + "/step-" + std::to_string(kHalf)), states(whole(writer).half()))
          << writer.name << " read by " << reader.name;
    }
}

/// The same samples and masks, so that only the order of sums differs.
void expectTheSameTrainingInAnotherLayout() {
  const Case &one = cases()[0], &host = cases()[3];
  Log log = run(host, kSteps, {"--resume", whole(one).half()});
  ASSERT_EQ(log.losses.size(), static_cast<size_t>(kSteps - kHalf));
  for (size_t i = 0; i < log.losses.size(); ++i)
    EXPECT_NEAR(log.losses[i] / whole(one).log.losses[kHalf + i], 1.0, 1e-5) << i;
}

/// Files of a folder by name, as text.
std::map<std::string, std::string> filesIn(const std::string &folder) {
  std::map<std::string, std::string> files;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    files[entry.path().filename()] = fileText(entry.path());
  return files;
}

/// Room for copies is what memory.json says, of the rank that copies most, and what lies nowhere else is declared.
void expectTheDeclaredRoom(const std::string &folder, const std::string &measured) {
  std::ifstream planned(folder + "/memory.json"), records(measured);
  std::map<int64_t, int64_t> most, writer;
  const nlohmann::json account = nlohmann::json::parse(planned);
  int64_t ranksPerStage = account["stages"][0]["ranks"];
  for (std::string line; std::getline(records, line);) {
    nlohmann::json record = nlohmann::json::parse(line)["memory"];
    int64_t stage = record["rank"].get<int64_t>() / ranksPerStage, copied = 0;
    for (const auto &arena : record["arenas"])
      if (arena["name"] == "snapshot") {
        EXPECT_EQ(arena["mapped"], arena["planned"]);
        copied = arena["planned"];
      }
    most[stage] = std::max(most[stage], copied);
    const nlohmann::json &said = account["stages"][static_cast<size_t>(stage)];
    EXPECT_EQ(record["fixed"], said["fixed_bytes"].get<int64_t>() + said["checkpoint_writer_bytes"].get<int64_t>());
    EXPECT_LE(record["outside"], record["fixed"]) << record.dump();
  }
  ASSERT_EQ(most.size(), account["stages"].size());
  for (const auto &[stage, bytes] : most)
    EXPECT_EQ(bytes, account["stages"][static_cast<size_t>(stage)]["snapshot_bytes"]) << "stage " << stage;
}

/// While training goes on the same bytes are written as where it waits, by ranks that lose no bit by it. From a disk so
/// slow that the next update comes before all was read there.
void expectTheSameBytesInTheBackground() {
  for (const Case &chosen : cases()) {
    std::string folder = scratch("checkpoint_" + chosen.name + "_modes"), measured = folder + "-memory.jsonl";
    Log log = run(chosen, kSteps,
                  {"--seed", "5", "--checkpoint", folder + "/sync", "--checkpoint-every", std::to_string(kHalf),
                   "--checkpoint-mode", "sync"});
    EXPECT_EQ(log.losses, whole(chosen).log.losses) << chosen.name;
    if (chosen.name == "disk")
      setenv("HYC_IO_FAULT", "*:read:*:delay=20", 1);
    log = run(chosen, kSteps,
              {"--seed", "5", "--checkpoint", folder + "/async", "--checkpoint-every", std::to_string(kHalf),
               "--checkpoint-mode", "async", "--measure-memory", measured});
    unsetenv("HYC_IO_FAULT");
    EXPECT_EQ(log.losses, whole(chosen).log.losses) << chosen.name;
    for (int step : {kHalf, kSteps}) {
      auto expected = filesIn(folder + "/sync/step-" + std::to_string(step));
      EXPECT_GT(expected.size(), 1u);
      EXPECT_TRUE(expected == filesIn(folder + "/async/step-" + std::to_string(step))) << chosen.name << ", " << step;
    }
    SCOPED_TRACE(chosen.name);
    expectTheDeclaredRoom(compile(chosen), measured);
  }
}

// One test, since a process compiles each layout once.
TEST(Checkpoint, IsTheSameTrainingWhateverWroteIt) {
  expectTheSameBytesInTheBackground();
  expectTheSameLayoutToGoOnBitForBit();
  expectTheSameStatesInEveryLayout();
  expectTheSameTrainingInAnotherLayout();
}

/// 8, 6 and 8 ranks of one folder: the same samples and masks at every step.
TEST(Checkpoint, IsGoneOnFromWithFewerRanksAndMoreAgain) {
  std::string folder = scratch("checkpoint_sizes"), config = folder + ".json";
  std::ofstream(config) << R"({"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16,
      "vocab_size": 257, "attn_pdrop": 0.2, "embd_pdrop": 0.1, "resid_pdrop": 0.3, "initializer_range": 0.1})";
  Outcome outcome =
      execute(trainingOnly({tool("hyc-compile"), config, "--ranks", "8,6", "--tp", "2", "--pp", "1", "--micro-batch",
                            "1", "--global-batch", "24", "--optimizer", "adamw", "--lr", "1e-2", "-o", folder}));
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  auto train = [&](const std::string &ranks, const std::string &name, const std::string &resume) {
    std::string log = folder + "-" + name + ".jsonl";
    std::filesystem::remove(log);
    std::vector<std::string> arguments = {tool("hyc-run"), folder, "--data", model("text.bin"), "--steps", "9"};
    arguments.insert(arguments.end(), {"--log-file", log, "--ranks", ranks, "--checkpoint", folder + "-" + name,
                                       "--checkpoint-every", "3", "--threads", "1"});
    if (!resume.empty())
      arguments.insert(arguments.end(), {"--resume", resume});
    Outcome ran = execute(arguments);
    EXPECT_EQ(ran.status, 0) << ran.output;
    return readLog(log).losses;
  };
  std::vector<double> expected = train("8", "whole", ""), fewer = train("6", "fewer", folder + "-whole/step-3"),
                      again = train("8", "again", folder + "-fewer/step-6");
  ASSERT_EQ(expected.size(), 9u);
  ASSERT_EQ(fewer.size(), 6u);
  ASSERT_EQ(again.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(fewer[i] / expected[3 + i], 1.0, 1e-5) << i;
    EXPECT_NEAR(again[i] / expected[6 + i], 1.0, 1e-5) << i;
  }
}

/// One error with all that does not fit, and the way out.
TEST(Checkpoint, OfAnotherVocabularyIsRefused) {
  std::string folder = scratch("checkpoint_others"), config = folder + ".json";
  auto compileModel = [&](const std::string &name, int vocabulary) {
    std::ofstream(config) << R"({"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 16,
        "initializer_range": 0.1, "vocab_size": )"
                          << vocabulary << "}";
    Outcome outcome = execute(trainingOnly(
        {tool("hyc-compile"), config, "--micro-batch", "1", "--optimizer", "adamw", "-o", folder + "/" + name}));
    ASSERT_EQ(outcome.status, 0) << outcome.output;
  };
  auto train = [&](const std::string &name, const std::string &flag) {
    return execute({tool("hyc-run"), folder + "/" + name, "--data", model("text.bin"), "--steps", "2", "--threads", "1",
                    flag, folder + "/runs"});
  };
  compileModel("own", 257);
  compileModel("wider", 300);
  Outcome outcome = train("own", "--checkpoint");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  outcome = train("wider", "--resume");
  EXPECT_EQ(outcome.status, 65) << outcome.output;
  for (const char *words : {"'transformer.wte.weight' is [257, 16], expected [300, 16]",
                            "'optimizer.state.transformer.wte.weight.exp_avg' is [257, 16], expected [300, 16]",
                            "to start from its weights alone"})
    EXPECT_NE(outcome.output.find(words), std::string::npos) << words << " is not in: " << outcome.output;
}

/// Running averages, which no optimizer keeps.
TEST(Checkpoint, KeepsRunningAverages) {
  std::string folder = scratch("checkpoint_resnet"), runs = scratch("checkpoint_resnet_runs");
  Outcome outcome = execute(trainingOnly({tool("hyc-compile"), model("resnet.onnx"), "--loss", "cross_entropy",
                                          "--logits", "logits", "--micro-batch", "4", "--dp", "2", "--optimizer", "sgd",
                                          "--momentum", "0.9", "--lr", "0.01", "-o", folder}));
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  std::string data = writeImageSamples(model("resnet.reference.safetensors"), folder + "/samples.safetensors");
  std::vector<std::string> arguments = {tool("hyc-run"), folder, "--data", data, "--steps", "4", "--checkpoint", runs};
  arguments.insert(arguments.end(), {"--checkpoint-every", "2"});
  outcome = execute(arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  std::string expected = states(runs + "/step-4");
  EXPECT_NE(expected.find("running_var"), expected.npos);
  EXPECT_NE(expected.find(".momentum_buffer"), expected.npos);
  arguments.insert(arguments.end(), {"--resume", runs + "/step-2"});
  outcome = execute(arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(states(runs + "/step-4"), expected);
}

/// Stock torch, without hyc: the folder as it is, sharded by tp, pp and ZeRO 3.
TEST(Checkpoint, IsReadByPyTorchsDistributedCheckpoint) {
  if (executePython("import torch.distributed.checkpoint.hf_storage, safetensors.torch", {}).status != 0)
    GTEST_SKIP() << "no torch with HuggingFaceStorageReader, and safetensors";
  const std::string folder = whole(cases()[1]).half();
  (void)states(folder);
  Outcome outcome = executePython(R"(
import sys, torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from torch.distributed.checkpoint import HuggingFaceStorageReader

reader = HuggingFaceStorageReader(sys.argv[1])
state = {name: torch.empty(tensor.size) for name, tensor in reader.read_metadata().state_dict_metadata.items()}
dcp.load(state, storage_reader=reader)
whole = load_file(sys.argv[2])
assert set(state) == set(whole), set(state) ^ set(whole)
assert any(name.endswith(".exp_avg_sq") for name in state) and len(state) > 90, len(state)
for name, tensor in state.items():
    assert torch.equal(tensor, whole[name]), name
)",
                                  {folder, folder + ".states.safetensors"});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

} // namespace
