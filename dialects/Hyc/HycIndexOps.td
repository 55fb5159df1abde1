// Ops that pick, put or order elements by number, and running sums.

#ifndef HYC_INDEX_OPS_TD
#define HYC_INDEX_OPS_TD

include "dialects/Hyc/HycShapeOps.td"

def Hyc_GatherOp : Hyc_TensorOp<"gather", [CostOpInterface, DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "picks elements of one dimension by number";
  let description = [{
    data has the dimensions B… L… V R…, where B… are the first `batch` ones and V is number `dim`; indices are integers
    B… I…. The result is B… L… I… R…: result[b,l,i,r] = data[b,l,indices[b,i],r]. An index outside 0 to V - 1 gives 0.

    `batch` 0 takes the same elements everywhere (ONNX Gather, rows of a table); with all other dimensions in the batch
    each element has an index of its own (GatherElements, torch.gather). Tuples of indices (GatherND) are numbers in
    merged dimensions.

    1. `gather.dims`: 0 ≤ batch ≤ dim < number of dimensions of data; indices begin with the batch's sizes.
    2. `gather.indices`: indices are integers.
    ```mlir
    %rows = hyc.gather %table, %ids dim 0 batch 0 : (tensor<100x64xf32>, tensor<8x16xi64>) -> tensor<8x16x64xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$data, AnyRankedTensor:$indices, I64Attr:$dim, I64Attr:$batch);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$data `,` $indices `dim` $dim `batch` $batch attr-dict `:` functional-type(operands, results)";
}

def Hyc_ScatterOp : Hyc_TensorOp<"scatter", [CostOpInterface]> {
  let summary = "combines elements where numbers say: by sum, the gradient of gather";
  let description = [{
    updates are B… L… I… R…, indices B… I…, the result B… L… V R… as hyc.gather has them. result[b,l,v,r] is the sum (or
    product, maximum, minimum) of all updates[b,l,i,r] with indices[b,i] = v, combined in the order of i; where there is
    none it is 0 (1, the lowest value, the greatest). An index outside 0 to V - 1 adds nothing.

    The gradient of a sum is hyc.gather; that of a maximum or minimum is shared by all updates that attain it.

    1. `scatter.shapes`: updates are what hyc.gather of the result with these indices gives; all of one element type.
    ```mlir
    %dt = hyc.scatter sum %ids, %dy dim 0 batch 0 : (tensor<8x16xi64>, tensor<8x16x64xf32>) -> tensor<100x64xf32>
    ```
  }];
  let arguments = (ins Hyc_ReductionKindAttr:$kind, AnyRankedTensor:$indices, AnyRankedTensor:$updates, I64Attr:$dim,
                       I64Attr:$batch);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{$kind $indices `,` $updates `dim` $dim `batch` $batch attr-dict `:`
                         functional-type(operands, results)}];
  let hasVerifier = 1;
}

def Hyc_CumSumOp : Hyc_TensorOp<"cumsum", [CostOpInterface, SameOperandsAndResultType]> {
  let summary = "sums of all elements up to each one, along a dimension";
  let description = [{
    result[i] = Σ operand[j] over j ≤ i; with `exclusive` over j < i; with `reverse` from the end. Added one by one in
    that order, 16-bit floats in f32.

    1. `cumsum.dim`: `dim` is a dimension of the operand.
  }];
  let arguments = (ins AnyRankedTensor:$operand, I64Attr:$dim, UnitAttr:$reverse, UnitAttr:$exclusive);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand `dim` $dim (`reverse` $reverse^)? (`exclusive` $exclusive^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Hyc_ArgSortOp : Hyc_Op<"argsort", [Pure, CostOpInterface, Hyc_OwnSharding,
    DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "numbers of the elements of each row (the last dimension) in ascending or descending order";
  let description = [{
    Equal elements keep their order; a NaN is above all numbers. The values in that order, and their gradient, are those
    of hyc.gather with the result. With `first`, the beginning of the order: the numbers of so many elements, which is top-k.

    1. `argsort.rows`: the operand has a last dimension.
    2. `argsort.first`: `first` is at least 0 and at most the size of that dimension.
    ```mlir
    %i = hyc.argsort descending %x first 2 : (tensor<4x8xf32>) -> tensor<4x2xi64>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$operand, UnitAttr:$descending, OptionalAttr<I64Attr>:$first);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "(`descending` $descending^)? $operand (`first` $first^)? attr-dict `:` functional-type(operands, results)";
}

#endif // HYC_INDEX_OPS_TD
