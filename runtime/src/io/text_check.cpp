// Eight bytes at a time where they are ASCII, which text mostly is.
#include "io/text_check.h"

#include <cstring>

namespace hycrt {
namespace {

constexpr uint64_t kOnes = 0x0101010101010101, kHighBits = 0x8080808080808080;

bool isAsciiWithoutNul(const unsigned char* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return (word & kHighBits) == 0 && ((word - kOnes) & ~word & kHighBits) == 0;
}

// Of a character that begins with a byte from 0xC2: its length, and what its second byte may be.
struct Lead {
  size_t length;
  unsigned char least, most;
};

Lead leadOf(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};  // shorter ones are written with two bytes
  if (byte == 0xED) return {3, 0x80, 0x9F};  // no surrogates
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};  // up to U+10FFFF
  return {0, 0, 0};
}

}  // namespace

TextCheck checkText(const unsigned char* bytes, size_t count) {
  size_t at = 0;
  while (at < count) {
    if (count - at >= 8 && isAsciiWithoutNul(bytes + at)) {
      at += 8;
      continue;
    }
    if (bytes[at] > 0 && bytes[at] < 0x80) {
      ++at;
      continue;
    }
    const Lead lead = leadOf(bytes[at]);
    if (lead.length == 0) return {at, false};
    size_t next = 1;
    for (; next < lead.length && at + next < count; ++next) {
      const unsigned char byte = bytes[at + next];
      const bool fits = next == 1 ? byte >= lead.least && byte <= lead.most : (byte & 0xC0) == 0x80;
      if (!fits) return {at, false};
    }
    if (next < lead.length) return {at, true};
    at += lead.length;
  }
  return {at, false};
}

}  // namespace hycrt
