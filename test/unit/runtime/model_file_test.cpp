// Files that states start from: their sums, and ranks that compare what they read with them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "base/crc32c.h"
#include "forked_ranks.h"
#include "hycrt/file_sums.h"
#include "io/initial_values.h"
#include "kernels/narrow_float.h"
#include "temporary_folder.h"
#include "test_mesh.h"

namespace {

using namespace hycrt;

std::string bytesFrom(int first, int step) {
  std::string bytes;
  for (int i = 0; i < 32; ++i) bytes.push_back(static_cast<char>(first + i * step));
  return bytes;
}

// RFC 3720, B.4, and the check value of the catalogue of CRCs.
TEST(Crc32c, GivesThePublishedSums) {
  const unsigned char command[] = {0x01, 0xc0, 0, 0, 0, 0, 0,    0, 0,    0, 0, 0,    0, 0, 0, 0,
                                   0x14, 0,    0, 0, 0, 0, 0x04, 0, 0,    0, 0, 0x14, 0, 0, 0, 0x18,
                                   0x28, 0,    0, 0, 0, 0, 0,    0, 0x02, 0, 0, 0,    0, 0, 0, 0};
  const std::pair<std::string, uint32_t> vectors[] = {
      {bytesFrom(0, 0), 0x8a9136aa},
      {bytesFrom(0xff, 0), 0x62a8ab43},
      {bytesFrom(0, 1), 0x46dd794e},
      {bytesFrom(31, -1), 0x113fdb5c},
      {"123456789", 0xe3069283},
      {"", 0},
      {std::string(reinterpret_cast<const char*>(command), sizeof command), 0xd9963a56}};
  for (const auto& [bytes, sum] : vectors) {
    EXPECT_EQ(crc32c(0, bytes.data(), bytes.size()), sum);
    EXPECT_EQ(crc32cWithoutFolding(0, bytes.data(), bytes.size()), sum);
    EXPECT_EQ(crc32cByTables(0, bytes.data(), bytes.size()), sum);
  }
}

// By the definition, a bit at a time.
uint32_t sumByBits(const std::string& bytes) {
  uint32_t crc = 0xffffffff;
  for (char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  return ~crc;
}

TEST(Crc32c, IsTheSameByEveryWayInAnyParts) {
  std::string bytes(40000, '\0');
  uint32_t state = 1;
  for (char& c : bytes) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  // About every length at which another way of going through the data begins.
  for (size_t length :
       {0, 1, 7, 8, 9, 255, 256, 257, 511, 512, 767, 768, 769, 1536, 12287, 12288, 12289, 13056, 24577, 39990}) {
    for (size_t from : {0, 1, 5, 8}) {
      const std::string part = bytes.substr(from, length);
      const uint32_t expected = sumByBits(part);
      EXPECT_EQ(crc32c(0, bytes.data() + from, length), expected) << length;
      EXPECT_EQ(crc32cWithoutFolding(0, bytes.data() + from, length), expected) << length;
      EXPECT_EQ(crc32cByTables(0, bytes.data() + from, length), expected) << length;
      const size_t first = length / 3;
      EXPECT_EQ(crc32c(crc32c(0, part.data(), first), part.data() + first, length - first), expected);
      EXPECT_EQ(crc32cByTables(crc32c(0, part.data(), first), part.data() + first, length - first), expected);
    }
  }
}

TEST(FileSums, AreOfTheHeaderAndOfEachMiB) {
  TemporaryFolder folder;
  std::string bytes(2 * kChunkBytes + 5, 'w');
  const std::string header = "{\"a\": 1}";
  bytes.replace(0, 8, std::string("\x08\0\0\0\0\0\0\0", 8));
  bytes.replace(8, header.size(), header);
  const Result<FileSums> sums = measureFile(folder.write("model", bytes));
  ASSERT_TRUE(sums.ok()) << sums.status().message();
  EXPECT_EQ(sums->bytes, 2 * kChunkBytes + 5);
  EXPECT_EQ(sums->headerBytes, 16);
  EXPECT_EQ(sums->header, sumByBits(bytes.substr(0, 16)));
  ASSERT_EQ(sums->chunks.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(sums->chunks[i], sumByBits(bytes.substr(i * kChunkBytes, kChunkBytes)));
  EXPECT_EQ(sumsFromDigits(digitsOf(sums->chunks)), sums->chunks);
  // One that claims more than the file has is no header; nor is an empty file one.
  EXPECT_EQ(measureFile(folder.write("other", bytes.substr(0, 15)))->headerBytes, 0);
  EXPECT_EQ(*measureFile(folder.write("empty", "")), FileSums());
  EXPECT_FALSE(measureFile(folder / "missing").ok());
  EXPECT_FALSE(sumsFromDigits("0123456").has_value());
  EXPECT_FALSE(sumsFromDigits("0123456G").has_value());
}

TEST(FileSums, AreAskedForAgainOfAFileThatWasJustWritten) {
  TemporaryFolder folder;
  const std::string path = folder.write("model", "weights");
  EXPECT_EQ(identityOfFile(path), std::nullopt);
  EXPECT_EQ(identityOfFile(folder / "missing"), std::nullopt);
}

// Tensors one after the other from `offset` on, which need not be a multiple of their elements' size.
struct Tensors {
  Tensors(const TemporaryFolder& folder, int64_t offset, DType stored) : size(sizeOf(stored)) {
    bytes.assign(static_cast<size_t>(offset + 3 * kElements * size + 100), '\0');
    uint32_t state = 7;
    for (char& c : bytes) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 25);  // no NaN: below 0x80
    path = folder.write("model.safetensors", bytes);
    files.emplace_back(path, *measureFile(path));
  }

  static constexpr int64_t kRows = 600, kColumns = 640, kElements = kRows * kColumns;

  double at(int64_t begin, int64_t element, DType stored) const {
    const char* from = bytes.data() + begin + element * size;
    if (stored == DType::kF64) return loadAs<double>(from);
    if (stored == DType::kBF16) return double{float{loadAs<hyc::kernels::Bf16>(from)}};
    return double{loadAs<float>(from)};
  }
  template <typename T>
  static T loadAs(const char* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }

  int64_t size;
  std::string bytes, path;
  std::vector<ModelFile> files;
};

// A tensor cut by rows, one by columns, and one that two states start from.
std::vector<StateDesc> statesOf(int64_t offset, DType stored, DType held) {
  constexpr int64_t kRows = Tensors::kRows, kColumns = Tensors::kColumns, kElements = Tensors::kElements;
  const int64_t bytes = kElements * sizeOf(stored), held0 = kElements / 2 * sizeOf(held);
  const auto from = [&](int64_t index) { return Initializer::fromFile(0, offset + index * bytes, stored); };
  const Shape whole = {kRows, kColumns};
  return {{"rows", "parameter", held, {0, 0}, whole, whole, {kRows / 2, kColumns}, {{0, kTp}}, from(0)},
          {"columns", "parameter", held, {0, held0}, whole, whole, {kRows, kColumns / 2}, {{1, kTp}}, from(1)},
          {"both", "parameter", held, {0, 2 * held0}, whole, whole, whole, {}, from(2)},
          {"both", "compute", held, {0, 4 * held0}, whole, whole, whole, {}, from(2)}};
}

struct Rank {
  Rank(int64_t offset, DType stored, DType held, int tp)
      : states(statesOf(offset, stored, held)), memory(static_cast<size_t>(3 * Tensors::kElements)), tp(tp) {
    program.mesh = meshOf(2, 1, 1);
    program.states = tableOf(states);
  }
  Status read(const std::vector<ModelFile>& files) {
    std::byte* arenas[] = {reinterpret_cast<std::byte*>(memory.data())};
    return initializeStates(program, {0, tp}, 0, files, {arenas, nullptr});
  }
  double held(const StateDesc& state, int64_t element) const {
    const char* from = reinterpret_cast<const char*>(memory.data()) + state.buffer.offset;
    if (state.dtype == DType::kF64) return Tensors::loadAs<double>(from + element * 8);
    if (state.dtype == DType::kBF16) return double{float{Tensors::loadAs<hyc::kernels::Bf16>(from + element * 2)}};
    return double{Tensors::loadAs<float>(from + element * 4)};
  }

  std::vector<StateDesc> states;
  std::vector<double> memory;
  Program program{};
  int tp;
};

TEST(ModelFile, IsReadInWholeChunksWhereverItsTensorsLie) {
  const std::pair<DType, DType> types[] = {{DType::kF32, DType::kF32},
                                           {DType::kF64, DType::kF64},
                                           {DType::kF64, DType::kF32},
                                           {DType::kF32, DType::kBF16},
                                           {DType::kBF16, DType::kF32}};
  for (const auto& [stored, held] : types) {
    for (int64_t offset : {int64_t{0}, int64_t{1}, int64_t{1003}, kChunkBytes - 3, kChunkBytes}) {
      TemporaryFolder folder;
      const Tensors tensors(folder, offset, stored);
      Rank rank(offset, stored, held, 1);
      const Status status = rank.read(tensors.files);
      ASSERT_TRUE(status.ok()) << status.message();
      int64_t wrong = 0;
      for (const StateDesc& state : rank.states) {
        ShardLayout(state, rank.program.mesh, {0, 1}).forEachRun([&](const ElementRun& run) {
          for (int64_t i = 0; i < run.count; ++i) {
            double expected = tensors.at(state.init.fileOffset, run.global + i, stored);
            if (held == DType::kF32) expected = static_cast<float>(expected);
            if (held == DType::kBF16) expected = float{hyc::kernels::Bf16(static_cast<float>(expected))};
            const double found = rank.held(state, run.local + i);
            wrong += std::memcmp(&expected, &found, sizeof found) != 0;
          }
          return true;
        });
      }
      EXPECT_EQ(wrong, 0) << nameOf(stored) << " as " << nameOf(held) << " at " << offset;
    }
  }
}

// Matrices that lie in two files, in no order and of several types, some across two chunks and one shorter than the
// others, are one tensor to its states: cut by the first dimension, by the last, and flat.
class Parts : public testing::Test {
 protected:
  static constexpr int64_t kExperts = 5, kRows = 3, kColumns = 50000, kElements = kExperts * kRows * kColumns;

  Parts() : whole_(static_cast<size_t>(kElements)) {
    uint32_t state = 11;
    for (float& value : whole_)
      value = float{hyc::kernels::Bf16(static_cast<float>((state = state * 1664525 + 1013904223) >> 8))};
    std::string bytes[2] = {"odd", ""};  // what begins at no multiple of four
    for (const int64_t expert : {3, 0, 4, 2, 1}) {
      // The last is two: its first row, and the others.
      for (const auto& [first, rows] : expert == 4 ? std::vector<std::pair<int64_t, int64_t>>{{1, 2}, {0, 1}}
                                                   : std::vector<std::pair<int64_t, int64_t>>{{0, 3}}) {
        const int file = expert % 2;
        const DType dtype = expert == 2 ? DType::kBF16 : DType::kF32;
        const int64_t begin = (expert * kRows + first) * kColumns;
        parts_[static_cast<size_t>(expert + (expert == 4 ? first != 0 : 0))] = {
            "part", {rows, kColumns}, file, static_cast<int64_t>(bytes[file].size()), dtype};
        for (int64_t i = begin; i < begin + rows * kColumns; ++i)
          append(whole_[static_cast<size_t>(i)], dtype, &bytes[file]);
      }
    }
    for (int file : {0, 1}) {
      const std::string path = folder_.write("model" + std::to_string(file), bytes[file]);
      files_.emplace_back(path, *measureFile(path));
    }
  }

  static void append(float value, DType dtype, std::string* bytes) {
    const hyc::kernels::Bf16 narrow(value);
    if (dtype == DType::kBF16) bytes->append(reinterpret_cast<const char*>(&narrow), sizeof narrow);
    if (dtype == DType::kF32) bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  // What a rank of tp 2 × dp 2 then holds, against the whole.
  void expectRead(const StateDesc& state, const Coordinates& at) {
    std::vector<float> memory(static_cast<size_t>(heldElements(state)));
    std::byte* arenas[] = {reinterpret_cast<std::byte*>(memory.data())};
    Program program{};
    program.mesh = meshOf(2, 1, 2);
    const std::vector<StateDesc> states = {state};
    program.states = tableOf(states);
    const Status status = initializeStates(program, at, 0, files_, {arenas, nullptr});
    ASSERT_TRUE(status.ok()) << status.message();
    int64_t held = 0, wrong = 0;
    ShardLayout(state, program.mesh, at).forEachRun([&](const ElementRun& run) {
      for (int64_t i = 0; i < run.count; ++i)
        wrong += memory[static_cast<size_t>(run.local + i)] != whole_[static_cast<size_t>(run.global + i)];
      held += run.count;
      return true;
    });
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(held, 0);
  }

  TemporaryFolder folder_;
  std::vector<float> whole_;
  std::vector<ModelFile> files_;
  static FilePart parts_[kExperts + 1];
};
FilePart Parts::parts_[kExperts + 1];

TEST_F(Parts, AreReadAsOneTensorByWhoeverHasAnyOfIt) {
  const Initializer init = Initializer::fromParts(parts_);
  const Shape whole = {kExperts, kRows, kColumns};
  StateDesc all{"w", "parameter", DType::kF32, {0, 0}, whole, whole, whole, {}, init};
  StateDesc byExpert = all, byColumn = all, flat = all;
  byExpert.local = {(kExperts + 1) / 2, kRows, kColumns};
  byExpert.splits = {{0, kTp}};
  byColumn.local = {kExperts, kRows, kColumns / 2};
  byColumn.splits = {{2, kTp}};
  flat.storage = FlatStorage::kShard;
  flat.flat = {kDp};
  flat.shardElements = flatShardSize(kElements, 2);
  for (StateDesc* state : {&all, &byExpert, &byColumn, &flat}) {
    for (int tp : {0, 1}) {
      for (int dp : {0, 1}) expectRead(*state, placeOn(meshOf(2, 1, 2), tp, 0, dp));
    }
  }
}

TEST_F(Parts, WithOneBitChangedAreRefusedByWhoeverReadsThem) {
  const Shape whole = {kExperts, kRows, kColumns};
  std::vector<StateDesc> states = {{"w",
                                    "parameter",
                                    DType::kF32,
                                    {0, 0},
                                    whole,
                                    whole,
                                    {(kExperts + 1) / 2, kRows, kColumns},
                                    {{0, kTp}},
                                    Initializer::fromParts(parts_)}};
  std::vector<float> memory(static_cast<size_t>(heldElements(states[0])));
  std::byte* arenas[] = {reinterpret_cast<std::byte*>(memory.data())};
  Program program{};
  program.mesh = meshOf(2, 1, 1);
  program.states = tableOf(states);
  // The last byte of file 0 is of the part that was written last there, of expert 2.
  std::ifstream file(files_[0].path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  bytes.back() ^= 1;
  folder_.write("model0", bytes);
  EXPECT_EQ(initializeStates(program, {0, 0}, 0, files_, {arenas, nullptr}).code(), StatusCode::kData);
}

TEST(ModelFile, WithOneBitChangedIsRefusedByWhoeverReadsIt) {
  constexpr int64_t kOffset = 1003;
  TemporaryFolder folder;
  const Tensors tensors(folder, kOffset, DType::kF32);
  const int64_t chunks = chunkCount(tensors.files[0].sums->bytes), bytes = Tensors::kElements * 4;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    std::string changed = tensors.bytes;
    const int64_t place = std::min<int64_t>(chunk * kChunkBytes + 77777, kOffset + 3 * bytes - 1);
    changed[static_cast<size_t>(place)] ^= 0x10;
    folder.write("model.safetensors", changed);
    // By rows each of the two reads its half of the first tensor, and all of what follows.
    for (int tp : {0, 1}) {
      Rank rank(kOffset, DType::kF32, DType::kF32, tp);
      const Status status = rank.read(tensors.files);
      const int64_t first = tp == 0 ? 0 : (kOffset + bytes / 2) / kChunkBytes;
      const int64_t last = tp == 0 ? (kOffset + bytes / 2 - 1) / kChunkBytes : chunks;
      const int64_t rest = (kOffset + bytes) / kChunkBytes;
      if ((chunk < first || chunk > last) && chunk < rest) {
        EXPECT_TRUE(status.ok()) << "rank " << tp << " reads nothing of chunk " << chunk << ": " << status.message();
        continue;
      }
      EXPECT_EQ(status.code(), StatusCode::kData) << "chunk " << chunk << ", rank " << tp;
      const std::string where =
          "lies in chunk " + std::to_string(chunk) + ", bytes [" + std::to_string(chunk * kChunkBytes) + ", ";
      EXPECT_NE(status.message().find("'" + tensors.path + "': "), std::string::npos) << status.message();
      EXPECT_NE(status.message().find(where), std::string::npos) << status.message();
      EXPECT_NE(status.message().find("compile the model again"), std::string::npos) << status.message();
      const std::string tensor = chunk == 0 ? ": rows lies" : chunk == chunks - 1 ? ": both lies" : " lies";
      EXPECT_NE(status.message().find(tensor), std::string::npos) << status.message();
    }
  }
}

TEST(ModelFile, ThatIsAnotherOneIsRefused) {
  TemporaryFolder folder;
  const Tensors tensors(folder, 64, DType::kF32);
  const auto refusal = [&](const std::string& bytes) {
    folder.write("model.safetensors", bytes);
    Rank rank(64, DType::kF32, DType::kF32, 0);
    const Status status = rank.read(tensors.files);
    EXPECT_EQ(status.code(), StatusCode::kData) << status.message();
    return status.message();
  };
  const std::string size = std::to_string(tensors.bytes.size());
  EXPECT_NE(refusal(tensors.bytes + "x")
                .find("has " + std::to_string(tensors.bytes.size() + 1) +
                      " bytes, but the model was compiled against " + size),
            std::string::npos);
  EXPECT_NE(refusal("").find("has 0 bytes, but the model was compiled against " + size), std::string::npos);
  // Exchanged through a link, which leads to a file of the same size.
  std::string other = tensors.bytes;
  std::reverse(other.begin(), other.end());
  EXPECT_NE(refusal(other).find("has the CRC32C"), std::string::npos);
  std::filesystem::remove(tensors.path);
  folder.write("other", other);
  std::filesystem::create_symlink(folder / "other", tensors.path);
  Rank rank(64, DType::kF32, DType::kF32, 0);
  EXPECT_EQ(rank.read(tensors.files).code(), StatusCode::kData);
}

// The header says where tensors lie; no tensor need be in its chunk for it to be looked at.
TEST(ModelFile, WithAnotherHeaderIsRefused) {
  TemporaryFolder folder;
  std::string bytes(2 * kChunkBytes, '\1');
  const std::string text = "{\"a\": {}}";
  bytes.replace(0, 8, std::string("\x09\0\0\0\0\0\0\0", 8));
  bytes.replace(8, text.size(), text);
  const std::string path = folder.write("model", bytes);
  const std::vector<ModelFile> files = {{path, *measureFile(path)}};
  const StateDesc states[] = {
      {"w", "parameter", DType::kF32, {0, 0}, {8}, {8}, {8}, {}, Initializer::fromFile(0, kChunkBytes, DType::kF32)}};
  Program program{};
  program.mesh = meshOf(1, 1, 1);
  program.states = Table<StateDesc>(states);
  std::vector<double> memory(8);
  std::byte* arenas[] = {reinterpret_cast<std::byte*>(memory.data())};
  ASSERT_TRUE(initializeStates(program, {}, 0, files, {arenas, nullptr}).ok());
  bytes[10] = 'b';
  folder.write("model", bytes);
  const Status status = initializeStates(program, {}, 0, files, {arenas, nullptr});
  EXPECT_EQ(status.code(), StatusCode::kData);
  EXPECT_NE(status.message().find("its header, bytes [0, 17), has the CRC32C"), std::string::npos) << status.message();
}

}  // namespace
