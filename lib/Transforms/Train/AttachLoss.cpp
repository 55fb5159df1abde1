// AttachLoss: @train returns (loss sum, number counted) instead of the model's outputs, and which of the number were
// predicted right where that is asked for.
#include "LossSums.h"
#include "TrainingState.h"
#include "hyc/Support/NearestName.h"
#include "hyc/Transforms/Train/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

namespace hyc {
#define GEN_PASS_DEF_ATTACHLOSS
#include "hyc/Transforms/Train/Passes.h.inc"
} // namespace hyc

static StringRef outputName(FuncOp function, unsigned index) {
  auto name = function.getResultAttrOfType<StringAttr>(index, kOutput);
  return name ? name.getValue() : StringRef();
}

static StringRef inputName(FuncOp function, unsigned index) {
  auto name = function.getArgAttrOfType<StringAttr>(index, kInput);
  return name ? name.getValue() : StringRef();
}

/// The returned value called `name`, or null after a diagnostic that lists the outputs. An empty name means the only
/// one.
static Value findOutput(FuncOp function, StringRef name, StringRef option) {
  SmallVector<StringRef> names;
  for (unsigned index = 0, e = function.getNumResults(); index < e; ++index) {
    names.push_back(outputName(function, index));
    if (names.back() == name || (name.empty() && e == 1))
      return function.getReturn().getOperand(index);
  }
  InFlightDiagnostic error = function.emitError();
  if (name.empty())
    error << "--" << option << " must say which output to read: ";
  else
    error << "--" << option << " names output \"" << name << "\", which the model does not have: ";
  if (names.empty())
    error << "it has no outputs";
  else
    error << "its outputs are " << llvm::join(names, ", ");
  if (option != "loss")
    return {};
  constexpr StringRef kLosses[] = {"cross_entropy", "causal_lm", "mse", "binary_cross_entropy"};
  error << "; losses of an output are " << llvm::join(ArrayRef(kLosses).drop_back(), ", ") << " and "
        << kLosses[std::size(kLosses) - 1];
  // As torch's functions and modules are called, and by a slip of the hand.
  std::string plain = name.lower();
  llvm::erase_if(plain, [](char c) { return !llvm::isAlnum(c); });
  for (StringRef known : llvm::reverse(kLosses)) { // binary_cross_entropy has another in it
    std::string same = known.str();
    llvm::erase(same, '_');
    if (nameDistance(plain, same) <= 2 || StringRef(plain).contains(same))
      return error << ": did you mean " << known << "?", Value();
  }
  return {};
}

/// Says that no loss can compare `output` with what is in the data. A number may be the model's own loss.
static LogicalResult unfitOutput(FuncOp function, Value output, StringRef expected) {
  unsigned index = llvm::find(function.getReturn().getOperands(), output).getIndex();
  StringRef name = outputName(function, index);
  auto type = cast<RankedTensorType>(output.getType());
  InFlightDiagnostic error = function.emitError("output \"")
                             << name << "\" has type " << type << ", expected " << expected;
  if (type.getRank() == 0 && isa<FloatType>(type.getElementType()))
    return error << "; if it is the model's own loss, give --loss " << name;
  return error << "; --logits names another output";
}

/// Erases what only fed the dropped outputs.
static void eraseDeadOps(FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

namespace {
struct AttachLoss : hyc::impl::AttachLossBase<AttachLoss> {
  using AttachLossBase::AttachLossBase;

  void runOnOperation() override {
    FuncOp entry = findFunction(getOperation(), kTrain, "expected the model of phase 1, as import gives it");
    if (!entry || failed(comparesClasses()   ? attachClassLoss(entry)
                         : comparesNumbers() ? attachNumberLoss(entry)
                                             : useOwnLoss(entry)))
      return signalPassFailure();
    if (failed(checkSamples(entry)))
      return signalPassFailure();
    markSources(entry);
  }

private:
  /// Whether the loss compares scores with classes, or numbers with numbers; neither: it is an output of the graph.
  bool comparesClasses() const { return loss == "cross_entropy" || shiftsLabels(); }
  bool shiftsLabels() const { return loss == "causal_lm"; }
  bool comparesNumbers() const { return loss == "mse" || loss == "binary_cross_entropy"; }

  /// The argument that holds the labels, of `type` and fed as `source` says, added if no input has its name; null after
  /// a diagnostic, which calls what was expected `what`.
  Value getLabels(FuncOp entry, RankedTensorType type, InputSource source, StringRef what);
  Value shifted(FuncOp entry, Value labels);
  LogicalResult attachClassLoss(FuncOp entry);
  LogicalResult attachNumberLoss(FuncOp entry);
  LogicalResult useOwnLoss(FuncOp entry);
  /// Says of each input that is not yet fed how the loader feeds it. One input of integers is a sequence of tokens,
  /// which a token file can give, and with causal_lm what tells of tokens beside it. Beside others, or of another kind,
  /// each input is a tensor of its own in the data, and so are the labels then.
  void markSources(FuncOp entry);
  /// The loader fills every input sample by sample.
  LogicalResult checkSamples(FuncOp entry);
  void replaceResults(FuncOp entry, const LossSums &sums);
};
} // namespace

Value AttachLoss::getLabels(FuncOp entry, RankedTensorType type, InputSource source, StringRef what) {
  Builder builder(&getContext());
  for (auto [index, argument] : llvm::enumerate(entry.getArguments())) {
    if (inputName(entry, index) != labels)
      continue;
    auto given = cast<RankedTensorType>(argument.getType());
    bool isSameKind = isa<IntegerType>(given.getElementType()) == isa<IntegerType>(type.getElementType());
    if (!isSameKind || given.getShape() != type.getShape()) {
      entry.emitError("--labels names input \"")
          << labels << "\" of type " << given << ", expected " << what << ", as in " << type;
      return {};
    }
    entry.setArgAttr(index, kSource, builder.getStringAttr(nameOf(source)));
    return argument;
  }
  auto attributes = builder.getDictionaryAttr({builder.getNamedAttr(kInput, builder.getStringAttr(labels)),
                                               builder.getNamedAttr(kSource, builder.getStringAttr(nameOf(source)))});
  unsigned index = entry.getNumArguments();
  if (failed(entry.insertArgument(index, type, attributes, entry.getLoc())))
    return {};
  return entry.getArgument(index);
}

/// Each position's label becomes that of the position after it; the last one is not counted.
Value AttachLoss::shifted(FuncOp entry, Value labels) {
  OpBuilder builder(entry.getReturn());
  auto type = cast<RankedTensorType>(labels.getType());
  SmallVector<int64_t> shape(type.getShape()), offsets(shape.size(), 0), strides(shape.size(), 1);
  int64_t last = type.getRank() - 1;
  shape[last] = 1;
  auto end = RankedTensorType::get(shape, type.getElementType());
  Value ignored = ConstantOp::create(
      builder, entry.getLoc(), end,
      cast<ElementsAttr>(DenseElementsAttr::get(end, builder.getIntegerAttr(type.getElementType(), ignoreIndex))));
  setId(ignored.getDefiningOp(), "loss.no_label");
  if (type.getDimSize(last) == 1)
    return ignored;
  shape[last] = type.getDimSize(last) - 1;
  offsets[last] = 1;
  Value later = SliceOp::create(builder, entry.getLoc(), RankedTensorType::get(shape, type.getElementType()), labels,
                                offsets, strides);
  setId(later.getDefiningOp(), "loss.later_labels");
  Value all =
      ConcatOp::create(builder, entry.getLoc(), type, ValueRange{later, ignored}, builder.getI64IntegerAttr(last));
  setId(all.getDefiningOp(), "loss.labels");
  return all;
}

LogicalResult AttachLoss::attachClassLoss(FuncOp entry) {
  Value output = findOutput(entry, logits, "logits");
  if (!output)
    return failure();
  auto type = cast<RankedTensorType>(output.getType());
  if (type.getRank() < 2 || !isa<FloatType>(type.getElementType()))
    return unfitOutput(entry, output, "floating-point scores with the vocabulary as last dimension");
  auto classes = RankedTensorType::get(type.getShape().drop_back(), IntegerType::get(&getContext(), 64));
  Value target = getLabels(entry, classes, shiftsLabels() ? InputSource::token : InputSource::nextToken,
                           "integers of the logits' leading shape");
  if (!target)
    return failure();
  OpBuilder builder(entry.getReturn());
  if (target.getType() != classes) {
    target = ConvertOp::create(builder, entry.getLoc(), classes, target);
    setId(target.getDefiningOp(), "loss.wide_labels");
  }
  if (shiftsLabels())
    target = shifted(entry, target);
  replaceResults(entry, sumCrossEntropy(builder, output, target, ignoreIndex, accuracy));
  return success();
}

LogicalResult AttachLoss::attachNumberLoss(FuncOp entry) {
  Value output = findOutput(entry, logits, "logits");
  if (!output)
    return failure();
  auto type = cast<RankedTensorType>(output.getType());
  if (type.getRank() < 1 || !isa<FloatType>(type.getElementType()))
    return unfitOutput(entry, output, "floating-point predictions with the samples as first dimension");
  Value target = getLabels(entry, type, InputSource::sample, "floating-point numbers of the output's shape");
  if (!target)
    return failure();
  OpBuilder builder(entry.getReturn());
  replaceResults(entry, loss == "mse" ? sumSquaredError(builder, output, target)
                                      : sumBinaryCrossEntropy(builder, output, target, accuracy));
  return success();
}

LogicalResult AttachLoss::useOwnLoss(FuncOp entry) {
  Value output = findOutput(entry, loss, "loss");
  if (!output)
    return failure();
  auto type = cast<RankedTensorType>(output.getType());
  if (type.getNumElements() != 1 || !isa<FloatType>(type.getElementType()))
    return entry.emitError("--loss names output \"")
           << loss << "\" of type " << type
           << ", expected one floating-point number; losses of an output are cross_entropy, causal_lm, mse and "
              "binary_cross_entropy";
  OpBuilder builder(entry.getReturn());
  if (type.getRank() != 0) {
    output = ReshapeOp::create(builder, entry.getLoc(), RankedTensorType::get({}, type.getElementType()), output);
    setId(output.getDefiningOp(), "loss.scalar");
  }
  replaceResults(entry, {output, countOf(builder, entry.getLoc(), 1), Value()});
  return success();
}

LogicalResult AttachLoss::checkSamples(FuncOp entry) {
  std::optional<int64_t> samples;
  for (unsigned index = 0, e = entry.getNumArguments(); index < e; ++index) {
    auto type = cast<RankedTensorType>(entry.getArgument(index).getType());
    if (type.getRank() == 0 || (samples && type.getDimSize(0) != *samples)) {
      InFlightDiagnostic error = entry.emitError("input \"") << inputName(entry, index) << "\" has type " << type;
      if (samples)
        error << ", but \"" << inputName(entry, 0) << "\" has " << *samples << " samples";
      return error << "; expected the samples of a micro-batch as dimension 0 of every input; give the export a batch "
                      "dimension there, or make it a constant of the model";
    }
    samples = type.getDimSize(0);
  }
  return success();
}

/// What tokens' positions and a mask of them are called, in whatever causal model. None: something else.
static std::optional<InputSource> sourceByName(StringRef input) {
  return llvm::StringSwitch<std::optional<InputSource>>(input)
      .Case("position_ids", InputSource::position)
      .Case("attention_mask", InputSource::presence)
      .Default(std::nullopt);
}

void AttachLoss::markSources(FuncOp entry) {
  auto typeOf = [&](unsigned index) { return cast<RankedTensorType>(entry.getArgument(index).getType()); };
  SmallVector<unsigned> undecided, besides;
  std::optional<unsigned> targets;
  for (unsigned index = 0, e = entry.getNumArguments(); index < e; ++index)
    if (inputName(entry, index) == labels)
      targets = index;
    else if (!entry.getArgAttr(index, kSource))
      (!shiftsLabels() || !sourceByName(inputName(entry, index)) ? undecided : besides).push_back(index);
  auto areAlike = [&](unsigned index) {
    return isa<IntegerType>(typeOf(index).getElementType()) &&
           (!targets || typeOf(*targets).getShape() == typeOf(index).getShape());
  };
  bool areTokens = undecided.size() == (besides.empty() ? std::min<size_t>(undecided.size(), 1) : 1) &&
                   llvm::all_of(undecided, areAlike) && llvm::all_of(besides, [&](unsigned index) {
                     return areAlike(index) && typeOf(index).getShape() == typeOf(undecided.front()).getShape();
                   });
  auto mark = [&](unsigned index, StringRef source) {
    entry.setArgAttr(index, kSource, StringAttr::get(&getContext(), areTokens ? source : nameOf(InputSource::sample)));
  };
  bool tellsApart = false;
  for (unsigned index : undecided)
    mark(index, nameOf(InputSource::token));
  for (unsigned index : besides) {
    mark(index, nameOf(*sourceByName(inputName(entry, index))));
    tellsApart |= inputName(entry, index) == "position_ids";
  }
  if (!targets)
    return;
  // A loss in the graph expects its labels unshifted, the very tokens of the input.
  auto known = entry.getArgAttrOfType<StringAttr>(*targets, kSource);
  StringRef source = known ? known.getValue() : nameOf(InputSource::token);
  if (areTokens && tellsApart)
    source = nameOf(source == nameOf(InputSource::token) ? InputSource::ownToken : InputSource::nextOwnToken);
  mark(*targets, source);
}

void AttachLoss::replaceResults(FuncOp entry, const LossSums &sums) {
  ReturnOp terminator = entry.getReturn();
  SmallVector<Value> results{sums.lossSum, sums.count};
  if (sums.correct)
    results.push_back(sums.correct);
  terminator.getOperandsMutable().assign(results);
  entry.setFunctionType(
      FunctionType::get(&getContext(), entry.getArgumentTypes(), llvm::to_vector(TypeRange(ValueRange(results)))));
  entry.removeResAttrsAttr();
  eraseDeadOps(entry);
}
