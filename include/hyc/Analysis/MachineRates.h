// MachineRates: what one rank does in a second, and what a group of ranks exchanges, by the part of the machine that
// the group spans.
//
// A machine is in tiers, one inside the other: the ranks of a host, of a rack, of the cluster. A group is in the
// innermost tier that holds all its ranks, and gets the rate which that tier was measured to give messages of their
// size. Ranks are laid out in order, so that a group's strides tell how many of its members share a host; of a rate
// between hosts, measured with all ranks of a host in one ring, a group gets the part of the links that its members
// have.
//
// The surprise: without tiers one link serves every group, whose exchange takes its latency and what it sends.
#ifndef HYC_ANALYSIS_MACHINERATES_H
#define HYC_ANALYSIS_MACHINERATES_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace hyc {

/// A measured value at one size. Between two sizes the value lies on the line between them in logarithms; outside of
/// all, it is that of the nearest.
struct SizedValue {
  double size = 0, value = 0;
};
double valueAt(const std::vector<SizedValue> &points, double size);

/// How bytes go from rank to rank: what a memory or a network reaches differs between them.
enum class Traffic { AllReduce, AllGather, ReduceScatter, Transfer };

struct MachineTier {
  std::string name;
  int64_t ranks = 1;  ///< that one of it holds
  double latency = 0; ///< seconds that no exchange is done in
  /// Bytes that a rank of a full group sends in a second, by bytes of the message: of all_reduce; and of the others, as
  /// it where they are empty.
  std::vector<SizedValue> rates, gatherRates = {}, scatterRates = {}, transferRates = {};
  /// Seconds from one member of a ring to the next over these links, and how many ranks the rates are of: a ring
  /// through more takes longer by its hops. 0 ranks: as many as exchange.
  double hopLatency = 0;
  int64_t measuredRanks = 0;

  const std::vector<SizedValue> &ratesOf(Traffic traffic) const;
  void scaleRates(double factor);
};

/// The members of an exchange: along each of its dimensions how many, and how far apart in world ranks.
struct RankGroup {
  struct Dimension {
    int64_t size = 1, stride = 1;
  };
  std::vector<Dimension> dimensions;

  int64_t members() const;
  /// From the first to the last member, both counted.
  int64_t extent() const;
  /// Members that are among `ranks` consecutive ranks.
  int64_t membersWithin(int64_t ranks) const;
};

/// Ranks of one machine that do less or more than others: what such a rank does in a second, and has.
struct RankKind {
  std::string name;
  int64_t ranks = 1; ///< so many consecutive world ranks, after those of the kinds before
  double products = 0, narrowProducts = 0, fp8Products = 0, memory = 0, deviceMemory = 0;
};

/// What decides how long something takes.
enum class TimeBound { Products, Memory, Launch, Link, Latency, Host, Disk };
/// "products", "memory" …: keys of machine files.
const char *getName(TimeBound bound);

/// What a kernel does.
struct KernelWork {
  double operations = 0;    ///< of products or attention
  double bytes = 0;         ///< that it reads and writes
  int64_t elementBytes = 4; ///< of its operands
  bool isAttention = false; ///< fused, which reaches less than a product of as many operations
};

/// Part of the rate of copies between a GPU and its host that each way has while both are busy: 44.5 of 55.1 GB/s on an
/// H100.
inline constexpr double kShareOfBothWays = 0.81;

/// Part of it that kernels reach which read and write the host's memory themselves, both ways together: 16 of 55 GB/s
/// there.
inline constexpr double kBusShareOfKernels = 0.29;

/// The defaults are orders of magnitude for one core of a server's CPU, not measurements; a machine's own come from
/// --machine.
struct MachineRates {
  double products = 1e11;       ///< floating-point operations of matrix products and attention, a multiply-add as two
  double narrowProducts = 4e11; ///< of those whose operands have 16 bits
  double fp8Products = 0;       ///< of those whose operands have 8 bits; 0: no faster than 16
  double memory = 1.3e10;       ///< bytes that kernels read and write
  double productMemory = 0;     ///< bytes that matrix products do so with beside their operations; 0: while they go on
  double link = 4e9;            ///< bytes that it sends to other ranks
  double latency = 5e-6;        ///< seconds of an exchange or transfer, whatever it carries
  double host = 6e9;            ///< bytes copied between device and host
  double disk = 1e9;            ///< bytes read or written
  double launch = 0;            ///< seconds that no kernel is done in
  double dispatch = 0;          ///< seconds of the thread that starts kernels and exchanges, for each of them
  double overlapShare = 1;      ///< of their rate, what kernels keep while an exchange goes on beside them
  bool communicationThread = true;

  std::vector<SizedValue> productShare; ///< of the rate of products, by the operations of one; empty: all of it
  double attentionShare = 0;            ///< of that rate, what fused attention reaches; 0: as a product
  double memoryShare = 1;               ///< of `memory` that kernels reach
  std::vector<MachineTier> tiers;       ///< innermost first; empty: `link` and `latency` serve all groups
  double deviceMemory = 0;              ///< bytes; 0: not told
  std::vector<RankKind> kinds;          ///< in the order of world ranks; empty: all ranks are alike
  std::string name;                     ///< of the machine; empty: no file describes it

  /// Ranks that it has; 0: not told.
  int64_t mostRanks() const;
  /// As if all ranks were of this kind.
  MachineRates ofKind(size_t kind) const;
  /// The kinds that are among `count` ranks from `first` on, as places in `kinds`; ranks beyond the last are as it.
  std::vector<size_t> kindsAmong(int64_t first, int64_t count) const;
  /// What the slowest of these ranks does, in each respect; and the least device memory of those that tell theirs.
  MachineRates slowestAmong(int64_t first, int64_t count) const;
  double kernelSeconds(const KernelWork &work) const;
  TimeBound kernelBound(const KernelWork &work) const;
  /// An exchange that carries `message` bytes as a whole, of which a rank sends `sent`.
  double exchangeSeconds(const RankGroup &group, double message, double sent,
                         Traffic traffic = Traffic::AllReduce) const;
  /// Bytes from every rank of a stage to one of the next, `stride` world ranks away.
  double transferSeconds(int64_t stride, double bytes) const;

private:
  /// What the exchange of a group, `together` of whose members are in each unit of the tier inside, takes longer than
  /// that of as many ranks as the tier's rates are of: a ring's hops, or for sums those of two trees, up and down.
  double hopSeconds(const MachineTier &tier, const MachineTier *inner, int64_t members, int64_t together,
                    Traffic traffic) const;
};

} // namespace hyc

#endif // HYC_ANALYSIS_MACHINERATES_H
