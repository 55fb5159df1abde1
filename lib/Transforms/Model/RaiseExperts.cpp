// RaiseExperts: first the products whose matrices are gathered, then the rows that were sorted to group them. An order
// of rows is followed forward from the argsort that makes it: a value in that order has a twin in the first order as
// long as every op on the way treats rows alike, which its sharding rule tells.
#include "DeadOps.h"
#include "dialects/Hyc/DerivedOps.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/ConstantEvaluation.h"
#include "hyc/Transforms/Model/Passes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace hyc;

namespace hyc {
#define GEN_PASS_DEF_RAISEEXPERTS
#include "hyc/Transforms/Model/Passes.h.inc"
} // namespace hyc

namespace {
/// Rows of `data` by number: both ops that say so.
struct PickedRows {
  Value data, numbers;
};

std::optional<PickedRows> pickedRows(Value value) {
  if (auto gather = value.getDefiningOp<GatherOp>(); gather && gather.getDim() == 0 && gather.getBatch() == 0)
    return PickedRows{gather.getData(), gather.getIndices()};
  if (auto embedding = value.getDefiningOp<EmbeddingOp>();
      embedding && !embedding.getOffset() && !embedding.getPadding())
    return PickedRows{embedding.getTable(), embedding.getIds()};
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Gathered matrices
//===----------------------------------------------------------------------===//

/// Each row times a matrix of its own.
struct Contraction {
  EinsumOp op;
  Value matrices, numbers, rows; ///< (E,·,·), (N), (N,K), maybe with a size of 1 beside
  bool isTransposed = false;     ///< (E,M,K)
};

/// An einsum of one matrix a row, "nkm,nk->nm" in any letters and either order of the matrix; rows and result may have
/// one more letter, of size 1.
std::optional<Contraction> gatheredProduct(EinsumOp op) {
  EinsumOp::Letters letters = op.getLetters();
  for (bool first : {true, false}) {
    std::optional<PickedRows> picked = pickedRows(first ? op.getLhs() : op.getRhs());
    Value rows = first ? op.getRhs() : op.getLhs();
    StringRef ofMatrices = first ? letters.lhs : letters.rhs, ofRows = first ? letters.rhs : letters.lhs;
    if (!picked || tensorTypeOf(picked->numbers).getRank() != 1 || tensorTypeOf(picked->data).getRank() != 3 ||
        tensorTypeOf(rows).getElementType() != tensorTypeOf(op.getResult()).getElementType())
      continue;
    auto without = [&](StringRef text, RankedTensorType type) {
      std::string kept;
      for (auto [letter, size] : llvm::zip_equal(text, type.getShape()))
        if (size != 1 || ofMatrices.contains(letter))
          kept += letter;
      return kept;
    };
    std::string in = without(ofRows, tensorTypeOf(rows)), out = without(letters.result, tensorTypeOf(op.getResult()));
    for (int inner : {1, 2}) {
      char row = ofMatrices[0], k = ofMatrices[inner], m = ofMatrices[3 - inner];
      if (in == std::string{row, k} && out == std::string{row, m})
        return Contraction{op, picked->data, picked->numbers, rows, inner == 2};
    }
  }
  return std::nullopt;
}

void raiseProduct(const Contraction &found) {
  EinsumOp op = found.op;
  OpBuilder builder(op);
  DerivedOps b(builder, op, "");
  RankedTensorType matrices = tensorTypeOf(found.matrices), result = tensorTypeOf(op.getResult());
  int64_t rows = tensorTypeOf(found.numbers).getDimSize(0);
  auto shaped = [&](StringRef suffix, Value value, ArrayRef<int64_t> shape) -> Value {
    auto type = RankedTensorType::get(shape, result.getElementType());
    return value.getType() == type ? value : b.create<ReshapeOp>(suffix, type, value).getResult();
  };
  int64_t inner = matrices.getDimSize(found.isTransposed ? 2 : 1),
          outer = matrices.getDimSize(found.isTransposed ? 1 : 2);
  Value x = shaped(".rows", found.rows, {rows, inner});
  auto product =
      b.create<ExpertMatmulOp>("", RankedTensorType::get({rows, outer}, result.getElementType()), x, found.matrices,
                               found.numbers, Value(), found.isTransposed ? builder.getUnitAttr() : UnitAttr());
  op.replaceAllUsesWith(shaped(".result", product.getResult(), result.getShape()));
  op.erase();
}

/// A matrix that is stored the other way round is read as it is stored.
void absorbTranspose(ExpertMatmulOp op) {
  auto transpose = op.getW().getDefiningOp<TransposeOp>();
  if (!transpose || transpose.getPermutation() != ArrayRef<int64_t>({0, 2, 1}))
    return;
  op.getWMutable().assign(transpose.getOperand());
  op.setTransposedAttr(op.getTransposed() ? UnitAttr() : UnitAttr::get(op.getContext()));
}

//===----------------------------------------------------------------------===//
// Sorted rows
//===----------------------------------------------------------------------===//

/// Whether all elements are one number, wherever they stand.
bool isUniform(Value value) {
  while (auto broadcast = value.getDefiningOp<BroadcastOp>())
    value = broadcast.getOperand();
  if (tensorTypeOf(value).getNumElements() == 1)
    return true;
  std::optional<HostTensor> constant = ConstantEvaluator().evaluate(value);
  return constant && constant->isSplat();
}

/// Whether the op does with each of `rows` rows what it does with every other, wherever it stands: some operand is one
/// of those that `isOfRows` tells, the rows are one factor of all of these and of the results, and of nothing else but
/// what is the same everywhere.
bool treatsRowsAlike(Operation *op, int64_t rows, llvm::function_ref<bool(Value)> isOfRows) {
  auto ruleOp = dyn_cast<ShardingRuleOpInterface>(op);
  if (!ruleOp || llvm::none_of(op->getOperands(), isOfRows) || !isMemoryEffectFree(op) || op->getNumRegions() > 0)
    return false;
  ShardingRule rule = ruleOp.getShardingRule();
  int factor = -1;
  auto hasRowsFirst = [&](const TensorFactors &dims) {
    return !dims.empty() && dims[0].size() == 1 && (factor < 0 || dims[0][0] == factor);
  };
  auto mentions = [&](const TensorFactors &dims, size_t from) {
    return llvm::any_of(ArrayRef(dims).drop_front(std::min(from, dims.size())),
                        [&](const DimFactors &factors) { return llvm::is_contained(factors, factor); });
  };
  for (auto [value, dims] : llvm::zip_equal(op->getOperands(), rule.operands))
    if (isOfRows(value)) {
      if (!hasRowsFirst(dims))
        return false;
      factor = dims[0][0];
    }
  if (rule.factors[factor].size != rows || rule.factors[factor].kind != FactorKind::parallel)
    return false;
  for (auto [value, dims] : llvm::zip_equal(op->getOperands(), rule.operands))
    if (mentions(dims, isOfRows(value) ? 1 : 0) && !isUniform(value))
      return false;
  return llvm::all_of(rule.results,
                      [&](const TensorFactors &dims) { return hasRowsFirst(dims) && !mentions(dims, 1); });
}

/// Functions of one number, by their values at 0 … rows - 1: of what an argsort gives, or of what undoes it. Importers
/// guard indices against being negative, and divide them in more ways than one; what counts is what comes out.
class FunctionsOfNumber {
public:
  explicit FunctionsOfNumber(int64_t rows) : rows(rows) {}

  /// The number itself, and what is the same for all of them.
  void addNumber(Value value) { values.insert_or_assign(value, everyRow(value)); }
  void addOne(Value value) {
    values.insert_or_assign(value,
                            HostTensor::splat(tensorTypeOf(value).getElementType(), {rows}, HostElement::ofInteger(1)));
  }
  void add(Operation *op) {
    if (op->getNumResults() != 1 || isa<FloatType>(tensorTypeOf(op->getResult(0)).getElementType()) ||
        values.count(op->getResult(0)) ||
        !treatsRowsAlike(op, rows, [&](Value value) { return values.count(value) > 0; }))
      return;
    ConstantEvaluator evaluator;
    for (Value operand : op->getOperands())
      if (auto known = values.find(operand); known != values.end())
        evaluator.assume(operand, known->second);
    if (std::optional<HostTensor> value = evaluator.evaluate(op->getResult(0)))
      values.insert_or_assign(op->getResult(0), *value);
  }

  /// k where the value is the number over k, rounded down; 0 where it is none of these.
  int64_t divisorOf(Value value) const {
    auto known = values.find(value);
    if (known == values.end() || known->second.getNumElements() != rows)
      return 0;
    SmallVector<int64_t> numbers = known->second.toIntegers();
    auto next = llvm::find_if(numbers, [](int64_t number) { return number != 0; });
    int64_t divisor = next == numbers.end() ? rows : next - numbers.begin();
    for (auto [number, quotient] : llvm::enumerate(numbers))
      if (divisor == 0 || quotient != static_cast<int64_t>(number) / divisor)
        return 0;
    return divisor;
  }
  bool isNumber(Value value) const { return divisorOf(value) == 1; }

private:
  HostTensor everyRow(Value value) const {
    return *HostTensor::range(tensorTypeOf(value).getElementType(), HostElement::ofInteger(0),
                              HostElement::ofInteger(1), rows);
  }

  int64_t rows;
  llvm::DenseMap<Value, HostTensor> values;
};

class SortedRows {
public:
  explicit SortedRows(ArgSortOp order)
      : order(order), rows(tensorTypeOf(order.getResult()).getDimSize(0)), places(rows), origins(rows) {
    places.addNumber(order.getResult());
  }

  /// Replaces what is put back.
  void run() {
    for (Operation *op = order->getNextNode(); op; op = op->getNextNode()) {
      if (op->getNumResults() == 1 && isPutBack(op->getResult(0))) {
        op->getResult(0).replaceAllUsesWith(twins.lookup(pickedRows(op->getResult(0))->data));
        continue;
      }
      places.add(op);
      addInverse(op);
      origins.add(op);
      addTwins(op);
    }
  }

private:
  /// What tells where each row has gone: the order of the order, or every row's number where the order says. And how
  /// many have gone there, which is one.
  void addInverse(Operation *op) {
    if (auto again = dyn_cast<ArgSortOp>(op); again && !again.getDescending() && places.isNumber(again.getOperand()))
      origins.addNumber(again.getResult());
    auto scatter = dyn_cast<ScatterOp>(op);
    if (!scatter || scatter.getKind() != ReductionKind::sum || scatter.getDim() != 0 || scatter.getBatch() != 0 ||
        !places.isNumber(scatter.getIndices()) || tensorTypeOf(scatter.getResult()).getShape() != ArrayRef(rows))
      return;
    std::optional<HostTensor> put = ConstantEvaluator().evaluate(scatter.getUpdates());
    if (!put || put->isReal())
      return;
    if (put->isSplat() && put->atFlat(0).integer == 1)
      origins.addOne(scatter.getResult());
    else if (put->toIntegers() == llvm::to_vector(llvm::seq<int64_t>(0, rows)))
      origins.addNumber(scatter.getResult());
  }

  bool isPutBack(Value value) {
    std::optional<PickedRows> picked = pickedRows(value);
    return picked && twins.count(picked->data) && origins.isNumber(picked->numbers) &&
           twins.lookup(picked->data).getType() == value.getType();
  }

  /// Each row of `data` so many times, one after the other.
  Value repeated(OpBuilder &builder, Operation *op, Value data, int64_t times) {
    RankedTensorType type = tensorTypeOf(data);
    if (times == 1)
      return data;
    DerivedOps b(builder, op, "");
    SmallVector<int64_t> apart{type.getDimSize(0), times}, together{type.getDimSize(0) * times}, dims{0};
    for (int64_t dim = 1; dim < type.getRank(); ++dim) {
      apart.push_back(type.getDimSize(static_cast<unsigned>(dim)));
      together.push_back(apart.back());
      dims.push_back(dim + 1);
    }
    Value spread = b.create<BroadcastOp>(".spread", RankedTensorType::get(apart, type.getElementType()), data, dims);
    return b.create<ReshapeOp>("", RankedTensorType::get(together, type.getElementType()), spread);
  }

  void addTwins(Operation *op) {
    OpBuilder builder(op);
    if (std::optional<PickedRows> picked = op->getNumResults() == 1 ? pickedRows(op->getResult(0)) : std::nullopt)
      if (int64_t times = places.divisorOf(picked->numbers);
          times > 0 && tensorTypeOf(picked->data).getDimSize(0) * times == rows) {
        twins[op->getResult(0)] = repeated(builder, op, picked->data, times);
        return;
      }
    if (!treatsRowsAlike(op, rows, [&](Value value) { return twins.count(value) > 0; }))
      return;
    IRMapping mapping;
    for (Value operand : op->getOperands())
      if (Value twin = twins.lookup(operand))
        mapping.map(operand, twin);
    Operation *made = builder.clone(*op, mapping);
    for (auto [sorted, twin] : llvm::zip_equal(op->getResults(), made->getResults()))
      twins[sorted] = twin;
  }

  ArgSortOp order;
  int64_t rows;
  FunctionsOfNumber places, origins;  ///< of the order's numbers; of those that undo it
  llvm::DenseMap<Value, Value> twins; ///< of values whose dimension 0 is in this order, in the first one
};

struct RaiseExperts : hyc::impl::RaiseExpertsBase<RaiseExperts> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<FuncOp>()) {
      for (auto op : llvm::make_early_inc_range(function.getOps<EinsumOp>()))
        if (std::optional<Contraction> found = gatheredProduct(op))
          raiseProduct(*found);
      SmallVector<ArgSortOp> orders;
      for (auto op : function.getOps<ArgSortOp>())
        if (tensorTypeOf(op.getResult()).getRank() == 1)
          orders.push_back(op);
      for (ArgSortOp order : orders)
        SortedRows(order).run();
      for (auto op : function.getOps<ExpertMatmulOp>())
        absorbTranspose(op);
    }
    eraseDeadOps(getOperation());
  }
};
} // namespace
