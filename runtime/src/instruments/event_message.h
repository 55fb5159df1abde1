// EventMessage: one of TensorBoard's events as Protobuf writes it, and as a TFRecord around it, in memory of the
// caller's. The messages are few and their fields fixed, so that no rank has to link Protobuf for them:
//
//   Event   { 1 double wall_time; 2 int64 step; 3 string file_version; 5 Summary summary; 7 SessionLog session_log }
//   Summary { repeated 1 Value value }    Value { 1 string tag; 2 float simple_value }    SessionLog { 1 enum status }
//
// A TFRecord: 8 bytes of length, the masked CRC32C of these, the data, its masked CRC32C; all little-endian.
#ifndef HYCRT_SRC_INSTRUMENTS_EVENT_MESSAGE_H_
#define HYCRT_SRC_INSTRUMENTS_EVENT_MESSAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hycrt {

// A sum of data that itself holds sums would otherwise be weak.
uint32_t maskedCrc32c(const void* data, size_t bytes);

class EventMessage {
 public:
  EventMessage(double wallTime, int64_t step);
  void setFileVersion(std::string_view version);
  // From the event's step on, what was told before is void.
  void setSessionStart();
  // False: there is no room for another one.
  bool addValue(std::string_view tag, double value);

  // The whole record. It lives as long as this object, and nothing can be added.
  std::string_view record();

 private:
  static constexpr size_t kHeaderBytes = 12, kFooterBytes = 4, kMostBytes = 4096;
  // A summary's length stands before it; two bytes are enough for all that has room here.
  static constexpr size_t kSummaryHeader = 3;

  void byte(uint8_t value) { bytes_[size_++] = static_cast<char>(value); }
  void varint(uint64_t value);
  void fixed(const void* value, size_t bytes);
  void text(uint8_t key, std::string_view value);
  size_t room() const { return bytes_.size() - kFooterBytes - size_; }

  std::array<char, kMostBytes> bytes_;
  size_t size_ = kHeaderBytes;
  size_t summary_ = 0;  // where it begins; 0: there is none
};

}  // namespace hycrt

#endif  // HYCRT_SRC_INSTRUMENTS_EVENT_MESSAGE_H_
