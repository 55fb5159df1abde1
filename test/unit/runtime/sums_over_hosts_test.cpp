// Sums of eight ranks that stand on one host, on two, four or eight, or unequally: each is the left fold in the group's
// order, to the bit, whatever its length, and how many are on their way at once. Values are such that any other order
// of terms, or another rounding, gives other bits.
#include <gtest/gtest.h>

#include <cstring>

#include "exchange_ranks.h"
#include "hycrt/collectives.h"
#include "hycrt/philox.h"
#include "kernels/narrow_float.h"
#include "test_mesh.h"

namespace hycrt {
namespace {

constexpr int kRanks = 8;
constexpr int64_t kPatienceMs = 20000;  // who is waited for is then named
constexpr int64_t kArenaBytes = 24 << 20;
constexpr int64_t kLong = 150007;  // several chunks, and no multiple of anything
enum Row { kSum, kScatter, kFlatScatter, kFlatGather, kSharedScatter };

// dp 4 × tp 2; a group of all, in which flat shards go by dp and tp, or by dp alone.
struct SumProgram {
  SumProgram() {
    program.name = "sums";
    program.mesh = meshOf(2, 1, 4);
    program.arenas = tableOf(arenas);
    program.groups = tableOf(groups);
    program.collectives = tableOf(collectives);
  }
  std::vector<ArenaDesc> arenas{{"communication", kArenaBytes, Sharing::kShared},
                                {"activations", kArenaBytes, Sharing::kPrivate}};
  std::vector<GroupDesc> groups{{"all", kTp | kDp, {}}};
  std::vector<CollectiveDesc> collectives{{1, "sum", CollectiveKind::kAllReduce, 0},
                                          {2, "scatter", CollectiveKind::kReduceScatter, 0},
                                          {3, "flat scatter", CollectiveKind::kReduceScatter, 0, {kDp, kTp}},
                                          {4, "flat gather", CollectiveKind::kAllGather, 0, {kDp, kTp}},
                                          {5, "shared scatter", CollectiveKind::kReduceScatter, 0, {kDp}}};
  Program program{};
};

// Magnitudes differ, so that every order of the terms rounds otherwise.
float valueOf(int rank, int64_t i, int salt) {
  const uint64_t bits = mix64(static_cast<uint64_t>(rank * 16 + salt), static_cast<uint64_t>(i));
  const float unit = static_cast<float>(bits >> 40) * 0x1p-24f - 0.5f;
  return unit * static_cast<float>(1 << (bits % 9));
}

template <typename T>
struct Numbers {
  using Sum = std::conditional_t<sizeof(T) == 2, float, T>;
  static T at(int rank, int64_t i, int salt) {
    return static_cast<T>(valueOf(rank, i, salt) * (std::is_integral_v<T> ? 1000.0f : 1.0f));
  }
  static T sumAt(int64_t i, int salt, ReduceOp op) {
    Sum sum = at(0, i, salt);
    for (int rank = 1; rank < kRanks; ++rank) {
      const Sum term = at(rank, i, salt);
      sum = op == ReduceOp::kSum ? static_cast<Sum>(sum + term) : std::max(sum, term);
    }
    return static_cast<T>(sum);
  }
};

template <typename T>
class Worker {
 public:
  Worker(ExchangeRank& rank, int self, DType dtype) : rank_(rank), self_(self), dtype_(dtype) {}

  Status run(const std::vector<int64_t>& counts) {
    for (int64_t count : counts) {
      HYCRT_RETURN_IF_ERROR(allReduce(count, ReduceOp::kSum));
      HYCRT_RETURN_IF_ERROR(scatter(count / kRanks + 1));
      HYCRT_RETURN_IF_ERROR(flat(count, kFlatScatter));
      HYCRT_RETURN_IF_ERROR(flat(count, kSharedScatter));
    }
    return allReduce(counts.back(), ReduceOp::kMax);
  }

  // More than may be pending, of lengths that are passed on in different ways.
  Status manyAtOnce() {
    constexpr int kItems = kMaxPending + 5;
    const auto countOf = [](int item) {
      return item % 3 == 0 ? int64_t{3} : item % 3 == 1 ? int64_t{20000} : int64_t{2000};
    };
    const auto placeOf = [](int item) { return BufferRef{0, item * int64_t{512} * 1024}; };
    std::vector<Ticket> tickets;
    for (int item = 0; item < kItems; ++item) {
      fill(placeOf(item), countOf(item), 4 + item);
      tickets.push_back(allReduceStart(ctx(), kSum, placeOf(item), countOf(item), dtype_));
    }
    for (const Ticket& ticket : tickets) wait(ctx(), ticket);
    for (int item = 0; item < kItems; ++item) {
      HYCRT_RETURN_IF_ERROR(expect("one of many sums", placeOf(item), 0, countOf(item), 4 + item));
    }
    return {};
  }

 private:
  Context& ctx() { return rank_.context(); }

  void fill(BufferRef at, int64_t count, int salt) {
    T* const to = ctx().template ptr<T>(at);
    for (int64_t i = 0; i < count; ++i) to[i] = Numbers<T>::at(self_, i, salt);
  }
  Status expect(const char* what, BufferRef at, int64_t begin, int64_t count, int salt, ReduceOp op = ReduceOp::kSum) {
    HYCRT_RETURN_IF_ERROR(ctx().status());
    const T* const found = ctx().template ptr<T>(at);
    for (int64_t i = 0; i < count; ++i) {
      const T expected = Numbers<T>::sumAt(begin + i, salt, op);
      if (std::memcmp(&found[i], &expected, sizeof expected) == 0) continue;
      return internalError(std::string(what) + " of " + std::to_string(count) + " × " + nameOf(dtype_) + ": element " +
                           std::to_string(begin + i) + " has other bits");
    }
    return {};
  }

  Status allReduce(int64_t count, ReduceOp op) {
    const BufferRef at{0, 192};
    fill(at, count, 1);
    wait(ctx(), allReduceStart(ctx(), kSum, at, count, dtype_, op));
    return expect("all_reduce", at, 0, count, 1, op);
  }

  // The result apart, in memory that no other rank maps, and then in the slice of the source itself.
  Status scatter(int64_t each) {
    const BufferRef source{0, 64}, apart{1, 128}, inPlace{0, 64 + self_ * each * static_cast<int64_t>(sizeof(T))};
    for (const BufferRef& to : {apart, inPlace}) {
      fill(source, each * kRanks, 2);
      wait(ctx(), reduceScatterStart(ctx(), kScatter, source, to, each, dtype_));
      HYCRT_RETURN_IF_ERROR(expect("reduce_scatter", to, self_ * each, each, 2));
      for (int64_t i = 0; to.arena == apart.arena && i < each * kRanks; ++i) {
        if (ctx().template ptr<T>(source)[i] != Numbers<T>::at(self_, i, 2)) {
          return internalError("reduce_scatter has written to its source");
        }
      }
    }
    return {};
  }

  Status flat(int64_t count, Row row) {
    const int64_t shards = row == kFlatScatter ? kRanks : 4;
    const int64_t shard = row == kFlatScatter ? self_ : self_ / 2;
    std::vector<FlatPart> parts;
    int64_t offset = 256;
    for (int64_t elements : {count, count / 3, int64_t{0}, int64_t{7}}) {
      parts.push_back({{0, offset}, elements, flatShardSize(elements, shards)});
      fill(parts.back().whole, elements, 3);
      offset += (elements * static_cast<int64_t>(sizeof(T)) + 511) / 256 * 256;
    }
    const int size = static_cast<int>(parts.size());
    wait(ctx(), flatReduceScatterStart(ctx(), row, parts.data(), size, dtype_));
    for (const FlatPart& part : parts) {
      const FlatShard own = flatShard(shard, part.shardElements, part.elements);
      const BufferRef at{0, part.whole.offset + own.begin * static_cast<int64_t>(sizeof(T))};
      HYCRT_RETURN_IF_ERROR(expect("flat reduce_scatter", at, own.begin, own.count, 3));
    }
    if (row != kFlatScatter) return rank_.meet();
    wait(ctx(), flatAllGatherStart(ctx(), kFlatGather, parts.data(), size, dtype_));
    for (const FlatPart& part : parts) HYCRT_RETURN_IF_ERROR(expect("joined", part.whole, 0, part.elements, 3));
    return rank_.meet();
  }

  ExchangeRank& rank_;
  const int self_;
  const DType dtype_;
};

template <typename T>
Status runAs(ExchangeRank& rank, int self, DType dtype, const std::vector<int64_t>& counts) {
  HYCRT_RETURN_IF_ERROR(Worker<T>(rank, self, dtype).run(counts));
  return rank.meet();
}

class Sums : public testing::TestWithParam<int> {};

TEST_P(Sums, AreTheLeftFoldInTheGroupsOrderWhereverRanksStand) {
  Implementation hosts{"hosts", false, DeviceComm::kAuto, true};
  hosts.network = GetParam() == 0 ? Network::kNone : Network::kEncrypted;
  hosts.ranksTogether = GetParam();
  SumProgram sums;
  const std::vector<RankOutcome> outcomes = runRanks(kRanks, [&](const Environment& environment) -> Status {
    Result<std::unique_ptr<ExchangeRank>> rank = ExchangeRank::connect(hosts, &sums.program, environment, kPatienceMs);
    if (!rank.ok()) return rank.status();
    const int self = environment.rank;
    HYCRT_RETURN_IF_ERROR(runAs<float>(**rank, self, DType::kF32, {1, 5000, kLong}));
    HYCRT_RETURN_IF_ERROR(Worker<float>(**rank, self, DType::kF32).manyAtOnce());
    HYCRT_RETURN_IF_ERROR(runAs<hyc::kernels::Bf16>(**rank, self, DType::kBF16, {500, 70001}));
    HYCRT_RETURN_IF_ERROR(runAs<hyc::kernels::F16>(**rank, self, DType::kF16, {30001}));
    HYCRT_RETURN_IF_ERROR(runAs<double>(**rank, self, DType::kF64, {20001}));
    HYCRT_RETURN_IF_ERROR(runAs<int32_t>(**rank, self, DType::kI32, {20001}));
    return (*rank)->exchanger().leave(true);
  });
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_EQ(outcomes[rank].signal, 0) << "rank " << rank;
    EXPECT_EQ(outcomes[rank].code, StatusCode::kOk) << "rank " << rank << ": " << outcomes[rank].message;
  }
}

// Of three, hosts have three, three and two.
INSTANTIATE_TEST_SUITE_P(RanksAHost, Sums, testing::Values(0, 1, 2, 3, 4),
                         [](const testing::TestParamInfo<int>& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace hycrt
