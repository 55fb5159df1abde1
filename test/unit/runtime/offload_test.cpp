// States that lie in the rank's file: what they start from, how functions reach them, what is saved of them, and what
// is said where the disk fails. One program keeps the same states in memory and in the file.
#include "hycrt/offload.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "forked_ranks.h"
#include "hycrt/philox.h"
#include "hycrt/safetensors.h"
#include "io/block_file.h"
#include "io/initial_values.h"
#include "io/state_window.h"
#include "run/program_check.h"
#include "run/state_file.h"
#include "temporary_folder.h"
#include "test_mesh.h"

namespace hycrt {
namespace {

constexpr uint64_t kSeed = 5;
// Three dimensions, the middle one split, so that runs are short; larger than a window.
constexpr int64_t kOuter = 1500, kSplit = 7, kInner = 300;
constexpr int64_t kElements = kOuter * kSplit * kInner;
enum Arena { kMemory, kNvme };

int64_t rounded(int64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes; }

// The same weights three times: in memory and in the file by rule, in the file from a model file.
class TwinProgram {
 public:
  explicit TwinProgram(int tp) {
    const int64_t shard = (kSplit + tp - 1) / tp, bytes = rounded(kOuter * shard * kInner * 4);
    arenas_ = {{"memory", bytes + 2 * kBlockBytes, Sharing::kShared}, {"nvme", 2 * bytes, Sharing::kFile}};
    const Initializer rule = Initializer::normal(0, 1, stableKey("w"));
    add("memory", {kMemory, 0}, shard, rule);
    add("file", {kNvme, 0}, shard, rule);
    add("model", {kNvme, bytes}, shard, Initializer::fromFile(0, 0, DType::kF16));
    program.name = "twin";
    program.mesh = meshOf(tp, 1, 1);
    program.batch = {1, 1, 1};
    program.scalars = {{kMemory, bytes}, {kMemory, bytes + 8}, {kMemory, bytes + 16}};
    program.arenas = tableOf(arenas_);
    program.states = tableOf(states_);
    program.entries = tableOf(entries_);
  }

  Program program{};

 private:
  void add(const char* name, BufferRef buffer, int64_t shard, Initializer init) {
    const Shape global{kOuter, kSplit, kInner};
    states_.push_back({name, name, DType::kF32, buffer, global, global, {kOuter, shard, kInner}, {{1, kTp}}, init});
  }

  std::vector<ArenaDesc> arenas_;
  std::vector<StateDesc> states_;
  std::vector<Entry> entries_ =
      std::vector<Entry>(1, Entry{kTrainEntry, {}, {}, {}, nullptr, nullptr, nullptr, nullptr});
};

std::string modelOfHalves() {
  std::string bytes(static_cast<size_t>(kElements) * 2, '\0');
  for (int64_t i = 0; i < kElements; ++i) {
    const uint16_t half = static_cast<uint16_t>(i % 0x7c00);  // every finite positive half
    std::memcpy(&bytes[static_cast<size_t>(2 * i)], &half, 2);
  }
  return bytes;
}

// The tensor's bytes of a safetensors file with one tensor.
std::string savedTensor(const std::string& path) {
  Result<std::string> bytes = readWholeFile(path, int64_t{1} << 30);
  return bytes.ok() ? bytes->substr(bytes->size() - kElements * 4) : bytes.status().message();
}

TEST(StatesInAFile, StartAndAreSavedAsThoseInMemory) {
  TemporaryFolder folder;
  const std::string model = folder.write("halves", modelOfHalves());
  for (int tp : {1, 3}) {
    const std::vector<RankOutcome> outcomes = runRanks(tp, [&](const Environment& environment) -> Status {
      TwinProgram twin(tp);
      HYCRT_RETURN_IF_ERROR(checkProgram(twin.program));
      Result<std::unique_ptr<ConnectedRank>> rank = ConnectedRank::connect(twin.program, environment, folder.path());
      if (!rank.ok()) return rank.status();
      Context& ctx = (*rank)->context();
      const ArenaBases arenas{ctx.arenas(), ctx.file()};
      HYCRT_RETURN_IF_ERROR(initializeStates(twin.program, ctx.at(), kSeed, {model}, arenas));
      for (const char* role : {"memory", "file", "model"}) {
        HYCRT_RETURN_IF_ERROR(saveStates(ctx, role, folder / role, "run", {}));
      }
      return {};
    });
    for (const RankOutcome& outcome : outcomes) ASSERT_EQ(outcome.message, "");
    const std::string inMemory = savedTensor(folder / "memory");
    ASSERT_EQ(inMemory.size(), static_cast<size_t>(kElements * 4));
    EXPECT_TRUE(inMemory == savedTensor(folder / "file")) << "tp " << tp;
    const std::string fromModel = savedTensor(folder / "model");
    for (int64_t i = 0; i < kElements; i += 997) {
      float value;
      std::memcpy(&value, &fromModel[static_cast<size_t>(4 * i)], 4);
      const int64_t half = i % 0x7c00, exponent = half >> 10, fraction = half & 1023;
      ASSERT_EQ(value, exponent ? std::ldexp(1024.0f + fraction, static_cast<int>(exponent) - 25)
                                : std::ldexp(static_cast<float>(fraction), -24))
          << i << " tp " << tp;
    }
  }
}

// A program of one arena of memory and one file, with a rank on it.
struct OneRank {
  explicit OneRank(const std::string& folder) : twin(1) {
    Environment environment;
    environment.socketName = uniqueSocketName();
    Result<std::unique_ptr<ConnectedRank>> connected = ConnectedRank::connect(twin.program, environment, folder);
    EXPECT_TRUE(connected.ok()) << connected.status().message();
    if (connected.ok()) rank = std::move(*connected);
  }
  TwinProgram twin;
  std::unique_ptr<ConnectedRank> rank;
};

TEST(Moves, GoToTheFileAndBack) {
  TemporaryFolder folder;
  OneRank one(folder.path());
  Context& ctx = one.rank->context();
  for (int i = 0; i < 1024; ++i) ctx.ptr<float>(kMemory, 0)[i] = static_cast<float>(i);
  wait(ctx, evictStart(ctx, {kMemory, 0}, {kNvme, 8192}, 4096));
  wait(ctx, fetchStart(ctx, {kNvme, 8192}, {kMemory, 4096}, 4096));
  EXPECT_TRUE(ctx.status().ok()) << ctx.status().message();
  EXPECT_EQ(std::memcmp(ctx.arena(kMemory), ctx.arena(kMemory) + 4096, 4096), 0);
}

TEST(Moves, WithinMemoryAreDoneWhenTheyHaveStarted) {
  TemporaryFolder folder;
  OneRank one(folder.path());
  Context& ctx = one.rank->context();
  const int64_t count = 500001;  // neither a block nor a chunk
  for (int64_t i = 0; i < count; ++i) ctx.ptr<float>(kMemory, 0)[i] = static_cast<float>(i);
  const MoveTicket ticket = fetchStart(ctx, {kMemory, 0}, {kMemory, 4 * count}, 4 * count);
  EXPECT_EQ(std::memcmp(ctx.arena(kMemory), ctx.arena(kMemory) + 4 * count, static_cast<size_t>(4 * count)), 0);
  wait(ctx, ticket);
  EXPECT_TRUE(ctx.status().ok());
}

TEST(Moves, FillAShardUpWithZeros) {
  TemporaryFolder folder;
  OneRank one(folder.path());
  Context& ctx = one.rank->context();
  for (int i = 0; i < 100; ++i) ctx.ptr<float>(kMemory, 0)[i] = static_cast<float>(i + 1);
  wait(ctx,
       fetchStart(ctx, {kMemory, 0}, {kMemory, 80}, 24, 8));  // elements 0 to 5 over 20 to 25, zeros over 26 and 27
  const float* at = ctx.ptr<float>(kMemory, 80);
  EXPECT_EQ(at[5], 6);
  EXPECT_EQ(at[6], 0);
  EXPECT_EQ(at[7], 0);
  EXPECT_EQ(at[8], 29);
}

TEST(Moves, ThatFailNameTheStateAndEndAllLaterOnes) {
  TemporaryFolder folder;
  setenv("HYC_IO_FAULT", "0:read:0:EIO", 1);
  OneRank one(folder.path());
  unsetenv("HYC_IO_FAULT");
  Context& ctx = one.rank->context();
  wait(ctx, fetchStart(ctx, {kNvme, 8192}, {kMemory, 0}, 4096));
  EXPECT_EQ(ctx.status().exitCode(), 74);
  const std::string message = ctx.status().message();
  EXPECT_NE(message.find("cannot read 4096 bytes at offset 8192 of '" + folder.path()), std::string::npos) << message;
  EXPECT_NE(message.find("(rank 0): Input/output error; file of file lies there"), std::string::npos) << message;
  wait(ctx, evictStart(ctx, {kMemory, 0}, {kNvme, 0}, 4096));  // nothing is begun, nothing hangs
  EXPECT_EQ(ctx.status().message(), message);
}

TEST(AProgramWithAFile, WantsAFolder) {
  TwinProgram twin(1);
  Environment environment;
  environment.socketName = uniqueSocketName();
  Result<std::unique_ptr<ConnectedRank>> rank = ConnectedRank::connect(twin.program, environment);
  ASSERT_FALSE(rank.ok());
  EXPECT_EQ(rank.status().code(), StatusCode::kUsage);
  EXPECT_NE(rank.status().message().find("--nvme-path"), std::string::npos) << rank.status().message();
}

TEST(AProgramWithAFile, KeepsOnlyStatesThereAndOnBlocks) {
  TwinProgram twin(1);
  Program wrong = twin.program;
  wrong.scalars.lossSum = {kNvme, 0};
  EXPECT_NE(checkProgram(wrong).message().find("lies in a file"), std::string::npos);
  std::vector<StateDesc> states(twin.program.states.begin(), twin.program.states.end());
  states[1].buffer.offset = 512;
  wrong = twin.program;
  wrong.states = tableOf(states);
  EXPECT_NE(checkProgram(wrong).message().find("no multiple of 4096"), std::string::npos);
  std::vector<ArenaDesc> arenas(twin.program.arenas.begin(), twin.program.arenas.end());
  arenas.push_back(arenas[kNvme]);
  wrong = twin.program;
  wrong.arenas = tableOf(arenas);
  EXPECT_NE(checkProgram(wrong).message().find("expected at most one"), std::string::npos);
}

}  // namespace
}  // namespace hycrt
