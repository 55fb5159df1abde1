// hyc-run and whole ranks: a miniature model (miniature.cpp) trained in several layouts, and every way in which a run
// can go wrong.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "compiled_folder.h"
#include "hycrt/safetensors.h"
#include "hycrt/step_report.h"
#include "own_launch.h"
#include "run_command.h"
#include "temporary_folder.h"

namespace {

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

const std::string kEmbedding = hyc::places::inBuild("test/unit/runtime/embedding");
constexpr Layout kOne{1, 1, 1}, kEight{2, 2, 2};

std::vector<hycrt::StepRecord> recordsOf(const std::string& path) {
  std::vector<hycrt::StepRecord> records;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    hycrt::Result<hycrt::StepRecord> record = hycrt::parseStepRecord(line);
    EXPECT_TRUE(record.ok()) << line;
    if (record.ok()) records.push_back(*record);
  }
  return records;
}

struct Training {
  std::vector<hycrt::StepRecord> records;
  std::string weights, gradients;  // the files' bytes
  CommandResult result;
};

Training train(const CompiledFolder& folder) {
  Training training;
  training.result =
      runCommand(folder.command({"--steps", "20", "--log-file", folder / "log.jsonl", "--save-weights",
                                 folder / "weights.safetensors", "--dump-gradients", folder / "gradients"}));
  EXPECT_EQ(training.result.status, 0) << training.result.errors;
  training.records = recordsOf(folder / "log.jsonl");
  training.weights = folder.files().read("weights.safetensors");
  training.gradients = folder.files().read("gradients");
  return training;
}

std::vector<float> tensorOf(const CompiledFolder& folder, const std::string& file, const std::string& name) {
  hycrt::Result<hycrt::TensorDirectory> directory = hycrt::readSafetensorsDirectory(folder / file);
  if (!directory.ok() || directory->count(name) == 0) return {};
  const hycrt::TensorEntry& entry = directory->at(name);
  EXPECT_EQ(entry.shape, (std::vector<int64_t>{3}));
  std::vector<float> values(3);
  std::memcpy(values.data(), folder.files().read(file).data() + entry.begin, 12);
  return values;
}

TEST(HycRun, TrainsAlikeOnOneAndOnEightRanks) {
  CompiledFolder one(kOne), eight(kEight);
  const Training alone = train(one), together = train(eight);
  ASSERT_EQ(alone.records.size(), 20u);
  ASSERT_EQ(together.records.size(), 20u);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_NEAR(together.records[i].loss, alone.records[i].loss, 1e-5 * alone.records[i].loss) << "step " << i;
    EXPECT_NEAR(together.records[i].gradNorm, alone.records[i].gradNorm, 1e-4 * alone.records[i].gradNorm);
    EXPECT_EQ(together.records[i].step, static_cast<int64_t>(i) + 1);
    EXPECT_EQ(together.records[i].learningRate, alone.records[i].learningRate);
  }
  EXPECT_EQ(alone.records[0].learningRate, 0.25);
  EXPECT_EQ(alone.records[11].learningRate, 0.5 * (1 - 9.0 / 18));
  EXPECT_LT(alone.records[19].loss, alone.records[0].loss / 2);
  for (const char* file : {"weights.safetensors", "gradients"}) {
    for (const char* name : {"first.weight", "second.weight"}) {
      const std::vector<float> a = tensorOf(one, file, name), b = tensorOf(eight, file, name);
      ASSERT_EQ(a.size(), 3u);
      ASSERT_EQ(b.size(), 3u);
      for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(a[i], b[i], 1e-5 * std::abs(a[i])) << file << " " << name;
    }
  }
}

TEST(HycRun, DumpsGradientsOfTheMeanLoss) {
  CompiledFolder one(kOne);
  const Training training = train(one);
  const std::vector<float> first = tensorOf(one, "gradients", "first.weight");
  const std::vector<float> second = tensorOf(one, "gradients", "second.weight");
  double squares = 0;
  for (float g : first) squares += double{g} * g;
  for (float g : second) squares += double{g} * g;
  EXPECT_NEAR(std::sqrt(squares), training.records[0].gradNorm, 1e-6);
}

TEST(HycRun, RepeatsARunBitByBit) {
  CompiledFolder folder(kEight);
  const Training first = train(folder), second = train(folder);
  ASSERT_EQ(first.records.size(), second.records.size());
  for (size_t i = 0; i < first.records.size(); ++i) {
    EXPECT_EQ(first.records[i].loss, second.records[i].loss);
    EXPECT_EQ(first.records[i].gradNorm, second.records[i].gradNorm);
  }
  EXPECT_EQ(first.weights, second.weights);
  EXPECT_EQ(first.gradients, second.gradients);
}

TEST(HycRun, PrintsOneAlignedLineAStep) {
  CompiledFolder folder(kOne);
  const CommandResult result = runCommand(folder.command({"--steps", "12"}), {{"NO_COLOR", "1"}});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(result.errors, "");
  EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 12 + 3);  // the table of memory follows
  EXPECT_CONTAINS(result.output, "step  1/12   loss ");
  EXPECT_CONTAINS(result.output, "step 12/12   loss ");
  EXPECT_EQ(result.output.find('\x1b'), std::string::npos);
  EXPECT_EQ(result.output.find("loss"), result.output.rfind("loss") - result.output.rfind("step"));
}

// An evaluation between steps has keys of its own, so that "loss" is training's.
TEST(HycRun, TellsOfAnEvaluationBetweenStepsApart) {
  hycrt::StepRecord record;
  record.evaluates = true;
  record.step = 3;
  record.steps = 7;
  record.batches = 2;
  record.loss = 0.1 + 0.2;
  record.accuracy = 0.25;
  const std::string json = hycrt::toJson(record);
  EXPECT_EQ(json.find("\"loss\""), std::string::npos) << json;
  EXPECT_CONTAINS(json, "\"evaluate_accuracy\":0.25");
  const hycrt::Result<hycrt::StepRecord> back = hycrt::parseStepRecord(json);
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(back->evaluates);
  EXPECT_EQ(back->step, 3);
  EXPECT_EQ(back->batches, 2);
  EXPECT_EQ(back->loss, record.loss);
  EXPECT_EQ(back->accuracy, record.accuracy);
  EXPECT_CONTAINS(hycrt::toLine(record), "step 3/7   evaluation over 2 batches   loss ");
  record.accuracy.reset();
  EXPECT_EQ(hycrt::toJson(record).find("accuracy"), std::string::npos);
}

TEST(HycRun, WritesNumbersThatReadBackAsTheyWere) {
  hycrt::StepRecord record;
  record.step = 3;
  record.steps = 7;
  record.loss = 0.1 + 0.2;
  record.gradNorm = 1.0 / 3;
  record.learningRate = 5e-324;
  record.milliseconds = 1e300;
  record.tokensPerSecond = std::nan("");
  const hycrt::Result<hycrt::StepRecord> back = hycrt::parseStepRecord(hycrt::toJson(record));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->step, 3);
  EXPECT_EQ(back->steps, 7);
  EXPECT_EQ(back->loss, record.loss);
  EXPECT_EQ(back->gradNorm, record.gradNorm);
  EXPECT_EQ(back->learningRate, record.learningRate);
  EXPECT_EQ(back->milliseconds, record.milliseconds);
  EXPECT_TRUE(std::isnan(back->tokensPerSecond));
  EXPECT_CONTAINS(hycrt::toJson(record), "\"loss\":0.30000000000000004");
}

// Images are no tokens.
TEST(HycRun, TellsTheRateOfSamplesThatAreNoSequencesAsWhatItIs) {
  hycrt::StepRecord record;
  record.step = record.steps = 3;
  record.tokensPerSecond = 32000;
  record.samplesPerSecond = 32;
  const std::string json = hycrt::toJson(record);
  EXPECT_CONTAINS(json, "\"samples_per_s\":32.0");
  EXPECT_EQ(json.find("tokens"), std::string::npos) << json;
  const hycrt::Result<hycrt::StepRecord> back = hycrt::parseStepRecord(json);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->samplesPerSecond, 32);
  EXPECT_CONTAINS(hycrt::toLine(*back), " 32 samples/s   left");
  EXPECT_CONTAINS(hycrt::toShortLine(*back), " 32 samples/s ");
}

TEST(HycRun, InFileOrderIsAnotherRunThanShuffled) {
  CompiledFolder folder(kOne);
  runCommand(folder.command({"--steps", "2", "--log-file", folder / "a"}));
  runCommand(folder.command({"--steps", "2", "--log-file", folder / "b", "--no-shuffle"}));
  ASSERT_EQ(recordsOf(folder / "a").size(), 2u);
  ASSERT_EQ(recordsOf(folder / "b").size(), 2u);
  EXPECT_NE(recordsOf(folder / "a")[0].loss, recordsOf(folder / "b")[0].loss);
}

// A run of eight ranks that goes on until something ends it.
class EndlessRun : public testing::Test {
 protected:
  void SetUp() override {
    command_ =
        std::make_unique<RunningCommand>(folder_.command({"--steps", "1000000000", "--log-file", folder_ / "log"}));
    for (int i = 0; i < 1000 && recordsOf(folder_ / "log").empty(); ++i) usleep(10000);
    ranks_ = command_->children();
    ASSERT_EQ(ranks_.size(), 8u);
  }

  void expectAllGone() {
    // A killed launcher's ranks are reaped by whoever inherits them; that may take a moment.
    for (int i = 0; i < 3000 && !std::all_of(ranks_.begin(), ranks_.end(), hasEnded); ++i) usleep(10000);
    for (pid_t rank : ranks_) EXPECT_TRUE(hasEnded(rank)) << rank;
  }

  CompiledFolder folder_{kEight};
  std::unique_ptr<RunningCommand> command_;
  std::vector<pid_t> ranks_;
};

class KilledRank : public EndlessRun, public testing::WithParamInterface<int> {};

TEST_P(KilledRank, EndsTheRunAtOnceAndIsNamed) {
  kill(ranks_[static_cast<size_t>(GetParam())], SIGKILL);
  const CommandResult result = command_->finish();
  EXPECT_LT(result.seconds, kSoon);
  EXPECT_EQ(result.status, 137);
  EXPECT_CONTAINS(result.errors, "hyc-run: rank " + std::to_string(GetParam()) + " (pp ");
  EXPECT_CONTAINS(result.errors, "was ended by SIGKILL; the other ranks were ended");
  EXPECT_EQ(result.errors.find("error:"), std::string::npos) << "a rank that only followed was heard";
  expectAllGone();
}

INSTANTIATE_TEST_SUITE_P(EveryRank, KilledRank, testing::Values(0, 3, 7));

TEST_F(EndlessRun, InterruptedEndsWith130AndLeavesNothing) {
  kill(command_->pid(), SIGINT);
  const CommandResult result = command_->finish();
  EXPECT_LT(result.seconds, kSoon);
  EXPECT_EQ(result.status, 130);
  EXPECT_CONTAINS(result.errors, "stopped by SIGINT");
  expectAllGone();
}

TEST_F(EndlessRun, QuitEndsWith131AndLeavesNothing) {
  kill(command_->pid(), SIGQUIT);
  const CommandResult result = command_->finish();
  EXPECT_EQ(result.status, 131);
  EXPECT_CONTAINS(result.errors, "stopped by SIGQUIT");
  expectAllGone();
}

TEST_F(EndlessRun, WhoseReaderIsGoneEndsWith141AndLeavesNothing) {
  kill(command_->pid(), SIGPIPE);
  const CommandResult result = command_->finish();
  EXPECT_EQ(result.status, 141);
  expectAllGone();
}

TEST_F(EndlessRun, TerminatedEndsWith143AndLeavesNothing) {
  kill(command_->pid(), SIGTERM);
  EXPECT_EQ(command_->finish().status, 143);
  expectAllGone();
}

TEST_F(EndlessRun, WhoseLauncherIsKilledLeavesNothing) {
  kill(command_->pid(), SIGKILL);
  EXPECT_EQ(command_->finish().status, 137);
  expectAllGone();
}

// As nohup starts a command, or a shell that is no terminal's in the background.
TEST(IgnoredSignals, AreNoEndOfARun) {
  CompiledFolder folder(kEight);
  std::vector<std::string> words{"/bin/sh", "-c", "trap '' HUP INT QUIT PIPE; exec \"$@\"", "sh"};
  for (std::string& word : folder.command({"--steps", "1000000000", "--log-file", folder / "log"})) {
    words.push_back(std::move(word));
  }
  RunningCommand command(words, {{"MINIATURE_PAUSE", "5"}});
  const auto awaitStep = [&](size_t step) {
    for (int i = 0; i < 3000 && recordsOf(folder / "log").size() < step; ++i) usleep(10000);
    ASSERT_GE(recordsOf(folder / "log").size(), step);
  };
  awaitStep(1);
  const std::vector<pid_t> ranks = command.children();
  ASSERT_EQ(ranks.size(), 8u);
  for (int signal : {SIGHUP, SIGINT, SIGQUIT, SIGPIPE}) {
    kill(command.pid(), signal);
    awaitStep(recordsOf(folder / "log").size() + 3);
  }
  EXPECT_EQ(command.children(), ranks);
  // Asked by what is not ignored, it ends, and its ranks do.
  kill(command.pid(), SIGTERM);
  const CommandResult result = command.finish();
  EXPECT_EQ(result.status, 143) << result.errors;
  EXPECT_LT(result.seconds, kSoon);
  for (pid_t rank : ranks) EXPECT_TRUE(hasEnded(rank)) << rank;
}

TEST(Failure, OfARankByAbortComesThroughWithItsLastWords) {
  CompiledFolder folder(kEight);
  const CommandResult result = runCommand(folder.command({"--steps", "100", "--save-weights", folder / "w"}),
                                          {{"MINIATURE_FAULT", "5 2 abort"}});
  EXPECT_EQ(result.status, 134);
  EXPECT_CONTAINS(result.errors, "rank 5: about to abort");
  EXPECT_CONTAINS(result.errors, "hyc-run: rank 5 (pp 1, dp 0, tp 1, program bin/stage1) was ended by SIGABRT");
  EXPECT_FALSE(std::filesystem::exists(folder / "w"));
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_NE(entry.path().filename().string()[0], 'w') << entry.path();
    EXPECT_NE(entry.path().filename().string()[0], '.') << entry.path();
  }
}

TEST(Failure, OfARankByItsOwnStatusIsTheRunsStatus) {
  CompiledFolder folder(kEight);
  const CommandResult result = runCommand(folder.command({"--steps", "100"}), {{"MINIATURE_FAULT", "2 1 exit"}});
  EXPECT_EQ(result.status, 3);
  EXPECT_CONTAINS(result.errors, "hyc-run: rank 2 (pp 0, dp 1, tp 0, program bin/stage0) ended with status 3");
}

TEST(Failure, OnATokenOutsideTheVocabularyNamesFileAndIndex) {
  CompiledFolder folder(kEight);
  std::string text = folder.files().read("text");
  text.replace(500, 2, "\xc3\xa9");  // é
  folder.files().write("text", text);
  const CommandResult result = runCommand(folder.command({"--steps", "1000"}));
  EXPECT_EQ(result.status, 65);
  EXPECT_CONTAINS(result.errors, "text', token 500: found 195, expected less than the vocabulary's size 128");
  EXPECT_EQ(result.output, "") << "found when the file is opened, not at the step that reads it";
  EXPECT_EQ(result.errors.find("while this rank waited"), std::string::npos) << result.errors;
}

TEST(Failure, OnDataThatIsMissingOrEmptyIsOneDiagnostic) {
  CompiledFolder folder(kEight);
  folder.files().write("empty", "");
  CommandResult result = runCommand({kHycRun, folder.path(), "--data", folder / "empty"});
  EXPECT_EQ(result.status, 65);
  EXPECT_CONTAINS(result.errors, "empty' holds 0 tokens, expected at least 9");
  result = runCommand({kHycRun, folder.path(), "--data", folder / "missing"});
  EXPECT_EQ(result.status, 74);
  EXPECT_CONTAINS(result.errors, "missing' (--data)");
  result = runCommand({kHycRun, folder.path()});
  EXPECT_EQ(result.status, 64);
  EXPECT_EQ(result.errors, "hyc-run: error: the model reads data; give it with --data FILE\n");
}

TEST(CommandLine, TakesTheFolderBehindTwoDashes) {
  CompiledFolder folder(kOne);
  const CommandResult result = runCommand({kHycRun, "--data", folder / "text", "--steps", "1", "--", folder.path()});
  EXPECT_EQ(result.status, 0) << result.errors;
}

TEST(Failure, OnDataOfNoKnownKindIsOneDiagnostic) {
  CompiledFolder folder(kEight);
  std::string tokens;
  for (int i = 0; i < 1000; ++i) tokens += {static_cast<char>(i * 37 % 128), '\0'};
  folder.files().write("tokens.bin", tokens);
  std::vector<std::string> command{kHycRun, folder.path(), "--steps", "2", "--data", folder / "tokens.bin"};
  CommandResult result = runCommand(command);
  EXPECT_EQ(result.status, 65);
  EXPECT_CONTAINS(result.errors, "hyc-run: error: '" + (folder / "tokens.bin") + "' is neither text (byte 0 is NUL)");
  EXPECT_EQ(result.errors.find("error:"), result.errors.rfind("error:")) << result.errors;
  command.insert(command.end(), {"--data-format", "uint16"});
  result = runCommand(command);
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.output, "step 2/2");
}

// The first update makes the weights too large for the next loss.
void makeDiverging(const CompiledFolder& folder, const std::string& rate) {
  std::string manifest = folder.files().read("manifest.json");
  const std::string base = "\"base\": 0.5";
  folder.files().write("manifest.json", manifest.replace(manifest.find(base), base.size(), "\"base\": " + rate));
}

TEST(Divergence, EndsTheRunAndLeavesEarlierWeightsAlone) {
  for (const Layout& layout : {kOne, kEight}) {
    CompiledFolder folder(layout);
    for (const char* target : {"weights", "weights.safetensors"}) {
      const CommandResult good = runCommand(folder.command({"--steps", "2", "--save-weights", folder / target}));
      ASSERT_EQ(good.status, 0) << good.errors;
    }
    const std::string weights = folder.files().read("weights/model.safetensors");
    ASSERT_NE(weights, "");
    makeDiverging(folder, "1e30");
    for (const char* target : {"weights", "weights.safetensors"}) {
      const CommandResult result = runCommand(folder.command({"--steps", "50", "--save-weights", folder / target}));
      EXPECT_EQ(result.status, 65);
      EXPECT_CONTAINS(result.errors, "error: step 2: the loss is infinity; lower the learning rate");
      EXPECT_CONTAINS(result.errors, "hyc-compile --check-finite");
      EXPECT_CONTAINS(result.output, "step  2/50");
      EXPECT_EQ(result.output.find("step  3/50"), std::string::npos) << result.output;
    }
    EXPECT_EQ(folder.files().read("weights/model.safetensors"), weights);
    EXPECT_EQ(folder.files().read("weights.safetensors"), weights);
  }
}

TEST(Divergence, IsGoneThroughWhereItIsAllowedAndReplacesNoWeightsEvenSo) {
  CompiledFolder folder(kEight);
  ASSERT_EQ(runCommand(folder.command({"--steps", "2", "--save-weights", folder / "good"})).status, 0);
  const std::string weights = folder.files().read("good/model.safetensors");
  makeDiverging(folder, "1e30");
  CommandResult result =
      runCommand(folder.command({"--steps", "5", "--allow-nonfinite", "--save-weights", folder / "new"}));
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.output, "step 5/5");
  EXPECT_NE(folder.files().read("new/model.safetensors"), "");
  result = runCommand(folder.command({"--steps", "5", "--allow-nonfinite", "--save-weights", folder / "good"}));
  EXPECT_EQ(result.status, 65);
  EXPECT_CONTAINS(result.errors, "the trained weights are not saved to '" + (folder / "good") + "': ");
  EXPECT_CONTAINS(result.errors, " holds NaN");
  EXPECT_EQ(folder.files().read("good/model.safetensors"), weights);
}

// The loss is told before the update that spoils the weights.
TEST(Divergence, OfTheLastUpdateIsNotSaved) {
  CompiledFolder folder(kEight);
  makeDiverging(folder, "1e300");
  const CommandResult result = runCommand(folder.command({"--steps", "1", "--save-weights", folder / "new"}));
  EXPECT_EQ(result.status, 65);
  EXPECT_CONTAINS(result.output, "step 1/1   loss ");
  EXPECT_CONTAINS(result.errors, "weight holds ");
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
}

// What a rank says comes from files of strangers, too.
TEST(Failure, SaysNothingThatATerminalWouldObey) {
  CompiledFolder folder(kOne);
  std::filesystem::remove(folder / "bin/stage0");
  folder.files().write("bin/stage0", "#!/bin/sh\nprintf 'tensor \\033]0;owned\\007 \\302\\233m é\\n' >&2\nexit 65\n");
  std::filesystem::permissions(folder / "bin/stage0", std::filesystem::perms::owner_all);
  const CommandResult result = runCommand(folder.command({}));
  EXPECT_EQ(result.status, 65);
  EXPECT_CONTAINS(result.errors, "rank 0: tensor \\x1b]0;owned\\x07 \\xc2\\x9bm é\n");
}

TEST(Stopping, AsksARankBeforeItMakesItEnd) {
  for (const bool obeys : {true, false}) {
    CompiledFolder folder(kOne);
    std::filesystem::remove(folder / "bin/stage0");
    folder.files().write("bin/stage0", "#!/bin/sh\ntrap 'touch " + (folder / "asked") + "; " +
                                           (obeys ? "exit 0" : "true") + "' INT\ntouch " + (folder / "ready") +
                                           "\nwhile true; do sleep 0.01; done\n");
    std::filesystem::permissions(folder / "bin/stage0", std::filesystem::perms::owner_all);
    RunningCommand command(folder.command({}));
    for (int i = 0; i < 1000 && !std::filesystem::exists(folder / "ready"); ++i) usleep(10000);
    kill(command.pid(), SIGTERM);
    const CommandResult result = command.finish();
    EXPECT_EQ(result.status, 143);
    EXPECT_TRUE(std::filesystem::exists(folder / "asked")) << "it was killed without a word";
    EXPECT_LT(result.seconds, kSoon);
  }
}

// A manifest that somebody changed asks for ranks that the programs were not made for: one process says so, not all.
TEST(Failure, OfAManifestThatDoesNotFitComesBeforeThereAreRanks) {
  CompiledFolder folder(kEight);
  CompiledFolder larger({2, 2, 4});
  std::filesystem::copy_file(larger / "manifest.json", folder / "manifest.json",
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::remove(folder / "bin/stage0");
  folder.files().write("bin/stage0", "#!/bin/sh\necho started >> " + (folder / "started") + "\nexec " +
                                         hyc::places::inBuild("test/unit/runtime/miniature_222_stage0") + " \"$@\"\n");
  std::filesystem::permissions(folder / "bin/stage0", std::filesystem::perms::owner_all);
  const CommandResult result = runCommand(folder.command({}));
  EXPECT_NE(result.status, 0);
  EXPECT_CONTAINS(result.errors, "rank 0: error: ");
  EXPECT_EQ(folder.files().read("started"), "started\n");
}

TEST(Failure, OnOutputsThatCannotBeWrittenComesBeforeTraining) {
  CompiledFolder folder(kOne);
  for (const char* option : {"--save-weights", "--dump-gradients", "--log-file"}) {
    const CommandResult result = runCommand(folder.command({option, folder / "missing/file"}));
    EXPECT_EQ(result.status, 74) << option;
    EXPECT_EQ(result.output, "") << option;
  }
}

TEST(Failure, OnOutputsThatWouldOverwriteWhatIsReadLeavesItAlone) {
  CompiledFolder folder(kOne);
  const std::string text = folder.files().read("text"), manifest = folder.files().read("manifest.json");
  std::filesystem::create_symlink(folder / "text", folder / "link");
  for (const char* option : {"--save-weights", "--dump-gradients", "--log-file"}) {
    for (const char* name : {"text", "link", "manifest.json", "bin/stage0"}) {
      const CommandResult result = runCommand(folder.command({option, folder / name}));
      EXPECT_EQ(result.status, 64) << option << " " << name;
      EXPECT_CONTAINS(result.errors, "would overwrite");
    }
  }
  const CommandResult result =
      runCommand(folder.command({"--save-weights", folder / "new", "--dump-gradients", folder / "new"}));
  EXPECT_EQ(result.status, 64);
  EXPECT_EQ(folder.files().read("text"), text);
  EXPECT_EQ(folder.files().read("manifest.json"), manifest);
}

TEST(Failure, OnALogThatCannotTakeMoreStopsTheRun) {
  CompiledFolder folder(kEight);
  const CommandResult result = runCommand(folder.command({"--steps", "1000000", "--log-file", "/dev/full"}));
  EXPECT_EQ(result.status, 74);
  EXPECT_CONTAINS(result.errors, "cannot write the log file '/dev/full': No space left on device");
}

TEST(Failure, OnAFolderOfAnotherPlanIsRefused) {
  CompiledFolder folder(kOne, "00000000000000aa");
  const CommandResult result = runCommand(folder.command({}));
  EXPECT_EQ(result.status, 65);
  EXPECT_CONTAINS(result.errors, "come from different plans");
}

TEST(Failure, OnAnUnknownOptionSuggestsTheNearest) {
  const CommandResult result = runCommand({kHycRun, "out", "--log-fiel", "x"});
  EXPECT_EQ(result.status, 64);
  EXPECT_CONTAINS(result.errors, "unknown option '--log-fiel'; the nearest is '--log-file'");
}

TEST(Failure, OnNumbersThatAreNoneIsUsage) {
  for (const char* number : {"-1", "1e3", "99999999999999999999", "", "0x10"}) {
    EXPECT_EQ(runCommand({kHycRun, "out", std::string("--seed=") + number}).status, 64) << number;
    EXPECT_EQ(runCommand({kHycRun, "out", std::string("--steps=") + number}).status, 64) << number;
  }
}

TEST(OtherLaunchers, GiveTheSameLosses) {
  CompiledFolder folder(kEight);
  const Training reference = train(folder);
  const std::string token = folder.files().write("token", "0123456789abcdef0123456789abcdef\n");
  chmod(token.c_str(), 0600);
  for (const Environment& environment :
       {Environment{}, Environment{{"TORCHELASTIC_USE_AGENT_STORE", "True"}}, Environment{{"HYC_TOKEN_FILE", token}},
        Environment{{"HYC_TOKEN_FILE", token}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}}) {
    OwnLaunch launch(folder, kEight, claimPort(), environment, {"--steps", "20", "--log-file", folder / "own"});
    for (auto& rank : launch.ranks) {
      const CommandResult result = rank->finish();
      EXPECT_EQ(result.status, 0) << result.errors;
    }
    const std::vector<hycrt::StepRecord> records = recordsOf(folder / "own");
    ASSERT_EQ(records.size(), 20u);
    for (size_t i = 0; i < 20; ++i) EXPECT_EQ(records[i].loss, reference.records[i].loss);
  }
}

TEST(OtherLaunchers, AreLeftByEveryRankWhenOneIsKilled) {
  CompiledFolder folder(kEight);
  OwnLaunch launch(folder, kEight, claimPort(), {}, {"--steps", "1000000000", "--log-file", folder / "log"});
  for (int i = 0; i < 1000 && recordsOf(folder / "log").empty(); ++i) usleep(10000);
  kill(launch.ranks[6]->pid(), SIGKILL);
  for (size_t rank = 0; rank < launch.ranks.size(); ++rank) {
    const CommandResult result = launch.ranks[rank]->finish();
    EXPECT_LT(result.seconds, kSoon) << "rank " << rank;
    EXPECT_EQ(result.status, rank == 6 ? 137 : 75) << "rank " << rank << ": " << result.errors;
  }
}

class RanksThatDisagree : public testing::Test {
 protected:
  // Every rank ends at once, and says which one differs in what.
  void expectRefused(const OddRank& odd, const std::string& what) {
    OwnLaunch launch(folder_, kEight, claimPort(), {}, {"--steps", "3"}, odd);
    for (size_t rank = 0; rank < launch.ranks.size(); ++rank) {
      const CommandResult result = launch.ranks[rank]->finish();
      EXPECT_EQ(result.status, 65) << "rank " << rank;
      EXPECT_CONTAINS(result.errors, what);
      EXPECT_CONTAINS(result.errors, "rank " + std::to_string(odd.rank) + " (process ");
    }
  }

  CompiledFolder folder_{kEight};
};

TEST_F(RanksThatDisagree, AboutTheLearningRateAreRefused) {
  TemporaryFolder other;
  std::string manifest = folder_.files().read("manifest.json");
  manifest.replace(manifest.find("0.5"), 3, "500");
  other.write("manifest.json", manifest);
  expectRefused({5, other.path(), {}}, "/learning_rate/base of manifest.json is 500 and 0.5");
}

TEST_F(RanksThatDisagree, AboutAnOptionAreRefused) {
  expectRefused({2, "", {"--data", folder_ / "text", "--seed", "4"}}, "--seed is 4 and 3");
  expectRefused({7, "", {"--data", folder_ / "text", "--seed", "3", "--save-weights", folder_ / "w"}},
                "--save-weights is " + (folder_ / "w") + " and not given");
}

TEST_F(RanksThatDisagree, AboutTheDataAreRefused) {
  std::string text = folder_.files().read("text");
  text[3] ^= 1;
  const std::string other = folder_.files().write("other", text);
  expectRefused({6, "", {"--data", other, "--seed", "3"}}, "the file of --data is 1000 bytes with hash ");
}

TEST_F(RanksThatDisagree, AboutThreadsAndThePathOfTheDataAloneAreNot) {
  const std::string copy = folder_.files().write("copy", folder_.files().read("text"));
  OwnLaunch launch(folder_, kEight, claimPort(), {}, {"--steps", "3"},
                   {6, "", {"--data", copy, "--seed", "3", "--communication-thread", "off"}});
  for (auto& rank : launch.ranks) {
    const CommandResult result = rank->finish();
    EXPECT_EQ(result.status, 0) << result.errors;
  }
}

// A rank that fails by itself before it meets the others, the first one or another: nobody waits a minute for it.
TEST(OtherLaunchers, AreToldAtOnceOfARankThatFailsBeforeItMeetsTheOthers) {
  CompiledFolder folder(kEight);
  const std::string token = folder.files().write("token", "0123456789abcdef0123456789abcdef\n");
  chmod(token.c_str(), 0600);
  const std::vector<Environment> environments{{}, {{"HYC_TOKEN_FILE", token}}};
  for (const int failing : {0, 5}) {
    for (const Environment& environment : environments) {
      OwnLaunch launch(folder, kEight, claimPort(), environment, {"--steps", "3"},
                       {failing, "", {"--data", folder / "missing"}});
      for (size_t rank = 0; rank < launch.ranks.size(); ++rank) {
        const CommandResult result = launch.ranks[rank]->finish();
        EXPECT_LT(result.seconds, kSoon) << "rank " << rank;
        EXPECT_EQ(result.status, static_cast<int>(rank) == failing ? 74 : 75) << "rank " << rank << result.errors;
        EXPECT_CONTAINS(result.errors, "cannot open '" + (folder / "missing") + "': No such file or directory");
        if (static_cast<int>(rank) == failing) continue;
        EXPECT_CONTAINS(result.errors, "rank " + std::to_string(failing) + " (process ");
        EXPECT_CONTAINS(result.errors, " failed before the ranks had met: ");
      }
    }
  }
}

TEST(OtherLaunchers, ThatSayTooLittleAreTold) {
  CompiledFolder folder(kEight);
  const std::vector<std::string> command{folder / "bin/stage0", "--out", folder.path(), "--data", folder / "text"};
  CommandResult result = runCommand(command);
  EXPECT_EQ(result.status, 64);
  EXPECT_CONTAINS(result.errors, "one of 8 ranks (pp 2 × dp 2 × tp 2)");
  result = runCommand(command, {{"RANK", "0"}, {"WORLD_SIZE", "4"}});
  EXPECT_EQ(result.status, 64);
  EXPECT_CONTAINS(result.errors, "WORLD_SIZE is 4, expected pp 2 × dp 2 × tp 2 = 8");
  result = runCommand(command, {{"RANK", "7"}, {"WORLD_SIZE", "8"}, {"MASTER_PORT", "1234"}});
  EXPECT_EQ(result.status, 64);
  EXPECT_CONTAINS(result.errors, "rank 7 is in stage 1, but this is the program of stage 0");
  result = runCommand(command, {{"RANK", "0"}, {"WORLD_SIZE", "8"}});
  EXPECT_EQ(result.status, 64);
  EXPECT_CONTAINS(result.errors, "MASTER_PORT");
  result =
      runCommand(command, {{"RANK", "0"}, {"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "4"}, {"MASTER_PORT", "1234"}});
  EXPECT_EQ(result.status, 64);
  EXPECT_CONTAINS(result.errors, "(4 of 8 on this one), and MASTER_ADDR is not set");
  result = runCommand(command, {{"RANK", "0"},
                                {"WORLD_SIZE", "8"},
                                {"LOCAL_WORLD_SIZE", "4"},
                                {"MASTER_ADDR", "127.0.0.1"},
                                {"MASTER_PORT", "1234"}});
  EXPECT_EQ(result.status, 64);
  EXPECT_CONTAINS(result.errors, "need a token, by which they know each other: openssl rand -hex 32 > token");
}

TEST(OtherLaunchers, AreNotNeededForOneRank) {
  CompiledFolder folder(kOne);
  const CommandResult result =
      runCommand({folder / "bin/stage0", "--out", folder.path(), "--data", folder / "text", "--steps", "2"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.output, "step 2/2");
}

std::vector<std::string> linesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Embedding, AProgramOfOnesOwnIsToldWhatHycRunIs) {
  CompiledFolder folder(kOne);
  const Training training = train(folder);
  const CommandResult result = runCommand({kEmbedding, folder.path(), folder / "text", "20", "0"});
  EXPECT_EQ(result.errors, "");
  const std::vector<std::string> lines = linesOf(result.output);
  ASSERT_EQ(lines.size(), 23u) << result.output;
  EXPECT_EQ(lines.front(), "begin");
  for (size_t i = 0; i < training.records.size(); ++i) {
    const hycrt::Result<hycrt::StepRecord> record = hycrt::parseStepRecord(lines[i + 1]);
    ASSERT_TRUE(record.ok()) << lines[i + 1];
    EXPECT_EQ(record->loss, training.records[i].loss) << "step " << i + 1;
    EXPECT_EQ(record->gradNorm, training.records[i].gradNorm) << "step " << i + 1;
  }
  EXPECT_EQ(lines[21], "memory of rank 0");
  EXPECT_EQ(lines[22], "ended: well");
}

TEST(Embedding, EndsWithTheErrorOfWhoIsTold) {
  CompiledFolder folder(kOne);
  const CommandResult result = runCommand({kEmbedding, folder.path(), folder / "text", "20", "3"});
  const std::vector<std::string> lines = linesOf(result.output);
  ASSERT_EQ(lines.size(), 5u) << result.output;
  EXPECT_EQ(lines.back(), "ended: that is enough");
}

TEST(Embedding, GivesErrorsBackAndPrintsNone) {
  CompiledFolder folder(kOne);
  const CommandResult noData = runCommand({kEmbedding, folder.path(), folder / "nothing", "20", "0"});
  EXPECT_EQ(noData.errors, "");
  EXPECT_CONTAINS(noData.output, "ended: ");
  EXPECT_CONTAINS(noData.output, "nothing");
  const CommandResult noFolder = runCommand({kEmbedding, "", folder / "text", "20", "0"});
  EXPECT_EQ(noFolder.output, "ended: no folder is given (RunOptions::out)\n");
}

TEST(UnderALauncher, HycRunWarnsThatEachOfItsProcessesWouldStartAllRanks) {
  const CompiledFolder folder(kOne);
  const std::vector<std::string> command = folder.command({"--steps", "1"});
  for (const Environment& environment : {Environment{{"RANK", "1"}, {"WORLD_SIZE", "2"}},
                                         Environment{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}}}) {
    const CommandResult result = runCommand(command, environment);
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_CONTAINS(result.errors, "would each start all ranks of a job of their own; give --as-rank");
  }
  for (const Environment& environment : {Environment{}, Environment{{"RANK", "0"}, {"WORLD_SIZE", "1"}},
                                         Environment{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}}) {
    EXPECT_EQ(runCommand(command, environment).errors, "");
  }
}

}  // namespace
