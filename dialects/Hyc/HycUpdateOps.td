// What @apply does: norms, factors and updates, on states by name. Whole-tensor semantics whatever the sharding.
//
// @apply is straight-line. An update that may not happen has a predicate, a boolean: where it is false, every state that
// the update names keeps its bits.

#ifndef HYC_UPDATE_OPS_TD
#define HYC_UPDATE_OPS_TD

include "dialects/Hyc/HycAttrs.td"
include "dialects/Hyc/HycInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Hyc_Predicate : Type<CPred<[{$_self == ::mlir::RankedTensorType::get({},
                                  ::mlir::IntegerType::get($_self.getContext(), 1))}]>, "a boolean, tensor<i1>">,
                    BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getI1Type())">;

def Hyc_SumOfSquaresOp : Hyc_Op<"sum_of_squares", [MemoryEffects<[MemRead]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Σ x² over some states, as f64";
  let description = [{
    Per state one f64 sum per block of 1,024 elements of the row-major flattened tensor; the blocks' sums are added
    exactly, whatever their order, and rounded to f64 once. The result is that value, or, as a tensor of 68 × i64, the
    exact sum itself (kernels/exact_sum/op.h), which other ranks' are added to before hyc.round_sum rounds it. So no
    split of the blocks over ranks changes a bit.

    1. `sum_of_squares.result`: the result is a tensor<f64> or a tensor<68xi64>.
    ```mlir
    %s = hyc.sum_of_squares [@fc1.weight.grad, @fc2.weight.grad] : tensor<f64>
    ```
  }];
  let hasVerifier = 1;
  let arguments = (ins TypedArrayAttrBase<FlatSymbolRefAttr, "symbols">:$states);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$states attr-dict `:` type($result)";
}

def Hyc_RoundSumOp : Hyc_Op<"round_sum", [Pure]> {
  let summary = "the f64 nearest to an exact sum";
  let description = [{
    1. `round_sum.operand`: the operand is an exact sum, a tensor<68xi64>.
    ```mlir
    %v = hyc.round_sum %s : tensor<68xi64> -> tensor<f64>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$sum);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$sum attr-dict `:` type($sum) `->` type($result)";
  let hasVerifier = 1;
}

def Hyc_GradientScaleOp : Hyc_Op<"gradient_scale", [Pure]> {
  let summary = "the factor that turns a sum of gradients into the clipped mean gradient";
  let description = [{
    norm = sqrt(sum_of_squares) / count is the global norm of the mean gradient (0 when count is 0). scale = c / count
    with c = min(1, max_norm / (norm + 1e-6)) where `max_norm` is given, as torch.nn.utils.clip_grad_norm_ has it, else
    c = 1. With `loss_scale` the gradients are that of loss_scale / normalizer times the loss, and both results undo it.
  }];
  let arguments = (ins AnyRankedTensor:$sum_of_squares, AnyRankedTensor:$count, Optional<AnyRankedTensor>:$loss_scale,
                       OptionalAttr<F64Attr>:$max_norm, DefaultValuedAttr<F64Attr, "1.0">:$normalizer);
  let results = (outs AnyRankedTensor:$scale, AnyRankedTensor:$norm);
  let assemblyFormat = [{$sum_of_squares `,` $count (`loss_scale` $loss_scale^ `over` $normalizer)?
                         (`max_norm` $max_norm^)? attr-dict `:` functional-type(operands, results)}];
}

def Hyc_IncrementOp : Hyc_Op<"increment", [MemoryEffects<[MemRead, MemWrite]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "adds one to an integer state and gives the new value";
  let arguments = (ins FlatSymbolRefAttr:$state, Optional<Hyc_Predicate>:$predicate);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$state (`if` $predicate^)? attr-dict `:` type($result)";
}

/// Steps of optimizers: in place, on states by name.
class Hyc_UpdateOp<string mnemonic, list<Trait> traits = []> : Hyc_Op<mnemonic, traits # [
    MemoryEffects<[MemRead, MemWrite]>, DeclareOpInterfaceMethods<SymbolUserOpInterface>, UpdateOpInterface]> {
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verifySymbolUses(::mlir::SymbolTableCollection &symbols) {
      return ::hyc::verifyUpdate(symbols, *this, getSymbols());
    }
  }];
}

class Hyc_AdamLikeOp<string mnemonic> : Hyc_UpdateOp<mnemonic, [AttrSizedOperandSegments]> {
  let arguments = (ins FlatSymbolRefAttr:$param, FlatSymbolRefAttr:$gradient, FlatSymbolRefAttr:$m, FlatSymbolRefAttr:$v,
                       AnyRankedTensor:$lr, AnyRankedTensor:$step, AnyRankedTensor:$scale,
                       Optional<AnyRankedTensor>:$momentum, Optional<Hyc_Predicate>:$predicate,
                       F64Attr:$beta1, F64Attr:$beta2, F64Attr:$epsilon, F64Attr:$weight_decay, UnitAttr:$uncorrected);
  let assemblyFormat = [{$param `,` $gradient `,` $m `,` $v `lr` $lr `step` $step `scale` $scale
                         (`momentum` $momentum^ `:` type($momentum))? (`if` $predicate^)? attr-dict `:`
                         type($lr) `,` type($step) `,` type($scale)}];
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::mlir::FlatSymbolRefAttr> getSymbols() {
      return {getParamAttr(), getGradientAttr(), getMAttr(), getVAttr()};
    }
    ::mlir::Value getCycledMomentum() { return getMomentum(); }
  }];
}

def Hyc_AdamWOp : Hyc_AdamLikeOp<"adamw"> {
  let summary = "one AdamW update in place";
  let description = [{
    Loshchilov and Hutter 2019, in the order of operations of torch.optim.AdamW: g = scale · gradient;
    p = p - lr·weight_decay·p; m = m + (g - m)(1 - beta1); v = beta2·v + (1 - beta2)·g²;
    p = p - lr/(1 - beta1^step) · m / (sqrt(v)/sqrt(1 - beta2^step) + epsilon). With `uncorrected` the two factors
    1 - beta^step are 1. `momentum`, where given, is this step's beta1.

    1. `adamw.states`: parameter, gradient, m and v have one type. With `dist.flat` each of them is a flat shard or the
       whole that it is a shard of.
    ```mlir
    hyc.adamw @w, @w.grad, @w.m, @w.v lr %lr step %t scale %s {beta1 = 0.9, …}
    ```
  }];
}

def Hyc_AdamOp : Hyc_AdamLikeOp<"adam"> {
  let summary = "one Adam update in place, with L2 decay";
  let description = [{
    Kingma and Ba 2015, in the order of operations of torch.optim.Adam: as hyc.adamw, but the decay is part of the
    gradient: g = scale · gradient + weight_decay·p. Without decay the two are one.

    1. `adam.states`: parameter, gradient, m and v have one type.
  }];
}

def Hyc_SgdOp : Hyc_UpdateOp<"sgd"> {
  let summary = "one stochastic gradient descent update in place";
  let description = [{
    In the order of operations of torch.optim.SGD: g = scale · gradient + weight_decay·p; with `velocity`
    b = momentum·b + g (b starts at zero) and g = b; p = p - lr·g.
  }];
  let arguments = (ins FlatSymbolRefAttr:$param, FlatSymbolRefAttr:$gradient, OptionalAttr<FlatSymbolRefAttr>:$velocity,
                       AnyRankedTensor:$lr, AnyRankedTensor:$scale, Optional<Hyc_Predicate>:$predicate,
                       F64Attr:$momentum, F64Attr:$weight_decay);
  let assemblyFormat = [{$param `,` $gradient (`velocity` $velocity^)? `lr` $lr `scale` $scale (`if` $predicate^)?
                         attr-dict `:` type($lr) `,` type($scale)}];
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::mlir::FlatSymbolRefAttr> getSymbols() {
      ::llvm::SmallVector<::mlir::FlatSymbolRefAttr> symbols{getParamAttr(), getGradientAttr()};
      if (getVelocityAttr())
        symbols.push_back(getVelocityAttr());
      return symbols;
    }
    ::std::string getKernel() { return getVelocityAttr() ? "sgd_momentum" : "sgd"; }
    ::llvm::SmallVector<::mlir::NamedAttribute> getNumbers();
  }];
}

def Hyc_LionOp : Hyc_UpdateOp<"lion", [AttrSizedOperandSegments]> {
  let summary = "one Lion update in place";
  let description = [{
    Chen et al. 2023: g = scale · gradient; c = beta1·m + (1 - beta1)·g; p = p·(1 - lr·weight_decay) - lr·sign(c);
    m = beta2·m + (1 - beta2)·g. sign(0) is 0. `momentum`, where given, is this step's beta1.

    1. `lion.states`: parameter, gradient and m have one type.
    ```mlir
    hyc.lion @w, @w.grad, @w.m lr %lr scale %s {beta1 = 0.9, beta2 = 0.99, weight_decay = 0.1} : …
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$param, FlatSymbolRefAttr:$gradient, FlatSymbolRefAttr:$m,
                       AnyRankedTensor:$lr, AnyRankedTensor:$scale, Optional<AnyRankedTensor>:$momentum,
                       Optional<Hyc_Predicate>:$predicate, F64Attr:$beta1, F64Attr:$beta2, F64Attr:$weight_decay);
  let assemblyFormat = [{$param `,` $gradient `,` $m `lr` $lr `scale` $scale
                         (`momentum` $momentum^ `:` type($momentum))? (`if` $predicate^)? attr-dict `:`
                         type($lr) `,` type($scale)}];
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::mlir::FlatSymbolRefAttr> getSymbols() {
      return {getParamAttr(), getGradientAttr(), getMAttr()};
    }
    ::mlir::Value getCycledMomentum() { return getMomentum(); }
  }];
}

def Hyc_LambDirectionOp : Hyc_UpdateOp<"lamb_direction", [AttrSizedOperandSegments]> {
  let summary = "the direction of a LAMB update, in the place of the gradient";
  let description = [{
    You et al. 2020, algorithm 2: g = scale · gradient; m and v as those of hyc.adamw;
    u = (m/(1 - beta1^step)) / (sqrt(v/(1 - beta2^step)) + epsilon) + weight_decay·p. u, rounded to the gradient's type,
    replaces the gradient, which the next step overwrites anyway, so that it needs no memory of its own. How far the
    parameter goes along u follows from the norms of both, which are of whole tensors: hyc.sum_of_squares,
    hyc.trust_ratio, hyc.lamb. With `uncorrected` the two factors 1 - beta^step are 1. `momentum`, where given, is this
    step's beta1.

    1. `lamb.states`: parameter, gradient, m and v have one type.
    ```mlir
    hyc.lamb_direction @w, @w.grad, @w.m, @w.v step %t scale %s {beta1 = 0.9, …} : tensor<i64>, tensor<f32>
    %p = hyc.sum_of_squares [@w] : tensor<f64>
    %u = hyc.sum_of_squares [@w.grad] : tensor<f64>
    %r = hyc.trust_ratio %p, %u {least = 0.01, most = 10.0} : (tensor<f64>, tensor<f64>) -> tensor<f64>
    hyc.lamb @w, @w.grad lr %lr ratio %r : tensor<f32>, tensor<f64>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$param, FlatSymbolRefAttr:$gradient, FlatSymbolRefAttr:$m, FlatSymbolRefAttr:$v,
                       AnyRankedTensor:$step, AnyRankedTensor:$scale, Optional<AnyRankedTensor>:$momentum,
                       Optional<Hyc_Predicate>:$predicate, F64Attr:$beta1, F64Attr:$beta2, F64Attr:$epsilon,
                       F64Attr:$weight_decay, UnitAttr:$uncorrected);
  let assemblyFormat = [{$param `,` $gradient `,` $m `,` $v `step` $step `scale` $scale
                         (`momentum` $momentum^ `:` type($momentum))? (`if` $predicate^)? attr-dict `:`
                         type($step) `,` type($scale)}];
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::mlir::FlatSymbolRefAttr> getSymbols() {
      return {getParamAttr(), getGradientAttr(), getMAttr(), getVAttr()};
    }
    ::mlir::Value getCycledMomentum() { return getMomentum(); }
    bool changesParam() { return false; }
    bool changesGradient() { return true; }
  }];
}

def Hyc_TrustRatioOp : Hyc_Op<"trust_ratio", [Pure]> {
  let summary = "how long a step is for the length of what it moves: LAMB's trust ratio";
  let description = [{
    sqrt(param) / sqrt(direction) of the two sums of squares, within `least` and `most`; 1 where either is 0.

    1. `trust_ratio.bounds`: 0 ≤ least ≤ most.
  }];
  let arguments = (ins AnyRankedTensor:$param, AnyRankedTensor:$direction, F64Attr:$least, F64Attr:$most);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$param `,` $direction attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Hyc_LambOp : Hyc_UpdateOp<"lamb"> {
  let summary = "one LAMB update in place, along the direction that hyc.lamb_direction left";
  let description = [{
    p = p - (lr · ratio) · u, where u is in the place of the gradient.

    1. `lamb.states`: parameter and gradient have one type.
  }];
  let arguments = (ins FlatSymbolRefAttr:$param, FlatSymbolRefAttr:$gradient, AnyRankedTensor:$lr, AnyRankedTensor:$ratio,
                       Optional<Hyc_Predicate>:$predicate);
  let assemblyFormat = [{$param `,` $gradient `lr` $lr `ratio` $ratio (`if` $predicate^)? attr-dict `:`
                         type($lr) `,` type($ratio)}];
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::mlir::FlatSymbolRefAttr> getSymbols() { return {getParamAttr(), getGradientAttr()}; }
  }];
}

def Hyc_RefreshOp : Hyc_Op<"refresh", [MemoryEffects<[MemRead, MemWrite]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a parameter's copy becomes the parameter, rounded to the copy's type (to nearest, ties to even)";
  let description = [{
    1. `refresh.copy`: the copy has the parameter's shape.
    ```mlir
    hyc.refresh @w.compute from @w
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$copy, FlatSymbolRefAttr:$param);
  let assemblyFormat = "$copy `from` $param attr-dict";
}

def Hyc_UpdateLossScaleOp : Hyc_Op<"update_loss_scale", [MemoryEffects<[MemRead, MemWrite]>,
                                                         DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "dynamic loss scaling: the next step's scale, from whether this step's gradients are finite";
  let description = [{
    The rules of DeepSpeed's DynamicLossScaler. `good_steps` counts the steps since the last overflow, `hysteresis_left`
    the overflows, this one included, until the scale is lowered.

    Finite: good_steps grows by one; with `consecutive_hysteresis`, hysteresis_left becomes `hysteresis`. Where good_steps
    is a multiple of `window`, hysteresis_left becomes `hysteresis` too, and the scale doubles.
    Not finite: good_steps becomes 0. If hysteresis_left is above 1 it falls by one; else the scale is halved, but not
    below `min_scale`. Where it is at `min_scale` already, hysteresis_left becomes 0, by which the runtime knows that
    training cannot go on.
    ```mlir
    hyc.update_loss_scale @loss_scale, @loss_scale.good_steps, @loss_scale.hysteresis finite %finite
        {window = 1000, hysteresis = 2, min_scale = 1.0}
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$scale, FlatSymbolRefAttr:$good_steps, FlatSymbolRefAttr:$hysteresis_left,
                       Hyc_Predicate:$finite, I64Attr:$window, I64Attr:$hysteresis, F64Attr:$min_scale,
                       UnitAttr:$consecutive_hysteresis);
  let assemblyFormat = [{$scale `,` $good_steps `,` $hysteresis_left `finite` $finite attr-dict}];
}

def Hyc_UpdateFp8ScaleOp : Hyc_Op<"update_fp8_scale", [MemoryEffects<[MemRead, MemWrite]>,
                                                       DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "delayed scaling: the next step's scale of a quantised tensor, from the greatest magnitudes of the last steps";
  let description = [{
    `amax` is this step's greatest |x|. It enters `history`, whose oldest entry goes. With a the greatest entry that is
    left, the scale becomes 2^⌊log2(largest / a)⌋, within 2^±63, and `inverse` its reciprocal; where a is 0, or
    this step's amax is not finite, both stay as they are. An amax that is not finite enters as 0. Powers of two, so that
    scaling and undoing it round nothing.

    1. `update_fp8_scale.types`: scale, inverse and amax are tensor<f32>, the history has one dimension of f32.
    2. `update_fp8_scale.largest`: largest is above 0.
    ```mlir
    hyc.update_fp8_scale @fc1.fp8.x.scale, @fc1.fp8.x.inverse, @fc1.fp8.x.history amax @fc1.fp8.x.amax {largest = 448.0}
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$scale, FlatSymbolRefAttr:$inverse, FlatSymbolRefAttr:$history,
                       FlatSymbolRefAttr:$amax, F64Attr:$largest);
  let assemblyFormat = "$scale `,` $inverse `,` $history `amax` $amax attr-dict";
  let hasVerifier = 1;
}

#endif // HYC_UPDATE_OPS_TD
