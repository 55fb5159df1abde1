// The io_uring engine: one thread fills the ring up to its depth, sleeps until something is complete, and goes on. New
// transfers that arrive while it sleeps begin with the next completion, which a busy disk has every millisecond.
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/limits.h"
#include "io/io_engine.h"

#ifdef HYCRT_HAS_URING
#include <liburing.h>
#include <signal.h>

#include <thread>
#include <vector>
#endif

namespace hycrt {

#ifdef HYCRT_HAS_URING
namespace {

class UringEngine : public IoEngine {
 public:
  UringEngine(int fd, IoQueue* queue, int depth) : fd_(fd), queue_(queue), pieces_(static_cast<size_t>(depth)) {
    for (size_t i = 0; i < pieces_.size(); ++i) free_.push_back(pieces_.size() - 1 - i);
  }
  ~UringEngine() override {
    queue_->close();
    if (thread_.joinable()) thread_.join();
    if (isOpen_) io_uring_queue_exit(&ring_);
  }

  Status start() {
    if (const int error = io_uring_queue_init(static_cast<unsigned>(pieces_.size()), &ring_, 0)) {
      const char* why = error == -ENOSYS                      ? "this system has no io_uring"
                        : error == -EPERM || error == -EACCES ? "io_uring is forbidden here"
                                                              : std::strerror(-error);
      return unavailableError(why);
    }
    isOpen_ = true;
    if (!canReadAndWrite()) return unavailableError("this system's io_uring cannot read and write");
    return startThread();
  }

 private:
  bool canReadAndWrite() {
    io_uring_probe* probe = io_uring_get_probe_ring(&ring_);
    const bool can =
        probe && io_uring_opcode_supported(probe, IORING_OP_READ) && io_uring_opcode_supported(probe, IORING_OP_WRITE);
    if (probe) io_uring_free_probe(probe);
    return can;
  }

  Status startThread() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    Status status = hycrt::startThread("the disk", [this] { work(); }, &thread_);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return status;
  }

  void work() {
    for (;;) {
      if (!fill()) return;
      const int submitted = io_uring_submit_and_wait(&ring_, 1);
      // Nothing that was put into the ring is lost by an interruption: the next call submits it.
      if (submitted < 0 && submitted != -EINTR && submitted != -EAGAIN && submitted != -EBUSY) {
        return failAll(-submitted);
      }
      reap();
    }
  }

  // Puts as many pieces under way as there is room for; sleeps while there is nothing at all to do. False: closed.
  bool fill() {
    while (!free_.empty()) {
      const bool idle = free_.size() == pieces_.size();
      const std::optional<IoPiece> piece = idle ? queue_->take() : queue_->tryTake();
      if (!piece) return !idle;
      const size_t slot = free_.back();
      free_.pop_back();
      pieces_[slot] = PieceInProgress(*piece);
      pieces_[slot].delay();
      submit(slot);
    }
    return true;
  }

  void submit(size_t slot) {
    const PieceInProgress& piece = pieces_[slot];
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);  // there are as many as pieces, so never null
    const unsigned bytes = static_cast<unsigned>(piece.bytes());
    if (piece.isFaulted()) {
      io_uring_prep_nop(entry);
    } else if (piece.piece().operation == IoOperation::kRead) {
      io_uring_prep_read(entry, fd_, piece.memory(), bytes, static_cast<uint64_t>(piece.offset()));
    } else {
      io_uring_prep_write(entry, fd_, piece.memory(), bytes, static_cast<uint64_t>(piece.offset()));
    }
    entry->user_data = slot;
  }

  void reap() {
    io_uring_cqe* entry = nullptr;
    while (io_uring_peek_cqe(&ring_, &entry) == 0) {
      const size_t slot = entry->user_data;
      const int64_t result = entry->res;
      io_uring_cqe_seen(&ring_, entry);
      PieceInProgress& piece = pieces_[slot];
      switch (piece.advance(piece.isFaulted() ? piece.faultedResult() : result)) {
        case PieceInProgress::Outcome::kAgain:
          submit(slot);
          continue;
        case PieceInProgress::Outcome::kComplete:
          queue_->complete(piece.piece());
          break;
        case PieceInProgress::Outcome::kFailed:
          queue_->fail(piece.piece(), piece.error());
          break;
      }
      piece = PieceInProgress();
      free_.push_back(slot);
    }
  }

  // The ring itself is broken. Closing it (in the destructor) cancels what is under way.
  void failAll(int error) {
    for (size_t slot = 0; slot < pieces_.size(); ++slot) {
      if (pieces_[slot].piece().bytes > 0) queue_->fail(pieces_[slot].piece(), error);
    }
  }

  const int fd_;
  IoQueue* const queue_;
  std::vector<PieceInProgress> pieces_;  // by slot
  std::vector<size_t> free_;
  io_uring ring_{};
  bool isOpen_ = false;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<IoEngine>> startUringEngine(int fd, IoQueue* queue, int depth) {
  auto engine = std::make_unique<UringEngine>(fd, queue, depth);
  HYCRT_RETURN_IF_ERROR(engine->start());
  return std::unique_ptr<IoEngine>(std::move(engine));
}

#else

Result<std::unique_ptr<IoEngine>> startUringEngine(int, IoQueue*, int) {
  return unavailableError("built without liburing");
}

#endif

}  // namespace hycrt
