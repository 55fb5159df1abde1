// What ranks tell rank 0 of their steps, and what it makes of it.
#include "run/tier_report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "comm/tcp/meeting.h"

namespace hycrt {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostLines = 16;                                      // of hosts, and of slow ranks
constexpr int64_t kLinkBytes = 16 << 20, kLeastLinkBytes = 256 << 10;  // of a host, and of a rank
constexpr double kLinkSeconds = 1;                                     // about as long is fetched at most

template <typename... Values>
std::string format(const char* pattern, Values... values) {
  char text[400];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

// "3.1 Gb/s", as networks are sold.
std::string gigabits(double bytesPerSecond) { return format("%.3g Gb/s", bytesPerSecond * 8e-9); }

std::string bytes(double count) {
  return count < 1e6   ? format("%.1f kB", count / 1e3)
         : count < 1e9 ? format("%.1f MB", count / 1e6)
                       : format("%.2f GB", count / 1e9);
}

std::string counted(int ranks) { return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks"); }

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// The sums of a host's ranks; of times the mean, and the longest.
struct HostExchanges {
  std::string name;
  int ranks = 0;
  double within = 0, between = 0;  // shares of a step
  double receivedBytes = 0, receivingNs = 0, linkRate = 0;

  // While its ranks get bytes they do so at once.
  double rate() const { return receivingNs > 0 ? receivedBytes * 1e9 / receivingNs : 0; }
};

std::vector<HostExchanges> sumByHost(const std::vector<RankExchanges>& ranks) {
  std::vector<HostExchanges> hosts;
  for (const RankExchanges& rank : ranks) {
    auto host =
        std::find_if(hosts.begin(), hosts.end(), [&](const HostExchanges& one) { return one.name == rank.host; });
    if (host == hosts.end()) host = hosts.insert(hosts.end(), {rank.host});
    ++host->ranks;
    host->within += rank.withinNs / rank.stepNs;
    host->between += rank.betweenNs / rank.stepNs;
    host->receivedBytes += rank.receivedBytes;
    host->receivingNs = std::max(host->receivingNs, rank.receivingNs);
    host->linkRate += rank.linkRate;
  }
  for (HostExchanges& host : hosts) {
    host.within /= host.ranks;
    host.between /= host.ranks;
    // It gives at least what they got.
    if (host.linkRate > 0) host.linkRate = std::max(host.linkRate, host.rate());
  }
  return hosts;
}

class Describer {
 public:
  Describer(const std::vector<RankExchanges>& ranks, const Mesh& mesh, int64_t steps)
      : ranks_(ranks), mesh_(mesh), steps_(steps), hosts_(sumByHost(ranks)) {}

  TierReport run() {
    if (hosts_.size() < 2) return {};
    describeAll();
    for (const HostExchanges& host : hosts_) describeHost(host);
    if (hosts_.size() > kMostLines) {
      add("exchanges: of " + std::to_string(hosts_.size() - kMostLines) + " more hosts the log tells");
    }
    warnOfLinks();
    warnOfWaiting();
    for (int stage = 0; stage < mesh_.stages && steps_ >= kLeastSteps; ++stage) warnOfSlowRanks(stage);
    recordAll();
    return std::move(report_);
  }

 private:
  void add(const std::string& line) { report_.lines.push_back(line); }

  double meanOf(double HostExchanges::* share) const {
    double sum = 0;
    for (const HostExchanges& host : hosts_) sum += host.*share * host.ranks;
    return sum / static_cast<double>(ranks_.size());
  }

  void describeAll() {
    const double stepMs = ranks_[0].stepNs * 1e-6, within = meanOf(&HostExchanges::within),
                 between = meanOf(&HostExchanges::between);
    add(
        format("exchanges: of %.1f ms a step the ranks of %zu hosts wait %.1f ms (%.1f %%) within hosts and %.1f ms "
               "(%.1f %%) between them",
               stepMs, hosts_.size(), within * stepMs, within * 100, between * stepMs, between * 100));
  }

  void describeHost(const HostExchanges& host) {
    if (report_.records.size() < kMostLines) {
      std::string line =
          "exchanges: host '" + host.name + "' (" + counted(host.ranks) + ") waits " +
          format("%.1f %% within it and %.1f %% between hosts; gets ", host.within * 100, host.between * 100) +
          bytes(host.receivedBytes) + " a step";
      if (host.rate() > 0) line += " at " + gigabits(host.rate());
      if (host.rate() > 0 && host.linkRate > 0) {
        line += format(", %.0f %% of the %s that its link was measured to give", host.rate() / host.linkRate * 100,
                       gigabits(host.linkRate).c_str());
      }
      add(line);
    }
    report_.records.push_back(ordered_json{
        {"event", kExchangesOfHostEvent},
        {"host", host.name},
        {"ranks", host.ranks},
        {"within", host.within},
        {"between", host.between},
        {"received_bytes", host.receivedBytes},
        {"bytes_per_s", host.rate()},
        {"link_bytes_per_s",
         host.linkRate}}.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  }

  void warnOfLinks() {
    for (const HostExchanges& host : hosts_) {
      if (host.linkRate == 0 || host.linkRate >= kLeastLinkRate) continue;
      add("warning: the network gives host '" + host.name + "' " + gigabits(host.linkRate) + ", less than " +
          gigabits(kLeastLinkRate) + "; does --interface name the fast one? hyc-bench --hostfile measures it");
      return;  // where one is slow all are, as a rule; the lines above have each
    }
  }

  void warnOfWaiting() {
    const double waits = meanOf(&HostExchanges::within) + meanOf(&HostExchanges::between);
    if (waits <= kMostWaiting) return;
    add(
        format("warning: communication takes %.1f %% of a step, more than %.0f %%; a larger --micro-batch or "
               "--grad-accum exchanges less often, and hyc-compile --ranks %zu --machine FILE of hyc-bench looks for a "
               "better layout",
               waits * 100, kMostWaiting * 100, ranks_.size()));
  }

  double computingNs(size_t rank) const { return ranks_[rank].stepNs - ranks_[rank].withinNs - ranks_[rank].betweenNs; }

  // Ranks of one stage have the same to compute: the one that waits least is waited for.
  void warnOfSlowRanks(int stage) {
    const auto isOfStage = [&](size_t rank) { return coordinatesOf(mesh_, static_cast<int>(rank)).stage == stage; };
    std::vector<double> times;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (isOfStage(rank)) times.push_back(computingNs(rank));
    }
    if (times.size() < 2) return;
    // Of two the quicker one is the usual.
    const double usual = times.size() == 2 ? std::min(times[0], times[1]) : median(times);
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const double excess = computingNs(rank) - usual;
      if (!isOfStage(rank) || computingNs(rank) < kMostComputing * usual) continue;
      if (excess < kLeastExcess * ranks_[rank].stepNs) continue;
      slow_.push_back(static_cast<int>(rank));
      if (slow_.size() > kMostLines) continue;
      add("warning: rank " + std::to_string(rank) + " (" +
          describe(mesh_, coordinatesOf(mesh_, static_cast<int>(rank))) + ") on host '" + ranks_[rank].host + "'" +
          format(" computes for %.1f ms a step where others of its stage take %.1f ms: they wait for it",
                 computingNs(rank) * 1e-6, usual * 1e-6));
    }
  }

  void recordAll() {
    report_.records.push_back(ordered_json{
        {"event", kExchangesEvent},
        {"steps", steps_},
        {"step_ms", ranks_[0].stepNs * 1e-6},
        {"hosts", hosts_.size()},
        {"within", meanOf(&HostExchanges::within)},
        {"between", meanOf(&HostExchanges::between)},
        {"slow_ranks", slow_}}.dump());
  }

  const std::vector<RankExchanges>& ranks_;
  const Mesh& mesh_;
  const int64_t steps_;
  const std::vector<HostExchanges> hosts_;
  std::vector<int> slow_;
  TierReport report_;
};

// "communication: 1.2 of 8.1 ms a step exposed (14.8 %), …": of rank 0, beside what the plan expects of it.
std::string exposedLine(const RankExchanges& rank, const MeasuredSteps& steps) {
  const double waited = rank.withinNs + rank.betweenNs;
  std::string line =
      format("communication: %.1f of %.1f ms a step exposed (%.1f %%), %s", waited * 1e-6, rank.stepNs * 1e-6,
             waited / rank.stepNs * 100, steps.onOwnThread ? "on a thread of its own" : "on the computing thread");
  if (steps.estimate.milliseconds > 0) {
    line +=
        format("; the plan's estimate: %.1f %% of %.1f ms", steps.estimate.waiting * 100, steps.estimate.milliseconds);
  }
  return line;
}

// By rank: what each of them gives.
Status gather(Exchanger& exchanger, double own, double RankExchanges::* member, std::vector<RankExchanges>* ranks) {
  const Result<const uint64_t*> all = exchanger.share(static_cast<uint64_t>(std::max(own, 0.0)));
  if (!all.ok()) return all.status();
  for (size_t rank = 0; rank < ranks->size(); ++rank) (*ranks)[rank].*member = static_cast<double>((*all)[rank]);
  return {};
}

// Bytes a second of so many, or of fewer on a slow link. Where less lies there, it is fetched several times: short
// messages alone would tell of the way there and back.
Result<double> rateOfLink(HostExchanger& host, int from, int64_t bytes) {
  const Result<double> first = host.rateFrom(from, kLeastLinkBytes);  // warms the connection up
  if (!first.ok()) return first.status();
  bytes = std::clamp(static_cast<int64_t>(*first * kLinkSeconds), kLeastLinkBytes, bytes);
  double seconds = 0;
  int64_t fetched = 0;
  for (int64_t some = bytes; some >= kLeastLinkBytes && fetched < bytes;) {
    const Result<double> rate = host.rateFrom(from, some);
    if (!rate.ok()) return rate.status();
    if (*rate == 0) {
      some /= 2;
      continue;
    }
    seconds += static_cast<double>(some) / *rate;
    fetched += some;
  }
  return fetched == 0 ? *first : static_cast<double>(fetched) / seconds;
}

}  // namespace

TierReport describeTiers(const std::vector<RankExchanges>& ranks, const Mesh& mesh, int64_t steps) {
  return Describer(ranks, mesh, steps).run();
}

Status reportTiers(Exchanger& exchanger, const HostExchanger& host, const StepTimes& times, const MeasuredSteps& steps,
                   const Mesh& mesh, RunEvents& events) {
  const ExchangeCounts counts = times.counts(exchanger);
  if (exchanger.counts().waitedNs < 0) return {};  // hosts wait for none of them
  const double each = 1.0 / static_cast<double>(steps.count);
  const RankExchanges own{"",
                          static_cast<double>(times.nanoseconds()) * each,
                          static_cast<double>(counts.waitedNs - counts.betweenHostsNs) * each,
                          static_cast<double>(counts.betweenHostsNs) * each,
                          static_cast<double>(counts.receivedBytes) * each,
                          static_cast<double>(counts.receivingNs) * each,
                          steps.linkRate};
  std::vector<RankExchanges> ranks(static_cast<size_t>(rankCount(mesh)));
  for (double RankExchanges::* member :
       {&RankExchanges::stepNs, &RankExchanges::withinNs, &RankExchanges::betweenNs, &RankExchanges::receivedBytes,
        &RankExchanges::receivingNs, &RankExchanges::linkRate}) {
    HYCRT_RETURN_IF_ERROR(gather(exchanger, own.*member, member, &ranks));
  }
  if (host.rank() != 0) return {};
  events.note(exposedLine(own, steps));
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].host = host.hostOf(static_cast<int>(rank));
    if (ranks[rank].host.empty()) ranks[rank].host = machineName();
  }
  const TierReport report = describeTiers(ranks, mesh, steps.count);
  for (const std::string& line : report.lines) events.note(line);
  for (const std::string& record : report.records) HYCRT_RETURN_IF_ERROR(events.record(record));
  return {};
}

Result<double> measureLink(HostExchanger& host, int ranks) {
  std::vector<std::vector<int>> hosts;  // their ranks, each host by its lowest
  std::vector<std::string> names;
  size_t own = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string name = host.hostOf(rank);
    const size_t index = static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (index == names.size()) {
      names.push_back(name);
      hosts.emplace_back();
    }
    if (name.empty()) own = index;
    hosts[index].push_back(rank);
  }
  if (hosts.size() < 2) return 0.0;
  HYCRT_RETURN_IF_ERROR(host.barrier());
  const std::vector<int>&here = hosts[own], &next = hosts[(own + 1) % hosts.size()];
  const size_t place = static_cast<size_t>(std::find(here.begin(), here.end(), host.rank()) - here.begin());
  const int from = next[place % next.size()];
  Result<double> rate =
      rateOfLink(host, from, std::max(kLinkBytes / static_cast<int64_t>(here.size()), kLeastLinkBytes));
  if (!rate.ok()) return rate.status();
  HYCRT_RETURN_IF_ERROR(host.barrier());
  return rate;
}

}  // namespace hycrt
