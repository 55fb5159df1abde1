// The words for it.
#include "base/whereabouts.h"

#include <chrono>
#include <cstdio>
#include <utility>

#include "base/clock.h"

namespace hycrt {

static constexpr std::chrono::milliseconds kPatience{500};

Whereabouts& Whereabouts::ofProcess() {
  static Whereabouts whereabouts;
  return whereabouts;
}

void Whereabouts::doing(const char* what) {
  step_.store(-1, std::memory_order_relaxed);
  instruction_.store(nullptr, std::memory_order_relaxed);
  doing_.store(what, std::memory_order_relaxed);
  sinceMs_.store(monotonicMs(), std::memory_order_relaxed);
}

void Whereabouts::beginStep(int64_t step, int64_t steps) {
  steps_.store(steps, std::memory_order_relaxed);
  step_.store(step, std::memory_order_relaxed);
  beginInstruction(nullptr, -1);
}

void Whereabouts::beginInstruction(const char* what, int64_t microBatch) {
  microBatch_.store(microBatch, std::memory_order_relaxed);
  instruction_.store(what, std::memory_order_relaxed);
  sinceMs_.store(monotonicMs(), std::memory_order_relaxed);
}

void Whereabouts::answer(std::string sentence) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!asked_.exchange(false)) return;
  answer_ = std::move(sentence);
  answered_.notify_all();
}

std::string Whereabouts::ask() {
  std::unique_lock<std::mutex> lock(mutex_);
  answer_.clear();
  asked_.store(true);
  answered_.wait_for(lock, kPatience, [this] { return !asked_.load(); });
  asked_.store(false);
  return position() + (answer_.empty() ? ": it waits for no rank" : ": it waits " + answer_);
}

std::string Whereabouts::position() const {
  const int64_t step = step_.load(std::memory_order_relaxed), microBatch = microBatch_.load(std::memory_order_relaxed);
  const char* const instruction = instruction_.load(std::memory_order_relaxed);
  std::string text = doing_.load(std::memory_order_relaxed);
  if (step >= 0) {
    text = "step " + std::to_string(step) + " of " + std::to_string(steps_.load(std::memory_order_relaxed));
    if (instruction) text += std::string(", ") + instruction;
    if (instruction && microBatch >= 0) text += " of micro-batch " + std::to_string(microBatch);
  }
  char since[32];
  std::snprintf(since, sizeof since, ", for %.1f s",
                static_cast<double>(monotonicMs() - sinceMs_.load(std::memory_order_relaxed)) * 1e-3);
  return text + since;
}

}  // namespace hycrt
