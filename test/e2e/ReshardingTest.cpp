// States written by one layout and read by another are the same bytes. Executed: programs of the writer and of the
// reader, a checkpoint between them, and the whole tensors of both. A step is trained only once, by the first writer;
// whoever reads after the last step trains nothing, and writes what it has read.
//
// Every change waits for a sample that holds worlds of 2, 4, 6 and 8 ranks, each axis alone and together, and ZeRO 0
// to 3. With HYC_RESHARD_ALL (scripts/test --long) every ordered pair of the ten layouts of eight ranks, in every pair
// of ZeRO stages that they can have, and every layout of 1, 2, 4 and 6 ranks in both directions.
#include "CompiledRun.h"

#include "gtest/gtest.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

using namespace hyc_e2e;
namespace fs = std::filesystem;

namespace {

constexpr int kBatch = 24, kStep = 2;

struct Mesh {
  int tp, pp, dp, zero;
  int ranks() const { return tp * pp * dp; }
  std::string name() const {
    std::string text;
    for (int size : {tp, pp, dp, zero})
      text += (text.empty() ? "" : "x") + std::to_string(size);
    return text;
  }
};

/// All of so many ranks, where tp divides eight heads and no stage is without a layer; ZeRO only where there is dp.
std::vector<Mesh> meshesOf(int ranks, int layers) {
  std::vector<Mesh> meshes;
  for (int tp = 1; tp <= ranks; tp *= 2)
    for (int pp = 1; pp <= layers; ++pp)
      if (ranks % (tp * pp) == 0)
        for (int dp = ranks / (tp * pp), zero = 0; zero < (dp > 1 ? 4 : 1); ++zero)
          meshes.push_back({tp, pp, dp, zero});
  return meshes;
}

/// All layouts once, in different stages of ZeRO, before any has a second one.
std::vector<Mesh> inTurns(std::vector<Mesh> meshes) {
  std::map<std::string, int> layouts;
  auto turnOf = [&](const Mesh &mesh) {
    auto [layout, isNew] = layouts.try_emplace(Mesh{mesh.tp, mesh.pp, mesh.dp, 0}.name(), int(layouts.size()));
    return mesh.dp == 1 ? 0 : (mesh.zero + layout->second) % 4;
  };
  std::vector<std::pair<int, Mesh>> turns;
  for (const Mesh &mesh : meshes)
    turns.emplace_back(turnOf(mesh), mesh);
  std::stable_sort(turns.begin(), turns.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
  for (size_t i = 0; i < meshes.size(); ++i)
    meshes[i] = turns[i].second;
  return meshes;
}

/// Checkpoints of one training, by every layout that has been asked for.
class Resharding : public testing::Test {
protected:
  explicit Resharding(int layers = 8) : layers(layers), root(scratch("resharding")) {
    fs::create_directories(root);
    config = root + "/config.json";
    // A vocabulary that no tp divides.
    std::ofstream(config) << R"({"model_type": "gpt2", "n_head": 8, "n_embd": 16, "n_positions": 8, "vocab_size": 257,
        "initializer_range": 0.1, "n_layer": )"
                          << layers << "}";
  }
  ~Resharding() override { fs::remove_all(root); }

  /// A checkpoint that this layout has written: of what another has, or, of the first of all, of its own training.
  const std::string &writtenBy(const Mesh &mesh) {
    auto [entry, isNew] = written.try_emplace(mesh.name());
    if (isNew) {
      std::string from = first;
      entry->second = run(mesh, from, root + "/" + mesh.name() + "-runs");
      if (first.empty()) {
        first = entry->second;
        expected = states(first);
        EXPECT_GT(expected.size(), 100000u);
      } else {
        EXPECT_EQ(states(entry->second) == expected, true) << mesh.name() << " has read other states";
      }
    }
    return entry->second;
  }

  void expectTheSameBytes(const Mesh &writer, const Mesh &reader) {
    const std::string &from = writtenBy(writer), target = root + "/read";
    std::string made = run(reader, from, target);
    EXPECT_TRUE(states(made) == expected) << writer.name() << " read by " << reader.name();
    fs::remove_all(target);
    ++pairs;
  }

  int layers, pairs = 0;

private:
  const std::string &compiled(const Mesh &mesh) {
    auto [entry, isNew] = folders.try_emplace(mesh.name(), root + "/" + mesh.name());
    if (!isNew)
      return entry->second;
    std::vector<std::string> arguments = {tool("hyc-compile"), config, "--optimizer", "adamw", "--lr", "1e-2"};
    const std::pair<const char *, int> numbers[] = {{"--tp", mesh.tp},
                                                    {"--pp", mesh.pp},
                                                    {"--dp", mesh.dp},
                                                    {"--zero", mesh.zero},
                                                    {"--stage3-param-persistence-threshold", 0},
                                                    {"--micro-batch", 1},
                                                    {"--grad-accum", kBatch / mesh.dp}};
    for (auto [flag, number] : numbers)
      arguments.insert(arguments.end(), {flag, std::to_string(number)});
    arguments.insert(arguments.end(), {"-o", entry->second});
    Outcome outcome = execute(trainingOnly(arguments));
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return entry->second;
  }

  std::string run(const Mesh &mesh, const std::string &from, const std::string &to) {
    std::vector<std::string> arguments = {tool("hyc-run"), compiled(mesh), "--data", model("text.bin")};
    arguments.insert(arguments.end(), {"--steps", std::to_string(kStep), "--threads", "1", "--checkpoint", to});
    if (!from.empty())
      arguments.insert(arguments.end(), {"--resume", from});
    Outcome outcome = execute(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return to + "/step-" + std::to_string(kStep);
  }

  /// All of them, as whole tensors.
  std::string states(const std::string &checkpoint) {
    std::string file = root + "/states.safetensors";
    fs::remove(file);
    Outcome outcome = execute({tool("hyc-checkpoint"), "export", checkpoint, file, "--states"});
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    std::ifstream read(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(read), std::istreambuf_iterator<char>()};
  }

  std::string root, config, first, expected;
  std::map<std::string, std::string> folders, written;
};

/// Each is read by the next, and the last by the first.
class ReshardingSample : public Resharding {
protected:
  ReshardingSample() : Resharding(2) {}
};

TEST_F(ReshardingSample, KeepsEveryByte) {
  const std::vector<Mesh> ring = {{8, 1, 1, 0}, {1, 2, 4, 3}, {2, 1, 3, 1}, {2, 2, 1, 0}, {1, 1, 2, 2}};
  for (size_t i = 0; i < ring.size(); ++i)
    expectTheSameBytes(ring[i], ring[(i + 1) % ring.size()]);
}

TEST_F(Resharding, KeepsEveryByteBetweenAllLayouts) {
  if (!std::getenv("HYC_RESHARD_ALL"))
    GTEST_SKIP() << "takes long: HYC_RESHARD_ALL asks for it";
  const std::vector<Mesh> eight = inTurns(meshesOf(8, layers));
  ASSERT_EQ(eight.size(), 28u); // ten layouts, six of them with four stages of ZeRO
  for (size_t count = 1; count <= eight.size(); ++count) {
    const Mesh &added = eight[count - 1];
    expectTheSameBytes(added, added);
    for (size_t i = 0; i + 1 < count; ++i) {
      expectTheSameBytes(eight[i], added);
      expectTheSameBytes(added, eight[i]);
    }
    std::printf("%s: %d ordered pairs\n", added.name().c_str(), pairs);
    std::fflush(stdout);
  }
  EXPECT_EQ(pairs, 28 * 28);
  // Worlds of other sizes with those of eight, which take turns, and with each other.
  size_t turn = 0;
  Mesh before = eight[0];
  for (int ranks : {1, 2, 4, 6})
    for (const Mesh &mesh : meshesOf(ranks, layers)) {
      const Mesh &partner = eight[turn++ % eight.size()];
      expectTheSameBytes(partner, mesh);
      expectTheSameBytes(mesh, partner);
      expectTheSameBytes(before, mesh);
      before = mesh;
    }
  EXPECT_GT(pairs, 28 * 28 + 100);
  std::printf("%d ordered pairs in all\n", pairs);
}

} // namespace
