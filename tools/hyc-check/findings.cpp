// One look after another at the reports.
#include "findings.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>

namespace hyccheck {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kFewDescriptors = 1024;
constexpr double kClockSeconds = 1;  // beyond which what hosts say cannot be put in order
constexpr double kOtherMemory = 0.9; // of the host that has most
constexpr size_t kMostNamed = 8;

// "'a', 'b' and 5 more"
std::string listed(const std::vector<std::string> &names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostNamed); ++i)
    text += (i ? ", '" : "'") + names[i] + "'";
  if (names.size() > kMostNamed)
    text += " and " + std::to_string(names.size() - kMostNamed) + " more";
  return text;
}

std::string gibibytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / kGiB);
  return text;
}

class Findings {
public:
  explicit Findings(const Inspection &inspection) : inspection_(inspection) {
    for (const HostReport &host : inspection.hosts) {
      if (host.error.empty())
        asked_.push_back(&host);
    }
  }

  std::vector<Finding> run() {
    lookForThoseWhoDidNotAnswer();
    lookForTools();
    lookAtReach();
    for (const HostReport *host : asked_)
      lookAtHost(*host);
    if (inspection_.hasHosts)
      compare();
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Finding &a, const Finding &b) { return a.weight > b.weight; });
    return std::move(found_);
  }

private:
  void problem(const std::string &text) { found_.push_back({Weight::kProblem, text}); }
  void note(const std::string &text) { found_.push_back({Weight::kNote, text}); }
  std::string at(const HostReport &host) const {
    return inspection_.hasHosts ? "host '" + host.host + "' " : "this machine ";
  }

  void lookForThoseWhoDidNotAnswer() {
    for (const HostReport &host : inspection_.hosts) {
      if (!host.error.empty())
        problem("host '" + host.host + "' " + host.error);
    }
  }

  // The first host's is what the others should have.
  void lookForTools() {
    std::vector<std::string> others;
    for (const HostReport *host : asked_) {
      if (host->facts.tool != asked_[0]->facts.tool)
        others.push_back(host->host);
    }
    if (others.empty())
      return;
    problem("hyc of " + listed(others) + " is another than that of '" + asked_[0]->host +
            "'; install one version on all hosts");
  }

  // A host that nobody reaches is one finding, and not one for each of the others.
  void lookAtReach() {
    std::map<std::string, std::vector<const Attempt *>> failed; // by the host that is not reached
    std::map<std::string, std::vector<std::string>> by;
    for (const HostReport *host : asked_) {
      if (!host->listenError.empty())
        problem(at(*host) + "cannot be reached by ranks: " + host->listenError);
      for (const Attempt &attempt : host->attempts) {
        if (attempt.error.empty())
          continue;
        failed[attempt.host].push_back(&attempt);
        by[attempt.host].push_back(host->host);
      }
    }
    for (const auto &[host, attempts] : failed) {
      problem("host '" + host + "' is not reached from " + listed(by[host]) + ": " + attempts[0]->error +
              "; name another network (--interface), or let its firewall pass a range and give that (--ports)");
    }
  }

  void lookAtHost(const HostReport &host) {
    const Facts &facts = host.facts;
    std::string left;
    for (const Process &process : facts.running) {
      if (process.isLeft)
        left += " " + std::to_string(process.pid);
    }
    if (!left.empty()) {
      problem(at(host) + "still runs ranks of an earlier run, which hold memory and devices; end them: kill" + left);
    }
    if (facts.descriptors >= 0 && facts.descriptors < kFewDescriptors) {
      note(at(host) + "allows " + std::to_string(facts.descriptors) +
           " open files a process; a rank needs a few for each "
           "rank that it exchanges with (ulimit -Hn, LimitNOFILE)");
    }
    for (const Disk &disk : facts.disks) {
      if (disk.total > 0 && disk.free < kGiB) {
        note(at(host) + "has " + gibibytes(disk.free) + " free in '" + disk.folder + "'");
      }
    }
    if (facts.available < facts.memory / 4) {
      note(at(host) + "has only " + gibibytes(facts.available) + " of its " + gibibytes(facts.memory) +
           " of memory available: others use the rest");
    }
    if (!facts.gpus.empty() && facts.nccl.empty()) {
      note(at(host) + "has GPUs and no libnccl.so.2: they exchange by way of the host (--comm shm)");
    }
  }

  // What has to be alike, and is not, with each value and who has it.
  void differ(const char *what, const std::function<std::string(const Facts &)> &of, const char *wayOut) {
    std::map<std::string, std::vector<std::string>> by;
    for (const HostReport *host : asked_)
      by[of(host->facts)].push_back(host->host);
    if (by.size() < 2)
      return;
    std::string text = std::string(what) + " differ: ";
    for (const auto &[value, hosts] : by) {
      text += (text.back() == ' ' ? "" : "; ") + (value.empty() ? std::string("none") : value) + " on " + listed(hosts);
    }
    note(text + wayOut);
  }

  void compare() {
    differ(
        "instruction sets",
        [](const Facts &facts) {
          std::string text;
          for (const std::string &set : facts.sets)
            text += (text.empty() ? "" : " ") + set;
          return text;
        },
        ". Programs use each host's own, and sums of different ones may differ in their last bits");
    differ(
        "GPUs", [](const Facts &facts) { return facts.gpus.empty() ? "" : facts.gpus[0]; },
        ". The slowest sets the pace, and one driver on all saves trouble");
    differ("versions of NCCL", [](const Facts &facts) { return facts.nccl; }, ". NCCL asks for one version");
    differ("cores", [](const Facts &facts) { return std::to_string(facts.cores); }, ". The slowest rank sets the pace");
    int64_t most = 0;
    for (const HostReport *host : asked_)
      most = std::max(most, host->facts.memory);
    for (const HostReport *host : asked_) {
      if (static_cast<double>(host->facts.memory) >= kOtherMemory * static_cast<double>(most))
        continue;
      note(at(*host) + "has " + gibibytes(host->facts.memory) + " of memory, another " + gibibytes(most));
    }
    for (const HostReport *host : asked_) {
      if (std::abs(host->clock) - host->clockError <= kClockSeconds)
        continue;
      char text[64];
      std::snprintf(text, sizeof text, "%.1f s %s", std::abs(host->clock), host->clock > 0 ? "ahead" : "behind");
      note(at(*host) + "has a clock that is " + text + ": lines of its logs cannot be put in order; set it by NTP");
    }
  }

  const Inspection &inspection_;
  std::vector<const HostReport *> asked_;
  std::vector<Finding> found_;
};

} // namespace

std::vector<Finding> findingsOf(const Inspection &inspection) { return Findings(inspection).run(); }

} // namespace hyccheck
