// BlockFile: the file in which one rank keeps an arena that does not fit into memory. Reads and writes are started and
// waited for; between the two a thread of the file's own keeps the disk busy.
//
// The surprise: the file has no name. It is created exclusively, preallocated, and unlinked before the first byte is
// written, so that whatever ends the process gives the room back and no later run finds anything. The name that
// messages use is the one it had.
//
// Transfers go past the page cache (O_DIRECT), so addresses, offsets and sizes are multiples of kBlockBytes. A file
// system that refuses O_DIRECT is said so once, and used with its cache. Reads take turns with writes; two transfers
// whose ranges overlap, in the file or in memory, must not be under way together unless both only read from there.
//
// Any thread may start and wait. The first error sticks: every later wait returns it. Nothing is allocated after
// create, but by hold.
//
// What a reader still wants of the file can be held: a write that would go over it waits until it is let go, or until
// all is.
#ifndef HYCRT_SRC_IO_BLOCK_FILE_H_
#define HYCRT_SRC_IO_BLOCK_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hycrt/status.h"

namespace hycrt {

inline constexpr int64_t kBlockBytes = 4096;

enum class IoEngineKind {
  kAuto,     // io_uring where the system has it and allows it, else threads
  kUring,    // io_uring or an error
  kThreads,  // a pool of threads in pread and pwrite
};

enum class PageCache { kPassed, kUsed };

struct BlockFileOptions {
  std::string folder;
  int rank = 0;       // for messages and the name
  int64_t bytes = 0;  // rounded up to whole blocks
  IoEngineKind engine = IoEngineKind::kAuto;
  PageCache cache = PageCache::kPassed;  // kUsed: as where the file system refuses O_DIRECT
  int queueDepth = 16;                   // pieces under way at once
  int64_t pieceBytes = 1 << 20;          // a multiple of kBlockBytes
  double secondsToProgressLine = 10;     // of waiting for one transfer, and again after as long
};

// What a wait needs. A default one is complete.
struct IoTicket {
  uint64_t sequence = 0;
};

struct FileRange {
  int64_t offset = 0, bytes = 0;
};

struct IoTotals {
  int64_t bytesRead = 0;
  int64_t bytesWritten = 0;
  int64_t writtenTo = 0;     // the end of the last byte of the file that was written
  double secondsWaited = 0;  // inside wait, of all threads: what the disk cost beyond what work hid
};

class BlockFile {
 public:
  // Usage errors: no such folder, a fault specification that cannot be read (io_fault.h). I/O errors: no room, no
  // permission; the message names the folder, the bytes needed and those free.
  static Result<std::unique_ptr<BlockFile>> create(const BlockFileOptions& options);

  // Lets what is under way end, drops what was not begun.
  ~BlockFile();
  BlockFile(const BlockFile&) = delete;
  BlockFile& operator=(const BlockFile&) = delete;

  // `bytes` at `offset` of the file to or from memory, which must stay as it is until wait returns. Starting more than
  // a few hundred transfers without waiting blocks until the oldest is complete.
  IoTicket startRead(std::byte* to, int64_t bytes, int64_t offset);
  IoTicket startWrite(const std::byte* from, int64_t bytes, int64_t offset);
  Status wait(IoTicket ticket);

  // In place of what was held. Whoever holds lets go in the end, from another thread than those that write.
  void hold(std::vector<FileRange> ranges);
  void letGo(int64_t offset);  // the range that begins there
  void letGoOfAll();
  // That writes have waited for ranges that were held.
  double secondsHeldUp() const;

  // Where in the file the first failure was; -1: nowhere.
  int64_t failedOffset() const;

  // One line: engine, cache or not, the file, its size.
  const std::string& description() const;
  const IoTotals& totals() const;  // while nobody starts or waits
  // What the file system says that the file has.
  int64_t fileBytes() const;

 private:
  class State;
  explicit BlockFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_BLOCK_FILE_H_
