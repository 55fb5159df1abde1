// A hyc-run on each host that takes the folder (folder_copy.h), and what it asks for.
#include "copy_out.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <sstream>

#include "base/clock.h"
#include "base/file.h"
#include "folder_copy.h"
#include "hycrt/printable.h"
#include "rank_process.h"
#include "ssh.h"

namespace hycrun {
namespace {

using hycrt::Result;
using hycrt::Status;

constexpr int kPollMs = 200;
constexpr int64_t kTellEveryMs = 2000;
constexpr size_t kChunkBytes = 256 << 10;

std::string megabytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

// One host, and how far it is.
struct Taker {
  std::string host;
  RankProcess process;
  std::string outgoing;             // what is to be written next
  std::vector<size_t> wanted = {};  // files
  size_t next = 0;                  // of them
  hycrt::FileDescriptor file = {};  // the one that is being sent
  int64_t at = 0, sent = 0, all = 0;
  bool hasAnswered = false, isOver = false;
};

class CopyOut {
 public:
  CopyOut(FolderListing listing, const hycrt::RunOptions& options, Signals& signals, Report& report)
      : listing_(std::move(listing)), options_(options), signals_(signals), report_(report) {}
  ~CopyOut() {
    std::vector<RankProcess> all;
    for (Taker& taker : takers_) all.push_back(std::move(taker.process));
    for (size_t host : endAll(all)) all[host].abandon();
  }

  Result<RunEnd> run(const std::vector<Share>& shares) {
    for (const Share& share : shares) HYCRT_RETURN_IF_ERROR(start(share.host));
    toldMs_ = hycrt::monotonicMs();
    while (end_.status == 0 && !areAllOver()) {
      wait();
      takeSignals();
      for (Taker& taker : takers_) {
        HYCRT_RETURN_IF_ERROR(hear(taker));
        HYCRT_RETURN_IF_ERROR(feed(taker));
        lookForEnd(taker);
        if (end_.status != 0) return end_;
      }
      tellProgress();
    }
    if (end_.status == 0) tellWhoGotIt();
    return end_;
  }

 private:
  Status start(const std::string& host) {
    const std::string text = encodeListing(listing_);
    // It begins with something, so that the pipe is there; the rest follows as it can be taken.
    const size_t first = text.find('\n') + 1;
    Result<RankProcess> process =
        RankProcess::start(commandOn(host, options_.sshPort, kReceiveFlag, text.substr(0, first), signals_.former()));
    if (!process.ok()) return process.status();
    if (process->inputFd >= 0) fcntl(process->inputFd, F_SETFL, O_NONBLOCK);
    takers_.push_back({host, std::move(*process), text.substr(first)});
    return {};
  }

  bool areAllOver() const {
    return std::all_of(takers_.begin(), takers_.end(), [](const Taker& taker) { return taker.isOver; });
  }

  void wait() {
    std::vector<pollfd> polled{{signals_.fd(), POLLIN, 0}};
    for (const Taker& taker : takers_) {
      polled.push_back({taker.process.outputFd, POLLIN, 0});
      polled.push_back({taker.process.errorFd, POLLIN, 0});
      const bool hasMore = !taker.outgoing.empty() || taker.next < taker.wanted.size();
      if (hasMore) polled.push_back({taker.process.inputFd, POLLOUT, 0});
    }
    poll(polled.data(), polled.size(), kPollMs);
  }

  void takeSignals() {
    while (const int signal = signals_.take()) {
      if (signal == SIGCHLD || signal == SIGPIPE || signal == SIGUSR1 || signal == SIGUSR2) continue;
      const std::string name = Signals::nameOf(signal);
      report_.say("stopped by " + name + " before all hosts had '" + listing_.folder + "'");
      end_ = {128 + signal, RunEnd::How::kAsked, name};
    }
  }

  Status hear(Taker& taker) {
    std::vector<std::string> lines;
    RankProcess& process = taker.process;
    if (process.outputFd >= 0 && !process.output.read(process.outputFd, &lines)) closeAndForget(&process.outputFd);
    for (const std::string& line : lines) HYCRT_RETURN_IF_ERROR(take(taker, line));
    lines.clear();
    if (process.errorFd >= 0 && !process.errors.read(process.errorFd, &lines)) closeAndForget(&process.errorFd);
    for (const std::string& line : lines) {
      report_.clear();
      report_.print(stderr, taker.host + ": " + hycrt::printable(line) + "\n");
    }
    return {};
  }

  // What a shell of the user's prints of its own accord is none of the answers.
  Status take(Taker& taker, const std::string& line) {
    std::istringstream words(line);
    std::string answer;
    words >> answer;
    if (answer == "has" || answer == "done") taker.hasAnswered = taker.isOver = true;
    if (answer != "wants" || taker.hasAnswered) return {};
    taker.hasAnswered = true;
    for (size_t index = 0; words >> index;) {
      if (index >= listing_.files.size()) return hycrt::internalError("host '" + taker.host + "' asks for no file");
      taker.wanted.push_back(index);
      taker.all += listing_.files[index].bytes;
    }
    return {};
  }

  // As much as goes without waiting.
  Status feed(Taker& taker) {
    for (;;) {
      if (taker.outgoing.empty()) HYCRT_RETURN_IF_ERROR(readOn(taker));
      if (taker.outgoing.empty() || taker.process.inputFd < 0) return {};
      const ssize_t count = write(taker.process.inputFd, taker.outgoing.data(), taker.outgoing.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return {};
      if (count <= 0) {  // it is gone, which is seen elsewhere
        Signals::forgetBrokenPipe();
        closeAndForget(&taker.process.inputFd);
        return {};
      }
      if (taker.hasAnswered) taker.sent += count;
      taker.outgoing.erase(0, static_cast<size_t>(count));
    }
  }

  Status readOn(Taker& taker) {
    while (taker.outgoing.empty() && taker.next < taker.wanted.size()) {
      const CopiedFile& row = listing_.files[taker.wanted[taker.next]];
      const std::string path = listing_.folder + "/" + row.path;
      if (!taker.file.isOpen()) {
        Result<hycrt::FileDescriptor> file = hycrt::openForReading(path);
        if (!file.ok()) return file.status();
        taker.file = std::move(*file);
        taker.at = 0;
      }
      taker.outgoing.resize(std::min(kChunkBytes, static_cast<size_t>(row.bytes - taker.at)));
      HYCRT_RETURN_IF_ERROR(hycrt::readAt(taker.file, path, taker.outgoing.data(),
                                          static_cast<int64_t>(taker.outgoing.size()), taker.at));
      taker.at += static_cast<int64_t>(taker.outgoing.size());
      if (taker.at < row.bytes) continue;
      taker.file.reset(-1);
      ++taker.next;
    }
    return {};
  }

  void lookForEnd(Taker& taker) {
    RankEnd end;
    if (!taker.process.isRunning() || !taker.process.pollEnd(&end)) return;
    (void)hear(taker);  // what it has said at its end
    if (taker.isOver) return;
    const bool isLost = end.asExitStatus() == kSshFailed;
    const std::string how =
        isLost ? " cannot be reached by ssh, or its connection has ended"
               : " does not take the folder: hyc-run there ended with status " + std::to_string(end.asExitStatus());
    report_.say("host '" + taker.host + "'" + how);
    end_ = {isLost || !end.failed() ? static_cast<int>(hycrt::StatusCode::kUnavailable) : end.asExitStatus(),
            RunEnd::How::kFailed, "host '" + taker.host + "'" + how, taker.host, isLost};
  }

  void tellProgress() {
    if (hycrt::monotonicMs() - toldMs_ < kTellEveryMs) return;
    toldMs_ = hycrt::monotonicMs();
    int64_t sent = 0, all = 0;
    size_t waiting = 0;
    for (const Taker& taker : takers_) {
      sent += taker.sent;
      all += taker.all;
      waiting += !taker.isOver;
    }
    if (all == 0) return;
    report_.say("copying '" + listing_.folder + "': " + megabytes(sent) + " of " + megabytes(all) + ", " +
                std::to_string(waiting) + " of " + std::to_string(takers_.size()) + " hosts to go");
  }

  void tellWhoGotIt() {
    constexpr size_t kMostNamed = 8;
    std::string hosts;
    size_t count = 0;
    int64_t bytes = 0;
    for (const Taker& taker : takers_) {
      if (taker.wanted.empty()) continue;
      bytes += taker.sent;
      if (++count <= kMostNamed) hosts += (hosts.empty() ? "" : ", ") + taker.host;
    }
    if (count == 0) return;
    if (count > kMostNamed) hosts += " and " + std::to_string(count - kMostNamed) + " more";
    report_.say("copied '" + listing_.folder + "' to " + hosts + " (" + megabytes(bytes) + ")");
  }

  const FolderListing listing_;
  const hycrt::RunOptions& options_;
  Signals& signals_;
  Report& report_;
  std::vector<Taker> takers_;
  RunEnd end_;
  int64_t toldMs_ = 0;
};

}  // namespace

Result<RunEnd> copyOut(const hycrt::Manifest& manifest, const std::vector<Share>& shares,
                       const hycrt::RunOptions& options, Signals& signals, Report& report) {
  Result<FolderListing> listing = listFolder(manifest);
  if (!listing.ok()) return listing.status();
  return CopyOut(std::move(*listing), options, signals, report).run(shares);
}

}  // namespace hycrun
