// What the fuzz targets share: the input as a file, and a context that holds the importers to their promises.
//
// A target that aborts has found something. Beside the sanitizers' findings it is one for an importer to fail without a
// word, or to give back a module after an error or one that does not verify.
#ifndef HYC_TEST_FUZZ_FUZZING_H
#define HYC_TEST_FUZZ_FUZZING_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <memory>
#include <string>

namespace hyc::fuzzing {

/// One file in a folder of its own in memory or in TMPDIR, of which each input takes the place of the one before.
class InputFile {
public:
  /// `name` says the format by its ending. The folder goes when the process ends normally.
  explicit InputFile(llvm::StringRef name);
  ~InputFile();
  InputFile(const InputFile &) = delete;

  const std::string &write(const uint8_t *data, size_t size);

private:
  std::string folder, path;
};

/// Runs importers in a context that is renewed now and then, since what a context has uniqued stays.
class ImportCheck {
public:
  ImportCheck() = default;
  explicit ImportCheck(const mlir::DialectRegistry &dialects) { dialects.appendTo(registry); }

  /// Aborts where `import` breaks a promise.
  void run(llvm::function_ref<llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>(mlir::MLIRContext &)> import);

private:
  mlir::DialectRegistry registry;
  std::unique_ptr<mlir::MLIRContext> context;
  int runs = 0;
};

/// Says `what` and aborts, which libFuzzer takes for a finding.
[[noreturn]] void found(llvm::StringRef what);

} // namespace hyc::fuzzing

#endif // HYC_TEST_FUZZ_FUZZING_H
