// Range checks of what was typed.
#include "hyc/Driver/CompileOptions.h"
#include "MemoryFit.h"
#include "hyc/Driver/DriverError.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Regex.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <sched.h>

using namespace llvm;
using namespace hyc;

char DriverError::ID;

static constexpr double kNoLimit = 1e300;
/// What f32 can still add to a denominator.
static constexpr double kLeastEpsilon = 1e-38;

/// A flag that is wrong is the user's to retype (64), a config the user's to mend (65).
template <typename T> static ExitCode codeFor(const Setting<T> &setting) {
  return setting.getOrigin() == Origin::Config ? ExitCode::Data : ExitCode::Usage;
}

/// `--tp`, or where the config says it.
template <typename T> static std::string nameOf(StringRef flag, const Setting<T> &setting) {
  return setting.getSource().empty() ? "--" + flag.str() : setting.getSource();
}

static Error checkCount(StringRef flag, const Setting<int64_t> &setting, int64_t least, int64_t most) {
  if (*setting >= least && *setting <= most)
    return Error::success();
  return makeError(codeFor(setting), nameOf(flag, setting) + " is " + Twine(*setting) + ", expected " + Twine(least) +
                                         " to " + Twine(most));
}

/// At least `least` and below `limit`, finite.
static Error checkNumber(StringRef flag, const Setting<double> &setting, double least, double limit,
                         StringRef expected) {
  if (std::isfinite(*setting) && *setting >= least && *setting < limit)
    return Error::success();
  std::string text;
  raw_string_ostream(text) << *setting;
  return makeError(codeFor(setting), nameOf(flag, setting) + " is " + text + ", expected " + expected);
}

static Error checkBetas(const Setting<std::array<double, 2>> &betas) {
  for (double beta : *betas)
    if (!(beta >= 0 && beta < 1))
      return makeError(codeFor(betas), nameOf("betas", betas) + " has " + std::to_string(beta) +
                                           ", expected two numbers from 0 to below 1");
  return Error::success();
}

static Error checkChoice(StringRef flag, const Setting<std::string> &setting, ArrayRef<StringRef> choices) {
  if (is_contained(choices, StringRef(*setting)))
    return Error::success();
  return makeError(codeFor(setting),
                   nameOf(flag, setting) + " is \"" + *setting + "\", expected " + join(choices, " or "));
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
  if (Error error = checkNumber("cycle_min_mom", options.cycleMomentumLeast, 0, 1, "a number from 0 to below 1"))
    return error;
  return checkNumber("cycle_max_mom", options.cycleMomentumMost, 0, 1, "a number from 0 to below 1");
}

/// DeepSpeed's schedules have parameters that no flag says.
static Error checkSchedule(const Setting<std::string> &rule) {
  if (rule.getOrigin() == Origin::Config)
    return Error::success();
  return checkChoice("lr-schedule", rule, {"constant", "linear", "cosine"});
}

static Error checkPartitionMethod(const Setting<std::string> &method) {
  if (*method == "parameters" || *method == "uniform")
    return Error::success();
  std::string name = nameOf("partition-method", method);
  StringRef pattern = *method;
  if (!pattern.consume_front("type:"))
    return makeError(codeFor(method), name + " is \"" + *method + "\", expected parameters, uniform or type:REGEX");
  std::string problem;
  if (pattern.empty() || !Regex(pattern).isValid(problem))
    return makeError(codeFor(method), name + " has \"" + pattern +
                                          "\" as pattern: " + (pattern.empty() ? "it matches everything" : problem));
  return Error::success();
}

/// More elements than any bucket or threshold means.
static constexpr int64_t kMostElements = int64_t(1) << 48;
/// More uses than any function has.
static constexpr int64_t kMostPrefetched = 65536;
/// A norm's few elements stand in front of the matrices of many: at 2 those are fetched while the use before the norm
/// computes.
static constexpr int64_t kCudaOffloadPrefetch = 2;

static Error checkMesh(const CompileOptions &options) {
  for (auto [flag, size] : {std::pair{"tp", &options.tp}, {"pp", &options.pp}, {"dp", &options.dp}})
    if (Error error = checkCount(flag, *size, 1, kMaxRanks))
      return error;
  int64_t tp = *options.tp, pp = *options.pp, dp = *options.dp;
  // Each factor is at most 2^12, so the product fits.
  if (tp * pp * dp > kMaxRanks)
    return usageError(nameOf("tp", options.tp) + " × " + nameOf("pp", options.pp) + " × " + nameOf("dp", options.dp) +
                      " = " + Twine(tp) + " × " + Twine(pp) + " × " + Twine(dp) + " = " + Twine(tp * pp * dp) +
                      " ranks, expected at most " + Twine(kMaxRanks));
  return Error::success();
}

Error hyc::checkVirtualStages(const CompileOptions &options) {
  int64_t virtualStages = *options.virtualStages, pp = *options.pp, microBatches = *options.gradAccum;
  if (virtualStages == 1)
    return Error::success();
  std::string name = nameOf("virtual-stages", options.virtualStages) + " is " + std::to_string(virtualStages);
  if (pp == 1)
    return makeError(codeFor(options.virtualStages),
                     name + ", which needs a pipeline, but " + nameOf("pp", options.pp) + " is 1; give --pp");
  if (*options.schedule != "1f1b")
    return makeError(codeFor(options.virtualStages), name + ", which interleaves 1f1b, but " +
                                                         nameOf("schedule", options.schedule) + " is \"" +
                                                         *options.schedule + "\"");
  if (microBatches % pp == 0)
    return Error::success();
  int64_t below = microBatches / pp * pp, above = below + pp;
  return makeError(codeFor(options.virtualStages),
                   name +
                       ", which needs grad-accum to be a multiple of pp: micro-batches pass the chunks in groups of " +
                       Twine(pp) + ", but " + nameOf("grad-accum", options.gradAccum) + " = " + Twine(microBatches) +
                       " = " + Twine(microBatches / pp) + " × " + Twine(pp) + " + " + Twine(microBatches % pp) +
                       "; choose " + (below > 0 ? Twine(below) + " or " : Twine("")) + Twine(above));
}

/// Modes that need a limit, and a limit that needs a mode.
static Error checkRecomputation(const CompileOptions &options) {
  bool isAuto = *options.recompute == "auto", isLimited = !options.activationMemory.empty();
  // A plan says by itself which activations are saved.
  if (isAuto && !isLimited && options.recompute.getOrigin() != Origin::Plan)
    return makeError(codeFor(options.recompute),
                     nameOf("recompute", options.recompute) +
                         " is auto, which needs a limit; give --activation-memory, as in 2GiB");
  if (isLimited && !isAuto)
    return usageError("--activation-memory is given, but " + nameOf("recompute", options.recompute) + " is " +
                      *options.recompute + "; only --recompute auto chooses by a limit");
  if (isLimited)
    if (auto bytes = parseByteCount("activation-memory", options.activationMemory); !bytes)
      return bytes.takeError();
  if (isAuto && *options.offloadActivations != "none")
    return makeError(codeFor(options.offloadActivations),
                     nameOf("offload-activations", options.offloadActivations) + " is " + *options.offloadActivations +
                         ", but " + nameOf("recompute", options.recompute) +
                         " is auto, which chooses what the device saves; give one of the two");
  if (*options.partitionActivations && *options.recompute != "layer")
    return makeError(codeFor(options.partitionActivations),
                     nameOf("partition-activations", options.partitionActivations) + " is given, but " +
                         nameOf("recompute", options.recompute) + " is " + *options.recompute +
                         "; only --recompute layer keeps layer boundaries alone");
  return Error::success();
}

/// A disk needs a folder, and a folder that was typed something to keep there. A config may have one for later use.
static Error checkNvmePath(const CompileOptions &options) {
  std::string optimizer = nameOf("offload-optimizer", options.offloadOptimizer),
              param = nameOf("offload-param", options.offloadParam);
  bool hasPath = !options.nvmePath->empty();
  for (auto [name, setting] : {std::pair{&optimizer, &options.offloadOptimizer}, {&param, &options.offloadParam}})
    if (**setting == "nvme" && !hasPath)
      return makeError(codeFor(*setting), *name + " is \"nvme\", which needs --nvme-path, a folder on that disk");
  if (!hasPath || options.nvmePath.getOrigin() != Origin::Flag || *options.offloadOptimizer == "nvme" ||
      *options.offloadParam == "nvme" || !options.planFile.empty())
    return Error::success();
  return usageError("--nvme-path is \"" + *options.nvmePath + "\", but " + optimizer + " is \"" +
                    *options.offloadOptimizer + "\" and " + param + " is \"" + *options.offloadParam +
                    "\": nothing is kept on a disk");
}

/// They would come back for an update on the device.
static Error checkOffloadedGradients(const CompileOptions &options) {
  if (*options.offloadGradients == "none" || *options.offloadOptimizer != "none" || !options.planFile.empty())
    return Error::success();
  return makeError(codeFor(options.offloadGradients),
                   nameOf("offload-gradients", options.offloadGradients) + " is " + *options.offloadGradients +
                       ", but " + nameOf("offload-optimizer", options.offloadOptimizer) +
                       " is none, so that the update runs on the device; give --offload-optimizer cpu or nvme as well");
}

/// Under fp16 an overflow is no error: the step is skipped and the loss scale lowered.
static Error checkFiniteType(const CompileOptions &options) {
  if (!options.checkFinite || *options.precision != "fp16")
    return Error::success();
  return usageError("--check-finite is given, but " + nameOf("precision", options.precision) +
                    " is fp16, whose loss scaling meets overflow by skipping the step; compute in bf16 or f32 to find "
                    "what makes it");
}

llvm::Expected<std::vector<int64_t>> hyc::gpuArchitectures(const CompileOptions &options) {
  std::vector<int64_t> result;
  if (options.target == "cpu")
    return result;
  for (const std::string &text : options.architectures) {
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
  if (options.entry != "train" && options.entry != "evaluate")
    return usageError("--entry is \"" + options.entry + "\", expected train or evaluate");
  if (options.entry == "evaluate" && !(options.train.empty() && options.freeze.empty()))
    return usageError(std::string(options.train.empty() ? "--freeze" : "--train") +
                      " is given, but --entry is evaluate, which trains nothing; leave one of them out");
  if (options.entry == "evaluate" && options.mode == "train")
    return usageError("--mode is train, but --entry is evaluate; leave one of them out");
  return Error::success();
}

static Error checkTarget(const CompileOptions &options) {
  if (options.optimization < 0 || options.optimization > 3)
    return usageError("--optimize is " + std::to_string(options.optimization) + ", expected 0 to 3");
  if (options.target != "cpu" && options.target != "cuda")
    return usageError("--target is \"" + options.target + "\", expected cpu or cuda");
  if (auto architectures = gpuArchitectures(options); !architectures)
    return architectures.takeError();
  return Error::success();
}

int64_t hyc::plannedThreads(const CompileOptions &options) {
  if (options.threads > 0)
    return options.threads;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  int64_t count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  return std::max<int64_t>(1, count / (*options.tp * *options.pp * *options.dp));
}

Expected<std::pair<std::string, int64_t>> hyc::parseDim(const std::string &text) {
  auto [name, digits] = StringRef(text).split('=');
  int64_t size = 0;
  if (name.empty() || digits.getAsInteger(10, size) || size < 1 || size > (int64_t(1) << 31))
    return usageError("--dim is \"" + text + "\", expected NAME=N with N at least 1, as in batch=8");
  return std::pair{name.str(), size};
}

/// What only means something beside another value of --precision.
template <typename T>
static Error refuseBeside(StringRef flag, const Setting<T> &setting, const Setting<std::string> &precision,
                          StringRef wayOut) {
  if (!setting.isGiven())
    return Error::success();
  return makeError(codeFor(setting), nameOf(flag, setting) + " does nothing while " + nameOf("precision", precision) +
                                         " is \"" + *precision + "\"; " + wayOut);
}

/// Sums into flat shards, and those of each micro-batch, are exchanged as they are.
static Error checkCommunicationType(const CompileOptions &options) {
  const std::string &type = *options.communicationType;
  bool divides = *options.zero > 0, isEach = *options.gradientReduction == "micro_batch";
  if (type.empty() || type == *options.gradientAccumulationType || (!divides && !isEach))
    return Error::success();
  std::string other = divides ? nameOf("zero", options.zero) + " is " + std::to_string(*options.zero)
                              : nameOf("gradient-reduction", options.gradientReduction) + " is \"micro_batch\"";
  return makeError(codeFor(options.communicationType),
                   nameOf("communication-type", options.communicationType) + " is \"" + type + "\", but " + other +
                       ", where gradients are exchanged in the type that they add up in (" +
                       *options.gradientAccumulationType + "); leave one of the two out");
}

/// Loss scaling is fp16's. DeepSpeed's fp16 section may say anything while it is off; a flag may not.
static Error checkScalesInF16(const CompileOptions &options) {
  if (*options.precision == "fp16")
    return Error::success();
  auto refuse = [&](StringRef flag, const auto &setting) {
    return setting.getOrigin() == Origin::Flag
               ? refuseBeside(flag, setting, options.precision, "compute in fp16, or leave it out")
               : Error::success();
  };
  if (Error error = refuse("loss-scale", options.lossScale))
    return error;
  if (Error error = refuse("initial-scale-power", options.initialScalePower))
    return error;
  if (Error error = refuse("loss-scale-window", options.lossScaleWindow))
    return error;
  if (Error error = refuse("hysteresis", options.hysteresis))
    return error;
  if (Error error = refuse("consecutive-hysteresis", options.consecutiveHysteresis))
    return error;
  return refuse("min-loss-scale", options.minLossScale);
}

static Error checkPrecision(const CompileOptions &options) {
  if (Error error = checkChoice("precision", options.precision, {"f32", "bf16", "fp16", "fp8"}))
    return error;
  if (Error error = checkChoice("gradient-accumulation-type", options.gradientAccumulationType, {"f32", "bf16"}))
    return error;
  if (!options.communicationType->empty())
    if (Error error = checkChoice("communication-type", options.communicationType, {"f32", "bf16", "fp16"}))
      return error;
  if (*options.precision == "f32" && *options.gradientAccumulationType != "f32")
    return refuseBeside("gradient-accumulation-type", options.gradientAccumulationType, options.precision,
                        "compute in bf16 or fp16, or leave it out");
  if (Error error = checkScalesInF16(options))
    return error;
  return checkCommunicationType(options);
}

static Error checkLossScaling(const CompileOptions &options) {
  constexpr double most = 0x1p126;
  if (*options.lossScale != 0)
    if (Error error =
            checkNumber("loss-scale", options.lossScale, 1, most, "0 (dynamic) or a number that is at least 1"))
      return error;
  if (Error error = checkCount("initial-scale-power", options.initialScalePower, 0, 126))
    return error;
  if (Error error = checkCount("loss-scale-window", options.lossScaleWindow, 1, int64_t(1) << 40))
    return error;
  if (Error error = checkCount("hysteresis", options.hysteresis, 1, int64_t(1) << 40))
    return error;
  return checkNumber("min-loss-scale", options.minLossScale, 0x1p-126, most, "a number above 0");
}

void hyc::resolveOptimizer(CompileOptions &options) {
  // DeepSpeed's "Adam" decouples the decay, unless it is told not to.
  if (*options.optimizer == "adam" && options.optimizer.getOrigin() == Origin::Config && *options.decoupledDecay)
    options.optimizer.offer("adamw", Origin::Config, options.optimizer.getSource());
  if (*options.optimizer == "lion")
    options.betas.offer({0.9, 0.99}, Origin::Derived, "lion's default");
  if (*options.optimizer == "sgd")
    options.cycleMomentum.offer(false, Origin::Flag, "sgd");
  // The schedule sets both betas of the parameters that it cycles; the second one is fixed there.
  if (*options.cycleMomentum)
    options.betas.offer({*options.cycleMomentumLeast, 0.99}, Origin::Config, options.cycleMomentum.getSource());
}

void hyc::resolveFollowers(CompileOptions &options) {
  if (options.prefetchBucket.isGiven() && *options.prefetchBucket > 0)
    options.prefetch.offer(kMostPrefetched, Origin::Derived, options.prefetchBucket.getSource());
  // Device and host are one memory on the CPU target, where nothing is gained.
  if (options.target == "cuda")
    options.offloadPrefetch.offer(kCudaOffloadPrefetch, Origin::Derived, "--target cuda");
  // DeepSpeed keeps gradients where the optimizer is.
  if (*options.offloadOptimizer != "none" && options.offloadOptimizer.getOrigin() == Origin::Config)
    options.offloadGradients.offer("cpu", Origin::Derived, options.offloadOptimizer.getSource());
  // DeepSpeed moves nothing but checkpoints.
  if (*options.offloadActivations == "cpu" && options.offloadActivations.getOrigin() == Origin::Config)
    options.recompute.offer("layer", Origin::Derived, options.offloadActivations.getSource());
  if (*options.partitionActivations && options.partitionActivations.getOrigin() == Origin::Config)
    options.recompute.offer("layer", Origin::Derived, options.partitionActivations.getSource());
}

bool hyc::startsFromCheckpoint(const CompileOptions &options) {
  return options.weights != "read" && options.weights != "initialise-missing" && options.weights != "initialise";
}

static Error checkWeights(const CompileOptions &options) {
  if (!startsFromCheckpoint(options) || sys::fs::exists(options.weights))
    return Error::success();
  return usageError("--weights is '" + options.weights +
                    "', expected read, initialise-missing, initialise, or a safetensors file or folder, which is not "
                    "there under this name");
}

Error hyc::checkOptions(const CompileOptions &options) {
  if (!options.deviceMemory.empty())
    if (auto bytes = parseByteCount("device-memory", options.deviceMemory); !bytes)
      return bytes.takeError();
  for (const std::string &dim : options.dims)
    if (auto parsed = parseDim(dim); !parsed)
      return parsed.takeError();
  // Each check runs only if those before it passed; the first failure is what the user hears of.
  const std::function<Error()> checks[] = {
      [&] { return checkMesh(options); },
      [&] { return checkCount("virtual-stages", options.virtualStages, 1, kMaxRanks); },
      [&] { return checkCount("micro-batch", options.microBatch, options.microBatch.isGiven() ? 1 : 0, kMaxBatch); },
      [&] { return checkCount("grad-accum", options.gradAccum, 1, kMaxBatch); },
      [&] { return checkCount("warmup-steps", options.warmupSteps, 0, int64_t(1) << 40); },
      [&] {
        return checkChoice("mode", Setting<std::string>(options.mode), {"exported", "train", "evaluate"});
      },
      [&] { return checkCount("threads", Setting<int64_t>(options.threads), 0, 4096); },
      [&] {
        return checkChoice("schedule", options.schedule, {"gpipe", "1f1b"});
      },
      [&] { return checkPartitionMethod(options.partitionMethod); },
      [&] { return checkCount("zero", options.zero, 0, 3); },
      [&] {
        return checkChoice("gradient-reduction", options.gradientReduction, {"auto", "step", "micro_batch"});
      },
      [&] { return checkCount("stage3-param-persistence-threshold", options.persistenceThreshold, 0, kMostElements); },
      [&] { return checkCount("stage3-prefetch", options.prefetch, 0, kMostPrefetched); },
      [&] { return checkCount("stage3-prefetch-bucket-size", options.prefetchBucket, 0, kMostElements); },
      [&] { return checkCount("reductions-in-flight", options.reductionsInFlight, 0, kMostElements); },
      [&] { return checkCount("stage3-max-live-parameters", options.maxLiveParameters, 0, kMostElements); },
      [&] { return checkCount("reduce-bucket-size", options.reduceBucket, 0, kMostElements); },
      [&] { return checkCount("allgather-bucket-size", options.gatherBucket, 0, kMostElements); },
      [&] {
        return checkChoice("recompute", options.recompute, {"none", "layer", "selective", "auto"});
      },
      [&] { return checkRecomputation(options); },
      [&] { return checkPrecision(options); },
      [&] { return checkLossScaling(options); },
      [&] {
        return checkChoice("offload-optimizer", options.offloadOptimizer, {"none", "cpu", "nvme"});
      },
      [&] {
        return checkChoice("offload-param", options.offloadParam, {"none", "cpu", "nvme"});
      },
      [&] {
        return checkChoice("offload-gradients", options.offloadGradients, {"none", "cpu"});
      },
      [&] { return checkOffloadedGradients(options); },
      [&] {
        return checkChoice("offload-activations", options.offloadActivations, {"none", "cpu"});
      },
      [&] { return checkCount("sub-group-size", options.subGroup, 1, kMostElements); },
      [&] { return checkCount("offload-prefetch", options.offloadPrefetch, 0, kMostPrefetched); },
      [&] { return checkCount("offload-param-max-in-cpu", options.maxInHost, 0, kMostElements); },
      [&] { return checkNumber("offload-ratio", options.offloadRatio, 0, 1.0000001, "a number from 0 to 1"); },
      [&] { return checkNvmePath(options); },
      [&] { return checkFiniteType(options); },
      [&] { return checkEntry(options); },
      [&] { return checkTarget(options); },
      [&] { return checkWeights(options); },
      [&] {
        return checkChoice("optimizer", options.optimizer, {"adamw", "adam", "sgd", "lamb", "lion"});
      },
      [&] { return checkSchedule(options.learningRateSchedule); },
      [&] { return checkNumber("lr", options.learningRate, 0, kNoLimit, "a number that is at least 0"); },
      [&] { return checkNumber("weight-decay", options.weightDecay, 0, 1e6, "a number that is at least 0"); },
      [&] { return checkNumber("momentum", options.momentum, 0, 1, "a number from 0 to below 1"); },
      [&] { return checkNumber("eps", options.epsilon, kLeastEpsilon, 1, "a number above 0 and below 1"); },
      [&] { return checkBetas(options.betas); },
      [&] { return checkTrust(options); },
      [&] { return checkCycle(options); },
      [&] {
        return checkNumber("clip-grad-norm", options.clipGradNorm, 0, kNoLimit,
                           "a number that is at least 0; 0 does not clip");
      },
  };
  for (const std::function<Error()> &check : checks)
    if (Error error = check())
      return error;
  return Error::success();
}
