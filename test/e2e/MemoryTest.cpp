// The account of memory, proven on emitted executables, for a sample of what can be combined: arenas have the planned
// size, are written to their last byte and not beyond; a step allocates nothing; and what the plan calls dead can be
// overwritten.
#include "CombinationSample.h"
#include "CompiledRun.h"
#include "test/Places.h"

#include "nlohmann/json.hpp"
#include "gtest/gtest.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

using namespace hyc_e2e;

namespace {

/// Adapters beside linear layers whose weights are codes.
std::vector<std::string> frozenAs(const char *codes) {
  return {"--lora", "rank=2,targets=all-linear", "--frozen-weights", codes};
}

/// What combines freely. Whoever adds a property to plans adds its column here.
const std::vector<Column> &columns() {
  auto layout = [](int tp, int pp, int dp) {
    auto text = [](int size) { return std::to_string(size); };
    return Choice{"tp" + text(tp) + "pp" + text(pp) + "dp" + text(dp),
                  {"--tp", text(tp), "--pp", text(pp), "--dp", text(dp)}};
  };
  static const std::vector<Column> table = {
      {"layout",
       {layout(1, 1, 1), layout(2, 1, 1), layout(1, 2, 1), layout(1, 1, 2), layout(2, 2, 1), layout(2, 1, 2),
        layout(1, 2, 2), layout(2, 2, 2)}},
      {"optimizer",
       {{"adamw", {"--optimizer", "adamw", "--weight-decay", "0.01"}},
        {"adam", {"--optimizer", "adam", "--weight-decay", "0.01"}},
        {"lamb", {"--optimizer", "lamb", "--weight-decay", "0.01"}},
        {"lion", {"--optimizer", "lion"}},
        {"sgd", {"--optimizer", "sgd", "--momentum", "0.9", "--clip-grad-norm", "0.5"}}}},
      {"ZeRO stage",
       {{"zero0", {}},
        {"zero1", {"--zero", "1"}},
        {"zero2", {"--zero", "2", "--reduce-bucket-size", "20000"}},
        {"zero3", {"--zero", "3", "--stage3-param-persistence-threshold", "1000"}},
        {"zero3ahead",
         {"--zero", "3", "--stage3-param-persistence-threshold", "0", "--stage3-prefetch-bucket-size", "20000"}}}},
      {"gradient reduction",
       {{"step", {"--gradient-reduction", "step"}}, {"each", {"--gradient-reduction", "micro_batch"}}}},
      {"precision",
       {{"f32", {}},
        {"bf16", {"--precision", "bf16"}},
        {"bf16sums", {"--precision", "bf16", "--gradient-accumulation-type", "bf16"}},
        {"fp16", {"--precision", "fp16"}},
        {"fp8", {"--precision", "fp8"}}}},
      {"recomputation",
       {{"saved", {}},
        {"again", {"--recompute", "layer"}},
        {"parts", {"--recompute", "layer", "--partition-activations"}},
        {"selective", {"--recompute", "selective"}}}},
      {"optimizer's place",
       {{"states", {}},
        {"statesHost", {"--offload-optimizer", "cpu"}},
        {"statesDisk", {"--offload-optimizer", "nvme"}},
        {"halfDisk", {"--offload-optimizer", "nvme", "--offload-ratio", "0.5"}}}},
      {"parameters' place",
       {{"parameters", {}},
        {"parametersHost", {"--offload-param", "cpu"}},
        {"parametersDisk", {"--offload-param", "nvme"}}}},
      {"gradients' place", {{"sums", {}}, {"sumsHost", {"--offload-gradients", "cpu"}}}},
      {"activations' place", {{"kept", {}}, {"keptHost", {"--offload-activations", "cpu"}}}},
      {"moves", {{"asNeeded", {}}, {"ahead", {"--offload-prefetch", "2"}}}},
      {"sequence", {{"whole", {}}, {"split", {"--sequence-parallel"}}}},
      {"schedule",
       {{"1f1b", {"--schedule", "1f1b"}},
        {"gpipe", {"--schedule", "gpipe"}},
        {"interleaved", {"--virtual-stages", "2"}}}},
      {"frozen weights", {{"trained", {}}, {"int8", frozenAs("int8")}, {"nf4", frozenAs("nf4")}}},
      {"entries", {{"both", {}}, {"training", {"--entry", "train"}}}},
      {"threads", {{"one", {"--threads", "1"}}, {"two", {"--threads", "2"}}}},
  };
  return table;
}

/// The files of what is kept on a disk; under /tmp they may be in memory, which changes no address.
const std::string &disk() {
  static const std::string folder = [] {
    std::string path = scratch("memory.disk");
    std::filesystem::create_directories(path);
    return path;
  }();
  return folder;
}

constexpr char kGpt2[] = "small-gpt2.json", kLlama[] = "small-llama.json";

/// A GPT-2 of four layers with dropout, or another model, four micro-batches a step. With --poison, which changes no
/// address, and compiled as quickly as can be, which changes none either.
std::vector<std::string> argumentsFor(const std::vector<std::string> &flags, const char *config = kGpt2) {
  std::vector<std::string> arguments = {tool("hyc-compile"),
                                        hyc::places::inTree("test/e2e/" + std::string(config)),
                                        "--micro-batch",
                                        "2",
                                        "--grad-accum",
                                        "4",
                                        "--lr",
                                        "1e-3",
                                        "--sub-group-size",
                                        "20000",
                                        "--poison",
                                        "--optimize",
                                        "0"};
  bool needsDisk = false;
  for (const std::string &flag : flags) {
    arguments.push_back(flag);
    needsDisk |= flag == "nvme";
  }
  if (needsDisk)
    arguments.insert(arguments.end(), {"--nvme-path", disk()});
  return arguments;
}

/// Whether hyc-compile takes it. What is no refusal of what was asked for (64, 65) is an error of hyc.
bool isAccepted(const Combination &combination) {
  std::vector<std::string> arguments = argumentsFor(flagsOf(columns(), combination));
  arguments.insert(arguments.end(), {"--plan-only", "-o", disk() + ".plan"});
  Outcome outcome = execute(arguments);
  if (outcome.status != 0 && outcome.status != 64 && outcome.status != 65)
    throw std::runtime_error("hyc-compile ended with " + std::to_string(outcome.status) + ":\n" + outcome.output);
  return outcome.status == 0;
}

/// Made when it is first asked for; a test asks for its own combination by number.
const Sample &sample() {
  static const Sample made = samplePairwise(columns(), isAccepted);
  return made;
}

std::string compiledWith(const std::string &name, const std::vector<std::string> &flags, const char *config = kGpt2) {
  std::string folder = scratch("memory." + name);
  std::vector<std::string> arguments = argumentsFor(flags, config);
  arguments.insert(arguments.end(), {"-o", folder});
  Outcome outcome = execute(arguments);
  if (outcome.status != 0)
    throw std::runtime_error("hyc-compile ended with " + std::to_string(outcome.status) + ":\n" + outcome.output);
  return folder;
}

/// memory.json's stages.
struct Plan {
  int ranksPerStage = 1;
  std::map<int, std::map<std::string, int64_t>> arenas; // bytes, by stage
  std::map<int, int64_t> fixed;

  explicit Plan(const std::string &folder) {
    std::ifstream file(folder + "/memory.json");
    const nlohmann::json account = nlohmann::json::parse(file);
    for (const auto &stage : account["stages"]) {
      ranksPerStage = stage["ranks"];
      fixed[stage["stage"]] = stage["fixed_bytes"];
      for (const auto &arena : stage["arenas"])
        arenas[stage["stage"]][arena["arena"]] = arena["bytes"];
    }
  }
  int ranks() const { return ranksPerStage * static_cast<int>(arenas.size()); }
};

/// Whether the last byte of each product's scratch memory is one that this machine's kernels write: panels are as wide
/// as those that were planned for, and tiles or widened blocks are what the type takes everywhere.
bool fillsWorkspaces(const std::vector<std::string> &flags) {
  auto has = [&](const char *precision) { return std::find(flags.begin(), flags.end(), precision) != flags.end(); };
  return __builtin_cpu_supports("avx512f") && !has("bf16") && !has("fp8");
}

void expectArenas(const nlohmann::json &record, const std::map<std::string, int64_t> &expected, bool fillsWorkspace) {
  ASSERT_EQ(record["arenas"].size(), expected.size());
  for (const auto &arena : record["arenas"]) {
    std::string name = arena["name"];
    SCOPED_TRACE("rank " + std::to_string(record["rank"].get<int>()) + ", " + name);
    EXPECT_EQ(arena["planned"], expected.at(name));
    EXPECT_EQ(arena["mapped"], expected.at(name));
    if (name == "workspace" && !fillsWorkspace)
      EXPECT_LE(arena["touched"], expected.at(name));
    else
      EXPECT_EQ(arena["touched"], expected.at(name));
  }
}

struct WatchedRun {
  Log log;
  std::vector<nlohmann::json> memory;   // by rank
  std::vector<std::string> allocations; // by rank; allocation_counter.cpp
};

constexpr int kSteps = 4;

/// Trains with arenas filled and allocations counted; evaluates after each step where the folder can, since arenas are
/// as large as the larger of both entries needs them.
WatchedRun watch(const std::string &folder, bool evaluates, std::vector<std::string> further = {}) {
  std::string measured = folder + "/memory.jsonl", counted = folder + "/allocations";
  further.insert(further.end(), {"--measure-memory", measured});
  if (evaluates)
    further.insert(further.end(),
                   {"--evaluate-data", model("text.bin"), "--evaluate-every", "1", "--evaluate-batches", "1"});
  setenv("LD_PRELOAD", hyc::places::inBuild("test/e2e/libhyc_allocation_counter.so").c_str(), 1);
  setenv("HYC_ALLOCATIONS", counted.c_str(), 1);
  WatchedRun run;
  run.log = train(folder, kSteps, further);
  unsetenv("LD_PRELOAD");
  unsetenv("HYC_ALLOCATIONS");
  std::ifstream file(measured);
  for (std::string line; std::getline(file, line);) {
    std::ifstream ofRank(counted + "." + std::to_string(run.memory.size()));
    run.memory.push_back(nlohmann::json::parse(line)["memory"]);
    std::getline(ofRank, run.allocations.emplace_back());
  }
  return run;
}

void expectNoAllocation(const WatchedRun &run) {
  for (size_t rank = 0; rank < run.allocations.size(); ++rank) {
    long steps = 0, mallocs = -1, maps = -1, before = 0;
    std::sscanf(run.allocations[rank].c_str(), "steps %ld malloc %ld mmap %ld before %ld", &steps, &mallocs, &maps,
                &before);
    EXPECT_EQ(steps, kSteps) << "rank " << rank << " was not watched: '" << run.allocations[rank] << "'";
    EXPECT_GT(before, 0) << "nothing is counted";
    EXPECT_EQ(mallocs, 0) << "rank " << rank << ", steps 2 to " << kSteps;
    EXPECT_EQ(maps, 0) << "rank " << rank << ", steps 2 to " << kSteps;
  }
}

void expectPlannedMemory(const std::string &name, const std::vector<std::string> &flags, const char *config = kGpt2) {
  std::string folder = compiledWith(name, flags, config);
  Plan plan(folder);
  const bool evaluates = std::find(flags.begin(), flags.end(), "--entry") == flags.end();
  WatchedRun run = watch(folder, evaluates);
  EXPECT_EQ(run.log.evaluations.size(), evaluates ? static_cast<size_t>(kSteps) : 0u);
  ASSERT_EQ(static_cast<int>(run.memory.size()), plan.ranks());
  for (const nlohmann::json &record : run.memory) {
    int stage = record["rank"].get<int>() / plan.ranksPerStage;
    expectArenas(record, plan.arenas.at(stage), fillsWorkspaces(flags));
    EXPECT_EQ(record["fixed"], plan.fixed.at(stage));
    EXPECT_LE(record["outside"], plan.fixed.at(stage)) << record;
    EXPECT_GE(record["outside"].get<int64_t>() * 2, plan.fixed.at(stage)) << record;
  }
  expectNoAllocation(run);

  WatchedRun poisoned = watch(folder, evaluates, {"--poison"});
  EXPECT_EQ(poisoned.log.losses, run.log.losses) << "something reads what the plan calls dead";
  EXPECT_EQ(poisoned.log.norms, run.log.norms);
  expectNoAllocation(poisoned);
  for (double loss : run.log.losses)
    EXPECT_TRUE(loss > 3 && loss < 8) << loss << " is not that of 257 words";
  std::filesystem::remove_all(folder);
}

class Memory : public testing::TestWithParam<size_t> {};

TEST_P(Memory, IsWhatWasPlanned) {
  const Combination &combination = sample().combinations[GetParam()];
  expectPlannedMemory(nameOf(columns(), combination), flagsOf(columns(), combination));
}

/// Frozen weights that are divided, and those that are split, beside adapters that are neither.
TEST(MemoryOfAdapters, IsWhatWasPlanned) {
  expectPlannedMemory("lora.zero3", {"--lora", "rank=4,targets=c_attn,c_fc", "--dp", "2", "--zero", "3",
                                     "--stage3-param-persistence-threshold", "1000"});
  expectPlannedMemory("lora.tp2", {"--lora", "rank=4,targets=all-linear", "--tp", "2", "--precision", "bf16",
                                   "--recompute", "layer", "--train", "ln_f"});
}

/// What is made once a run, by itself and where nothing else is whole on a rank.
TEST(MemoryOfConstants, IsWhatWasPlanned) {
  for (const auto &[name, flags] :
       std::map<std::string, std::vector<std::string>>{{"one", {}},
                                                       {"tp2pp2", {"--tp", "2", "--pp", "2"}},
                                                       {"bf16", {"--dp", "2", "--zero", "3", "--precision", "bf16"}}}) {
    std::string folder = compiledWith("constants." + name + ".plan", flags, kLlama);
    for (const auto &[stage, arenas] : Plan(folder).arenas)
      EXPECT_EQ(arenas.count("constants"), 1u) << name << ", stage " << stage;
    expectPlannedMemory("constants." + name, flags, kLlama);
  }
}

INSTANTIATE_TEST_SUITE_P(Combinations, Memory, testing::Range<size_t>(0, sample().combinations.size()),
                         [](const auto &info) { return nameOf(columns(), sample().combinations[info.param]); });

TEST(MemorySample, HasEveryTwoChoicesTogetherThatAreNotRefused) {
  std::set<PartialChoice> pairs;
  for (const Combination &combination : sample().combinations)
    pairs.merge(pairsOf(combination));
  auto isRefused = [](const PartialChoice &pair) {
    Combination combination(columns().size(), 0);
    for (auto [column, choice] : pair)
      combination[column] = choice;
    return !isAccepted(combination);
  };
  for (size_t a = 0; a < columns().size(); ++a)
    for (size_t b = a + 1; b < columns().size(); ++b)
      for (size_t i = 0; i < columns()[a].choices.size(); ++i)
        for (size_t j = 0; j < columns()[b].choices.size(); ++j) {
          PartialChoice pair = pairOf(a, i, b, j);
          EXPECT_TRUE(pairs.count(pair) || isRefused(pair))
              << columns()[a].choices[i].name << " with " << columns()[b].choices[j].name;
        }
  EXPECT_GE(sample().combinations.size(), 40u);
}

/// What the sample's combinations are for CPUs they are for GPUs: none of their ops or moves lacks a spelling there.
TEST(MemorySample, HasAProgramForGpusOfEachCombination) {
  for (const Combination &combination : sample().combinations) {
    std::vector<std::string> arguments = argumentsFor(flagsOf(columns(), combination));
    arguments.insert(arguments.end(), {"--target", "cuda", "--emit", "source", "-o", disk() + ".cuda"});
    Outcome outcome = execute(arguments);
    EXPECT_EQ(outcome.status, 0) << nameOf(columns(), combination) << "\n" << outcome.output;
  }
}

std::string contentsOf(const std::string &path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The text after phase 3 is the whole plan: phases 4 and 5 need nothing else to make the same programs.
TEST(MemorySample, ContinuesFromTheTextOfPhaseThreeToTheSamePrograms) {
  const std::string folder = scratch("memory.phases"), dump = folder + "/dump", continued = folder + "/continued.mlir";
  for (const Combination &combination : sample().combinations) {
    std::vector<std::string> arguments = argumentsFor(flagsOf(columns(), combination));
    arguments.insert(arguments.end(), {"--emit", "rank", "--dump-dir", dump, "-o", folder + "/rank.mlir"});
    Outcome outcome = execute(arguments);
    ASSERT_EQ(outcome.status, 0) << nameOf(columns(), combination) << "\n" << outcome.output;
    outcome =
        execute({tool("hyc-opt"), dump + "/3-plan.mlir", "--hyc-local-phase", "--hyc-rank-phase", "-o", continued});
    ASSERT_EQ(outcome.status, 0) << nameOf(columns(), combination) << "\n" << outcome.output;
    std::string expected = contentsOf(folder + "/rank.mlir");
    EXPECT_NE(expected.find("rank.program"), std::string::npos);
    EXPECT_TRUE(contentsOf(continued) == expected) << nameOf(columns(), combination);
  }
}

TEST(MemoryReport, EndsARunWithMeasuredBesidePlanned) {
  std::string folder = compiled({2, 1, 1, "1f1b", "adamw"});
  Outcome outcome = execute({tool("hyc-run"), folder, "--data", model("text.bin"), "--steps", "1"});
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  for (const char *expected : {"memory in MiB", "rank 0", "rank 1", "all"})
    EXPECT_NE(outcome.output.find(expected), std::string::npos) << outcome.output;
}

TEST(MemoryReport, WhatTellsNoEndsOfLivesIsNotPoisoned) {
  std::string folder = compiled({1, 1, 1, "1f1b", "adamw"});
  Outcome outcome = execute({tool("hyc-run"), folder, "--data", model("text.bin"), "--steps", "1", "--poison"});
  EXPECT_EQ(outcome.status, 64);
  EXPECT_NE(outcome.output.find("compile with --poison"), std::string::npos) << outcome.output;
}

TEST(MemoryReport, MoreThreadsThanPlannedAreRefused) {
  const Combination first(columns().size(), 0); // one thread
  std::string folder = compiledWith(nameOf(columns(), first), flagsOf(columns(), first));
  Outcome outcome = execute({tool("hyc-run"), folder, "--data", model("text.bin"), "--steps", "1", "--threads", "2"});
  EXPECT_EQ(outcome.status, 64);
  EXPECT_NE(outcome.output.find("were planned for 1"), std::string::npos) << outcome.output;
}

} // namespace
