// When a wait has lasted too long, and in which words.
#include "comm/patience.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/clock.h"
#include "base/whereabouts.h"

namespace hycrt {
namespace {

constexpr int64_t kMostBetweenLooksMs = 1000;  // longer, and the process has been stopped itself
constexpr int64_t kSilentMs = 1000;            // five beats
constexpr int64_t kDistantlySilentMs = 800;    // of another host, of which nothing else may be known
constexpr int64_t kFirstNoteMs = 60000;        // the next ones after twice the time each
constexpr int64_t kSecondsLaterMs = 1000;      // how much later another than the first of the arrived speaks
constexpr size_t kMostNamed = 4;

std::string listOf(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

std::string seconds(int64_t milliseconds) {
  char text[32];
  std::snprintf(text, sizeof text, milliseconds % 1000 == 0 ? "%.0f s" : "%.1f s",
                static_cast<double>(milliseconds) / 1e3);
  return text;
}

bool holds(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

Patience::Patience(Transport& transport, const Mesh& mesh, int self, Options options)
    : transport_(transport), mesh_(mesh), self_(self), options_(std::move(options)) {
  const size_t ranks = static_cast<size_t>(rankCount(mesh));
  for (std::vector<int>* list : {&attendance_.arrived, &attendance_.missing, &awaited_}) list->reserve(ranks);
}

void Patience::begin() {
  lastLookMs_ = monotonicMs();
  waitedMs_ = 0;
  nextNoteMs_ = kFirstNoteMs;
  moves_ = 0;
  before_ = {};
}

void Patience::end() {
  if (toldThatItWaits_) transport_.signs(self_).waitsFor.store(0, std::memory_order_release);
  toldThatItWaits_ = false;
}

Status Patience::look(const Wait& wait) {
  const int64_t now = monotonicMs();
  const int64_t elapsed = std::min(now - lastLookMs_, kMostBetweenLooksMs);
  lastLookMs_ = now;
  attendance_.arrived.clear();
  attendance_.missing.clear();
  wait.attend(attendance_);
  const int first = attendance_.missing.empty() ? -1 : attendance_.missing.front();
  transport_.signs(self_).waitsFor.store(first + 1, std::memory_order_release);
  toldThatItWaits_ = first >= 0;
  follow();
  if (Whereabouts& whereabouts = Whereabouts::ofProcess(); whereabouts.isAsked()) {
    whereabouts.answer("in " + sentence(wait));
  }
  if (const uint64_t moves = sumOfMoves(); moves != moves_) {
    waitedMs_ = 0;
    nextNoteMs_ = kFirstNoteMs;
    before_ = {};
    moves_ = moves;
    return {};
  }
  waitedMs_ += elapsed;
  if (first >= 0 && before_.processId == 0 && waitedMs_ >= options_.limitMs / 2) before_ = transport_.look(first);
  if (options_.limitMs == 0 || waitedMs_ < options_.limitMs + delayMs()) {
    tell(wait);
    return {};
  }
  if (first >= 0) blamed_ = whomToBlame().front();
  const bool mayComeYet = first >= 0 && isSlow(blamed_);
  return unavailableError("waited " + seconds(options_.limitMs) + " (--exchange-timeout) in " + sentence(wait) +
                          (mayComeYet ? "; raise --exchange-timeout where it needs longer" : ""));
}

// A line as the wait goes on, by one of those that wait.
void Patience::tell(const Wait& wait) {
  if (!options_.note || waitedMs_ < nextNoteMs_) return;
  nextNoteMs_ *= 2;
  if (delayMs() > 0) return;
  options_.note("waiting for " + seconds(waitedMs_ / 1000 * 1000) + " in " + sentence(wait) +
                (options_.limitMs == 0
                     ? "; the run waits for ever (--exchange-timeout 0)"
                     : "; the run ends after " + seconds(options_.limitMs) + " (--exchange-timeout)"));
}

// A rank that is stopped as it waits has not taken back that it does.
bool Patience::waitsItself(int rank) const {
  const RankSigns& signs = transport_.signs(rank);
  return signs.waitsFor.load(std::memory_order_acquire) != 0 &&
         monotonicMs() - signs.beatMs.load(std::memory_order_acquire) < kSilentMs;
}

void Patience::follow() {
  awaited_.assign(attendance_.missing.begin(), attendance_.missing.end());
  for (size_t i = 0; i < awaited_.size(); ++i) {
    if (!waitsItself(awaited_[i])) continue;
    const int next = transport_.signs(awaited_[i]).waitsFor.load(std::memory_order_acquire) - 1;
    if (next >= 0 && next != self_ && !holds(awaited_, next)) awaited_.push_back(next);
  }
}

uint64_t Patience::sumOfMoves() const {
  uint64_t sum = 0;
  for (int rank : awaited_) {
    const RankSigns& signs = transport_.signs(rank);
    sum += signs.moved.load(std::memory_order_relaxed) + signs.heard.load(std::memory_order_relaxed);
  }
  return sum;
}

// How much later than the limit this rank speaks.
int64_t Patience::delayMs() const {
  const bool isDirect =
      attendance_.missing.empty() || !std::all_of(attendance_.missing.begin(), attendance_.missing.end(),
                                                  [this](int rank) { return waitsItself(rank); });
  if (!isDirect) return 2 * kSecondsLaterMs;
  return isFirstToSpeak() ? 0 : kSecondsLaterMs;
}

// Of all that wait for the same rank, in whichever exchange.
bool Patience::isFirstToSpeak() const {
  if (attendance_.missing.empty()) return attendance_.arrived.empty() || attendance_.arrived.front() == self_;
  for (int rank = 0; rank < self_; ++rank) {
    const int waitsFor = transport_.signs(rank).waitsFor.load(std::memory_order_acquire) - 1;
    if (waitsFor == attendance_.missing.front() && waitsItself(rank)) return false;
  }
  return true;
}

// "all_reduce 'x' (…) for rank 3 (pp 0, dp 1, tp 1), which is stopped …; arrived: ranks 0, 1, 2"
std::string Patience::sentence(const Wait& wait) const {
  std::string text = wait.what();
  if (attendance_.missing.empty()) return text + ", where every rank has arrived";
  const std::vector<int> blamed = whomToBlame();
  text += " for ";
  for (size_t i = 0; i < std::min(blamed.size(), kMostNamed); ++i) {
    text += (i > 0 ? ", and " : "") + describeMissing(blamed[i]);
  }
  if (blamed.size() > kMostNamed) text += ", and " + std::to_string(blamed.size() - kMostNamed) + " more";
  return text + "; arrived: " + listOf(attendance_.arrived);
}

// Those that wait themselves only where they do so in a circle.
std::vector<int> Patience::whomToBlame() const {
  std::vector<int> blamed;
  for (int rank : awaited_) {
    if (!waitsItself(rank)) blamed.push_back(rank);
  }
  if (blamed.empty()) blamed.push_back(attendance_.missing.front());
  return blamed;
}

std::string Patience::describeMissing(int rank) const {
  const bool hasCome = holds(attendance_.arrived, rank);
  const std::string elsewhere = transport_.hostOf(rank), &host = elsewhere.empty() ? options_.ownHost : elsewhere;
  std::string text = "rank " + std::to_string(rank) + " (" + describe(mesh_, coordinatesOf(mesh_, rank)) +
                     (host.empty() ? "" : ", on host '" + host + "'") + "), which ";
  if (hasCome) text += "has begun it, and ";
  if (!holds(attendance_.missing, rank)) text += listOf(attendance_.missing) + " wait for, and ";
  return text + conditionOf(rank);
}

// "is stopped by a signal (process 4711, state T)"
std::string Patience::conditionOf(int rank) const {
  const RankSigns& signs = transport_.signs(rank);
  const ProcessLook now = transport_.look(rank);
  const int64_t silentMs = monotonicMs() - signs.beatMs.load(std::memory_order_acquire);
  const int waitsFor = signs.waitsFor.load(std::memory_order_acquire);
  const std::string process = now.processId == 0 ? ""
                                                 : " (process " + std::to_string(now.processId) +
                                                       (now.state ? std::string(", state ") + now.state : "") + ")";
  const bool hangs = now.state == 'D' && before_.state == 'D' && before_.processId == now.processId &&
                     before_.switches == now.switches;
  if (now.state == 'T') return "is stopped by a signal" + process;
  if (now.state == 't') return "is stopped by a debugger" + process;
  if (hangs) return "is stopped: a disk or a network file system does not answer it" + process;
  if (silentMs >= kDistantlySilentMs && !transport_.hostOf(rank).empty()) {
    return "has given no sign of life for " + seconds(silentMs) + ": it is stopped, or its host or the network is down";
  }
  if (silentMs >= kSilentMs) return "is stopped: it has given no sign of life for " + seconds(silentMs) + process;
  if (waitsFor > 0) return "waits for rank " + std::to_string(waitsFor - 1) + " itself" + process;
  if (now.state == 'D') return "is slow: it waits for a disk or a network file system" + process;
  if (now.state == 'R') return "is slow: it computes" + process;
  return "is slow: it runs, and has not come so far" + process;
}

bool Patience::isSlow(int rank) const { return conditionOf(rank).compare(0, 7, "is slow") == 0; }

}  // namespace hycrt
