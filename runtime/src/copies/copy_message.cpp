// Messages as bytes.
#include "copies/copy_message.h"

#include "checkpoint/manifest.h"
#include "comm/tcp/wire.h"

namespace hycrt {
namespace {

constexpr size_t kMostTextBytes = 4096;

CopyKey keyFrom(WireReader& reader) {
  const int64_t start = reader.number<int64_t>();
  return {start, reader.number<int64_t>()};
}

}  // namespace

std::string encode(const CopyMessage& message) {
  WireWriter writer;
  writer.number(message.kind);
  for (const CopyKey& key : {message.key, message.base}) {
    writer.number(key.start);
    writer.number(key.step);
  }
  writer.number(message.bytes);
  writer.text(message.name);
  writer.text(message.text.substr(0, kMostTextBytes));
  return writer.take();
}

bool decode(std::string_view bytes, CopyMessage* message) {
  WireReader reader(bytes);
  message->kind = reader.number<CopyMessage::Kind>();
  message->key = keyFrom(reader);
  message->base = keyFrom(reader);
  message->bytes = reader.number<int64_t>();
  message->name = reader.text();
  message->text = reader.text();
  const bool asks = message->kind == CopyMessage::Kind::kPut || message->kind == CopyMessage::Kind::kGet;
  return reader.isWhole() && reader.left() == 0 && message->kind <= CopyMessage::Kind::kFailed && message->bytes >= 0 &&
         (!asks || (!message->key.isNone() && isCheckpointFileName(message->name)));
}

}  // namespace hycrt
