// Pieces carried out by a pool of threads, and what both engines do with a piece that is done in part.
#include "io/io_engine.h"

#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "io/block_file.h"

namespace hycrt {
namespace {

// A call that was interrupted, or that transferred less than a block, is tried again so many times without any
// progress.
constexpr int kMostTries = 64;

int64_t transferOnce(int fd, const PieceInProgress& piece) {
  const bool read = piece.piece().operation == IoOperation::kRead;
  const size_t bytes = static_cast<size_t>(piece.bytes());
  const ssize_t count =
      read ? pread(fd, piece.memory(), bytes, piece.offset()) : pwrite(fd, piece.memory(), bytes, piece.offset());
  return count < 0 ? -errno : count;
}

class ThreadEngine : public IoEngine {
 public:
  ThreadEngine(int fd, IoQueue* queue) : fd_(fd), queue_(queue) {}
  ~ThreadEngine() override {
    queue_->close();
    for (std::thread& thread : threads_) thread.join();
  }

  Status start(int threads) {
    // A signal to the process is the main thread's business.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    Status status;
    for (int i = 0; i < threads && status.ok(); ++i) {
      std::thread thread;
      status = startThread("the disk", [this] { work(); }, &thread);
      if (status.ok()) threads_.push_back(std::move(thread));
    }
    if (!threads_.empty()) status = Status();  // fewer will do
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return status;
  }

 private:
  void work() {
    while (const std::optional<IoPiece> piece = queue_->take()) transfer(PieceInProgress(*piece));
  }

  void transfer(PieceInProgress piece) {
    piece.delay();
    for (;;) {
      const int64_t result = piece.isFaulted() ? piece.faultedResult() : transferOnce(fd_, piece);
      switch (piece.advance(result)) {
        case PieceInProgress::Outcome::kAgain:
          break;
        case PieceInProgress::Outcome::kComplete:
          return queue_->complete(piece.piece());
        case PieceInProgress::Outcome::kFailed:
          return queue_->fail(piece.piece(), piece.error());
      }
    }
  }

  const int fd_;
  IoQueue* const queue_;
  std::vector<std::thread> threads_;
};

}  // namespace

int64_t PieceInProgress::bytes() const {
  const int64_t left = piece_.bytes - done_;
  if (tries_ > 0) return left;
  return std::min(left, std::max(piece_.fault.mostBytes / kBlockBytes, int64_t{1}) * kBlockBytes);
}

void PieceInProgress::delay() const {
  if (piece_.fault.delayMs == 0) return;
  const timespec time{piece_.fault.delayMs / 1000, piece_.fault.delayMs % 1000 * 1000000L};
  nanosleep(&time, nullptr);
}

PieceInProgress::Outcome PieceInProgress::advance(int64_t result) {
  ++tries_;
  const bool interrupted = result == -EINTR || result == -EAGAIN;
  // Past the cache a transfer begins at a block: what came of a part of one is transferred again.
  const int64_t progress = result >= piece_.bytes - done_ ? result : result / kBlockBytes * kBlockBytes;
  if (result > 0 && progress > 0) {
    done_ += progress;
    tries_ = 1;
    return done_ >= piece_.bytes ? Outcome::kComplete : Outcome::kAgain;
  }
  if ((interrupted || result > 0) && tries_ < kMostTries) return Outcome::kAgain;
  error_ = result < 0 ? static_cast<int>(-result) : result > 0 ? EIO : 0;
  return Outcome::kFailed;
}

Result<std::unique_ptr<IoEngine>> startThreadEngine(int fd, IoQueue* queue, int threads) {
  auto engine = std::make_unique<ThreadEngine>(fd, queue);
  HYCRT_RETURN_IF_ERROR(engine->start(threads));
  return std::unique_ptr<IoEngine>(std::move(engine));
}

}  // namespace hycrt
