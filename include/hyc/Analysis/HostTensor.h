// A tensor whose values are known when compiling. It is strided, and a dimension along which nothing changes has stride
// 0: an attention mask over 2,048 samples costs one sample, which is what makes masks cheap to evaluate at any batch.
#ifndef HYC_ANALYSIS_HOSTTENSOR_H
#define HYC_ANALYSIS_HOSTTENSOR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <memory>
#include <optional>
#include <vector>

namespace hyc {

/// One element: `real` for float types, `integer` for all others (booleans are 0 and 1).
union HostElement {
  int64_t integer;
  double real;
  static HostElement ofInteger(int64_t value) {
    HostElement e;
    e.integer = value;
    return e;
  }
  static HostElement ofReal(double value) {
    HostElement e;
    e.real = value;
    return e;
  }
};

class HostTensor {
public:
  /// No operation stores more elements than this, nor may all tensors alive together store more than kMaxLive; what
  /// would need more fails instead. A short file must not be able to ask for all memory.
  static constexpr int64_t kMaxStored = int64_t(1) << 26;
  static constexpr int64_t kMaxLive = 2 * kMaxStored;

  using Shape = llvm::SmallVector<int64_t, 4>;

  static HostTensor splat(mlir::Type elementType, llvm::ArrayRef<int64_t> shape, HostElement value);
  /// 0, step, 2·step, … from `start` on.
  static std::optional<HostTensor> range(mlir::Type elementType, HostElement start, HostElement step, int64_t count);
  /// Row-major elements; their number must be that of `shape`.
  static HostTensor fromElements(mlir::Type elementType, llvm::ArrayRef<int64_t> shape,
                                 std::vector<HostElement> elements);
  static HostTensor fromIntegers(mlir::Type elementType, llvm::ArrayRef<int64_t> values);
  /// Little-endian row-major bytes, as model files store them. Null if `bytes` has the wrong size for the type.
  static std::optional<HostTensor> fromBytes(mlir::Type elementType, llvm::ArrayRef<int64_t> shape,
                                             llvm::ArrayRef<char> bytes);
  static std::optional<HostTensor> fromAttr(mlir::ElementsAttr attr);

  mlir::Type getElementType() const { return elementType; }
  bool isReal() const { return mlir::isa<mlir::FloatType>(elementType); }
  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  int64_t getTensorRank() const { return static_cast<int64_t>(shape.size()); }
  int64_t getNumElements() const;
  bool variesAlong(int64_t dim) const { return strides[dim] != 0; }
  bool isSplat() const;

  /// Whether both see the same stored elements in the same way; cheap, and false for equal copies.
  bool isSameView(const HostTensor &other) const {
    return elements == other.elements && base == other.base && shape == other.shape && strides == other.strides &&
           elementType == other.elementType;
  }

  HostElement at(llvm::ArrayRef<int64_t> index) const;
  /// The element at this position in row-major order.
  HostElement atFlat(int64_t position) const;
  /// All integer elements in row-major order; for shapes, axes and the like.
  llvm::SmallVector<int64_t> toIntegers() const;

  // Views: none of these copies, except a reshape across dimensions that do not lie together.
  HostTensor transpose(llvm::ArrayRef<int64_t> permutation) const;
  /// Repeats dimensions of size 1 and adds leading ones; the shapes must agree otherwise.
  HostTensor broadcastTo(llvm::ArrayRef<int64_t> target) const;
  HostTensor slice(int64_t dim, int64_t offset, int64_t size, int64_t step) const;
  std::optional<HostTensor> reshape(llvm::ArrayRef<int64_t> target) const;

  using ElementFn = llvm::function_ref<HostElement(llvm::ArrayRef<HostElement>)>;
  /// Applies `function` to the elements of operands of one shape; dimensions in which no operand varies are computed
  /// once. Results are rounded or wrapped to `resultType`.
  static std::optional<HostTensor> map(mlir::Type resultType, llvm::ArrayRef<HostTensor> operands, ElementFn function);
  /// A tensor of `shape` whose element at an index is `function(index)`, computed once along the dimensions in which
  /// `varies` is false.
  static std::optional<HostTensor> generate(mlir::Type elementType, llvm::ArrayRef<int64_t> shape,
                                            llvm::ArrayRef<bool> varies,
                                            llvm::function_ref<HostElement(llvm::ArrayRef<int64_t>)> function);

  /// The elements as an attribute over `attrShape`: this shape, in which dimensions that do not vary have size 1, or
  /// are one splat if none varies.
  mlir::DenseElementsAttr toCompactAttr() const;

private:
  /// Sets the stride of every dimension along which all elements are equal to 0.
  HostTensor compressed() const;
  int64_t offsetOf(llvm::ArrayRef<int64_t> index) const;
  static void fillByMap(llvm::ArrayRef<HostTensor> operands, llvm::ArrayRef<bool> varies, ElementFn function,
                        std::vector<HostElement> &values);

  mlir::Type elementType;
  Shape shape, strides;
  int64_t base = 0;
  std::shared_ptr<const std::vector<HostElement>> elements;
};

/// `value` as the type can hold it: floats rounded, integers wrapped, booleans 0 or 1.
HostElement roundTo(mlir::Type elementType, HostElement value);

/// The shape that numpy's rules broadcast these to, or nothing if they do not agree.
std::optional<HostTensor::Shape> broadcastShapes(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);

/// The number of elements, or nothing where a dimension is negative or the product leaves 63 bits.
std::optional<int64_t> countElements(llvm::ArrayRef<int64_t> shape);

} // namespace hyc

#endif // HYC_ANALYSIS_HOSTTENSOR_H
