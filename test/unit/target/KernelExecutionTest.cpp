// Kernels as emitted: compiled as hyc-compile compiles them, executed at odd sizes, and compared with plain loops in
// f64 that know nothing of kernels.
#include "hyc/Target/Cpp.h"

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
#include <random>

namespace {

using Values = std::vector<double>;
/// In and out: every operand by itself. Results hold their old contents, which reductions with `add` keep.
using Reference = std::function<void(const std::vector<Values> &ins, std::vector<Values> &outs)>;

struct Operand {
  char type; ///< f: float, d: double, l: int64_t
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

std::vector<KernelCase> allCases() {
  std::vector<KernelCase> cases{geluGradSum("columns_of_one_block", 77, 131),
                                geluGradSum("columns_of_blocks", 1001, 131), geluGradSum("one_column", 5000, 1),
                                geluGradSum("wide_columns", 3, 40001)};
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
  return cases;
}

std::string typeName(char type) { return type == 'f' ? "float" : type == 'd' ? "double" : "int64_t"; }

/// The bytes of an operand, and the values that they hold.
struct Buffer {
  explicit Buffer(Operand operand) : operand(operand), bytes(operand.count * (operand.type == 'f' ? 4 : 8)) {}

  void set(int64_t i, double value) {
    if (operand.type == 'f')
      reinterpret_cast<float *>(bytes.data())[i] = static_cast<float>(value);
    else if (operand.type == 'd')
      reinterpret_cast<double *>(bytes.data())[i] = value;
    else
      reinterpret_cast<int64_t *>(bytes.data())[i] = static_cast<int64_t>(value * 1000);
  }
  double get(int64_t i) const {
    return operand.type == 'f'   ? reinterpret_cast<const float *>(bytes.data())[i]
           : operand.type == 'd' ? reinterpret_cast<const double *>(bytes.data())[i]
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

/// All cases as one shared library.
class KernelExecution : public testing::TestWithParam<KernelCase> {
protected:
  static void SetUpTestSuite() {
    std::filesystem::remove_all(HYC_TEST_SCRATCH);
    std::filesystem::create_directories(HYC_TEST_SCRATCH);
    mlir::MLIRContext context;
    context.loadDialect<hyc::HycDialect, hyc::dist::DistDialect, hyc::rank::RankDialect>();
    std::string module = "dist.mesh @mesh axes [\"dp\"] sizes [1] stages 1\n";
    // What a program does with a kernel: one call with its operands in order.
    std::string callers = "#include <omp.h>\n#include \"kernels.h\"\n"
                          "extern \"C\" void setThreads(int count) { omp_set_num_threads(count); }\n";
    for (const KernelCase &test : allCases()) {
      module += "rank.kernel @" + test.name + " " + test.text;
      std::string arguments;
      for (size_t i = 0; i < test.ins.size(); ++i)
        arguments += "(const " + typeName(test.ins[i].type) + "*)ins[" + std::to_string(i) + "], ";
      for (size_t i = 0; i < test.outs.size(); ++i)
        arguments += (i ? ", (" : "(") + typeName(test.outs[i].type) + "*)outs[" + std::to_string(i) + "]";
      if (test.combines)
        arguments += ", add ? kernels::WriteMode::kAccumulate : kernels::WriteMode::kOverwrite";
      callers += "extern \"C\" void call_" + test.name + "(void** ins, void** outs, bool add) { kernels::" + test.name +
                 "(" + arguments + "); }\n";
    }
    mlir::OwningOpRef<mlir::ModuleOp> parsed = mlir::parseSourceString<mlir::ModuleOp>(module, &context);
    std::map<std::string, std::string> files;
    ASSERT_TRUE(parsed && succeeded(hyc::emitPrograms(*parsed, {}, files))) << module;
    files["callers.cpp"] = callers;
    const std::string folder = HYC_TEST_SCRATCH;
    for (const auto &[name, content] : files)
      std::ofstream(folder + "/" + name) << content;
    std::string command = std::string(HYC_TEST_CXX) + " -std=c++20 -O3 -march=native -ffp-contract=off -fopenmp" +
                          " -fno-math-errno -fno-trapping-math -Wall -Werror -Wno-unknown-pragmas -shared -fPIC -I" +
                          HYC_TEST_SOURCE_DIR + " " + folder + "/kernels.cpp " + folder + "/callers.cpp -o " + folder +
                          "/kernels.so";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    library = dlopen((folder + "/kernels.so").c_str(), RTLD_NOW);
    ASSERT_TRUE(library) << dlerror();
  }

  template <typename Function> static Function *find(const std::string &name) {
    return reinterpret_cast<Function *>(dlsym(library, name.c_str()));
  }

  static void *library;
};
void *KernelExecution::library = nullptr;

TEST_P(KernelExecution, GivesWhatPlainLoopsGiveAtAnyNumberOfThreads) {
  const KernelCase &test = GetParam();
  auto *call = find<void(void **, void **, bool)>("call_" + test.name);
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
      call(inPointers.data(), outPointers.data(), adds);
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

INSTANTIATE_TEST_SUITE_P(Kernels, KernelExecution, testing::ValuesIn(allCases()),
                         [](const testing::TestParamInfo<KernelCase> &info) { return info.param.name; });

} // namespace
