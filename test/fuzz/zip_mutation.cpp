// The few fields of the zip format that an archive without compression needs (PKWARE's APPNOTE).
#include "zip_mutation.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/CRC.h"
#include "llvm/Support/Endian.h"

using namespace hyc::fuzzing;
using namespace llvm::support;
using llvm::StringRef;

std::optional<ZipRecords> hyc::fuzzing::readZip(const uint8_t *data, size_t size) {
  StringRef bytes(reinterpret_cast<const char *>(data), size);
  size_t end = bytes.rfind("PK\5\6");
  if (end == StringRef::npos || bytes.size() - end < 22)
    return std::nullopt;
  ZipRecords records;
  size_t at = endian::read32le(bytes.data() + end + 16);
  for (unsigned left = endian::read16le(bytes.data() + end + 10); left > 0; --left) {
    if (at > end || end - at < 46)
      return std::nullopt;
    const char *entry = bytes.data() + at;
    uint64_t contents = endian::read32le(entry + 24), header = endian::read32le(entry + 42);
    uint64_t nameBytes = endian::read16le(entry + 28);
    StringRef name = bytes.substr(at + 46, nameBytes);
    at += 46 + nameBytes + endian::read16le(entry + 30) + endian::read16le(entry + 32);
    if (header > size || size - header < 30)
      return std::nullopt;
    uint64_t begin =
        header + 30 + endian::read16le(bytes.data() + header + 26) + endian::read16le(bytes.data() + header + 28);
    if (begin > size || contents > size - begin)
      return std::nullopt;
    records.emplace_back(name.str(), bytes.substr(begin, contents).str());
  }
  return records;
}

static void put(std::string &to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    to.push_back(i < 8 ? static_cast<char>(value >> (8 * i)) : 0);
}

/// The fields that a record's header and the directory's entry have in common.
static void putCommon(std::string &to, const std::string &name, const std::string &contents) {
  put(to, 0, 2); // flags
  put(to, 0, 2); // stored
  put(to, 0, 4); // time
  put(to, llvm::crc32(llvm::ArrayRef(reinterpret_cast<const uint8_t *>(contents.data()), contents.size())), 4);
  put(to, contents.size(), 4);
  put(to, contents.size(), 4);
  put(to, name.size(), 2);
  put(to, 0, 2); // extra
}

std::string hyc::fuzzing::writeZip(const ZipRecords &records) {
  std::string zip, directory;
  for (const auto &[name, contents] : records) {
    directory += "PK\1\2";
    put(directory, 20, 2);
    put(directory, 20, 2);
    putCommon(directory, name, contents);
    put(directory, 0, 10); // comment, disk, attributes
    put(directory, zip.size(), 4);
    directory += name;
    zip += "PK\3\4";
    put(zip, 20, 2);
    putCommon(zip, name, contents);
    zip += name + contents;
  }
  uint64_t begin = zip.size();
  zip += directory + "PK\5\6";
  put(zip, 0, 4); // disks
  put(zip, records.size(), 2);
  put(zip, records.size(), 2);
  put(zip, directory.size(), 4);
  put(zip, begin, 4);
  put(zip, 0, 2);
  return zip;
}
