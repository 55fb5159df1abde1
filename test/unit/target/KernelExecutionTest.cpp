// Kernels as emitted: compiled as hyc-compile compiles them, executed at odd sizes, and compared with plain loops in
// f64 that know nothing of kernels. Those for GPUs, compiled for the host (test/emulation), give the bits of the CPU's.
#include "hyc/Analysis/Workspaces.h"
#include "hyc/Target/Cpp.h"
#include "kernels/narrow_float.h"
#include "test/Places.h"

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>

namespace {
const std::string kScratch = hyc::places::inBuild("test/unit/target/kernels");

using hyc::kernels::Bf16;
using Values = std::vector<double>;
/// In and out: every operand by itself. Results hold their old contents, which reductions with `add` keep.
using Reference = std::function<void(const std::vector<Values> &ins, std::vector<Values> &outs)>;

struct Operand {
  char type; ///< f: float, d: double, l: int64_t, h: Bf16, b: boolean
  int64_t count;
};

struct KernelCase {
  std::string name;
  std::string text; ///< all after "rank.kernel @name"
  std::vector<Operand> ins, outs;
  bool combines;
  /// Assigns what is elementwise, adds what is combined.
  Reference reference;
  double tolerance = 2e-6;
  bool isInPlace = false; ///< result 0 lies where input 0 does
  double narrowError = 0; ///< of results on GPUs beside the CPU's; 0: the same bits
};

std::string text(std::initializer_list<const char *> lines) {
  std::string all;
  for (const char *line : lines)
    all += std::string(line) + "\n";
  return all;
}

double geluTanhGrad(double dy, double x) {
  const double k = std::sqrt(2 / M_PI), t = std::tanh(k * (x + 0.044715 * x * x * x));
  return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x));
}

/// A gradient that is also summed over the rows, for a bias.
KernelCase geluGradSum(const std::string &name, int64_t rows, int64_t cols) {
  std::string r = std::to_string(rows), c = std::to_string(cols), dense = "array<i64: " + c + ", 1>";
  return {name,
          "space [" + r + ", " + c + "] reduced [0] strides [" + dense + ", " + dense + ", " + dense +
              ", array<i64: 0, 1>] results [f32, f32] {\n" +
              text({"^bb0(%dy: f32, %x: f32):", "%0 = rank.compute \"gelu_tanh_grad\" %dy, %x : (f32, f32) -> f32",
                    "%1 = rank.combine sum %0 : f32", "rank.yield %0, %1 : f32, f32 }"}),
          {{'f', rows * cols}, {'f', rows * cols}},
          {{'f', rows * cols}, {'f', cols}},
          true,
          [=](const std::vector<Values> &ins, std::vector<Values> &outs) {
            for (int64_t i = 0; i < rows * cols; ++i) {
              outs[0][i] = geluTanhGrad(ins[0][i], ins[1][i]);
              outs[1][i % cols] += outs[0][i];
            }
          },
          2e-6,
          true};
}

double rounded(double x) { return hyc::kernels::roundedTo<Bf16>(static_cast<float>(x)); }

/// A residual's gradient in bf16, kept and summed over all but the last dimension but one.
KernelCase addSum(const std::string &name, int64_t outer, int64_t steps, int64_t inner) {
  std::string o = std::to_string(outer), s = std::to_string(steps), i = std::to_string(inner),
              dense = "array<i64: " + std::to_string(steps * inner) + ", " + i + ", 1>";
  int64_t count = outer * steps * inner;
  return {name,
          "space [" + o + ", " + s + ", " + i + "] reduced [1] strides [" + dense + ", " + dense + ", " + dense +
              ", array<i64: " + i + ", 0, 1>] results [bf16, f32] {\n" +
              text({"^bb0(%x: bf16, %y: bf16):", "%0 = rank.compute \"add\" %x, %y : (bf16, bf16) -> bf16",
                    "%1 = rank.compute \"convert\" %0 : (bf16) -> f32", "%2 = rank.combine sum %1 : f32",
                    "rank.yield %0, %2 : bf16, f32 }"}),
          {{'h', count}, {'h', count}},
          {{'h', count}, {'f', outer * inner}},
          true,
          [=](const std::vector<Values> &ins, std::vector<Values> &outs) {
            for (int64_t j = 0; j < count; ++j) {
              outs[0][j] = rounded(ins[0][j] + ins[1][j]);
              outs[1][j / (steps * inner) * inner + j % inner] += outs[0][j];
            }
          },
          2e-6,
          true};
}

/// In 16 bits, where GPUs walk in packs: long rows and columns, many results.
void addNarrowReductions(std::vector<KernelCase> &cases) {
  cases.push_back(addSum("bf16_columns", 1, 300, 72));
  cases.push_back(addSum("bf16_wide_columns", 1, 2, 524288));
  cases.push_back(addSum("bf16_odd_columns", 2, 260, 37));
  cases.push_back(addSum("bf16_many_outer", 66000, 2, 4)); // more than a grid has room for in y
  cases.push_back({"bf16_long_rows",
                   text({"space [3, 40000] reduced [1] strides [array<i64: 40000, 1>, array<i64: 40000, 1>,",
                         "array<i64: 1, 0>, array<i64: 1, 0>] results [bf16, f32, f32] {",
                         "^bb0(%x: bf16):", "%0 = rank.compute \"mul\" %x, %x : (bf16, bf16) -> bf16",
                         "%1 = rank.compute \"convert\" %0 : (bf16) -> f32", "%2 = rank.combine sum %1 : f32",
                         "%3 = rank.combine max %1 : f32", "rank.yield %0, %2, %3 : bf16, f32, f32 }"}),
                   {{'h', 120000}},
                   {{'h', 120000}, {'f', 3}, {'f', 3}},
                   true,
                   [](const std::vector<Values> &ins, std::vector<Values> &outs) {
                     for (int64_t i = 0; i < 3; ++i) {
                       double largest = 0;
                       for (int64_t j = i * 40000; j < (i + 1) * 40000; ++j) {
                         outs[0][j] = rounded(ins[0][j] * ins[0][j]);
                         outs[1][i] += outs[0][j];
                         largest = std::max(largest, outs[0][j]);
                       }
                       outs[2][i] += largest;
                     }
                   }});
  cases.push_back({"many_products",
                   text({"space [300, 8] reduced [0] strides [array<i64: 8, 1>, array<i64: 0, 1>] results [f64] {",
                         "^bb0(%x: f64):", "%0 = rank.combine prod %x : f64", "rank.yield %0 : f64 }"}),
                   {{'d', 2400}},
                   {{'d', 8}},
                   true,
                   [](const std::vector<Values> &ins, std::vector<Values> &outs) {
                     for (int64_t c = 0; c < 8; ++c) {
                       double product = 1;
                       for (int64_t i = c; i < 2400; i += 8)
                         product *= ins[0][i];
                       outs[0][c] += product;
                     }
                   }});
}

/// In 16 bits without a sum: what is broadcast, indices, functions that are approximated, rows that lie apart.
void addNarrowElementwise(std::vector<KernelCase> &cases) {
  // A bias along the last dimension, a factor along the first two, and the index.
  cases.push_back(
      {"bf16_broadcast",
       text({"space [5, 7, 24] strides [array<i64: 168, 24, 1>, array<i64: 0, 0, 1>, array<i64: 7, 1, 0>,",
             "array<i64: 168, 24, 1>, array<i64: 168, 24, 1>] results [bf16, f32] {",
             "^bb0(%x: bf16, %b: bf16, %s: f32):", "%0 = rank.compute \"add\" %x, %b : (bf16, bf16) -> bf16",
             "%1 = rank.compute \"convert\" %0 : (bf16) -> f32", "%2 = rank.compute \"mul\" %1, %s : (f32, f32) -> f32",
             "%3 = rank.index 2 : i64", "%4 = rank.compute \"convert\" %3 : (i64) -> f32",
             "%5 = rank.compute \"mul\" %2, %4 : (f32, f32) -> f32", "rank.yield %0, %5 : bf16, f32 }"}),
       {{'h', 840}, {'h', 24}, {'f', 35}},
       {{'h', 840}, {'f', 840}},
       false,
       [](const std::vector<Values> &ins, std::vector<Values> &outs) {
         for (int64_t i = 0; i < 840; ++i) {
           outs[0][i] = rounded(ins[0][i] + ins[1][i % 24]);
           outs[1][i] = outs[0][i] * ins[2][i / 24] * static_cast<double>(i % 24);
         }
       }});
  // Functions that GPUs approximate where the result has 16 bits: at most the number beside it, of results up to 2.
  KernelCase functions{
      "bf16_functions",
      text({"space [4096] strides [array<i64: 1>, array<i64: 1>, array<i64: 1>, array<i64: 1>, array<i64: 1>]",
            "results [bf16, bf16, bf16] {", "^bb0(%x: bf16, %y: bf16):", "%ten = rank.literal 8.0 : bf16",
            "%z = rank.compute \"mul\" %x, %ten : (bf16, bf16) -> bf16",
            "%0 = rank.compute \"gelu_tanh\" %z : (bf16) -> bf16",
            "%1 = rank.compute \"gelu_tanh_grad\" %y, %z : (bf16, bf16) -> bf16",
            "%2 = rank.compute \"sigmoid\" %z : (bf16) -> bf16", "rank.yield %0, %1, %2 : bf16, bf16, bf16 }"}),
      {{'h', 4096}, {'h', 4096}},
      {{'h', 4096}, {'h', 4096}, {'h', 4096}},
      false,
      [](const std::vector<Values> &ins, std::vector<Values> &outs) {
        for (int64_t i = 0; i < 4096; ++i) {
          const double x = 8 * ins[0][i];
          outs[0][i] = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
          outs[1][i] = geluTanhGrad(ins[1][i], x);
          outs[2][i] = 1 / (1 + std::exp(-x));
        }
      },
      0x1p-8};
  functions.narrowError = 0x1p-7;
  cases.push_back(functions);
  // Rows that lie apart, and a last dimension that is no multiple of the largest pack.
  cases.push_back({"bf16_strided",
                   text({"space [9, 12] strides [array<i64: 20, 1>, array<i64: 12, 1>] results [bf16] {",
                         "^bb0(%x: bf16):", "%0 = rank.compute \"neg\" %x : (bf16) -> bf16", "rank.yield %0 : bf16 }"}),
                   {{'h', 180}},
                   {{'h', 108}},
                   false,
                   [](const std::vector<Values> &ins, std::vector<Values> &outs) {
                     for (int64_t i = 0; i < 108; ++i)
                       outs[0][i] = -ins[0][i / 12 * 20 + i % 12];
                   }});
}

/// Rows, a middle dimension, and everything.
void addReductions(std::vector<KernelCase> &cases) {
  // The numerator and denominator of a softmax, with the maximum subtracted, and the largest beside them.
  cases.push_back({"rows",
                   text({"space [37, 1003] reduced [1] strides [array<i64: 1003, 1>, array<i64: 1, 0>,",
                         "array<i64: 1003, 1>, array<i64: 1, 0>, array<i64: 1, 0>] results [f32, f32, f32] {",
                         "^bb0(%x: f32, %m: f32):", "%0 = rank.compute \"sub\" %x, %m : (f32, f32) -> f32",
                         "%1 = rank.compute \"exp\" %0 : (f32) -> f32", "%2 = rank.combine sum %1 : f32",
                         "%3 = rank.combine max %1 : f32", "rank.yield %1, %2, %3 : f32, f32, f32 }"}),
                   {{'f', 37 * 1003}, {'f', 37}},
                   {{'f', 37 * 1003}, {'f', 37}, {'f', 37}},
                   true,
                   [](const std::vector<Values> &ins, std::vector<Values> &outs) {
                     for (int64_t i = 0; i < 37; ++i) {
                       double largest = 0;
                       for (int64_t j = 0; j < 1003; ++j) {
                         double value = std::exp(ins[0][i * 1003 + j] - ins[1][i]);
                         outs[0][i * 1003 + j] = value;
                         outs[1][i] += value;
                         largest = std::max(largest, value);
                       }
                       outs[2][i] += largest;
                     }
                   }});
  cases.push_back(
      {"everything",
       text({"space [100003] reduced [0] strides [array<i64: 1>, array<i64: 0>] results [f32] {",
             "^bb0(%x: f32):", "%0 = rank.compute \"mul\" %x, %x : (f32, f32) -> f32", "%1 = rank.combine sum %0 : f32",
             "%2 = rank.compute \"sqrt\" %1 : (f32) -> f32", "rank.yield %2 : f32 }"}),
       {{'f', 100003}},
       {{'f', 1}},
       true,
       [](const std::vector<Values> &ins, std::vector<Values> &outs) {
         double sum = 0;
         for (double x : ins[0])
           sum += x * x;
         outs[0][0] += std::sqrt(sum);
       }});
  cases.push_back(
      {"middle",
       text({"space [5, 301, 67] reduced [1] strides [array<i64: 20167, 67, 1>, array<i64: 67, 0, 1>]",
             "results [f32] {", "^bb0(%x: f32):", "%0 = rank.combine sum %x : f32", "rank.yield %0 : f32 }"}),
       {{'f', 5 * 301 * 67}},
       {{'f', 5 * 67}},
       true,
       [](const std::vector<Values> &ins, std::vector<Values> &outs) {
         for (int64_t i = 0; i < 5 * 301 * 67; ++i)
           outs[0][i / (301 * 67) * 67 + i % 67] += ins[0][i];
       }});
}

/// Spaces that are neither rows nor columns as they stand.
void addUnusualSpaces(std::vector<KernelCase> &cases) {
  // Kept and reduced dimensions by turns, an input whose dimensions are exchanged, and a mean.
  cases.push_back({"alternating",
                   text({"space [6, 5, 3, 41] reduced [1, 3] strides [array<i64: 615, 41, 205, 1>,",
                         "array<i64: 0, 0, 1, 0>, array<i64: 3, 0, 1, 0>] results [f64] {",
                         "^bb0(%x: f64, %s: f64):", "%0 = rank.combine sum %x : f64",
                         "%1 = rank.compute \"mul\" %0, %s : (f64, f64) -> f64", "rank.yield %1 : f64 }"}),
                   {{'d', 6 * 5 * 3 * 41}, {'d', 3}},
                   {{'d', 18}},
                   true,
                   [](const std::vector<Values> &ins, std::vector<Values> &outs) {
                     for (int64_t a = 0; a < 6; ++a)
                       for (int64_t c = 0; c < 3; ++c)
                         for (int64_t b = 0; b < 5; ++b)
                           for (int64_t d = 0; d < 41; ++d)
                             outs[0][a * 3 + c] += ins[0][a * 615 + b * 41 + c * 205 + d] * ins[1][c];
                   },
                   1e-14});
  // Small images, by channel: the places of one are a row, also where one operand's lie in a larger image.
  cases.push_back({"planes",
                   text({"space [3, 5, 9, 13] reduced [0, 2, 3] strides [array<i64: 585, 117, 13, 1>,",
                         "array<i64: 825, 165, 15, 1>, array<i64: 585, 117, 13, 1>, array<i64: 0, 1, 0, 0>,",
                         "array<i64: 0, 1, 0, 0>] results [f32, f32, f32] {", "^bb0(%x: f32, %y: f32):",
                         "%0 = rank.compute \"mul\" %x, %y : (f32, f32) -> f32", "%1 = rank.combine sum %0 : f32",
                         "%2 = rank.combine max %y : f32", "rank.yield %0, %1, %2 : f32, f32, f32 }"}),
                   {{'f', 3 * 585}, {'f', 3 * 825}},
                   {{'f', 3 * 585}, {'f', 5}, {'f', 5}},
                   true,
                   [](const std::vector<Values> &ins, std::vector<Values> &outs) {
                     Values largest(5, -2);
                     for (int64_t i = 0; i < 3 * 585; ++i) {
                       const int64_t image = i / 117, channel = image % 5;
                       const double y = ins[1][image * 165 + i % 117 / 13 * 15 + i % 13];
                       outs[0][i] = ins[0][i] * y;
                       outs[1][channel] += outs[0][i];
                       largest[channel] = std::max(largest[channel], y);
                     }
                     for (int64_t c = 0; c < 5; ++c)
                       outs[2][c] += largest[c];
                   }});
  cases.push_back({"short_rows",
                   text({"space [5001, 7] reduced [1] strides [array<i64: 7, 1>, array<i64: 1, 0>] results [i64] {",
                         "^bb0(%x: i64):", "%0 = rank.combine min %x : i64", "rank.yield %0 : i64 }"}),
                   {{'l', 5001 * 7}},
                   {{'l', 5001}},
                   true,
                   [](const std::vector<Values> &ins, std::vector<Values> &outs) {
                     for (int64_t i = 0; i < 5001; ++i)
                       outs[0][i] += *std::min_element(ins[0].begin() + i * 7, ins[0].begin() + i * 7 + 7);
                   },
                   0});
}

/// Booleans that are kept, of enough elements for a team.
void addComparisons(std::vector<KernelCase> &cases) {
  cases.push_back(
      {"comparisons",
       text({"space [211, 203] strides [array<i64: 203, 1>, array<i64: 0, 1>, array<i64: 203, 1>,",
             "array<i64: 203, 1>] results [i1, f32] {",
             "^bb0(%x: f32, %y: f32):", "%0 = rank.compute \"compare_le\" %x, %y : (f32, f32) -> i1",
             "%1 = rank.compute \"select\" %0, %y, %x : (i1, f32, f32) -> f32", "rank.yield %0, %1 : i1, f32 }"}),
       {{'f', 211 * 203}, {'f', 203}},
       {{'b', 211 * 203}, {'f', 211 * 203}},
       false,
       [](const std::vector<Values> &ins, std::vector<Values> &outs) {
         for (int64_t i = 0; i < 211 * 203; ++i) {
           outs[0][i] = ins[0][i] <= ins[1][i % 203];
           outs[1][i] = std::max(ins[0][i], ins[1][i % 203]);
         }
       },
       0});
}

/// What an element's index does to it.
void addIndexed(std::vector<KernelCase> &cases) {
  cases.push_back({"by_index",
                   text({"space [50, 70] reduced [0] strides [array<i64: 70, 1>, array<i64: 0, 1>] results [f32] {",
                         "^bb0(%x: f32):", "%0 = rank.index 0 : i64", "%1 = rank.compute \"convert\" %0 : (i64) -> f32",
                         "%2 = rank.compute \"mul\" %x, %1 : (f32, f32) -> f32", "%3 = rank.combine sum %2 : f32",
                         "rank.yield %3 : f32 }"}),
                   {{'f', 3500}},
                   {{'f', 70}},
                   true,
                   [](const std::vector<Values> &ins, std::vector<Values> &outs) {
                     for (int64_t i = 0; i < 3500; ++i)
                       outs[0][i % 70] += ins[0][i] * static_cast<double>(i / 70);
                   }});
  // Dimensions of size 1 are what an index keeps from being left out: these are rows all the same.
  cases.push_back(
      {"size_one_dimensions",
       text({"space [1, 9, 45, 1] reduced [0, 2] strides [array<i64: 405, 45, 1, 1>,",
             "array<i64: 0, 1, 0, 1>] results [f32] {", "^bb0(%x: f32):", "%0 = rank.index 3 : i64",
             "%1 = rank.compute \"convert\" %0 : (i64) -> f32", "%2 = rank.compute \"add\" %x, %1 : (f32, f32) -> f32",
             "%3 = rank.combine sum %2 : f32", "rank.yield %3 : f32 }"}),
       {{'f', 405}},
       {{'f', 9}},
       true,
       [](const std::vector<Values> &ins, std::vector<Values> &outs) {
         for (int64_t i = 0; i < 405; ++i)
           outs[0][i / 45] += ins[0][i];
       }});
}

/// Numbers that no integer holds, and square roots of negative ones, which are none.
void addTruncations(std::vector<KernelCase> &cases) {
  constexpr double kMost32 = 2147483647, kMost64 = 9223372036854775808.0;
  cases.push_back(
      {"truncations",
       text({"space [999] strides [array<i64: 1>, array<i64: 1>, array<i64: 1>, array<i64: 1>]",
             "results [i64, i64, i64] {", "^bb0(%x: f32):", "%l = rank.literal 1.0e+30 : f32",
             "%y = rank.compute \"mul\" %x, %l : (f32, f32) -> f32", "%r = rank.compute \"sqrt\" %y : (f32) -> f32",
             "%0 = rank.compute \"convert\" %y : (f32) -> i32", "%1 = rank.compute \"convert\" %0 : (i32) -> i64",
             "%2 = rank.compute \"convert\" %y : (f32) -> i64", "%3 = rank.compute \"convert\" %r : (f32) -> i64",
             "rank.yield %1, %2, %3 : i64, i64, i64 }"}),
       {{'f', 999}},
       {{'l', 999}, {'l', 999}, {'l', 999}},
       false,
       [=](const std::vector<Values> &ins, std::vector<Values> &outs) {
         for (int64_t i = 0; i < 999; ++i) {
           double x = ins[0][i];
           outs[0][i] = x > 0 ? kMost32 : -kMost32 - 1;
           outs[1][i] = x > 0 ? kMost64 : -kMost64;
           outs[2][i] = x > 0 ? std::floor(std::sqrt(static_cast<float>(x) * 1e30f)) : 0;
         }
       },
       1e-6});
}

std::vector<KernelCase> allCases() {
  std::vector<KernelCase> cases{geluGradSum("columns_of_one_block", 77, 131),
                                geluGradSum("columns_of_blocks", 1001, 131), geluGradSum("one_column", 5000, 1),
                                geluGradSum("wide_columns", 3, 40001)};
  addReductions(cases);
  addUnusualSpaces(cases);
  addIndexed(cases);
  cases.push_back({"elementwise",
                   text({"space [999] strides [array<i64: 1>, array<i64: 1>] results [f32] {", "^bb0(%x: f32):",
                         "%0 = rank.compute \"gelu_tanh_grad\" %x, %x : (f32, f32) -> f32", "rank.yield %0 : f32 }"}),
                   {{'f', 999}},
                   {{'f', 999}},
                   false,
                   [](const std::vector<Values> &ins, std::vector<Values> &outs) {
                     for (int64_t i = 0; i < 999; ++i)
                       outs[0][i] = geluTanhGrad(ins[0][i], ins[0][i]);
                   }});
  addNarrowReductions(cases);
  addNarrowElementwise(cases);
  addTruncations(cases);
  addComparisons(cases);
  return cases;
}

std::string typeName(char type) {
  return type == 'f'   ? "float"
         : type == 'd' ? "double"
         : type == 'h' ? "hyc::kernels::Bf16"
         : type == 'b' ? "uint8_t"
                       : "int64_t";
}
int64_t bytesOf(char type) { return type == 'f' ? 4 : type == 'h' ? 2 : type == 'b' ? 1 : 8; }

/// The bytes of an operand, and the values that they hold.
struct Buffer {
  explicit Buffer(Operand operand) : operand(operand), bytes(operand.count * bytesOf(operand.type)) {}

  void set(int64_t i, double value) {
    if (operand.type == 'f')
      reinterpret_cast<float *>(bytes.data())[i] = static_cast<float>(value);
    else if (operand.type == 'd')
      reinterpret_cast<double *>(bytes.data())[i] = value;
    else if (operand.type == 'h')
      reinterpret_cast<Bf16 *>(bytes.data())[i] = static_cast<float>(value);
    else if (operand.type == 'b')
      bytes[i] = value > 0;
    else
      reinterpret_cast<int64_t *>(bytes.data())[i] = static_cast<int64_t>(value * 1000);
  }
  double get(int64_t i) const {
    return operand.type == 'f'   ? reinterpret_cast<const float *>(bytes.data())[i]
           : operand.type == 'd' ? reinterpret_cast<const double *>(bytes.data())[i]
           : operand.type == 'h' ? reinterpret_cast<const Bf16 *>(bytes.data())[i]
           : operand.type == 'b' ? bytes[i]
                                 : static_cast<double>(reinterpret_cast<const int64_t *>(bytes.data())[i]);
  }
  Values values() const {
    Values all;
    for (int64_t i = 0; i < operand.count; ++i)
      all.push_back(get(i));
    return all;
  }
  void randomize(std::mt19937 &generator) {
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (int64_t i = 0; i < operand.count; ++i)
      set(i, uniform(generator));
  }

  Operand operand;
  std::vector<char> bytes;
};

/// All cases as two shared libraries: for CPUs, and for GPUs as the host runs them.
class KernelExecution : public testing::TestWithParam<KernelCase> {
protected:
  static void SetUpTestSuite() {
    std::filesystem::remove_all(kScratch);
    mlir::MLIRContext context;
    context.loadDialect<hyc::HycDialect, hyc::dist::DistDialect, hyc::rank::RankDialect>();
    std::string text = "dist.mesh @mesh axes [\"dp\"] sizes [1] stages 1 batch <{dp}>\n";
    for (const KernelCase &test : allCases())
      text += "rank.kernel @" + test.name + " " + test.text;
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    ASSERT_TRUE(module) << text;
    for (auto kernel : module->getOps<hyc::rank::KernelOp>())
      workspaces[kernel.getSymName().str()] = hyc::cudaKernelWorkspaceBytes(kernel);
    const std::string warnings = " -Wall -Werror -Wno-unknown-pragmas";
    build(*module, {}, "cpu", "kernels.cpp",
          " -O3 -march=native -fopenmp -fno-math-errno -fno-trapping-math" + warnings);
    build(*module, {"model", 0, {90}}, "gpu", "-x c++ kernels.cu",
          " -O2 -I" + hyc::places::inTree("test/emulation/include") + " -w");
  }

  /// callers.cpp does what a program does with a kernel: one call with its operands in order.
  static void build(mlir::ModuleOp module, const hyc::CppOptions &options, const std::string &target,
                    const std::string &source, const std::string &flags) {
    const bool onGpu = target == "gpu";
    std::string callers = "#include <omp.h>\n#include \"kernels.h\"\n" +
                          std::string(onGpu ? "#include <cuda_runtime.h>\n" : "") +
                          "extern \"C\" void setThreads(int count) { omp_set_num_threads(count); }\n";
    for (const KernelCase &test : allCases()) {
      std::string arguments = onGpu ? "nullptr, " : "";
      for (size_t i = 0; i < test.ins.size(); ++i)
        arguments += "(const " + typeName(test.ins[i].type) + "*)ins[" + std::to_string(i) + "], ";
      for (size_t i = 0; i < test.outs.size(); ++i)
        arguments += (i ? ", (" : "(") + typeName(test.outs[i].type) + "*)outs[" + std::to_string(i) + "]";
      if (test.combines)
        arguments += ", add ? kernels::WriteMode::kAccumulate : kernels::WriteMode::kOverwrite";
      if (onGpu && workspaces[test.name] > 0)
        arguments += ", workspace";
      callers += "extern \"C\" void call_" + test.name +
                 "(void** ins, void** outs, bool add, void* workspace) { kernels::" + test.name + "(" + arguments +
                 ");" + (onGpu ? " cudaDeviceSynchronize();" : "") + " }\n";
    }
    std::map<std::string, std::string> files;
    ASSERT_TRUE(succeeded(hyc::emitPrograms(module, options, files)));
    files["callers.cpp"] = callers;
    const std::string folder = kScratch + "/" + target;
    std::filesystem::create_directories(folder);
    for (const auto &[name, content] : files)
      std::ofstream(folder + "/" + name) << content;
    std::string command = "cd " + folder + " && " + hyc::places::compiler() + " -std=c++20 -ffp-contract=off" + flags +
                          " -shared -fPIC -I" + hyc::places::inTree("") + " callers.cpp " + source + " -o kernels.so";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    libraries[onGpu] = dlopen((folder + "/kernels.so").c_str(), RTLD_NOW);
    ASSERT_TRUE(libraries[onGpu]) << dlerror();
  }

  template <typename Function> static Function *find(const std::string &name, bool onGpu = false) {
    return reinterpret_cast<Function *>(dlsym(libraries[onGpu], name.c_str()));
  }

  static void *libraries[2];
  static std::map<std::string, int64_t> workspaces;
};
void *KernelExecution::libraries[2] = {};
std::map<std::string, int64_t> KernelExecution::workspaces;

using Call = void(void **, void **, bool, void *);

TEST_P(KernelExecution, GivesWhatPlainLoopsGiveAtAnyNumberOfThreads) {
  const KernelCase &test = GetParam();
  auto *call = find<Call>("call_" + test.name);
  auto *setThreads = find<void(int)>("setThreads");
  ASSERT_TRUE(call && setThreads);
  for (bool adds : {false, true}) {
    std::vector<std::vector<char>> firstBits;
    for (int threads : {1, 2, 3}) {
      setThreads(threads);
      std::mt19937 generator(7);
      std::vector<Buffer> ins(test.ins.begin(), test.ins.end()), outs(test.outs.begin(), test.outs.end());
      std::vector<Values> given, expected;
      for (Buffer &in : ins) {
        in.randomize(generator);
        given.push_back(in.values());
      }
      for (Buffer &out : outs) {
        out.randomize(generator);
        expected.push_back(adds ? out.values() : Values(out.operand.count));
      }
      std::vector<void *> inPointers, outPointers;
      for (Buffer &in : ins)
        inPointers.push_back(in.bytes.data());
      for (Buffer &out : outs)
        outPointers.push_back(out.bytes.data());
      if (test.isInPlace)
        outPointers[0] = inPointers[0];
      call(inPointers.data(), outPointers.data(), adds, nullptr);
      if (test.isInPlace)
        outs[0] = ins[0];
      test.reference(given, expected);
      for (size_t i = 0; i < outs.size(); ++i) {
        Values actual = outs[i].values();
        double error = 0, largest = 1;
        for (size_t j = 0; j < actual.size(); ++j) {
          double difference = std::fabs(actual[j] - expected[i][j]);
          error = difference <= error ? error : std::isnan(difference) ? INFINITY : difference;
          largest = std::max(largest, std::fabs(expected[i][j]));
        }
        EXPECT_LE(error / largest, test.tolerance) << "result " << i << ", add " << adds << ", " << threads;
        if (threads == 1)
          firstBits.push_back(outs[i].bytes);
        else
          EXPECT_TRUE(firstBits[i] == outs[i].bytes) << threads << " threads differ from one in result " << i;
      }
    }
  }
}

/// What one call leaves in the results, whose operands begin `shift` elements after addresses that packs may have.
std::vector<std::vector<char>> resultBits(const KernelCase &test, Call *call, bool adds, void *workspace,
                                          int64_t shift) {
  std::mt19937 generator(11);
  std::vector<std::vector<double>> storage; // aligned enough once moved to a multiple of 16
  std::vector<char *> places;
  std::vector<Operand> operands(test.ins);
  operands.insert(operands.end(), test.outs.begin(), test.outs.end());
  for (const Operand &operand : operands) {
    Buffer values(operand);
    values.randomize(generator);
    storage.emplace_back(values.bytes.size() / 8 + 8);
    uintptr_t address = (reinterpret_cast<uintptr_t>(storage.back().data()) + 15) & ~uintptr_t{15};
    places.push_back(reinterpret_cast<char *>(address) + shift * bytesOf(operand.type));
    std::memcpy(places.back(), values.bytes.data(), values.bytes.size());
  }
  std::vector<void *> ins(places.begin(), places.begin() + static_cast<int64_t>(test.ins.size())),
      outs(places.begin() + static_cast<int64_t>(test.ins.size()), places.end());
  if (test.isInPlace)
    outs[0] = ins[0];
  call(ins.data(), outs.data(), adds, workspace);
  std::vector<std::vector<char>> results;
  for (size_t i = 0; i < outs.size(); ++i) {
    const char *begin = static_cast<const char *>(outs[i]);
    results.emplace_back(begin, begin + test.outs[i].count * bytesOf(test.outs[i].type));
  }
  return results;
}

/// Results of 16 bits at most one number apart, or as far as cancelling terms of about 1 leave them.
void expectClose(const KernelCase &test, const std::vector<std::vector<char>> &got,
                 const std::vector<std::vector<char>> &want) {
  for (size_t i = 0; i < want.size(); ++i) {
    Buffer a(test.outs[i]), b(test.outs[i]);
    a.bytes = got[i], b.bytes = want[i];
    for (int64_t j = 0; j < test.outs[i].count; ++j)
      ASSERT_NEAR(a.get(j), b.get(j), test.narrowError * std::fabs(b.get(j)) + 0x1p-15) << "result " << i;
  }
}

TEST_P(KernelExecution, GivesTheSameBitsOnGpusInPacksAndByElements) {
  const KernelCase &test = GetParam();
  auto *onCpu = find<Call>("call_" + test.name), *onGpu = find<Call>("call_" + test.name, true);
  ASSERT_TRUE(onCpu && onGpu);
  const size_t bytes = static_cast<size_t>(workspaces[test.name]);
  for (bool adds : {false, true}) {
    const auto want = resultBits(test, onCpu, adds, nullptr, 0);
    for (int64_t shift : {0, 1})
      for (bool isPlanned : {true, false}) {
        std::vector<char> workspace(bytes + 64, '\xff'), beyond(64, '\xff');
        const auto got = resultBits(test, onGpu, adds, isPlanned ? workspace.data() : nullptr, shift);
        if (test.narrowError > 0)
          expectClose(test, got, want);
        else
          EXPECT_EQ(got, want) << "add " << adds << ", shift " << shift << ", workspace " << isPlanned;
        EXPECT_TRUE(std::equal(beyond.begin(), beyond.end(), workspace.begin() + static_cast<int64_t>(bytes)));
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, KernelExecution, testing::ValuesIn(allCases()),
                         [](const testing::TestParamInfo<KernelCase> &info) { return info.param.name; });

} // namespace
