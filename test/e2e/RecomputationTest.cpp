// Recomputation on emitted executables: a smaller arena, and not a bit of losses, norms or weights changed.
#include "CompiledRun.h"

#include "gtest/gtest.h"
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>

using namespace hyc_e2e;

namespace {

constexpr int kSteps = 10;
const Layout kLayout{2, 2, 2, "1f1b", "adamw"};

std::string textOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Bytes of the activations arena of stage 0, by the account.
int64_t activationBytes(const std::string &folder) {
  auto account = nlohmann::json::parse(textOf(folder + "/memory.json"));
  for (const auto &arena : account["stages"][0]["arenas"])
    if (arena["arena"] == "activations")
      return arena["bytes"];
  return -1;
}

struct Trained {
  std::string folder, weights;
  Log log;
};

Trained train(const std::vector<std::string> &flags, const std::string &name) {
  Trained result;
  result.folder = scratch(name);
  std::vector<std::string> arguments = compileArguments(kLayout, result.folder);
  arguments.insert(arguments.end(), {"--clip-grad-norm", "1"});
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  Outcome outcome = execute(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  std::string weights = result.folder + "/weights.safetensors";
  result.log = hyc_e2e::train(result.folder, kSteps, {"--save-weights", weights});
  result.weights = textOf(weights);
  return result;
}

const Trained &saved() {
  static const Trained trained = train({}, "saved");
  return trained;
}

void expectSameBits(const Trained &trained) {
  EXPECT_EQ(trained.log.losses.size(), static_cast<size_t>(kSteps));
  EXPECT_EQ(trained.log.losses, saved().log.losses);
  EXPECT_EQ(trained.log.norms, saved().log.norms);
  EXPECT_FALSE(trained.weights.empty());
  EXPECT_TRUE(trained.weights == saved().weights);
}

} // namespace

TEST(Recomputation, ByLayerChangesNoBitAndHalvesTheArena) {
  Trained layer = train({"--recompute", "layer"}, "by-layer");
  expectSameBits(layer);
  EXPECT_LT(activationBytes(layer.folder) * 2, activationBytes(saved().folder));
  Trained parts = train({"--recompute", "layer", "--partition-activations"}, "in-parts");
  expectSameBits(parts);
  EXPECT_LT(activationBytes(parts.folder), activationBytes(layer.folder));
}

TEST(Recomputation, WithinALimitChangesNoBitAndKeepsIt) {
  int64_t limit = activationBytes(saved().folder) * 7 / 10;
  Trained limited = train({"--recompute", "auto", "--activation-memory", std::to_string(limit)}, "limited");
  expectSameBits(limited);
  EXPECT_LE(activationBytes(limited.folder), limit);
  EXPECT_GE(activationBytes(limited.folder), limit * 8 / 10) << "most of what is allowed is used";
}

TEST(Recomputation, ALimitThatNothingMeetsIsRefusedWithTheLeast) {
  std::vector<std::string> arguments = compileArguments(kLayout, scratch("refused"));
  arguments.insert(arguments.end(), {"--recompute", "auto", "--activation-memory", "10KiB"});
  Outcome outcome = execute(arguments);
  EXPECT_EQ(outcome.status, 65);
  EXPECT_TRUE(std::regex_search(
      outcome.output, std::regex("activations of stage [01] take at least [0-9]+ bytes a rank, with everything between "
                                 "layers computed again, but --activation-memory is 10240; raise it")))
      << outcome.output;
}
