// Data in sequence: documents, their order, mixtures, images, and reading ahead. Each test of bad input checks what is
// said about it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "hycrt/context.h"
#include "io/document_order.h"
#include "io/image_view.h"
#include "io/mixture.h"
#include "io/sample_file.h"
#include "io/token_data.h"
#include "run/batch_loader.h"
#include "run/program_check.h"
#include "temporary_folder.h"
#include "test_mesh.h"

namespace hycrt {
namespace {

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

template <typename T>
std::string bytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <typename T>
std::string number(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

// A file of hyc's own kind, as python/src/hyc/datasets.py writes it.
std::string ownFile(const std::vector<uint16_t>& tokens, const std::vector<uint64_t>& ends, std::string mask = "") {
  const uint64_t endsAt = (64 + 2 * tokens.size() + 7) / 8 * 8;
  std::string file = "hyctoken" + number<uint32_t>(1) + number<uint32_t>(2);
  for (uint64_t value : {uint64_t{100}, uint64_t{tokens.size()}, uint64_t{ends.size()}, uint64_t{64}, endsAt,
                         mask.empty() ? 0 : endsAt + 8 * ends.size()}) {
    file += number(value);
  }
  file += bytesOf(tokens);
  file.resize(endsAt);
  return file + bytesOf(ends) + mask;
}

std::vector<uint16_t> countedUp(uint16_t count) {
  std::vector<uint16_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), uint16_t{0});
  return tokens;
}

constexpr int64_t kSequence = 5;

InputDesc inputOf(InputSource source, int64_t bound = 1 << 20, int64_t uncounted = INT64_MIN) {
  return {"x", DType::kI64, source, {0, 0}, bound, {kSequence}, nullptr, 0, uncounted};
}

std::vector<int64_t> valuesOf(Dataset& data, uint64_t item, const InputDesc& input, uint64_t seed = 1) {
  std::vector<int64_t> values(kSequence, -1);
  const Status status = data.read(item, seed, input, reinterpret_cast<std::byte*>(values.data()));
  EXPECT_TRUE(status.ok()) << status.message();
  return values;
}

Program programOf() {
  Program program{};
  program.batch = {1, 1, kSequence};
  return program;
}

std::unique_ptr<Dataset> openTokens(const std::string& path, WindowOrder order) {
  Result<std::unique_ptr<Dataset>> data = openDataset({"--data", path, DataFormat::kAuto, order}, programOf());
  EXPECT_TRUE(data.ok()) << data.status().message();
  return data.ok() ? std::move(*data) : nullptr;
}

std::string errorOf(const std::string& text, WindowOrder order = WindowOrder::kInFile) {
  Result<std::unique_ptr<Dataset>> data = openDataset({"--data", text, DataFormat::kAuto, order}, programOf());
  return data.ok() ? "" : data.status().message();
}

TEST(TokenData, CountsPositionsFromWhereDocumentsBegin) {
  TemporaryFolder folder;
  const std::string path = folder.write("a.bin", ownFile(countedUp(17), {3, 3, 8, 17}));
  const auto data = openTokens(path, WindowOrder::kInFile);
  ASSERT_TRUE(data);
  EXPECT_EQ(data->sampleCount(), 3);
  using Values = std::vector<int64_t>;
  EXPECT_EQ(valuesOf(*data, 0, inputOf(InputSource::kTokens)), (Values{0, 1, 2, 3, 4}));
  EXPECT_EQ(valuesOf(*data, 0, inputOf(InputSource::kPositions)), (Values{0, 1, 2, 0, 1}));
  EXPECT_EQ(valuesOf(*data, 1, inputOf(InputSource::kPositions)), (Values{0, 1, 2, 0, 1}));
  EXPECT_EQ(valuesOf(*data, 1, inputOf(InputSource::kPresence)), (Values{1, 1, 1, 1, 1}));
  // What begins a document is nobody's label where documents are told apart.
  EXPECT_EQ(valuesOf(*data, 0, inputOf(InputSource::kTokens, 1 << 20, -100)), (Values{0, 1, 2, 3, 4}));
  EXPECT_EQ(valuesOf(*data, 0, inputOf(InputSource::kOwnTokens, 1 << 20, -100)), (Values{-100, 1, 2, -100, 4}));
  EXPECT_EQ(valuesOf(*data, 0, inputOf(InputSource::kNextOwnTokens, 1 << 20, -100)), (Values{1, 2, -100, 4, 5}));
}

TEST(TokenData, TakesNoLabelThatTheMaskDoesNotCount) {
  TemporaryFolder folder;
  // Tokens 2, 3 and 9 count: bits of two bytes, the lowest first.
  const std::string path = folder.write("a.bin", ownFile(countedUp(11), {11}, std::string("\x0c\x02", 2)));
  const auto data = openTokens(path, WindowOrder::kInFile);
  ASSERT_TRUE(data);
  using Values = std::vector<int64_t>;
  EXPECT_EQ(valuesOf(*data, 0, inputOf(InputSource::kTokens)), (Values{0, 1, 2, 3, 4}));
  EXPECT_EQ(valuesOf(*data, 0, inputOf(InputSource::kTokens, 100, -100)), (Values{-100, -100, 2, 3, -100}));
  EXPECT_EQ(valuesOf(*data, 1, inputOf(InputSource::kNextTokens, 100, -100)), (Values{-100, -100, -100, 9, -100}));
}

TEST(TokenData, NamesTokensThatTheVocabularyDoesNotHold) {
  TemporaryFolder folder;
  const auto data = openTokens(folder.write("a.bin", ownFile(countedUp(17), {17})), WindowOrder::kInFile);
  std::vector<int64_t> values(kSequence);
  // Positions are read without asking; the tokens of the same window are asked then.
  EXPECT_EQ(valuesOf(*data, 2, inputOf(InputSource::kPositions)), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  const Status status =
      data->read(2, 1, inputOf(InputSource::kTokens, 13), reinterpret_cast<std::byte*>(values.data()));
  EXPECT_CONTAINS(status.message(), "a.bin', token 13: found 13, expected less than the vocabulary's size 13");
  EXPECT_CONTAINS(data->checkIndices(inputOf(InputSource::kPositions, 4)).message(),
                  "a sample has 5 tokens, but the model knows 4 positions");
  EXPECT_TRUE(data->checkIndices(inputOf(InputSource::kPositions, 5)).ok());
}

TEST(TokenFile, RefusesOwnFilesThatContradictTheirHeader) {
  TemporaryFolder folder;
  const auto said = [&](const std::string& content) { return errorOf(folder.write("bad.bin", content)); };
  const std::string good = ownFile(countedUp(17), {3, 17});
  EXPECT_EQ(said(good), "");
  for (size_t size : {good.size() - 1, good.size() - 8, size_t{90}, size_t{64}}) {
    EXPECT_CONTAINS(said(good.substr(0, size)), "it is torn, or was never finished") << size;
  }
  EXPECT_CONTAINS(said(good + "x"), "expected a header of 64, 17 tokens of 2, the ends of 2 documents");
  const auto with = [&](size_t at, uint64_t value) {
    std::string changed = good;
    std::memcpy(changed.data() + at, &value, sizeof value);
    return said(changed);
  };
  for (size_t at : {24, 32, 40, 48, 56}) {
    for (uint64_t value : {uint64_t{1} << 63, UINT64_MAX, uint64_t{16}}) EXPECT_NE(with(at, value), "") << at;
  }
  EXPECT_CONTAINS(said(ownFile(countedUp(17), {9, 3, 17})), "document 1: ends at token 3, expected 9 to 17");
  EXPECT_CONTAINS(said(ownFile(countedUp(17), {3, 18})), "document 1: ends at token 18, expected 3 to 17");
  EXPECT_CONTAINS(said(ownFile(countedUp(17), {3, 16})), "the last document ends at token 16 of 17");
  std::string version = good;
  version[8] = 2;
  EXPECT_CONTAINS(said(version), "is a token file of version 2 with tokens of 2 bytes");
}

// Megatron's: documents of one, two and no sequences.
std::string megatronIndex(uint8_t type, const std::vector<int32_t>& lengths, const std::vector<int64_t>& documents,
                          int64_t width = 2) {
  std::vector<int64_t> pointers;
  int64_t at = 0;
  for (int32_t length : lengths) pointers.push_back(at), at += length * width;
  return std::string("MMIDIDX\0\0", 9) + number<uint64_t>(1) + std::string(1, static_cast<char>(type)) +
         number<uint64_t>(lengths.size()) + number<uint64_t>(documents.size()) + bytesOf(lengths) + bytesOf(pointers) +
         bytesOf(documents);
}

TEST(TokenData, ReadsMegatronsFilesByTheirIndex) {
  TemporaryFolder folder;
  folder.write("m.bin", bytesOf(countedUp(17)));
  const std::string index = folder.write("m.idx", megatronIndex(8, {3, 2, 6, 6}, {0, 1, 3, 3, 4}));
  for (const char* name : {"m.bin", "m.idx"}) {
    const auto data = openTokens(folder / name, WindowOrder::kInFile);
    ASSERT_TRUE(data);
    EXPECT_EQ(valuesOf(*data, 1, inputOf(InputSource::kTokens)), (std::vector<int64_t>{5, 6, 7, 8, 9}));
    EXPECT_EQ(valuesOf(*data, 0, inputOf(InputSource::kPositions)), (std::vector<int64_t>{0, 1, 2, 0, 1}));
    EXPECT_EQ(valuesOf(*data, 2, inputOf(InputSource::kPositions)), (std::vector<int64_t>{0, 0, 1, 2, 3}));
  }
  const auto said = [&](const std::string& content) {
    folder.write("m.idx", content);
    return errorOf(folder / "m.bin");
  };
  const std::string good = megatronIndex(8, {3, 2, 6, 6}, {0, 1, 3, 3, 4});
  EXPECT_CONTAINS(said(good.substr(0, good.size() - 3)), "expected 34 + 12 for each of 4 sequences + 8 for each of 5");
  EXPECT_CONTAINS(said(megatronIndex(5, {17}, {0, 1})), "has tokens of type 5, expected 1 (uint8), 4 (int32) or 8");
  EXPECT_CONTAINS(said(megatronIndex(8, {3, 15}, {0, 1, 2})), "m.bin' has 34 bytes, expected 18 tokens of 2 bytes");
  EXPECT_CONTAINS(said(megatronIndex(8, {-3, 20}, {0, 1, 2})), "sequence 0: has length -3 at byte 0");
  EXPECT_CONTAINS(said(megatronIndex(8, {8, 9}, {0, 2, 1})), "document 2: begins with sequence 1");
  EXPECT_CONTAINS(said(megatronIndex(8, {8, 9}, {1, 2})), "document 0: begins with sequence 1");
  EXPECT_CONTAINS(said(megatronIndex(8, {8, 9}, {0, 3})), "document 1: begins behind the last of 2 sequences");
  EXPECT_CONTAINS(said(megatronIndex(8, {8, 9}, {0, 1})), "ends with sequence 1, expected the last of all, 2");
  std::string claims = good;
  claims[25] = '\x7f';  // 2^63 sequences
  EXPECT_CONTAINS(said(claims), "m.idx' has 122 bytes, expected 34 + 12 for each of");
}

// Two hundred documents, of which some are empty and some longer than a window; each token says which it is of.
std::string manyDocuments(const TemporaryFolder& folder, std::vector<uint64_t>* ends) {
  std::vector<uint16_t> tokens;
  for (uint16_t document = 0; document < 200; ++document) {
    tokens.insert(tokens.end(), document % 7 == 3 ? 0 : 1 + document % 13, document);
    ends->push_back(tokens.size());
  }
  return folder.write("many.bin", ownFile(tokens, *ends));
}

TEST(DocumentOrder, HasEachDocumentWholeOnceAnEpoch) {
  TemporaryFolder folder;
  std::vector<uint64_t> ends;
  const std::string path = manyDocuments(folder, &ends);
  const auto data = openTokens(path, WindowOrder::kByDocument);
  ASSERT_TRUE(data);
  EXPECT_EQ(data->arrangement(), "by document");
  const auto streamOf = [&](uint64_t epoch, uint64_t seed) {
    std::vector<int64_t> stream;
    for (int64_t window = 0; window < data->sampleCount(); ++window) {
      const uint64_t item = epoch * static_cast<uint64_t>(data->sampleCount()) + static_cast<uint64_t>(window);
      for (int64_t token : valuesOf(*data, item, inputOf(InputSource::kTokens), seed)) stream.push_back(token);
    }
    return stream;
  };
  const std::vector<int64_t> first = streamOf(0, 1), second = streamOf(1, 1);
  EXPECT_NE(first, second);
  EXPECT_NE(first, streamOf(0, 2));
  EXPECT_EQ(first, streamOf(0, 1));
  // What fills no window at the end is left out, so all but the last document are whole.
  std::vector<int64_t> order;
  for (size_t i = 0; i < first.size();) {
    const int64_t document = first[i];
    size_t length = 0;
    for (; i < first.size() && first[i] == document; ++i) ++length;
    if (i < first.size()) {
      EXPECT_EQ(length, static_cast<size_t>(1 + document % 13)) << document;
    }
    order.push_back(document);
  }
  EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), order.size());
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  EXPECT_CONTAINS(errorOf(folder.write("text", "without documents"), WindowOrder::kByDocument),
                  "does not tell where documents begin, by which --shuffle-documents");
}

TEST(DocumentOrder, TellsPositionsAsTheFileWould) {
  TemporaryFolder folder;
  std::vector<uint64_t> ends;
  const auto data = openTokens(manyDocuments(folder, &ends), WindowOrder::kByDocument);
  for (uint64_t item = 0; item < 60; ++item) {
    const auto tokens = valuesOf(*data, item, inputOf(InputSource::kTokens));
    const auto positions = valuesOf(*data, item, inputOf(InputSource::kPositions));
    for (size_t i = 1; i < tokens.size(); ++i)
      EXPECT_EQ(positions[i], tokens[i] == tokens[i - 1] ? positions[i - 1] + 1 : 0);
  }
}

// Three sources whose tokens tell them apart, of 4, 9 and 30 windows.
std::vector<std::string> threeSources(const TemporaryFolder& folder) {
  std::vector<std::string> paths;
  for (int source = 0; source < 3; ++source) {
    const int windows = source == 0 ? 4 : source == 1 ? 9 : 30;
    std::vector<uint16_t> tokens;
    for (int window = 0; window < windows; ++window)
      tokens.insert(tokens.end(), kSequence, static_cast<uint16_t>(1000 * source + window));
    tokens.push_back(0);
    paths.push_back(
        folder.write(std::string(1, static_cast<char>('a' + source)) + ".bin", ownFile(tokens, {tokens.size()})));
  }
  return paths;
}

TEST(Mixture, DrawsFromEachSourceByItsWeightAndAllOfItsSamples) {
  TemporaryFolder folder;
  const std::vector<std::string> paths = threeSources(folder);
  const auto data = openTokens(paths[0] + "=0.6," + paths[1] + "=0.3," + paths[2] + "=0.1", WindowOrder::kShuffled);
  ASSERT_TRUE(data);
  EXPECT_EQ(data->sampleCount(), 43);
  EXPECT_EQ(data->arrangement(), "4 × 39321/65536 + 9 × 19661/65536 + 30 × 6554/65536");
  std::map<int64_t, int64_t> drawn;
  std::map<int64_t, std::set<int64_t>> samples;
  for (uint64_t item = 0; item < Mixture::kBlock; ++item) {
    const int64_t token = valuesOf(*data, item, inputOf(InputSource::kTokens))[0];
    ++drawn[token / 1000];
    samples[token / 1000].insert(token % 1000);
    // Not only in a whole block are shares near to the weights.
    if (item == 999) {
      EXPECT_NEAR(static_cast<double>(drawn[0]), 600, 60);
    }
  }
  EXPECT_EQ(drawn[0], 39321);
  EXPECT_EQ(drawn[1], 19661);
  EXPECT_EQ(drawn[2], 6554);
  for (int source = 0; source < 3; ++source)
    EXPECT_EQ(samples[source].size(), source == 0 ? 4u : source == 1 ? 9u : 30u);
}

TEST(Mixture, GoesThroughASourceAsThatWouldByItself) {
  TemporaryFolder folder;
  const std::vector<std::string> paths = threeSources(folder);
  std::vector<DataSource> sources{{paths[0], 1}, {paths[1], 1}};
  for (WindowOrder order : {WindowOrder::kShuffled, WindowOrder::kInFile}) {
    std::vector<std::unique_ptr<Dataset>> data;
    for (const DataSource& source : sources) data.push_back(openTokens(source.path, order));
    Result<std::unique_ptr<Dataset>> made = Mixture::of(sources, std::move(data), order);
    ASSERT_TRUE(made.ok());
    const auto& mixture = static_cast<const Mixture&>(**made);
    for (uint64_t block : {0, 1, 5}) {
      constexpr uint64_t kHalf = Mixture::kBlock / 2;
      std::vector<std::vector<int>> times(2, std::vector<int>(kHalf));
      for (uint64_t i = 0; i < Mixture::kBlock; ++i) {
        const Mixture::Drawn drawn = mixture.draw(block * Mixture::kBlock + i, 3);
        ASSERT_TRUE(drawn.item >= block * kHalf && drawn.item < (block + 1) * kHalf);
        ++times[drawn.source][drawn.item - block * kHalf];
      }
      EXPECT_EQ(times, (std::vector<std::vector<int>>(2, std::vector<int>(kHalf, 1))));
    }
  }
}

TEST(Mixture, WithoutWeightsHasEachSampleOnceAnEpoch) {
  TemporaryFolder folder;
  const std::vector<std::string> paths = threeSources(folder);
  const auto data = openTokens(paths[0] + "," + paths[1] + "," + paths[2], WindowOrder::kShuffled);
  ASSERT_TRUE(data);
  for (uint64_t epoch : {0, 1}) {
    std::set<int64_t> seen;
    for (uint64_t item = 0; item < 43; ++item)
      seen.insert(valuesOf(*data, epoch * 43 + item, inputOf(InputSource::kTokens))[0]);
    EXPECT_EQ(seen.size(), 43u);
  }
}

TEST(Mixture, NamesAWeightThatIsNone) {
  TemporaryFolder folder;
  const std::vector<std::string> paths = threeSources(folder);
  for (const char* weight : {"0", "-1", "nan", "inf", "0.5x", ""}) {
    const std::string said = errorOf(paths[0] + "=" + weight + "," + paths[1] + "=1");
    EXPECT_CONTAINS(said, std::string("'") + weight + "' is the weight of '" + paths[0] + "' (--data), expected a");
  }
  EXPECT_CONTAINS(errorOf(paths[0] + "=1," + paths[1]), paths[1] + "' (--data) has no weight, but others have one");
  EXPECT_CONTAINS(errorOf(paths[0] + "=1,"), "names a file without a name");
  EXPECT_CONTAINS(errorOf(paths[0] + "=1,/nowhere=1"), "/nowhere");
  // A file may be called so.
  EXPECT_EQ(errorOf(folder.write("x=0.5,y", "plain text")), "");
}

TEST(ImageView, TakesTheMiddleOrWhatIsDrawn) {
  TemporaryFolder folder;
  TensorDirectory directory;
  directory["pixels"] = {DType::kU8, {2, 3, 4, 4}, 0, 0};
  const SafetensorsMetadata good{
      {"image", "pixels"}, {"size", "3"}, {"mean", "0 0.5 0"}, {"std", "1 0.5 0.25"}, {"flip", "horizontal"}};
  Result<std::optional<ImageView>> view = ImageView::of("x", directory, good);
  ASSERT_TRUE(view.ok()) << view.status().message();
  std::vector<uint8_t> image(48);
  std::iota(image.begin(), image.end(), uint8_t{0});
  const auto* bytes = reinterpret_cast<const std::byte*>(image.data());
  std::vector<float> middle(27), drawn(27), again(27);
  (*view)->middle(bytes, middle.data());
  EXPECT_FLOAT_EQ(middle[0], 0);  // the margin of one is behind the middle
  EXPECT_FLOAT_EQ(middle[4], 5 / 255.0f);
  EXPECT_FLOAT_EQ(middle[9], (16 / 255.0f - 0.5f) / 0.5f);
  EXPECT_FLOAT_EQ(middle[18], 32 / 255.0f / 0.25f);
  std::set<std::vector<float>> seen;
  for (uint64_t item = 0; item < 200; ++item) {
    (*view)->drawn(bytes, 7, item, drawn.data());
    (*view)->drawn(bytes, 7, item, again.data());
    ASSERT_EQ(drawn, again);
    seen.insert(drawn);
  }
  EXPECT_EQ(seen.size(), 8u);  // four places, each mirrored or not
  const auto said = [&](const char* key, const char* text) {
    SafetensorsMetadata changed = good;
    changed[key] = text;
    return ImageView::of("x", directory, changed).status().message();
  };
  EXPECT_CONTAINS(said("size", "5"), "size is '5', expected 1 to 4");
  EXPECT_CONTAINS(said("size", "a"), "size is 'a'");
  EXPECT_CONTAINS(said("std", "1 0 1"), "std is '1 0 1', expected numbers above 0");
  EXPECT_CONTAINS(said("mean", "1 2"), "expected three numbers each");
  EXPECT_CONTAINS(said("flip", "both"), "flip is 'both'");
  EXPECT_CONTAINS(said("image", "picture"), "has none of that name");
}

// Two micro-batches of two samples, in the order of a pipeline's first stage.
constexpr Instruction kSchedule[] = {{InstructionKind::kBeginStep},     {InstructionKind::kForward, 0, 0},
                                     {InstructionKind::kForward, 0, 1}, {InstructionKind::kBackward, 0, 0},
                                     {InstructionKind::kForward, 0, 2}, {InstructionKind::kBackward, 0, 1},
                                     {InstructionKind::kBackward, 0, 2}};
constexpr InputDesc kInputs[] = {
    {"input_ids", DType::kI64, InputSource::kTokens, {0, 0}, 1 << 16, {kSequence}},
    {"labels", DType::kI32, InputSource::kNextTokens, {0, 128}, 1 << 16, {kSequence}, nullptr, 0, -100}};
constexpr int kRead[] = {0, 1};

TEST(BatchLoader, ReadsAheadWhatItWouldHaveRead) {
  TemporaryFolder folder;
  const std::string path = folder.write("a.bin", ownFile(countedUp(1000), {500, 1000}));
  Program program = programOf();
  program.batch.samples = 2;
  program.batch.microBatches = 3;
  program.mesh = meshOf(1, 1, 2);
  program.inputs = kInputs;
  const Entry entry{kTrainEntry, kRead, {}, kSchedule, nullptr, nullptr, nullptr, nullptr};
  std::vector<std::byte> plain(256), ahead(256);
  std::byte *plainArena[] = {plain.data()}, *aheadArena[] = {ahead.data()};
  const Coordinates at = placeOn(program.mesh, 0, 0, 1);
  Context one(program, at, plainArena, nullptr), other(program, at, aheadArena, nullptr);
  const auto first = openTokens(path, WindowOrder::kShuffled), second = openTokens(path, WindowOrder::kShuffled);
  BatchLoader loader(one, entry, first.get()), reading(other, entry, second.get());
  for (BatchLoader* each : {&loader, &reading}) each->shiftItems(-4);
  reading.readAhead();
  std::set<std::vector<std::byte>> seen;
  for (int64_t step = 3; step < 40; ++step) {
    one.setStep(step);
    other.setStep(step);
    for (int64_t microBatch : {0, 1, 0, 2, 1, 2}) {
      ASSERT_TRUE(loader.fill(microBatch).ok());
      ASSERT_TRUE(reading.fill(microBatch).ok());
      ASSERT_EQ(plain, ahead) << step << " " << microBatch;
      seen.insert(plain);
    }
    if (step == 10) step = 20;  // a step that nobody has foreseen
  }
  EXPECT_GT(seen.size(), 50u);
}

TEST(BatchLoader, TellsOfAnErrorWhereItsMicroBatchIsAskedFor) {
  TemporaryFolder folder;
  std::vector<uint16_t> tokens = countedUp(61);
  tokens[31] = 60000;  // of sample 6, the first micro-batch of step 1
  const std::string path = folder.write("a.bin", ownFile(tokens, {61}));
  Program program = programOf();
  program.batch.samples = 2;
  program.batch.microBatches = 3;
  program.mesh = meshOf(1, 1, 1);
  constexpr InputDesc kBounded[] = {{"input_ids", DType::kI64, InputSource::kTokens, {0, 0}, 1000, {kSequence}}};
  program.inputs = kBounded;
  constexpr int kOne[] = {0};
  const Entry entry{kTrainEntry, kOne, {}, kSchedule, nullptr, nullptr, nullptr, nullptr};
  std::vector<std::byte> arena(256);
  std::byte* arenas[] = {arena.data()};
  Context ctx(program, placeOn(program.mesh, 0, 0, 0), arenas, nullptr);
  const auto data = openTokens(path, WindowOrder::kInFile);
  BatchLoader loader(ctx, entry, data.get());
  loader.readAhead();
  for (int64_t microBatch : {0, 1, 0, 2, 1, 2}) EXPECT_TRUE(loader.fill(microBatch).ok());
  ctx.setStep(1);
  EXPECT_CONTAINS(loader.fill(0).message(), "token 31: found 60000, expected less than the vocabulary's size 1000");
}

// Samples of at most four places: labels of one number each, and a mask of one for each two of them.
constexpr InputDesc kSized[] = {
    {"labels", DType::kI32, InputSource::kSamples, {0, 0}, 10, {4}, nullptr, 0, -100, LengthTeller::kLabels},
    {"mask", DType::kF32, InputSource::kSamples, {0, 64}, INT64_MAX, {4, 4}}};
constexpr Shape kOfTwo[] = {{2}, {2, 2}};
void (*const kNoBackward)(Context&, const Call&) = [](Context&, const Call&) {};
void (*const kNoApply)(Context&, float) = [](Context&, float) {};

// The first entry of size 4, and one of size 2.
std::vector<Entry> sizedEntries() {
  Entry largest{kTrainEntry, kRead, {}, kSchedule, kNoBackward, kNoBackward, nullptr, kNoApply, "seq", 4};
  Entry small = largest;
  small.name = "seq_2";
  small.size = 2;
  small.samples = kOfTwo;
  return {largest, small};
}

// Samples 0 to 5: labels up to place 1, 4, 0, 2, 2 and 3; element i of sample n's mask is 100 n + i.
std::string writeSized(const TemporaryFolder& folder) {
  std::vector<int32_t> labels;
  std::vector<float> mask;
  int sample = 0;
  for (int reach : {1, 4, 0, 2, 2, 3}) {
    for (int i = 0; i < 4; ++i) labels.push_back(i < reach ? i : -100);
    if (reach == 3) labels[labels.size() - 3] = -100;  // a hole is no end
    for (int i = 0; i < 16; ++i) mask.push_back(static_cast<float>(100 * sample + i));
    ++sample;
  }
  std::string header = R"({"labels":{"dtype":"I32","shape":[6,4],"data_offsets":[0,96]},)"
                       R"("mask":{"dtype":"F32","shape":[6,4,4],"data_offsets":[96,480]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string file(8, '\0');
  const uint64_t size = header.size();
  std::memcpy(file.data(), &size, sizeof size);
  file += header;
  file.append(reinterpret_cast<const char*>(labels.data()), labels.size() * sizeof(int32_t));
  file.append(reinterpret_cast<const char*>(mask.data()), mask.size() * sizeof(float));
  return folder.write("sized.safetensors", file);
}

TEST(BatchLoader, KnowsHowLongSamplesAreAndTakesTheirBeginning) {
  TemporaryFolder folder;
  const std::string path = writeSized(folder);
  const std::vector<Entry> entries = sizedEntries();
  Program program = programOf();
  program.batch.samples = 2;
  program.batch.microBatches = 3;
  program.mesh = meshOf(1, 1, 1);
  program.inputs = kSized;
  program.entries.rows = entries.data();
  program.entries.size = 2;
  ASSERT_EQ(sizesOf(program), (std::vector<const Entry*>{&entries[1], &entries[0]}));
  for (bool ahead : {false, true}) {
    std::vector<std::byte> arena(256);
    std::byte* arenas[] = {arena.data()};
    Context ctx(program, placeOn(program.mesh, 0, 0, 0), arenas, nullptr);
    Result<std::unique_ptr<Dataset>> data = SampleFile::open(path, program.inputs, WindowOrder::kInFile);
    ASSERT_TRUE(data.ok()) << data.status().message();
    BatchLoader loader(ctx, entries[0], data->get());
    if (ahead) loader.readAhead();
    const Result<int64_t> length = loader.lengthOf(0);
    ASSERT_TRUE(length.ok()) << length.status().message();
    EXPECT_EQ(*length, 4);
    const auto labels = [&](int i) { return ctx.ptr<int32_t>({0, 0})[i]; };
    const auto mask = [&](int i) { return ctx.ptr<float>({0, 64})[i]; };
    ASSERT_TRUE(loader.fill(0).ok());  // of samples 0 and 1
    EXPECT_EQ(labels(4), 0);
    EXPECT_EQ(mask(16 + 5), 105);
    loader.takeSize(entries[1]);
    ASSERT_TRUE(loader.fill(1).ok());  // of 2 and 3, two places each, one after another
    EXPECT_EQ((std::vector<int32_t>{labels(0), labels(1), labels(2), labels(3)}),
              (std::vector<int32_t>{-100, -100, 0, 1}));
    std::vector<float> masks;
    for (int i = 0; i < 8; ++i) masks.push_back(mask(i));
    EXPECT_EQ(masks, (std::vector<float>{200, 201, 204, 205, 300, 301, 304, 305}));
    for (int64_t microBatch : {0, 2, 1, 2}) ASSERT_TRUE(loader.fill(microBatch).ok());
  }
  // Of one micro-batch of samples 2 and 3 alone, which is step 1 of such.
  program.batch.microBatches = 1;
  std::vector<std::byte> arena(256);
  std::byte* arenas[] = {arena.data()};
  Context ctx(program, placeOn(program.mesh, 0, 0, 0), arenas, nullptr);
  Result<std::unique_ptr<Dataset>> data = SampleFile::open(path, program.inputs, WindowOrder::kInFile);
  BatchLoader loader(ctx, entries[0], data->get());
  EXPECT_EQ(*loader.lengthOf(1), 2);
  EXPECT_EQ(*loader.lengthOf(2), 3);
}

TEST(Sizes, AreBeginningsOfTheFirstEntry) {
  std::vector<Entry> entries = sizedEntries();
  Program program = programOf();
  program.name = "small";
  static constexpr ArenaDesc kArena[] = {{"feeds", 256, Sharing::kPrivate}};
  program.arenas = kArena;
  program.scalars = {{0, 128}, {0, 136}, {0, 144}};
  program.batch = {2, 3, 4};
  program.mesh = meshOf(1, 1, 1);
  program.inputs = kSized;
  const auto said = [&] {
    program.entries.rows = entries.data();
    program.entries.size = 2;
    return checkProgram(program).message();
  };
  EXPECT_EQ(said(), "");
  entries[1].size = 4;
  EXPECT_CONTAINS(said(), "entry seq_2: is no smaller size of the first entry's dimension");
  entries = sizedEntries();
  entries[1].apply = nullptr;
  EXPECT_CONTAINS(said(), "entry seq_2: is no smaller size");
  entries = sizedEntries();
  entries[1].samples = {};
  EXPECT_CONTAINS(said(), "entry seq_2: has not a sample for each");
  entries = sizedEntries();
  static constexpr Shape kLarger[] = {{2}, {2, 5}};
  entries[1].samples = kLarger;
  EXPECT_CONTAINS(said(), "entry seq_2: a sample is no part of the first entry's");
}

}  // namespace
}  // namespace hycrt
