// Passes of phase 5: from what one rank computes to the calls it makes. Every example is part of a test in test/Rank.
// What they are told stands in the module: policies (hyc/Plan/Policies.h) and the target. The options that are left serve
// tests alone.
// Their order is: decompose-composites, hoist-invariants, fuse-bias, form-clusters, lower-to-rank, keep-constants,
// reuse-operands, stream-updates, place-buffers, coalesce-reductions, bucket-exchanges, check-finite, share-layers, verify-rank.

#ifndef HYC_TRANSFORMS_RANK_PASSES_TD
#define HYC_TRANSFORMS_RANK_PASSES_TD

include "mlir/Pass/PassBase.td"

def DecomposeComposites : Pass<"hyc-decompose-composites", "::mlir::ModuleOp"> {
  let summary = "Replaces composite ops without a kernel by their definition in smaller ops";
  let description = [{
    ```mlir
    %y = hyc.softmax %x {id = "p"} : tensor<2x4xf32>
    ```
    becomes
    ```mlir
    %0 = hyc.reduce max %x [1] {id = "p.max"} : (tensor<2x4xf32>) -> tensor<2xf32>
    …
    %y = hyc.div %3, %5 {id = "p.result"} : tensor<2x4xf32>
    ```
    Only here, after partitioning: until then the op is differentiated and split as a whole. Products of other types than
    f32, bf16 and f16, for which there is no matrix product, become sums of products.
  }];
  let options = [
    ListOption<"ops", "ops", "std::string", "mnemonics of the ops to replace; softmax, and scan within a scan, if none is given">,
  ];
  let statistics = [Statistic<"decomposed", "decomposed", "ops replaced">];
  let dependentDialects = ["::hyc::HycDialect"];
}

def HoistInvariants : Pass<"hyc-hoist-invariants", "::mlir::ModuleOp"> {
  let summary = "Computes once, before a hyc.scan, what is the same in all of its steps";
  let description = [{
    ```mlir
    %last = hyc.scan 8 init(%h) with(%w) : … {
    ^bb0(%state: tensor<2x4xf32>, %weight: tensor<4x4xf32>):
      %0 = hyc.tanh %weight : tensor<4x4xf32>
      …
    ```
    becomes
    ```mlir
    %0 = hyc.tanh %w : tensor<4x4xf32>
    %last = hyc.scan 8 init(%h) with(%w, %0) : … {
    ```
    Broadcasts, counted numbers and splat constants stay: clusters make them out of nothing.
  }];
  let statistics = [Statistic<"hoisted", "hoisted", "ops computed before the steps">];
  let dependentDialects = ["::hyc::HycDialect"];
}

def FuseBias : Pass<"hyc-fuse-bias", "::mlir::ModuleOp"> {
  let summary = "Adds a bias where the matrix product is written";
  let description = [{
    ```mlir
    %h = hyc.einsum "sk,kn->sn" %x, %w : …
    %r = hyc.broadcast %b [1] : (tensor<8xf32>) -> tensor<4x8xf32>
    %y = hyc.add %h, %r : tensor<4x8xf32>
    ```
    becomes
    ```mlir
    %y = rank.linear "sk,kn->sn" %x, %w bias %b : …
    ```
    if the product has no other use and the bias runs along the last letters, all of them the second operand's alone:
    the matrix product then adds it while the tile is in a register, instead of reading the result again.
  }];
  let dependentDialects = ["::hyc::rank::RankDialect"];
}

def FormClusters : Pass<"hyc-form-clusters", "::mlir::ModuleOp"> {
  let summary = "Fuses elementwise ops over one shape, and reductions of it, into clusters";
  let description = [{
    An elementwise op takes in the producers of its operands that are elementwise over the same shape, broadcasts or
    splat constants, if it is their only user; broadcasts, constants, conversions and comparisons are copied into every
    user, since computing them again costs less than a pass through memory. A producer that others use later, as backward
    does what it needs of forward, joins too where nothing but elementwise ops and views stands between: the cluster then
    gives both. So does what stands there and reads the same.

    A reduction takes in the producer of its operand likewise, and also where others use it: the cluster then gives both.
    Reductions of the same elements along the same dimensions become one cluster, and an elementwise op over the
    result takes the reduction in.

    ```mlir
    %0 = hyc.mul %x, %y : tensor<4x8xf32>
    %1 = hyc.broadcast %b [1] : (tensor<8xf32>) -> tensor<4x8xf32>
    %2 = hyc.add %0, %1 : tensor<4x8xf32>
    %3 = hyc.reduce sum %2 [0] : (tensor<4x8xf32>) -> tensor<8xf32>
    ```
    becomes, if %2 is used elsewhere too,
    ```mlir
    %2, %3 = rank.cluster %x, %y, %b space [4, 8] reduced [0]
        dims [array<i64: 0, 1>, array<i64: 0, 1>, array<i64: 1>] : … -> (tensor<4x8xf32>, tensor<8xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %0 = rank.compute "mul" %a, %b : (f32, f32) -> f32
      %1 = rank.compute "add" %0, %c : (f32, f32) -> f32
      %2 = rank.combine sum %1 : f32
      rank.yield %1, %2 : f32, f32
    }
    ```
  }];
  let dependentDialects = ["::hyc::rank::RankDialect"];
}

def LowerToRank : Pass<"hyc-lower-to-rank", "::mlir::ModuleOp"> {
  let summary = "Turns each stage's functions over tensors into a program over buffers";
  let description = [{
    One `rank.program` a stage takes the place of `@forward.S`, `@backward.S`, `@reduce.S` and `@apply.S`, of parameters
    and of state. Each op becomes one call that writes into memory:

    - reshapes, splits and unit-stride slices are views; parts of a concatenation are written in place where their
      producer takes strides;
    - a matrix product's letters are grouped into batch, m, n and k by the strides of its operands; an operand whose
      groups are not contiguous is permuted first;
    - a value whose only use adds it to state is added by the kernel that makes it;
    - saved values and what crosses to other stages become records; the operands of collectives lie in shared memory.

    Temporaries have no address yet.
  }];
  let dependentDialects = ["::hyc::rank::RankDialect"];
}

def KeepConstants : Pass<"hyc-keep-constants", "::mlir::ModuleOp"> {
  let summary = "Makes once a run what is the same in every step, and keeps it";
  let description = [{
    A call whose results follow from its attributes, the places of elements and such results alone gives the same in every
    micro-batch of every step: tables of indices, masks, positions, the weights of an interpolation. It goes to @prepare,
    which the runtime calls once, and what others read of its results becomes a `rank.constant` in the arena @constants.
    What @prepare alone reads is a temporary there. Equal calls, of whichever functions and entries, are one.

    ```mlir
    rank.func @forward {
      %0 = rank.alloc @activations : !rank.buffer<4x8xi64>
      rank.call "constant" %0 = {values = dense<…> : tensor<4x8xi64>, id = "picked"} : !rank.buffer<4x8xi64>
      rank.call "gather" %y = %x, %0 …
    ```
    becomes
    ```mlir
    rank.constant @picked in @constants : !rank.buffer<4x8xi64>
    rank.func @forward {
      %0 = rank.address @picked : !rank.buffer<4x8xi64>
      rank.call "gather" %y = %x, %0 …
    rank.func @prepare {
      %0 = rank.address @picked : !rank.buffer<4x8xi64>
      rank.call "constant" %0 = {values = dense<…> : tensor<4x8xi64>, id = "picked"} : !rank.buffer<4x8xi64>
    ```
    A value that backward would have found in a record is kept likewise, and the record is gone, in all of its slots.

    What it costs: the bytes of @constants are there all of the step, where a temporary takes its bytes only between the
    call and its last reader. Every byte kept saves as much as any other, a write (and of a table its reading) in each
    function that has it; so there is one decision for all, the policy `keep_constants`, and @constants is a line
    of the account. Results of at most a cache line stay where they are: to read them from elsewhere takes a line, as
    writing them does. What a kernel makes in passing (a number, the place of an element; hyc-form-clusters) is no buffer
    and nothing to keep.
  }];
  let statistics = [
    Statistic<"kept", "kept", "tensors that are kept for the run">,
    Statistic<"moved", "moved", "calls that functions of a step make no more">,
  ];
  let dependentDialects = ["::hyc::rank::RankDialect"];
}

def CoalesceReductions : Pass<"hyc-coalesce-reductions", "::mlir::ModuleOp"> {
  let summary = "Joins all-reduces of states over one group into one";
  let description = [{
    The states are given adjacent places in their arena, in the order of the reductions, so that one call covers them
    all; what lies between them for alignment is zero on every rank.
  }];
  let dependentDialects = ["::hyc::rank::RankDialect"];
}

def BucketExchanges : Pass<"hyc-bucket-exchanges", "::mlir::ModuleOp"> {
  let summary = "Joins flat reduce-scatters and all-gathers that start one after the other into buckets";
  let description = [{
    Starts over one group between which only addresses are computed become one exchange of several tensors, of at most
    `reduce_bucket_size` or `allgather_bucket_size` elements (policies) together (a tensor that has more goes by itself). It starts where the
    last of them did and is awaited where the first was. Nothing is packed: each tensor is read and written where it lies.

    ```mlir
    // before
    %t0 = rank.start "all_gather" "sum" %row0, %a flat <{dp}> into %wa count 4096 …
    %t1 = rank.start "all_gather" "sum" %row1, %b flat <{dp}> into %wb count 3000 …
    // after
    %t1 = rank.start "all_gather" "sum" %row1, %a, %b flat <{dp}> into %wa, %wb count 7096 …
    ```
  }];
  let dependentDialects = ["::hyc::rank::RankDialect"];
}

def CheckFinite : Pass<"hyc-check-finite", "::mlir::ModuleOp"> {
  let summary = "Puts a check for NaN and infinity behind every call that writes floating-point values";
  let description = [{
    Only where the policy `check_finite` asks for it. Exchanges that add are checked where they are awaited. Checks come in the order of the calls, so the first that fails
    names the op that made the value. After placement, because a check keeps nothing alive; before hyc-share-layers, which
    gives a shared function the sites of each layer.

    ```mlir
    // before
    rank.launch @gelu %y = %x {id = "h.0.act"} : …
    // after
    rank.launch @gelu %y = %x {id = "h.0.act"} : …
    %0 = rank.row @site.0 : !rank.row
    rank.check %0, %y = %x {id = "h.0.act"} : …
    ```
  }];
  let dependentDialects = ["::hyc::rank::RankDialect"];
}

def ReuseOperands : Pass<"hyc-reuse-operands", "::mlir::ModuleOp"> {
  let summary = "Writes a kernel's result over an operand that nothing reads afterwards";
  let description = [{
    Only where each element of the result depends on the same element of that operand: elementwise kernels with equal
    strides, and the library kernels whose header allows it.
  }];
  let dependentDialects = ["::hyc::rank::RankDialect"];
}

def StreamUpdates : Pass<"hyc-stream-updates", "::mlir::ModuleOp"> {
  let summary = "Lets updates of states in the host's memory pass through windows on the device";
  let description = [{
    Of programs for GPUs. What calls that work element by element (`isByElement` of their description: updates, and the
    rounding of what they have updated) read and write in the arena @host is copied to windows in the arena
    @activations and back, `offload_window` bytes at a time (a policy; 0: kernels reach over the bus):

    ```mlir
    rank.call "sgd_momentum" %w, %m = %g, %lr, %scale   // %m in @host
    // becomes, where a window holds half of it
    %t0 = rank.move "fetch" %window0 = %m[first half]
    %t1 = rank.move "fetch" %window1 = %m[second half]
    rank.wait %t0
    rank.call "sgd_momentum" %w[first half], %window0 = %g[first half], %lr, %scale
    %t2 = rank.move "evict" %m[first half] = %window0
    rank.wait %t1
    rank.call "sgd_momentum" %w[second half], %window1 = %g[second half], %lr, %scale
    %t3 = rank.move "evict" %m[second half] = %window1
    rank.wait %t2
    rank.wait %t3
    ```
    A third window is filled while the second is computed with and the first emptied, and takes the place of the first
    in the end. Kernels that reach the host's memory themselves do so at a third of the rate of copies, and wait meanwhile.

    An update that has a shard of what is kept whole, whose size is known at run time alone, is not cut: its window is
    as large as the shard. What is smaller than a 512th of a window is left where it is.
  }];
  let statistics = [Statistic<"streamedTensors", "streamed-tensors", "parts of tensors that pass through a window">];
  let dependentDialects = ["::hyc::rank::RankDialect"];
}

def PlaceBuffers : Pass<"hyc-place-buffers", "::mlir::ModuleOp"> {
  let summary = "Gives every buffer a fixed offset in its arena";
  let description = [{
    States lie one after the other in the order of declaration. Records and temporaries share addresses where they are
    never alive at once; when they are is read off the stage's schedule (see ArenaPlacement.h). Each arena tells its
    size and, beside it, the most bytes that are alive at one moment.

    With the policy `threads` an arena @workspace holds the scratch memory that library kernels ask for (Workspaces.h), as much as
    the neediest call wants for so many threads; calls use it one after the other.

    With the policy `poison` a `rank.call "poison"` follows the last op of every temporary's life, and of every record's in
    backward: a test then sees whoever reads what the plan calls dead.
  }];
  let dependentDialects = ["::hyc::rank::RankDialect"];
}

def ShareLayers : Pass<"hyc-share-layers", "::mlir::ModuleOp"> {
  let summary = "Makes one function of op sequences that differ only in addresses";
  let description = [{
    Looks for a run of equal consecutive sequences of calls (same kernels, sizes and attributes; ids, offsets and rows
    of collectives may differ) and replaces each by a `rank.invoke` with the addresses in which they differ.
  }];
  let options = [
    Option<"minimumOps", "minimum-ops", "int64_t", "8", "shortest sequence that is worth a function">,
  ];
  let dependentDialects = ["::hyc::rank::RankDialect"];
}

def VerifyRank : Pass<"hyc-verify-rank", "::mlir::ModuleOp"> {
  let summary = "Checks that phase 5 is complete";
  let description = [{
    No tensors, no ops of hyc, no temporary without an address; every arena has its size; what takes part in a
    collective lies in shared memory; every start is waited for once, in the same function.
  }];
  let dependentDialects = ["::hyc::rank::RankDialect"];
}

#endif // HYC_TRANSFORMS_RANK_PASSES_TD
