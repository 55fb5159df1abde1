// 8-bit floats against LLVM's APFloat, which is no work of hyc's: every code, and numbers around every tie.
#include "InterpreterTesting.h"

#include "llvm/ADT/APFloat.h"
#include <cmath>
#include <limits>

using namespace hyc::interpreter;

namespace {
const llvm::fltSemantics &semanticsOf(ElementKind kind) {
  return kind == ElementKind::F8E4M3 ? llvm::APFloat::Float8E4M3FN() : llvm::APFloat::Float8E5M2();
}

float decodedByLlvm(ElementKind kind, uint8_t bits) {
  llvm::APFloat value(semanticsOf(kind), llvm::APInt(8, bits));
  bool losesInfo = false;
  value.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return value.convertToFloat();
}

uint8_t encodedByLlvm(ElementKind kind, float number) {
  llvm::APFloat value(number);
  bool losesInfo = false;
  value.convert(semanticsOf(kind), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return static_cast<uint8_t>(value.bitcastToAPInt().getZExtValue());
}

void expectLlvms(ElementKind kind) {
  for (unsigned code = 0; code < 256; ++code) {
    float actual = decodeFloat8(kind, static_cast<uint8_t>(code)),
          expected = decodedByLlvm(kind, static_cast<uint8_t>(code));
    ASSERT_TRUE(std::isnan(expected) ? std::isnan(actual)
                                     : actual == expected && std::signbit(actual) == std::signbit(expected))
        << code << ": " << actual << " and " << expected;
    if (std::isnan(expected))
      continue;
    ASSERT_EQ(encodeFloat8(kind, expected), code);
    float next = decodedByLlvm(kind, static_cast<uint8_t>(code + 1));
    float end = std::isfinite(next) ? next : 2 * expected, middle = expected + (end - expected) / 2;
    for (float number : {middle, std::nextafter(middle, expected), std::nextafter(middle, end), end * 1.001f})
      if (std::isfinite(number)) {
        ASSERT_EQ(encodeFloat8(kind, number), encodedByLlvm(kind, number)) << number;
      }
  }
  for (float number : {std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max(),
                       std::numeric_limits<float>::infinity(), 463.9f, 464.0f, 464.1f, 480.0f, 61439.0f, 61440.0f})
    for (float sign : {1.0f, -1.0f}) {
      float decoded = decodeFloat8(kind, encodeFloat8(kind, sign * number)),
            expected = decodedByLlvm(kind, encodedByLlvm(kind, sign * number));
      EXPECT_TRUE(decoded == expected || (std::isnan(decoded) && std::isnan(expected))) << number;
    }
  EXPECT_TRUE(std::isnan(decodeFloat8(kind, encodeFloat8(kind, std::nanf("")))));
}
} // namespace

TEST(Float8, E4m3IsLlvms) { expectLlvms(ElementKind::F8E4M3); }
TEST(Float8, E5m2IsLlvms) { expectLlvms(ElementKind::F8E5M2); }

TEST(Float8, ProductsOfBothTypesAddUpInF32) {
  Tensor x = f32({1, 3}, {1.0625, 448, 0.3}), y = f32({3, 1}, {1.125, 0.5, 57344});
  std::string text = function({"tensor<1x3xf32>", "tensor<3x1xf32>"},
                              "%a = hyc.convert %0 : (tensor<1x3xf32>) -> tensor<1x3xf8E4M3FN>\n"
                              "%b = hyc.convert %1 : (tensor<3x1xf32>) -> tensor<3x1xf8E5M2>\n"
                              "%r = hyc.einsum \"ik,kj->ij\" %a, %b : (tensor<1x3xf8E4M3FN>, tensor<3x1xf8E5M2>) -> "
                              "tensor<1x1xf32>",
                              "tensor<1x1xf32>");
  // 1.0625 lies between 1 and 1.125 and goes to the even one, as 1.125 does between 1 and 1.25; 0.3 to 0.3125.
  EXPECT_EQ(run(text, {x, y})[0].getDouble(), 1.0 * 1.0 + 448 * 0.5 + 0.3125 * 57344);
}
