// #hyc.file, #hyc.parts, #hyc.normal, #hyc.uniform, #hyc.fill, #hyc.sinusoids and dense initializers. Files are
// little-endian, and so must the machine be.
#include "Values/Initializers.h"

#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/StoredTypes.h"
#include "hyc/Interpreter/Philox.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SwapByteOrder.h"
#include <cmath>
#include <fstream>

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

static_assert(llvm::sys::IsLittleEndianHost, "initializer files are read as they lie");

static FailureOr<RankedTensorType> checkedType(Operation *op, RankedTensorType type, Arithmetic arithmetic) {
  if (!type.hasStaticShape() || !countElements(type.getShape()) || !elementKind(type.getElementType(), arithmetic))
    return op->emitError("the interpreter cannot hold ") << type, failure();
  return type;
}

//===----------------------------------------------------------------------===//
// Dense elements
//===----------------------------------------------------------------------===//

FailureOr<Tensor> hyc::interpreter::denseValue(Operation *op, Attribute attribute, Arithmetic arithmetic) {
  auto elements = dyn_cast<DenseElementsAttr>(attribute);
  auto tensorType = elements ? dyn_cast<RankedTensorType>(elements.getType()) : RankedTensorType();
  if (!tensorType)
    return op->emitError("the interpreter reads dense elements, not ") << attribute, failure();
  if (failed(checkedType(op, tensorType, arithmetic)))
    return failure();
  ElementKind kind = *elementKind(tensorType.getElementType(), arithmetic);
  Tensor tensor(kind, tensorType.getShape());
  int64_t position = 0;
  if (isFloat(kind)) {
    if (elements.isSplat())
      return Tensor::splat(kind, tensorType.getShape(), elements.getSplatValue<APFloat>().convertToDouble());
    for (const APFloat &value : elements.getValues<APFloat>())
      tensor.set(position++, value.convertToDouble());
    return tensor;
  }
  int64_t *data = tensor.mutableData<int64_t>();
  for (const APInt &value : elements.getValues<APInt>())
    data[position++] = wrapInteger(kind, value.getSExtValue());
  return tensor;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

namespace {
/// Elements [first, first + count) of a tensor.
struct Elements {
  Tensor &tensor;
  int64_t first, count;
};
} // namespace

template <typename T> static void readElements(std::ifstream &file, const Elements &to) {
  std::vector<T> stored(to.count);
  file.read(reinterpret_cast<char *>(stored.data()), static_cast<std::streamsize>(stored.size() * sizeof(T)));
  dispatchStorage(to.tensor.getKind(), [&](auto zero) {
    auto *data = to.tensor.mutableData<decltype(zero)>() + to.first;
    for (size_t i = 0; i < stored.size(); ++i)
      data[i] = static_cast<decltype(zero)>(stored[i]);
  });
}

static void readHalfWidth(std::ifstream &file, ElementKind stored, const Elements &to) {
  std::vector<uint16_t> bits(to.count);
  file.read(reinterpret_cast<char *>(bits.data()), static_cast<std::streamsize>(bits.size() * sizeof(uint16_t)));
  for (size_t i = 0; i < bits.size(); ++i)
    to.tensor.set(to.first + static_cast<int64_t>(i), decodeHalfWidth(stored, bits[i]));
}

/// What relative paths start from: the folder asked for, else the one that the importer noted on the module.
static StringRef folderOf(Operation *op, const Options &options) {
  auto noted = op->getParentOfType<ModuleOp>()->getAttrOfType<StringAttr>(kModelFolder);
  return options.baseDirectory.empty() && noted ? noted.getValue() : StringRef(options.baseDirectory);
}

/// As their type says; false for a type that no file has.
static bool readTyped(std::ifstream &file, ElementKind stored, const Elements &to) {
  switch (stored) {
  case ElementKind::F32:
    readElements<float>(file, to);
    return true;
  case ElementKind::F64:
    readElements<double>(file, to);
    return true;
  case ElementKind::BF16:
  case ElementKind::F16:
    readHalfWidth(file, stored, to);
    return true;
  case ElementKind::F8E4M3:
  case ElementKind::F8E5M2:
    return false;
  case ElementKind::I64:
    readElements<int64_t>(file, to);
    return true;
  case ElementKind::I32:
    readElements<int32_t>(file, to);
    return true;
  case ElementKind::U8:
  case ElementKind::I1:
    readElements<uint8_t>(file, to);
    return true;
  }
  llvm_unreachable("not a kind of elements");
}

static LogicalResult readFile(Operation *op, FileAttr init, RankedTensorType type, const Options &options,
                              const Elements &to) {
  SmallString<256> path(init.getPath());
  if (!llvm::sys::path::is_absolute(path)) {
    path = folderOf(op, options);
    llvm::sys::path::append(path, init.getPath());
  }
  std::ifstream file(path.c_str(), std::ios::binary);
  if (!file)
    return op->emitError("cannot read initial values from \"") << path << "\"";
  file.seekg(0, std::ios::end);
  int64_t bytes = static_cast<int64_t>(file.tellg());
  Type stored = getStoredType(op, init, type.getElementType());
  if (!canStartFrom(type.getElementType(), stored))
    return op->emitError("cannot start ") << type << " from values of type " << stored;
  ElementKind typed = *elementKind(stored, Arithmetic::AsTyped);
  int64_t elementBytes = typed == ElementKind::I1 ? 1 : stored.getIntOrFloatBitWidth() / 8;
  int64_t needed = to.count * elementBytes;
  if (bytes < 0 || init.getOffset() > bytes || needed > bytes - init.getOffset())
    return op->emitError("needs ") << needed << " bytes at offset " << init.getOffset() << " of \"" << path
                                   << "\", which has " << bytes;
  file.seekg(init.getOffset());
  if (!readTyped(file, typed, to))
    return op->emitError("starts from 8-bit floats in \"") << path << "\", expected 16 bits or more";
  if (!file)
    return op->emitError("cannot read initial values from \"") << path << "\"";
  return success();
}

/// Of a file, or of several tensors of files one after another.
static FailureOr<Tensor> readFiles(Operation *op, Attribute init, RankedTensorType type, const Options &options) {
  Tensor tensor(*elementKind(type.getElementType(), options.arithmetic), type.getShape());
  if (auto file = dyn_cast<FileAttr>(init)) {
    if (failed(readFile(op, file, type, options, {tensor, 0, type.getNumElements()})))
      return failure();
    tensor.roundElements(); // what was read is of the stored type
    return tensor;
  }
  int64_t first = 0;
  for (PartAttr part : cast<PartsAttr>(init).getParts()) {
    const int64_t count = part.getNumElements();
    if (count > type.getNumElements() - first)
      return op->emitError("starts ") << type << " from parts of more elements", failure();
    if (failed(readFile(op, part.getFile(), type, options, {tensor, first, count})))
      return failure();
    first += count;
  }
  if (first != type.getNumElements())
    return op->emitError("starts ") << type << " from parts of " << first << " elements", failure();
  tensor.roundElements();
  return tensor;
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

static Tensor normalValues(StringRef name, NormalAttr init, RankedTensorType type, const Options &options) {
  Tensor tensor(*elementKind(type.getElementType(), options.arithmetic), type.getShape());
  double mean = init.getMean().getValueAsDouble(), stddev = init.getStddev().getValueAsDouble();
  for (int64_t i = 0; i < tensor.getNumElements(); ++i)
    tensor.set(i, static_cast<float>(mean + stddev * standardNormal(options.seed, name, static_cast<uint64_t>(i))));
  return tensor;
}

static Tensor uniformValues(StringRef name, UniformAttr init, RankedTensorType type, const Options &options) {
  Tensor tensor(*elementKind(type.getElementType(), options.arithmetic), type.getShape());
  double low = init.getLow().getValueAsDouble(), high = init.getHigh().getValueAsDouble();
  for (int64_t i = 0; i < tensor.getNumElements(); ++i)
    tensor.set(i,
               static_cast<float>(low + (high - low) * standardUniform(options.seed, name, static_cast<uint64_t>(i))));
  return tensor;
}

static Tensor sinusoidValues(SinusoidsAttr init, RankedTensorType type, const Options &options) {
  Tensor tensor(*elementKind(type.getElementType(), options.arithmetic), type.getShape());
  const int64_t width = init.getWidth(), half = width / 2;
  const double ratio = init.getRatio().getValueAsDouble();
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    const int64_t row = i / width, column = i % width;
    const double angle = static_cast<double>(row) * std::pow(ratio, static_cast<double>(column % half));
    tensor.set(i, static_cast<float>(column < half ? std::sin(angle) : std::cos(angle)));
  }
  return tensor;
}

FailureOr<Tensor> hyc::interpreter::initialValue(Operation *symbol, const Options &options) {
  StringRef name = cast<SymbolOpInterface>(symbol).getName();
  if (auto param = dyn_cast<ParamOp>(symbol))
    return initialValue(symbol, name, param.getWholeType(), param.getInit(), options);
  auto state = cast<StateOp>(symbol);
  if (!state.is(StateRole::compute) || !state.getParam())
    return initialValue(symbol, name, state.getWholeType(), state.getInit(), options);
  return initialCopy(symbol, *state.getParam(), state.getWholeType(), state.getInit(), options);
}

FailureOr<Tensor> hyc::interpreter::initialCopy(Operation *symbol, StringRef parameter, RankedTensorType type,
                                                Attribute init, const Options &options) {
  // Of the parameter's f32 values, which its own initialisation would round to too.
  auto master = RankedTensorType::get(type.getShape(), Float32Type::get(type.getContext()));
  FailureOr<Tensor> value = initialValue(symbol, parameter, master, init, options);
  if (failed(value))
    return failure();
  return value->converted(*elementKind(type.getElementType(), options.arithmetic));
}

FailureOr<Tensor> hyc::interpreter::initialValue(Operation *symbol, StringRef name, RankedTensorType type,
                                                 Attribute init, const Options &options) {
  if (failed(checkedType(symbol, type, options.arithmetic)))
    return failure();
  ElementKind kind = *elementKind(type.getElementType(), options.arithmetic);
  if (auto fill = dyn_cast<FillAttr>(init)) {
    double value = fill.getValue().getValueAsDouble();
    return Tensor::splat(kind, type.getShape(), type.getElementType().isF32() ? static_cast<float>(value) : value);
  }
  if (isa<FileAttr, PartsAttr>(init))
    return readFiles(symbol, init, type, options);
  if (auto ofWeight = dyn_cast<OfWeightAttr>(init))
    return partOfWeight(symbol, ofWeight, type, options);
  auto normal = dyn_cast<NormalAttr>(init);
  if (normal && isFloat(kind))
    return normalValues(name, normal, type, options);
  if (auto uniform = dyn_cast<UniformAttr>(init); uniform && isFloat(kind))
    return uniformValues(name, uniform, type, options);
  if (auto sinusoids = dyn_cast<SinusoidsAttr>(init); sinusoids && isFloat(kind))
    return sinusoidValues(sinusoids, type, options);
  if (!isa<DenseElementsAttr>(init))
    return symbol->emitError("the interpreter cannot start ") << type << " from " << init, failure();
  FailureOr<Tensor> dense = denseValue(symbol, init, options.arithmetic);
  if (succeeded(dense) && (dense->getKind() != kind || dense->getNumElements() != type.getNumElements()))
    return symbol->emitError("starts ") << type << " from " << dense->describeType() << " values", failure();
  return succeeded(dense) ? FailureOr<Tensor>(dense->reshaped(type.getShape())) : dense;
}
