// All ranks of a mesh: their states, and taking turns.
#include "hyc/Interpreter/MeshInterpreter.h"

#include "Mesh/RankProcess.h"
#include "Mesh/StateAssembly.h"
#include "Mesh/Turns.h"
#include "Values/Initializers.h"
#include "dialects/Dist/Placement.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

namespace {
/// How a param or state is spread.
struct Layout {
  Operation *op = nullptr;
  RankedTensorType wholeType;
  dist::ShardingAttr sharding;
  dist::AxisListAttr owned;     ///< stored whole, but only the rank's own flat shard counts; may be null
  SmallVector<int64_t> holders; ///< world ranks
};
} // namespace

struct MeshInterpreter::Impl {
  Impl(ModuleOp module, Options options, Topology topology)
      : module(module), options(std::move(options)), topology(std::move(topology)) {}

  LogicalResult distribute(const Layout &layout, StringRef symbol, const Tensor &whole);
  FailureOr<Tensor> gather(const Layout &layout, StringRef symbol) const;
  FailureOr<StepResult> readResult() const;

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
  layout.owned = op->getAttrOfType<dist::AxisListAttr>(dist::kOwned);
  SmallVector<dist::AxisListAttr> lists(layout.sharding.getDims());
  lists.push_back(layout.sharding.getFlat());
  if (layout.owned)
    lists.push_back(layout.owned);
  for (dist::AxisListAttr list : lists)
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

FailureOr<Tensor> MeshInterpreter::Impl::gather(const Layout &layout, StringRef symbol) const {
  dist::MeshOp mesh = dist::MeshOp::find(module);
  ArrayRef<int64_t> whole = layout.wholeType.getShape();
  StateAssembly assembly(topology, {SmallVector<int64_t>(whole), dist::localShape(whole, layout.sharding, mesh),
                                    layout.sharding, layout.owned});
  auto emitError = [&] { return layout.op->emitError("@") << symbol << ": "; };
  for (int64_t rank : layout.holders) {
    const Tensor &held = devices[rank].states.find(symbol)->second;
    HeldPart part = assembly.partOf(rank);
    Tensor flat = held.reshaped({held.getNumElements()});
    if (failed(assembly.add(rank, flat.window(0, part.storedAt, part.count), emitError)))
      return failure();
    // What a flat shard has beyond the tensor's end.
    for (int64_t i = part.storedAt + part.count; !layout.sharding.getFlat().empty() && i < flat.getNumElements(); ++i)
      if (flat.getDouble(i) != 0)
        return emitError() << "the padding of the shard on " << topology.describe(rank) << " is not zero", failure();
  }
  if (std::optional<int64_t> rank = assembly.findFilledPadding())
    return layout.op->emitError("the padding of @") << symbol << " on " << topology.describe(*rank) << " is not zero",
           failure();
  return assembly.finish();
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
    impl->devices.push_back({options, {}, {}, topology->getAxes(rank), {}, {}, {}, {}});
  for (Operation &op : module.getOps()) {
    if (!isa<ParamOp, StateOp>(op))
      continue;
    StringRef symbol = cast<SymbolOpInterface>(op).getName();
    FailureOr<Layout> layout = layoutOf(&op, *topology);
    FailureOr<Tensor> whole = succeeded(layout) ? initialValue(&op, options) : FailureOr<Tensor>();
    if (failed(whole) || failed(impl->distribute(*layout, symbol, *whole)))
      return failure();
    if (StringRef place = dist::placementOf(&op); place != dist::kOnDevice)
      for (Device &device : impl->devices)
        device.homes[symbol] = place.str();
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

FailureOr<StepResult> MeshInterpreter::Impl::readResult() const {
  StepResult result;
  for (const auto &entry : layouts) {
    auto state = dyn_cast<StateOp>(entry.second.op);
    if (!state || !StepResult::has(state.getFacts().role))
      continue;
    FailureOr<Tensor> value = gather(entry.second, entry.first());
    if (failed(value))
      return failure();
    result.take(state.getFacts().role, *value);
  }
  return result;
}

FailureOr<StepResult> MeshInterpreter::runStep(const NamedTensors &globalBatch, StepScalars scalars) {
  CollectiveBoard collectives(impl->topology);
  TransferBoard transfers(impl->topology);
  StepContext step{impl->topology, collectives, transfers, globalBatch, scalars};
  std::vector<RankProcess> ranks;
  ranks.reserve(impl->devices.size());
  for (int64_t rank = 0; rank < getNumRanks(); ++rank)
    ranks.emplace_back(impl->programs[impl->topology.getStage(rank)], impl->devices[rank], rank, step);
  if (failed(takeTurns<RankProcess>(impl->module, ranks)))
    return failure();
  for (const RankProcess &rank : ranks)
    if (failed(rank.checkNothingIsLeft()))
      return failure();
  return impl->readResult();
}
