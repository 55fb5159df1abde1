// The rows of the table. Ranges that need another setting are in Driver's OptionChecks.cpp.
#include "hyc/Plan/SettingTable.h"

#include "hyc/Plan/AdapterSettings.h"
#include "hyc/Support/DriverError.h"
#include "hyc/Support/NamePattern.h"
#include "hyc/Support/Optimizers.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;
using namespace hyc;

using P = Plan;
using C = CompileOptions;

//===----------------------------------------------------------------------===//
// What a range cannot say
//===----------------------------------------------------------------------===//

static Error refuse(const CompileOptions &options, const SettingRow &row, const Twine &what) {
  return makeError(isOfFile(originOf(row.in(options))) ? ExitCode::Data : ExitCode::Usage,
                   nameOf(row, options) + " " + what);
}

/// DeepSpeed's schedules have parameters that no flag says.
static Error checkRule(const CompileOptions &options, const SettingRow &row) {
  constexpr StringLiteral words = "constant|linear|cosine";
  const Setting<std::string> &rule = options.learningRateSchedule;
  if (rule.getOrigin() == Origin::Config || isWithin({SettingRange::Choice, 0, 0, words}, *rule))
    return Error::success();
  return refuse(options, row, "is \"" + *rule + "\", expected " + listWords(words));
}

static Error checkPartitionMethod(const CompileOptions &options, const SettingRow &row) {
  const std::string &method = *options.partitionMethod;
  if (method == "parameters" || method == "uniform")
    return Error::success();
  StringRef pattern = method;
  if (!pattern.consume_front("type:"))
    return refuse(options, row, "is \"" + method + "\", expected parameters, uniform or type:REGEX");
  Expected<NamePattern> compiled = NamePattern::compile(pattern);
  if (compiled)
    return Error::success();
  return refuse(options, row,
                "has \"" + pattern.take_front(100).str() + "\" as pattern: " + toString(compiled.takeError()));
}

static Error checkLora(const CompileOptions &options, const SettingRow &row) {
  if (options.lora->empty() || AdapterSettings::isFolder(*options.lora))
    return Error::success();
  Expected<AdapterSettings> settings = AdapterSettings::parse(*options.lora);
  return settings ? Error::success() : refuse(options, row, toString(settings.takeError()));
}

static constexpr double kMostScale = 0x1p126;

static Error checkLossScale(const CompileOptions &options, const SettingRow &row) {
  double scale = *options.lossScale;
  if (scale == 0 || (scale >= 1 && scale < kMostScale))
    return Error::success();
  return refuse(options, row, "is " + print(scale) + ", expected 0 (dynamic) or a number that is at least 1");
}

/// It becomes part of a compiler's argument and of a CMakeLists.txt.
static Error checkMarch(const CompileOptions &options, const SettingRow &row) {
  StringRef name = *options.march;
  if (!name.empty() && all_of(name, [](char c) { return isAlnum(c) || StringRef("-_.+").contains(c); }))
    return Error::success();
  return refuse(options, row, "is \"" + name.take_front(100) + "\", expected a CPU's name, as in native or x86-64-v3");
}

//===----------------------------------------------------------------------===//
// What it takes for a setting to do anything
//===----------------------------------------------------------------------===//

static bool offloads(const Plan &plan) {
  for (const auto *place :
       {&plan.offloadOptimizer, &plan.offloadParam, &plan.offloadGradients, &plan.offloadActivations})
    if (**place != OffloadPlace::None)
      return true;
  return false;
}
static bool isOnDisk(const Plan &plan) {
  return *plan.offloadOptimizer == OffloadPlace::Nvme || *plan.offloadParam == OffloadPlace::Nvme;
}

/// Gradients are summed over tp, too, where the sequence is split, and over stages that share a weight.
static bool sumsGradients(const Plan &plan) { return plan.rankCount() > 1; }
/// From stage 2 on gradients are summed as they are made, whichever ranks do it.
static bool divides(const Plan &plan) { return *plan.dp > 1 || (*plan.zero >= 2 && sumsGradients(plan)); }
/// How many micro-batches there are may be known later.
static bool ordersWork(const Plan &plan) { return *plan.pp > 1 || *plan.gradAccum > 1 || *plan.globalBatch > 0; }
static bool offloadsStates(const Plan &plan) {
  return *plan.offloadOptimizer != OffloadPlace::None || *plan.offloadParam != OffloadPlace::None;
}

static constexpr SettingEffect kOverTp{[](const Plan &plan) { return *plan.tp > 1; }, "tp is above 1"},
    kOverPp{[](const Plan &plan) { return *plan.pp > 1; }, "pp is above 1"}, kOverDp{divides, "dp is above 1"},
    kOverRanks{sumsGradients, "there are several ranks"},
    kOrdering{ordersWork, "there are several stages or micro-batches"},
    kUnderZero{[](const Plan &plan) { return *plan.zero > 0 && *plan.dp > 1; }, "--zero is 1, 2 or 3 and dp above 1"},
    kUnderZero3{[](const Plan &plan) { return *plan.zero == 3 && *plan.dp > 1; }, "--zero is 3 and dp above 1"},
    kBesideMasters{[](const Plan &plan) { return *plan.precision != Precision::F32; },
                   "--precision is bf16, fp16 or fp8"},
    kOffloading{offloads, "something is offloaded"},
    kOffloadingAny{offloadsStates, "--offload-optimizer or --offload-param is cpu or nvme"},
    kOffloadingStates{[](const Plan &plan) { return *plan.offloadOptimizer != OffloadPlace::None; },
                      "--offload-optimizer is cpu or nvme"},
    kOffloadingToDisk{isOnDisk, "--offload-optimizer or --offload-param is nvme"},
    kParamsOnDisk{[](const Plan &plan) { return *plan.offloadParam == OffloadPlace::Nvme; }, "--offload-param is nvme"},
    kOnCuda{[](const Plan &plan) { return *plan.target == TargetKind::Cuda; }, "--target is cuda"},
    kOfSgd{[](const Plan &plan) { return *plan.optimizer == "sgd"; }, "--optimizer is sgd"},
    kDecaying{[](const Plan &plan) { return *plan.weightDecay != 0; }, "--weight-decay is above 0"},
    kTraining{[](const Plan &plan) { return !plan.evaluates(); }, "--entry is train"};

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// A flag.
template <auto Member, typename Owner>
static constexpr SettingRow rowFor(Owner *, SettingCategory category, StringRef flag, StringRef valueName,
                                   StringRef help) {
  SettingRow row;
  if constexpr (std::is_same_v<Owner, CompileOptions>)
    row.ofOptions = memberOfOptions<Member>;
  else
    row.ofPlan = memberOfPlan<Member>;
  row.category = category;
  row.flag = flag;
  row.valueName = valueName;
  row.help = help;
  return row;
}
template <typename Owner, typename T> static constexpr Owner *ownerOf(T Owner::*) { return nullptr; }

template <auto Member>
static constexpr SettingRow flag(SettingCategory category, StringRef name, StringRef valueName, StringRef help) {
  return rowFor<Member>(ownerOf(Member), category, name, valueName, help);
}
/// What only a ds_config says; `name` is what messages call it.
template <auto Member> static constexpr SettingRow key(SettingCategory category, StringRef help) {
  return rowFor<Member>(ownerOf(Member), category, {}, {}, help);
}

static constexpr SettingCategory kModel = SettingCategory::Model, kMesh = SettingCategory::Mesh,
                                 kBatch = SettingCategory::Batch, kPrecision = SettingCategory::Precision,
                                 kMemory = SettingCategory::Memory, kOptimizer = SettingCategory::Optimizer,
                                 kFiles = SettingCategory::Files, kOutput = SettingCategory::Output;
static constexpr double kUnbounded = 1e300;
static constexpr double kMostSteps = static_cast<double>(int64_t(1) << 40);
static constexpr double kElements = static_cast<double>(kMostElements);
/// What f32 can still add to a denominator.
static constexpr double kLeastEpsilon = 1e-38;
static constexpr char kNotNegative[] = "a number that is at least 0", kPart[] = "a number from 0 to 1",
                      kBelowOne[] = "a number from 0 to below 1";

// clang-format off
static constexpr SettingRow kSettings[] = {
    // The model
    flag<&P::loss>(kModel, "loss", "NAME", "cross_entropy, causal_lm, mse, binary_cross_entropy, or a scalar output of the model"),
    flag<&P::logits>(kModel, "logits", "NAME", "Output that the loss reads").byDefault("the only one"),
    flag<&P::labels>(kModel, "labels", "NAME", "Input that holds the labels; added where the model has none"),
    flag<&C::dims>(kModel, "dim", "NAME=N[,N…]", "Size of a symbolic dimension; may be repeated. One of them may have several: the programs then train each step at the smallest that its samples fit in"),
    flag<&C::weights>(kModel, "weights", "SOURCE", "Where parameters start: read (the model's own), initialise-missing, initialise, or a safetensors file or the folder of one"),
    flag<&P::entry>(kModel, "entry", "NAME", "What the programs are for: train, or evaluate, which drops nothing, counts what is predicted right, and needs memory for neither gradients nor optimizer; train,evaluate: both, over the same parameters (hyc-run --evaluate-data); by default both, or train alone where the model cannot be evaluated beside it").oneOf("train|evaluate|train,evaluate"),
    flag<&C::mode>(kModel, "mode", "MODE", "How the model runs: exported (as the file has it), train (batch norm by the batch, running averages kept) or evaluate (batch norm by running averages, nothing dropped, no buffer written)").oneOf("exported|train|evaluate"),
    flag<&C::paddingMask>(kModel, "padding-mask", "", "An encoder's folder takes a second input, attention_mask: 1 for each token that is looked at, 0 for padding"),
    flag<&C::keepMerged>(kModel, "keep-merged", "", "A tensor of one value that an ONNX file has for several modules is one parameter, not one for each of them"),
    flag<&P::dropout>(kModel, "dropout", "", "What the model drops at random is dropped; =false to evaluate or fine-tune without"),
    flag<&P::separateDocuments>(kModel, "separate-documents", "", "Documents that lie in one sequence do not see each other: the model reads position_ids, which begin at 0 with each (hyc data writes them with --pack, and hyc-run counts them in token files that tell where documents begin)"),

    // The mesh and the schedule
    flag<&P::tp>(kMesh, "tp", "N", "Ranks that split each layer").within(1, kMaxRanks).plan("mesh/tp").config("tensor_parallel.autotp_size"),
    flag<&P::pp>(kMesh, "pp", "N", "Pipeline stages").within(1, kMaxRanks).plan("mesh/pp").config("pipeline.stages"),
    flag<&P::dp>(kMesh, "dp", "N", "Ranks that split the batch").within(1, kMaxRanks).plan("mesh/dp"),
    flag<&P::ranks>(kMesh, "ranks", "N[,N...]", "All ranks; hyc finds the layout, but for what a flag, a config or a plan says. Of several sizes each gets programs, of which a run takes those that fit").within(1, kMaxRanks).atCommas().byDefault("tp × pp × dp"),
    flag<&P::schedule>(kMesh, "schedule", "NAME", "Order of micro-batches in the pipeline: gpipe or 1f1b").acting(kOrdering).oneOf(wordsUpTo(PipelineSchedule::OneForwardOneBackward)).plan("schedule"),
    flag<&P::virtualStages>(kMesh, "virtual-stages", "N", "Pieces of the model that each pipeline stage computes, interleaving 1f1b (virtual pipeline stages)").within(1, kMaxRanks).planOr("virtual_stages", "1").omitted(),
    flag<&P::partitionMethod>(kMesh, "partition-method", "METHOD", "What stages balance: parameters, uniform or type:REGEX").acting(kOverPp).checked(checkPartitionMethod).plan("partition_method").config("pipeline.partition"),
    flag<&P::sequenceParallel>(kMesh, "sequence-parallel", "", "Split the sequence over tp too, between the blocks that tp splits otherwise").acting(kOverTp),
    flag<&P::gathersAhead>(kMesh, "gathers-ahead", "N", "Products that backward's gathers of saved activations start before their use, as under --sequence-parallel").acting(kOverTp).within(0, 1000).planOr("gathers_ahead", "1").omitted().policy(),
    flag<&P::threads>(kMesh, "threads", "N", "Most threads of each rank; 0 shares the cores of this machine among the ranks").within(0, 4096).policy(),
    flag<&C::machineFile>(kMesh, "machine", "NAME", "JSON with a rank's rates and how ranks are joined, by which a step's time is estimated and a layout found; a file, or a machine that hyc knows, as in h100-sxm").byDefault("a server CPU's core a thread"),
    flag<&C::measuredFiles>(kMesh, "measured", "FILE", "Plan by what a run took: the profile.json of hyc-run --profile corrects the rates of --machine, and tells which ranks are slower than others; may be repeated, for a run of programs that were compiled with --measured"),
    flag<&C::planCandidates>(kMesh, "plan-candidates", "N", "Show the N best layouts of --ranks side by side; the first few are planned, others estimated").within(0, 100),
    flag<&C::planSeconds>(kMesh, "plan-seconds", "X", "End the search for a layout after so many seconds, with the best so far").within(0, 86400).byDefault("no end"),
    flag<&C::deviceMemory>(kMesh, "device-memory", "SIZE", "Memory that a rank may have, as in 24GiB; a plan that needs more is refused").bytes(),

    // The batch
    flag<&P::globalBatch>(kBatch, "global-batch", "N", "Samples of one step over all ranks; grad-accum follows, or the micro-batch where --grad-accum is given").within(1, 1e12).counting("samples").byDefault("micro-batch × grad-accum × dp").config("train_batch_size"),
    flag<&P::microBatch>(kBatch, "micro-batch", "N", "Samples of one micro-batch on one rank").within(1, kMaxBatch).counting("samples").byDefault("1, or what the model fixes").planOr("micro_batch", "").omitted().config("train_micro_batch_size_per_gpu"),
    flag<&P::gradAccum>(kBatch, "grad-accum", "N", "Micro-batches of one step, which fill the pipeline").within(1, kMaxBatch).counting("micro-batches").planOr("grad_accum", "").omitted().config("gradient_accumulation_steps"),

    // Types
    flag<&P::precision>(kPrecision, "precision", "TYPE", "What the model computes in, beside f32 masters: f32, bf16, fp16, or fp8, which is experimental: bf16, but products with parameters in 8 bits under delayed scaling").oneOf(wordsUpTo(Precision::FP8)).planOr("precision", "").omitted().config("fp16.enabled bf16.enabled"),
    flag<&P::frozenMasters>(kPrecision, "frozen-masters", "", "bf16, fp16: frozen parameters are kept in f32 as they were read, too; =false keeps only what is computed with, and saves that").acting(kBesideMasters).policy(),
    flag<&P::frozenWeights>(kPrecision, "frozen-weights", "HOW", "How the weights of frozen linear layers are kept, all but that of the model's output: full (as --precision has them), int8 (bitsandbytes' LLM.int8, a number a row) or nf4 (QLoRA's 4 bits, blocks of 64, their scales in 8 bits); dequantised where they are used").oneOf("full|int8|nf4").planOr("frozen_weights", "full").omitted(),
    flag<&P::gradientAccumulationType>(kPrecision, "gradient-accumulation-type", "TYPE", "What gradients add up in: f32 or bf16").oneOf("f32|bf16").config("data_types.grad_accum_dtype"),
    flag<&P::communicationType>(kPrecision, "communication-type", "TYPE", "What gradients are reduced in: f32, bf16 or fp16").acting(kOverRanks).oneOf("f32|bf16|fp16").byDefault("as they add up").config("communication_data_type gradient_compression.algorithm").policy(),
    flag<&P::lossScale>(kPrecision, "loss-scale", "X", "fp16: a fixed loss scale; 0 adapts it").checked(checkLossScale).config("fp16.loss_scale"),
    flag<&P::initialScalePower>(kPrecision, "initial-scale-power", "N", "fp16: the loss scale begins at 2 to this power").within(0, 126).config("fp16.initial_scale_power"),
    flag<&P::lossScaleWindow>(kPrecision, "loss-scale-window", "N", "fp16: good steps after which it doubles").within(1, kMostSteps).counting("steps").config("fp16.loss_scale_window"),
    flag<&P::hysteresis>(kPrecision, "hysteresis", "N", "fp16: overflows that it takes to halve it").within(1, kMostSteps).config("fp16.hysteresis"),
    flag<&P::consecutiveHysteresis>(kPrecision, "consecutive-hysteresis", "", "fp16: a good step forgets earlier overflows").config("fp16.consecutive_hysteresis"),
    flag<&P::minLossScale>(kPrecision, "min-loss-scale", "X", "fp16: it never falls below this").below(0x1p-126, kMostScale, "a number above 0").config("fp16.min_loss_scale"),
    flag<&P::checkFinite>(kPrecision, "check-finite", "", "f32, bf16: programs end with the step, the rank and the first op that makes a NaN or an infinity; they read every result once more for it").policy(),

    // Lifetimes and places
    flag<&P::recompute>(kMemory, "recompute", "MODE", "Activations that backward computes again: none, layer (all but what crosses between layers), selective (the inside of written-out attention) or auto (what does not fit --activation-memory)").oneOf(wordsUpTo(RecomputeMode::Auto)).planOr("recompute", "none").config("pipeline.activation_checkpoint_interval"),
    flag<&C::activationMemory>(kMemory, "activation-memory", "BYTES", "With --recompute auto: most bytes of a rank's activations arena, as in 512MiB or 2GiB").bytes(),
    flag<&P::partitionActivations>(kMemory, "partition-activations", "", "With --recompute layer: each rank of tp keeps its part of what crosses between layers").acting(kOverTp).config("activation_checkpointing.partition_activations"),
    flag<&P::keepConstants>(kMemory, "keep-constants", "", "Tables, masks and the like, which are the same in every step, are made once and stay in an arena of their own (constants); =false makes them in each function that reads them, where they take memory only meanwhile").planOr("keep_constants", "true").omitted().policy(),
    flag<&P::offloadActivations>(kMemory, "offload-activations", "WHERE", "Where what --recompute leaves to be saved waits for backward: none (on the device) or cpu (the host's memory); with --recompute layer, CPU checkpointing").oneOf(wordsUpTo(OffloadPlace::Cpu)).config("activation_checkpointing.cpu_checkpointing"),
    flag<&P::offloadOptimizer>(kMemory, "offload-optimizer", "WHERE", "What the optimizer keeps: none, cpu (host memory) or nvme").oneOf(wordsUpTo(OffloadPlace::Nvme)).plan("offload/optimizer").config("zero_optimization.offload_optimizer.device zero_optimization.cpu_offload"),
    flag<&P::offloadParam>(kMemory, "offload-param", "WHERE", "Parameters: none, cpu (host memory) or nvme").oneOf(wordsUpTo(OffloadPlace::Nvme)).plan("offload/param").config("zero_optimization.offload_param.device zero_optimization.cpu_offload_param"),
    flag<&P::offloadGradients>(kMemory, "offload-gradients", "WHERE", "Where gradients are kept between additions to them: none (on the device) or cpu (the host's memory); goes with --offload-optimizer").oneOf(wordsUpTo(OffloadPlace::Cpu)).planOr("offload/gradients", "none"),
    flag<&P::offloadRatio>(kMemory, "offload-ratio", "X", "Part of the elements whose optimizer states are moved out").acting(kOffloadingStates).within(0, 1, kPart).plan("offload/ratio").config("zero_optimization.offload_optimizer.ratio"),
    flag<&P::maxInHost>(kMemory, "offload-param-max-in-cpu", "N", "Elements of parameters for nvme that stay in host memory").acting(kParamsOnDisk).within(0, kElements).counting("elements").plan("offload/max_in_cpu").config("zero_optimization.offload_param.max_in_cpu"),
    flag<&P::subGroup>(kMemory, "sub-group-size", "N", "Elements whose offloaded states move together").acting(kOffloadingAny).within(1, kElements).counting("elements").plan("offload/sub_group_size").config("zero_optimization.sub_group_size").policy(),
    flag<&P::readAhead>(kMemory, "offload-read-ahead", "", "Read from nvme while the group before is updated").acting(kOffloadingToDisk).plan("offload/pipeline_read").config("zero_optimization.offload_optimizer.pipeline_read").policy(),
    flag<&P::writeBehind>(kMemory, "offload-write-behind", "", "Write to nvme while the group after is updated").acting(kOffloadingToDisk).plan("offload/pipeline_write").config("zero_optimization.offload_optimizer.pipeline_write").policy(),
    // A plan without it is one that fetches where a tensor is needed.
    flag<&P::offloadPrefetch>(kMemory, "offload-prefetch", "N", "Uses that what is offloaded is fetched ahead of its own, and evictions that are under way meanwhile").acting(kOffloading).within(0, kMostUses).counting("uses").byDefault("0; with --target cuda 2").planOr("offload/prefetch", "0").policy(),
    // A plan without it is one whose kernels reach over the bus.
    flag<&P::offloadWindow>(kMemory, "offload-window", "N", "With --target cuda: what is updated of the host's memory passes through windows of so many bytes on the device, three at a time; 0: kernels reach over the bus").acting(kOnCuda).within(0, kElements).counting("bytes").byDefault("0; with --target cuda 33554432").planOr("offload/window", "0").policy(),
    flag<&P::nvmePath>(kMemory, "nvme-path", "FOLDER", "Where nvme is; hyc-run --nvme-path wins").config("zero_optimization.offload_optimizer.nvme_path zero_optimization.offload_param.nvme_path"),

    // ZeRO
    flag<&P::zero>(kMesh, "zero", "STAGE", "What dp ranks divide instead of repeating: 1 optimizer states, 2 gradients too, 3 parameters too").acting(kOverDp).within(0, 3).plan("zero/stage").config("zero_optimization.stage"),
    flag<&P::gradientReduction>(kMesh, "gradient-reduction", "WHEN", "When ranks sum gradients: once a step, or each micro_batch as they are made").acting(kOverRanks).oneOf("auto|step|micro_batch").byDefault("step; micro_batch for --zero 2 and 3").plan("zero/gradient_reduction"),
    flag<&P::persistenceThreshold>(kMesh, "stage3-param-persistence-threshold", "N", "Parameters of at most N elements stay whole under --zero 3").acting(kUnderZero3).within(0, kElements).counting("elements").plan("zero/persistence_threshold").config("zero_optimization.stage3_param_persistence_threshold"),
    flag<&P::prefetch>(kMesh, "stage3-prefetch", "N", "Under --zero 3 parameters are asked for N uses before they are needed").acting(kUnderZero3).within(0, kMostUses).counting("uses").plan("zero/prefetch"),
    // A plan without it is one that bounds what is ahead by prefetch alone; one without the next awaits sums where they are made.
    flag<&P::prefetchBucket>(kMesh, "stage3-prefetch-bucket-size", "N", "Most elements that are there before they are needed; without --stage3-prefetch, as early as that allows").acting(kUnderZero3).within(0, kElements).counting("elements").planOr("zero/prefetch_bucket", "281474976710656").config("zero_optimization.stage3_prefetch_bucket_size").policy(),
    flag<&P::maxLiveParameters>(kMesh, "stage3-max-live-parameters", "N", "Most elements that prefetching may have gathered at once").acting(kUnderZero3).within(0, kElements).counting("elements").plan("zero/max_live_parameters").config("zero_optimization.stage3_max_live_parameters").policy(),
    flag<&P::reductionsInFlight>(kMesh, "reductions-in-flight", "N", "Gradients that are summed as they are made: how many sums may be under way while backward computes").acting(kOverRanks).within(0, kElements).planOr("zero/reductions_in_flight", "1").config("zero_optimization.overlap_comm").policy(),
    flag<&P::reduceBucket>(kMesh, "reduce-bucket-size", "N", "Most elements that one reduce-scatter carries").acting(kUnderZero).within(0, kElements).counting("elements").plan("zero/reduce_bucket").config("zero_optimization.reduce_bucket_size").policy(),
    flag<&P::gatherBucket>(kMesh, "allgather-bucket-size", "N", "Most elements that one all-gather carries").acting(kUnderZero).within(0, kElements).counting("elements").plan("zero/allgather_bucket").config("zero_optimization.allgather_bucket_size").policy(),

    // The update
    flag<&P::optimizer>(kOptimizer, "optimizer", "NAME", kOptimizerList).acting(kTraining).oneOf(kOptimizerChoices).config("optimizer.type"),
    flag<&P::learningRateSchedule>(kOptimizer, "lr-schedule", "RULE", "constant, linear or cosine, over hyc-run --steps").acting(kTraining).checked(checkRule).config("scheduler.type"),
    flag<&P::learningRate>(kOptimizer, "lr", "X", "Learning rate").acting(kTraining).below(0, kUnbounded, kNotNegative).config("optimizer.params.lr scheduler.params.warmup_max_lr scheduler.params.cycle_max_lr"),
    flag<&P::warmupSteps>(kOptimizer, "warmup-steps", "N", "Steps over which the learning rate rises from 0").acting(kTraining).within(0, kMostSteps).counting("steps").config("scheduler.params.warmup_num_steps"),
    flag<&P::weightDecay>(kOptimizer, "weight-decay", "X", "Added to the gradient for adam and sgd, decoupled for others").acting(kTraining).below(0, 1e6, kNotNegative).config("optimizer.params.weight_decay"),
    flag<&P::train>(kOptimizer, "train", "REGEX", "Train only the parameters whose names match; may be repeated").byDefault("all"),
    flag<&P::freeze>(kOptimizer, "freeze", "REGEX", "Do not train the parameters whose names match; may be repeated"),
    flag<&P::lora>(kOptimizer, "lora", "rank=N,alpha=X,targets=NAME[,NAME...]", "Train adapters of low rank beside linear layers, and of the model itself only what --train names; targets are the ends of modules' paths, patterns of whole paths, or all-linear; variant=rslora scales by alpha over the rank's root, variant=dora trains the length of each output's weights, too; or the folder of an adapter that peft saved").checked(checkLora),
    flag<&P::noDecay>(kOptimizer, "no-decay", "REGEX", "Parameters that do not decay; may be repeated").acting(kDecaying),
    flag<&P::momentum>(kOptimizer, "momentum", "X", "Momentum of sgd").acting(kOfSgd).below(0, 1, kBelowOne).config("optimizer.params.momentum"),
    flag<&P::clipGradNorm>(kOptimizer, "clip-grad-norm", "X", "Largest global norm of the gradient; 0 does not clip").below(0, kUnbounded, "a number that is at least 0; 0 does not clip").config("gradient_clipping"),
    key<&P::betas>(kOptimizer, "Decay of the moments").below(0, 1, "two numbers from 0 to below 1").config("optimizer.params.betas"),
    key<&P::epsilon>(kOptimizer, "Added to the denominator").below(kLeastEpsilon, 1, "a number above 0 and below 1").config("optimizer.params.eps"),
    key<&P::correctBias>(kOptimizer, "Whether the moments' start at 0 is corrected").config("optimizer.params.bias_correction"),
    key<&P::decoupledDecay>(kOptimizer, "Whether \"Adam\" means adamw").config("optimizer.params.adam_w_mode"),
    key<&P::leastTrust>(kOptimizer, "Lower bound of lamb's trust ratio").config("optimizer.params.min_coeff"),
    key<&P::mostTrust>(kOptimizer, "Upper bound of lamb's trust ratio").config("optimizer.params.max_coeff"),
    key<&P::warmupMinimum>(kOptimizer, "Rate before the warm-up").config("scheduler.params.warmup_min_lr"),
    key<&P::warmupMinimumRatio>(kOptimizer, "Part of the learning rate before the warm-up").config("scheduler.params.warmup_min_ratio"),
    key<&P::cosineMinimumRatio>(kOptimizer, "Part of the learning rate at the end").config("scheduler.params.cos_min_ratio"),
    key<&P::warmupType>(kOptimizer, "How the warm-up rises").config("scheduler.params.warmup_type"),
    key<&P::totalSteps>(kOptimizer, "Where the decay ends").counting("steps").byDefault("with the run").config("scheduler.params.total_num_steps"),
    key<&P::cycleMinimum>(kOptimizer, "Lowest learning rate of a cycle").config("scheduler.params.cycle_min_lr"),
    key<&P::cycleDecayRate>(kOptimizer, "Decay of the rate after the cycle").config("scheduler.params.decay_lr_rate"),
    key<&P::cycleFirstSteps>(kOptimizer, "Steps of the rise").counting("steps").config("scheduler.params.cycle_first_step_size"),
    key<&P::cycleSecondSteps>(kOptimizer, "Steps of the fall").counting("steps").config("scheduler.params.cycle_second_step_size"),
    key<&P::cycleFirstStairs>(kOptimizer, "Stairs of the rise; 0: continuous").config("scheduler.params.cycle_first_stair_count"),
    key<&P::cycleSecondStairs>(kOptimizer, "Stairs of the fall; 0: continuous").config("scheduler.params.cycle_second_stair_count"),
    key<&P::cycleDecaySteps>(kOptimizer, "Steps of one decay; 0: none").counting("steps").config("scheduler.params.decay_step_size"),
    key<&P::cycleMomentum>(kOptimizer, "Whether the first beta goes against the rate").config("scheduler.params.cycle_momentum"),
    key<&P::cycleMomentumLeast>(kOptimizer, "Lowest first beta").config("scheduler.params.cycle_min_mom"),
    key<&P::cycleMomentumMost>(kOptimizer, "Highest first beta").config("scheduler.params.cycle_max_mom"),
    key<&P::cycleMomentumDecay>(kOptimizer, "Growth of the first beta after the cycle").config("scheduler.params.decay_mom_rate"),

    // Files that decide
    flag<&C::configFile>(kFiles, "config", "FILE", "A DeepSpeed ds_config.json; flags win over it"),
    flag<&C::planFile>(kFiles, "plan", "FILE", "A plan.json of an earlier compilation, edited or not"),
    flag<&P::poison>(kFiles, "poison", "", "For tests: programs whose hyc-run --poison overwrites every buffer at the end of its planned life").policy(),

    // What is left behind
    flag<&C::output>(kOutput, "o", "PATH", "Folder, or file for the text of a phase").byDefault("out, or standard output"),
    flag<&C::emit>(kOutput, "emit", "WHAT", "Where to stop: after the text of a phase (model, train, plan, local or rank), with the C++ (source) or with programs (exe)").oneOf("model|train|plan|local|rank|source|exe"),
    flag<&C::planOnly>(kOutput, "plan-only", "", "Stop before any code is made: write plan.json, report.txt, memory.json, plan.html"),
    flag<&C::dumpFolder>(kOutput, "dump-dir", "FOLDER", "Write the text after each phase here too"),
    flag<&P::target>(kOutput, "target", "NAME", "What programs run on: cpu or cuda").oneOf(wordsUpTo(TargetKind::Cuda)),
    flag<&C::optimization>(kOutput, "optimize", "N", "How hard the host compiler works on generated code, 0 to 3; no bit of a result depends on it").within(0, 3),
    flag<&C::march>(kOutput, "march", "CPU", "The oldest CPU that programs run on, in the words of the host compiler, as in x86-64-v3; hyc-run compares each host with it").checked(checkMarch).byDefault("native: this machine's"),
    flag<&C::architectures>(kOutput, "arch", "sm_N", "cuda: which GPUs, as in sm_80,sm_90").acting(kOnCuda).atCommas().byDefault("both"),
};
// clang-format on

ArrayRef<SettingRow> hyc::getSettings() { return kSettings; }

//===----------------------------------------------------------------------===//
// Finding rows
//===----------------------------------------------------------------------===//

const SettingRow *hyc::findSettingOfConfigKey(StringRef key) {
  for (const SettingRow &row : kSettings)
    for (StringRef rest = row.configKeys; !rest.empty();) {
      auto [first, others] = rest.split(' ');
      if (first == key)
        return &row;
      rest = others;
    }
  return nullptr;
}

const SettingRow *hyc::findPolicy(StringRef name) {
  for (const SettingRow &row : kSettings)
    if (row.isPolicy && row.policyName() == name)
      return &row;
  return nullptr;
}

const SettingRow &hyc::rowOf(SettingRef (*member)(Plan &)) {
  for (const SettingRow &row : kSettings)
    if (row.ofPlan == member)
      return row;
  report_fatal_error("a member of the plan has no row in the table of settings");
}

std::vector<const SettingRow *> hyc::flagsWithoutEffect(const CompileOptions &options) {
  std::vector<const SettingRow *> rows;
  if (!options.planFile->empty())
    return rows;
  const CompileOptions defaults;
  for (const SettingRow &row : kSettings)
    if (row.effect.isThere && originOf(row.in(options)) == Origin::Flag &&
        valueOf(row.in(options)) != valueOf(row.in(defaults)) && !row.effect.isThere(options))
      rows.push_back(&row);
  return rows;
}

StringRef hyc::titleOf(SettingCategory category) {
  constexpr StringLiteral titles[] = {"Model",     "Parallelism",       "Batch", "Precision", "Memory",
                                      "Optimizer", "Files that decide", "Output"};
  return titles[static_cast<size_t>(category)];
}

StringRef hyc::subtitleOf(SettingCategory category) {
  constexpr StringLiteral subtitles[] = {"What is trained",
                                         "How it is spread over ranks; ranks = tp × pp × dp",
                                         "Global batch = micro-batch × grad-accum × dp samples a step",
                                         "Types to compute in, and loss scaling",
                                         "What is kept and where, and what is computed again",
                                         "How parameters are updated",
                                         "A flag wins over --config, which wins over defaults",
                                         "What is left behind"};
  return subtitles[static_cast<size_t>(category)];
}
