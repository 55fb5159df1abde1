// Values as bytes of a message, and back: numbers as this machine has them (the hosts of a job run the same program),
// text with its length in front. A reader believes no length before it has compared it with what there is.
#ifndef HYCRT_SRC_COMM_TCP_WIRE_H_
#define HYCRT_SRC_COMM_TCP_WIRE_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace hycrt {

class WireWriter {
 public:
  template <typename T>
  void number(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view value) {
    number(static_cast<uint64_t>(value.size()));
    bytes_.append(value);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  T number() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (rest_.size() < sizeof value) {
      isWhole_ = false;
      rest_ = {};
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string text() {
    const uint64_t bytes = number<uint64_t>();
    if (bytes > rest_.size()) {
      isWhole_ = false;
      rest_ = {};
      return "";
    }
    std::string value(rest_.substr(0, bytes));
    rest_.remove_prefix(bytes);
    return value;
  }
  // How many rows of at least this many bytes may still come.
  bool holds(uint64_t rows, size_t bytesEach) const { return rows <= rest_.size() / bytesEach; }
  size_t left() const { return rest_.size(); }
  // Whether nothing was missing so far.
  bool isWhole() const { return isWhole_; }

 private:
  std::string_view rest_;
  bool isWhole_ = true;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_TCP_WIRE_H_
