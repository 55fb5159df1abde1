// What settings need of each other, and what follows from them.
#include "hyc/Driver/OptionChecks.h"

#include "hyc/Plan/SettingTable.h"
#include "hyc/Support/ByteCount.h"
#include "hyc/Support/DriverError.h"
#include "hyc/Support/Optimizers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"

#include <algorithm>
#include <sched.h>

using namespace llvm;
using namespace hyc;

/// A flag that is wrong is the user's to retype (64), a config or a plan the user's to mend (65).
template <typename T> static ExitCode codeFor(const Setting<T> &setting) {
  return isOfFile(setting.getOrigin()) ? ExitCode::Data : ExitCode::Usage;
}

/// `--tp`, or where the config says it.
template <auto Member> static std::string saidBy(const CompileOptions &options) {
  return nameOf(rowOf(memberOfPlan<Member>), options);
}

static Error checkTrust(const CompileOptions &options) {
  if (*options.leastTrust <= *options.mostTrust)
    return Error::success();
  return makeError(ExitCode::Data, options.leastTrust.getSource() + " is above " + options.mostTrust.getSource() +
                                       ", expected the lower bound of the trust ratio first");
}

/// A decay of 1 would never forget, and divides by 0 where it is corrected.
static Error checkCycle(const CompileOptions &options) {
  if (!*options.cycleMomentum)
    return Error::success();
  for (const Setting<double> *decay : {&options.cycleMomentumLeast, &options.cycleMomentumMost})
    if (!(**decay >= 0 && **decay < 1))
      return makeError(codeFor(*decay),
                       decay->getSource() + " is " + print(**decay) + ", expected a number from 0 to below 1");
  return Error::success();
}

/// A norm's few elements stand in front of the matrices of many: at 2 those are fetched while the use before the norm
/// computes.
static constexpr int64_t kCudaOffloadPrefetch = 2;
/// Copied in 0.6 ms over a bus of 55 GB/s, beside which starting a copy is nothing.
static constexpr int64_t kCudaOffloadWindow = int64_t{32} << 20;

static Error checkMesh(const CompileOptions &options) {
  int64_t tp = *options.tp, pp = *options.pp, dp = *options.dp;
  // Each factor is at most 2^12, so the product fits.
  if (tp * pp * dp > kMaxRanks)
    return usageError(saidBy<&Plan::tp>(options) + " × " + saidBy<&Plan::pp>(options) + " × " +
                      saidBy<&Plan::dp>(options) + " = " + Twine(tp) + " × " + Twine(pp) + " × " + Twine(dp) + " = " +
                      Twine(tp * pp * dp) + " ranks, expected at most " + Twine(kMaxRanks));
  if (options.rankCount() > kMaxRanks)
    return usageError("the mesh has more than " + Twine(kMaxRanks) + " ranks with its further axes");
  return Error::success();
}

Error hyc::resolveRanks(CompileOptions &options) {
  const std::vector<int64_t> &sizes = *options.ranks;
  if (sizes.empty())
    return Error::success();
  int64_t tp = *options.tp, pp = *options.pp, group = tp * pp;
  std::string split = saidBy<&Plan::tp>(options) + " × " + saidBy<&Plan::pp>(options) + " = " + std::to_string(tp) +
                      " × " + std::to_string(pp) + " = " + std::to_string(group);
  for (int64_t size : sizes)
    if (size % group != 0)
      return usageError(
          "--ranks is " + Twine(size) + ", which is no multiple of " + split + "; the nearest that are: " +
          (size > group ? Twine(size / group * group) + " and " : Twine("")) + Twine((size / group + 1) * group));
  if (sizes.size() > 1)
    return usageError("--ranks has " + Twine(sizes.size()) + " sizes, " + print(sizes) +
                      ", but a program is compiled for one; compile for each by itself, first with --ranks " +
                      Twine(sizes.front()));
  int64_t dp = sizes.front() / group;
  if (options.dp.isGiven() && *options.dp != dp)
    return usageError("--ranks is " + Twine(sizes.front()) + ", so that dp = ranks / (tp × pp) = " + Twine(dp) +
                      " with " + split + ", but " + options.dp.getSource() +
                      (options.dp.getOrigin() == Origin::Plan ? " has dp " : " is ") + Twine(*options.dp) +
                      "; leave one of the two out");
  options.dp.offer(dp, Origin::Derived, "--ranks");
  return Error::success();
}

Error hyc::checkVirtualStages(const CompileOptions &options) {
  int64_t virtualStages = *options.virtualStages, pp = *options.pp, microBatches = *options.gradAccum;
  if (virtualStages == 1)
    return Error::success();
  std::string name = saidBy<&Plan::virtualStages>(options) + " is " + std::to_string(virtualStages);
  if (pp == 1)
    return makeError(codeFor(options.virtualStages),
                     name + ", which needs a pipeline, but " + saidBy<&Plan::pp>(options) + " is 1; give --pp");
  if (*options.schedule != PipelineSchedule::OneForwardOneBackward)
    return makeError(codeFor(options.virtualStages), name + ", which interleaves 1f1b, but " +
                                                         saidBy<&Plan::schedule>(options) + " is \"" +
                                                         options.schedule->str() + "\"");
  if (microBatches % pp == 0)
    return Error::success();
  int64_t below = microBatches / pp * pp, above = below + pp;
  return makeError(codeFor(options.virtualStages),
                   name +
                       ", which needs grad-accum to be a multiple of pp: micro-batches pass the chunks in groups of " +
                       Twine(pp) + ", but " + saidBy<&Plan::gradAccum>(options) + " = " + Twine(microBatches) + " = " +
                       Twine(microBatches / pp) + " × " + Twine(pp) + " + " + Twine(microBatches % pp) + "; choose " +
                       (below > 0 ? Twine(below) + " or " : Twine("")) + Twine(above));
}

/// Modes that need a limit, and a limit that needs a mode.
static Error checkRecomputation(const CompileOptions &options) {
  bool isAuto = *options.recompute == RecomputeMode::Auto, isLimited = !options.activationMemory->empty();
  // A plan says by itself which activations are saved.
  if (isAuto && !isLimited && options.recompute.getOrigin() != Origin::Plan)
    return makeError(codeFor(options.recompute),
                     saidBy<&Plan::recompute>(options) +
                         " is auto, which needs a limit; give --activation-memory, as in 2GiB");
  if (isLimited && !isAuto)
    return usageError("--activation-memory is given, but " + saidBy<&Plan::recompute>(options) + " is " +
                      options.recompute->str() + "; only --recompute auto chooses by a limit");
  if (isAuto && *options.offloadActivations != OffloadPlace::None)
    return makeError(codeFor(options.offloadActivations),
                     saidBy<&Plan::offloadActivations>(options) + " is " + options.offloadActivations->str() +
                         ", but " + saidBy<&Plan::recompute>(options) +
                         " is auto, which chooses what the device saves; give one of the two");
  if (*options.partitionActivations && *options.recompute != RecomputeMode::Layer)
    return makeError(codeFor(options.partitionActivations),
                     saidBy<&Plan::partitionActivations>(options) + " is given, but " +
                         saidBy<&Plan::recompute>(options) + " is " + options.recompute->str() +
                         "; only --recompute layer keeps layer boundaries alone");
  return Error::success();
}

/// A disk needs a folder, and a folder that was typed something to keep there. A config may have one for later use.
static Error checkNvmePath(const CompileOptions &options) {
  std::string optimizer = saidBy<&Plan::offloadOptimizer>(options), param = saidBy<&Plan::offloadParam>(options);
  bool hasPath = !options.nvmePath->empty();
  for (auto [name, setting] : {std::pair{&optimizer, &options.offloadOptimizer}, {&param, &options.offloadParam}})
    if (**setting == OffloadPlace::Nvme && !hasPath)
      return makeError(codeFor(*setting), *name + " is \"nvme\", which needs --nvme-path, a folder on that disk");
  if (!hasPath || options.nvmePath.getOrigin() != Origin::Flag || *options.offloadOptimizer == OffloadPlace::Nvme ||
      *options.offloadParam == OffloadPlace::Nvme || !options.planFile->empty())
    return Error::success();
  return usageError("--nvme-path is \"" + *options.nvmePath + "\", but " + optimizer + " is \"" +
                    options.offloadOptimizer->str() + "\" and " + param + " is \"" + options.offloadParam->str() +
                    "\": nothing is kept on a disk");
}

/// They would come back for an update on the device.
static Error checkOffloadedGradients(const CompileOptions &options) {
  if (*options.offloadGradients == OffloadPlace::None || *options.offloadOptimizer != OffloadPlace::None ||
      !options.planFile->empty())
    return Error::success();
  return makeError(codeFor(options.offloadGradients),
                   saidBy<&Plan::offloadGradients>(options) + " is " + options.offloadGradients->str() + ", but " +
                       saidBy<&Plan::offloadOptimizer>(options) +
                       " is none, so that the update runs on the device; give --offload-optimizer cpu or nvme as well");
}

/// Under fp16 an overflow is no error: the step is skipped and the loss scale lowered.
static Error checkFiniteType(const CompileOptions &options) {
  if (!*options.checkFinite || *options.precision != Precision::FP16)
    return Error::success();
  return usageError("--check-finite is given, but " + saidBy<&Plan::precision>(options) +
                    " is fp16, whose loss scaling meets overflow by skipping the step; compute in bf16 or f32 to find "
                    "what makes it");
}

llvm::Expected<std::vector<int64_t>> hyc::gpuArchitectures(const CompileOptions &options) {
  std::vector<int64_t> result;
  if (*options.target == TargetKind::Cpu)
    return result;
  for (const std::string &text : *options.architectures) {
    StringRef digits = text;
    int64_t number = 0;
    // CUDA 13 compiles for 75 and later; kernels use instructions of 80.
    if (!digits.consume_front("sm_") || digits.getAsInteger(10, number) || number < 80 || number > 121)
      return usageError("--arch is \"" + text + "\", expected sm_ and a number from 80 on, as in sm_80 or sm_90");
    result.push_back(number);
  }
  llvm::sort(result);
  result.erase(llvm::unique(result), result.end());
  return result;
}

static Error checkEntry(const CompileOptions &options) {
  if (options.evaluates() && !(options.train->empty() && options.freeze->empty()))
    return usageError(std::string(options.train->empty() ? "--freeze" : "--train") +
                      " is given, but --entry is evaluate, which trains nothing; leave one of them out");
  if (options.evaluates() && *options.mode == "train")
    return usageError("--mode is train, but --entry is evaluate; leave one of them out");
  return Error::success();
}

int64_t hyc::plannedThreads(const Plan &plan) {
  if (*plan.threads > 0)
    return plan.threads;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  int64_t count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  return std::max<int64_t>(1, count / plan.rankCount());
}

Expected<DimSizes> hyc::parseDim(const std::string &text) {
  auto [name, list] = StringRef(text).split('=');
  DimSizes dim{name.str(), {}};
  SmallVector<StringRef> items;
  list.split(items, ',');
  for (StringRef item : items) {
    int64_t size = 0;
    if (name.empty() || item.getAsInteger(10, size) || size < 1 || size > (int64_t(1) << 31))
      return usageError("--dim is \"" + text +
                        "\", expected NAME=N with N at least 1, as in batch=8, or several, as in seq=128,256,512");
    if (is_contained(dim.sizes, size))
      return usageError("--dim is \"" + text + "\", which has size " + Twine(size) + " twice; leave one out");
    dim.sizes.push_back(size);
  }
  llvm::sort(dim.sizes);
  return dim;
}

Expected<std::optional<DimSizes>> hyc::severalSizes(const CompileOptions &options) {
  std::optional<DimSizes> several;
  std::vector<std::string> names;
  for (const std::string &text : *options.dims) {
    Expected<DimSizes> dim = parseDim(text);
    if (!dim)
      return dim.takeError();
    names.push_back(dim->name);
    if (dim->sizes.size() == 1)
      continue;
    if (several)
      return usageError("--dim gives both \"" + several->name + "\" and \"" + dim->name +
                        "\" several sizes; one dimension may have several, give the other its largest");
    several = std::move(*dim);
  }
  if (several && llvm::count(names, several->name) > 1)
    return usageError("--dim names \"" + several->name + "\" twice; give all its sizes at once, as in " +
                      several->name + "=128,256");
  return several;
}

CompileOptions hyc::atSize(const CompileOptions &options, const DimSizes &dim, int64_t size) {
  CompileOptions one = options;
  std::vector<std::string> dims;
  for (const std::string &text : *options.dims)
    dims.push_back(StringRef(text).split('=').first == dim.name ? dim.spell(size) : text);
  one.dims = Setting<std::vector<std::string>>(std::vector<std::string>());
  one.dims.offer(std::move(dims), options.dims.getOrigin(), options.dims.getSource());
  return one;
}

/// What only means something beside another value of --precision.
static Error refuseBeside(const SettingRow &row, const CompileOptions &options, StringRef wayOut) {
  bool isConfigs = originOf(row.in(options)) == Origin::Config;
  return makeError(isConfigs ? ExitCode::Data : ExitCode::Usage, nameOf(row, options) + " does nothing while " +
                                                                     saidBy<&Plan::precision>(options) + " is \"" +
                                                                     options.precision->str() + "\"; " + wayOut);
}

/// Sums into flat shards, and those of each micro-batch, are exchanged as they are.
static Error checkCommunicationType(const CompileOptions &options) {
  const std::string &type = *options.communicationType;
  bool divides = *options.zero > 0, isEach = *options.gradientReduction == "micro_batch";
  if (type.empty() || type == *options.gradientAccumulationType || (!divides && !isEach))
    return Error::success();
  std::string other = divides ? saidBy<&Plan::zero>(options) + " is " + std::to_string(*options.zero)
                              : saidBy<&Plan::gradientReduction>(options) + " is \"micro_batch\"";
  return makeError(codeFor(options.communicationType),
                   saidBy<&Plan::communicationType>(options) + " is \"" + type + "\", but " + other +
                       ", where gradients are exchanged in the type that they add up in (" +
                       *options.gradientAccumulationType + "); leave one of the two out");
}

/// Loss scaling is fp16's. DeepSpeed's fp16 section may say anything while it is off; a flag may not.
static Error checkScalesInF16(const CompileOptions &options) {
  if (*options.precision == Precision::FP16)
    return Error::success();
  for (const SettingRow &row : getSettings()) {
    bool isOfF16 = row.configKeys.starts_with("fp16.") && row.ofPlan != memberOfPlan<&Plan::precision>;
    if (isOfF16 && originOf(row.in(options)) == Origin::Flag)
      return refuseBeside(row, options, "compute in fp16, or leave it out");
  }
  return Error::success();
}

static Error checkPrecision(const CompileOptions &options) {
  if (*options.precision == Precision::F32 && *options.gradientAccumulationType != "f32" &&
      options.gradientAccumulationType.isGiven())
    return refuseBeside(rowOf(memberOfPlan<&Plan::gradientAccumulationType>), options,
                        "compute in bf16 or fp16, or leave it out");
  if (Error error = checkScalesInF16(options))
    return error;
  return checkCommunicationType(options);
}

void hyc::resolveOptimizer(CompileOptions &options) {
  // DeepSpeed's "Adam" decouples the decay, unless it is told not to.
  if (*options.optimizer == "adam" && options.optimizer.getOrigin() == Origin::Config && *options.decoupledDecay)
    options.optimizer.offer("adamw", Origin::Config, options.optimizer.getSource());
  const Optimizer *row = findOptimizer(*options.optimizer);
  if (row && row->betas != kOptimizers[0].betas)
    options.betas.offer(row->betas, Origin::Derived, row->name.str() + "'s default");
  if (row && !row->cyclesMomentum)
    options.cycleMomentum.offer(false, Origin::Flag, row->name.str());
  // The schedule sets both betas of the parameters that it cycles; the second one is fixed there.
  if (*options.cycleMomentum)
    options.betas.offer({*options.cycleMomentumLeast, 0.99}, Origin::Config, options.cycleMomentum.getSource());
}

void hyc::resolveFollowers(CompileOptions &options) {
  if (*options.mode == "evaluate")
    options.dropout.offer(false, Origin::Flag, "--mode");
  if (options.prefetchBucket.isGiven() && *options.prefetchBucket > 0)
    options.prefetch.offer(kMostUses, Origin::Derived, options.prefetchBucket.getSource());
  // Device and host are one memory on the CPU target, where nothing is gained.
  if (*options.target == TargetKind::Cuda) {
    options.offloadPrefetch.offer(kCudaOffloadPrefetch, Origin::Derived, "--target cuda");
    options.offloadWindow.offer(kCudaOffloadWindow, Origin::Derived, "--target cuda");
  }
  // DeepSpeed keeps gradients where the optimizer is.
  if (*options.offloadOptimizer != OffloadPlace::None && options.offloadOptimizer.getOrigin() == Origin::Config)
    options.offloadGradients.offer(OffloadPlace::Cpu, Origin::Derived, options.offloadOptimizer.getSource());
  // DeepSpeed moves nothing but checkpoints.
  if (*options.offloadActivations == OffloadPlace::Cpu && options.offloadActivations.getOrigin() == Origin::Config)
    options.recompute.offer(RecomputeMode::Layer, Origin::Derived, options.offloadActivations.getSource());
  if (*options.partitionActivations && options.partitionActivations.getOrigin() == Origin::Config)
    options.recompute.offer(RecomputeMode::Layer, Origin::Derived, options.partitionActivations.getSource());
}

bool hyc::startsFromCheckpoint(const CompileOptions &options) {
  return *options.weights != "read" && *options.weights != "initialise-missing" && *options.weights != "initialise";
}

static Error checkWeights(const CompileOptions &options) {
  if (!startsFromCheckpoint(options) || sys::fs::exists(*options.weights))
    return Error::success();
  return usageError("--weights is '" + *options.weights +
                    "', expected read, initialise-missing, initialise, or a safetensors file or folder, which is not "
                    "there under this name");
}

static Error checkDims(const CompileOptions &options) {
  Expected<std::optional<DimSizes>> several = severalSizes(options);
  if (!several)
    return several.takeError();
  if (!*several)
    return Error::success();
  if (options.evaluates())
    return usageError("--dim gives \"" + (*several)->name +
                      "\" several sizes, but --entry evaluate trains nothing; give it one, the largest");
  return Error::success();
}

static Error checkArchitectures(const CompileOptions &options) {
  auto architectures = gpuArchitectures(options);
  return architectures ? Error::success() : architectures.takeError();
}

static Error checkEmit(const CompileOptions &options) {
  if (*options.planOnly && options.emit.isGiven())
    return usageError("--plan-only and --emit both say where to stop; leave one out");
  return Error::success();
}

EmitKind hyc::emitOf(const CompileOptions &options) {
  if (*options.planOnly)
    return EmitKind::Account;
  return StringSwitch<EmitKind>(*options.emit)
      .Case("model", EmitKind::Model)
      .Case("train", EmitKind::Train)
      .Case("plan", EmitKind::Plan)
      .Case("local", EmitKind::Local)
      .Case("rank", EmitKind::Rank)
      .Case("source", EmitKind::Source)
      .Default(EmitKind::Exe);
}

Error hyc::checkOptions(const CompileOptions &options) {
  // Each check runs only if those before it passed; the first failure is what the user hears of.
  for (Error (*check)(const CompileOptions &) :
       {checkEmit, checkDims, checkMesh, checkRecomputation, checkPrecision, checkOffloadedGradients, checkNvmePath,
        checkFiniteType, checkEntry, checkArchitectures, checkWeights, checkTrust, checkCycle})
    if (Error error = check(options))
      return error;
  return Error::success();
}
