// A line of JSON each way: what is to be known, what the host is, then its clock as often as it is asked, then whom it
// reaches. As the input ends, so does the agent.
#include "inspection.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <functional>
#include <iostream>

#include "base/clock.h"
#include "hycrt/printable.h"
#include "rank_process.h"
#include "ssh.h"

namespace hyccheck {
namespace {

using hycrt::Result;
using hycrt::Status;
using nlohmann::json;

constexpr int kVersion = 1;
constexpr int kClockRounds = 7;
constexpr double kConnectSeconds = 40; // ssh's own patience is half of it
constexpr double kAnswerSeconds = 10;
constexpr int kPollMs = 50;
constexpr int kNoSuchProgram = 127;
constexpr size_t kMostLines = 1000;

double nowSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string folderHere() {
  std::error_code ignored;
  return std::filesystem::current_path(ignored).string();
}

// One host and what is said with it.
class Conversation {
public:
  Conversation(const hycrun::Host &host) {
    report.host = host.name;
    report.slots = static_cast<int>(host.slots.size());
  }

  void start(const CheckOptions &options, const std::string &master) {
    const json task = {{"agent", kVersion},
                       {"master", master},
                       {"interface", options.network.interface},
                       {"low_port", options.network.lowPort},
                       {"high_port", options.network.highPort},
                       {"folder", folderHere()}};
    Result<hycrun::RankProcess> started = hycrun::RankProcess::start(hycrun::commandOn(
        report.host, options.sshPort, hycrun::kAgentFlag, task.dump() + "\n", hycrun::currentSignals()));
    if (!started.ok())
      return fail(started.status().message());
    process_ = std::make_unique<hycrun::RankProcess>(std::move(*started));
  }

  bool isAsked() const { return report.error.empty(); }

  void say(const json &line) {
    const std::string text = line.dump() + "\n";
    size_t written = 0;
    while (isAsked() && written < text.size()) {
      const ssize_t count = write(process_->inputFd, text.data() + written, text.size() - written);
      if (count < 0 && errno == EINTR)
        continue;
      pollfd polled{process_->inputFd, POLLOUT, 0};
      if (count < 0 && errno == EAGAIN && poll(&polled, 1, static_cast<int>(kAnswerSeconds * 1000)) > 0)
        continue;
      if (count <= 0)
        return fail("does not listen any more");
      written += static_cast<size_t>(count);
    }
  }

  // Takes what is there; whether a line of it waits.
  bool hasAnswer() {
    if (!isAsked())
      return false;
    listen();
    if (!answers_.empty())
      return true;
    hycrun::RankEnd end;
    if (process_->pollEnd(&end)) {
      listen();
      if (answers_.empty())
        fail(describe(end));
    }
    return !answers_.empty();
  }

  // That line. One that is no answer of a hyc-check's is the last that is asked for.
  void takeAnswer(const std::function<void(Conversation &, const json &)> &take) {
    const std::string text = answers_.front();
    answers_.pop_front();
    try {
      const json answer = json::parse(text);
      if (answer.is_object())
        return take(*this, answer);
    } catch (const json::exception &) {
      // said below
    }
    fail("says '" + hycrt::printable(text.substr(0, 200)) +
         "', expected what a hyc-check says; is its shell's start file silent?");
  }

  void fail(const std::string &why) {
    if (report.error.empty())
      report.error = why;
  }

  void end() {
    if (process_)
      hycrun::closeAndForget(&process_->inputFd);
  }

  std::unique_ptr<hycrun::RankProcess> release() { return std::move(process_); }
  int outputFd() const { return process_ ? process_->outputFd : -1; }

  HostReport report;
  Meeting meeting;

private:
  void listen() {
    std::vector<std::string> told, said;
    hycrun::RankProcess &one = *process_;
    if (one.outputFd >= 0 && !one.output.read(one.outputFd, &told))
      hycrun::closeAndForget(&one.outputFd);
    if (one.errorFd >= 0 && !one.errors.read(one.errorFd, &said))
      hycrun::closeAndForget(&one.errorFd);
    for (const std::string &line : told) {
      if (answers_.size() < kMostLines)
        answers_.push_back(line);
    }
    if (!said.empty())
      lastError_ = hycrt::printable(said.back());
  }

  std::string describe(const hycrun::RankEnd &end) const {
    const std::string own = lastError_.empty() ? "" : ": " + lastError_;
    if (end.asExitStatus() == hycrun::kSshFailed)
      return "cannot be reached by ssh" + own;
    if (end.asExitStatus() == kNoSuchProgram) {
      return "has no " + hycrun::absolutePath("/proc/self/exe") + "; install the same hyc there, at the same place" +
             own;
    }
    return "ended with status " + std::to_string(end.asExitStatus()) + own;
  }

  std::unique_ptr<hycrun::RankProcess> process_;
  std::deque<std::string> answers_;
  std::string lastError_;
};

using Conversations = std::vector<std::unique_ptr<Conversation>>;

// An answer of each, taken as it comes; who gives none in time is asked no more.
void gather(const Conversations &all, double seconds, const std::function<void(Conversation &, const json &)> &take) {
  std::vector<Conversation *> awaited;
  for (const auto &one : all) {
    if (one->isAsked())
      awaited.push_back(one.get());
  }
  const int64_t deadline = hycrt::monotonicMs() + static_cast<int64_t>(seconds * 1000);
  while (!awaited.empty() && hycrt::monotonicMs() < deadline) {
    std::vector<pollfd> polled;
    for (const Conversation *one : awaited)
      polled.push_back({one->outputFd(), POLLIN, 0});
    poll(polled.data(), polled.size(), kPollMs);
    const auto isDone = [&](Conversation *one) {
      if (!one->hasAnswer())
        return !one->isAsked();
      one->takeAnswer(take);
      return true;
    };
    awaited.erase(std::remove_if(awaited.begin(), awaited.end(), isDone), awaited.end());
  }
  for (Conversation *one : awaited) {
    one->fail("has not answered within " + std::to_string(static_cast<int>(seconds)) + " s");
  }
}

void takeFacts(Conversation &one, const json &answer) {
  if (answer.value("agent", 0) != kVersion) {
    return one.fail("has a hyc-check of another version; install the same hyc there");
  }
  Result<Facts> facts = factsFrom(answer.value("facts", json::object()));
  if (!facts.ok())
    return one.fail(facts.status().message());
  one.report.facts = std::move(*facts);
  one.report.listenError = answer.value("listen_error", "");
  one.meeting = {one.report.host, answer.value("address", ""), answer.value("port", 0), answer.value("word", "")};
}

// Of several rounds the shortest says most: the other clock was read somewhere between this one's two readings.
void compareClock(Conversation &one) {
  double best = INFINITY;
  for (int round = 0; round < kClockRounds && one.isAsked(); ++round) {
    const int64_t deadline = hycrt::monotonicMs() + static_cast<int64_t>(kAnswerSeconds * 1000);
    const double begin = nowSeconds();
    one.say({{"clock", true}});
    while (!one.hasAnswer() && one.isAsked()) {
      pollfd polled{one.outputFd(), POLLIN, 0};
      poll(&polled, 1, kPollMs);
      if (hycrt::monotonicMs() > deadline)
        one.fail("has not answered within 10 s");
    }
    if (!one.isAsked())
      return;
    const double end = nowSeconds();
    one.takeAnswer([&](Conversation &, const json &answer) {
      if (end - begin >= best)
        return;
      best = end - begin;
      one.report.clock = answer.value("clock", 0.0) - (begin + end) / 2;
      one.report.clockError = best / 2;
    });
  }
}

void askWhomTheyReach(const Conversations &all, double seconds) {
  for (const auto &one : all) {
    json others = json::array();
    for (const auto &other : all) {
      if (other == one || !other->isAsked() || other->meeting.port == 0)
        continue;
      const Meeting &at = other->meeting;
      others.push_back({{"host", at.host}, {"address", at.address}, {"port", at.port}, {"word", at.word}});
    }
    if (one->isAsked())
      one->say({{"reach", others}, {"seconds", seconds}});
  }
  // Behind those that are tried at once come others.
  const double rounds = std::ceil(static_cast<double>(all.size()) / 32);
  gather(all, seconds * rounds + kAnswerSeconds, [](Conversation &one, const json &answer) {
    for (const json &row : answer.value("reached", json::array())) {
      one.report.attempts.push_back({row.value("host", ""), row.value("address", ""), row.value("port", 0),
                                     row.value("milliseconds", 0.0), hycrt::printable(row.value("error", ""))});
    }
  });
}

void endAll(const Conversations &all) {
  std::vector<hycrun::RankProcess> processes;
  for (const auto &one : all) {
    one->end();
    if (std::unique_ptr<hycrun::RankProcess> process = one->release())
      processes.push_back(std::move(*process));
  }
  for (size_t left : hycrun::endAll(processes))
    processes[left].abandon();
}

// The agent's side of a line.
json answerTo(const json &asked) {
  if (asked.contains("clock"))
    return {{"clock", nowSeconds()}};
  std::vector<Meeting> others;
  for (const json &row : asked.value("reach", json::array())) {
    others.push_back({row.value("host", ""), row.value("address", ""), row.value("port", 0), row.value("word", "")});
  }
  json rows = json::array();
  for (const Attempt &attempt : tryAll(others, asked.value("seconds", 5.0))) {
    rows.push_back({{"host", attempt.host},
                    {"address", attempt.address},
                    {"port", attempt.port},
                    {"milliseconds", attempt.milliseconds},
                    {"error", attempt.error}});
  }
  return {{"reached", rows}};
}

void tell(const json &line) {
  std::printf("%s\n", line.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
  std::fflush(stdout);
}

} // namespace

Inspection inspectHere() {
  Inspection inspection;
  HostReport here;
  here.facts = collectFacts(folderHere());
  here.host = here.facts.name;
  inspection.hosts.push_back(std::move(here));
  return inspection;
}

Result<Inspection> inspectHosts(const CheckOptions &options, const std::vector<hycrun::Host> &hosts) {
  signal(SIGPIPE, SIG_IGN);
  if (hosts.empty())
    return hycrt::usageError("no host is left to check");
  Conversations all;
  for (const hycrun::Host &host : hosts) {
    all.push_back(std::make_unique<Conversation>(host));
    all.back()->start(options, hosts[0].name);
  }
  gather(all, kConnectSeconds, takeFacts);
  for (const auto &one : all)
    compareClock(*one);
  askWhomTheyReach(all, options.seconds);
  endAll(all);
  Inspection inspection;
  inspection.hasHosts = true;
  for (const auto &one : all)
    inspection.hosts.push_back(std::move(one->report));
  return inspection;
}

int runAsAgent() {
  std::string line;
  json task = std::getline(std::cin, line) ? json::parse(line, nullptr, false) : json();
  if (!task.is_object() || task.value("agent", 0) != kVersion) {
    std::fprintf(stderr, "hyc-check: error: --agent is for hyc-check itself, which starts it on other hosts\n");
    return static_cast<int>(hycrt::StatusCode::kUsage);
  }
  hycrt::NetworkOptions network;
  network.interface = task.value("interface", "");
  network.lowPort = task.value("low_port", 0);
  network.highPort = task.value("high_port", 0);
  const std::string folder = task.value("folder", "/");
  std::error_code ignored;
  json answer = {{"agent", kVersion},
                 {"facts", toJson(collectFacts(std::filesystem::exists(folder, ignored) ? folder : "/"))}};
  const Result<std::unique_ptr<Listener>> listener = Listener::open(task.value("master", ""), network);
  if (listener.ok()) {
    const Meeting &where = (*listener)->where();
    answer.update({{"address", where.address}, {"port", where.port}, {"word", where.word}});
  } else {
    answer["listen_error"] = listener.status().message();
  }
  tell(answer);
  while (std::getline(std::cin, line)) {
    const json asked = json::parse(line, nullptr, false);
    if (!asked.is_object())
      return static_cast<int>(hycrt::StatusCode::kUsage);
    tell(answerTo(asked));
  }
  return 0;
}

} // namespace hyccheck
