// CopyMessage: what is asked of a keeper, by a rank or another keeper, and what it answers. The bytes of files are not
// part of it: between processes of a host a descriptor of memory goes with it, between hosts they follow it.
#ifndef HYCRT_SRC_COPIES_COPY_MESSAGE_H_
#define HYCRT_SRC_COPIES_COPY_MESSAGE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "copies/copy_store.h"
#include "hycrt/copies.h"

namespace hycrt {

struct CopyMessage {
  enum class Kind : uint8_t {
    kPut,      // keep this file
    kGet,      // give this file
    kDone,     // what was put is kept, by two hosts where a rank has put it; or here is what was asked for
    kMissing,  // no keeper has it
    kFailed    // it could not be kept; `text` says why
  };
  Kind kind = Kind::kGet;
  CopyKey key, base;  // of a put: the copy that all ranks know to be whole
  std::string name;
  int64_t bytes = 0;  // of the file
  std::string text;
};

std::string encode(const CopyMessage& message);
bool decode(std::string_view bytes, CopyMessage* message);

inline constexpr size_t kMostCopyMessageBytes = 8192;

}  // namespace hycrt

#endif  // HYCRT_SRC_COPIES_COPY_MESSAGE_H_
