// The steps of one compilation, in order.
#include "hyc/Driver/Compile.h"

#include "ActivationBudget.h"
#include "ConfigResolution.h"
#include "DiagnosticPrinter.h"
#include "Interruption.h"
#include "MemoryFit.h"
#include "MemoryReport.h"
#include "ModelInput.h"
#include "OutputFolder.h"
#include "PlanFile.h"
#include "ProgramFolder.h"
#include "Report.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Analysis/Workspaces.h"
#include "hyc/Pipelines/Pipelines.h"
#include "hyc/Target/Cpp.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

#include <chrono>
#include <filesystem>
#include <limits>

using namespace mlir;
using namespace hyc;
using llvm::Error;
using llvm::Expected;

static PrecisionOptions precisionOptions(const CompileOptions &options) {
  return {*options.precision,
          *options.gradientAccumulationType,
          *options.communicationType,
          {*options.lossScale, *options.initialScalePower, *options.lossScaleWindow, *options.hysteresis,
           *options.consecutiveHysteresis, *options.minLossScale}};
}

static PipelineOptions pipelineOptions(const CompileOptions &options) {
  PipelineOptions result;
  result.loss = options.loss;
  result.logits = options.logits;
  result.labels = options.labels;
  result.optimizer = *options.optimizer;
  result.beta1 = (*options.betas)[0];
  result.beta2 = (*options.betas)[1];
  result.epsilon = *options.epsilon;
  result.correctBias = *options.correctBias;
  result.cycleMomentum = *options.cycleMomentum;
  result.leastTrust = *options.leastTrust;
  result.mostTrust = *options.mostTrust;
  result.weightDecay = *options.weightDecay;
  result.momentum = *options.momentum;
  result.clipGradNorm = *options.clipGradNorm;
  result.noDecay = options.noDecay;
  result.train = options.train;
  result.freeze = options.freeze;
  result.dropout = options.dropout;
  result.evaluates = options.entry == "evaluate";
  result.precision = precisionOptions(options);
  result.tp = *options.tp;
  result.pp = *options.pp;
  result.virtualStages = *options.virtualStages;
  result.dp = *options.dp;
  result.microBatches = *options.gradAccum;
  result.partitionMethod = *options.partitionMethod;
  result.schedule = *options.schedule;
  result.sequenceParallel = *options.sequenceParallel;
  result.recompute = *options.recompute;
  result.partitionActivations = *options.partitionActivations;
  result.zero = *options.zero;
  result.gradientReduction = *options.gradientReduction;
  result.persistenceThreshold = *options.persistenceThreshold;
  result.prefetch = *options.prefetch;
  result.maxLiveParameters = *options.maxLiveParameters;
  result.reductionsInFlight = *options.reductionsInFlight;
  result.prefetchBucket = *options.prefetchBucket;
  result.reduceBucket = *options.reduceBucket;
  result.gatherBucket = *options.gatherBucket;
  result.offloadOptimizer = *options.offloadOptimizer;
  result.offloadParam = *options.offloadParam;
  result.offloadActivations = *options.offloadActivations;
  result.offloadGradients = *options.offloadGradients;
  result.offloadRatio = *options.offloadRatio;
  result.maxInHost = *options.maxInHost;
  result.subGroup = *options.subGroup;
  result.readAhead = *options.readAhead;
  result.writeBehind = *options.writeBehind;
  result.offloadPrefetch = *options.offloadPrefetch;
  result.checkFinite = options.checkFinite;
  result.threads = plannedThreads(options);
  result.poison = options.poison;
  return result;
}

namespace {
class Compilation {
public:
  Compilation(const CompileOptions &options, const Toolchain &given)
      : options(options), toolchain(given), context(MLIRContext::Threading::DISABLED),
        diagnostics(context, options.input) {
    context.printOpOnDiagnostic(false);
    context.loadDialect<HycDialect, dist::DistDialect, rank::RankDialect>();
  }

  Error run();
  /// The account under these options, without a word and without a file; nothing where they cannot be planned.
  std::optional<JobAccount> tryPlan();

private:
  /// What can be refused before the model is read.
  Error prepare();
  Error applyPlan();
  Error settleActivations();
  Error readInput();
  Error runPhase(Phase phase);
  Error checkMemory();
  Error emitText();
  /// Takes down what later phases no longer know.
  void remember(Phase phase);
  Error emitFolder();
  void reportSuccess(double seconds) const;

  CompileOptions options;
  Toolchain toolchain;
  MLIRContext context;
  DiagnosticPrinter diagnostics;
  std::optional<PlanFile> plan;
  std::optional<OutputFolder> folder;
  ModelInput model;
  CompiledModel compiled;
  PipelineOptions pipeline;
  MachineRates machine;
};
} // namespace

/// What the command reads, so that no output takes its place.
static std::vector<InputPath> inputsOf(const CompileOptions &options) {
  std::vector<InputPath> inputs{{"", options.input}};
  const std::pair<const char *, const std::string &> files[] = {
      {"--plan", options.planFile}, {"--config", options.configFile}, {"--machine", options.machineFile}};
  for (const auto &[flag, path] : files)
    if (!path.empty())
      inputs.push_back({flag, path});
  if (startsFromCheckpoint(options))
    inputs.push_back({"--weights", options.weights});
  return inputs;
}

static std::string printModule(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os);
  os << "\n";
  return text;
}

/// Joins flags, config and plan, and checks the result. `file` is what was read of the config even where that fails.
static Error settle(CompileOptions &options, ConfigFile &file, std::optional<PlanFile> &plan) {
  Error applied = Error::success();
  if (!options.configFile.empty()) {
    Expected<ConfigFile> read = ConfigFile::read(options.configFile);
    if (!read)
      return read.takeError();
    file = std::move(*read);
    applied = applyConfig(file, options);
  }
  if (applied)
    return applied;
  if (!options.planFile.empty()) {
    Expected<PlanFile> read = readPlanFile(options.planFile);
    if (!read)
      return read.takeError();
    if (Error error = takePlan(options, *read))
      return error;
    plan = std::move(*read);
  }
  resolveOptimizer(options);
  resolveFollowers(options);
  if (Error error = checkOptions(options))
    return error;
  if (Error error = resolveBatch(options))
    return error;
  return checkVirtualStages(options);
}

Error Compilation::prepare() {
  ConfigFile config;
  if (Error error = settle(options, config, plan))
    return error;
  if (std::error_code error = llvm::sys::fs::access(options.input, llvm::sys::fs::AccessMode::Exist))
    return ioError("cannot read '" + options.input + "'", error);
  machine = defaultRates(plannedThreads(options));
  if (!options.machineFile.empty()) {
    Expected<MachineRates> read = readMachine(options.machineFile, machine);
    if (!read)
      return read.takeError();
    machine = *read;
  }
  Expected<std::vector<int64_t>> architectures = gpuArchitectures(options);
  if (!architectures)
    return architectures.takeError();
  toolchain.architectures = *architectures;
  toolchain.optimization = options.optimization;
  if (options.emit == EmitKind::Exe)
    if (Error error = toolchain.check())
      return error;
  if (!options.dumpFolder.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.dumpFolder, error);
    if (error)
      return ioError("cannot create --dump-dir '" + options.dumpFolder + "'", error);
  }
  if (options.emit < EmitKind::Account)
    return Error::success();
  Expected<OutputFolder> opened = OutputFolder::open(options.output.empty() ? "out" : options.output, inputsOf(options));
  if (!opened)
    return opened.takeError();
  folder.emplace(std::move(*opened));
  return Error::success();
}

/// Hangs what the plan file says on the module, and leaves to the passes what it does not.
Error Compilation::applyPlan() {
  if (Error error = applyShardingRules(*plan, *model.module))
    return error;
  if (Error error = applyLifetimeRules(*plan, *model.module))
    return error;
  pipeline.cuts = plan->cuts;
  pipeline.recompute = "planned";
  pipeline.offloadActivations = "none"; // its lifetimes say what is
  return Error::success();
}

/// Finds what may be saved within --activation-memory.
Error Compilation::settleActivations() {
  if (options.activationMemory.empty()) { // the mode of a plan that is not used for this layout
    pipeline.activationBudgets = {std::numeric_limits<int64_t>::max()};
    return Error::success();
  }
  Expected<int64_t> limit = parseByteCount("activation-memory", options.activationMemory);
  if (!limit)
    return limit.takeError();
  Expected<std::vector<int64_t>> budgets = findActivationBudgets(*model.module, pipeline, *limit);
  if (!budgets)
    return budgets.takeError();
  pipeline.activationBudgets = *budgets;
  return Error::success();
}

Error Compilation::runPhase(Phase phase) {
  ModuleOp module = *model.module;
  if (phase == Phase::Train && plan)
    if (Error error = applyFormRules(*plan, *model.module))
      return error;
  if (phase == Phase::Plan && plan)
    if (Error error = applyPlan())
      return error;
  if (phase == Phase::Plan && pipeline.recompute == "auto")
    if (Error error = settleActivations())
      return error;
  // Scratch memory differs between targets.
  if (phase == Phase::Rank && options.target != "cpu")
    module->setAttr(kTargetAttribute, StringAttr::get(&context, options.target));
  PassManager passes(&context);
  bool stopsAtAccount = phase == Phase::Rank && options.emit == EmitKind::Account;
  if (stopsAtAccount)
    buildAccount(passes, pipeline);
  else
    buildPhase(phase, passes, pipeline);
  if (failed(passes.run(module)))
    return diagnostics.failure(ExitCode::Data);
  if (stopsAtAccount)
    return Error::success();
  PassManager verification(&context);
  buildVerification(phase, verification);
  if (failed(verification.run(module)))
    return makeError(ExitCode::Internal, "the result of phase " + getName(phase) +
                                             " breaks its invariant, as told above; "
                                             "this is a fault of hyc, not of the model");
  if (options.dumpFolder.empty())
    return Error::success();
  llvm::SmallString<128> path(options.dumpFolder);
  llvm::sys::path::append(path, Twine(static_cast<int>(phase) + 1) + "-" + getName(phase) + ".mlir");
  return writeFileWhole(path, printModule(module), inputsOf(options));
}

Error Compilation::emitText() {
  std::string text = printModule(*model.module);
  if (!options.output.empty() && options.output != "-")
    return writeFileWhole(options.output, text, inputsOf(options));
  llvm::outs() << text;
  llvm::outs().flush();
  return Error::success();
}

void Compilation::remember(Phase phase) {
  ModuleOp module = *model.module;
  if (phase == Phase::Plan) {
    PipelineOptions chosen = pipelineOptions(options);
    compiled.plan = describePlan(module, {chosen.zero, chosen.gradientReduction, chosen.persistenceThreshold,
                                          chosen.prefetch, chosen.prefetchBucket, chosen.maxLiveParameters,
                                          chosen.reduceBucket, chosen.gatherBucket, chosen.reductionsInFlight});
    compiled.plan.schedule = *options.schedule;
    compiled.plan.partitionMethod = *options.partitionMethod;
    compiled.plan.recompute = *options.recompute;
    if (plan)
      compiled.plan.forms = plan->forms;
    if (*options.precision != "f32")
      compiled.plan.precision = *options.precision;
    if (compiled.plan.offload)
      compiled.plan.offload = OffloadPlan{chosen.offloadOptimizer, chosen.offloadParam,     chosen.offloadRatio,
                                          chosen.maxInHost,        chosen.subGroup,         chosen.readAhead,
                                          chosen.writeBehind,      chosen.offloadGradients, chosen.offloadPrefetch};
    // Of the whole annotated program, so that ranks of different models with equal plans are told apart too.
    if (options.emit > EmitKind::Account)
      compiled.planHash = llvm::xxh3_64bits(printModule(module));
  }
  if (phase == Phase::Local)
    compiled.exchangeReport = reportExchanges(module);
  if (phase == Phase::Rank) {
    compiled.account.tp = compiled.plan.tp;
    compiled.account.pp = compiled.plan.pp;
    compiled.account.dp = compiled.plan.dp;
    compiled.time = estimateTime(module, machine);
  }
}

Error Compilation::checkMemory() {
  if (Error error = checkActivationMemory(compiled.account, options))
    return error;
  return checkFit(compiled.account, options, model.microBatch,
                  [&](const CompileOptions &changed) { return Compilation(changed, toolchain).tryPlan(); });
}

/// The name of the model's file without its ending, or of its folder, made of characters that need quoting nowhere.
static std::string jobName(StringRef input) {
  input = input.rtrim('/');
  // Every config.json has one name; its folder has the model's.
  if (llvm::sys::path::filename(input) == "config.json" && llvm::sys::path::has_parent_path(input))
    input = llvm::sys::path::parent_path(input);
  std::string name = llvm::sys::path::filename(input).str();
  for (StringRef ending : {".onnx", ".pt2", ".mlir", ".json"})
    if (StringRef(name).ends_with(ending))
      name.resize(name.size() - ending.size());
  for (char &c : name)
    if (!llvm::isAlnum(c) && c != '-' && c != '_' && c != '.')
      c = '_';
  return name;
}

Error Compilation::emitFolder() {
  compiled.name = jobName(options.input);
  compiled.modelFolder = model.folder;
  compiled.configText = model.configText;
  compiled.microBatch = model.microBatch;
  compiled.sequence = tokensOfSample(*model.module);
  ProgramFolder programs(*folder, options, compiled);
  if (options.emit == EmitKind::Account) {
    if (Error error = programs.writePlan())
      return error;
    return folder->commit();
  }
  if (Error error = programs.writeSources(*model.module, diagnostics, toolchain))
    return error;
  if (options.emit == EmitKind::Exe)
    if (Error error = programs.buildPrograms(toolchain))
      return error;
  return folder->commit();
}

void Compilation::reportSuccess(double seconds) const {
  const PlanFile &mesh = compiled.plan;
  std::string shown = options.output.empty() ? "out" : options.output;
  int64_t ranks = mesh.tp * mesh.pp * mesh.dp;
  llvm::outs() << compiled.name << ": " << ranks << (ranks == 1 ? " rank (tp " : " ranks (tp ") << mesh.tp << " × pp "
               << mesh.pp << " × dp " << mesh.dp << "), " << model.microBatch * *options.gradAccum * mesh.dp
               << " samples a step (micro-batch " << model.microBatch << " × grad-accum " << *options.gradAccum
               << " × dp " << mesh.dp << ")\n"
               << summarizeMemory(compiled.account) << (compiled.time ? summarizeTime(*compiled.time) : "") << "wrote " << shown << " in " << llvm::format("%.1f s", seconds);
  if (options.emit == EmitKind::Exe)
    llvm::outs() << (pipeline.evaluates ? "; evaluate with: hyc-run " : "; train with: hyc-run ") << shown
                 << " --data FILE" << (pipeline.evaluates ? "" : " --steps N");
  llvm::outs() << "\n";
}

Error Compilation::readInput() {
  Expected<ModelInput> read = readModel(context, diagnostics, options);
  if (!read)
    return read.takeError();
  model = std::move(*read);
  pipeline = pipelineOptions(options);
  pipeline.account = &compiled.account;
  return Error::success();
}

std::optional<JobAccount> Compilation::tryPlan() {
  options.emit = EmitKind::Account;
  options.dumpFolder.clear();
  diagnostics.silence();
  Error error = readInput();
  for (Phase phase : kPhases) {
    if (error)
      break;
    error = runPhase(phase);
    if (!error)
      remember(phase);
  }
  if (error) {
    llvm::consumeError(std::move(error));
    return std::nullopt;
  }
  return std::move(compiled.account);
}

Error Compilation::run() {
  auto begin = std::chrono::steady_clock::now();
  if (Error error = prepare())
    return error;
  if (Error error = readInput())
    return error;
  for (Phase phase : kPhases) {
    if (Error error = runPhase(phase))
      return error;
    if (static_cast<int>(options.emit) == static_cast<int>(phase))
      return emitText();
    remember(phase);
  }
  if (Error error = checkMemory())
    return error;
  if (Error error = emitFolder())
    return error;
  reportSuccess(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return Error::success();
}

Error hyc::explainConfig(CompileOptions options) {
  ConfigFile file;
  std::optional<PlanFile> plan;
  Error error = settle(options, file, plan);
  // A file that cannot be read leaves nothing to explain; one that asks for too much is shown with what is refused.
  if (!error || !file.getEntries().empty())
    llvm::outs() << explainConfig(file, options);
  llvm::outs().flush();
  return error;
}

Error hyc::compile(const CompileOptions &options, const Toolchain &toolchain) {
  Interruption interruption;
  return Compilation(options, toolchain).run();
}
