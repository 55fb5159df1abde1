// Pieces are dealt out one by one, as threads ask for them.
#include "base/work_by_threads.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "base/limits.h"

namespace hycrt {

Status forEachPiece(size_t count, size_t threads, const std::string& purpose, const WorkOnPiece& work) {
  std::atomic<size_t> next{0}, failed{count};
  std::mutex mutex;
  Status status;
  const auto run = [&] {
    std::vector<std::byte> staging;
    for (size_t piece = next++; piece < count && piece < failed; piece = next++) {
      Status own = work(piece, &staging);
      if (own.ok()) continue;
      const std::lock_guard<std::mutex> lock(mutex);
      if (piece < failed) failed = piece, status = std::move(own);
    }
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min(count, threads); ++i) {
    std::thread other;
    if (!startThread(purpose, run, &other).ok()) break;
    others.push_back(std::move(other));
  }
  run();
  for (std::thread& thread : others) thread.join();
  return status;
}

}  // namespace hycrt
