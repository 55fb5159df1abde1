// First values: files with their bounds, and Philox against the published vectors and against the runtime's own.
#include "InterpreterTesting.h"

#include "hyc/Interpreter/Philox.h"
#include "hycrt/philox.h"
#include <cmath>
#include <filesystem>
#include <fstream>

using namespace hyc::interpreter;

/// The vectors published with Random123 (kat_vectors, philox4x32 with 10 rounds).
TEST(Philox, GivesThePublishedVectors) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, ValuesAreTheRuntimes) {
  for (const char *name : {"h.0.attn.c_attn.weight", "x"})
    for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{0xFFFFFFFFFFFFFFFF}}) {
      hycrt::PhiloxStream stream(seed, hycrt::stableKey(name));
      for (uint64_t index : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{1} << 40}) {
        EXPECT_EQ(standardNormal(seed, name, index), stream.normal(index)) << name << " " << seed << " " << index;
        EXPECT_EQ(standardUniform(seed, name, index), stream.uniform(index)) << name << " " << seed << " " << index;
      }
    }
}

namespace {
/// A module of one param and a function that reads it.
std::string param(const std::string &type, const std::string &init) {
  return "hyc.param @w : " + type + " from " + init + "\n" + function({}, "%r = hyc.read @w : " + type, type);
}

/// A folder with "weights.bin": the floats 0, 1, 2, … 7.
class FileInitializer : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::path(testing::TempDir()) / "hyc_file_initializer";
    std::filesystem::create_directories(folder);
    std::ofstream file(folder / "weights.bin", std::ios::binary);
    for (float value = 0; value < 8; ++value)
      file.write(reinterpret_cast<const char *>(&value), sizeof value);
    options.baseDirectory = folder.string();
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::filesystem::path folder;
  Options options;
};
} // namespace

TEST_F(FileInitializer, ReadsFromTheOffset) {
  EXPECT_TRUE(isNear(run(param("tensor<2x2xf32>", R"(#hyc.file<"weights.bin", offset = 16>)"), {}, options)[0],
                     f32({2, 2}, {4, 5, 6, 7})));
  options.arithmetic = Arithmetic::Wide;
  EXPECT_TRUE(isNear(run(param("tensor<2xf32>", R"(#hyc.file<"weights.bin", offset = 4>)"), {}, options)[0],
                     Tensor::fromDoubles(ElementKind::F64, {2}, {1, 2})));
}

/// 1 + 2^-8 lies between two numbers of bf16 and is one of fp16; 65520 is the least that fp16 rounds to infinity.
TEST_F(FileInitializer, RoundsWhatIsStoredInMoreBits) {
  std::ofstream file(folder / "wide.bin", std::ios::binary);
  for (float value : {1.00390625f, 1.01171875f, 65520.0f})
    file.write(reinterpret_cast<const char *>(&value), sizeof value);
  file.close();
  auto valuesAs = [&](const std::string &type) {
    std::string text = "module attributes {hyc.stored_types = {\"wide.bin:0\" = f32}} {\n" +
                       param("tensor<3x" + type + ">", R"(#hyc.file<"wide.bin", offset = 0>)") + "\n}";
    return run(text, {}, options)[0].toDoubles();
  };
  EXPECT_EQ(valuesAs("bf16"), (std::vector<double>{1, 1.015625, 65536}));
  EXPECT_EQ(valuesAs("f16"), (std::vector<double>{1.00390625, 1.01171875, INFINITY}));
}

TEST_F(FileInitializer, PastTheEndIsADiagnostic) {
  std::string path = (folder / "weights.bin").string();
  EXPECT_EQ(runToFailure(param("tensor<2x2xf32>", R"(#hyc.file<"weights.bin", offset = 20>)"), {}, options),
            "needs 16 bytes at offset 20 of \"" + path + "\", which has 32\n");
  EXPECT_EQ(
      runToFailure(param("tensor<2x2xf32>", R"(#hyc.file<"weights.bin", offset = 9223372036854775807>)"), {}, options),
      "needs 16 bytes at offset 9223372036854775807 of \"" + path + "\", which has 32\n");
}

TEST_F(FileInitializer, MissingFileIsADiagnostic) {
  std::string message = runToFailure(param("tensor<2xf32>", R"(#hyc.file<"none.bin", offset = 0>)"), {}, options);
  EXPECT_EQ(message, "cannot read initial values from \"" + (folder / "none.bin").string() + "\"\n");
}

TEST(Initializers, FillAndDense) {
  EXPECT_TRUE(isNear(run(param("tensor<2xf32>", "#hyc.fill<1.5>"), {})[0], f32({2}, {1.5, 1.5})));
  EXPECT_TRUE(isNear(run(param("tensor<2xi64>", "dense<[3, -4]> : tensor<2xi64>"), {})[0], i64({2}, {3, -4})));
}

TEST(Initializers, UniformLiesBetweenItsBounds) {
  Options options;
  options.seed = 7;
  Tensor values = run(param("tensor<4000xf32>", "#hyc.uniform<low = -3.0, high = 1.0>"), {}, options)[0];
  EXPECT_FLOAT_EQ(values.getDouble(5), -3 + 4 * standardUniform(7, "w", 5));
  double least = 1, most = -3, sum = 0;
  for (int64_t i = 0; i < 4000; ++i) {
    least = std::min(least, values.getDouble(i));
    most = std::max(most, values.getDouble(i));
    sum += values.getDouble(i);
  }
  EXPECT_GE(least, -3);
  EXPECT_LT(least, -2.98);
  EXPECT_GT(most, 0.98);
  EXPECT_LE(most, 1);
  EXPECT_NEAR(sum / 4000, -1, 0.1);
}

TEST(Initializers, NormalDependsOnSeedNameAndPosition) {
  Options options;
  options.seed = 7;
  Tensor values = run(param("tensor<4000xf32>", "#hyc.normal<mean = 1.0, stddev = 2.0>"), {}, options)[0];
  EXPECT_FLOAT_EQ(values.getDouble(5), 1 + 2 * standardNormal(7, "w", 5));
  double sum = 0, squares = 0;
  for (double value : values.toDoubles()) {
    sum += value;
    squares += (value - 1) * (value - 1);
  }
  EXPECT_NEAR(sum / 4000, 1, 0.1);
  EXPECT_NEAR(std::sqrt(squares / 4000), 2, 0.1);
}

/// math.sin and math.cos of Python.
TEST(Initializers, SinusoidsAreSinesAndThenCosinesOfEachRow) {
  EXPECT_TRUE(isNear(run(param("tensor<3x4xf32>", "#hyc.sinusoids<width = 4, ratio = 0.01>"), {})[0],
                     f32({3, 4}, {0, 0, 1, 1,                                                                       //
                                  0.8414709848078965, 0.009999833334166664, 0.5403023058681398, 0.9999500004166653, //
                                  0.9092974268256817, 0.01999866669333308, -0.4161468365471424, 0.9998000066665778})));
}

TEST(Initializers, HugeTypesAreRefusedBeforeAllocation) {
  EXPECT_EQ(runToFailure(param("tensor<65536x65536xf32>", "#hyc.fill<0.0>"), {}),
            "the interpreter cannot hold 'tensor<65536x65536xf32>'\n");
}

TEST(Initializers, UnknownElementTypeIsADiagnostic) {
  EXPECT_EQ(runToFailure(param("tensor<2xf8E3M4>", "#hyc.fill<0.0>"), {}),
            "the interpreter cannot hold 'tensor<2xf8E3M4>'\n");
}
