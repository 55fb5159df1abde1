// The zip format as PKWARE's APPNOTE has it: an end record, found from the end, leads to the directory, whose entries
// lead to the records. Numbers of 4 GiB and more stand in fields of 64 bits beside them.
#include "checkpoint/torch/zip_file.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "io/text_check.h"

namespace hycrt {
namespace {

constexpr int64_t kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20, kEntryBytes = 46, kHeaderBytes = 30;
constexpr int64_t kMaxComment = 0xFFFF, kMaxDirectoryBytes = int64_t{64} << 20, kAlignment = 64;
constexpr uint64_t kNarrowMost = 0xFFFFFFFF;
constexpr std::string_view kEndMagic = "PK\5\6", kEnd64Magic = "PK\6\6", kLocatorMagic = "PK\6\7",
                           kEntryMagic = "PK\1\2", kHeaderMagic = "PK\3\4";
constexpr uint64_t kUtf8Names = 1 << 11;

using Table = std::array<uint32_t, 256>;
constexpr std::array<Table, 8> makeTables() {
  std::array<Table, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320 : 0);
    tables[0][byte] = sum;
  }
  for (size_t i = 1; i < tables.size(); ++i) {
    for (size_t byte = 0; byte < 256; ++byte) {
      tables[i][byte] = tables[i - 1][byte] >> 8 ^ tables[0][tables[i - 1][byte] & 0xFF];
    }
  }
  return tables;
}
constexpr std::array<Table, 8> kTables = makeTables();

bool isText(const std::string& name) {
  return checkText(reinterpret_cast<const unsigned char*>(name.data()), name.size()).valid == name.size();
}

uint64_t numberAt(std::string_view text, size_t at, int bytes) {
  uint64_t value = 0;
  for (int i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(text[at + static_cast<size_t>(i)]);
  return value;
}

void addNumber(std::string* text, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i, value >>= 8) text->push_back(static_cast<char>(value & 0xFF));
}

// Takes the 64-bit fields that stand for those of `wide` which are all ones, in the format's order.
bool readExtra(std::string_view extra, std::initializer_list<uint64_t*> wide) {
  const auto isNarrow = [](const uint64_t* value) { return *value != kNarrowMost; };
  while (extra.size() >= 4) {
    const uint64_t kind = numberAt(extra, 0, 2), size = numberAt(extra, 2, 2);
    extra.remove_prefix(4);
    if (size > extra.size()) return false;
    std::string_view field = extra.substr(0, size);
    extra.remove_prefix(size);
    if (kind != 1) continue;
    for (uint64_t* value : wide) {
      if (isNarrow(value)) continue;
      if (field.size() < 8) return false;
      *value = numberAt(field, 0, 8);
      field.remove_prefix(8);
    }
    return true;
  }
  return std::all_of(wide.begin(), wide.end(), isNarrow);
}

}  // namespace

uint32_t zipSum(uint32_t sum, const void* data, size_t bytes) {
  const std::string_view text(static_cast<const char*>(data), bytes);
  sum = ~sum;
  size_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    const uint64_t word = numberAt(text, at, 8) ^ sum;
    sum = 0;
    for (size_t i = 0; i < 8; ++i) sum ^= kTables[7 - i][word >> 8 * i & 0xFF];
  }
  for (; at < bytes; ++at) sum = sum >> 8 ^ kTables[0][(sum ^ static_cast<unsigned char>(text[at])) & 0xFF];
  return ~sum;
}

// ------------------------------------------------------------------------------------------------------------- reading

Status ZipReader::fail(const std::string& what) const {
  const std::string where = begin_ == 0 ? "" : " at byte " + std::to_string(begin_);
  return dataError("'" + path_ + "': not what torch.save writes" + where + ": " + what);
}

Result<ZipReader> ZipReader::open(const FileDescriptor& file, const std::string& path, int64_t begin, int64_t bytes) {
  ZipReader reader(file, path, begin, bytes);
  HYCRT_RETURN_IF_ERROR(reader.readDirectory());
  HYCRT_RETURN_IF_ERROR(reader.dropRoot());
  return reader;
}

Status ZipReader::readDirectory() {
  std::string tail(static_cast<size_t>(std::min(bytes_, kEnd64Bytes + kLocatorBytes + kEndBytes + kMaxComment)), '\0');
  const int64_t tailAt = bytes_ - static_cast<int64_t>(tail.size());
  HYCRT_RETURN_IF_ERROR(readAt(*file_, path_, tail.data(), static_cast<int64_t>(tail.size()), begin_ + tailAt));
  const size_t end = tail.rfind(kEndMagic);
  if (end == tail.npos || tail.size() - end < static_cast<size_t>(kEndBytes)) {
    return fail("its " + std::to_string(bytes_) + " bytes end without the directory of a zip file");
  }
  if (end + kEndBytes + numberAt(tail, end + 20, 2) != tail.size()) return fail("its end record is not where it ends");
  uint64_t count = numberAt(tail, end + 10, 2), size = numberAt(tail, end + 12, 4), at = numberAt(tail, end + 16, 4);
  if (count == 0xFFFF || size == kNarrowMost || at == kNarrowMost) {
    const std::string_view before = std::string_view(tail).substr(0, end);
    const size_t wide = end < kEnd64Bytes + kLocatorBytes ? 0 : end - kLocatorBytes - kEnd64Bytes;
    if (before.size() < kEnd64Bytes + kLocatorBytes || before.substr(wide, 4) != kEnd64Magic ||
        before.substr(end - kLocatorBytes, 4) != kLocatorMagic) {
      return fail("its end record leads to a larger one that is not there");
    }
    count = numberAt(tail, wide + 32, 8), size = numberAt(tail, wide + 40, 8), at = numberAt(tail, wide + 48, 8);
  }
  const auto whole = static_cast<uint64_t>(bytes_);
  if (at > whole || size > whole - at || count > size / kEntryBytes || size > uint64_t{kMaxDirectoryBytes}) {
    return fail("its directory of " + std::to_string(count) + " records lies outside of it or is too large");
  }
  std::string directory(size, '\0');
  HYCRT_RETURN_IF_ERROR(
      readAt(*file_, path_, directory.data(), static_cast<int64_t>(size), begin_ + static_cast<int64_t>(at)));
  size_t next = 0;
  for (uint64_t i = 0; i < count; ++i) HYCRT_RETURN_IF_ERROR(readEntry(directory, &next));
  return {};
}

Status ZipReader::readEntry(const std::string& directory, size_t* at) {
  const std::string_view entry = std::string_view(directory).substr(*at);
  const auto damaged = [&] { return fail("an entry of its directory is damaged"); };
  if (entry.size() < kEntryBytes || entry.substr(0, 4) != kEntryMagic) return damaged();
  const uint64_t flags = numberAt(entry, 8, 2), method = numberAt(entry, 10, 2);
  uint64_t packed = numberAt(entry, 20, 4), size = numberAt(entry, 24, 4), header = numberAt(entry, 42, 4);
  const uint64_t nameBytes = numberAt(entry, 28, 2), extraBytes = numberAt(entry, 30, 2);
  const uint64_t all = kEntryBytes + nameBytes + extraBytes + numberAt(entry, 32, 2);
  if (entry.size() < all) return damaged();
  const std::string name(entry.substr(kEntryBytes, nameBytes));
  if (name.empty() || !isText(name)) return fail("a record's name is no text");
  if (!readExtra(entry.substr(kEntryBytes + nameBytes, extraBytes), {&size, &packed, &header})) return damaged();
  if (method != 0 || packed != size || (flags & 1)) return fail("record '" + name + "' is compressed or encrypted");
  if (size > static_cast<uint64_t>(bytes_) || header > static_cast<uint64_t>(bytes_)) return damaged();
  Record record{0, static_cast<int64_t>(size), static_cast<uint32_t>(numberAt(entry, 16, 4))};
  HYCRT_RETURN_IF_ERROR(locate(name, static_cast<int64_t>(header), &record));
  if (!records_.emplace(name, record).second) return fail("record '" + name + "' is there twice");
  *at += all;
  return {};
}

// The header in front of the contents has an extra field of its own, which is what aligns them.
Status ZipReader::locate(const std::string& name, int64_t header, Record* record) const {
  std::string text(static_cast<size_t>(kHeaderBytes) + name.size(), '\0');
  const auto headBytes = static_cast<int64_t>(text.size());
  const auto wrong = [&] { return fail("record '" + name + "' is not where its directory says"); };
  if (bytes_ - header < headBytes) return wrong();
  HYCRT_RETURN_IF_ERROR(readAt(*file_, path_, text.data(), headBytes, begin_ + header));
  if (text.compare(0, 4, kHeaderMagic) != 0 || numberAt(text, 26, 2) != name.size()) return wrong();
  if (text.compare(kHeaderBytes, name.size(), name) != 0) return wrong();
  const int64_t at = header + headBytes + static_cast<int64_t>(numberAt(text, 28, 2));
  if (at > bytes_ || record->bytes > bytes_ - at) return wrong();
  record->begin = begin_ + at;
  return {};
}

Status ZipReader::dropRoot() {
  if (records_.empty()) return fail("it holds nothing");
  const std::string& first = records_.begin()->first;
  const std::string root = first.substr(0, first.find('/')) + "/";
  std::map<std::string, Record> inside;
  for (const auto& [name, record] : records_) {
    if (name.compare(0, root.size(), root) != 0)
      return fail("record '" + name + "' is not in the folder '" + root + "'");
    inside[name.substr(root.size())] = record;
  }
  records_ = std::move(inside);
  return {};
}

const ZipReader::Record* ZipReader::find(const std::string& name) const {
  const auto found = records_.find(name);
  return found == records_.end() ? nullptr : &found->second;
}

Status ZipReader::read(const std::string& name, int64_t most, std::string* contents) const {
  const Record* const record = find(name);
  if (!record) return fail("it has no record '" + name + "'");
  if (record->bytes > most) {
    return fail("record '" + name + "' has " + std::to_string(record->bytes) + " bytes, expected at most " +
                std::to_string(most));
  }
  contents->resize(static_cast<size_t>(record->bytes));
  HYCRT_RETURN_IF_ERROR(readAt(*file_, path_, contents->data(), record->bytes, record->begin));
  if (zipSum(0, contents->data(), contents->size()) == record->sum) return {};
  return fail("record '" + name + "' is damaged: its bytes are not those of its checksum");
}

// ------------------------------------------------------------------------------------------------------------- writing

Status ZipWriter::add(const std::string& name, const void* contents, int64_t bytes) {
  const auto size = static_cast<uint64_t>(bytes), at = static_cast<uint64_t>(file_.position() - begin_);
  const uint32_t sum = zipSum(0, contents, size);
  const auto addSizes = [&](std::string* text) {
    addNumber(text, sum, 4);
    for (int i = 0; i < 2; ++i) addNumber(text, isWide(size) ? kNarrowMost : size, 4);
    addNumber(text, name.size(), 2);
  };
  std::string wide;
  for (int i = 0; i < 2 && isWide(size); ++i) addNumber(&wide, size, 8);
  const auto fieldOf = [](uint64_t kind, const std::string& value) {
    std::string field;
    addNumber(&field, kind, 2);
    addNumber(&field, value.size(), 2);
    return field + value;
  };
  // Version 4.5, no date; then sizes, the name, and what fills up to the alignment, as torch has it.
  std::string head(kHeaderMagic);
  for (uint64_t number : {uint64_t{45}, kUtf8Names, uint64_t{0}, uint64_t{0}, uint64_t{0}}) addNumber(&head, number, 2);
  addSizes(&head);
  std::string extra = wide.empty() ? "" : fieldOf(1, wide);
  const size_t before = at + kHeaderBytes + name.size() + extra.size() + 4;
  extra +=
      fieldOf(uint64_t{'F'} | uint64_t{'B'} << 8, std::string((kAlignment - before % kAlignment) % kAlignment, 'Z'));
  addNumber(&head, extra.size(), 2);
  head += name + extra;
  HYCRT_RETURN_IF_ERROR(file_.write(head.data(), static_cast<int64_t>(head.size())));
  HYCRT_RETURN_IF_ERROR(file_.write(contents, bytes));
  if (isWide(at)) addNumber(&wide, at, 8);
  const std::string field = wide.empty() ? "" : fieldOf(1, wide);
  directory_ += kEntryMagic;
  for (uint64_t number : {uint64_t{45}, uint64_t{45}, kUtf8Names, uint64_t{0}, uint64_t{0}, uint64_t{0}}) {
    addNumber(&directory_, number, 2);
  }
  addSizes(&directory_);
  addNumber(&directory_, field.size(), 2);
  addNumber(&directory_, 0, 10);  // comment, disk, attributes
  addNumber(&directory_, isWide(at) ? kNarrowMost : at, 4);
  directory_ += name + field;
  ++count_;
  return {};
}

Status ZipWriter::finish() {
  const auto at = static_cast<uint64_t>(file_.position() - begin_);
  const uint64_t size = directory_.size();
  const bool isWideCount = count_ >= 0xFFFF || isWide(count_), isLarge = isWideCount || isWide(size) || isWide(at);
  std::string text = std::move(directory_);
  if (isLarge) {
    text += kEnd64Magic;
    addNumber(&text, kEnd64Bytes - 12, 8);
    addNumber(&text, 45, 2);
    addNumber(&text, 45, 2);
    addNumber(&text, 0, 8);  // disks
    for (uint64_t number : {count_, count_, size, at}) addNumber(&text, number, 8);
    text += kLocatorMagic;
    addNumber(&text, 0, 4);
    addNumber(&text, at + size, 8);
    addNumber(&text, 1, 4);
  }
  text += kEndMagic;
  addNumber(&text, 0, 4);
  for (int i = 0; i < 2; ++i) addNumber(&text, isWideCount ? 0xFFFF : count_, 2);
  addNumber(&text, isWide(size) ? kNarrowMost : size, 4);
  addNumber(&text, isWide(at) ? kNarrowMost : at, 4);
  addNumber(&text, 0, 2);
  return file_.write(text.data(), static_cast<int64_t>(text.size()));
}

}  // namespace hycrt
