// Archive: the records of a zip file in which everything is stored and nothing compressed, as PyTorch writes them.
//
// Read here and not by a library, since a record's place in the file is what is wanted: rank programs read weights
// where they lie. Every length is checked against the file before it is followed; what is cut off has lost the
// directory at its end and is refused.
#ifndef HYC_LIB_IMPORT_TORCHEXPORT_ARCHIVE_H
#define HYC_LIB_IMPORT_TORCHEXPORT_ARCHIVE_H

#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace hyc::torchexport {

struct Record {
  uint64_t offset = 0, bytes = 0; ///< of its contents, in the file
  uint32_t checksum = 0;          ///< CRC-32 of the contents
};

class Archive {
public:
  /// Maps `path` and reads its directory. Errors say `FILE: what`.
  static llvm::Expected<Archive> open(llvm::StringRef path);

  const std::string &getPath() const { return path; }
  /// By name, without the one folder that all of them are in.
  const std::map<std::string, Record> &getRecords() const { return records; }
  /// A record's contents after their checksum has been compared.
  llvm::Expected<llvm::StringRef> read(llvm::StringRef name) const;
  /// Of a file that is no archive, and of an archive of a model that hyc does not take.
  llvm::Error fail(const llvm::Twine &what) const;
  llvm::Error refuse(const llvm::Twine &what) const;
  /// The mapped file, for whoever reads tensors of it; what `read` gave stays where it is.
  std::unique_ptr<llvm::MemoryBuffer> takeBuffer() { return std::move(buffer); }

private:
  llvm::Error readDirectory();
  llvm::Error readEntry(uint64_t &at, uint64_t end);
  llvm::Error locate(llvm::StringRef name, uint64_t header, Record &record) const;
  llvm::Error checkOverlap() const;
  llvm::Error dropRoot();

  std::string path;
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  std::map<std::string, Record> records;
};

} // namespace hyc::torchexport

#endif // HYC_LIB_IMPORT_TORCHEXPORT_ARCHIVE_H
