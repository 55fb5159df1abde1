// What is made of weights before training: codes and scales of each rank's part, from files of any type and by rule,
// the same in every layout. The formulas are held to bitsandbytes' by test/unit/kernels/dequantize_test.cpp.
#include "io/weight_parts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "hycrt/philox.h"
#include "io/state_layout.h"
#include "kernels/dequantize/codes.h"
#include "kernels/narrow_float.h"
#include "temporary_folder.h"
#include "test_mesh.h"

namespace hycrt {
namespace {

using hyc::kernels::Bf16;
namespace codes = hyc::kernels;

constexpr int64_t kOutputs = 96, kInputs = 150, kCount = kOutputs * kInputs;  // blocks of 64 begin anywhere in a row
constexpr uint64_t kSeed = 7;

std::vector<float> numbers() {
  std::vector<float> values;
  uint32_t word = 1;
  for (int64_t i = 0; i < kCount; ++i) {
    word = word * 1664525u + 1013904223u;
    const float value = std::ldexp(static_cast<float>(word >> 8) / 0x1p24f - 0.5f, static_cast<int>(i % 7) - 3);
    values.push_back(static_cast<float>(Bf16(value)));  // every type of file holds them
  }
  return values;
}

// A file of these behind an odd number of bytes, so that elements share chunks of reading.
template <typename T>
ModelFile fileOf(const TemporaryFolder& folder, const std::string& name, const std::vector<float>& values,
                 int64_t before) {
  std::string bytes(static_cast<size_t>(before), 'x');
  for (float value : values) {
    const T stored = static_cast<T>(value);
    bytes.append(reinterpret_cast<const char*>(&stored), sizeof stored);
  }
  return folder.write(name, bytes);
}

struct Layout {
  const char* name;
  Mesh mesh;
  int splitDim;  // over tp; -1: not at all
  bool flat;     // over dp
};

// The part as the whole has it, from what all ranks hold of it.
std::vector<std::byte> assembled(StateDesc state, const Layout& layout, const std::vector<ModelFile>& files) {
  const int64_t size = sizeOf(state.dtype), tp = sizeOf(layout.mesh, kTp), dp = sizeOf(layout.mesh, kDp);
  if (layout.splitDim >= 0 && state.global.size > layout.splitDim && state.global.size > 1) {
    state.splits = {{layout.splitDim, kTp}};
    state.local.items[layout.splitDim] /= tp;
  }
  if (layout.flat && elementCount(state.local) > 1) {
    state.storage = FlatStorage::kShard;
    state.flat = {kDp};
    state.shardElements = flatShardSize(elementCount(state.local), dp);
  }
  std::vector<std::byte> whole(static_cast<size_t>(elementCount(state.global) * size), std::byte{0xAA});
  for (int rank = 0; rank < tp * dp; ++rank) {
    const Coordinates at{0, rank};
    std::vector<std::byte> arena(static_cast<size_t>(heldElements(state) * size));
    std::byte* memory[] = {arena.data()};
    const ArenaBases arenas{memory, nullptr};
    WeightParts parts({layout.mesh, at, kSeed, files, arenas});
    parts.add(state);
    const Status status = parts.fill();
    EXPECT_TRUE(status.ok()) << status.message();
    ShardLayout(state, layout.mesh, at).forEachRun([&](const ElementRun& run) {
      std::memcpy(whole.data() + run.global * size, arena.data() + run.local * size,
                  static_cast<size_t>(run.count * size));
      return true;
    });
  }
  return whole;
}

StateDesc stateOf(const Initializer& values, WeightPart part, bool inputsFirst) {
  StateDesc state{"w", "codes", typeOfPart(part), {0, 0}, {}, {}, {}, {}, Initializer::zeros()};
  state.init = values.into(part, kOutputs, kInputs, inputsFirst);
  const bool isCodes = part == WeightPart::kInt8Codes || part == WeightPart::kNf4Codes;
  state.global =
      isCodes ? (inputsFirst ? Shape{kInputs, kOutputs} : Shape{kOutputs, kInputs}) : Shape{sizeOfPart(state.init)};
  if (part == WeightPart::kNf4Codes) state.global.items[1] /= 2;
  state.local = state.logical = state.global;
  return state;
}

// By the definition, over the whole matrix in its order.
struct Expected {
  std::vector<float> absmax, blocks, scales, norms, int8Norms, nf4Norms;
  std::vector<uint8_t> int8, nf4, absmaxCodes;
  float mean = 0;

  Expected(const std::vector<float>& stored, bool inputsFirst)
      : absmax(kOutputs), blocks(codes::nf4Blocks(kCount)), int8(kCount), nf4(kCount / 2) {
    const auto placeOf = [&](int64_t i) { return inputsFirst ? i % kOutputs * kInputs + i / kOutputs : i; };
    for (int64_t i = 0; i < kCount; ++i) {
      float &row = absmax[placeOf(i) / kInputs], &block = blocks[placeOf(i) / codes::kNf4Block];
      row = std::fmax(row, std::fabs(stored[i]));
      block = std::fmax(block, std::fabs(stored[i]));
    }
    for (int64_t i = 0; i < kCount; ++i) {
      int8[i] = static_cast<uint8_t>(codes::int8Code(stored[i], absmax[placeOf(i) / kInputs]));
      nf4[i / 2] |= static_cast<uint8_t>(codes::nf4Code(stored[i], blocks[placeOf(i) / codes::kNf4Block])
                                         << (i % 2 == 0 ? 4 : 0));
    }
    std::vector<long double> squares(kOutputs);
    for (int64_t i = 0; i < kCount; ++i) {
      squares[placeOf(i) / kInputs] += static_cast<long double>(stored[i]) * static_cast<long double>(stored[i]);
    }
    for (const long double sum : squares) norms.push_back(static_cast<float>(std::sqrt(sum)));
    const auto count = static_cast<int64_t>(blocks.size());
    absmaxCodes.resize(blocks.size());
    scales.resize(static_cast<size_t>(codes::nf4Groups(count)));
    codes::quantizeAbsmax(blocks.data(), count, absmaxCodes.data(), scales.data(), &mean);
    setNormsOfCodes(placeOf);
  }

  template <typename PlaceOf>
  void setNormsOfCodes(const PlaceOf& placeOf) {
    std::vector<long double> ofInt8(kOutputs), ofNf4(kOutputs);
    for (int64_t i = 0; i < kCount; ++i) {
      const int64_t row = placeOf(i) / kInputs, block = placeOf(i) / codes::kNf4Block;
      const long double wide = codes::int8Value(static_cast<int8_t>(int8[i]), absmax[row]);
      const int code = i % 2 == 0 ? nf4[i / 2] >> 4 : nf4[i / 2] & 15;
      const long double narrow = codes::nf4Value(
          code, codes::nf4Absmax(absmaxCodes[block], scales[static_cast<size_t>(block / codes::kNf4Group)], mean));
      ofInt8[row] += wide * wide;
      ofNf4[row] += narrow * narrow;
    }
    for (const long double sum : ofInt8) int8Norms.push_back(static_cast<float>(std::sqrt(sum)));
    for (const long double sum : ofNf4) nf4Norms.push_back(static_cast<float>(std::sqrt(sum)));
  }

  template <typename T>
  static std::vector<std::byte> bytesOf(const std::vector<T>& values) {
    const auto* first = reinterpret_cast<const std::byte*>(values.data());
    return {first, first + values.size() * sizeof(T)};
  }
  std::vector<std::byte> of(WeightPart part) const {
    switch (part) {
      case WeightPart::kInt8Codes:
        return bytesOf(int8);
      case WeightPart::kInt8Absmax:
        return bytesOf(absmax);
      case WeightPart::kNf4Codes:
        return bytesOf(nf4);
      case WeightPart::kNf4Absmax:
        return bytesOf(absmaxCodes);
      case WeightPart::kNf4Scale:
        return bytesOf(scales);
      case WeightPart::kRowNorms:
        return bytesOf(norms);
      case WeightPart::kInt8RowNorms:
        return bytesOf(int8Norms);
      case WeightPart::kNf4RowNorms:
        return bytesOf(nf4Norms);
      default:
        return bytesOf(std::vector<float>{mean});
    }
  }
};

constexpr WeightPart kParts[] = {WeightPart::kInt8Codes, WeightPart::kInt8Absmax,   WeightPart::kNf4Codes,
                                 WeightPart::kNf4Absmax, WeightPart::kNf4Scale,     WeightPart::kNf4Mean,
                                 WeightPart::kRowNorms,  WeightPart::kInt8RowNorms, WeightPart::kNf4RowNorms};

void expectParts(const Initializer& values, const std::vector<float>& stored, const std::vector<ModelFile>& files,
                 const std::vector<Layout>& layouts) {
  for (bool inputsFirst : {false, true}) {
    const Expected expected(stored, inputsFirst);
    for (const Layout& layout : layouts)
      for (WeightPart part : kParts)
        EXPECT_EQ(assembled(stateOf(values, part, inputsFirst), layout, files), expected.of(part))
            << layout.name << ", part " << static_cast<int>(part) << (inputsFirst ? ", inputs first" : "");
  }
}

TEST(WeightParts, OfAFileAreTheSameInEveryLayout) {
  const TemporaryFolder folder;
  const std::vector<float> values = numbers();
  const std::vector<ModelFile> files{fileOf<float>(folder, "f32", values, 3)};
  expectParts(Initializer::fromFile(0, 3, DType::kF32), values, files,
              {{"whole", meshOf(1, 1, 1), -1, false},
               {"rows over tp", meshOf(2, 1, 1), 0, false},
               {"columns over tp", meshOf(3, 1, 1), 1, false},
               {"flat over dp", meshOf(1, 1, 3), -1, true},
               {"rows over tp, flat over dp", meshOf(2, 1, 2), 0, true}});
}

TEST(WeightParts, OfOtherTypesAndByRuleAreThoseOfTheirValues) {
  const TemporaryFolder folder;
  const std::vector<float> values = numbers();
  const std::vector<ModelFile> files{fileOf<Bf16>(folder, "bf16", values, 1), fileOf<double>(folder, "f64", values, 5)};
  const std::vector<Layout> layouts{{"columns over tp, flat over dp", meshOf(3, 1, 2), 1, true}};
  expectParts(Initializer::fromFile(0, 1, DType::kBF16), values, files, layouts);
  expectParts(Initializer::fromFile(1, 5, DType::kF64), values, files, layouts);

  const uint64_t key = stableKey("w");
  const PhiloxStream stream(kSeed, key);
  std::vector<float> drawn;
  for (int64_t i = 0; i < kCount; ++i)
    drawn.push_back(
        static_cast<float>(0.02 * static_cast<double>(stream.normals(static_cast<uint64_t>(i / 4))[i % 4])));
  expectParts(Initializer::normal(0, 0.02, key), drawn, {}, layouts);
  expectParts(Initializer::zeros(), std::vector<float>(kCount), {}, layouts);
}

// A copy in fewer bits is that of the lengths, and numbers of which none can be told are refused.
TEST(WeightParts, ThatAreLengthsAreRoundedForCopiesAndAreOfFiniteNumbers) {
  const TemporaryFolder folder;
  std::vector<float> values = numbers();
  const Layout layout{"columns over tp, flat over dp", meshOf(3, 1, 2), 1, true};
  const Expected expected(values, false);
  StateDesc copy = stateOf(Initializer::fromFile(0, 0, DType::kF32), WeightPart::kRowNorms, false);
  copy.dtype = DType::kBF16;
  std::vector<Bf16> rounded;
  for (float norm : expected.norms) rounded.push_back(Bf16(norm));
  EXPECT_EQ(assembled(copy, layout, {fileOf<float>(folder, "sound", values, 0)}), Expected::bytesOf(rounded));

  for (float other : {INFINITY, NAN, -8192.0f}) {
    values[777] = other;
    const std::vector<ModelFile> files{fileOf<float>(folder, "unsound", values, 0)};
    const StateDesc state = stateOf(Initializer::fromFile(0, 0, DType::kF32), WeightPart::kRowNorms, false);
    std::vector<float> arena(kOutputs);
    std::byte* memory[] = {reinterpret_cast<std::byte*>(arena.data())};
    const ArenaBases arenas{memory, nullptr};
    const Mesh mesh = meshOf(1, 1, 1);
    WeightParts parts({mesh, {0, 0}, kSeed, files, arenas});
    parts.add(state);
    EXPECT_EQ(parts.fill().code(), StatusCode::kData) << other;
  }
}

TEST(WeightParts, OfAFileThatIsTooShortAreRefused) {
  const TemporaryFolder folder;
  std::vector<float> values = numbers();
  values.pop_back();
  const std::vector<ModelFile> files{fileOf<float>(folder, "short", values, 0)};
  StateDesc state = stateOf(Initializer::fromFile(0, 0, DType::kF32), WeightPart::kNf4Codes, false);
  std::vector<std::byte> arena(static_cast<size_t>(elementCount(state.local)));
  std::byte* memory[] = {arena.data()};
  const ArenaBases arenas{memory, nullptr};
  const Mesh mesh = meshOf(1, 1, 1);
  WeightParts parts({mesh, {0, 0}, kSeed, files, arenas});
  parts.add(state);
  const Status status = parts.fill();
  EXPECT_EQ(status.code(), StatusCode::kData);
  EXPECT_NE(status.message().find("w should lie at bytes [0, 0 + 57600), but the file has 57596"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace hycrt
