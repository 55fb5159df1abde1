// Keys are field numbers times eight and the type: 0 varint, 1 eight bytes, 2 a length and so many bytes, 5 four bytes.
#include "instruments/event_message.h"

#include <cstring>

#include "base/crc32c.h"

namespace hycrt {
namespace {

constexpr uint8_t kWallTime = 1 << 3 | 1, kStep = 2 << 3 | 0, kFileVersion = 3 << 3 | 2, kSummary = 5 << 3 | 2,
                  kSessionLog = 7 << 3 | 2;
constexpr uint8_t kValue = 1 << 3 | 2, kTag = 1 << 3 | 2, kSimpleValue = 2 << 3 | 5;
constexpr uint8_t kStatus = 1 << 3 | 0, kStart = 1;
constexpr uint32_t kMask = 0xA282EAD8;

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are little-endian");

size_t varintBytes(uint64_t value) {
  size_t bytes = 1;
  while (value >>= 7) ++bytes;
  return bytes;
}

}  // namespace

uint32_t maskedCrc32c(const void* data, size_t bytes) {
  const uint32_t crc = crc32c(0, data, bytes);
  return (crc >> 15 | crc << 17) + kMask;
}

EventMessage::EventMessage(double wallTime, int64_t step) {
  byte(kWallTime);
  fixed(&wallTime, sizeof wallTime);
  if (step == 0) return;  // as Protobuf has it
  byte(kStep);
  varint(static_cast<uint64_t>(step));
}

void EventMessage::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) byte(static_cast<uint8_t>(value | 0x80));
  byte(static_cast<uint8_t>(value));
}

void EventMessage::fixed(const void* value, size_t bytes) {
  std::memcpy(bytes_.data() + size_, value, bytes);
  size_ += bytes;
}

void EventMessage::text(uint8_t key, std::string_view value) {
  byte(key);
  varint(value.size());
  fixed(value.data(), value.size());
}

void EventMessage::setFileVersion(std::string_view version) { text(kFileVersion, version); }

void EventMessage::setSessionStart() {
  byte(kSessionLog);
  byte(2);
  byte(kStatus);
  byte(kStart);
}

bool EventMessage::addValue(std::string_view tag, double value) {
  const float number = static_cast<float>(value);
  const size_t bytes = 1 + varintBytes(tag.size()) + tag.size() + 1 + sizeof number;
  if (kSummaryHeader + 1 + varintBytes(bytes) + bytes > room()) return false;
  if (summary_ == 0) {
    summary_ = size_;
    size_ += kSummaryHeader;
  }
  byte(kValue);
  varint(bytes);
  text(kTag, tag);
  byte(kSimpleValue);
  fixed(&number, sizeof number);
  return true;
}

std::string_view EventMessage::record() {
  if (summary_ != 0) {
    const size_t begin = summary_ + kSummaryHeader, length = size_ - begin;
    size_ = summary_;
    byte(kSummary);
    varint(length);
    std::memmove(bytes_.data() + size_, bytes_.data() + begin, length);
    size_ += length;
  }
  const uint64_t length = size_ - kHeaderBytes;
  const uint32_t lengthCrc = maskedCrc32c(&length, sizeof length);
  const uint32_t dataCrc = maskedCrc32c(bytes_.data() + kHeaderBytes, length);
  std::memcpy(bytes_.data(), &length, sizeof length);
  std::memcpy(bytes_.data() + sizeof length, &lengthCrc, sizeof lengthCrc);
  fixed(&dataCrc, sizeof dataCrc);
  return {bytes_.data(), size_};
}

}  // namespace hycrt
