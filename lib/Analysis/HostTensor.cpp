// Every operation ends by looking for dimensions along which nothing changes (compressed), so that chains of operations
// stay as small as their values are.
#include "hyc/Analysis/HostTensor.h"
#include "hyc/Analysis/ReshapeGroups.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"
#include <atomic>
#include <cstring>

using namespace hyc;
using namespace mlir;
using llvm::ArrayRef;
using llvm::SmallVector;

std::optional<int64_t> hyc::countElements(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    if (size < 0 || llvm::MulOverflow(count, size, count))
      return std::nullopt;
  return count;
}

std::optional<HostTensor::Shape> hyc::broadcastShapes(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  HostTensor::Shape result(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t sizeA = i < a.size() ? a[a.size() - 1 - i] : 1, sizeB = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (sizeA != sizeB && sizeA != 1 && sizeB != 1)
      return std::nullopt;
    result[result.size() - 1 - i] = sizeA == 1 ? sizeB : sizeA;
  }
  return result;
}

HostElement hyc::roundTo(Type elementType, HostElement value) {
  if (auto floatType = dyn_cast<FloatType>(elementType)) {
    if (floatType.isF32())
      return HostElement::ofReal(static_cast<float>(value.real));
    if (floatType.isF64())
      return value;
    llvm::APFloat narrow(value.real);
    bool lost;
    narrow.convert(floatType.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &lost);
    narrow.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
    return HostElement::ofReal(narrow.convertToDouble());
  }
  unsigned width = elementType.getIntOrFloatBitWidth();
  if (width == 1)
    return HostElement::ofInteger(value.integer != 0);
  if (width >= 64)
    return value;
  uint64_t low = static_cast<uint64_t>(value.integer) & llvm::maskTrailingOnes<uint64_t>(width);
  return HostElement::ofInteger(elementType.isUnsignedInteger() ? static_cast<int64_t>(low)
                                                                : llvm::SignExtend64(low, width));
}

/// Row-major strides, with 0 where `varies` is false; `count` becomes the number of elements stored.
static HostTensor::Shape packedStrides(ArrayRef<int64_t> shape, ArrayRef<bool> varies, int64_t &count) {
  HostTensor::Shape strides(shape.size(), 0);
  count = 1;
  for (int64_t dim = static_cast<int64_t>(shape.size()) - 1; dim >= 0; --dim) {
    if (!varies[dim])
      continue;
    strides[dim] = count;
    if (llvm::MulOverflow(count, shape[dim], count))
      count = std::numeric_limits<int64_t>::max() / 2;
  }
  return strides;
}

/// Advances a row-major index over the dimensions in which `varies` is true; false after the last one.
static bool advance(llvm::MutableArrayRef<int64_t> index, ArrayRef<int64_t> shape, ArrayRef<bool> varies) {
  for (int64_t dim = static_cast<int64_t>(shape.size()) - 1; dim >= 0; --dim) {
    if (!varies[dim])
      continue;
    if (++index[dim] < shape[dim])
      return true;
    index[dim] = 0;
  }
  return false;
}

static std::atomic<int64_t> liveElements{0};

static std::shared_ptr<const std::vector<HostElement>> store(std::vector<HostElement> elements) {
  liveElements += static_cast<int64_t>(elements.size());
  return {new std::vector<HostElement>(std::move(elements)), [](const std::vector<HostElement> *stored) {
            liveElements -= static_cast<int64_t>(stored->size());
            delete stored;
          }};
}

static bool canStore(int64_t count) {
  return count >= 0 && count <= HostTensor::kMaxStored && count <= HostTensor::kMaxLive - liveElements;
}

HostTensor HostTensor::splat(Type elementType, ArrayRef<int64_t> shape, HostElement value) {
  HostTensor result;
  result.elementType = elementType;
  result.shape.assign(shape.begin(), shape.end());
  result.strides.assign(shape.size(), 0);
  result.elements = store(std::vector<HostElement>(1, roundTo(elementType, value)));
  return result;
}

std::optional<HostTensor> HostTensor::range(Type elementType, HostElement start, HostElement step, int64_t count) {
  if (!canStore(count))
    return std::nullopt;
  bool real = isa<FloatType>(elementType);
  std::vector<HostElement> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] = real ? HostElement::ofReal(start.real + static_cast<double>(i) * step.real)
                     : HostElement::ofInteger(static_cast<int64_t>(static_cast<uint64_t>(start.integer) +
                                                                   static_cast<uint64_t>(i) * step.integer));
  return fromElements(elementType, {count}, std::move(values));
}

HostTensor HostTensor::fromElements(Type elementType, ArrayRef<int64_t> shape, std::vector<HostElement> values) {
  HostTensor result;
  result.elementType = elementType;
  result.shape.assign(shape.begin(), shape.end());
  SmallVector<bool> varies(shape.size(), true);
  int64_t count;
  result.strides = packedStrides(shape, varies, count);
  assert(count == static_cast<int64_t>(values.size()) && "as many elements as the shape has");
  for (HostElement &value : values)
    value = roundTo(elementType, value);
  result.elements = store(std::move(values));
  return result.compressed();
}

HostTensor HostTensor::fromIntegers(Type elementType, ArrayRef<int64_t> values) {
  std::vector<HostElement> list;
  for (int64_t value : values)
    list.push_back(HostElement::ofInteger(value));
  return fromElements(elementType, {static_cast<int64_t>(values.size())}, std::move(list));
}

static HostElement decode(Type elementType, const char *bytes) {
  using llvm::support::endian::read;
  unsigned width = elementType.getIntOrFloatBitWidth();
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, llvm::divideCeil(width, 8));
  if (auto floatType = dyn_cast<FloatType>(elementType)) {
    llvm::APFloat value(floatType.getFloatSemantics(), llvm::APInt(width, bits));
    bool lost;
    value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
    return HostElement::ofReal(value.convertToDouble());
  }
  return roundTo(elementType, HostElement::ofInteger(static_cast<int64_t>(bits)));
}

std::optional<HostTensor> HostTensor::fromBytes(Type elementType, ArrayRef<int64_t> shape, ArrayRef<char> bytes) {
  int64_t width = llvm::divideCeil(elementType.getIntOrFloatBitWidth(), 8);
  std::optional<int64_t> count = countElements(shape);
  if (!count || static_cast<int64_t>(bytes.size()) / width != *count || bytes.size() % width || !canStore(*count))
    return std::nullopt;
  std::vector<HostElement> values(*count);
  for (int64_t i = 0; i < *count; ++i)
    values[i] = decode(elementType, bytes.data() + i * width);
  return fromElements(elementType, shape, std::move(values));
}

std::optional<HostTensor> HostTensor::fromAttr(ElementsAttr attr) {
  auto dense = dyn_cast<DenseElementsAttr>(attr);
  if (!dense || !dense.getElementType().isIntOrFloat())
    return std::nullopt;
  Type type = dense.getElementType();
  auto convert = [&](auto value) {
    if constexpr (std::is_same_v<decltype(value), llvm::APFloat>) {
      bool lost;
      value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
      return HostElement::ofReal(value.convertToDouble());
    } else {
      return HostElement::ofInteger(type.isUnsignedInteger() || type.isInteger(1)
                                        ? static_cast<int64_t>(value.getZExtValue())
                                        : value.getSExtValue());
    }
  };
  ArrayRef<int64_t> shape = dense.getType().getShape();
  bool real = isa<FloatType>(type);
  if (dense.isSplat())
    return splat(type, shape,
                 real ? convert(dense.getSplatValue<llvm::APFloat>()) : convert(dense.getSplatValue<llvm::APInt>()));
  if (!canStore(dense.getNumElements()))
    return std::nullopt;
  std::vector<HostElement> values;
  values.reserve(dense.getNumElements());
  if (real)
    for (llvm::APFloat value : dense.getValues<llvm::APFloat>())
      values.push_back(convert(value));
  else
    for (llvm::APInt value : dense.getValues<llvm::APInt>())
      values.push_back(convert(value));
  return fromElements(type, shape, std::move(values));
}

int64_t HostTensor::getNumElements() const { return countElements(shape).value_or(0); }

bool HostTensor::isSplat() const {
  return llvm::all_of(strides, [](int64_t stride) { return stride == 0; }) && getNumElements() > 0;
}

int64_t HostTensor::offsetOf(ArrayRef<int64_t> index) const {
  int64_t offset = base;
  for (size_t dim = 0; dim < index.size(); ++dim)
    offset += index[dim] * strides[dim];
  return offset;
}

HostElement HostTensor::at(ArrayRef<int64_t> index) const { return (*elements)[offsetOf(index)]; }

HostElement HostTensor::atFlat(int64_t position) const {
  int64_t offset = base;
  for (int64_t dim = getTensorRank() - 1; dim >= 0; --dim) {
    offset += position % shape[dim] * strides[dim];
    position /= shape[dim];
  }
  return (*elements)[offset];
}

SmallVector<int64_t> HostTensor::toIntegers() const {
  SmallVector<int64_t> values;
  for (int64_t i = 0, count = std::min(getNumElements(), kMaxStored); i < count; ++i)
    values.push_back(atFlat(i).integer);
  return values;
}

HostTensor HostTensor::transpose(ArrayRef<int64_t> permutation) const {
  HostTensor result = *this;
  for (size_t i = 0; i < permutation.size(); ++i) {
    result.shape[i] = shape[permutation[i]];
    result.strides[i] = strides[permutation[i]];
  }
  return result;
}

HostTensor HostTensor::broadcastTo(ArrayRef<int64_t> target) const {
  HostTensor result = *this;
  result.shape.assign(target.begin(), target.end());
  result.strides.assign(target.size(), 0);
  size_t added = target.size() - shape.size();
  for (size_t dim = 0; dim < shape.size(); ++dim)
    if (shape[dim] == target[dim + added])
      result.strides[dim + added] = strides[dim];
  return result;
}

HostTensor HostTensor::slice(int64_t dim, int64_t offset, int64_t size, int64_t step) const {
  HostTensor result = *this;
  result.base += offset * strides[dim];
  result.shape[dim] = size;
  result.strides[dim] = size == 1 ? 0 : strides[dim] * step;
  return result;
}

std::optional<HostTensor> HostTensor::reshape(ArrayRef<int64_t> target) const {
  if (getNumElements() == 0 || isSplat()) {
    HostTensor result = *this;
    result.shape.assign(target.begin(), target.end());
    result.strides.assign(target.size(), 0);
    return result;
  }
  HostTensor result = *this;
  result.shape.assign(target.begin(), target.end());
  result.strides.assign(target.size(), 0);
  for (const ReshapeGroup &group : groupReshape(shape, target)) {
    // The group's dimensions that matter must lie together: each stride the next one's times its size.
    int64_t inner = 0, expected = 0;
    bool together = true, first = true;
    for (int64_t dim = group.fromEnd; dim-- > group.fromBegin;) {
      if (shape[dim] == 1)
        continue;
      if (first)
        inner = expected = strides[dim], first = false;
      together &= strides[dim] == expected;
      expected *= shape[dim];
    }
    if (!together) {
      int64_t count = getNumElements();
      if (!canStore(count))
        return std::nullopt;
      std::vector<HostElement> values(count);
      for (int64_t i = 0; i < count; ++i)
        values[i] = atFlat(i);
      return fromElements(elementType, target, std::move(values));
    }
    int64_t stride = inner;
    for (int64_t dim = group.toEnd; dim-- > group.toBegin;) {
      result.strides[dim] = target[dim] == 1 ? 0 : stride;
      stride *= target[dim];
    }
  }
  return result;
}

std::optional<HostTensor> HostTensor::generate(Type elementType, ArrayRef<int64_t> shape, ArrayRef<bool> varies,
                                               llvm::function_ref<HostElement(ArrayRef<int64_t>)> function) {
  HostTensor result;
  result.elementType = elementType;
  result.shape.assign(shape.begin(), shape.end());
  int64_t count;
  result.strides = packedStrides(shape, varies, count);
  if (!canStore(count))
    return std::nullopt;
  std::vector<HostElement> values;
  values.reserve(count);
  if (count > 0 && !llvm::is_contained(shape, 0)) {
    Shape index(shape.size(), 0);
    do
      values.push_back(roundTo(elementType, function(index)));
    while (advance(index, shape, varies));
  } else {
    values.resize(std::max<int64_t>(count, 1), HostElement::ofInteger(0));
  }
  result.elements = store(std::move(values));
  return result.compressed();
}

std::optional<HostTensor> HostTensor::map(Type resultType, ArrayRef<HostTensor> operands, ElementFn function) {
  HostTensor result;
  result.elementType = resultType;
  result.shape.assign(operands.front().shape);
  SmallVector<bool> varies(result.shape.size(), false);
  for (const HostTensor &operand : operands)
    for (size_t dim = 0; dim < varies.size(); ++dim)
      varies[dim] = varies[dim] || operand.variesAlong(dim);
  int64_t count;
  result.strides = packedStrides(result.shape, varies, count);
  if (!canStore(count))
    return std::nullopt;
  std::vector<HostElement> values(std::max<int64_t>(count, 1), HostElement::ofInteger(0));
  if (count > 0 && result.getNumElements() > 0)
    fillByMap(operands, varies, function, values);
  for (HostElement &value : values)
    value = roundTo(resultType, value);
  result.elements = store(std::move(values));
  return result.compressed();
}

/// The elements in row-major order of the dimensions that vary. Masks have millions of them, hence the running offsets.
void HostTensor::fillByMap(ArrayRef<HostTensor> operands, ArrayRef<bool> varies, ElementFn function,
                           std::vector<HostElement> &values) {
  ArrayRef<int64_t> shape = operands.front().shape;
  SmallVector<HostElement> arguments(operands.size());
  SmallVector<int64_t> offsets;
  for (const HostTensor &operand : operands)
    offsets.push_back(operand.base);
  Shape index(shape.size(), 0);
  for (HostElement &value : values) {
    for (size_t i = 0; i < operands.size(); ++i)
      arguments[i] = (*operands[i].elements)[offsets[i]];
    value = function(arguments);
    for (int64_t dim = static_cast<int64_t>(shape.size()) - 1; dim >= 0; --dim) {
      if (!varies[dim])
        continue;
      bool wraps = ++index[dim] == shape[dim];
      for (size_t i = 0; i < operands.size(); ++i)
        offsets[i] += operands[i].strides[dim] * (wraps ? 1 - shape[dim] : 1);
      if (!wraps)
        break;
      index[dim] = 0;
    }
  }
}

HostTensor HostTensor::compressed() const {
  HostTensor result = *this;
  if (getNumElements() == 0)
    return result;
  for (int64_t dim = 0; dim < getTensorRank(); ++dim) {
    if (result.strides[dim] == 0)
      continue;
    SmallVector<bool> varies(shape.size());
    for (size_t other = 0; other < shape.size(); ++other)
      varies[other] = result.strides[other] != 0;
    Shape index(shape.size(), 0);
    bool constant = true;
    do {
      int64_t here = result.offsetOf(index), first = here - index[dim] * result.strides[dim];
      constant = (*elements)[here].integer == (*elements)[first].integer;
    } while (constant && advance(index, shape, varies));
    if (constant)
      result.strides[dim] = 0;
  }
  return result;
}

DenseElementsAttr HostTensor::toCompactAttr() const {
  Shape compact(shape);
  if (!isSplat())
    for (int64_t dim = 0; dim < getTensorRank(); ++dim)
      if (strides[dim] == 0)
        compact[dim] = std::min<int64_t>(shape[dim], 1);
  auto type = RankedTensorType::get(compact, elementType);
  SmallVector<bool> all(compact.size(), true);
  auto gather = [&](auto convert) {
    using T = decltype(convert(HostElement()));
    SmallVector<T> values;
    Shape index(compact.size(), 0);
    if (!llvm::is_contained(compact, 0))
      do
        values.push_back(convert(at(index)));
      while (!isSplat() && advance(index, compact, all));
    return DenseElementsAttr::get(type, ArrayRef<T>(values));
  };
  if (auto floatType = dyn_cast<FloatType>(elementType)) {
    if (floatType.isF32())
      return gather([](HostElement e) { return static_cast<float>(e.real); });
    if (floatType.isF64())
      return gather([](HostElement e) { return e.real; });
    return gather([&](HostElement e) { return FloatAttr::get(floatType, e.real).getValue(); });
  }
  unsigned width = elementType.getIntOrFloatBitWidth();
  return width == 1 ? gather([](HostElement e) { return e.integer != 0; })
                    : gather([&](HostElement e) { return llvm::APInt(width, e.integer, true, true); });
}
