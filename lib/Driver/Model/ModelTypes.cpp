// Types of parameters and inputs, retold once the model is read.
#include "Model/ModelTypes.h"

#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/StoredTypes.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace hyc;

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

static bool isOtherFloat(Type type) { return type.isF16() || type.isBF16() || type.isF64(); }

/// A number that f32 has not stands for the largest that there is, as the least of f64 does in a mask.
static APFloat toF32(APFloat value) {
  bool ignored, isFinite = value.isFinite();
  value.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &ignored);
  return isFinite && value.isInfinity() ? APFloat::getLargest(APFloat::IEEEsingle(), value.isNegative()) : value;
}

/// Numbers are converted, and everything else has the type in its place.
static AttrTypeReplacer replacerToF32(MLIRContext *context, const llvm::SetVector<Type> &types) {
  AttrTypeReplacer replacer;
  Type f32 = Float32Type::get(context);
  replacer.addReplacement([types, f32](Type type) -> std::optional<Type> {
    return types.contains(type) ? std::optional(f32) : std::nullopt;
  });
  // Numbers of f64 are ops' own, such as an epsilon, whatever type their tensors have.
  replacer.addReplacement([types, f32](FloatAttr number) -> std::optional<std::pair<Attribute, WalkResult>> {
    bool isOfTensors = types.contains(number.getType()) && !number.getType().isF64();
    Attribute told = isOfTensors ? FloatAttr::get(f32, toF32(number.getValue())) : number;
    return std::pair(told, WalkResult::skip());
  });
  replacer.addReplacement([types, f32](DenseFPElementsAttr numbers) -> std::optional<std::pair<Attribute, WalkResult>> {
    if (!types.contains(numbers.getElementType()))
      return std::nullopt;
    auto converted = numbers.mapValues(f32, [](const APFloat &value) { return toF32(value).bitcastToAPInt(); });
    return std::pair<Attribute, WalkResult>(converted, WalkResult::skip());
  });
  return replacer;
}

/// Places in files from which tensors of these types start, or whose types are noted, with the types that are stored
/// there.
static SmallVector<std::pair<FileAttr, Type>> storedAs(ModuleOp module, const llvm::SetVector<Type> &types) {
  SmallVector<std::pair<FileAttr, Type>> stored;
  for (auto param : module.getOps<ParamOp>()) {
    Type type = param.getTensorType().getElementType();
    param.getInitAttr().walk([&](FileAttr file) {
      // What is stored in another type than others have is noted, in attributes whose types are retold with all.
      Type inFile = getStoredType(param, file, type);
      if (types.contains(type) || inFile != type)
        stored.push_back({file, inFile});
    });
  }
  return stored;
}

std::string hyc::computeInF32(ModuleOp module) {
  llvm::SetVector<Type> types;
  for (auto param : module.getOps<ParamOp>())
    if (Type type = param.getTensorType().getElementType(); isOtherFloat(type) && !param.getFrozen())
      types.insert(type);
  std::string names;
  llvm::raw_string_ostream os(names);
  llvm::interleave(types, os, " and ");
  if (types.empty())
    return names;
  SmallVector<std::pair<FileAttr, Type>> stored = storedAs(module, types);
  replacerToF32(module.getContext(), types)
      .recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true, /*replaceLocs=*/false, /*replaceTypes=*/true);
  setStoredTypes(module, stored);
  module.walk([](ConvertOp convert) {
    if (convert.getOperand().getType() != convert.getResult().getType())
      return;
    convert.getResult().replaceAllUsesWith(convert.getOperand());
    convert.erase();
  });
  return names;
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

/// What data is read as for an input of this type; the type itself where it is read as it is.
static Type readAs(Type type) {
  MLIRContext *context = type.getContext();
  if (isOtherFloat(type))
    return Float32Type::get(context);
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer || (!integer.isUnsigned() && (integer.getWidth() == 64 || integer.getWidth() == 32)))
    return type;
  bool isNarrow = integer.getWidth() < 32;
  return IntegerType::get(context, isNarrow ? 32 : 64);
}

/// The value that the model has of what was read: a truth value is what is not 0.
static Value converted(OpBuilder &builder, BlockArgument read, RankedTensorType wanted, StringRef id) {
  Location loc = read.getLoc();
  if (!wanted.getElementType().isInteger(1)) {
    auto convert = ConvertOp::create(builder, loc, wanted, read);
    setId(convert, id);
    return convert;
  }
  auto type = cast<RankedTensorType>(read.getType());
  auto zeros = ConstantOp::create(
      builder, loc, type, cast<ElementsAttr>(DenseElementsAttr::get(type, builder.getZeroAttr(type.getElementType()))));
  setId(zeros, id + ".zero");
  auto compare = CompareOp::create(builder, loc, wanted, ComparePredicate::ne, read, zeros);
  setId(compare, id);
  return compare;
}

void hyc::readByTypesOfData(ModuleOp module) {
  auto entry = module.lookupSymbol<FuncOp>(kTrain);
  if (!entry || entry.getBody().empty())
    return;
  OpBuilder builder(&entry.getBody().front(), entry.getBody().front().begin());
  for (BlockArgument argument : entry.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || readAs(type.getElementType()) == type.getElementType())
      continue;
    auto name = entry.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kInput);
    argument.setType(type.clone(readAs(type.getElementType())));
    Value value = converted(builder, argument, type, ("inputs." + (name ? name.getValue() : "")).str());
    argument.replaceUsesWithIf(value, [&](OpOperand &use) { return use.getOwner() != value.getDefiningOp(); });
  }
  entry.setFunctionType(
      FunctionType::get(module.getContext(), TypeRange(entry.getArguments()), entry.getFunctionType().getResults()));
}
