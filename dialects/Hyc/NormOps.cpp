// rms_norm, group_norm, rotary_table and rope: verifiers, gradients, decompositions, and what partitioning and
// precision ask of them.
#include "dialects/Hyc/DerivedOps.h"
#include "dialects/Hyc/LetterRule.h"

using namespace mlir;
using namespace hyc;

//===----------------------------------------------------------------------===//
// rms_norm
//===----------------------------------------------------------------------===//

LogicalResult RmsNormOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, ValueRange operands,
                                          DictionaryAttr, mlir::OpaqueProperties, RegionRange,
                                          SmallVectorImpl<Type> &types) {
  RankedTensorType x = tensorTypeOf(operands[0]), scale = tensorTypeOf(operands[1]);
  if (x.getRank() == 0 || scale.getShape() != x.getShape().take_back())
    return emitOptionalError(loc, "[rms_norm.shapes] has scale ", scale, " for ", x);
  types.push_back(x);
  types.push_back(RankedTensorType::get(x.getShape().drop_back(), accumulationType(x.getElementType())));
  return success();
}

LogicalResult RmsNormGradOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                              DictionaryAttr, mlir::OpaqueProperties, RegionRange,
                                              SmallVectorImpl<Type> &types) {
  types.append({operands[1].getType(), operands[2].getType()});
  return success();
}

ShardingRule RmsNormOp::getShardingRule() { return letterRule(*this, {"*h", "h"}, {"*h", "*"}, /*whole=*/"h"); }

ShardingRule RmsNormGradOp::getShardingRule() {
  return letterRule(*this, {"*h", "*h", "h", "*"}, {"*h", "h"}, /*whole=*/"h");
}

PrecisionRule RmsNormOp::getPrecisionRule() { return {"nw", "nw"}; }
PrecisionRule RmsNormGradOp::getPrecisionRule() { return {"nnww", "nw"}; }

LogicalResult RmsNormOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                       SmallVectorImpl<Value> &results) {
  results.assign(2, Value());
  if (cotangents[1])
    return emitOpError("has no gradient through result 1, a statistic kept for its own gradient; compute it with "
                       "separate ops");
  if (!cotangents[0])
    return success();
  auto gradient =
      DerivedOps(builder, *this, ".grad").create<RmsNormGradOp>("", cotangents[0], getX(), getScale(), getRstd());
  for (auto [index, value] : llvm::enumerate(gradient.getResults()))
    if (wanted[index])
      results[index] = value;
  return success();
}

LogicalResult RmsNormOp::decompose(OpBuilder &builder, SmallVectorImpl<Value> &results) {
  DerivedOps b(builder, *this, ".");
  RankedTensorType type = tensorTypeOf(getX());
  int64_t last = type.getRank() - 1;
  Type rowType = getRstd().getType();
  Value size = b.splat("size", rowType, static_cast<double>(type.getDimSize(last)));
  Value squares = b.reduce("sum_of_squares", ReductionKind::sum, b.mul("squares", getX(), getX()), {last});
  Value epsilon = b.splat("epsilon", rowType, getEpsilon().convertToDouble());
  Value rstd = b.create<RsqrtOp>("rstd", b.add("stabilized", b.div("mean_square", squares, size), epsilon));
  Value normal = b.mul("normalized", getX(), b.restore("rstds", rstd, {last}, type));
  Value scale = b.create<BroadcastOp>("scales", type, getScale(), ArrayRef<int64_t>{last});
  results.append({b.mul("result", normal, scale), rstd});
  return success();
}

//===----------------------------------------------------------------------===//
// group_norm
//===----------------------------------------------------------------------===//

LogicalResult GroupNormOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, ValueRange operands,
                                            DictionaryAttr, mlir::OpaqueProperties, RegionRange,
                                            SmallVectorImpl<Type> &types) {
  RankedTensorType x = tensorTypeOf(operands[0]);
  for (Value vector : operands.drop_front())
    if (x.getRank() != 4 || tensorTypeOf(vector).getShape() != x.getShape().slice(1, 2))
      return emitOptionalError(loc, "[group_norm.shapes] has scale or bias ", vector.getType(), " for ", x,
                               ", expected (G,C) for (N,G,C,S)");
  auto statistics = RankedTensorType::get(x.getShape().take_front(2), accumulationType(x.getElementType()));
  types.append({x, statistics, statistics});
  return success();
}

LogicalResult GroupNormGradOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                                DictionaryAttr, mlir::OpaqueProperties, RegionRange,
                                                SmallVectorImpl<Type> &types) {
  types.append({operands[1].getType(), operands[2].getType(), operands[2].getType()});
  return success();
}

ShardingRule GroupNormOp::getShardingRule() {
  return letterRule(*this, {"ngcs", "gc", "gc"}, {"ngcs", "ng", "ng"}, /*whole=*/"cs");
}

ShardingRule GroupNormGradOp::getShardingRule() {
  return letterRule(*this, {"ngcs", "ngcs", "gc", "ng", "ng"}, {"ngcs", "gc", "gc"}, /*whole=*/"cs");
}

PrecisionRule GroupNormOp::getPrecisionRule() { return {"nww", "nww"}; }
PrecisionRule GroupNormGradOp::getPrecisionRule() { return {"nnwww", "nww"}; }

LogicalResult GroupNormOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                         SmallVectorImpl<Value> &results) {
  results.assign(3, Value());
  if (cotangents[1] || cotangents[2])
    return emitOpError("has no gradient through result ")
           << (cotangents[1] ? 1 : 2) << ", a statistic kept for its own gradient; compute it with separate ops";
  if (!cotangents[0])
    return success();
  auto gradient = DerivedOps(builder, *this, ".grad")
                      .create<GroupNormGradOp>("", cotangents[0], getX(), getScale(), getMean(), getRstd());
  for (auto [index, value] : llvm::enumerate(gradient.getResults()))
    if (wanted[index])
      results[index] = value;
  return success();
}

LogicalResult GroupNormOp::decompose(OpBuilder &builder, SmallVectorImpl<Value> &results) {
  DerivedOps b(builder, *this, ".");
  RankedTensorType type = tensorTypeOf(getX());
  Type groupType = getMean().getType();
  SmallVector<int64_t> within{2, 3}, channels{1, 2};
  Value size = b.splat("size", groupType, static_cast<double>(type.getDimSize(2) * type.getDimSize(3)));
  Value mean = b.div("mean", b.reduce("sum", ReductionKind::sum, getX(), within), size);
  Value centred = b.sub("centred", getX(), b.restore("means", mean, within, type));
  Value squares = b.reduce("sum_of_squares", ReductionKind::sum, b.mul("squares", centred, centred), within);
  Value epsilon = b.splat("epsilon", groupType, getEpsilon().convertToDouble());
  Value rstd = b.create<RsqrtOp>("rstd", b.add("stabilized", b.div("variance", squares, size), epsilon));
  Value normal = b.mul("normalized", centred, b.restore("rstds", rstd, within, type));
  Value scale = b.create<BroadcastOp>("scales", type, getScale(), channels);
  Value bias = b.create<BroadcastOp>("biases", type, getBias(), channels);
  results.append({b.add("result", b.mul("scaled", normal, scale), bias), mean, rstd});
  return success();
}

//===----------------------------------------------------------------------===//
// rotary_table
//===----------------------------------------------------------------------===//

LogicalResult RotaryTableOp::verify() {
  RankedTensorType cos = tensorTypeOf(getCos());
  bool agree = cos == getSin().getType() && cos.getRank() == 2 && isa<FloatType>(cos.getElementType()) &&
               cos.getDimSize(1) == static_cast<int64_t>(getFrequencies().size());
  if (agree)
    return success();
  return emitOpError("[rotary_table.shapes] gives ")
         << cos << " and " << getSin().getType() << " of " << getFrequencies().size()
         << " frequencies, expected one floating-point type (positions, frequencies)";
}

ShardingRule RotaryTableOp::getShardingRule() { return letterRule(*this, {}, {"pr", "pr"}, /*whole=*/"pr"); }

LogicalResult RotaryTableOp::decompose(OpBuilder &builder, SmallVectorImpl<Value> &results) {
  DerivedOps b(builder, *this, ".");
  RankedTensorType type = tensorTypeOf(getCos());
  auto row = RankedTensorType::get(type.getShape().drop_front(), type.getElementType());
  SmallVector<Attribute> values;
  for (float frequency : getFrequencies())
    values.push_back(FloatAttr::get(type.getElementType(), frequency));
  Value frequencies = b.create<ConstantOp>("frequencies", row, cast<ElementsAttr>(DenseElementsAttr::get(row, values)));
  auto indexType = RankedTensorType::get(type.getShape(), builder.getI64Type());
  Value position = b.create<ConvertOp>("positions", type, b.create<IotaOp>("index", indexType, 0));
  Value angle =
      b.mul("angle", position, b.create<BroadcastOp>("all_frequencies", type, frequencies, ArrayRef<int64_t>{1}));
  double factor = getFactor().convertToDouble();
  for (Value table : {b.create<CosOp>("cos", angle).getResult(), b.create<SinOp>("sin", angle).getResult()})
    results.push_back(factor == 1 ? table : b.mul("scaled", table, b.splat("factor", type, factor)));
  return success();
}

//===----------------------------------------------------------------------===//
// rope
//===----------------------------------------------------------------------===//

LogicalResult RopeOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, ValueRange operands, DictionaryAttr,
                                       mlir::OpaqueProperties, RegionRange, SmallVectorImpl<Type> &types) {
  RankedTensorType x = tensorTypeOf(operands[0]), cos = tensorTypeOf(operands[1]), sin = tensorTypeOf(operands[2]);
  bool agree = x.getRank() == 4 && cos == sin && (cos.getRank() == 2 || cos.getRank() == 3) &&
               cos.getShape().drop_back() == x.getShape().take_front(2).take_back(cos.getRank() - 1) &&
               2 * cos.getShape().back() <= x.getShape().back();
  if (!agree)
    return emitOptionalError(loc, "[rope.shapes] has x ", x, ", cos ", cos, " and sin ", sin,
                             ", expected (B,S,H,D) and two tables (S,R) or (B,S,R) with 2R ≤ D");
  types.push_back(x);
  return success();
}

/// Both of a pair are needed at once, so that heads stay whole inside; tables go with the positions.
ShardingRule RopeOp::getShardingRule() {
  StringRef table = tensorTypeOf(getCos()).getRank() == 3 ? "bsr" : "sr";
  return letterRule(*this, {"bshd", table, table}, {"bshd"}, /*whole=*/"dr");
}

PrecisionRule RopeOp::getPrecisionRule() { return {"nww", "n"}; }

/// Tables follow from positions, which nobody learns: they get no cotangent.
LogicalResult RopeOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                    SmallVectorImpl<Value> &results) {
  results.assign(3, Value());
  if (wanted[1] || wanted[2])
    return emitOpError("has no gradient with respect to its tables; compute the rotation with separate ops where "
                       "positions or frequencies are learned");
  if (!cotangents[0] || !wanted[0])
    return success();
  UnitAttr inverse = getInverse() ? UnitAttr() : builder.getUnitAttr();
  results[0] = DerivedOps(builder, *this, ".grad")
                   .create<RopeOp>("", getX().getType(), cotangents[0], getCos(), getSin(), inverse);
  return success();
}

LogicalResult RopeOp::decompose(OpBuilder &builder, SmallVectorImpl<Value> &results) {
  DerivedOps b(builder, *this, ".");
  RankedTensorType type = tensorTypeOf(getX()), table = tensorTypeOf(getCos());
  int64_t half = table.getShape().back(), size = type.getDimSize(3);
  auto part = [&](const Twine &suffix, int64_t begin, int64_t width) -> Value {
    SmallVector<int64_t> shape(type.getShape());
    shape[3] = width;
    return b.create<SliceOp>(suffix, RankedTensorType::get(shape, type.getElementType()), getX(),
                             ArrayRef<int64_t>{0, 0, 0, begin}, ArrayRef<int64_t>{1, 1, 1, 1});
  };
  Value x = part("first", 0, half), y = part("second", half, half);
  auto spread = [&](const Twine &suffix, Value values) -> Value {
    if (table.getElementType() != type.getElementType())
      values = b.create<ConvertOp>(suffix + "_narrow", RankedTensorType::get(table.getShape(), type.getElementType()),
                                   values);
    SmallVector<int64_t> dims{0, 1, 3};
    return b.create<BroadcastOp>(suffix, x.getType(), values, ArrayRef<int64_t>(dims).take_back(table.getRank()));
  };
  Value cos = spread("cos", getCos()), sin = spread("sin", getSin());
  Value xCos = b.mul("first_cos", x, cos), ySin = b.mul("second_sin", y, sin);
  Value yCos = b.mul("second_cos", y, cos), xSin = b.mul("first_sin", x, sin);
  bool inverse = getInverse();
  SmallVector<Value> parts{inverse ? b.add("first_turned", xCos, ySin) : b.sub("first_turned", xCos, ySin),
                           inverse ? b.sub("second_turned", yCos, xSin) : b.add("second_turned", yCos, xSin)};
  if (2 * half < size)
    parts.push_back(part("rest", 2 * half, size - 2 * half));
  results.push_back(b.create<ConcatOp>("result", type, parts, builder.getI64IntegerAttr(3)));
  return success();
}
