// Descriptions of kernels say what is so: names that resolve, functions that their headers declare, a reference or a
// statement for each kernel, and structs filled with what a call says.
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/KernelCall.h"
#include "kernels/attention/op.h"
#include "kernels/references.h"
#include "mlir/Parser/Parser.h"
#include "test/Places.h"

#include <fstream>
#include <gtest/gtest.h>
#include <regex>
#include <set>
#include <sstream>

using namespace hyc;
using kernels::KernelDescription, kernels::OperandRow, kernels::Role;

namespace {

/// What generated code and the interpreter spell themselves.
const std::set<std::string> kStatements = {"strided_copy", "accumulate", "accumulate_max", "round",
                                           "fill",         "constant",   "poison"};

std::string readSource(const std::string &path) {
  std::ifstream file(hyc::places::inTree(path));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Function and words of a description's text: operands stand in no other place than as words.
std::string functionOf(const std::string &text) {
  std::string head = text.substr(0, text.find('('));
  size_t assigned = head.rfind("= ");
  head = assigned == std::string::npos ? head : head.substr(assigned + 2);
  return head.substr(0, head.find('<'));
}

TEST(KernelDescriptions, NameEachKernelOnce) {
  std::set<std::string> names;
  kernels::forEachKernel([&](const KernelDescription &kernel) {
    EXPECT_TRUE(names.insert(kernel.name).second) << kernel.name << " is described twice";
    EXPECT_EQ(kernels::findKernel(kernel.name), &kernel);
  });
  EXPECT_GT(names.size(), 40u);
}

TEST(KernelDescriptions, NameEachOperandOnceAndOptionalOnesLast) {
  kernels::forEachKernel([&](const KernelDescription &kernel) {
    std::set<std::string> names;
    bool wasOptional = false;
    for (const OperandRow &out : kernel.outs)
      EXPECT_TRUE(!out.name || (names.insert(out.name).second && out.role != Role::kOptional)) << kernel.name;
    for (const OperandRow &in : kernel.ins) {
      if (!in.name)
        continue;
      EXPECT_TRUE(names.insert(in.name).second) << kernel.name << ": " << in.name;
      EXPECT_TRUE(in.role == Role::kPlain || in.role == Role::kOptional) << kernel.name << ": " << in.name;
      EXPECT_TRUE(!wasOptional || in.role == Role::kOptional) << kernel.name << ": " << in.name;
      wasOptional |= in.role == Role::kOptional;
    }
  });
}

TEST(KernelDescriptions, SayByOtherOperandsOfTheirsHowMuchOfOneIsTouched) {
  kernels::forEachKernel([&](const KernelDescription &kernel) {
    auto check = [&](const OperandRow &row) {
      if (row.name && row.touchedAs)
        EXPECT_TRUE(kernel.findOut(row.touchedAs) >= 0 || kernel.findIn(row.touchedAs) >= 0)
            << kernel.name << ": " << row.name << " is touched as " << row.touchedAs;
    };
    for (const OperandRow &out : kernel.outs)
      check(out);
    for (const OperandRow &in : kernel.ins)
      check(in);
  });
}

TEST(KernelDescriptions, CallFunctionsThatTheirHeadersDeclare) {
  kernels::forEachKernel([&](const KernelDescription &kernel) {
    for (const kernels::Function *function : {&kernel.cpu, &kernel.cuda}) {
      if (!function->header)
        continue;
      std::string header = readSource(function->header);
      EXPECT_FALSE(header.empty()) << kernel.name << ": " << function->header << " is missing";
      if (function->text && std::string(function->text).find('(') != std::string::npos) {
        EXPECT_TRUE(std::regex_search(header, std::regex("\\b" + functionOf(function->text) + "\\(")))
            << function->header << " declares no " << functionOf(function->text) << ", which " << kernel.name
            << " calls";
      }
    }
    if (const kernels::TableFunction &function = kernel.cudaTable; function.text) {
      ASSERT_TRUE(kernel.cuda.header && !kernel.cuda.text) << kernel.name;
      std::string header = readSource(kernel.cuda.header);
      EXPECT_TRUE(std::regex_search(header, std::regex("\\b" + functionOf(function.text) + "\\("))) << kernel.name;
      EXPECT_TRUE(std::regex_search(header, std::regex("struct " + std::string(function.rowType) + " ")))
          << kernel.name;
    }
  });
}

TEST(KernelDescriptions, KnowEveryWordOfTheirTexts) {
  const std::set<std::string> asked = {"desc", "mode",       "count",     "elements", "bytes",
                                       "last", "coordinate", "workspace", "table"};
  kernels::forEachKernel([&](const KernelDescription &kernel) {
    const kernels::TableFunction &table = kernel.cudaTable;
    for (const char *words : {kernel.cpu.text, kernel.cuda.text, table.text, table.row, table.roundedCount}) {
      std::string text = words ? words : "";
      std::regex question("#(\\w+)(?:\\(([^)]*)\\))?"), word("\\w+");
      for (std::sregex_iterator i(text.begin(), text.end(), question), end; i != end; ++i) {
        EXPECT_TRUE(asked.count((*i)[1])) << kernel.name << " asks for #" << (*i)[1];
        std::string list = (*i)[2];
        for (std::sregex_iterator j(list.begin(), list.end(), word); j != end; ++j)
          EXPECT_TRUE(kernel.findOut(j->str()) >= 0 || kernel.findIn(j->str()) >= 0)
              << kernel.name << " has no operand " << j->str();
      }
    }
    for (const kernels::Reuse &reuse : kernel.reuses)
      EXPECT_TRUE(!reuse.out || (kernel.findOut(reuse.out) >= 0 && kernel.findIn(reuse.in) >= 0)) << kernel.name;
    for (const char *operand : {table.element, table.shown, table.rounded})
      EXPECT_TRUE(!operand || kernel.findOut(operand) >= 0 || kernel.findIn(operand) >= 0) << kernel.name;
    std::string comment = kernel.comment ? kernel.comment : "";
    std::regex shape("\\{(\\w+)\\}");
    for (std::sregex_iterator i(comment.begin(), comment.end(), shape), end; i != end; ++i)
      EXPECT_TRUE(kernel.findOut((*i)[1].str()) >= 0 || kernel.findIn((*i)[1].str()) >= 0)
          << kernel.name << ": " << (*i)[1];
    for (const kernels::Field &field : kernel.fields)
      EXPECT_TRUE(!field.operand || kernel.findIn(field.operand) >= 0) << kernel.name << ": " << field.operand;
  });
}

TEST(KernelDescriptions, GiveEachKernelAFunctionAndAReference) {
  kernels::forEachKernel([&](const KernelDescription &kernel) {
    bool isStatement = kStatements.count(kernel.name);
    EXPECT_NE(isStatement, kernels::findReference(kernel.name) != nullptr) << kernel.name;
    if (isStatement)
      return;
    EXPECT_TRUE(kernel.cpu.text || std::string(kernel.name) == "increment")
        << kernel.name << " has no function on CPUs";
    EXPECT_TRUE(kernel.cuda.text || kernel.cudaTable.text) << kernel.name << " has no function on GPUs";
  });
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

class KernelCallTest : public testing::Test {
protected:
  KernelCallTest() { context.loadDialect<HycDialect, dist::DistDialect, rank::RankDialect>(); }

  rank::CallOp parse(const std::string &call, const std::vector<std::string> &types) {
    std::string text =
                    "rank.program @p stage 0 slots 1 {\n  rank.arena @a bytes 1000000000\n  rank.func @forward() {\n",
                list;
    for (size_t i = 0; i < types.size(); ++i) {
      text += "    %" + std::to_string(i) + " = rank.at @a 0 : <" + types[i] + ">\n";
      list += (i ? ", !rank.buffer<" : "!rank.buffer<") + types[i] + ">";
    }
    module = mlir::parseSourceString<mlir::ModuleOp>(text + "    " + call + " : " + list + "\n  }\n}\n", &context);
    rank::CallOp found;
    if (module)
      module->walk([&](rank::CallOp op) { found = op; });
    return found;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

TEST_F(KernelCallTest, AnOptionalInputThatWasLeftOutMovesNoOther) {
  std::vector<std::string> types = {"4xf32", "4xf32", "4xf32", "f32", "f32", "i1"};
  std::string numbers = "beta1 = 9.0e-01, beta2 = 9.9e-01, weight_decay = 0.0";
  rank::CallOp op = parse("rank.call \"lion\" %0, %1 = %2, %3, %4, %5 {" + numbers + "}", types);
  ASSERT_TRUE(op);
  KernelCall withPredicate(op);
  EXPECT_FALSE(withPredicate.has("beta1"));
  EXPECT_EQ(withPredicate.find("predicate"), op.getIns()[3]);
  EXPECT_EQ(withPredicate.find("m"), op.getOuts()[1]);

  types[5] = "f64";
  op = parse("rank.call \"lion\" %0, %1 = %2, %3, %4, %5 {cycles, " + numbers + "}", types);
  ASSERT_TRUE(op);
  KernelCall withMomentum(op);
  EXPECT_EQ(withMomentum.find("beta1"), op.getIns()[3]);
  EXPECT_FALSE(withMomentum.has("predicate"));
}

TEST_F(KernelCallTest, OperationsOfAttentionCountProductsAndMasks) {
  std::vector<std::string> types = {"2x8x4x16xf32", "2x4x8xf32", "2x8x4x16xf32", "2x6x2x16xf32", "2x6x2x16xf32"};
  auto operations = [&](const std::string &attributes) {
    KernelCall call(parse("rank.call \"attention\" %0, %1 = %2, %3, %4 {scale = 1.0 : f64" + attributes + "}", types));
    return call.getKernel().operations(call);
  };
  EXPECT_EQ(operations(""), 2 * 2.0 * 2 * 8 * 6 * 4 * 16);
  EXPECT_EQ(operations(", causal"), 2.0 * 2 * 8 * 6 * 4 * 16);
}

TEST_F(KernelCallTest, OperationsOfARepeatAreThoseOfAllItsTurns) {
  module = mlir::parseSourceString<mlir::ModuleOp>(R"(
      rank.program @p stage 0 slots 1 {
        rank.arena @a bytes 4096
        rank.func @forward() {
          %a = rank.at @a 0 : <2x3xf32>
          %b = rank.at @a 512 : <3x4xf32>
          rank.repeat 5 {
            %c = rank.at @a 1024 step 64 : <2x4xf32>
            rank.gemm %c = %a, %b {m = 2 : i64, n = 4 : i64, k = 3 : i64, lda = 3 : i64, ldb = 4 : i64, ldc = 4 : i64}
              : !rank.buffer<2x4xf32>, !rank.buffer<2x3xf32>, !rank.buffer<3x4xf32>
            rank.gemm %c = %a, %b {m = 1 : i64, n = 4 : i64, k = 3 : i64, lda = 3 : i64, ldb = 4 : i64, ldc = 4 : i64}
              : !rank.buffer<2x4xf32>, !rank.buffer<2x3xf32>, !rank.buffer<3x4xf32>
            rank.call "fill" %c = {value = 0.0 : f32} : !rank.buffer<2x4xf32>
          }
        }
      })",
                                                   &context);
  ASSERT_TRUE(module);
  double counted = 0;
  module->walk([&](rank::RepeatOp repeat) { counted += operationsOf(repeat); });
  EXPECT_EQ(counted, 5 * (2.0 * 2 * 4 * 3 + 2.0 * 1 * 4 * 3));
}

} // namespace
