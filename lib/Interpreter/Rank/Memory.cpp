// Loads and stores of strided regions, and the notes on their bytes. What is stored is rounded to the bytes that it
// takes.
#include "Rank/Memory.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/MathExtras.h"
#include <cstring>

using namespace mlir;
using namespace hyc::interpreter;

int64_t hyc::interpreter::programBytes(Type elementType) {
  return elementType.isInteger(1) ? 1 : elementType.getIntOrFloatBitWidth() / 8;
}

Extent Extent::dense(Arena *arena, int64_t offset, Type elementType, ArrayRef<int64_t> shape) {
  return {arena, offset, elementType, SmallVector<int64_t>(shape), rowMajorStrides(shape)};
}

Arena &Memory::addArena(StringRef name, int64_t bytes, int64_t recordBytes) {
  Arena &arena = arenas[name.str()];
  arena.name = name.str();
  arena.bytes = bytes;
  arena.recordBytes = recordBytes;
  arena.data.assign(static_cast<size_t>(bytes) * (arithmetic == Arithmetic::Wide ? kWideScale : 1), 0xFF);
  arena.notes.assign(static_cast<size_t>(bytes), ByteNote::Undefined);
  return arena;
}

Arena *Memory::find(StringRef name) {
  auto entry = arenas.find(name.str());
  return entry == arenas.end() ? nullptr : &entry->second;
}

static void fillBytes(Arena &arena, int64_t begin, int64_t end, ByteNote note, uint8_t byte, Arithmetic arithmetic) {
  int64_t scale = arithmetic == Arithmetic::Wide ? kWideScale : 1;
  std::fill(arena.notes.begin() + begin, arena.notes.begin() + end, note);
  std::fill(arena.data.begin() + begin * scale, arena.data.begin() + end * scale, byte);
}

void Memory::poison(Arena &arena, int64_t begin, int64_t end) {
  fillBytes(arena, begin, end, ByteNote::Undefined, 0xFF, arithmetic);
}

void Memory::zero(Arena &arena, int64_t begin, int64_t end) {
  fillBytes(arena, begin, end, ByteNote::Defined, 0, arithmetic);
}

//===----------------------------------------------------------------------===//
// Walking a region
//===----------------------------------------------------------------------===//

/// Calls body(byte offset of the first, elements, distance in bytes) for each run along the last dimension; stops where
/// it gives false.
template <typename Body>
static bool forEachRun(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides, int64_t offset, int64_t elementBytes,
                       Body &body) {
  if (shape.empty())
    return body(offset, int64_t{1}, elementBytes);
  if (shape.size() == 1)
    return shape[0] == 0 || body(offset, shape[0], strides[0] * elementBytes);
  for (int64_t i = 0; i < shape[0]; ++i)
    if (!forEachRun(shape.drop_front(), strides.drop_front(), offset + i * strides[0] * elementBytes, elementBytes,
                    body))
      return false;
  return true;
}

/// The first byte of the region whose note is among `bad`, or -1.
static int64_t findNote(const Extent &region, ArrayRef<ByteNote> bad) {
  int64_t found = -1, elementBytes = programBytes(region.elementType);
  const std::vector<ByteNote> &notes = region.arena->notes;
  auto isBad = [&](ByteNote note) { return llvm::is_contained(bad, note); };
  auto body = [&](int64_t start, int64_t count, int64_t distance) {
    for (int64_t i = 0; i < count && found < 0; ++i)
      for (int64_t byte = start + i * distance, e = byte + elementBytes; byte < e && found < 0; ++byte)
        found = isBad(notes[byte]) ? byte : -1;
    return found < 0;
  };
  forEachRun(region.shape, region.strides, region.offset, elementBytes, body);
  return found;
}

static void setNotes(const Extent &region, ByteNote note) {
  int64_t elementBytes = programBytes(region.elementType);
  auto body = [&](int64_t start, int64_t count, int64_t distance) {
    for (int64_t i = 0; i < count; ++i)
      std::fill_n(region.arena->notes.begin() + start + i * distance, elementBytes, note);
    return true;
  };
  forEachRun(region.shape, region.strides, region.offset, elementBytes, body);
}

LogicalResult Memory::checkBounds(Operation *op, const Extent &region) const {
  int64_t last = 0, bytes = 0, end = 0;
  bool overflows = false;
  for (auto [size, stride] : llvm::zip_equal(region.shape, region.strides)) {
    if (size <= 0)
      return size == 0 ? success() : LogicalResult(op->emitError("has a negative dimension"));
    int64_t reach = 0;
    overflows |= stride < 0 || llvm::MulOverflow(size - 1, stride, reach) || llvm::AddOverflow(last, reach, last);
  }
  overflows |= llvm::MulOverflow(last + 1, programBytes(region.elementType), bytes) ||
               llvm::AddOverflow(region.offset, bytes, end);
  if (!overflows && region.offset >= 0 && end <= region.arena->bytes)
    return success();
  return op->emitError("reaches byte ") << end << " of @" << region.arena->name << ", which has "
                                        << region.arena->bytes;
}

LogicalResult Memory::note(Operation *op, const Extent &region, ByteNote note) {
  if (failed(checkBounds(op, region)))
    return failure();
  setNotes(region, note);
  return success();
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

namespace {
/// bf16 or f16 as memory keeps it.
template <ElementKind kind> struct HalfWidth {
  HalfWidth() = default;
  explicit HalfWidth(float value) : bits(encodeHalfWidth(kind, value)) {}
  explicit operator float() const { return decodeHalfWidth(kind, bits); }
  uint16_t bits = 0;
};
/// An 8-bit float as memory keeps it.
template <ElementKind kind> struct Float8 {
  Float8() = default;
  explicit Float8(float value) : bits(encodeFloat8(kind, value)) {}
  explicit operator float() const { return decodeFloat8(kind, bits); }
  uint8_t bits = 0;
};
} // namespace

/// The storage type of the tensor elements that memory keeps as `Stored`.
template <typename Stored>
using StorageOf = std::conditional_t<std::is_integral_v<Stored>, int64_t,
                                     std::conditional_t<std::is_floating_point_v<Stored>, Stored, float>>;

/// Calls `body` with a value of the type that memory keeps the elements in.
template <typename Body> static void dispatchStored(Type elementType, Arithmetic arithmetic, Body body) {
  if (elementType.isF64() || (isa<FloatType>(elementType) && arithmetic == Arithmetic::Wide))
    body(0.0);
  else if (elementType.isF32())
    body(0.0f);
  else if (elementType.isBF16())
    body(HalfWidth<ElementKind::BF16>());
  else if (elementType.isF16())
    body(HalfWidth<ElementKind::F16>());
  else if (isa<Float8E4M3FNType>(elementType))
    body(Float8<ElementKind::F8E4M3>());
  else if (isa<Float8E5M2Type>(elementType))
    body(Float8<ElementKind::F8E5M2>());
  else if (elementType.isInteger(64))
    body(int64_t{0});
  else if (elementType.isInteger(32))
    body(int32_t{0});
  else
    body(uint8_t{0});
}

FailureOr<Tensor> Memory::load(Operation *op, const Extent &region) const {
  std::optional<ElementKind> kind = elementKind(region.elementType, arithmetic);
  if (!kind || !countElements(region.shape))
    return op->emitError("the interpreter cannot hold what it would read"), failure();
  if (failed(checkBounds(op, region)))
    return failure();
  if (int64_t byte = findNote(region, {ByteNote::Undefined, ByteNote::Promised}); byte >= 0)
    return op->emitError("reads byte ") << byte << " of @" << region.arena->name
                                        << (region.arena->notes[byte] == ByteNote::Undefined
                                                ? ", which nothing has written"
                                                : ", which an exchange has not delivered yet"),
           failure();
  Tensor tensor(*kind, region.shape);
  const int64_t scale = arithmetic == Arithmetic::Wide ? kWideScale : 1;
  dispatchStored(region.elementType, arithmetic, [&](auto stored) {
    using Stored = decltype(stored);
    using T = StorageOf<Stored>;
    T *out = tensor.mutableData<T>();
    auto body = [&](int64_t start, int64_t count, int64_t distance) {
      const uint8_t *from = region.arena->data.data() + start * scale;
      for (int64_t i = 0; i < count; ++i, from += distance * scale) {
        Stored element;
        std::memcpy(&element, from, sizeof element);
        *out++ = static_cast<T>(element);
      }
      return true;
    };
    forEachRun(region.shape, region.strides, region.offset, programBytes(region.elementType), body);
  });
  return tensor;
}

LogicalResult Memory::store(Operation *op, const Extent &region, const Tensor &value) {
  if (failed(checkBounds(op, region)))
    return failure();
  if (value.getShape() != ArrayRef<int64_t>(region.shape) ||
      value.getKind() != elementKind(region.elementType, arithmetic))
    return op->emitError("the interpreter computed ") << value.describeType() << " for another buffer";
  if (int64_t byte = findNote(region, {ByteNote::Lent, ByteNote::Promised}); byte >= 0)
    return op->emitError("writes byte ") << byte << " of @" << region.arena->name << ", which an unfinished exchange "
                                         << (region.arena->notes[byte] == ByteNote::Lent ? "reads" : "writes");
  const int64_t scale = arithmetic == Arithmetic::Wide ? kWideScale : 1;
  dispatchStored(region.elementType, arithmetic, [&](auto stored) {
    using Stored = decltype(stored);
    using T = StorageOf<Stored>;
    const T *in = value.data<T>();
    auto body = [&](int64_t start, int64_t count, int64_t distance) {
      uint8_t *to = region.arena->data.data() + start * scale;
      for (int64_t i = 0; i < count; ++i, to += distance * scale) {
        Stored element = static_cast<Stored>(*in++);
        std::memcpy(to, &element, sizeof element);
      }
      return true;
    };
    forEachRun(region.shape, region.strides, region.offset, programBytes(region.elementType), body);
  });
  setNotes(region, ByteNote::Defined);
  return success();
}
