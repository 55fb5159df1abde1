// The rank's file on a disk: opened past the page cache, read and written by blocks.
#include "io/block_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <random>

#include "base/clock.h"
#include "base/file.h"
#include "io/io_engine.h"
#include "io/io_queue.h"

namespace hycrt {
namespace {

constexpr mode_t kOwnerOnly = 0600;
constexpr int kMostNames = 100;
constexpr int64_t kZeroFillBytes = 1 << 20;

double nowSeconds() { return static_cast<double>(monotonicNs()) * 1e-9; }

std::string inMiB(int64_t bytes) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

// Pages that end with their owner, aligned for transfers past the cache.
class AlignedBlock {
 public:
  explicit AlignedBlock(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    void* base = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    base_ = base == MAP_FAILED ? nullptr : base;
  }
  ~AlignedBlock() {
    if (base_) munmap(base_, bytes_);
  }
  AlignedBlock(const AlignedBlock&) = delete;
  AlignedBlock& operator=(const AlignedBlock&) = delete;
  void* get() const { return base_; }

 private:
  void* base_;
  size_t bytes_;
};

// Where a file system takes no fallocate, its blocks are reserved by writing them.
Status writeZeros(const FileDescriptor& file, const std::string& path, int64_t bytes) {
  const AlignedBlock zeros(kZeroFillBytes);
  if (!zeros.get()) return errnoError("cannot allocate a block of zeros", errno);
  for (int64_t done = 0; done < bytes; done += kZeroFillBytes) {
    HYCRT_RETURN_IF_ERROR(writeAt(file, path, zeros.get(), std::min(kZeroFillBytes, bytes - done), done));
  }
  return {};
}

std::string roomIn(const std::string& folder) {
  struct statfs info;
  if (statfs(folder.c_str(), &info) != 0) return "";
  return ", " + inMiB(static_cast<int64_t>(info.f_bavail) * info.f_bsize) + " are free";
}

struct OpenBlockFile {
  FileDescriptor file;
  std::string path;
  bool direct = true;
};

class Creation {
 public:
  explicit Creation(const BlockFileOptions& options, int64_t bytes) : options_(options), bytes_(bytes) {}

  Result<OpenBlockFile> run() {
    struct stat info;
    const std::string named = "--nvme-path '" + options_.folder + "'";
    if (stat(options_.folder.c_str(), &info) != 0) return usageError(named + ": no such folder");
    if (!S_ISDIR(info.st_mode)) return usageError(named + " is not a folder");
    OpenBlockFile made;
    made.direct = options_.cache == PageCache::kPassed;
    HYCRT_RETURN_IF_ERROR(open(made.direct ? O_DIRECT : 0, &made));
    unlink(made.path.c_str());
    HYCRT_RETURN_IF_ERROR(reserve(made));
    HYCRT_RETURN_IF_ERROR(tryOneBlock(&made));
    return made;
  }

 private:
  Status open(int direct, OpenBlockFile* made) {
    std::random_device random;
    for (int i = 0; i < kMostNames; ++i) {
      made->path = options_.folder + "/hyc-" + std::to_string(getpid()) + "-" + std::to_string(random()) + "-rank" +
                   std::to_string(options_.rank);
      const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
      made->file.reset(::open(made->path.c_str(), flags | direct, kOwnerOnly));
      // Some systems make the file and then refuse.
      if (!made->file.isOpen() && errno == EINVAL && direct) {
        unlink(made->path.c_str());
        made->direct = false;
        direct = 0;
        continue;
      }
      if (made->file.isOpen()) return {};
      if (errno != EEXIST) break;
    }
    return errnoError("cannot create '" + made->path + "' (rank " + std::to_string(options_.rank) + ")", errno);
  }

  // A disk without room says so now, and not in the middle of training.
  Status reserve(const OpenBlockFile& made) {
    // Asked first, since an attempt would take all the room that others are using before it fails.
    struct statfs info;
    if (fstatfs(made.file.get(), &info) == 0 && bytes_ / info.f_bsize > static_cast<int64_t>(info.f_bavail)) {
      return errnoError("cannot reserve '" + made.path + "'" + room(), ENOSPC);
    }
    int error = fallocate(made.file.get(), 0, 0, bytes_) == 0 ? 0 : errno;
    if (error == EOPNOTSUPP || error == ENOSYS) {
      const Status written = writeZeros(made.file, made.path, bytes_);
      if (written.ok()) return {};
      return ioError(written.message() + room());
    }
    if (error == 0) return {};
    return errnoError("cannot reserve '" + made.path + "'" + room(), error);
  }

  std::string room() const {
    return " (rank " + std::to_string(options_.rank) + "): " + inMiB(bytes_) + " needed" + roomIn(options_.folder);
  }

  // Some file systems open with O_DIRECT and refuse the first transfer. The block read is the file's first, still zero.
  Status tryOneBlock(OpenBlockFile* made) {
    if (!made->direct) return {};
    const AlignedBlock block(kBlockBytes);
    if (!block.get()) return errnoError("cannot allocate a block", errno);
    const bool works = pread(made->file.get(), block.get(), kBlockBytes, 0) == kBlockBytes &&
                       pwrite(made->file.get(), block.get(), kBlockBytes, 0) == kBlockBytes;
    if (works) return {};
    if (errno != EINVAL) return errnoError("cannot use '" + made->path + "'", errno);
    made->direct = false;
    const int flags = fcntl(made->file.get(), F_GETFL);
    if (fcntl(made->file.get(), F_SETFL, flags & ~O_DIRECT) != 0)
      return errnoError("cannot use '" + made->path + "'", errno);
    return {};
  }

  const BlockFileOptions& options_;
  const int64_t bytes_;
};

bool isMemory(const std::string& folder) {
  struct statfs info;
  return statfs(folder.c_str(), &info) == 0 && (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

}  // namespace

class BlockFile::State {
 public:
  State(const BlockFileOptions& options, OpenBlockFile made, int64_t bytes, IoFaults faults)
      : options_(options), made_(std::move(made)), bytes_(bytes), queue_(options.pieceBytes, std::move(faults)) {}

  Status startEngine() {
    std::string engine = "io_uring";
    Result<std::unique_ptr<IoEngine>> started = internalError("no engine");
    if (options_.engine != IoEngineKind::kThreads) {
      started = startUringEngine(made_.file.get(), &queue_, options_.queueDepth);
      if (!started.ok() && options_.engine == IoEngineKind::kUring) return started.status();
      if (!started.ok()) engine = std::to_string(options_.queueDepth) + " threads (" + started.status().message() + ")";
    } else {
      engine = std::to_string(options_.queueDepth) + " threads";
    }
    if (!started.ok()) started = startThreadEngine(made_.file.get(), &queue_, options_.queueDepth);
    if (!started.ok()) return started.status();
    engine_ = std::move(*started);
    description = "offload to '" + made_.path + "', " + inMiB(bytes_) + ", by " + engine +
                  (made_.direct ? ", past the page cache" : ", through the page cache (no O_DIRECT there)") +
                  (isMemory(options_.folder) ? "; this folder is in memory, so nothing is saved" : "");
    return {};
  }

  void hold(std::vector<FileRange> ranges) {
    const std::lock_guard<std::mutex> lock(holdMutex_);
    held_ = std::move(ranges);
    holds_ = !held_.empty();
  }

  // Ranges keep their places, so that nothing is allocated or moved; one that is empty holds nothing.
  void letGo(int64_t offset, bool all) {
    {
      const std::lock_guard<std::mutex> lock(holdMutex_);
      for (FileRange& range : held_) {
        if (all || range.offset == offset) range.bytes = 0;
      }
      holds_ = std::any_of(held_.begin(), held_.end(), [](const FileRange& range) { return range.bytes > 0; });
    }
    letGo_.notify_all();
  }

  double secondsHeldUp() {
    const std::lock_guard<std::mutex> lock(holdMutex_);
    return heldUp_;
  }

  IoTicket start(IoOperation operation, std::byte* memory, int64_t bytes, int64_t offset) {
    if (operation == IoOperation::kWrite && holds_) awaitLetGo({offset, bytes});
    const bool aligned =
        reinterpret_cast<uintptr_t>(memory) % kBlockBytes == 0 && bytes % kBlockBytes == 0 && offset % kBlockBytes == 0;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!aligned || bytes < 0 || offset < 0 || bytes > bytes_ || offset > bytes_ - bytes) {
      if (misuse_.ok()) {
        misuse_ = internalError("a transfer of " + std::to_string(bytes) + " bytes at offset " +
                                std::to_string(offset) + " of '" + made_.path + "' with " + std::to_string(bytes_) +
                                " bytes: expected multiples of " + std::to_string(kBlockBytes) + " inside the file");
      }
      return {};
    }
    (operation == IoOperation::kRead ? totals.bytesRead : totals.bytesWritten) += bytes;
    if (operation == IoOperation::kWrite) totals.writtenTo = std::max(totals.writtenTo, offset + bytes);
    return {queue_.start(operation, memory, bytes, offset)};
  }

  Status wait(IoTicket ticket) {
    const double begin = nowSeconds();
    while (ticket.sequence != 0 && !queue_.waitFor(ticket.sequence, options_.secondsToProgressLine)) {
      std::fprintf(stderr, "waiting for the disk of '%s' for %.0f s; %s of this transfer to go\n", made_.path.c_str(),
                   nowSeconds() - begin, inMiB(queue_.bytesLeft(ticket.sequence)).c_str());
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    totals.secondsWaited += nowSeconds() - begin;
    HYCRT_RETURN_IF_ERROR(misuse_);
    if (const std::optional<IoFailure> failure = queue_.failure()) return statusOf(*failure);
    return {};
  }

  int64_t failedOffset() {
    const std::optional<IoFailure> failure = queue_.failure();
    return failure ? failure->offset : -1;
  }

  int64_t fileBytes() const {
    struct stat info;
    return fstat(made_.file.get(), &info) == 0 ? static_cast<int64_t>(info.st_size) : 0;
  }

  std::string description;
  IoTotals totals;

 private:
  void awaitLetGo(const FileRange& written) {
    const auto isFree = [&] {
      return std::none_of(held_.begin(), held_.end(), [&](const FileRange& range) {
        return range.offset < written.offset + written.bytes && written.offset < range.offset + range.bytes;
      });
    };
    std::unique_lock<std::mutex> lock(holdMutex_);
    if (isFree()) return;
    const double begin = nowSeconds();
    letGo_.wait(lock, isFree);
    heldUp_ += nowSeconds() - begin;
  }

  Status statusOf(const IoFailure& failure) const {
    const std::string what = std::string("cannot ") + (failure.operation == IoOperation::kRead ? "read " : "write ") +
                             std::to_string(failure.bytes) + " bytes at offset " + std::to_string(failure.offset) +
                             " of '" + made_.path + "' (rank " + std::to_string(options_.rank) + ")";
    if (failure.error == 0) return ioError(what + ": the file ended before");
    return errnoError(what, failure.error);
  }

  const BlockFileOptions options_;
  OpenBlockFile made_;
  const int64_t bytes_;
  IoQueue queue_;
  std::mutex mutex_;  // of totals and misuse_
  Status misuse_;
  std::atomic<bool> holds_{false};
  std::mutex holdMutex_;  // of the three below
  std::condition_variable letGo_;
  std::vector<FileRange> held_;
  double heldUp_ = 0;
  std::unique_ptr<IoEngine> engine_;  // last: it ends before the queue and the file do
};

Result<std::unique_ptr<BlockFile>> BlockFile::create(const BlockFileOptions& options) {
  Result<IoFaults> faults = IoFaults::fromEnvironment(options.rank);
  if (!faults.ok()) return faults.status();
  const int64_t bytes = std::max<int64_t>((options.bytes + kBlockBytes - 1) / kBlockBytes, 1) * kBlockBytes;
  Result<OpenBlockFile> made = Creation(options, bytes).run();
  if (!made.ok()) return made.status();
  auto state = std::make_unique<State>(options, std::move(*made), bytes, std::move(*faults));
  HYCRT_RETURN_IF_ERROR(state->startEngine());
  return std::unique_ptr<BlockFile>(new BlockFile(std::move(state)));
}

BlockFile::BlockFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
BlockFile::~BlockFile() = default;

IoTicket BlockFile::startRead(std::byte* to, int64_t bytes, int64_t offset) {
  return state_->start(IoOperation::kRead, to, bytes, offset);
}

IoTicket BlockFile::startWrite(const std::byte* from, int64_t bytes, int64_t offset) {
  return state_->start(IoOperation::kWrite, const_cast<std::byte*>(from), bytes, offset);  // only read from
}

Status BlockFile::wait(IoTicket ticket) { return state_->wait(ticket); }
void BlockFile::hold(std::vector<FileRange> ranges) { state_->hold(std::move(ranges)); }
void BlockFile::letGo(int64_t offset) { state_->letGo(offset, /*all=*/false); }
void BlockFile::letGoOfAll() { state_->letGo(0, /*all=*/true); }
double BlockFile::secondsHeldUp() const { return state_->secondsHeldUp(); }
int64_t BlockFile::failedOffset() const { return state_->failedOffset(); }
const std::string& BlockFile::description() const { return state_->description; }
const IoTotals& BlockFile::totals() const { return state_->totals; }
int64_t BlockFile::fileBytes() const { return state_->fileBytes(); }

}  // namespace hycrt
