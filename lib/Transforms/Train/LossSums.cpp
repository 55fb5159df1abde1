// Losses of an output and, for evaluation, how many of its predictions are right.
#include "LossSums.h"

#include "TrainingState.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

namespace {
/// Makes ops with ids under "loss".
class LossBuilder {
public:
  LossBuilder(OpBuilder &builder, Location loc) : builder(builder), loc(loc) {}

  template <typename Op, typename... Arguments> Value make(const Twine &name, Type type, Arguments &&...arguments) {
    auto op = Op::create(builder, loc, type, std::forward<Arguments>(arguments)...);
    setId(op, "loss" + name);
    return op->getResult(0);
  }
  /// In f32, whatever the precision; so is its gradient.
  template <typename Op, typename... Arguments> Value wide(const Twine &name, Type type, Arguments &&...arguments) {
    Value value = make<Op>(name, type, std::forward<Arguments>(arguments)...);
    value.getDefiningOp()->setAttr(kWide, builder.getUnitAttr());
    return value;
  }

  Value splat(const Twine &name, RankedTensorType type, double number) {
    auto value = DenseElementsAttr::get(type, Attribute(builder.getFloatAttr(type.getElementType(), number)));
    return make<ConstantOp>(name, type, cast<ElementsAttr>(value));
  }
  Value sum(const Twine &name, Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    return make<ReduceOp>(name, RankedTensorType::get({}, type.getElementType()), ReductionKind::sum, value,
                          llvm::to_vector(llvm::seq<int64_t>(0, type.getRank())));
  }
  /// How often `condition` holds.
  Value countTrue(const Twine &name, Value condition) {
    auto shape = cast<RankedTensorType>(condition.getType()).getShape();
    Value ones = make<ConvertOp>(name + ".ones", RankedTensorType::get(shape, builder.getI64Type()), condition);
    return sum(name, ones);
  }
  RankedTensorType booleans(ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, builder.getI1Type()); }

  OpBuilder &builder;
  Location loc;
};
} // namespace

Value hyc::train::countOf(OpBuilder &builder, Location loc, int64_t number) {
  auto type = RankedTensorType::get({}, builder.getI64Type());
  auto value = cast<ElementsAttr>(DenseElementsAttr::get(type, number));
  return LossBuilder(builder, loc).make<ConstantOp>(".count", type, value);
}

/// Positions whose label has the highest score. One that is not counted has no class as its label.
static Value countBestLabels(LossBuilder &b, Value scores, Value labels) {
  auto type = cast<RankedTensorType>(scores.getType());
  int64_t last = type.getRank() - 1;
  SmallVector<int64_t> rows = llvm::to_vector(llvm::seq<int64_t>(0, last));
  ArrayRef<int64_t> shape = type.getShape();
  auto integers = cast<RankedTensorType>(labels.getType()).getElementType();
  auto classes = RankedTensorType::get(shape.take_back(), integers),
       wholeClasses = RankedTensorType::get(shape, integers);
  Value best = b.make<ReduceOp>(".best", RankedTensorType::get(shape.drop_back(), type.getElementType()),
                                ReductionKind::max, scores, ArrayRef<int64_t>(last));
  Value bests = b.make<BroadcastOp>(".bests", type, best, rows);
  Value isBest = b.make<CompareOp>(".is_best", b.booleans(shape), ComparePredicate::ge, scores, bests);
  Value numbers = b.make<IotaOp>(".classes", classes, uint64_t(0));
  Value everyClass = b.make<BroadcastOp>(".every_class", wholeClasses, numbers, ArrayRef<int64_t>(last));
  Value everyLabel = b.make<BroadcastOp>(".every_label", wholeClasses, labels, rows);
  Value isLabel = b.make<CompareOp>(".is_label", b.booleans(shape), ComparePredicate::eq, everyClass, everyLabel);
  Value isRight = b.make<AndOp>(".is_right", b.booleans(shape), isBest, isLabel);
  return b.countTrue(".correct", isRight);
}

LossSums hyc::train::sumCrossEntropy(OpBuilder &builder, Value scores, Value labels, int64_t ignoreIndex,
                                     bool countsCorrect) {
  LossBuilder b(builder, scores.getLoc());
  auto type = cast<RankedTensorType>(scores.getType());
  // Its kernels are of f32 and narrower scores, and add up in f64.
  if (type.getElementType().isF64())
    scores = b.make<ConvertOp>(".scores", RankedTensorType::get(type.getShape(), builder.getF32Type()), scores);
  auto op = CrossEntropyOp::create(builder, scores.getLoc(), scores, labels, static_cast<uint64_t>(ignoreIndex));
  setId(op, "loss");
  return {op.getLossSum(), op.getCount(), countsCorrect ? countBestLabels(b, scores, labels) : Value()};
}

LossSums hyc::train::sumSquaredError(OpBuilder &builder, Value predictions, Value targets) {
  LossBuilder b(builder, predictions.getLoc());
  auto type = cast<RankedTensorType>(predictions.getType());
  Value error = b.wide<SubOp>(".error", type, predictions, targets);
  Value squared = b.wide<MulOp>(".squared", type, error, error);
  return {b.sum("", squared), countOf(builder, b.loc, type.getNumElements()), Value()};
}

LossSums hyc::train::sumBinaryCrossEntropy(OpBuilder &builder, Value scores, Value targets, bool countsCorrect) {
  LossBuilder b(builder, scores.getLoc());
  auto type = cast<RankedTensorType>(scores.getType());
  Value all = b.wide<SoftplusOp>(".softplus", type, scores);
  Value chosen = b.wide<MulOp>(".chosen", type, scores, targets);
  Value losses = b.wide<SubOp>(".each", type, all, chosen);
  LossSums sums{b.sum("", losses), countOf(builder, b.loc, type.getNumElements()), Value()};
  if (!countsCorrect)
    return sums;
  auto isPositive = [&](StringRef name, Value value, double bound) {
    return b.make<CompareOp>(name, b.booleans(type.getShape()), ComparePredicate::gt, value,
                             b.splat(name + ".bound", type, bound));
  };
  Value predicted = isPositive(".predicted", scores, 0), wanted = isPositive(".wanted", targets, 0.5);
  Value both = b.make<AndOp>(".both", predicted.getType(), predicted, wanted);
  Value either = b.make<OrOp>(".either", predicted.getType(), predicted, wanted);
  Value neither = b.make<NotOp>(".neither", predicted.getType(), either);
  sums.correct = b.countTrue(".correct", b.make<OrOp>(".is_right", predicted.getType(), both, neither));
  return sums;
}
