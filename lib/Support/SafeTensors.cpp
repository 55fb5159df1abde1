// Order of checks: the first eight bytes against the file's size, the text as JSON, each tensor, all of them together.
#include "hyc/Support/SafeTensors.h"

#include "hyc/Support/LocatedJson.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;
using namespace hyc;

int64_t hyc::safeTensorBytes(StringRef type) {
  return StringSwitch<int64_t>(type)
      .Cases({"F64", "I64", "U64"}, 8)
      .Cases({"F32", "I32", "U32"}, 4)
      .Cases({"F16", "BF16", "I16", "U16"}, 2)
      .Cases({"I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2"}, 1)
      .Default(0);
}

namespace {
class HeaderReader {
public:
  HeaderReader(StringRef path, uint64_t fileBytes) : path(path), fileBytes(fileBytes) {}

  /// `text` is the header, after which the data begins.
  Expected<std::vector<SafeTensor>> read(StringRef text);

private:
  Error fail(const Twine &what) const { return createStringError(inconvertibleErrorCode(), path + ": " + what); }
  Error fail(StringRef tensor, const Twine &what) const { return fail("tensor \"" + tensor + "\" " + what); }
  Error readEntry(const JsonValue::Member &member, SafeTensor &tensor) const;
  Error readShape(const JsonValue &value, SafeTensor &tensor) const;
  Error readOffsets(const JsonValue &value, SafeTensor &tensor) const;
  Error checkCoverage(ArrayRef<SafeTensor> tensors) const;

  StringRef path;
  uint64_t fileBytes;
  uint64_t dataBegin = 0;
};
} // namespace

Error HeaderReader::readShape(const JsonValue &value, SafeTensor &tensor) const {
  const std::vector<JsonValue> *sizes = value.getArray();
  if (!sizes)
    return fail(tensor.name, "has the shape " + value.describe() + ", expected a list of sizes");
  tensor.bytes = safeTensorBytes(tensor.type);
  for (const JsonValue &size : *sizes) {
    std::optional<int64_t> number = size.getInteger();
    if (!number || *number < 0)
      return fail(tensor.name, "has a dimension of size " + size.describe() + ", expected a number that is at least 0");
    tensor.shape.push_back(*number);
  }
  // A dimension of 0 makes the product 0, however large the others are.
  if (is_contained(tensor.shape, 0))
    tensor.bytes = 0;
  else
    for (int64_t size : tensor.shape)
      if (MulOverflow(tensor.bytes, size, tensor.bytes))
        return fail(tensor.name, "has more bytes than 63 bits can count");
  return Error::success();
}

Error HeaderReader::readOffsets(const JsonValue &value, SafeTensor &tensor) const {
  const std::vector<JsonValue> *pair = value.getArray();
  std::optional<int64_t> begin, end;
  if (pair && pair->size() == 2)
    begin = (*pair)[0].getInteger(), end = (*pair)[1].getInteger();
  if (!begin || !end || *begin < 0 || *end < *begin)
    return fail(tensor.name, "has data_offsets that are not two ascending numbers of bytes");
  uint64_t dataBytes = fileBytes - dataBegin;
  if (static_cast<uint64_t>(*end) > dataBytes)
    return fail(tensor.name, "ends at byte " + Twine(*end) + " of the data, which has " + Twine(dataBytes) + " bytes");
  if (*end - *begin != tensor.bytes)
    return fail(tensor.name, "has " + Twine(*end - *begin) + " bytes of data, expected " + Twine(tensor.bytes) +
                                 " for its shape and type " + tensor.type);
  tensor.offset = static_cast<int64_t>(dataBegin) + *begin;
  return Error::success();
}

Error HeaderReader::readEntry(const JsonValue::Member &member, SafeTensor &tensor) const {
  tensor.name = member.key;
  if (member.key.empty() || StringRef(member.key).contains('\0'))
    return locatedError(path, member.keyAt, "the name of a tensor is empty or has a NUL in it");
  if (!member.value.getObject())
    return fail(tensor.name, "is " + member.value.describe() + ", expected an object with dtype, shape, data_offsets");
  const JsonValue *type = member.value.get("dtype"), *shape = member.value.get("shape"),
                  *offsets = member.value.get("data_offsets");
  if (!type || !shape || !offsets)
    return fail(tensor.name, Twine("has no ") + (!type ? "dtype" : !shape ? "shape" : "data_offsets"));
  tensor.type = type->getString().value_or("").str();
  if (safeTensorBytes(tensor.type) == 0)
    return fail(tensor.name, "has the type " + type->describe() + ", which the format does not have");
  if (Error error = readShape(*shape, tensor))
    return error;
  return readOffsets(*offsets, tensor);
}

Error HeaderReader::checkCoverage(ArrayRef<SafeTensor> tensors) const {
  int64_t next = static_cast<int64_t>(dataBegin);
  for (const SafeTensor &tensor : tensors) {
    if (tensor.offset != next)
      return fail(tensor.name, Twine(tensor.offset < next ? "overlaps the tensor before it" : "comes after a hole") +
                                   ": it begins at byte " + Twine(tensor.offset) + ", expected " + Twine(next));
    next += tensor.bytes;
  }
  if (static_cast<uint64_t>(next) != fileBytes)
    return fail("the tensors end at byte " + Twine(next) + ", but the file has " + Twine(fileBytes));
  return Error::success();
}

Expected<std::vector<SafeTensor>> HeaderReader::read(StringRef text) {
  dataBegin = 8 + text.size();
  Expected<JsonValue> header = parseJson(text, path);
  if (!header)
    return header.takeError();
  if (!header->getObject())
    return fail("the header is " + header->describe() + ", expected an object of tensors");
  std::vector<SafeTensor> tensors;
  for (const JsonValue::Member &member : *header->getObject()) {
    if (member.key == "__metadata__")
      continue;
    if (Error error = readEntry(member, tensors.emplace_back()))
      return error;
  }
  // Empty tensors may lie anywhere between others; they come first where they share an offset.
  llvm::sort(tensors, [](const SafeTensor &a, const SafeTensor &b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  if (Error error = checkCoverage(tensors))
    return error;
  return tensors;
}

/// Whether the file begins as what torch.save writes: a zip archive, or a bare pickle of protocol 2 or later.
static bool looksPickled(StringRef bytes) {
  return bytes.starts_with("PK\x03\x04") || (bytes.size() > 1 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5);
}

Expected<std::vector<SafeTensor>> hyc::readSafeTensorsHeader(StringRef path) {
  auto fail = [&](const Twine &what) { return createStringError(inconvertibleErrorCode(), path + ": " + what); };
  sys::fs::file_status status;
  if (std::error_code error = sys::fs::status(path, status))
    return fail("cannot be read: " + error.message());
  if (status.type() != sys::fs::file_type::regular_file)
    return fail("is no regular file, expected a safetensors file");
  uint64_t fileBytes = status.getSize();
  ErrorOr<std::unique_ptr<MemoryBuffer>> first = MemoryBuffer::getFileSlice(path, std::min<uint64_t>(fileBytes, 8), 0);
  if (!first)
    return fail("cannot be read: " + first.getError().message());
  StringRef bytes = (*first)->getBuffer();
  uint64_t length = bytes.size() < 8 ? 0 : support::endian::read64le(bytes.data());
  bool isTooLong = bytes.size() < 8 || length > kMaxSafeTensorsHeader || length > fileBytes - 8;
  // A header of 640 bytes begins as a pickle does, too; as a length, what a pickle begins with is none that may be.
  if (isTooLong && looksPickled(bytes))
    return fail("is a pickle as torch.save writes it, which can run code when it is read; save it with safetensors");
  if (bytes.size() < 8)
    return fail("ends at byte " + Twine(bytes.size()) + ", within the length of its header");
  if (isTooLong)
    return fail("the header claims " + Twine(length) + " bytes, expected at most " +
                Twine(std::min(fileBytes - 8, kMaxSafeTensorsHeader)));
  ErrorOr<std::unique_ptr<MemoryBuffer>> header = MemoryBuffer::getFileSlice(path, length, 8);
  if (!header)
    return fail("cannot be read: " + header.getError().message());
  return HeaderReader(path, fileBytes).read((*header)->getBuffer());
}
