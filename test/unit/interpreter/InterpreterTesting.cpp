// Parsing, running and comparing for the interpreter's tests.
#include "InterpreterTesting.h"

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>

using namespace hyc::interpreter;

TestModule::TestModule(const std::string &text) : context(std::make_unique<mlir::MLIRContext>()) {
  context->disableMultithreading();
  context->printOpOnDiagnostic(false);
  context->loadDialect<hyc::HycDialect, hyc::dist::DistDialect, hyc::rank::RankDialect>();
  context->getDiagEngine().registerHandler([this](mlir::Diagnostic &diagnostic) {
    messages += diagnostic.str() + "\n";
    for (mlir::Diagnostic &note : diagnostic.getNotes())
      messages += "note: " + note.str() + "\n";
    return mlir::success();
  });
  module = mlir::parseSourceString<mlir::ModuleOp>(text, context.get());
  if (!module) {
    ADD_FAILURE() << messages << "in\n" << text;
    module = mlir::ModuleOp::create(mlir::UnknownLoc::get(context.get()));
  }
}

TestModule::~TestModule() = default;

std::vector<Tensor> hyc::interpreter::run(const std::string &text, llvm::ArrayRef<Tensor> arguments,
                                          const Options &options) {
  TestModule module(text);
  llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get(), options);
  if (succeeded(interpreter)) {
    llvm::FailureOr<llvm::SmallVector<Tensor>> results = interpreter->call("f", arguments);
    if (succeeded(results))
      return {results->begin(), results->end()};
  }
  ADD_FAILURE() << module.diagnostics() << "in\n" << text;
  return std::vector<Tensor>(8);
}

std::string hyc::interpreter::runToFailure(const std::string &text, llvm::ArrayRef<Tensor> arguments,
                                           const Options &options) {
  TestModule module(text);
  llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get(), options);
  if (succeeded(interpreter) && succeeded(interpreter->call("f", arguments)))
    ADD_FAILURE() << "expected a failure of\n" << text;
  return module.diagnostics();
}

testing::AssertionResult hyc::interpreter::isNear(const Tensor &actual, const Tensor &expected, double tolerance) {
  if (!actual)
    return testing::AssertionFailure() << "no value";
  if (actual.getKind() != expected.getKind() || actual.getShape() != expected.getShape())
    return testing::AssertionFailure() << actual.describeType() << " instead of " << expected.describeType();
  for (int64_t i = 0; i < actual.getNumElements(); ++i) {
    double a = actual.getDouble(i), e = expected.getDouble(i);
    bool equal =
        a == e || (std::isnan(a) && std::isnan(e)) || std::fabs(a - e) <= tolerance * std::fmax(1, std::fabs(e));
    if (!equal)
      return testing::AssertionFailure() << "element " << i << " is " << a << ", expected " << e;
  }
  return testing::AssertionSuccess();
}

std::string hyc::interpreter::function(const std::vector<std::string> &types, const std::string &body,
                                       const std::string &resultType) {
  std::string text = "hyc.func @f(";
  for (size_t i = 0; i < types.size(); ++i)
    text += (i ? ", %" : "%") + std::to_string(i) + ": " + types[i];
  return text + ") -> (" + resultType + ") {\n  " + body + "\n  hyc.return %r : " + resultType + "\n}\n";
}
