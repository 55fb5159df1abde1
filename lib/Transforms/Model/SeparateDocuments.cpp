// SeparateDocuments: follows samples and tokens from the input through every op by the factors of sharding rules, so
// that whatever joins tokens of one sequence is found, whether it is attention or not.
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/ConstantEvaluation.h"
#include "hyc/Support/OpIds.h"
#include "hyc/Transforms/Model/Passes.h"

using namespace mlir;
using namespace hyc;

namespace hyc {
#define GEN_PASS_DEF_SEPARATEDOCUMENTS
#include "hyc/Transforms/Model/Passes.h.inc"
} // namespace hyc

namespace {
constexpr llvm::StringLiteral kPositions = "position_ids";

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// What a dimension of a tensor goes through: samples ('b'), tokens ('s'), or both, the major first.
using Roles = SmallVector<std::string, 4>;

bool hasTokens(const Roles &roles) {
  return llvm::any_of(roles, [](const std::string &role) { return StringRef(role).contains('s'); });
}

class Separation {
public:
  explicit Separation(FuncOp entry, OpIds &ids) : entry(entry), ids(ids), builder(entry.getContext()) {}

  LogicalResult run();

private:
  LogicalResult findTokens();
  LogicalResult follow(Operation *op);
  LogicalResult rolesOfFactors(Operation *op, const ShardingRule &rule, SmallVectorImpl<std::string> &roles);
  LogicalResult checkOperands(Operation *op, const ShardingRule &rule, ArrayRef<std::string> roles);
  bool areBatchFirst(Value value);
  LogicalResult mask(AttentionOp op);
  bool isAlikeAlong(Value value, int64_t dim);
  LogicalResult lookUp(OpOperand &operand, int64_t tokens);
  Value positions();
  Value documents();
  template <typename OpT, typename... Args> Value make(StringRef path, Args &&...args) {
    auto op = OpT::create(builder, entry.getLoc(), std::forward<Args>(args)...);
    ids.assign(op, path);
    return op;
  }

  FuncOp entry;
  OpIds &ids;
  OpBuilder builder;
  unsigned tokens = 0; ///< the argument
  int64_t samples = 0, sequence = 0;
  DenseMap<Value, Roles> places;
  ConstantEvaluator evaluator;
  Value mine, apart; ///< positions, and the mask that all layers share
};

LogicalResult Separation::findTokens() {
  std::optional<unsigned> found;
  for (unsigned index = 0, e = entry.getNumArguments(); index < e; ++index) {
    RankedTensorType type = typeOf(entry.getArgument(index));
    if (type.getRank() == 2 && type.getElementType().isInteger() && !found)
      found = index;
    else
      return entry.emitError(
                 "--separate-documents wants a model with one input, of tokens, (batch, sequence) integers; "
                 "this one has ")
             << entry.getArgumentTypes() << "; give it a mask or positions of its own";
  }
  if (!found)
    return entry.emitError("--separate-documents wants a model with an input of tokens");
  tokens = *found;
  RankedTensorType type = typeOf(entry.getArgument(tokens));
  samples = type.getDimSize(0), sequence = type.getDimSize(1);
  places[entry.getArgument(tokens)] = {"b", "s"};
  return success();
}

Value Separation::positions() {
  if (!mine) {
    auto type = RankedTensorType::get({samples, sequence}, builder.getI64Type());
    unsigned index = entry.getNumArguments();
    (void)entry.insertArgument(
        index, type, builder.getDictionaryAttr({builder.getNamedAttr(kInput, builder.getStringAttr(kPositions))}),
        entry.getLoc());
    mine = entry.getArgument(index);
  }
  return mine;
}

/// (B,1,S,S): whether two tokens are of one document, which begins where the place of a token less its position is.
Value Separation::documents() {
  if (apart)
    return apart;
  Value position = positions();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&entry.getBody().front());
  auto type = typeOf(position);
  auto pairs = RankedTensorType::get({samples, sequence, sequence}, type.getElementType());
  auto same = RankedTensorType::get(pairs.getShape(), builder.getI1Type());
  Value begins = make<SubOp>("documents", make<IotaOp>("documents", type, 1), position);
  Value ofQuery = make<BroadcastOp>("documents", pairs, begins, ArrayRef<int64_t>{0, 1});
  Value ofKey = make<BroadcastOp>("documents", pairs, begins, ArrayRef<int64_t>{0, 2});
  Value alike = make<CompareOp>("documents", same, ComparePredicate::eq, ofQuery, ofKey);
  apart =
      make<ReshapeOp>("documents", RankedTensorType::get({samples, 1, sequence, sequence}, builder.getI1Type()), alike);
  return apart;
}

/// Whether they are (samples, tokens, …). A single sample is followed by no factor.
bool Separation::areBatchFirst(Value value) {
  auto place = places.find(value);
  if (place == places.end())
    return false;
  const Roles &roles = place->second;
  return (roles[0] == "b" || (samples == 1 && roles[0].empty())) && roles[1] == "s" && roles[2].empty() &&
         roles[3].empty();
}

LogicalResult Separation::mask(AttentionOp op) {
  for (Value operand : {op.getQ(), op.getK(), op.getV()})
    if (!areBatchFirst(operand))
      return op.emitOpError(
          "attends across samples, or to what is no token; --separate-documents wants attention among "
          "the tokens of a sequence");
  Value mask = documents();
  builder.setInsertionPoint(op);
  if (Value own = op.getMask()) {
    // Of one that is the same for all samples and heads: a window.
    if (typeOf(own).getShape() != ArrayRef<int64_t>({1, 1, sequence, sequence}))
      return op.emitOpError("has a mask of its own of type ") << own.getType() << ", which inputs decide";
    StringRef path = getIdPath(op);
    Type flat = RankedTensorType::get({sequence, sequence}, builder.getI1Type());
    Value window = make<BroadcastOp>(path, mask.getType(), make<ReshapeOp>(path, flat, own), ArrayRef<int64_t>{2, 3});
    mask = make<AndOp>(path, window, mask);
  }
  op.getMaskMutable().assign(mask);
  return success();
}

/// What each factor of `op` goes through, by the operands that are followed.
LogicalResult Separation::rolesOfFactors(Operation *op, const ShardingRule &rule, SmallVectorImpl<std::string> &roles) {
  roles.assign(rule.factors.size(), "");
  for (auto [value, factors] : llvm::zip_equal(op->getOperands(), rule.operands)) {
    auto place = places.find(value);
    if (place == places.end())
      continue;
    for (auto [role, ofDim] : llvm::zip_equal(place->second, factors)) {
      if (role.empty() || ofDim.empty())
        continue;
      bool splitsEvenly = ofDim.size() == role.size();
      for (size_t i = 0; splitsEvenly && ofDim.size() > 1 && i < ofDim.size(); ++i)
        splitsEvenly = rule.factors[ofDim[i]].size == (role[i] == 'b' ? samples : sequence);
      if (ofDim.size() != 1 && !splitsEvenly)
        return op->emitOpError("splits or joins tokens of one sequence, which --separate-documents cannot keep apart");
      for (size_t i = 0; i < ofDim.size(); ++i)
        roles[ofDim[i]] = splitsEvenly ? std::string(1, role[i]) : role;
    }
  }
  return success();
}

bool Separation::isAlikeAlong(Value value, int64_t dim) {
  if (std::optional<HostTensor> constant = evaluator.evaluate(value))
    return !constant->variesAlong(dim);
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  return broadcast && !llvm::is_contained(broadcast.getDims(), dim);
}

/// A table with a row a place, the same for all samples: each token takes the row of its position.
LogicalResult Separation::lookUp(OpOperand &operand, int64_t dim) {
  auto broadcast = operand.get().getDefiningOp<BroadcastOp>();
  Value table = broadcast ? broadcast.getOperand() : Value();
  bool isTable = table && typeOf(table).getRank() == 2 && broadcast.getDims()[0] == 1 && dim == 1 &&
                 typeOf(operand.get()).getRank() == 3 && broadcast.getDims()[1] == 2 &&
                 typeOf(operand.get()).getDimSize(0) == samples && isa<FloatType>(typeOf(table).getElementType());
  if (!isTable)
    return operand.getOwner()->emitOpError("takes operand ")
           << operand.getOperandNumber() << " of type " << operand.get().getType()
           << ", which tells places of a sequence apart; expected a table with a row a place, as learned positions "
              "are: "
              "--separate-documents counts positions from where a document begins";
  if (auto slice = table.getDefiningOp<SliceOp>();
      slice && llvm::all_of(slice.getOffsets(), [](int64_t offset) { return offset == 0; }) &&
      llvm::all_of(slice.getStrides(), [](int64_t stride) { return stride == 1; }))
    table = slice.getOperand();
  Value position = positions();
  builder.setInsertionPoint(broadcast);
  Value rows = make<EmbeddingOp>(getIdPath(broadcast), broadcast.getType(), position, table, Value(), IntegerAttr());
  operand.set(rows);
  places[rows] = {"b", "s", ""};
  return success();
}

/// An operand that is followed by nobody must not tell tokens of one sequence apart.
LogicalResult Separation::checkOperands(Operation *op, const ShardingRule &rule, ArrayRef<std::string> roles) {
  // Scores depend on the distance of two tokens alone, which is the same wherever their document begins.
  if (isa<RopeOp>(op))
    return success();
  for (auto [operand, factors] : llvm::zip_equal(op->getOpOperands(), rule.operands)) {
    if (places.contains(operand.get()))
      continue;
    for (auto [dim, ofDim] : llvm::enumerate(factors)) {
      bool goesThroughTokens = llvm::any_of(ofDim, [&](int factor) { return StringRef(roles[factor]).contains('s'); });
      int64_t at = static_cast<int64_t>(dim);
      if (goesThroughTokens && !isAlikeAlong(operand.get(), at) && failed(lookUp(operand, at)))
        return failure();
    }
  }
  return success();
}

LogicalResult Separation::follow(Operation *op) {
  bool isOfTokens = llvm::any_of(op->getOperands(), [&](Value operand) {
    auto place = places.find(operand);
    return place != places.end() && hasTokens(place->second);
  });
  if (!isOfTokens || isa<ReturnOp>(op))
    return success();
  ShardingRule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
  auto attention = dyn_cast<AttentionOp>(op);
  if (attention && failed(mask(attention)))
    return failure();
  SmallVector<std::string> roles;
  if (!attention && (failed(rolesOfFactors(op, rule, roles)) || failed(checkOperands(op, rule, roles))))
    return failure();
  if (attention) {
    places[attention.getResult()] = {"b", "s", "", ""};
    places[attention.getLse()] = {"b", "", "s"};
    return success();
  }
  for (auto [index, factor] : llvm::enumerate(rule.factors)) {
    if (!StringRef(roles[index]).contains('s'))
      continue;
    bool stays = llvm::all_of(rule.results, [&, factor = static_cast<int>(index)](const TensorFactors &dims) {
      return llvm::any_of(dims, [&](const DimFactors &ofDim) { return llvm::is_contained(ofDim, factor); });
    });
    if (factor.kind != FactorKind::parallel || !stays)
      return op->emitOpError(
          "joins tokens of one sequence, which --separate-documents cannot keep apart; what it knows "
          "is hyc.attention");
  }
  for (auto [result, factors] : llvm::zip_equal(op->getResults(), rule.results)) {
    Roles &place = places[result];
    for (const DimFactors &ofDim : factors) {
      place.emplace_back();
      for (int factor : ofDim)
        place.back() += roles[factor];
    }
  }
  return success();
}

LogicalResult Separation::run() {
  if (failed(findTokens()))
    return failure();
  for (Operation &op : llvm::make_early_inc_range(entry.getBody().front()))
    if (failed(follow(&op)))
      return failure();
  if (apart)
    return success();
  return entry.emitError(
      "--separate-documents wants a model with attention, expected hyc.attention among its ops; what is "
      "written out otherwise cannot be masked");
}

struct SeparateDocuments : hyc::impl::SeparateDocumentsBase<SeparateDocuments> {
  void runOnOperation() override {
    auto entry = getOperation().lookupSymbol<FuncOp>(kTrain);
    if (!entry)
      return;
    for (unsigned index = 0, e = entry.getNumArguments(); index < e; ++index)
      if (auto name = entry.getArgAttrOfType<StringAttr>(index, kInput); name && name.getValue() == kPositions)
        return; // the model tells them apart by itself
    OpIds ids(getOperation());
    if (failed(Separation(entry, ids).run()))
      signalPassFailure();
  }
};
} // namespace
