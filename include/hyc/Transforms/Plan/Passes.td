// Phase 3: decisions, written down as attributes. No pass here changes what is computed.

#ifndef HYC_TRANSFORMS_PLAN_PASSES_TD
#define HYC_TRANSFORMS_PLAN_PASSES_TD

include "mlir/Pass/PassBase.td"

def CreateMesh : Pass<"hyc-create-mesh", "::mlir::ModuleOp"> {
  let summary = "declares the mesh: its axes, what they are for, pipeline stages";
  let description = [{
    ```mlir
    dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 2 batch <{dp}> tensor <{tp}>
    ```
    This is where axes get their names; no pass after it knows any. `dp` splits samples, `tp` structural classes.

    `axes` are further ones, as NAME:SIZE: nothing is split over them but what the plan says. PARENT.NAME:SIZE is a
    sub-axis; those of a parent, major to minor, are what it consists of. Where shardings have the parent's name, they have
    its sub-axes from here on.

    Axes are in the order of their names, major to minor, sub-axes in place of their parent; those in `order` come before
    all others. With `dp=4 tp=2 axes=ep:2,dp.hosts:2,dp.local:2 order=ep`:
    ```mlir
    dist.mesh @mesh axes ["ep", "hosts", "local", "tp"] sizes [2, 2, 2, 2] parents ["", "dp", "dp", ""] stages 1
      batch <{hosts, local}> tensor <{tp}>
    ```
    Where attention has fewer key heads than `tp` has ranks, and these are a multiple of them, tp is cut, so that key heads
    can be split over a part of it: with `tp=4` over two key heads
    ```mlir
    dist.mesh @mesh axes ["dp", "tp0", "tp1"] sizes [1, 2, 2] parents ["", "tp", "tp"] stages 1 batch <{dp}> tensor <{tp0, tp1}>
    ```
    With `virtual-stages` each stage computes as many pieces of the model, which do not follow one another.
  }];
  let options = [
    Option<"dp", "dp", "int64_t", "1", "data-parallel ranks">,
    Option<"tp", "tp", "int64_t", "1", "tensor-parallel ranks">,
    Option<"pp", "pp", "int64_t", "1", "pipeline stages">,
    Option<"virtualStages", "virtual-stages", "int64_t", "1", "pieces of the model that each stage computes">,
    ListOption<"axes", "axes", "std::string", "further axes, NAME:SIZE, or PARENT.NAME:SIZE of a sub-axis">,
    ListOption<"order", "order", "std::string", "axes that come first, major to minor">,
  ];
  let dependentDialects = ["::hyc::dist::DistDialect"];
}

def SeedShardings : Pass<"hyc-seed-shardings", "::mlir::ModuleOp"> {
  let summary = "splits the batch over dp, and heads, inner factors and the vocabulary over tp";
  let description = [{
    Looks at the structure of `@microbatch`, never at names. A class of equal factors (see FactorClasses.h) may be split
    over tp if no op needs it whole and it is one of

    1. the heads of an attention;
    2. an inner factor that both operands of some product and its result have: heads of attention that is written out;
    3. the inner factor of contraction - elementwise - contraction;
    4. the experts of hyc.expert_matmul;
    5. the vocabulary of an embedding or a cross_entropy.

    In this order, classes with fewer uses first; a class that meets an already chosen one in some op is passed over.
    Writes `dist.sharding` on function arguments and parameters and nothing else. A parameter or argument that has one
    already keeps it, and no class that it splits is chosen again.

    ```mlir
    // before
    hyc.param @fc1.weight : tensor<64x256xf32> from #hyc.fill<0.0 : f64>
    // after
    hyc.param @fc1.weight : tensor<64x256xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}, {tp} ]>}
    ```
    Heads that tp does not divide are an error: padding would compute attention for heads that do not exist.

    With `sequence-parallel`, dimension 1 of the inputs is split over tp as well, `[{dp}, {tp} ]`: propagation gives it to
    every op that tp splits nothing else of, which are the norms and residual additions between the blocks. Where blocks
    begin, shards of the sequence are gathered, and where they end, partial sums reduce-scattered (Korthikanti et al. 2022).

    The module attribute `hyc.tensor_plan` holds what the model's authors published, transformers' `base_model_tp_plan`:
    `"layers.*.mlp.up_proj=colwise"` splits the outputs of every module of that name, `rowwise` its inputs, `replicate`
    neither; a `*` stands for one part of a name. What it says comes before the seeds above, which choose among the rest.
  }];
  let options = [
    Option<"sequenceParallel", "sequence-parallel", "bool", "false", "split the sequence over tp between the blocks">,
  ];
  let statistics = [Statistic<"splitClasses", "split-classes", "classes of factors split over tp">];
}

def PropagateShardings : Pass<"hyc-propagate-shardings", "::mlir::ModuleOp"> {
  let summary = "carries the shardings of parameters and inputs through every op";
  let description = [{
    Every op gets `dist.shardings`, one a result, by its sharding rule, and `dist.split`, one axis list a factor, where it is
    split at all. Where two factors of an op would be split over one axis, one of the inputs' yields to one of the
    parameters'. A contraction over a split factor gives a
    `partial` result; linear ops pass partial sums on, so that as few exchanges as possible close them. States get the
    sharding of their parameter, and gradients stay `partial` over the axes that every contribution to them is.

    An axis that would split two factors of an op splits the first; the other's operands are joined. Refused, each with what
    can be instead: an axis that the mesh lacks; different axes on one index of the model; a shard without a real element;
    padding where an op would let it reach other values, or of a dimension whose axes are not in the mesh's order.
  }];
}

def ShardStates : Pass<"hyc-shard-states", "::mlir::ModuleOp"> {
  let summary = "makes states flat over dp: ZeRO 1, 2 and 3";
  let description = [{
    Sets properties and nothing else. Stage 1 makes optimizer states flat over dp, stage 2 gradients too, stage 3 parameters
    too; a state stays whole where its shard would not be smaller, and a parameter where the whole tensor has no more than
    `persistence-threshold` elements. `gradient-reduction` says when gradients are summed over ranks: once a step, or
    each as it is made (`auto`: a step for stages 0 and 1, a micro-batch for 2 and 3). A gradient that is summed once a
    step is accumulated whole until then, so it stays whole, and a rank then has its own shard of the sum (`dist.owned`).

    What a plan file says of a state or parameter (`dist.flat` on it, an empty list for whole; `dist.reduction`) wins.

    ```mlir
    // before, on a mesh of dp 2
    hyc.state @w.adam.m of @w role "adam.m" : tensor<64x128xf32> … {dist.sharding = #dist.sharding<[{}, {tp} ]>}
    // after, zero 1
    hyc.state @w.adam.m of @w role "adam.m" : tensor<64x128xf32> … {dist.sharding = #dist.sharding<[{}, {tp} ] flat {dp}>}
    ```
    1. `flat.states`: all optimizer states of a parameter are flat over the same axes, and a flat parameter or gradient is
       flat over these.
    2. `flat.gradient`: a flat gradient is reduced once a micro-batch.
    3. `flat.axes`: flat axes are of the mesh and split no dimension; states of the whole run are not flat.
  }];
  let options = [
    Option<"zero", "zero", "int64_t", "0", "0 to 3: what is flat over dp">,
    Option<"gradientReduction", "gradient-reduction", "std::string", "\"auto\"", "step, micro_batch or auto">,
    Option<"persistenceThreshold", "persistence-threshold", "int64_t", "100000",
           "parameters of at most this many elements stay whole">,
    Option<"prefetch", "prefetch", "int64_t", "0", "gathers of a flat parameter start this many uses earlier">,
  ];
  let statistics = [Statistic<"flatStates", "flat-states", "states and parameters made flat">];
}

def PlaceStates : Pass<"hyc-place-states", "::mlir::ModuleOp"> {
  let summary = "decides which states are kept on the host or on a disk";
  let description = [{
    Writes `dist.placement` on what the optimizer keeps of parameters, on their gradients, and on the parameters, frozen
    ones too; tables of integers and masks stay. One that is there already stays. Phase 4 makes the moves that follow from it. Where forward and backward
    read a copy in another type, that is what `parameters` places, and the f32 master goes with the optimizer's states.

    With `ratio` below 1 only the first parameters' optimizer states are moved out, at most that part of all elements:
    the rest is updated on the device, where its gradients stay as well. Of parameters that go to a disk the first ones,
    at most `max-in-host` elements, go to the host instead.

    ```mlir
    // before
    hyc.state @w.m of @w role "adam.m" : tensor<4xf32> from #hyc.fill<0.0 : f64>
    // after, optimizer=nvme
    hyc.state @w.m of @w role "adam.m" : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "nvme"}
    ```
  }];
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"none\"", "none, cpu (the host's memory) or nvme (a disk)">,
    Option<"parameters", "parameters", "std::string", "\"none\"", "none, cpu (the host's memory) or nvme (a disk)">,
    Option<"gradients", "gradients", "std::string", "\"none\"", "none or cpu (the host's memory)">,
    Option<"ratio", "ratio", "double", "1.0", "part of the elements whose optimizer states are moved out">,
    Option<"maxInHost", "max-in-host", "int64_t", "0", "elements of parameters for a disk that are kept on the host">,
  ];
  let statistics = [Statistic<"offloaded", "offloaded", "states that are not kept on the device">];
  let dependentDialects = ["::hyc::dist::DistDialect"];
}

def AssignStages : Pass<"hyc-assign-stages", "::mlir::ModuleOp"> {
  let summary = "cuts the model into pipeline stages of balanced weight";
  let description = [{
    Cuts only between layers, into one chunk a stage, or with virtual stages several. A layer is found by structure: the forward ops fall into units wherever one single value
    crosses; the longest repetition of equal units gives the layers, what stands before and after it one layer each.
    Methods: `parameters` balances parameter elements, `uniform` the number of layers, `type:REGEX` the number of layers
    with an op whose id matches. A backward op belongs to the chunk of the op that it derives from.

    Writes `dist.stage` on ops, which is their chunk, and `dist.stages` on params and states: the stages that have these
    chunks.
  }];
  let options = [
    Option<"method", "method", "std::string", "\"parameters\"", "parameters, uniform or type:REGEX">,
    ListOption<"cuts", "cuts", "std::string",
               "ids of ops in the first layers of the chunks after the first, as a plan file has them; overrides the method">,
  ];
}

def BuildSchedule : Pass<"hyc-build-schedule", "::mlir::ModuleOp"> {
  let summary = "writes each stage's order of work in one step";
  let description = [{
    `gpipe`: all forwards, then all backwards; every micro-batch is alive. `1f1b` (Narayanan et al. 2021): stage s of p
    runs p - s - 1 forwards ahead, then one forward and one backward in turn, so that at most p - s micro-batches are
    alive. Backwards run in the order of micro-batches in both, so that gradients have the same bits.

    `1f1b` with v virtual stages is interleaved: p micro-batches pass a stage's first chunk, then its second, and so on,
    then the next p. Stage s runs 2(p - s - 1) + (v - 1)p chunks ahead, so that it holds one more than that at most, and the
    bubble is a v-th of what it was. p has to divide the number of micro-batches.

    `forward` is what an evaluation does: the forwards of 1f1b, interleaved where there are virtual stages, and the
    reduction of their sums.

    A send and the receive that opposes it form one exchange: apart, two neighbours that both send would wait for ever.
  }];
  let options = [
    Option<"schedule", "schedule", "std::string", "\"1f1b\"", "gpipe, 1f1b or forward">,
    Option<"microBatches", "micro-batches", "int64_t", "1", "micro-batches in one step">,
  ];
}

def AssignLifetimes : Pass<"hyc-assign-lifetimes", "::mlir::ModuleOp"> {
  let summary = "decides which forward values are saved for backward, and where, and which are computed again";
  let description = [{
    Writes `dist.lifetime` on forward ops; what has none is saved as far as backward needs it. A plan file's lifetimes are
    there before, and with mode `planned` they are all there is, but for what is computed from constants alone, which is
    never saved. In all other modes `hyc.dropout_mask` is drawn again, too, instead of being saved as a byte an element.

    - `layer`: what crosses from one layer to the next is saved, everything else is computed again (Chen et al. 2016, with
      the layers as segments). The last layer of a stage that has one micro-batch in flight is left alone: its backward
      follows its forward at once, so that nothing would be freed in between.
    - `selective`: the inside of attention where it is written out: products of two activations that are larger than both
      (scores), with what follows up to the next contraction (mask, softmax, dropout), if computing them again takes fewer
      operations a saved byte than the model's forward on average (Korthikanti et al. 2022; nothing goes by names).
      `hyc.attention` saves none of this in the first place.
    - `auto`: what crosses between layers is saved; of the rest as much as `budgets` allow, chosen by minimum cut so that
      few operations are repeated. A budget bounds what a rank saves for all micro-batches in flight; where nothing fits
      it, the least is saved. See RecomputationProblem.h.

    ```mlir
    // before
    %h = hyc.einsum "bk,kn->bn" %x, %w1 {id = "fc1"} : …
    %a = hyc.gelu %h {id = "act"} : …
    %y = hyc.einsum "bn,nk->bk" %a, %w2 {id = "fc2"} : …    // crosses to the next layer
    // after, mode layer
    %h = hyc.einsum "bk,kn->bn" %x, %w1 {dist.lifetime = #dist.lifetime<recompute>, id = "fc1"} : …
    %a = hyc.gelu %h {dist.lifetime = #dist.lifetime<recompute>, id = "act"} : …
    %y = hyc.einsum "bn,nk->bk" %a, %w2 {id = "fc2"} : …
    ```
    With `partition-activations`, a saved layer boundary that is whole on every rank of tp is kept in parts (`save over
    {tp}`; Rajbhandari et al. 2020, section 6.1).

    With `offload`, whatever the mode leaves to be saved is saved in the host's memory (`offload`): with `layer` the layer
    boundaries alone, which is CPU checkpointing.

    1. `lifetime.exact`: an op that is computed again has no effects and reads nothing that @microbatch changes.
    2. `lifetime.forward`: only forward ops have a lifetime.
    3. `lifetime.whole`: a value that is saved over an axis is not split over it, and the mesh has the axis.
  }];
  let options = [
    Option<"mode", "mode", "std::string", "\"none\"", "none, layer, selective, auto or planned">,
    Option<"partitionActivations", "partition-activations", "bool", "false", "keep layer boundaries in parts over tp">,
    Option<"offload", "offload", "bool", "false", "save in the host's memory what the mode leaves to be saved">,
    ListOption<"budgets", "budgets", "int64_t",
               "mode auto: most bytes that a rank saves for micro-batches in flight, by stage; the last counts for the rest">,
  ];
  let statistics = [Statistic<"repeatedOps", "repeated-ops", "forward ops that backward computes again">];
  let dependentDialects = ["::hyc::dist::DistDialect"];
}

def RecordPolicies : Pass<"hyc-record-policies", "::mlir::ModuleOp"> {
  let summary = "writes what phases 4 and 5 act on and no op carries into the module";
  let description = [{
    Settings such as the sizes of buckets and how far moves run ahead become `dist.policy`, a dictionary with every policy
    of the table of settings (hyc/Plan/SettingTable.h), defaults included; the target becomes `rank.target`. Passes of
    phases 4 and 5 read them and take no options, so that the text after phase 3 is the whole plan: `hyc-opt
    --hyc-local-phase --hyc-rank-phase` makes the same programs of it.

    ```mlir
    // before
    module { … }
    // after, policies=offload_prefetch=2
    module attributes {dist.policy = {allgather_bucket_size = 500000000 : i64, …, offload_prefetch = 2 : i64, …}} { … }
    ```
  }];
  let options = [
    ListOption<"policies", "policies", "std::string", "name=value; what is not named has its default">,
    Option<"target", "target", "std::string", "\"cpu\"", "cpu or cuda">,
  ];
}

def AdoptPlan : Pass<"hyc-adopt-plan", "::mlir::ModuleOp"> {
  let summary = "plans the module that evaluates as the module around it, which trains";
  let description = [{
    Both share their parameters, so there is nothing to choose: parameters and their copies lie where training has them,
    inputs are split as there, an op is in the chunk of training's op of its id, and shardings follow by
    hyc-propagate-shardings. The schedule has forwards and the reduction of the sums only: each stage begins a
    micro-batch when the one before is under way to the next stage. Policies are those of training. Last of phase 3;
    does nothing where no module @evaluate is inside.

    ```mlir
    // before
    module attributes {dist.policy = {…}} {
      dist.mesh @mesh axes ["dp", "tp"] sizes [1, 2] stages 1
      hyc.param @w : … {dist.sharding = …, dist.stages = array<i64: 0>}
      module @evaluate attributes {hyc.entry = "evaluate"} {
        hyc.param @w : … frozen
    // after
      module @evaluate attributes {dist.policy = {…}, hyc.entry = "evaluate"} {
        dist.mesh @mesh axes ["dp", "tp"] sizes [1, 2] stages 1
        hyc.param @w : … frozen {dist.sharding = …, dist.stages = array<i64: 0>}
        …
        dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<reduce>]
    ```
  }];
}

def CheckSizes : Pass<"hyc-check-sizes", "::mlir::ModuleOp"> {
  let summary = "refuses sizes that do not share their states, or whose samples tell no length";
  let description = [{
    Of `--dim seq=128,256,512` the module is of the largest size, and modules inside, with `hyc.size`, of the others, each
    planned by the same passes. They become entries of one program over one set of states:

    1. `sizes.largest`: the module says a `hyc.size`, and those inside smaller ones of the same dimension.
    2. `sizes.states`: all have the same parameters and states, of the same types, in the same places, divided alike.
    3. `sizes.inputs`: inputs differ in dimensions of a sample that are the dimension, and in nothing else.
    4. `sizes.loss`: the loss is over labels that count; one over all places would count padding, which smaller sizes cut.
    5. `sizes.length`: an attention mask tells how long a sample is, or labels do, and what lies behind them changes no
       loss: the module is `hyc.causal`, or on the way to the logits each op computes the places of the dimension apart
       from one another, by its sharding rule, but for causal attention.

    ```mlir
    module attributes {hyc.size = {dim = "seq", size = 512 : i64}} {
      hyc.param @w : …
      module @seq_128 attributes {hyc.size = {dim = "seq", size = 128 : i64}} {
        hyc.param @w : …
    ```
  }];
}

def VerifyPlan : Pass<"hyc-verify-plan", "::mlir::ModuleOp"> {
  let summary = "checks the invariant of phase 3: every value is decided";
  let description = [{
    A mesh; shardings and a stage on every op of `@microbatch`; a schedule a stage; policies that exist, in their ranges. The shardings of an op's results are
    what its recorded split and its operands give (see OpSharding.h).
  }];
}

#endif // HYC_TRANSFORMS_PLAN_PASSES_TD
