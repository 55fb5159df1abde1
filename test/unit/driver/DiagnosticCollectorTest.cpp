// What the driver keeps of MLIR's diagnostics.
#include "Model/DiagnosticCollector.h"

#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

using namespace hyc;

namespace {
TEST(DiagnosticCollector, TellsAWarningOnceAndErrorsAsOftenAsTheyCome) {
  mlir::MLIRContext context;
  std::vector<std::string> told;
  CompileListener listener;
  listener.diagnosed = [&](const CompileDiagnostic &diagnostic) { told.push_back(diagnostic.str()); };
  DiagnosticCollector collector(context, "model.onnx", listener);
  const mlir::Location here = mlir::FileLineColLoc::get(&context, "model.onnx", 1, 2),
                       there = mlir::FileLineColLoc::get(&context, "model.onnx", 3, 4);
  for (int import = 0; import < 2; ++import) {
    mlir::emitWarning(here) << "a parameter is not in the file" << (import == 0 ? "" : " either");
    mlir::emitWarning(here, "is shared").attachNote(there) << "with this one";
    mlir::emitWarning(there, "is shared");
    mlir::emitError(here, "cannot be read");
  }
  const std::vector<std::string> expected{"model.onnx:1:2: warning: a parameter is not in the file",
                                          "model.onnx:1:2: warning: is shared",
                                          "model.onnx:3:4: note: with this one",
                                          "model.onnx:3:4: warning: is shared",
                                          "model.onnx:1:2: error: cannot be read",
                                          "model.onnx:1:2: warning: a parameter is not in the file either",
                                          "model.onnx:1:2: error: cannot be read"};
  EXPECT_EQ(told, expected);
}
} // namespace
