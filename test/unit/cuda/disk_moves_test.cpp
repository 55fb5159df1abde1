// What moves between a file and memory that the device works on arrives as it was, comes after what was put on the
// stream before and before what follows the wait, whatever the disk and the device do first.
#include "cuda/disk_moves.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace hycrt {
namespace {

constexpr int64_t kMiB = 1 << 20;
// More than all slots hold at once, and no whole number of them.
constexpr int64_t kLarge = 21 * kMiB + 3 * kBlockBytes, kSmall = 5 * kBlockBytes;

// A folder for files that have no name there for long, gone when the test is over.
class Disk {
public:
  Disk() {
    path_ = (std::filesystem::temp_directory_path() / "hyc-test-XXXXXX").string();
    mkdtemp(path_.data());
  }
  ~Disk() { rmdir(path_.c_str()); }
  const std::string &path() const { return path_; }

private:
  std::string path_;
};

bool hasDevice() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

// A device's memory, pinned memory, and a file, on a disk that is as fast as it is or slow, with a stream of kernels.
class DiskMovesTest : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    if (!hasDevice())
      GTEST_SKIP() << "there is no CUDA device";
    ASSERT_EQ(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void **>(&device_), kLarge), cudaSuccess);
    void *host = std::aligned_alloc(kBlockBytes, kLarge);
    ASSERT_EQ(cudaHostRegister(host, kLarge, 0), cudaSuccess);
    host_ = static_cast<std::byte *>(host);
    BlockFileOptions options;
    options.folder = disk_.path();
    options.bytes = 2 * kLarge;
    setenv("HYC_IO_FAULT", GetParam(), 1);
    Result<std::unique_ptr<BlockFile>> file = BlockFile::create(options);
    unsetenv("HYC_IO_FAULT");
    ASSERT_TRUE(file.ok()) << file.status().message();
    file_ = std::move(*file);
    Result<std::unique_ptr<DiskMoves>> moves = DiskMoves::create(file_.get(), 0);
    ASSERT_TRUE(moves.ok()) << moves.status().message();
    moves_ = std::move(*moves);
  }
  void TearDown() override {
    if (!hasDevice())
      return;
    moves_.reset();
    file_.reset();
    cudaHostUnregister(host_);
    std::free(host_);
    cudaFree(device_);
    cudaStreamDestroy(compute_);
  }

  uint64_t start(IoOperation operation, MoveSide side, int64_t bytes, int64_t offset, int64_t at = 0) {
    std::byte *memory = side == MoveSide::kHost ? host_ : device_;
    Result<uint64_t> number = moves_->start({operation, side, memory + at, bytes, offset}, compute_);
    EXPECT_TRUE(number.ok()) << number.status().message();
    return number.ok() ? *number : 0;
  }
  void wait(uint64_t number) {
    const Status status = moves_->wait(number, compute_);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  // Puts a copy on the stream, as a kernel would write.
  void put(std::byte *to, const std::byte *from, int64_t bytes) {
    EXPECT_EQ(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, compute_), cudaSuccess);
  }

  Disk disk_;
  cudaStream_t compute_ = nullptr;
  std::byte *device_ = nullptr, *host_ = nullptr;
  std::unique_ptr<BlockFile> file_;
  std::unique_ptr<DiskMoves> moves_;
};

// Pinned, so that what is put on a stream may be done later.
class Pinned {
public:
  explicit Pinned(int64_t bytes, uint64_t seed = 0) : bytes_(static_cast<size_t>(bytes)) {
    EXPECT_EQ(cudaMallocHost(reinterpret_cast<void **>(&memory_), bytes_), cudaSuccess);
    std::mt19937_64 random(seed);
    for (size_t i = 0; i + 8 <= bytes_; i += 8) {
      const uint64_t value = seed ? random() : 0;
      std::memcpy(memory_ + i, &value, 8);
    }
  }
  ~Pinned() { cudaFreeHost(memory_); }
  std::byte *get() const { return memory_; }
  bool operator==(const Pinned &other) const { return std::memcmp(memory_, other.memory_, bytes_) == 0; }

private:
  size_t bytes_;
  std::byte *memory_ = nullptr;
};

TEST_P(DiskMovesTest, BytesOfTheDeviceComeBackAsTheyWere) {
  const Pinned values(kLarge, 1), back(kLarge);
  put(device_, values.get(), kLarge);
  wait(start(IoOperation::kWrite, MoveSide::kDevice, kLarge, kBlockBytes));
  EXPECT_EQ(cudaMemsetAsync(device_, 0xEE, kLarge, compute_), cudaSuccess);
  wait(start(IoOperation::kRead, MoveSide::kDevice, kLarge, kBlockBytes));
  put(back.get(), device_, kLarge);
  ASSERT_EQ(cudaStreamSynchronize(compute_), cudaSuccess);
  EXPECT_TRUE(back == values);
}

TEST_P(DiskMovesTest, AMoveComesAfterWhatWasStartedBeforeIt) {
  // The stream still reads what a move is about to overwrite, on either side.
  const Pinned first(kSmall, 2), second(kSmall, 3), seen(kSmall), seenOnHost(kSmall);
  std::memcpy(host_, second.get(), kSmall);
  wait(start(IoOperation::kWrite, MoveSide::kHost, kSmall, 0));
  put(device_, first.get(), kSmall);
  put(host_, first.get(), kSmall);
  put(seen.get(), device_, kSmall);
  put(seenOnHost.get(), host_, kSmall);
  const uint64_t toDevice = start(IoOperation::kRead, MoveSide::kDevice, kSmall, 0);
  const uint64_t toHost = start(IoOperation::kRead, MoveSide::kHost, kSmall, 0);
  wait(toHost);
  wait(toDevice);
  EXPECT_EQ(std::memcmp(host_, second.get(), kSmall), 0);
  const Pinned after(kSmall);
  put(after.get(), device_, kSmall);
  ASSERT_EQ(cudaStreamSynchronize(compute_), cudaSuccess);
  EXPECT_TRUE(seen == first);
  EXPECT_TRUE(seenOnHost == first);
  EXPECT_TRUE(after == second);
}

TEST_P(DiskMovesTest, WindowsStream) {
  // A window is read while the one before is worked on and the one before that is written; the work adds nothing but
  // turns the window's bytes over, so that each has been through it once in the end.
  constexpr int kWindows = 9, kAtOnce = 3;
  const Pinned values(kWindows * kSmall, 4), mirror(kSmall);
  for (int i = 0; i < kWindows; ++i) {
    std::memcpy(host_, values.get() + i * kSmall, kSmall);
    wait(start(IoOperation::kWrite, MoveSide::kHost, kSmall, i * kSmall));
  }
  std::vector<uint64_t> reads(kWindows), writes(kWindows);
  const auto read = [&](int i) {
    if (i >= kAtOnce)
      wait(writes[static_cast<size_t>(i - kAtOnce)]);
    reads[static_cast<size_t>(i)] =
        start(IoOperation::kRead, MoveSide::kHost, kSmall, i * kSmall, i % kAtOnce * kSmall);
  };
  read(0);
  for (int i = 0; i < kWindows; ++i) {
    if (i + 1 < kWindows)
      read(i + 1);
    wait(reads[static_cast<size_t>(i)]);
    std::byte *const window = host_ + i % kAtOnce * kSmall;
    put(device_, window, kSmall);
    EXPECT_EQ(cudaMemsetAsync(window, i, kBlockBytes, compute_), cudaSuccess);
    put(window + kBlockBytes, device_, kSmall - kBlockBytes);
    writes[static_cast<size_t>(i)] =
        start(IoOperation::kWrite, MoveSide::kHost, kSmall, i * kSmall, i % kAtOnce * kSmall);
  }
  for (int i = kWindows - kAtOnce; i < kWindows; ++i)
    wait(writes[static_cast<size_t>(i)]);
  for (int i = 0; i < kWindows; ++i) {
    wait(start(IoOperation::kRead, MoveSide::kHost, kSmall, i * kSmall));
    for (int64_t k = 0; k < kBlockBytes; k += 511)
      ASSERT_EQ(host_[k], std::byte(i)) << i << " " << k;
    EXPECT_EQ(std::memcmp(host_ + kBlockBytes, values.get() + i * kSmall, kSmall - kBlockBytes), 0) << i;
  }
}

std::string nameOfDisk(const testing::TestParamInfo<const char *> &info) {
  const char *const names[] = {"Fast", "SlowReads", "SlowWrites"};
  return names[info.index];
}

INSTANTIATE_TEST_SUITE_P(Disks, DiskMovesTest,
                         testing::Values("0:read:99999:EIO", "0:read:*:delay=2", "0:write:*:delay=2"), nameOfDisk);

TEST(DiskMoves, SayWhatTheDiskSays) {
  if (!hasDevice())
    GTEST_SKIP() << "there is no CUDA device";
  const Disk disk;
  for (const char *fault : {"0:read:1:EIO", "0:write:1:ENOSPC"}) {
    setenv("HYC_IO_FAULT", fault, 1);
    BlockFileOptions options;
    options.folder = disk.path();
    options.bytes = kLarge;
    Result<std::unique_ptr<BlockFile>> file = BlockFile::create(options);
    unsetenv("HYC_IO_FAULT");
    ASSERT_TRUE(file.ok()) << file.status().message();
    Result<std::unique_ptr<DiskMoves>> moves = DiskMoves::create(file->get(), 0);
    ASSERT_TRUE(moves.ok()) << moves.status().message();
    std::byte *device = nullptr;
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void **>(&device), kLarge), cudaSuccess);
    Status status;
    for (IoOperation operation : {IoOperation::kWrite, IoOperation::kRead}) {
      Result<uint64_t> number = (*moves)->start({operation, MoveSide::kDevice, device, kLarge, 0}, nullptr);
      ASSERT_TRUE(number.ok());
      if (status.ok())
        status = (*moves)->wait(*number, nullptr);
    }
    EXPECT_EQ(status.code(), StatusCode::kIo) << fault << ": " << status.message();
    moves->reset();
    file->reset();
    cudaFree(device);
  }
}

} // namespace
} // namespace hycrt
