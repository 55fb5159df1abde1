// One suite for every way to exchange: among hosts that map each other's memory or that do not, between devices by way
// of the host, between devices by NCCL. Devices are emulated. Values are small whole numbers, whose sums are exact in
// every type and order.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "base/progress.h"
#include "comm/tcp/fabric.h"
#include "comm/tcp/meeting.h"
#include "exchange_ranks.h"
#include "forked_ranks.h"
#include "hycrt/collectives.h"
#include "kernels/narrow_float.h"
#include "test_mesh.h"

namespace hycrt {
namespace {

constexpr int kShared = 0, kPrivate = 1;
constexpr int64_t kArenaBytes = 4 << 20;
constexpr DType kAllTypes[] = {DType::kF32, DType::kF64,  DType::kI32, DType::kI64,
                               DType::kF16, DType::kBF16, DType::kU8};

enum Row { kSum, kScatter, kGather, kAllToAll, kShift, kFlatScatter, kFlatGather, kOtherShift, kOtherAllToAll };

struct SuiteProgram {
  explicit SuiteProgram(Mesh mesh) {
    program.name = "conformance";
    program.mesh = mesh;
    program.arenas = tableOf(arenas);
    program.groups = tableOf(groups);
    program.collectives = tableOf(collectives);
  }
  std::vector<ArenaDesc> arenas{{"communication", kArenaBytes, Sharing::kShared},
                                {"activations", kArenaBytes, Sharing::kPrivate}};
  std::vector<GroupDesc> groups{{"all", kTp | kDp, {}}};
  std::vector<CollectiveDesc> collectives{
      {1, "sum", CollectiveKind::kAllReduce, 0},
      {2, "scatter", CollectiveKind::kReduceScatter, 0},
      {3, "gather", CollectiveKind::kAllGather, 0},
      {4, "experts", CollectiveKind::kAllToAll, 0},
      {5, "ring", CollectiveKind::kShift, 0},
      {6, "flat scatter", CollectiveKind::kReduceScatter, 0, {kDp}},
      {7, "flat gather", CollectiveKind::kAllGather, 0, {kDp}},
      {8, "another ring", CollectiveKind::kShift, 0},
      {9, "other experts", CollectiveKind::kAllToAll, 0},
  };
  Program program{};
};

// Element i of rank's tensor number `salt`, at most 7.
int numberOf(int rank, int64_t i, int salt) { return static_cast<int>((rank * 5 + i * 3 + i / 7 + salt) % 8); }

template <typename T>
void encode(double value, std::byte* to) {
  const T typed = static_cast<T>(static_cast<float>(value));
  std::memcpy(to, &typed, sizeof typed);
}

void encodeAs(DType dtype, double value, std::byte* to) {
  switch (dtype) {
    case DType::kF32:
      return encode<float>(value, to);
    case DType::kF64:
      return encode<double>(value, to);
    case DType::kI32:
      return encode<int32_t>(value, to);
    case DType::kI64:
      return encode<int64_t>(value, to);
    case DType::kF16:
      return encode<hyc::kernels::F16>(value, to);
    case DType::kBF16:
      return encode<hyc::kernels::Bf16>(value, to);
    case DType::kU8:
      return encode<uint8_t>(value, to);
  }
}

// `count` elements, each as valueAt(i) says.
template <typename ValueAt>
std::vector<std::byte> tensorOf(DType dtype, int64_t count, ValueAt valueAt) {
  std::vector<std::byte> bytes(static_cast<size_t>(count * sizeOf(dtype)));
  for (int64_t i = 0; i < count; ++i) encodeAs(dtype, valueAt(i), bytes.data() + i * sizeOf(dtype));
  return bytes;
}

struct Case {
  Implementation implementation;
  int ranks;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.implementation.name << ", " << one.ranks << " ranks"; }

// What one rank of a test does its work with.
class Worker {
 public:
  Worker(ExchangeRank& rank, const Environment& environment)
      : rank_(rank), self(environment.rank), members(environment.worldSize) {}
  Context& ctx() { return rank_.context(); }

  Status fill(BufferRef to, DType dtype, int64_t count, int salt) {
    const std::vector<std::byte> values = tensorOf(dtype, count, [&](int64_t i) { return numberOf(self, i, salt); });
    return rank_.put(to, values.data(), static_cast<int64_t>(values.size()));
  }
  // What must not be found later.
  Status spoil(BufferRef to, int64_t bytes) {
    const std::vector<std::byte> values(static_cast<size_t>(bytes), std::byte{0xA5});
    return rank_.put(to, values.data(), bytes);
  }
  template <typename ValueAt>
  Status expect(const char* what, BufferRef from, DType dtype, int64_t count, ValueAt valueAt) {
    const std::vector<std::byte> expected = tensorOf(dtype, count, valueAt);
    std::vector<std::byte> found(expected.size());
    HYCRT_RETURN_IF_ERROR(rank_.get(from, found.data(), static_cast<int64_t>(found.size())));
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i] == expected[i]) continue;
      return internalError(std::string(what) + " of " + std::to_string(count) + " × " + nameOf(dtype) + ": element " +
                           std::to_string(static_cast<int64_t>(i) / sizeOf(dtype)) + " is wrong");
    }
    return {};
  }
  double sumAt(int64_t i, int salt) const {
    double sum = 0;
    for (int rank = 0; rank < members; ++rank) sum += numberOf(rank, i, salt);
    return sum;
  }

 private:
  ExchangeRank& rank_;

 public:
  const int self, members;
};

class Exchange : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (GetParam().implementation.network == Network::kUcx && !canUseUcx()) GTEST_SKIP() << "UCX is not here";
  }
  std::vector<RankOutcome> run(const std::function<Status(Worker&, ExchangeRank&)>& work) {
    return run(work, meshOf(1, 1, GetParam().ranks));
  }
  std::vector<RankOutcome> run(const std::function<Status(Worker&, ExchangeRank&)>& work, Mesh mesh,
                               int64_t patienceMs = kDefaultPatienceMs) {
    SuiteProgram suite(mesh);
    return runRanks(GetParam().ranks, [&](const Environment& environment) -> Status {
      Result<std::unique_ptr<ExchangeRank>> rank =
          ExchangeRank::connect(GetParam().implementation, &suite.program, environment, patienceMs);
      if (!rank.ok()) return rank.status();
      Worker worker(**rank, environment);
      return work(worker, **rank);
    });
  }
  void expectAllOk(const std::function<Status(Worker&)>& work) { expectAllOk(work, meshOf(1, 1, GetParam().ranks)); }
  void expectAllOk(const std::function<Status(Worker&)>& work, Mesh mesh) {
    const std::vector<RankOutcome> outcomes = run(
        [&](Worker& worker, ExchangeRank& rank) -> Status {
          HYCRT_RETURN_IF_ERROR(work(worker));
          HYCRT_RETURN_IF_ERROR(rank.meet());
          return rank.exchanger().leave(true);
        },
        mesh);
    for (size_t rank = 0; rank < outcomes.size(); ++rank) {
      EXPECT_EQ(outcomes[rank].signal, 0) << "rank " << rank;
      EXPECT_EQ(outcomes[rank].code, StatusCode::kOk) << "rank " << rank << ": " << outcomes[rank].message;
    }
  }
};

TEST_P(Exchange, AllToAllGivesEachMemberItsSliceOfEveryOne) {
  expectAllOk([](Worker& worker) -> Status {
    for (DType dtype : kAllTypes) {
      for (int64_t count : {1, 3, 1003}) {
        const BufferRef source{kShared, 64}, destination{kPrivate, 128};
        const int64_t total = count * worker.members;
        HYCRT_RETURN_IF_ERROR(worker.fill(source, dtype, total, 1));
        HYCRT_RETURN_IF_ERROR(worker.spoil(destination, total * sizeOf(dtype)));
        wait(worker.ctx(), allToAllStart(worker.ctx(), kAllToAll, source, destination, count, dtype));
        HYCRT_RETURN_IF_ERROR(worker.expect("all_to_all", destination, dtype, total, [&](int64_t i) {
          return numberOf(static_cast<int>(i / count), worker.self * count + i % count, 1);
        }));
        HYCRT_RETURN_IF_ERROR(
            worker.expect("source", source, dtype, total, [&](int64_t i) { return numberOf(worker.self, i, 1); }));
      }
    }
    return {};
  });
}

TEST_P(Exchange, ShiftPassesTensorsAroundTheRing) {
  expectAllOk([](Worker& worker) -> Status {
    for (int64_t distance = 1; distance < worker.members; ++distance) {
      for (DType dtype : kAllTypes) {
        const int64_t count = 1000 + distance * 7;
        const BufferRef source{kShared, 192}, destination{kShared, 512 * 1024};
        HYCRT_RETURN_IF_ERROR(worker.fill(source, dtype, count, 2));
        wait(worker.ctx(), shiftStart(worker.ctx(), kShift, source, destination, count, distance, dtype));
        const int from = static_cast<int>((worker.self - distance + worker.members) % worker.members);
        HYCRT_RETURN_IF_ERROR(
            worker.expect("shift", destination, dtype, count, [&](int64_t i) { return numberOf(from, i, 2); }));
        HYCRT_RETURN_IF_ERROR(
            worker.expect("source", source, dtype, count, [&](int64_t i) { return numberOf(worker.self, i, 2); }));
      }
    }
    return {};
  });
}

TEST_P(Exchange, ReductionsAndGathersAreExactForWholeNumbers) {
  expectAllOk([](Worker& worker) -> Status {
    for (DType dtype : kAllTypes) {
      const int64_t count = 333, total = count * worker.members;
      const BufferRef source{kShared, 0}, part{kShared, 512 * 1024}, whole{kPrivate, 256};
      if (dtype != DType::kU8) {
        HYCRT_RETURN_IF_ERROR(worker.fill(source, dtype, total, 3));
        wait(worker.ctx(), reduceScatterStart(worker.ctx(), kScatter, source, part, count, dtype));
        HYCRT_RETURN_IF_ERROR(worker.expect("reduce_scatter", part, dtype, count,
                                            [&](int64_t i) { return worker.sumAt(worker.self * count + i, 3); }));
        HYCRT_RETURN_IF_ERROR(worker.fill(source, dtype, total, 4));
        wait(worker.ctx(), allReduceStart(worker.ctx(), kSum, source, total, dtype));
        HYCRT_RETURN_IF_ERROR(
            worker.expect("all_reduce", source, dtype, total, [&](int64_t i) { return worker.sumAt(i, 4); }));
        HYCRT_RETURN_IF_ERROR(worker.fill(source, dtype, 50, 5));
        wait(worker.ctx(), allReduceStart(worker.ctx(), kSum, source, 50, dtype, ReduceOp::kMax));
        HYCRT_RETURN_IF_ERROR(worker.expect("maximum", source, dtype, 50, [&](int64_t i) {
          int most = 0;
          for (int rank = 0; rank < worker.members; ++rank) most = std::max(most, numberOf(rank, i, 5));
          return most;
        }));
      }
      HYCRT_RETURN_IF_ERROR(worker.fill(part, dtype, count, 6));
      wait(worker.ctx(), allGatherStart(worker.ctx(), kGather, part, whole, count, dtype));
      HYCRT_RETURN_IF_ERROR(worker.expect("all_gather", whole, dtype, total, [&](int64_t i) {
        return numberOf(static_cast<int>(i / count), i % count, 6);
      }));
    }
    return {};
  });
}

TEST_P(Exchange, FlatShardsAreSummedAndJoined) {
  expectAllOk([](Worker& worker) -> Status {
    std::vector<FlatPart> parts;
    for (int64_t elements : {5000, 100, 0, 9 * 1024 + 7}) {
      parts.push_back({{kShared, static_cast<int64_t>(parts.size()) * 64 * 1024},
                       elements,
                       flatShardSize(elements, worker.members)});
    }
    const int count = static_cast<int>(parts.size());
    for (const FlatPart& part : parts) {
      HYCRT_RETURN_IF_ERROR(worker.fill(part.whole, DType::kF32, part.elements, 7));
    }
    wait(worker.ctx(), flatReduceScatterStart(worker.ctx(), kFlatScatter, parts.data(), count, DType::kF32));
    wait(worker.ctx(), flatAllGatherStart(worker.ctx(), kFlatGather, parts.data(), count, DType::kF32));
    for (const FlatPart& part : parts) {
      HYCRT_RETURN_IF_ERROR(
          worker.expect("flat", part.whole, DType::kF32, part.elements, [&](int64_t i) { return worker.sumAt(i, 7); }));
    }
    return {};
  });
}

// All members have the one shard of a tensor: each computes a slice of its sum.
TEST_P(Exchange, RanksWithOneShardShareItsSum) {
  expectAllOk(
      [](Worker& worker) -> Status {
        const FlatPart part{{kShared, 4096}, 5000, flatShardSize(5000, 1)};
        HYCRT_RETURN_IF_ERROR(worker.fill(part.whole, DType::kF32, part.elements, 8));
        wait(worker.ctx(), flatReduceScatterStart(worker.ctx(), kFlatScatter, &part, 1, DType::kF32));
        return worker.expect("flat", part.whole, DType::kF32, part.elements,
                             [&](int64_t i) { return worker.sumAt(i, 8); });
      },
      meshOf(GetParam().ranks, 1, 1));
}

// Sums that take several chunks where bytes are pulled.
TEST_P(Exchange, LongVectorsAreSummedInOneGo) {
  expectAllOk([](Worker& worker) -> Status {
    constexpr int64_t kCount = kArenaBytes / 8 / 5;  // f64, for five ranks
    const int64_t total = kCount * worker.members;
    HYCRT_RETURN_IF_ERROR(worker.fill({kShared, 0}, DType::kF64, total, 9));
    wait(worker.ctx(), reduceScatterStart(worker.ctx(), kScatter, {kShared, 0}, {kPrivate, 0}, kCount, DType::kF64));
    HYCRT_RETURN_IF_ERROR(worker.expect("reduce_scatter", {kPrivate, 0}, DType::kF64, kCount,
                                        [&](int64_t i) { return worker.sumAt(worker.self * kCount + i, 9); }));
    wait(worker.ctx(), allReduceStart(worker.ctx(), kSum, {kShared, 0}, total, DType::kF64));
    return worker.expect("all_reduce", {kShared, 0}, DType::kF64, total, [&](int64_t i) { return worker.sumAt(i, 9); });
  });
}

// Each rank is a stage, which sends to the next one and gets from the one before, twice at once.
TEST_P(Exchange, TransfersPassBetweenStagesInBothDirections) {
  const int ranks = GetParam().ranks;
  constexpr int64_t kBytes = 100003, kStride = 200 * 1024;
  const std::vector<RankOutcome> outcomes = runRanks(ranks, [&](const Environment& environment) -> Status {
    SuiteProgram suite(meshOf(1, ranks, 1));
    suite.program.stage = environment.rank;
    suite.groups.back() = {"all", kPp, {}};
    const int next = (environment.rank + 1) % ranks, before = (environment.rank - 1 + ranks) % ranks;
    const std::vector<TransferDesc> transfers{
        {7, "activation", Direction::kSend, next, {kShared, 0}, kStride, kBytes},
        {7, "activation", Direction::kReceive, before, {kPrivate, 0}, kStride, kBytes}};
    const std::vector<TransferUse> uses{{0, 0, 0}, {1, 0, 0}, {0, 1, 1}, {1, 1, 1}};
    suite.program.transfers = tableOf(transfers);
    Result<std::unique_ptr<ExchangeRank>> rank =
        ExchangeRank::connect(GetParam().implementation, &suite.program, environment);
    if (!rank.ok()) return rank.status();
    Worker worker(**rank, environment);
    for (int round = 0; round < 3; ++round) {
      for (int slot = 0; slot < 2; ++slot) {
        HYCRT_RETURN_IF_ERROR(worker.fill({kShared, slot * kStride}, DType::kU8, kBytes, round + slot));
      }
      HYCRT_RETURN_IF_ERROR((*rank)->exchanger().exchange(uses.data(), static_cast<int>(uses.size())));
      for (int slot = 0; slot < 2; ++slot) {
        HYCRT_RETURN_IF_ERROR(worker.expect("transfer", {kPrivate, slot * kStride}, DType::kU8, kBytes,
                                            [&](int64_t i) { return numberOf(before, i, round + slot); }));
      }
      HYCRT_RETURN_IF_ERROR((*rank)->meet());
    }
    return (*rank)->exchanger().leave(true);
  });
  for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome.code, StatusCode::kOk) << outcome.message;
}

// Nobody goes on before all have come.
TEST_P(Exchange, ABarrierHoldsEveryRank) {
  const int64_t begin = monotonicMs();
  for (const RankOutcome& outcome : run([&](Worker& worker, ExchangeRank& rank) -> Status {
         if (worker.self == worker.members - 1) usleep(300000);
         HYCRT_RETURN_IF_ERROR(rank.exchanger().barrier());
         if (monotonicMs() - begin < 300) return internalError("a rank ran ahead");
         return rank.exchanger().leave(true);
       })) {
    EXPECT_EQ(outcome.code, StatusCode::kOk) << outcome.message;
  }
}

// And each hears what every other has given, to that barrier alone.
TEST_P(Exchange, ABarrierTellsWhatEachRankHasGiven) {
  expectAllOk([](Worker& worker) -> Status {
    for (uint64_t round = 0; round < 60; ++round) {
      const auto given = [&](int rank) { return (round << 40) * static_cast<uint64_t>(rank) + (uint64_t{1} << 63); };
      const Result<const uint64_t*> all = worker.ctx().exchanger().share(given(worker.self));
      if (!all.ok()) return all.status();
      for (int rank = 0; rank < worker.members; ++rank) {
        if ((*all)[rank] != given(rank)) return internalError("round " + std::to_string(round) + " is another's");
      }
    }
    return {};
  });
}

// More of several kinds at once than may be pending, waited for in the order of their start.
TEST_P(Exchange, KindsMayBePendingTogether) {
  expectAllOk([](Worker& worker) -> Status {
    constexpr int kRounds = 8;
    constexpr int64_t kCount = 501, kPlace = 8 * 1024;
    const auto placeOf = [](int arena, int round, int which) {
      return BufferRef{arena, (round * 4 + which) * 4 * kPlace};
    };
    std::vector<Ticket> tickets;
    for (int round = 0; round < kRounds; ++round) {
      const BufferRef sum = placeOf(kShared, round, 0), all = placeOf(kShared, round, 1);
      const BufferRef ring = placeOf(kShared, round, 2);
      HYCRT_RETURN_IF_ERROR(worker.fill(sum, DType::kI32, kCount, round));
      HYCRT_RETURN_IF_ERROR(worker.fill(all, DType::kF32, kCount * worker.members, round + 1));
      HYCRT_RETURN_IF_ERROR(worker.fill(ring, DType::kF64, kCount, round + 2));
      Context& ctx = worker.ctx();
      tickets.push_back(shiftStart(ctx, kShift, ring, placeOf(kPrivate, round, 2), kCount, 1, DType::kF64));
      tickets.push_back(allReduceStart(ctx, kSum, sum, kCount, DType::kI32));
      tickets.push_back(allToAllStart(ctx, kAllToAll, all, placeOf(kPrivate, round, 1), kCount, DType::kF32));
    }
    for (Ticket ticket : tickets) wait(worker.ctx(), ticket);
    for (int round = 0; round < kRounds; ++round) {
      HYCRT_RETURN_IF_ERROR(worker.expect("all_reduce", placeOf(kShared, round, 0), DType::kI32, kCount,
                                          [&](int64_t i) { return worker.sumAt(i, round); }));
      HYCRT_RETURN_IF_ERROR(worker.expect(
          "all_to_all", placeOf(kPrivate, round, 1), DType::kF32, kCount * worker.members, [&](int64_t i) {
            return numberOf(static_cast<int>(i / kCount), worker.self * kCount + i % kCount, round + 1);
          }));
      const int from = (worker.self - 1 + worker.members) % worker.members;
      HYCRT_RETURN_IF_ERROR(worker.expect("shift", placeOf(kPrivate, round, 2), DType::kF64, kCount,
                                          [&](int64_t i) { return numberOf(from, i, round + 2); }));
    }
    return {};
  });
}

TEST_P(Exchange, CallsThatCannotBeRightAreRefusedBeforeAnythingMoves) {
  const auto expectRefused = [&](const char* why, const std::function<Ticket(Context&, int members)>& call) {
    for (const RankOutcome& outcome : run([&](Worker& worker, ExchangeRank& rank) -> Status {
           HYCRT_RETURN_IF_ERROR(rank.meet());  // or one would find the other gone already
           wait(worker.ctx(), call(worker.ctx(), worker.members));
           return worker.ctx().status();
         })) {
      EXPECT_EQ(outcome.code, StatusCode::kInternal) << outcome.message;
      EXPECT_NE(outcome.message.find(why), std::string::npos) << outcome.message;
    }
  };
  expectRefused("its destination overlaps its source", [](Context& ctx, int) {
    return allToAllStart(ctx, kAllToAll, {kShared, 0}, {kShared, 8}, 4, DType::kF32);
  });
  expectRefused("its destination overlaps its source", [](Context& ctx, int) {
    return shiftStart(ctx, kShift, {kShared, 0}, {kShared, 0}, 4, 1, DType::kF32);
  });
  expectRefused("its source is not inside a shared arena", [](Context& ctx, int) {
    return shiftStart(ctx, kShift, {kPrivate, 0}, {kShared, 0}, 4, 1, DType::kF32);
  });
  expectRefused("its destination leaves its arena", [](Context& ctx, int members) {
    return allToAllStart(ctx, kAllToAll, {kShared, 0}, {kPrivate, kArenaBytes - 4 * members + 4}, 1, DType::kF32);
  });
  expectRefused("shifts by 0", [](Context& ctx, int) {
    return shiftStart(ctx, kShift, {kShared, 0}, {kPrivate, 0}, 4, 0, DType::kF32);
  });
  expectRefused("less than its", [](Context& ctx, int members) {
    return shiftStart(ctx, kShift, {kShared, 0}, {kPrivate, 0}, 4, members, DType::kF32);
  });
  expectRefused("called as another kind", [](Context& ctx, int) {
    return shiftStart(ctx, kAllToAll, {kShared, 0}, {kPrivate, 0}, 4, 1, DType::kF32);
  });
}

// Of the implementations whose ranks see each other's calls.
class ComparedExchange : public Exchange {};

TEST_P(ComparedExchange, RanksThatDisagreeAreToldOfBothSides) {
  const auto expectBoth = [&](const std::string& ofFirst, const std::string& ofOthers,
                              const std::function<Ticket(Context&, bool)>& call) {
    const std::vector<RankOutcome> outcomes = run([&](Worker& worker, ExchangeRank&) -> Status {
      wait(worker.ctx(), call(worker.ctx(), worker.self == 0));
      usleep(200000);  // the others see it by themselves, too
      return worker.ctx().status();
    });
    EXPECT_EQ(outcomes[0].code, StatusCode::kInternal);
    EXPECT_NE(outcomes[0].message.find("rank 0 does " + ofFirst), std::string::npos) << outcomes[0].message;
    EXPECT_NE(outcomes[0].message.find("rank 1 does " + ofOthers), std::string::npos) << outcomes[0].message;
  };
  expectBoth("all_to_all 'experts' (id 4, 8 × f32)", "all_to_all 'experts' (id 4, 9 × f32)",
             [](Context& ctx, bool first) {
               return allToAllStart(ctx, kAllToAll, {kShared, 0}, {kPrivate, 0}, first ? 8 : 9, DType::kF32);
             });
  expectBoth("all_to_all 'experts' (id 4, 8 × f32)", "shift 'ring' (id 5, by 1 of 8 × f32)",
             [](Context& ctx, bool first) {
               return first ? allToAllStart(ctx, kAllToAll, {kShared, 0}, {kPrivate, 0}, 8, DType::kF32)
                            : shiftStart(ctx, kShift, {kShared, 0}, {kPrivate, 0}, 8, 1, DType::kF32);
             });
  expectBoth("shift 'ring' (id 5, by 1 of 8 × f32)", "shift 'another ring' (id 8, by 1 of 8 × f32)",
             [](Context& ctx, bool first) {
               return shiftStart(ctx, first ? kShift : kOtherShift, {kShared, 0}, {kPrivate, 0}, 8, 1, DType::kF32);
             });
  if (GetParam().ranks < 3) return;
  expectBoth("shift 'ring' (id 5, by 1 of 8 × f32)", "shift 'ring' (id 5, by 2 of 8 × f32)",
             [](Context& ctx, bool first) {
               return shiftStart(ctx, kShift, {kShared, 0}, {kPrivate, 0}, 8, first ? 1 : 2, DType::kF32);
             });
}

TEST_P(Exchange, OfAPeerThatIsKilledEndsWithItsName) {
  const std::vector<RankOutcome> outcomes = run([&](Worker& worker, ExchangeRank& rank) -> Status {
    Context& ctx = worker.ctx();
    wait(ctx, allToAllStart(ctx, kAllToAll, {kShared, 0}, {kPrivate, 0}, 8, DType::kF32));
    int64_t ignored = 0;
    HYCRT_RETURN_IF_ERROR(rank.get({kPrivate, 0}, &ignored, sizeof ignored));
    HYCRT_RETURN_IF_ERROR(rank.meet());  // or another's device may still be in the first exchange
    if (worker.self == 1) raise(SIGKILL);
    wait(ctx, allToAllStart(ctx, kOtherAllToAll, {kShared, 0}, {kPrivate, 0}, 8, DType::kF32));
    return rank.get({kPrivate, 0}, &ignored, sizeof ignored);
  });
  EXPECT_EQ(outcomes[1].signal, SIGKILL);
  std::string said;
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (rank == 1) continue;
    EXPECT_EQ(outcomes[rank].signal, 0) << "rank " << rank;
    EXPECT_EQ(outcomes[rank].code, StatusCode::kPeerLost) << "rank " << rank << ": " << outcomes[rank].message;
    EXPECT_NE(outcomes[rank].message.find("other experts"), std::string::npos) << outcomes[rank].message;
    said += outcomes[rank].message;
  }
  const int together = GetParam().implementation.ranksTogether;
  const bool isDistant = GetParam().implementation.network != Network::kNone && GetParam().ranks > together;
  const std::string host = isDistant ? " on host '" + machineName() + "'" : "";
  EXPECT_NE(said.find("rank 1" + host + " was killed"), std::string::npos) << said;
}

// How long a rank is waited for is one thing to all implementations.
class AwaitedExchange : public Exchange {
 protected:
  // Rank 1 does `meanwhile` in place of coming to the exchange; what the others came to, and it with them.
  std::vector<RankOutcome> await(const std::function<void()>& meanwhile) {
    return run(
        [&](Worker& worker, ExchangeRank& rank) -> Status {
          Context& ctx = worker.ctx();
          wait(ctx, allReduceStart(ctx, kSum, {kShared, 0}, 8, DType::kF32));
          HYCRT_RETURN_IF_ERROR(rank.meet());
          if (worker.self == 1) meanwhile();
          wait(ctx, allToAllStart(ctx, kOtherAllToAll, {kShared, 0}, {kPrivate, 0}, 8, DType::kF32));
          HYCRT_RETURN_IF_ERROR(rank.meet());
          return rank.exchanger().leave(true);
        },
        meshOf(1, 1, GetParam().ranks), kPatienceMs);
  }
  static bool isDistant() { return GetParam().implementation.network != Network::kNone; }
  static std::string host() { return isDistant() ? ", on host '" + machineName() + "'" : ""; }
  static void expectNamed(const std::vector<RankOutcome>& outcomes, const std::string& condition) {
    EXPECT_EQ(outcomes[0].code, StatusCode::kUnavailable) << outcomes[0].message;
    const std::string line = outcomes[0].message;
    for (const std::string& part :
         {std::string("waited 1 s (--exchange-timeout) in all_to_all 'other experts'"),
          " for rank 1 (pp 0, dp 1, tp 0" + host() + "), which " + condition, std::string("; arrived: ranks 0, 2")}) {
      EXPECT_NE(line.find(part), std::string::npos) << line;
    }
    // The others end by what the first has said, unless their own time is over before they hear it.
    const bool hasHeard = outcomes[2].message.find("rank 0: waited 1 s") != std::string::npos;
    EXPECT_NE(outcomes[2].message.find("waited 1 s"), std::string::npos) << outcomes[2].message;
    EXPECT_EQ(outcomes[2].code, hasHeard ? StatusCode::kPeerLost : StatusCode::kUnavailable);
  }
  static constexpr int64_t kPatienceMs = 1000;
};

// From the outside, since a process that is stopped does nothing. Comes back when it is over.
void stopSelfFor(useconds_t microseconds) {
  const pid_t self = getpid();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  if (fork() == 0) {
    kill(self, SIGSTOP);
    usleep(microseconds);
    kill(self, SIGCONT);
    _exit(0);
  }
  close(ends[1]);
  char byte;
  while (read(ends[0], &byte, 1) < 0) continue;
  close(ends[0]);
}

TEST_P(AwaitedExchange, OfARankThatIsStoppedEndsWithItsName) {
  const std::vector<RankOutcome> outcomes = await([] { stopSelfFor(2500000); });
  expectNamed(outcomes, isDistant() ? "has given no sign of life for " : "is stopped by a signal (process ");
  EXPECT_EQ(outcomes[1].code, StatusCode::kPeerLost) << "as it goes on it finds the others gone";
}

TEST_P(AwaitedExchange, OfARankThatIsSlowEndsWithItsNameToo) {
  const std::vector<RankOutcome> outcomes = await([] { usleep(2000000); });
  expectNamed(outcomes, "is slow: it runs, and has not come so far (process ");
}

// As a dead disk leaves it: the thread that runs the rank is held by the kernel, and the others beat on.
TEST_P(AwaitedExchange, OfARankThatTheKernelHoldsEndsWithItsNameToo) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer makes a fork of vfork";
#endif
  const std::vector<RankOutcome> outcomes = await([] {
    if (vfork() == 0) {
      usleep(2000000);
      _exit(0);
    }
  });
  expectNamed(outcomes, "is stopped: a disk or a network file system does not answer it (process ");
}

// Bytes of a file, or other exchanges, show that it goes on.
TEST_P(AwaitedExchange, GoesOnWithARankThatIsStoppedForAWhileOrMakesProgress) {
  for (const auto& meanwhile : {std::function<void()>([] { stopSelfFor(500000); }), std::function<void()>([] {
                                  for (int i = 0; i < 4; ++i) {
                                    usleep(400000);
                                    noteProgress();
                                  }
                                })}) {
    for (const RankOutcome& outcome : await(meanwhile)) EXPECT_EQ(outcome.code, StatusCode::kOk) << outcome.message;
  }
}

std::vector<Case> casesOfThree() {
  std::vector<Case> all;
  for (const Implementation& implementation : implementations()) {
    if (implementation.ranksTogether == 1) all.push_back({implementation, 3});  // each has the same to say of rank 1
  }
  return all;
}

std::vector<Case> cases(bool comparedOnly) {
  std::vector<Case> all;
  for (const Implementation& implementation : implementations()) {
    if (comparedOnly && !implementation.comparesCalls) continue;
    for (int ranks = 2; ranks <= 5; ++ranks) all.push_back({implementation, ranks});
  }
  return all;
}

std::string nameOfCase(const testing::TestParamInfo<Case>& info) {
  return std::string(info.param.implementation.name) + "_" + std::to_string(info.param.ranks);
}

INSTANTIATE_TEST_SUITE_P(By, Exchange, testing::ValuesIn(cases(false)), nameOfCase);
INSTANTIATE_TEST_SUITE_P(By, AwaitedExchange, testing::ValuesIn(casesOfThree()), nameOfCase);
INSTANTIATE_TEST_SUITE_P(By, ComparedExchange, testing::ValuesIn(cases(true)), nameOfCase);

}  // namespace
}  // namespace hycrt
