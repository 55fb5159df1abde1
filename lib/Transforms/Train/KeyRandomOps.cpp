// KeyRandomOps: one input of keys for all ops that draw random numbers, a column each.
//
// The surprise: a tensor's samples need not be its dimension 0, nor alone there. Which dimension has them is read off
// the factor classes: the one that corresponds to dimension 0 of the model's inputs. What depends on no input has none,
// and one draw serves all samples of a micro-batch: it has the first one's key.
#include "TrainingState.h"
#include "hyc/Analysis/FactorClasses.h"
#include "hyc/Transforms/Train/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

namespace hyc {
#define GEN_PASS_DEF_KEYRANDOMOPS
#include "hyc/Transforms/Train/Passes.h.inc"
} // namespace hyc

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

static bool isUnkeyed(Operation *op) {
  if (auto dropout = dyn_cast<DropoutOp>(op))
    return !dropout.getMask();
  auto attention = dyn_cast<AttentionOp>(op);
  return attention && attention.getDropout() && attention.getRandom().empty();
}

namespace {

/// Where a tensor has its samples: in dimension `dim`, together with `factor` further elements each; nowhere (-1) if
/// there is one draw, of the whole tensor.
struct SamplePlace {
  int64_t dim, factor;
};

struct KeyRandomOps : hyc::impl::KeyRandomOpsBase<KeyRandomOps> {
  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<FuncOp>(kTrain);
    SmallVector<Operation *> ops;
    if (function)
      for (Operation &op : function.getBody().front())
        if (isUnkeyed(&op))
          ops.push_back(&op);
    if (ops.empty())
      return markAllAnalysesPreserved();
    if (failed(findSamples(function)))
      return signalPassFailure();
    FactorClasses classes(function);
    SmallVector<SamplePlace> places;
    for (Operation *op : ops) {
      std::optional<SamplePlace> place = placeOf(op->getOperand(0), classes);
      bool isOfUse = place && (isa<DropoutOp>(op) || ((place->dim == 0 || samples == 1) && place->factor == 1));
      if (!isOfUse) {
        op->emitOpError("\"") << getId(op) << "\" drops elements of " << op->getOperand(0).getType()
                              << ", of which no dimension counts the " << samples
                              << " samples; a mask is drawn for each sample, so drop what is computed from an input";
        return signalPassFailure();
      }
      places.push_back(*place);
    }
    addKeys(function, ops);
    for (auto [column, op] : llvm::enumerate(ops))
      key(op, static_cast<int64_t>(column), places[column]);
    keyedOps += ops.size();
  }

private:
  LogicalResult findSamples(FuncOp function) {
    for (BlockArgument argument : function.getArguments())
      if (typeOf(argument).getRank() > 0)
        inputs.push_back(argument);
    if (!inputs.empty()) {
      samples = typeOf(inputs.front()).getDimSize(0);
      return success();
    }
    return function.emitError("has ops that draw random numbers for each sample, but no input whose dimension 0 counts "
                              "samples");
  }

  std::optional<SamplePlace> placeOf(Value value, const FactorClasses &classes) {
    for (auto [dim, size] : llvm::enumerate(typeOf(value).getShape())) {
      int cls = classes.classOf(value, static_cast<int64_t>(dim));
      bool countsSamples = cls >= 0 && size % samples == 0 &&
                           llvm::any_of(inputs, [&](BlockArgument input) { return classes.classOf(input, 0) == cls; });
      if (countsSamples)
        return SamplePlace{static_cast<int64_t>(dim), size / samples};
    }
    // A dimension of size 1 corresponds to nothing.
    return samples == 1 || !dependsOnInput(value) ? std::optional(SamplePlace{-1, 1}) : std::nullopt;
  }

  static bool dependsOnInput(Value value) {
    SetVector<Value> reached;
    reached.insert(value);
    for (size_t i = 0; i < reached.size(); ++i) {
      Operation *made = reached[i].getDefiningOp();
      if (!made)
        return true;
      reached.insert_range(made->getOperands());
    }
    return false;
  }

  /// An id that no stream has yet: two ops of one id would draw the same numbers.
  std::string streamOf(Operation *op) {
    StringRef id = getId(op);
    std::string base = id.empty() ? op->getName().stripDialect().str() : id.str(), name = base;
    for (unsigned n = 2; !taken.insert(name).second; ++n)
      name = base + "." + std::to_string(n);
    return name;
  }

  void addKeys(FuncOp function, ArrayRef<Operation *> ops) {
    Builder builder(&getContext());
    SmallVector<Attribute> streams;
    for (Operation *op : ops)
      streams.push_back(builder.getStringAttr(streamOf(op)));
    auto type = RankedTensorType::get({samples, static_cast<int64_t>(ops.size())}, builder.getI64Type());
    unsigned index = function.getNumArguments();
    (void)function.insertArgument(
        index, type,
        builder.getDictionaryAttr({{kInput, builder.getStringAttr("random_keys")},
                                   {kSource, builder.getStringAttr(nameOf(InputSource::random))},
                                   {kStreams, builder.getArrayAttr(streams)}}),
        function.getLoc());
    keys = function.getArgument(index);
  }

  void key(Operation *op, int64_t column, SamplePlace place) {
    if (auto attention = dyn_cast<AttentionOp>(op)) {
      attention.getRandomMutable().assign(keys);
      attention.setColumn(column);
      return;
    }
    auto dropout = cast<DropoutOp>(op);
    dropout.getMaskMutable().assign(drawMask(dropout, column, place));
  }

  /// The mask in the shape of x, drawn with the samples first.
  Value drawMask(DropoutOp op, int64_t column, SamplePlace place) {
    OpBuilder builder(op);
    Location loc = op.getLoc();
    ArrayRef<int64_t> shape = typeOf(op.getX()).getShape();
    SmallVector<int64_t> drawn{place.dim < 0 ? 1 : samples}, split, order;
    if (place.factor > 1)
      drawn.push_back(place.factor);
    for (auto [dim, size] : llvm::enumerate(shape))
      if (static_cast<int64_t>(dim) != place.dim)
        drawn.push_back(size);
    auto named = [&](auto made, StringRef suffix) -> Value {
      std::string id = getId(op).str();
      setId(made, (id.empty() ? "dropout" : id) + suffix);
      return made->getResult(0);
    };
    auto booleans = [&](ArrayRef<int64_t> dims) { return RankedTensorType::get(dims, builder.getI1Type()); };
    Value own = keys;
    if (drawn.front() < samples) {
      RankedTensorType type = typeOf(keys);
      own = named(SliceOp::create(builder, loc, RankedTensorType::get({1, type.getDimSize(1)}, type.getElementType()),
                                  keys, ArrayRef<int64_t>{0, 0}, ArrayRef<int64_t>{1, 1}),
                  ".key");
    }
    Value mask = named(DropoutMaskOp::create(builder, loc, booleans(drawn), own, ValueRange(),
                                             builder.getI64IntegerAttr(column), op.getRateAttr(), DenseI64ArrayAttr()),
                       ".mask");
    if (place.dim > 0) {
      int64_t leading = place.factor > 1 ? 2 : 1; // dimensions that x has at place.dim
      for (int64_t dim = 0, e = static_cast<int64_t>(shape.size()); dim < e; ++dim) {
        if (dim != place.dim) {
          order.push_back(dim < place.dim ? dim + leading : dim + leading - 1);
          continue;
        }
        for (int64_t i = 0; i < leading; ++i)
          order.push_back(i);
      }
      for (int64_t dim : order)
        split.push_back(drawn[dim]);
      mask = named(TransposeOp::create(builder, loc, booleans(split), mask, order), ".mask.order");
    }
    if (typeOf(mask).getShape() != shape)
      mask = named(ReshapeOp::create(builder, loc, booleans(shape), mask), ".mask.shape");
    return mask;
  }

  SmallVector<BlockArgument> inputs;
  int64_t samples = 0;
  Value keys;
  llvm::StringSet<> taken;
};
} // namespace
