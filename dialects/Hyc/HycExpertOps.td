// Mixtures of experts: products of rows with the matrix of the expert that each row goes to. Which one that is is a number
// in the data; no shape depends on it.

#ifndef HYC_EXPERT_OPS_TD
#define HYC_EXPERT_OPS_TD

include "dialects/Hyc/HycCompositeOps.td"

def Hyc_ExpertMatmulOp : Hyc_TensorOp<"expert_matmul", [Hyc_OwnPrecision, Hyc_OwnPlace,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>, DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "each row times the matrix of its expert";
  let description = [{
    result[n, :] = x[n, :] · w[experts[n] - offset]. With `transposed`, matrices are stored as (M, K). A row whose expert lies
    outside w is 0: that of an expert of another rank, where w is a shard of the experts (`offset`, phase 4: the first one
    that this rank holds), or of none, which models write as the number of experts.

    Rows are in any order, so that each stays on the rank that has its token; kernels bring rows of one expert together.

    1. `expert_matmul.shapes`: x (N,K), w (E,K,M), or (E,M,K) if `transposed`, experts i64 (N); the result is (N,M).
    ```mlir
    %y = hyc.expert_matmul %x, %w, %experts {id = "experts.up"} : (tensor<32x16xf32>, tensor<4x16x64xf32>, tensor<32xi64>) -> tensor<32x64xf32>
    ```
    Importers make it of grouped products, and hyc-raise-experts of matrices that are gathered row by row.
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$w, AnyRankedTensor:$experts,
                       Optional<AnyRankedTensor>:$offset, UnitAttr:$transposed);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{(`transposed` $transposed^)? $x `,` $w `,` $experts (`offset` $offset^)? attr-dict `:`
                         functional-type(operands, results)}];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    bool preservesZeros(const ::hyc::ShardingRule &rule, int factor);
  }];
}

def Hyc_ExpertMatmulGradOp : Hyc_GradientOp<"expert_matmul_grad", [Hyc_PreservesZeros, Hyc_OwnPlace,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>]> {
  let summary = "cotangent of expert_matmul's matrices: for each expert the sum of outer products of its rows";
  let description = [{
    result[e, k, m] = Σ x[n, k] · cotangent[n, m] over the rows n with experts[n] - offset = e, in ascending order. With
    `transposed` it is (E, M, K). The result may be f32 where the operands are narrower.
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$cotangent, AnyRankedTensor:$experts,
                       Optional<AnyRankedTensor>:$offset, UnitAttr:$transposed);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{(`transposed` $transposed^)? $x `,` $cotangent `,` $experts (`offset` $offset^)? attr-dict `:`
                         functional-type(operands, results)}];
  let hasVerifier = 1;
}

#endif // HYC_EXPERT_OPS_TD
