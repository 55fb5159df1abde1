// Archive, program, translation, import.
#include "hyc/Import/TorchExport/Import.h"

#include "SymbolicSizes.h"
#include "Translator.h"
#include "mlir/IR/Location.h"

using namespace hyc;
using namespace hyc::torchexport;

llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
hyc::importTorchExport(mlir::MLIRContext &context, llvm::StringRef path, const ImportOptions &options) {
  mlir::Location loc = mlir::FileLineColLoc::get(&context, path, 0, 0);
  // Messages begin with the path, which the location says too.
  auto report = [&](llvm::Error error) {
    std::string message = llvm::toString(std::move(error));
    llvm::StringRef text = message;
    if (text.consume_front(path)) // FILE: what, or FILE:RECORD:LINE:COLUMN: what
      text = text.ltrim(": ");
    emitError(loc) << text;
    return llvm::failure();
  };
  llvm::Expected<Archive> archive = Archive::open(path);
  if (!archive)
    return report(archive.takeError());
  llvm::Expected<Program> program = readProgram(*archive);
  if (!program)
    return report(program.takeError());
  bindSizes(*program, options.dims, options.batch);
  llvm::FailureOr<onnx::AssembledModel> model = Translator(context, path, *program).run();
  if (llvm::failed(model))
    return llvm::failure();
  model->file = archive->takeBuffer();
  // Each parameter of a program has a name of its own: what several modules read as one is one.
  ImportOptions asNamed = options;
  asNamed.keepsMerged = true;
  return onnx::importAssembled(context, path, std::move(*model), asNamed);
}
