// Every op's gradient against central differences in f64, and every decomposition against its op, by the interpreter.
#include "GradientCases.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Interpreter/Interpreter.h"
#include "hyc/Transforms/Train/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>

using namespace mlir;
using hyc::interpreter::Interpreter;
using hyc::interpreter::Tensor;

namespace {

/// Distinct values spread over [low, high], the same in every run, in no order: gradients of max need them apart.
std::vector<double> spread(size_t count, double low, double high) {
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) {
    double fraction = static_cast<double>(i + 1) * 0.6180339887498949;
    values[i] = low + (high - low) * (fraction - std::floor(fraction));
  }
  return values;
}

std::string tensorText(const std::string &shape) { return "tensor<" + shape + "f64>"; }

/// A model whose loss is Σ weight · %r, with a fixed, frozen weight.
std::string modelText(const GradientCase &test) {
  std::string params, reads, result = tensorText(test.resultShape), dims;
  for (const Operand &operand : test.operands) {
    params += "hyc.param @" + operand.name + " : " + tensorText(operand.shape) + " from #hyc.fill<0.0 : f64>\n";
    reads += "%" + operand.name + " = hyc.read @" + operand.name + " : " + tensorText(operand.shape) + "\n";
  }
  for (int64_t dim = 0, e = std::count(test.resultShape.begin(), test.resultShape.end(), 'x'); dim < e; ++dim)
    dims += (dim ? ", " : "") + std::to_string(dim);
  return params + "hyc.param @weight : " + result + " from #hyc.fill<0.0 : f64> frozen\n" +
         "hyc.func @train() -> (tensor<f64>, tensor<i64>) {\n" + reads + test.body + "\n" +                       //
         "%weight = hyc.read @weight : " + result + "\n" + "%weighted = hyc.mul %r, %weight : " + result + "\n" + //
         "%loss = hyc.reduce sum %weighted [" + dims + "] : (" + result + ") -> tensor<f64>\n" +
         "%count = hyc.constant dense<1> : tensor<i64>\n" + "hyc.return %loss, %count : tensor<f64>, tensor<i64>\n}\n";
}

class Gradients : public testing::TestWithParam<GradientCase> {
protected:
  Gradients() { context.loadDialect<hyc::HycDialect>(); }

  OwningOpRef<ModuleOp> parse(const std::string &text) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    return module;
  }

  /// Gives every parameter the values of its row in the table.
  static void setValues(Interpreter &interpreter, const GradientCase &test) {
    auto set = [&](const std::string &name, double low, double high) {
      const Tensor *state = interpreter.getState(name);
      ASSERT_NE(state, nullptr) << name;
      Tensor value =
          Tensor::fromDoubles(state->getKind(), state->getShape(), spread(state->getNumElements(), low, high));
      ASSERT_TRUE(succeeded(interpreter.setState(name, value)));
    };
    for (const Operand &operand : test.operands)
      set(operand.name, operand.low, operand.high);
    set("weight", 0.5, -1.5);
  }

  MLIRContext context;
};

double lossAt(Interpreter &interpreter) {
  auto results = interpreter.call("train", ArrayRef<Tensor>{});
  EXPECT_TRUE(succeeded(results));
  return succeeded(results) ? (*results)[0].getDouble() : NAN;
}

/// (f(x + h) - f(x - h)) / 2h, one element of `name` after the other.
std::vector<double> centralDifferences(Interpreter &interpreter, const std::string &name) {
  const Tensor original = *interpreter.getState(name);
  std::vector<double> slopes;
  for (int64_t i = 0; i < original.getNumElements(); ++i) {
    const double step = 1e-5;
    auto shifted = [&](double by) {
      Tensor moved = original;
      moved.set(i, original.getDouble(i) + by);
      EXPECT_TRUE(succeeded(interpreter.setState(name, moved)));
      return lossAt(interpreter);
    };
    double above = shifted(step), below = shifted(-step);
    slopes.push_back((above - below) / (2 * step));
  }
  EXPECT_TRUE(succeeded(interpreter.setState(name, original)));
  return slopes;
}

TEST_P(Gradients, EqualCentralDifferences) {
  const GradientCase &test = GetParam();
  OwningOpRef<ModuleOp> model = parse(modelText(test));
  ASSERT_TRUE(model);
  OwningOpRef<ModuleOp> training(model->clone());
  PassManager passes(&context);
  passes.addPass(hyc::createDifferentiate());
  ASSERT_TRUE(succeeded(passes.run(*training)));

  auto forward = Interpreter::create(*model), backward = Interpreter::create(*training);
  ASSERT_TRUE(succeeded(forward) && succeeded(backward));
  setValues(*forward, test);
  setValues(*backward, test);
  ASSERT_TRUE(succeeded(backward->call("microbatch", ArrayRef<Tensor>{})));
  EXPECT_DOUBLE_EQ(backward->getState("loss_sum")->getDouble(), lossAt(*forward));
  for (const Operand &operand : test.operands) {
    const Tensor *gradient = backward->getState(operand.name + ".grad");
    ASSERT_NE(gradient, nullptr) << operand.name;
    std::vector<double> expected = centralDifferences(*forward, operand.name);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(gradient->getDouble(i), expected[i], 1e-7 * std::max(1.0, std::abs(expected[i])))
          << operand.name << "[" << i << "]";
  }
}

TEST_P(Gradients, GiveEveryOpAnIdOfItsOwn) {
  OwningOpRef<ModuleOp> training = parse(modelText(GetParam()));
  ASSERT_TRUE(training);
  PassManager passes(&context);
  passes.addPass(hyc::createDifferentiate());
  ASSERT_TRUE(succeeded(passes.run(*training)));
  llvm::StringSet<> ids;
  for (Operation &op : training->lookupSymbol<hyc::FuncOp>("microbatch").getBody().front().without_terminator()) {
    EXPECT_FALSE(hyc::getId(&op).empty()) << op.getName().getStringRef().str();
    EXPECT_TRUE(ids.insert(hyc::getId(&op)).second) << hyc::getId(&op).str();
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Gradients, testing::ValuesIn(gradientCases()),
                         [](const auto &info) { return info.param.name; });

//===----------------------------------------------------------------------===//
// Where finite differences say nothing, at kinks and stops: the values that torch gives
//===----------------------------------------------------------------------===//

struct ValueCase {
  std::string name;
  GradientCase model;
  std::vector<double> values;                 // of every operand's only element
  std::vector<std::vector<double>> gradients; // divided by the loss weight
};

GradientCase scalarModel(const std::string &op, int operands) {
  GradientCase test{op, {{"x", "1x"}}, "1x", "%r = hyc." + op + " %x"};
  if (operands == 2) {
    test.operands.push_back({"y", "1x"});
    test.body += ", %y";
  }
  test.body += " : tensor<1xf64>";
  return test;
}

/// x · stop_gradient(x)
GradientCase stoppedModel() {
  return {"stop_gradient",
          {{"x", "1x"}},
          "1x",
          "%s = hyc.stop_gradient %x : tensor<1xf64>\n    %r = hyc.mul %x, %s : tensor<1xf64>"};
}

std::vector<ValueCase> valueCases() {
  return {
      {"abs at 0", scalarModel("abs", 1), {0}, {{0}}},
      {"relu at 0", scalarModel("relu", 1), {0}, {{0}}},
      {"max of equals", scalarModel("max", 2), {1, 1}, {{0.5}, {0.5}}},
      {"min of equals", scalarModel("min", 2), {1, 1}, {{0.5}, {0.5}}},
      {"pow with exponent 0", scalarModel("pow", 2), {0, 0}, {{0}, {0}}},
      {"pow of 0", scalarModel("pow", 2), {0, 2}, {{0}, {0}}},
      {"a stopped factor", stoppedModel(), {3}, {{3}}},
  };
}

/// The mnemonics that some row's body uses.
llvm::StringSet<> usedOps() {
  llvm::StringSet<> used;
  std::vector<GradientCase> cases = gradientCases();
  cases.push_back(stoppedModel()); // held to its value alone: differences do not stop
  for (const GradientCase &test : cases)
    for (size_t at = test.body.find("hyc."); at != std::string::npos; at = test.body.find("hyc.", at + 1))
      used.insert(llvm::StringRef(test.body).drop_front(at).take_until([](char c) { return c == ' '; }));
  return used;
}

class AllOps : public Gradients {};

TEST_F(AllOps, WithAGradientAreInTheTable) {
  llvm::StringSet<> used = usedOps();
  size_t differentiable = 0;
  for (RegisteredOperationName name : context.getRegisteredOperationsByDialect("hyc"))
    if (name.hasInterface<hyc::DifferentiableOpInterface>()) {
      ++differentiable;
      EXPECT_TRUE(used.contains(name.getStringRef())) << name.getStringRef().str() << " has no row";
    }
  EXPECT_GT(differentiable, 30u);
}

/// Replaces every op that can by its decomposition; gives the names of those replaced.
llvm::StringSet<> decomposeAll(ModuleOp module) {
  llvm::StringSet<> replaced;
  SmallVector<Operation *> ops;
  module.walk([&](hyc::DecomposableOpInterface op) { ops.push_back(op); });
  for (Operation *op : ops) {
    OpBuilder builder(op);
    SmallVector<Value> results;
    EXPECT_TRUE(succeeded(cast<hyc::DecomposableOpInterface>(op).decompose(builder, results)));
    EXPECT_EQ(results.size(), op->getNumResults());
    replaced.insert(op->getName().getStringRef());
    op->replaceAllUsesWith(results);
    op->erase();
  }
  return replaced;
}

TEST_F(AllOps, WithADecompositionEqualIt) {
  llvm::StringSet<> compared;
  for (const GradientCase &test : gradientCases()) {
    OwningOpRef<ModuleOp> whole = parse(modelText(test));
    ASSERT_TRUE(whole);
    OwningOpRef<ModuleOp> parts(whole->clone());
    llvm::StringSet<> replaced = decomposeAll(*parts);
    if (replaced.empty())
      continue;
    for (auto &entry : replaced)
      compared.insert(entry.getKey());
    auto expected = Interpreter::create(*whole), actual = Interpreter::create(*parts);
    ASSERT_TRUE(succeeded(expected) && succeeded(actual));
    setValues(*expected, test);
    setValues(*actual, test);
    EXPECT_NEAR(lossAt(*actual), lossAt(*expected), 1e-12 * std::abs(lossAt(*expected))) << test.name;
  }
  for (RegisteredOperationName name : context.getRegisteredOperationsByDialect("hyc"))
    if (name.hasInterface<hyc::DecomposableOpInterface>()) {
      EXPECT_TRUE(compared.contains(name.getStringRef())) << name.getStringRef().str() << " was not compared";
    }
}

TEST_F(AllOps, GiveTheGradientsOfTorchWhereDifferencesSayNothing) {
  for (const ValueCase &test : valueCases()) {
    OwningOpRef<ModuleOp> module = parse(modelText(test.model));
    ASSERT_TRUE(module);
    PassManager passes(&context);
    passes.addPass(hyc::createDifferentiate());
    ASSERT_TRUE(succeeded(passes.run(*module)));
    auto interpreter = Interpreter::create(*module);
    ASSERT_TRUE(succeeded(interpreter));
    auto set = [&](const std::string &name, double value) {
      ASSERT_TRUE(
          succeeded(interpreter->setState(name, Tensor::splat(hyc::interpreter::ElementKind::F64, {1}, value))));
    };
    set("weight", 1.0);
    for (size_t i = 0; i < test.values.size(); ++i)
      set(test.model.operands[i].name, test.values[i]);
    ASSERT_TRUE(succeeded(interpreter->call("microbatch", ArrayRef<Tensor>{})));
    for (size_t i = 0; i < test.values.size(); ++i)
      EXPECT_EQ(interpreter->getState(test.model.operands[i].name + ".grad")->toDoubles(), test.gradients[i])
          << test.name;
  }
}

} // namespace
