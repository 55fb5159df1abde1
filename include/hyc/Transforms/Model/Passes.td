// Passes of phase 1: they recognise what exporters took apart. None knows which front end a model came through. Run them
// in this order; each says what it needs from the ones before it. Every example is part of a test in test/Model.

#ifndef HYC_TRANSFORMS_MODEL_PASSES_TD
#define HYC_TRANSFORMS_MODEL_PASSES_TD

include "mlir/Pass/PassBase.td"

def AbsorbLayout : Pass<"hyc-absorb-layout", "::mlir::ModuleOp"> {
  let summary = "Moves transposes and merging reshapes down into the contractions that read them";
  let description = [{
    ```mlir
    %0 = hyc.reshape %x : (tensor<2x16x32xf32>) -> tensor<32x32xf32>
    %1 = hyc.einsum "mk,kn->mn" %0, %w : (tensor<32x32xf32>, tensor<32x96xf32>) -> tensor<32x96xf32>
    %2 = hyc.reshape %1 : (tensor<32x96xf32>) -> tensor<2x16x96xf32>
    ```
    becomes
    ```mlir
    %2 = hyc.einsum "mak,kn->man" %x, %w : (tensor<2x16x32xf32>, tensor<32x96xf32>) -> tensor<2x16x96xf32>
    ```
    A merge of dimensions passes through elementwise ops, transposes and softmax; a transpose becomes an order of letters,
    and a weight that is repeated for each sample loses the samples' letter. Zeros around what a convolution reads become its
    padding.
    Batch, sequence and heads are dimensions of their own afterwards, which is what sharding and the passes below look at.
  }];
  let dependentDialects = ["::hyc::HycDialect"];
}

def RaiseGelu : Pass<"hyc-raise-gelu", "::mlir::ModuleOp"> {
  let summary = "Recognises gelu, exact or by tanh, however its polynomial is written";
  let description = [{
    Looks at each tanh and erf: its argument must be gelu's polynomial in some x (x/√2 for erf), and a value computed from
    both by sums and products must be 0.5 x + 0.5 x t. Coefficients are compared as numbers, so that the order of factors,
    powers and divisions does not matter.
    ```mlir
    %t = hyc.tanh %inner : tensor<4x8xf32>
    %one = hyc.add %t, %c1 : tensor<4x8xf32>
    %r = hyc.mul %half_x, %one : tensor<4x8xf32>
    ```
    becomes
    ```mlir
    %r = hyc.gelu tanh %x : tensor<4x8xf32>
    ```
  }];
  let dependentDialects = ["::hyc::HycDialect"];
}

def RaiseLayerNorm : Pass<"hyc-raise-layer-norm", "::mlir::ModuleOp"> {
  let summary = "Recognises layer_norm over the last dimension in its pieces";
  let description = [{
    The mean, the centred value, its mean square, the reciprocal root of that plus epsilon, a scale and a bias; products
    in any order, the root as sqrt and a division, a reciprocal or an rsqrt. Without a bias, zeros are added.
    ```mlir
    %n = hyc.div %centred, %deviation : tensor<2x4x8xf32>
    %s = hyc.mul %n, %scale : tensor<2x4x8xf32>
    %y = hyc.add %s, %bias : tensor<2x4x8xf32>
    ```
    becomes
    ```mlir
    %y, %mean, %rstd = hyc.layer_norm %x, %w, %b epsilon 1.0e-05 : …
    ```
    Run after hyc-absorb-layout, which removes the dimensions of size 1 that statistics are kept in.
  }];
  let dependentDialects = ["::hyc::HycDialect"];
}

def RaiseRmsNorm : Pass<"hyc-raise-rms-norm", "::mlir::ModuleOp"> {
  let summary = "Recognises rms_norm over the last dimension in its pieces";
  let description = [{
    The mean square plus epsilon, its reciprocal root, x times that, and a scale; squares as products or powers, the root as
    in hyc-raise-layer-norm, products in any order.
    ```mlir
    %r = hyc.rsqrt %stabilized : tensor<2x4xf32>
    %n = hyc.mul %x, %roots : tensor<2x4x8xf32>
    %y = hyc.mul %scales, %n : tensor<2x4x8xf32>
    ```
    becomes
    ```mlir
    %y, %rstd = hyc.rms_norm %x, %w epsilon 1.0e-06 : …
    ```
    Run after hyc-raise-layer-norm, whose centred values have a mean square too.
  }];
  let dependentDialects = ["::hyc::HycDialect"];
}

def RollSteps : Pass<"hyc-roll-steps", "::mlir::ModuleOp"> {
  let summary = "Makes one scan of sixteen equal steps and more that were written out one behind the other";
  let description = [{
    Each op of a step takes its operands from its own step, from the one before, from outside the same in every step, or
    from a slice that moves by one element a step. Steps that go along no sequence and whose values nobody collects stay as they
    are: layers that share their weights may be split and cut into stages.
    ```mlir
    %h1 = hyc.mul %h0, %x0 : tensor<4xf32>
    %h2 = hyc.mul %h1, %x1 : tensor<4xf32>
    …
    ```
    becomes
    ```mlir
    %last = hyc.scan 16 init(%h0) over(%x) : (tensor<4xf32>, tensor<16x4xf32>) -> tensor<4xf32> {
    ^bb0(%h: tensor<4xf32>, %e: tensor<4xf32>):
      %0 = hyc.mul %h, %e : tensor<4xf32>
      hyc.yield %0 : tensor<4xf32>
    }
    ```
    Every pass then meets one op, however many steps there are.
  }];
  let statistics = [Statistic<"rolledLoops", "rolled-loops", "scans made">];
  let dependentDialects = ["::hyc::HycDialect"];
}

def RaiseRope : Pass<"hyc-raise-rope", "::mlir::ModuleOp"> {
  let summary = "Recognises rotary positions: x · cos + rotate_half(x) · sin";
  let description = [{
    The half that is turned is a slice or a part of a split, negated and joined with the other. Elements of a head that are
    not turned are joined again, too. Tables whose angles are positions from 0 on times frequencies, by their values, become
    hyc.rotary_table; others stay as they are computed.
    ```mlir
    %turned = hyc.concat %negated, %first dim 3 : …
    %a = hyc.mul %x, %cosines : tensor<2x4x16x8xf32>
    %b = hyc.mul %turned, %sines : tensor<2x4x16x8xf32>
    %y = hyc.add %a, %b : tensor<2x4x16x8xf32>
    ```
    becomes
    ```mlir
    %cos, %sin = hyc.rotary_table [1.0, 0.1, 0.01, 0.001] factor 1.0 : …
    %y = hyc.rope %x, %cos, %sin : …
    ```
    Run before hyc-absorb-layout, which would move one of the two products past the transpose of the heads and not the other;
    heads before the sequence are transposed here, for that pass to take into the products.
  }];
  let dependentDialects = ["::hyc::HycDialect"];
}

def RaiseExperts : Pass<"hyc-raise-experts", "::mlir::ModuleOp"> {
  let summary = "Recognises products with experts' matrices, and leaves rows in the order of their tokens";
  let description = [{
    Matrices that are gathered row by row and multiplied are one product, which gathers none:
    ```mlir
    %m = hyc.gather %w, %experts dim 0 batch 0 : (tensor<4x16x64xf32>, tensor<32xi64>) -> tensor<32x16x64xf32>
    %y = hyc.einsum "nkm,nk->nm" %m, %x : …
    ```
    becomes
    ```mlir
    %y = hyc.expert_matmul %x, %w, %experts : …
    ```
    Rows that are sorted by expert before such products and put back afterwards are left where they are: every op between that
    treats rows alike is repeated on rows in their first order, and takes the place of what is put back. So rows stay beside
    their tokens, and dp splits both.
    ```mlir
    %order = hyc.argsort %experts : (tensor<32xi64>) -> tensor<32xi64>
    %sorted = hyc.embedding %order, %x : …
    %own = hyc.gather %experts, %order dim 0 batch 0 : …
    %y = hyc.expert_matmul %sorted, %w, %own : …
    %back = hyc.argsort %order : …
    %r = hyc.embedding %back, %y : …
    ```
    becomes `%r = hyc.expert_matmul %x, %w, %experts`.
  }];
  let dependentDialects = ["::hyc::HycDialect"];
}

def RaiseAttention : Pass<"hyc-raise-attention", "::mlir::ModuleOp"> {
  let summary = "Recognises attention: a product, a mask, a softmax, a product";
  let description = [{
    The scale may stand on Q, K, their product, or be split among them. The mask may be added or select; it is evaluated
    and compared with a triangle, not matched. One that inputs decide, and that selects between scores and -∞, becomes an
    operand: without the triangle that it is joined with, and without copies over heads and queries. A guard against rows of
    NaN is dropped: a row that sees no key is 0.
    ```mlir
    %s = hyc.einsum "bshd,bthd->bhst" %q, %k : …
    %m = hyc.add %s, %mask : tensor<2x4x16x16xf32>
    %p = hyc.softmax %m : tensor<2x4x16x16xf32>
    %r = hyc.einsum "bhst,bthd->bshd" %p, %v : …
    ```
    becomes
    ```mlir
    %r, %lse = hyc.attention causal %q, %k, %v scale 1.0 : …
    ```
    Keys and values whose heads are copies, so many of each, are read as they were before: grouped heads.

    Run after hyc-absorb-layout, so that only einsums stand between Q, K, V and the result, which runs once more afterwards:
    the result may come out transposed. What has another bias, or a probability that is used elsewhere, stays as it is.
  }];
  let dependentDialects = ["::hyc::HycDialect"];
}

def FactorParameters : Pass<"hyc-factor-parameters", "::mlir::ModuleOp"> {
  let summary = "Moves splitting reshapes up into the parameters, so that heads are dimensions of the weights";
  let description = [{
    ```mlir
    hyc.param @qkv : tensor<32x96xf32> from #hyc.fill<0.0>
    %0 = hyc.einsum "bsk,kn->bsn" %x, %w : (tensor<2x16x32xf32>, tensor<32x96xf32>) -> tensor<2x16x96xf32>
    %1:3 = hyc.split %0 dim 2 : … // then each part reshaped to 4 heads of 8
    ```
    becomes
    ```mlir
    hyc.param @qkv : tensor<32x3x4x8xf32> from #hyc.fill<0.0> {shape = array<i64: 32, 96>}
    %0 = hyc.einsum "bsk,knac->bsnac" %x, %w : (tensor<2x16x32xf32>, tensor<32x3x4x8xf32>) -> tensor<2x16x3x4x8xf32>
    %1:3 = hyc.split %0 dim 2 : …
    ```
    A parameter's bytes stay what they are; `shape` remembers the model's own shape. A parameter that is read under two
    shapes keeps its own. Run after hyc-raise-attention.
  }];
  let dependentDialects = ["::hyc::HycDialect"];
}

def SeparateDocuments : Pass<"hyc-separate-documents", "::mlir::ModuleOp"> {
  let summary = "Keeps documents that lie in one sequence apart, by an input of positions that begin anew with each";
  let description = [{
    The model gets the input `position_ids`. A token's document is where in the sequence its position would be 0; attention
    gets a mask by which queries see keys of their own document alone, and a table of positions is read by row. Rotations need
    nothing: their scores depend on distances only.
    ```mlir
    %p = hyc.broadcast %wpe [1, 2] : (tensor<16x64xf32>) -> tensor<2x16x64xf32>
    %r, %lse = hyc.attention causal %q, %k, %v scale 1.0 : …
    ```
    becomes
    ```mlir
    %p = hyc.embedding %position_ids, %wpe : (tensor<2x16xi64>, tensor<16x64xf32>) -> tensor<2x16x64xf32>
    %r, %lse = hyc.attention causal %q, %k, %v scale 1.0 mask %documents : …
    ```
    Tokens are followed from the input through every op by its sharding rule. Whatever else joins tokens of a sequence, a
    convolution, a sum or attention that is written out, is an error that names it. A model that has such an input already
    stays as it is.
  }];
  let dependentDialects = ["::hyc::HycDialect"];
}

def NormalizeModel : Pass<"hyc-normalize-model", "::mlir::ModuleOp"> {
  let summary = "Gives ops, parameters, letters and ids one order, whatever front end the model came through";
  let description = [{
    Ops stand in the order in which the results follow from them, operands first, each read in front of its first user;
    parameters in the order in which they are read. The letters of contractions go by the alphabet. Ids that end in their
    op's mnemonic are numbered again, and what only rearranges a value is named after what made it; ids that a person
    chose stay.
    ```mlir
    %b = hyc.read @bias : tensor<4xf32>
    %w = hyc.read @weight : tensor<8x4xf32>
    %p = hyc.einsum "mak,kn->man" %x, %w {id = "fc.einsum.3"} : (tensor<2x3x8xf32>, tensor<8x4xf32>) -> tensor<2x3x4xf32>
    ```
    becomes
    ```mlir
    %w = hyc.read @weight : tensor<8x4xf32>
    %p = hyc.einsum "abc,cd->abd" %x, %w {id = "fc.einsum"} : (tensor<2x3x8xf32>, tensor<8x4xf32>) -> tensor<2x3x4xf32>
    %b = hyc.read @bias : tensor<4xf32>
    ```
    Run last, so that one model is one text: plans and reports do not depend on the exporter.
  }];
  let dependentDialects = ["::hyc::HycDialect"];
}

def VerifyModel : Pass<"hyc-verify-model", "::mlir::ModuleOp"> {
  let summary = "Checks the invariant of phase 1";
  let description = [{
    1. `model.entry`: @train is there; every argument has a `hyc.input` and every result a `hyc.output`, no name twice.
    2. `model.ids`: every op that computes has an id, and no two ops have the same. Reads and constants may go without.
    3. `model.effects`: ops compute, read parameters, or write a buffer, which is a frozen parameter, once; there is no
       state yet.
    4. `model.values`: a parameter's first values are an attribute of the dialect's that says what they are: a `#hyc.file`, a `#hyc.normal`, …
  }];
  let dependentDialects = ["::hyc::HycDialect"];
}

#endif // HYC_TRANSFORMS_MODEL_PASSES_TD
