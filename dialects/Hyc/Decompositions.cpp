// Decompositions of the composite ops into smaller ops of the dialect.
#include "dialects/Hyc/HycDialect.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace hyc;

// HYC-DECOMPOSITIONS-PENDING: the Train room replaces this file.
#define DECOMPOSITION_OF(OP)                                                                                           \
  LogicalResult OP::decompose(OpBuilder &, SmallVectorImpl<Value> &) { return failure(); }
DECOMPOSITION_OF(GeluOp) DECOMPOSITION_OF(SoftmaxOp) DECOMPOSITION_OF(LayerNormOp) DECOMPOSITION_OF(AttentionOp)
DECOMPOSITION_OF(CrossEntropyOp)
