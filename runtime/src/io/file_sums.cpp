// Sums of a whole file, by threads that take its chunks in turns.
#include "hycrt/file_sums.h"

#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <thread>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/work_by_threads.h"

namespace hycrt {
namespace {

constexpr time_t kSettledSeconds = 2;  // a file system may tell times no finer

// Of a safetensors file length and JSON, which no tensor has a part in; else 0. Any file of another kind that looks the
// same has a few more bytes summed.
Result<int64_t> headerBytesOf(const FileDescriptor& file, const std::string& path, int64_t fileBytes) {
  unsigned char begin[9];
  if (fileBytes < static_cast<int64_t>(sizeof begin)) return 0;
  HYCRT_RETURN_IF_ERROR(readAt(file, path, begin, sizeof begin, 0));
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | begin[i];
  const bool isHeader = begin[8] == '{' && length <= static_cast<uint64_t>(fileBytes - 8);
  return isHeader ? static_cast<int64_t>(length) + 8 : int64_t{0};
}

Result<uint32_t> sumRange(const FileDescriptor& file, const std::string& path, int64_t bytes, int64_t offset,
                          std::vector<std::byte>* staging) {
  staging->resize(static_cast<size_t>(std::min(bytes, kChunkBytes)));
  uint32_t sum = 0;
  for (int64_t done = 0; done < bytes; done += kChunkBytes) {
    const int64_t some = std::min(kChunkBytes, bytes - done);
    HYCRT_RETURN_IF_ERROR(readAt(file, path, staging->data(), some, offset + done));
    sum = crc32c(sum, staging->data(), static_cast<size_t>(some));
  }
  return sum;
}

Status sumChunks(const FileDescriptor& file, const std::string& path, FileSums* sums) {
  const size_t count = static_cast<size_t>(chunkCount(sums->bytes));
  sums->chunks.resize(count);
  return forEachPiece(count, std::max(1u, std::thread::hardware_concurrency()), "reading weights",
                      [&](size_t i, std::vector<std::byte>* staging) -> Status {
                        const int64_t offset = static_cast<int64_t>(i) * kChunkBytes;
                        Result<uint32_t> sum =
                            sumRange(file, path, std::min(kChunkBytes, sums->bytes - offset), offset, staging);
                        if (sum.ok()) sums->chunks[i] = *sum;
                        return sum.status();
                      });
}

bool isSame(const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

}  // namespace

Result<FileSums> measureFile(const std::string& path) {
  Result<FileDescriptor> file = openForReading(path);
  if (!file.ok()) return file.status();
  struct stat before, after;
  if (fstat(file->get(), &before) != 0) return errnoError("cannot examine '" + path + "'", errno);
  FileSums sums;
  sums.bytes = static_cast<int64_t>(before.st_size);
  Result<int64_t> header = headerBytesOf(*file, path, sums.bytes);
  if (!header.ok()) return header.status();
  sums.headerBytes = *header;
  std::vector<std::byte> staging;
  Result<uint32_t> sum = sumRange(*file, path, *header, 0, &staging);
  if (!sum.ok()) return sum.status();
  sums.header = *sum;
  HYCRT_RETURN_IF_ERROR(sumChunks(*file, path, &sums));
  if (fstat(file->get(), &after) != 0) return errnoError("cannot examine '" + path + "'", errno);
  if (before.st_size != after.st_size || !isSame(before.st_mtim, after.st_mtim) ||
      !isSame(before.st_ctim, after.st_ctim)) {
    return dataError("'" + path + "' changed while it was read; start again when nobody writes it");
  }
  return sums;
}

std::optional<std::string> identityOfFile(const std::string& path) {
  struct stat info;
  timespec now{};
  if (stat(path.c_str(), &info) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0) return std::nullopt;
  if (now.tv_sec - std::max(info.st_mtim.tv_sec, info.st_ctim.tv_sec) <= kSettledSeconds) return std::nullopt;
  std::string text;
  for (const int64_t number :
       {int64_t(info.st_dev), int64_t(info.st_ino), int64_t(info.st_size), int64_t(info.st_mtim.tv_sec),
        int64_t(info.st_mtim.tv_nsec), int64_t(info.st_ctim.tv_sec), int64_t(info.st_ctim.tv_nsec)}) {
    text += std::to_string(number) + " ";
  }
  return text;
}

std::string digitsOf(const std::vector<uint32_t>& sums) {
  std::string digits;
  for (const uint32_t sum : sums) {
    char text[9];
    std::snprintf(text, sizeof text, "%08x", sum);
    digits += text;
  }
  return digits;
}

std::optional<std::vector<uint32_t>> sumsFromDigits(std::string_view digits) {
  constexpr size_t kDigits = 8;
  if (digits.size() % kDigits != 0 || digits.find_first_not_of("0123456789abcdef") != digits.npos) return std::nullopt;
  std::vector<uint32_t> sums(digits.size() / kDigits);
  for (size_t i = 0; i < sums.size(); ++i) {
    const char* const begin = digits.data() + i * kDigits;
    std::from_chars(begin, begin + kDigits, sums[i], 16);
  }
  return sums;
}

}  // namespace hycrt
