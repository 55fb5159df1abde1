// Reading and converting values by many threads, a chunk each.
#include "io/weight_reader.h"

#include <omp.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>

#include "kernels/narrow_float.h"

namespace hycrt {
namespace {

using hyc::kernels::Bf16;
using hyc::kernels::F16;

// Measured by test/bench/weights_bench.cpp: larger pieces leave threads idle at the end, smaller ones gain nothing.
constexpr int64_t kPieceBytes = 4 << 20;
// Runs and gaps up to this are read together: from there on a call of its own takes less time than to copy the gap.
constexpr int64_t kShortBytes = 2048;
constexpr int kVectors = 512;

template <typename T>
void convertElements(const std::byte* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * int64_t{sizeof(T)}, sizeof value);
    to[i] = static_cast<float>(value);
  }
}

void convertToF32(const std::byte* from, DType fromType, float* to, int64_t count) {
  if (fromType == DType::kBF16) {
    convertElements<Bf16>(from, to, count);
  } else if (fromType == DType::kF16) {
    convertElements<F16>(from, to, count);
  } else if (fromType == DType::kF64) {
    convertElements<double>(from, to, count);
  } else {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  }
}

template <typename T>
void roundElements(const float* from, std::byte* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) reinterpret_cast<T*>(to)[i] = T(from[i]);
}

// By way of f32, a little at a time.
void convert(const std::byte* from, DType fromType, std::byte* to, DType toType, int64_t count) {
  if (toType == DType::kF32) return convertToF32(from, fromType, reinterpret_cast<float*>(to), count);
  constexpr int64_t kWide = 4096;
  float wide[kWide];
  for (int64_t done = 0; done < count; done += kWide) {
    const int64_t some = std::min(kWide, count - done);
    convertToF32(from + done * sizeOf(fromType), fromType, wide, some);
    std::byte* place = to + done * sizeOf(toType);
    toType == DType::kBF16 ? roundElements<Bf16>(wide, place, some) : roundElements<F16>(wide, place, some);
  }
}

// Byte ranges of a file in ascending order, each with where it goes; those close together are read by one call.
class GatheredReads {
 public:
  GatheredReads(const FileDescriptor& file, const std::string& path) : file_(file), path_(path) {}

  Status read(std::byte* to, int64_t bytes, int64_t offset) {
    const int64_t gap = offset - end_;
    const bool joins = count_ > 0 && bytes <= kShortBytes && gap >= 0 && gap <= kShortBytes && count_ + 2 <= kVectors;
    if (!joins) HYCRT_RETURN_IF_ERROR(flush());
    if (count_ == 0) begin_ = offset;
    if (joins && gap > 0) vectors_[count_++] = {between_, static_cast<size_t>(gap)};
    vectors_[count_++] = {to, static_cast<size_t>(bytes)};
    end_ = offset + bytes;
    return bytes > kShortBytes ? flush() : Status();
  }

  Status flush() {
    int first = 0;
    while (first < count_) {
      const ssize_t done = preadv(file_.get(), vectors_ + first, count_ - first, begin_);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return errnoError("cannot read '" + path_ + "'", errno);
      if (done == 0) {
        return dataError("'" + path_ + "' ends at byte " + std::to_string(begin_) + ", expected at least " +
                         std::to_string(end_));
      }
      begin_ += done;
      size_t left = static_cast<size_t>(done);
      for (; first < count_ && left >= vectors_[first].iov_len; ++first) left -= vectors_[first].iov_len;
      if (first < count_) {
        vectors_[first].iov_base = static_cast<std::byte*>(vectors_[first].iov_base) + left;
        vectors_[first].iov_len -= left;
      }
    }
    count_ = 0;
    return {};
  }

 private:
  const FileDescriptor& file_;
  const std::string& path_;
  iovec vectors_[kVectors];
  int count_ = 0;
  int64_t begin_ = 0, end_ = 0;  // of what is gathered, in the file
  std::byte between_[kShortBytes];
};

}  // namespace

Status WeightReader::open(int index) {
  OpenFile& entry = files_[static_cast<size_t>(index)];
  if (entry.file.isOpen()) return {};
  const std::string& path = paths_[static_cast<size_t>(index)];
  Result<FileDescriptor> file = openForReading(path);
  if (!file.ok()) return file.status();
  Result<int64_t> bytes = fileSize(*file, path);
  if (!bytes.ok()) return bytes.status();
  entry = {std::move(*file), *bytes};
  return {};
}

Status WeightReader::add(const StateDesc& state, const ShardLayout& layout, const StateWindow& window) {
  const int index = state.init.file;  // in range: checked against the manifest
  HYCRT_RETURN_IF_ERROR(open(index));
  const int64_t fileBytes = files_[static_cast<size_t>(index)].bytes;
  const int64_t bytes = elementCount(state.global) * sizeOf(state.init.fileDType);  // checked with the tables
  const int64_t begin = state.init.fileOffset;
  if (begin < 0 || bytes > fileBytes || begin > fileBytes - bytes) {
    return dataError("'" + paths_[static_cast<size_t>(index)] + "': " + state.name + " should lie at bytes [" +
                     std::to_string(begin) + ", " + std::to_string(begin) + " + " + std::to_string(bytes) +
                     "), but the file has " + std::to_string(fileBytes));
  }
  const int64_t size = sizeOf(state.dtype);
  const int64_t elements = kPieceBytes / std::max<int64_t>(size, sizeOf(state.init.fileDType));
  for (int64_t done = 0; done < window.count; done += elements) {
    pieces_.push_back(
        {&state, &layout, {window.memory + done * size, window.begin + done, std::min(elements, window.count - done)}});
  }
  return {};
}

Status WeightReader::readRuns(const Piece& piece, const Source& source, std::byte* to) {
  GatheredReads reads(source.file, source.path);
  Status status;
  piece.layout->forEachRunFrom(piece.window.begin, [&](const ElementRun& whole) {
    const std::optional<ElementRun> run = piece.window.clip(whole);
    if (!run) return false;  // in ascending order: what follows lies behind the window
    status = reads.read(to + (run->local - piece.window.begin) * source.elementBytes, run->count * source.elementBytes,
                        source.begin + run->global * source.elementBytes);
    return status.ok();
  });
  if (!status.ok()) return status;
  return reads.flush();
}

Status WeightReader::readPiece(const Piece& piece, std::vector<std::byte>* staging) const {
  const StateDesc& state = *piece.state;
  const DType from = state.init.fileDType;
  const size_t index = static_cast<size_t>(state.init.file);
  const Source source{files_[index].file, paths_[index], state.init.fileOffset, sizeOf(from)};
  if (from == state.dtype) return readRuns(piece, source, piece.window.memory);
  staging->resize(static_cast<size_t>(piece.window.count * sizeOf(from)));
  HYCRT_RETURN_IF_ERROR(readRuns(piece, source, staging->data()));
  piece.layout->forEachRunFrom(piece.window.begin, [&](const ElementRun& whole) {
    const std::optional<ElementRun> run = piece.window.clip(whole);
    if (!run) return false;
    const int64_t at = run->local - piece.window.begin;
    convert(staging->data() + at * sizeOf(from), from, piece.window.memory + at * sizeOf(state.dtype), state.dtype,
            run->count);
    return true;
  });
  return {};
}

Status WeightReader::read() {
  const size_t count = pieces_.size();
  std::atomic<size_t> next{0}, failed{count};
  std::mutex mutex;
  Status status;
  const auto work = [&] {
    std::vector<std::byte> staging;
    for (size_t i = next++; i < count && i < failed; i = next++) {
      Status own = readPiece(pieces_[i], &staging);
      if (own.ok()) continue;
      const std::lock_guard<std::mutex> lock(mutex);
      if (i < failed) failed = i, status = std::move(own);
    }
  };
  // Two for each that computes: while one waits for the disk another copies. Not OpenMP's, which a process that was
  // forked after their first use would wait for.
  const size_t threads = std::min(count, 2 * static_cast<size_t>(omp_get_max_threads()));
  std::vector<std::thread> others;
  for (size_t i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
  pieces_.clear();
  return status;
}

}  // namespace hycrt
