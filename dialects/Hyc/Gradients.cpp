// Gradients of the hyc ops: one builder an op, from its derivative.
#include "dialects/Hyc/HycDialect.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace hyc;

// HYC-GRADIENTS-PENDING: the Train room replaces this file.
#define GRADIENT_OF(OP)                                                                                                \
  LogicalResult OP::buildGradient(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>, SmallVectorImpl<Value> &) {            \
    return emitOpError("has no gradient yet");                                                                         \
  }
GRADIENT_OF(NegOp) GRADIENT_OF(AbsOp) GRADIENT_OF(ExpOp) GRADIENT_OF(LogOp) GRADIENT_OF(SqrtOp) GRADIENT_OF(RsqrtOp)
GRADIENT_OF(ReciprocalOp) GRADIENT_OF(TanhOp) GRADIENT_OF(ErfOp) GRADIENT_OF(SinOp) GRADIENT_OF(CosOp)
GRADIENT_OF(ReluOp) GRADIENT_OF(SigmoidOp) GRADIENT_OF(AddOp) GRADIENT_OF(SubOp) GRADIENT_OF(MulOp) GRADIENT_OF(DivOp)
GRADIENT_OF(PowOp) GRADIENT_OF(MaxOp) GRADIENT_OF(MinOp) GRADIENT_OF(GeluOp) GRADIENT_OF(SelectOp) GRADIENT_OF(ConvertOp)
GRADIENT_OF(ReshapeOp) GRADIENT_OF(TransposeOp) GRADIENT_OF(BroadcastOp) GRADIENT_OF(SliceOp) GRADIENT_OF(PadOp)
GRADIENT_OF(SplitOp) GRADIENT_OF(ConcatOp) GRADIENT_OF(ReduceOp) GRADIENT_OF(EinsumOp) GRADIENT_OF(SoftmaxOp)
GRADIENT_OF(LayerNormOp) GRADIENT_OF(AttentionOp) GRADIENT_OF(EmbeddingOp) GRADIENT_OF(CrossEntropyOp)
