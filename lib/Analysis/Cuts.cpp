// Reads cuts off the chunks of a planned model.
#include "hyc/Analysis/Cuts.h"

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/PhaseNames.h"

using namespace mlir;
using namespace hyc;

std::vector<std::string> hyc::findCuts(FuncOp microbatch, int64_t chunks) {
  // What stands on parameters and constants alone belongs to no layer, so that no cut can name it.
  llvm::DenseSet<Value> fromInputs;
  fromInputs.insert_range(microbatch.getArguments());
  for (Operation &op : microbatch.getBody().front())
    if (llvm::any_of(op.getOperands(), [&](Value operand) { return fromInputs.contains(operand); }))
      fromInputs.insert_range(op.getResults());
  std::vector<std::string> cuts;
  for (int64_t chunk = 1; chunk < chunks; ++chunk)
    for (Operation &op : microbatch.getBody().front()) {
      bool flows = llvm::any_of(op.getOperands(), [&](Value operand) { return fromInputs.contains(operand); });
      if (dist::chunkOf(&op) != chunk || !flows || isBackward(&op))
        continue;
      cuts.push_back(getId(&op).str());
      break;
    }
  return cuts;
}
