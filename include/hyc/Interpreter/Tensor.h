// Tensor: the value that the interpreter computes with. Copies share their elements until one of them is written.
//
// The surprise: elements are stored wider than their kind. Every integer kind, booleans included, is stored as int64_t,
// and ops wrap results to the kind's width. Narrow floats are stored as the float of equal value: ops compute in float,
// and whoever executes an op rounds its results (Tensor::roundElements).
#ifndef HYC_INTERPRETER_TENSOR_H
#define HYC_INTERPRETER_TENSOR_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

namespace hyc::interpreter {

enum class ElementKind { F32, F64, BF16, F16, F8E4M3, F8E5M2, I64, I32, U8, I1 };

inline bool isHalfWidth(ElementKind kind) { return kind == ElementKind::BF16 || kind == ElementKind::F16; }
inline bool isFloat8(ElementKind kind) { return kind == ElementKind::F8E4M3 || kind == ElementKind::F8E5M2; }
inline bool isFloat(ElementKind kind) {
  return kind == ElementKind::F32 || kind == ElementKind::F64 || isHalfWidth(kind) || isFloat8(kind);
}
/// Whether both are floating point and their elements are stored in one C++ type.
inline bool areStoredAlike(ElementKind a, ElementKind b) {
  return isFloat(a) && isFloat(b) && (a == ElementKind::F64) == (b == ElementKind::F64);
}
llvm::StringRef nameOf(ElementKind kind);

/// The 16 bits of bf16 or f16 nearest to `value` (ties to even; overflow to infinity; any NaN to a quiet one).
uint16_t encodeHalfWidth(ElementKind kind, float value);
float decodeHalfWidth(ElementKind kind, uint16_t bits);
/// The same for 8 bits: e4m3 without infinities, whose overflow is NaN, or e5m2, whose overflow is infinity.
uint8_t encodeFloat8(ElementKind kind, float value);
float decodeFloat8(ElementKind kind, uint8_t bits);
/// `value` as `kind`, a narrow float or f32, holds it.
inline float roundTo(ElementKind kind, float value) {
  if (isFloat8(kind))
    return decodeFloat8(kind, encodeFloat8(kind, value));
  return isHalfWidth(kind) ? decodeHalfWidth(kind, encodeHalfWidth(kind, value)) : value;
}

/// `value` as the kind holds it: truncated to its width and extended by its sign (booleans: 0 or 1).
int64_t wrapInteger(ElementKind kind, int64_t value);

/// Product of `shape`; nothing if it overflows, is negative or passes 2^31 elements, the most that a tensor may have.
std::optional<int64_t> countElements(llvm::ArrayRef<int64_t> shape);

/// Elements between neighbours of each dimension of a dense row-major tensor.
llvm::SmallVector<int64_t> rowMajorStrides(llvm::ArrayRef<int64_t> shape);

/// A dense, row-major tensor. Default-constructed, it is null: no value at all.
class Tensor {
public:
  Tensor() = default;
  /// All zeros. `shape` has passed countElements.
  Tensor(ElementKind kind, llvm::ArrayRef<int64_t> shape);

  static Tensor splat(ElementKind kind, llvm::ArrayRef<int64_t> shape, double value);
  static Tensor scalar(ElementKind kind, double value) { return splat(kind, {}, value); }
  static Tensor integer(ElementKind kind, int64_t value);
  /// `values` holds one value an element; they are rounded to `kind`.
  static Tensor fromDoubles(ElementKind kind, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<double> values);
  static Tensor fromIntegers(ElementKind kind, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> values);

  explicit operator bool() const { return buffer != nullptr; }
  ElementKind getKind() const { return kind; }
  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  int64_t getTensorRank() const { return static_cast<int64_t>(shape.size()); }
  int64_t getDim(int64_t dim) const { return shape[dim]; }
  int64_t getNumElements() const { return numElements; }

  /// The elements; T is the storage type: float (f32 and narrower), double, or int64_t for every integer kind.
  template <typename T> const T *data() const { return std::get<std::vector<T>>(*buffer).data(); }
  /// The same for writing: copies the elements first if another tensor shares them.
  template <typename T> T *mutableData() {
    if (buffer.use_count() > 1)
      buffer = std::make_shared<Buffer>(*buffer);
    return std::get<std::vector<T>>(*buffer).data();
  }

  /// One element by row-major position, for tests and scalars.
  double getDouble(int64_t position = 0) const;
  int64_t getInteger(int64_t position = 0) const;
  void set(int64_t position, double value);
  std::vector<double> toDoubles() const;

  /// The same elements under another shape of as many elements.
  Tensor reshaped(llvm::ArrayRef<int64_t> newShape) const;
  /// Rounded to f32 or less, widened to f64, truncated towards zero (saturating; NaN is 0) or, to booleans, compared
  /// with 0. Rounding to 16 bits or fewer goes by way of f32.
  Tensor converted(ElementKind newKind) const;
  /// Rounds what was computed in float to the kind; nothing happens to kinds other than narrow floats.
  void roundElements();
  /// Equal kind, shape and bits.
  bool isIdenticalTo(const Tensor &other) const;
  /// Element `index[d]` of the result is element `offsets[d] + index[d]·strides[d]` of this, all in range.
  Tensor sliced(llvm::ArrayRef<int64_t> offsets, llvm::ArrayRef<int64_t> strides,
                llvm::ArrayRef<int64_t> resultShape) const;
  /// Sets element `offsets[d] + index[d]·strides[d]` of this, all in range, to the element of `part`, of equal kind.
  void insert(const Tensor &part, llvm::ArrayRef<int64_t> offsets, llvm::ArrayRef<int64_t> strides);
  Tensor transposed(llvm::ArrayRef<int64_t> permutation) const;
  /// `count` indices of dimension `dim` from `offset`; those past its end are zeros.
  Tensor window(int64_t dim, int64_t offset, int64_t count) const;

  /// "tensor<2x3xf32>".
  std::string describeType() const;

private:
  using Buffer = std::variant<std::vector<float>, std::vector<double>, std::vector<int64_t>>;

  ElementKind kind = ElementKind::F32;
  llvm::SmallVector<int64_t, 6> shape;
  int64_t numElements = 0;
  std::shared_ptr<Buffer> buffer;
};

/// Calls `body` with a value of the storage type of `kind`: 0.0f, 0.0 or int64_t{0}.
template <typename Body> auto dispatchStorage(ElementKind kind, Body body) {
  if (kind == ElementKind::F64)
    return body(0.0);
  if (isFloat(kind))
    return body(0.0f);
  return body(int64_t{0});
}

/// The same for kinds known to be floating point.
template <typename Body> auto dispatchFloat(ElementKind kind, Body body) {
  return kind == ElementKind::F64 ? body(0.0) : body(0.0f);
}

} // namespace hyc::interpreter

#endif // HYC_INTERPRETER_TENSOR_H
