// Files from outside: token files, safetensors, the manifest. Each test of bad input checks what is said about it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>

#include "base/staged_folder.h"
#include "hycrt/manifest.h"
#include "hycrt/safetensors.h"
#include "io/sample_file.h"
#include "io/token_file.h"
#include "temporary_folder.h"
#include "test_mesh.h"

namespace hycrt {
namespace {

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

template <typename T>
std::string llmc(int32_t magic, int32_t version, const std::vector<T>& tokens, int32_t count) {
  int32_t header[256] = {magic, version, count};
  std::string bytes(reinterpret_cast<const char*>(header), sizeof header);
  return bytes.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(T));
}

std::vector<uint32_t> windowOf(const TokenFile& file, int64_t window, int64_t bound = 1 << 20) {
  std::vector<uint32_t> tokens;
  const Status status = file.read(window, bound, &tokens);
  EXPECT_TRUE(status.ok()) << status.message();
  return tokens;
}

constexpr const char kRunsName[] = ".hyc-0123456789abcdef0123456789abcdef.partial";

// What is left where a file system cannot exchange two folders in one step, and the process was killed between the two:
// the target is gone from its place.
TEST(StagedFolder, ThatLostItsPlaceGoesBackToIt) {
  TemporaryFolder folder;
  const auto isOwn = [](const std::string& name) { return name == "own"; };
  const auto leave = [&](const std::string& name) {
    std::filesystem::create_directory(folder / name);
    folder.write(name + "/own", name);
  };
  leave(std::string("a") + kRunsName + ".old");  // the only one there is
  leave(std::string("a") + kRunsName);           // which was to take its place
  leave("b");
  leave(std::string("b") + kRunsName + ".old");  // which has a successor
  leave(std::string("c") + kRunsName + ".old");  // nobody's who asks
  removeLeftovers(folder.path(), [](const std::string& name) { return name == "a" || name == "b"; }, isOwn);
  EXPECT_EQ(folder.read("a/own"), std::string("a") + kRunsName + ".old");
  EXPECT_EQ(folder.read("b/own"), "b");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"a", "b", std::string("c") + kRunsName + ".old"}));
}

TEST(TokenFile, OfPlainBytesIsCutIntoWindowsThatShareAToken) {
  TemporaryFolder folder;
  Result<TokenFile> file = TokenFile::open(folder.write("text", "abcdefghij"), 3);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->windowCount(), 3);
  EXPECT_EQ(windowOf(*file, 0), (std::vector<uint32_t>{'a', 'b', 'c', 'd'}));
  EXPECT_EQ(windowOf(*file, 2), (std::vector<uint32_t>{'g', 'h', 'i', 'j'}));
}

TEST(TokenFile, KnowsBothKindsOfLlmcFilesByTheirMagic) {
  TemporaryFolder folder;
  const std::vector<uint16_t> narrow{1, 50256, 3, 4, 65535};
  Result<TokenFile> first = TokenFile::open(folder.write("a.bin", llmc(20240520, 1, narrow, 5)), 2);
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(windowOf(*first, 1), (std::vector<uint32_t>{3, 4, 65535}));
  const std::vector<uint32_t> wide{1, 128255, 3};
  Result<TokenFile> second = TokenFile::open(folder.write("b.bin", llmc(20240801, 7, wide, 3)), 2);
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_EQ(windowOf(*second, 0), (std::vector<uint32_t>{1, 128255, 3}));
}

std::string kindError(const TemporaryFolder& folder, const std::string& content,
                      DataFormat format = DataFormat::kAuto) {
  Result<TokenFile> file = TokenFile::open(folder.write("data.bin", content), 1, format);
  if (file.ok()) return "";
  EXPECT_EQ(file.status().code(), StatusCode::kData);
  return file.status().message();
}

template <typename T>
std::string plain(const std::vector<T>& tokens) {
  return std::string(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(T));
}

TEST(TokenFile, TakesNothingForBytesThatIsNoText) {
  TemporaryFolder folder;
  EXPECT_EQ(kindError(folder, "plain text\r\n\tand tabs"), "");
  EXPECT_EQ(kindError(folder, "\xc3\xa9t\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"), "");
  EXPECT_EQ(kindError(folder, "cut off in a character \xe2\x82"), "");
  // As nanoGPT's prepare.py leaves them; an ELF file; a zip archive.
  const std::string nanoGpt = plain<uint16_t>({464, 2068, 7586, 21831, 18045, 625, 262});
  EXPECT_CONTAINS(kindError(folder, nanoGpt), "data.bin' is neither text (byte 0 is 0xd0, no part of UTF-8)");
  EXPECT_CONTAINS(kindError(folder, nanoGpt), "say what it holds by --data-format: bytes, uint16 (as nanoGPT");
  EXPECT_CONTAINS(kindError(folder, plain<uint16_t>({101, 102, 103})), "(byte 1 is NUL)");
  EXPECT_CONTAINS(kindError(folder, std::string("\x7f"
                                                "ELF\2\1\1\0\0\0",
                                                10)),
                  "(byte 7 is NUL)");
  EXPECT_CONTAINS(kindError(folder, std::string("PK\3\4\x14\0\0\0", 8)), "(byte 5 is NUL)");
  // Overlong, a surrogate, beyond U+10FFFF, a lone byte from the middle, one that no character begins with.
  for (const char* bad : {"ab\xc0\x80", "ab\xe0\x80\x80", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80", "ab\x80", "ab\xff",
                          "ab\xe2\x82z", "ab\xf0\x9f\x98z"}) {
    EXPECT_CONTAINS(kindError(folder, bad), "is neither text (byte 2 is ") << bad;
    EXPECT_CONTAINS(kindError(folder, "01234567" + std::string(bad) + "01234567"), "is neither text (byte 10 is ");
    EXPECT_EQ(kindError(folder, bad, DataFormat::kBytes), "");
  }
  // Far behind the beginning, and over the border of what is read at once.
  std::string large(3 << 20, 'x');
  for (size_t at : {size_t{(1 << 20) - 1}, size_t{(2 << 20) - 2}}) large.replace(at, 3, "\xe2\x82\xac");
  EXPECT_EQ(kindError(folder, large), "");
  large[(2 << 20) + 5] = '\xfe';
  EXPECT_CONTAINS(kindError(folder, large), "(byte 2097157 is 0xfe");
}

TEST(TokenFile, HoldsWhatItsFormatSays) {
  TemporaryFolder folder;
  const std::string narrow = folder.write("a.bin", plain<uint16_t>({1, 50256, 3, 65535, 5}));
  Result<TokenFile> file = TokenFile::open(narrow, 2, DataFormat::kUint16);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(windowOf(*file, 1), (std::vector<uint32_t>{3, 65535, 5}));
  file = TokenFile::open(folder.write("b.bin", plain<uint32_t>({1, 128255, 3})), 2, DataFormat::kUint32);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(windowOf(*file, 0), (std::vector<uint32_t>{1, 128255, 3}));
  EXPECT_CONTAINS(kindError(folder, "abcde", DataFormat::kUint16), "has 5 bytes, expected a multiple of 2");
  EXPECT_CONTAINS(kindError(folder, "abcdef", DataFormat::kUint32), "has 6 bytes, expected a multiple of 4");
  EXPECT_CONTAINS(kindError(folder, "abcd", DataFormat::kLlmc), "expected the magic of llm.c's files, 20240520");
  EXPECT_EQ(kindError(folder, llmc<uint16_t>(20240520, 1, {1, 2, 3}, 3), DataFormat::kLlmc), "");
  // Of what is said to be something else, the magic is not asked.
  EXPECT_EQ(kindError(folder, llmc<uint16_t>(20240520, 1, {1, 2, 3}, 3), DataFormat::kBytes), "");
}

TEST(TokenFile, TellsWhenItIsOpenedWhatTheVocabularyDoesNotHold) {
  TemporaryFolder folder;
  std::vector<uint16_t> tokens(3 << 20, 7);
  Result<TokenFile> file = TokenFile::open(folder.write("a.bin", plain(tokens)), 64, DataFormat::kUint16);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->checkTokens(8).ok());
  tokens[2 << 20] = 8;
  file = TokenFile::open(folder.write("a.bin", plain(tokens)), 64, DataFormat::kUint16);
  EXPECT_TRUE(file->checkTokens(9).ok());
  const Status status = file->checkTokens(8);
  EXPECT_EQ(status.code(), StatusCode::kData);
  EXPECT_CONTAINS(status.message(), "a.bin', token 2097152: found 8, expected less than the vocabulary's size 8");
  // Of a large one (sparse here) the beginning, the end, and places between are looked at.
  for (int64_t at : {int64_t{5}, int64_t{100} << 20}) {
    tokens.assign(8, 3);
    const std::string path = folder.write("large.bin", plain(tokens));
    ASSERT_EQ(truncate(path.c_str(), 200 << 20), 0);
    EXPECT_TRUE(TokenFile::open(path, 64, DataFormat::kUint16)->checkTokens(4).ok());
    std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(2 * at - 2);
    stream.write("\4", 1).flush();
    EXPECT_FALSE(TokenFile::open(path, 64, DataFormat::kUint16)->checkTokens(4).ok()) << at;
  }
}

TEST(Dataset, SampleOrderDependsOnSeedStepAndNumberOnly) {
  const auto shuffled = [](uint64_t item) { return Dataset::sampleAt(item, 100, 1, WindowOrder::kShuffled); };
  std::set<int64_t> epoch;
  for (uint64_t item = 0; item < 100; ++item) epoch.insert(shuffled(item));
  EXPECT_EQ(epoch.size(), 100u);
  EXPECT_EQ(*epoch.rbegin(), 99);
  EXPECT_EQ(Dataset::sampleAt(105, 100, 1, WindowOrder::kInFile), 5);
  EXPECT_EQ(shuffled(105), shuffled(105));
  int same = 0;
  for (uint64_t item = 0; item < 100; ++item) same += shuffled(item) == shuffled(item + 100);
  EXPECT_LT(same, 20);  // the next epoch has another order
}

// Three samples of an image and a label, as bf16 and i32.
std::string samplesFile(const TemporaryFolder& folder, const std::string& name, std::vector<int32_t> labels,
                        std::vector<int64_t> imageShape = {3, 2}) {
  TensorDirectory directory;
  int64_t elements = 1;
  for (int64_t size : imageShape) elements *= size;
  directory["image"] = {DType::kBF16, imageShape, 0, 2 * elements};
  directory["label"] = {DType::kI32, {static_cast<int64_t>(labels.size())}, 0, static_cast<int64_t>(4 * labels.size())};
  std::string bytes = encodeSafetensorsHeader(&directory);
  for (int64_t i = 0; i < elements; ++i) bytes += {'\0', static_cast<char>(0x40 + i)};  // 2, 8, 32, …
  bytes.append(reinterpret_cast<const char*>(labels.data()), 4 * labels.size());
  return folder.write(name, bytes);
}

constexpr InputDesc kSampled[] = {{"image", DType::kF32, InputSource::kSamples, {0, 0}, INT64_MAX, {2}},
                                  {"label", DType::kI64, InputSource::kSamples, {0, 8}, 5, {}, nullptr, 0, -100}};

std::string samplesError(const std::string& path, Table<InputDesc> inputs = kSampled) {
  Result<std::unique_ptr<Dataset>> data = SampleFile::open(path, inputs, WindowOrder::kInFile);
  if (data.ok()) return "";
  EXPECT_EQ(data.status().code(), StatusCode::kData);
  return data.status().message();
}

TEST(SampleFile, GivesEachInputItsTensorsRowInItsType) {
  TemporaryFolder folder;
  Result<std::unique_ptr<Dataset>> data =
      SampleFile::open(samplesFile(folder, "a.safetensors", {4, 0, -100}), kSampled, WindowOrder::kInFile);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ((*data)->sampleCount(), 3);
  float image[2] = {};
  ASSERT_TRUE((*data)->read(1, 0, kSampled[0], reinterpret_cast<std::byte*>(image)).ok());
  EXPECT_EQ(image[0], 32);  // bf16 0x4200
  EXPECT_EQ(image[1], 128);
  int64_t label = 0;
  ASSERT_TRUE((*data)->read(2, 0, kSampled[1], reinterpret_cast<std::byte*>(&label)).ok());
  EXPECT_EQ(label, -100);
}

TEST(SampleFile, NamesWhatDoesNotFit) {
  TemporaryFolder folder;
  const std::string good = samplesFile(folder, "good.safetensors", {4, 0, 1});
  constexpr InputDesc kOther[] = {{"images", DType::kF32, InputSource::kSamples, {0, 0}, INT64_MAX, {2}}};
  EXPECT_CONTAINS(samplesError(good, kOther), "has no tensor 'images', which the model reads; the nearest is 'image'");
  constexpr InputDesc kWider[] = {{"image", DType::kF32, InputSource::kSamples, {0, 0}, INT64_MAX, {3}}};
  EXPECT_CONTAINS(samplesError(good, kWider),
                  "image has shape [3, 2], expected a number of samples from 1, and of each [3]");
  constexpr InputDesc kCounted[] = {{"image", DType::kI64, InputSource::kSamples, {0, 0}, 7, {2}}};
  EXPECT_CONTAINS(samplesError(good, kCounted), "image has type bf16, expected integers");
  EXPECT_CONTAINS(samplesError(samplesFile(folder, "fewer.safetensors", {4, 0})),
                  "label has 2 samples, expected 3 as the inputs before it have");
  EXPECT_CONTAINS(samplesError(samplesFile(folder, "none.safetensors", {}, {0, 2})),
                  "expected a number of samples from 1");
  Result<std::unique_ptr<Dataset>> data =
      SampleFile::open(samplesFile(folder, "b.safetensors", {4, 5, -1}), kSampled, WindowOrder::kInFile);
  ASSERT_TRUE(data.ok());
  int64_t label = 0;
  for (int64_t sample : {1, 2}) {
    const Status status = (*data)->read(sample, 0, kSampled[1], reinterpret_cast<std::byte*>(&label));
    EXPECT_EQ(status.code(), StatusCode::kData);
    EXPECT_CONTAINS(status.message(), "label, sample " + std::to_string(sample) + ", element 0: found ");
    EXPECT_CONTAINS(status.message(), "expected 0 to 4, or -100 for a label that is not counted");
  }
  // What is no label of a loss has no such number.
  constexpr InputDesc kIds[] = {{"label", DType::kI64, InputSource::kSamples, {0, 8}, 5, {}}};
  data = SampleFile::open(samplesFile(folder, "ids.safetensors", {4, -100, 1}), kIds, WindowOrder::kInFile);
  ASSERT_TRUE(data.ok());
  const Status status = (*data)->read(1, 0, kIds[0], reinterpret_cast<std::byte*>(&label));
  EXPECT_EQ(status.code(), StatusCode::kData);
  EXPECT_CONTAINS(status.message(), "found -100, expected 0 to 4");
  EXPECT_EQ(status.message().find("not counted"), std::string::npos);
}

TEST(SampleFile, TellsWhenItIsOpenedOfIndicesThatNothingHolds) {
  TemporaryFolder folder;
  for (const auto& [last, fits] : {std::pair{4, true}, {-100, true}, {5, false}}) {
    Result<std::unique_ptr<Dataset>> data =
        SampleFile::open(samplesFile(folder, "a.safetensors", {4, 0, last}), kSampled, WindowOrder::kInFile);
    ASSERT_TRUE(data.ok());
    EXPECT_TRUE((*data)->checkIndices(kSampled[0]).ok());
    const Status status = (*data)->checkIndices(kSampled[1]);
    EXPECT_EQ(status.ok(), fits) << last;
    if (fits) continue;
    EXPECT_CONTAINS(status.message(), "label, sample 2, element 0: found 5");
  }
}

TEST(TokenFile, RefusesATokenThatTheVocabularyDoesNotHold) {
  TemporaryFolder folder;
  Result<TokenFile> file = TokenFile::open(folder.write("text", "abcdefgz"), 3);
  ASSERT_TRUE(file.ok());
  std::vector<uint32_t> tokens;
  EXPECT_TRUE(file->read(0, 'z', &tokens).ok());
  const Status status = file->read(1, 'g', &tokens);
  EXPECT_EQ(status.code(), StatusCode::kData);
  EXPECT_CONTAINS(status.message(), "text', token 6: found 103, expected less than the vocabulary's size 103");
}

TEST(TokenFile, RefusesFilesWithoutOneWindow) {
  TemporaryFolder folder;
  for (const char* content : {"", "abc"}) {
    Result<TokenFile> file = TokenFile::open(folder.write("text", content), 3);
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.status().code(), StatusCode::kData);
    EXPECT_CONTAINS(file.status().message(),
                    "holds " + std::to_string(std::strlen(content)) + " tokens, expected at least 4");
  }
}

TEST(TokenFile, RefusesSizesThatContradictTheHeader) {
  TemporaryFolder folder;
  const std::string good = llmc<uint16_t>(20240520, 1, {1, 2, 3, 4}, 4);
  const std::string files[] = {good.substr(0, good.size() - 1),                // an odd byte count
                               good + "x", good.substr(0, 500),                // too long, inside the header
                               llmc<uint16_t>(20240520, 1, {1, 2, 3, 4}, -4),  // a negative count
                               llmc<uint16_t>(20240520, 2, {1, 2, 3, 4}, 4)};  // a version that does not exist
  for (const std::string& content : files) {
    Result<TokenFile> file = TokenFile::open(folder.write("bad.bin", content), 3);
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.status().code(), StatusCode::kData);
    EXPECT_CONTAINS(file.status().message(), "bad.bin' has ");
  }
}

TEST(TokenFile, NoticesThatItShrank) {
  TemporaryFolder folder;
  Result<TokenFile> file = TokenFile::open(folder.write("text", std::string(100, 'x')), 10);
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(truncate((folder / "text").c_str(), 50), 0);
  std::vector<uint32_t> tokens;
  EXPECT_TRUE(file->read(3, 256, &tokens).ok());
  const Status status = file->read(4, 256, &tokens);
  EXPECT_EQ(status.code(), StatusCode::kData);
  EXPECT_CONTAINS(status.message(), "has shrunk while it was read: tokens 40 to 50 of 100");
}

TEST(TokenFile, RefusesWhatIsNoRegularFile) {
  TemporaryFolder folder;
  EXPECT_EQ(TokenFile::open(folder.path(), 3).status().code(), StatusCode::kData);
  EXPECT_EQ(TokenFile::open(folder / "missing", 3).status().code(), StatusCode::kIo);
}

std::string safetensors(const std::string& header, const std::string& data) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) bytes.push_back(static_cast<char>(header.size() >> shift & 0xFF));
  return bytes + header + data;
}

Status statusOf(const TemporaryFolder& folder, const std::string& content) {
  return readSafetensorsDirectory(folder.write("x.safetensors", content)).status();
}

TEST(Safetensors, ReadsBackWhatItWrites) {
  TemporaryFolder folder;
  TensorDirectory directory;
  directory["b"] = {DType::kF32, {2, 3}, 0, 0};
  directory["a"] = {DType::kI64, {}, 0, 0};
  directory["empty"] = {DType::kF32, {0, 4}, 0, 0};
  std::string header = encodeSafetensorsHeader(&directory);
  EXPECT_EQ(header.size() % 64, 0u);
  Result<TensorDirectory> found = readSafetensorsDirectory(folder.write("x", header + std::string(8 + 24, '\1')));
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->at("a").begin, static_cast<int64_t>(header.size()));
  EXPECT_EQ(found->at("b").begin, static_cast<int64_t>(header.size()) + 8);
  EXPECT_EQ(found->at("b").bytes, 24);
  EXPECT_EQ(found->at("b").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(found->at("empty").bytes, 0);
}

TEST(Safetensors, RefusesHeadersLongerThanTheFile) {
  TemporaryFolder folder;
  EXPECT_CONTAINS(statusOf(folder, std::string(7, '\xff') + "\x7f" + "{}").message(), "claims 9223372036854775807");
  EXPECT_EQ(statusOf(folder, "abc").code(), StatusCode::kData);
}

TEST(Safetensors, RefusesANulAfterWhichTheHeaderWouldGoUnread) {
  TemporaryFolder folder;
  EXPECT_CONTAINS(statusOf(folder, safetensors(std::string("{}\0 x", 5), "")).message(), "NUL character at byte 2");
}

TEST(Safetensors, RefusesOverlapHolesAndWrongSizes) {
  TemporaryFolder folder;
  const std::string a = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const auto with = [&](const std::string& b, size_t bytes) {
    return statusOf(folder, safetensors("{" + a + "," + b + "}", std::string(bytes, 'x'))).message();
  };
  EXPECT_EQ(with(R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]})", 8), "");
  EXPECT_CONTAINS(with(R"("b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]})", 8), "overlap");
  EXPECT_CONTAINS(with(R"("b":{"dtype":"F32","shape":[1],"data_offsets":[5,9]})", 9), "hole");
  EXPECT_CONTAINS(with(R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]})", 9), "belong to no tensor");
  EXPECT_CONTAINS(with(R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,8]})", 8), "expected 8 by its shape");
  EXPECT_CONTAINS(with(R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,12]})", 8),
                  "from byte 4 to 12 of the data, which has 8 bytes");
  EXPECT_CONTAINS(with(R"("b":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[4,8]})", 8),
                  "expected -1");
  EXPECT_CONTAINS(
      with(R"("b":{"dtype":"F99","shape":[1],"data_offsets":[4,8]})", 8),
      "unknown type 'F99', expected one of F32, F64, I32, I64, F16, BF16, U8, BOOL; write the file with one of them, "
      "integers of 16 bits as I32");
  EXPECT_CONTAINS(with(R"("b":{"dtype":"F32","shape":[-1],"data_offsets":[4,8]})", 8), "no valid number");
  EXPECT_CONTAINS(with(R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]})", 8), "key 'a' is given twice");
}

TEST(Safetensors, WithAnyByteOfTheHeaderChangedIsRefusedOrStillCoversTheFile) {
  TemporaryFolder folder;
  TensorDirectory directory;
  directory["a"] = {DType::kF32, {2, 3}, 0, 0};
  directory["b"] = {DType::kI64, {2}, 0, 0};
  const std::string good = encodeSafetensorsHeader(&directory) + std::string(40, 'x');
  for (size_t i = 0; i < good.size() - 40; ++i) {
    for (unsigned char flip : {0x01, 0x04, 0x10, 0x80}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      Result<TensorDirectory> found = readSafetensorsDirectory(folder.write("x", bad));
      int64_t bytes = 0;
      if (found.ok()) {
        for (const auto& [name, entry] : *found) bytes += entry.bytes;
        EXPECT_EQ(bytes, 40);
      } else {
        EXPECT_EQ(found.status().code(), StatusCode::kData) << found.status().message();
      }
    }
  }
}

// A correct manifest in which one piece of text is replaced.
std::string manifestWith(const std::string& from = "", const std::string& to = "") {
  std::string text = R"({
  "format_version": 1, "name": "m", "plan_hash": "00000000000000ff",
  "mesh": {"tp": 2, "pp": 1, "dp": 1}, "batch": {"micro_batch": 2, "grad_accum": 4, "sequence": 64},
  "schedule": "1f1b", "threads": 3, "nvme_path": "/disk", "learning_rate": {"rule": "cosine", "base": 0.001, "warmup_steps": 10},
  "model_files": [{"path": "model.onnx", "bytes": 0, "header_bytes": 0, "header_crc32c": "00000000", "crc32c": ""},
                  {"path": "/data/model.safetensors", "bytes": 1048577, "header_bytes": 9, "header_crc32c": "8a9136aa",
                   "crc32c": "0123456789abcdef"}],
  "ranks": [{"rank": 0, "tp": 0, "pp": 0, "dp": 0, "program": "bin/stage0"},
            {"rank": 1, "tp": 1, "pp": 0, "dp": 0, "program": "bin/stage0"}]
})";
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  return text;
}

std::string manifestError(const std::string& text) {
  Result<Manifest> manifest = parseManifest(text, "out");
  if (manifest.ok()) return "";
  EXPECT_EQ(manifest.status().code(), StatusCode::kData);
  return manifest.status().message();
}

TEST(Manifest, IsRead) {
  Result<Manifest> manifest = parseManifest(manifestWith(), "out");
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_EQ(manifest->planHash, 255u);
  EXPECT_EQ(sizeOf(manifest->mesh, kTp), 2);
  EXPECT_EQ(manifest->batch.microBatches, 4);
  ASSERT_EQ(manifest->modelFiles.size(), 2u);
  EXPECT_EQ(manifest->modelFiles[0].path, "out/model.onnx");
  EXPECT_EQ(manifest->modelFiles[1].path, "/data/model.safetensors");
  EXPECT_EQ(manifest->modelFiles[1].sums, (FileSums{1048577, 9, 0x8a9136aa, {0x01234567, 0x89abcdef}}));
  ASSERT_EQ(manifest->ranks.size(), 2u);
  EXPECT_EQ(manifest->ranks[1].at.place, 1);
}

TEST(Manifest, HasAxesOfAnyNames) {
  const std::string axes = "\"mesh\": {\"tp\": 1, \"pp\": 1, \"experts\": 2}",
                    rows = "\"tp\": 0, \"pp\": 0, \"experts\": ";
  std::string text = manifestWith("\"mesh\": {\"tp\": 2, \"pp\": 1, \"dp\": 1}", axes);
  for (const char* row : {"\"tp\": 0, \"pp\": 0, \"dp\": 0", "\"tp\": 1, \"pp\": 0, \"dp\": 0"}) {
    text.replace(text.find(row), std::strlen(row), rows + (row[6] == '0' ? "0" : "1"));
  }
  Result<Manifest> manifest = parseManifest(text, "out");
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_EQ(describe(manifest->mesh), "pp 1 × experts 2 × tp 1");
  EXPECT_EQ(describe(manifest->mesh, manifest->ranks[1].at), "pp 0, experts 1, tp 0");
  const auto ordered = [&](const std::string& order) {
    std::string with = text;
    return with.replace(with.find("\"batch\""), 0, "\"axes\": " + order + ", ");
  };
  manifest = parseManifest(ordered("[\"tp\", \"experts\"]"), "out");
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_EQ(describe(manifest->mesh), "pp 1 × tp 1 × experts 2");
  for (const char* wrong :
       {"[]", "[\"tp\"]", "[\"tp\", \"tp\"]", "[\"tp\", \"dp\"]", "3", "[\"tp\", \"experts\", \"tp\"]"}) {
    EXPECT_CONTAINS(manifestError(ordered(wrong)), "/axes: expected the axes of /mesh, each once");
  }
  EXPECT_CONTAINS(manifestError(manifestWith("\"tp\": 2,", "\"an-axis-of-far-too-long-a-name\": 2,")),
                  "is no axis' name");
}

TEST(Manifest, MayTellWhatAStepWasExpectedToTake) {
  Result<Manifest> plain = parseManifest(manifestWith(), "out");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->estimateInTurn.milliseconds, 0);
  const auto withEstimate = [](const std::string& inTurn) {
    return manifestWith("\"threads\": 3",
                        "\"threads\": 3, \"estimate\": {\"own_thread\": {\"step_ms\": 8.5, \"waiting\": 0.05}, "
                        "\"in_turn\": " +
                            inTurn + "}");
  };
  Result<Manifest> manifest = parseManifest(withEstimate("{\"step_ms\": 9, \"waiting\": 0.125}"), "out");
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_EQ(manifest->estimateOwnThread.milliseconds, 8.5);
  EXPECT_EQ(manifest->estimateInTurn.waiting, 0.125);
  EXPECT_CONTAINS(manifestError(withEstimate("{\"step_ms\": 9, \"waiting\": 1.5}")), "/estimate/in_turn: expected");
  EXPECT_CONTAINS(manifestError(withEstimate("{\"step_ms\": 9}")), "/estimate/in_turn/waiting: missing");
}

TEST(Manifest, MayHaveSeveralSizesOfADimension) {
  const auto with = [](const std::string& dim) {
    return manifestWith("\"threads\": 3", "\"threads\": 3, \"dim\": " + dim);
  };
  Result<Manifest> manifest = parseManifest(with("{\"name\": \"seq\", \"sizes\": [128, 256]}"), "out");
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_EQ(manifest->dim, "seq");
  EXPECT_EQ(manifest->sizes, (std::vector<int64_t>{128, 256}));
  for (const char* sizes : {"[256, 128]", "[0, 128]", "[-1, 2]", "[1.5, 2]", "[\"a\", 2]", "[128, 128]", "[1, 1e30]"}) {
    EXPECT_CONTAINS(manifestError(with("{\"name\": \"seq\", \"sizes\": " + std::string(sizes) + "}")),
                    "/dim/sizes: expected numbers from 1 to 2^31, each more than the one before");
  }
  EXPECT_CONTAINS(manifestError(with("{\"name\": \"seq\", \"sizes\": [128]}")), "/dim: expected a name and two sizes");
  EXPECT_CONTAINS(manifestError(with("{\"name\": \"\", \"sizes\": [1, 2]}")), "/dim: expected a name and two sizes");
  EXPECT_CONTAINS(manifestError(with("{\"name\": \"seq\"}")), "/dim/sizes: missing");
}

TEST(Manifest, NamesFileAndKeyOfEveryMistake) {
  EXPECT_CONTAINS(manifestError(manifestWith("\"schedule\"", "\"shedule\"")),
                  "out/manifest.json: /shedule: unknown key; the nearest known one is 'schedule'");
  EXPECT_CONTAINS(manifestError(manifestWith("\"name\": \"m\",", "")), "/name: missing");
  EXPECT_CONTAINS(manifestError(manifestWith("\"name\": \"m\"", "\"name\": 3")), "/name: found 3, expected a string");
  EXPECT_CONTAINS(manifestError(manifestWith("\"name\": \"m\"", "\"name\": \"m\", \"name\": \"n\"")),
                  "key 'name' is given twice");
  EXPECT_CONTAINS(manifestError(manifestWith("\"tp\": 2", "\"tp\": 0")),
                  "/mesh/tp: found 0, expected an integer from 1");
  EXPECT_CONTAINS(manifestError(manifestWith("\"tp\": 2", "\"tp\": 4")),
                  "/ranks: has 2 rows, expected pp 1 × dp 1 × tp 4 = 4");
  EXPECT_CONTAINS(manifestError(manifestWith("\"tp\": 2", "\"tp\": 99999999999999999999")), "/mesh/tp: found");
  EXPECT_CONTAINS(manifestError(manifestWith("\"rank\": 1", "\"rank\": 0")),
                  "/ranks/1/rank: found 0, expected an integer from 1 to 1");
  EXPECT_CONTAINS(manifestError(manifestWith("00000000000000ff", "FF")), "/plan_hash: found 'FF'");
  EXPECT_CONTAINS(manifestError(manifestWith("cosine", "cos")),
                  "/learning_rate/rule: found \"cos\", expected one of constant");
  EXPECT_CONTAINS(manifestError(manifestWith("1f1b", "2f2b")), "/schedule: found '2f2b', expected gpipe or 1f1b");
  EXPECT_CONTAINS(manifestError(manifestWith("\"format_version\": 1", "\"format_version\": 2")),
                  "/format_version: found 2");
  EXPECT_CONTAINS(manifestError(manifestWith().substr(0, 100)), "line 3");
  EXPECT_CONTAINS(manifestError("[]"), "expected an object");
}

TEST(Manifest, ProgramsStayInsideTheFolder) {
  for (const char* path : {"/bin/sh", "../bin/sh", "bin/../../sh", "..", ""}) {
    EXPECT_CONTAINS(manifestError(manifestWith("bin/stage0", path)), "/ranks/0/program: found");
  }
  EXPECT_CONTAINS(manifestError(manifestWith("bin/stage0", "bin\\u0000/x")), "NUL");
  EXPECT_EQ(manifestError(manifestWith("bin/stage0", "bin/..stage")), "");
}

TEST(Manifest, NestedByTheThousandsIsADepthError) {
  for (const std::string& open : {std::string("["), std::string("{\"a\":")}) {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += open;
    EXPECT_CONTAINS(manifestError(text), "nested deeper than 64 levels");
  }
}

TEST(Manifest, CutOffAtAnyByteIsADataError) {
  const std::string whole = manifestWith();
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(manifestError(whole.substr(0, length)), "") << "cut at " << length;
  }
}

TEST(LearningRate, FollowsItsRule) {
  LearningRateRule rule;
  const auto set = [&](LearningRateKind kind, double base, int64_t warmup) {
    rule.kind = kind;
    rule.base = base;
    rule.warmupSteps = warmup;
  };
  set(LearningRateKind::kConstant, 0.5, 0);
  EXPECT_EQ(rule.at(0, 10), 0.5);
  EXPECT_EQ(rule.at(9, 10), 0.5);
  set(LearningRateKind::kLinear, 1.0, 0);
  EXPECT_EQ(rule.at(0, 10), 1.0);
  EXPECT_DOUBLE_EQ(rule.at(9, 10), 0.1);
  set(LearningRateKind::kCosine, 1.0, 2);
  EXPECT_DOUBLE_EQ(rule.at(0, 10), 0.5);
  EXPECT_DOUBLE_EQ(rule.at(1, 10), 1.0);
  EXPECT_DOUBLE_EQ(rule.at(2, 10), 1.0);
  EXPECT_DOUBLE_EQ(rule.at(6, 10), 0.5);
  set(LearningRateKind::kLinear, 1.0, 100);  // all warm-up
  EXPECT_DOUBLE_EQ(rule.at(9, 10), 0.1);
}

struct Schedule {
  const char* rule;             // as a manifest has it
  std::vector<double> rates;    // of DeepSpeed's scheduler, step by step
  std::vector<double> momenta;  // where it cycles them
};

const Schedule kDeepSpeed[] = {
#include "deepspeed_schedules.inc"
};

TEST(LearningRate, IsThatOfDeepSpeedsSchedules) {
  for (const Schedule& schedule : kDeepSpeed) {
    const std::string own = R"({"rule": "cosine", "base": 0.001, "warmup_steps": 10})";
    Result<Manifest> manifest = parseManifest(manifestWith(own, schedule.rule), "out");
    ASSERT_TRUE(manifest.ok()) << manifest.status().message();
    for (size_t step = 0; step < schedule.rates.size(); ++step) {
      // DeepSpeed rounds where it takes a step's place in its cycle from 1 + k / n; hyc divides integers.
      EXPECT_NEAR(manifest->learningRate.at(static_cast<int64_t>(step), 1000), schedule.rates[step],
                  1e-12 * schedule.rates[step])
          << schedule.rule << " at step " << step;
    }
    EXPECT_EQ(manifest->learningRate.cyclesMomentum(), !schedule.momenta.empty()) << schedule.rule;
    for (size_t step = 0; step < schedule.momenta.size(); ++step) {
      EXPECT_NEAR(manifest->learningRate.momentumAt(static_cast<int64_t>(step)), schedule.momenta[step], 1e-12)
          << schedule.rule << " at step " << step;
    }
  }
}

TEST(LearningRate, DecayWithoutATotalEndsWithTheRun) {
  LearningRateRule rule;
  rule.kind = LearningRateKind::kWarmupDecay;
  rule.base = 1;
  rule.warmupSteps = 10;
  rule.warmupType = WarmupType::kLinear;
  EXPECT_DOUBLE_EQ(rule.at(61, 110), 0.5);
  rule.totalSteps = 60;
  EXPECT_DOUBLE_EQ(rule.at(61, 110), 0);
}

TEST(LearningRate, NamesTheKeyThatIsWrong) {
  const std::string own = R"({"rule": "cosine", "base": 0.001, "warmup_steps": 10})";
  const auto errorOf = [&](const std::string& rule) { return manifestError(manifestWith(own, rule)); };
  const std::string warmup =
      R"({"rule": "WarmupLR", "warmup_min_lr": 0, "warmup_max_lr": 1, "warmup_num_steps": 3, "warmup_type": "log"})";
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = warmup;
    return text.replace(text.find(from), from.size(), to);
  };
  EXPECT_EQ(errorOf(warmup), "");
  EXPECT_CONTAINS(errorOf(changed("\"log\"", "\"cubic\"")), "/learning_rate/warmup_type: found 'cubic', expected log");
  EXPECT_CONTAINS(errorOf(changed("\"warmup_min_lr\": 0", "\"warmup_min_lr\": -1")),
                  "/learning_rate/warmup_min_lr: is negative");
  EXPECT_CONTAINS(errorOf(changed("\"warmup_num_steps\": 3, ", "")), "/learning_rate/warmup_num_steps: missing");
  EXPECT_CONTAINS(errorOf(changed("WarmupLR", "WarmupDecayLR")), "/learning_rate/total_num_steps: missing");
  EXPECT_CONTAINS(errorOf(changed("WarmupLR", "linear")), "/learning_rate/warmup_");
  EXPECT_CONTAINS(errorOf("{}"), "/learning_rate/rule: missing");
}

}  // namespace
}  // namespace hycrt
