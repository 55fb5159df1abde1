// Dropout masks against Philox's published words, and dropout by them.
#include "InterpreterTesting.h"
#include "hyc/Interpreter/Philox.h"
#include "hycrt/philox.h"

#include <cmath>

using namespace hyc::interpreter;

namespace {

/// The mask that `text`, the op but for its name, draws from keys of this shape.
Tensor draw(const std::string &text, const std::string &mask, Tensor keys, std::vector<Tensor> offsets = {}) {
  std::string keyType = "tensor<" + std::to_string(keys.getDim(0)) + "x" + std::to_string(keys.getDim(1)) + "xi64>";
  std::string parameters = "%k: " + keyType, types = keyType;
  for (size_t i = 0; i < offsets.size(); ++i) {
    parameters += ", %o" + std::to_string(i) + ": tensor<i64>";
    types += ", tensor<i64>";
  }
  std::vector<Tensor> arguments{keys};
  arguments.insert(arguments.end(), offsets.begin(), offsets.end());
  return run("hyc.func @f(" + parameters + ") -> " + mask + " {\n%m = hyc.dropout_mask %k " + text + " : (" + types +
                 ") -> " + mask + "\nhyc.return %m : " + mask + "\n}",
             arguments)[0];
}

} // namespace

// The words under key 0 begin 6627e8d5 e169c58d bc57ac4c 9b00dbd8 (Random123's known answers): at rate 1/2 the first is
// below 2^31 and dropped, the others are kept; at 7/8 only the second reaches e0000000.
TEST(RandomOps, MasksFollowThePublishedWords) {
  EXPECT_TRUE(isNear(draw("column 0 rate 5.0e-1", "tensor<1x4xi1>", i64({1, 1}, {0})), i1({1, 4}, {0, 1, 1, 1})));
  EXPECT_TRUE(isNear(draw("column 1 rate 8.75e-1", "tensor<1x4xi1>", i64({1, 2}, {9, 0})), i1({1, 4}, {0, 1, 0, 0})));
  EXPECT_TRUE(isNear(draw("column 0 rate 0.0", "tensor<2x3xi1>", i64({2, 1}, {4, 0})), i1({2, 3}, {1, 1, 1, 1, 1, 1})));
}

// Element (i, j) of a sample of rows of 6 is number 8 i + j; each sample has its own key.
TEST(RandomOps, RowsBeginAtWholeBlocks) {
  Tensor mask = draw("column 0 rate 3.0e-1", "tensor<2x5x6xi1>", i64({2, 1}, {77, -5}));
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t i = 0; i < 5; ++i)
      for (int64_t j = 0; j < 6; ++j) {
        uint64_t key = b == 0 ? 77 : static_cast<uint64_t>(-5), n = static_cast<uint64_t>(8 * i + j);
        hycrt::PhiloxCounter words = hycrt::philox4x32({static_cast<uint32_t>(n / 4), 0, 0, 0},
                                                       {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
        EXPECT_EQ(mask.getInteger((b * 5 + i) * 6 + j), words[n % 4] >= 0.3 * 0x1p32) << b << " " << i << " " << j;
      }
}

// Rows 2 to 3 and columns 3 to 5 of the sample, drawn where they lie.
TEST(RandomOps, APartDrawsWhatTheWholeDraws) {
  Tensor keys = i64({2, 3}, {1, 2, 3, 4, 5, 6});
  Tensor whole = draw("column 2 rate 4.0e-1", "tensor<2x5x6xi1>", keys);
  Tensor part = draw("column 2 offsets %o0, %o1 strides [8, 1] rate 4.0e-1", "tensor<2x2x3xi1>", keys,
                     {i64({}, {16}), i64({}, {3})});
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 3; ++j)
        EXPECT_EQ(part.getInteger((b * 2 + i) * 3 + j), whole.getInteger((b * 5 + i + 2) * 6 + j + 3));
}

TEST(RandomOps, WhatIsKeptIsScaled) {
  Tensor y = run(R"(
    hyc.func @f(%x: tensor<4xf32>, %m: tensor<4xi1>) -> tensor<4xf32> {
      %y = hyc.dropout %x mask %m rate 2.0e-1 : (tensor<4xf32>, tensor<4xi1>) -> tensor<4xf32>
      hyc.return %y : tensor<4xf32>
    })",
                 {f32({4}, {1, -2, INFINITY, 4}), i1({4}, {1, 1, 0, 0})})[0];
  EXPECT_TRUE(isNear(y, f32({4}, {1.25, -2.5, 0, 0})));
}

TEST(RandomOps, WithoutAMaskNothingIsExecuted) {
  EXPECT_NE(runToFailure(R"(
    hyc.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = hyc.dropout %x rate 2.0e-1 : (tensor<4xf32>) -> tensor<4xf32>
      hyc.return %y : tensor<4xf32>
    })",
                         {f32({4}, {1, 2, 3, 4})})
                .find("hyc-key-random-ops"),
            std::string::npos);
}

/// What the runtime feeds, computed apart.
TEST(RandomOps, KeysOfSamplesAreTheRuntimes) {
  for (uint64_t seed : {0u, 1u, 4711u})
    for (uint64_t sample : {0u, 1u, 123456u})
      EXPECT_EQ(sampleKey(seed, sample, "h.0.drop"),
                static_cast<int64_t>(hycrt::mix64(hycrt::mix64(seed, sample), hycrt::stableKey("h.0.drop"))));
  EXPECT_NE(sampleKey(1, 2, "a"), sampleKey(1, 2, "b"));
  EXPECT_NE(sampleKey(1, 2, "a"), sampleKey(2, 1, "a"));
}
