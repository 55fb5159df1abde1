// Collectives and transfers among forked ranks, compared with sums in rank order; and what happens when ranks disagree
// or die. The machine may have fewer cores than a test has ranks, so every wait is exercised asleep, too.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "comm/shm/sockets.h"
#include "forked_ranks.h"
#include "hycrt/collectives.h"
#include "hycrt/philox.h"
#include "kernels/narrow_float.h"
#include "passing_transport.h"
#include "test_mesh.h"

namespace hycrt {
namespace {

constexpr int kShared = 0, kPrivate = 1;
constexpr int64_t kArenaBytes = 1 << 20;

// One arena of each kind, one group of all ranks, and rows for every kind of collective.
struct GroupProgram {
  explicit GroupProgram(Mesh mesh, int stage = 0) {
    program.name = "group";
    program.mesh = mesh;
    program.stage = stage;
    if (mesh.stages < 3) groups.back().stages = {0};
    program.arenas = tableOf(arenas);
    program.groups = tableOf(groups);
    program.collectives = tableOf(collectives);
  }
  std::vector<ArenaDesc> arenas{{"communication", kArenaBytes, Sharing::kShared},
                                {"activations", kArenaBytes, Sharing::kPrivate}};
  std::vector<GroupDesc> groups{{"all", kTp | kDp | kPp, {}}, {"tp", kTp, {}}, {"dp", kDp, {}}, {"tied", {}, {0, 2}}};
  std::vector<CollectiveDesc> collectives{{1, "sum over all", CollectiveKind::kAllReduce, 0},
                                          {2, "scatter over all", CollectiveKind::kReduceScatter, 0},
                                          {3, "gather over all", CollectiveKind::kAllGather, 0},
                                          {4, "sum over tp", CollectiveKind::kAllReduce, 1},
                                          {5, "sum over dp", CollectiveKind::kAllReduce, 2},
                                          {6, "sum of the tied weight", CollectiveKind::kAllReduce, 3},
                                          {7, "another sum over all", CollectiveKind::kAllReduce, 0}};
  Program program{};
};
enum Row { kSumAll, kScatterAll, kGatherAll, kSumTp, kSumDp, kSumTied, kOtherSumAll };

// Values whose sum depends on the order of summation.
template <typename T>
T valueOf(int rank, int64_t i) {
  const float x = PhiloxStream(7, static_cast<uint64_t>(rank)).normal(static_cast<uint64_t>(i));
  return static_cast<T>(std::is_integral_v<T> ? x * 1000 : x);
}

// Terms of 16 bits are added in f32 and rounded once.
template <typename T>
T referenceSum(const std::vector<int>& ranks, int64_t i) {
  using Sum = std::conditional_t<sizeof(T) == 2, float, T>;
  Sum sum = valueOf<T>(ranks[0], i);
  for (size_t r = 1; r < ranks.size(); ++r) sum = static_cast<Sum>(sum + valueOf<T>(ranks[r], i));
  return static_cast<T>(sum);
}

std::vector<int> allOf(int count) {
  std::vector<int> ranks;
  for (int rank = 0; rank < count; ++rank) ranks.push_back(rank);
  return ranks;
}

template <typename T>
void fill(T* to, int rank, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = valueOf<T>(rank, i);
}

template <typename T>
Status expectSum(const T* found, const std::vector<int>& ranks, int64_t begin, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const T expected = referenceSum<T>(ranks, begin + i);
    if (std::memcmp(&found[i], &expected, sizeof expected) == 0) continue;
    return internalError("element " + std::to_string(begin + i) + ": found " + std::to_string(found[i]) +
                         ", expected " + std::to_string(expected));
  }
  return {};
}

void expectAllOk(const std::vector<RankOutcome>& outcomes) {
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_EQ(outcomes[rank].signal, 0) << "rank " << rank;
    EXPECT_EQ(outcomes[rank].code, StatusCode::kOk) << "rank " << rank << ": " << outcomes[rank].message;
  }
}

#define RETURN_IF_ERROR HYCRT_RETURN_IF_ERROR
#define CONNECT_OR_RETURN(rank, program, environment)                                                 \
  Result<std::unique_ptr<ConnectedRank>> rank##Result = ConnectedRank::connect(program, environment); \
  if (!rank##Result.ok()) return rank##Result.status();                                               \
  ConnectedRank& rank = **rank##Result

template <typename T>
Status sumOnce(Context& ctx, const Environment& environment, int64_t count, DType dtype) {
  // Every rank keeps its vector at another place, as tied weights on two stages do.
  const BufferRef buffer{kShared, 64 * (environment.rank + 1)};
  fill(ctx.ptr<T>(buffer), environment.rank, count);
  if (environment.rank == static_cast<int>(count) % environment.worldSize) usleep(20000);  // late in turns
  wait(ctx, allReduceStart(ctx, kSumAll, buffer, count, dtype));
  RETURN_IF_ERROR(ctx.status());
  return expectSum(ctx.ptr<T>(buffer), allOf(environment.worldSize), 0, count);
}

class AllReduce : public testing::TestWithParam<int> {};

TEST_P(AllReduce, SumsInRankOrderWhateverTheSlicing) {
  GroupProgram group(meshOf(1, 1, GetParam()));
  expectAllOk(runRanks(GetParam(), [&](const Environment& environment) -> Status {
    CONNECT_OR_RETURN(rank, group.program, environment);
    for (int64_t count : {1, 15, 16, 17, 1000, 100003}) {
      RETURN_IF_ERROR(sumOnce<float>(rank.context(), environment, count, DType::kF32));
    }
    RETURN_IF_ERROR(sumOnce<double>(rank.context(), environment, 999, DType::kF64));
    RETURN_IF_ERROR(sumOnce<int32_t>(rank.context(), environment, 999, DType::kI32));
    RETURN_IF_ERROR(sumOnce<int64_t>(rank.context(), environment, 999, DType::kI64));
    RETURN_IF_ERROR(sumOnce<hyc::kernels::Bf16>(rank.context(), environment, 20003, DType::kBF16));
    RETURN_IF_ERROR(sumOnce<hyc::kernels::F16>(rank.context(), environment, 20003, DType::kF16));
    return rank.exchanger().barrier();
  }));
}

TEST_P(AllReduce, TakesTheMaximum) {
  GroupProgram group(meshOf(GetParam(), 1, 1));
  expectAllOk(runRanks(GetParam(), [&](const Environment& environment) -> Status {
    CONNECT_OR_RETURN(rank, group.program, environment);
    int64_t* values = rank.context().ptr<int64_t>(kShared, 0);
    for (int64_t i = 0; i < 50; ++i) values[i] = i % environment.worldSize == environment.rank ? 1000 + i : -i;
    wait(rank.context(), allReduceStart(rank.context(), kSumAll, {kShared, 0}, 50, DType::kI64, ReduceOp::kMax));
    RETURN_IF_ERROR(rank.context().status());
    for (int64_t i = 0; i < 50; ++i) {
      if (values[i] != 1000 + i) return internalError("element " + std::to_string(i) + " is wrong");
    }
    return rank.exchanger().barrier();
  }));
}

TEST_P(AllReduce, ManyMayBePendingAndAreDoneInOrder) {
  GroupProgram group(meshOf(1, 1, GetParam()));
  constexpr int kCount = 40;  // more than the ring holds
  expectAllOk(runRanks(GetParam(), [&](const Environment& environment) -> Status {
    CONNECT_OR_RETURN(rank, group.program, environment);
    Context& ctx = rank.context();
    std::vector<Ticket> tickets;
    for (int n = 0; n < kCount; ++n) {
      fill(ctx.ptr<float>(kShared, 4096 * n), environment.rank, 1000);
      tickets.push_back(
          allReduceStart(ctx, n % 2 == 0 ? kSumAll : kOtherSumAll, {kShared, 4096 * n}, 1000, DType::kF32));
    }
    // The last first: waiting for it brings the others along.
    for (int n = kCount - 1; n >= 0; --n) wait(ctx, tickets[static_cast<size_t>(n)]);
    RETURN_IF_ERROR(ctx.status());
    for (int n = 0; n < kCount; ++n) {
      RETURN_IF_ERROR(expectSum(ctx.ptr<float>(kShared, 4096 * n), allOf(environment.worldSize), 0, 1000));
    }
    return rank.exchanger().barrier();
  }));
}

TEST_P(AllReduce, ScatterThenGatherIsTheSame) {
  GroupProgram group(meshOf(1, 1, GetParam()));
  constexpr int64_t kPart = 333;
  expectAllOk(runRanks(GetParam(), [&](const Environment& environment) -> Status {
    CONNECT_OR_RETURN(rank, group.program, environment);
    Context& ctx = rank.context();
    const int64_t total = kPart * environment.worldSize;
    fill(ctx.ptr<float>(kShared, 0), environment.rank, total);
    const BufferRef part{kShared, 400000}, whole{kPrivate, 128};
    wait(ctx, reduceScatterStart(ctx, kScatterAll, {kShared, 0}, part, kPart, DType::kF32));
    RETURN_IF_ERROR(ctx.status());
    RETURN_IF_ERROR(expectSum(ctx.ptr<float>(part), allOf(environment.worldSize), kPart * environment.rank, kPart));
    wait(ctx, allGatherStart(ctx, kGatherAll, part, whole, kPart, DType::kF32));
    RETURN_IF_ERROR(ctx.status());
    RETURN_IF_ERROR(expectSum(ctx.ptr<float>(whole), allOf(environment.worldSize), 0, total));
    return rank.exchanger().barrier();
  }));
}

// Only with a thread of its own does a sum come while the caller is busy with something else.
TEST(CommunicationThread, CollectivesProgressWhileTheCallerComputes) {
  if (!std::getenv("HYC_TEST_COMMUNICATION_THREAD")) GTEST_SKIP() << "runs as runtime/host_exchanger-thread";
  GroupProgram group(meshOf(1, 1, 2));
  expectAllOk(runRanks(2, [&](const Environment& environment) -> Status {
    CONNECT_OR_RETURN(rank, group.program, environment);
    Context& ctx = rank.context();
    volatile float* values = ctx.ptr<float>(kShared, 0);
    for (int i = 0; i < 1000; ++i) values[i] = 1;
    const Ticket ticket = allReduceStart(ctx, kSumAll, {kShared, 0}, 1000, DType::kF32);
    const int64_t limit = monotonicMs() + 20000;
    const auto isSummed = [&] {
      for (int i = 0; i < 1000; ++i) {
        if (values[i] != 2) return false;
      }
      return true;
    };
    while (!isSummed()) {
      if (monotonicMs() > limit) return internalError("no sum without a wait");
      usleep(100);
    }
    wait(ctx, ticket);
    RETURN_IF_ERROR(ctx.status());
    return rank.exchanger().barrier();
  }));
}

INSTANTIATE_TEST_SUITE_P(Ranks, AllReduce, testing::Values(1, 2, 3, 4, 5),
                         [](const testing::TestParamInfo<int>& info) { return std::to_string(info.param); });

// ------------------------------------------------------------------------------------------------------ flat shards

enum FlatRow { kScatterDp, kGatherDp, kScatterTpDp, kScatterOverTp, kScatterTied };

// tp and dp, and where there are two stages a weight that is tied between them.
struct FlatProgram {
  explicit FlatProgram(Mesh mesh, int stage = 0) {
    program.name = "flat";
    program.mesh = mesh;
    program.stage = stage;
    if (mesh.stages > 1) {
      groups.push_back({"tied", kDp, {0, 1}});
      collectives.push_back({5, "scatter of a tied weight", CollectiveKind::kReduceScatter, 3, {kDp}});
    }
    program.arenas = tableOf(arenas);
    program.groups = tableOf(groups);
    program.collectives = tableOf(collectives);
  }
  std::vector<ArenaDesc> arenas{{"gradients", kArenaBytes, Sharing::kShared},
                                {"activations", kArenaBytes, Sharing::kPrivate}};
  std::vector<GroupDesc> groups{{"dp", kDp, {}}, {"tp × dp", kTp | kDp, {}}, {"tp", kTp, {}}};
  std::vector<CollectiveDesc> collectives{{1, "scatter over dp", CollectiveKind::kReduceScatter, 0, {kDp}},
                                          {2, "gather over dp", CollectiveKind::kAllGather, 0, {kDp}},
                                          {3, "scatter over tp and dp", CollectiveKind::kReduceScatter, 1, {kDp}},
                                          {4, "scatter over tp", CollectiveKind::kReduceScatter, 2, {kDp}}};
  Program program{};
};

// Several tensors, of fewer blocks than ranks, of uneven ones, and of none.
std::vector<FlatPart> flatParts(int dp) {
  std::vector<FlatPart> parts;
  int64_t offset = 0;
  for (int64_t elements : {5000, 100, 1024, 0, 9 * 1024 + 7}) {
    parts.push_back({{kShared, offset}, elements, flatShardSize(elements, dp)});
    offset += 64 * 1024;
  }
  return parts;
}

class Flat : public testing::TestWithParam<int> {};

TEST_P(Flat, SumsAreLeftInOwnSlicesAndGatheredWhereTheyLie) {
  const int dp = GetParam();
  FlatProgram flat(meshOf(1, 1, dp));
  expectAllOk(runRanks(dp, [&](const Environment& environment) -> Status {
    CONNECT_OR_RETURN(rank, flat.program, environment);
    Context& ctx = rank.context();
    const std::vector<FlatPart> parts = flatParts(dp);
    const int count = static_cast<int>(parts.size());
    for (const FlatPart& part : parts) fill(ctx.ptr<float>(part.whole), environment.rank, part.elements);
    wait(ctx, flatReduceScatterStart(ctx, kScatterDp, parts.data(), count, DType::kF32));
    RETURN_IF_ERROR(ctx.status());
    for (const FlatPart& part : parts) {
      const FlatShard own = flatShard(environment.rank, part.shardElements, part.elements);
      RETURN_IF_ERROR(expectSum(ctx.ptr<float>(part.whole) + own.begin, allOf(dp), own.begin, own.count));
    }
    wait(ctx, flatAllGatherStart(ctx, kGatherDp, parts.data(), count, DType::kF32));
    RETURN_IF_ERROR(ctx.status());
    for (const FlatPart& part : parts) {
      RETURN_IF_ERROR(expectSum(ctx.ptr<float>(part.whole), allOf(dp), 0, part.elements));
    }
    return rank.exchanger().barrier();
  }));
}

TEST_P(Flat, ShardsThatAreStoredApartAreGathered) {
  const int dp = GetParam();
  FlatProgram flat(meshOf(1, 1, dp));
  expectAllOk(runRanks(dp, [&](const Environment& environment) -> Status {
    CONNECT_OR_RETURN(rank, flat.program, environment);
    Context& ctx = rank.context();
    std::vector<FlatPart> parts = flatParts(dp);
    for (FlatPart& part : parts) {
      part.shard = part.whole;  // in the shared arena; the wholes in the private one
      part.whole.arena = kPrivate;
      const FlatShard own = flatShard(environment.rank, part.shardElements, part.elements);
      for (int64_t i = 0; i < own.count; ++i) ctx.ptr<float>(part.shard)[i] = valueOf<float>(0, own.begin + i);
    }
    wait(ctx, flatAllGatherStart(ctx, kGatherDp, parts.data(), static_cast<int>(parts.size()), DType::kF32));
    RETURN_IF_ERROR(ctx.status());
    for (const FlatPart& part : parts) {
      RETURN_IF_ERROR(expectSum(ctx.ptr<float>(part.whole), {0}, 0, part.elements));
    }
    return rank.exchanger().barrier();
  }));
}

INSTANTIATE_TEST_SUITE_P(Ranks, Flat, testing::Values(1, 2, 3, 4),
                         [](const testing::TestParamInfo<int>& info) { return std::to_string(info.param); });

// Members of equal coordinate along the flat axes get equal shards, whatever else the group spans.
TEST(FlatGroups, RanksWithOneShardShareItsSum) {
  FlatProgram flat(meshOf(2, 1, 2));
  expectAllOk(runRanks(4, [&](const Environment& environment) -> Status {
    CONNECT_OR_RETURN(rank, flat.program, environment);
    Context& ctx = rank.context();
    const FlatPart part{{kShared, 128}, 5000, flatShardSize(5000, 2)};
    const FlatShard own = flatShard(coordinateOf(ctx.mesh(), ctx.at(), kDp), part.shardElements, part.elements);
    fill(ctx.ptr<float>(part.whole), environment.rank, part.elements);
    wait(ctx, flatReduceScatterStart(ctx, kScatterTpDp, &part, 1, DType::kF32));
    RETURN_IF_ERROR(ctx.status());
    RETURN_IF_ERROR(expectSum(ctx.ptr<float>(part.whole) + own.begin, {0, 1, 2, 3}, own.begin, own.count));
    // Over tp alone all members have the same shard: only that part of the tensor is summed.
    fill(ctx.ptr<float>(part.whole), environment.rank, part.elements);
    wait(ctx, flatReduceScatterStart(ctx, kScatterOverTp, &part, 1, DType::kF32));
    RETURN_IF_ERROR(ctx.status());
    const std::vector<int> group{2 * coordinateOf(ctx.mesh(), ctx.at(), kDp),
                                 2 * coordinateOf(ctx.mesh(), ctx.at(), kDp) + 1};
    RETURN_IF_ERROR(expectSum(ctx.ptr<float>(part.whole) + own.begin, group, own.begin, own.count));
    return rank.exchanger().barrier();
  }));
}

TEST(FlatGroups, TiedWeightsLieElsewhereOnEachStage) {
  expectAllOk(runRanks(4, [&](const Environment& environment) -> Status {
    FlatProgram flat(meshOf(1, 2, 2), environment.rank / 2);
    CONNECT_OR_RETURN(rank, flat.program, environment);
    Context& ctx = rank.context();
    const FlatPart part{{kShared, 4096 * (1 + ctx.at().stage)}, 5000, flatShardSize(5000, 2)};
    fill(ctx.ptr<float>(part.whole), environment.rank, part.elements);
    wait(ctx, flatReduceScatterStart(ctx, kScatterTied, &part, 1, DType::kF32));
    RETURN_IF_ERROR(ctx.status());
    const FlatShard own = flatShard(coordinateOf(ctx.mesh(), ctx.at(), kDp), part.shardElements, part.elements);
    RETURN_IF_ERROR(expectSum(ctx.ptr<float>(part.whole) + own.begin, {0, 1, 2, 3}, own.begin, own.count));
    return rank.exchanger().barrier();
  }));
}

TEST(FlatGroups, ABucketAcrossStagesIsRefused) {
  for (const RankOutcome& outcome : runRanks(2, [&](const Environment& environment) -> Status {
         FlatProgram flat(meshOf(1, 2, 1), environment.rank);
         CONNECT_OR_RETURN(rank, flat.program, environment);
         RETURN_IF_ERROR(rank.exchanger().barrier());  // or one would find the other gone already
         const FlatPart parts[] = {{{kShared, 0}, 100, 1024}, {{kShared, 4096}, 100, 1024}};
         wait(rank.context(), flatReduceScatterStart(rank.context(), kScatterTied, parts, 2, DType::kF32));
         return rank.context().status();
       })) {
    EXPECT_EQ(outcome.code, StatusCode::kInternal);
    EXPECT_NE(outcome.message.find("spans stages"), std::string::npos) << outcome.message;
  }
}

TEST(FlatGroups, BucketsAtDifferentOffsetsDoNotMeet) {
  for (const RankOutcome& outcome : runRanks(2, [&](const Environment& environment) -> Status {
         FlatProgram flat(meshOf(1, 1, 2));
         CONNECT_OR_RETURN(rank, flat.program, environment);
         const int64_t shift = 64 * environment.rank;
         const FlatPart parts[] = {{{kShared, shift}, 100, 1024}, {{kShared, 4096 + shift}, 100, 1024}};
         wait(rank.context(), flatReduceScatterStart(rank.context(), kScatterDp, parts, 2, DType::kF32));
         return rank.context().status();
       })) {
    EXPECT_NE(outcome.code, StatusCode::kOk);
  }
}

TEST(Groups, AreOverAnyAxesOfAnyNumberOfThem) {
  const Axis hosts{0}, local{1}, experts{2}, tp{3};
  const Mesh mesh{2, {{"hosts", 2}, {"local", 3}, {"experts", 2}, {"tp", 2}}, {hosts, local}};
  const Coordinates at = coordinatesOf(mesh, 24 + 12 + 2 * 4 + 2 + 1);
  EXPECT_EQ(describe(mesh), "pp 2 × hosts 2 × local 3 × experts 2 × tp 2");
  EXPECT_EQ(describe(mesh, at), "pp 1, hosts 1, local 2, experts 1, tp 1");
  EXPECT_EQ(coordinateOf(mesh, at, ShortList<Axis>{local, hosts}), 2 * 2 + 1);
  EXPECT_EQ(groupMembers({"local", local, {}}, mesh, at), (std::vector<int>{39, 43, 47}));
  EXPECT_EQ(groupMembers({"hosts", hosts, {}}, mesh, at), (std::vector<int>{35, 47}));
  EXPECT_EQ(groupMembers({"hosts × experts", hosts | experts, {}}, mesh, at), (std::vector<int>{33, 35, 45, 47}));
  EXPECT_EQ(groupMembers({"tp, both stages", tp | AxisSet::allStages(), {}}, mesh, at),
            (std::vector<int>{22, 23, 46, 47}));
}

TEST(Groups, AreTheRanksThatDifferInTheGroupsAxesOnly) {
  const Mesh mesh = meshOf(2, 3, 2);
  const Coordinates at = placeOn(mesh, 1, 0, 1);
  EXPECT_EQ(groupMembers({"tp", kTp, {}}, mesh, at), (std::vector<int>{2, 3}));
  EXPECT_EQ(groupMembers({"dp", kDp, {}}, mesh, at), (std::vector<int>{1, 3}));
  EXPECT_EQ(groupMembers({"pp", kPp, {}}, mesh, at), (std::vector<int>{3, 7, 11}));
  EXPECT_EQ(groupMembers({"tied", {}, {0, 2}}, mesh, at), (std::vector<int>{3, 11}));
  EXPECT_EQ(groupMembers({"tied over dp", kDp, {2, 0}}, mesh, at), (std::vector<int>{1, 3, 9, 11}));
  EXPECT_EQ(groupMembers({"all", kTp | kDp | kPp, {}}, mesh, at).size(), 12u);
}

TEST(Groups, OfSeveralAxesWorkSideBySide) {
  const Mesh mesh = meshOf(2, 3, 1);
  expectAllOk(runRanks(6, [&](const Environment& environment) -> Status {
    const Coordinates at = coordinatesOf(mesh, environment.rank);
    GroupProgram group(mesh, at.stage);
    CONNECT_OR_RETURN(rank, group.program, environment);
    Context& ctx = rank.context();
    float* values = ctx.ptr<float>(kShared, 0);
    fill(values, environment.rank, 100);
    wait(ctx, allReduceStart(ctx, kSumTp, {kShared, 0}, 100, DType::kF32));
    const int first = at.stage * 2;
    RETURN_IF_ERROR(ctx.status());
    RETURN_IF_ERROR(expectSum(values, {first, first + 1}, 0, 100));
    if (at.stage != 1) {
      fill(values, environment.rank, 100);
      wait(ctx, allReduceStart(ctx, kSumTied, {kShared, 0}, 100, DType::kF32));
      RETURN_IF_ERROR(ctx.status());
      RETURN_IF_ERROR(expectSum(values, {at.place, 4 + at.place}, 0, 100));
    }
    return rank.exchanger().barrier();
  }));
}

TEST(Mismatch, OfTwoCollectivesNamesBoth) {
  GroupProgram group(meshOf(1, 1, 2));
  const std::vector<RankOutcome> outcomes = runRanks(2, [&](const Environment& environment) -> Status {
    CONNECT_OR_RETURN(rank, group.program, environment);
    Context& ctx = rank.context();
    wait(ctx, allReduceStart(ctx, environment.rank == 0 ? kSumAll : kOtherSumAll, {kShared, 0}, 8, DType::kF32));
    usleep(200000);  // the other one sees it by itself, too
    return ctx.status();
  });
  for (const RankOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, StatusCode::kInternal);
    EXPECT_NE(outcome.message.find("'sum over all' (id 1"), std::string::npos) << outcome.message;
    EXPECT_NE(outcome.message.find("'another sum over all' (id 7"), std::string::npos) << outcome.message;
  }
}

TEST(Mismatch, OfCountsNamesBoth) {
  GroupProgram group(meshOf(1, 1, 2));
  const std::vector<RankOutcome> outcomes = runRanks(2, [&](const Environment& environment) -> Status {
    CONNECT_OR_RETURN(rank, group.program, environment);
    Context& ctx = rank.context();
    wait(ctx, allReduceStart(ctx, kSumAll, {kShared, 0}, 8 + environment.rank, DType::kF32));
    usleep(200000);
    return ctx.status();
  });
  EXPECT_EQ(outcomes[0].code, StatusCode::kInternal);
  EXPECT_NE(outcomes[0].message.find("sum of 8 × f32"), std::string::npos) << outcomes[0].message;
  EXPECT_NE(outcomes[0].message.find("sum of 9 × f32"), std::string::npos) << outcomes[0].message;
}

TEST(Mismatch, OfACallAndItsTableIsRefusedBeforeAnythingIsTouched) {
  GroupProgram group(meshOf(1, 1, 1));
  expectAllOk(runRanks(1, [&](const Environment& environment) -> Status {
    const auto codeOf = [&](auto call) -> StatusCode {
      Result<std::unique_ptr<ConnectedRank>> rank = ConnectedRank::connect(group.program, environment);
      if (!rank.ok()) return StatusCode::kOk;
      wait((*rank)->context(), call((*rank)->context()));
      return (*rank)->context().status().code();
    };
    const StatusCode codes[] = {
        codeOf([](Context& ctx) { return allReduceStart(ctx, kSumAll, {kPrivate, 0}, 8, DType::kF32); }),
        codeOf([](Context& ctx) { return allReduceStart(ctx, kSumAll, {kShared, kArenaBytes - 8}, 8, DType::kF32); }),
        codeOf([](Context& ctx) { return allReduceStart(ctx, kSumAll, {kShared, 0}, INT64_MAX / 2, DType::kF32); }),
        codeOf([](Context& ctx) { return allReduceStart(ctx, kSumAll, {kShared, 0}, 8, DType::kU8); }),
        codeOf([](Context& ctx) { return allReduceStart(ctx, kGatherAll, {kShared, 0}, 8, DType::kF32); }),
        codeOf([](Context& ctx) { return allReduceStart(ctx, 99, {kShared, 0}, 8, DType::kF32); })};
    for (StatusCode code : codes) {
      if (code != StatusCode::kInternal) return internalError("a call was let through");
    }
    return {};
  }));
}

TEST(Loss, OfAKilledPeerIsNoticedAtOnce) {
  GroupProgram group(meshOf(1, 1, 3));
  const std::vector<RankOutcome> outcomes = runRanks(3, [&](const Environment& environment) -> Status {
    CONNECT_OR_RETURN(rank, group.program, environment);
    RETURN_IF_ERROR(rank.exchanger().barrier());
    if (environment.rank == 1) raise(SIGKILL);
    Context& ctx = rank.context();
    wait(ctx, allReduceStart(ctx, kSumAll, {kShared, 0}, 8, DType::kF32));
    return ctx.status();
  });
  EXPECT_EQ(outcomes[1].signal, SIGKILL);
  for (int rank : {0, 2}) {
    EXPECT_EQ(outcomes[static_cast<size_t>(rank)].code, StatusCode::kPeerLost);
    // One of the two may hear of the other's failure first.
    EXPECT_NE(outcomes[static_cast<size_t>(rank)].message.find("'sum over all'"), std::string::npos)
        << outcomes[static_cast<size_t>(rank)].message;
    EXPECT_LT(outcomes[static_cast<size_t>(rank)].seconds - outcomes[1].seconds, 30);
  }
  EXPECT_NE((outcomes[0].message + outcomes[2].message).find("rank 1 was killed"), std::string::npos);
}

TEST(Loss, OfAFailingPeerIsNoticedAtOnce) {
  GroupProgram group(meshOf(1, 1, 2));
  const std::vector<RankOutcome> outcomes = runRanks(2, [&](const Environment& environment) -> Status {
    CONNECT_OR_RETURN(rank, group.program, environment);
    if (environment.rank == 1) return dataError("bad data");
    Context& ctx = rank.context();
    wait(ctx, allReduceStart(ctx, kSumAll, {kShared, 0}, 8, DType::kF32));
    return ctx.status();
  });
  EXPECT_EQ(outcomes[1].code, StatusCode::kData);
  EXPECT_EQ(outcomes[0].code, StatusCode::kPeerLost);
  // Where rank 1 ends while rank 0 still connects, that is what rank 0 says.
  const std::string& said = outcomes[0].message;
  EXPECT_TRUE(said.find("rank 1 failed") != std::string::npos || said.find("rank 1 has ended") != std::string::npos)
      << said;
}

// Two stages that send to each other, `count` tensors each way, through two slots.
struct StageProgram {
  StageProgram(int stage, int count, uint32_t firstTag) {
    for (int i = 0; i < count; ++i) {
      const int64_t place = 256 * i;
      const Direction there = stage == 0 ? Direction::kSend : Direction::kReceive;
      const Direction back = stage == 0 ? Direction::kReceive : Direction::kSend;
      transfers.push_back(
          {firstTag + static_cast<uint32_t>(i), "activation", there, 1 - stage, {kShared, place}, 100000, 256});
      transfers.push_back(
          {500 + static_cast<uint32_t>(i), "gradient", back, 1 - stage, {kShared, 200000 + place}, 100000, 256});
    }
    for (int i = 0; i < 2 * count; ++i) uses.push_back({i, i % 3, i % 2});
    program.name = stage == 0 ? "stage0" : "stage1";
    program.mesh = meshOf(1, 2, 1);
    program.stage = stage;
    program.arenas = tableOf(arenas);
    program.transfers = tableOf(transfers);
  }
  std::vector<ArenaDesc> arenas{{"communication", kArenaBytes, Sharing::kShared}};
  std::vector<TransferDesc> transfers;
  std::vector<TransferUse> uses;
  Program program{};
};

int64_t placeOf(const StageProgram& stage, const TransferUse& use) {
  const TransferDesc& transfer = stage.transfers[static_cast<size_t>(use.transfer)];
  return transfer.buffer.offset + transfer.slotStride * use.slot;
}

TEST(Exchange, OfOpposingTransfersDoesNotDeadlock) {
  constexpr int kTensors = 40;  // more each way than the ring holds
  expectAllOk(runRanks(2, [&](const Environment& environment) -> Status {
    StageProgram stage(environment.rank, kTensors, 100);
    CONNECT_OR_RETURN(rank, stage.program, environment);
    for (int round = 0; round < 3; ++round) {
      for (const TransferUse& use : stage.uses) {
        const bool sends = stage.transfers[static_cast<size_t>(use.transfer)].direction == Direction::kSend;
        std::memset(rank.context().ptr<char>(kShared, placeOf(stage, use)), sends ? use.transfer + round : 0, 256);
      }
      RETURN_IF_ERROR(rank.exchanger().exchange(stage.uses.data(), static_cast<int>(stage.uses.size())));
      for (const TransferUse& use : stage.uses) {
        const char* found = rank.context().ptr<char>(kShared, placeOf(stage, use));
        for (int i = 0; i < 256; ++i) {
          if (found[i] != static_cast<char>(use.transfer + round)) return internalError("wrong byte arrived");
        }
      }
    }
    return rank.exchanger().barrier();
  }));
}

TEST(Exchange, OfDifferentTensorsNamesBoth) {
  const std::vector<RankOutcome> outcomes = runRanks(2, [&](const Environment& environment) -> Status {
    StageProgram stage(environment.rank, 1, environment.rank == 0 ? 100 : 101);
    CONNECT_OR_RETURN(rank, stage.program, environment);
    return rank.exchanger().exchange(stage.uses.data(), 1);
  });
  EXPECT_EQ(outcomes[1].code, StatusCode::kInternal);
  EXPECT_NE(outcomes[1].message.find("(id 101"), std::string::npos) << outcomes[1].message;
  EXPECT_NE(outcomes[1].message.find("(id 100"), std::string::npos) << outcomes[1].message;
  EXPECT_EQ(outcomes[0].code, StatusCode::kPeerLost);
}

TEST(Exchange, WithAPeerThatKnowsNothingOfItIsRefusedAtTheStart) {
  const std::vector<RankOutcome> outcomes = runRanks(2, [&](const Environment& environment) -> Status {
    StageProgram stage(environment.rank, environment.rank == 0 ? 1 : 0, 100);
    return ConnectedRank::connect(stage.program, environment).status();
  });
  EXPECT_EQ(outcomes[0].code, StatusCode::kInternal);
  EXPECT_NE(outcomes[0].message.find("rank 1 (program 'stage1')"), std::string::npos) << outcomes[0].message;
}

TEST(Barrier, HoldsEveryRankThousandsOfTimes) {
  GroupProgram group(meshOf(1, 1, 4));
  expectAllOk(runRanks(4, [&](const Environment& environment) -> Status {
    CONNECT_OR_RETURN(rank, group.program, environment);
    int64_t* counter = rank.context().ptr<int64_t>(kShared, 0);
    for (int64_t round = 0; round < 2000; ++round) {
      *counter = round;
      wait(rank.context(), allReduceStart(rank.context(), kSumAll, {kShared, 0}, 1, DType::kI64));
      RETURN_IF_ERROR(rank.context().status());
      if (*counter != 4 * round) return internalError("a rank ran ahead in round " + std::to_string(round));
      RETURN_IF_ERROR(rank.exchanger().barrier());
    }
    return {};
  }));
}

// What a time-out of NCCL names: ranks 1 and 3 stay behind by an exchange, then arrive.
TEST(Announcement, TellsWhoHasNotArrived) {
  GroupProgram group(meshOf(1, 1, 4));
  expectAllOk(runRanks(4, [&](const Environment& environment) -> Status {
    CONNECT_OR_RETURN(rank, group.program, environment);
    HostExchanger& exchanger = rank.exchanger();
    const int channel = exchanger.plans().ofGroup[0];
    const auto expectMissing = [&](uint64_t number, const std::vector<int>& expected) {
      return exchanger.missingAt(channel, number) == expected ? Status()
                                                              : internalError("other ranks are named as missing");
    };
    exchanger.announce(channel, environment.rank % 2 == 0 ? 2 : 1);
    RETURN_IF_ERROR(exchanger.barrier());
    RETURN_IF_ERROR(expectMissing(0, {}));
    RETURN_IF_ERROR(expectMissing(1, {1, 3}));
    RETURN_IF_ERROR(expectMissing(2, {0, 1, 2, 3}));
    RETURN_IF_ERROR(exchanger.barrier());
    exchanger.announce(channel, 2);
    RETURN_IF_ERROR(exchanger.barrier());
    return expectMissing(1, {});
  }));
}

// Shared memory, of which every pull is given up, and comes even so while the rank leaves and until it is gone.
class Late : public PassingTransport {
 public:
  explicit Late(std::unique_ptr<Transport> inner) : PassingTransport(std::move(inner)) {}
  ~Late() override { come(); }
  Status pull(int, int, int64_t, int64_t bytes, std::byte* to, FunctionRef<Status()>) override {
    to_ = to;
    bytes_ = static_cast<size_t>(bytes);
    return unavailableError("the pull was given up");
  }
  void leave(RankState state) override {
    come();
    PassingTransport::leave(state);
  }

 private:
  void come() {
    if (to_) std::memset(to_, 1, bytes_);
  }

  std::byte* to_ = nullptr;
  size_t bytes_ = 0;
};

// More than malloc keeps: where it is freed too early there is no memory any more.
TEST(ALookAtTheNetwork, ThatIsGivenUpHasRoomForWhatComesLate) {
  constexpr int64_t kBytes = int64_t{40} << 20;
  GroupProgram group(meshOf(1, 1, 1));
  group.arenas[0].bytes = kBytes;
  expectAllOk(runRanks(1, [&](const Environment& environment) -> Status {
    HostSide::Options options;
    options.wrap = [](std::unique_ptr<Transport> inner, int) -> std::unique_ptr<Transport> {
      return std::make_unique<Late>(std::move(inner));
    };
    Result<std::unique_ptr<HostSide>> side = HostSide::connect(group.program, environment, options);
    if (!side.ok()) return side.status();
    for (const StatusCode code : {StatusCode::kUnavailable, StatusCode::kInternal}) {
      const Result<double> rate = (*side)->exchanger->rateFrom(0, kBytes);
      if (rate.ok() || rate.status().code() != code) return internalError("the pull was not given up as expected");
    }
    return {};
  }));
}

}  // namespace
}  // namespace hycrt
