// Checkpoints of the miniature model: runs that go on as if they had not ended, in any layout, and what becomes of
// damaged files, full disks, two jobs in one folder, and kills. HYC_KILLS_OF_CHECKPOINTS says how many kills,
// HYC_OPTIONS_OF_KILLED further options of the runs that are killed, with a space between them, HYC_FLIPPED_BYTES how
// many bits are flipped.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/state_names.h"
#include "checkpoint/state_reader.h"
#include "compiled_folder.h"
#include "hycrt/step_report.h"
#include "run_command.h"
#include "temporary_folder.h"

namespace {

const std::string kHycCheckpoint = hyc::places::program("hyc-checkpoint");
namespace fs = std::filesystem;
using hycrt::Checkpoint;
using hycrt::Result;

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Runs, and the folder that their checkpoints go to.
class Checkpoints : public testing::Test {
 protected:
  CommandResult run(const CompiledFolder& folder, std::vector<std::string> more, const Environment& environment = {}) {
    return runCommand(folder.command(std::move(more)), environment);
  }
  // Up to `steps`, with a checkpoint each.
  void write(const CompiledFolder& folder, const std::string& steps) {
    const CommandResult result = run(folder, {"--steps", steps, "--checkpoint", runs(), "--checkpoint-every", "1"});
    ASSERT_EQ(result.status, 0) << result.errors;
  }
  std::string runs() const { return files_ / "runs"; }
  std::string step(int number) const { return runs() + "/step-" + std::to_string(number); }
  std::string exported(const std::string& checkpoint) const {
    const std::string target = files_ / ("export-" + std::to_string(exports_++) + ".safetensors");
    const CommandResult result = runCommand({kHycCheckpoint, "export", checkpoint, target});
    EXPECT_EQ(result.status, 0) << result.errors;
    return files_.read(target.substr(files_.path().size() + 1));
  }
  static hycrt::Status verify(const std::string& folder) {
    Result<Checkpoint> checkpoint = hycrt::openCheckpoint(folder);
    return checkpoint.ok() ? hycrt::verifyCheckpoint(*checkpoint) : checkpoint.status();
  }

  TemporaryFolder files_;
  mutable int exports_ = 0;
  CompiledFolder one_{Layout{1, 1, 1}}, eight_{Layout{2, 2, 2}};
};

TEST_F(Checkpoints, GoOnAsIfTheRunHadNotEnded) {
  for (const CompiledFolder* folder : {&one_, &eight_}) {
    ASSERT_EQ(run(*folder, {"--steps", "7", "--save-weights", files_ / "whole.safetensors"}).status, 0);
    fs::remove_all(runs());
    CommandResult result = run(*folder, {"--steps", "7", "--checkpoint", runs(), "--checkpoint-every", "3"});
    ASSERT_EQ(result.status, 0) << result.errors;
    EXPECT_TRUE(says(result.output + result.errors, "step-6' written in")) << result.output;
    result = run(*folder, {"--steps", "7", "--resume", step(3), "--save-weights", files_ / "resumed.safetensors"});
    ASSERT_EQ(result.status, 0) << result.errors;
    EXPECT_FALSE(says(result.output, "step 3/7"));
    EXPECT_TRUE(says(result.output, "step 4/7"));
    EXPECT_EQ(files_.read("whole.safetensors"), files_.read("resumed.safetensors"));
    EXPECT_EQ(files_.read("whole.safetensors"), exported(step(7)));
  }
}

TEST_F(Checkpoints, AreResumedInAnyLayout) {
  CompiledFolder four{Layout{1, 2, 2}}, two{Layout{2, 1, 1}};
  for (const CompiledFolder* writer : {&one_, &two, &four, &eight_}) {
    fs::remove_all(runs());
    write(*writer, "2");
    const std::string before = exported(step(2));
    for (const CompiledFolder* reader : {&one_, &two, &four, &eight_}) {
      const CommandResult result =
          run(*reader, {"--steps", "2", "--resume", step(2), "--save-weights", files_ / "read.safetensors"});
      ASSERT_EQ(result.status, 0) << result.errors;
      EXPECT_EQ(files_.read("read.safetensors"), before);
    }
  }
}

// In the forms of others, which the same data and seed make the same training again.
TEST_F(Checkpoints, GoOnFromWhatWasExportedAndImported) {
  write(eight_, "2");
  const auto resumed = [&](const std::string& from) {
    const CommandResult result =
        run(one_, {"--steps", "4", "--resume", from, "--save-weights", files_ / "w.safetensors"});
    EXPECT_EQ(result.status, 0) << result.errors;
    return files_.read("w.safetensors");
  };
  const std::string expected = resumed(step(2));
  for (const std::string format : {"dcp", "deepspeed"}) {
    const std::string made = files_ / format, imported = files_ / (format + "-runs");
    CommandResult result = runCommand({kHycCheckpoint, "export", runs(), made, "--format", format});
    ASSERT_EQ(result.status, 0) << result.errors;
    result = runCommand({kHycCheckpoint, "import", made, imported});
    EXPECT_EQ(result.status, 65);
    EXPECT_TRUE(says(result.errors, "tells of no updates; say by --step")) << result.errors;
    EXPECT_FALSE(fs::exists(imported));
    result = runCommand({kHycCheckpoint, "import", made, imported, "--step", "2", "--samples", "16", "--seed", "3"});
    ASSERT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(resumed(imported), expected) << format;
    result = runCommand({kHycCheckpoint, "export", runs(), files_ / "other", "--format", format, "--config", made});
    EXPECT_EQ(result.status, 64);
    EXPECT_TRUE(says(result.errors, "--config is for --format huggingface")) << result.errors;
  }
}

// The tensors are the same: how they are scaled is what the checkpoint tells.
TEST_F(Checkpoints, OfAdaptersThatAreScaledOtherwiseAreRefused) {
  const std::string manifest = one_.files().read("manifest.json");
  const auto compiled = [&](const std::string& scale, const std::string& optimizer) {
    one_.files().write("manifest.json", manifest.substr(0, manifest.size() - 1) + ", \"optimizer\": \"" + optimizer +
                                            "\", \"adapter\": {\"scale\": " + scale +
                                            ", \"magnitudes\": false, \"layers\": [], \"whole\": [], \"tied\": []}}");
  };
  compiled("2", "sgd, momentum 0");
  write(one_, "1");
  const std::vector<std::string> goesOn{"--steps", "2", "--resume", runs()};
  EXPECT_FALSE(says(run(one_, goesOn).errors, "another optimizer"));
  compiled("2", "sgd, momentum 0.9");
  CommandResult result = run(one_, goesOn);
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_TRUE(says(result.errors, "it was sgd, momentum 0; it is sgd, momentum 0.9")) << result.errors;
  compiled("8", "sgd, momentum 0");
  result = run(one_, goesOn);
  EXPECT_EQ(result.status, 65) << result.errors;
  EXPECT_TRUE(says(result.errors, "adapters that are scaled by 2, but those in")) << result.errors;
  EXPECT_TRUE(says(result.errors, "are scaled by 8")) << result.errors;
  // One of a version that did not tell.
  Result<Checkpoint> checkpoint = hycrt::openCheckpoint(step(1));
  ASSERT_TRUE(checkpoint.ok());
  ASSERT_TRUE(checkpoint->manifest.training);
  checkpoint->manifest.training.reset();
  files_.write("runs/step-1/checkpoint.json", hycrt::encodeCheckpointManifest(checkpoint->manifest));
  EXPECT_EQ(run(one_, goesOn).status, 0);
}

TEST(CheckpointCommand, IsNamedWhereItIsNoneOrHasWrongOptions) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> rows = {
      {{}, "no command is given, expected list, verify, show, export or import"},
      {{"lst", "x"}, "unknown command 'lst', expected list, verify, show, export or import"},
      {{"export", "a", "b", "--formt", "dcp"},
       "unknown option '--formt'; the nearest is '--format' (--help lists all)"},
      {{"export", "a", "--states"}, "OUT is required"},
      {{"export", "a", "b", "--format", "megatron"},
       "--format: found 'megatron', expected huggingface, dcp or deepspeed"},
      {{"show", "a", "b"}, "unexpected argument 'b'; --help tells what is expected"},
      {{"import", "a", "b", "--seed"}, "--seed has no value, expected one behind it"},
      {{"import", "a", "b", "--seed", ""}, "--seed: found '', expected N"},
      {{"export", "a", "b", "--config", ""}, "--config: found '', expected a value"},
      {{"export", "a", ""}, "OUT: found '', expected a value"},
      {{"show", ""}, "DIR: found '', expected a value"}};
  for (const auto& [words, expected] : rows) {
    std::vector<std::string> command{kHycCheckpoint};
    command.insert(command.end(), words.begin(), words.end());
    const CommandResult result = runCommand(command);
    EXPECT_EQ(result.status, 64) << expected;
    EXPECT_EQ(result.errors, "hyc-checkpoint: error: " + expected + "\n");
  }
}

TEST(CheckpointCommand, TellsOfAFolderThatHoldsNone) {
  const TemporaryFolder folder;
  const std::string empty = folder.path(), one = folder / "step-3";
  fs::create_directory(one + "-saved");  // named as none is
  for (const std::string command : {"list", "verify", "show"}) {
    const CommandResult result = runCommand({kHycCheckpoint, command, empty});
    EXPECT_EQ(result.status, 69) << command;
    EXPECT_EQ(result.output, "");
    EXPECT_EQ(result.errors, "hyc-checkpoint: error: '" + empty + "' holds no checkpoint, expected folders step-N\n");
  }
  fs::create_directory(one);
  EXPECT_EQ(runCommand({kHycCheckpoint, "list", empty}).status, 65);  // it is there, and not whole
  const CommandResult result = runCommand({kHycCheckpoint, "list", one});
  EXPECT_EQ(result.status, 64);
  EXPECT_EQ(result.errors,
            "hyc-checkpoint: error: '" + one + "' is one checkpoint, expected the folder that it is in\n");
}

TEST_F(Checkpoints, KeepAsManyAsAreAskedFor) {
  ASSERT_EQ(run(one_, {"--steps", "5", "--checkpoint", runs(), "--checkpoint-every", "1", "--keep", "2"}).status, 0);
  EXPECT_TRUE(fs::exists(step(5)) && fs::exists(step(4)));
  EXPECT_FALSE(fs::exists(step(3)));
  EXPECT_EQ(std::distance(fs::directory_iterator(runs()), {}), 2);
}

// What has the name of a checkpoint and is none of hyc's was there before: it is not moved, replaced or removed.
TEST_F(Checkpoints, DoNotTakeThePlaceOfWhatIsNone) {
  const std::string mine = "runs/step-3/part-00000-0.safetensors";  // even where a file is named as hyc's are
  fs::create_directories(step(3));
  files_.write(mine, "mine");
  const std::vector<std::string> words{"--steps", "4", "--checkpoint", runs(), "--checkpoint-every", "1"};
  for (const std::string manifest : {"", "{\"step\": 3}"}) {
    if (!manifest.empty()) files_.write("runs/step-3/checkpoint.json", manifest);
    const CommandResult refused = run(eight_, words);
    EXPECT_EQ(refused.status, 65) << refused.errors;
    EXPECT_TRUE(says(refused.errors, "'" + step(3) + "' has the name of a checkpoint, and is none of hyc's"))
        << refused.errors;
    EXPECT_FALSE(says(refused.output, "step 1/4")) << "it is refused before anything is trained";
    EXPECT_EQ(files_.read(mine), "mine");
    EXPECT_FALSE(fs::exists(step(1)));
  }
  // Beyond what the run trains it is in nobody's way, and is none of those that --keep counts.
  std::vector<std::string> fewer = words;
  fewer[1] = "2";
  const CommandResult before = run(eight_, fewer);
  EXPECT_EQ(before.status, 0) << before.errors;
  const CommandResult after = run(eight_, {"--steps", "5", "--resume", step(2), "--checkpoint", files_ / "other"});
  EXPECT_EQ(after.status, 0) << after.errors;
  fs::rename(files_ / "other/step-5", step(5));
  const CommandResult beyond =
      run(eight_, {"--steps", "6", "--resume", step(5), "--checkpoint", runs(), "--keep", "3"});
  EXPECT_EQ(beyond.status, 0) << beyond.errors;
  EXPECT_FALSE(fs::exists(step(1)));
  EXPECT_TRUE(fs::exists(step(2)) && fs::exists(step(5)) && fs::exists(step(6)));
  EXPECT_EQ(files_.read(mine), "mine");
}

// Nor does one that came there while the run was on its way.
TEST_F(Checkpoints, AreNotPublishedOverWhatHasComeMeanwhile) {
  write(one_, "1");
  fs::create_directories(step(2));
  files_.write("runs/step-2/mine.txt", "mine");
  const hycrt::Status status = hycrt::publishCheckpoint(step(1), step(2), nullptr, [](const std::string&) {});
  EXPECT_EQ(status.code(), hycrt::StatusCode::kIo);
  EXPECT_TRUE(says(status.message(), "none of hyc's")) << status.message();
  EXPECT_EQ(files_.read("runs/step-2/mine.txt"), "mine");
  EXPECT_TRUE(verify(step(1)).ok());
}

// Users put files of their own beside hyc's: such as what an evaluation of the checkpoint has found.
TEST_F(Checkpoints, LeaveWhereItIsWhatOthersHavePutIntoThem) {
  write(eight_, "4");
  for (int number : {1, 4}) {
    const std::string folder = "runs/step-" + std::to_string(number);
    files_.write(folder + "/eval.json", "{}");
    fs::create_directory(files_ / (folder + "/plots"));
    files_.write(folder + "/plots/loss", "of " + std::to_string(number));
  }
  const CommandResult result = run(
      eight_, {"--steps", "6", "--resume", step(3), "--checkpoint", runs(), "--checkpoint-every", "1", "--keep", "2"});
  EXPECT_EQ(result.status, 0) << result.errors;
  // Step 4 was replaced, and then removed; of both, and of step 1, what is not hyc's is where it was, and nothing else.
  EXPECT_TRUE(says(result.errors + result.output, "'" + step(4) + "' is replaced")) << result.errors;
  EXPECT_TRUE(says(
      result.errors + result.output,
      "'" + step(1) + "' is removed; what others have put into it stays in '" + step(1) + "': 'eval.json', 'plots'"))
      << result.errors;
  std::set<std::string> left;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(runs())) {
    const std::string name = entry.path().string().substr(runs().size() + 1);
    if (name.rfind("step-5", 0) != 0 && name.rfind("step-6", 0) != 0) left.insert(name);
  }
  EXPECT_EQ(left, (std::set<std::string>{"step-1", "step-1/eval.json", "step-1/plots", "step-1/plots/loss", "step-4",
                                         "step-4/eval.json", "step-4/plots", "step-4/plots/loss"}));
  EXPECT_EQ(files_.read("runs/step-4/plots/loss"), "of 4");
  const CommandResult listed = runCommand({kHycCheckpoint, "list", runs()});
  EXPECT_TRUE(listed.status == 0 && !says(listed.output, step(4))) << listed.output << listed.errors;
  EXPECT_TRUE(verify(step(5)).ok() && verify(step(6)).ok());
}

// A manifest of which bytes have changed is still one of hyc's, which the next run may replace.
TEST_F(Checkpoints, ThatAreDamagedAreReplaced) {
  write(one_, "2");
  const std::string whole = files_.read("runs/step-2/checkpoint.json");
  for (const std::string& damaged : {whole.substr(0, whole.size() / 2), "x" + whole.substr(1)}) {
    files_.write("runs/step-2/checkpoint.json", damaged);
    const CommandResult result = run(one_, {"--steps", "2", "--checkpoint", runs(), "--resume", "auto"});
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(files_.read("runs/step-2/checkpoint.json"), whole);
  }
}

// A folder that cannot be removed is no reason to end a training that has its checkpoint.
TEST_F(Checkpoints, ThatCannotBeRemovedAreTold) {
  write(one_, "2");
  std::vector<std::string> told;
  hycrt::removeOldCheckpoints(files_ / "missing", 2, 1, [&](const std::string& line) { told.push_back(line); });
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(says(told[0], "old checkpoints are not removed")) << told[0];
  // A name that is hyc's, of what hyc cannot have made.
  fs::create_directories(step(1) + "/part-x/y");
  hycrt::removeOldCheckpoints(runs(), 2, 1, [&](const std::string& line) { told.push_back(line); });
  ASSERT_EQ(told.size(), 2u);
  EXPECT_TRUE(says(told[1], "cannot remove all of the old checkpoint '" + step(1) + "'")) << told[1];
  EXPECT_TRUE(fs::exists(step(1) + "/part-x/y") && verify(step(2)).ok());
}

TEST_F(Checkpoints, WithNothingLeftToTrainTellWhatIsNotWritten) {
  write(one_, "1");
  const CommandResult result = run(one_, {"--steps", "1", "--resume", runs(), "--dump-gradients", files_ / "g"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_TRUE(says(result.errors, "'" + (files_ / "g") + "' (--dump-gradients) is not written")) << result.errors;
  EXPECT_FALSE(fs::exists(files_ / "g"));
  const CommandResult profiled = run(one_, {"--steps", "0", "--profile", files_ / "p"});
  EXPECT_EQ(profiled.status, 64);
  EXPECT_TRUE(says(profiled.errors, "--steps is 0, give 2 or more")) << profiled.errors;
}

TEST_F(Checkpoints, AreExportedWithAConfigurationThatIsOne) {
  write(one_, "1");
  const std::string config = files_ / "config.json", target = files_ / "exported";
  const auto exportWith = [&](const std::string& text) {
    files_.write("config.json", text);
    return runCommand({kHycCheckpoint, "export", runs(), target, "--config", config});
  };
  const std::vector<std::pair<std::string, std::string>> rows = {{"some text", "'" + config + "' (--config)"},
                                                                 {"[1]", "holds array, expected an object"}};
  for (const auto& [text, words] : rows) {
    const CommandResult result = exportWith(text);
    EXPECT_EQ(result.status, 65) << result.errors;
    EXPECT_TRUE(says(result.errors, words)) << result.errors;
    EXPECT_FALSE(fs::exists(target));
  }
  EXPECT_EQ(exportWith("{\"model_type\": \"gpt2\"}").status, 0);
  EXPECT_EQ(files_.read("exported/config.json"), "{\"model_type\": \"gpt2\"}");
}

TEST_F(Checkpoints, AreTakenByAutoWhereThereAreAny) {
  const std::vector<std::string> words{"--checkpoint", runs(), "--resume", "auto", "--steps"};
  auto with = [&](const std::string& steps) {
    std::vector<std::string> all = words;
    all.push_back(steps);
    return all;
  };
  EXPECT_TRUE(says(run(one_, with("2")).output, "step 1/2"));
  const CommandResult again = run(one_, with("3"));
  EXPECT_TRUE(says(again.output, "step 3/3") && !says(again.output, "step 2/3")) << again.output;
}

TEST_F(Checkpoints, AreRefusedWhereTheCommandLineContradictsThem) {
  write(one_, "1");
  std::vector<std::string> command{kHycRun, one_.path(), "--data", one_ / "text", "--threads", "1", "--resume", runs()};
  command.push_back("--seed=4");
  CommandResult result = runCommand(command);
  EXPECT_EQ(result.status, 64);
  EXPECT_TRUE(says(result.errors, "written with --seed 3, but --seed is 4")) << result.errors;
  command.back() = "--no-shuffle";
  result = runCommand(command);
  EXPECT_EQ(result.status, 64);
  EXPECT_TRUE(says(result.errors, "--no-shuffle")) << result.errors;
  result = run(one_, {"--checkpoint-every", "3"});
  EXPECT_EQ(result.status, 64);
  EXPECT_TRUE(says(result.errors, "--checkpoint DIR")) << result.errors;
  result = run(one_, {"--resume", files_.path()});
  EXPECT_EQ(result.status, 69);
  EXPECT_TRUE(says(result.errors, "holds no checkpoint")) << result.errors;
  one_.files().write("text", std::string(500, 'x'));
  result = run(one_, {"--resume", runs()});
  EXPECT_EQ(result.status, 65);
  EXPECT_TRUE(says(result.errors, "samples, but")) << result.errors;
}

TEST_F(Checkpoints, BelongToOneRunAtATime) {
  fs::create_directory(runs());
  const Result<hycrt::FileLock> held = hycrt::lockDirectory(runs());
  ASSERT_TRUE(held.ok());
  const CommandResult result = run(one_, {"--steps", "1", "--checkpoint", runs()});
  EXPECT_EQ(result.status, 69);
  EXPECT_TRUE(says(result.errors, "process " + std::to_string(getpid()))) << result.errors;
}

// ------------------------------------------------------------------------------------------------- damaged and foreign

// Each file's first and last bytes, and as many at random.
TEST_F(Checkpoints, OfWhichAnyByteIsFlippedAreFoundOut) {
  write(eight_, "1");
  const char* many = std::getenv("HYC_FLIPPED_BYTES");
  const size_t wanted = many ? static_cast<size_t>(std::atoi(many)) : 600;
  std::vector<std::pair<std::string, std::string>> files;  // name, bytes
  for (const fs::directory_entry& entry : fs::directory_iterator(step(1))) {
    const std::string name = entry.path().filename();
    files.emplace_back(name, files_.read("runs/step-1/" + name));
  }
  std::vector<std::pair<size_t, size_t>> places;  // file, bit
  for (size_t file = 0; file < files.size(); ++file) {
    for (size_t bit : {size_t{0}, 8 * files[file].second.size() - 1}) places.emplace_back(file, bit);
  }
  std::mt19937_64 random(5);
  while (places.size() < wanted) {
    const size_t file = random() % files.size();
    places.emplace_back(file, random() % (8 * files[file].second.size()));
  }
  size_t named = 0;  // with the tensor, too
  for (const auto& [file, bit] : places) {
    const auto& [name, whole] = files[file];
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    files_.write("runs/step-1/" + name, damaged);
    const hycrt::Status status = verify(step(1));
    ASSERT_EQ(status.code(), hycrt::StatusCode::kData) << name << ", bit " << bit;
    EXPECT_TRUE(says(status.message(), name)) << status.message();
    named += says(status.message(), "weight'");
    files_.write("runs/step-1/" + name, whole);
  }
  EXPECT_GT(named, wanted / 4);
  EXPECT_TRUE(verify(step(1)).ok());
  std::printf("%zu flipped bits, of %zu the tensor is named, too\n", places.size(), named);
}

TEST_F(Checkpoints, ThatAreDamagedGiveWayToTheOneBefore) {
  write(eight_, "2");
  const std::string name = "runs/step-2/part-00000-0.safetensors";
  std::string bytes = files_.read(name);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  files_.write(name, bytes);
  CommandResult result = run(eight_, {"--steps", "2", "--resume", runs()});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_TRUE(says(result.errors, "first.weight") && says(result.errors, "an earlier one is looked for"))
      << result.errors;
  EXPECT_TRUE(says(result.output, "step 2/2")) << result.output;
  // Asked for by its name there is no other.
  result = run(eight_, {"--steps", "2", "--resume", step(2)});
  EXPECT_EQ(result.status, 65);
  EXPECT_TRUE(says(result.errors, "part-00000-0.safetensors") && says(result.errors, "first.weight")) << result.errors;
}

// Reading all of a large one takes minutes, in which whoever waits for it may be asked to end.
TEST_F(Checkpoints, AreReadToTheirEndOnlyWhereNobodyGivesUp) {
  write(eight_, "2");
  const Result<Checkpoint> checkpoint = hycrt::openCheckpoint(step(2));
  ASSERT_TRUE(checkpoint.ok());
  std::atomic<int> asked{0};
  EXPECT_TRUE(hycrt::verifyCheckpoint(*checkpoint, [&] { return ++asked < 0; }).ok());
  EXPECT_EQ(asked, static_cast<int>(checkpoint->manifest.parts.files.size())) << "none is longer than a chunk";
  const auto passedOver = [](const std::string& why) { ADD_FAILURE() << why; };
  const Result<Checkpoint> newest =
      hycrt::newestCheckpoint(runs(), /*verifies=*/true, passedOver, {}, [] { return true; });
  ASSERT_FALSE(newest.ok());
  EXPECT_EQ(newest.status().code(), hycrt::StatusCode::kIo);
  EXPECT_TRUE(says(newest.status().message(), "step-2' was not read to its end")) << newest.status().message();
}

TEST_F(Checkpoints, OfWhichFilesAreNotTheirOwnAreRefused) {
  write(eight_, "1");
  const std::string part = "part-00000-0.safetensors", other = "part-00004-0.safetensors";
  const std::string whole = files_.read("runs/step-1/" + part), manifest = files_.read("runs/step-1/checkpoint.json");
  const auto expect = [&](const std::string& words) {
    const CommandResult result = runCommand({kHycCheckpoint, "verify", step(1)});
    EXPECT_EQ(result.status, 65) << result.errors;
    EXPECT_TRUE(says(result.errors, words)) << result.errors;
    EXPECT_EQ(run(eight_, {"--steps", "1", "--resume", step(1)}).status, 65);
    files_.write("runs/step-1/" + part, whole);
    files_.write("runs/step-1/checkpoint.json", manifest);
  };
  files_.write("runs/step-1/" + part, whole.substr(0, whole.size() - 1));
  expect("expected " + std::to_string(whole.size()) + " by checkpoint.json");
  fs::remove(step(1) + "/" + part);
  expect("is missing");
  files_.write("runs/step-1/" + part, files_.read("runs/step-1/" + other));
  expect(part);
  fs::remove(step(1) + "/" + part);
  fs::create_symlink(step(1) + "/" + other, step(1) + "/" + part);
  const CommandResult linked = runCommand({kHycCheckpoint, "verify", step(1)});
  EXPECT_TRUE(linked.status == 65 && says(linked.errors, "is a link")) << linked.errors;
  fs::remove(step(1) + "/" + part);
  // The same bytes outside are no better, nor a folder above that is a link.
  files_.write("outside", whole);
  fs::create_symlink(files_ / "outside", step(1) + "/" + part);
  const CommandResult outside = runCommand({kHycCheckpoint, "verify", step(1)});
  EXPECT_TRUE(outside.status == 65 && says(outside.errors, "is a link")) << outside.errors;
  EXPECT_EQ(run(eight_, {"--steps", "1", "--resume", step(1)}).status, 65);
  fs::remove(step(1) + "/" + part);
  files_.write("runs/step-1/" + part, whole);
  std::string outwards = manifest;
  for (size_t at; (at = outwards.find("\"" + part)) != std::string::npos;) outwards.insert(at + 1, "../../");
  files_.write("runs/step-1/checkpoint.json", outwards);
  expect("checkpoint.json");
  files_.write("runs/step-1/checkpoint.json", "{\"weights\": 1}");
  expect("no format_version");
  std::string newer = manifest;
  newer.replace(newer.find("\"format_version\": 1"), 19, "\"format_version\": 2");
  files_.write("runs/step-1/checkpoint.json", newer);
  expect("format_version is 2, expected 1");
  files_.write("runs/step-1/checkpoint.json", manifest.substr(0, manifest.size() / 2));
  expect("checkpoint.json");
  fs::create_symlink(step(1), runs() + "/step-2");
  EXPECT_EQ(run(eight_, {"--steps", "1", "--resume", runs() + "/step-2"}).status, 65);
}

// What a program wants is told against what is there, all at once.
TEST_F(Checkpoints, OfAnotherModelAreToldFromItsOwn) {
  write(one_, "1");
  Result<Checkpoint> checkpoint = hycrt::openCheckpoint(step(1));
  ASSERT_TRUE(checkpoint.ok());
  hycrt::CheckpointTensors wanted;
  wanted.rows["first.weight"] = {hycrt::DType::kF32, {4}, 0, false};
  wanted.rows["second.weights"] = {hycrt::DType::kF32, {3}, 0, false};
  wanted.rows["fp8.state.x"] = {hycrt::DType::kF32, {}, 0, true};
  const hycrt::Status status = hycrt::checkTensors(wanted, *checkpoint);
  EXPECT_EQ(status.code(), hycrt::StatusCode::kData);
  EXPECT_TRUE(says(status.message(), "'first.weight' is [3], expected [4]")) << status.message();
  EXPECT_TRUE(says(status.message(), "'second.weights' is missing (the nearest is 'second.weight')"));
  EXPECT_TRUE(says(status.message(), "'second.weight' is nothing that the programs keep"));
  EXPECT_FALSE(says(status.message(), "fp8"));
}

// A schedule that decays over another number of steps, and another one; the same says nothing.
TEST_F(Checkpoints, TellOfAnotherScheduleThatGoesOn) {
  write(one_, "2");
  const std::vector<std::string> goesOn{"--steps", "4", "--resume", step(2)};
  EXPECT_TRUE(says(run(one_, goesOn).errors, "the learning rate decays over 4 steps (--steps); in the run that '"));
  EXPECT_FALSE(says(run(one_, {"--steps", "2", "--resume", step(2)}).errors, "learning rate"));
  const std::string manifest = one_.files().read("manifest.json");
  std::string other = manifest;
  other.replace(other.find("\"base\": 0.5"), 11, "\"base\": 0.25");
  one_.files().write("manifest.json", other);
  const std::string said = run(one_, goesOn).errors;
  one_.files().write("manifest.json", manifest);
  EXPECT_TRUE(says(said, "another learning rate goes on from '")) << said;
  EXPECT_TRUE(says(said, "\"base\":0.5") && says(said, "\"base\":0.25")) << said;
}

// A training that begins in a folder with later steps of another, which --resume auto would take up.
TEST_F(Checkpoints, ThatAnotherTrainingHasLeftAreWarnedOf) {
  write(one_, "3");
  const std::string words = "holds step-3 of another training, and this one begins at step ";
  const CommandResult anew = run(one_, {"--steps", "2", "--checkpoint", runs()});
  EXPECT_EQ(anew.status, 0) << anew.errors;
  EXPECT_TRUE(says(anew.errors, (words + "0").c_str())) << anew.errors;
  const CommandResult goesOn = run(one_, {"--steps", "4", "--checkpoint", runs(), "--resume", "auto"});
  EXPECT_EQ(goesOn.status, 0) << goesOn.errors;
  EXPECT_FALSE(says(goesOn.errors, words.c_str())) << goesOn.errors;
}

// Nor does anything go into one afterwards, or over what is no output of such a kind.
TEST_F(Checkpoints, AreNoPlaceForOtherFiles) {
  write(one_, "1");
  const std::string part = step(1) + "/part-00000-0.safetensors",
                    before = files_.read("runs/step-1/part-00000-0.safetensors");
  for (const char* flag : {"--trace", "--profile", "--measure-memory", "--save-weights", "--dump-gradients"}) {
    const CommandResult result = run(one_, {"--steps", "2", "--resume", step(1), flag, part});
    EXPECT_EQ(result.status, 64) << flag << result.errors;
    EXPECT_TRUE(says(result.errors, "lies in the checkpoint '")) << result.errors;
  }
  EXPECT_EQ(files_.read("runs/step-1/part-00000-0.safetensors"), before);
  const std::string script = files_.write("script.py", "print(1)\n");
  for (const char* flag : {"--trace", "--profile", "--measure-memory"}) {
    const CommandResult result = run(one_, {"--steps", "2", flag, script});
    EXPECT_EQ(result.status, 65) << flag << result.errors;
    EXPECT_TRUE(says(result.errors, "is there and is no JSON")) << result.errors;
  }
  EXPECT_EQ(files_.read("script.py"), "print(1)\n");
}

TEST_F(Checkpoints, OfAnotherOptimizerAreToldByWhatItKeeps) {
  write(one_, "1");
  Result<Checkpoint> checkpoint = hycrt::openCheckpoint(step(1));
  ASSERT_TRUE(checkpoint.ok());
  hycrt::CheckpointTensors wanted;
  auto& held = checkpoint->manifest.parts.tensors;
  for (const auto& [name, tensor] : std::map(held.begin(), held.end())) {
    if (!hycrt::isParameterName(name)) continue;
    wanted.rows[name] = {tensor.dtype, {tensor.shape.begin(), tensor.shape.end()}, 0, false};
    wanted.rows["optimizer.state." + name + ".momentum_buffer"] = wanted.rows[name];
    for (const char* moment : {".exp_avg", ".exp_avg_sq"}) held["optimizer.state." + name + moment] = tensor;
  }
  const hycrt::Status status = hycrt::checkTensors(wanted, *checkpoint);
  EXPECT_EQ(status.code(), hycrt::StatusCode::kData);
  EXPECT_TRUE(says(status.message(),
                   "of parameters it has kept exp_avg, exp_avg_sq that this program does not, and "
                   "this one wants momentum_buffer; to start from its weights alone"))
      << status.message();
}

// ----------------------------------------------------------------------------------------------------- disks and kills

TEST_F(Checkpoints, ThatCannotBeWrittenLeaveTheOneBefore) {
  write(eight_, "1");
  const std::string before = files_.read("runs/step-1/checkpoint.json");
  for (const char* fault :
       {"1:write:0:ENOSPC", "3:sync:0:EIO", "0:write:0:EACCES", "0:rename:0:ENOSPC", "0:write:2:EIO",
        "5:write:1:ENOSPC", "0:sync:2:EIO", "0:sync:3:ENOSPC", "0:rename:0:EACCES"}) {
    const CommandResult result =
        run(eight_, {"--steps", "3", "--resume", runs(), "--checkpoint", runs()}, {{"HYC_IO_FAULT", fault}});
    EXPECT_EQ(result.status, 74) << fault << ": " << result.errors;
    EXPECT_TRUE(says(result.errors, "cannot ")) << fault << ": " << result.errors;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(runs())) {
      EXPECT_EQ(entry.path().string().rfind(runs() + "/step-1", 0), 0) << fault << " leaves " << entry.path();
    }
    EXPECT_EQ(files_.read("runs/step-1/checkpoint.json"), before);
  }
}

// Every write, fsync and rename of every rank, until there is none left; HYC_EVERY_FAULT asks for it.
TEST_F(Checkpoints, SurviveAFaultOfEveryOperation) {
  if (!std::getenv("HYC_EVERY_FAULT")) GTEST_SKIP() << "takes long: HYC_EVERY_FAULT asks for it";
  write(eight_, "1");
  const std::string before = files_.read("runs/step-1/checkpoint.json");
  int faults = 0;
  for (const char* error : {"ENOSPC", "EIO", "EACCES"}) {
    for (int rank = 0; rank < 8; ++rank) {
      for (const char* operation : {"write", "sync", "rename"}) {
        for (int which = 0;; ++which, ++faults) {
          const std::string fault = std::to_string(rank) + ":" + operation + ":" + std::to_string(which) + ":" + error;
          fs::remove_all(step(2));
          const CommandResult result =
              run(eight_, {"--steps", "2", "--resume", step(1), "--checkpoint", runs()}, {{"HYC_IO_FAULT", fault}});
          if (result.status == 0) break;
          ASSERT_EQ(result.status, 74) << fault << ": " << result.errors;
          EXPECT_TRUE(says(result.errors, "cannot ")) << fault << ": " << result.errors;
          // What is there is whole: the one before, and where only the folder above could not be synced the new one.
          EXPECT_EQ(files_.read("runs/step-1/checkpoint.json"), before);
          const CommandResult verified = runCommand({kHycCheckpoint, "verify", runs()});
          EXPECT_EQ(verified.status, 0) << fault << ": " << verified.errors;
          EXPECT_LE(std::distance(fs::directory_iterator(runs()), {}), 2 + fs::exists(step(2))) << fault;
        }
      }
    }
  }
  EXPECT_GE(faults, 3 * 8 * 3);
  std::printf("%d faults, each at another operation\n", faults);
}

TEST_F(Checkpoints, ThatCannotBeWrittenNeedNotEndTheRun) {
  // Rank 3 writes no tensors: what fails is the last of its table, which lies there whole.
  for (const char* fault : {"1:write:0:ENOSPC", "0:rename:0:EIO", "3:sync:0:EIO"}) {
    fs::remove_all(runs());
    const CommandResult result =
        run(eight_, {"--steps", "3", "--checkpoint", runs(), "--checkpoint-every", "1", "--checkpoint-failure", "warn"},
            {{"HYC_IO_FAULT", fault}});
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_TRUE(says(result.output + result.errors, "step-1' was not written")) << result.errors;
    EXPECT_FALSE(fs::exists(step(1)));
    EXPECT_TRUE(verify(step(2)).ok() && verify(step(3)).ok());
  }
}

// Rank 0 makes it for all: whoever finds nothing there has no words about hosts that share no disk.
TEST_F(Checkpoints, WhoseFolderCannotBeMadeAreToldOfByRank0Alone) {
  constexpr size_t kRoom = 15;  // of a path, for "/step-N" and not for the name that it has before
  std::string deep = runs();
  while (PATH_MAX - kRoom - deep.size() > NAME_MAX) deep += "/" + std::string(NAME_MAX / 2, 'd');
  deep += "/" + std::string(PATH_MAX - kRoom - deep.size() - 1, 'd');
  for (const bool goesOn : {false, true}) {
    std::vector<std::string> words{"--steps", "2", "--checkpoint", deep};
    if (goesOn) words.insert(words.end(), {"--checkpoint-failure", "warn"});
    const CommandResult result = run(eight_, words);
    EXPECT_EQ(result.status, goesOn ? 0 : 74) << result.errors;
    EXPECT_TRUE(says(result.errors, "File name too long")) << result.errors;
    EXPECT_FALSE(says(result.errors, "does not see")) << result.errors;
    const std::string warning = "was not written: ";
    const size_t first = (result.output + result.errors).find(warning);
    EXPECT_EQ(first != std::string::npos, goesOn) << result.errors;
    if (goesOn) {
      EXPECT_FALSE(says((result.output + result.errors).substr(first + 1), warning)) << result.errors;
    }
  }
}

// Of the steps in a log, in its order; a line that a kill has cut off is none.
std::vector<std::pair<int64_t, double>> lossesIn(const std::string& log) {
  std::vector<std::pair<int64_t, double>> losses;
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);) {
    if (const Result<hycrt::StepRecord> record = hycrt::parseStepRecord(line); record.ok()) {
      losses.emplace_back(record->step, record->loss);
    }
  }
  return losses;
}

// A run that writes a checkpoint after every step, ended by SIGKILL: all of it, its ranks, or one of them.
class KilledCheckpoints : public Checkpoints {
 protected:
  enum class Victim { kAll, kRanks, kOneRank };

  void SetUp() override {
    const std::string log = files_ / "whole.jsonl";
    ASSERT_EQ(run(eight_, {"--steps", "60", "--log-file", log, "--save-weights", files_ / "whole.safetensors"}).status,
              0);
    for (const auto& [step, loss] : lossesIn(log)) expected_[step] = loss;
    ASSERT_EQ(expected_.size(), 60u);
  }
  std::vector<std::string> words(const std::vector<std::string>& more) const {
    std::vector<std::string> all{"--steps", "60", "--checkpoint", runs(), "--log-file", log(), "--keep", "2"};
    std::istringstream options(std::getenv("HYC_OPTIONS_OF_KILLED") ? std::getenv("HYC_OPTIONS_OF_KILLED") : "");
    for (std::string word; options >> word;) all.push_back(word);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string log() const { return files_ / "log.jsonl"; }
  // Whether it was still running.
  bool killOnce(Victim victim) {
    RunningCommand job(eight_.command(words({"--checkpoint-every", "1"})));
    while (!hasEnded(job.pid()) && !fs::exists(step(2))) usleep(1000);
    usleep(random_() % 60000);
    std::vector<pid_t> ranks = job.children();
    if (victim == Victim::kOneRank && !ranks.empty()) ranks = {ranks[random_() % ranks.size()]};
    if (victim == Victim::kAll) kill(job.pid(), SIGKILL);
    for (pid_t rank : ranks) kill(rank, SIGKILL);
    return job.finish().status != 0;
  }
  // What is there under the name of a checkpoint is one, and the newest is of about the last step that was told.
  void expectWholeCheckpoints() {
    const CommandResult verified = runCommand({kHycCheckpoint, "verify", runs()});
    EXPECT_EQ(verified.status, 0) << verified.errors;
    int64_t newest = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(runs())) {
      const std::string name = entry.path().filename();
      if (name.rfind("step-", 0) == 0 && name.find('.') == std::string::npos) {
        newest = std::max<int64_t>(newest, std::stoll(name.substr(5)));
      }
    }
    const auto told = lossesIn(log());
    ASSERT_FALSE(told.empty());
    // Of a step that is told the checkpoint may not have begun, and that of the step before be under way.
    EXPECT_GE(newest, told.back().first - 2);
    EXPECT_LE(newest, told.back().first + 1) << "a line of the log may be lost, but not two";
  }

  std::map<int64_t, double> expected_;
  std::mt19937 random_{3};
};

TEST_F(KilledCheckpoints, AreThePreviousOrTheNewOneAndGoOnAsIfNothingHadHappened) {
  const char* many = std::getenv("HYC_KILLS_OF_CHECKPOINTS");
  const int kills = many ? std::atoi(many) : 9;
  int hits = 0, partial = 0;
  for (int i = 0; i < kills; ++i) {
    fs::remove_all(runs());
    fs::remove(log());
    const bool hit = killOnce(static_cast<Victim>(i % 3));
    hits += hit;
    partial += std::any_of(fs::directory_iterator(runs()), {}, [](const fs::directory_entry& entry) {
      return entry.path().filename().string().find(".partial") != std::string::npos;
    });
    expectWholeCheckpoints();
    const CommandResult result =
        run(eight_, words({"--resume", "auto", "--save-weights", files_ / "resumed.safetensors"}));
    ASSERT_EQ(result.status, 0) << result.errors;
    EXPECT_FALSE(says(result.errors, "warning")) << result.errors;
    EXPECT_EQ(files_.read("whole.safetensors"), files_.read("resumed.safetensors"));
    std::set<int64_t> steps;
    for (const auto& [step, loss] : lossesIn(log())) {
      EXPECT_EQ(loss, expected_.at(step)) << "step " << step << " after kill " << i;
      steps.insert(step);
    }
    EXPECT_GE(steps.size(), 59u);
    EXPECT_LE(std::distance(fs::directory_iterator(runs()), {}), 3);
  }
  EXPECT_GT(hits, kills / 2);
  std::printf("%d kills, %d of them before the end; %d left a checkpoint that was being written\n", kills, hits,
              partial);
}

}  // namespace
