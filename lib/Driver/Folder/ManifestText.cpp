// One line a rank: a manifest of thousands stays readable.
#include "Folder/ManifestText.h"

#include "hyc/Support/Optimizers.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace hyc;

static std::string quoted(const std::string &text) {
  std::string result;
  raw_string_ostream(result) << json::Value(json::fixUTF8(text));
  return result;
}

/// The shortest digits that read back as the same number.
static std::string exact(double value) {
  std::string result;
  raw_string_ostream(result) << json::Value(value);
  return result;
}

/// The members of the learning rate's object: those that its rule has, in DeepSpeed's names where it is DeepSpeed's.
static std::string describeRule(const LearningRatePlan &options) {
  std::string text = "\"rule\": " + quoted(*options.learningRateSchedule);
  auto number = [&](StringRef key, double value) { text += (", \"" + key + "\": ").str() + exact(value); };
  auto count = [&](StringRef key, int64_t value) { text += (", \"" + key + "\": ").str() + std::to_string(value); };
  StringRef rule = *options.learningRateSchedule;
  if (rule == "OneCycle") {
    number("cycle_min_lr", *options.cycleMinimum);
    number("cycle_max_lr", *options.learningRate);
    number("decay_lr_rate", *options.cycleDecayRate);
    count("cycle_first_step_size", *options.cycleFirstSteps);
    count("cycle_second_step_size", *options.cycleSecondSteps);
    count("cycle_first_stair_count", *options.cycleFirstStairs);
    count("cycle_second_stair_count", *options.cycleSecondStairs);
    count("decay_step_size", *options.cycleDecaySteps);
    text += std::string(", \"cycle_momentum\": ") + (*options.cycleMomentum ? "true" : "false");
    number("cycle_min_mom", *options.cycleMomentumLeast);
    number("cycle_max_mom", *options.cycleMomentumMost);
    number("decay_mom_rate", *options.cycleMomentumDecay);
    return text;
  }
  bool isWarmup = rule == "WarmupLR" || rule == "WarmupDecayLR";
  if (isWarmup)
    number("warmup_min_lr", *options.warmupMinimum);
  number(isWarmup ? "warmup_max_lr" : "base", *options.learningRate);
  if (rule == "WarmupCosineLR") {
    number("warmup_min_ratio", *options.warmupMinimumRatio);
    number("cos_min_ratio", *options.cosineMinimumRatio);
  }
  bool isDeepSpeed = isWarmup || rule == "WarmupCosineLR";
  count(isDeepSpeed ? "warmup_num_steps" : "warmup_steps", *options.warmupSteps);
  if (isDeepSpeed)
    text += ", \"warmup_type\": " + quoted(*options.warmupType);
  if (isDeepSpeed && rule != "WarmupLR")
    count("total_num_steps", *options.totalSteps);
  return text;
}

std::string hyc::describeOptimizer(const Plan &plan) {
  std::string text = *plan.optimizer;
  raw_string_ostream os(text);
  const Optimizer *row = findOptimizer(*plan.optimizer);
  auto takes = [&](StringRef parameter) { return row && row->takesParameter(parameter); };
  if (takes("momentum"))
    os << format(", momentum %.9g", *plan.momentum);
  if (takes("betas"))
    os << format(", betas %.9g and %.9g", (*plan.betas)[0], (*plan.betas)[1]);
  if (takes("eps"))
    os << format(", epsilon %.9g", *plan.epsilon);
  os << format(", weight decay %.9g, gradients' norm clipped at %.9g", *plan.weightDecay, *plan.clipGradNorm);
  return text;
}

/// Of rank 0, which is on the first stage.
static std::string describeStep(const StepTime &time) {
  std::string text;
  raw_string_ostream(text) << format("{\"step_ms\": %.4g, \"waiting\": %.4g}", time.stages.front().total() * 1e3,
                                     time.waitingShare(0));
  return text;
}

static std::string describeFile(const hycrt::ModelFile &file) {
  const hycrt::FileSums &sums = *file.sums;
  return "{\"path\": " + quoted(file.path) + ", \"bytes\": " + std::to_string(sums.bytes) +
         ", \"header_bytes\": " + std::to_string(sums.headerBytes) + ", \"header_crc32c\": \"" +
         hycrt::digitsOf({sums.header}) + "\", \"crc32c\": \"" + hycrt::digitsOf(sums.chunks) + "\"}";
}

static std::string describeCpu(const ManifestFacts::Cpu &cpu) {
  return "{\"march\": " + quoted(cpu.march) + ", \"instructions\": [" +
         join(map_range(cpu.instructions, quoted), ", ") + "]}";
}

static std::string describeSizes(const ManifestFacts &facts) {
  return "{\"name\": " + quoted(facts.dim) + ", \"sizes\": [" +
         join(map_range(facts.sizes, [](int64_t size) { return std::to_string(size); }), ", ") + "]}";
}

std::string hyc::writeManifest(const ManifestFacts &facts) {
  std::string text;
  raw_string_ostream os(text);
  os << "{\n  \"format_version\": 1,\n  \"name\": " << quoted(facts.name)
     << ",\n  \"plan_hash\": " << quoted(facts.planHash) << ",\n  \"mesh\": {\"pp\": " << facts.stages;
  for (const ManifestFacts::Axis &axis : facts.axes)
    os << ", " << quoted(axis.name) << ": " << axis.size;
  os << "},\n  \"axes\": [";
  interleave(facts.axes, os, [&](const ManifestFacts::Axis &axis) { os << quoted(axis.name); }, ", ");
  os << "],\n  \"batch\": {\"micro_batch\": " << facts.microBatch << ", \"grad_accum\": " << facts.gradAccum
     << ", \"sequence\": " << facts.sequence << "},\n  \"schedule\": " << quoted(facts.schedule)
     << (facts.entry == "train" ? "" : ",\n  \"entry\": \"" + facts.entry + "\"")
     << (facts.adapter.empty() ? "" : ",\n  \"adapter\": " + facts.adapter)
     << (facts.data.empty() ? "" : ",\n  \"data\": " + quoted(facts.data))
     << (facts.sizes.empty() ? "" : ",\n  \"dim\": " + describeSizes(facts))
     << (facts.cpu ? ",\n  \"cpu\": " + describeCpu(*facts.cpu) : "") << ",\n  \"threads\": " << facts.threads
     << ",\n  \"nvme_path\": " << quoted(facts.nvmePath) << ",\n  \"learning_rate\": {"
     << describeRule(facts.learningRate) << "}"
     << (facts.optimizer.empty() ? "" : ",\n  \"optimizer\": " + quoted(facts.optimizer));
  if (facts.time)
    os << ",\n  \"estimate\": {\"own_thread\": " << describeStep(facts.time->overlapped)
       << ", \"in_turn\": " << describeStep(facts.time->inTurn) << "}";
  os << ",\n  \"model_files\": [";
  interleave(facts.modelFiles, os, [&](const hycrt::ModelFile &file) { os << describeFile(file); }, ",\n    ");
  os << "],\n  \"ranks\": [";
  int64_t perStage = 1;
  for (const ManifestFacts::Axis &axis : facts.axes)
    perStage *= axis.size;
  for (int64_t rank = 0; rank < facts.stages * perStage; ++rank) {
    int64_t stage = rank / perStage, place = rank % perStage, minor = perStage;
    os << (rank ? ",\n    " : "\n    ") << "{\"rank\": " << rank << ", \"pp\": " << stage;
    for (const ManifestFacts::Axis &axis : facts.axes) {
      minor /= axis.size;
      os << ", " << quoted(axis.name) << ": " << place / minor % axis.size;
    }
    os << ", \"program\": " << quoted(facts.stagePrograms[stage]) << "}";
  }
  os << "\n  ]\n}\n";
  return text;
}
