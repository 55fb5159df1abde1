// resample: types, sharding and precision, and its gradient by transposed tables.
#include "dialects/Hyc/DerivedOps.h"

using namespace mlir;
using namespace hyc;

static ArrayRef<int64_t> firstsOf(ArrayAttr tables, size_t k) {
  return cast<DenseI64ArrayAttr>(tables[k]).asArrayRef();
}
static ArrayRef<double> weightsOf(ArrayAttr tables, size_t k) {
  return cast<DenseF64ArrayAttr>(tables[k]).asArrayRef();
}

/// Whether the table makes elements out of `size` ones.
static bool isTableOf(int64_t size, ArrayRef<int64_t> firsts, ArrayRef<double> weights) {
  if (firsts.empty() || weights.empty() || weights.size() % firsts.size() != 0)
    return false;
  auto taps = static_cast<int64_t>(weights.size() / firsts.size());
  return llvm::all_of(firsts, [&](int64_t first) { return first >= 0 && taps <= size && first <= size - taps; });
}

LogicalResult ResampleOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, ValueRange operands,
                                           DictionaryAttr, mlir::OpaqueProperties properties, RegionRange,
                                           SmallVectorImpl<Type> &types) {
  auto type = cast<RankedTensorType>(operands[0].getType());
  auto *given = properties.as<Properties *>();
  ArrayAttr firsts = given->firsts, weights = given->weights;
  int64_t dim = given->dim.getInt();
  if (!isa<FloatType>(type.getElementType()) || firsts.empty() || firsts.size() > 3 ||
      firsts.size() != weights.size() || dim < 0 || dim > type.getRank() - static_cast<int64_t>(firsts.size()))
    return emitOptionalError(loc, "[resample.dims] resamples from dimension ", dim, " on of ", type, " by ",
                             firsts.size(), " lists of first taps and ", weights.size(),
                             " of weights, expected one of each for one to three dimensions of floats");
  SmallVector<int64_t> shape(type.getShape());
  for (size_t k = 0; k < firsts.size(); ++k) {
    int64_t &size = shape[dim + k];
    if (!isTableOf(size, firstsOf(firsts, k), weightsOf(weights, k)))
      return emitOptionalError(loc, "[resample.tables] makes ", firstsOf(firsts, k).size(), " elements with ",
                               weightsOf(weights, k).size(), " weights of dimension ", dim + static_cast<int64_t>(k),
                               " of ", type, ", expected as many taps for each, all of them inside");
    size = static_cast<int64_t>(firstsOf(firsts, k).size());
  }
  types.push_back(RankedTensorType::get(shape, type.getElementType()));
  return success();
}

SmallVector<int64_t> ResampleOp::getTaps() {
  SmallVector<int64_t> taps;
  for (size_t k = 0; k < getFirsts().size(); ++k)
    taps.push_back(static_cast<int64_t>(weightsOf(getWeights(), k).size() / firstsOf(getFirsts(), k).size()));
  return taps;
}

/// Each dimension once for the result's elements: some are fewer before the last is resampled.
int64_t ResampleOp::getFlops() {
  int64_t taps = 0;
  for (int64_t count : getTaps())
    taps += count;
  return 2 * taps * tensorTypeOf(getResult()).getNumElements();
}

/// Whoever makes part of a resampled dimension holds all of the operand's.
ShardingRule ResampleOp::getShardingRule() {
  ShardingRule rule;
  TensorFactors operand, result;
  RankedTensorType type = tensorTypeOf(getOperand()), made = tensorTypeOf(getResult());
  auto dim = static_cast<int64_t>(getDim()), end = dim + static_cast<int64_t>(getFirsts().size());
  for (int64_t d = 0; d < type.getRank(); ++d) {
    bool isResampled = d >= dim && d < end;
    operand.push_back(
        {rule.addFactor(type.getDimSize(d), isResampled ? FactorKind::replicated : FactorKind::parallel)});
    result.push_back(operand.back());
    if (isResampled)
      result.back() = {rule.addFactor(made.getDimSize(d), FactorKind::replicated)};
  }
  rule.operands = {operand};
  rule.results = {result};
  return rule;
}

PrecisionRule ResampleOp::getPrecisionRule() { return {"n", "n"}; }

namespace {
struct Table {
  SmallVector<int64_t> firsts;
  SmallVector<double> weights;
};
} // namespace

/// Of a matrix of `size` columns, whose rows the table has: that of its columns. Taps are as many as the widest needs.
static Table transposed(ArrayRef<int64_t> firsts, ArrayRef<double> weights, int64_t size) {
  auto rows = static_cast<int64_t>(firsts.size()), taps = static_cast<int64_t>(weights.size()) / rows;
  SmallVector<int64_t> begins(size, rows), ends(size, 0);
  auto forEach = [&](auto take) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t t = 0; t < taps; ++t)
        if (double weight = weights[i * taps + t]; weight != 0)
          take(i, firsts[i] + t, weight);
  };
  forEach([&](int64_t row, int64_t column, double) {
    begins[column] = std::min(begins[column], row);
    ends[column] = std::max(ends[column], row + 1);
  });
  int64_t most = 1;
  for (auto [begin, end] : llvm::zip_equal(begins, ends))
    most = std::max(most, end - begin);
  Table table;
  for (int64_t begin : begins)
    table.firsts.push_back(std::min(begin, rows - most));
  table.weights.assign(size * most, 0);
  forEach([&](int64_t row, int64_t column, double weight) {
    table.weights[column * most + row - table.firsts[column]] = weight;
  });
  return table;
}

LogicalResult ResampleOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                        SmallVectorImpl<Value> &results) {
  results.assign(1, Value());
  if (!cotangents[0] || !wanted[0])
    return success();
  SmallVector<Attribute> firsts, weights;
  for (size_t k = 0; k < getFirsts().size(); ++k) {
    int64_t size = tensorTypeOf(getOperand()).getDimSize(getDim() + k);
    Table table = transposed(firstsOf(getFirsts(), k), weightsOf(getWeights(), k), size);
    firsts.push_back(builder.getDenseI64ArrayAttr(table.firsts));
    weights.push_back(builder.getDenseF64ArrayAttr(table.weights));
  }
  results[0] = DerivedOps(builder, *this, ".grad")
                   .create<ResampleOp>("", cotangents[0], getDimAttr(), builder.getArrayAttr(firsts),
                                       builder.getArrayAttr(weights));
  return success();
}
