// Shards: which global elements a rank holds, what they start from, and that saving puts them back together.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "base/file.h"
#include "forked_ranks.h"
#include "hycrt/philox.h"
#include "hycrt/safetensors.h"
#include "io/initial_values.h"
#include "io/state_layout.h"
#include "kernels/narrow_float.h"
#include "run/state_file.h"
#include "temporary_folder.h"
#include "test_mesh.h"

namespace hycrt {
namespace {

constexpr uint64_t kSeed = 11;

std::vector<int> globalOfLocal(const StateDesc& state, const Mesh& mesh, const Coordinates& at) {
  std::vector<int> global(static_cast<size_t>(elementCount(state.local)), -1);
  ShardLayout(state, mesh, at).forEachRun([&](const ElementRun& run) {
    for (int64_t i = 0; i < run.count; ++i)
      global[static_cast<size_t>(run.local + i)] = static_cast<int>(run.global + i);
    return true;
  });
  return global;
}

StateDesc stateOf(Shape logical, Shape global, Shape local, ShortList<Split> splits) {
  return {"w", "parameter", DType::kF32, {0, 0}, logical, global, local, splits, Initializer::zeros()};
}

TEST(ShardLayout, OfColumnsLeavesOutPadding) {
  const StateDesc state = stateOf({2, 6}, {2, 6}, {2, 2}, {{1, kTp}});
  const Mesh mesh = meshOf(4, 1, 1);
  EXPECT_EQ(globalOfLocal(state, mesh, placeOn(mesh, 0, 0, 0)), (std::vector<int>{0, 1, 6, 7}));
  EXPECT_EQ(globalOfLocal(state, mesh, placeOn(mesh, 2, 0, 0)), (std::vector<int>{4, 5, 10, 11}));
  EXPECT_EQ(globalOfLocal(state, mesh, placeOn(mesh, 3, 0, 0)), (std::vector<int>{-1, -1, -1, -1}));
}

TEST(ShardLayout, OfRowsIsOneRun) {
  const StateDesc state = stateOf({5, 3}, {5, 3}, {3, 3}, {{0, kTp}});
  int runs = 0;
  ShardLayout(state, meshOf(2, 1, 1), {0, 1}).forEachRun([&](const ElementRun& run) {
    ++runs;
    EXPECT_EQ(run.global, 9);
    EXPECT_EQ(run.count, 6);
    return true;
  });
  EXPECT_EQ(runs, 1);
}

TEST(ShardLayout, OfAFactoredDimensionTakesHeadsFromEachPart) {
  // query, key and value side by side; two heads of two columns, one head per rank
  const StateDesc state = stateOf({1, 12}, {1, 3, 2, 2}, {1, 3, 1, 2}, {{2, kTp}});
  EXPECT_EQ(globalOfLocal(state, meshOf(2, 1, 1), placeOn(meshOf(2, 1, 1), 1, 0, 0)),
            (std::vector<int>{2, 3, 6, 7, 10, 11}));
}

TEST(ShardLayout, OfTwoAxesOnOneDimensionTakesTheFirstAsMajor) {
  const StateDesc state = stateOf({8}, {8}, {2}, {{0, kDp}, {0, kTp}});
  EXPECT_EQ(globalOfLocal(state, meshOf(2, 1, 2), placeOn(meshOf(2, 1, 2), 1, 0, 0)), (std::vector<int>{2, 3}));
  EXPECT_EQ(globalOfLocal(state, meshOf(2, 1, 2), placeOn(meshOf(2, 1, 2), 0, 0, 1)), (std::vector<int>{4, 5}));
}

TEST(ShardLayout, OfAScalarIsOneElementThatRankZeroWrites) {
  const StateDesc state = stateOf({}, {}, {}, {});
  EXPECT_EQ(globalOfLocal(state, meshOf(2, 1, 1), placeOn(meshOf(2, 1, 1), 1, 0, 0)), (std::vector<int>{0}));
  EXPECT_TRUE(ShardLayout(state, meshOf(2, 1, 1), {0, 0}).isWriter());
  EXPECT_FALSE(ShardLayout(state, meshOf(2, 1, 1), {0, 1}).isWriter());
}

TEST(ShardLayout, OfAFlatShardIsWhatItsBlocksHold) {
  // 64 columns over tp 2, then 3 blocks of 1,024 elements over dp 2: two and one, the last of them not full.
  StateDesc state = stateOf({90, 64}, {90, 64}, {90, 32}, {{1, kTp}});
  state.storage = FlatStorage::kShard;
  state.flat = {kDp};
  const Mesh mesh = meshOf(2, 1, 2);
  for (int tp = 0; tp < 2; ++tp) {
    for (int dp = 0; dp < 2; ++dp) {
      int64_t next = 0;
      ShardLayout(state, mesh, placeOn(mesh, tp, 0, dp)).forEachRun([&](const ElementRun& run) {
        EXPECT_EQ(run.local, next);
        for (int64_t i = 0; i < run.count; ++i) {
          const int64_t element = 2048 * dp + run.local + i;
          EXPECT_EQ(run.global + i, element / 32 * 64 + 32 * tp + element % 32);
        }
        next += run.count;
        return true;
      });
      EXPECT_EQ(next, dp == 0 ? 2048 : 90 * 32 - 2048);
      EXPECT_TRUE(ShardLayout(state, mesh, placeOn(mesh, tp, 0, dp)).isWriter());
    }
  }
  // Stored whole, the same elements lie where they lie in the local tensor.
  state.storage = FlatStorage::kSlice;
  ShardLayout(state, mesh, placeOn(mesh, 0, 0, 1)).forEachRun([&](const ElementRun& run) {
    EXPECT_EQ(run.local, 2048);
    EXPECT_EQ(run.global, 2048 / 32 * 64);
    return false;
  });
}

TEST(ShardLayout, FromAnyElementOnGivesTheRunsThatEndAfterIt) {
  const Mesh mesh = meshOf(2, 1, 2);
  StateDesc flat = stateOf({90, 64}, {90, 64}, {90, 32}, {{1, kTp}});
  flat.storage = FlatStorage::kShard;
  flat.flat = {kDp};
  const StateDesc states[] = {stateOf({7, 5}, {7, 5}, {4, 5}, {{0, kTp}}), stateOf({7, 5}, {7, 5}, {7, 3}, {{1, kTp}}),
                              stateOf({3, 20}, {3, 5, 4}, {3, 3, 4}, {{1, kTp}}), flat};
  for (const StateDesc& state : states) {
    for (int tp = 0; tp < 2; ++tp) {
      const ShardLayout layout(state, mesh, placeOn(mesh, tp, 0, 1));
      std::vector<ElementRun> all;
      layout.forEachRun([&](const ElementRun& run) { return all.push_back(run), true; });
      for (int64_t element = 0; element <= elementCount(state.local); ++element) {
        std::vector<int64_t> expected, found;
        for (const ElementRun& run : all) {
          if (run.local + run.count > element) expected.push_back(run.global);
        }
        layout.forEachRunFrom(element, [&](const ElementRun& run) { return found.push_back(run.global), true; });
        EXPECT_EQ(found, expected) << "from element " << element << " at tp " << tp;
      }
    }
  }
}

// A stage with every way of splitting and starting; `file` holds 7 × 6 f32 at byte 16 and 5 bf16 after it.
struct StatefulProgram {
  explicit StatefulProgram(Mesh mesh, int stage = 0) {
    const int tp = sizeOf(mesh, kTp);
    const auto part = [tp](int64_t size) { return (size + tp - 1) / tp; };
    states = {{"normal",
               "parameter",
               DType::kF32,
               {0, 0},
               {5, 7},
               {5, 7},
               {5, part(7)},
               {{1, kTp}},
               Initializer::normal(1, 2, stableKey("normal"))},
              {"uniform",
               "parameter",
               DType::kF32,
               {0, 4096},
               {9},
               {9},
               {part(9)},
               {{0, kTp}},
               Initializer::uniform(-1, 1, stableKey("uniform"))},
              {"sinusoids",
               "parameter",
               DType::kF32,
               {0, 24576},
               {3, 4},
               {3, 4},
               {3, part(4)},
               {{1, kTp}},
               Initializer::sinusoids(0.01, 4)},
              {"constant", "parameter", DType::kF64, {0, 8192}, {3}, {3}, {3}, {}, Initializer::constant(0.5)},
              {"file",
               "parameter",
               DType::kF32,
               {0, 12288},
               {7, 6},
               {7, 3, 2},
               {7, part(3), 2},
               {{1, kTp}},
               Initializer::fromFile(0, 16, DType::kF32)},
              {"narrow",
               "parameter",
               DType::kF32,
               {0, 16384},
               {5},
               {5},
               {part(5)},
               {{0, kTp}},
               Initializer::fromFile(0, 16 + 168, DType::kBF16)},
              {"normal", "gradient", DType::kF32, {0, 20480}, {5, 7}, {5, 7}, {5, part(7)}, {{1, kTp}}, {}}};
    // The second stage holds the first state, too, as tied weights do, and one of its own.
    if (stage == 1) states = {states[0], states[1]};
    if (stage == 1) states[1].name = "second";
    program.name = "stateful";
    program.mesh = mesh;
    program.stage = stage;
    program.arenas = tableOf(arenas);
    program.states = tableOf(states);
  }
  std::vector<ArenaDesc> arenas{{"parameters", 32768, Sharing::kPrivate}};
  std::vector<StateDesc> states;
  Program program{};
};

std::string modelFile() {
  std::string bytes(16, '\0');
  for (int i = 0; i < 42; ++i) {
    const float value = static_cast<float>(i) + 0.25f;
    bytes.append(reinterpret_cast<const char*>(&value), 4);
  }
  for (int i = 0; i < 5; ++i) {
    const uint16_t value = static_cast<uint16_t>(0x3F80 + i);  // 1, 1 + 2^-7, …
    bytes.append(reinterpret_cast<const char*>(&value), 2);
  }
  return bytes;
}

// All elements of all states by name, as the shards of every tp rank say.
std::map<std::string, std::vector<double>> initialValues(int tp, const std::string& file) {
  std::map<std::string, std::vector<double>> whole;
  StatefulProgram stateful(meshOf(tp, 1, 1));
  for (int rank = 0; rank < tp; ++rank) {
    std::vector<uint64_t> memory(4096);
    std::byte* arenas[] = {reinterpret_cast<std::byte*>(memory.data())};
    const Coordinates at{0, rank};
    const Status status = initializeStates(stateful.program, at, kSeed, {file}, {arenas, nullptr});
    EXPECT_TRUE(status.ok()) << status.message();
    for (const StateDesc& state : stateful.states) {
      if (std::string(state.role) != "parameter") continue;
      std::vector<double>& values = whole[state.name];
      values.resize(static_cast<size_t>(elementCount(state.global)));
      int64_t real = 0;
      const std::byte* from = arenas[0] + state.buffer.offset;
      const auto read = [&](int64_t i) {
        return state.dtype == DType::kF64 ? reinterpret_cast<const double*>(from)[i]
                                          : double{reinterpret_cast<const float*>(from)[i]};
      };
      double total = 0, realTotal = 0;
      ShardLayout(state, meshOf(tp, 1, 1), at).forEachRun([&](const ElementRun& run) {
        for (int64_t i = 0; i < run.count; ++i) {
          values[static_cast<size_t>(run.global + i)] = read(run.local + i);
          realTotal += std::abs(read(run.local + i));
        }
        real += run.count;
        return true;
      });
      for (int64_t i = 0; i < elementCount(state.local); ++i) total += std::abs(read(i));
      EXPECT_NEAR(total, realTotal, 1e-9) << state.name << ": padding is not zero";
    }
  }
  return whole;
}

TEST(InitialValues, AreTheSameInEveryLayout) {
  TemporaryFolder folder;
  const std::string file = folder.write("model", modelFile());
  const auto one = initialValues(1, file);
  EXPECT_EQ(one.at("file")[41], 41.25);
  EXPECT_EQ(one.at("narrow")[1], 1.0 + 1.0 / 128);
  EXPECT_EQ(one.at("constant"), (std::vector<double>{0.5, 0.5, 0.5}));
  EXPECT_EQ(one.at("sinusoids")[1], 0);
  EXPECT_EQ(one.at("sinusoids")[9], static_cast<float>(std::sin(2 * 0.01)));
  EXPECT_EQ(one.at("sinusoids")[10], static_cast<float>(std::cos(2.0)));
  EXPECT_EQ(one.at("normal")[34],
            static_cast<float>(1.0 + 2.0 * double{PhiloxStream(kSeed, stableKey("normal")).normal(34)}));
  for (int tp : {2, 3, 4}) EXPECT_EQ(initialValues(tp, file), one) << "tp " << tp;
}

TEST(InitialValues, ReadHalfPrecisionExactly) {
  TemporaryFolder folder;
  const uint16_t halves[] = {0x3C00, 0xC000, 0x0001, 0x83FF, 0x7BFF, 0x7C00, 0x8000};
  const std::string file = folder.write("model", std::string(reinterpret_cast<const char*>(halves), sizeof halves));
  const StateDesc state{
      "h", "parameter", DType::kF32, {0, 0}, {7}, {7}, {7}, {}, Initializer::fromFile(0, 0, DType::kF16)};
  const ArenaDesc arena[] = {{"parameters", 64, Sharing::kPrivate}};
  Program program{};
  program.arenas = Table<ArenaDesc>(arena);
  program.states = tableOf(std::vector<StateDesc>{});
  const StateDesc states[] = {state};
  program.states = Table<StateDesc>(states);
  float values[16] = {};
  std::byte* arenas[] = {reinterpret_cast<std::byte*>(values)};
  ASSERT_TRUE(initializeStates(program, {}, 0, {file}, {arenas, nullptr}).ok());
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], -2.0f);
  EXPECT_EQ(values[2], 0x1p-24f);
  EXPECT_EQ(values[3], -1023 * 0x1p-24f);
  EXPECT_EQ(values[4], 65504.0f);
  EXPECT_EQ(values[5], INFINITY);
  EXPECT_EQ(values[6], 0.0f);
  EXPECT_TRUE(std::signbit(values[6]));
}

// Tensors of several pieces, with runs that are read alone and runs that are gathered, in and out of f32.
TEST(InitialValues, OfLargeShardsAreThoseOfTheFile) {
  TemporaryFolder folder;
  constexpr int64_t kRows = 1500, kWide = 2048, kNarrow = 512;  // columns; over tp 2 runs of 4 KiB and of 256 bytes
  std::string bytes(static_cast<size_t>(kRows * kWide * 4), '\0');
  float* stored = reinterpret_cast<float*>(bytes.data());
  for (int64_t i = 0; i < kRows * kWide; ++i) stored[i] = static_cast<float>(i % 16001 - 8000);
  const std::string file = folder.write("model", bytes);
  for (const auto& [columns, inner] : {std::pair{kWide, int64_t{1}}, std::pair{kNarrow, kNarrow / 128}}) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const int64_t rows = kRows * kWide / columns, part = columns / inner / 2;
      const Shape global = {rows, inner, 2 * part}, local = {rows, inner, part};
      const StateDesc states[] = {{"w",
                                   "parameter",
                                   dtype,
                                   {0, 0},
                                   global,
                                   global,
                                   local,
                                   {{2, kTp}},
                                   Initializer::fromFile(0, 0, DType::kF32)}};
      Program program{};
      program.mesh = meshOf(2, 1, 1);
      program.states = Table<StateDesc>(states);
      std::vector<float> memory(static_cast<size_t>(rows * inner * part));
      std::byte* arenas[] = {reinterpret_cast<std::byte*>(memory.data())};
      ASSERT_TRUE(initializeStates(program, {0, 1}, 0, {file}, {arenas, nullptr}).ok());
      int64_t wrong = 0;
      for (int64_t i = 0; i < rows * inner * part; ++i) {
        const float expected = stored[i / part * 2 * part + part + i % part];
        const float found = dtype == DType::kF32 ? memory[static_cast<size_t>(i)]
                                                 : float{reinterpret_cast<hyc::kernels::Bf16*>(memory.data())[i]};
        wrong += found != (dtype == DType::kF32 ? expected : float{hyc::kernels::Bf16(expected)});
      }
      EXPECT_EQ(wrong, 0) << columns << " columns, " << nameOf(dtype);
    }
  }
}

TEST(InitialValues, FromAFileThatIsTooShortNameTheTensor) {
  TemporaryFolder folder;
  const std::string file = folder.write("model", modelFile().substr(0, 100));
  StatefulProgram stateful(meshOf(1, 1, 1));
  std::vector<uint64_t> memory(4096);
  std::byte* arenas[] = {reinterpret_cast<std::byte*>(memory.data())};
  const Status status = initializeStates(stateful.program, {}, kSeed, {file}, {arenas, nullptr});
  EXPECT_EQ(status.code(), StatusCode::kData);
  EXPECT_NE(status.message().find("file should lie at bytes [16, 16 + 168), but the file has 100"), std::string::npos)
      << status.message();
}

std::string savedWith(Mesh mesh, const std::string& model, const std::string& path, double divisor,
                      const std::string& role) {
  const std::vector<RankOutcome> outcomes = runRanks(rankCount(mesh), [&](const Environment& environment) -> Status {
    const Coordinates at = coordinatesOf(mesh, environment.rank);
    StatefulProgram stateful(mesh, at.stage);
    Result<std::unique_ptr<ConnectedRank>> rank = ConnectedRank::connect(stateful.program, environment);
    if (!rank.ok()) return rank.status();
    Context& ctx = (*rank)->context();
    std::byte* arenas[] = {ctx.arena(0)};
    HYCRT_RETURN_IF_ERROR(initializeStates(stateful.program, at, kSeed, {model}, {arenas, nullptr}));
    return saveStates(ctx, role, path, "run", {divisor});
  });
  for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome.message, "");
  Result<std::string> bytes = readWholeFile(path, 1 << 20);
  return bytes.ok() ? *bytes : bytes.status().message();
}

TEST(Saving, GivesTheSameFileFromEveryLayout) {
  TemporaryFolder folder;
  const std::string model = folder.write("model", modelFile());
  const std::string one = savedWith(meshOf(1, 1, 1), model, folder / "one", 1, "parameter");
  EXPECT_EQ(savedWith(meshOf(3, 1, 2), model, folder / "six", 1, "parameter"), one);
  EXPECT_FALSE(std::filesystem::exists(folder / "six.run.partial"));
  Result<TensorDirectory> directory = readSafetensorsDirectory(folder / "one");
  ASSERT_TRUE(directory.ok()) << directory.status().message();
  EXPECT_EQ(directory->size(), 6u);
  const TensorEntry& entry = directory->at("file");
  EXPECT_EQ(entry.shape, (std::vector<int64_t>{7, 6}));
  EXPECT_EQ(one.substr(static_cast<size_t>(entry.begin), static_cast<size_t>(entry.bytes)),
            modelFile().substr(16, 168));
}

TEST(Saving, WritesATensorOfTwoStagesOnce) {
  TemporaryFolder folder;
  const std::string model = folder.write("model", modelFile());
  const std::string one = savedWith(meshOf(1, 1, 1), model, folder / "one", 1, "parameter");
  savedWith(meshOf(2, 2, 1), model, folder / "four", 1, "parameter");
  Result<TensorDirectory> directory = readSafetensorsDirectory(folder / "four");
  ASSERT_TRUE(directory.ok()) << directory.status().message();
  EXPECT_EQ(directory->size(), 7u);
  EXPECT_EQ(directory->count("second"), 1u);
}

TEST(Saving, DividesByTheCount) {
  TemporaryFolder folder;
  const std::string model = folder.write("model", modelFile());
  const std::string path = folder / "halved";
  const std::string bytes = savedWith(meshOf(2, 1, 1), model, path, 2, "parameter");
  const TensorEntry entry = readSafetensorsDirectory(path)->at("file");
  float value = 0;
  std::memcpy(&value, bytes.data() + entry.begin + 4 * 41, 4);
  EXPECT_EQ(value, 41.25f / 2);
}

TEST(Saving, IntoAFolderThatIsNotThereFailsOnEveryRankAndLeavesNothing) {
  TemporaryFolder folder;
  const std::string model = folder.write("model", modelFile());
  const std::vector<RankOutcome> outcomes = runRanks(2, [&](const Environment& environment) -> Status {
    StatefulProgram stateful(meshOf(2, 1, 1));
    Result<std::unique_ptr<ConnectedRank>> rank = ConnectedRank::connect(stateful.program, environment);
    if (!rank.ok()) return rank.status();
    return saveStates((*rank)->context(), "parameter", folder / "missing/file", "run", {});
  });
  EXPECT_EQ(outcomes[0].code, StatusCode::kIo);
  EXPECT_EQ(outcomes[1].code, StatusCode::kPeerLost);
}

}  // namespace
}  // namespace hycrt
