// Taking out layers that are like others, and reading the costs off a probe's programs.
#include "Probe.h"

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Analysis/KernelCall.h"
#include "hyc/Analysis/MemoryAccount.h"
#include "hyc/Analysis/StepTime.h"
#include "hyc/Pipelines/Pipelines.h"
#include "mlir/IR/SymbolTable.h"

#include <algorithm>
#include <set>

using namespace mlir;
using namespace hyc;

/// Layers that stay of a run of equal ones: one beside what stands before it, and one amid its like.
static constexpr size_t kKept = 2;

//===----------------------------------------------------------------------===//
// Taking out layers
//===----------------------------------------------------------------------===//

static void eraseDeadOps(FuncOp func) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(func.getBody().front())))
    if (!isa<ReturnOp>(op) && op.use_empty() && isMemoryEffectFree(&op))
      op.erase();
}

static void eraseUnreadParameters(ModuleOp module) {
  std::set<llvm::StringRef> read;
  module.walk([&](ReadOp op) { read.insert(op.getSource()); });
  for (auto param : llvm::make_early_inc_range(module.getOps<ParamOp>()))
    if (read.count(param.getSymName()) == 0)
      param.erase();
}

/// What the last layer of the run gives to others, the last that stays gives from here on.
static void takeOutLayers(FuncOp func, ArrayRef<Layer> layers, LayerRun run) {
  const Layer &stays = layers[run.first + kKept - 1];
  for (size_t index = run.first + kKept; index < run.first + run.count; ++index)
    for (auto [removed, like] : llvm::zip_equal(layers[index], stays))
      removed->replaceAllUsesWith(like->getResults());
  eraseDeadOps(func);
  eraseUnreadParameters(func->getParentOfType<ModuleOp>());
}

static LogicalResult runPhase(Phase phase, ModuleOp module, const Plan &plan) {
  PassManager passes(module.getContext());
  passes.enableVerifier(false);
  buildPhase(phase, passes, plan);
  return passes.run(module);
}

static size_t countLayers(ModuleOp train) {
  auto func = train.lookupSymbol<FuncOp>(kMicrobatch);
  return func ? findLayers(func).size() : 0;
}

FailureOr<ModelLayers> hyc::reduceAndTrain(ModuleOp module, const Plan &plan) {
  ModelLayers result;
  if (failed(runPhase(Phase::Model, module, plan)))
    return failure();
  OwningOpRef<ModuleOp> whole(module.clone());
  auto func = module.lookupSymbol<FuncOp>("train");
  if (!func)
    return failure();
  llvm::SmallVector<Layer> layers = findLayers(func, &result.run);
  for (const Layer &layer : layers)
    result.ops.push_back(getId(layer.front()).str());
  result.count = layers.size();
  size_t reduced = layers.size();
  if (result.run.count > kKept) {
    takeOutLayers(func, layers, result.run);
    reduced -= result.run.count - kKept;
  }
  if (failed(runPhase(Phase::Train, module, plan)))
    return failure();
  if (countLayers(module) == reduced)
    return result;
  // The loss or types changed what layers there are: then all of them are probed.
  if (failed(runPhase(Phase::Train, *whole, plan)))
    return failure();
  module.getBodyRegion().takeBody(whole->getBodyRegion());
  result = {};
  for (const Layer &layer : findLayers(module.lookupSymbol<FuncOp>(kMicrobatch)))
    result.ops.push_back(getId(layer.front()).str());
  result.count = result.ops.size();
  return result;
}

//===----------------------------------------------------------------------===//
// Reading a probe
//===----------------------------------------------------------------------===//

static double bytesOf(const StageAccount &stage, StringRef arena) {
  const ArenaAccount *found = stage.findArena(arena);
  return found ? static_cast<double>(found->bytes) : 0;
}

static double largestState(const StageAccount &stage, StringRef arena) {
  double most = 0;
  if (const ArenaAccount *found = stage.findArena(arena))
    for (const AccountedTensor &tensor : found->tensors)
      if (tensor.kind == TensorKind::State)
        most = std::max(most, static_cast<double>(tensor.item.bytes));
  return most;
}

/// What ZeRO exchanges tensor by tensor: every gradient, and the parameters of more elements than stay whole.
static void countTensors(const StageAccount &stage, int64_t threshold, LayerCost &cost) {
  double elements = 0, divisible = 0;
  if (const ArenaAccount *found = stage.findArena("gradients"))
    for (const AccountedTensor &tensor : found->tensors) {
      if (tensor.kind != TensorKind::State)
        continue;
      ++cost.tensors;
      elements += static_cast<double>(tensor.item.bytes);
      if (tensor.item.bytes > 4 * threshold) {
        ++cost.divisible;
        divisible += static_cast<double>(tensor.item.bytes);
      }
    }
  cost.divisibleBytes = elements > 0 ? cost.parameters * divisible / elements : 0;
}

static LayerCost readMemory(const StageAccount &stage, int64_t threshold) {
  LayerCost cost;
  cost.parameters = bytesOf(stage, "parameters");
  cost.gradients = bytesOf(stage, "gradients");
  countTensors(stage, threshold, cost);
  cost.optimizer = bytesOf(stage, "optimizer");
  cost.communication = bytesOf(stage, "communication");
  cost.workspace = bytesOf(stage, "workspace");
  cost.other = bytesOf(stage, "feeds") + bytesOf(stage, "constants");
  cost.largestGradient = largestState(stage, "gradients");
  cost.largestParameter = largestState(stage, "parameters");
  if (const ArenaAccount *found = stage.findArena("activations")) {
    cost.saved = static_cast<double>(found->recordBytes);
    cost.transient = static_cast<double>(found->bytes - stage.slots * found->recordBytes);
  }
  for (const ExchangeAccount &exchange : stage.exchanges)
    if (exchange.kind == "send" && StringRef(exchange.function).starts_with("forward"))
      cost.crossing += static_cast<double>(exchange.bytes);
  return cost;
}

static double countOperations(rank::ProgramOp program) {
  double operations = 0;
  for (auto kind : {dist::InstructionKind::forward, dist::InstructionKind::backward})
    if (auto func = program.lookupSymbol<rank::FuncOp>(rank::functionName(kind)))
      for (Operation &op : func.getBlock())
        operations += operationsOf(&op);
  return operations;
}

static void readTimes(rank::ProgramOp program, const MachineRates &rates, LayerCost &cost) {
  MachineRates device = rates; // waits for the thread that starts kernels in a stage as a whole, not in a layer
  device.dispatch = 0;
  for (const auto &[name, time] : estimateFunctions(program, device)) {
    double starts = rates.dispatch * static_cast<double>(time.started);
    if (name == "forward")
      cost.forward = time.computation, cost.forwardExchanges = time.exposed, cost.forwardStarts = starts;
    else if (name == "backward")
      cost.backward = time.computation, cost.backwardExchanges = time.exposed, cost.backwardStarts = starts;
    else if (name == "apply")
      cost.update = std::max(time.computation, starts), cost.updateLaunching = time.launching,
      cost.updateLaunches = std::max(starts, rates.launch * static_cast<double>(time.kernels));
  }
}

/// States that more than one stage holds: those of tied parameters.
static LayerCost tiedStates(const JobAccount &job) {
  LayerCost tied;
  for (auto [arena, member] : {std::pair("parameters", &LayerCost::parameters),
                               {"gradients", &LayerCost::gradients},
                               {"optimizer", &LayerCost::optimizer}}) {
    std::set<std::string> seen;
    for (const StageAccount &stage : job.stages)
      if (const ArenaAccount *found = stage.findArena(arena))
        for (const AccountedTensor &tensor : found->tensors)
          if (tensor.kind == TensorKind::State && !seen.insert(tensor.name).second)
            tied.*member += static_cast<double>(tensor.item.bytes);
  }
  return tied;
}

/// A stage a layer; of two micro-batches both are in flight everywhere, which tells what one of them keeps.
static Plan planOfProbe(const Plan &base, const Layout &layout, size_t stages) {
  Plan plan = base;
  plan.tp = layout.tp;
  plan.dp = layout.dp;
  plan.pp = static_cast<int64_t>(stages);
  plan.virtualStages = 1;
  plan.microBatch = layout.microBatch;
  plan.gradAccum = 2;
  plan.schedule = PipelineSchedule::GPipe;
  plan.partitionMethod = "uniform";
  plan.sequenceParallel = layout.sequenceParallel;
  plan.recompute = layout.recompute;
  plan.zero = 0;
  plan.entry = "train";
  for (auto place : {&Plan::offloadActivations, &Plan::offloadGradients, &Plan::offloadOptimizer, &Plan::offloadParam})
    plan.*place = OffloadPlace::None;
  return plan;
}

/// The layers that each stage of a probe stands for.
static std::vector<size_t> stagesOfLayers(const ModelLayers &layers, size_t stages) {
  std::vector<size_t> result;
  for (size_t stage = 0; stage < stages; ++stage)
    result.insert(result.end(), stage == layers.run.first + 1 ? layers.count - stages + 1 : 1, stage);
  return result;
}

static constexpr double LayerCost::*kTimes[] = {
    &LayerCost::forward,       &LayerCost::backward,       &LayerCost::forwardExchanges, &LayerCost::backwardExchanges,
    &LayerCost::forwardStarts, &LayerCost::backwardStarts, &LayerCost::update,           &LayerCost::updateLaunching,
    &LayerCost::updateLaunches};

static void timeLayers(const ModelLayers &layers, const MachineRates &rates, ModuleOp programs,
                       std::vector<LayerCost> &costs) {
  std::vector<LayerCost> times;
  for (auto program : programs.getOps<rank::ProgramOp>()) {
    times.resize(std::max<size_t>(times.size(), program.getStage() + 1));
    readTimes(program, rates, times[program.getStage()]);
  }
  std::vector<size_t> stages = stagesOfLayers(layers, times.size());
  for (auto [layer, stage] : llvm::zip_equal(costs, stages))
    for (double LayerCost::*figure : kTimes)
      layer.*figure = times[stage].*figure;
}

void hyc::timeProbe(const ModelLayers &layers, const MachineRates &rates, Probed &probed) {
  timeLayers(layers, rates, *probed.programs, probed.cost.layers);
  probed.cost.ofKinds.assign(rates.kinds.size(), probed.cost.layers);
  for (auto [kind, costs] : llvm::enumerate(probed.cost.ofKinds))
    timeLayers(layers, rates.ofKind(kind), *probed.programs, costs);
}

/// Layers that stay beside those that were taken out.
static size_t stagesOfProbe(const ModelLayers &layers) {
  return layers.count - (layers.run.count > kKept ? layers.run.count - kKept : 0);
}

OwningOpRef<ModuleOp> hyc::planForProbes(ModuleOp train, const ModelLayers &layers, const Plan &base,
                                         const Layout &layout) {
  ScopedDiagnosticHandler silence(train.getContext(), [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> planned(train.clone());
  PassManager passes(train.getContext());
  passes.enableVerifier(false);
  buildPlanUntilLifetimes(passes, planOfProbe(base, layout, stagesOfProbe(layers)));
  return failed(passes.run(*planned)) ? OwningOpRef<ModuleOp>() : std::move(planned);
}

std::optional<Probed> hyc::probe(ModuleOp planned, const ModelLayers &layers, const Plan &base, const Layout &layout,
                                 const MachineRates &rates) {
  ScopedDiagnosticHandler silence(planned.getContext(), [](Diagnostic &) { return success(); });
  const size_t stages = stagesOfProbe(layers);
  Plan plan = planOfProbe(base, layout, stages);
  Probed probed{OwningOpRef<ModuleOp>(planned.clone()), {}};
  JobAccount job;
  PassManager passes(planned.getContext());
  passes.enableVerifier(false);
  buildPlanFromLifetimes(passes, plan);
  buildPhase(Phase::Local, passes, plan);
  buildAccount(passes, &job);
  if (failed(passes.run(*probed.programs)))
    return std::nullopt;
  std::vector<LayerCost> ofStages(stages);
  for (const StageAccount &stage : job.stages) {
    ofStages[static_cast<size_t>(stage.stage)] = readMemory(stage, *base.persistenceThreshold);
    probed.cost.fixed = std::max(probed.cost.fixed, static_cast<double>(stage.fixedBytes));
  }
  for (auto program : probed.programs->getOps<rank::ProgramOp>())
    ofStages[program.getStage()].operations = countOperations(program);
  probed.cost.tied = tiedStates(job);
  for (size_t stage : stagesOfLayers(layers, stages))
    probed.cost.layers.push_back(ofStages[stage]);
  timeProbe(layers, rates, probed);
  return probed;
}
