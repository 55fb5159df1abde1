// Composite ops of normalization by the root mean square and of groups of channels, and of rotary positions. Of 16-bit
// floats they compute in f32, and statistics and tables stay f32.

#ifndef HYC_NORM_OPS_TD
#define HYC_NORM_OPS_TD

include "dialects/Hyc/HycCompositeOps.td"

def Hyc_RmsNormOp : Hyc_TensorOp<"rms_norm", [Hyc_OwnPrecision, CostOpInterface,
    DeclareOpInterfaceMethods<InferTypeOpInterface>, DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "normalization by the root mean square of the last dimension";
  let description = [{
    y = x · rstd · scale with rstd = 1/sqrt(mean(x²) + epsilon) (Zhang and Sennrich 2019). `rstd` drops the last dimension.
    `scale` may be f32 where `x` is narrower.

    1. `rms_norm.shapes`: `scale` has the size of the last dimension of `x`.
    ```mlir
    %y, %rstd = hyc.rms_norm %x, %w epsilon 1.0e-6 {id = "layers.0.input_layernorm"}
        : (tensor<2x16x64xf32>, tensor<64xf32>) -> (tensor<2x16x64xf32>, tensor<2x16xf32>)
    ```
    Made by hyc-raise-rms-norm or a builder; phase 5 makes one call of it.
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$scale, F64Attr:$epsilon);
  let results = (outs AnyRankedTensor:$y, AnyRankedTensor:$rstd);
  let assemblyFormat = "$x `,` $scale `epsilon` $epsilon attr-dict `:` functional-type(operands, results)";
}

def Hyc_RmsNormGradOp : Hyc_GradientOp<"rms_norm_grad", [CostOpInterface,
    DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "cotangents of rms_norm's x and scale";
  let description = [{
    With g = cotangent · scale and n = x · rstd: rstd · (g - n · mean(g · n)), and the sum over rows of cotangent · n.
  }];
  let arguments = (ins AnyRankedTensor:$cotangent, AnyRankedTensor:$x, AnyRankedTensor:$scale, AnyRankedTensor:$rstd);
  let results = (outs AnyRankedTensor:$x_cotangent, AnyRankedTensor:$scale_cotangent);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Hyc_GroupNormOp : Hyc_TensorOp<"group_norm", [Hyc_OwnPrecision, CostOpInterface,
    DeclareOpInterfaceMethods<InferTypeOpInterface>, DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "normalization of groups of channels, of each sample by itself";
  let description = [{
    y = (x - mean) · rstd · scale + bias with rstd = 1/sqrt(var + epsilon), var the biased variance over a group's channels
    and positions (Wu and He 2018); of groups of one channel it is instance norm. x has its groups apart, (N,G,C,S): a tensor
    (N,G·C,H,W) is reshaped for it, which moves nothing, and groups may be split without an attribute that counts them.
    `scale` and `bias` may be f32 where `x` is narrower.

    1. `group_norm.shapes`: x is (N,G,C,S), `scale` and `bias` (G,C); `mean` and `rstd` are (N,G).
    ```mlir
    %y, %mean, %rstd = hyc.group_norm %x, %w, %b epsilon 1.0e-5 {id = "down.0.norm"}
        : (tensor<2x4x8x64xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<2x4x8x64xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
    ```
    Made by importers; phase 5 makes one call of it.
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$scale, AnyRankedTensor:$bias, F64Attr:$epsilon);
  let results = (outs AnyRankedTensor:$y, AnyRankedTensor:$mean, AnyRankedTensor:$rstd);
  let assemblyFormat = "$x `,` $scale `,` $bias `epsilon` $epsilon attr-dict `:` functional-type(operands, results)";
}

def Hyc_GroupNormGradOp : Hyc_GradientOp<"group_norm_grad", [CostOpInterface,
    DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "cotangents of group_norm's x, scale and bias";
  let description = [{
    With g = cotangent · scale and n = (x - mean) · rstd: rstd · (g - mean(g) - n · mean(g · n)), and the sums over samples and
    positions of cotangent · n and of cotangent.
  }];
  let arguments = (ins AnyRankedTensor:$cotangent, AnyRankedTensor:$x, AnyRankedTensor:$scale, AnyRankedTensor:$mean,
                       AnyRankedTensor:$rstd);
  let results = (outs AnyRankedTensor:$x_cotangent, AnyRankedTensor:$scale_cotangent, AnyRankedTensor:$bias_cotangent);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Hyc_RotaryTableOp : Hyc_Op<"rotary_table", [Pure, CostOpInterface, Hyc_OwnSharding,
    DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "cosines and sines of position times frequency, for hyc.rope";
  let description = [{
    cos[p, i] = factor · cos(p · frequencies[i]), and so sin: positions from 0 on. The angle is rounded to the results' type
    before the function is taken, as models compute it. Like a constant it depends on no input, so that every stage and
    backward make their own instead of passing it on.

    1. `rotary_table.shapes`: both results are (P, number of frequencies), of one floating-point type.
    ```mlir
    %cos, %sin = hyc.rotary_table [1.0, 0.1] factor 1.0 : () -> (tensor<16x2xf32>, tensor<16x2xf32>)
    ```
  }];
  let arguments = (ins DenseF32ArrayAttr:$frequencies, F64Attr:$factor);
  let results = (outs AnyRankedTensor:$cos, AnyRankedTensor:$sin);
  let assemblyFormat = "custom<Frequencies>($frequencies) `factor` $factor attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Hyc_RopeOp : Hyc_TensorOp<"rope", [Hyc_PreservesZeros, Hyc_OwnPrecision, CostOpInterface,
    DeclareOpInterfaceMethods<InferTypeOpInterface>, DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "rotary positions: each pair of elements of a head is turned by an angle of its position";
  let description = [{
    Su et al. 2021, with the pairs as GPT-NeoX and transformers have them: of the first 2R elements of a head, element i and
    element R + i are one pair (x, y), which becomes (x cos - y sin, y cos + x sin). Elements from 2R on stay as they are. The
    op is linear in `x`, and its gradient is the op with `inverse`, which turns the other way: (x cos + y sin, y cos - x sin).
    Tables may be f32 where `x` is narrower. Nobody differentiates with respect to them.

    1. `rope.shapes`: x is (B,S,H,D); cos and sin are both (S,R), or (B,S,R) where samples have positions of their own, with
       2R ≤ D.
    ```mlir
    %r = hyc.rope %q, %cos, %sin {id = "layers.0.self_attn.q_rope"}
        : (tensor<2x16x4x8xf32>, tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<2x16x4x8xf32>
    ```
    Made by hyc-raise-rope or a builder; phase 5 makes one call of it.
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$cos, AnyRankedTensor:$sin, UnitAttr:$inverse);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "(`inverse` $inverse^)? $x `,` $cos `,` $sin attr-dict `:` functional-type(operands, results)";
}

#endif // HYC_NORM_OPS_TD
