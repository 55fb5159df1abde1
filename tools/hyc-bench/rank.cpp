// Meeting the others, and the order in which things are measured.
#include "rank.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/environment.h"
#include "base/launchers.h"
#include "base/threads.h"
#include "bench_program.h"
#include "comm/channels.h"
#include "comm/host_exchanger.h"
#include "comm/transport.h"
#include "figure.h"
#include "hycrt/collectives.h"
#include "hycrt/context.h"
#include "hycrt/offload.h"
#include "hycrt/options.h"
#include "io/offload_file.h"
#include "kernels/attention/op.h"
#include "kernels/copy/op.h"
#include "kernels/gemm/op.h"
#include "kernels/isa/dispatch.h"
#include "memory/rank_memory.h"

namespace hycbench {
namespace {

using hycrt::Result;
using hycrt::Status;

constexpr int64_t kLatencyBytes = 8, kFirstBytes = int64_t{4} << 10, kSizeStep = 4;
constexpr int64_t kFirstEdge = 64, kLastEdge = 4096;
constexpr int64_t kAttentionLength = 256, kAttentionHeads = 16, kAttentionHeadDim = 64;
constexpr int kBlocks = 3;
constexpr double kMostRounds = 10000;
constexpr double kShortest = 1e-9;  // seconds of a round that the clock does not see
constexpr int kFilePieces = 4;

std::vector<int64_t> sizesUpTo(int64_t largest) {
  std::vector<int64_t> sizes{kLatencyBytes};
  for (int64_t bytes = kFirstBytes; bytes < largest; bytes *= kSizeStep) sizes.push_back(bytes);
  sizes.push_back(largest);
  return sizes;
}

// The CPU's name and the instruction set that kernels take.
std::string describeCpu() {
  std::string name = "a CPU without a name";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.compare(0, 10, "model name") != 0 || colon == std::string::npos) continue;
    name = line.substr(colon + 2);
    break;
  }
  return name + " (" + hyc::kernels::isaName(hyc::kernels::currentIsa()) + ")";
}

class BenchRank {
 public:
  BenchRank(const BenchOptions& options, const hycrt::Environment& environment, int threads)
      : options_(options),
        environment_(environment),
        ownThread_(hycrt::hasCommunicationThread(hycrt::RunOptions(), threads, environment)),
        bytes_(options.mib << 20),
        bench_(environment.rank, environment.hosts, environment.ranksHere, sizesUpTo(bytes_),
               options.nvmePath.empty() ? 0 : kFilePieces * bytes_),
        program_(bench_.program()) {}

  Status run() {
    HYCRT_RETURN_IF_ERROR(connect());
    Status status = measureAll();
    if (!status.ok()) exchanger_->leaveWords(status);
    const Status left = exchanger_->leave(status.ok());
    return status.ok() ? left : status;
  }

 private:
  Status connect() {
    plans_ = hycrt::planChannels(program_, hycrt::coordinatesOf(program_.mesh, environment_.rank));
    catalog_ = "hyc-bench";
    hycrt::NetworkOptions network;
    network.interface = options_.interface;
    network.plaintext = options_.plaintext;
    const hycrt::TransportSetup setup{program_, environment_, plans_, catalog_, nullptr, agreement(), network};
    Result<const hycrt::TransportKind*> kind = hycrt::transportFor(environment_, network);
    if (!kind.ok()) return kind.status();
    Result<std::unique_ptr<hycrt::BlockFile>> file =
        hycrt::openOffloadFile(program_, environment_.rank, options_.nvmePath);
    if (!file.ok()) {
      (*kind)->tellOfFailure(environment_, network, program_.name, file.status());
      return file.status();
    }
    file_ = std::move(*file);
    Result<hycrt::RankMemory> memory = hycrt::RankMemory::allocate(program_, {(*kind)->headBytes(setup), true});
    if (!memory.ok()) return memory.status();
    memory_ = std::make_unique<hycrt::RankMemory>(std::move(*memory));
    Result<std::unique_ptr<hycrt::Transport>> transport = (*kind)->connect(setup, *memory_);
    if (!transport.ok()) return transport.status();
    Result<std::unique_ptr<hycrt::HostExchanger>> exchanger =
        hycrt::HostExchanger::create(setup, memory_->arenas(), std::move(*transport), exchangerOptions());
    if (!exchanger.ok()) return exchanger.status();
    exchanger_ = std::move(*exchanger);
    context_ = std::make_unique<hycrt::Context>(program_, hycrt::coordinatesOf(program_.mesh, environment_.rank),
                                                memory_->arenas(), exchanger_.get(), file_.get());
    return {};
  }

  // Exchanges go on beside computation as they do in a training of such ranks.
  hycrt::HostExchangerOptions exchangerOptions() const {
    hycrt::HostExchangerOptions options;
    options.ownThread = ownThread_;
    return options;
  }

  // Ranks that were told otherwise would wait for one another in vain.
  std::string agreement() const {
    std::string text;
    for (const std::string& argument : argumentsForRanks(options_)) {
      if (argument.compare(0, 11, "--interface") != 0 && argument.compare(0, 11, "--nvme-path") != 0) {
        text += argument + "\n";
      }
    }
    return text;
  }

  Status measureAll() {
    for (int pass = 1; pass <= options_.passes; ++pass) {
      if (pass > 1 && environment_.rank == 0) std::printf("%c%d of %d\n", kPassMark, pass, options_.passes);
      HYCRT_RETURN_IF_ERROR(measureOnce());
    }
    return {};
  }

  Status measureOnce() {
    HYCRT_RETURN_IF_ERROR(measureProducts<float>(Measure::kProduct));
    HYCRT_RETURN_IF_ERROR(measureProducts<hyc::kernels::Bf16>(Measure::kNarrowProduct));
    HYCRT_RETURN_IF_ERROR(measureThinProduct());
    HYCRT_RETURN_IF_ERROR(measureAttention());
    HYCRT_RETURN_IF_ERROR(measureMemory());
    for (Tier tier : {Tier::kHost, Tier::kCluster}) HYCRT_RETURN_IF_ERROR(measureTier(tier));
    HYCRT_RETURN_IF_ERROR(measureOverlap(bench_.ranksOf(Tier::kCluster) > 1 ? Tier::kCluster : Tier::kHost));
    return options_.nvmePath.empty() ? Status() : measureDisk();
  }

  using Work = std::function<Status()>;

  // What one round takes the slowest rank, all of them at it together: the median of a few blocks of rounds. Rank 0's
  // word is not needed for how many rounds there are, since every rank hears what each has taken.
  Result<double> secondsOf(const Work& work) {
    Result<std::vector<double>> seconds = secondsInTurns({work});
    if (!seconds.ok()) return seconds.status();
    return seconds->front();
  }

  // The same of several things that are compared: a block of each in turns, so that what else goes on meanwhile slows
  // all of them down.
  Result<std::vector<double>> secondsInTurns(const std::vector<Work>& works) {
    std::vector<int> rounds;
    for (const Work& work : works) {
      const Result<int> enough = roundsOf(work);
      if (!enough.ok()) return enough.status();
      rounds.push_back(*enough);
    }
    std::vector<std::vector<double>> blocks(works.size());
    for (int block = 0; block < kBlocks; ++block) {
      for (size_t i = 0; i < works.size(); ++i) {
        const Result<double> seconds = slowest(rounds[i], works[i]);
        if (!seconds.ok()) return seconds.status();
        blocks[i].push_back(*seconds);
      }
    }
    std::vector<double> medians;
    for (std::vector<double>& each : blocks) {
      std::sort(each.begin(), each.end());
      medians.push_back(each[kBlocks / 2]);
    }
    return medians;
  }

  // How many make a block.
  Result<int> roundsOf(const Work& work) {
    HYCRT_RETURN_IF_ERROR(work());  // pages are touched, threads woken
    // A first round that something else held up must not be taken for how long one lasts.
    const double enough = options_.seconds / kBlocks;
    double rounds = 1;
    while (rounds < kMostRounds) {
      Result<double> once = slowest(static_cast<int>(rounds), work);
      if (!once.ok()) return once.status();
      if (*once * rounds >= enough / 2) break;
      rounds = std::min(kMostRounds, std::max(2 * rounds, std::floor(enough / std::max(*once, kShortest))));
    }
    return static_cast<int>(rounds);
  }

  Result<double> slowest(int rounds, const Work& work) {
    HYCRT_RETURN_IF_ERROR(exchanger_->barrier());
    const int64_t begin = hycrt::monotonicNs();
    for (int round = 0; round < rounds; ++round) HYCRT_RETURN_IF_ERROR(work());
    const int64_t taken = std::max<int64_t>(1, hycrt::monotonicNs() - begin);
    Result<const uint64_t*> all = exchanger_->share(static_cast<uint64_t>(taken));
    if (!all.ok()) return all.status();
    const uint64_t longest = *std::max_element(*all, *all + environment_.worldSize);
    return static_cast<double>(longest) * 1e-9 / rounds;
  }

  // `amount` per round and rank: operations or bytes.
  Status measure(Measure what, Tier tier, int64_t size, double amount, const Work& work) {
    const Result<double> seconds = secondsOf(work);
    if (!seconds.ok()) return seconds.status();
    lastSeconds_ = *seconds;
    tell({what, tier, size, *seconds, amount / *seconds});
    return {};
  }

  void tell(const Figure& figure) const {
    if (environment_.rank != 0) return;
    std::printf("%s\n", encode(figure).c_str());
    std::fflush(stdout);
  }

  template <typename T>
  Status measureProducts(Measure what) {
    const size_t most = static_cast<size_t>(kLastEdge * kLastEdge);
    std::vector<T> a, b, c;
    lastSeconds_ = 0;
    // The next one takes eight times as long, and then some where it leaves a cache.
    for (int64_t edge = kFirstEdge; edge <= kLastEdge && lastSeconds_ * 8 <= options_.seconds; edge *= 2) {
      const size_t elements = std::min(most, static_cast<size_t>(edge * edge));
      a.assign(elements, T(0.5f));
      b.assign(elements, T(0.25f));
      c.assign(elements, T(0.0f));
      hyc::kernels::GemmDesc product;
      product.m = product.n = product.k = edge;
      const int64_t operations = 2 * edge * edge * edge;
      HYCRT_RETURN_IF_ERROR(measure(what, Tier::kNone, operations, static_cast<double>(operations), [&] {
        hyc::kernels::gemm(product, a.data(), b.data(), static_cast<const T*>(nullptr), c.data());
        return Status();
      }));
    }
    return {};
  }

  // Matrices that stay in a cache.
  class CachedProduct {
   public:
    CachedProduct()
        : a_(kCachedEdge * kCachedEdge, 0.5f),
          b_(kCachedEdge * kCachedEdge, 0.25f),
          c_(kCachedEdge * kCachedEdge, 0.0f) {
      product_.m = product_.n = product_.k = kCachedEdge;
    }
    void compute() {
      hyc::kernels::gemm(product_, a_.data(), b_.data(), static_cast<const float*>(nullptr), c_.data());
    }

   private:
    std::vector<float> a_, b_, c_;
    hyc::kernels::GemmDesc product_;
  };

  // What a layer of a small micro-batch does: by one of so many weights in turn that none is in a cache when it is
  // wanted again. In turns with a product of as many operations, with which it is compared.
  Status measureThinProduct() {
    const int64_t weights = std::max<int64_t>(2, bytes_ / (4 * kThinInner * kThinColumns));
    std::vector<float> a(kThinRows * kThinInner, 0.5f), c(kThinRows * kThinColumns, 0.0f),
        b(static_cast<size_t>(weights * kThinInner * kThinColumns), 0.25f);
    hyc::kernels::GemmDesc product;
    product.m = kThinRows, product.k = kThinInner, product.n = kThinColumns;
    int64_t turn = 0;
    CachedProduct cached;
    const Work works[] = {[&] {
                            const float* const weight = b.data() + (turn++ % weights) * kThinInner * kThinColumns;
                            hyc::kernels::gemm(product, a.data(), weight, static_cast<const float*>(nullptr), c.data());
                            return Status();
                          },
                          [&] {
                            cached.compute();
                            return Status();
                          }};
    const Result<std::vector<double>> seconds = secondsInTurns({std::begin(works), std::end(works)});
    if (!seconds.ok()) return seconds.status();
    const Measure measures[] = {Measure::kThinProduct, Measure::kCachedProduct};
    for (size_t i = 0; i < std::size(works); ++i) {
      const double each = (*seconds)[i];
      tell({measures[i], Tier::kNone, kThinOperations, each, static_cast<double>(kThinOperations) / each});
    }
    return {};
  }

  // Two products forward and five backward, each over half of the scores.
  Status measureAttention() {
    hyc::kernels::AttentionDesc d;
    d.batch = 1, d.queryLength = d.keyLength = kAttentionLength, d.heads = d.kvHeads = kAttentionHeads;
    d.headDim = kAttentionHeadDim, d.causal = true, d.scale = 0.125;
    const int64_t width = d.heads * d.headDim;
    d.q = d.k = d.v = d.o = d.dO = d.dq = d.dk = d.dv = {kAttentionLength * width, width, d.headDim};
    const size_t elements = static_cast<size_t>(kAttentionLength * width);
    std::vector<float> in(elements, 0.25f), o(elements), dq(elements), dk(elements), dv(elements),
        lse(static_cast<size_t>(d.heads * kAttentionLength));
    const int64_t operations = 7 * width * kAttentionLength * kAttentionLength;
    return measure(Measure::kAttention, Tier::kNone, operations, static_cast<double>(operations), [&] {
      hyc::kernels::attentionForward(d, in.data(), in.data(), in.data(), o.data(), lse.data());
      hyc::kernels::attentionBackward(d, in.data(), in.data(), in.data(), o.data(), lse.data(), in.data(), dq.data(),
                                      dk.data(), dv.data());
      return Status();
    });
  }

  // Reads two arrays and writes one, as the sum of gradients does.
  Status measureMemory() {
    const int64_t elements = bytes_ / 4;
    std::vector<float> sum(static_cast<size_t>(elements), 1.0f), term(static_cast<size_t>(elements), 0.0f);
    HYCRT_RETURN_IF_ERROR(
        measure(Measure::kMemory, Tier::kNone, 3 * bytes_, 3 * static_cast<double>(bytes_), [&]() -> Status {
          hyc::kernels::accumulate(sum.data(), term.data(), elements);
          return {};
        }));
    return measure(Measure::kHost, Tier::kNone, bytes_, static_cast<double>(bytes_), [this] {
      wait(*context_, evictStart(*context_, {kShared, 0}, {kPrivate, 0}, bytes_));
      return context_->status();
    });
  }

  Status measureTier(Tier tier) {
    const int ranks = bench_.ranksOf(tier);
    if (ranks < 2) return {};
    const double others = static_cast<double>(ranks - 1) / ranks;
    for (int64_t size : bench_.sizes()) {
      const int64_t elements = size / 4;
      HYCRT_RETURN_IF_ERROR(measure(Measure::kAllReduce, tier, size, 2 * others * static_cast<double>(size), [&, this] {
        const int row = bench_.collective(tier, hycrt::CollectiveKind::kAllReduce);
        wait(*context_, allReduceStart(*context_, row, {kShared, 0}, elements, hycrt::DType::kF32));
        return context_->status();
      }));
    }
    const auto& group = plans_.channels[static_cast<size_t>(plans_.ofGroup[tier == Tier::kHost ? 0 : 1])].members;
    const int64_t self = std::find(group.begin(), group.end(), environment_.rank) - group.begin();
    HYCRT_RETURN_IF_ERROR(
        measureParts(Measure::kAllGather, tier, hycrt::CollectiveKind::kAllGather, [&, this](int row, int64_t each) {
          return allGatherStart(*context_, row, {kShared, 4 * each * self}, {kShared, 0}, each, hycrt::DType::kF32);
        }));
    const hycrt::BufferRef sum{kShared, bench_.sizes().back()};
    HYCRT_RETURN_IF_ERROR(measureParts(
        Measure::kReduceScatter, tier, hycrt::CollectiveKind::kReduceScatter, [&, this](int row, int64_t each) {
          return reduceScatterStart(*context_, row, {kShared, 0}, sum, each, hycrt::DType::kF32);
        }));
    return measureTransfers(tier);
  }

  // Of a vector with a part for each rank: `start` gets the row of the exchange and the elements of a part.
  template <typename Start>
  Status measureParts(Measure measured, Tier tier, hycrt::CollectiveKind kind, Start start) {
    const int ranks = bench_.ranksOf(tier), row = bench_.collective(tier, kind);
    const double others = static_cast<double>(ranks - 1) / ranks;
    for (int64_t size : bench_.sizes()) {
      const int64_t each = size / 4 / ranks, whole = 4 * each * ranks;
      if (each == 0) continue;
      HYCRT_RETURN_IF_ERROR(measure(measured, tier, whole, others * static_cast<double>(whole), [&, this] {
        wait(*context_, start(row, each));
        return context_->status();
      }));
    }
    return {};
  }

  // Products beside a large sum, which goes on for at most half of their time: what they take longer by then is what
  // the sum has cost them.
  Status measureOverlap(Tier tier) {
    if (bench_.ranksOf(tier) < 2) return {};
    const int64_t size = bench_.sizes().back();
    const int row = bench_.collective(tier, hycrt::CollectiveKind::kAllReduce);
    const auto start = [&, this] { return allReduceStart(*context_, row, {kShared, 0}, size / 4, hycrt::DType::kF32); };
    const Work sum = [&, this] {
      wait(*context_, start());
      return context_->status();
    };
    CachedProduct cached;
    const Result<std::vector<double>> alone = secondsInTurns({sum, [&] {
                                                                cached.compute();
                                                                return Status();
                                                              }});
    if (!alone.ok()) return alone.status();
    const int count = static_cast<int>(std::ceil(2 * (*alone)[0] / (*alone)[1]));
    const auto compute = [&] {
      for (int i = 0; i < count; ++i) cached.compute();
    };
    const Result<std::vector<double>> seconds = secondsInTurns({sum,
                                                                [&] {
                                                                  compute();
                                                                  return Status();
                                                                },
                                                                [&, this] {
                                                                  const hycrt::Ticket ticket = start();
                                                                  compute();
                                                                  wait(*context_, ticket);
                                                                  return context_->status();
                                                                }});
    if (!seconds.ok()) return seconds.status();
    const double exchange = (*seconds)[0], products = (*seconds)[1], both = (*seconds)[2];
    tell({Measure::kOverlap, tier, size, both, std::clamp(1 - (both - products) / exchange, 0.0, 1.0)});
    return {};
  }

  // The ranks that neither send nor receive come to the measuring, and do nothing in it.
  Status measureTransfers(Tier tier) {
    if (!bench_.hasTransfers(tier)) return {};
    for (size_t i = 0; i < bench_.sizes().size(); ++i) {
      const int row = bench_.transfer(tier, i);
      const hycrt::TransferUse use[] = {{row, 0, 0}};
      const int64_t size = bench_.sizes()[i];
      HYCRT_RETURN_IF_ERROR(measure(Measure::kSendReceive, tier, size, static_cast<double>(size),
                                    [&, this] { return row < 0 ? Status() : exchanger_->exchange(use, 1); }));
    }
    return {};
  }

  Status measureDisk() {
    const int64_t piece = bytes_;
    const double all = static_cast<double>(kFilePieces * piece);
    const auto move = [&, this](auto start) {
      hycrt::MoveTicket tickets[kFilePieces];
      for (int i = 0; i < kFilePieces; ++i) tickets[i] = start(i);
      for (const hycrt::MoveTicket& ticket : tickets) wait(*context_, ticket);
      return context_->status();
    };
    HYCRT_RETURN_IF_ERROR(measure(Measure::kDiskWrite, Tier::kNone, kFilePieces * piece, all, [&, this] {
      return move([&, this](int i) { return evictStart(*context_, {kPrivate, 0}, {kFile, i * piece}, piece); });
    }));
    // Two places in memory in turn, since no two reads may go to one.
    return measure(Measure::kDiskRead, Tier::kNone, kFilePieces * piece, all, [&, this] {
      return move([&, this](int i) {
        if (i >= 2) wait(*context_, last_[i % 2]);
        const hycrt::BufferRef to{kShared, (i % 2) * piece};
        return last_[i % 2] = fetchStart(*context_, {kFile, i * piece}, to, piece);
      });
    });
  }

  const BenchOptions& options_;
  const hycrt::Environment& environment_;
  const bool ownThread_;
  const int64_t bytes_;
  const BenchProgram bench_;
  const hycrt::Program& program_;
  hycrt::ChannelPlans plans_;
  std::string catalog_;
  std::unique_ptr<hycrt::BlockFile> file_;
  std::unique_ptr<hycrt::RankMemory> memory_;
  std::unique_ptr<hycrt::HostExchanger> exchanger_;
  std::unique_ptr<hycrt::Context> context_;
  hycrt::MoveTicket last_[2];
  double lastSeconds_ = 0;
};

}  // namespace

Status runRank(const BenchOptions& options) {
  // How the ranks stand decides their mesh: what the variables say is read first, and then held against it.
  Result<hycrt::Launch> launch = hycrt::readLaunch(true);
  if (!launch.ok()) return launch.status();
  if (launch->worldSize == 0) return hycrt::usageError("this is a rank of hyc-bench, which starts it itself");
  hycrt::Mesh mesh;
  mesh.stages = launch->worldSize;
  Result<hycrt::Environment> environment = hycrt::readEnvironment(mesh);
  if (!environment.ok()) return environment.status();
  const int threads = options.threads > 0 ? options.threads : hycrt::defaultThreads(environment->ranksHere);
  hycrt::applyThreadPlan({threads, environment->localRank, environment->ranksHere});
  HYCRT_RETURN_IF_ERROR(hycrt::startTeam(
      threads, [](const Status& status) { std::fprintf(stderr, "error: %s\n", status.message().c_str()); }));
  if (environment->rank == 0) std::printf("%c%d %s\n", kAboutMark, threads, describeCpu().c_str());
  return BenchRank(options, *environment, threads).run();
}

}  // namespace hycbench
