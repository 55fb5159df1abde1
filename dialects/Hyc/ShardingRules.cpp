// The factor mapping of ops that compute elements, move them or contract them, and what goes with it: whether padding
// stays zero, and which partial sums pass. Einsum's spec is its rule.
#include "dialects/Hyc/LetterRule.h"

#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace hyc;

static RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

ShardingRule hyc::letterRule(Operation *op, ArrayRef<StringRef> operands, ArrayRef<StringRef> results, StringRef whole,
                             StringRef sums) {
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

ShardingRule hyc::withMissingAsSums(ShardingRule rule) {
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

ShardingRule hyc::sameShapeRule(Operation *op) {
  ShardingRule rule;
  TensorFactors dims;
  for (int64_t size : tensorType(op->getResult(0)).getShape())
    dims.push_back({rule.addFactor(size)});
  rule.operands.assign(op->getNumOperands(), dims);
  rule.results.assign(op->getNumResults(), dims);
  return rule;
}

ShardingRule ConstantOp::getShardingRule() {
  ShardingRule rule = sameShapeRule(*this);
  if (!getValue().isSplat())
    for (Factor &factor : rule.factors)
      factor.kind = FactorKind::replicated;
  return rule;
}

bool ConstantOp::preservesZeros(const ShardingRule &, int) {
  Type element = cast<RankedTensorType>(getType()).getElementType();
  return getValue().isSplat() && getValue().getSplatValue<Attribute>() == Builder(getContext()).getZeroAttr(element);
}

/// A constant that is split is a splat, so that every rank's part is one too.
void ConstantOp::addPlace(LocalPart &part, SmallVectorImpl<Value> &, NamedAttrList &attributes) {
  RankedTensorType type = part.typeOf(getResult());
  if (type != getType())
    attributes.set(getValueAttrName(),
                   DenseElementsAttr::get(type, cast<DenseElementsAttr>(getValue()).getSplatValue<Attribute>()));
}

void ConstantOp::buildLocal(LocalPart &, ValueRange, SmallVectorImpl<Value> &) {}

PrecisionRule ConstantOp::getPrecisionRule() {
  return isa<DenseFPElementsAttr>(getValue()) ? PrecisionRule::asUsersWant() : PrecisionRule::wide();
}

/// Whether `value` is one number of a state everywhere, in whatever type: the scale of a quantised tensor.
static bool isScale(Value value) {
  if (auto rounded = value.getDefiningOp<ConvertOp>())
    value = rounded.getOperand();
  auto everywhere = value.getDefiningOp<BroadcastOp>();
  auto read = everywhere ? everywhere.getOperand().getDefiningOp<ReadOp>() : ReadOp();
  auto state = read ? SymbolTable::lookupNearestSymbolFrom<StateOp>(read, read.getSourceAttr()) : StateOp();
  return state && state.getFacts().isOfQuantized;
}

unsigned MulOp::getNumPartialOperands() { return isScale(getRhs()) ? 1 : 0; }

ShardingRule IotaOp::getShardingRule() {
  ShardingRule rule = sameShapeRule(*this);
  rule.factors[getDim()].kind = FactorKind::replicated;
  return rule;
}

PrecisionRule IotaOp::getPrecisionRule() { return PrecisionRule::asUsersWant(); }

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

/// Where in a whole sample this rank's part begins.
void DropoutMaskOp::addPlace(LocalPart &part, SmallVectorImpl<Value> &operands, NamedAttrList &attributes) {
  SmallVector<int64_t> strides = getSampleStrides();
  RankedTensorType type = part.typeOf(getResult());
  for (auto [dim, stride] : llvm::enumerate(strides))
    if (LocalDim own(getResult(), static_cast<int64_t>(dim) + 1); part.isSplit(own))
      operands.push_back(part.offset(own, type.getDimSize(own.dim) * stride));
  attributes.set(getStridesAttrName(), DenseI64ArrayAttr::get(getContext(), strides));
}

void DropoutMaskOp::buildLocal(LocalPart &, ValueRange, SmallVectorImpl<Value> &) {}

std::string GeluOp::getScalarFunction() { return getTanh() ? "gelu_tanh" : "gelu"; }
std::string GeluGradOp::getScalarFunction() { return getTanh() ? "gelu_tanh_grad" : "gelu_grad"; }
std::string CompareOp::getScalarFunction() { return ("compare_" + stringifyComparePredicate(getPredicate())).str(); }

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

/// Walks both shapes from the left and closes a group whenever the products agree. A group with one dimension on either
/// side splits into factors; a group with several on both sides (6×4 -> 8×3) gets one replicated factor.
ShardingRule ReshapeOp::getShardingRule() {
  ArrayRef<int64_t> from = tensorType(getOperand()).getShape(), to = tensorType(getResult()).getShape();
  ShardingRule rule;
  TensorFactors operand(from.size()), result(to.size());
  // Of no elements any sizes are as many, and no dimension is another.
  size_t i = llvm::is_contained(from, 0) ? from.size() : 0, j = llvm::is_contained(from, 0) ? to.size() : 0;
  while (i < from.size() || j < to.size()) {
    if ((i < from.size() && from[i] == 1) || (j < to.size() && to[j] == 1)) {
      ++(i < from.size() && from[i] == 1 ? i : j); // sizes of 1 correspond to nothing
      continue;
    }
    size_t firstI = i, firstJ = j;
    int64_t left = i < from.size() ? from[i++] : 1, right = j < to.size() ? to[j++] : 1;
    while (left != right) {
      if (left < right)
        left *= from[i++];
      else
        right *= to[j++];
    }
    if (i - firstI <= 1 || j - firstJ <= 1) {
      // The side with more dimensions gives the factors.
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

/// Merging dimensions would move padding into the middle.
bool ReshapeOp::preservesZeros(const ShardingRule &rule, int factor) {
  auto merges = [&](const TensorFactors &dims) {
    return llvm::any_of(dims, [&](const DimFactors &f) { return f.size() > 1 && llvm::is_contained(f, factor); });
  };
  return !merges(rule.operands[0]) && !merges(rule.results[0]);
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
    for (auto each : llvm::enumerate(type.getShape())) {
      const size_t dim = each.index();
      const int64_t size = each.value();
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

bool ReduceOp::preservesZeros(const ShardingRule &rule, int factor) {
  return getKind() == ReductionKind::sum || rule.factors[factor].kind == FactorKind::parallel;
}

PrecisionRule ReduceOp::getPrecisionRule() {
  return getKind() == ReductionKind::sum && !getDims().empty() ? PrecisionRule{"f", "w"} : PrecisionRule::following();
}

PrecisionRule EinsumOp::getPrecisionRule() { return {"nn", "s"}; }
PrecisionRule SoftmaxOp::getPrecisionRule() { return {"n", "n"}; }

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
