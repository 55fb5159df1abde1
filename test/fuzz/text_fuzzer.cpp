// Text of the IR, of any phase: the checks before parsing, MLIR's parser with hyc's dialects, and their verifiers.
#include "fuzzing.h"

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Import/Text/ImportText.h"

using namespace hyc;
using namespace hyc::fuzzing;

static mlir::DialectRegistry dialects() {
  mlir::DialectRegistry registry;
  registry.insert<HycDialect, dist::DistDialect, rank::RankDialect>();
  return registry;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static InputFile file("module.mlir");
  static ImportCheck check(dialects());
  const std::string &path = file.write(data, size);
  check.run([&](mlir::MLIRContext &context) {
    context.loadAllAvailableDialects();
    return importText(context, path);
  });
  return 0;
}
