// Ops over windows that slide along spatial dimensions: convolution with its two transposes, pooling by maximum, and
// resampling, whose windows and weights are tables.
// Pooling by average is a reduction, or a convolution of each channel by itself.

#ifndef HYC_WINDOW_OPS_TD
#define HYC_WINDOW_OPS_TD

include "dialects/Hyc/HycShapeOps.td"

// Where windows lie. Along spatial dimension d the element of window position i at kernel element k is, of the input,
// number i·strides[d] + k·dilations[d] - low[d]; numbers outside the input are padding, and `high` only adds windows.
class Hyc_WindowOp<string mnemonic, list<Trait> traits = []>
    : Hyc_TensorOp<mnemonic, traits>;

// The three are the partial derivatives of one form, linear in input, weights and output each: the gradient of any is
// the other two.
class Hyc_ConvolutionLikeOp<string mnemonic>
    : Hyc_WindowOp<mnemonic, [DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>]> {
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high,
                       DefaultValuedAttr<I64Attr, "1">:$groups);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{$lhs `,` $rhs `strides` $strides `dilations` $dilations `pads` $low $high attr-dict `:`
                         functional-type(operands, results)}];
  let hasVerifier = 1;
}

def Hyc_ConvolutionOp : Hyc_ConvolutionLikeOp<"convolution"> {
  let summary = "cross-correlation over 1 to 3 spatial dimensions, in groups";
  let description = [{
    Of x (N,C,S…) and weights w (O,C/G,K…) the result y (N,O,P…) is
    y[n,o,p] = Σ x[n, c, p·strides + k·dilations - low] · w[o, c', k] over c' and k, c being channel c' of o's group; x is
    0 in the padding. P = ⌊(S + low + high - dilations·(K - 1) - 1) / strides⌋ + 1.

    1. `convolution.ranks`: x, w and y have one element type and 1 to 3 spatial dimensions; the attributes have one number
       each, strides and dilations positive, pads not negative.
    2. `convolution.channels`: `groups` divides C and O; w has C/groups channels.
    3. `convolution.positions`: y has P positions, at least one.
    ```mlir
    %y = hyc.convolution %x, %w strides [2, 2] dilations [1, 1] pads [1, 1] [1, 1]
        : (tensor<8x3x32x32xf32>, tensor<16x3x3x3xf32>) -> tensor<8x16x16x16xf32>
    ```
  }];
}

def Hyc_ConvolutionTransposeOp : Hyc_ConvolutionLikeOp<"convolution_transpose"> {
  let summary = "the cotangent of a convolution's x, from that of y and the weights: a transposed convolution";
  let description = [{
    Operands y (N,O,P…) and w (O,C/G,K…), result x (N,C,S…): x[n,c,s] = Σ y[n,o,p] · w[o,c',k] over all o, p and k whose
    element s is. Of the sizes S that give P positions the result's type tells which.

    1. As those of hyc.convolution.
  }];
}

def Hyc_ConvolutionWeightOp : Hyc_ConvolutionLikeOp<"convolution_weight"> {
  let summary = "the cotangent of a convolution's weights, from x and the cotangent of y";
  let description = [{
    Operands x (N,C,S…) and y (N,O,P…), result w (O,C/G,K…): w[o,c',k] = Σ x[n, c, p·strides + k·dilations - low] · y[n,o,p]
    over n and p.

    1. As those of hyc.convolution.
  }];
}

def Hyc_MaxPoolOp : Hyc_WindowOp<"max_pool", [CostOpInterface]> {
  let summary = "the largest element of each window, and where it is";
  let description = [{
    Of x (N,C,S…) the result (N,C,P…) is the maximum over each window; `indices` (i64) is the place of the first element
    that attains it among the S… of its channel, row-major. A NaN is larger than any number. Padding is never taken: a
    window that holds nothing else gives the lowest value and index -1. The gradient goes where `indices` says
    (hyc.scatter).

    1. `max_pool.ranks`: 1 to 3 spatial dimensions; the attributes have one number each; sizes, strides and dilations are
       positive, pads not negative.
    2. `max_pool.positions`: both results have P positions, at least one.
    ```mlir
    %y, %i = hyc.max_pool %x window [3, 3] strides [2, 2] dilations [1, 1] pads [1, 1] [1, 1]
        : (tensor<8x16x16x16xf32>) -> (tensor<8x16x8x8xf32>, tensor<8x16x8x8xi64>)
    ```
  }];
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high);
  let results = (outs AnyRankedTensor:$result, AnyRankedTensor:$indices);
  let assemblyFormat = [{$x `window` $window `strides` $strides `dilations` $dilations `pads` $low $high attr-dict `:`
                         functional-type(operands, results)}];
  let hasVerifier = 1;
}

def Hyc_ResampleOp : Hyc_TensorOp<"resample", [Hyc_OwnPrecision, Hyc_PreservesZeros, Hyc_PassesPartialSums,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>, DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "weighted sums of a few elements side by side, along dimensions that follow one another: interpolation";
  let description = [{
    Of one to three dimensions from `dim` on, each has its table: `firsts`, a number an element of the result, and
    `weights`, as many rows of equally many taps. Along each dimension result[i] = Σ weights[i,t] · operand[firsts[i] + t],
    which is a product with a matrix whose rows are 0 outside the taps. Dimensions commute; 16-bit floats are added in f32.
    The gradient is the same op with the tables of the transposed matrices. A tap of weight 0 still multiplies: 0·∞ is NaN.

    1. `resample.dims`: the operand, of floats, has one to three dimensions from `dim` on, as many as there are tables.
    2. `resample.tables`: of a table that makes T elements, weights are a multiple of T, at least one each, and all taps are
       elements of the operand.
    ```mlir
    %y = hyc.resample %x dim 2 firsts [array<i64: 0, 0, 0, 0>] weights [array<f64: 1.0, 0.0, 0.75, 0.25, 0.25, 0.75, 0.0, 1.0>]
        : (tensor<1x3x2xf32>) -> tensor<1x3x4xf32>
    ```
    Made by importers; phase 5 makes one call of it.
  }];
  let arguments = (ins AnyRankedTensor:$operand, I64Attr:$dim,
                       TypedArrayAttrBase<DenseI64ArrayAttr, "first taps by dimension">:$firsts,
                       TypedArrayAttrBase<DenseF64ArrayAttr, "weights by dimension">:$weights);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{$operand `dim` $dim `firsts` $firsts `weights` $weights attr-dict `:`
                         functional-type(operands, results)}];
  let extraClassDeclaration = [{
    /// How many elements are added along each dimension.
    ::llvm::SmallVector<int64_t> getTaps();
  }];
}

#endif // HYC_WINDOW_OPS_TD
