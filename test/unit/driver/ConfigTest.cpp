// A ds_config against the table of keys, and onto the settings.
#include "Config/ConfigResolution.h"
#include "hyc/Driver/OptionChecks.h"
#include "hyc/Support/DriverError.h"
#include "hyc/Support/Optimizers.h"

#include <gtest/gtest.h>

#include <map>

namespace {

using hyc::CompileOptions;
using hyc::ConfigFile;
using hyc::Origin;

std::string errorOf(llvm::Error error) {
  std::string message;
  llvm::handleAllErrors(std::move(error), [&](const hyc::DriverError &failure) {
    message = std::to_string(static_cast<int>(failure.getCode())) + " " + failure.getMessage();
  });
  return message;
}

/// Reads `text` onto `options`; the message of whatever fails.
std::string applyText(llvm::StringRef text, CompileOptions &options) {
  auto file = ConfigFile::parse(text, "ds.json");
  if (!file)
    return errorOf(file.takeError());
  if (llvm::Error error = hyc::applyConfig(*file, options))
    return errorOf(std::move(error));
  hyc::resolveOptimizer(options);
  return errorOf(hyc::resolveBatch(options));
}

std::string applyText(llvm::StringRef text) {
  CompileOptions options;
  return applyText(text, options);
}

/// `{"a": {"b": VALUE}}` for the path `a.b`.
std::string nest(llvm::StringRef path, const std::string &value) {
  auto [first, rest] = path.split('.');
  return "{\"" + first.str() + "\": " + (rest.empty() ? value : nest(rest, value)) + "}";
}

/// By key, a value that is not the default, and how the setting shows it.
const std::map<std::string, std::pair<std::string, std::string>> kSamples = {
    {"train_batch_size", {"12", "12"}},
    {"train_micro_batch_size_per_gpu", {"3", "3"}},
    {"gradient_accumulation_steps", {"7", "7"}},
    {"optimizer.type", {"\"SGD\"", "sgd"}},
    {"optimizer.params.lr", {"0.25", "0.25"}},
    {"optimizer.params.betas", {"[0.5, 0.75]", "[0.5, 0.75]"}},
    {"optimizer.params.eps", {"1e-6", "1e-06"}},
    {"optimizer.params.weight_decay", {"0.125", "0.125"}},
    {"optimizer.params.momentum", {"0.5", "0.5"}},
    {"optimizer.params.adam_w_mode", {"false", "false"}},
    {"optimizer.params.bias_correction", {"false", "false"}},
    {"optimizer.params.max_coeff", {"5", "5"}},
    {"optimizer.params.min_coeff", {"0.5", "0.5"}},
    {"scheduler.params.cycle_momentum", {"true", "true"}},
    {"scheduler.params.cycle_min_mom", {"0.5", "0.5"}},
    {"scheduler.params.cycle_max_mom", {"0.5", "0.5"}},
    {"scheduler.params.decay_mom_rate", {"0.5", "0.5"}},
    {"scheduler.type", {"\"WarmupCosineLR\"", "WarmupCosineLR"}},
    {"scheduler.params.warmup_min_lr", {"0.5", "0.5"}},
    {"scheduler.params.warmup_max_lr", {"0.5", "0.5"}},
    {"scheduler.params.warmup_num_steps", {"5", "5"}},
    {"scheduler.params.warmup_type", {"\"linear\"", "linear"}},
    {"scheduler.params.total_num_steps", {"5", "5"}},
    {"scheduler.params.warmup_min_ratio", {"0.5", "0.5"}},
    {"scheduler.params.cos_min_ratio", {"0.5", "0.5"}},
    {"scheduler.params.cycle_min_lr", {"0.5", "0.5"}},
    {"scheduler.params.cycle_max_lr", {"0.5", "0.5"}},
    {"scheduler.params.decay_lr_rate", {"0.5", "0.5"}},
    {"scheduler.params.cycle_first_step_size", {"5", "5"}},
    {"scheduler.params.cycle_second_step_size", {"5", "5"}},
    {"scheduler.params.cycle_first_stair_count", {"5", "5"}},
    {"scheduler.params.cycle_second_stair_count", {"5", "5"}},
    {"scheduler.params.decay_step_size", {"5", "5"}},
    {"gradient_clipping", {"2.5", "2.5"}},
    {"communication_data_type", {"\"fp32\"", "f32"}},
    {"gradient_compression.algorithm", {"\"bf16\"", "bf16"}},
    {"data_types.grad_accum_dtype", {"\"bf16\"", "bf16"}},
    {"fp16.enabled", {"true", "true"}},
    {"fp16.loss_scale", {"128", "128"}},
    {"fp16.initial_scale_power", {"12", "12"}},
    {"fp16.loss_scale_window", {"7", "7"}},
    {"fp16.hysteresis", {"3", "3"}},
    {"fp16.consecutive_hysteresis", {"true", "true"}},
    {"fp16.min_loss_scale", {"0.5", "0.5"}},
    {"bf16.enabled", {"true", "true"}},
    {"zero_optimization.sub_group_size", {"5", "5"}},
    {"zero_optimization.offload_optimizer.device", {"\"cpu\"", "cpu"}},
    {"zero_optimization.offload_optimizer.nvme_path", {"\"/disk\"", "/disk"}},
    {"zero_optimization.offload_optimizer.pipeline_read", {"false", "false"}},
    {"zero_optimization.offload_optimizer.pipeline_write", {"false", "false"}},
    {"zero_optimization.offload_optimizer.ratio", {"0.5", "0.5"}},
    {"zero_optimization.offload_param.device", {"\"cpu\"", "cpu"}},
    {"zero_optimization.offload_param.nvme_path", {"\"/disk\"", "/disk"}},
    {"zero_optimization.offload_param.max_in_cpu", {"5", "5"}},
    {"zero_optimization.cpu_offload", {"true", "cpu"}},
    {"zero_optimization.cpu_offload_param", {"true", "cpu"}},
    {"tensor_parallel.autotp_size", {"4", "4"}},
    {"pipeline.stages", {"3", "3"}},
    {"pipeline.partition", {"\"uniform\"", "uniform"}},
    {"pipeline.activation_checkpoint_interval", {"1", "layer"}},
    {"activation_checkpointing.partition_activations", {"true", "true"}},
    {"activation_checkpointing.cpu_checkpointing", {"true", "cpu"}},
    {"zero_optimization.stage", {"2", "2"}},
    {"zero_optimization.overlap_comm", {"false", "0"}},
    {"zero_optimization.reduce_bucket_size", {"5000", "5000"}},
    {"zero_optimization.allgather_bucket_size", {"6000", "6000"}},
    {"zero_optimization.stage3_max_live_parameters", {"7000", "7000"}},
    {"zero_optimization.stage3_param_persistence_threshold", {"8000", "8000"}},
    {"zero_optimization.stage3_prefetch_bucket_size", {"1e6", "1000000"}},
};

TEST(ConfigKeys, EveryConnectedKeyChangesItsSetting) {
  for (const hyc::ConfigKey &key : hyc::getConfigKeys()) {
    if (key.treatment.kind != hyc::Treatment::Connected)
      continue;
    auto sample = kSamples.find(key.path.str());
    ASSERT_NE(sample, kSamples.end()) << key.path.str() << " is called honoured without a test of what it changes";
    CompileOptions options;
    if (llvm::StringRef parameter = key.path; parameter.consume_front("optimizer.params."))
      for (const hyc::Optimizer &optimizer : hyc::kOptimizers)
        if (optimizer.takesParameter(parameter))
          options.optimizer.offer(optimizer.name.str(), Origin::Flag, "--optimizer");
    if (key.path.starts_with("scheduler.params."))
      options.learningRateSchedule.offer(key.scope.split('|').first.str(), Origin::Flag, "--lr-schedule");
    std::string text = nest(key.path, sample->second.first);
    // Offload belongs to a stage that divides what it moves.
    if (llvm::StringRef outer = "{\"zero_optimization\": {"; key.path.contains("offload_"))
      text.insert(outer.size(), "\"stage\": 3, ");
    auto file = ConfigFile::parse(text, "ds.json");
    ASSERT_TRUE(bool(file)) << errorOf(file.takeError());
    EXPECT_NE(hyc::showSetting(key, options).value, sample->second.second) << key.path.str();
    ASSERT_EQ(errorOf(hyc::applyConfig(*file, options)), "");
    hyc::ShownSetting shown = hyc::showSetting(key, options);
    EXPECT_EQ(shown.value, sample->second.second) << key.path.str();
    EXPECT_EQ(shown.origin, Origin::Config);
    EXPECT_EQ(shown.source.substr(0, 10), "ds.json:1:");
  }
}

TEST(ConfigKeys, DefaultsAreNeverRefused) {
  for (const hyc::ConfigKey &key : hyc::getConfigKeys()) {
    if (key.fallback.empty())
      continue;
    std::string value = key.fallback.str();
    if (key.type.kind == hyc::ConfigType::Text && value[0] != '"')
      value = "\"" + value + "\"";
    // Of an optimizer's parameters, each with an optimizer that takes it.
    CompileOptions options;
    EXPECT_EQ(applyText(nest(key.path, value), options), "") << key.path.str();
    EXPECT_EQ(applyText(nest(key.path, "\"auto\""), options), "") << key.path.str();
    EXPECT_EQ(applyText(nest(key.path, "null"), options), "") << key.path.str();
  }
}

TEST(ConfigKeys, NoPathAndNoAliasComesTwice) {
  std::map<std::string, int> seen;
  for (const hyc::ConfigKey &key : hyc::getConfigKeys()) {
    EXPECT_EQ(++seen[key.path.str()], 1) << key.path.str();
    llvm::SmallVector<llvm::StringRef> aliases;
    key.aliases.split(aliases, ' ', -1, false);
    for (llvm::StringRef alias : aliases)
      EXPECT_EQ(++seen[alias.str()], 1) << alias.str();
  }
}

TEST(Config, NamesUnknownKeysWithTheNearestKnownOne) {
  EXPECT_EQ(applyText("{\n  \"train_batch_sise\": 2}"),
            "65 ds.json:2:3: unknown key \"train_batch_sise\"; the nearest known one is \"train_batch_size\"");
  EXPECT_EQ(applyText("{\"zero_optimization\": {\"stages\": 2}}"),
            "65 ds.json:1:24: unknown key \"zero_optimization.stages\"; the nearest known one is "
            "\"zero_optimization.stage\"");
  EXPECT_EQ(applyText("{\"stage\": 2}"),
            "65 ds.json:1:2: unknown key \"stage\"; the nearest known one is \"zero_optimization.stage\"");
  EXPECT_EQ(applyText("{\"zero_optimisation\": {}}"),
            "65 ds.json:1:2: unknown key \"zero_optimisation\"; the nearest known one is \"zero_optimization\"");
  EXPECT_EQ(applyText("{\"fp16.enabled\": false}"),
            "65 ds.json:1:2: unknown key \"fp16.enabled\" (a dot does not nest objects); the nearest known one is "
            "\"fp16.enabled\"");
}

TEST(Config, LocatesWrongTypes) {
  EXPECT_EQ(applyText("{\"train_batch_size\": \"64\"}"),
            "65 ds.json:1:22: train_batch_size is \"64\", expected an integer from 1 to 1000000000000, or \"auto\"");
  EXPECT_EQ(applyText("{\"fp16\": {\"enabled\": 1}}"),
            "65 ds.json:1:22: fp16.enabled is 1, expected true or false, or \"auto\"");
  EXPECT_EQ(applyText("{\"optimizer\": {\"params\": {\"betas\": [0.9]}}}"),
            "65 ds.json:1:36: optimizer.params.betas is an array, expected an array of two numbers from 0 to 1, or "
            "\"auto\"");
  EXPECT_EQ(applyText("{\"fp16\": true}"), "65 ds.json:1:10: fp16 is true, expected an object");
  EXPECT_EQ(applyText("{\"gradient_compression\": {\"algorithm\": \"topk\"}}"),
            "65 ds.json:1:40: gradient_compression.algorithm is \"topk\", expected fp16, bf16 or none; hyc sends no "
            "sparse, quantised or low-rank gradients");
  EXPECT_EQ(applyText("{\"communication_data_type\": \"bf16\", \"gradient_compression\": {\"algorithm\": \"fp16\"}}"),
            "65 ds.json:1:75: gradient_compression.algorithm is \"fp16\", but ds.json:1:29: communication_data_type is "
            "\"bf16\"; leave one of the two out");
  EXPECT_EQ(applyText("{\"communication_data_type\": \"f32\"}"),
            "65 ds.json:1:29: communication_data_type is \"f32\", expected fp16, bf16, fp32 or none, or \"auto\"");
}

TEST(Config, RefusesTwoNamesOfOneKey) {
  EXPECT_EQ(applyText("{\"tensor_parallel\": {\"autotp_size\": 2}, \"tensor_model_parallel_size\": 2}"),
            "65 ds.json:1:41: tensor_model_parallel_size is another name of tensor_parallel.autotp_size, which line 1, "
            "column 22 gives already");
}

TEST(Config, ContradictionsNameBothKeys) {
  EXPECT_EQ(applyText("{\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}}"),
            "65 ds.json:1:49: bf16.enabled is true, and so is ds.json:1:22: fp16.enabled: one type for computing, not "
            "both");
  EXPECT_EQ(applyText("{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"nvme\"}}}"),
            "65 ds.json:1:64: zero_optimization.offload_param.device is \"nvme\", which needs "
            "zero_optimization.offload_param.nvme_path, the folder on that disk");
  EXPECT_EQ(applyText("{\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"cpu\"}}}"),
            "65 ds.json:1:56: zero_optimization.offload_optimizer.device is \"cpu\", which needs "
            "zero_optimization.stage of at least 1, and that is 0");
}

TEST(Config, ABucketLargerThanTheDeviceNamesBoth) {
  const char *text = R"({"zero_optimization": {"stage": 1, "reduce_bucket_size": 5e8}})";
  CompileOptions options;
  options.deviceMemory = "1GiB";
  EXPECT_EQ(applyText(text, options),
            "65 ds.json:1:58: zero_optimization.reduce_bucket_size is 5e8, which is 500000000 elements of 4 bytes, but "
            "--device-memory is 1GiB");
  // Without a stage there are no buckets.
  EXPECT_EQ(applyText(R"({"zero_optimization": {"stage": 0, "reduce_bucket_size": 5e8}})", options), "");
}

TEST(Config, RefusesWhatHycCannotDo) {
  EXPECT_EQ(applyText("{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"betas\": [0.9, 0.99]}}}"),
            "65 ds.json:1:51: optimizer.params.betas is an array, but SGD has no such parameter: it takes lr, "
            "weight_decay, momentum, dampening, nesterov, maximize, max_grad_norm, fused, foreach");
  EXPECT_NE(applyText("{\"compression_training\": {\"weight_quantization\": {}}}").find("hyc does not compress models"),
            std::string::npos);
}

TEST(Config, OneTypeIsComputedIn) {
  CompileOptions options;
  ASSERT_EQ(applyText(R"({"bf16": {"enabled": true}, "fp16": {"enabled": false, "loss_scale": 128}})", options), "");
  EXPECT_EQ(options.precision->str(), "bf16");
  options = {};
  ASSERT_EQ(applyText(R"({"bfloat16": {"enabled": false}, "fp16": {"enabled": true}})", options), "");
  EXPECT_EQ(options.precision->str(), "fp16");
  options = {};
  options.precision.offer("f32", Origin::Flag, "--precision");
  ASSERT_EQ(applyText(R"({"fp16": {"enabled": true}})", options), "");
  EXPECT_EQ(options.precision->str(), "f32");
}

TEST(Config, FlagsWin) {
  CompileOptions options;
  options.learningRate.offer(0.5, Origin::Flag, "--lr");
  options.optimizer.offer("sgd", Origin::Flag, "--optimizer");
  ASSERT_EQ(
      applyText(
          "{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 1, \"betas\": [0.1, 0.2], \"weight_decay\": 2}}}",
          options),
      "");
  EXPECT_EQ(*options.learningRate, 0.5);
  EXPECT_EQ(*options.optimizer, "sgd");
  EXPECT_EQ(*options.weightDecay, 2);
  EXPECT_EQ((*options.betas)[0], 0.9); // sgd has none
}

TEST(Config, CompletesDeepSpeedsSchedules) {
  CompileOptions options;
  ASSERT_EQ(applyText(R"({"optimizer": {"params": {"lr": 0.5}}, "scheduler": {"type": "WarmupLR"}})", options), "");
  EXPECT_EQ(*options.learningRate, 0.5); // where warmup_max_lr is left out
  EXPECT_EQ(*options.warmupSteps, 1000);
  EXPECT_EQ(*options.warmupType, "log");

  options = {};
  ASSERT_EQ(applyText(R"({"optimizer": {"params": {"lr": 0.5}}, "scheduler": {"type": "WarmupDecayLR"}})", options),
            "");
  EXPECT_EQ(*options.learningRate, 0.001); // its own default, whatever the optimizer has
  EXPECT_EQ(*options.totalSteps, 0);

  options = {};
  ASSERT_EQ(applyText(R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.1, "cycle_max_lr": 0.2,
      "cycle_first_step_size": 30, "cycle_first_stair_count": 3, "cycle_momentum": false}}})",
                      options),
            "");
  EXPECT_EQ(*options.cycleSecondSteps, 30);
  EXPECT_EQ(*options.cycleSecondStairs, 3);

  options = {};
  options.learningRate.offer(0.25, Origin::Flag, "--lr");
  options.warmupSteps.offer(7, Origin::Flag, "--warmup-steps");
  ASSERT_EQ(applyText(R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1, "warmup_num_steps": 9}}})",
                      options),
            "");
  EXPECT_EQ(*options.learningRate, 0.25);
  EXPECT_EQ(*options.warmupSteps, 7);
  EXPECT_EQ(*options.learningRateSchedule, "WarmupLR");

  options = {};
  options.learningRateSchedule.offer("cosine", Origin::Flag, "--lr-schedule");
  ASSERT_EQ(applyText(R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1, "warmup_num_steps": 9}}})",
                      options),
            "");
  EXPECT_EQ(*options.learningRate, 1e-3);
  EXPECT_EQ(*options.warmupSteps, 0);
}

TEST(Config, AdamDecouplesTheDecayUnlessToldOtherwise) {
  auto optimizerOf = [](llvm::StringRef text) {
    CompileOptions options;
    EXPECT_EQ(applyText(text, options), "");
    return *options.optimizer;
  };
  EXPECT_EQ(optimizerOf(R"({"optimizer": {"type": "Adam"}})"), "adamw");
  EXPECT_EQ(optimizerOf(R"({"optimizer": {"type": "Adam", "params": {"adam_w_mode": true}}})"), "adamw");
  EXPECT_EQ(optimizerOf(R"({"optimizer": {"type": "Adam", "params": {"adam_w_mode": false}}})"), "adam");
  EXPECT_EQ(
      applyText(R"({"optimizer": {"type": "AdamW", "params": {"adam_w_mode": false}}})"),
      "65 ds.json:1:59: optimizer.params.adam_w_mode is false, but ds.json:1:24: optimizer.type is \"AdamW\", which "
      "decouples the decay: write \"Adam\" there, or leave this out");
  // The flag means what it says.
  CompileOptions options;
  options.optimizer.offer("adam", Origin::Flag, "--optimizer");
  EXPECT_EQ(applyText("{}", options), "");
  EXPECT_EQ(*options.optimizer, "adam");
}

TEST(Config, LionHasBetasOfItsOwn) {
  CompileOptions options;
  ASSERT_EQ(applyText(R"({"optimizer": {"type": "Lion"}})", options), "");
  EXPECT_EQ((*options.betas)[1], 0.99);
  options = {};
  ASSERT_EQ(applyText(R"({"optimizer": {"type": "Lion", "params": {"betas": [0.5, 0.75]}}})", options), "");
  EXPECT_EQ((*options.betas)[1], 0.75);
}

TEST(Config, OneCycleCyclesTheFirstBetaAndFixesTheSecond) {
  const char *schedule = R"("scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.1, "cycle_max_lr": 1)";
  auto text = [&](const std::string &optimizer, const std::string &rest) {
    return "{\"optimizer\": " + optimizer + ", " + schedule + rest + "}}}";
  };
  CompileOptions options;
  ASSERT_EQ(applyText(text(R"({"type": "Lamb", "params": {"betas": [0.5, 0.6]}})", ""), options), "");
  EXPECT_TRUE(*options.cycleMomentum);
  EXPECT_EQ((*options.betas)[1], 0.99);
  options = {};
  ASSERT_EQ(
      applyText(text(R"({"type": "Lamb", "params": {"betas": [0.5, 0.6]}})", R"(, "cycle_momentum": false)"), options),
      "");
  EXPECT_FALSE(*options.cycleMomentum);
  EXPECT_EQ((*options.betas)[1], 0.6);
  options = {};
  ASSERT_EQ(applyText(text(R"({"type": "SGD", "params": {"momentum": 0.5}})", ""), options), "");
  EXPECT_FALSE(*options.cycleMomentum); // which DeepSpeed does not cycle either
}

TEST(Config, RefusesSchedulesThatLackSomething) {
  EXPECT_EQ(applyText(R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.1}}})"),
            "65 ds.json:1:24: scheduler.type is \"OneCycle\", which needs scheduler.params.cycle_max_lr");
  EXPECT_EQ(applyText(R"({"scheduler": {"type": "LRRangeTest"}})"),
            "65 ds.json:1:24: scheduler.type is \"LRRangeTest\", expected WarmupLR, WarmupDecayLR, WarmupCosineLR or "
            "OneCycle");
  EXPECT_EQ(applyText(R"({"scheduler": {"type": "WarmupLR", "params": {"total_num_steps": 9}}})"),
            "65 ds.json:1:66: scheduler.params.total_num_steps is 9, but WarmupLR has no such parameter: it takes "
            "warmup_min_lr, warmup_max_lr, warmup_num_steps, warmup_type, last_batch_iteration");
}

TEST(Batch, TheThirdFollowsFromTwo) {
  struct Case {
    const char *text;
    int64_t micro, accum, train;
  };
  for (const Case &each : {
           Case{R"({"train_batch_size": 48, "train_micro_batch_size_per_gpu": 4})", 4, 6, 48},
           Case{R"({"train_batch_size": 48, "gradient_accumulation_steps": 3})", 8, 3, 48},
           Case{R"({"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 3})", 4, 3, 24},
           Case{R"({"train_batch_size": 48, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 6})", 4,
                6, 48},
           Case{R"({"train_batch_size": 48, "gradient_accumulation_steps": "auto"})", 24, 1, 48},
           Case{R"({"train_micro_batch_size_per_gpu": 5})", 5, 1, 10},
           Case{R"({"gradient_accumulation_steps": 5})", 0, 5, 0}, // the model tells the micro-batch
       }) {
    CompileOptions options;
    options.dp.offer(2, Origin::Flag, "--dp");
    EXPECT_EQ(applyText(each.text, options), "") << each.text;
    EXPECT_EQ(*options.microBatch, each.micro) << each.text;
    EXPECT_EQ(*options.gradAccum, each.accum) << each.text;
    EXPECT_EQ(*options.globalBatch, each.train) << each.text;
  }
}

TEST(Batch, ThreeThatContradictShowTheEquationAndWhatFits) {
  CompileOptions options;
  options.dp.offer(2, Origin::Plan, "plan.json");
  EXPECT_EQ(
      applyText(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 4})",
                options),
      "65 ds.json:1:22: train_batch_size is 64, but train_batch_size = micro-batch × grad-accum × dp = 4 × 4 × 2 = 32 "
      "(ds.json:1:60: train_micro_batch_size_per_gpu; ds.json:1:94: gradient_accumulation_steps; plan.json); each of "
      "these fits: train_batch_size 32, micro-batch 8, grad-accum 8, dp 4");
}

TEST(Batch, ARestIsAnErrorWithTheValuesThatAreValid) {
  CompileOptions options;
  options.microBatch.offer(3, Origin::Flag, "--micro-batch");
  EXPECT_EQ(
      applyText(R"({"train_batch_size": 64})", options),
      "64 ds.json:1:22: train_batch_size is 64, but train_batch_size = micro-batch × grad-accum × dp: with "
      "micro-batch 3 (--micro-batch) and dp 1 (dp by default) it must be a multiple of 3, at most 196608, so that "
      "grad-accum is a whole number");
}

TEST(Explanation, TellsWhatHasBecomeOfEachKey) {
  CompileOptions options;
  options.configFile = "ds.json";
  options.learningRate.offer(0.5, Origin::Flag, "--lr");
  auto file = ConfigFile::parse(R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": "auto",
    "optimizer": {"params": {"lr": 1}}, "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2, "zero_quantized_gradients": true},
    "gradient_clipping": 1.5, "steps_per_print": 10, "flops_profiler": {"enabled": true}})",
                                "ds.json");
  ASSERT_TRUE(bool(file));
  EXPECT_NE(errorOf(hyc::applyConfig(*file, options)), "");
  ASSERT_EQ(errorOf(hyc::resolveBatch(options)), "");
  std::string text = hyc::explainConfig(*file, options);
  auto [given, others] = llvm::StringRef(text).split("\nNot given:\n");
  auto rowOf = [](llvm::StringRef table, llvm::StringRef key) {
    llvm::StringRef row = table.substr(table.find(("\n" + key + " ").str()) + 1).split('\n').first;
    std::string squeezed;
    llvm::SmallVector<llvm::StringRef> cells;
    row.split(cells, "  ", -1, false);
    for (llvm::StringRef cell : cells)
      squeezed += (squeezed.empty() ? "" : "|") + cell.trim().str();
    return squeezed;
  };
  EXPECT_EQ(rowOf(given, "train_batch_size"),
            "train_batch_size|honoured|8|ds.json:1:22|samples of one step: micro-batch × accumulation × dp");
  EXPECT_EQ(rowOf(given, "train_micro_batch_size_per_gpu").substr(0, 41), "train_micro_batch_size_per_gpu|derived|8|");
  EXPECT_EQ(rowOf(given, "optimizer.params.lr"), "optimizer.params.lr|without effect|0.5|--lr|--lr wins");
  EXPECT_EQ(rowOf(given, "bf16.enabled").substr(0, 27), "bf16.enabled|derived|false|");
  EXPECT_EQ(rowOf(given, "zero_optimization.stage").substr(0, 35), "zero_optimization.stage|honoured|2|");
  EXPECT_EQ(rowOf(given, "zero_optimization.zero_quantized_gradients").substr(0, 55),
            "zero_optimization.zero_quantized_gradients|refused|true");
  EXPECT_EQ(rowOf(given, "gradient_clipping").substr(0, 31), "gradient_clipping|honoured|1.5|");
  EXPECT_EQ(rowOf(given, "steps_per_print").substr(0, 34), "steps_per_print|without effect|10|");
  EXPECT_EQ(rowOf(given, "flops_profiler.enabled").substr(0, 43), "flops_profiler.enabled|without effect|true|");
  EXPECT_EQ(rowOf(others, "gradient_accumulation_steps").substr(0, 45),
            "gradient_accumulation_steps|honoured|1|defaul");
  EXPECT_EQ(rowOf(others, "tensor_parallel.autotp_size").substr(0, 38), "tensor_parallel.autotp_size|honoured|1");
}

} // namespace
