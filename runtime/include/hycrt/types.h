// The plain vocabulary of the tables that a compiled program consists of: element types, shapes, addresses, row lists.
// All of it is constexpr, so that a generated program is data in its read-only segment.
#ifndef HYCRT_TYPES_H_
#define HYCRT_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace hycrt {

enum class DType : uint8_t { kF32, kF64, kI32, kI64, kF16, kBF16, kU8 };

constexpr int64_t sizeOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kU8:
      return 1;
  }
  return 0;
}

// "f32", as the IR and the diagnostics spell it.
const char* nameOf(DType dtype);

enum class ReduceOp : uint8_t { kSum, kMax };

// At most kMaxRank elements, written as a braced list.
inline constexpr int kMaxRank = 8;

template <typename T>
struct ShortList {
  int size = 0;
  T items[kMaxRank] = {};

  constexpr ShortList() = default;
  constexpr ShortList(std::initializer_list<T> list) {
    for (const T& item : list) items[size++] = item;  // more than kMaxRank items do not compile in a constexpr table
  }
  constexpr const T& operator[](int i) const { return items[i]; }
  constexpr const T* begin() const { return items; }
  constexpr const T* end() const { return items + size; }
};

// Row-major sizes; {} is a scalar.
using Shape = ShortList<int64_t>;

constexpr int64_t elementCount(const Shape& shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

// A view of a constexpr array of rows.
template <typename T>
struct Table {
  const T* rows = nullptr;
  int64_t size = 0;

  constexpr Table() = default;
  template <size_t N>
  constexpr Table(const T (&array)[N]) : rows(array), size(N) {}  // NOLINT: implicit by design
  constexpr const T& operator[](int64_t i) const { return rows[i]; }
  constexpr const T* begin() const { return rows; }
  constexpr const T* end() const { return rows + size; }
};

// Where a tensor lives: an index into Program::arenas and a byte offset in that arena.
struct BufferRef {
  int arena = 0;
  int64_t offset = 0;
};

}  // namespace hycrt

#endif  // HYCRT_TYPES_H_
