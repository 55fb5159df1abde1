// Phase 4: what one rank holds, and every exchange. These passes realise the plan; they decide nothing and take no
// options: policies are those of the module (hyc/Plan/Policies.h).

#ifndef HYC_TRANSFORMS_LOCAL_PASSES_TD
#define HYC_TRANSFORMS_LOCAL_PASSES_TD

include "mlir/Pass/PassBase.td"

def Partition : Pass<"hyc-partition", "::mlir::ModuleOp"> {
  let summary = "gives every tensor its local shape and makes every exchange explicit";
  let description = [{
    Rewrites `@microbatch` op by op: operands are converted to what the op's recorded split asks for (see OpSharding.h),
    results get their local shapes. A conversion that closes partial sums is an all_reduce, one that joins shards an
    all_gather, one that drops what others hold a dist.slice, which communicates nothing. Exchanges start right after the
    value is made and are awaited where it is first needed. Vocabulary-parallel ops are written out with their offsets.

    ```mlir
    // before
    %y = hyc.einsum "bk,kn->bn" %a, %w {dist.shardings = [#dist.sharding<[{}, {} ] partial {tp}>],
                                        dist.split = [#dist.axes<{}>, #dist.axes<{tp}>, #dist.axes<{}>]}
           : (tensor<8x256xf32>, tensor<256x64xf32>) -> tensor<8x64xf32>
    // after
    %y = hyc.einsum "bk,kn->bn" %a, %w : (tensor<8x128xf32>, tensor<128x64xf32>) -> tensor<8x64xf32>
    %p = dist.all_reduce_start sum %y over <{tp}> : tensor<8x64xf32> -> !dist.pending<tensor<8x64xf32>>
    %r = dist.wait %p : !dist.pending<tensor<8x64xf32>> -> tensor<8x64xf32>
    ```
  }];
  let dependentDialects = ["::hyc::dist::DistDialect"];
  let statistics = [Statistic<"exchanges", "exchanges", "exchanges inserted">];
}

def RecomputeActivations : Pass<"hyc-recompute-activations", "::mlir::ModuleOp"> {
  let summary = "computes again in backward what the plan does not save";
  let description = [{
    Where a backward op needs a forward value whose op has the lifetime `recompute`, that op is cloned in front of it, and
    before it whatever else is not saved on the way from what is. Exchanges and reads of parameters on that way are made
    again too; effects never are. Each value is computed again once, as late as its first user allows: the clones of one
    layer are alive during that layer's backward only.

    ```mlir
    // before
    %a = hyc.gelu %h {id = "act", dist.lifetime = #dist.lifetime<recompute>} : tensor<4x128xf32>
    %g = hyc.einsum "bn,bk->nk" %a, %dy {hyc.backward} : (tensor<4x128xf32>, tensor<4x64xf32>) -> tensor<128x64xf32>
    // after
    %a = hyc.gelu %h {id = "act"} : tensor<4x128xf32>
    %b = hyc.gelu %h {id = "act.again", hyc.backward} : tensor<4x128xf32>
    %g = hyc.einsum "bn,bk->nk" %b, %dy {hyc.backward} : (tensor<4x128xf32>, tensor<4x64xf32>) -> tensor<128x64xf32>
    ```
    A value with the lifetime `save over {tp}` is sliced where it is made and gathered where backward needs it, if the axes'
    ranks divide one of its dimensions.

    After partitioning, so that what is repeated includes the exchanges; before the cut, which then finds fewer values to
    save. Nothing merges forward ops with their clones, since the cut puts them into different functions.
  }];
  let dependentDialects = ["::hyc::dist::DistDialect"];
  let statistics = [Statistic<"clonedOps", "cloned-ops", "forward ops that backward executes again">,
                    Statistic<"splitValues", "split-values", "values that are saved in parts">];
}

def OffloadActivations : Pass<"hyc-offload-activations", "::mlir::ModuleOp"> {
  let summary = "moves what forward saves with the lifetime `offload` to the host's memory and back";
  let description = [{
    A copy to the host is made where the value is, one back in front of the first backward op that needs it, once a stage.
    Ops that cost nothing, such as reshapes, follow the copy. What crosses to the next stage and is needed by the backward
    of both is offloaded by both.

    ```mlir
    // before
    %a = hyc.gelu %h {id = "act", dist.lifetime = #dist.lifetime<offload>} : tensor<4x128xf32>
    %g = hyc.einsum "bn,bk->nk" %a, %dy {hyc.backward} : (tensor<4x128xf32>, tensor<4x64xf32>) -> tensor<128x64xf32>
    // after
    %a = hyc.gelu %h {id = "act"} : tensor<4x128xf32>
    %p = dist.copy_start %a to "host" : tensor<4x128xf32> -> !dist.pending<tensor<4x128xf32>>
    %s = dist.wait %p : !dist.pending<tensor<4x128xf32>> -> tensor<4x128xf32>
    %q = dist.copy_start %s to "device" {hyc.backward} : tensor<4x128xf32> -> !dist.pending<tensor<4x128xf32>>
    %b = dist.wait %q {hyc.backward} : !dist.pending<tensor<4x128xf32>> -> tensor<4x128xf32>
    %g = hyc.einsum "bn,bk->nk" %b, %dy {hyc.backward} : (tensor<4x128xf32>, tensor<4x64xf32>) -> tensor<128x64xf32>
    ```
    After recomputation, whose clones read what is saved like every other backward op; before the cut, for which the copy
    on the host is the value that is saved.
  }];
  let dependentDialects = ["::hyc::dist::DistDialect"];
  let statistics = [Statistic<"copiedValues", "copied-values", "values that leave the device, by stage">];
}

def CutStages : Pass<"hyc-cut-stages", "::mlir::ModuleOp"> {
  let summary = "cuts @microbatch into a forward and a backward function for each stage";
  let description = [{
    A value that backward needs on its own stage is saved; one that another stage needs crosses stage by stage as a
    channel. Reads, constants and other ops that cost nothing are repeated where they are used.
  }];
  let dependentDialects = ["::hyc::dist::DistDialect"];
}

def ReduceGradients : Pass<"hyc-reduce-gradients", "::mlir::ModuleOp"> {
  let summary = "closes what a step's accumulation left partial: @reduce.S";
  let description = [{
    Gradients are reduced over their partial axes, those of tied parameters over the stages that hold them as well. The
    loss sum and the token count reach every stage, since each needs the count to scale its gradients.

    With the policy `communication_type` gradients are rounded to that type for the exchange; the terms of a sum are still added in
    f32 and rounded once.
  }];
  let dependentDialects = ["::hyc::dist::DistDialect"];
}

def DistributeUpdate : Pass<"hyc-distribute-update", "::mlir::ModuleOp"> {
  let summary = "gives every stage the part of @apply that updates what it holds: @apply.S";
  let description = [{
    A sum of squares is taken over this stage's shards, split ones apart from whole ones, and combined so that every
    element counts once: split states over their axes, then all stages. A tied parameter counts on its first stage. A sum
    that is needed only where all of it is held, as that of one parameter (LAMB), is taken there alone.
  }];
  let dependentDialects = ["::hyc::dist::DistDialect"];
}

def PrefetchParameters : Pass<"hyc-prefetch-parameters", "::mlir::ModuleOp"> {
  let summary = "starts gathers of flat parameters before the uses that they are for";
  let description = [{
    A gather is made right before its use. A parameter with `dist.prefetch = n` is asked for n gathers earlier in the same
    function, as long as what is gathered or on its way at one moment stays within `stage3_max_live_parameters` elements, and
    what of that is not used yet within `stage3_prefetch_bucket_size` elements (policies).

    ```mlir
    // before
    %w1 = dist.wait %p1    // use 1
    %p2 = dist.all_gather_start %s2 …
    %w2 = dist.wait %p2    // use 2
    // after, n = 1
    %p2 = dist.all_gather_start %s2 …
    %w1 = dist.wait %p1
    %w2 = dist.wait %p2
    ```
  }];
  let dependentDialects = ["::hyc::dist::DistDialect"];
}

def AdvanceGathers : Pass<"hyc-advance-gathers", "::mlir::ModuleOp"> {
  let summary = "starts gathers of activations in front of the product before their use";
  let description = [{
    What forward has saved as shards is joined again where backward needs it. Its shards have been there all the time, so the gather
    starts `gathers_ahead` (a policy) products earlier in the same function, and goes on while they compute. What they give is
    exchanged, in turn, while the use of the gather does.

    ```mlir
    // before
    %dx = hyc.einsum "abd,cd->abc" %dy, %w …
    %p1 = dist.reduce_scatter_start %dx …
    %p2 = dist.all_gather_start %x …               // saved
    %x1 = dist.wait %p2
    %dw = hyc.einsum "abc,abd->cd" %x1, %dy …
    %s = dist.wait %p1
    // after, gathers_ahead = 1
    %p2 = dist.all_gather_start %x …
    %dx = hyc.einsum "abd,cd->abc" %dy, %w …
    %p1 = dist.reduce_scatter_start %dx …
    %x1 = dist.wait %p2
    %dw = hyc.einsum "abc,abd->cd" %x1, %dy …
    %s = dist.wait %p1
    ```
    Gathers of flat parameters are left to `hyc-prefetch-parameters`.
  }];
  let statistics = [Statistic<"advanced", "advanced", "gathers started earlier">];
}

def DelayWaits : Pass<"hyc-delay-waits", "::mlir::ModuleOp"> {
  let summary = "awaits reductions of gradients after the computation that follows them";
  let description = [{
    A sum over ranks that is only added to a gradient is needed by nobody before the function ends. Its wait and the
    addition move down to where the reduction `reductions_in_flight` (a policy) places later is started, so that at most so many are under way
    while backward computes on. Additions to one state keep their order, and with it their bits.

    ```mlir
    // before
    %p1 = dist.reduce_scatter_start %g1 …
    %s1 = dist.wait %p1
    hyc.accumulate %s1 into @w1.grad
    %x = hyc.einsum …
    %p2 = dist.reduce_scatter_start %g2 …
    // after, reductions_in_flight = 1
    %p1 = dist.reduce_scatter_start %g1 …
    %x = hyc.einsum …
    %s1 = dist.wait %p1
    hyc.accumulate %s1 into @w1.grad
    %p2 = dist.reduce_scatter_start %g2 …
    ```
  }];
  let statistics = [Statistic<"delayedWaits", "delayed-waits", "waits moved past computation">];
}

def MoveStates : Pass<"hyc-move-states", "::mlir::ModuleOp"> {
  let summary = "makes the moves of states that are not kept on the device explicit";
  let description = [{
    An update with a state on the host or on a disk runs on the host: its states on the device are copied there, those on
    a disk are read, and what it changed is written back. Updates form groups of `sub_group_size` elements; a group's
    disk states are read while the group before runs (`offload_read_ahead`) and written while the one after does
    (`offload_write_behind`); all three are policies. A parameter is fetched to the device right before each op that uses it.

    An update on flat shards moves this rank's shard alone of what the device keeps whole; a parameter that is kept whole
    elsewhere is fetched as a whole for the gather that follows.

    ```mlir
    // before: @w.m and @w.v have dist.placement = "host"
    hyc.adamw @w, @w.grad, @w.m, @w.v …
    // after
    %0 = dist.fetch_start @w to "host" …
    %1 = dist.fetch_start @w.grad to "host" …
    dist.wait_move %0
    dist.wait_move %1
    hyc.adamw @w, @w.grad, @w.m, @w.v …
    %2 = dist.evict_start @w from "host" …
    dist.wait_move %2
    ```
  }];
  let statistics = [Statistic<"moves", "moves", "moves inserted">];
  let dependentDialects = ["::hyc::dist::DistDialect"];
}

def OverlapMoves : Pass<"hyc-overlap-moves", "::mlir::ModuleOp"> {
  let summary = "lets tensors that are kept elsewhere move while the uses before and after them compute";
  let description = [{
    A copy to the device, of a state or of an activation, starts in front of the waits of the use `offload_prefetch` (a
    policy) earlier in the same function; one back is awaited in front of the eviction as many later, or where its state is touched
    again. As many uses' copies are on the device besides the one that is at work. Updates on the host are reached one
    group ahead; what they stream to and from a disk is left as `hyc-move-states` has it.

    ```mlir
    // before
    %0 = dist.fetch_start @w1 to "device"
    dist.wait_move %0
    …                                          // use 1
    %1 = dist.fetch_start @w2 to "device"
    dist.wait_move %1
    …                                          // use 2
    // after, offload_prefetch = 1
    %0 = dist.fetch_start @w1 to "device"
    %1 = dist.fetch_start @w2 to "device"
    dist.wait_move %0
    …
    dist.wait_move %1
    …
    ```
    After the moves of states and activations are there; nothing after it adds any.
  }];
  let statistics = [Statistic<"movedOps", "moved-ops", "starts moved up and waits moved down">];
}

def MakeForwardProgram : Pass<"hyc-make-forward-program", "::mlir::ModuleOp"> {
  let summary = "turns the model of phase 1 into the program of one rank that computes its outputs, and trains nothing";
  let description = [{
    Leads from phase 1 straight to phase 4, on a mesh of one rank: `@train` becomes `@forward.0`, and each of its outputs
    goes to a state of role "output" of its name. A step is one forward; the other functions of the stage do nothing.

    ```mlir
    // before
    hyc.func @train(%x: tensor<4xf32> {hyc.input = "x"}) -> (tensor<4xf32> {hyc.output = "y"}) {
      %0 = hyc.exp %x {id = "exp"} : tensor<4xf32>
      hyc.return %0 : tensor<4xf32>
    }
    // after
    hyc.state @y role "output" : tensor<4xf32> from #hyc.fill<0.000000e+00 : f64>
    hyc.func @forward.0(%x: tensor<4xf32> {hyc.input = "x"}) {
      %0 = hyc.exp %x {id = "exp"} : tensor<4xf32>
      hyc.write %0 into @y : tensor<4xf32>
      hyc.return
    }
    ```
    What evaluation needs on more ranks than one, the shardings of a plan, it does not have.
  }];
  let dependentDialects = ["::hyc::dist::DistDialect", "::hyc::HycDialect"];
}

def VerifyLocal : Pass<"hyc-verify-local", "::mlir::ModuleOp"> {
  let summary = "checks the invariant of phase 4: functions agree with their neighbours and with the schedule";
  let description = [{
    Every stage has its four functions and a schedule; the channels that one stage sends are those that its neighbour
    receives, with the same types; what backward takes as saved, forward saves. What adds to or writes a state that is kept
    elsewhere works on a copy of it; no copy is evicted that no fetch made, and none that was changed is fetched anew
    before it is written back.
  }];
}

def CheckSchedules : Pass<"hyc-check-schedules", "::mlir::ModuleOp"> {
  let summary = "refuses schedules that give a function nothing to work on";
  let description = "See ScheduleCheck.h. The error names the stage, the instruction and the slot.";
}

def CheckCommunication : Pass<"hyc-check-communication", "::mlir::ModuleOp"> {
  let summary = "refuses programs whose ranks would wait for each other for ever";
  let description = "See CommunicationCheck.h. A deadlock is a compile error that says where every stage stands.";
}

#endif // HYC_TRANSFORMS_LOCAL_PASSES_TD
