// Tensor's storage, conversions and strided pieces.
#include "hyc/Interpreter/Tensor.h"

#include "Values/StridedCopy.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MathExtras.h"
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

using namespace hyc::interpreter;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::SmallVectorImpl;

llvm::StringRef hyc::interpreter::nameOf(ElementKind kind) {
  switch (kind) {
  case ElementKind::F32:
    return "f32";
  case ElementKind::F64:
    return "f64";
  case ElementKind::BF16:
    return "bf16";
  case ElementKind::F16:
    return "f16";
  case ElementKind::F8E4M3:
    return "f8E4M3FN";
  case ElementKind::F8E5M2:
    return "f8E5M2";
  case ElementKind::I64:
    return "i64";
  case ElementKind::I32:
    return "i32";
  case ElementKind::U8:
    return "ui8";
  case ElementKind::I1:
    return "i1";
  }
  llvm_unreachable("every kind has a name");
}

int64_t hyc::interpreter::wrapInteger(ElementKind kind, int64_t value) {
  if (kind == ElementKind::I32)
    return static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(value)));
  if (kind == ElementKind::U8)
    return value & 0xFF;
  return kind == ElementKind::I1 ? (value & 1) : value;
}

std::optional<int64_t> hyc::interpreter::countElements(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape) {
    if (size < 0 || llvm::MulOverflow(count, size, count))
      return std::nullopt;
  }
  return count <= (int64_t{1} << 31) ? std::optional(count) : std::nullopt;
}

SmallVector<int64_t> hyc::interpreter::rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t dim = shape.size(); dim-- > 0; stride *= shape[dim])
    strides[dim] = stride;
  return strides;
}

//===----------------------------------------------------------------------===//
// 16-bit floats
//===----------------------------------------------------------------------===//

/// The nearest multiple of `unit`, a power of two in whose multiples `value` is a double's whole number; ties to even.
static double nearestMultiple(double value, double unit) { return std::nearbyint(value / unit) * unit; }

static float roundToF16(float value) {
  if (std::isnan(value) || std::isinf(value))
    return value;
  int exponent = 0;
  std::frexp(value, &exponent); // |value| in [2^(exponent - 1), 2^exponent)
  // 11 significant bits, but no unit below that of the subnormals.
  double rounded = nearestMultiple(value, std::ldexp(1.0, std::max(exponent - 11, -24)));
  return static_cast<float>(std::fabs(rounded) > 65504.0 ? std::copysign(HUGE_VAL, rounded) : rounded);
}

uint16_t hyc::interpreter::encodeHalfWidth(ElementKind kind, float value) {
  if (kind == ElementKind::BF16) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if (std::isnan(value))
      return static_cast<uint16_t>(bits >> 16 | 0x40);
    uint32_t low = bits & 0xFFFF, high = bits >> 16;
    return static_cast<uint16_t>(high + (low > 0x8000 || (low == 0x8000 && (high & 1))));
  }
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value))
    return sign | 0x7E00;
  double magnitude = std::fabs(static_cast<double>(roundToF16(value)));
  if (std::isinf(magnitude))
    return sign | 0x7C00;
  if (magnitude < 0x1p-14) // zero and subnormals
    return sign | static_cast<uint16_t>(magnitude * 0x1p24);
  int exponent = 0;
  double fraction = std::frexp(magnitude, &exponent); // [0.5, 1)
  return sign | static_cast<uint16_t>((exponent + 14) << 10) | static_cast<uint16_t>((fraction * 2 - 1) * 1024);
}

float hyc::interpreter::decodeHalfWidth(ElementKind kind, uint16_t bits) {
  if (kind == ElementKind::BF16) {
    uint32_t wide = uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float magnitude = exponent == 31  ? (fraction ? std::numeric_limits<float>::quiet_NaN() : HUGE_VALF)
                    : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                    : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

//===----------------------------------------------------------------------===//
// 8-bit floats
//===----------------------------------------------------------------------===//

namespace {
/// A sign, the exponent's bits and those of the fraction; a magnitude's code counts upwards from 0.
struct Float8Layout {
  int fractionBits;
  int leastExponent;     // of normal numbers, as frexp counts: of [2^(e - 1), 2^e)
  float largest;         // finite
  uint8_t overflow, nan; // codes
};
} // namespace

static Float8Layout layoutOf(ElementKind kind) {
  return kind == ElementKind::F8E4M3 ? Float8Layout{3, -5, 448, 0x7F, 0x7F} : Float8Layout{2, -13, 57344, 0x7C, 0x7F};
}

uint8_t hyc::interpreter::encodeFloat8(ElementKind kind, float value) {
  const Float8Layout layout = layoutOf(kind);
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value))
    return sign | layout.nan;
  if (std::isinf(value))
    return sign | layout.overflow;
  int exponent = 0;
  std::frexp(value, &exponent);
  exponent = value == 0 ? layout.leastExponent : std::max(exponent, layout.leastExponent);
  const double unit = std::ldexp(1.0, exponent - 1 - layout.fractionBits);
  const double rounded = nearestMultiple(std::fabs(static_cast<double>(value)), unit);
  if (rounded > layout.largest)
    return sign | layout.overflow;
  // Units of the exponent, counted from that of the subnormals; a carry goes into the next exponent by itself.
  const int units = static_cast<int>(rounded / unit), steps = exponent - layout.leastExponent;
  return sign | static_cast<uint8_t>(units + (steps << layout.fractionBits));
}

float hyc::interpreter::decodeFloat8(ElementKind kind, uint8_t bits) {
  const Float8Layout layout = layoutOf(kind);
  const int code = bits & 0x7F, units = code & ((1 << layout.fractionBits) - 1), exponent = code >> layout.fractionBits;
  const int one = 1 << layout.fractionBits;
  float magnitude = std::ldexp(static_cast<float>(exponent == 0 ? units : units + one),
                               std::max(exponent, 1) - 2 + layout.leastExponent - layout.fractionBits);
  if (magnitude > layout.largest)
    magnitude = code == layout.overflow && code != layout.nan ? HUGE_VALF : std::numeric_limits<float>::quiet_NaN();
  return bits & 0x80 ? -magnitude : magnitude;
}

void Tensor::roundElements() {
  if (!isHalfWidth(kind) && !isFloat8(kind))
    return;
  // What only moved is rounded already: it stays shared.
  const float *computed = data<float>();
  int64_t first = 0;
  while (first < numElements && std::isfinite(computed[first]) && roundTo(kind, computed[first]) == computed[first])
    ++first;
  if (first == numElements)
    return;
  float *elements = mutableData<float>();
  for (int64_t i = first; i < numElements; ++i)
    elements[i] = roundTo(kind, elements[i]);
}

//===----------------------------------------------------------------------===//
// Making tensors
//===----------------------------------------------------------------------===//

Tensor::Tensor(ElementKind kind, ArrayRef<int64_t> shape) : kind(kind), shape(shape) {
  numElements = *countElements(shape);
  buffer = dispatchStorage(
      kind, [&](auto zero) { return std::make_shared<Buffer>(std::vector<decltype(zero)>(numElements, zero)); });
}

/// `value` truncated towards zero into 64 bits; saturates, and NaN is 0, where C++ leaves the result open.
static int64_t saturatingInteger(double value) {
  if (std::isnan(value))
    return 0;
  if (value >= 0x1p63)
    return std::numeric_limits<int64_t>::max();
  return value < -0x1p63 ? std::numeric_limits<int64_t>::min() : static_cast<int64_t>(value);
}

static int64_t integerFromDouble(ElementKind kind, double value) {
  if (kind == ElementKind::I1)
    return value != 0;
  if (kind == ElementKind::I32)
    return saturatingInteger(std::isnan(value) ? 0 : std::fmin(std::fmax(value, -0x1p31), 0x1p31 - 1));
  if (kind == ElementKind::U8)
    return saturatingInteger(std::isnan(value) ? 0 : std::fmin(std::fmax(value, 0), 255));
  return saturatingInteger(value);
}

Tensor Tensor::splat(ElementKind kind, ArrayRef<int64_t> shape, double value) {
  Tensor tensor(kind, shape);
  dispatchStorage(kind, [&](auto zero) {
    using T = decltype(zero);
    T element = isFloat(kind) ? static_cast<T>(value) : static_cast<T>(integerFromDouble(kind, value));
    std::fill_n(tensor.mutableData<T>(), tensor.numElements, element);
  });
  tensor.roundElements();
  return tensor;
}

Tensor Tensor::integer(ElementKind kind, int64_t value) { return fromIntegers(kind, {}, {value}); }

Tensor Tensor::fromDoubles(ElementKind kind, ArrayRef<int64_t> shape, ArrayRef<double> values) {
  Tensor tensor(kind, shape);
  assert(static_cast<int64_t>(values.size()) == tensor.numElements && "one value an element");
  for (int64_t i = 0; i < tensor.numElements; ++i)
    tensor.set(i, values[i]);
  return tensor;
}

Tensor Tensor::fromIntegers(ElementKind kind, ArrayRef<int64_t> shape, ArrayRef<int64_t> values) {
  Tensor tensor(kind, shape);
  assert(!isFloat(kind) && static_cast<int64_t>(values.size()) == tensor.numElements && "one integer an element");
  int64_t *data = tensor.mutableData<int64_t>();
  for (int64_t i = 0; i < tensor.numElements; ++i)
    data[i] = wrapInteger(kind, values[i]);
  return tensor;
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

double Tensor::getDouble(int64_t position) const {
  return dispatchStorage(kind, [&](auto zero) { return static_cast<double>(data<decltype(zero)>()[position]); });
}

int64_t Tensor::getInteger(int64_t position) const {
  return isFloat(kind) ? saturatingInteger(getDouble(position)) : data<int64_t>()[position];
}

void Tensor::set(int64_t position, double value) {
  if (kind == ElementKind::F64)
    mutableData<double>()[position] = value;
  else if (isFloat(kind))
    mutableData<float>()[position] = roundTo(kind, static_cast<float>(value));
  else
    mutableData<int64_t>()[position] = integerFromDouble(kind, value);
}

std::vector<double> Tensor::toDoubles() const {
  return dispatchStorage(kind, [&](auto zero) {
    auto *elements = data<decltype(zero)>();
    return std::vector<double>(elements, elements + numElements);
  });
}

//===----------------------------------------------------------------------===//
// Other tensors from this one
//===----------------------------------------------------------------------===//

Tensor Tensor::reshaped(ArrayRef<int64_t> newShape) const {
  assert(countElements(newShape) == numElements && "a reshape keeps every element");
  Tensor result = *this;
  result.shape.assign(newShape.begin(), newShape.end());
  return result;
}

Tensor Tensor::converted(ElementKind newKind) const {
  if (newKind == kind)
    return *this;
  Tensor result(newKind, shape);
  dispatchStorage(kind, [&](auto from) {
    const auto *source = data<decltype(from)>();
    dispatchStorage(newKind, [&](auto to) {
      using To = decltype(to);
      To *target = result.mutableData<To>();
      for (int64_t i = 0; i < numElements; ++i) {
        if (isFloat(newKind))
          target[i] = static_cast<To>(source[i]);
        else if (isFloat(kind) || newKind == ElementKind::I1)
          target[i] = static_cast<To>(integerFromDouble(newKind, static_cast<double>(source[i])));
        else
          target[i] = static_cast<To>(wrapInteger(newKind, static_cast<int64_t>(source[i])));
      }
    });
  });
  result.roundElements();
  return result;
}

bool Tensor::isIdenticalTo(const Tensor &other) const {
  if (!buffer || !other.buffer || kind != other.kind || shape != other.shape)
    return false;
  return dispatchStorage(kind, [&](auto zero) {
    using T = decltype(zero);
    return std::memcmp(data<T>(), other.data<T>(), numElements * sizeof(T)) == 0;
  });
}

/// Position of element `offsets`, and the distance between elements that are `steps` apart in each dimension.
static int64_t placement(ArrayRef<int64_t> strides, ArrayRef<int64_t> offsets, ArrayRef<int64_t> steps,
                         SmallVectorImpl<int64_t> &distances) {
  int64_t start = 0;
  for (size_t dim = 0; dim < strides.size(); ++dim) {
    start += offsets[dim] * strides[dim];
    distances.push_back(steps[dim] * strides[dim]);
  }
  return start;
}

Tensor Tensor::sliced(ArrayRef<int64_t> offsets, ArrayRef<int64_t> strides, ArrayRef<int64_t> resultShape) const {
  Tensor result(kind, resultShape);
  if (result.numElements == 0)
    return result;
  SmallVector<int64_t> distances;
  int64_t start = placement(rowMajorStrides(shape), offsets, strides, distances);
  dispatchStorage(kind, [&](auto zero) {
    using T = decltype(zero);
    copyStrided<T>(resultShape, data<T>() + start, distances, result.mutableData<T>(), rowMajorStrides(resultShape));
  });
  return result;
}

void Tensor::insert(const Tensor &part, ArrayRef<int64_t> offsets, ArrayRef<int64_t> strides) {
  assert(part.kind == kind && "no conversion on the way");
  if (part.numElements == 0)
    return;
  SmallVector<int64_t> distances;
  int64_t start = placement(rowMajorStrides(shape), offsets, strides, distances);
  dispatchStorage(kind, [&](auto zero) {
    using T = decltype(zero);
    copyStrided<T>(part.shape, part.data<T>(), rowMajorStrides(part.shape), mutableData<T>() + start, distances);
  });
}

Tensor Tensor::transposed(ArrayRef<int64_t> permutation) const {
  SmallVector<int64_t> strides = rowMajorStrides(shape), newShape, sourceStrides;
  for (int64_t dim : permutation) {
    newShape.push_back(shape[dim]);
    sourceStrides.push_back(strides[dim]);
  }
  Tensor result(kind, newShape);
  if (numElements == 0)
    return result;
  dispatchStorage(kind, [&](auto zero) {
    using T = decltype(zero);
    copyStrided<T>(newShape, data<T>(), sourceStrides, result.mutableData<T>(), rowMajorStrides(newShape));
  });
  return result;
}

Tensor Tensor::window(int64_t dim, int64_t offset, int64_t count) const {
  SmallVector<int64_t> resultShape(shape.begin(), shape.end()), partShape = resultShape;
  SmallVector<int64_t> offsets(shape.size(), 0), ones(shape.size(), 1), origin(shape.size(), 0);
  resultShape[dim] = count;
  partShape[dim] = std::max<int64_t>(0, std::min(count, shape[dim] - offset));
  offsets[dim] = offset;
  Tensor result(kind, resultShape);
  if (partShape[dim] > 0)
    result.insert(sliced(offsets, ones, partShape), origin, ones);
  return result;
}

std::string Tensor::describeType() const {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + nameOf(kind).str() + ">";
}
