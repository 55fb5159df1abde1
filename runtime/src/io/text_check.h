// Whether bytes are text: UTF-8 (RFC 3629) without NUL.
#ifndef HYCRT_SRC_IO_TEXT_CHECK_H_
#define HYCRT_SRC_IO_TEXT_CHECK_H_

#include <cstddef>
#include <cstdint>

namespace hycrt {

struct TextCheck {
  size_t valid;       // bytes of whole characters in front of `count`
  bool isUnfinished;  // what follows is the beginning of a character that goes on behind the end
};

// Where `valid` is less than `count` and nothing is unfinished, byte `valid` is where text ends.
TextCheck checkText(const unsigned char* bytes, size_t count);

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_TEXT_CHECK_H_
