// The operations that PyTorch's own files use.
#include "checkpoint/torch/pickle_writer.h"

namespace hycrt {
namespace {

void add(std::string* bytes, uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes->push_back(static_cast<char>(value >> 8 * i & 0xFF));
}

}  // namespace

void PickleWriter::integer(int64_t value) {
  if (value >= 0 && value < 256) {
    bytes_ += 'K';
    return add(&bytes_, static_cast<uint64_t>(value), 1);
  }
  if (value >= INT32_MIN && value <= INT32_MAX) {
    bytes_ += 'J';
    return add(&bytes_, static_cast<uint64_t>(value), 4);
  }
  bytes_ += "\x8a\x08";
  add(&bytes_, static_cast<uint64_t>(value), 8);
}

void PickleWriter::text(std::string_view value) {
  bytes_ += 'X';
  add(&bytes_, value.size(), 4);
  bytes_ += value;
}

void PickleWriter::name(std::string_view module, std::string_view name) {
  (((bytes_ += 'c') += module) += '\n') += name;
  bytes_ += '\n';
}

void PickleWriter::makeObject(std::string_view module, std::string_view name) {
  this->name(module, name);
  bytes_ += ")\x81";
}

void PickleWriter::openObject(std::string_view module, std::string_view name) {
  makeObject(module, name);
  openDict();
}

}  // namespace hycrt
