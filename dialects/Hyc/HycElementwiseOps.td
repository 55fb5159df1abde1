// Ops that compute each element alone, and constants. Shapes never broadcast implicitly: see hyc.broadcast.

#ifndef HYC_ELEMENTWISE_OPS_TD
#define HYC_ELEMENTWISE_OPS_TD

include "dialects/Hyc/HycAttrs.td"
include "dialects/Hyc/HycInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Hyc_Elementwise : NativeOpTrait<"Elementwise"> { let cppNamespace = "::hyc"; }

// Facts: see HycInterfaces.td.
def Hyc_PreservesZeros : NativeOpTrait<"PreservesZeros"> { let cppNamespace = "::hyc"; }
def Hyc_PassesPartialSums : NativeOpTrait<"PassesPartialSums"> { let cppNamespace = "::hyc"; }
def Hyc_ComputesInF32 : NativeOpTrait<"ComputesInF32"> { let cppNamespace = "::hyc"; }

class Hyc_ElementwiseOp<string mnemonic, list<Trait> traits = []>
    : Hyc_Op<mnemonic, !listconcat([Pure, Hyc_Elementwise, ShardingRuleOpInterface, PrecisionOpInterface,
                                    CostOpInterface], traits)>;

class Hyc_UnaryOp<string mnemonic, string formula, bit differentiable = 1, list<Trait> traits = []>
    : Hyc_ElementwiseOp<mnemonic, !listconcat([SameOperandsAndResultType, ScalarFunctionOpInterface], traits,
                !if(differentiable, [DeclareOpInterfaceMethods<DifferentiableOpInterface>], []))> {
  let summary = formula;
  let arguments = (ins AnyRankedTensor:$operand);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

class Hyc_BinaryOp<string mnemonic, string formula, bit differentiable = 1, list<Trait> traits = []>
    : Hyc_ElementwiseOp<mnemonic, !listconcat([SameOperandsAndResultType, ScalarFunctionOpInterface], traits,
                !if(differentiable, [DeclareOpInterfaceMethods<DifferentiableOpInterface>], []))> {
  let summary = formula;
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def Hyc_NegOp : Hyc_UnaryOp<"neg", "-x", 1, [Hyc_PreservesZeros, Hyc_PassesPartialSums]>;
def Hyc_AbsOp : Hyc_UnaryOp<"abs", "|x|", 1, [Hyc_PreservesZeros]>;
def Hyc_ExpOp : Hyc_UnaryOp<"exp", "e^x", 1, [Hyc_ComputesInF32]>;
def Hyc_LogOp : Hyc_UnaryOp<"log", "natural logarithm of x", 1, [Hyc_ComputesInF32]>;
def Hyc_SqrtOp : Hyc_UnaryOp<"sqrt", "square root of x", 1, [Hyc_PreservesZeros, Hyc_ComputesInF32]>;
def Hyc_RsqrtOp : Hyc_UnaryOp<"rsqrt", "1 / sqrt(x)", 1, [Hyc_ComputesInF32]>;
def Hyc_ReciprocalOp : Hyc_UnaryOp<"reciprocal", "1 / x", 1, [Hyc_ComputesInF32]>;
def Hyc_TanhOp : Hyc_UnaryOp<"tanh", "hyperbolic tangent of x", 1, [Hyc_PreservesZeros]>;
def Hyc_ErfOp : Hyc_UnaryOp<"erf", "error function of x", 1, [Hyc_PreservesZeros]>;
def Hyc_SinOp : Hyc_UnaryOp<"sin", "sine of x, radians", 1, [Hyc_PreservesZeros, Hyc_ComputesInF32]>;
def Hyc_CosOp : Hyc_UnaryOp<"cos", "cosine of x, radians", 1, [Hyc_ComputesInF32]>;
def Hyc_ReluOp : Hyc_UnaryOp<"relu", "max(x, 0)", 1, [Hyc_PreservesZeros]>;
def Hyc_SigmoidOp : Hyc_UnaryOp<"sigmoid", "1 / (1 + e^-x)">;

def Hyc_AddOp : Hyc_BinaryOp<"add", "x + y", 1, [Commutative, Hyc_PreservesZeros, Hyc_PassesPartialSums]> {
  let hasFolder = 1;
}
def Hyc_SubOp : Hyc_BinaryOp<"sub", "x - y", 1, [Hyc_PreservesZeros, Hyc_PassesPartialSums]>;
def Hyc_MulOp : Hyc_ElementwiseOp<"mul", [SameOperandsAndResultType, ScalarFunctionOpInterface, Commutative,
    Hyc_PreservesZeros, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "x y";
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
  let hasFolder = 1;
  let extraClassDeclaration = [{
    /// Of the scale of a quantised tensor, a power of two, no bit of what is summed changes.
    unsigned getNumPartialOperands();
  }];
}
def Hyc_DivOp : Hyc_BinaryOp<"div", "x / y (truncated for integers)">;
def Hyc_PowOp : Hyc_BinaryOp<"pow", "x^y", 1, [Hyc_ComputesInF32]>;
def Hyc_MaxOp : Hyc_BinaryOp<"max", "max(x, y), NaN if either is", 1, [Commutative]>;
def Hyc_MinOp : Hyc_BinaryOp<"min", "min(x, y), NaN if either is", 1, [Commutative]>;
def Hyc_AndOp : Hyc_BinaryOp<"and", "x and y, booleans or bit by bit of integers", 0, [Commutative]>;
def Hyc_OrOp : Hyc_BinaryOp<"or", "x or y, booleans or bit by bit of integers", 0, [Commutative]>;

def Hyc_NotOp : Hyc_UnaryOp<"not", "not x, booleans", 0>;

def Hyc_GeluOp : Hyc_ElementwiseOp<"gelu", [Hyc_PreservesZeros, Hyc_OwnScalarFunction, SameOperandsAndResultType,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>, DeclareOpInterfaceMethods<DecomposableOpInterface>]> {
  let summary = "Gaussian error linear unit";
  let description = [{
    x Φ(x), or with `tanh` its approximation 0.5 x (1 + tanh(sqrt(2/π) (x + 0.044715 x³))) (Hendrycks and Gimpel 2016).
  }];
  let arguments = (ins AnyRankedTensor:$operand, UnitAttr:$tanh);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "(`tanh` $tanh^)? $operand attr-dict `:` type($result)";
}

def Hyc_GeluGradOp : Hyc_ElementwiseOp<"gelu_grad", [Hyc_PreservesZeros, Hyc_OwnScalarFunction,
    SameOperandsAndResultType]> {
  let summary = "cotangent of gelu's operand: cotangent · gelu'(operand)";
  let arguments = (ins AnyRankedTensor:$cotangent, AnyRankedTensor:$operand, UnitAttr:$tanh);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "(`tanh` $tanh^)? $cotangent `,` $operand attr-dict `:` type($result)";
}

def Hyc_CompareOp : Hyc_ElementwiseOp<"compare", [Hyc_OwnScalarFunction, SameOperandsShape]> {
  let summary = "element by element relation, as booleans";
  let arguments = (ins Hyc_ComparePredicateAttr:$predicate, AnyRankedTensor:$lhs, AnyRankedTensor:$rhs);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$predicate $lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Hyc_SelectOp : Hyc_ElementwiseOp<"select", [ScalarFunctionOpInterface,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "where condition then x else y";
  let arguments = (ins AnyRankedTensor:$condition, AnyRankedTensor:$lhs, AnyRankedTensor:$rhs);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$condition `,` $lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Hyc_ConvertOp : Hyc_ElementwiseOp<"convert", [Hyc_PreservesZeros, ScalarFunctionOpInterface,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "changes the element type; float to integer truncates towards zero";
  let arguments = (ins AnyRankedTensor:$operand);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` functional-type(operands, results)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Hyc_StopGradientOp : Hyc_ElementwiseOp<"stop_gradient", [Hyc_PreservesZeros, Hyc_PassesPartialSums,
    SameOperandsAndResultType, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "x, whose gradient is zero";
  let description = [{
    What a model detaches, or computes where it asks for no gradients: a constant to its backward. Only the model has it:
    hyc-differentiate puts x in its place once it has built the gradients, and nothing after that pass has one.
    ```mlir
    %t = hyc.stop_gradient %x {id = "target.detach"} : tensor<2x16x64xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$operand);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
  let hasFolder = 1;
}

def Hyc_DropoutOp : Hyc_ElementwiseOp<"dropout", [Hyc_PreservesZeros,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "x / (1 - rate) where the mask holds, 0 elsewhere";
  let description = [{
    Training-mode dropout (Srivastava et al. 2014, scaled as they run it). Models have it without a mask: it draws one
    element of its own for each of x. hyc-key-random-ops gives it the mask of hyc.dropout_mask, and nothing after that
    pass has one without. It is linear in x: its gradient is itself, under the same mask, so that whoever has the mask
    needs nothing of x. Of 16-bit floats the product is computed in f32. Where a model is evaluated there is none.

    1. `dropout.types`: the result has the type of x, floats; the mask, where given, is of booleans in x's shape.
    2. `dropout.rate`: 0 ≤ rate < 1.
    ```mlir
    %y = hyc.dropout %x rate 1.0e-1 {id = "h.0.drop"} : (tensor<2x16x64xf32>) -> tensor<2x16x64xf32>
    %y = hyc.dropout %x mask %m rate 1.0e-1 : (tensor<2x16x64xf32>, tensor<2x16x64xi1>) -> tensor<2x16x64xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$x, Optional<AnyRankedTensor>:$mask, F64Attr:$rate);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x (`mask` $mask^)? `rate` $rate attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Hyc_DropoutMaskOp : Hyc_Op<"dropout_mask", [Pure, CostOpInterface, Hyc_PreservesZeros, Hyc_OwnSharding,
    Hyc_OwnPlace]> {
  let summary = "which elements dropout keeps, drawn by counter";
  let description = [{
    Element (b, i…) is kept where word(keys[b, column], n) ≥ ⌊rate · 2³²⌋. Here word(key, n) is output n mod 4 of
    Philox4x32-10 (Salmon et al. 2011) under the key's two halves, low first, at counter (n / 4, low half first, 0, 0),
    and n counts the elements of one whole sample in row-major order, with rows (the last dimension) filled up to a
    multiple of four: four neighbours of a row share one evaluation, wherever the row begins.

    keys[b, column] is derived from the run's seed, the sample's number over all steps (step · global batch + place in the
    step's global batch), and the id of the op (`hyc.streams`, see hyc.func). So the mask of a sample is the same whatever
    the micro-batch, the mesh, the schedule and the ZeRO stage, whenever and however often it is drawn; a step or an op
    later it is another one.

    A rank that holds a part of a dimension adds its place there: `offsets` are counts of elements of the whole sample,
    `strides` how many lie between neighbours in each dimension but the first (phase 4; without them the op's own shape
    tells).

    1. `dropout_mask.shapes`: keys (B, N) of i64, column below N; the result is of booleans, with B samples first.
    2. `dropout_mask.place`: offsets are i64 scalars; `strides`, which offsets need, has one number a dimension but the
       first.
    3. `dropout_mask.rate`: 0 ≤ rate < 1.
    ```mlir
    %m = hyc.dropout_mask %keys column 3 rate 1.0e-1 {id = "h.0.drop.mask"} : (tensor<2x4xi64>) -> tensor<2x16x64xi1>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$keys, Variadic<AnyRankedTensor>:$offsets, I64Attr:$column, F64Attr:$rate,
                       OptionalAttr<DenseI64ArrayAttr>:$strides);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{$keys `column` $column (`offsets` $offsets^)? (`strides` $strides^)? `rate` $rate attr-dict `:`
                         functional-type(operands, results)}];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Elements of a whole sample between neighbours in each dimension but the first.
    ::llvm::SmallVector<int64_t> getSampleStrides();
    /// The words below it are dropped.
    static int64_t thresholdOf(double rate);
  }];
}

def Hyc_ConstantOp : Hyc_Op<"constant", [Pure, ConstantLike,
    DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["getShardingRule", "preservesZeros"]>, Hyc_OwnPlace,
    Hyc_OwnPrecision, AllTypesMatch<["value", "result"]>]> {
  let summary = "values known when compiling";
  let description = "A splat is free to be split in any dimension; other values stay whole on every rank.";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
}

def Hyc_IotaOp : Hyc_Op<"iota", [Pure, Hyc_OwnSharding, Hyc_OwnPrecision]> {
  let summary = "each element is its index along one dimension";
  let arguments = (ins I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`dim` $dim attr-dict `:` type($result)";
  let hasVerifier = 1;
}

#endif // HYC_ELEMENTWISE_OPS_TD
