// What the interpreter's tests share: modules from text, calls of their functions, and comparison of tensors.
#ifndef HYC_TEST_UNIT_INTERPRETER_INTERPRETERTESTING_H
#define HYC_TEST_UNIT_INTERPRETER_INTERPRETERTESTING_H

#include "hyc/Interpreter/Interpreter.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

namespace hyc::interpreter {

/// A module parsed from text, and every diagnostic since, one a line ("note: …" for notes).
class TestModule {
public:
  /// Text that does not parse or verify fails the test.
  explicit TestModule(const std::string &text);
  ~TestModule();
  mlir::ModuleOp get() { return *module; }
  const std::string &diagnostics() const { return messages; }

private:
  std::unique_ptr<mlir::MLIRContext> context;
  std::string messages;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

inline Tensor f32(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<double> values) {
  return Tensor::fromDoubles(ElementKind::F32, shape, values);
}
inline Tensor i64(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> values) {
  return Tensor::fromIntegers(ElementKind::I64, shape, values);
}
inline Tensor i1(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> values) {
  return Tensor::fromIntegers(ElementKind::I1, shape, values);
}

/// The results of @f; a failure of the test, and no results, where it cannot be executed.
std::vector<Tensor> run(const std::string &text, llvm::ArrayRef<Tensor> arguments, const Options &options = {});
/// The diagnostics of executing @f, which has to fail.
std::string runToFailure(const std::string &text, llvm::ArrayRef<Tensor> arguments, const Options &options = {});

/// Equal kinds and shapes, and elements within `tolerance` of max(1, |expected|).
testing::AssertionResult isNear(const Tensor &actual, const Tensor &expected, double tolerance = 1e-6);

/// @f of one op: `body` computes %r from %0, %1, … of the types given.
std::string function(const std::vector<std::string> &types, const std::string &body, const std::string &resultType);

} // namespace hyc::interpreter

#endif // HYC_TEST_UNIT_INTERPRETER_INTERPRETERTESTING_H
