// The rank's file on a disk, under both engines: what is written is read back, and what happens where the disk fails.
#include "io/block_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <vector>

#include "io/io_fault.h"
#include "temporary_folder.h"

namespace hycrt {
namespace {

using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

// Bytes aligned to a block, filled with a sequence that its seed names.
class Blocks {
 public:
  explicit Blocks(int64_t bytes, uint32_t seed = 0) : bytes_(bytes) {
    memory_ = static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, static_cast<size_t>(bytes)));
    std::mt19937 random(seed);
    for (int64_t i = 0; i < bytes; ++i) memory_[i] = seed ? static_cast<std::byte>(random()) : std::byte{0x5a};
  }
  ~Blocks() { std::free(memory_); }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;
  std::byte* data() const { return memory_; }
  int64_t bytes() const { return bytes_; }
  bool operator==(const Blocks& other) const {
    return bytes_ == other.bytes_ && std::memcmp(memory_, other.memory_, static_cast<size_t>(bytes_)) == 0;
  }

 private:
  int64_t bytes_;
  std::byte* memory_;
};

class ScopedFault {
 public:
  explicit ScopedFault(const std::string& text) { setenv("HYC_IO_FAULT", text.c_str(), 1); }
  ~ScopedFault() { unsetenv("HYC_IO_FAULT"); }
};

constexpr int64_t kPiece = 4 * kBlockBytes;  // small, so that a transfer has many
constexpr int64_t kFileBytes = 64 * kPiece;

class BlockFileUnderEngine : public testing::TestWithParam<IoEngineKind> {
 protected:
  BlockFileOptions options(int64_t bytes = kFileBytes) const {
    BlockFileOptions options;
    options.folder = folder_.path();
    options.rank = 3;
    options.bytes = bytes;
    options.engine = GetParam();
    options.queueDepth = 4;
    options.pieceBytes = kPiece;
    return options;
  }

  std::unique_ptr<BlockFile> create(int64_t bytes = kFileBytes) const {
    Result<std::unique_ptr<BlockFile>> file = BlockFile::create(options(bytes));
    EXPECT_TRUE(file.ok()) << file.status().message();
    return file.ok() ? std::move(*file) : nullptr;
  }

  void SetUp() override {
    if (GetParam() != IoEngineKind::kUring) return;
    Result<std::unique_ptr<BlockFile>> file = BlockFile::create(options());
    if (!file.ok() && file.status().code() == StatusCode::kUnavailable) GTEST_SKIP() << file.status().message();
  }

  bool folderIsEmpty() const { return std::filesystem::is_empty(folder_.path()); }

  // Writes the whole file and reads it back; the first error.
  Status roundTrip(BlockFile& file, bool* same) const {
    const Blocks written(kFileBytes, 7), read(kFileBytes);
    HYCRT_RETURN_IF_ERROR(file.wait(file.startWrite(written.data(), kFileBytes, 0)));
    HYCRT_RETURN_IF_ERROR(file.wait(file.startRead(read.data(), kFileBytes, 0)));
    *same = written == read;
    return {};
  }

  void expectFailure(const std::string& fault, const std::string& message) const {
    const ScopedFault injected(fault);
    const std::unique_ptr<BlockFile> file = create();
    bool same = false;
    const Status status = roundTrip(*file, &same);
    EXPECT_EQ(status.exitCode(), 74);
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("'" + folder_.path() + "/hyc-"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("(rank 3)"), std::string::npos) << status.message();
  }

  TemporaryFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Both, BlockFileUnderEngine, testing::Values(IoEngineKind::kUring, IoEngineKind::kThreads),
                         [](const auto& info) {
                           return info.param == IoEngineKind::kUring ? std::string("Uring") : std::string("Threads");
                         });

TEST_P(BlockFileUnderEngine, StartsAsZeros) {
  const std::unique_ptr<BlockFile> file = create();
  const Blocks read(kFileBytes), zeros(kFileBytes);
  std::memset(zeros.data(), 0, static_cast<size_t>(kFileBytes));
  ASSERT_TRUE(file->wait(file->startRead(read.data(), kFileBytes, 0)).ok());
  EXPECT_TRUE(read == zeros);
}

// Ranges of all sizes, written in another order than they are read, many under way at once.
TEST_P(BlockFileUnderEngine, GivesBackWhatWasWritten) {
  const std::unique_ptr<BlockFile> file = create();
  const Blocks written(kFileBytes, 1), read(kFileBytes);
  std::vector<std::pair<int64_t, int64_t>> ranges;
  std::mt19937 random(5);
  for (int64_t begin = 0; begin < kFileBytes;) {
    const int64_t bytes = std::min<int64_t>(static_cast<int64_t>(random() % 11 + 1) * kBlockBytes, kFileBytes - begin);
    ranges.push_back({begin, bytes});
    begin += bytes;
  }
  const auto transferAll = [&](auto start) {
    std::shuffle(ranges.begin(), ranges.end(), random);
    std::vector<IoTicket> tickets;
    for (const auto& [begin, bytes] : ranges) tickets.push_back(start(begin, bytes));
    for (const IoTicket& ticket : tickets) ASSERT_TRUE(file->wait(ticket).ok());
  };
  transferAll([&](int64_t begin, int64_t bytes) { return file->startWrite(written.data() + begin, bytes, begin); });
  transferAll([&](int64_t begin, int64_t bytes) { return file->startRead(read.data() + begin, bytes, begin); });
  EXPECT_TRUE(read == written);
  EXPECT_EQ(file->totals().bytesRead, kFileBytes);
  EXPECT_EQ(file->totals().bytesWritten, kFileBytes);
}

TEST_P(BlockFileUnderEngine, TakesMoreTransfersThanItHasRoomFor) {
  const std::unique_ptr<BlockFile> file = create();
  const Blocks written(kFileBytes, 2), read(kFileBytes);
  IoTicket last;
  for (int round = 0; round < 4; ++round) {
    for (int64_t begin = 0; begin < kFileBytes; begin += kBlockBytes) {
      last = file->startWrite(written.data() + begin, kBlockBytes, begin);
    }
    ASSERT_TRUE(file->wait(last).ok());
  }
  // Waiting for the last says nothing about the others, which are complete when the reads of their blocks come last.
  std::vector<IoTicket> tickets;
  ASSERT_TRUE(file->wait(file->startRead(read.data(), kFileBytes, 0)).ok());
  ASSERT_TRUE(file->wait(file->startRead(read.data(), kFileBytes, 0)).ok());
  EXPECT_TRUE(read == written);
}

TEST_P(BlockFileUnderEngine, GivesBackWhatWasWrittenThroughThePageCache) {
  BlockFileOptions cached = options();
  cached.cache = PageCache::kUsed;
  Result<std::unique_ptr<BlockFile>> file = BlockFile::create(cached);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_NE((*file)->description().find("no O_DIRECT"), std::string::npos) << (*file)->description();
  bool same = false;
  ASSERT_TRUE(roundTrip(**file, &same).ok());
  EXPECT_TRUE(same);
}

TEST_P(BlockFileUnderEngine, SaysWhatItUses) {
  const std::unique_ptr<BlockFile> file = create();
  const char* engine = GetParam() == IoEngineKind::kUring ? "by io_uring" : "by 4 threads";
  EXPECT_NE(file->description().find(engine), std::string::npos) << file->description();
  EXPECT_NE(file->description().find("-rank3', 1.0 MiB"), std::string::npos) << file->description();
}

TEST_P(BlockFileUnderEngine, HasNoNameThatAnythingCouldTripOver) {
  const std::unique_ptr<BlockFile> file = create();
  EXPECT_TRUE(folderIsEmpty());
  const std::unique_ptr<BlockFile> another = create();  // of the same rank, as after a crash or in another job
  bool same = false;
  ASSERT_TRUE(roundTrip(*file, &same).ok());
  EXPECT_TRUE(same);
}

TEST_P(BlockFileUnderEngine, LeavesNothingWhenKilledInTheMiddle) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const ScopedFault slow("*:write:*:delay=1");
    const std::unique_ptr<BlockFile> file = create();
    const Blocks written(kFileBytes, 3);
    (void)file->startWrite(written.data(), kFileBytes, 0);
    raise(SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(folderIsEmpty());
  EXPECT_NE(create(), nullptr);
}

TEST_P(BlockFileUnderEngine, CompletesShortTransfers) {
  const ScopedFault injected("*:read:*:short,*:write:*:short");
  const std::unique_ptr<BlockFile> file = create();
  bool same = false;
  const Status status = roundTrip(*file, &same);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(same);
}

// The caller may free its memory then; the pieces beside the one that failed are slow.
TEST_P(BlockFileUnderEngine, ReturnsAFailureWhenNothingIsUnderWayInMemory) {
  const ScopedFault injected("3:read:0:EIO,3:read:0:delay=20,*:read:1:delay=60,*:read:2:delay=60,*:read:3:delay=60");
  const std::unique_ptr<BlockFile> file = create();
  const Blocks written(kFileBytes, 7), read(kFileBytes);
  ASSERT_TRUE(file->wait(file->startWrite(written.data(), kFileBytes, 0)).ok());
  EXPECT_EQ(file->wait(file->startRead(read.data(), kFileBytes, 0)).exitCode(), 74);
  const std::vector<std::byte> then(read.data(), read.data() + kFileBytes);
  usleep(100000);
  EXPECT_EQ(std::memcmp(then.data(), read.data(), kFileBytes), 0);
}

TEST_P(BlockFileUnderEngine, NamesThePlaceOfAReadThatFailed) {
  expectFailure("3:read:2:EIO", "cannot read 16384 bytes at offset 32768 of ");
  expectFailure("*:read:2:EIO", "Input/output error");
}

TEST_P(BlockFileUnderEngine, NamesThePlaceOfAWriteThatFailed) {
  expectFailure("3:write:5:ENOSPC", "cannot write 16384 bytes at offset 81920 of ");
  expectFailure("3:write:5:ENOSPC", "No space left on device");
}

TEST_P(BlockFileUnderEngine, SaysThatTheFileEnded) { expectFailure("3:read:0:end", "the file ended before"); }

TEST_P(BlockFileUnderEngine, AsksFaultsOfItsOwnRankOnly) {
  const ScopedFault injected("2:read:*:EIO,2:write:*:EIO");
  const std::unique_ptr<BlockFile> file = create();
  bool same = false;
  EXPECT_TRUE(roundTrip(*file, &same).ok());
}

// After the first error nothing hangs, whatever is still asked for, and the error stays.
TEST_P(BlockFileUnderEngine, KeepsItsFirstError) {
  const ScopedFault injected("3:write:0:EIO");
  const std::unique_ptr<BlockFile> file = create();
  const Blocks memory(kFileBytes, 4);
  const Status first = file->wait(file->startWrite(memory.data(), kFileBytes, 0));
  EXPECT_EQ(first.code(), StatusCode::kIo);
  for (int i = 0; i < 1000; ++i) file->startRead(memory.data(), kBlockBytes, 0);
  EXPECT_EQ(file->wait(file->startRead(memory.data(), kFileBytes, 0)).message(), first.message());
  EXPECT_GE(file->failedOffset(), 0);
}

TEST_P(BlockFileUnderEngine, SaysThatItWaitsForASlowDisk) {
  const ScopedFault injected("3:read:*:delay=30");
  BlockFileOptions impatient = options();
  impatient.queueDepth = 1;
  impatient.secondsToProgressLine = 0.05;
  Result<std::unique_ptr<BlockFile>> file = BlockFile::create(impatient);
  ASSERT_TRUE(file.ok());
  const Blocks read(10 * kPiece);
  CaptureStderr();
  const Status status = (*file)->wait((*file)->startRead(read.data(), read.bytes(), 0));
  const std::string said = GetCapturedStderr();
  EXPECT_TRUE(status.ok());
  EXPECT_NE(said.find("waiting for the disk of '" + folder_.path()), std::string::npos) << said;
  EXPECT_NE(said.find("MiB of this transfer to go"), std::string::npos) << said;
  EXPECT_GT((*file)->totals().secondsWaited, 0.25);
}

TEST_P(BlockFileUnderEngine, RefusesWhatIsNoWholeBlockOfTheFile) {
  const Blocks memory(2 * kBlockBytes);
  const auto messageOf = [&](std::byte* at, int64_t bytes, int64_t offset) {
    const std::unique_ptr<BlockFile> file = create();
    const Status status = file->wait(file->startRead(at, bytes, offset));
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    return status.message();
  };
  EXPECT_NE(messageOf(memory.data(), kBlockBytes, 512).find("expected multiples of 4096"), std::string::npos);
  EXPECT_NE(messageOf(memory.data() + 512, kBlockBytes, 0).find("expected multiples of 4096"), std::string::npos);
  EXPECT_NE(messageOf(memory.data(), 100, 0).find("of 100 bytes"), std::string::npos);
  EXPECT_NE(messageOf(memory.data(), 2 * kBlockBytes, kFileBytes - kBlockBytes).find("with 1048576 bytes"),
            std::string::npos);
}

TEST_P(BlockFileUnderEngine, RefusesAtTheStartWhatTheDiskHasNoRoomFor) {
  struct statfs info;
  ASSERT_EQ(statfs(folder_.path().c_str(), &info), 0);
  const int64_t tooMuch = static_cast<int64_t>(info.f_blocks) * info.f_bsize + (int64_t{1} << 30);
  Result<std::unique_ptr<BlockFile>> file = BlockFile::create(options(tooMuch));
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().exitCode(), 74);
  EXPECT_NE(file.status().message().find("MiB needed, "), std::string::npos) << file.status().message();
  EXPECT_NE(file.status().message().find("No space left"), std::string::npos) << file.status().message();
  EXPECT_TRUE(folderIsEmpty());
}

TEST_P(BlockFileUnderEngine, RefusesAFolderThatIsNotThere) {
  BlockFileOptions nowhere = options();
  nowhere.folder = folder_ / "nowhere";
  Result<std::unique_ptr<BlockFile>> file = BlockFile::create(nowhere);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), StatusCode::kUsage);
  nowhere.folder = folder_.write("file", "");
  EXPECT_NE(BlockFile::create(nowhere).status().message().find("is not a folder"), std::string::npos);
}

TEST(IoFaults, RefuseWhatTheyCannotRead) {
  for (const char* text : {"1:write:5", "1:erase:5:EIO", "x:read:5:EIO", "1:read:-1:EIO", "1:read:5:EPERM",
                           "1:read:5:delay=", "1:read:5:delay=*", "1:read:0:EIO,", "1:read:99999999999:EIO"}) {
    const Result<IoFaults> faults = IoFaults::parse(text, 1);
    EXPECT_FALSE(faults.ok()) << text;
    EXPECT_EQ(faults.status().code(), StatusCode::kUsage);
  }
}

}  // namespace
}  // namespace hycrt
