// Evaluation op by op, element by element, with a bound on depth: the values of masks and tables that no input reaches.
#include "hyc/Analysis/ConstantEvaluation.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/Relations.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace hyc;
using namespace mlir;

using Result = std::optional<HostTensor>;

static constexpr int kMaxDepth = 200;

static std::optional<HostElement> combineReal(Operation *op, ArrayRef<HostElement> e, bool toReal) {
  if (auto compareOp = dyn_cast<CompareOp>(op))
    return HostElement::ofInteger(holds(compareOp.getPredicate(), e[0].real, e[1].real));
  if (isa<SelectOp>(op))
    return e[0].integer ? e[1] : e[2];
  if (isa<ConvertOp>(op))
    return toReal ? std::optional(e[0]) : std::nullopt;
  double a = e[0].real, b = e.back().real;
  return llvm::TypeSwitch<Operation *, std::optional<HostElement>>(op)
      .Case<AddOp>([&](Operation *) { return HostElement::ofReal(a + b); })
      .Case<SubOp>([&](Operation *) { return HostElement::ofReal(a - b); })
      .Case<MulOp>([&](Operation *) { return HostElement::ofReal(a * b); })
      .Case<DivOp>([&](Operation *) { return HostElement::ofReal(a / b); })
      .Case<NegOp>([&](Operation *) { return HostElement::ofReal(-a); })
      .Case<MaxOp>([&](Operation *) { return HostElement::ofReal(a > b || std::isnan(a) ? a : b); }) // NaN if either is
      .Case<MinOp>([&](Operation *) { return HostElement::ofReal(a < b || std::isnan(a) ? a : b); })
      .Default([](Operation *) { return std::nullopt; });
}

/// Truncated; by -1 the least integer wraps around, as it does when running. Nothing by 0.
static std::optional<HostElement> divide(bool isRest, int64_t a, int64_t b) {
  if (b == 0)
    return std::nullopt;
  if (b == -1)
    return HostElement::ofInteger(isRest ? 0 : static_cast<int64_t>(-static_cast<uint64_t>(a)));
  return HostElement::ofInteger(isRest ? a % b : a / b);
}

static std::optional<HostElement> combineInteger(Operation *op, ArrayRef<HostElement> e, bool toReal) {
  int64_t a = e[0].integer, b = e.back().integer;
  auto wrapped = [](uint64_t value) { return HostElement::ofInteger(static_cast<int64_t>(value)); };
  if (auto compareOp = dyn_cast<CompareOp>(op))
    return HostElement::ofInteger(holds(compareOp.getPredicate(), a, b));
  return llvm::TypeSwitch<Operation *, std::optional<HostElement>>(op)
      .Case<SelectOp>([&](Operation *) { return a ? e[1] : e[2]; })
      .Case<ConvertOp>([&](Operation *) { return toReal ? HostElement::ofReal(static_cast<double>(a)) : e[0]; })
      .Case<AddOp>([&](Operation *) { return wrapped(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); })
      .Case<SubOp>([&](Operation *) { return wrapped(static_cast<uint64_t>(a) - static_cast<uint64_t>(b)); })
      .Case<MulOp>([&](Operation *) { return wrapped(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); })
      .Case<DivOp, RemOp>([&](Operation *) { return divide(isa<RemOp>(op), a, b); })
      .Case<AndOp>([&](Operation *) { return HostElement::ofInteger(a & b); })
      .Case<OrOp>([&](Operation *) { return HostElement::ofInteger(a | b); })
      .Case<NotOp>([&](Operation *) { return HostElement::ofInteger(!a); })
      .Default([](Operation *) { return std::nullopt; });
}

static Result evaluateIota(IotaOp op) {
  auto type = cast<RankedTensorType>(op.getResult().getType());
  bool real = isa<FloatType>(type.getElementType());
  SmallVector<bool> varies(type.getRank(), false);
  varies[op.getDim()] = true;
  return HostTensor::generate(type.getElementType(), type.getShape(), varies, [&](ArrayRef<int64_t> index) {
    int64_t position = index[op.getDim()];
    return real ? HostElement::ofReal(static_cast<double>(position)) : HostElement::ofInteger(position);
  });
}

Result ConstantEvaluator::evaluate(Value value) {
  if (auto found = known.find(value); found != known.end())
    return found->second;
  Operation *op = value.getDefiningOp();
  Result result = op && depth < kMaxDepth ? evaluateOp(op) : std::nullopt;
  if (result)
    known.try_emplace(value, *result);
  return result;
}

Result ConstantEvaluator::evaluateOp(Operation *op) {
  ++depth;
  Result result =
      llvm::TypeSwitch<Operation *, Result>(op)
          .Case<ConstantOp>([&](ConstantOp constant) { return HostTensor::fromAttr(constant.getValue()); })
          .Case<IotaOp>([&](IotaOp iota) { return evaluateIota(iota); })
          .Case<ReshapeOp, TransposeOp, BroadcastOp, SliceOp>([&](Operation *view) { return evaluateView(view); })
          .Case<ConcatOp>([&](ConcatOp joined) {
            return joined->getNumOperands() == 1 ? evaluate(joined->getOperand(0)) : std::nullopt;
          })
          .Default([&](Operation *other) { return evaluateElementwise(other); });
  --depth;
  return result;
}

Result ConstantEvaluator::evaluateView(Operation *op) {
  Result operand = evaluate(op->getOperand(0));
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op->getResult(0).getType()).getShape();
  if (!operand)
    return std::nullopt;
  if (isa<ReshapeOp>(op))
    return operand->reshape(shape);
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return operand->transpose(transpose.getPermutation());
  if (auto slice = dyn_cast<SliceOp>(op)) {
    for (int64_t dim = 0; dim < operand->getTensorRank(); ++dim)
      operand = operand->slice(dim, slice.getOffsets()[dim], shape[dim], slice.getStrides()[dim]);
    return operand;
  }
  // Dimensions of size 1 where the operand has none, then numpy's rule.
  SmallVector<int64_t> aligned(shape.size(), 1);
  for (auto [index, dim] : llvm::enumerate(cast<BroadcastOp>(op).getDims()))
    aligned[dim] = operand->getShape()[index];
  Result reshaped = operand->reshape(aligned);
  return reshaped ? Result(reshaped->broadcastTo(shape)) : std::nullopt;
}

Result ConstantEvaluator::evaluateElementwise(Operation *op) {
  if (op->getNumResults() != 1 || op->getNumOperands() == 0 ||
      !isa<AddOp, SubOp, MulOp, DivOp, RemOp, NegOp, MaxOp, MinOp, AndOp, OrOp, NotOp, CompareOp, SelectOp, ConvertOp>(
          op))
    return std::nullopt;
  SmallVector<HostTensor> operands;
  for (Value value : op->getOperands()) {
    Result operand = evaluate(value);
    if (!operand)
      return std::nullopt;
    operands.push_back(*operand);
  }
  Type from = operands.back().getElementType(),
       to = cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  bool failed = false;
  Result result = HostTensor::map(to, operands, [&](ArrayRef<HostElement> e) {
    std::optional<HostElement> element =
        isa<FloatType>(from) ? combineReal(op, e, isa<FloatType>(to)) : combineInteger(op, e, isa<FloatType>(to));
    failed |= !element;
    return element.value_or(HostElement::ofInteger(0));
  });
  return failed ? std::nullopt : result;
}

std::optional<double> hyc::evaluateSplat(Value value) {
  // Looks through what repeats or rearranges, without evaluating anything large.
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ReshapeOp, BroadcastOp, TransposeOp>(op))
      break;
    value = op->getOperand(0);
  }
  auto constant = value.getDefiningOp<ConstantOp>();
  if (!constant || !isa<FloatType>(constant.getValue().getElementType()))
    return std::nullopt;
  auto splat = dyn_cast<SplatElementsAttr>(constant.getValue());
  if (!splat)
    return std::nullopt;
  llvm::APFloat number = splat.getSplatValue<llvm::APFloat>();
  bool lost;
  number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
  return number.convertToDouble();
}
