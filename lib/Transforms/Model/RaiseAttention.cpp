// RaiseAttention: starts from each softmax, reads the einsum below it and the one above it by their letters, and the
// mask by its values, or, where inputs decide it, takes it along.
#include "AttentionMasks.h"
#include "DeadOps.h"
#include "RepeatedHeads.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Support/Decimal.h"
#include "hyc/Support/OpIds.h"
#include "hyc/Transforms/Model/Passes.h"
#include "mlir/IR/PatternMatch.h"
#include <cmath>

using namespace mlir;
using namespace hyc;

namespace hyc {
#define GEN_PASS_DEF_RAISEATTENTION
#include "hyc/Transforms/Model/Passes.h.inc"
} // namespace hyc

namespace {
RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

struct Scores {
  EinsumOp product;
  double scale = 1;
  MaskKind mask = MaskKind::None;
  Value condition; ///< of inputs: where it is false the score is -∞
};

/// The factor by which `op` multiplies its operand `side`, if that is all it does.
std::optional<double> factorOf(Operation *op, int &side) {
  if (!isa_and_nonnull<MulOp, DivOp>(op))
    return std::nullopt;
  for (side = 0; side < (isa<MulOp>(op) ? 2 : 1); ++side)
    if (std::optional<double> number = evaluateSplat(op->getOperand(1 - side)))
      return isa<MulOp>(op) ? *number : 1 / *number;
  return std::nullopt;
}

/// Whether `op` masks its operand `side`: adds a constant, or selects between it and a very negative number.
std::optional<HostTensor> maskOf(Operation *op, int &side, Masks &masks) {
  if (isa_and_nonnull<AddOp>(op)) {
    for (side = 0; side < 2; ++side)
      if (std::optional<HostTensor> mask = masks.evaluate(op->getOperand(1 - side)))
        return mask;
    return std::nullopt;
  }
  auto select = dyn_cast_or_null<SelectOp>(op);
  std::optional<HostTensor> condition = select ? masks.evaluate(select.getCondition()) : std::nullopt;
  if (!condition)
    return std::nullopt;
  for (side = 1; side < 3; ++side) {
    std::optional<double> other = evaluateSplat(op->getOperand(3 - side));
    if (!other || !(*other <= kMaskedScore))
      continue;
    // As a boolean that is true where the score is kept.
    bool keptIfTrue = side == 1;
    return HostTensor::map(condition->getElementType(), {*condition}, [&](ArrayRef<HostElement> e) {
      return HostElement::ofInteger((e[0].integer != 0) == keptIfTrue);
    });
  }
  return std::nullopt;
}

/// What inputs have `op` keep its operand `side` by, -∞ standing where it is false. (With a finite number instead, a
/// row of which nothing is kept would be a mean of all values, and no 0.)
Value conditionOf(Operation *op, int &side) {
  auto select = dyn_cast_or_null<SelectOp>(op);
  std::optional<double> other = select ? evaluateSplat(select.getRhs()) : std::nullopt;
  side = 1;
  return other && std::isinf(*other) && *other < 0 ? select.getCondition() : Value();
}

/// What softmax is applied to: a product of two tensors, scaled and masked in any order.
std::optional<Scores> matchScores(Value value, Masks &masks) {
  Scores scores;
  while (Operation *op = value.getDefiningOp()) {
    if (auto product = dyn_cast<EinsumOp>(op)) {
      scores.product = product;
      return scores;
    }
    int side = 0;
    if (std::optional<double> factor = factorOf(op, side)) {
      scores.scale *= *factor;
    } else if (std::optional<HostTensor> mask = maskOf(op, side, masks)) {
      MaskKind kind = masks.classify(*mask);
      // Two masks together would have to be combined first.
      if (kind == MaskKind::Other || (kind != MaskKind::None && scores.mask != MaskKind::None))
        return std::nullopt;
      scores.mask = kind == MaskKind::None ? scores.mask : kind;
    } else if (Value condition = scores.condition ? Value() : conditionOf(op, side)) {
      scores.condition = condition;
    } else {
      return std::nullopt;
    }
    value = op->getOperand(side);
  }
  return std::nullopt;
}

Value skipFactors(Value value, double &scale) {
  int side = 0;
  while (std::optional<double> factor = factorOf(value.getDefiningOp(), side)) {
    scale *= *factor;
    value = value.getDefiningOp()->getOperand(side);
  }
  return value;
}

//===----------------------------------------------------------------------===//
// Probabilities
//===----------------------------------------------------------------------===//

/// The einsum that alone reads the probabilities, behind at most dropout.
EinsumOp findReaderOf(Value &probabilities, FloatAttr &dropout) {
  if (!probabilities.hasOneUse())
    return {};
  Operation *user = *probabilities.getUsers().begin();
  if (auto drop = dyn_cast<DropoutOp>(user); drop && !drop.getMask() && drop->hasOneUse()) {
    probabilities = drop.getResult();
    dropout = drop.getRate().isZero() ? FloatAttr() : drop.getRateAttr();
    user = *drop->getUsers().begin();
  }
  return dyn_cast<EinsumOp>(user);
}

/// What puts 0 in place of rows of nothing but what is masked: before softmax, lest it give NaN, and after it.
struct EmptyRows {
  Value rows, scores; ///< where they are; what softmax is taken of without them. Null where nobody replaces them.
};

EmptyRows emptyRowsOf(SoftmaxOp softmax) {
  auto select = softmax.getOperand().getDefiningOp<SelectOp>();
  if (!select || evaluateSplat(select.getLhs()) != 0.0)
    return {};
  return {select.getCondition(), select.getRhs()};
}

/// Constant masks may tell that there are no such rows: then nothing is replaced.
void dropIdleGuards(SoftmaxOp softmax, Masks &masks) {
  auto isIdle = [&](SelectOp guard) {
    std::optional<HostTensor> rows = guard ? masks.evaluate(guard.getCondition()) : std::nullopt;
    return rows && rows->isSplat() && rows->atFlat(0).integer == 0;
  };
  if (auto guard = softmax.getOperand().getDefiningOp<SelectOp>(); isIdle(guard))
    softmax->setOperand(0, guard.getRhs());
  for (Operation *user : llvm::make_early_inc_range(softmax->getUsers()))
    if (auto guard = dyn_cast<SelectOp>(user); guard && guard.getRhs() == softmax.getResult() && isIdle(guard)) {
      guard.replaceAllUsesWith(guard.getRhs());
      guard.erase();
    }
}

/// The same, behind the second of these guards. Attention gives 0 for rows of which its mask keeps nothing.
EinsumOp findReaderBehind(const EmptyRows &empty, const Scores &scores, Value &probabilities, FloatAttr &dropout) {
  StringRef letters = EinsumOp(scores.product).getLetters().result;
  auto guard = probabilities.hasOneUse() ? dyn_cast<SelectOp>(*probabilities.getUsers().begin()) : SelectOp();
  if (!guard || !scores.condition || guard.getRhs() != probabilities || evaluateSplat(guard.getLhs()) != 0.0)
    return {};
  for (Value rows : {empty.rows, Value(guard.getCondition())})
    if (!InputMasks::areOfNothing(rows, scores.condition, letters))
      return {};
  probabilities = guard.getResult();
  return findReaderOf(probabilities, dropout);
}

/// The same, behind at most a guard that replaces NaN by 0.
EinsumOp findReader(Value &probabilities, FloatAttr &dropout) {
  SmallVector<Operation *> users(probabilities.getUsers());
  if (users.size() == 1)
    return findReaderOf(probabilities, dropout);
  SelectOp guard;
  for (Operation *user : users) {
    if (auto select = dyn_cast<SelectOp>(user))
      guard = select;
    else if (!isa<CompareOp>(user))
      return {};
  }
  auto isNaN = guard ? guard.getCondition().getDefiningOp<CompareOp>() : CompareOp();
  bool guards = isNaN && isNaN.getPredicate() == ComparePredicate::ne && isNaN.getLhs() == probabilities &&
                isNaN.getRhs() == probabilities && guard.getRhs() == probabilities &&
                evaluateSplat(guard.getLhs()) == 0.0 && isNaN->hasOneUse() && guard->hasOneUse();
  if (!guards)
    return {};
  probabilities = guard.getResult();
  return findReaderOf(probabilities, dropout);
}

//===----------------------------------------------------------------------===//
// Letters
//===----------------------------------------------------------------------===//

/// The roles of the letters of scores = q·k; `batch` stand in q, k and scores, in q's order.
struct Roles {
  Value q, k;
  std::string qText, kText;
  std::string batch;
  char query, key, inner;
};

std::optional<Roles> matchRoles(EinsumOp product) {
  EinsumOp::Letters letters = product.getLetters();
  Roles roles;
  roles.key = letters.result.back();
  bool swapped = letters.lhs.contains(roles.key);
  if (swapped == letters.rhs.contains(roles.key))
    return std::nullopt;
  roles.q = swapped ? product.getRhs() : product.getLhs(), roles.k = swapped ? product.getLhs() : product.getRhs();
  StringRef q = swapped ? letters.rhs : letters.lhs, k = swapped ? letters.lhs : letters.rhs;
  roles.qText = q.str(), roles.kText = k.str();
  roles.query = roles.inner = 0;
  for (char letter : q) {
    bool inK = k.contains(letter), inResult = letters.result.contains(letter);
    if (inK && inResult) {
      roles.batch += letter;
      continue;
    }
    char &role = inK ? roles.inner : roles.query;
    if (role)
      return std::nullopt;
    role = letter;
  }
  // K has nothing of its own but the keys; two batch letters are batch and heads, one is both.
  if (!roles.query || !roles.inner || roles.batch.empty() || roles.batch.size() > 2 ||
      k.size() != roles.batch.size() + 2 || letters.result.size() != roles.batch.size() + 2 ||
      letters.result[letters.result.size() - 2] != roles.query)
    return std::nullopt;
  return roles;
}

/// `value`, whose dimensions are `text`, in the order of `wanted`; a letter '1' adds a dimension of size 1.
Value arrange(IRRewriter &rewriter, OpIds &ids, Operation *cause, Value value, StringRef text, StringRef wanted) {
  SmallVector<int64_t> permutation, shape;
  for (char letter : wanted) {
    if (letter != '1')
      permutation.push_back(static_cast<int64_t>(text.find(letter)));
    shape.push_back(letter == '1' ? 1 : typeOf(value).getDimSize(permutation.back()));
  }
  if (!llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size()))) {
    auto op = TransposeOp::create(rewriter, cause->getLoc(), value, permutation);
    ids.assign(op, getIdPath(cause));
    value = op;
  }
  if (permutation.size() != shape.size()) {
    auto type = RankedTensorType::get(shape, typeOf(value).getElementType());
    auto op = ReshapeOp::create(rewriter, cause->getLoc(), type, value);
    ids.assign(op, getIdPath(cause));
    value = op;
  }
  return value;
}

/// The reader's letters in the names of the scores' letters; nothing if it is not probabilities · v over the keys.
struct Reading {
  Value v;
  std::string vText, resultText;
  char width; // v's own letter
};

std::optional<Reading> matchReading(EinsumOp reader, Value probabilities, const Roles &roles, StringRef scoreText) {
  EinsumOp::Letters letters = reader.getLetters();
  if (reader.getLhs() == reader.getRhs())
    return std::nullopt;
  bool swapped = reader.getRhs() == probabilities;
  StringRef p = swapped ? letters.rhs : letters.lhs, v = swapped ? letters.lhs : letters.rhs;
  Reading reading;
  reading.v = swapped ? reader.getLhs() : reader.getRhs();
  reading.width = 0;
  auto rename = [&](char letter) -> char {
    size_t position = p.find(letter);
    return position == StringRef::npos ? 0 : scoreText[position];
  };
  for (char letter : v) {
    char known = rename(letter);
    if (!known && reading.width)
      return std::nullopt;
    if (!known)
      reading.width = known = '*';
    reading.vText += known;
  }
  for (char letter : letters.result) {
    char known = rename(letter);
    reading.resultText += known ? known : '*';
  }
  StringRef vText = reading.vText, resultText = reading.resultText;
  bool good = reading.width && vText.contains(roles.key) && !resultText.contains(roles.key) &&
              resultText.contains(roles.query) && !vText.contains(roles.query) &&
              vText.size() == roles.batch.size() + 2;
  for (char letter : roles.batch)
    good &= vText.contains(letter) && resultText.contains(letter);
  return good ? std::optional(reading) : std::nullopt;
}

/// What the heads (dimension `heads`) of a key or value are copies of, each of as many as there are in a group, or
/// null.
Value ungrouped(Value value, size_t heads) {
  auto merge = value.getDefiningOp<ReshapeOp>();
  bool repeats = merge && findRepeatedDim(merge) == static_cast<int64_t>(heads);
  return repeats ? merge.getOperand().getDefiningOp<BroadcastOp>().getOperand() : Value();
}

/// 1/sqrt(head size) where the scale is that, which exporters round, or split into two rounded factors.
double exactScale(double scale, Value q) {
  double usual = 1 / std::sqrt(static_cast<double>(typeOf(q).getShape().back()));
  return std::fabs(scale - usual) < 1e-6 * usual ? usual : shortestDecimal(scale);
}

struct RaiseAttention : hyc::impl::RaiseAttentionBase<RaiseAttention> {
  void runOnOperation() override {
    ids = OpIds(getOperation());
    SmallVector<SoftmaxOp> softmaxes;
    walkFunctions(getOperation(), [&](SoftmaxOp op) { softmaxes.push_back(op); });
    Masks masks;
    InputMasks inputMasks(ids, masks);
    for (SoftmaxOp softmax : softmaxes)
      raise(softmax, masks, inputMasks);
    eraseDeadOps(getOperation());
  }

private:
  void raise(SoftmaxOp softmax, Masks &masks, InputMasks &inputMasks) {
    dropIdleGuards(softmax, masks);
    EmptyRows empty = emptyRowsOf(softmax);
    std::optional<Scores> scores = matchScores(empty.rows ? empty.scores : softmax.getOperand(), masks);
    std::optional<Roles> roles = scores ? matchRoles(scores->product) : std::nullopt;
    Value probabilities = softmax.getResult();
    FloatAttr dropout;
    EinsumOp reader;
    std::optional<Reading> reading;
    if (roles)
      reader =
          empty.rows ? findReaderBehind(empty, *scores, probabilities, dropout) : findReader(probabilities, dropout);
    if (reader)
      reading = matchReading(reader, probabilities, *roles, scores->product.getLetters().result);
    if (!reading)
      return;
    double scale = scores->scale;
    Value q = skipFactors(roles->q, scale), k = skipFactors(roles->k, scale);
    IRRewriter rewriter(reader);
    std::string batch(1, roles->batch[0]), heads(1, roles->batch.size() == 2 ? roles->batch[1] : '1');
    q = arrange(rewriter, ids, reader, q, roles->qText, batch + roles->query + heads + roles->inner);
    if (roles->batch.size() == 2) {
      Value keys = ungrouped(k, roles->kText.find(heads)), values = ungrouped(reading->v, reading->vText.find(heads));
      if (keys && values)
        k = keys, reading->v = values;
    }
    k = arrange(rewriter, ids, reader, k, roles->kText, batch + roles->key + heads + roles->inner);
    Value v = arrange(rewriter, ids, reader, reading->v, reading->vText, batch + roles->key + heads + '*');
    if (typeOf(k) != typeOf(v))
      return;
    InputMask mask{scores->mask == MaskKind::Causal, Value()};
    if (scores->condition) {
      mask = inputMasks.of(scores->condition, scores->product.getLetters().result,
                           batch + heads + roles->query + roles->key);
      mask.isCausal |= scores->mask == MaskKind::Causal;
    }
    auto op = AttentionOp::create(rewriter, reader.getLoc(), q, k, v, rewriter.getF64FloatAttr(exactScale(scale, q)),
                                  mask.isCausal ? rewriter.getUnitAttr() : UnitAttr(), dropout, mask.mask);
    ids.assign(op, getIdPath(reader));
    rewriter.replaceOp(reader, arrangeResult(rewriter, reader, op.getResult(), batch, heads, *roles, *reading));
  }

  /// From (batch, query, heads, width) to the reader's order.
  Value arrangeResult(IRRewriter &rewriter, EinsumOp reader, Value value, StringRef batch, StringRef heads,
                      const Roles &roles, const Reading &reading) {
    std::string text = (batch + Twine(roles.query) + heads + "*").str();
    if (heads == "1") {
      SmallVector<int64_t> shape{typeOf(value).getDimSize(0), typeOf(value).getDimSize(1), typeOf(value).getDimSize(3)};
      auto op = ReshapeOp::create(rewriter, reader.getLoc(),
                                  RankedTensorType::get(shape, typeOf(value).getElementType()), value);
      ids.assign(op, getIdPath(reader));
      value = op;
      text.erase(2, 1);
    }
    return arrange(rewriter, ids, reader, value, text, reading.resultText);
  }

  OpIds ids;
};
} // namespace
