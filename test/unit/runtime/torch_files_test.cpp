// Checkpoints of others: what is written is read again, and of files that are damaged or made to harm nothing comes but
// an error. That PyTorch reads and writes the same is tested end to end (test/e2e/InterchangeTest.cpp).
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "checkpoint/export.h"
#include "checkpoint/part_writer.h"
#include "checkpoint/torch/export_torch.h"
#include "checkpoint/torch/import_torch.h"
#include "temporary_folder.h"

namespace {

namespace fs = std::filesystem;
using hycrt::DType;
using hycrt::Pickle;
using hycrt::PickleWriter;
using hycrt::Result;
using hycrt::Shape;
using hycrt::Status;

constexpr const char* kModule = "torch.distributed.checkpoint.metadata";

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string errorOf(const std::string& bytes) {
  const Result<Pickle> pickle = Pickle::parse(bytes, "file");
  if (pickle.ok()) return "";
  EXPECT_EQ(pickle.status().exitCode(), 65);
  return pickle.status().message();
}

std::string pickled(const std::string& operations) { return std::string("\x80\x04", 2) + operations; }

// ------------------------------------------------------------------------------------------------------------- pickles

TEST(Pickles, SayWhatWasWritten) {
  PickleWriter writer;
  writer.openDict();
  writer.text("numbers");
  writer.openTuple();
  const std::vector<int64_t> numbers{0, 255, 256, -1, INT32_MAX, INT32_MIN, int64_t{1} << 40, INT64_MIN};
  for (int64_t number : numbers) writer.integer(number);
  writer.closeTuple();
  writer.text("shape");
  hycrt::writeShape({3, 70000}, &writer);
  writer.closeDict();
  const Result<Pickle> pickle = Pickle::parse(writer.finish(), "file");
  ASSERT_TRUE(pickle.ok()) << pickle.status().message();
  const auto tuple = pickle->find(pickle->root(), "numbers"), shape = pickle->find(pickle->root(), "shape");
  ASSERT_TRUE(tuple && shape);
  ASSERT_EQ(pickle->itemsOf(*tuple).size(), numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(pickle->integerOf(pickle->itemsOf(*tuple)[i]), numbers[i]);
  const auto read = hycrt::shapeOf(*pickle, *shape);
  ASSERT_TRUE(read && read->size == 2);
  EXPECT_EQ((*read)[1], 70000);
  EXPECT_FALSE(pickle->find(pickle->root(), "others"));
}

TEST(Pickles, ThatMentionWhatIsNoTensorAreRefusedByName) {
  EXPECT_TRUE(says(errorOf(pickled("cposix\nsystem\nX\4\0\0\0true\x85R.")), "byte 2: mentions 'posix.system'"));
  EXPECT_TRUE(says(errorOf(pickled(std::string("\x8c\x08"
                                               "builtins\x8c\x04"
                                               "eval\x93.",
                                               18))),
                   "'builtins.eval'"));
  EXPECT_TRUE(says(errorOf(pickled("ctorch\nload\n.")), "nothing of it was run"));
  // By an instance, an extension code, a reduction of what is no name, a class with keywords, protocol 0's persistent
  // id.
  for (const char* operations :
       {"(cos\nsystem\no.", "\x82\x01.", "K\1)R.", "]]R.", ")}\x92.", "P1\n.", "(ios\nsystem\n."}) {
    EXPECT_NE(errorOf(pickled(operations)), "") << operations;
  }
}

TEST(Pickles, ThatAreMalformedAreRefusedWithTheirPlace) {
  const auto expect = [](const std::string& operations, const std::string& message) {
    const std::string error = errorOf(pickled(operations));
    EXPECT_TRUE(says(error, message)) << message << " is not in: " << error;
  };
  expect("", "byte 2: it ends there");
  expect(".", "takes more from the stack");
  expect("K\1K\2.", "values that nothing has");
  expect("K\1.K", "1 bytes follow");
  expect("(K\1.", "values that nothing has");
  expect("t.", "a mark that is not there");
  expect("K\1a.", "appends to what is no list");
  expect("]K\1K\1s.", "sets items of what is no dict");
  expect("}(K\1u.", "a key without a value");
  expect(std::string("X\xff\xff\xff\x7f", 5), "bytes of text");
  expect(std::string("\x8d\0\0\0\0\0\0\0\x80", 9), "bytes of text");
  expect("\x8a\x09", "a number of 9 bytes");
  expect("h\5.", "is not there");
  expect(std::string("K\1r\xff\xff\xff\x7f.", 8), "out of turn");
  expect("q\1.", "remembers what is not there");
  expect("K\1K\2b.", "a state of what is no record");
  expect("ctorch\nSize\nK\1R.", "no tuple");
  EXPECT_TRUE(says(errorOf(std::string("\x80\x06N.", 4)), "protocol 6"));
  EXPECT_TRUE(says(errorOf(std::string("\x80\x02]]", 4) + std::string(1000, ']')), "more values than"));
}

TEST(Pickles, ThatAreNestedByTheThousandsOrHoldThemselvesAreRead) {
  std::string nested = pickled("]q") + std::string(1, '\0');
  for (int i = 0; i < 200000; ++i) nested += std::string("\x85q\1", 3);
  EXPECT_EQ(errorOf(nested + "."), "");
  EXPECT_EQ(errorOf(pickled(std::string("]q\0h\0a.", 7))), "");
}

// --------------------------------------------------------------------------------------------------------------- zips

std::string zipOf(const TemporaryFolder& folder, uint64_t wideFrom) {
  const std::string path = folder / ("archive-" + std::to_string(wideFrom));
  Result<hycrt::StreamFile> file = hycrt::StreamFile::create(path, nullptr);
  EXPECT_TRUE(file.ok());
  EXPECT_TRUE(file->write("before", 6).ok());
  hycrt::ZipWriter zip(&*file, wideFrom);
  EXPECT_TRUE(zip.add("root/a", "first").ok() && zip.add("root/data/0", std::string(1000, 'x')).ok());
  EXPECT_TRUE(zip.finish().ok() && file->finish("").ok());
  return folder.read("archive-" + std::to_string(wideFrom));
}

TEST(ZipFiles, AreReadWhereverTheyBeginAndHoweverWideTheirNumbersAre) {
  TemporaryFolder folder;
  for (uint64_t wideFrom : {uint64_t{0}, uint64_t{600}, uint64_t{0xFFFFFFFF}}) {
    const std::string bytes = zipOf(folder, wideFrom), path = folder / ("archive-" + std::to_string(wideFrom));
    Result<hycrt::FileDescriptor> file = hycrt::openForReading(path);
    ASSERT_TRUE(file.ok());
    Result<hycrt::ZipReader> zip = hycrt::ZipReader::open(*file, path, 6, static_cast<int64_t>(bytes.size()) - 6);
    ASSERT_TRUE(zip.ok()) << zip.status().message();
    std::string contents;
    ASSERT_TRUE(zip->read("a", 100, &contents).ok());
    EXPECT_EQ(contents, "first");
    ASSERT_TRUE(zip->read("data/0", 1000, &contents).ok());
    EXPECT_EQ(contents, std::string(1000, 'x'));
    EXPECT_EQ((zip->find("data/0")->begin - 6) % 64, 0);
    EXPECT_FALSE(zip->read("data/0", 999, &contents).ok());
    EXPECT_FALSE(zip->read("b", 999, &contents).ok());
  }
}

TEST(ZipFiles, ThatAreCutOffAtAnyByteAreRefused) {
  TemporaryFolder folder;
  for (uint64_t wideFrom : {uint64_t{0}, uint64_t{0xFFFFFFFF}}) {
    const std::string bytes = zipOf(folder, wideFrom).substr(6), path = folder.write("cut", bytes);
    Result<hycrt::FileDescriptor> file = hycrt::openForReading(path);
    ASSERT_TRUE(file.ok());
    for (int64_t size = 0; size < static_cast<int64_t>(bytes.size()); ++size) {
      EXPECT_EQ(hycrt::ZipReader::open(*file, path, 0, size).status().exitCode(), 65) << size;
    }
  }
}

TEST(ZipFiles, HaveTheSumOfTheFormat) {
  EXPECT_EQ(hycrt::zipSum(0, "123456789", 9), 0xCBF43926U);  // its check value
  EXPECT_EQ(hycrt::zipSum(hycrt::zipSum(0, "1234", 4), "56789", 5), 0xCBF43926U);
}

// --------------------------------------------------------------------------------------------------------- checkpoints

std::vector<std::byte> bytesOf(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// A rectangle of a tensor as .metadata tells of it; each with an archive of its own.
struct Part {
  std::string name;
  Shape whole, offset, size;
  std::vector<float> values;
  std::string file = "__0_0.distcp";
  int64_t moved = 0, longer = 0;  // what is told beside what is so
  std::string type = "float32";
};

// A folder as torch.distributed.checkpoint writes it: parts of one tensor follow each other.
class Distributed : public testing::Test {
 protected:
  static Part whole(const std::string& name, Shape shape, float first) {
    Part part{name, shape, shape, shape, std::vector<float>(static_cast<size_t>(hycrt::elementCount(shape)))};
    for (int dim = 0; dim < shape.size; ++dim) part.offset.items[dim] = 0;
    std::iota(part.values.begin(), part.values.end(), first);
    return part;
  }
  static std::vector<Part> training() {
    Part step = whole("optimizer.state.fc.weight.step", {}, 7);
    Part upper = whole("fc.weight", {2, 3}, 1), lower = whole("fc.weight", {2, 3}, 7);
    upper.whole = lower.whole = {4, 3}, lower.offset = {2, 0}, lower.file = "__1_0.distcp";
    return {upper, lower, whole("optimizer.state.fc.weight.exp_avg", {4, 3}, 100),
            whole("optimizer.state.fc.weight.exp_avg_sq", {4, 3}, 200), step};
  }

  void write(const std::vector<Part>& parts) {
    fs::remove_all(files_ / "saved");
    fs::create_directory(files_ / "saved");
    std::map<std::string, std::string> archives;
    PickleWriter told, places;
    told.openDict();
    places.openDict();
    for (size_t i = 0; i < parts.size(); ++i) {
      const Part& part = parts[i];
      const bool isFirst = i == 0 || parts[i - 1].name != part.name;
      const bool isLast = i + 1 == parts.size() || parts[i + 1].name != part.name;
      if (isFirst) openTensor(part, &told);
      told.openObject(kModule, "ChunkStorageMetadata");
      told.text("offsets");
      hycrt::writeShape(part.offset, &told);
      told.text("sizes");
      hycrt::writeShape(part.size, &told);
      told.closeObject();
      if (isLast) {
        told.closeList();
        told.closeObject();
      }
      std::string& archive = archives[part.file];
      const std::string own = archiveOf(part);
      writePlace(part, static_cast<int64_t>(archive.size()), static_cast<int64_t>(own.size()), &places);
      archive += own;
    }
    told.closeDict();
    places.closeDict();
    const auto inside = [](const std::string& pickle) { return pickle.substr(2, pickle.size() - 3); };
    const std::string head = std::string("\x80\x02", 2) + "c" + kModule + "\nMetadata\n)\x81}(";
    const std::string first = std::string("X\x13\0\0\0", 5) + "state_dict_metadata";
    const std::string second = std::string("X\x0c\0\0\0", 5) + "storage_data";
    files_.write("saved/.metadata", head + first + inside(told.finish()) + second + inside(places.finish()) + "ub.");
    for (const auto& [file, bytes] : archives) {
      if (!says(file, "/")) files_.write("saved/" + file, bytes);
    }
  }

  Status import(const hycrt::ImportOptions& options = {}) {
    fs::remove_all(files_ / "runs");
    const Result<hycrt::Imported> imported = hycrt::importCheckpoint(files_ / "saved", files_ / "runs", options);
    if (imported.ok()) return {};
    // Nothing is left of one that failed.
    EXPECT_TRUE(!fs::exists(files_ / "runs") || fs::is_empty(files_ / "runs")) << imported.status().message();
    return imported.status();
  }
  void expectRefusal(const std::vector<Part>& parts, const std::string& message,
                     const hycrt::ImportOptions& options = {}) {
    write(parts);
    const Status status = import(options);
    EXPECT_EQ(status.exitCode(), 65) << message;
    EXPECT_TRUE(says(status.message(), message)) << message << " is not in: " << status.message();
  }
  // All states of the imported checkpoint, as one file.
  std::string states(const std::string& step = "7") {
    Result<hycrt::Checkpoint> checkpoint = hycrt::openCheckpoint(files_ / ("runs/step-" + step));
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    if (!checkpoint.ok()) return "";
    fs::remove(files_ / "states.safetensors");
    const Status status =
        hycrt::exportTensors(*checkpoint, hycrt::Exported::kStates, files_ / "states.safetensors", "");
    EXPECT_TRUE(status.ok()) << status.message();
    return files_.read("states.safetensors");
  }

  TemporaryFolder files_;

 private:
  static void openTensor(const Part& part, PickleWriter* told) {
    told->text(part.name);
    told->openObject(kModule, "TensorStorageMetadata");
    told->text("properties");
    told->makeObject(kModule, "TensorProperties");
    told->openTuple();
    told->name("torch", part.type);
    told->closeTuple();
    told->setState();
    told->text("size");
    hycrt::writeShape(part.whole, told);
    told->text("chunks");
    told->openList();
  }
  std::string archiveOf(const Part& part) const {
    fs::remove(files_ / "archive");
    PickleWriter pickle;
    hycrt::writeTensor(DType::kF32, part.size, &pickle);
    Result<hycrt::StreamFile> file = hycrt::StreamFile::create(files_ / "archive", nullptr);
    EXPECT_TRUE(file.ok() && hycrt::writeTorchFile(pickle.finish(), bytesOf(part.values), &*file).ok());
    EXPECT_TRUE(file->finish("").ok());
    return files_.read("archive");
  }
  static void writePlace(const Part& part, int64_t begin, int64_t bytes, PickleWriter* places) {
    places->openObject(kModule, "MetadataIndex");
    places->text("fqn");
    places->text(part.name);
    places->text("offset");
    hycrt::writeShape(part.offset, places);
    places->closeObject();
    places->openObject("torch.distributed.checkpoint.filesystem", "_StorageInfo");
    places->text("relative_path");
    places->text(part.file);
    places->text("offset");
    places->integer(begin + part.moved);
    places->text("length");
    places->integer(bytes + part.longer);
    places->closeObject();
  }
};

TEST_F(Distributed, BecomesACheckpointAndComesOutAgain) {
  write(training());
  Status status = import();
  ASSERT_TRUE(status.ok()) << status.message();
  const std::string expected = states();
  // The rows of both files, one behind the other.
  std::vector<float> rows(12);
  std::iota(rows.begin(), rows.end(), 1.0F);
  const std::vector<std::byte> bytes = bytesOf(rows);
  EXPECT_TRUE(says(expected, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
  Result<hycrt::Checkpoint> checkpoint = hycrt::openCheckpoint(files_ / "runs/step-7");
  ASSERT_TRUE(checkpoint.ok() && hycrt::verifyCheckpoint(*checkpoint).ok());
  EXPECT_EQ(checkpoint->manifest.counters.at("step"), 7);
  for (const char* kind : {"distributed", "universal", "universal with tensors"}) {
    fs::remove_all(files_ / "saved");
    hycrt::ForeignNames names;
    names.weights = "model.";
    checkpoint = hycrt::openCheckpoint(files_ / "runs/step-7");
    ASSERT_TRUE(checkpoint.ok());
    const auto count = says(kind, "tensors") ? hycrt::UpdateCount::kTensor : hycrt::UpdateCount::kNumber;
    status = says(kind, "universal") ? hycrt::exportUniversal(*checkpoint, files_ / "saved", names, count)
                                     : hycrt::exportDistributed(*checkpoint, files_ / "saved", names);
    ASSERT_TRUE(status.ok()) << status.message();
    hycrt::ImportOptions options;
    options.names = names;
    status = import(options);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(states(), expected);
  }
}

TEST_F(Distributed, LeavesParametersOutWithTheirStatesAndRefusesWhatIsNotThere) {
  hycrt::ImportOptions options;
  options.names.without = {"fc.bias"};
  std::vector<Part> parts = training();
  parts.push_back(whole("fc.bias", {4}, 0));
  parts.push_back(whole("optimizer.state.fc.bias.exp_avg", {4}, 0));
  write(parts);
  const Status status = import(options);
  ASSERT_TRUE(status.ok()) << status.message();
  const Result<hycrt::Checkpoint> checkpoint = hycrt::openCheckpoint(files_ / "runs/step-7");
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_GT(checkpoint->manifest.parts.tensors.count("fc.weight"), 0U);
  for (const auto& [name, tensor] : checkpoint->manifest.parts.tensors) EXPECT_FALSE(says(name, "fc.bias")) << name;
  options.names.without = {"fc.weigth"};
  expectRefusal(training(), "has no 'fc.weigth', which --without names; the nearest is 'fc.weight'", options);
}

TEST_F(Distributed, TakesNamesAndStepsAsTheyAreGiven) {
  hycrt::ImportOptions options;
  std::vector<Part> parts = training();
  parts.push_back(whole("lm_head.weight", {2}, 0));
  options.names.without = {"lm_head.weight"};
  options.step = 9;
  options.samples = 90;
  write(parts);
  Status status = import(options);
  ASSERT_TRUE(status.ok()) << status.message();
  Result<hycrt::Checkpoint> checkpoint = hycrt::openCheckpoint(files_ / "runs/step-9");
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(checkpoint->manifest.samples, 90);
  EXPECT_EQ(checkpoint->manifest.counters.at("applied_step"), 7);
  EXPECT_EQ(checkpoint->manifest.parts.tensors.count("lm_head.weight"), 0U);
  options.names.weights = "model.";
  expectRefusal(training(), "'fc.weight' begin neither with 'model.' (--weights-prefix)", options);
  options = {};
  parts = training();
  parts.push_back(whole("optimizer.state.fc.bias.step", {}, 8));
  expectRefusal(parts, "8 of 'optimizer.state.fc.bias.step'; say which step it is by --step");
  parts.resize(4);
  expectRefusal(parts, "tells of no updates; say by --step");
}

TEST_F(Distributed, IsRefusedWhereItContradictsItself) {
  const auto changed = [](size_t index, const std::function<void(Part*)>& change) {
    std::vector<Part> parts = training();
    change(&parts[index]);
    return parts;
  };
  const auto both = [](const std::function<void(Part*)>& change) {
    std::vector<Part> parts = training();
    change(&parts[0]);
    change(&parts[1]);
    return parts;
  };
  expectRefusal(changed(1, [](Part* part) { part->offset = {1, 0}; }), "parts of 'fc.weight' overlap");
  expectRefusal(changed(1, [](Part* part) { part->offset = {3, 0}; }), "reaches beyond it in dimension 0");
  expectRefusal(changed(1, [](Part* part) { part->size = {2}; }), "no offset or no size in its dimensions");
  expectRefusal(both([](Part* part) { part->whole = {5, 3}; }), "have 48 bytes, expected 60");
  expectRefusal(both([](Part* part) { part->whole = {int64_t{1} << 62, 3}; }), "more bytes than a number can say");
  expectRefusal(changed(1, [](Part* part) { part->moved = 1 << 20; }), "of '__1_0.distcp' are told of, which has");
  expectRefusal(changed(1, [](Part* part) { part->moved = INT64_MAX - 7; }), "are told of, which has");
  expectRefusal(changed(1, [](Part* part) { part->longer = 1; }), "are told of, which has");
  expectRefusal(changed(1, [](Part* part) { part->longer = -5; }), "not what torch.save writes");
  expectRefusal(changed(3, [](Part* part) { part->moved = -8; }), "two parts share byte");
  expectRefusal(changed(1, [](Part* part) { part->file = "../__1_0.distcp"; }), "expected a file of this folder");
  expectRefusal(changed(2, [](Part* part) { part->type = "bool"; }), "of a type that no state is of");
  expectRefusal(changed(2, [](Part* part) { part->type = "int32"; }),
                "another type or shape than its checkpoint tells");
  expectRefusal(changed(4, [](Part* part) { part->values = {1.5}; }), "found 1.5");
  expectRefusal(changed(2, [](Part* part) { part->name = "a\nb"; }), "a tensor's name is no text");
  expectRefusal(changed(2, [](Part* part) { part->name = "\xff"; }), "a tensor's name is no text");
}

TEST_F(Distributed, ThatLeadsElsewhereIsRefused) {
  write(training());
  fs::rename(files_ / "saved/__1_0.distcp", files_ / "elsewhere");
  fs::create_symlink(files_ / "elsewhere", files_ / "saved/__1_0.distcp");
  EXPECT_TRUE(says(import().message(), "is a link, expected a file"));
  fs::remove(files_ / "saved/__1_0.distcp");
  EXPECT_TRUE(says(import().message(), "is missing"));
  write(training());
  files_.write("saved/.metadata", pickled("cposix\nsystem\nX\4\0\0\0true\x85R."));
  EXPECT_TRUE(says(import().message(), "mentions 'posix.system'"));
}

std::string damaged(std::string bytes, std::mt19937* random) {
  const size_t at = (*random)() % bytes.size();
  if ((*random)() % 8 == 0) return bytes.substr(0, at);
  bytes[at] = static_cast<char>(bytes[at] ^ 1 << (*random)() % 8);
  return bytes;
}

// A flip is found, or it is of bytes that mean nothing.
TEST_F(Distributed, OfWhichAFileIsDamagedIsRefusedOrTheSame) {
  write(training());
  ASSERT_TRUE(import().ok());
  const std::string expected = states();
  std::mt19937 random(5);
  int refused = 0, accepted = 0;
  for (const char* name : {"saved/__0_0.distcp", "saved/__1_0.distcp"}) {
    const std::string whole = files_.read(name);
    for (int i = 0; i < 60; ++i) {
      files_.write(name, damaged(whole, &random));
      const Status status = import();
      EXPECT_TRUE(status.ok() || status.exitCode() == 65) << status.message();
      status.ok() ? ++accepted : ++refused;
      if (status.ok()) {
        EXPECT_EQ(states(), expected) << name;
      }
    }
    files_.write(name, whole);
  }
  EXPECT_GT(refused, 30);
  EXPECT_GT(accepted, 10);
}

// It is refused, or says something else that is as sound.
TEST_F(Distributed, OfWhichTheMetadataIsDamagedNeverTellsOfWhatIsNotThere) {
  write(training());
  const std::string whole = files_.read("saved/.metadata");
  std::mt19937 random(6);
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    fs::remove(files_ / "saved/.metadata");  // a new file, which no file system syncs
    files_.write("saved/.metadata", damaged(whole, &random));
    const Result<hycrt::ForeignStates> states = hycrt::openForeignStates(files_ / "saved", {});
    refused += states.ok() ? 0 : 1;
    if (!states.ok()) {
      EXPECT_EQ(states.status().exitCode(), 65) << states.status().message();
      continue;
    }
    for (const auto& [name, tensor] : states->tensors) {
      int64_t elements = 0;
      for (const hycrt::ForeignPart& part : tensor.parts) {
        elements += hycrt::elementCount(part.box.size);
        EXPECT_LE(part.begin + part.bytes, static_cast<int64_t>(fs::file_size(files_ / ("saved/" + part.file))));
      }
      EXPECT_EQ(elements, hycrt::elementCount(tensor.shape)) << name;
    }
  }
  EXPECT_GT(refused, 2000);
}

TEST(ForeignFolders, OfOtherKindsAreRefusedWithTheirWay) {
  TemporaryFolder folder;
  const auto refusal = [&](const std::string& path) {
    const Result<hycrt::ForeignStates> states = hycrt::openForeignStates(path, {});
    return states.ok() ? "" : states.status().message();
  };
  fs::create_directories(folder / "weights");
  folder.write("weights/model.safetensors", "");
  EXPECT_TRUE(says(refusal(folder / "weights"), "hyc-compile --weights"));
  fs::create_directories(folder / "deepspeed");
  folder.write("deepspeed/latest", "global_step3");
  EXPECT_TRUE(says(refusal(folder / "deepspeed"), "deepspeed.checkpoint.ds_to_universal"));
  EXPECT_TRUE(says(refusal(folder.write("model.pt", "PK")), "torch_to_dcp"));
  fs::create_directories(folder / "step-3");
  EXPECT_TRUE(says(refusal(folder / "step-3"), "resume it as it is"));
  fs::create_directories(folder / "other");
  EXPECT_TRUE(says(refusal(folder / "other"), ".metadata"));
  EXPECT_TRUE(says(refusal(folder / "nothing"), "is not there"));
  fs::create_directories(folder / "universal/zero/a");
  EXPECT_TRUE(says(refusal(folder / "universal"), "has no fp32.pt"));
  folder.write("universal/zero/a/fp32.pt", "PK");
  EXPECT_TRUE(says(refusal(folder / "universal"), "not what torch.save writes"));
}

}  // namespace
