// The zip format as PKWARE's APPNOTE has it: an end record, found from the end of the file, leads to the directory,
// whose entries lead to the records. Sizes of 4 GiB and more stand in "zip64" fields.
#include "Archive.h"

#include "hyc/Support/InputFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/CRC.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"

using namespace hyc::torchexport;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;
using namespace llvm::support::endian;

static constexpr uint64_t kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20, kEntryBytes = 46, kHeaderBytes = 30;
static constexpr StringRef kEndMagic = "PK\5\6", kEnd64Magic = "PK\6\6", kLocatorMagic = "PK\6\7",
                           kEntryMagic = "PK\1\2", kHeaderMagic = "PK\3\4";
/// Read whole, and parsed.
static constexpr uint64_t kMaxRecordBytes = uint64_t(256) << 20;

Error Archive::fail(const Twine &what) const {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), path + ": not a torch.export archive: " + what);
}

Error Archive::refuse(const Twine &what) const {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), path + ": " + what);
}

Expected<Archive> Archive::open(StringRef path) {
  Archive archive;
  archive.path = path.str();
  auto buffer = openInputFile(path, kMaxModelBytes);
  if (!buffer)
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   path + ": cannot be read: " + llvm::toString(buffer.takeError()));
  archive.buffer = std::move(*buffer);
  if (Error error = archive.readDirectory())
    return error;
  if (Error error = archive.checkOverlap())
    return error;
  if (Error error = archive.dropRoot())
    return error;
  return archive;
}

Error Archive::readDirectory() {
  StringRef bytes = buffer->getBuffer();
  if (!bytes.starts_with("PK"))
    return fail("it does not begin as a zip file does");
  // A comment of up to 64 KiB may follow the end record.
  StringRef tail = bytes.take_back(kEndBytes + 0xFFFF);
  size_t found = tail.rfind(kEndMagic);
  if (found == StringRef::npos || tail.size() - found < kEndBytes)
    return fail("it ends at byte " + Twine(bytes.size()) + " without the directory of a zip file");
  uint64_t end = bytes.size() - tail.size() + found;
  const char *record = bytes.data() + end;
  uint64_t count = read16le(record + 10), size = read32le(record + 12), begin = read32le(record + 16);
  if (end + kEndBytes + read16le(record + 20) != bytes.size())
    return fail("its end record at byte " + Twine(end) + " is not where the file ends");
  if (count == 0xFFFF || size == 0xFFFFFFFF || begin == 0xFFFFFFFF) {
    if (end < kLocatorBytes || !bytes.substr(end - kLocatorBytes).starts_with(kLocatorMagic))
      return fail("the end record at byte " + Twine(end) + " leads to a larger one that is not there");
    uint64_t at = read64le(record - kLocatorBytes + 8);
    if (at > end || end - at < kEnd64Bytes || !bytes.substr(at).starts_with(kEnd64Magic))
      return fail("the end record that should be at byte " + Twine(at) + " is not there");
    count = read64le(bytes.data() + at + 32);
    size = read64le(bytes.data() + at + 40);
    begin = read64le(bytes.data() + at + 48);
  }
  if (begin > end || size > end - begin || count > size / kEntryBytes)
    return fail("its directory of " + Twine(count) + " records lies outside the file");
  uint64_t at = begin;
  for (uint64_t i = 0; i < count; ++i)
    if (Error error = readEntry(at, begin + size))
      return error;
  return Error::success();
}

static bool isCleanName(StringRef name) { return !name.empty() && !name.contains('\0') && llvm::json::isUTF8(name); }

/// Takes the 8-byte fields of the zip64 extra in the order of the format: those whose short form is all ones.
static bool readExtra(StringRef extra, std::initializer_list<uint64_t *> wide) {
  while (extra.size() >= 4) {
    uint16_t kind = read16le(extra.data()), size = read16le(extra.data() + 2);
    extra = extra.drop_front(4);
    if (size > extra.size())
      return false;
    StringRef field = extra.take_front(size);
    extra = extra.drop_front(size);
    if (kind != 1)
      continue;
    for (uint64_t *value : wide) {
      if (*value != 0xFFFFFFFF)
        continue;
      if (field.size() < 8)
        return false;
      *value = read64le(field.data());
      field = field.drop_front(8);
    }
    return true;
  }
  return llvm::none_of(wide, [](uint64_t *value) { return *value == 0xFFFFFFFF; });
}

Error Archive::readEntry(uint64_t &at, uint64_t end) {
  StringRef bytes = buffer->getBuffer();
  auto cut = [&] { return fail("the directory's entry at byte " + Twine(at) + " is damaged"); };
  if (end - at < kEntryBytes || !bytes.substr(at).starts_with(kEntryMagic))
    return cut();
  const char *entry = bytes.data() + at;
  uint16_t flags = read16le(entry + 8), method = read16le(entry + 10);
  uint64_t packed = read32le(entry + 20), size = read32le(entry + 24), header = read32le(entry + 42);
  uint64_t nameBytes = read16le(entry + 28), extraBytes = read16le(entry + 30), commentBytes = read16le(entry + 32);
  if (end - at - kEntryBytes < nameBytes + extraBytes + commentBytes)
    return cut();
  StringRef name = bytes.substr(at + kEntryBytes, nameBytes);
  if (!isCleanName(name))
    return fail("the name of the record in the entry at byte " + Twine(at) + " is not valid UTF-8 without NUL");
  if (!readExtra(bytes.substr(at + kEntryBytes + nameBytes, extraBytes), {&size, &packed, &header}))
    return cut();
  if (method != 0 || packed != size || (flags & 1))
    return fail("record '" + name + "' is compressed or encrypted, expected it stored; torch.export.save stores it");
  Record record{0, size, read32le(entry + 16)};
  if (Error error = locate(name, header, record))
    return error;
  if (!records.emplace(name.str(), record).second)
    return fail("record '" + name + "' is there twice");
  at += kEntryBytes + nameBytes + extraBytes + commentBytes;
  return Error::success();
}

/// The header in front of the contents repeats the name; its own extra field is what aligns them.
Error Archive::locate(StringRef name, uint64_t header, Record &record) const {
  StringRef bytes = buffer->getBuffer();
  auto wrong = [&] { return fail("record '" + name + "' is not at byte " + Twine(header) + ", where it should be"); };
  if (header > bytes.size() || bytes.size() - header < kHeaderBytes || !bytes.substr(header).starts_with(kHeaderMagic))
    return wrong();
  uint64_t nameBytes = read16le(bytes.data() + header + 26), extraBytes = read16le(bytes.data() + header + 28);
  record.offset = header + kHeaderBytes + nameBytes + extraBytes;
  if (bytes.substr(header + kHeaderBytes, nameBytes) != name || record.offset > bytes.size())
    return wrong();
  if (record.bytes > bytes.size() - record.offset)
    return fail("record '" + name + "' claims " + Twine(record.bytes) + " bytes at byte " + Twine(record.offset) +
                ", but the file has " + Twine(bytes.size()));
  return Error::success();
}

Error Archive::checkOverlap() const {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const auto &[name, record] : records)
    if (record.bytes)
      ranges.push_back({record.offset, record.offset + record.bytes});
  llvm::sort(ranges);
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second)
      return fail("two records share byte " + Twine(ranges[i].first));
  return Error::success();
}

Error Archive::dropRoot() {
  if (records.empty())
    return fail("it holds nothing");
  std::string root = StringRef(records.begin()->first).split('/').first.str() + "/";
  std::map<std::string, Record> inside;
  for (const auto &[name, record] : records) {
    if (!StringRef(name).starts_with(root))
      return fail("record '" + name + "' is not in the folder '" + root + "', which others are in");
    inside[name.substr(root.size())] = record;
  }
  records = std::move(inside);
  return Error::success();
}

Expected<StringRef> Archive::read(StringRef name) const {
  auto found = records.find(name.str());
  if (found == records.end())
    return fail("it has no record '" + name + "'");
  const Record &record = found->second;
  if (record.bytes > kMaxRecordBytes)
    return fail("record '" + name + "' has " + Twine(record.bytes) + " bytes, expected at most " +
                Twine(kMaxRecordBytes));
  StringRef contents = buffer->getBuffer().substr(record.offset, record.bytes);
  if (llvm::crc32(llvm::ArrayRef<uint8_t>(contents.bytes_begin(), contents.size())) != record.checksum)
    return fail("record '" + name + "' is damaged: its checksum does not match");
  return contents;
}
