// Starting keepers by ssh, telling them of each other, and asking what they hold.
#include "copy_hosts.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "hycrt/printable.h"
#include "hycrt/token.h"
#include "ssh.h"

namespace hycrun {
namespace {

using hycrt::CopyHolding;
using hycrt::KeeperLine;
using hycrt::Result;
using hycrt::Status;

constexpr int kPollMs = 100;
constexpr int kGraceMs = 1000;        // from the end of its input to SIGKILL
constexpr int64_t kAnswerMs = 30000;  // longer than ssh takes to find out that a host is gone

}  // namespace

CopyHosts::CopyHosts(const hycrt::RunOptions& options, Signals& signals, Report& report)
    : options_(options),
      signals_(signals),
      report_(report),
      job_("hyc-" + hycrt::makeName()),
      token_(hycrt::makeToken()) {}

// They end when their input does.
CopyHosts::~CopyHosts() {
  std::vector<RankProcess> all;
  for (auto& [host, keeper] : keepers_) {
    closeAndForget(&keeper.process.inputFd);
    all.push_back(std::move(keeper.process));
  }
  waitForEnds(kGraceMs,
              [&] { return std::all_of(all.begin(), all.end(), [](RankProcess& process) { return process.reap(); }); });
  for (size_t host : endAll(all)) all[host].abandon();
}

Status CopyHosts::start(const std::string& host) {
  hycrt::KeeperTask task;
  task.job = job_;
  task.token = token_;
  task.number = numbers_++;
  task.plaintext = options_.plaintext;
  task.interface = options_.interface;
  task.ports = options_.ports;
  if (options_.exchangeTimeout > 0) task.patienceMs = std::min(task.patienceMs, options_.exchangeTimeout * 1000);
  Result<RankProcess> process = RankProcess::start(
      commandOn(host, options_.sshPort, kKeeperFlag, hycrt::encodeKeeperTask(task), signals_.former()));
  if (!process.ok()) return process.status();
  keepers_.emplace(host, Keeper{std::move(*process)});
  return {};
}

void CopyHosts::tell(Keeper& keeper, const std::string& line) {
  size_t told = 0;
  while (told < line.size()) {
    const ssize_t count = write(keeper.process.inputFd, line.data() + told, line.size() - told);
    if (count <= 0) return Signals::forgetBrokenPipe();  // it is gone, which is seen elsewhere
    told += static_cast<size_t>(count);
  }
}

void CopyHosts::hear(const std::string& host, Keeper& keeper) {
  std::vector<std::string> lines;
  if (keeper.process.outputFd >= 0 && !keeper.process.output.read(keeper.process.outputFd, &lines)) {
    closeAndForget(&keeper.process.outputFd);
  }
  if (!lines.empty()) keeper.heardMs = hycrt::monotonicMs();
  for (const std::string& line : lines) {
    CopyHolding holding;
    const KeeperLine kind = hycrt::parseHolding(line, &holding);
    if (kind == KeeperLine::kHolding) holdings_.push_back(std::move(holding));
    if (kind == KeeperLine::kLast) {
      keeper.hasListed = true;
      mostBytes_[host] = std::max(mostBytes_[host], holding.mostBytes);
    }
    if (kind == KeeperLine::kOther && hycrt::isReady(line, &keeper.address)) keeper.isReady = true;
  }
  lines.clear();
  if (keeper.process.errorFd >= 0 && !keeper.process.errors.read(keeper.process.errorFd, &lines)) {
    closeAndForget(&keeper.process.errorFd);
  }
  for (const std::string& line : lines) {
    report_.clear();
    report_.print(stderr, host + ": " + hycrt::printable(line) + "\n");
  }
}

template <typename IsEnough>
void CopyHosts::hearUntil(IsEnough isEnough) {
  const int64_t beginMs = hycrt::monotonicMs();
  const auto isOver = [&](const auto& row) {
    return isEnough(row.second) || hycrt::monotonicMs() - std::max(beginMs, row.second.heardMs) >= kAnswerMs;
  };
  while (!signals_.isEndPending()) {
    for (auto& [host, keeper] : keepers_) hear(host, keeper);
    dropGone();
    if (std::all_of(keepers_.begin(), keepers_.end(), isOver)) return;
    std::vector<pollfd> polled;
    addPolled(&polled);
    poll(polled.data(), polled.size(), kPollMs);
  }
}

void CopyHosts::dropGone() {
  for (auto keeper = keepers_.begin(); keeper != keepers_.end();) {
    RankEnd end;
    RankProcess& process = keeper->second.process;
    const bool isGone = !process.isRunning() || process.pollEnd(&end);
    if (isGone) hear(keeper->first, keeper->second);
    keeper = isGone ? keepers_.erase(keeper) : std::next(keeper);
  }
}

Result<std::string> CopyHosts::open(const std::vector<Share>& shares) {
  if (token_.empty()) return hycrt::unavailableError("--copy neighbour needs a token, and this hyc-run has no OpenSSL");
  dropGone();
  ring_.clear();
  for (const Share& share : shares) {
    ring_.push_back(share.host);
    if (keepers_.count(share.host) == 0) HYCRT_RETURN_IF_ERROR(start(share.host));
  }
  hearUntil([](const Keeper& keeper) { return keeper.isReady; });
  if (const std::string host = missing(); !host.empty()) {
    keepers_.erase(host);
    return host;
  }
  // A host that has no ranks any more may still hold what others need.
  for (auto& [host, keeper] : keepers_) {
    const auto place = std::find(ring_.begin(), ring_.end(), host);
    const std::string& after = place == ring_.end() ? "" : place + 1 == ring_.end() ? ring_.front() : *(place + 1);
    std::vector<hycrt::KeeperAddress> others;
    for (const auto& [name, other] : keepers_) {
      if (name != host) others.push_back(other.address);
    }
    tell(keeper, hycrt::encodeRing(after.empty() || after == host ? -1 : keepers_.at(after).address.number, others));
  }
  ask(hycrt::kAskForBytes);  // who answers has heard of the ring, too
  return missing();
}

std::string CopyHosts::missing() const {
  for (const std::string& host : ring_) {
    const auto keeper = keepers_.find(host);
    if (keeper == keepers_.end() || !keeper->second.isReady) return host;
  }
  return "";
}

void CopyHosts::ask(const char* what) {
  holdings_.clear();
  for (auto& [host, keeper] : keepers_) {
    keeper.hasListed = false;
    if (keeper.isReady) tell(keeper, what);
  }
  hearUntil([](const Keeper& keeper) { return keeper.hasListed; });
}

hycrt::CopyKey CopyHosts::newest(std::string* why) {
  ask(hycrt::kAskForHoldings);
  for (auto keeper = keepers_.begin(); keeper != keepers_.end();) {
    keeper = keeper->second.hasListed ? std::next(keeper) : keepers_.erase(keeper);
  }
  return hycrt::newestWholeCopy(holdings_, why);
}

CopyTask CopyHosts::taskFor(const std::string& host) const {
  const auto keeper = keepers_.find(host);
  if (keeper == keepers_.end()) return {};
  return {keeper->second.address.socket, hycrt::encodeCopyKey(resumed_), start_};
}

int CopyHosts::portAt(const std::string& host) const {
  const auto keeper = keepers_.find(host);
  return keeper == keepers_.end() ? 0 : keeper->second.address.port;
}

void CopyHosts::addPolled(std::vector<pollfd>* polled) const {
  for (const auto& [host, keeper] : keepers_) {
    polled->push_back({keeper.process.outputFd, POLLIN, 0});
    polled->push_back({keeper.process.errorFd, POLLIN, 0});
  }
}

std::string CopyHosts::takeLost() {
  for (auto& [host, keeper] : keepers_) hear(host, keeper);
  dropGone();
  return missing();
}

std::string CopyHosts::mostHeld() {
  ask(hycrt::kAskForBytes);
  std::string text;
  for (const auto& [host, bytes] : mostBytes_) {
    if (bytes == 0) continue;
    char size[32];
    std::snprintf(size, sizeof size, " %.1f MiB", static_cast<double>(bytes) / (1 << 20));
    text += (text.empty() ? "" : ", ") + host + size;
  }
  return text;
}

}  // namespace hycrun
