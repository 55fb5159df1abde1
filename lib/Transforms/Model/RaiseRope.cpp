// RaiseRope: starts from each sum of two products, one of them of a value whose halves are exchanged and one negated.
#include "DeadOps.h"
#include "RotaryTables.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/ConstantEvaluation.h"
#include "hyc/Support/Decimal.h"
#include "hyc/Support/OpIds.h"
#include "hyc/Transforms/Model/Passes.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace hyc;

namespace hyc {
#define GEN_PASS_DEF_RAISEROPE
#include "hyc/Transforms/Model/Passes.h.inc"
} // namespace hyc

namespace {
RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

//===----------------------------------------------------------------------===//
// The rotation
//===----------------------------------------------------------------------===//

/// Elements [offset, offset + size) of the last dimension of `whole`.
struct Part {
  Value whole;
  int64_t offset = 0, size = 0;
};

/// A slice or a part of a split; nothing for other values.
std::optional<Part> partOf(Value value) {
  if (auto slice = value.getDefiningOp<SliceOp>()) {
    RankedTensorType from = typeOf(slice.getOperand()), to = typeOf(value);
    int64_t last = from.getRank() - 1;
    bool isPart = from.getRank() > 0 && from.getShape().drop_back() == to.getShape().drop_back() &&
                  llvm::all_of(slice.getStrides(), [](int64_t stride) { return stride == 1; });
    return isPart ? std::optional(Part{slice.getOperand(), slice.getOffsets()[last], to.getDimSize(last)})
                  : std::nullopt;
  }
  auto split = value.getDefiningOp<SplitOp>();
  if (!split || static_cast<int64_t>(split.getDim()) != typeOf(value).getRank() - 1)
    return std::nullopt;
  Part part{split.getOperand(), 0, typeOf(value).getShape().back()};
  for (Value before : split.getParts().take_front(cast<OpResult>(value).getResultNumber()))
    part.offset += typeOf(before).getShape().back();
  return part;
}

Value negatedBy(Value value) {
  if (auto neg = value.getDefiningOp<NegOp>())
    return neg.getOperand();
  auto mul = value.getDefiningOp<MulOp>();
  for (int side = 0; mul && side < 2; ++side)
    if (evaluateSplat(mul->getOperand(1 - side)) == -1.0)
      return mul->getOperand(side);
  return {};
}

/// x where `value` is (-x2, x1) of the halves (x1, x2) of x's last dimension, or null.
Value turnedOf(Value value) {
  auto concat = value.getDefiningOp<ConcatOp>();
  if (!concat || concat.getParts().size() != 2 || static_cast<int64_t>(concat.getDim()) != typeOf(value).getRank() - 1)
    return {};
  Value second = negatedBy(concat.getParts()[0]);
  std::optional<Part> y = second ? partOf(second) : std::nullopt, x = partOf(concat.getParts()[1]);
  int64_t half = typeOf(value).getShape().back() / 2;
  bool isTurned = x && y && x->whole == y->whole && x->offset == 0 && x->size == half && y->offset == half &&
                  y->size == half && typeOf(x->whole) == typeOf(value);
  return isTurned ? x->whole : Value();
}

struct Rope {
  Operation *root; ///< what gives the result
  Value x;         ///< (batch, heads, sequence, size) or (batch, sequence, heads, size)
  Value cosines, sines;
};

/// x · cosines + turned x · sines
std::optional<Rope> matchSum(AddOp sum) {
  for (int side = 0; side < 2; ++side) {
    auto plain = sum->getOperand(side).getDefiningOp<MulOp>(),
         turned = sum->getOperand(1 - side).getDefiningOp<MulOp>();
    if (!plain || !turned || typeOf(sum).getRank() != 4)
      continue;
    for (int i = 0; i < 2; ++i) {
      Value x = turnedOf(turned->getOperand(i));
      for (int j = 0; x && j < 2; ++j)
        if (plain->getOperand(j) == x)
          return Rope{sum, x, plain->getOperand(1 - j), turned->getOperand(1 - i)};
    }
  }
  return std::nullopt;
}

/// Takes in the elements of each head that are not turned, where they are joined again.
void includeRest(Rope &rope) {
  std::optional<Part> part = partOf(rope.x);
  if (!part || part->offset != 0 || !rope.root->hasOneUse())
    return;
  auto concat = dyn_cast<ConcatOp>(*rope.root->getUsers().begin());
  bool joins = concat && concat.getParts().size() == 2 && concat.getParts()[0] == rope.root->getResult(0) &&
               concat.getType() == part->whole.getType();
  std::optional<Part> rest = joins ? partOf(concat.getParts()[1]) : std::nullopt;
  if (!rest || rest->whole != part->whole || rest->offset != part->size)
    return;
  rope.root = concat;
  rope.x = part->whole;
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

/// The dimension, 1 or 2, along which values known when compiling change beside the last; 0 if there is not just one.
int64_t positionDim(const HostTensor &cos, const HostTensor &sin) {
  auto varies = [&](int64_t dim) { return cos.variesAlong(dim) || sin.variesAlong(dim); };
  return varies(0) || varies(1) == varies(2) ? 0 : varies(1) ? 1 : 2;
}

/// The tables' rows, if the halves of each are equal.
std::optional<RotaryValues> readTables(const HostTensor &cos, const HostTensor &sin, int64_t dim) {
  RotaryValues values;
  values.positions = cos.getShape()[dim];
  values.pairs = cos.getShape()[3] / 2;
  SmallVector<int64_t> index(4, 0);
  for (index[dim] = 0; index[dim] < values.positions; ++index[dim])
    for (int64_t pair = 0; pair < values.pairs; ++pair) {
      auto at = [&](const HostTensor &table, int64_t column) {
        index[3] = column;
        return static_cast<float>(table.at(index).real);
      };
      values.cos.push_back(at(cos, pair));
      values.sin.push_back(at(sin, pair));
      if (values.cos.back() != at(cos, values.pairs + pair) || values.sin.back() != at(sin, values.pairs + pair))
        return std::nullopt;
    }
  return values;
}

struct Tables {
  Value cos, sin;
};

struct RaiseRope : hyc::impl::RaiseRopeBase<RaiseRope> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<FuncOp>())
      runOnFunction(function);
    eraseDeadOps(getOperation());
  }

private:
  void runOnFunction(FuncOp function) {
    ids = OpIds(getOperation());
    known.clear();
    ConstantEvaluator evaluator;
    SmallVector<AddOp> sums;
    function.walk([&](AddOp op) { sums.push_back(op); });
    for (AddOp sum : sums) {
      std::optional<Rope> rope = matchSum(sum);
      std::optional<HostTensor> cos = rope ? evaluator.evaluate(rope->cosines) : std::nullopt;
      std::optional<HostTensor> sin = cos ? evaluator.evaluate(rope->sines) : std::nullopt;
      int64_t dim = sin ? positionDim(*cos, *sin) : 0;
      std::optional<RotaryValues> values = dim ? readTables(*cos, *sin, dim) : std::nullopt;
      if (!values)
        continue;
      includeRest(*rope);
      raise(*rope, tablesOf(function, *values, typeOf(rope->x).getElementType()), dim);
    }
  }

  /// At the head of the function: equal tables are made once.
  Tables tablesOf(FuncOp function, const RotaryValues &values, Type element) {
    for (auto &[other, tables] : known)
      if (other.cos == values.cos && other.sin == values.sin && other.pairs == values.pairs)
        return tables;
    OpBuilder builder = OpBuilder::atBlockBegin(&function.getBody().front());
    auto type =
        RankedTensorType::get({values.positions, values.pairs}, element.isF64() ? element : Type(builder.getF32Type()));
    Tables tables;
    if (std::optional<Rotation> rotation = findRotation(values)) {
      auto op = RotaryTableOp::create(builder, function.getLoc(), type, type, rotation->frequencies,
                                      llvm::APFloat(shortestDecimal(rotation->factor)));
      ids.assign(op, "");
      tables = {op.getCos(), op.getSin()};
    } else {
      tables = {constant(builder, function.getLoc(), type, values.cos),
                constant(builder, function.getLoc(), type, values.sin)};
    }
    known.push_back({values, tables});
    return tables;
  }

  static Value constant(OpBuilder &builder, Location loc, RankedTensorType type, ArrayRef<float> values) {
    SmallVector<Attribute> elements;
    for (float value : values)
      elements.push_back(FloatAttr::get(type.getElementType(), value));
    return ConstantOp::create(builder, loc, type, cast<ElementsAttr>(DenseElementsAttr::get(type, elements)));
  }

  void raise(const Rope &rope, Tables tables, int64_t dim) {
    IRRewriter rewriter(rope.root);
    Location loc = rope.root->getLoc();
    StringRef path = getIdPath(rope.root);
    auto exchangeHeads = [&](Value value) -> Value {
      auto op = TransposeOp::create(rewriter, loc, value, ArrayRef<int64_t>{0, 2, 1, 3});
      ids.assign(op, path);
      return op;
    };
    Value x = dim == 2 ? exchangeHeads(rope.x) : rope.x;
    auto op = RopeOp::create(rewriter, loc, x.getType(), x, tables.cos, tables.sin, UnitAttr());
    ids.assign(op, path);
    rewriter.replaceAllUsesWith(rope.root->getResult(0), dim == 2 ? exchangeHeads(op) : op.getResult());
  }

  OpIds ids;
  SmallVector<std::pair<RotaryValues, Tables>, 1> known;
};
} // namespace
