// Zip archives in which everything is stored, as torch.save writes them: a part of a file, since PyTorch's distributed
// checkpoint puts one behind the other. The compiler has a reader of its own (lib/Import/TorchExport/Archive.h), whose
// rooms know no runtime.
#ifndef HYCRT_SRC_CHECKPOINT_TORCH_ZIP_FILE_H_
#define HYCRT_SRC_CHECKPOINT_TORCH_ZIP_FILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/stream_file.h"
#include "hycrt/status.h"

namespace hycrt {

// Continues a CRC-32 as zip files have it (ISO 3309), from 0.
uint32_t zipSum(uint32_t sum, const void* data, size_t bytes);

class ZipReader {
 public:
  struct Record {
    int64_t begin = 0, bytes = 0;  // of its contents, in the file
    uint32_t sum = 0;
  };

  // The archive in bytes [begin, begin + bytes) of the file, all of which lie in it. `file` outlives the reader.
  static Result<ZipReader> open(const FileDescriptor& file, const std::string& path, int64_t begin, int64_t bytes);

  // By name, without the one folder that all of them are in; null: it is not there.
  const Record* find(const std::string& name) const;
  // The contents, compared with their sum. `most` bytes at most.
  Status read(const std::string& name, int64_t most, std::string* contents) const;
  Status fail(const std::string& what) const;

 private:
  ZipReader(const FileDescriptor& file, std::string path, int64_t begin, int64_t bytes)
      : file_(&file), path_(std::move(path)), begin_(begin), bytes_(bytes) {}
  Status readDirectory();
  Status readEntry(const std::string& directory, size_t* at);
  Status locate(const std::string& name, int64_t header, Record* record) const;
  Status dropRoot();

  const FileDescriptor* file_;
  std::string path_;
  int64_t begin_, bytes_;
  std::map<std::string, Record> records_;
};

class ZipWriter {
 public:
  // From where the file is. Numbers from `wideFrom` on stand in 64 bits.
  explicit ZipWriter(StreamFile* file, uint64_t wideFrom = 0xFFFFFFFF)
      : file_(*file), begin_(file->position()), wideFrom_(wideFrom) {}

  // Contents begin at a multiple of 64 bytes of the archive, so that they can be mapped.
  Status add(const std::string& name, const void* contents, int64_t bytes);
  Status add(const std::string& name, const std::string& contents) {
    return add(name, contents.data(), static_cast<int64_t>(contents.size()));
  }
  Status finish();

 private:
  bool isWide(uint64_t value) const { return value >= wideFrom_; }

  StreamFile& file_;
  int64_t begin_;
  uint64_t wideFrom_;
  uint64_t count_ = 0;
  std::string directory_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_TORCH_ZIP_FILE_H_
