// Text of strangers (names out of a model, paths, what a rank says) on its way to a terminal, which would do what its
// control characters say.
#ifndef HYCRT_PRINTABLE_H_
#define HYCRT_PRINTABLE_H_

#include <cstdio>
#include <string>
#include <string_view>

namespace hycrt {

// C0 but line end and tab, DEL, and C1 as UTF-8 writes it, become \x1b and the like; all else is as it was.
inline std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  const auto escape = [&result](unsigned char byte) {
    char digits[8];
    std::snprintf(digits, sizeof digits, "\\x%02x", unsigned{byte});
    result += digits;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char byte = static_cast<unsigned char>(text[i]);
    const unsigned char next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    const bool isC1 = byte == 0xC2 && next >= 0x80 && next <= 0x9F;
    if (isC1 || (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) {
      escape(byte);
      if (isC1) escape(next), ++i;
    } else {
      result.push_back(text[i]);
    }
  }
  return result;
}

}  // namespace hycrt

#endif  // HYCRT_PRINTABLE_H_
