// Passes of phase 2: from a model to its training step. Every example below is part of a test in test/Train.

#ifndef HYC_TRANSFORMS_TRAIN_PASSES_TD
#define HYC_TRANSFORMS_TRAIN_PASSES_TD

include "mlir/Pass/PassBase.td"

def AttachLoss : Pass<"hyc-attach-loss", "::mlir::ModuleOp"> {
  let summary = "Makes @train return the loss sum and the number of what was counted";
  let description = [{
    With `loss=cross_entropy` the output named by `logits` is compared with the integer input named by `labels`, which is
    added with the logits' leading shape where the model has none. Labels are not shifted then: the loader feeds the
    tokens one ahead (`hyc.source = "next_token"`).

    ```mlir
    hyc.func @train(%x: tensor<2x4xi64> {hyc.input = "input_ids"}) -> (tensor<2x4x8xf32> {hyc.output = "logits"}) {
      %logits = …
      hyc.return %logits : tensor<2x4x8xf32>
    }
    ```
    becomes
    ```mlir
    hyc.func @train(%x: tensor<2x4xi64> {hyc.input = "input_ids", hyc.source = "token"},
                    %labels: tensor<2x4xi64> {hyc.input = "labels", hyc.source = "next_token"}) -> (tensor<f32>, tensor<i64>) {
      %logits = …
      %loss_sum, %count, %lse = hyc.cross_entropy %logits, %labels {id = "loss"} : …
      hyc.return %loss_sum, %count : tensor<f32>, tensor<i64>
    }
    ```
    With `loss=causal_lm` the labels are the tokens of the input themselves, and the graph compares each position with the
    token after it, the last one with nothing: the loss of transformers' causal language models.

    `mse` and `binary_cross_entropy` compare the output with numbers of its shape, which the input named by `labels` holds
    (`hyc.source = "sample"`); the second takes scores, of which the probabilities are sigmoids. Both are counted element by
    element, and computed in f32 whatever the precision (`hyc.wide`).

    ```mlir
    %error = hyc.sub %y, %labels {hyc.wide, id = "loss.error"} : tensor<2x3xf32>
    %squared = hyc.mul %error, %error {hyc.wide, id = "loss.squared"} : tensor<2x3xf32>
    %sum = hyc.reduce sum %squared [0, 1] {id = "loss"} : (tensor<2x3xf32>) -> tensor<f32>
    %count = hyc.constant {id = "loss.count"} dense<6> : tensor<i64>
    ```
    With `accuracy` a third result counts the predictions that are right: where no class has a higher score than the label,
    or where sigmoid and label are on one side of one half. The squared error and losses of the graph have none.

    Any other `loss` names a scalar output of the graph, which is taken as it is and counts as one token a micro-batch: the
    step's loss is then the mean over its micro-batches. Such a graph shifts its labels itself, so every integer input is
    fed the tokens. Outputs other than the loss are dropped, with what only they needed.
  }];
  let options = [
    Option<"loss", "loss", "std::string", "\"cross_entropy\"", 
           "`cross_entropy`, `causal_lm`, `mse`, `binary_cross_entropy`, or the name of a scalar output">,
    Option<"logits", "logits", "std::string", "", "output that the loss reads; may be left out if there is only one">,
    Option<"labels", "labels", "std::string", "\"labels\"", "input that the loss reads; added if missing">,
    Option<"ignoreIndex", "ignore-index", "int64_t", "-100", "label whose positions are not counted">,
    Option<"accuracy", "accuracy", "bool", "false", "count what is predicted right, where the loss says what that is">,
  ];
  let dependentDialects = ["::hyc::HycDialect"];
}

def KeyRandomOps : Pass<"hyc-key-random-ops", "::mlir::ModuleOp"> {
  let summary = "Gives every op of @train that draws random numbers its keys, one a sample, as an input";
  let description = [{
    All of them read one input, "random_keys", of one column an op. The loader fills it from the seed, the number of each
    sample over all steps, and the ids of the ops (`hyc.streams`); so what an op draws for a sample depends on nothing else,
    and backward, recomputation and every rank that has the sample draw the same again.

    ```mlir
    %y = hyc.dropout %x rate 1.0e-1 {id = "drop"} : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    ```
    becomes
    ```mlir
    hyc.func @train(…, %keys: tensor<2x1xi64> {hyc.input = "random_keys", hyc.source = "random", hyc.streams = ["drop"]})
      %m = hyc.dropout_mask %keys column 0 rate 1.0e-1 {id = "drop.mask"} : (tensor<2x1xi64>) -> tensor<2x4x8xi1>
      %y = hyc.dropout %x mask %m rate 1.0e-1 {id = "drop"} : (tensor<2x4x8xf32>, tensor<2x4x8xi1>) -> tensor<2x4x8xf32>
    ```
    A mask is drawn where it is used, unless the plan saves it: see hyc-assign-lifetimes. Where samples are not whole rows
    of dimension 0 (another factor is merged with them), they are split off by reshapes first. Runs before composite ops
    are decomposed: whole or in pieces, attention draws under the same id.
  }];
  let statistics = [Statistic<"keyedOps", "keyed-ops", "ops that got a column of keys">];
  let dependentDialects = ["::hyc::HycDialect"];
}

def FreezeParameters : Pass<"hyc-freeze-parameters", "::mlir::ModuleOp"> {
  let summary = "Freezes the parameters that are not to be trained";
  let description = [{
    With `train` patterns only parameters that one of them matches are trained; those that a `freeze` pattern matches are
    not. Patterns are POSIX extended and match anywhere in the name. What the model itself has frozen stays frozen. Runs
    before differentiation, which builds neither gradients nor updates of frozen parameters, and no backward that only
    they would need.

    ```mlir
    // before
    hyc.param @wte.weight : tensor<64x16xf32> from #hyc.normal<…>
    // after, freeze=wte
    hyc.param @wte.weight : tensor<64x16xf32> from #hyc.normal<…> frozen
    ```
  }];
  let options = [
    ListOption<"train", "train", "std::string", "patterns of the names of parameters to train; none: all">,
    ListOption<"freeze", "freeze", "std::string", "patterns of the names of parameters not to train">,
    Option<"adapted", "adapted", "bool", "false", "adapters will be trained: without patterns nothing else is">,
  ];
  let statistics = [Statistic<"frozenParameters", "frozen-parameters", "parameters that were frozen">];
}

def InsertAdapters : Pass<"hyc-insert-adapters", "::mlir::ModuleOp"> {
  let summary = "Adds trainable products of low rank beside linear layers (LoRA)";
  let description = [{
    A linear layer is a product of activations with a parameter `PATH.weight` whose letters are contracted or kept, and
    never both. Each that a target names gets two parameters: `PATH.lora_A.weight` of `rank` rows, over what the weight
    contracts, and `PATH.lora_B.weight` of `rank` columns, over what it keeps. They start as peft has them (Hu et al.
    2021): A uniform within ±1/√inputs (Kaiming's rule with a = √5), B as zeros, so that the first step is the model's own.

    ```mlir
    %w = hyc.read @q_proj.weight : tensor<4x8x32xf32>
    %y = hyc.einsum "abc,dec->abde" %x, %w {id = "q_proj.einsum"} : (tensor<2x6x32xf32>, tensor<4x8x32xf32>) -> tensor<2x6x4x8xf32>
    ```
    becomes
    ```mlir
    %a = hyc.read @q_proj.lora_A.weight : tensor<8x32xf32>
    %low = hyc.einsum "abc,fc->abf" %x, %a {id = "q_proj.lora_A.einsum"} : (tensor<2x6x32xf32>, tensor<8x32xf32>) -> tensor<2x6x8xf32>
    %scale = hyc.constant {id = "q_proj.lora.scale"} dense<2.0> : tensor<2x6x8xf32>
    %scaled = hyc.mul %low, %scale {id = "q_proj.lora.mul"} : tensor<2x6x8xf32>
    %b = hyc.read @q_proj.lora_B.weight : tensor<4x8x8xf32>
    %change = hyc.einsum "abf,def->abde" %scaled, %b {id = "q_proj.lora_B.einsum"} : (tensor<2x6x8xf32>, tensor<4x8x8xf32>) -> tensor<2x6x4x8xf32>
    %sum = hyc.add %y, %change {id = "q_proj.lora.add"} : tensor<2x6x4x8xf32>
    ```
    A target is the end of a module's path, from a dot on, as in peft's target_modules; a pattern (POSIX extended, of
    whole paths) where it has characters that no name has; or `all-linear`, every linear layer but the one that makes the
    model's output. It runs on the model's forward ops, before differentiation, and after what freezes the model's own
    parameters (hyc-freeze-parameters): adapters are always trained.

    Of the variant `dora` (Liu et al. 2024) a third parameter, `PATH.lora_magnitude_vector`, says how long each output's
    weights are, W and the change together; the sum is divided by the length that these have, a constant to backward, and
    multiplied with it. It starts as the weight's own lengths (`#hyc.of_weight<row_norms of …>`). The length of the sum
    comes from products of W with A and of A with itself, so that nothing of the weight's size is made.

    `hyc.adapter_rank` of both parameters says which dimension is the rank's, so that nothing splits it over ranks: it is far
    smaller than what it stands between. So A is split as what the weight contracts, B as what it keeps, and beside a
    weight whose inputs are split the sum that is left open is closed once, for both.
  }];
  let options = [
    Option<"rank", "rank", "int64_t", "0", "rows of A and columns of B">,
    Option<"alpha", "alpha", "double", "0", "the change is scaled by this over the rank">,
    Option<"variant", "variant", "std::string", "\"lora\"", "`lora`; `rslora`, which scales by alpha over the rank's root; or `dora`">,
    ListOption<"targets", "targets", "std::string", "linear layers, by the ends of their paths">,
  ];
  let statistics = [Statistic<"adapters", "adapters", "linear layers that have an adapter">];
  let dependentDialects = ["::hyc::HycDialect"];
}

def ChooseQuantized : Pass<"hyc-choose-quantized", "::mlir::ModuleOp"> {
  let summary = "Chooses the frozen weights that are kept as codes of a few bits";
  let description = [{
    Those of linear layers (hyc-insert-adapters says what one is) that are frozen, but for the one that makes the model's
    output, which is what bitsandbytes takes. `hyc.quantized` of the parameter says how its codes are to be read, also in a
    module inside that evaluates, which has the same parameters.

    ```mlir
    hyc.param @fc1.weight : tensor<64x32xf32> from #hyc.file<"m.safetensors", offset = 0> frozen
    ```
    becomes
    ```mlir
    hyc.param @fc1.weight : tensor<64x32xf32> from #hyc.file<"m.safetensors", offset = 0> frozen {hyc.quantized = #hyc<codes int8>, hyc.quantized_inputs = 32 : i64}
    ```
    It runs on the model's forward ops, where an output is known by what the model returns, and before adapters are added,
    which read a weight in other ways. hyc-quantize-frozen then puts the codes in its place.
  }];
  let options = [Option<"kind", "kind", "std::string", "\"int8\"", "what codes mean: `int8` or `nf4`">];
  let statistics = [Statistic<"weights", "weights", "parameters that are kept as codes">];
  let dependentDialects = ["::hyc::HycDialect"];
}

def QuantizeFrozen : Pass<"hyc-quantize-frozen", "::mlir::ModuleOp"> {
  let summary = "Reads codes in place of the frozen weights that hyc-choose-quantized has chosen";
  let description = [{
    The parameter stays as a name, a shape and a place that checkpoints and plans speak of; nothing holds its values. States
    hold what is made of them before training starts: its codes, and what these are multiplied with. Every use of the weight
    reads and dequantises anew, right before it, forward's and backward's alike, in the type that it was read in.

    ```mlir
    %w = hyc.read @fc1.weight : tensor<64x32xf32>
    %h = hyc.einsum "bk,nk->bn" %x, %w {id = "fc1"} : (tensor<8x32xf32>, tensor<64x32xf32>) -> tensor<8x64xf32>
    ```
    becomes
    ```mlir
    %c = hyc.read @fc1.weight.int8 {id = "fc1.codes"} : tensor<64x32xui8>
    %s = hyc.read @fc1.weight.int8.absmax {id = "fc1.int8_absmax"} : tensor<64xf32>
    %w = hyc.dequantize int8 %c, %s block 32 strides [32, 1] {id = "fc1.dequantized"} : (tensor<64x32xui8>, tensor<64xf32>) -> tensor<64x32xf32>
    %h = hyc.einsum "bk,nk->bn" %x, %w {id = "fc1"} : (tensor<8x32xf32>, tensor<64x32xf32>) -> tensor<8x64xf32>
    ```
    It runs last of the phase, when gradients are built and precision is decided: there is nothing to differentiate, a
    16-bit copy of the weight goes, and backward's uses are known.
  }];
  let statistics = [Statistic<"weights", "weights", "parameters that are kept as codes">,
                    Statistic<"uses", "uses", "places where one is dequantised">];
  let dependentDialects = ["::hyc::HycDialect"];
}

def RemoveDropout : Pass<"hyc-remove-dropout", "::mlir::ModuleOp"> {
  let summary = "Removes dropout, as models are evaluated";
  let description = [{
    Every hyc.dropout is replaced by its operand, and attention keeps all of its probabilities. What is left draws
    nothing at random, so that its loss is that of the model and not of one sample of it.
  }];
  let statistics = [Statistic<"removed", "removed", "ops that dropped something">];
}

def EnterEvaluation : Pass<"hyc-enter-evaluation", "::mlir::ModuleOp"> {
  let summary = "Makes the program one that tells how well the parameters do";
  let description = [{
    Every parameter is frozen, so that differentiation builds no backward, and the step has neither gradients nor optimizer
    states: what is left are the sums of the forward pass. Runs beside hyc-remove-dropout.

    ```mlir
    module attributes {hyc.entry = "evaluate"} {
      hyc.param @wte.weight : tensor<64x16xf32> from #hyc.normal<…> frozen
    ```
  }];
}

def ShareParameters : Pass<"hyc-share-parameters", "::mlir::ModuleOp"> {
  let summary = "Makes the parameters of the module that evaluates those of the module around it";
  let description = [{
    A module that trains may hold @evaluate, the same model as it is evaluated (see hyc/Analysis/Entry.h). Both declare the
    parameters; here they are checked to be the same. Which of them training keeps in the compute type too, beside a
    master, the evaluation then reads there; where training has no such copy (of a running average, say, which forward
    itself writes), the parameter is marked `hyc.uncopied`, and hyc-convert-precision converts what is read of it. The
    evaluation's step has no update: its @apply is empty. Runs after hyc-convert-precision of the module around, before
    that of the module inside.

    ```mlir
    module {
      hyc.param @w : tensor<4x4xf32> from #hyc.normal<…>
      hyc.state @w.compute role "compute" of @w : tensor<4x4xbf16>
      module @evaluate attributes {hyc.entry = "evaluate"} {
        hyc.param @w : tensor<4x4xf32> from #hyc.normal<…> frozen
        hyc.param @mean : tensor<4xf32> from #hyc.fill<0.0> frozen {hyc.uncopied}
        …
        hyc.func @apply() { hyc.return }
    ```
  }];
}

def ApplyForms : Pass<"hyc-apply-forms", "::mlir::ModuleOp"> {
  let summary = "Decomposes the composite ops of @train that the plan does not want whole";
  let description = [{
    A plan file says so of an op by `hyc.form = "decomposed"`. Its gradient is then that of its pieces, and what backward
    needs of them are values with lifetimes of their own: of attention, the probabilities and what dropout left of them.
    Whole, it keeps none of these. Has to run before differentiation, which builds one gradient or the other.

    ```mlir
    %y, %lse = hyc.attention %q, %k, %v scale 5.0e-1 {hyc.form = "decomposed", id = "attn"} : …
    ```
    becomes
    ```mlir
    %scores = hyc.einsum "bsgrd,btgd->bgrst" %query, %k {id = "attn.scores"} : …
    …
    %weights = hyc.softmax %scaled {id = "attn.weights"} : tensor<2x3x1x4x4xf32>
    %context = hyc.einsum "bgrst,btgd->bsgrd" %weights, %v {id = "attn.context"} : …
    ```
  }];
  let statistics = [Statistic<"decomposedOps", "decomposed-ops", "composite ops that were replaced by their pieces">];
  let dependentDialects = ["::hyc::HycDialect"];
}

def Differentiate : Pass<"hyc-differentiate", "::mlir::ModuleOp"> {
  let summary = "Turns @train into @microbatch: forward, backward, and gradients added into state";
  let description = [{
    A reverse walk from the loss sum asks each op for the cotangents of its operands (DifferentiableOpInterface), and skips
    what no trainable parameter feeds. The cotangent of the loss sum is 1: gradients are sums over tokens, which @apply
    divides by the step's count. A value with several uses gets the sum of its cotangents, latest use first. Each read of
    a parameter adds into that parameter's gradient as soon as its last cotangent is there, so a tied parameter is
    accumulated once per read. Cotangents of slices of one value that do not overlap are joined by a concat. Behind hyc.stop_gradient nothing is asked; what it kept the gradient from takes its place.

    ```mlir
    hyc.func @train(%x: tensor<2x3xf32> {hyc.input = "x"}) -> (tensor<f32>, tensor<i64>) {
      %w = hyc.read @w {id = "w.read"} : tensor<3x4xf32>
      %h = hyc.einsum "ik,kj->ij" %x, %w {id = "fc"} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
      …
    }
    ```
    becomes
    ```mlir
    hyc.state @w.grad of @w role "gradient" : tensor<3x4xf32> from #hyc.fill<0.0>
    hyc.func @microbatch(%x: tensor<2x3xf32> {hyc.input = "x"}) {
      %w = hyc.read @w {id = "w.read"} : tensor<3x4xf32>
      %h = hyc.einsum "ik,kj->ij" %x, %w {id = "fc"} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
      …
      hyc.accumulate %loss_sum into @loss_sum {id = "loss_sum.accumulate"} : tensor<f32>
      hyc.accumulate %count into @token_count {id = "token_count.accumulate"} : tensor<i64>
      …
      %dw = hyc.einsum "ik,ij->kj" %x, %dh {hyc.backward, id = "fc.grad.rhs"} : …
      hyc.accumulate %dw into @w.grad {hyc.backward, id = "w.grad.accumulate"} : tensor<3x4xf32>
      hyc.return
    }
    ```
    A trainable parameter that does not reach the loss gets no gradient state, and a warning: torch leaves such a parameter
    alone too, weight decay included.
  }];
  let statistics = [
    Statistic<"backwardOps", "backward-ops", "ops built for the backward pass">,
    Statistic<"skippedOps", "skipped-ops", "forward ops that need no gradient">,
  ];
  let dependentDialects = ["::hyc::HycDialect"];
}

def MergeProducts : Pass<"hyc-merge-products", "::mlir::ModuleOp"> {
  let summary = "Makes one product of the many small ones that a repeated use of a parameter adds into its gradient";
  let description = [{
    A recurrent layer reads its weight once a step, and each step adds a product to the gradient that has as many terms
    as the batch has samples: little to multiply, but the whole gradient is read and written. One product over what all
    steps have, side by side, is the same sum. Products of one spec and size are merged where they belong to one layer of
    the model, so that no stage waits for another, and where both operands together have at most half the elements of the
    result. Tensors that are side by side already, as the results of all steps usually are, are read there. Sums over a
    bias are merged where that is so.

    ```mlir
    %dw2 = hyc.einsum "bh,bg->gh" %h1, %g2 {hyc.backward, id = "step.2.grad.rhs"} : …
    hyc.accumulate %dw2 into @w.grad {hyc.backward, id = "w.grad.accumulate"} : tensor<256x64xf32>
    …
    %dw1 = hyc.einsum "bh,bg->gh" %h0, %g1 {hyc.backward, id = "step.1.grad.rhs"} : …
    hyc.accumulate %dw1 into @w.grad {hyc.backward, id = "w.grad.accumulate.2"} : tensor<256x64xf32>
    ```
    becomes
    ```mlir
    %h = hyc.concat %h0_row, %h1_row dim 0 {hyc.backward, id = "step.1.grad.rhs.lhs"} : … -> tensor<2x4x64xf32>
    %g = hyc.concat %g1_row, %g2_row dim 0 {hyc.backward, id = "step.1.grad.rhs.rhs"} : … -> tensor<2x4x256xf32>
    %dw = hyc.einsum "abh,abg->gh" %h, %g {hyc.backward, id = "step.1.grad.rhs"} : …
    hyc.accumulate %dw into @w.grad {hyc.backward, id = "w.grad.accumulate"} : tensor<256x64xf32>
    ```
  }];
  let statistics = [Statistic<"mergedProducts", "merged-products", "products that became part of another">];
  let dependentDialects = ["::hyc::HycDialect"];
}

def ConvertPrecision : Pass<"hyc-convert-precision", "::mlir::ModuleOp"> {
  let summary = "Has @microbatch compute in bf16 or f16, beside f32 masters";
  let description = [{
    A table by op says which operands and results are of the compute type and which stay f32 (ConvertPrecision.cpp):
    activations and cotangents are narrow; statistics, losses, exponentials, norms' scales and gradient sums are not.
    Elementwise ops follow their operands. What depends on parameters and constants alone takes the type that its user
    wants. A parameter that is wanted in the compute type gets a state of role "compute", which @apply refreshes.
    Gradients accumulate in `gradient-accumulation-type`; a product that is only added to them is not rounded before.

    ```mlir
    %w = hyc.read @w {id = "w.read"} : tensor<3x4xf32>
    %h = hyc.einsum "ik,kj->ij" %x, %w {id = "fc"} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    …
    %dw = hyc.einsum "ik,ij->kj" %x, %dh {hyc.backward, id = "fc.grad.rhs"} : …
    hyc.accumulate %dw into @w.grad {hyc.backward, id = "w.grad.accumulate"} : tensor<3x4xf32>
    ```
    becomes
    ```mlir
    hyc.state @w.compute of @w role "compute" : tensor<3x4xbf16> from #hyc.fill<1.0>
    %w = hyc.read @w.compute {id = "w.read"} : tensor<3x4xbf16>
    %h = hyc.einsum "ik,kj->ij" %x, %w {id = "fc"} : (tensor<2x3xbf16>, tensor<3x4xbf16>) -> tensor<2x4xbf16>
    …
    %dw = hyc.einsum "ik,ij->kj" %x, %dh {hyc.backward, id = "fc.grad.rhs"}
          : (tensor<2x3xbf16>, tensor<2x4xbf16>) -> tensor<3x4xf32>
    hyc.accumulate %dw into @w.grad {hyc.backward, id = "w.grad.accumulate"} : tensor<3x4xf32>
    ```
    Runs after differentiation, since a gradient op is as sensitive as its own formula, not as the op's that it belongs to.
  }];
  let options = [
    Option<"precision", "precision", "std::string", "\"f32\"", "`f32`, `bf16` or `fp16`">,
    Option<"gradientType", "gradient-accumulation-type", "std::string", "\"f32\"", "`f32` or `bf16`">,
  ];
  let statistics = [
    Statistic<"narrowOps", "narrow-ops", "ops with a result of the compute type">,
    Statistic<"conversions", "conversions", "conversions between values of both kinds">,
  ];
  let dependentDialects = ["::hyc::HycDialect"];
}

def QuantizeProducts : Pass<"hyc-quantize-products", "::mlir::ModuleOp"> {
  let summary = "Has products with a parameter multiply 8-bit floats, under delayed scaling";
  let description = [{
    After hyc-convert-precision to bf16. A product of forward with one operand that is a parameter's copy, and the two
    products that backward makes of it, get operands of 8 bits: f8E4M3FN of activations and parameters, f8E5M2 of
    cotangents (Micikevicius et al. 2022). A tensor is multiplied by its scale, a state, clamped to what the type can
    hold, and rounded; the product's result is multiplied by the reciprocals of both scales. Scales are powers of two.

    Each quantised tensor has four states: scale, its reciprocal, the greatest magnitude of this step ("amax", over
    micro-batches and ranks), and those of the last `history` steps, from which hyc.update_fp8_scale in @apply makes the
    next step's scale.

    ```mlir
    %h = hyc.einsum "bi,io->bo" %x, %w {id = "fc"} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
    ```
    becomes
    ```mlir
    hyc.state @fc.fp8.x.scale role "fp8.scale" : tensor<f32> from #hyc.fill<1.0>
    hyc.state @fc.fp8.x.history role "fp8.history" : tensor<16xf32> from #hyc.fill<0.0>
    …
    %s = hyc.read @fc.fp8.x.scale {id = "fc.fp8.x.scale"} : tensor<f32>
    …
    %scaled = hyc.mul %x, %scale {id = "fc.fp8.x.scaled"} : tensor<4x8xbf16>
    %below = hyc.min %scaled, %largest {id = "fc.fp8.x.below"} : tensor<4x8xbf16>
    %clamped = hyc.max %below, %least {id = "fc.fp8.x.clamped"} : tensor<4x8xbf16>
    %q = hyc.convert %clamped {id = "fc.fp8.x"} : (tensor<4x8xbf16>) -> tensor<4x8xf8E4M3FN>
    %magnitude = hyc.abs %x {id = "fc.fp8.x.magnitude"} : tensor<4x8xbf16>
    %amax = hyc.reduce max %magnitude [0, 1] {id = "fc.fp8.x.greatest"} : (tensor<4x8xbf16>) -> tensor<f32>
    hyc.accumulate max %amax into @fc.fp8.x.amax {id = "fc.fp8.x.measure"} : tensor<f32>
    …
    %p = hyc.einsum "bi,io->bo" %q, %wq {id = "fc"} : (tensor<4x8xf8E4M3FN>, tensor<8x8xf8E4M3FN>) -> tensor<4x8xbf16>
    %half = hyc.mul %p, %inverse {id = "fc.fp8.half"} : tensor<4x8xbf16>
    %h = hyc.mul %half, %inverse_of_w {id = "fc.fp8.result"} : tensor<4x8xbf16>
    ```
    A product after which no other one with a parameter comes before the loss stays as it is. An activation is kept for
    backward in 8 bits, unless something else of backward wants it too; a parameter is quantised in backward once more.
  }];
  let options = [
    Option<"history", "history", "int64_t", "16", "steps whose greatest magnitudes a scale is made from">,
  ];
  let statistics = [
    Statistic<"products", "products", "products of 8-bit floats">,
    Statistic<"tensors", "tensors", "tensors that have a scale">,
  ];
  let dependentDialects = ["::hyc::HycDialect"];
}

def ScaleLoss : Pass<"hyc-scale-loss", "::mlir::ModuleOp"> {
  let summary = "Multiplies the loss's cotangent by a loss scale that @apply adapts";
  let description = [{
    Cotangents of f16 would underflow. The scale is a state, so that it can follow overflows; the cotangent is the scale
    over the number of positions of the micro-batch, rounded up to a power of two: the gradient of a mean, as DeepSpeed
    scales it, where that of the sum would overflow at once. hyc-attach-optimizer undoes both.

    ```mlir
    %seed = hyc.constant {hyc.backward, hyc.loss_seed, id = "loss.grad.seed"} dense<1.0> : tensor<f32>
    ```
    becomes
    ```mlir
    hyc.state @loss_scale role "loss_scale" : tensor<f32> from #hyc.fill<6.5536e4> {hyc.normalizer = 8.0}
    %scale = hyc.read @loss_scale {hyc.backward, id = "loss.grad.seed.scale"} : tensor<f32>
    %share = hyc.constant {hyc.backward, id = "loss.grad.seed.share"} dense<0.125> : tensor<f32>
    %seed = hyc.mul %scale, %share {hyc.backward, hyc.loss_seed, id = "loss.grad.seed"} : tensor<f32>
    ```
  }];
  let options = [
    Option<"initialScale", "initial-scale", "double", "65536", "the first step's loss scale">,
    Option<"normalizer", "normalizer", "double", "0", "what the scale is over, of a further size that of the largest; 0: "
           "the micro-batch's positions">,
  ];
  let dependentDialects = ["::hyc::HycDialect"];
}

def AttachOptimizer : Pass<"hyc-attach-optimizer", "::mlir::ModuleOp"> {
  let summary = "Adds @apply: the global norm, the clip factor and one update a parameter";
  let description = [{
    Every parameter with a gradient state is updated once. Gradients are sums over tokens; `hyc.gradient_scale` divides by
    the step's own count and clips the mean gradient's global norm to `clip-grad-norm`. Weight decay applies to every
    parameter, as torch does, but for those whose name matches a `no-decay` pattern (POSIX extended, anywhere in the name).

    LAMB needs the norms of each parameter and of its direction; each is a `hyc.sum_of_squares` of one tensor, as the
    global norm is one of all gradients.

    Copies in the compute type are refreshed after the update. With a loss scale, updates happen only if the sum of squares
    is finite, which all ranks and stages share; @applied_step counts those that happened, and `hyc.update_loss_scale`
    adapts the scale.

    ```mlir
    hyc.func @apply(%lr: tensor<f32> {hyc.scalar = "lr"}) {
      %squares = hyc.sum_of_squares [@w.grad] {id = "apply.sum_of_squares"} : tensor<f64>
      %count = hyc.read @token_count {id = "apply.count"} : tensor<i64>
      %scale, %norm = hyc.gradient_scale %squares, %count max_norm 1.0 {id = "apply.scale"} : …
      hyc.write %norm into @grad_norm {id = "apply.norm"} : tensor<f32>
      %step = hyc.increment @step {id = "apply.step"} : tensor<i64>
      hyc.adamw @w, @w.grad, @w.adam.m, @w.adam.v lr %lr step %step scale %scale {id = "w.update", …} : …
      hyc.return
    }
    ```
  }];
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"adamw\"", "one of hyc/Support/Optimizers.h">,
    Option<"beta1", "beta1", "double", "0.9", "decay of the first moment">,
    Option<"beta2", "beta2", "double", "0.999", "decay of the second moment, or of the first after the update">,
    Option<"epsilon", "eps", "double", "1e-8", "added to the denominator of adamw, adam and lamb">,
    Option<"correctBias", "correct-bias", "bool", "true", "whether adamw, adam and lamb correct the moments' start at 0">,
    Option<"cycleMomentum", "cycle-momentum", "bool", "false", "@apply takes the first moment's decay as a scalar">,
    Option<"leastTrust", "least-trust", "double", "0.01", "lower bound of lamb's trust ratio">,
    Option<"mostTrust", "most-trust", "double", "10.0", "upper bound of lamb's trust ratio">,
    Option<"weightDecay", "weight-decay", "double", "0.0", "part of the gradient for adam and sgd, decoupled for others">,
    Option<"momentum", "momentum", "double", "0.0", "momentum of sgd; 0 keeps no velocity">,
    Option<"clipGradNorm", "clip-grad-norm", "double", "0.0", "largest global norm of the mean gradient; 0 does not clip">,
    ListOption<"noDecay", "no-decay", "std::string", "patterns of parameter names that do not decay">,
    Option<"lossScaleWindow", "loss-scale-window", "int64_t", "1000",
           "finite steps after which the loss scale doubles; 0 keeps it as it is">,
    Option<"hysteresis", "hysteresis", "int64_t", "2", "overflows that it takes to halve the loss scale">,
    Option<"consecutiveHysteresis", "consecutive-hysteresis", "bool", "false", "one finite step forgets earlier overflows">,
    Option<"minLossScale", "min-loss-scale", "double", "1.0", "the loss scale is never halved below this">,
  ];
  let statistics = [
    Statistic<"updatedParameters", "updated-parameters", "parameters that are updated">,
    Statistic<"undecayedParameters", "undecayed-parameters", "parameters whose weight decay a pattern turned off">,
  ];
  let dependentDialects = ["::hyc::HycDialect"];
}

def VerifyTrain : Pass<"hyc-verify-train", "::mlir::ModuleOp"> {
  let summary = "Checks the invariant of phase 2";
  let description = [{
    1. `train.functions`: @microbatch and @apply are there, @train is gone; neither returns anything.
    2. `train.inputs`: every argument of @microbatch says which input it is and how it is filled, in the words of hyc.func;
       every argument of @apply is a scalar of the runtime.
    3. `train.ids`: every op of both functions but the terminator has an id, and no two have the same.
    4. `train.states`: exactly one state has each of the roles "loss_sum", "token_count", "step" and "grad_norm".
    5. `train.gradients`: each gradient belongs to a parameter that is not frozen, is accumulated by @microbatch, counts once
       in the global norm and is applied by one update.
    6. `train.effects`: @microbatch only reads parameters, their copies and scales, accumulates into state,
       and in forward writes buffers, which are frozen parameters; others change in @apply alone.
    7. `train.order`: no forward op reads a result of a backward op.
    8. `train.copies`: @apply refreshes a parameter's copy after the parameter's update.
    9. `train.random`: what draws random numbers does so from keys.
    10. `train.stops`: no hyc.stop_gradient is left.
  }];
  let dependentDialects = ["::hyc::HycDialect"];
}

#endif // HYC_TRANSFORMS_TRAIN_PASSES_TD
