// Chooses what is split: the batch over the axes that the mesh has for it, structural classes of factors over those
// that it has for these.
#include "TensorPlan.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/Adapters.h"
#include "hyc/Analysis/FactorClasses.h"
#include "hyc/Transforms/Plan/Passes.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"

namespace hyc {
#define GEN_PASS_DEF_SEEDSHARDINGS
#include "hyc/Transforms/Plan/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

/// As the user knows it: input "x".
static std::string describeInput(FuncOp func, unsigned index) {
  auto name = func.getArgAttrOfType<StringAttr>(index, kInput);
  return name ? "input \"" + name.str() + "\"" : "argument " + std::to_string(index);
}

namespace {

/// Why a class may be split over the tensor axes, in order of preference.
enum class SeedKind { heads, writtenHeads, inner, experts, vocabulary };

struct Candidate {
  SeedKind kind;
  int cls;
  size_t uses;
};

bool isForward(Operation *op) { return !isBackward(op); }

/// Whether a product keeps the index of both of its operands: many products at once, as of attention that is written
/// out. Split, none of them needs another's part, while its other indices are summed over or met by later ones.
bool isKeptByProduct(const FactorClasses &classes, const FactorClasses::Occurrence &occurrence) {
  if (!isa<EinsumOp>(occurrence.op))
    return false;
  const ShardingRule &rule = *classes.getRule(occurrence.op);
  auto has = [&](const TensorFactors &dims) {
    return llvm::any_of(dims,
                        [&](const DimFactors &factors) { return llvm::is_contained(factors, occurrence.factor); });
  };
  return llvm::all_of(rule.operands, has) && has(rule.results[0]);
}

/// Whether the index counts the experts of a product: matrices have it, and neither rows nor results do.
bool isExpertOfProduct(const FactorClasses &classes, const FactorClasses::Occurrence &occurrence) {
  return isa<ExpertMatmulOp>(occurrence.op) &&
         llvm::is_contained(classes.getRule(occurrence.op)->operands[1][0], occurrence.factor);
}

/// Whether an op only measures: a maximum that a state takes up can stay open until the step ends.
bool onlyMeasures(Operation *op) {
  return isa<ReduceOp>(op) && llvm::all_of(op->getUsers(), [](Operation *user) {
           auto accumulate = dyn_cast<AccumulateOp>(user);
           return accumulate && accumulate.getMax();
         });
}

/// The kind of seed that `cls` is by its uses in the forward ops, if any.
std::optional<SeedKind> seedKind(const FactorClasses &classes, int cls) {
  bool heads = false, vocabulary = false, produced = false, contracted = false, kept = false, experts = false;
  for (const FactorClasses::Occurrence &occurrence : classes.getOccurrences(cls)) {
    if (occurrence.kind == FactorKind::max && onlyMeasures(occurrence.op))
      continue;
    if (occurrence.kind == FactorKind::replicated || occurrence.kind == FactorKind::max)
      return std::nullopt;
    if (!isForward(occurrence.op))
      continue;
    bool isSum = occurrence.kind == FactorKind::sum;
    heads |= isa<AttentionOp>(occurrence.op);
    vocabulary |= isSum && isa<EmbeddingOp>(occurrence.op);
    vocabulary |= isa<CrossEntropyOp>(occurrence.op) && occurrence.kind == FactorKind::exchanged;
    experts |= isExpertOfProduct(classes, occurrence);
    produced |= isa<EinsumOp, ExpertMatmulOp>(occurrence.op) && !isSum;
    contracted |= isa<EinsumOp, ExpertMatmulOp>(occurrence.op) && isSum && !experts;
    kept |= isKeptByProduct(classes, occurrence);
  }
  if (heads)
    return SeedKind::heads;
  if (vocabulary)
    return SeedKind::vocabulary;
  if (experts)
    return SeedKind::experts;
  if (!produced || !contracted)
    return std::nullopt;
  return kept ? SeedKind::writtenHeads : SeedKind::inner;
}

/// `axis "tp"`, `axes "hosts", "local"`.
std::string describe(dist::AxisListAttr axes) {
  std::string text = axes.getAxes().size() == 1 ? "axis " : "axes ";
  for (auto [i, axis] : llvm::enumerate(axes.getAxes()))
    text += (i ? ", \"" : "\"") + axis.getValue().str() + "\"";
  return text;
}

struct SeedShardings : hyc::impl::SeedShardingsBase<SeedShardings> {
  using SeedShardingsBase::SeedShardingsBase;

  void runOnOperation() override {
    module = getOperation();
    auto func = module.lookupSymbol<FuncOp>(kMicrobatch);
    dist::MeshOp mesh = dist::MeshOp::find(module);
    if (!func || !mesh) {
      module.emitError("has no ") << (func ? "dist.mesh" : "@microbatch") << " to plan for";
      return signalPassFailure();
    }
    tensor = mesh.getTensorAxes();
    // What it annotates are parameters and arguments: ops, and so their classes, stay as they are.
    const auto &classes = getChildAnalysis<FactorClasses>(func);
    markAnalysesPreserved<FactorClasses>();
    findGivenSplits(func, classes);
    if (failed(seedBatch(func, mesh, classes)) || failed(chooseTensorParallel(func, mesh, classes)) ||
        (sequenceParallel && failed(chooseSequence(func, mesh, classes))))
      return signalPassFailure();
    annotateParams(classes, mesh);
  }

private:
  /// What somebody has decided already. Classes are split as a whole, so seeds go around these; but what inputs split
  /// yields, op by op, to what parameters do.
  void findGivenSplits(FuncOp func, const FactorClasses &classes) {
    auto add = [&](dist::ShardingAttr sharding, bool isInput, llvm::function_ref<int(int64_t)> classOf) {
      if (sharding)
        for (auto [dim, axes] : llvm::enumerate(sharding.getDims()))
          if (int cls = classOf(static_cast<int64_t>(dim)); cls >= 0 && !axes.empty()) {
            given.try_emplace(cls, axes);
            if (isInput)
              ofInputs.insert(cls);
          }
    };
    for (BlockArgument argument : func.getArguments())
      add(func.getArgAttrOfType<dist::ShardingAttr>(argument.getArgNumber(), dist::kSharding), true,
          [&](int64_t dim) { return classes.classOf(argument, dim); });
    for (auto param : module.getOps<ParamOp>())
      add(param->getAttrOfType<dist::ShardingAttr>(dist::kSharding), false,
          [&](int64_t dim) { return classes.classOf(param.getSymNameAttr(), dim); });
  }

  /// The samples of every input over the batch's axes.
  LogicalResult seedBatch(FuncOp func, dist::MeshOp mesh, const FactorClasses &classes) {
    dist::AxisListAttr batch = mesh.getBatchAxes();
    int64_t ranks = mesh.getSize(batch);
    for (BlockArgument argument : func.getArguments()) {
      unsigned index = argument.getArgNumber();
      auto type = cast<RankedTensorType>(argument.getType());
      if (func.getArgAttr(index, dist::kSharding))
        continue;
      SmallVector<SmallVector<StringAttr>> dims(type.getRank());
      if (type.getRank() > 0 && ranks > 1) {
        if (type.getDimSize(0) % ranks != 0)
          return func.emitError("argument ")
                 << index << " has " << type.getDimSize(0) << " samples, expected a multiple of " << ranks
                 << ", the size of " << describe(batch);
        auto known = given.find(classes.classOf(argument, 0));
        llvm::append_range(dims[0], (known == given.end() ? batch : known->second).getAxes());
        batchClasses.insert(classes.classOf(argument, 0));
      }
      func.setArgAttr(index, dist::kSharding, dist::ShardingAttr::get(&getContext(), dims));
    }
    return success();
  }

  LogicalResult chooseTensorParallel(FuncOp func, dist::MeshOp mesh, const FactorClasses &classes) {
    int64_t ranks = mesh.getSize(tensor);
    if (ranks == 1)
      return success();
    FailureOr<TensorPlan> plan = TensorPlan::read(module, classes);
    if (failed(plan) || failed(choosePublished(classes, *plan, mesh)))
      return failure();
    for (const Candidate &candidate : findCandidates(func, classes)) {
      if (plan->keepsWhole(candidate.cls) || chosen.contains(candidate.cls) || meetsChosen(classes, candidate.cls))
        continue;
      int64_t size = classes.getSize(candidate.cls);
      if (size % ranks != 0 && !canRepeat(classes, candidate.cls, mesh)) {
        if (candidate.kind == SeedKind::heads)
          return refuseHeads(classes, candidate.cls, ranks);
        bool lastIsNotEmpty = dist::shardSize(size, ranks) * (ranks - 1) < size;
        if (!lastIsNotEmpty || !classes.preservesZeros(candidate.cls))
          continue;
      }
      chosen.insert(candidate.cls);
      ++splitClasses;
    }
    bool isUsed = llvm::any_of(given, [&](const auto &entry) { return usesTensorAxes(entry.second); });
    if (chosen.empty() && !isUsed)
      func.emitWarning(describe(tensor) + " of size ")
          << ranks
          << " splits nothing: no heads, inner factor or vocabulary of this model can be divided by it, so its ranks "
             "repeat each other's work";
    return success();
  }

  /// What the model's authors split. Where the plan file already splits a class, or a class that meets it, that goes
  /// first.
  LogicalResult choosePublished(const FactorClasses &classes, const TensorPlan &plan, dist::MeshOp mesh) {
    int64_t ranks = mesh.getSize(tensor);
    for (const TensorPlan::Split &split : plan.getSplits()) {
      if (chosen.contains(split.cls) || given.contains(split.cls) || meetsChosen(classes, split.cls))
        continue;
      if (int64_t size = classes.getSize(split.cls); size % ranks != 0 && !canRepeat(classes, split.cls, mesh))
        return split.param->emitError("is split by its model's tensor plan (\"")
               << split.entry << "\"), but " << size << " is no multiple of " << ranks << ", the size of "
               << describe(tensor) << "; choose another --tp, or remove base_model_tp_plan from the config";
      chosen.insert(split.cls);
      ++splitClasses;
    }
    return success();
  }

  /// The leading tensor axes that cut `size` into equal parts.
  ArrayRef<StringAttr> axesThatDivide(int64_t size, dist::MeshOp mesh) {
    ArrayRef<StringAttr> axes = tensor.getAxes();
    while (size % mesh.getSize(dist::AxisListAttr::get(&getContext(), axes)) != 0)
      axes = axes.drop_back();
    return axes;
  }

  /// Whether the heads of a class can be split further than its key heads: each of these is then on several ranks, and
  /// alone there, so that the query heads of a rank, which follow one another, are all of its group.
  bool canRepeat(const FactorClasses &classes, int cls, dist::MeshOp mesh) {
    bool isGrouped = false;
    for (const FactorClasses::Occurrence &occurrence : classes.getOccurrences(cls)) {
      auto attention = dyn_cast<AttentionOp>(occurrence.op);
      if (!attention)
        continue;
      int64_t ranks = mesh.getSize(tensor), keyHeads = headsOf(attention.getK());
      int64_t parts = mesh.getSize(dist::AxisListAttr::get(&getContext(), axesThatDivide(keyHeads, mesh)));
      if (headsOf(attention.getQ()) % ranks != 0 || (parts != ranks && parts != keyHeads))
        return false;
      isGrouped = true;
    }
    return isGrouped;
  }

  static int64_t headsOf(Value value) { return cast<RankedTensorType>(value.getType()).getDimSize(2); }

  StringRef shortName() {
    return tensor.getAxes().size() == 1 ? tensor.getAxes()[0].getValue() : StringRef("the tensor axes");
  }

  bool usesTensorAxes(dist::AxisListAttr axes) {
    return llvm::any_of(tensor.getAxes(), [&](StringAttr axis) { return axes.contains(axis); });
  }
  bool splitsOverTensorAxes(dist::ShardingAttr sharding) {
    return llvm::any_of(tensor.getAxes(), [&](StringAttr axis) { return sharding.splits(axis); });
  }

  /// Sequence parallelism: dimension 1 of the inputs over the tensor axes, too, wherever these are free.
  LogicalResult chooseSequence(FuncOp func, dist::MeshOp mesh, const FactorClasses &classes) {
    int64_t ranks = mesh.getSize(tensor);
    bool found = ranks == 1;
    for (BlockArgument argument : func.getArguments()) {
      auto type = cast<RankedTensorType>(argument.getType());
      unsigned index = argument.getArgNumber();
      if (func.getArgAttr(index, kStreams)) // keys of samples have no sequence
        continue;
      int cls = type.getRank() < 2 || ranks == 1 ? -1 : classes.classOf(argument, 1);
      if (cls < 0 || chosen.contains(cls) || batchClasses.contains(cls))
        continue;
      auto sharding = func.getArgAttrOfType<dist::ShardingAttr>(index, dist::kSharding);
      found |= splitsOverTensorAxes(sharding);
      if (splitsOverTensorAxes(sharding) || !sharding.getDims()[1].empty() || given.contains(cls))
        continue;
      if (int64_t size = classes.getSize(cls); size % ranks != 0)
        return func.emitError("sequence parallelism splits dim 1 of ")
               << describeInput(func, index) << " over " << describe(tensor) << " of size " << ranks
               << ", but its size is " << type.getDimSize(1)
               << (size == type.getDimSize(1) ? "" : ", reshaped to dimensions that do not divide alike")
               << ", expected a multiple";
      found = true;
      sequence.insert(cls);
      SmallVector<SmallVector<StringAttr>> dims = llvm::map_to_vector(
          sharding.getDims(), [](dist::AxisListAttr axes) { return SmallVector<StringAttr>(axes.getAxes()); });
      llvm::append_range(dims[1], tensor.getAxes());
      func.setArgAttr(index, dist::kSharding, dist::ShardingAttr::get(&getContext(), dims));
    }
    if (!found)
      func.emitWarning("sequence parallelism splits nothing: no input has a dimension 1 that ")
          << shortName() << " could split";
    return success();
  }

  SmallVector<Candidate> findCandidates(FuncOp func, const FactorClasses &classes) {
    llvm::DenseSet<int> ofInputs, ofParams;
    for (BlockArgument argument : func.getArguments())
      for (int64_t dim = 0, e = cast<RankedTensorType>(argument.getType()).getRank(); dim < e; ++dim)
        ofInputs.insert(classes.classOf(argument, dim));
    for (auto param : module.getOps<ParamOp>())
      for (int64_t dim = 0, e = param->hasAttr(dist::kSharding) ? 0 : param.getWholeType().getRank(); dim < e; ++dim)
        ofParams.insert(classes.classOf(param.getSymNameAttr(), dim));
    llvm::DenseSet<int> ranks; // of adapters: what is split is what they stand between
    for (auto param : module.getOps<ParamOp>())
      if (std::optional<int64_t> dim = adapterRankDim(param))
        ranks.insert(classes.classOf(param.getSymNameAttr(), *dim));
    SmallVector<Candidate> candidates;
    for (int cls : classes.getClasses())
      if (ofParams.contains(cls) && !ofInputs.contains(cls) && !ranks.contains(cls) && !batchClasses.contains(cls) &&
          !given.contains(cls))
        if (std::optional<SeedKind> kind = seedKind(classes, cls))
          candidates.push_back({*kind, cls, classes.getOccurrences(cls).size()});
    llvm::stable_sort(candidates, [](const Candidate &a, const Candidate &b) {
      return std::tie(a.kind, a.uses, a.cls) < std::tie(b.kind, b.uses, b.cls);
    });
    return candidates;
  }

  /// Whether some op has both `cls` and a class that is split already: one axis cannot split two factors of an op.
  bool meetsChosen(const FactorClasses &classes, int cls) {
    return llvm::any_of(classes.getOccurrences(cls), [&](const FactorClasses::Occurrence &occurrence) {
      for (int factor = 0, e = static_cast<int>(classes.getRule(occurrence.op)->factors.size()); factor < e; ++factor) {
        int other = classes.classOf(occurrence.op, factor);
        if (other == cls ? factor != occurrence.factor : chosen.contains(other) || isGivenToTensorAxes(other))
          return true;
      }
      return false;
    });
  }

  bool isGivenToTensorAxes(int cls) {
    auto entry = given.find(cls);
    return entry != given.end() && !ofInputs.contains(cls) && usesTensorAxes(entry->second);
  }

  LogicalResult refuseHeads(const FactorClasses &classes, int cls, int64_t ranks) {
    int64_t heads = classes.getSize(cls);
    Operation *attention = nullptr;
    for (const FactorClasses::Occurrence &occurrence : classes.getOccurrences(cls))
      if (isa<AttentionOp>(occurrence.op) && !attention)
        attention = occurrence.op;
    auto op = cast<AttentionOp>(attention);
    int64_t keyHeads = headsOf(op.getK()), queryHeads = headsOf(op.getQ());
    bool isGrouped = queryHeads != keyHeads;
    SmallVector<int64_t> divisors;
    for (int64_t d = 1; d <= queryHeads; ++d)
      if (heads % d == 0 || (isGrouped && d % keyHeads == 0 && queryHeads % d == 0))
        divisors.push_back(d);
    InFlightDiagnostic diagnostic = attention->emitError("attention");
    if (!getId(attention).empty())
      diagnostic << " \"" << getId(attention) << "\"";
    if (isGrouped)
      diagnostic << " has " << queryHeads << " heads on " << keyHeads << " key heads, expected multiples of " << ranks
                 << ", the size of " << describe(tensor) << ", or key heads that divide it";
    else
      diagnostic << " has " << heads << " heads, expected a multiple of " << ranks << ", the size of "
                 << describe(tensor);
    return diagnostic << "; " << shortName() << " can be one of [" << divisors << "]";
  }

  void annotateParams(const FactorClasses &classes, dist::MeshOp mesh) {
    for (auto param : module.getOps<ParamOp>()) {
      if (param->hasAttr(dist::kSharding))
        continue;
      SmallVector<SmallVector<StringAttr>> dims(param.getWholeType().getRank());
      for (auto [dim, axes] : llvm::enumerate(dims)) {
        int cls = classes.classOf(param.getSymNameAttr(), dim);
        if (cls < 0 || !chosen.contains(cls))
          continue;
        int64_t size = classes.getStrandSize(classes.strandOf(param.getSymNameAttr(), dim));
        llvm::append_range(axes, canRepeat(classes, cls, mesh) ? axesThatDivide(size, mesh) : tensor.getAxes());
      }
      // A table of positions has the sequence, and maybe nothing else that is split.
      bool isFree = llvm::all_of(dims, [](ArrayRef<StringAttr> axes) { return axes.empty(); });
      for (auto [dim, axes] : llvm::enumerate(dims))
        if (isFree && sequence.contains(classes.classOf(param.getSymNameAttr(), dim))) {
          llvm::append_range(axes, tensor.getAxes());
          break;
        }
      param->setAttr(dist::kSharding, dist::ShardingAttr::get(&getContext(), dims));
    }
  }

  ModuleOp module;
  dist::AxisListAttr tensor;                     ///< the axes that structural classes are split over
  llvm::DenseMap<int, dist::AxisListAttr> given; ///< classes that annotations split already
  llvm::DenseSet<int> batchClasses;
  llvm::DenseSet<int> ofInputs, sequence; ///< classes that given inputs split; that sequence parallelism does
  llvm::SetVector<int> chosen;
};
} // namespace
