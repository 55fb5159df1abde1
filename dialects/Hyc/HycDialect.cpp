// Registration of the hyc dialect, and the generated definitions.
#include "dialects/Hyc/MathFunctions.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace hyc;

/// Numbers with as many digits as tell them from their neighbours, so that text means what it was printed from.
static void printFrequencies(OpAsmPrinter &printer, Operation *, DenseF32ArrayAttr frequencies) {
  printer << '[';
  llvm::interleaveComma(frequencies.asArrayRef(), printer, [&](float number) { printer.printFloat(APFloat(number)); });
  printer << ']';
}

static ParseResult parseFrequencies(OpAsmParser &parser, DenseF32ArrayAttr &frequencies) {
  SmallVector<float> numbers;
  auto parseNumber = [&]() -> ParseResult {
    double number;
    if (parser.parseFloat(number))
      return failure();
    numbers.push_back(static_cast<float>(number));
    return success();
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, parseNumber))
    return failure();
  frequencies = parser.getBuilder().getDenseF32ArrayAttr(numbers);
  return success();
}

#include "dialects/Hyc/HycDialect.cpp.inc"
#include "dialects/Hyc/HycEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Hyc/HycAttrs.cpp.inc"
#include "dialects/Hyc/HycInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Hyc/HycOps.cpp.inc"

namespace hyc {
/// Symbols.cpp: the checks of names that ops do not declare themselves.
void attachSymbolUses(MLIRContext &context);
} // namespace hyc

void HycDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Hyc/HycAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Hyc/HycOps.cpp.inc"
      >();
  attachSymbolUses(*getContext());
}

Operation *HycDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, type, elements);
}

LogicalResult FileAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, StringRef path, int64_t offset) {
  if (path.empty())
    return emitError() << "file path is empty";
  if (offset < 0)
    return emitError() << "file offset is " << offset << ", expected a count of bytes";
  return success();
}

int64_t PartAttr::getNumElements() const { return llvm::product_of(getShape()); }

/// Far from the limits of 64 bits, also when parts are added up.
static constexpr int64_t kMostElements = int64_t(1) << 50;

LogicalResult PartAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, StringRef name,
                               ArrayRef<int64_t> shape, FileAttr) {
  if (name.empty())
    return emitError() << "a part has no name";
  int64_t count = 1;
  for (int64_t size : shape) {
    if (size < 1 || count > kMostElements / size)
      return emitError() << "part \"" << name << "\" is [" << shape
                         << "], expected sizes of at least 1, and at most 2^50 elements";
    count *= size;
  }
  return success();
}

LogicalResult PartsAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, ArrayRef<PartAttr> parts) {
  if (parts.empty())
    return emitError() << "is made of no parts, expected at least one";
  int64_t count = 0;
  for (PartAttr part : parts)
    if ((count += part.getNumElements()) > kMostElements)
      return emitError() << "is made of parts of more than 2^50 elements together";
  return success();
}

LogicalResult SinusoidsAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t width,
                                    FloatAttr ratio) {
  if (width < 2 || width > kMostElements || width % 2 != 0)
    return emitError() << "rows of sinusoids are " << width << " wide, expected an even number of elements";
  if (!(ratio.getValueAsDouble() > 0 && ratio.getValueAsDouble() <= 1))
    return emitError() << "frequencies of sinusoids have the ratio " << ratio << ", expected one in (0, 1]";
  return success();
}

bool hyc::isInitialValue(Attribute init) {
  return isa_and_nonnull<FileAttr, PartsAttr, NormalAttr, UniformAttr, FillAttr, SinusoidsAttr>(init);
}

SmallVector<FileAttr> hyc::filesOf(Attribute init) {
  if (auto file = dyn_cast_or_null<FileAttr>(init))
    return {file};
  if (auto parts = dyn_cast_or_null<PartsAttr>(init))
    return llvm::map_to_vector(parts.getParts(), [](PartAttr part) { return part.getFile(); });
  return {};
}
