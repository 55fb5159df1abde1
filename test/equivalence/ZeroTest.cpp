// ZeRO's stages on random graphs: what is flat, when gradients are summed, how far ahead parameters are asked for and
// how large buckets are, all by chance, uniform over the model or chosen for each parameter by hand. HYC_ZERO_SEEDS
// runs other seeds than these.
#include "Comparison.h"

#include "dialects/Dist/DistDialect.h"
#include "hyc/Analysis/FlatStates.h"
#include "mlir/IR/Builders.h"

#include <gtest/gtest.h>
#include <random>
#include <regex>

using namespace hyc::equivalence;

namespace {

/// Chooses for each parameter and its states by themselves, as an edited plan file does.
void chooseByHand(TrainedModule &module, uint64_t seed) {
  std::mt19937_64 random(seed);
  mlir::MLIRContext *context = module.get().getContext();
  auto dp = hyc::dist::AxisListAttr::get(context, mlir::StringAttr::get(context, "dp"));
  auto none = hyc::dist::AxisListAttr::get(context, {});
  for (const hyc::ParamStates &states : hyc::collectParamStates(module.get())) {
    uint64_t stage = random() % 4;
    bool each = random() % 2;
    for (hyc::StateOp state : states.optimizer)
      state->setAttr(hyc::dist::kFlat, stage >= 1 ? dp : none);
    states.used()->setAttr(hyc::dist::kFlat, stage == 3 ? dp : none);
    if (states.copy)
      hyc::ParamOp(states.param)->setAttr(hyc::dist::kFlat, stage >= 1 && random() % 2 ? dp : none);
    if (!states.gradient)
      continue;
    hyc::StateOp(states.gradient)->setAttr(hyc::dist::kFlat, stage >= 2 && each ? dp : none);
    hyc::StateOp(states.gradient)
        ->setAttr(hyc::dist::kReduction, mlir::StringAttr::get(context, each ? "micro_batch" : "step"));
  }
}

Comparison comparisonOf(uint64_t seed) {
  std::mt19937_64 random(seed * 31 + 7);
  auto oneOf = [&](std::initializer_list<const char *> choices) {
    return std::string(choices.begin()[random() % choices.size()]);
  };
  static const int64_t kMeshes[][3] = {{1, 1, 2}, {1, 1, 3}, {1, 1, 4}, {2, 1, 2},
                                       {1, 2, 2}, {2, 2, 2}, {1, 3, 2}, {2, 1, 3}};
  Comparison comparison(seed);
  // Weights that several stages share and sum once a step need luck, or these.
  bool shared = seed % 8 == 1;
  const int64_t *mesh = kMeshes[shared ? 4 : random() % std::size(kMeshes)];
  Layout &layout = comparison.layout;
  layout.tp = mesh[0], layout.pp = mesh[1], layout.dp = mesh[2];
  layout.microBatch = 1;
  comparison.options.samples = layout.microBatch * layout.dp;
  comparison.options.headMultiple = layout.tp;
  comparison.options.widthFactor = seed % 4 == 3 ? 1 : 6; // so that tensors have several blocks, or fewer than ranks
  comparison.options.tiedPercent = shared ? 80 : 20;
  comparison.zero = "zero=" + oneOf({"1", "2", "3", "3"}) +
                    " gradient-reduction=" + (shared ? "step" : oneOf({"step", "micro_batch", "auto"})) +
                    " persistence-threshold=" + oneOf({"0", "0", "3000"}) + " prefetch=" + oneOf({"0", "1", "3"});
  comparison.policies = "stage3_max_live_parameters=" + oneOf({"1", "6000", "1000000"});
  comparison.policies += ",reductions_in_flight=" + oneOf({"0", "1", "3"});
  comparison.policies += random() % 2 ? ",reduce_bucket_size=5000" : ",reduce_bucket_size=1000000";
  comparison.policies += random() % 2 ? ",allgather_bucket_size=5000" : ",allgather_bucket_size=1000000";
  if (seed % 3 == 2)
    comparison.edit = [seed](TrainedModule &module) { chooseByHand(module, seed); };
  return comparison;
}

} // namespace

/// What the seeds are meant to try does occur in them.
TEST(ZeroGraphs, CoverEveryKindOfShardAndExchange) {
  expectFeatures({{R"(hyc\.param .*flat \{dp\})", 10},
                  {R"(role "gradient".*flat \{dp\})", 10},
                  {R"(role "(adam|sgd).*flat \{dp\})", 20},
                  {R"(dist\.owned)", 10},
                  {R"(dist\.reduce_scatter_start .*flat)", 20},
                  {R"(dist\.reduce_scatter_start .*over <\{dp\} stages)", 2},
                  {R"(dist\.all_gather_start .*flat)", 20},
                  {R"(all_reduce_start .*over <\{\} stages \[[0-9]+, [0-9]+\]>.*tensor<[0-9]+xf32>)", 2},
                  {R"(hyc\.accumulate .*dist\.flat)", 5},
                  {R"(\{tp\}.*flat \{dp\})", 5}},
                 120, comparisonOf);
}

static const std::pair<uint64_t, uint64_t> kSeeds = chosenSeeds("HYC_ZERO_SEEDS", 120);

class Zero : public testing::TestWithParam<uint64_t> {};

TEST_P(Zero, ComputesWhatOneDeviceComputes) { comparisonOf(GetParam()).run(); }

INSTANTIATE_TEST_SUITE_P(RandomGraphs, Zero, testing::Range(kSeeds.first, kSeeds.first + kSeeds.second));

//===----------------------------------------------------------------------===//
// In 16 bits, beside f32 masters
//===----------------------------------------------------------------------===//

static Comparison narrowComparisonOf(uint64_t seed) {
  Comparison comparison = comparisonOf(seed);
  comparison.precision = seed % 2 ? "hyc-convert-precision{precision=fp16},hyc-scale-loss{initial-scale=64},"
                                  : "hyc-convert-precision{precision=bf16},";
  return comparison;
}

/// What the seeds are meant to try does occur in them.
TEST(NarrowZeroGraphs, CoverMastersAndCopiesByThemselves) {
  struct Feature {
    const char *pattern;
    int least, found;
  } features[] = {{R"(role "compute".*flat \{dp\})", 10, 0},
                  {R"(hyc\.param .*flat \{dp\})", 20, 0},
                  {R"(hyc\.refresh .*dist\.flat)", 20, 0},
                  {R"(dist\.all_gather_start .*flat.*tensor<[0-9x]*(bf16|f16)>)", 20, 0},
                  {R"(hyc\.write .*\.compute : )", 10, 0}};
  for (uint64_t seed = 1000; seed < 1060; ++seed) {
    std::string text = narrowComparisonOf(seed).partitionedText();
    EXPECT_FALSE(text.empty()) << seed;
    for (Feature &feature : features)
      feature.found += std::regex_search(text, std::regex(feature.pattern));
  }
  for (const Feature &feature : features)
    EXPECT_GE(feature.found, feature.least) << feature.pattern;
}

class NarrowZero : public testing::TestWithParam<uint64_t> {};

TEST_P(NarrowZero, ComputesWhatOneDeviceComputes) { narrowComparisonOf(GetParam()).run(); }

INSTANTIATE_TEST_SUITE_P(RandomGraphs, NarrowZero, testing::Range<uint64_t>(1000, 1060));
