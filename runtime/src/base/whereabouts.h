// Whereabouts: where this process' rank is, for whoever asks from another thread: what it is doing, its step and its
// instruction, and, where it waits, for whom. The rank leaves word in passing: a store each, and nothing is allocated.
//
// What it waits for only the waiting thread can put into words. It does so where somebody has asked: it looks ten times
// a second anyway (comm/patience.h).
#ifndef HYCRT_SRC_BASE_WHEREABOUTS_H_
#define HYCRT_SRC_BASE_WHEREABOUTS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

namespace hycrt {

class Whereabouts {
 public:
  static Whereabouts& ofProcess();

  void beRank(int rank) { rank_.store(rank, std::memory_order_relaxed); }
  int rank() const { return rank_.load(std::memory_order_relaxed); }  // -1: it does not know yet

  // The rank's own word. Text has to be a literal: it is kept as a pointer.
  void doing(const char* what);  // "meets the other ranks"; and no step is under way
  void beginStep(int64_t step, int64_t steps);
  void beginInstruction(const char* what, int64_t microBatch);  // microBatch -1: of none

  // On a thread that waits. An answer is asked for once.
  bool isAsked() const { return asked_.load(std::memory_order_relaxed); }
  void answer(std::string sentence);

  // On a thread of the asker's: "step 12 of 100, forward of micro-batch 3 for 1.2 s: waits …". Takes up to half a
  // second, in which a rank that waits may answer.
  std::string ask();

 private:
  std::string position() const;

  std::atomic<const char*> doing_{"starts"};
  std::atomic<const char*> instruction_{nullptr};
  std::atomic<int64_t> step_{-1}, steps_{0}, microBatch_{-1}, sinceMs_{0};
  std::atomic<int> rank_{-1};
  std::atomic<bool> asked_{false};
  std::mutex mutex_;
  std::condition_variable answered_;
  std::string answer_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_WHEREABOUTS_H_
