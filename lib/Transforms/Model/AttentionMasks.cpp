// A mask is a conjunction as a rule: of a triangle, which attention knows by itself, of what is padding, and of which
// document a token belongs to. Copies over heads and queries are read as they were before.
#include "AttentionMasks.h"

using namespace mlir;
using namespace hyc;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

static MaskKind classifyElements(const HostTensor &mask) {
  int64_t tensorRank = mask.getTensorRank();
  for (int64_t dim = 0; dim < tensorRank - 2; ++dim)
    if (mask.variesAlong(dim))
      return MaskKind::Other;
  HostTensor::Shape index(tensorRank, 0);
  int64_t queries = mask.getShape()[tensorRank - 2], keys = mask.getShape()[tensorRank - 1];
  bool all = true, causal = true;
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j < keys; ++j) {
      index[tensorRank - 2] = i, index[tensorRank - 1] = j;
      HostElement element = mask.at(index);
      bool kept = mask.isReal() ? element.real == 0 : element.integer != 0;
      if (mask.isReal() && !kept && !(element.real <= kMaskedScore))
        return MaskKind::Other;
      all &= kept;
      causal &= kept == (j <= i + keys - queries);
    }
  return all ? MaskKind::None : causal && keys >= queries ? MaskKind::Causal : MaskKind::Other;
}

MaskKind Masks::classify(const HostTensor &mask) {
  for (auto &[view, kind] : classified)
    if (view.isSameView(mask))
      return kind;
  classified.push_back({mask, classifyElements(mask)});
  return classified.back().second;
}

/// Names of the operand's dimensions, where `reshape` only adds or takes away dimensions of 1.
static std::optional<std::string> lettersBefore(ReshapeOp reshape, StringRef letters) {
  ArrayRef<int64_t> from = typeOf(reshape.getOperand()).getShape(), to = typeOf(reshape.getResult()).getShape();
  std::string result;
  size_t at = 0;
  for (int64_t size : from) {
    if (size == 1) {
      result += '-';
      continue;
    }
    while (at < to.size() && to[at] == 1)
      ++at;
    if (at == to.size() || to[at] != size)
      return std::nullopt;
    result += letters[at++];
  }
  for (; at < to.size(); ++at)
    if (to[at] != 1)
      return std::nullopt;
  return result;
}

InputMasks::Named InputMasks::withoutCopies(Named named) {
  for (size_t dim = 0; dim < named.letters.size(); ++dim)
    if (typeOf(named.value).getDimSize(static_cast<int64_t>(dim)) == 1)
      named.letters[dim] = '-';
  while (Operation *op = named.value.getDefiningOp()) {
    if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      std::string letters;
      for (int64_t dim : broadcast.getDims())
        letters += named.letters[dim];
      named = {broadcast.getOperand(), letters};
      continue;
    }
    auto reshape = dyn_cast<ReshapeOp>(op);
    std::optional<std::string> letters = reshape ? lettersBefore(reshape, named.letters) : std::nullopt;
    if (!letters)
      break;
    named = {reshape.getOperand(), *letters};
  }
  return named;
}

/// As importers write it: the greatest of the row's truths, as numbers, is 0.
bool InputMasks::areOfNothing(Value rows, Value condition, StringRef letters) {
  if (typeOf(rows).getRank() != static_cast<int64_t>(letters.size()) || typeOf(rows) != typeOf(condition))
    return false;
  Named bare = withoutCopies({rows, letters.str()});
  auto isNone = bare.value.getDefiningOp<CompareOp>();
  if (!isNone || isNone.getPredicate() != ComparePredicate::eq || evaluateSplat(isNone.getRhs()) != 0.0)
    return false;
  bare = withoutCopies({isNone.getLhs(), bare.letters});
  auto highest = bare.value.getDefiningOp<ReduceOp>();
  if (!highest || highest.getKind() != ReductionKind::max ||
      highest.getDims() != ArrayRef<int64_t>(typeOf(highest.getOperand()).getRank() - 1))
    return false;
  auto numbers = highest.getOperand().getDefiningOp<ConvertOp>();
  if (!numbers)
    return false;
  Named kept = withoutCopies({numbers.getOperand(), bare.letters + letters.back()});
  Named own = withoutCopies({condition, letters.str()});
  return kept.value == own.value && kept.letters == own.letters;
}

void InputMasks::collect(Named named, StringRef wanted, InputMask &mask, SmallVectorImpl<Named> &parts) {
  StringRef letters = named.letters;
  if (letters.ends_with(wanted.take_back(2)))
    if (std::optional<HostTensor> constant = masks.evaluate(named.value)) {
      MaskKind kind = masks.classify(*constant);
      mask.isCausal |= kind == MaskKind::Causal;
      if (kind != MaskKind::Other)
        return;
    }
  Named bare = withoutCopies(named);
  if (auto both = bare.value.getDefiningOp<AndOp>()) {
    for (Value side : {both.getLhs(), both.getRhs()})
      collect({side, bare.letters}, wanted, mask, parts);
    return;
  }
  parts.push_back(bare);
}

template <typename OpT, typename... Args> Value InputMasks::create(IRRewriter &rewriter, Value cause, Args &&...args) {
  auto op = OpT::create(rewriter, cause.getLoc(), std::forward<Args>(args)...);
  Operation *from = cause.getDefiningOp();
  ids.assign(op, from ? getIdPath(from) : StringRef());
  return op;
}

/// `part` in the order of `present`, with all dimensions that are named there; the others are 1.
Value InputMasks::arranged(IRRewriter &rewriter, const Named &part, StringRef present) {
  Type element = typeOf(part.value).getElementType();
  std::string letters;
  SmallVector<int64_t> shape;
  for (auto [letter, size] : llvm::zip_equal(part.letters, typeOf(part.value).getShape()))
    if (letter != '-')
      letters += letter, shape.push_back(size);
  Value value = part.value;
  if (shape.size() != part.letters.size())
    value = create<ReshapeOp>(rewriter, part.value, RankedTensorType::get(shape, element), value);
  SmallVector<int64_t> order;
  for (char letter : present)
    if (size_t at = letters.find(letter); at != std::string::npos)
      order.push_back(static_cast<int64_t>(at));
  if (!llvm::is_sorted(order))
    value = create<TransposeOp>(rewriter, part.value, value, order);
  return value;
}

InputMask InputMasks::of(Value condition, StringRef letters, StringRef wanted) {
  Named from = withoutCopies({condition, letters.str()});
  for (const Made &known : made)
    if (known.from.value == from.value && known.from.letters == from.letters && known.wanted == wanted)
      return known.mask;
  InputMask mask;
  SmallVector<Named> parts;
  collect(from, wanted, mask, parts);
  IRRewriter rewriter(condition.getContext());
  rewriter.setInsertionPointAfterValue(from.value);
  // Dimensions that any part varies along, and always the keys.
  std::string present;
  SmallVector<int64_t> sizes, shape;
  for (char letter : wanted) {
    size_t at = letters.find(letter);
    bool varies = letter == wanted.back() || llvm::any_of(parts, [&](const Named &part) {
                    return letter != '1' && StringRef(part.letters).contains(letter);
                  });
    shape.push_back(varies ? typeOf(condition).getDimSize(static_cast<int64_t>(at)) : 1);
    if (varies)
      present += letter, sizes.push_back(shape.back());
  }
  for (const Named &part : parts) {
    Value value = arranged(rewriter, part, present);
    SmallVector<int64_t> dims;
    for (auto [dim, letter] : llvm::enumerate(present))
      if (StringRef(part.letters).contains(letter))
        dims.push_back(static_cast<int64_t>(dim));
    if (dims.size() != present.size())
      value =
          create<BroadcastOp>(rewriter, part.value, RankedTensorType::get(sizes, rewriter.getI1Type()), value, dims);
    mask.mask = mask.mask ? create<AndOp>(rewriter, part.value, mask.mask, value) : value;
  }
  if (mask.mask && present.size() != shape.size())
    mask.mask = create<ReshapeOp>(rewriter, mask.mask, RankedTensorType::get(shape, rewriter.getI1Type()), mask.mask);
  made.push_back({from, wanted.str(), mask});
  return mask;
}
