// All or nothing: what a compilation leaves in its folder.
#include "Folder/OutputFolder.h"
#include "ScratchFolder.h"
#include "hyc/Support/DriverError.h"

#include <gtest/gtest.h>

namespace {

using hyc::OutputFolder;

/// The code of a failure; Ok for success.
hyc::ExitCode codeOf(llvm::Error error) {
  hyc::ExitCode code = hyc::ExitCode::Ok;
  llvm::handleAllErrors(std::move(error), [&](const hyc::DriverError &failure) { code = failure.getCode(); });
  return code;
}

std::vector<hyc::InputPath> inputAt(const std::string &path) { return {{"", path}}; }

TEST(OutputFolder, LeavesNothingWithoutCommit) {
  ScratchFolder scratch;
  {
    auto folder = OutputFolder::open(scratch.path("a/b"), inputAt(scratch.path("model.onnx")));
    ASSERT_TRUE(bool(folder));
    ASSERT_EQ(codeOf(folder->write("src/x.cpp", "text")), hyc::ExitCode::Ok);
    EXPECT_TRUE(scratch.has("a/b"));
  }
  EXPECT_FALSE(scratch.has("a"));
}

TEST(OutputFolder, ReplacesItsOwnEntriesAndNothingElse) {
  ScratchFolder scratch;
  const std::vector<hyc::InputPath> input = inputAt(scratch.path("model.onnx"));
  {
    auto folder = OutputFolder::open(scratch.path("out"), input);
    ASSERT_TRUE(bool(folder));
    ASSERT_EQ(codeOf(folder->write("src/old.cpp", "old")), hyc::ExitCode::Ok);
    ASSERT_EQ(codeOf(folder->write("manifest.json", "old")), hyc::ExitCode::Ok);
    ASSERT_EQ(codeOf(folder->commit()), hyc::ExitCode::Ok);
  }
  scratch.write("out/log.jsonl", "kept");
  {
    auto folder = OutputFolder::open(scratch.path("out"), input);
    ASSERT_TRUE(bool(folder));
    ASSERT_EQ(codeOf(folder->write("src/new.cpp", "new")), hyc::ExitCode::Ok);
    ASSERT_EQ(codeOf(folder->write("manifest.json", "new")), hyc::ExitCode::Ok);
    EXPECT_EQ(scratch.read("out/manifest.json"), "old");
    ASSERT_EQ(codeOf(folder->commit()), hyc::ExitCode::Ok);
  }
  EXPECT_EQ(scratch.read("out/manifest.json"), "new");
  EXPECT_TRUE(scratch.has("out/src/new.cpp"));
  EXPECT_FALSE(scratch.has("out/src/old.cpp"));
  EXPECT_EQ(scratch.read("out/log.jsonl"), "kept");
  auto entries = std::filesystem::directory_iterator(scratch.path("out"));
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 4); // with files.json, and no staging folder
}

TEST(OutputFolder, RefusesToReplaceTheInput) {
  ScratchFolder scratch;
  std::filesystem::create_directories(scratch.path("out/src"));
  scratch.write("out/src/model.onnx", "model");
  auto folder = OutputFolder::open(scratch.path("out"), inputAt(scratch.path("out/src/../src/model.onnx")));
  ASSERT_TRUE(bool(folder));
  ASSERT_EQ(codeOf(folder->write("src/model.onnx", "another")), hyc::ExitCode::Ok);
  EXPECT_EQ(codeOf(folder->commit()), hyc::ExitCode::Usage);
  EXPECT_EQ(scratch.read("out/src/model.onnx"), "model");
}

/// What the failure says, which is that another compilation is at work.
std::string refusalOf(llvm::Error error) {
  std::string said;
  llvm::handleAllErrors(std::move(error), [&](const hyc::DriverError &failure) {
    EXPECT_EQ(failure.getCode(), hyc::ExitCode::Unavailable);
    said = failure.getMessage();
  });
  return said;
}

TEST(OutputFolder, IsOneCompilationsAtATime) {
  ScratchFolder scratch;
  const std::vector<hyc::InputPath> input = inputAt(scratch.path("model.onnx"));
  {
    auto first = OutputFolder::open(scratch.path("out"), input);
    ASSERT_TRUE(bool(first));
    ASSERT_EQ(codeOf(first->write("manifest.json", "first")), hyc::ExitCode::Ok);
    const std::string refusal = "another hyc-compile is writing in '" + scratch.path("out") +
                                "'; try again when it has ended, or name another folder with -o";
    EXPECT_EQ(refusalOf(OutputFolder::open(scratch.path("out"), input).takeError()), refusal);
    ASSERT_EQ(codeOf(first->commit()), hyc::ExitCode::Ok);
    EXPECT_EQ(refusalOf(OutputFolder::open(scratch.path("other/../out"), input).takeError()), refusal);
  }
  EXPECT_EQ(scratch.read("out/manifest.json"), "first");
  auto second = OutputFolder::open(scratch.path("out"), input);
  ASSERT_TRUE(bool(second));
  ASSERT_EQ(codeOf(second->write("manifest.json", "second")), hyc::ExitCode::Ok);
  ASSERT_EQ(codeOf(second->commit()), hyc::ExitCode::Ok);
  EXPECT_EQ(scratch.read("out/manifest.json"), "second");
}

TEST(OutputFolder, ReportsADiskThatIsFull) {
  ScratchFolder scratch;
  auto folder = OutputFolder::open(scratch.path("out"), inputAt(scratch.path("model.onnx")));
  ASSERT_TRUE(bool(folder));
  std::filesystem::create_symlink("/dev/full", folder->staged("file"));
  llvm::handleAllErrors(folder->write("file", "text"), [](const hyc::DriverError &error) {
    EXPECT_EQ(error.getCode(), hyc::ExitCode::Io);
    EXPECT_NE(error.getMessage().find("No space left"), std::string::npos) << error.getMessage();
  });
  EXPECT_EQ(codeOf(folder->write("file", "text")), hyc::ExitCode::Io);
}

TEST(WriteFileWhole, ReplacesAFile) {
  ScratchFolder scratch;
  scratch.write("file", "old");
  ASSERT_EQ(codeOf(hyc::writeFileWhole(scratch.path("file"), "new")), hyc::ExitCode::Ok);
  EXPECT_EQ(scratch.read("file"), "new");
}

} // namespace
