// The table of keys. Names, types and defaults are those of DeepSpeed's documentation ("DeepSpeed Configuration JSON")
// and of the pydantic models behind it; what each does here is hyc's own.
#include "Config/ConfigKeys.h"

#include "Config/ConfigFile.h"
#include "hyc/Support/Optimizers.h"
#include "llvm/Support/ErrorHandling.h"

using namespace llvm;
using namespace hyc;

//===----------------------------------------------------------------------===//
// Connections to settings
//===----------------------------------------------------------------------===//

const SettingRow &hyc::settingOf(const ConfigKey &key) {
  if (const SettingRow *row = findSettingOfConfigKey(key.path))
    return *row;
  report_fatal_error("a connected key of ds_config has no setting");
}

ShownSetting hyc::showSetting(const ConfigKey &key, const CompileOptions &options) {
  SettingRef setting = settingOf(key).in(options);
  std::string value = print(valueOf(setting));
  if (key.treatment.isOneOfMany)
    value = value == key.path.split('.').first ? "true" : "false";
  if (!key.treatment.decider.empty() && value == "0")
    return {"-", Origin::Derived, key.treatment.decider.str()};
  return {value, originOf(setting), sourceOf(setting)};
}

static void convert(const JsonValue &json, int64_t &value) { value = *json.getInteger(); }
static void convert(const JsonValue &json, bool &value) { value = *json.getBool(); }
static void convert(const JsonValue &json, double &value) { value = *json.getNumber(); }
static void convert(const JsonValue &json, std::string &value) { value = json.getString()->str(); }
static void convert(const JsonValue &json, std::array<double, 2> &value) {
  value = {*(*json.getArray())[0].getNumber(), *(*json.getArray())[1].getNumber()};
}
template <typename T> static void convert(const JsonValue &, std::vector<T> &) {
  llvm_unreachable("no key of ds_config is a list");
}

static void offer(SettingRef setting, const SettingValue &value, const ConfigEntry &entry, const ConfigFile &file) {
  offerTo(setting, value, Origin::Config, file.sourceOf(entry));
}

static Error offerValue(SettingRef setting, const ConfigEntry &entry, const ConfigFile &file) {
  SettingValue value = valueOf(setting);
  std::visit([&](auto &typed) { convert(*entry.value, typed); }, value);
  offer(setting, value, entry, file);
  return Error::success();
}

using Offer = Error (*)(SettingRef, const ConfigEntry &, const ConfigFile &);

/// The value becomes the setting, as it is or by way of a function.
static constexpr Treatment connect(Offer offer = offerValue) { return {Treatment::Connected, offer, false, {}, {}}; }
/// 0 stands for a number that something else decides.
static constexpr Treatment connectOpen(StringRef decider) {
  return {Treatment::Connected, offerValue, false, decider, {}};
}
/// One of several keys that choose a setting between them.
static constexpr Treatment choose(Offer offer) { return {Treatment::Connected, offer, true, {}, {}}; }
static constexpr Treatment harmless() { return {Treatment::Harmless, nullptr, false, {}, {}}; }
static constexpr Treatment only(StringRef neutral) { return {Treatment::Only, nullptr, false, {}, neutral}; }

static constexpr char kModel[] = "the model", kRun[] = "hyc-run --steps";

static Error offerSchedule(SettingRef setting, const ConfigEntry &entry, const ConfigFile &file) {
  StringRef name = *entry.value->getString();
  if (name != "WarmupLR" && name != "WarmupDecayLR" && name != "WarmupCosineLR" && name != "OneCycle")
    return file.refuse(entry, "expected WarmupLR, WarmupDecayLR, WarmupCosineLR or OneCycle");
  return offerValue(setting, entry, file);
}

/// 0 switches DeepSpeed's tensor parallelism off.
static Error offerTensorParallel(SettingRef setting, const ConfigEntry &entry, const ConfigFile &file) {
  offer(setting, std::max<int64_t>(*entry.value->getInteger(), 1), entry, file);
  return Error::success();
}

/// One reduction under way while backward computes, or none.
static Error offerOverlap(SettingRef setting, const ConfigEntry &entry, const ConfigFile &file) {
  offer(setting, int64_t(*entry.value->getBool() ? 1 : 0), entry, file);
  return Error::success();
}

/// "best" leaves the choice to the framework, so it decides nothing.
static Error offerPartition(SettingRef setting, const ConfigEntry &entry, const ConfigFile &file) {
  return *entry.value->getString() == "best" ? Error::success() : offerValue(setting, entry, file);
}

/// `bf16.enabled` and `fp16.enabled` choose one type; false leaves the choice to whoever else makes it.
static Error offerPrecision(SettingRef setting, const ConfigEntry &entry, const ConfigFile &file) {
  if (*entry.value->getBool())
    offer(setting, entry.key->path.split('.').first.str(), entry, file);
  return Error::success();
}

/// "fp32" is hyc's f32; "none" leaves the type as it is.
static Error offerType(SettingRef setting, const ConfigEntry &entry, const ConfigFile &file) {
  StringRef name = *entry.value->getString();
  if (name != "none")
    offer(setting, name == "fp32" ? "f32" : name.str(), entry, file);
  return Error::success();
}

/// Another name for the type that gradients are sent in; "none" leaves it as it is.
static Error offerCompression(SettingRef setting, const ConfigEntry &entry, const ConfigFile &file) {
  StringRef name = *entry.value->getString();
  if (name != "none" && name != "fp16" && name != "bf16")
    return file.refuse(entry, "expected fp16, bf16 or none; hyc sends no sparse, quantised or low-rank gradients");
  std::string said = print(valueOf(setting));
  if (name != "none" && originOf(setting) == Origin::Config && said != name)
    return file.refuse(entry, "but " + sourceOf(setting) + " is \"" + said + "\"; leave one of the two out");
  return offerType(setting, entry, file);
}

static Error offerAccumulation(SettingRef setting, const ConfigEntry &entry, const ConfigFile &file) {
  if (entry.value->getString() == "fp16")
    return file.refuse(entry, "expected fp32 or bf16; sums of many micro-batches leave fp16's range");
  return offerType(setting, entry, file);
}

/// Both offloads go to one disk: one folder.
static Error offerNvmePath(SettingRef setting, const ConfigEntry &entry, const ConfigFile &file) {
  std::string path = entry.value->getString()->str(), said = print(valueOf(setting));
  if (originOf(setting) == Origin::Config && said != path)
    return file.refuse(entry,
                       "but " + sourceOf(setting) + " is \"" + said + "\"; hyc keeps one file a rank, in one folder");
  return offerValue(setting, entry, file);
}

/// What DeepSpeed once had instead of `device`.
static Error offerHost(SettingRef setting, const ConfigEntry &entry, const ConfigFile &file) {
  if (entry.value->getBool() == true)
    offer(setting, std::string("cpu"), entry, file);
  return Error::success();
}

/// DeepSpeed saves what enters every group of so many layers; 0 switches that off, which leaves --recompute alone.
static Error offerInterval(SettingRef setting, const ConfigEntry &entry, const ConfigFile &file) {
  int64_t layers = *entry.value->getInteger();
  if (layers > 1)
    return file.refuse(entry, "expected 0 or 1: hyc saves every layer's boundary or none; the lifetimes of a plan file "
                              "choose between them");
  if (layers == 1)
    offer(setting, std::string("layer"), entry, file);
  return Error::success();
}

static Error offerOptimizer(SettingRef setting, const ConfigEntry &entry, const ConfigFile &file) {
  std::string name = entry.value->getString()->lower();
  if (!isWithin(rowOf(memberOfPlan<&Plan::optimizer>).range, name))
    return file.refuse(entry, "expected " + listConfigOptimizers() + "; hyc has no other optimizer");
  offer(setting, name, entry, file);
  return Error::success();
}

//===----------------------------------------------------------------------===//
// The rows
//===----------------------------------------------------------------------===//

using T = ConfigType;
static constexpr double kMost = 9.0e15;
static constexpr char kEvery[] = "";
static constexpr char kWarmups[] = "WarmupLR|WarmupDecayLR", kCosine[] = "WarmupCosineLR", kCycle[] = "OneCycle";

static constexpr char kMasters[] = "masters and optimizer states are f32";
static constexpr char kNoCasts[] = "bf16.enabled and fp16.enabled choose the type, by op";
static constexpr char kNoMics[] = "hyc divides states over all of dp";
static constexpr char kPlanned[] = "the plan says what is exchanged, when and how";
static constexpr char kNoPinning[] = "on the CPU target host and device are one memory";
static constexpr char kPlannedBuffers[] = "buffers are as many and as large as the plan's moves need";
static constexpr char kMonitor[] = "hyc-run --log-file writes every step's figures as JSON lines";
static constexpr char kDense[] = "sums are taken in a fixed order in f32 and divided once, at the update";

// clang-format off
static constexpr ConfigKey kKeys[] = {
    // Batch
    {"train_batch_size", "", T::integer(1, 1e12), "", connectOpen(kModel), "samples of one step: micro-batch × accumulation × dp", ""},
    {"train_micro_batch_size_per_gpu", "", T::integer(1, kMaxBatch), "", connectOpen(kModel), "samples of one micro-batch on one rank", ""},
    {"gradient_accumulation_steps", "", T::integer(1, kMaxBatch), "1", connect(), "micro-batches of one step in the schedule", ""},
    {"managed_gradient_accumulation", "", T::boolean(), "true", only("true"), "hyc's schedule applies once a step", ""},

    // Optimizer
    {"optimizer.type", "", T::text(), "", connect(offerOptimizer), "the update op of @apply", ""},
    {"optimizer.params.lr", "", T::number(0, 1e6), "0.001", connect(), "base of the manifest's learning_rate", kEvery},
    {"optimizer.params.betas", "", T::pair(0, 1), "[0.9, 0.999]", connect(), "decay of the moments; the default is the optimizer's", kEvery},
    {"optimizer.params.eps", "", T::number(0, 1), "1e-8", connect(), "added to the denominator", kEvery},
    {"optimizer.params.weight_decay", "", T::number(0, 1e6), "0", connect(), "decay of every parameter that --no-decay does not name", kEvery},
    {"optimizer.params.momentum", "", T::number(0, 1), "0", connect(), "velocity of the update", kEvery},
    {"optimizer.params.dampening", "", T::number(0, 1), "0", only("0"), "hyc's SGD adds the whole gradient to the velocity", kEvery},
    {"optimizer.params.nesterov", "", T::boolean(), "false", only("false"), "hyc's SGD does not look ahead", kEvery},
    {"optimizer.params.maximize", "", T::boolean(), "false", only("false"), "hyc minimises the loss", kEvery},
    {"optimizer.params.adam_w_mode", "", T::boolean(), "true", connect(), "of Adam: true decouples the decay (adamw), false adds it to the gradient (adam)", kEvery},
    {"optimizer.params.bias_correction", "", T::boolean(), "true", connect(), "whether the moments' start at 0 is corrected", kEvery},
    {"optimizer.params.max_coeff", "", T::number(0, 1e30), "10", connect(), "upper bound of the trust ratio", kEvery},
    {"optimizer.params.min_coeff", "", T::number(0, 1e30), "0.01", connect(), "lower bound of the trust ratio", kEvery},
    {"optimizer.params.eps_inside_sqrt", "", T::boolean(), "false", only("false"), "hyc adds eps after the root", kEvery},
    {"optimizer.params.max_grad_norm", "", T::number(0, 1e30), "0", only("0"), "gradient_clipping says it, in DeepSpeed too", kEvery},
    {"optimizer.params.amsgrad", "", T::boolean(), "false", only("false"), "hyc keeps no maximum of the second moment", kEvery},
    {"optimizer.params.torch_adam", "", T::boolean(), "false", harmless(), "hyc has one AdamW, in torch's order of operations", kEvery},
    {"optimizer.params.fused", "", T::boolean(), "true", harmless(), "the update is one kernel in any case", kEvery},
    {"optimizer.params.foreach", "", T::boolean(), "true", harmless(), "the update is one kernel in any case", kEvery},
    {"optimizer.legacy_fusion", "", T::boolean(), "false", harmless(), "the update is one kernel in any case", ""},

    // Learning rate
    {"scheduler.type", "", T::text(), "", connect(offerSchedule), "rule of the manifest's learning_rate", ""},
    {"scheduler.params.warmup_min_lr", "", T::number(0, 1e6), "0", connect(), "rate before the warm-up", kWarmups},
    {"scheduler.params.warmup_max_lr", "", T::number(0, 1e6), "0.001", connect(), "highest learning rate", kWarmups},
    {"scheduler.params.warmup_num_steps", "", T::integer(0, kMost), "1000", connect(), "steps of the warm-up, at least 2", "WarmupLR|WarmupDecayLR|WarmupCosineLR"},
    {"scheduler.params.warmup_type", "", T::text("log|linear"), "log", connect(), "how the warm-up rises", "WarmupLR|WarmupDecayLR|WarmupCosineLR"},
    {"scheduler.params.total_num_steps", "", T::integer(1, kMost), "", connectOpen(kRun), "where the decay ends; left out: with the run", "WarmupDecayLR|WarmupCosineLR"},
    {"scheduler.params.warmup_min_ratio", "", T::number(0, 1), "0", connect(), "part of the learning rate before the warm-up", kCosine},
    {"scheduler.params.cos_min_ratio", "", T::number(0, 1), "0.0001", connect(), "part of the learning rate at the end", kCosine},
    {"scheduler.params.cycle_min_lr", "", T::number(0, 1e6), "", connect(), "lowest learning rate", kCycle},
    {"scheduler.params.cycle_max_lr", "", T::number(0, 1e6), "", connect(), "highest learning rate", kCycle},
    {"scheduler.params.decay_lr_rate", "", T::number(0, 1e6), "0", connect(), "decay after the cycle", kCycle},
    {"scheduler.params.cycle_first_step_size", "", T::integer(1, kMost), "2000", connect(), "steps of the rise", kCycle},
    {"scheduler.params.cycle_second_step_size", "", T::integer(0, kMost), "", connect(), "steps of the fall; left out: as many", kCycle},
    {"scheduler.params.cycle_first_stair_count", "", T::integer(0, kMost), "0", connect(), "stairs of the rise; 0: continuous", kCycle},
    {"scheduler.params.cycle_second_stair_count", "", T::integer(0, kMost), "", connect(), "stairs of the fall; left out: as many", kCycle},
    {"scheduler.params.decay_step_size", "", T::integer(0, kMost), "0", connect(), "steps of one decay; 0: none", kCycle},
    {"scheduler.params.cycle_momentum", "", T::boolean(), "true", connect(), "whether the first beta goes against the rate; the second one is 0.99 then", kCycle},
    {"scheduler.params.cycle_min_mom", "", T::number(0, 1), "0.8", connect(), "lowest first beta", kCycle},
    {"scheduler.params.cycle_max_mom", "", T::number(0, 1), "0.9", connect(), "highest first beta", kCycle},
    {"scheduler.params.decay_mom_rate", "", T::number(0, 1e6), "0", connect(), "growth of the first beta after the cycle", kCycle},
    {"scheduler.params.last_batch_iteration", "", T::integer(-1, kMost), "-1", only("-1"), "a run starts at its first step", "WarmupLR|WarmupDecayLR|WarmupCosineLR|OneCycle"},

    // Gradients
    {"gradient_clipping", "", T::number(0, 1e30), "0", connect(), "largest global norm of the mean gradient", ""},
    {"communication_data_type", "", T::text("fp16|bf16|fp32|none"), "", connect(offerType), "what gradients are rounded to while ranks sum them; left out: not rounded", ""},
    {"gradient_compression.enabled", "", T::boolean(), "true", only("true"), "leave gradient_compression out, and gradients are not rounded", ""},
    {"gradient_compression.algorithm", "", T::text(), "none", connect(offerCompression), "the same in other words: gradients are rounded to it while ranks sum them", ""},
    {"seq_parallel_comm_data_type", "seq_parallel_communication_data_type", T::text("fp16|bf16|fp32"), "fp32", only("fp32"), "everything is exchanged in f32", ""},
    {"data_types.grad_accum_dtype", "", T::text("fp16|bf16|fp32"), "", connect(offerAccumulation), "what gradients add up in; left out: f32", ""},
    {"gradient_allreduce_op", "", T::text("mean|sum"), "mean", only("mean"), "the update takes the mean over counted tokens", ""},
    {"prescale_gradients", "", T::boolean(), "false", harmless(), kDense, ""},
    {"gradient_predivide_factor", "", T::number(0, 1e30), "1", harmless(), kDense, ""},
    {"sparse_gradients", "", T::boolean(), "false", harmless(), "gradients are dense; the values are the same", ""},

    // Precision
    {"fp16.enabled", "", T::boolean(), "false", choose(offerPrecision), "what the model computes in, beside f32 masters", ""},
    {"fp16.auto_cast", "", T::boolean(), "false", harmless(), "inputs are token ids", ""},
    {"fp16.loss_scale", "", T::number(0, 1e30), "0", connect(), "of fp16: a fixed loss scale; 0: dynamic", ""},
    {"fp16.initial_scale_power", "", T::integer(0, 126), "16", connect(), "of fp16: the first loss scale, as a power of two", ""},
    {"fp16.loss_scale_window", "", T::integer(1, kMost), "1000", connect(), "of fp16: good steps after which the loss scale doubles", ""},
    {"fp16.hysteresis", "", T::integer(1, kMost), "2", connect(), "of fp16: overflows that it takes to halve the loss scale", ""},
    {"fp16.consecutive_hysteresis", "", T::boolean(), "false", connect(), "of fp16: a good step forgets earlier overflows", ""},
    {"fp16.min_loss_scale", "", T::number(0, 1e30), "1", connect(), "of fp16: where the loss scale stops falling", ""},
    {"fp16.fused_mode", "", T::boolean(), "true", harmless(), "the update is one kernel in any case", ""},
    {"fp16.fp16_master_weights_and_grads", "", T::boolean(), "false", only("false"), kMasters, ""},
    {"bf16.enabled", "bfloat16.enabled", T::boolean(), "false", choose(offerPrecision), "what the model computes in, beside f32 masters", ""},
    {"bf16.immediate_grad_update", "bfloat16.immediate_grad_update", T::boolean(), "false", harmless(), "gradients are added as they are made", ""},
    {"bf16.check_grad_overflow", "bfloat16.check_grad_overflow", T::boolean(), "false", only("false"), "hyc looks for overflow in fp16 only", ""},
    {"bf16.bf16_master_weights_and_grads", "", T::boolean(), "false", only("false"), kMasters, ""},
    {"bf16.bf16_optimizer_states", "", T::boolean(), "false", only("false"), kMasters, ""},
    {"amp.enabled", "", T::boolean(), "false", only("false"), kNoCasts, ""},
    {"amp.*", "", T::any(), "", harmless(), "belongs to amp, which is off", ""},
    {"torch_autocast.enabled", "", T::boolean(), "false", only("false"), kNoCasts, ""},
    {"torch_autocast.*", "", T::any(), "", harmless(), "belongs to torch_autocast, which is off", ""},

    // ZeRO
    {"zero_optimization.stage", "", T::integer(0, 3), "0", connect(), "what is flat over dp: optimizer states, gradients too, parameters too", ""},
    {"zero_optimization.overlap_comm", "", T::boolean(), "", connect(offerOverlap), "gradients that are summed as they are made: sums under way while backward computes", ""},
    {"zero_optimization.contiguous_gradients", "", T::boolean(), "true", harmless(), "gradients have fixed addresses in one arena in any case", ""},
    {"zero_optimization.reduce_scatter", "", T::boolean(), "true", harmless(), kPlanned, ""},
    {"zero_optimization.reduce_bucket_size", "", T::integer(0, kMost), "500000000", connect(), "elements that one flat reduce-scatter carries at most", ""},
    {"zero_optimization.use_multi_rank_bucket_allreduce", "", T::boolean(), "true", harmless(), kPlanned, ""},
    {"zero_optimization.allgather_partitions", "", T::boolean(), "true", harmless(), kPlanned, ""},
    {"zero_optimization.allgather_bucket_size", "", T::integer(0, kMost), "500000000", connect(), "elements that one flat all-gather carries at most", ""},
    {"zero_optimization.stage3_prefetch_bucket_size", "zero_optimization.prefetch_bucket_size", T::integer(0, kMost), "50000000", connect(), "elements that may be gathered before their use", ""},
    {"zero_optimization.stage3_max_live_parameters", "zero_optimization.max_live_parameters", T::integer(0, kMost), "1000000000", connect(), "elements that prefetching may have gathered at most", ""},
    {"zero_optimization.stage3_max_reuse_distance", "zero_optimization.max_reuse_distance", T::integer(0, kMost), "1000000000", harmless(), kPlanned, ""},
    {"zero_optimization.stage3_param_persistence_threshold", "zero_optimization.param_persistence_threshold", T::integer(0, kMost), "100000", connect(), "parameters of at most so many elements stay whole", ""},
    {"zero_optimization.stage3_model_persistence_threshold", "zero_optimization.model_persistence_threshold", T::integer(0, 1e19), "9223372036854775807", harmless(), kPlanned, ""},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save", "zero_optimization.gather_16bit_weights_on_model_save zero_optimization.stage3_gather_fp16_weights_on_model_save", T::boolean(), "false", harmless(), "a saved file holds whole tensors in any case", ""},
    {"zero_optimization.stage3_module_granularity_threshold", "zero_optimization.module_granularity_threshold", T::integer(0, kMost), "0", harmless(), kPlanned, ""},
    {"zero_optimization.stage3_use_all_reduce_for_fetch_params", "zero_optimization.use_all_reduce_for_fetch_params", T::boolean(), "false", harmless(), kPlanned, ""},
    {"zero_optimization.stage3_allgather_sequential", "zero_optimization.allgather_sequential", T::boolean(), "false", harmless(), kPlanned, ""},
    {"zero_optimization.sub_group_size", "", T::integer(1, kMost), "1000000000", connect(), "elements whose offloaded states move together", ""},
    {"zero_optimization.offload_optimizer.device", "", T::text("none|cpu|nvme"), "none", connect(), "where the plan keeps optimizer states, which are updated on the host then", ""},
    {"zero_optimization.offload_optimizer.nvme_path", "", T::text(), "", connect(offerNvmePath), "folder of the ranks' files, in the manifest", ""},
    {"zero_optimization.offload_optimizer.buffer_count", "", T::integer(0, kMost), "4", harmless(), kPlannedBuffers, ""},
    {"zero_optimization.offload_optimizer.pin_memory", "", T::boolean(), "false", harmless(), kNoPinning, ""},
    {"zero_optimization.offload_optimizer.pipeline_read", "", T::boolean(), "", connect(), "whether nvme is read while the group before is updated", ""},
    {"zero_optimization.offload_optimizer.pipeline_write", "", T::boolean(), "", connect(), "whether nvme is written while the group after is updated", ""},
    {"zero_optimization.offload_optimizer.fast_init", "", T::boolean(), "false", harmless(), "initial values are written once, window by window, in any case", ""},
    {"zero_optimization.offload_optimizer.ratio", "", T::number(0, 1), "1", connect(), "part of the elements whose states are moved out and updated on the host", ""},
    {"zero_optimization.offload_param.device", "", T::text("none|cpu|nvme"), "none", connect(), "where the plan keeps parameters between their uses", ""},
    {"zero_optimization.offload_param.nvme_path", "", T::text(), "", connect(offerNvmePath), "folder of the ranks' files, in the manifest", ""},
    {"zero_optimization.offload_param.buffer_count", "", T::integer(0, kMost), "5", harmless(), kPlannedBuffers, ""},
    {"zero_optimization.offload_param.buffer_size", "", T::integer(0, kMost), "100000000", harmless(), kPlannedBuffers, ""},
    {"zero_optimization.offload_param.max_in_cpu", "", T::integer(0, kMost), "", connect(), "elements of parameters for nvme that stay in host memory; left out: none", ""},
    {"zero_optimization.offload_param.pin_memory", "", T::boolean(), "false", harmless(), kNoPinning, ""},
    {"zero_optimization.cpu_offload", "", T::boolean(), "", connect(offerHost), "true: offload_optimizer.device is cpu", ""},
    {"zero_optimization.cpu_offload_param", "zero_optimization.cpu_offload_params", T::boolean(), "", connect(offerHost), "true: offload_param.device is cpu", ""},
    {"zero_optimization.cpu_offload_use_pin_memory", "", T::boolean(), "", harmless(), kNoPinning, ""},
    {"zero_optimization.ignore_unused_parameters", "", T::boolean(), "true", harmless(), "a parameter that does not reach the loss is left alone, with a warning", ""},
    {"zero_optimization.load_from_fp32_weights", "", T::boolean(), "true", harmless(), "parameters are f32", ""},
    {"zero_optimization.legacy_stage1", "", T::boolean(), "false", harmless(), kPlanned, ""},
    {"zero_optimization.elastic_checkpoint", "", T::boolean(), "false", harmless(), "a saved file holds whole tensors in any case", ""},
    {"zero_optimization.round_robin_gradients", "", T::boolean(), "false", harmless(), kPlanned, ""},
    {"zero_optimization.zero_hpz_partition_size", "", T::integer(0, kMost), "1", harmless(), kPlanned, ""},
    {"zero_optimization.zero_quantized_weights", "", T::boolean(), "false", only("false"), "hyc exchanges weights unchanged", ""},
    {"zero_optimization.zero_quantized_nontrainable_weights", "", T::boolean(), "false", only("false"), "hyc keeps weights unchanged", ""},
    {"zero_optimization.zero_quantized_gradients", "", T::boolean(), "false", only("false"), "hyc exchanges gradients unchanged", ""},
    {"zero_optimization.mics_shard_size", "", T::integer(-1, kMost), "-1", only("-1"), kNoMics, ""},
    {"zero_optimization.mics_hierarchical_params_gather", "", T::boolean(), "false", harmless(), kPlanned, ""},
    {"zero_optimization.memory_efficient_linear", "", T::boolean(), "true", harmless(), "what is saved for backward is planned", ""},
    {"zero_optimization.pipeline_loading_checkpoint", "", T::boolean(), "false", harmless(), "every rank reads only its own part", ""},
    {"zero_optimization.override_module_apply", "", T::boolean(), "true", harmless(), "there are no modules when the program runs", ""},
    {"zero_optimization.log_trace_cache_warnings", "", T::boolean(), "false", harmless(), "there is no trace", ""},
    {"zero_optimization.enable_sanity_checks", "", T::boolean(), "false", harmless(), "what it looks for is checked when compiling", ""},
    {"zero_allow_untested_optimizer", "", T::boolean(), "false", harmless(), "every optimizer of hyc is tested", ""},
    {"zero_force_ds_cpu_optimizer", "", T::boolean(), "true", harmless(), "hyc has one AdamW, vectorised and threaded, wherever states are", ""},
    {"disable_allgather", "", T::boolean(), "false", harmless(), kPlanned, ""},

    // Activations
    {"activation_checkpointing.partition_activations", "", T::boolean(), "false", connect(), "each rank of tp keeps its part of layer boundaries; --recompute layer follows", ""},
    {"activation_checkpointing.cpu_checkpointing", "", T::boolean(), "false", connect(offerHost), "layer boundaries wait for backward in the host's memory; --recompute layer follows", ""},
    {"activation_checkpointing.contiguous_memory_optimization", "", T::boolean(), "false", harmless(), "activations have fixed addresses in one arena in any case", ""},
    {"activation_checkpointing.number_checkpoints", "", T::integer(1, kMost), "", harmless(), "sizes DeepSpeed's contiguous buffer, which hyc plans itself", ""},
    {"activation_checkpointing.synchronize_checkpoint_boundary", "", T::boolean(), "false", harmless(), "there is nothing to wait for: one rank, one order", ""},
    {"activation_checkpointing.profile", "", T::boolean(), "false", harmless(), "prints times only", ""},

    // Parallelism
    {"tensor_parallel.autotp_size", "tensor_model_parallel_size tensor_parallel.tp.tp_size", T::integer(0, kMaxRanks), "0", connect(offerTensorParallel), "tp of the mesh", ""},
    {"tensor_parallel.tp.tp_grain_size", "", T::integer(1, kMost), "1", harmless(), "hyc splits where a dimension divides", ""},
    {"tensor_parallel.tp_overlap_comm", "", T::boolean(), "false", harmless(), "hyc does not overlap exchanges yet; the values are the same", ""},
    {"tensor_parallel.dtype", "", T::text(), "", harmless(), "the model's types are those of its file", ""},
    {"tensor_parallel.preset_model", "", T::text(), "", harmless(), "what is split follows from the graph", ""},
    {"pipeline.stages", "pipeline_model_parallel_size", T::integer(1, kMaxRanks), "\"auto\"", connect(), "stages of the mesh", ""},
    {"pipeline.partition", "", T::text(), "\"best\"", connect(offerPartition), "what stages balance: best (hyc's choice), parameters, uniform or type:REGEX", ""},
    {"pipeline.seed_layers", "", T::boolean(), "false", harmless(), "initial values do not depend on stages", ""},
    {"pipeline.activation_checkpoint_interval", "", T::integer(0, kMost), "0", connect(offerInterval), "1: --recompute layer, which keeps what crosses between layers", ""},
    {"pipeline.pipe_partitioned", "", T::boolean(), "true", harmless(), "how a value crosses to the next stage follows from its sharding", ""},
    {"pipeline.grad_partitioned", "", T::boolean(), "true", harmless(), "how a value crosses to the next stage follows from its sharding", ""},
    {"pipeline.use_reentrant", "", T::boolean(), "true", harmless(), "there is no autograd at run time", ""},
    {"sequence_parallel_size", "", T::integer(1, kMaxRanks), "1", only("1"), "hyc does not split the sequence yet", ""},
    {"use_data_before_expert_parallelism", "", T::boolean(), "false", harmless(), "there are no experts", ""},

    // Training methods that hyc does not have
    {"sparse_attention.*", "", T::any(), "", only(""), "hyc's attention is dense", ""},
    {"progressive_layer_drop.enabled", "", T::boolean(), "false", only("false"), "hyc drops no layers", ""},
    {"progressive_layer_drop.*", "", T::any(), "", harmless(), "belongs to progressive_layer_drop, which is off", ""},
    {"curriculum_learning.enabled", "", T::boolean(), "false", only("false"), "hyc's sequence length is fixed", ""},
    {"curriculum_learning.*", "", T::any(), "", harmless(), "belongs to curriculum_learning, which is off", ""},
    {"data_efficiency.enabled", "", T::boolean(), "false", only("false"), "hyc-run reads the data as it is", ""},
    {"data_efficiency.*", "", T::any(), "", harmless(), "belongs to data_efficiency, which is off", ""},
    {"compression_training.*", "", T::any(), "", only(""), "hyc does not compress models", ""},
    {"quantize_training.enabled", "", T::boolean(), "false", only("false"), "hyc does not quantise", ""},
    {"quantize_training.*", "", T::any(), "", harmless(), "belongs to quantize_training, which is off", ""},
    {"weight_quantization.*", "", T::any(), "", only(""), "hyc does not quantise", ""},
    {"eigenvalue.enabled", "", T::boolean(), "false", only("false"), "serves quantize_training only", ""},
    {"eigenvalue.*", "", T::any(), "", harmless(), "belongs to eigenvalue, which is off", ""},
    {"hybrid_engine.enabled", "", T::boolean(), "false", only("false"), "hyc does not generate yet", ""},
    {"hybrid_engine.*", "", T::any(), "", harmless(), "belongs to hybrid_engine, which is off", ""},
    {"elasticity.enabled", "", T::boolean(), "false", only("false"), "ranks and batch are fixed when compiling", ""},
    {"elasticity.*", "", T::any(), "", harmless(), "belongs to elasticity, which is off", ""},

    // Engine, data, files, reports
    {"steps_per_print", "", T::integer(0, kMost), "10", harmless(), "hyc-run prints every step", ""},
    {"wall_clock_breakdown", "", T::boolean(), "false", harmless(), kMonitor, ""},
    {"memory_breakdown", "", T::boolean(), "false", harmless(), "report.txt has every arena's peak", ""},
    {"dump_state", "", T::boolean(), "false", harmless(), "--dump-dir and --explain-config show it", ""},
    {"log_level", "", T::text(), "", harmless(), "hyc-run has no levels", ""},
    {"vocabulary_size", "", T::integer(1, kMost), "", harmless(), "is a dimension of the model", ""},
    {"dataloader_drop_last", "", T::boolean(), "false", harmless(), "the epochs of the data follow each other without a gap", ""},
    {"graph_harvesting", "", T::boolean(), "false", harmless(), "the whole step is compiled", ""},
    {"checkpoint.*", "", T::any(), "", harmless(), "hyc-run --save-weights writes whole tensors as safetensors", ""},
    {"data_types.*", "", T::any(), "", harmless(), "types are those of the model", ""},
    {"aio.*", "", T::any(), "", harmless(), "the runtime cuts and queues transfers itself", ""},
    {"nebula.*", "", T::any(), "", harmless(), "hyc-run --save-weights writes whole tensors as safetensors", ""},
    {"compile.*", "", T::any(), "", harmless(), "the whole step is compiled", ""},
    {"timers.*", "", T::any(), "", harmless(), kMonitor, ""},
    {"tensorboard.*", "", T::any(), "", harmless(), kMonitor, ""},
    {"wandb.*", "", T::any(), "", harmless(), kMonitor, ""},
    {"csv_monitor.*", "", T::any(), "", harmless(), kMonitor, ""},
    {"comet.*", "", T::any(), "", harmless(), kMonitor, ""},
    {"flops_profiler.*", "", T::any(), "", harmless(), "measures only", ""},
    {"comms_logger.*", "", T::any(), "", harmless(), "report.txt has every exchange", ""},
    {"autotuning.*", "", T::any(), "", harmless(), "is a launcher's own search; hyc compiles one configuration", ""},
};
// clang-format on

ArrayRef<ConfigKey> hyc::getConfigKeys() { return kKeys; }
