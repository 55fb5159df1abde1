// Composite ops of the field, whole, with their gradients. Statistics that backward needs are results of the forward op.
// Of 16-bit floats all of them compute in f32, and the statistics (mean, rstd, lse, the loss) stay f32.

#ifndef HYC_COMPOSITE_OPS_TD
#define HYC_COMPOSITE_OPS_TD

include "dialects/Hyc/HycShapeOps.td"

// The gradient of a composite op: itself not differentiable.
class Hyc_GradientOp<string mnemonic, list<Trait> traits = []>
    : Hyc_Op<mnemonic, !listconcat([Pure, Hyc_OwnSharding,
                                    Hyc_OwnPrecision], traits)>;

def Hyc_LayerNormOp : Hyc_TensorOp<"layer_norm", [Hyc_OwnPrecision, CostOpInterface,
    DeclareOpInterfaceMethods<InferTypeOpInterface>, DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "layer normalization over the last dimension";
  let description = [{
    y = (x - mean) · rstd · scale + bias with rstd = 1/sqrt(var + epsilon), var the biased variance (Ba et al. 2016).
    `mean` and `rstd` drop the last dimension. `scale` and `bias` may be f32 where `x` is narrower.

    1. `layer_norm.shapes`: `scale` and `bias` have the size of the last dimension of `x`.
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$scale, AnyRankedTensor:$bias, F64Attr:$epsilon);
  let results = (outs AnyRankedTensor:$y, AnyRankedTensor:$mean, AnyRankedTensor:$rstd);
  let assemblyFormat = "$x `,` $scale `,` $bias `epsilon` $epsilon attr-dict `:` functional-type(operands, results)";
}

def Hyc_LayerNormGradOp : Hyc_GradientOp<"layer_norm_grad", [CostOpInterface,
    DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "cotangents of layer_norm's x, scale and bias";
  let arguments = (ins AnyRankedTensor:$cotangent, AnyRankedTensor:$x, AnyRankedTensor:$scale, AnyRankedTensor:$mean,
                       AnyRankedTensor:$rstd);
  let results = (outs AnyRankedTensor:$x_cotangent, AnyRankedTensor:$scale_cotangent, AnyRankedTensor:$bias_cotangent);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Hyc_AttentionOp : Hyc_TensorOp<"attention", [Hyc_OwnPrecision, Hyc_OwnPlace, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>, DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "scaled dot-product attention, many heads at once";
  let description = [{
    Per batch and head: softmax(scale · q kᵀ + mask) v (Vaswani et al. 2017). With `causal`, query i sees keys j with
    j ≤ i + (T - S), where S and T are the query and key lengths. `lse` is the log-sum-exp of each row of masked scores.
    The layout is (batch, sequence, heads, head size), so that splitting and merging heads moves nothing.

    `mask`, booleans that a model computes from its inputs, says which keys a query sees besides: of padding none, of several
    documents in one sequence those of its own. A query that sees no key has the result 0.

    With `dropout`, its rate, probabilities are dropped before they meet v, by the mask that hyc.dropout_mask would draw
    for a tensor (B,H,S,T); they are never in memory, and neither is the mask. `random` are the keys (B,N), of which
    `column` is the op's own, and in phase 4 the place of this rank's heads in a sample. Models have no keys yet:
    hyc-key-random-ops adds them.

    1. `attention.shapes`: q (B,S,H,D), k and v (B,T,G,D), G divides H (grouped heads: query head h uses head h·G/H);
       the result is (B,S,H,D), `lse` (B,H,S).
    2. `attention.random`: 0 < `dropout` < 1; only with it there are keys and, after them, maybe a place (i64, a scalar).
    3. `attention.mask`: `mask` is of booleans, (B,H,S,T), of which B, H and S may each be 1: the same for all.
  }];
  let arguments = (ins AnyRankedTensor:$q, AnyRankedTensor:$k, AnyRankedTensor:$v, F64Attr:$scale, UnitAttr:$causal,
                       Optional<AnyRankedTensor>:$mask, Variadic<AnyRankedTensor>:$random,
                       OptionalAttr<F64Attr>:$dropout, DefaultValuedAttr<I64Attr, "0">:$column);
  let results = (outs AnyRankedTensor:$result, AnyRankedTensor:$lse);
  let assemblyFormat = [{(`causal` $causal^)? $q `,` $k `,` $v `scale` $scale (`mask` $mask^)? (`random` $random^)?
                         (`dropout` $dropout^)? attr-dict `:` functional-type(operands, results)}];
  let hasVerifier = 1;
  let builders = [
    OpBuilder<(ins "::mlir::Value":$q, "::mlir::Value":$k, "::mlir::Value":$v, "::mlir::FloatAttr":$scale,
                   "::mlir::UnitAttr":$causal, CArg<"::mlir::FloatAttr", "{}">:$dropout,
                   CArg<"::mlir::Value", "{}">:$mask), [{
      build($_builder, $_state, q, k, v, scale, causal, mask, ::mlir::ValueRange(), dropout,
            $_builder.getI64IntegerAttr(0));
    }]>
  ];
}

def Hyc_AttentionGradOp : Hyc_GradientOp<"attention_grad", [Hyc_OwnPlace, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>, DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "cotangents of attention's q, k and v, probabilities recomputed from lse (Dao et al. 2022)";
  let arguments = (ins AnyRankedTensor:$cotangent, AnyRankedTensor:$q, AnyRankedTensor:$k, AnyRankedTensor:$v,
                       AnyRankedTensor:$result, AnyRankedTensor:$lse, F64Attr:$scale, UnitAttr:$causal,
                       Optional<AnyRankedTensor>:$mask, Variadic<AnyRankedTensor>:$random,
                       OptionalAttr<F64Attr>:$dropout, DefaultValuedAttr<I64Attr, "0">:$column);
  let results = (outs AnyRankedTensor:$q_cotangent, AnyRankedTensor:$k_cotangent, AnyRankedTensor:$v_cotangent);
  let assemblyFormat = [{(`causal` $causal^)? $cotangent `,` $q `,` $k `,` $v `,` $result `,` $lse `scale` $scale
                         (`mask` $mask^)? (`random` $random^)? (`dropout` $dropout^)? attr-dict `:`
                         functional-type(operands, results)}];
}

def Hyc_EmbeddingOp : Hyc_TensorOp<"embedding", [Hyc_OwnPrecision, Hyc_OwnPlace, CostOpInterface]> {
  let summary = "rows of a table, by integer id";
  let description = [{
    result[…, h] = table[ids[…] - offset, h]; zero where ids[…] - offset lies outside the table, which happens only in
    a shard of a vocabulary-parallel table (`offset`, phase 4: the first row that this rank holds). The row `padding`, where
    one is named, has a zero gradient: what ids of that row read is a constant.

    1. `embedding.shapes`: table (V,H), ids i64 of any shape I; the result is I × (H).
    2. `embedding.padding`: not negative.
    ```mlir
    %e = hyc.embedding %ids, %table padding 1 {id = "embed"} : (tensor<2x16xi64>, tensor<99x64xf32>) -> tensor<2x16x64xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$ids, AnyRankedTensor:$table, Optional<AnyRankedTensor>:$offset,
                       OptionalAttr<I64Attr>:$padding);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{$ids `,` $table (`offset` $offset^)? (`padding` $padding^)? attr-dict `:`
                         functional-type(operands, results)}];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    bool preservesZeros(const ::hyc::ShardingRule &rule, int factor);
  }];
}

def Hyc_EmbeddingGradOp : Hyc_GradientOp<"embedding_grad", [Hyc_PreservesZeros, Hyc_OwnPlace, CostOpInterface]> {
  let summary = "cotangent of embedding's table: each row the sum of the cotangents of its uses, in order of position";
  let description = "The result may be f32 where the cotangent is narrower.";
  let arguments = (ins AnyRankedTensor:$ids, AnyRankedTensor:$cotangent, Optional<AnyRankedTensor>:$offset);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$ids `,` $cotangent (`offset` $offset^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Hyc_CrossEntropyOp : Hyc_TensorOp<"cross_entropy", [Hyc_OwnPrecision, Hyc_OwnLocalForm, CostOpInterface,
    DeclareOpInterfaceMethods<InferTypeOpInterface>, DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "negative log-likelihood of integer labels, summed over the positions counted";
  let description = [{
    loss_sum = Σ (lse - logits[label]) over positions whose label is not `ignore_index`; `count` is their number (i64).
    `lse`, the log-sum-exp of each row, is all that backward keeps: never a probability. Labels are not shifted.

    1. `cross_entropy.shapes`: logits I × (V), labels and lse I.
  }];
  let arguments = (ins AnyRankedTensor:$logits, AnyRankedTensor:$labels, DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs AnyRankedTensor:$loss_sum, AnyRankedTensor:$count, AnyRankedTensor:$lse);
  let assemblyFormat = "$logits `,` $labels attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{
    bool preservesZeros(const ::hyc::ShardingRule &rule, int factor);
  }];
}

def Hyc_CrossEntropyGradOp : Hyc_GradientOp<"cross_entropy_grad", [Hyc_OwnPlace, CostOpInterface]> {
  let summary = "cotangent of cross_entropy's logits: cotangent · (exp(logits - lse) - onehot(label))";
  let description = [{
    `cotangent` is the scalar cotangent of loss_sum. Rows with an ignored label are zero. With `offset` (phase 4) the
    logits are the columns [offset, offset + V) of a vocabulary of `vocabulary` columns; those beyond it are padding and
    get zero.
  }];
  let arguments = (ins AnyRankedTensor:$cotangent, AnyRankedTensor:$logits, AnyRankedTensor:$labels, AnyRankedTensor:$lse,
                       Optional<AnyRankedTensor>:$offset, DefaultValuedAttr<I64Attr, "-100">:$ignore_index,
                       OptionalAttr<I64Attr>:$vocabulary);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{$cotangent `,` $logits `,` $labels `,` $lse (`offset` $offset^ `of` $vocabulary)? attr-dict `:`
                         functional-type(operands, results)}];
  let extraClassDeclaration = [{
    bool preservesZeros(const ::hyc::ShardingRule &rule, int factor);
  }];
}

// The three pieces of a vocabulary-parallel cross_entropy; phase 4 only. Between them stand all_reduce max and sum.

def Hyc_VocabMaxOp : Hyc_Op<"vocab_max", [Pure, CostOpInterface, DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "maximum of each row over the columns of a logits shard that are not padding";
  let description = [{
    The logits I × (V) are the columns [offset, offset + V) of `vocabulary`; a row without a real column gives -inf.
  }];
  let arguments = (ins AnyRankedTensor:$logits, AnyRankedTensor:$offset, I64Attr:$vocabulary);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$logits `offset` $offset `of` $vocabulary attr-dict `:` functional-type(operands, results)";
}

def Hyc_VocabSumExpOp : Hyc_Op<"vocab_sum_exp", [Pure, CostOpInterface,
    DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "Σ exp(logits - max) over a shard's real columns, and the label's logit where this shard holds it, else 0";
  let arguments = (ins AnyRankedTensor:$logits, AnyRankedTensor:$max, AnyRankedTensor:$labels, AnyRankedTensor:$offset,
                       I64Attr:$vocabulary);
  let results = (outs AnyRankedTensor:$sum_exp, AnyRankedTensor:$picked);
  let assemblyFormat = [{$logits `,` $max `,` $labels `offset` $offset `of` $vocabulary attr-dict `:`
                         functional-type(operands, results)}];
}

def Hyc_VocabLossOp : Hyc_Op<"vocab_loss", [Pure, CostOpInterface, DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "loss sum, count and lse = max + log(sum_exp) from whole-vocabulary row statistics";
  let arguments = (ins AnyRankedTensor:$max, AnyRankedTensor:$sum_exp, AnyRankedTensor:$picked, AnyRankedTensor:$labels,
                       DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs AnyRankedTensor:$loss_sum, AnyRankedTensor:$count, AnyRankedTensor:$lse);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

#endif // HYC_COMPOSITE_OPS_TD
