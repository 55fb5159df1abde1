// The factor mapping of every op. Einsum's spec is its rule; composite ops state theirs letter by letter.
#include "dialects/Hyc/HycDialect.h"

#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

using namespace mlir;
using namespace hyc;

static RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

namespace {
/// Builds a rule from letter strings: each tensor's dimensions are named, equal letters are one factor. Letters of
/// `whole` are replicated, letters that no result has are sums.
struct LetterRule {
  ShardingRule rule;
  std::map<char, int> factorOf;

  TensorFactors add(StringRef letters, RankedTensorType type) {
    assert(static_cast<int64_t>(letters.size()) == type.getRank());
    TensorFactors dims;
    for (auto [letter, size] : llvm::zip_equal(letters, type.getShape())) {
      auto [entry, inserted] = factorOf.try_emplace(letter, 0);
      if (inserted)
        entry->second = rule.addFactor(size);
      dims.push_back({entry->second});
    }
    return dims;
  }

  void kind(StringRef letters, FactorKind kind) {
    for (char letter : letters)
      if (auto entry = factorOf.find(letter); entry != factorOf.end())
        rule.factors[entry->second].kind = kind;
  }
};
} // namespace

/// `operands` and `results` name the dimensions; a leading '*' stands for all leading dimensions that the rest does not
/// name (the same ones in every tensor).
static ShardingRule letterRule(Operation *op, ArrayRef<StringRef> operands, ArrayRef<StringRef> results,
                               StringRef whole = "", StringRef sums = "") {
  LetterRule builder;
  // Leading dimensions take capitals, which the callers' strings never use.
  auto expand = [](StringRef letters, RankedTensorType type) {
    std::string text;
    if (letters.consume_front("*"))
      for (int64_t i = 0, e = type.getRank() - static_cast<int64_t>(letters.size()); i < e; ++i)
        text += static_cast<char>('A' + i);
    return text + letters.str();
  };
  for (auto [letters, value] : llvm::zip_equal(operands, op->getOperands()))
    builder.rule.operands.push_back(builder.add(expand(letters, tensorType(value)), tensorType(value)));
  for (auto [letters, value] : llvm::zip_equal(results, op->getResults()))
    builder.rule.results.push_back(builder.add(expand(letters, tensorType(value)), tensorType(value)));
  builder.kind(whole, FactorKind::replicated);
  builder.kind(sums, FactorKind::sum);
  return builder.rule;
}

/// Marks factors that no result has as sums: what a linear op that loses a dimension leaves.
static ShardingRule withMissingAsSums(ShardingRule rule) {
  SmallVector<bool> kept(rule.factors.size(), false);
  for (const TensorFactors &result : rule.results)
    for (const DimFactors &dim : result)
      for (int factor : dim)
        kept[factor] = true;
  for (auto [factor, inResult] : llvm::zip_equal(rule.factors, kept))
    if (!inResult && factor.kind == FactorKind::parallel)
      factor.kind = FactorKind::sum;
  return rule;
}

/// Operands and results all have one shape, dimension by dimension.
static ShardingRule sameShapeRule(Operation *op) {
  ShardingRule rule;
  TensorFactors dims;
  for (int64_t size : tensorType(op->getResult(0)).getShape())
    dims.push_back({rule.addFactor(size)});
  rule.operands.assign(op->getNumOperands(), dims);
  rule.results.assign(op->getNumResults(), dims);
  return rule;
}

#define SAME_SHAPE(OP)                                                                                                 \
  ShardingRule OP::getShardingRule() { return sameShapeRule(*this); }
SAME_SHAPE(NegOp)
SAME_SHAPE(AbsOp)
SAME_SHAPE(ExpOp)
SAME_SHAPE(LogOp)
SAME_SHAPE(SqrtOp)
SAME_SHAPE(RsqrtOp)
SAME_SHAPE(ReciprocalOp)
SAME_SHAPE(TanhOp)
SAME_SHAPE(ErfOp)
SAME_SHAPE(SinOp)
SAME_SHAPE(CosOp)
SAME_SHAPE(ReluOp)
SAME_SHAPE(SigmoidOp)
SAME_SHAPE(AddOp)
SAME_SHAPE(SubOp)
SAME_SHAPE(MulOp)
SAME_SHAPE(DivOp)
SAME_SHAPE(PowOp)
SAME_SHAPE(MaxOp)
SAME_SHAPE(MinOp)
SAME_SHAPE(AndOp)
SAME_SHAPE(OrOp)
SAME_SHAPE(NotOp)
SAME_SHAPE(GeluOp)
SAME_SHAPE(GeluGradOp)
SAME_SHAPE(DropoutOp)
SAME_SHAPE(CompareOp)
SAME_SHAPE(SelectOp)
SAME_SHAPE(ConvertOp)
#undef SAME_SHAPE

ShardingRule ConstantOp::getShardingRule() {
  ShardingRule rule = sameShapeRule(*this);
  if (!getValue().isSplat())
    for (Factor &factor : rule.factors)
      factor.kind = FactorKind::replicated;
  return rule;
}

ShardingRule IotaOp::getShardingRule() {
  ShardingRule rule = sameShapeRule(*this);
  rule.factors[getDim()].kind = FactorKind::replicated;
  return rule;
}

/// Any part of a sample can be drawn alone; keys are a row a sample.
ShardingRule DropoutMaskOp::getShardingRule() {
  ShardingRule rule;
  TensorFactors mask;
  for (int64_t size : tensorType(getResult()).getShape())
    mask.push_back({rule.addFactor(size)});
  int columns = rule.addFactor(tensorType(getKeys()).getDimSize(1), FactorKind::replicated);
  rule.operands.push_back({mask[0], {columns}});
  rule.operands.resize(getNumOperands());
  rule.results.push_back(mask);
  return rule;
}

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

/// Walks both shapes from the left and closes a group whenever the products agree. A group with one dimension on either
/// side splits into factors; a group with several on both sides (6×4 -> 8×3) gets one replicated factor.
ShardingRule ReshapeOp::getShardingRule() {
  ArrayRef<int64_t> from = tensorType(getOperand()).getShape(), to = tensorType(getResult()).getShape();
  ShardingRule rule;
  TensorFactors operand(from.size()), result(to.size());
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    size_t firstI = i, firstJ = j;
    int64_t left = i < from.size() ? from[i++] : 1, right = j < to.size() ? to[j++] : 1;
    while (left != right) {
      if (left < right)
        left *= from[i++];
      else
        right *= to[j++];
    }
    if (i - firstI <= 1 || j - firstJ <= 1) {
      // The side with more dimensions gives the factors; sizes of 1 correspond to nothing.
      bool resultIsFiner = i - firstI <= 1;
      auto &fine = resultIsFiner ? result : operand;
      auto &coarse = resultIsFiner ? operand : result;
      for (size_t d = resultIsFiner ? firstJ : firstI, e = resultIsFiner ? j : i; d < e; ++d) {
        int64_t size = resultIsFiner ? to[d] : from[d];
        if (size == 1)
          continue;
        fine[d] = {rule.addFactor(size)};
        size_t whole = resultIsFiner ? firstI : firstJ;
        if (whole < coarse.size())
          coarse[whole].push_back(fine[d].front());
      }
      continue;
    }
    int factor = rule.addFactor(left, FactorKind::replicated);
    operand[firstI] = {factor};
    result[firstJ] = {factor};
  }
  rule.operands.push_back(operand);
  rule.results.push_back(result);
  return rule;
}

ShardingRule TransposeOp::getShardingRule() {
  ShardingRule rule;
  TensorFactors operand, result;
  for (int64_t size : tensorType(getOperand()).getShape())
    operand.push_back({rule.addFactor(size)});
  for (int64_t dim : getPermutation())
    result.push_back(operand[dim]);
  rule.operands.push_back(operand);
  rule.results.push_back(result);
  return rule;
}

ShardingRule BroadcastOp::getShardingRule() {
  ShardingRule rule;
  TensorFactors result;
  for (int64_t size : tensorType(getResult()).getShape())
    result.push_back({rule.addFactor(size)});
  rule.operands.push_back(llvm::map_to_vector<4>(getDims(), [&](int64_t dim) { return result[dim]; }));
  rule.results.push_back(result);
  return rule;
}

/// Dimensions whose size changes must be whole; each side gets a factor of its own for them.
static ShardingRule resizeRule(Operation *op) {
  ShardingRule rule;
  RankedTensorType reference = tensorType(op->getNumResults() == 1 ? op->getResult(0) : op->getOperand(0));
  SmallVector<int> shared(reference.getRank(), -1);
  auto factorsOf = [&](RankedTensorType type) {
    TensorFactors dims;
    for (auto [dim, size] : llvm::enumerate(type.getShape())) {
      bool unchanged =
          llvm::all_of(op->getOperandTypes(),
                       [&](Type t) { return cast<RankedTensorType>(t).getDimSize(dim) == size; }) &&
          llvm::all_of(op->getResultTypes(), [&](Type t) { return cast<RankedTensorType>(t).getDimSize(dim) == size; });
      if (!unchanged) {
        dims.push_back({rule.addFactor(size, FactorKind::replicated)});
        continue;
      }
      if (shared[dim] < 0)
        shared[dim] = rule.addFactor(size);
      dims.push_back({shared[dim]});
    }
    return dims;
  };
  for (Value operand : op->getOperands())
    rule.operands.push_back(factorsOf(tensorType(operand)));
  for (Value result : op->getResults())
    rule.results.push_back(factorsOf(tensorType(result)));
  return rule;
}

ShardingRule SliceOp::getShardingRule() { return resizeRule(*this); }
ShardingRule PadOp::getShardingRule() { return resizeRule(*this); }
ShardingRule SplitOp::getShardingRule() { return resizeRule(*this); }
ShardingRule ConcatOp::getShardingRule() { return resizeRule(*this); }

ShardingRule ReduceOp::getShardingRule() {
  ShardingRule rule;
  TensorFactors operand, result;
  for (auto [dim, size] : llvm::enumerate(tensorType(getOperand()).getShape())) {
    bool reduced = llvm::is_contained(getDims(), static_cast<int64_t>(dim));
    FactorKind kind = !reduced                          ? FactorKind::parallel
                      : getKind() == ReductionKind::sum ? FactorKind::sum
                      : getKind() == ReductionKind::max ? FactorKind::max
                                                        : FactorKind::replicated;
    operand.push_back({rule.addFactor(size, kind)});
    if (!reduced)
      result.push_back(operand.back());
  }
  rule.operands.push_back(operand);
  rule.results.push_back(result);
  return rule;
}

ShardingRule EinsumOp::getShardingRule() {
  Letters letters = getLetters();
  LetterRule builder;
  builder.rule.operands.push_back(builder.add(letters.lhs, tensorType(getLhs())));
  builder.rule.operands.push_back(builder.add(letters.rhs, tensorType(getRhs())));
  builder.rule.results.push_back(builder.add(letters.result, tensorType(getResult())));
  return withMissingAsSums(builder.rule);
}

ShardingRule SoftmaxOp::getShardingRule() {
  ShardingRule rule = sameShapeRule(*this);
  if (!rule.factors.empty())
    rule.factors.back().kind = FactorKind::replicated;
  return rule;
}

//===----------------------------------------------------------------------===//
// Composite ops
//===----------------------------------------------------------------------===//

ShardingRule LayerNormOp::getShardingRule() {
  return letterRule(*this, {"*h", "h", "h"}, {"*h", "*", "*"}, /*whole=*/"h");
}

ShardingRule LayerNormGradOp::getShardingRule() {
  // The leading dimensions are parallel in x's cotangent and summed in those of scale and bias: a result that lacks a
  // parallel factor is partial over it, see FactorKind.
  return letterRule(*this, {"*h", "*h", "h", "*", "*"}, {"*h", "h", "h"}, /*whole=*/"h");
}

ShardingRule RmsNormOp::getShardingRule() { return letterRule(*this, {"*h", "h"}, {"*h", "*"}, /*whole=*/"h"); }

ShardingRule RmsNormGradOp::getShardingRule() {
  return letterRule(*this, {"*h", "*h", "h", "*"}, {"*h", "h"}, /*whole=*/"h");
}

/// Both of a pair are needed at once, so that heads stay whole inside; tables go with the positions.
ShardingRule RopeOp::getShardingRule() {
  StringRef table = tensorType(getCos()).getRank() == 3 ? "bsr" : "sr";
  return letterRule(*this, {"bshd", table, table}, {"bshd"}, /*whole=*/"dr");
}

ShardingRule RotaryTableOp::getShardingRule() { return letterRule(*this, {}, {"pr", "pr"}, /*whole=*/"pr"); }

/// Attention's keys of samples, and the place of its heads.
static SmallVector<StringRef> withRandom(std::initializer_list<StringRef> operands, ValueRange random) {
  SmallVector<StringRef> all(operands);
  for (size_t i = 0; i < random.size(); ++i)
    all.push_back(i == 0 ? "bn" : "");
  return all;
}

/// The tensors with keys ("t") name their heads 'g'. Without grouping 'g' and 'h' are one factor. With fewer key heads
/// than query heads, the query heads that share key head g lie together: 'h' is g, then a member of its group, and
/// splitting g splits both kinds of heads alike.
static ShardingRule attentionRule(Operation *op, ArrayRef<StringRef> operands, ArrayRef<StringRef> results, Value q,
                                  Value k) {
  int64_t heads = tensorType(q).getDimSize(2), groups = tensorType(k).getDimSize(2);
  auto ungroup = [](StringRef letters) { return letters == "btgd" ? StringRef("bthd") : letters; };
  if (heads == groups)
    return letterRule(op, llvm::map_to_vector(operands, ungroup), llvm::map_to_vector(results, ungroup), "stdn");
  ShardingRule rule = letterRule(op, operands, results, "stdn");
  int group = rule.operands[llvm::find(operands, "btgd") - operands.begin()][2].front();
  int head = rule.operands[llvm::find(operands, "bshd") - operands.begin()][2].front();
  rule.factors[head] = {heads / groups, FactorKind::parallel}; // the factor of heads becomes that of members
  auto refine = [&](MutableArrayRef<TensorFactors> tensors) {
    for (TensorFactors &dims : tensors)
      for (DimFactors &factors : dims)
        if (!factors.empty() && factors.front() == head)
          factors = {group, head};
  };
  refine(rule.operands);
  refine(rule.results);
  return rule;
}

ShardingRule AttentionOp::getShardingRule() {
  return attentionRule(*this, withRandom({"bshd", "btgd", "btgd"}, getRandom()), {"bshd", "bhs"}, getQ(), getK());
}

ShardingRule AttentionGradOp::getShardingRule() {
  return attentionRule(*this, withRandom({"bshd", "bshd", "btgd", "btgd", "bshd", "bhs"}, getRandom()),
                       {"bshd", "btgd", "btgd"}, getQ(), getK());
}

/// The vocabulary is contracted: a shard gives zeros for ids that it does not hold.
ShardingRule EmbeddingOp::getShardingRule() {
  SmallVector<StringRef> operands{"*", "vh"};
  if (getOffset())
    operands.push_back("");
  return letterRule(*this, operands, {"*h"}, "", /*sums=*/"v");
}

ShardingRule EmbeddingGradOp::getShardingRule() {
  SmallVector<StringRef> operands{"*", "*h"};
  if (getOffset())
    operands.push_back("");
  return withMissingAsSums(letterRule(*this, operands, {"vh"}));
}

/// Splitting the vocabulary is allowed, though not as a plain sum: partitioning rewrites the op (see vocab_max).
ShardingRule CrossEntropyOp::getShardingRule() {
  ShardingRule rule = letterRule(*this, {"*v", "*"}, {"", "", "*"});
  rule.factors[rule.operands[0].back().front()].kind = FactorKind::exchanged;
  return rule;
}

ShardingRule CrossEntropyGradOp::getShardingRule() {
  SmallVector<StringRef> operands{"", "*v", "*", "*"};
  if (getOffset())
    operands.push_back("");
  return letterRule(*this, operands, {"*v"});
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

std::string ShardingRule::str() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto printTensors = [&](ArrayRef<TensorFactors> tensors) {
    llvm::interleave(
        tensors, os,
        [&](const TensorFactors &dims) {
          os << '(';
          llvm::interleave(
              dims, os,
              [&](const DimFactors &factors) {
                if (factors.empty())
                  os << '1';
                for (int factor : factors)
                  os << static_cast<char>('i' + factor);
              },
              ",");
          os << ')';
        },
        ",");
  };
  printTensors(operands);
  os << "->";
  printTensors(results);
  os << " {";
  llvm::interleave(
      llvm::enumerate(factors), os,
      [&](const auto &entry) {
        static const char *const kinds[] = {"", " sum", " max", " whole", " exchanged"};
        os << static_cast<char>('i' + entry.index()) << '=' << entry.value().size
           << kinds[static_cast<int>(entry.value().kind)];
      },
      ", ");
  os << '}';
  return text;
}
