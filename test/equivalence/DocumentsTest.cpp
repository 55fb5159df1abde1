// Several documents in one sequence, which attention keeps apart by a mask of the model's own inputs: meshes train as
// one device does, whatever they split. That one device is right is told by PyTorch in test/python/test_data.py.
#include "PyTorchModels.h"

#include <gtest/gtest.h>

using namespace hyc::equivalence;

namespace {
const Model kLlama{"llama/config.json", "llama", "causal_lm", hyc::ModelMode::AsExported, true},
    kGpt2{"gpt2-formats/config.json", "gpt2-formats", "causal_lm", hyc::ModelMode::AsExported, true};

struct Case {
  const char *name;
  const Model &model;
  int64_t tp, pp, dp, zero;
  bool sequenceParallel = false;
  hyc::Phase last = hyc::Phase::Local;
};

void PrintTo(const Case &c, std::ostream *out) { *out << c.name; }

class Documents : public testing::TestWithParam<Case> {};

TEST_P(Documents, TrainOnAMeshAsOnOneDevice) {
  const Case &c = GetParam();
  hyc::Plan options = optionsOf(c.model);
  options.tp = c.tp;
  options.pp = c.pp;
  options.dp = c.dp;
  options.gradAccum = 2;
  options.zero = c.zero;
  options.gradientReduction = c.zero >= 2 ? "micro_batch" : "step";
  options.persistenceThreshold = 500;
  options.sequenceParallel = c.sequenceParallel;
  expectMeshToTrainAlike(c.model, options, oneDevice(c.model), c.last);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Documents,
                         testing::Values(Case{"llama_tp2dp2_lowered", kLlama, 2, 1, 2, 0, false, hyc::Phase::Rank},
                                         Case{"llama_tp2pp2dp2_zero3", kLlama, 2, 2, 2, 3},
                                         Case{"llama_sequence", kLlama, 2, 1, 1, 0, true},
                                         Case{"gpt2_pp2_lowered", kGpt2, 1, 2, 1, 1, false, hyc::Phase::Rank},
                                         Case{"gpt2_tp2dp2_zero3", kGpt2, 2, 1, 2, 3}),
                         [](const auto &info) { return std::string(info.param.name); });

/// The mask does something: without it the same tokens and labels have other losses.
TEST(Documents, AreKeptApart) {
  hyc::Plan joined = optionsOf(kLlama);
  joined.separateDocuments = false;
  const OneDevice &apart = oneDevice(kLlama), together(kLlama, 1, joined);
  EXPECT_GT(std::abs(apart.losses[0] - together.losses[0]), 1e-4);
}
} // namespace
