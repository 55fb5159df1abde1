// All ranks of a mesh: their states, and taking turns.
#include "hyc/Interpreter/MeshInterpreter.h"

#include "Initializers.h"
#include "RankProcess.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

namespace {
/// How a param or state is spread.
struct Layout {
  Operation *op = nullptr;
  RankedTensorType wholeType;
  dist::ShardingAttr sharding;
  SmallVector<int64_t> holders; ///< world ranks
};
} // namespace

struct MeshInterpreter::Impl {
  Impl(ModuleOp module, Options options, Topology topology)
      : module(module), options(std::move(options)), topology(std::move(topology)) {}

  LogicalResult distribute(const Layout &layout, StringRef symbol, const Tensor &whole);
  FailureOr<Tensor> gather(const Layout &layout, StringRef symbol) const;
  FailureOr<StepResult> readResult() const;
  LogicalResult takeTurns(MutableArrayRef<RankProcess> ranks);

  ModuleOp module;
  Options options;
  Topology topology;
  SmallVector<StageProgram> programs;
  std::vector<Device> devices;
  llvm::StringMap<Layout> layouts;
};

MeshInterpreter::MeshInterpreter(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
MeshInterpreter::MeshInterpreter(MeshInterpreter &&) = default;
MeshInterpreter &MeshInterpreter::operator=(MeshInterpreter &&) = default;
MeshInterpreter::~MeshInterpreter() = default;

int64_t MeshInterpreter::getNumRanks() const { return impl->topology.getNumRanks(); }
int64_t MeshInterpreter::getNumMicroBatches() const { return impl->programs[0].numMicroBatches; }

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

static FailureOr<Layout> layoutOf(Operation *op, const Topology &topology) {
  Layout layout;
  layout.op = op;
  auto param = dyn_cast<ParamOp>(op);
  layout.wholeType = param ? param.getWholeType() : cast<StateOp>(op).getWholeType();
  layout.sharding = op->getAttrOfType<dist::ShardingAttr>(dist::kSharding);
  if (!layout.sharding)
    layout.sharding = dist::ShardingAttr::replicated(op->getContext(), layout.wholeType.getRank());
  if (layout.sharding.getDims().size() != static_cast<size_t>(layout.wholeType.getRank()))
    return op->emitError("sharding ") << layout.sharding << " does not fit " << layout.wholeType, failure();
  if (!layout.sharding.getFlat().empty())
    return op->emitError("the interpreter does not cut flattened tensors: ") << layout.sharding, failure();
  for (dist::AxisListAttr list : layout.sharding.getDims())
    for (StringAttr axis : list.getAxes())
      if (!topology.hasAxis(axis))
        return op->emitError("sharding ") << layout.sharding << " names axis " << axis << ", which the mesh lacks",
               failure();
  auto stages = op->getAttrOfType<DenseI64ArrayAttr>(dist::kStages);
  for (int64_t rank = 0; rank < topology.getNumRanks(); ++rank)
    if (!stages || llvm::is_contained(stages.asArrayRef(), topology.getStage(rank)))
      layout.holders.push_back(rank);
  return layout;
}

LogicalResult MeshInterpreter::Impl::distribute(const Layout &layout, StringRef symbol, const Tensor &whole) {
  auto param = dyn_cast<ParamOp>(layout.op);
  RankedTensorType localType = param ? param.getTensorType() : cast<StateOp>(layout.op).getTensorType();
  for (int64_t rank : layout.holders) {
    Tensor local = topology.cut(whole, layout.sharding, rank);
    if (local.getShape() != localType.getShape())
      return layout.op->emitError("one rank holds ")
             << local.describeType() << " of " << layout.wholeType << " by its sharding, but the type is " << localType;
    devices[rank].states[symbol] = local;
  }
  return success();
}

/// Whether everything outside the first `sizes` elements of each dimension is zero.
static bool isPaddingZero(const Tensor &local, ArrayRef<int64_t> sizes) {
  SmallVector<int64_t> origin(sizes.size(), 0), ones(sizes.size(), 1);
  Tensor onlyPadding = local;
  onlyPadding.insert(Tensor(local.getKind(), sizes), origin, ones);
  for (int64_t i = 0; i < onlyPadding.getNumElements(); ++i)
    if (onlyPadding.getDouble(i) != 0)
      return false;
  return true;
}

FailureOr<Tensor> MeshInterpreter::Impl::gather(const Layout &layout, StringRef symbol) const {
  ElementKind kind = *elementKind(layout.wholeType.getElementType(), options.arithmetic);
  Tensor whole(kind, layout.wholeType.getShape());
  SmallVector<int64_t> ones(layout.wholeType.getRank(), 1), origin(layout.wholeType.getRank(), 0);
  std::map<std::vector<int64_t>, int64_t> firstHolder; // of each shard, by its offsets
  for (int64_t rank : layout.holders) {
    const Tensor &local = devices[rank].states.find(symbol)->second;
    SmallVector<int64_t> offsets, sizes;
    topology.locate(layout.wholeType.getShape(), layout.sharding, rank, offsets, sizes);
    if (!isPaddingZero(local, sizes))
      return layout.op->emitError("the padding of @") << symbol << " on " << topology.describe(rank) << " is not zero",
             failure();
    auto [entry, isFirst] = firstHolder.try_emplace({offsets.begin(), offsets.end()}, rank);
    if (isFirst)
      whole.insert(local.sliced(origin, ones, sizes), offsets, ones);
    else if (!local.isIdenticalTo(devices[entry->second].states.find(symbol)->second))
      return layout.op->emitError(topology.describe(entry->second) + " and " + topology.describe(rank))
                 << " hold different values of @" << symbol,
             failure();
  }
  return whole;
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

FailureOr<MeshInterpreter> MeshInterpreter::create(ModuleOp module, const Options &options) {
  dist::MeshOp mesh = dist::MeshOp::find(module);
  if (!mesh)
    return module.emitError("the module has no dist.mesh"), failure();
  FailureOr<Topology> topology = Topology::create(mesh);
  if (failed(topology))
    return failure();
  auto impl = std::make_unique<Impl>(module, options, *topology);
  FailureOr<SmallVector<StageProgram>> programs = findStagePrograms(module, mesh);
  if (failed(programs))
    return failure();
  impl->programs = std::move(*programs);
  for (int64_t rank = 0; rank < topology->getNumRanks(); ++rank)
    impl->devices.push_back({options, {}, {}, topology->getAxes(rank)});
  for (Operation &op : module.getOps()) {
    if (!isa<ParamOp, StateOp>(op))
      continue;
    StringRef symbol = cast<SymbolOpInterface>(op).getName();
    FailureOr<Layout> layout = layoutOf(&op, *topology);
    FailureOr<Tensor> whole = succeeded(layout) ? initialValue(&op, options) : FailureOr<Tensor>();
    if (failed(whole) || failed(impl->distribute(*layout, symbol, *whole)))
      return failure();
    impl->layouts[symbol] = std::move(*layout);
  }
  return MeshInterpreter(std::move(impl));
}

FailureOr<Tensor> MeshInterpreter::gatherState(StringRef symbol) const {
  auto layout = impl->layouts.find(symbol);
  if (layout == impl->layouts.end())
    return impl->module.emitError("the module has no param or state @") << symbol, failure();
  return impl->gather(layout->second, symbol);
}

LogicalResult MeshInterpreter::setState(StringRef symbol, const Tensor &whole) {
  auto layout = impl->layouts.find(symbol);
  if (layout == impl->layouts.end())
    return impl->module.emitError("the module has no param or state @") << symbol;
  RankedTensorType type = layout->second.wholeType;
  ElementKind kind = *elementKind(type.getElementType(), impl->options.arithmetic);
  if (!whole || whole.getShape() != type.getShape() || isFloat(whole.getKind()) != isFloat(kind))
    return impl->module.emitError("@") << symbol << " is " << type << ", but is given "
                                       << (whole ? whole.describeType() : "nothing");
  return impl->distribute(layout->second, symbol, whole.converted(kind));
}

const Tensor *MeshInterpreter::getLocalState(int64_t worldRank, StringRef symbol) const {
  if (worldRank < 0 || worldRank >= getNumRanks())
    return nullptr;
  auto entry = impl->devices[worldRank].states.find(symbol);
  return entry == impl->devices[worldRank].states.end() ? nullptr : &entry->second;
}

//===----------------------------------------------------------------------===//
// A step
//===----------------------------------------------------------------------===//

/// Runs every rank to its end, or fails after a diagnostic.
LogicalResult MeshInterpreter::Impl::takeTurns(MutableArrayRef<RankProcess> ranks) {
  for (bool progress = true; progress;) {
    progress = false;
    bool allFinished = true;
    for (RankProcess &rank : ranks) {
      if (rank.isFinished())
        continue;
      RankProcess::Outcome outcome = rank.advance();
      if (outcome == RankProcess::Outcome::Failed)
        return failure();
      progress |= outcome != RankProcess::Outcome::Waits;
      allFinished &= outcome == RankProcess::Outcome::Finished;
    }
    if (allFinished)
      return success();
  }
  InFlightDiagnostic error = module.emitError("deadlock: no rank can go on");
  for (RankProcess &rank : ranks)
    error.attachNote() << rank.describeWait();
  return error;
}

FailureOr<StepResult> MeshInterpreter::Impl::readResult() const {
  StepResult result;
  for (const auto &entry : layouts) {
    auto state = dyn_cast<StateOp>(entry.second.op);
    if (!state || !llvm::is_contained({"loss_sum", "token_count", "grad_norm"}, state.getRole()))
      continue;
    FailureOr<Tensor> value = gather(entry.second, entry.first());
    if (failed(value))
      return failure();
    if (state.getRole() == "loss_sum")
      result.lossSum = value->getDouble();
    else if (state.getRole() == "token_count")
      result.tokenCount = value->getInteger();
    else
      result.gradNorm = value->getDouble();
  }
  return result;
}

FailureOr<StepResult> MeshInterpreter::runStep(const NamedTensors &globalBatch, double lr) {
  CollectiveBoard collectives(impl->topology);
  TransferBoard transfers(impl->topology);
  StepContext step{impl->topology, collectives, transfers, globalBatch, lr};
  std::vector<RankProcess> ranks;
  ranks.reserve(impl->devices.size());
  for (int64_t rank = 0; rank < getNumRanks(); ++rank)
    ranks.emplace_back(impl->programs[impl->topology.getStage(rank)], impl->devices[rank], rank, step);
  if (failed(impl->takeTurns(ranks)))
    return failure();
  for (const RankProcess &rank : ranks)
    if (failed(rank.checkNothingIsLeft()))
      return failure();
  return impl->readResult();
}
