// Floating-point operations of the contractions; everything else costs one operation an element.
#include "dialects/Hyc/HycDialect.h"

using namespace mlir;
using namespace hyc;

int64_t hyc::elementwiseFlops(Operation *op) {
  if (op->getNumResults() == 0)
    return 0;
  return cast<RankedTensorType>(op->getResult(0).getType()).getNumElements();
}

/// Two operations for each combination of the letters: result elements times the contracted sizes.
int64_t EinsumOp::getFlops() {
  Letters letters = getLetters();
  int64_t flops = 2 * cast<RankedTensorType>(getResult().getType()).getNumElements();
  auto lhsShape = cast<RankedTensorType>(getLhs().getType()).getShape();
  for (auto [letter, size] : llvm::zip_equal(letters.lhs, lhsShape))
    if (!letters.result.contains(letter))
      flops *= size;
  return flops;
}

/// q·kᵀ and p·v; a causal mask leaves half of the work.
static int64_t attentionFlops(Value q, Value k, bool causal, int64_t products) {
  auto qShape = cast<RankedTensorType>(q.getType()).getShape();
  int64_t keys = cast<RankedTensorType>(k.getType()).getDimSize(1);
  int64_t pairs = qShape[0] * qShape[2] * qShape[1] * keys;
  return 2 * products * pairs * qShape[3] / (causal ? 2 : 1);
}

int64_t AttentionOp::getFlops() { return attentionFlops(getQ(), getK(), getCausal(), 2); }

/// Scores again, then dv, dp, dq and dk.
int64_t AttentionGradOp::getFlops() { return attentionFlops(getQ(), getK(), getCausal(), 5); }
