// Files of inputs, and contexts with a listener.
#include "fuzzing.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

using namespace hyc::fuzzing;
using namespace mlir;

static constexpr int kRunsOfAContext = 200;

void hyc::fuzzing::found(llvm::StringRef what) {
  llvm::errs() << "found: " << what << "\n";
  std::abort();
}

InputFile::InputFile(llvm::StringRef name) {
  const char *memory = "/dev/shm";
  llvm::SmallString<128> pattern(access(memory, W_OK) == 0 ? llvm::StringRef(memory) : llvm::StringRef("/tmp"));
  llvm::sys::path::append(pattern, "hyc-fuzz-XXXXXX");
  if (!mkdtemp(const_cast<char *>(pattern.c_str())))
    found("no folder for inputs can be made");
  folder = pattern.str().str();
  path = folder + "/" + name.str();
}

InputFile::~InputFile() {
  unlink(path.c_str());
  rmdir(folder.c_str());
}

const std::string &InputFile::write(const uint8_t *data, size_t size) {
  // A new file each time: what maps the one before keeps it.
  unlink(path.c_str());
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0 || ::write(file, data, size) != static_cast<ssize_t>(size) || close(file) != 0)
    found("the input cannot be written to a file");
  return path;
}

void ImportCheck::run(llvm::function_ref<llvm::FailureOr<OwningOpRef<ModuleOp>>(MLIRContext &)> import) {
  if (runs++ % kRunsOfAContext == 0)
    context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  unsigned errors = 0;
  ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
    errors += diagnostic.getSeverity() == DiagnosticSeverity::Error;
    (void)diagnostic.str(); // the message is put together too
    return success();
  });
  llvm::FailureOr<OwningOpRef<ModuleOp>> module = import(*context);
  if (failed(module) && errors == 0)
    found("refused without a diagnostic");
  if (failed(module))
    return;
  if (errors)
    found("an error was reported, and a module given back all the same");
  if (failed(verify(**module)))
    found("the module given back does not verify");
}
