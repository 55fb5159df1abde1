// Where states are kept changes no bit of what executables compute, and what a failing disk leaves behind.
#include "CompiledRun.h"

#include "gtest/gtest.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

using namespace hyc_e2e;
namespace fs = std::filesystem;

namespace {

constexpr int kSteps = 6;
const Layout kLayout{2, 2, 2, "1f1b", "adamw"};

std::string bytesOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// An empty folder for the ranks' files.
std::string makeDisk(const std::string &name) {
  std::string folder = scratch(name);
  fs::create_directories(folder);
  return folder;
}

struct Trained {
  Log log;
  std::string weights, gradients, arenas;
};

/// The tiny GPT-2 on eight ranks, compiled with `flags`; clipping is active.
std::string compileWith(const std::string &name, std::vector<std::string> flags) {
  std::string folder = scratch(name);
  std::vector<std::string> arguments = compileArguments(kLayout, folder);
  arguments.insert(arguments.end(), {"--clip-grad-norm", "0.5", "--sub-group-size", "4000"});
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  Outcome outcome = execute(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return folder;
}

Trained trainWith(const std::string &folder) {
  std::string weights = folder + "/weights.safetensors", gradients = folder + "/gradients.safetensors";
  Trained result;
  result.log = train(folder, kSteps, {"--save-weights", weights, "--dump-gradients", gradients});
  result.weights = bytesOf(weights);
  result.gradients = bytesOf(gradients);
  return result;
}

/// At this reduction ZeRO's stages and recomputation have the bits of a run without.
const std::vector<std::string> kReduction{"--gradient-reduction", "micro_batch"};

const Trained &onDevice(const std::string &precision) {
  static std::map<std::string, Trained> known;
  auto [entry, isNew] = known.try_emplace(precision);
  if (isNew) {
    std::vector<std::string> flags = kReduction;
    flags.insert(flags.end(), {"--precision", precision});
    entry->second = trainWith(compileWith("offload-none-" + precision, flags));
  }
  return entry->second;
}

struct Case {
  std::string name, optimizer, parameters;
  std::vector<std::string> flags;
  std::string precision = "f32";
};

void PrintTo(const Case &offload, std::ostream *out) { *out << offload.name; }

class Offload : public testing::TestWithParam<Case> {};

TEST_P(Offload, HasTheBitsOfTheDevice) {
  const Case &offload = GetParam();
  std::vector<std::string> flags{"--offload-optimizer", offload.optimizer, "--offload-param",
                                 offload.parameters,    "--precision",     offload.precision};
  flags.insert(flags.end(), kReduction.begin(), kReduction.end());
  flags.insert(flags.end(), offload.flags.begin(), offload.flags.end());
  std::string disk = makeDisk("offload-disk-" + offload.name);
  if (offload.optimizer == "nvme" || offload.parameters == "nvme")
    flags.insert(flags.end(), {"--nvme-path", disk});
  Trained trained = trainWith(compileWith("offload-" + offload.name, flags));
  ASSERT_FALSE(trained.weights.empty());
  const Trained &expected = onDevice(offload.precision);
  EXPECT_EQ(trained.log.losses, expected.log.losses);
  EXPECT_EQ(trained.log.norms, expected.log.norms);
  EXPECT_TRUE(trained.weights == expected.weights);
  EXPECT_TRUE(trained.gradients == expected.gradients);
  EXPECT_TRUE(fs::is_empty(disk));
}

const Case kCases[] = {
    {"OptimizerOnTheHost", "cpu", "none", {}},
    {"OptimizerInFilesZero1", "nvme", "none", {"--zero", "1"}},
    {"HalfOfTheOptimizerOneAfterTheOtherZero2",
     "nvme",
     "none",
     {"--zero", "2", "--offload-ratio", "0.5", "--offload-read-ahead=false", "--offload-write-behind=false"}},
    {"Activations", "none", "none", {"--offload-activations", "cpu"}},
    {"CheckpointsInPartsAndTheOptimizerZero2",
     "cpu",
     "none",
     {"--zero", "2", "--recompute", "layer", "--partition-activations", "--offload-activations", "cpu"}},
    {"GradientsAndTheOptimizer", "cpu", "none", {"--offload-gradients", "cpu"}},
    {"GradientsAndTheOptimizerZero2", "cpu", "none", {"--zero", "2", "--offload-gradients", "cpu"}},
    {"EverythingOnTheHostZero1", "cpu", "cpu", {"--zero", "1"}},
    {"EverythingInFiles", "nvme", "nvme", {}},
    {"ParametersInFilesZero2", "cpu", "nvme", {"--zero", "2", "--offload-param-max-in-cpu", "20000"}},
    {"MastersAndCopiesInFilesZero3",
     "nvme",
     "nvme",
     {"--zero", "3", "--stage3-param-persistence-threshold", "3000", "--stage3-prefetch", "2"},
     "bf16"},
    {"MastersOnTheHostCopiesInFilesZero1", "cpu", "nvme", {"--zero", "1"}, "fp16"},
    {"EverythingInFilesZero3Recomputed",
     "nvme",
     "nvme",
     {"--zero", "3", "--stage3-param-persistence-threshold", "3000", "--stage3-prefetch", "2", "--recompute",
      "layer"}}};

INSTANTIATE_TEST_SUITE_P(EveryPlace, Offload, testing::ValuesIn(kCases),
                         [](const auto &info) { return info.param.name; });

/// The disk fails in the third step: one rank is named, the job ends, and what an earlier run saved is as it was.
TEST(OffloadToAFailingDisk, NamesTheRankAndLeavesEarlierWeightsAlone) {
  std::string disk = makeDisk("offload-failing-disk");
  std::string folder =
      compileWith("offload-failing", {"--offload-optimizer", "nvme", "--nvme-path", disk + "/not-there"});
  std::string weights = folder + "/weights.safetensors";
  train(folder, 2, {"--save-weights", weights, "--nvme-path", disk});
  const std::string before = bytesOf(weights);
  ASSERT_FALSE(before.empty());
  struct Fault {
    const char *text, *message;
  };
  for (const Fault &fault : {Fault{"5:write:200:ENOSPC", "rank 5: error: cannot write "},
                             Fault{"3:read:150:EIO", "rank 3: error: cannot read "}}) {
    setenv("HYC_IO_FAULT", fault.text, 1);
    Outcome outcome = execute({tool("hyc-run"), folder, "--data", model("text.bin"), "--steps", "50", "--save-weights",
                               weights, "--nvme-path", disk});
    unsetenv("HYC_IO_FAULT");
    EXPECT_EQ(outcome.status, 74) << outcome.output;
    EXPECT_NE(outcome.output.find(fault.message), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find(disk), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find("; adam."), std::string::npos) << outcome.output;
    EXPECT_TRUE(bytesOf(weights) == before);
    EXPECT_TRUE(fs::is_empty(disk));
  }
  EXPECT_NO_THROW(train(folder, 2, {"--nvme-path", disk}));
}

TEST(OffloadToADisk, SaysWhereAndHow) {
  std::string disk = makeDisk("offload-where-disk");
  std::string folder = compileWith("offload-where", {"--offload-optimizer", "nvme", "--nvme-path", disk});
  Outcome outcome = execute({tool("hyc-run"), folder, "--data", model("text.bin"), "--steps", "1"});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("offload to '" + disk), std::string::npos) << outcome.output;
  // A folder of the machine that compiled, which is gone on the machine that runs.
  fs::remove_all(disk);
  outcome = execute({tool("hyc-run"), folder, "--data", model("text.bin"), "--steps", "1"});
  EXPECT_EQ(outcome.status, 64) << outcome.output;
  EXPECT_NE(outcome.output.find("--nvme-path '" + disk + "': no such folder"), std::string::npos) << outcome.output;
}

} // namespace
