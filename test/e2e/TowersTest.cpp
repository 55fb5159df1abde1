// Whisper and CLIP as executables, from their folders and files of samples: PyTorch's losses on one rank and on
// several; positions that nobody trains, by rule and by file.
#include "CompiledRun.h"
#include "SafeTensors.h"

#include "gtest/gtest.h"
#include <string>

using namespace hyc_e2e;

namespace {

constexpr int kSteps = 12, kGlobalBatch = 4;

struct Case {
  const char *folder, *loss;
  int tp, pp, dp, gradAccum;
  std::vector<std::string> further = {};
  std::string name() const {
    return std::string(folder) + "_tp" + std::to_string(tp) + "_pp" + std::to_string(pp) + "_dp" + std::to_string(dp);
  }
  friend void PrintTo(const Case &c, std::ostream *out) { *out << c.name(); }
};

std::map<std::string, HostTensor> reference() { return readSafeTensors(model("families.reference.safetensors")); }

/// The inputs of one family, whose first two dimensions, steps and samples, become one.
std::string writeSamples(const Case &c) {
  auto known = reference();
  std::vector<TypedTensor> tensors;
  auto add = [&](const std::string &name, const char *dtype, HostTensor tensor) {
    tensor.shape[1] *= tensor.shape[0];
    tensor.shape.erase(tensor.shape.begin());
    tensors.push_back({name, dtype, std::move(tensor)});
  };
  const std::string family = std::string(c.folder) + ".";
  for (const char *name : {"input_features", "pixel_values"})
    if (auto found = known.find(family + name); found != known.end())
      add(name, "F32", found->second);
  for (const char *name : {"decoder_input_ids", "labels"})
    if (auto found = known.find(family + name); found != known.end())
      add(name, "I32", found->second);
  if (known.count(family + "accumulated")) { // all but the last token of each sample
    const HostTensor &all = known.at("tokens");
    HostTensor tokens{{all.shape[0], all.shape[1], all.shape[2] - 1}, {}};
    for (size_t i = 0; i < all.values.size(); ++i)
      if (static_cast<int64_t>(i) % all.shape[2] != all.shape[2] - 1)
        tokens.values.push_back(all.values[i]);
    add("input_ids", "I32", tokens);
  }
  return writeSafeTensors(scratch("towers-samples-" + c.name()) + ".safetensors", tensors);
}

std::string compile(const Case &c, const std::vector<std::string> &further = {}) {
  const std::string folder = scratch("towers-" + c.name() + (further.empty() ? "" : "-further"));
  std::vector<std::string> arguments = {tool("hyc-compile"),
                                        model(std::string("families/") + c.folder),
                                        "--loss",
                                        c.loss,
                                        "--dim",
                                        "seq=16",
                                        "-o",
                                        folder,
                                        "--optimizer",
                                        "adamw",
                                        "--lr",
                                        "1e-3",
                                        "--weight-decay",
                                        "0.01"};
  for (auto [option, value] : {std::pair("--tp", c.tp),
                               {"--pp", c.pp},
                               {"--dp", c.dp},
                               {"--grad-accum", c.gradAccum},
                               {"--micro-batch", kGlobalBatch / c.dp / c.gradAccum}})
    arguments.insert(arguments.end(), {option, std::to_string(value)});
  arguments.insert(arguments.end(), c.further.begin(), c.further.end());
  arguments.insert(arguments.end(), further.begin(), further.end());
  Outcome outcome = execute(trainingOnly(arguments));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return folder;
}

void run(const Case &c, const std::string &folder, int steps, const std::vector<std::string> &further) {
  std::vector<std::string> arguments = {tool("hyc-run"),       folder,        "--data", writeSamples(c), "--steps",
                                        std::to_string(steps), "--no-shuffle"};
  arguments.insert(arguments.end(), further.begin(), further.end());
  Outcome outcome = execute(arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.output;
}

class Towers : public testing::TestWithParam<Case> {};

TEST_P(Towers, TrainToPyTorchsLosses) {
  const Case &c = GetParam();
  const std::string folder = compile(c), log = folder + "/log.jsonl";
  run(c, folder, kSteps, {"--log-file", log});
  const std::vector<double> losses = readLog(log).losses,
                            expected = reference().at(std::string(c.folder) + ".losses").values;
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t step = 0; step < losses.size(); ++step)
    EXPECT_NEAR(losses[step] / expected[step], 1, 1e-5) << "step " << step + 1;
}

const Case kSound{"whisper", "cross_entropy", 1, 1, 2, 2, {"--zero", "3", "--stage3-param-persistence-threshold", "0"}};

INSTANTIATE_TEST_SUITE_P(Folders, Towers,
                         testing::Values(kSound, Case{"whisper", "cross_entropy", 2, 2, 1, 2},
                                         Case{"clip", "loss", 1, 1, 1, 1}, Case{"clip", "loss", 2, 1, 2, 1}),
                         [](const auto &info) { return info.param.name(); });

/// Saved from ranks that divide them, and never changed: transformers' own.
TEST(Towers, OfSoundKeepTheirPositions) {
  const std::string name = "model.encoder.embed_positions.weight",
                    ofFiles = model("families/whisper/model.safetensors");
  const HostTensor expected = readSafeTensors(ofFiles).at(name);
  for (const char *weights : {"read", "initialise"}) {
    const std::string folder = compile(kSound, {"--weights", weights}), saved = folder + "/saved";
    run(kSound, folder, 2, {"--save-weights", saved});
    const auto tensors = readSafeTensors(saved + "/model.safetensors");
    ASSERT_EQ(tensors.at(name).shape, expected.shape);
    EXPECT_LT(relativeDifference(tensors.at(name), expected), weights == std::string("read") ? 1e-30 : 1e-6) << weights;
    EXPECT_EQ(tensors.size(), readSafeTensors(ofFiles).size());
  }
}

} // namespace
