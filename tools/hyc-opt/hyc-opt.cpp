// hyc-opt: runs any pass of hyc on the text of any phase.
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Transforms/Train/Passes.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<hyc::HycDialect, hyc::dist::DistDialect>();
  mlir::registerTransformsPasses();
  hyc::registerTrainPasses();
  return mlir::failed(mlir::MlirOptMain(argc, argv, "hyc graph optimizer\n", registry));
}
