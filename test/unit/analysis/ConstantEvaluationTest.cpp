// Constants of a model are evaluated as numpy has them, and as the model does when it runs.
#include "hyc/Analysis/ConstantEvaluation.h"
#include "dialects/Hyc/HycDialect.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;
using namespace hyc;

namespace {
/// What a function of no arguments returns.
std::optional<HostTensor> evaluate(MLIRContext &context, const std::string &body, const std::string &type) {
  context.loadDialect<HycDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(
      "hyc.func @f() -> " + type + " {\n" + body + "\nhyc.return %r : " + type + "\n}", &context);
  EXPECT_TRUE(module);
  if (!module)
    return std::nullopt;
  FuncOp function = *module->getOps<FuncOp>().begin();
  return ConstantEvaluator().evaluate(function.getBody().front().getTerminator()->getOperand(0));
}

TEST(ConstantEvaluation, ExtremaOfWhatIsNoNumberAreNone) {
  for (const char *op : {"max", "min"}) {
    MLIRContext context;
    std::optional<HostTensor> result = evaluate(context,
                                                "%a = hyc.constant dense<[0x7FC00000, 1.0, 2.0]> : tensor<3xf32>\n"
                                                "%b = hyc.constant dense<[1.0, 0x7FC00000, 3.0]> : tensor<3xf32>\n"
                                                "%r = hyc." +
                                                    std::string(op) + " %a, %b : tensor<3xf32>",
                                                "tensor<3xf32>");
    ASSERT_TRUE(result);
    EXPECT_TRUE(std::isnan(result->atFlat(0).real)) << op;
    EXPECT_TRUE(std::isnan(result->atFlat(1).real)) << op;
    EXPECT_EQ(result->atFlat(2).real, op == std::string("max") ? 3 : 2);
  }
}

TEST(ConstantEvaluation, IntegersAreDividedTowardsZeroAndWrapAround) {
  auto divided = [](const std::string &op, const std::string &divisors) {
    MLIRContext context;
    std::optional<HostTensor> result =
        evaluate(context,
                 "%a = hyc.constant dense<[-7, 7, -9223372036854775808]> : tensor<3xi64>\n"
                 "%b = hyc.constant dense<" +
                     divisors + "> : tensor<3xi64>\n%r = hyc." + op + " %a, %b : tensor<3xi64>",
                 "tensor<3xi64>");
    return result ? result->toIntegers() : llvm::SmallVector<int64_t>();
  };
  EXPECT_EQ(divided("div", "[2, -2, -1]"), (llvm::SmallVector<int64_t>{-3, -3, INT64_MIN}));
  EXPECT_EQ(divided("rem", "[2, -2, -1]"), (llvm::SmallVector<int64_t>{-1, 1, 0}));
  EXPECT_TRUE(divided("div", "[2, 0, 1]").empty());
}
} // namespace
