// Verifiers and result types of the tensor ops. Each constraint carries the id that HycOps.td lists.
#include "dialects/Hyc/HycDialect.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace hyc;

static RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

static RankedTensorType withShape(RankedTensorType type, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, type.getElementType());
}

static LogicalResult infer(SmallVectorImpl<Type> &types, std::initializer_list<Type> results) {
  types.append(results);
  return success();
}

/// `type` with the elements in which its own are accumulated.
static RankedTensorType accumulated(RankedTensorType type) {
  return RankedTensorType::get(type.getShape(), accumulationType(type.getElementType()));
}

/// Whether `to` is `from`, or `from` left in the type in which it was accumulated.
static bool isOrAccumulates(Type from, Type to) {
  return from == to || accumulated(cast<RankedTensorType>(from)) == to;
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

LogicalResult CompareOp::verify() {
  if (tensorType(getLhs()) != tensorType(getRhs()))
    return emitOpError("compares ") << getLhs().getType() << " with " << getRhs().getType();
  if (!tensorType(getResult()).getElementType().isInteger(1))
    return emitOpError("gives ") << getResult().getType() << ", expected booleans (i1)";
  return success();
}

LogicalResult SelectOp::verify() {
  RankedTensorType condition = tensorType(getCondition());
  if (!condition.getElementType().isInteger(1) || condition.getShape() != tensorType(getResult()).getShape())
    return emitOpError("has condition ") << condition << ", expected booleans of the shape of "
                                         << getResult().getType();
  if (getLhs().getType() != getResult().getType() || getRhs().getType() != getResult().getType())
    return emitOpError("selects from ") << getLhs().getType() << " and " << getRhs().getType() << " into "
                                        << getResult().getType();
  return success();
}

LogicalResult ConvertOp::verify() {
  if (tensorType(getOperand()).getShape() == tensorType(getResult()).getShape())
    return success();
  return emitOpError("changes the shape from ") << getOperand().getType() << " to " << getResult().getType();
}

static LogicalResult verifyRate(Operation *op, StringRef constraint, const APFloat &value, bool mayBeZero) {
  double rate = value.convertToDouble();
  if (rate < 1 && (mayBeZero ? rate >= 0 : rate > 0))
    return success();
  return op->emitOpError("[") << constraint << "] drops a share of " << rate << ", expected "
                              << (mayBeZero ? "at least 0" : "more than 0") << " and less than 1";
}

LogicalResult DropoutOp::verify() {
  RankedTensorType x = tensorType(getX());
  if (getResult().getType() != x || !isa<FloatType>(x.getElementType()))
    return emitOpError("[dropout.types] turns ")
           << x << " into " << getResult().getType() << ", expected floats of one type";
  if (Value mask = getMask())
    if (tensorType(mask).getShape() != x.getShape() || !tensorType(mask).getElementType().isInteger(1))
      return emitOpError("[dropout.types] has mask ") << mask.getType() << ", expected booleans of the shape of " << x;
  return verifyRate(*this, "dropout.rate", getRate(), /*mayBeZero=*/true);
}

/// Whether `keys` holds a column `column` of i64, one a sample.
static bool areKeys(Value keys, uint64_t column, int64_t samples) {
  RankedTensorType type = tensorType(keys);
  return type.getRank() == 2 && type.getElementType().isInteger(64) && type.getDimSize(0) == samples &&
         column < static_cast<uint64_t>(type.getDimSize(1));
}

static bool isIntegerScalar(Value value) {
  return tensorType(value).getRank() == 0 && tensorType(value).getElementType().isInteger(64);
}

LogicalResult DropoutMaskOp::verify() {
  RankedTensorType mask = tensorType(getResult());
  if (mask.getRank() == 0 || !mask.getElementType().isInteger(1) ||
      !areKeys(getKeys(), getColumn(), mask.getDimSize(0)))
    return emitOpError("[dropout_mask.shapes] draws ")
           << mask << " from column " << getColumn() << " of keys " << getKeys().getType()
           << ", expected booleans, and i64 keys with a row a sample";
  bool arePlaced = llvm::all_of(getOffsets(), isIntegerScalar) && (getOffsets().empty() || getStrides());
  if (!arePlaced || (getStrides() && static_cast<int64_t>(getStrides()->size()) != mask.getRank() - 1))
    return emitOpError("[dropout_mask.place] has ")
           << getOffsets().size() << " offsets and " << (getStrides() ? getStrides()->size() : 0) << " strides for "
           << mask << ", expected i64 scalars and a stride a dimension but the first";
  return verifyRate(*this, "dropout_mask.rate", getRate(), /*mayBeZero=*/true);
}

SmallVector<int64_t> DropoutMaskOp::getSampleStrides() {
  if (getStrides())
    return llvm::to_vector(*getStrides());
  ArrayRef<int64_t> shape = tensorType(getResult()).getShape();
  SmallVector<int64_t> strides(shape.size() - 1, 1);
  for (size_t dim = strides.size(); dim-- > 1;) {
    int64_t size = shape[dim + 1];
    strides[dim - 1] = strides[dim] * (dim + 1 == shape.size() - 1 ? (size + 3) / 4 * 4 : size);
  }
  return strides;
}

int64_t DropoutMaskOp::thresholdOf(double rate) { return static_cast<int64_t>(std::ldexp(rate, 32)); }

LogicalResult IotaOp::verify() {
  if (getDim() < static_cast<uint64_t>(tensorType(getResult()).getRank()))
    return success();
  return emitOpError("counts along dimension ") << getDim() << " of " << getResult().getType();
}

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  RankedTensorType from = tensorType(getOperand()), to = tensorType(getResult());
  if (from.getNumElements() == to.getNumElements() && from.getElementType() == to.getElementType())
    return success();
  return emitOpError("[reshape.count] turns ") << from << " (" << from.getNumElements() << " elements) into " << to
                                               << " (" << to.getNumElements() << " elements)";
}

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, ValueRange operands,
                                            DictionaryAttr, mlir::OpaqueProperties properties, RegionRange,
                                            SmallVectorImpl<Type> &types) {
  RankedTensorType type = tensorType(operands[0]);
  ArrayRef<int64_t> permutation = properties.as<Properties *>()->permutation.asArrayRef();
  SmallVector<int64_t> shape;
  SmallVector<bool> seen(type.getRank(), false);
  for (int64_t dim : permutation) {
    if (dim < 0 || dim >= type.getRank() || seen[dim])
      return emitOptionalError(loc, "[transpose.permutation] has [", permutation, "], expected each of 0 to ",
                               type.getRank() - 1, " once");
    seen[dim] = true;
    shape.push_back(type.getDimSize(dim));
  }
  if (static_cast<int64_t>(shape.size()) != type.getRank())
    return emitOptionalError(loc, "[transpose.permutation] has ", shape.size(), " dimensions, expected ",
                             type.getRank());
  return infer(types, {withShape(type, shape)});
}

LogicalResult BroadcastOp::verify() {
  RankedTensorType from = tensorType(getOperand()), to = tensorType(getResult());
  ArrayRef<int64_t> dims = getDims();
  if (static_cast<int64_t>(dims.size()) != from.getRank())
    return emitOpError("[broadcast.dims] maps ") << dims.size() << " dimensions of " << from;
  int64_t previous = -1;
  for (auto [index, dim] : llvm::enumerate(dims)) {
    if (dim <= previous || dim >= to.getRank() || to.getDimSize(dim) != from.getDimSize(index))
      return emitOpError("[broadcast.dims] maps dimension ")
             << index << " of " << from << " to dimension " << dim << " of " << to;
    previous = dim;
  }
  return success();
}

/// Whether `part`, placed at offsets and strides, lies in `whole`.
static LogicalResult verifyPlacement(Operation *op, StringRef constraint, RankedTensorType part, RankedTensorType whole,
                                     ArrayRef<int64_t> offsets, ArrayRef<int64_t> strides) {
  size_t tensorRank = whole.getRank();
  if (part.getRank() != whole.getRank() || offsets.size() != tensorRank || strides.size() != tensorRank)
    return op->emitOpError("[") << constraint << "] has " << offsets.size() << " offsets and " << strides.size()
                                << " strides for " << part << " in " << whole;
  for (size_t dim = 0; dim < tensorRank; ++dim) {
    int64_t size = part.getDimSize(dim);
    int64_t last = 0;
    bool overflows = llvm::MulOverflow(size - 1, strides[dim], last) || llvm::AddOverflow(offsets[dim], last, last);
    if (overflows || offsets[dim] < 0 || strides[dim] < 1 || (size > 0 && last >= whole.getDimSize(dim))) {
      InFlightDiagnostic error = op->emitOpError("[") << constraint << "] dim " << dim << " reaches index ";
      if (overflows)
        error << "beyond 63 bits";
      else
        error << last;
      return error << " of " << whole.getDimSize(dim);
    }
  }
  return success();
}

LogicalResult SliceOp::verify() {
  return verifyPlacement(*this, "slice.bounds", tensorType(getResult()), tensorType(getOperand()), getOffsets(),
                         getStrides());
}

LogicalResult PadOp::verify() {
  return verifyPlacement(*this, "pad.bounds", tensorType(getOperand()), tensorType(getResult()), getOffsets(),
                         getStrides());
}

/// Whether `parts` joined along `dim` give `whole`.
static LogicalResult verifyParts(Operation *op, StringRef constraint, ValueRange parts, Value wholeValue, int64_t dim) {
  RankedTensorType whole = tensorType(wholeValue);
  if (dim < 0 || dim >= whole.getRank())
    return op->emitOpError("[") << constraint << "] has dim " << dim << " of " << whole;
  if (parts.empty())
    return op->emitOpError("[") << constraint << "] has no part, expected at least one";
  int64_t total = 0;
  for (Value value : parts) {
    RankedTensorType part = tensorType(value);
    bool agrees = part.getRank() == whole.getRank() && part.getElementType() == whole.getElementType();
    for (int64_t d = 0; agrees && d < whole.getRank(); ++d)
      agrees = d == dim || part.getDimSize(d) == whole.getDimSize(d);
    if (!agrees)
      return op->emitOpError("[") << constraint << "] has part " << part << " of " << whole << " along dim " << dim;
    total += part.getDimSize(dim);
  }
  if (total == whole.getDimSize(dim))
    return success();
  return op->emitOpError("[") << constraint << "] has parts of " << total << " along dim " << dim << ", expected "
                              << whole.getDimSize(dim);
}

LogicalResult SplitOp::verify() { return verifyParts(*this, "split.sizes", getParts(), getOperand(), getDim()); }
LogicalResult ConcatOp::verify() { return verifyParts(*this, "concat.sizes", getParts(), getResult(), getDim()); }

LogicalResult ReduceOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, ValueRange operands,
                                         DictionaryAttr, mlir::OpaqueProperties properties, RegionRange,
                                         SmallVectorImpl<Type> &types) {
  RankedTensorType type = tensorType(operands[0]);
  ArrayRef<int64_t> dims = properties.as<Properties *>()->dims.asArrayRef();
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] < 0 || dims[i] >= type.getRank() || (i > 0 && dims[i] <= dims[i - 1]))
      return emitOptionalError(loc, "[reduce.dims] has [", dims, "] for ", type);
  SmallVector<int64_t> shape;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (!llvm::is_contained(dims, dim))
      shape.push_back(type.getDimSize(dim));
  return infer(types, {withShape(type, shape)});
}

bool ReduceOp::isCompatibleReturnTypes(TypeRange inferred, TypeRange declared) {
  return inferred.size() == 1 && declared.size() == 1 && isOrAccumulates(inferred[0], declared[0]);
}

//===----------------------------------------------------------------------===//
// Einsum
//===----------------------------------------------------------------------===//

std::optional<EinsumOp::Letters> EinsumOp::parseSpec(StringRef spec) {
  auto [operands, result] = spec.split("->");
  auto [lhs, rhs] = operands.split(',');
  auto lettersOnly = [](StringRef text) { return llvm::all_of(text, llvm::isAlpha); };
  if (!spec.contains("->") || !operands.contains(',') || !lettersOnly(lhs) || !lettersOnly(rhs) || !lettersOnly(result))
    return std::nullopt;
  return Letters{lhs, rhs, result};
}

LogicalResult EinsumOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, ValueRange operands,
                                         DictionaryAttr, mlir::OpaqueProperties properties, RegionRange,
                                         SmallVectorImpl<Type> &types) {
  StringRef spec = properties.as<Properties *>()->spec.getValue();
  std::optional<Letters> letters = parseSpec(spec);
  if (!letters)
    return emitOptionalError(loc, "[einsum.spec] is \"", spec, "\", expected letters as in \"bsk,kn->bsn\"");
  int64_t sizes[256];
  std::fill(std::begin(sizes), std::end(sizes), -1);
  for (auto [text, operand] : {std::pair{letters->lhs, operands[0]}, std::pair{letters->rhs, operands[1]}}) {
    ArrayRef<int64_t> shape = tensorType(operand).getShape();
    if (text.size() != shape.size())
      return emitOptionalError(loc, "[einsum.spec] names ", text.size(), " dimensions \"", text, "\" of ",
                               operand.getType());
    for (auto [index, letter] : llvm::enumerate(text)) {
      if (text.take_front(index).contains(letter))
        return emitOptionalError(loc, "[einsum.spec] has letter '", Twine(letter), "' twice in \"", text, "\"");
      int64_t &size = sizes[static_cast<unsigned char>(letter)];
      if (size >= 0 && size != shape[index])
        return emitOptionalError(loc, "[einsum.sizes] letter '", Twine(letter), "' has size ", size, " and ",
                                 shape[index]);
      size = shape[index];
    }
  }
  for (StringRef text : {letters->lhs, letters->rhs})
    for (char letter : text)
      if (!letters->result.contains(letter) && !(letters->lhs.contains(letter) && letters->rhs.contains(letter)))
        return emitOptionalError(loc, "[einsum.contracted] letter '", Twine(letter), "' stands in one operand only");
  SmallVector<int64_t> shape;
  for (auto [index, letter] : llvm::enumerate(letters->result)) {
    if (sizes[static_cast<unsigned char>(letter)] < 0 || letters->result.take_front(index).contains(letter))
      return emitOptionalError(loc, "[einsum.spec] result letter '", Twine(letter), "' stands in no operand, or twice");
    shape.push_back(sizes[static_cast<unsigned char>(letter)]);
  }
  return infer(types, {withShape(tensorType(operands[0]), shape)});
}

/// Of 8-bit floats never the type of the operands: nothing that is added up fits into it.
bool EinsumOp::isCompatibleReturnTypes(TypeRange inferred, TypeRange declared) {
  if (inferred.size() != 1 || declared.size() != 1)
    return false;
  auto from = cast<RankedTensorType>(inferred[0]), to = dyn_cast<RankedTensorType>(declared[0]);
  if (!isFloat8(from.getElementType()))
    return isOrAccumulates(from, declared[0]);
  return to && to.getShape() == from.getShape() && (to.getElementType().isF32() || to.getElementType().isBF16());
}

//===----------------------------------------------------------------------===//
// Composite ops
//===----------------------------------------------------------------------===//

LogicalResult LayerNormOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, ValueRange operands,
                                            DictionaryAttr, mlir::OpaqueProperties, RegionRange,
                                            SmallVectorImpl<Type> &types) {
  RankedTensorType x = tensorType(operands[0]);
  for (Value vector : operands.drop_front())
    if (x.getRank() == 0 || tensorType(vector).getShape() != x.getShape().take_back())
      return emitOptionalError(loc, "[layer_norm.shapes] has scale or bias ", vector.getType(), " for ", x);
  Type statistics = accumulated(withShape(x, x.getShape().drop_back()));
  return infer(types, {x, statistics, statistics});
}

LogicalResult LayerNormGradOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                                DictionaryAttr, mlir::OpaqueProperties, RegionRange,
                                                SmallVectorImpl<Type> &types) {
  Type scale = operands[2].getType();
  return infer(types, {operands[1].getType(), scale, scale});
}

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, ValueRange operands,
                                            DictionaryAttr, mlir::OpaqueProperties, RegionRange,
                                            SmallVectorImpl<Type> &types) {
  RankedTensorType q = tensorType(operands[0]), k = tensorType(operands[1]), v = tensorType(operands[2]);
  bool agree = q.getRank() == 4 && k == v && k.getRank() == 4 && k.getDimSize(0) == q.getDimSize(0) &&
               k.getDimSize(3) == q.getDimSize(3) && k.getDimSize(2) > 0 && q.getDimSize(2) % k.getDimSize(2) == 0;
  if (!agree)
    return emitOptionalError(loc, "[attention.shapes] has q ", q, ", k ", k, " and v ", v,
                             ", expected (B,S,H,D), (B,T,G,D) and (B,T,G,D) with G dividing H");
  return infer(types, {q, accumulated(withShape(q, {q.getDimSize(0), q.getDimSize(2), q.getDimSize(1)}))});
}

/// Booleans (B,H,S,T), of which all but T may be 1.
static LogicalResult verifyMask(AttentionOp op) {
  if (!op.getMask())
    return success();
  RankedTensorType q = tensorType(op.getQ()), mask = tensorType(op.getMask());
  int64_t whole[] = {q.getDimSize(0), q.getDimSize(2), q.getDimSize(1), tensorType(op.getK()).getDimSize(1)};
  bool agree = mask.getRank() == 4 && mask.getElementType().isInteger(1) && mask.getDimSize(3) == whole[3];
  for (int dim = 0; agree && dim < 3; ++dim)
    agree = mask.getDimSize(dim) == 1 || mask.getDimSize(dim) == whole[dim];
  if (agree)
    return success();
  return op.emitOpError("[attention.mask] has mask ") << mask << ", expected i1 of " << whole[0] << " or 1, "
                                                      << whole[1] << " or 1, " << whole[2] << " or 1, and " << whole[3];
}

LogicalResult AttentionOp::verify() {
  if (failed(verifyMask(*this)))
    return failure();
  if (!getDropout() && getRandom().empty())
    return success();
  if (!getDropout())
    return emitOpError("[attention.random] has keys, but no `dropout`");
  if (failed(verifyRate(*this, "attention.random", *getDropout(), /*mayBeZero=*/false)))
    return failure();
  bool agree = getRandom().size() < 3 &&
               (getRandom().empty() || areKeys(getRandom()[0], getColumn(), tensorType(getQ()).getDimSize(0))) &&
               (getRandom().size() < 2 || isIntegerScalar(getRandom()[1]));
  if (agree)
    return success();
  return emitOpError("[attention.random] draws from column ")
         << getColumn() << " of (" << getRandom().getTypes()
         << "), expected i64 keys with a row a sample, then maybe an i64 scalar";
}

LogicalResult AttentionGradOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                                DictionaryAttr, mlir::OpaqueProperties, RegionRange,
                                                SmallVectorImpl<Type> &types) {
  return infer(types, {operands[1].getType(), operands[2].getType(), operands[3].getType()});
}

/// `rows` = ids shape × (table's row); `sameElements` says whether their element types go together.
static LogicalResult verifyEmbedding(Operation *op, RankedTensorType ids, RankedTensorType table, RankedTensorType rows,
                                     bool sameElements) {
  // Kernels read no narrower numbers: whoever has some converts them.
  if (!ids.getElementType().isInteger(64))
    return op->emitOpError("[embedding.shapes] has ids ") << ids << ", expected i64";
  SmallVector<int64_t> expected(ids.getShape());
  bool agree = table.getRank() == 2;
  if (agree)
    expected.push_back(table.getDimSize(1));
  if (agree && rows.getShape() == ArrayRef(expected) && sameElements)
    return success();
  return op->emitOpError("[embedding.shapes] has ids ") << ids << ", table " << table << " and rows " << rows;
}

LogicalResult EmbeddingOp::verify() {
  RankedTensorType table = tensorType(getTable()), rows = tensorType(getResult());
  if (std::optional<int64_t> padding = getPaddingAttr() ? std::optional(getPaddingAttr().getInt()) : std::nullopt;
      padding && *padding < 0)
    return emitOpError("[embedding.padding] pads by row ") << *padding << ", expected a row of the table " << table;
  return verifyEmbedding(*this, tensorType(getIds()), table, rows, rows.getElementType() == table.getElementType());
}
LogicalResult EmbeddingGradOp::verify() {
  RankedTensorType table = tensorType(getResult()), rows = tensorType(getCotangent());
  Type from = rows.getElementType(), to = table.getElementType();
  return verifyEmbedding(*this, tensorType(getIds()), table, rows, from == to || accumulationType(from) == to);
}

static RankedTensorType scalar(Type element) { return RankedTensorType::get({}, element); }

LogicalResult CrossEntropyOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc, ValueRange operands,
                                               DictionaryAttr, mlir::OpaqueProperties, RegionRange,
                                               SmallVectorImpl<Type> &types) {
  RankedTensorType logits = tensorType(operands[0]), labels = tensorType(operands[1]);
  if (logits.getRank() == 0 || labels.getShape() != logits.getShape().drop_back() ||
      !labels.getElementType().isInteger(64))
    return emitOptionalError(loc, "[cross_entropy.shapes] has logits ", logits, " and labels ", labels);
  return infer(types, {scalar(accumulationType(logits.getElementType())), scalar(IntegerType::get(context, 64)),
                       accumulated(withShape(logits, labels.getShape()))});
}

LogicalResult VocabMaxOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands, DictionaryAttr,
                                           mlir::OpaqueProperties, RegionRange, SmallVectorImpl<Type> &types) {
  RankedTensorType logits = tensorType(operands[0]);
  return infer(types, {accumulated(withShape(logits, logits.getShape().drop_back()))});
}

LogicalResult VocabSumExpOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands,
                                              DictionaryAttr, mlir::OpaqueProperties, RegionRange,
                                              SmallVectorImpl<Type> &types) {
  return infer(types, {operands[1].getType(), operands[1].getType()});
}

LogicalResult VocabLossOp::inferReturnTypes(MLIRContext *context, std::optional<Location>, ValueRange operands,
                                            DictionaryAttr, mlir::OpaqueProperties, RegionRange,
                                            SmallVectorImpl<Type> &types) {
  RankedTensorType rows = tensorType(operands[0]);
  return infer(types, {scalar(rows.getElementType()), scalar(IntegerType::get(context, 64)), rows});
}
