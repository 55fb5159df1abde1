// Registration of the rank dialect; its types.
#include "dialects/Rank/RankDialect.h"
#include "dialects/Rank/Moves.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace hyc::rank;

#include "dialects/Rank/RankDialect.cpp.inc"
#include "dialects/Rank/RankEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Rank/RankAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Rank/RankTypes.cpp.inc"

void RankDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Rank/RankAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Rank/RankTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Rank/RankOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Rank/RankMoveOps.cpp.inc"
      >();
}

int64_t hyc::rank::elementBytes(Type type) {
  if (auto integer = dyn_cast<IntegerType>(type))
    return (integer.getWidth() + 7) / 8;
  if (auto number = dyn_cast<FloatType>(type))
    return (number.getWidth() + 7) / 8;
  return 8;
}

SmallVector<int64_t> hyc::rank::denseStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i > 1; --i)
    strides[i - 2] = strides[i - 1] * shape[i - 1];
  return strides;
}

Type BufferType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape, strides;
  Type elementType;
  auto parseStride = [&]() -> ParseResult { return parser.parseInteger(strides.emplace_back()); };
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseDimensionList(shape, /*allowDynamic=*/false) || parser.parseType(elementType))
    return {};
  hyc::dist::AxisListAttr shardAxes;
  int64_t wholeElements = 0;
  if (succeeded(parser.parseOptionalComma())) {
    if (succeeded(parser.parseOptionalKeyword("shard"))) {
      FailureOr<hyc::dist::AxisListAttr> axes = hyc::dist::AxisListAttr::parseBraces(parser);
      if (failed(axes) || parser.parseKeyword("of") || parser.parseInteger(wholeElements))
        return {};
      shardAxes = *axes;
    } else if (parser.parseKeyword("strides") ||
               parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseStride, " in strides")) {
      return {};
    }
  }
  if (parser.parseGreater())
    return {};
  return BufferType::getChecked([&] { return parser.emitError(loc); }, parser.getContext(), shape, elementType, strides,
                                shardAxes, wholeElements);
}

void BufferType::print(AsmPrinter &printer) const {
  printer << '<';
  for (int64_t size : getShape())
    printer << size << 'x';
  printer << getElementType();
  if (!getStrides().empty()) {
    printer << ", strides [";
    llvm::interleaveComma(getStrides(), printer);
    printer << ']';
  }
  if (isShard()) {
    printer << ", shard ";
    getShardAxes().printBraces(printer);
    printer << " of " << getWholeElements();
  }
  printer << '>';
}

LogicalResult BufferType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> shape,
                                 Type elementType, ArrayRef<int64_t> strides, hyc::dist::AxisListAttr shardAxes,
                                 int64_t wholeElements) {
  if (shardAxes && (shape.size() != 1 || !strides.empty() || wholeElements < 0))
    return emitError() << "[buffer.shard] a shard has " << shape.size() << " dimensions of a whole of " << wholeElements
                       << " elements, expected one dense dimension";
  if (!elementType.isIntOrFloat())
    return emitError() << "a buffer holds " << elementType << ", expected integers or floats";
  if (!strides.empty() && strides.size() != shape.size())
    return emitError() << "[buffer.strides] there are " << strides.size() << " strides for " << shape.size()
                       << " dimensions";
  if (llvm::any_of(strides, [](int64_t stride) { return stride < 0; }))
    return emitError() << "[buffer.strides] a stride is negative";
  return success();
}

int64_t BufferType::getNumElements() const {
  int64_t count = 1;
  for (int64_t size : getShape())
    count *= size;
  return count;
}

int64_t BufferType::getFootprint() const {
  int64_t elements = 1;
  for (auto [size, stride] : llvm::zip_equal(getShape(), getStridesOrDense()))
    elements = size == 0 ? 0 : std::max(elements, size == 1 ? 1 : size * stride);
  return llvm::is_contained(getShape(), 0) ? 0 : elements * getElementBytes();
}

std::optional<int64_t> BufferType::getRowStride() const {
  if (getShape().empty())
    return std::nullopt;
  SmallVector<int64_t> strides = getStridesOrDense();
  int64_t columns = getShape().back(), rows = 1, stride = columns;
  if (columns > 1 && strides.back() != 1)
    return std::nullopt;
  for (size_t i = getShape().size() - 1; i-- > 0; rows *= getShape()[i]) {
    if (getShape()[i] == 1)
      continue;
    if (rows == 1)
      stride = strides[i];
    else if (strides[i] != stride * rows)
      return std::nullopt;
  }
  return stride;
}

int64_t BufferType::getElementBytes() const { return elementBytes(getElementType()); }

SmallVector<int64_t> BufferType::getStridesOrDense() const {
  return isDense() ? denseStrides(getShape()) : llvm::to_vector(getStrides());
}

BufferType BufferType::shard(hyc::dist::AxisListAttr axes, int64_t size) const {
  return BufferType::get(getContext(), {size}, getElementType(), {}, axes, getNumElements());
}

int64_t BufferType::getExtent() const {
  if (isShard())
    return getWholeElements();
  if (llvm::is_contained(getShape(), 0))
    return 0;
  int64_t last = 0;
  SmallVector<int64_t> strides = getStridesOrDense();
  for (auto [size, stride] : llvm::zip_equal(getShape(), strides))
    last += (size - 1) * stride;
  return last + 1;
}

BufferType BufferType::withLayout(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) const {
  // The stride of a dimension of size 1 is never used, so it must not make a dense buffer look strided.
  SmallVector<int64_t> dense = denseStrides(shape);
  bool isDense = llvm::all_of(llvm::enumerate(strides), [&](auto entry) {
    return shape[entry.index()] == 1 || entry.value() == dense[entry.index()];
  });
  return BufferType::get(getContext(), shape, getElementType(), isDense ? ArrayRef<int64_t>() : strides);
}
