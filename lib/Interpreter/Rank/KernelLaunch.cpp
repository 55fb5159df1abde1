// Kernels of the rank dialect: the body, op by op, each over all elements at once.
//
// The surprise: sums have the bits of emitted programs, since they are added in the order of kernels/reduce/op.h.
#include "Rank/RankCalls.h"
#include "Values/ScalarFunctions.h"
#include "dialects/Rank/KernelStructure.h"
#include "hyc/Interpreter/Philox.h"
#include "kernels/reduce/reference.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;
using namespace hyc::interpreter::scalar;

/// `function` over every element.
template <typename T, typename Function>
static void map(Function function, ArrayRef<Tensor> operands, Tensor &result, std::integral_constant<unsigned, 1>) {
  const T *x = operands[0].data<T>();
  T *y = result.mutableData<T>();
  for (int64_t i = 0, e = result.getNumElements(); i < e; ++i)
    y[i] = function(x[i]);
}
template <typename T, typename Function>
static void map(Function function, ArrayRef<Tensor> operands, Tensor &result, std::integral_constant<unsigned, 2>) {
  const T *x = operands[0].data<T>(), *y = operands[1].data<T>();
  T *z = result.mutableData<T>();
  for (int64_t i = 0, e = result.getNumElements(); i < e; ++i)
    z[i] = function(x[i], y[i]);
}

/// The function called `name` over every element; false where there is none for elements that are kept as T. Divisors
/// have been checked.
template <typename T> static bool computeNamed(StringRef name, ArrayRef<Tensor> operands, Tensor &result) {
  bool known = false;
  forEachFunction([&](auto row) {
    if constexpr (row.template takes<T>())
      if (name == row.name) {
        map<T>(typename decltype(row)::Function(), operands, result,
               std::integral_constant<unsigned, decltype(row)::kOperands>());
        known = true;
      }
  });
  return known;
}

template <typename T> static void compareInto(StringRef relation, ArrayRef<Tensor> operands, Tensor &result) {
  const T *x = operands[0].data<T>(), *y = operands[1].data<T>();
  int64_t *z = result.mutableData<int64_t>();
  for (int64_t i = 0, e = result.getNumElements(); i < e; ++i)
    z[i] = relation == "eq"   ? x[i] == y[i]
           : relation == "ne" ? x[i] != y[i]
           : relation == "lt" ? x[i] < y[i]
           : relation == "le" ? x[i] <= y[i]
           : relation == "gt" ? x[i] > y[i]
                              : x[i] >= y[i];
}

static Tensor selectFrom(ArrayRef<Tensor> operands) {
  Tensor result(operands[1].getKind(), operands[1].getShape());
  dispatchStorage(result.getKind(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0, e = result.getNumElements(); i < e; ++i)
      result.mutableData<T>()[i] = (operands[0].data<int64_t>()[i] ? operands[1] : operands[2]).data<T>()[i];
  });
  return result;
}

static FailureOr<Tensor> compute(rank::ScalarComputeOp op, ArrayRef<Tensor> operands, ElementKind kind) {
  StringRef name = op.getFunction();
  Tensor result(kind, operands[0].getShape());
  if (name == "convert")
    return operands[0].converted(kind);
  if (name == "select")
    return selectFrom(operands);
  if (name.consume_front("compare_")) {
    dispatchStorage(operands[0].getKind(), [&](auto zero) { compareInto<decltype(zero)>(name, operands, result); });
    return result;
  }
  bool known = false;
  if (kind == ElementKind::F64)
    known = computeNamed<double>(name, operands, result);
  else if (isFloat(kind))
    known = computeNamed<float>(name, operands, result);
  else if ((name == "div" || name == "rem") && llvm::is_contained(operands[1].toDoubles(), 0.0))
    return op.emitError("integer division by zero"), failure();
  else if (name == "random_word")
    map<int64_t>(randomWord, operands, result, std::integral_constant<unsigned, 2>()), known = true;
  else
    known = computeNamed<int64_t>(name, operands, result);
  if (!known)
    return op.emitError("the interpreter knows no \"") << name << "\" of " << nameOf(kind), failure();
  for (int64_t i = 0; !isFloat(kind) && i < result.getNumElements(); ++i)
    result.mutableData<int64_t>()[i] = wrapInteger(kind, result.getInteger(i));
  result.roundElements();
  return result;
}

/// The value of one op of the body for every index of `space`.
static FailureOr<Tensor> evaluate(Operation &op, ArrayRef<int64_t> space, Arithmetic arithmetic,
                                  ArrayRef<Tensor> operands) {
  std::optional<ElementKind> kind = elementKind(op.getResult(0).getType(), arithmetic);
  if (!kind)
    return op.emitError("the interpreter computes with f32, f64, bf16, f16, f8E4M3FN, f8E5M2, i64, i32 and i1"),
           failure();
  if (auto literal = dyn_cast<rank::LiteralOp>(op)) {
    if (auto number = dyn_cast<FloatAttr>(literal.getValue()))
      return Tensor::splat(*kind, space, number.getValueAsDouble());
    APInt bits = cast<IntegerAttr>(literal.getValue()).getValue();
    return Tensor::splat(*kind, space,
                         *kind == ElementKind::I1 ? static_cast<double>(bits.getZExtValue())
                                                  : static_cast<double>(bits.getSExtValue()));
  }
  if (auto index = dyn_cast<rank::IndexOp>(op)) {
    Tensor result(*kind, space);
    int64_t dim = static_cast<int64_t>(index.getDim()), inner = rowMajorStrides(space)[dim];
    for (int64_t i = 0; i < result.getNumElements(); ++i)
      result.set(i, static_cast<double>(i / inner % space[dim]));
    return result;
  }
  auto computation = dyn_cast<rank::ScalarComputeOp>(op);
  if (!computation)
    return op.emitError("the interpreter cannot execute this in a kernel"), failure();
  return compute(computation, operands, *kind);
}

//===----------------------------------------------------------------------===//
// Combinations
//===----------------------------------------------------------------------===//

/// Where the elements of all indices of some dimensions lie, in order; every other index is 0.
static std::vector<int64_t> offsetsOf(ArrayRef<unsigned> dims, ArrayRef<int64_t> space, ArrayRef<int64_t> strides) {
  std::vector<int64_t> offsets{0};
  for (unsigned dim : dims) {
    std::vector<int64_t> next;
    next.reserve(offsets.size() * space[dim]);
    for (int64_t offset : offsets)
      for (int64_t i = 0; i < space[dim]; ++i)
        next.push_back(offset + i * strides[dim]);
    offsets = std::move(next);
  }
  return offsets;
}

/// `whole` has the kernel's space; the result has size 1 where that is reduced.
template <typename Combine> static void combineInto(rank::KernelOp kernel, const Tensor &whole, Tensor &result) {
  using T = typename Combine::Value;
  const T *x = whole.data<T>();
  T *out = result.mutableData<T>();
  rank::ReductionLoops loops = rank::reductionLoops(kernel);
  SmallVector<int64_t> strides = rowMajorStrides(whole.getShape()), keptStrides = rowMajorStrides(result.getShape());
  std::vector<int64_t> outer = offsetsOf(loops.outer, kernel.getSpace(), strides);
  std::vector<int64_t> results = offsetsOf(loops.outer, kernel.getSpace(), keptStrides);
  std::vector<int64_t> steps = offsetsOf(loops.steps, kernel.getSpace(), strides);
  std::vector<int64_t> inner = offsetsOf(loops.inner, kernel.getSpace(), strides);
  int64_t stepCount = static_cast<int64_t>(steps.size());
  for (size_t o = 0; o < outer.size(); ++o) {
    if (loops.isRows) {
      out[results[o]] = kernels::reference::combineRow<Combine>(
          stepCount, loops.innerCount, [&](int64_t step, int64_t i) { return x[outer[o] + steps[step] + inner[i]]; });
      continue;
    }
    for (int64_t i = 0; i < loops.innerCount; ++i)
      out[results[o] + i * keptStrides[loops.inner.back()]] = kernels::reference::combineColumn<Combine>(
          stepCount, [&](int64_t step) { return x[outer[o] + steps[step] + inner[i]]; });
  }
}

static Tensor combine(rank::KernelOp kernel, rank::CombineKind kind, const Tensor &whole) {
  Tensor result(whole.getKind(), rank::keptSpace(kernel));
  dispatchStorage(result.getKind(), [&](auto zero) {
    using T = decltype(zero);
    switch (kind) {
    case rank::CombineKind::sum:
      return combineInto<kernels::Sum<T>>(kernel, whole, result);
    case rank::CombineKind::max:
      return combineInto<kernels::Max<T>>(kernel, whole, result);
    case rank::CombineKind::min:
      return combineInto<kernels::Min<T>>(kernel, whole, result);
    case rank::CombineKind::prod:
      return combineInto<kernels::Prod<T>>(kernel, whole, result);
    }
  });
  for (int64_t i = 0; !isFloat(result.getKind()) && i < result.getNumElements(); ++i)
    result.mutableData<int64_t>()[i] = wrapInteger(result.getKind(), result.getInteger(i));
  return result;
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

namespace {
/// The values of a kernel's body, each computed when asked for: once over the space, once over its kept dimensions.
class Launch {
public:
  Launch(RankCall &call, rank::LaunchOp op)
      : call(call), op(op), kernel(rank::lookupKernel(op)), kept(rank::keptSpace(kernel)),
        combined(rank::combinedValues(kernel.getBody().front())) {
    for (Attribute list : kernel.getStrides())
      strides.push_back(cast<DenseI64ArrayAttr>(list).asArrayRef());
  }

  LogicalResult run() {
    SmallVector<std::pair<Extent, Tensor>> results;
    Operation *yield = kernel.getBody().front().getTerminator();
    for (auto [index, out] : llvm::enumerate(op.getOuts())) {
      Value value = yield->getOperand(index);
      bool isKept = combined.contains(value);
      FailureOr<Tensor> result = valueOf(value, isKept);
      if (failed(result))
        return failure();
      results.emplace_back(call.stridedAt(out, spaceOf(isKept), strides[op.getIns().size() + index]), *result);
    }
    // After all have been read: a result may lie where an input does.
    for (auto [index, result] : llvm::enumerate(results)) {
      rank::WriteMode mode = combined.contains(yield->getOperand(index)) ? op.getMode() : rank::WriteMode::overwrite;
      if (failed(call.store(op, result.first, result.second, mode)))
        return failure();
    }
    return success();
  }

private:
  ArrayRef<int64_t> spaceOf(bool isKept) { return isKept ? ArrayRef<int64_t>(kept) : kernel.getSpace(); }

  FailureOr<Tensor> valueOf(Value value, bool isKept) {
    if (auto known = values[isKept].find(value); known != values[isKept].end())
      return known->second;
    FailureOr<Tensor> tensor = computeValue(value, isKept);
    if (succeeded(tensor))
      values[isKept][value] = *tensor;
    return tensor;
  }

  FailureOr<Tensor> computeValue(Value value, bool isKept) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      unsigned index = argument.getArgNumber();
      return call.memory.load(op, call.stridedAt(op.getIns()[index], spaceOf(isKept), strides[index]));
    }
    Operation *producer = value.getDefiningOp();
    if (auto combination = dyn_cast<rank::CombineOp>(producer)) {
      FailureOr<Tensor> whole = valueOf(combination.getValue(), /*isKept=*/false);
      if (failed(whole))
        return failure();
      return combine(kernel, combination.getKind(), *whole);
    }
    SmallVector<Tensor> operands;
    for (Value operand : producer->getOperands()) {
      FailureOr<Tensor> tensor = valueOf(operand, isKept);
      if (failed(tensor))
        return failure();
      operands.push_back(*tensor);
    }
    return evaluate(*producer, spaceOf(isKept), call.arithmetic, operands);
  }

  RankCall &call;
  rank::LaunchOp op;
  rank::KernelOp kernel;
  SmallVector<int64_t> kept;
  llvm::DenseSet<Value> combined;
  SmallVector<ArrayRef<int64_t>> strides;
  llvm::DenseMap<Value, Tensor> values[2];
};
} // namespace

LogicalResult hyc::interpreter::executeLaunch(RankCall &call, rank::LaunchOp op) { return Launch(call, op).run(); }
