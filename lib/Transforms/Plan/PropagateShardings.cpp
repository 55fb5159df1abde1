// Carries shardings from parameters and inputs to every value, by factor classes.
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/FactorClasses.h"
#include "hyc/Analysis/OpSharding.h"
#include "hyc/Transforms/Plan/Passes.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

namespace hyc {
#define GEN_PASS_DEF_PROPAGATESHARDINGS
#include "hyc/Transforms/Plan/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;
using dist::AxisListAttr;
using dist::ShardingAttr;

namespace {
struct PropagateShardings : hyc::impl::PropagateShardingsBase<PropagateShardings> {
  using PropagateShardingsBase::PropagateShardingsBase;

  void runOnOperation() override {
    module = getOperation();
    auto func = module.lookupSymbol<FuncOp>(kMicrobatch);
    mesh = dist::MeshOp::find(module);
    if (!func || !mesh) {
      module.emitError("has no ") << (func ? "dist.mesh" : "@microbatch") << " to plan for";
      return signalPassFailure();
    }
    const auto &classes = getChildAnalysis<FactorClasses>(func);
    if (failed(collectSeeds(func, classes)) || failed(checkPadding(classes)))
      return signalPassFailure();
    shardStates();
    for (Operation &op : func.getBody().front())
      shardOp(&op, classes);
    leaveGradientsPartial(func);
  }

private:
  /// A parameter or an input whose annotation splits a dimension.
  struct Seed {
    Location where;
    std::string name; ///< `parameter "fc1.weight"`
    ShardingAttr sharding;
    int64_t dim, size;
    int cls; ///< -1 where the function does not know the dimension
    AxisListAttr axes() const { return sharding.getDims()[dim]; }
  };

  InFlightDiagnostic emitSeedError(const Seed &seed) {
    return emitError(seed.where, seed.name)
           << " has sharding " << seed.sharding << ", which splits dim " << seed.dim << " over " << seed.axes();
  }

  /// Where a dimension of a parameter or an input belongs; -1 where the function does not know it.
  struct Index {
    int cls, strand;
  };

  /// What else splits the index of `seed` otherwise, if anything does. Of a class's strands one may be split further
  /// than another.
  const Seed *findContradiction(const Seed &seed, Index index) {
    auto begins = [](AxisListAttr axes, AxisListAttr with) {
      return axes.getAxes().take_front(with.getAxes().size()) == with.getAxes();
    };
    auto [ofStrand, isFirstOfStrand] = seeds.try_emplace(index.strand, seed);
    auto [ofClass, isFirst] = classSeeds.try_emplace(index.cls, seed);
    if (!isFirstOfStrand && ofStrand->second.axes() != seed.axes())
      return &ofStrand->second;
    AxisListAttr known = ofClass->second.axes();
    return begins(known, seed.axes()) || begins(seed.axes(), known) ? nullptr : &ofClass->second;
  }

  /// Enters the axes that a parameter's or input's annotation gives to the classes of its dimensions.
  LogicalResult addSeeds(Location where, const std::string &name, RankedTensorType type, ShardingAttr sharding,
                         llvm::function_ref<Index(int64_t)> indexOf, bool isInput) {
    if (static_cast<int64_t>(sharding.getDims().size()) != type.getRank())
      return emitError(where, name) << " has sharding " << sharding << ", expected one axis list for each dimension of "
                                    << type;
    if (!sharding.getPartial().empty() || !sharding.getPartialMax().empty())
      return emitError(where, name) << " has sharding " << sharding
                                    << ", but its value is known and no sum is open; list "
                                    << "the axes that split its dimensions only";
    for (int64_t dim = 0; dim < type.getRank(); ++dim) {
      Index index = indexOf(dim);
      Seed seed{where, name, sharding, dim, type.getDimSize(dim), index.cls};
      if (seed.axes().empty())
        continue;
      for (StringAttr axis : seed.axes().getAxes())
        if (!llvm::is_contained(mesh.getAxes(), axis)) {
          InFlightDiagnostic error = emitSeedError(seed) << ", but the mesh has no axis \"" << axis.getValue() << "\"";
          error.attachNote(mesh.getLoc()) << "mesh declared here";
          return error;
        }
      if (index.cls >= 0) {
        if (isInput)
          ofInputs.insert(index.cls);
        if (const Seed *other = findContradiction(seed, index)) {
          InFlightDiagnostic error = emitSeedError(seed) << ", but the same index of the model is split over "
                                                         << other->axes() << " elsewhere; give both the same axes, "
                                                         << "or leave one of them whole";
          error.attachNote(other->where) << other->name << " has sharding " << other->sharding << ", whose dim "
                                         << other->dim << " is that index";
          return error;
        }
      } else if (failed(checkShards(seed, seed.size, /*paddingReaches=*/nullptr))) {
        return failure();
      }
    }
    return success();
  }

  LogicalResult collectSeeds(FuncOp func, const FactorClasses &classes) {
    for (BlockArgument argument : func.getArguments()) {
      auto input = func.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kInput);
      std::string name = "input " + (input ? "\"" + input.str() + "\"" : std::to_string(argument.getArgNumber()));
      if (ShardingAttr sharding = recordedSharding(argument))
        if (failed(addSeeds(
                argument.getLoc(), name, cast<RankedTensorType>(argument.getType()), sharding,
                [&](int64_t dim) { return Index{classes.classOf(argument, dim), classes.strandOf(argument, dim)}; },
                /*isInput=*/true)))
          return failure();
    }
    for (auto param : module.getOps<ParamOp>())
      if (auto sharding = param->getAttrOfType<ShardingAttr>(dist::kSharding))
        if (failed(addSeeds(
                param.getLoc(), "parameter \"" + param.getSymName().str() + "\"", param.getWholeType(), sharding,
                [&](int64_t dim) {
                  StringAttr symbol = param.getSymNameAttr();
                  return Index{classes.classOf(symbol, dim), classes.strandOf(symbol, dim)};
                },
                /*isInput=*/false)))
          return failure();
    return success();
  }

  LogicalResult checkPadding(const FactorClasses &classes) {
    for (auto &[strand, seed] : seeds)
      if (failed(checkShards(seed, classes.getStrandSize(strand), classes.findUseOfPadding(seed.cls))))
        return failure();
    return success();
  }

  /// A split dimension either divides evenly, or its last shards are padded: with at least one real element each, over
  /// axes in the mesh's order, and only where no op (`paddingReaches`) would let the padding reach other values. `size`
  /// is what all dimensions of the seed's index are multiples of.
  LogicalResult checkShards(const Seed &seed, int64_t size, Operation *paddingReaches) {
    int64_t parts = mesh.getSize(seed.axes());
    if (size % parts == 0)
      return success();
    bool lastIsEmpty = dist::shardSize(size, parts) * (parts - 1) >= size;
    auto position = [&](StringAttr axis) { return llvm::find(mesh.getAxes(), axis) - mesh.getAxes().begin(); };
    bool inOrder =
        llvm::is_sorted(seed.axes().getAxes(), [&](StringAttr a, StringAttr b) { return position(a) < position(b); });
    if (!lastIsEmpty && inOrder && !paddingReaches)
      return success();
    InFlightDiagnostic error = emitSeedError(seed) << ", " << parts << " parts, but ";
    if (size == seed.size)
      error << "its size is " << size;
    else
      error << "reshapes make it one index with dimensions of which only " << size << " is a common divisor";
    if (lastIsEmpty)
      error << ", and the last part would be empty";
    else if (paddingReaches)
      error << ", and padding the last part would change the result";
    else
      error << ", and parts that are padded need axes in the order of the mesh, " << mesh.getAxes();
    error << "; it can be split over " << largestEvenSplit(seed.axes(), size);
    if (paddingReaches && !lastIsEmpty)
      error.attachNote(paddingReaches->getLoc()) << "\"" << getId(paddingReaches) << "\" (" << paddingReaches->getName()
                                                 << ") does not keep the padding apart";
    return error;
  }

  /// Those of `axes` that cut `size` into the most equal parts.
  AxisListAttr largestEvenSplit(AxisListAttr axes, int64_t size) {
    AxisListAttr best = AxisListAttr::get(&getContext(), {});
    for (size_t subset = 0; subset < size_t{1} << axes.getAxes().size(); ++subset) {
      SmallVector<StringAttr> chosen;
      for (auto [index, axis] : llvm::enumerate(axes.getAxes()))
        if (subset >> index & 1)
          chosen.push_back(axis);
      auto candidate = AxisListAttr::get(&getContext(), chosen);
      if (size % mesh.getSize(candidate) == 0 && mesh.getSize(candidate) > mesh.getSize(best))
        best = candidate;
    }
    return best;
  }

  /// A state is split as its parameter is; states without one are whole. What is flat is each symbol's own affair.
  void shardStates() {
    const auto &symbols = getAnalysis<SymbolTable>();
    for (auto param : module.getOps<ParamOp>())
      if (!param->hasAttr(dist::kSharding))
        param->setAttr(dist::kSharding, ShardingAttr::replicated(&getContext(), param.getWholeType().getRank()));
    for (auto state : module.getOps<StateOp>()) {
      ShardingAttr sharding = ShardingAttr::replicated(&getContext(), state.getWholeType().getRank());
      if (state.getParamAttr())
        sharding =
            symbols.lookup<ParamOp>(*state.getParam())->getAttrOfType<ShardingAttr>(dist::kSharding).withoutFlat();
      state->setAttr(dist::kSharding, sharding);
    }
  }

  /// The split that the seeds ask for. Where an axis splits an index of inputs and one of parameters that meet in this
  /// op, the parameters' wins: they lie where they lie, while activations can be exchanged. So the sequence is split
  /// between the blocks of a model whose heads and inner factors are split over the same axis inside.
  OpSharding seededSharding(Operation *op, const ShardingRule &rule, const FactorClasses &classes) {
    OpSharding sharding;
    sharding.factorAxes.resize(rule.factors.size());
    Axes taken;
    for (bool isInput : {false, true}) {
      for (auto [factor, axes] : llvm::enumerate(sharding.factorAxes)) {
        int cls = classes.classOf(op, static_cast<int>(factor));
        if (cls < 0 || ofInputs.contains(cls) != isInput)
          continue;
        axes = seededAxes(classes, cls, classes.strandOf(op, static_cast<int>(factor)));
        if (isInput)
          llvm::erase_if(axes, [&](StringAttr axis) { return llvm::is_contained(taken, axis); });
      }
      if (!isInput) {
        splitMembers(op, rule, classes, sharding);
        for (const Axes &axes : sharding.factorAxes)
          llvm::append_range(taken, axes);
      }
    }
    legalize(sharding, rule, mesh);
    return sharding;
  }

  /// The axes of a strand: those that were given for it, or those of its class as far as they divide it.
  Axes seededAxes(const FactorClasses &classes, int cls, int strand) {
    if (auto own = seeds.find(strand); own != seeds.end())
      return Axes(own->second.axes().getAxes());
    auto entry = classSeeds.find(cls);
    if (entry == classSeeds.end())
      return {};
    ArrayRef<StringAttr> axes = entry->second.axes().getAxes();
    auto divides = [&](ArrayRef<StringAttr> some) {
      return classes.getStrandSize(strand) % mesh.getSize(AxisListAttr::get(&getContext(), some)) == 0;
    };
    while (!divides(axes))
      axes = axes.drop_back();
    return Axes(axes);
  }

  /// Where a dimension has several members for each of a repeated index, and its strand is split further than that
  /// index is: the members are split over what is left.
  void splitMembers(Operation *op, const ShardingRule &rule, const FactorClasses &classes, OpSharding &sharding) {
    auto split = [&](Value value, const TensorFactors &dims) {
      for (auto [dim, factors] : llvm::enumerate(dims)) {
        if (factors.size() < 2 || classes.classOf(op, factors[1]) >= 0)
          continue;
        int64_t index = static_cast<int64_t>(dim);
        Axes axes = seededAxes(classes, classes.classOf(value, index), classes.strandOf(value, index));
        const Axes &major = sharding.factorAxes[factors[0]];
        if (axes.size() > major.size() && ArrayRef(axes).take_front(major.size()) == ArrayRef(major))
          sharding.factorAxes[factors[1]].assign(axes.begin() + static_cast<ptrdiff_t>(major.size()), axes.end());
      }
    };
    for (auto [value, dims] : llvm::zip_equal(op->getOperands(), rule.operands))
      split(value, dims);
    for (auto [value, dims] : llvm::zip_equal(op->getResults(), rule.results))
      split(value, dims);
  }

  void shardOp(Operation *op, const FactorClasses &classes) {
    if (op->getNumResults() == 0)
      return;
    SmallVector<Attribute> results;
    if (auto read = dyn_cast<ReadOp>(op)) {
      Operation *source = getAnalysis<SymbolTable>().lookup(read.getSource());
      results.push_back(source->getAttrOfType<ShardingAttr>(dist::kSharding).withoutFlat());
    } else if (const ShardingRule *rule = classes.getRule(op)) {
      OpSharding sharding = seededSharding(op, *rule, classes);
      sharding.passedPartial =
          passablePartial(op, llvm::map_to_vector(op->getOperands(), recordedSharding), sharding.factorAxes);
      for (int index = 0, e = static_cast<int>(op->getNumResults()); index < e; ++index)
        results.push_back(sharding.resultSharding(&getContext(), *rule, index));
      if (ArrayAttr split = sharding.splitAttr(&getContext()))
        op->setAttr(dist::kSplit, split);
    } else {
      for (Type type : op->getResultTypes())
        results.push_back(ShardingAttr::replicated(&getContext(), cast<RankedTensorType>(type).getRank()));
    }
    op->setAttr(dist::kShardings, ArrayAttr::get(&getContext(), results));
  }

  /// What every accumulation leaves open may stay open until the step's reduction; anything else must be closed before.
  void leaveGradientsPartial(FuncOp func) {
    llvm::MapVector<StringAttr, SmallVector<StringAttr>> open;
    llvm::DenseSet<StringAttr> ofMaxima;
    func.walk([&](AccumulateOp accumulate) {
      ShardingAttr value = recordedSharding(accumulate.getValue());
      if (accumulate.getMax())
        ofMaxima.insert(accumulate.getTargetAttr().getAttr());
      ArrayRef<StringAttr> partial = (accumulate.getMax() ? value.getPartialMax() : value.getPartial()).getAxes();
      auto [entry, inserted] = open.try_emplace(accumulate.getTargetAttr().getAttr(), partial);
      if (!inserted)
        llvm::erase_if(entry->second, [&](StringAttr axis) { return !llvm::is_contained(partial, axis); });
    });
    for (auto &[symbol, axes] : open) {
      Operation *state = getAnalysis<SymbolTable>().lookup(symbol);
      auto sharding = state->getAttrOfType<ShardingAttr>(dist::kSharding);
      llvm::erase_if(axes, [&](StringAttr axis) { return sharding.splits(axis); });
      auto none = AxisListAttr::get(&getContext(), {}), left = AxisListAttr::get(&getContext(), axes);
      bool isMaximum = ofMaxima.contains(symbol);
      state->setAttr(dist::kSharding, ShardingAttr::get(&getContext(), sharding.getDims(), isMaximum ? none : left,
                                                        isMaximum ? left : none, none));
    }
  }

  ModuleOp module;
  dist::MeshOp mesh;
  llvm::MapVector<int, Seed> seeds;      ///< what splits each strand, in the order of arguments and parameters
  llvm::MapVector<int, Seed> classSeeds; ///< what splits the first strand of each class that is split
  llvm::DenseSet<int> ofInputs;          ///< classes that an input's annotation splits
};
} // namespace
