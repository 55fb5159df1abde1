// Ops that rearrange, combine or contract elements.

#ifndef HYC_SHAPE_OPS_TD
#define HYC_SHAPE_OPS_TD

include "dialects/Hyc/HycAttrs.td"
include "dialects/Hyc/HycInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// A pure op of the model with a gradient, a sharding rule and a cost.
class Hyc_TensorOp<string mnemonic, list<Trait> traits = []>
    : Hyc_Op<mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>,
                                    Hyc_OwnSharding], traits)>;

def Hyc_ReshapeOp : Hyc_TensorOp<"reshape", [Hyc_PassesPartialSums, PrecisionOpInterface, CostOpInterface]> {
  let summary = "the same elements in row-major order under another shape";
  let description = "1. `reshape.count`: operand and result have the same number of elements and the same element type.";
  let arguments = (ins AnyRankedTensor:$operand);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
  let extraClassDeclaration = [{
    bool preservesZeros(const ::hyc::ShardingRule &rule, int factor);
  }];
}

def Hyc_TransposeOp : Hyc_TensorOp<"transpose", [Hyc_PreservesZeros, Hyc_PassesPartialSums, PrecisionOpInterface,
    CostOpInterface, DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "dimension i of the result is dimension permutation[i] of the operand";
  let arguments = (ins AnyRankedTensor:$operand, DenseI64ArrayAttr:$permutation);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand $permutation attr-dict `:` functional-type(operands, results)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Hyc_BroadcastOp : Hyc_TensorOp<"broadcast", [Hyc_PassesPartialSums, PrecisionOpInterface, CostOpInterface]> {
  let summary = "repeats the operand along new dimensions";
  let description = [{
    1. `broadcast.dims`: operand dimension i is result dimension `dims[i]`; `dims` is strictly increasing and sizes agree.
       (A dimension of size 1 is first removed by a reshape.)
    ```mlir
    %r = hyc.broadcast %b [2] : (tensor<64xf32>) -> tensor<2x16x64xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$operand, DenseI64ArrayAttr:$dims);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand $dims attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Hyc_SliceOp : Hyc_TensorOp<"slice", [Hyc_PassesPartialSums, PrecisionOpInterface, CostOpInterface]> {
  let summary = "elements offsets[d] + i·strides[d] of each dimension d";
  let description = "1. `slice.bounds`: every index lies in the operand; strides are positive.";
  let arguments = (ins AnyRankedTensor:$operand, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$strides);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand `offsets` $offsets `strides` $strides attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Hyc_PadOp : Hyc_TensorOp<"pad", [Hyc_PassesPartialSums, PrecisionOpInterface, CostOpInterface]> {
  let summary = "zeros around and between the elements: the gradient of slice";
  let description = "The operand's element i of dimension d becomes element offsets[d] + i·strides[d]; others are zero.";
  let arguments = (ins AnyRankedTensor:$operand, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$strides);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand `offsets` $offsets `strides` $strides attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Hyc_SplitOp : Hyc_TensorOp<"split", [Hyc_PassesPartialSums, PrecisionOpInterface, CostOpInterface]> {
  let summary = "cuts one dimension into consecutive parts";
  let description = [{
    1. `split.sizes`: the results' sizes along `dim` sum to the operand's, other dimensions agree.
    ```mlir
    %q, %k, %v = hyc.split %qkv dim 2 : (tensor<2x16x3x8x8xf32>) -> (tensor<2x16x1x8x8xf32>, …)
    ```
  }];
  let arguments = (ins AnyRankedTensor:$operand, I64Attr:$dim);
  let results = (outs Variadic<AnyRankedTensor>:$parts);
  let assemblyFormat = "$operand `dim` $dim attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Hyc_ConcatOp : Hyc_TensorOp<"concat", [Hyc_PassesPartialSums, PrecisionOpInterface, CostOpInterface]> {
  let summary = "joins tensors along one dimension";
  let description = "1. `concat.sizes`: the operands' sizes along `dim` sum to the result's, other dimensions agree.";
  let arguments = (ins Variadic<AnyRankedTensor>:$parts, I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$parts `dim` $dim attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Hyc_ReduceOp : Hyc_TensorOp<"reduce", [Hyc_OwnPrecision, CostOpInterface,
    DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "combines all elements along some dimensions, which disappear";
  let description = [{
    16-bit floats are added in f32. The result is rounded to their type, or left as it is where the result is f32.

    1. `reduce.dims`: `dims` is strictly increasing and in range.
  }];
  let arguments = (ins Hyc_ReductionKindAttr:$kind, AnyRankedTensor:$operand, DenseI64ArrayAttr:$dims);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$kind $operand $dims attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{
    /// The inferred type, or f32 where that is narrower.
    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange declared);
    bool preservesZeros(const ::hyc::ShardingRule &rule, int factor);
    unsigned getNumPartialOperands() { return getKind() == ReductionKind::sum ? 1 : 0; }
  }];
}

def Hyc_EinsumOp : Hyc_TensorOp<"einsum", [Hyc_PreservesZeros, Hyc_OwnPrecision,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>, DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "contracts two tensors over the letters that the result lacks";
  let description = [{
    Every matrix product of a model, batched or transposed, and every gradient of one, is this op; the spec is also its
    sharding rule. Products of 16-bit floats are added in f32; the result is rounded to their type, or left as it is where
    the result is f32. Those of 8-bit floats (f8E4M3FN and f8E5M2, each operand its own) are added in f32 too; the result
    is bf16 or f32.

    1. `einsum.spec`: `lhs,rhs->result`, one lower- or upper-case letter a dimension, none twice in one tensor.
    2. `einsum.sizes`: a letter has one size wherever it stands.
    3. `einsum.contracted`: a letter that is not in the result stands in both operands; a letter in the result stands in
       at least one.

    ```mlir
    %h = hyc.einsum "bsk,kn->bsn" %x, %w {id = "fc1"} : (tensor<2x16x64xf32>, tensor<64x256xf32>) -> tensor<2x16x256xf32>
    ```
  }];
  let arguments = (ins StrAttr:$spec, AnyRankedTensor:$lhs, AnyRankedTensor:$rhs);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$spec $lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{
    /// The three letter strings of the spec; valid on a verified op.
    struct Letters { ::llvm::StringRef lhs, rhs, result; };
    static std::optional<Letters> parseSpec(::llvm::StringRef spec);
    Letters getLetters() { return *parseSpec(getSpec()); }
    /// The inferred type, or f32 where that is narrower.
    static bool isCompatibleReturnTypes(::mlir::TypeRange inferred, ::mlir::TypeRange declared);
  }];
}

def Hyc_SoftmaxOp : Hyc_TensorOp<"softmax", [Hyc_OwnPrecision, CostOpInterface, SameOperandsAndResultType,
    DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "exp(x - max x) / Σ exp(x - max x) along the last dimension";
  let arguments = (ins AnyRankedTensor:$operand);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

#endif // HYC_SHAPE_OPS_TD
