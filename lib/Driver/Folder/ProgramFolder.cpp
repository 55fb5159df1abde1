// From a phase-5 module to files.
#include "Folder/ProgramFolder.h"

#include "Build/HostCompiler.h"
#include "Folder/Bundle.h"
#include "Folder/CommandFile.h"
#include "Folder/ManifestText.h"
#include "Folder/ModelFileSums.h"
#include "Model/DiagnosticCollector.h"
#include "Page/PlanPage.h"
#include "Report/MemoryReport.h"
#include "Report/OpsJson.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Driver/OptionChecks.h"
#include "hyc/Plan/PlanText.h"
#include "hyc/Target/Cpp.h"
#include "hycrt/mesh.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <filesystem>

using namespace mlir;
using namespace hyc;
using llvm::Error;

static_assert(dist::kFlatBlock == hycrt::kFlatBlock, "ranks cut flat shards where programs have them");

std::string ProgramFolder::report() const {
  const Plan &plan = model.plan;
  std::string samples = std::to_string(model.microBatch) + " × " + std::to_string(*options.gradAccum) + " × " +
                        std::to_string(plan.dp) + " = " +
                        std::to_string(model.microBatch * *options.gradAccum * plan.dp);
  return model.name + ": " + std::to_string(plan.rankCount()) + " ranks, tp " + std::to_string(plan.tp) + " × pp " +
         std::to_string(plan.pp) + " × dp " + std::to_string(plan.dp) + plan.describeFurtherAxes() +
         "\nglobal batch: micro-batch × grad-accum × dp = " + samples + " samples" +
         (model.sequence == 0 ? "" : " of " + std::to_string(model.sequence) + " tokens") + "\nschedule " +
         plan.schedule->str() +
         (plan.virtualStages == 1 ? "" : " interleaved, " + std::to_string(plan.virtualStages) + " virtual stages") +
         ", stages balanced by " + *plan.partitionMethod + "\n\n" + model.exchangeReport + "\n" +
         reportMemory(model.account) + (model.time ? reportTime(*model.time) : "");
}

/// Absolute.
std::string ProgramFolder::resolve(const std::string &modelFile) const {
  SmallString<128> path(modelFile);
  if (!llvm::sys::path::is_absolute(path)) {
    path = model.modelFolder;
    llvm::sys::path::append(path, modelFile);
    llvm::sys::fs::make_absolute(path);
    llvm::sys::path::remove_dots(path);
  }
  return std::string(path);
}

/// What the inputs of all stages are read from.
static std::string dataOf(ModuleOp rank) {
  std::string data;
  rank.walk([&](rank::InputOp input) {
    InputSource source = input.getSourceFacts().source;
    if (source == InputSource::sample)
      data = "samples";
    else if (source != InputSource::random && data.empty())
      data = "tokens";
  });
  return data;
}

std::string ProgramFolder::planHash() const {
  std::string digits = llvm::utohexstr(model.planHash, /*LowerCase=*/true);
  return std::string(16 - digits.size(), '0') + digits;
}

std::string ProgramFolder::manifest(ModuleOp rank, std::vector<hycrt::ModelFile> modelFiles,
                                    const Toolchain &toolchain) const {
  ManifestFacts facts;
  facts.name = model.name;
  facts.planHash = planHash();
  facts.schedule = model.plan.schedule->str();
  facts.entry = *options.entry;
  if (model.adapters)
    facts.adapter = describeAdapter(*model.adapters);
  facts.data = dataOf(rank);
  for (auto program : rank.getOps<rank::ProgramOp>()) {
    if (!program.getDim())
      continue;
    facts.dim = program.getDim()->str();
    facts.sizes.clear();
    for (auto entry : program.getOps<rank::EntryOp>())
      if (entry.trains())
        facts.sizes.push_back(static_cast<int64_t>(entry.getSize()));
    facts.sizes.push_back(static_cast<int64_t>(*program.getSize()));
    llvm::sort(facts.sizes);
  }
  if (emitOf(options) == EmitKind::Exe)
    facts.cpu = {toolchain.march, toolchain.instructions};
  dist::MeshOp mesh = dist::MeshOp::find(rank);
  facts.stages = static_cast<int64_t>(mesh.getStages());
  for (auto axis : mesh.getAxes().getAsRange<StringAttr>())
    facts.axes.push_back({axis.str(), mesh.getSize(axis)});
  facts.microBatch = model.microBatch;
  facts.gradAccum = *options.gradAccum;
  facts.sequence = std::max<int64_t>(1, model.sequence);
  // Of GPUs' programs the host's threads read data and weights: as many as the host has that runs them.
  facts.threads = *options.target == TargetKind::Cuda ? *options.threads : plannedThreads(options);
  facts.nvmePath = *options.nvmePath;
  facts.learningRate = options;
  if (!options.evaluates())
    facts.optimizer = describeOptimizer(options);
  if (model.time && !model.time->inTurn.stages.empty())
    facts.time = model.time;
  facts.modelFiles = std::move(modelFiles);
  for (int64_t stage = 0; stage < model.plan.pp; ++stage)
    facts.stagePrograms.push_back(programOf(stage));
  return writeManifest(facts);
}

Error ProgramFolder::writePlan() {
  if (Error error = folder.write("plan.json", hyc::writePlan(model.plan)))
    return error;
  if (Error error = folder.write("report.txt", report()))
    return error;
  const StepTime *step = model.time && !model.time->overlapped.stages.empty() ? &model.time->overlapped : nullptr;
  const StepBatch batch{model.microBatch, *model.plan.gradAccum, std::max<int64_t>(1, model.sequence)};
  if (Error error = folder.write("memory.json", writeMemoryJson(model.account, model.name, batch, step)))
    return error;
  return folder.write("plan.html", writePlanPage(model));
}

llvm::Expected<std::vector<hycrt::ModelFile>> ProgramFolder::takeModelFiles(ModuleOp rank, bool bundles) {
  std::vector<hycrt::ModelFile> files;
  for (const std::string &file : collectModelFiles(rank)) {
    std::string path = resolve(file);
    llvm::Expected<hycrt::FileSums> sums = measureModelFile(path);
    if (!sums)
      return sums.takeError();
    if (bundles) {
      llvm::Expected<std::string> name = bundleModelFile(folder, path);
      if (!name)
        return name.takeError();
      path = *name;
    }
    files.emplace_back(path, std::move(*sums));
  }
  return files;
}

Error ProgramFolder::writeSources(ModuleOp rank, const DiagnosticCollector &diagnostics, const Toolchain &toolchain) {
  std::map<std::string, std::string> files;
  CppOptions cpp;
  cpp.name = model.name;
  cpp.planHash = model.planHash;
  cpp.architectures = toolchain.architectures;
  cpp.march = toolchain.march;
  // The CPU target has every kernel; what another one lacks is no fault of hyc's.
  if (failed(emitPrograms(rank, cpp, files)))
    return diagnostics.failure(toolchain.isForGpu() ? ExitCode::Data : ExitCode::Internal);
  for (const auto &[name, text] : files) {
    if (Error error = folder.write("src/" + name, text))
      return error;
    if (StringRef(name).ends_with(".cpp") || StringRef(name).ends_with(".cu"))
      sources.push_back(name);
  }
  if (Error error = writePlan())
    return error;
  if (Error error = folder.write("ops.json", writeOpsJson(rank, model.rates, planHash())))
    return error;
  if (Error error = folder.write(kCommandName, writeCommand(model.asked)))
    return error;
  if (!model.configText.empty())
    if (Error error = folder.write("model/config.json", model.configText))
      return error;
  if (model.adapters)
    if (Error error =
            folder.write("model/adapter_config.json", adapterConfig(*model.adapters, options.input, model.configText)))
      return error;
  bool bundles = toolchain.isForGpu() && emitOf(options) == EmitKind::Source && canBundle(toolchain);
  if (bundles)
    if (Error error = writeBundle(folder, toolchain))
      return error;
  llvm::Expected<std::vector<hycrt::ModelFile>> modelFiles = takeModelFiles(rank, bundles);
  if (!modelFiles)
    return modelFiles.takeError();
  return folder.write("manifest.json", manifest(rank, std::move(*modelFiles), toolchain));
}

/// 1 of `stage1.cpp` and `stage1_forward.cpp`; what is not named after a stage belongs to all.
static std::optional<int64_t> stageOf(StringRef source) {
  int64_t stage = 0;
  if (!source.consume_front("stage") || source.consumeInteger(10, stage))
    return std::nullopt;
  return stage;
}

Error ProgramFolder::buildPrograms(const Toolchain &toolchain, const CompileListener &listener) {
  for (const char *name : {"bin", "objects"}) {
    std::error_code error;
    std::filesystem::create_directory(folder.staged(name), error);
    if (error)
      return ioError("cannot create folder '" + Twine(name) + "'", error);
  }
  std::vector<ExecutableJob> jobs;
  for (int64_t stage = 0; stage < model.plan.pp; ++stage) {
    ExecutableJob &job = jobs.emplace_back();
    job.output = folder.staged(programOf(stage));
    for (const std::string &source : sources)
      if (std::optional<int64_t> owner = stageOf(source); !owner)
        job.common.push_back(source);
      else if (*owner == stage)
        job.sources.push_back(source);
  }
  return HostCompiler(toolchain, folder.staged("src"), folder.staged("objects"), listener).build(jobs);
}
