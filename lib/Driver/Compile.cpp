// The steps of one compilation, in order.
#include "hyc/Driver/Compile.h"

#include "Build/InstructionSets.h"
#include "Config/ConfigResolution.h"
#include "Fit/ActivationBudget.h"
#include "Fit/LayoutChoice.h"
#include "Fit/LayoutRefusal.h"
#include "Fit/MemoryFit.h"
#include "Folder/OutputFolder.h"
#include "Folder/ProgramFolder.h"
#include "Model/AdapterInput.h"
#include "Model/DiagnosticCollector.h"
#include "Model/ModelInput.h"
#include "Model/PlanRules.h"
#include "Report/MemoryReport.h"
#include "Report/PlanComparison.h"
#include "Report/Report.h"
#include "SeveralSizes.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Driver/OptionChecks.h"
#include "hyc/Pipelines/Pipelines.h"
#include "hyc/Plan/PlanText.h"
#include "hyc/Plan/SettingTable.h"
#include "hyc/Planner/Machine.h"
#include "hyc/Planner/Measured.h"
#include "hyc/Support/ByteCount.h"
#include "hyc/Target/Cpp.h"
#include "hycrt/printable.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

#include <filesystem>
#include <limits>

using namespace mlir;
using namespace hyc;
using llvm::Error;
using llvm::Expected;

namespace {
class Compilation {
public:
  Compilation(const CompileOptions &options, const Toolchain &given, const CompileListener &listener)
      : asked(options), options(options), toolchain(given), listener(listener),
        context(MLIRContext::Threading::DISABLED), diagnostics(context, options.input, this->listener) {
    context.printOpOnDiagnostic(false);
    context.loadDialect<HycDialect, dist::DistDialect, rank::RankDialect>();
  }

  CompileResult run();
  /// As run with --plan-only, but no folder is written.
  CompileResult runPlan();
  /// As run, but nothing where the programs might train if they did not evaluate beside it; `why` is then the reason.
  /// Until that cannot be any more, nobody is told anything.
  std::optional<CompileResult> tryRun(std::string &why);
  /// The account under these options, without a word and without a file. The error is the first reason why not.
  Expected<PlannedJob> tryPlan(const MachineRates &rates);
  /// The model of phase 1 for so many samples; 0: for those of its own.
  FailureOr<OwningOpRef<ModuleOp>> importFor(int64_t samples);

private:
  CompileResult finish(Error error);
  /// All that can be refused; what is left is to write what was asked for.
  Error planAll();
  Error writeAll();
  /// What can be refused before the model is read.
  Error prepare();
  /// What --machine and --measured say of the ranks.
  Error readMachineFiles();
  Error applyRules();
  Error settleActivations();
  /// Takes up the layout that the search finds, where the options leave it open.
  Error findLayout();
  /// Which flags do nothing beside the others.
  void tellIdleFlags();
  Error readInput();
  /// As far as what was asked for, and whether the memory is there for it.
  Error runPhases();
  Error runPhase(Phase phase);
  /// The model, and behind it its further sizes.
  SmallVector<ModuleOp> trainedModules();
  Error checkMemory();
  Error emitText();
  /// Whether what was asked for is the text of this phase.
  bool isLastPhase(Phase phase) const { return static_cast<int>(emit) == static_cast<int>(phase); }
  /// Takes down what later phases no longer know.
  void remember(Phase phase);
  void takeOps(ModuleOp module);
  Error emitFolder();
  std::string summarize() const;

  bool hasPlanFile() const { return !options.planFile->empty(); }

  const CompileOptions asked; ///< before anything was settled or found
  CompileOptions options;
  EmitKind emit = EmitKind::Exe;
  bool writes = true;   ///< something is left behind
  bool isTried = false; ///< only the account is asked for, of a plan that is made again if it is taken up
  Toolchain toolchain;
  CompileListener listener;
  MLIRContext context;
  DiagnosticCollector diagnostics;
  bool readsToTrain = false; ///< the model has been read as it trains; what fails from here on may be its evaluation
  std::optional<OutputFolder> folder;
  ModelInput model;
  CompiledModel compiled;
  Plan plan; ///< what the passes are built from: the options' with what is only known here
  MachineRates machine;
  std::string text;                  ///< of a phase that goes to no file
  std::string foundLayout;           ///< what the search has told
  double foundSeconds = 0;           ///< of a step, as it has them
  std::vector<MovableParam> movable; ///< of a plan that is only tried
  std::vector<int64_t> foundShares;
};
} // namespace

std::string hyc::shownFolder(const CompileOptions &options) {
  return options.output->empty() ? "out" : *options.output;
}

std::vector<InputPath> hyc::inputsOf(const CompileOptions &options) {
  std::vector<InputPath> inputs{{"", options.input}};
  const std::pair<const char *, const std::string &> files[] = {
      {"--plan", *options.planFile}, {"--config", *options.configFile}, {"--machine", *options.machineFile}};
  for (const auto &[flag, path] : files)
    if (!path.empty())
      inputs.push_back({flag, path});
  for (const std::string &measured : *options.measuredFiles)
    inputs.push_back({"--measured", measured});
  if (startsFromCheckpoint(options))
    inputs.push_back({"--weights", *options.weights});
  if (AdapterSettings::isFolder(*options.lora))
    inputs.push_back({"--lora", *options.lora});
  return inputs;
}

static std::string printModule(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os);
  os << "\n";
  return text;
}

/// What follows from the mesh.
static Error settleLayout(CompileOptions &options) {
  if (Error error = resolveRanks(options))
    return error;
  if (Error error = checkOptions(options))
    return error;
  if (Error error = resolveBatch(options))
    return error;
  return checkVirtualStages(options);
}

/// Joins flags, config and plan, and checks the result. `file` is what was read of the config even where that fails.
static Error settle(CompileOptions &options, ConfigFile &file) {
  Error applied = Error::success();
  if (!options.configFile->empty()) {
    Expected<ConfigFile> read = ConfigFile::read(*options.configFile);
    if (!read)
      return read.takeError();
    file = std::move(*read);
    applied = applyConfig(file, options);
  }
  if (applied)
    return applied;
  if (Error error = checkSearchIsAsked(options))
    return error;
  if (!options.planFile->empty()) {
    Expected<Plan> read = readPlan(*options.planFile);
    if (!read)
      return read.takeError();
    if (Error error = takePlan(options, *read))
      return error;
  }
  resolveOptimizer(options);
  resolveFollowers(options);
  if (Error error = checkRanges(options))
    return error;
  if (Error error = resolveAdapters(options))
    return error;
  if (!leavesLayoutOpen(options))
    return settleLayout(options);
  CompileOptions divided = options; // tp and pp that are said have to divide the ranks, whatever is found beside them
  if (!options.dp.isGiven())
    if (Error error = resolveRanks(divided))
      return error;
  return checkOptions(options);
}

Error hyc::settleOptions(CompileOptions &options) {
  ConfigFile file;
  return settle(options, file);
}

Error Compilation::readMachineFiles() {
  CompileOptions whole = options;
  if (leavesLayoutOpen(options))
    whole.dp = options.ranks->front();
  machine = defaultRates(plannedThreads(whole));
  if (*options.target == TargetKind::Cuda)
    machine.productMemory = 0;
  if (options.machineFile.isGiven() && options.machineFile->empty())
    return usageError(
        "--machine is \"\", expected a file or the name of a machine; leave it out to plan for cores of a "
        "server's CPU");
  if (!options.machineFile->empty()) {
    Expected<std::string> path = findMachine(*options.machineFile, toolchain.machines);
    if (!path)
      return path.takeError();
    Expected<MachineRates> read = readMachine(*path, machine);
    if (!read)
      return read.takeError();
    machine = *read;
  }
  for (const std::string &file : *options.measuredFiles) {
    Expected<MachineRates> measured = takeMeasured(file, machine);
    if (!measured)
      return measured.takeError();
    machine = *measured;
  }
  return Error::success();
}

Error Compilation::prepare() {
  ConfigFile config;
  if (Error error = settle(options, config))
    return error;
  emit = writes ? emitOf(options) : EmitKind::Account;
  compiled.plan = options;
  if (std::error_code error = llvm::sys::fs::access(options.input, llvm::sys::fs::AccessMode::Exist))
    return ioError("cannot read '" + options.input + "'", error);
  if (Error error = readMachineFiles())
    return error;
  Expected<std::vector<int64_t>> architectures = gpuArchitectures(options);
  if (!architectures)
    return architectures.takeError();
  toolchain.architectures = *architectures;
  toolchain.optimization = *options.optimization;
  toolchain.march = *options.march;
  if (emit == EmitKind::Exe) {
    if (Error error = toolchain.check())
      return error;
    Expected<std::vector<std::string>> instructions = instructionsOf(toolchain);
    if (!instructions)
      return instructions.takeError();
    toolchain.instructions = std::move(*instructions);
  }
  if (!options.dumpFolder->empty()) {
    std::error_code error;
    std::filesystem::create_directories(*options.dumpFolder, error);
    if (error)
      return ioError("cannot create --dump-dir '" + *options.dumpFolder + "'", error);
  }
  if (emit < EmitKind::Account || !writes)
    return Error::success();
  Expected<OutputFolder> opened = OutputFolder::open(shownFolder(options), inputsOf(options));
  if (!opened)
    return opened.takeError();
  folder.emplace(std::move(*opened));
  return Error::success();
}

/// Hangs what the plan file says on the module, and leaves to the passes what it does not.
Error Compilation::applyRules() {
  for (ModuleOp each : trainedModules()) {
    if (Error error = applyShardingRules(plan.rules, each))
      return error;
    if (Error error = checkCutRules(plan.rules, each))
      return error;
    if (Error error = applyLifetimeRules(plan.rules, each))
      return error;
  }
  plan.recompute = RecomputeMode::Planned;
  plan.offloadActivations = OffloadPlace::None; // its lifetimes say what is
  return Error::success();
}

/// Finds what may be saved within --activation-memory.
Error Compilation::settleActivations() {
  if (options.activationMemory->empty()) { // the mode of a plan that is not used for this layout
    plan.activationBudgets = {std::numeric_limits<int64_t>::max()};
    return Error::success();
  }
  Expected<int64_t> limit = parseByteCount("activation-memory", *options.activationMemory);
  if (!limit)
    return limit.takeError();
  Expected<std::vector<int64_t>> budgets = findActivationBudgets(*model.module, plan, *limit);
  if (!budgets)
    return budgets.takeError();
  plan.activationBudgets = *budgets;
  return Error::success();
}

SmallVector<ModuleOp> Compilation::trainedModules() {
  SmallVector<ModuleOp> modules{*model.module};
  llvm::append_range(modules, sizesInside(*model.module));
  return modules;
}

Error Compilation::runPhase(Phase phase) {
  ModuleOp module = *model.module;
  if (phase == Phase::Train && hasPlanFile())
    for (ModuleOp each : trainedModules())
      if (Error error = applyFormRules(plan.rules, each))
        return error;
  if (phase == Phase::Plan && hasPlanFile())
    if (Error error = applyRules())
      return error;
  if (phase == Phase::Plan && !hasPlanFile()) // of the search
    for (ModuleOp each : trainedModules())
      if (Error error = applyStateRules(plan.rules, each))
        return error;
  if (phase == Phase::Plan && *plan.recompute == RecomputeMode::Auto)
    if (Error error = settleActivations())
      return error;
  PassManager passes(&context);
  // What a model or a plan file says has been refused after phase 3, if it has to be. From there on, and of a plan that
  // is only tried, once a phase suffices (below): after each pass it takes a third of the time. hyc-opt does it there.
  passes.enableVerifier(phase < Phase::Local && !isTried);
  bool stopsAtAccount = phase == Phase::Rank && emit == EmitKind::Account;
  if (stopsAtAccount)
    buildAccount(passes, &compiled.account);
  else
    buildPhase(phase, passes, plan, &compiled.account);
  if (failed(passes.run(module)))
    return diagnostics.failure(ExitCode::Data);
  if (stopsAtAccount || isTried)
    return Error::success();
  PassManager verification(&context);
  buildVerification(phase, verification);
  if (failed(verification.run(module)))
    return makeError(ExitCode::Internal, "the result of phase " + getName(phase) +
                                             " breaks its invariant, as told above; "
                                             "this is a fault of hyc, not of the model");
  if (options.dumpFolder->empty())
    return Error::success();
  llvm::SmallString<128> path(*options.dumpFolder);
  llvm::sys::path::append(path, Twine(static_cast<int>(phase) + 1) + "-" + getName(phase) + ".mlir");
  return writeFileWhole(path, printModule(module), inputsOf(options));
}

Error Compilation::emitText() {
  text = printModule(*model.module);
  if (options.output->empty() || *options.output == "-")
    return Error::success();
  return writeFileWhole(*options.output, std::exchange(text, ""), inputsOf(options));
}

/// By whatever path the model was named: each entry and size has noted its folder.
static uint64_t hashOf(ModuleOp module) {
  SmallVector<std::pair<ModuleOp, Attribute>> noted;
  module.walk([&](ModuleOp each) {
    if (Attribute folder = each->removeAttr(kModelFolder))
      noted.push_back({each, folder});
  });
  const uint64_t hash = llvm::xxh3_64bits(printModule(module));
  for (auto [each, folder] : noted)
    each->setAttr(kModelFolder, folder);
  return hash;
}

void Compilation::remember(Phase phase) {
  ModuleOp module = *model.module;
  if (phase == Phase::Train && options.adapters)
    compiled.adapters = collectAdapters(module, *options.adapters);
  if (phase == Phase::Plan) {
    compiled.plan = describePlan(module, options);
    // Of the whole annotated program, so that ranks of different models with equal plans are told apart too.
    if (emit > EmitKind::Account || !writes)
      compiled.planHash = hashOf(module);
  }
  if (phase == Phase::Local)
    compiled.exchangeReport = reportExchanges(module);
  if (phase == Phase::Rank) {
    compiled.account.tp = compiled.plan.tp;
    compiled.account.pp = compiled.plan.pp;
    compiled.account.dp = compiled.plan.dp;
    compiled.account.further = compiled.plan.furtherRanks();
    compiled.rates = machine;
    compiled.time = estimateTime(module, machine);
  }
}

/// What the page of the plan tells of the mesh and of every op.
void Compilation::takeOps(ModuleOp module) {
  dist::MeshOp mesh = dist::MeshOp::find(module);
  for (auto axis : mesh.getAxes().getAsRange<StringAttr>())
    compiled.axes.push_back({axis.str(), mesh.getSize(axis)});
  for (auto program : module.getOps<rank::ProgramOp>())
    for (auto schedule : module.getOps<dist::ScheduleOp>())
      if (schedule.getStage() == program.getStage())
        compiled.ops.push_back(estimateOps(program, schedule, machine));
}

/// Of a compilation of its own each, so that nothing of it is heard and nothing stays.
static SearchMeans searchMeans(const CompileOptions &options, const Toolchain &toolchain, const MachineRates &machine,
                               Compilation &reader, const CompileListener &listener) {
  return {[&reader](int64_t samples) { return reader.importFor(samples); }, machine,
          [&toolchain, machine](const CompileOptions &changed) {
            return Compilation(changed, toolchain, {}).tryPlan(machine);
          },
          listener};
}

Error Compilation::findLayout() {
  if (!leavesLayoutOpen(options))
    return Error::success();
  Compilation reader(options, toolchain, {});
  Expected<std::optional<LayoutChoice>> choice =
      chooseLayout(options, searchMeans(options, toolchain, machine, reader, listener));
  if (!choice)
    return choice.takeError();
  if (*choice) {
    options = std::move((*choice)->options);
    foundLayout = std::move((*choice)->summary);
    compiled.candidates = std::move((*choice)->candidates);
    foundSeconds = (*choice)->seconds;
    foundShares = std::move((*choice)->shares);
  } else {
    // Where it cannot be built at all, that is told behind this.
    diagnostics.add(
        {CompileDiagnostic::Warning, options.input,
         "no layout was searched for: the model cannot be built for one sample, of which estimates begin; all "
         "ranks become dp. Give its batch a size (--dim NAME=N), or the layout"});
  }
  compiled.plan = options;
  return settleLayout(options);
}

void Compilation::tellIdleFlags() {
  for (const SettingRow *row : flagsWithoutEffect(options))
    diagnostics.add({CompileDiagnostic::Note, nameOf(*row, options),
                     "does nothing here: it acts only where " + row->effect.where.str()});
}

Error Compilation::checkMemory() {
  if (Error error = checkActivationMemory(compiled.account, options))
    return error;
  Compilation reader(options, toolchain, {});
  return checkFit(compiled.account, options, model.microBatch,
                  searchMeans(options, toolchain, machine, reader, listener));
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
  compiled.asked = asked;
  compiled.modelFolder = model.folder;
  compiled.configText = model.configText;
  compiled.microBatch = model.microBatch;
  compiled.sequence = tokensOfSample(*model.module);
  takeOps(*model.module);
  Expected<double> limit = memoryLimit(options, machine);
  if (!limit)
    return limit.takeError();
  compiled.memoryLimit = *limit;
  ProgramFolder programs(*folder, options, compiled);
  if (emit == EmitKind::Account) {
    if (Error error = programs.writePlan())
      return error;
    return folder->commit();
  }
  if (Error error = programs.writeSources(*model.module, diagnostics, toolchain))
    return error;
  if (emit == EmitKind::Exe)
    if (Error error = programs.buildPrograms(toolchain, listener))
      return error;
  return folder->commit();
}

/// "each step at the smallest seq of 128, 256, 512 that its samples fit in"; nothing of one size.
static std::string describeSizes(const CompileOptions &options) {
  llvm::Expected<std::optional<DimSizes>> several = severalSizes(options);
  if (!several) {
    llvm::consumeError(several.takeError());
    return "";
  }
  if (!*several)
    return "";
  std::string sizes;
  for (int64_t size : (*several)->sizes)
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  return "each step at the smallest " + (*several)->name + " of " + sizes + " that its samples fit in\n";
}

std::string Compilation::summarize() const {
  std::string summary;
  const Plan &mesh = compiled.plan;
  int64_t ranks = mesh.rankCount();
  llvm::raw_string_ostream(summary) << compiled.name << ": " << ranks << (ranks == 1 ? " rank (tp " : " ranks (tp ")
                                    << *mesh.tp << " × pp " << *mesh.pp << " × dp " << *mesh.dp
                                    << mesh.describeFurtherAxes() << "), "
                                    << model.microBatch * *options.gradAccum * *mesh.dp
                                    << " samples a step (micro-batch " << model.microBatch << " × grad-accum "
                                    << *options.gradAccum << " × dp " << *mesh.dp << ")\n"
                                    << describeSizes(options) << foundLayout << summarizeMemory(compiled.account)
                                    << (compiled.time ? summarizeTime(*compiled.time) : "");
  return summary;
}

Error Compilation::readInput() {
  Expected<ModelInput> read = readModel(context, diagnostics, options);
  if (!read)
    return read.takeError();
  model = std::move(*read);
  readsToTrain = true;
  if (options.evaluatesBeside())
    if (Error error = addEvaluation(*model.module, diagnostics, options))
      return error;
  if (Error error = startFromAdapter(*model.module, options))
    return error;
  // Of a plan that is only tried the largest size says what it costs.
  if (!isTried)
    if (Error error = addSizes(*model.module, diagnostics, options))
      return error;
  plan = options;
  plan.threads = plannedThreads(options);
  return Error::success();
}

FailureOr<OwningOpRef<ModuleOp>> Compilation::importFor(int64_t samples) {
  CompileOptions changed = options;
  changed.microBatch = samples;
  changed.dp = 1;
  changed.globalBatch = 0;
  changed.entry = "train";
  Expected<ModelInput> read = readModel(context, diagnostics, changed);
  if (read)
    return std::move(read->module);
  llvm::consumeError(read.takeError());
  return failure();
}

/// Of what a refused one has told; null where that is its error alone.
static const CompileDiagnostic *firstErrorOf(const CompileResult &refused) {
  auto first = llvm::find_if(refused.diagnostics,
                             [](const CompileDiagnostic &each) { return each.severity == CompileDiagnostic::Error; });
  return first == refused.diagnostics.end() ? nullptr : &*first;
}

Expected<PlannedJob> Compilation::tryPlan(const MachineRates &rates) {
  machine = rates;
  isTried = true;
  emit = EmitKind::Account;
  options.dumpFolder = "";
  Error error = readInput();
  for (Phase phase : kPhases) {
    if (error)
      break;
    error = runPhase(phase);
    if (!error && phase == Phase::Plan)
      movable = collectMovable(*model.module);
    if (!error)
      remember(phase);
  }
  if (error) {
    CompileResult refused = finish(std::move(error));
    const CompileDiagnostic *first = firstErrorOf(refused);
    return makeError(refused.code, first ? first->location + ": " + first->message : refused.error);
  }
  return PlannedJob{std::move(compiled.account), compiled.time ? compiled.time->overlapped.seconds() : 0,
                    std::move(movable)};
}

Error Compilation::planAll() {
  if (Error error = prepare())
    return error;
  if (Error error = findLayout())
    return error;
  if (Error error = readInput())
    return error;
  if (Error error = runPhases())
    return error;
  tellIdleFlags();
  return Error::success();
}

Error Compilation::runPhases() {
  for (Phase phase : kPhases) {
    if (Error error = runPhase(phase))
      return error;
    bool isLast = isLastPhase(phase);
    if (!isLast || phase == Phase::Plan)
      remember(phase);
    if (isLast)
      return Error::success();
  }
  return checkMemory();
}

Error Compilation::writeAll() {
  return llvm::any_of(kPhases, [&](Phase each) { return isLastPhase(each); }) ? emitText() : emitFolder();
}

/// What an error says, and whose it is to mend.
static void take(CompileResult &result, Error error) {
  llvm::handleAllErrors(std::move(error), [&](const DriverError &failure) {
    result.code = failure.getCode();
    result.error = hycrt::printable(failure.getMessage());
  });
}

CompileResult Compilation::run() {
  Error error = planAll();
  return finish(error ? std::move(error) : writeAll());
}

CompileResult Compilation::runPlan() {
  writes = false;
  return finish(planAll());
}

std::optional<CompileResult> Compilation::tryRun(std::string &why) {
  diagnostics.hold();
  const CompileListener told = std::exchange(listener, {});
  Error error = planAll();
  if (error && readsToTrain) {
    CompileResult refused = finish(std::move(error));
    const CompileDiagnostic *first = firstErrorOf(refused);
    why = first ? first->message : refused.error;
    return std::nullopt;
  }
  listener = told;
  diagnostics.release();
  return finish(error ? std::move(error) : writeAll());
}

CompileResult Compilation::finish(Error error) {
  CompileResult result;
  take(result, std::move(error));
  if (result && emit >= EmitKind::Account)
    result.summary = hycrt::printable(summarize());
  result.diagnostics = diagnostics.take();
  result.plan = std::move(compiled.plan);
  if (result && emit >= EmitKind::Account && writes)
    result.folder = shownFolder(options);
  result.planHash = compiled.planHash;
  result.seconds = foundSeconds > 0 ? foundSeconds : compiled.time ? compiled.time->overlapped.seconds() : 0;
  result.batchShares = std::move(foundShares);
  result.account = std::move(compiled.account);
  result.text = std::move(text);
  return result;
}

CompileResult hyc::explainConfig(CompileOptions options) {
  if (options.ranks->size() > 1) // what becomes of a key is the same for each
    options.ranks = std::vector<int64_t>{options.ranks->front()};
  CompileResult result;
  ConfigFile file;
  take(result, settle(options, file));
  // A file that cannot be read leaves nothing to explain; one that asks for too much is shown with what is refused.
  if (result || !file.getEntries().empty())
    result.text = explainConfig(file, options);
  result.plan = options;
  return result;
}

CompileResult hyc::comparePlans(const std::string &a, const std::string &b) {
  CompileResult result;
  llvm::Expected<std::string> text = comparePlanFiles(a, b);
  if (text)
    result.text = std::move(*text);
  else
    take(result, text.takeError());
  return result;
}

/// Programs evaluate beside training without being asked to, which must not stand in the way of training.
static CompileResult compileAsFarAsItGoes(const CompileOptions &options, const Toolchain &toolchain,
                                          const CompileListener &listener) {
  std::string why;
  if (std::optional<CompileResult> both = Compilation(options, toolchain, listener).tryRun(why))
    return std::move(*both);
  CompileOptions training = options;
  training.entry.offer("train", Origin::Derived, "");
  CompileResult result = Compilation(training, toolchain, listener).run();
  if (!result)
    return result;
  std::string first = StringRef(why).split('\n').first.str(); // of what may be a page
  CompileDiagnostic note{CompileDiagnostic::Note, options.input,
                         "the programs only train; to evaluate beside it (--entry train,evaluate) fails: " + first};
  if (listener.diagnosed)
    listener.diagnosed(note);
  result.diagnostics.push_back(std::move(note));
  return result;
}

CompileResult hyc::planOnly(const CompileOptions &options, const Toolchain &toolchain,
                            const CompileListener &listener) {
  return Compilation(options, toolchain, listener).runPlan();
}

CompileResult hyc::compile(const CompileOptions &options, const Toolchain &toolchain, const CompileListener &listener) {
  if (options.ranks->size() > 1)
    return compileSizes(options, toolchain, listener);
  if (options.evaluatesBeside() && !options.entry.isGiven())
    return compileAsFarAsItGoes(options, toolchain, listener);
  return Compilation(options, toolchain, listener).run();
}
