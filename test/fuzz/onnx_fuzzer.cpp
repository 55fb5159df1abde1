// ONNX: the whole importer, from the file's bytes to a verified module.
#include "fuzzing.h"

#include "hyc/Import/ONNX/Import.h"

using namespace hyc;
using namespace hyc::fuzzing;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static InputFile file("model.onnx");
  static ImportCheck check;
  ImportOptions options;
  options.batch = 2;
  const std::string &path = file.write(data, size);
  check.run([&](mlir::MLIRContext &context) { return importOnnx(context, path, options); });
  return 0;
}
