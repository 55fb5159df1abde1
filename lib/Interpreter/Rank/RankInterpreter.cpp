// All ranks of a phase 5 module: their memory, and taking turns.
#include "hyc/Interpreter/RankInterpreter.h"

#include "Mesh/StateAssembly.h"
#include "Mesh/Turns.h"
#include "Rank/RankMachine.h"
#include "Values/Initializers.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

struct RankInterpreter::Impl {
  Impl(ModuleOp module, Options options, Topology topology)
      : module(module), options(std::move(options)), topology(std::move(topology)) {}

  LogicalResult findPrograms(dist::MeshOp mesh);
  LogicalResult makeMemory(int64_t worldRank);
  LogicalResult prepare();
  LogicalResult initialise(rank::StateOp state, int64_t worldRank);
  const RankProgram &programOf(int64_t worldRank) const { return programs[topology.getStage(worldRank)]; }
  rank::StateOp findState(int64_t worldRank, StringRef symbol) const;

  ModuleOp module;
  Options options;
  Topology topology;
  std::vector<RankProgram> programs; ///< by stage
  std::vector<std::unique_ptr<RankMemory>> memories;
  llvm::StringMap<Tensor> initialValues; ///< whole, read once for all ranks
};

RankInterpreter::RankInterpreter(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
RankInterpreter::RankInterpreter(RankInterpreter &&) = default;
RankInterpreter &RankInterpreter::operator=(RankInterpreter &&) = default;
RankInterpreter::~RankInterpreter() = default;

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

LogicalResult RankInterpreter::Impl::findPrograms(dist::MeshOp mesh) {
  for (int64_t stage = 0; stage < topology.getNumStages(); ++stage) {
    RankProgram program;
    for (auto candidate : module.getOps<rank::ProgramOp>())
      if (static_cast<int64_t>(candidate.getStage()) == stage)
        program.op = candidate;
    for (auto schedule : module.getOps<dist::ScheduleOp>())
      if (static_cast<int64_t>(schedule.getStage()) == stage)
        program.schedule = schedule;
    if (!program.op || !program.schedule)
      return mesh.emitError("has ") << mesh.getStages() << " stages, but stage " << stage << " has no "
                                    << (program.op ? "dist.schedule" : "rank.program");
    for (auto instruction : program.schedule.getInstructions().getAsRange<dist::InstructionAttr>())
      program.numMicroBatches +=
          instruction.getKind() == dist::InstructionKind::forward && instruction.getVirtualStage() == 0;
    for (Operation &op : program.op.getBody().front()) {
      if (auto state = dyn_cast<rank::StateOp>(op))
        program.states.push_back(state);
      else if (auto input = dyn_cast<rank::InputOp>(op))
        program.inputs.push_back(input);
      else if (auto scalar = dyn_cast<rank::ScalarOp>(op))
        program.scalars.push_back(scalar);
      else if (auto constant = dyn_cast<rank::ConstantOp>(op))
        program.constants.push_back(constant);
      else if (auto record = dyn_cast<rank::RecordOp>(op))
        program.records.push_back(record);
      else if (auto transfer = dyn_cast<rank::TransferOp>(op))
        program.transfers.push_back(transfer);
    }
    programs.push_back(std::move(program));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// How the elements of a state are cut: one list of axes a dimension, and those of flat shards.
static dist::ShardingAttr shardingOf(rank::StateOp state) {
  SmallVector<SmallVector<StringAttr>> dims;
  for (auto list : state.getSplits().getAsRange<dist::AxisListAttr>())
    dims.emplace_back(list.getAxes());
  auto sharding = dist::ShardingAttr::get(state.getContext(), dims);
  return state.getFlat() ? sharding.withFlat(*state.getFlat()) : sharding;
}

LogicalResult RankInterpreter::Impl::initialise(rank::StateOp state, int64_t worldRank) {
  rank::BufferType type = state.getBufferType();
  if (state.getSplits().size() != state.getGlobal().size())
    return state.emitError("has ") << state.getSplits().size() << " splits of " << state.getGlobal().size()
                                   << " dimensions";
  Tensor &whole = initialValues[state.getSymName()];
  if (!whole) {
    auto wholeType = RankedTensorType::get(state.getGlobal(), type.getElementType());
    StringRef name = state.getLogicalName();
    FailureOr<Tensor> value = factsOfRole(state.getRole()).role == StateRole::compute
                                  ? initialCopy(state, name, wholeType, state.getInit(), options)
                                  : initialValue(state, name, wholeType, state.getInit(), options);
    if (failed(value))
      return failure();
    whole = *value;
  }
  Tensor local = topology.cut(whole, shardingOf(state), worldRank);
  Extent region = placedRegion(memories[worldRank]->memory, state.getArena(), state.getOffset().value_or(0), type);
  return memories[worldRank]->memory.store(state, region, local);
}

/// Marks the bytes that a symbol keeps beyond functions. The last slots may lack room for it, since an arena ends with
/// what is ever in them: whoever comes to it there is told so.
template <typename Placed>
static LogicalResult keep(std::map<Arena *, std::vector<bool>> &kept, Memory &memory, Placed op, int64_t copies) {
  Arena *arena = memory.find(op.getArena());
  int64_t offset = op.getOffset().value_or(0), bytes = op.getBufferType().getFootprint();
  if (!arena || offset < 0 || bytes < 0)
    return op.emitError("lies in @") << op.getArena() << ", which is no arena";
  if (bytes > arena->bytes || offset > arena->bytes - bytes)
    return op.emitError("reaches byte ") << offset + bytes << " of @" << op.getArena() << ", which has "
                                         << arena->bytes;
  std::vector<bool> &bits = kept.try_emplace(arena, arena->bytes, false).first->second;
  for (int64_t copy = 0, begin = offset; copy < copies && begin <= arena->bytes - bytes; ++copy) {
    std::fill_n(bits.begin() + begin, bytes, true);
    begin += arena->recordBytes;
  }
  return success();
}

LogicalResult RankInterpreter::Impl::makeMemory(int64_t worldRank) {
  constexpr int64_t kMostBytes = int64_t{1} << 34;
  const RankProgram &program = programOf(worldRank);
  memories.push_back(std::make_unique<RankMemory>(options.arithmetic));
  RankMemory &own = *memories.back();
  own.axes = topology.getAxes(worldRank);
  std::map<Arena *, std::vector<bool>> kept;
  for (auto arena : rank::ProgramOp(program.op).getBody().front().getOps<rank::ArenaOp>()) {
    int64_t bytes = static_cast<int64_t>(arena.getBytes()), recordBytes = static_cast<int64_t>(arena.getRecordBytes());
    if (bytes < 0 || bytes > kMostBytes || recordBytes < 0 || recordBytes > bytes)
      return arena.emitError("has ") << bytes << " bytes, more than the interpreter simulates";
    kept.try_emplace(&own.memory.addArena(arena.getSymName(), bytes, recordBytes), bytes, false);
  }
  int64_t slots = static_cast<int64_t>(rank::ProgramOp(program.op).getSlots());
  for (rank::StateOp state : program.states)
    if (failed(keep(kept, own.memory, state, 1)) || failed(initialise(state, worldRank)))
      return failure();
  for (rank::InputOp input : program.inputs)
    if (failed(keep(kept, own.memory, input, 1)))
      return failure();
  for (rank::ScalarOp scalar : program.scalars)
    if (failed(keep(kept, own.memory, scalar, 1)))
      return failure();
  for (rank::ConstantOp constant : program.constants)
    if (failed(keep(kept, own.memory, constant, 1)))
      return failure();
  for (rank::RecordOp record : program.records)
    if (failed(keep(kept, own.memory, record, record.getSingle() ? 1 : slots)))
      return failure();
  for (auto &[arena, bits] : kept)
    for (int64_t begin = 0, end = 0; begin < arena->bytes; begin = end + 1) {
      begin = std::find(bits.begin() + begin, bits.end(), false) - bits.begin();
      end = std::find(bits.begin() + begin, bits.end(), true) - bits.begin();
      // What follows a symbol up to the next line is padding, which the runtime zeroes and coalesced exchanges carry
      // along.
      int64_t padded = std::min(end, rank::alignedBytes(begin));
      own.memory.zero(*arena, begin, padded);
      if (padded < end)
        own.temporaries.push_back({arena, padded, end});
    }
  return success();
}

/// What programs keep for the run. No rank needs another one for it.
LogicalResult RankInterpreter::Impl::prepare() {
  CollectiveBoard collectives(topology);
  TransferBoard transfers(topology);
  NamedTensors nothing;
  MachineStep step{topology, options.arithmetic, collectives, transfers, nothing, StepScalars(0)};
  for (int64_t worldRank = 0; worldRank < topology.getNumRanks(); ++worldRank)
    if (failed(RankMachine(programOf(worldRank), *memories[worldRank], worldRank, step).prepare()))
      return failure();
  return success();
}

FailureOr<RankInterpreter> RankInterpreter::create(ModuleOp module, const Options &options) {
  dist::MeshOp mesh = dist::MeshOp::find(module);
  if (!mesh)
    return module.emitError("the module has no dist.mesh"), failure();
  FailureOr<Topology> topology = Topology::create(mesh);
  if (failed(topology))
    return failure();
  auto impl = std::make_unique<Impl>(module, options, *topology);
  if (failed(impl->findPrograms(mesh)))
    return failure();
  for (int64_t worldRank = 0; worldRank < topology->getNumRanks(); ++worldRank)
    if (failed(impl->makeMemory(worldRank)))
      return failure();
  if (failed(impl->prepare()))
    return failure();
  return RankInterpreter(std::move(impl));
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

rank::StateOp RankInterpreter::Impl::findState(int64_t worldRank, StringRef symbol) const {
  for (rank::StateOp state : programOf(worldRank).states)
    if (state.getSymName() == symbol)
      return state;
  return {};
}

FailureOr<Tensor> RankInterpreter::gatherState(StringRef symbol) {
  dist::MeshOp mesh = dist::MeshOp::find(impl->module);
  std::optional<StateAssembly> assembly;
  for (int64_t worldRank = 0; worldRank < impl->topology.getNumRanks(); ++worldRank) {
    rank::StateOp state = impl->findState(worldRank, symbol);
    if (!state)
      continue;
    dist::ShardingAttr sharding = shardingOf(state);
    if (!assembly)
      assembly.emplace(impl->topology, StateLayout{SmallVector<int64_t>(state.getGlobal()),
                                                   dist::localShape(state.getGlobal(), sharding, mesh), sharding,
                                                   state.getSlice().value_or(dist::AxisListAttr())});
    Memory &memory = impl->memories[worldRank]->memory;
    HeldPart part = assembly->partOf(worldRank);
    rank::BufferType type = state.getBufferType();
    FailureOr<Tensor> elements = memory.load(state, Extent::dense(memory.find(state.getArena()),
                                                                  static_cast<int64_t>(state.getOffset().value_or(0)) +
                                                                      part.storedAt * type.getElementBytes(),
                                                                  type.getElementType(), {part.count}));
    if (failed(elements) ||
        failed(assembly->add(worldRank, *elements, [&] { return state.emitError("@") << symbol << ": "; })))
      return failure();
  }
  if (!assembly)
    return impl->module.emitError("no program has a state @") << symbol, failure();
  return assembly->finish();
}

//===----------------------------------------------------------------------===//
// A step
//===----------------------------------------------------------------------===//

FailureOr<StepResult> RankInterpreter::runStep(const NamedTensors &globalBatch, StepScalars scalars) {
  CollectiveBoard collectives(impl->topology);
  TransferBoard transfers(impl->topology);
  MachineStep step{impl->topology, impl->options.arithmetic, collectives, transfers, globalBatch, scalars};
  std::vector<RankMachine> ranks;
  ranks.reserve(impl->memories.size());
  for (int64_t worldRank = 0; worldRank < impl->topology.getNumRanks(); ++worldRank)
    ranks.emplace_back(impl->programOf(worldRank), *impl->memories[worldRank], worldRank, step);
  if (failed(takeTurns<RankMachine>(impl->module, ranks)))
    return failure();
  StepResult result;
  for (rank::StateOp state : impl->programs[0].states) {
    StateRole role = factsOfRole(state.getRole()).role;
    if (!StepResult::has(role))
      continue;
    FailureOr<Tensor> value = gatherState(state.getSymName());
    if (failed(value))
      return failure();
    result.take(role, *value);
  }
  return result;
}
