// hyc::compile as a library: called again and again in one process, with failures in between, without a word.
#include "hyc/Driver/Compile.h"
#include "ScratchFolder.h"
#include "test/Places.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

namespace {

using hyc::CompileDiagnostic;
using hyc::CompileListener;
using hyc::CompileOptions;
using hyc::CompileResult;

/// What the process prints while it lives, on either stream.
class PrintedText {
public:
  PrintedText() {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
  }
  std::string take() { return testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr(); }
};

CompileOptions tinyModel(const std::string &output) {
  CompileOptions options;
  options.input = hyc::places::model("gpt2-tiny.onnx");
  options.output = output;
  options.pp = 2;
  options.dp = 2;
  options.microBatch = 2;
  options.threads = 1;
  return options;
}

bool handlesInterrupts() {
  struct sigaction action = {};
  sigaction(SIGINT, nullptr, &action);
  return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN; // what a shell in the background leaves
}

TEST(Compile, GivesPlanAccountAndFolderAndPrintsNothing) {
  ScratchFolder folder;
  CompileOptions options = tinyModel(folder.path("out"));
  options.planOnly = true;
  PrintedText printed;
  CompileResult result = hyc::compile(options, hyc::Toolchain());
  EXPECT_EQ(printed.take(), "");
  ASSERT_TRUE(bool(result)) << result.error;
  EXPECT_EQ(result.folder, folder.path("out"));
  EXPECT_TRUE(std::filesystem::exists(folder.path("out/plan.json")));
  EXPECT_EQ(result.plan.rankCount(), 4);
  EXPECT_EQ(result.plan.rules.cuts.size(), 1u);
  EXPECT_FALSE(result.plan.rules.parameters.empty());
  EXPECT_EQ(result.account.stages.size(), 2u);
  EXPECT_NE(result.summary.find("gpt2-tiny: 4 ranks (tp 1 × pp 2 × dp 2), 4 samples a step"), std::string::npos);
  EXPECT_TRUE(result.diagnostics.empty());
}

TEST(Compile, GivesTheSameTextAfterAFailureInBetween) {
  CompileOptions options = tinyModel("");
  options.emit = "plan";
  PrintedText printed;
  CompileResult first = hyc::compile(options, hyc::Toolchain());

  CompileOptions wrong = options;
  wrong.logits = "scores";
  std::vector<CompileDiagnostic> told;
  bool handled = false;
  CompileListener listener;
  listener.diagnosed = [&](const CompileDiagnostic &diagnostic) {
    told.push_back(diagnostic);
    handled |= handlesInterrupts();
  };
  CompileResult failed = hyc::compile(wrong, hyc::Toolchain(), listener);

  CompileOptions missing = options;
  missing.input = "/nowhere/model.onnx";
  CompileResult unread = hyc::compile(missing, hyc::Toolchain());

  CompileResult second = hyc::compile(options, hyc::Toolchain());
  EXPECT_EQ(printed.take(), "");

  EXPECT_EQ(failed.code, hyc::ExitCode::Usage);
  EXPECT_EQ(failed.error, ""); // the diagnostics say it
  ASSERT_FALSE(failed.diagnostics.empty());
  EXPECT_NE(failed.diagnostics.front().str().find("error: --logits names output \"scores\""), std::string::npos)
      << failed.diagnostics.front().str();
  EXPECT_EQ(told.size(), failed.diagnostics.size());
  EXPECT_FALSE(handled) << "a signal handler was there while it compiled";
  EXPECT_EQ(unread.code, hyc::ExitCode::Io);
  EXPECT_NE(unread.error.find("cannot read '/nowhere/model.onnx'"), std::string::npos) << unread.error;

  ASSERT_TRUE(first && second) << first.error << second.error;
  EXPECT_NE(first.text.find("hyc.func @microbatch"), std::string::npos);
  EXPECT_EQ(first.text, second.text);
  EXPECT_EQ(first.plan.rules.cuts, second.plan.rules.cuts);
}

TEST(Compile, LeavesNothingBehindWhereItFails) {
  ScratchFolder folder;
  CompileOptions options = tinyModel(folder.path("made/out"));
  options.planOnly = true;
  options.deviceMemory = "1KiB";
  PrintedText printed;
  CompileResult result = hyc::compile(options, hyc::Toolchain());
  EXPECT_EQ(printed.take(), "");
  EXPECT_EQ(result.code, hyc::ExitCode::Data);
  EXPECT_NE(result.error.find("--device-memory is 1.00 KiB"), std::string::npos) << result.error;
  EXPECT_EQ(result.account.stages.size(), 2u) << "what did not fit is not told";
  EXPECT_FALSE(std::filesystem::exists(folder.path("made")));
}

TEST(Compile, ExplainsAConfigurationInTheResult) {
  ScratchFolder folder;
  folder.write("ds.json", "{\"zero_optimization\": {\"stage\": 2}}");
  CompileOptions options;
  options.configFile = folder.path("ds.json");
  PrintedText printed;
  CompileResult result = hyc::explainConfig(options);
  EXPECT_EQ(printed.take(), "");
  EXPECT_TRUE(bool(result)) << result.error;
  EXPECT_EQ(result.plan.zero, 2);
  EXPECT_NE(result.text.find("zero_optimization.stage"), std::string::npos);
}

} // namespace
