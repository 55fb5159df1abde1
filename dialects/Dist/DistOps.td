// Mesh and schedule (module level), exchanges (phase 4), and what a rank may ask of its own coordinates.

#ifndef DIST_OPS_TD
#define DIST_OPS_TD

include "dialects/Dist/DistDialect.td"

class Dist_Op<string mnemonic, list<Trait> traits = []> : Op<Dist_Dialect, mnemonic, traits>;

def Dist_MeshOp : Dist_Op<"mesh", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "the axes along which ranks are laid out";
  let description = [{
    The world rank of stage s and coordinates (dp, tp) is (s · size(dp) + dp) · size(tp) + tp: axes are listed major to
    minor, and stages, the slowest, are no axis of values (`stages` counts them).

    With `virtual_stages` v every stage computes v pieces of the model, called chunks, that do not follow one another: of
    p stages, stage s has the chunks s, p + s, 2p + s, … in the model's order. A value that leaves the last stage then
    goes on to the first.

    1. `mesh.sizes`: every size and the numbers of stages and virtual stages are at least 1; names are unique.
    2. `mesh.virtual_stages`: one stage alone has no virtual stages, since a value would cross to where it is.
    ```mlir
    dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 2
    dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 2 virtual_stages 2
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$axes, DenseI64ArrayAttr:$sizes, I64Attr:$stages,
                       DefaultValuedAttr<I64Attr, "1">:$virtual_stages);
  let assemblyFormat = [{$sym_name `axes` $axes `sizes` $sizes `stages` $stages (`virtual_stages` $virtual_stages^)?
                         attr-dict}];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Size of an axis; 1 if there is none of this name.
    int64_t getSize(::mlir::StringAttr axis);
    /// Product of the sizes.
    int64_t getSize(::hyc::dist::AxisListAttr axes);
    int64_t getRanksPerStage();
    /// Pieces that the model is cut into: stages × virtual stages.
    int64_t getChunks() { return static_cast<int64_t>(getStages() * getVirtualStages()); }
    int64_t getStageOf(int64_t chunk) { return chunk % static_cast<int64_t>(getStages()); }
    int64_t getVirtualStageOf(int64_t chunk) { return chunk / static_cast<int64_t>(getStages()); }
    int64_t getChunk(int64_t stage, int64_t virtualStage) {
      return virtualStage * static_cast<int64_t>(getStages()) + stage;
    }
    static MeshOp find(::mlir::ModuleOp module);
  }];
}

def Dist_ScheduleOp : Dist_Op<"schedule", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "what one stage does in one step, in order";
  let description = [{
    1. `schedule.slots`: every slot is below `slots`; a slot is filled by one forward and emptied by the backward of the
       same chunk and micro-batch before it is filled again.
    ```mlir
    dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, …, #dist.do<reduce>, #dist.do<apply>]
    ```
  }];
  let arguments = (ins I64Attr:$stage, I64Attr:$slots, TypedArrayAttrBase<Dist_InstructionAttr, "instructions">:$instructions);
  let assemblyFormat = "`stage` $stage `slots` $slots $instructions attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

def Dist_SumOrMax_Sum : I32EnumAttrCase<"sum", 0>;
def Dist_SumOrMax_Max : I32EnumAttrCase<"max", 1>;
def Dist_ReduceKind : I32EnumAttr<"ReduceKind", "how an exchange combines", [Dist_SumOrMax_Sum, Dist_SumOrMax_Max]> {
  let cppNamespace = "::hyc::dist";
  let genSpecializedAttr = 0;
}
def Dist_ReduceKindAttr : EnumAttr<Dist_Dialect, Dist_ReduceKind, "reduce_kind">;

def Dist_AllReduceStartOp : Dist_Op<"all_reduce_start", [Pure]> {
  let summary = "combines the group's tensors; every member gets the result";
  let description = [{
    Ranks are combined in the order of their world rank, so that the result has the same bits everywhere and every time.
    `cause` is the op, and `why` the sharding, that asked for the exchange; the report prints both.
    ```mlir
    %p = dist.all_reduce_start sum %y over <{tp}> : tensor<4x64xf32> -> !dist.pending<tensor<4x64xf32>>
    %r = dist.wait %p : !dist.pending<tensor<4x64xf32>> -> tensor<4x64xf32>
    ```
  }];
  let arguments = (ins Dist_ReduceKindAttr:$kind, AnyRankedTensor:$operand, Dist_GroupAttr:$group,
                       OptionalAttr<StrAttr>:$cause, OptionalAttr<StrAttr>:$why);
  let results = (outs Dist_PendingType:$pending);
  let assemblyFormat = "$kind $operand `over` $group attr-dict `:` type($operand) `->` type($pending)";
  let hasVerifier = 1;
}

def Dist_AllGatherStartOp : Dist_Op<"all_gather_start", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "joins the group's shards, along one dimension or flat; every member gets the whole";
  let description = [{
    The result has the logical size: padding of the last shards is dropped.

    1. `exchange.form`: either `dim` or `flat` is given.
    2. `exchange.flat`: with `flat` the shard is one-dimensional and has `flatShardSize` elements of the whole.

    The flat form gathers a parameter for one use: it allocates, so that no two of them become one and hold the whole
    between their uses.
    ```mlir
    %p = dist.all_gather_start %x dim 2 over <{tp}> : tensor<4x8x32xf32> -> !dist.pending<tensor<4x8x64xf32>>
    %q = dist.all_gather_start %w flat <{dp}> over <{dp}> : tensor<4096xf32> -> !dist.pending<tensor<64x128xf32>>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$operand, OptionalAttr<I64Attr>:$dim, OptionalAttr<Dist_AxisListAttr>:$flat,
                       Dist_GroupAttr:$group, OptionalAttr<StrAttr>:$cause, OptionalAttr<StrAttr>:$why);
  let results = (outs Dist_PendingType:$pending);
  let assemblyFormat = [{$operand (`dim` $dim^)? (`flat` $flat^)? `over` $group attr-dict `:` type($operand) `->`
                         type($pending)}];
  let hasVerifier = 1;
}

def Dist_ReduceScatterStartOp : Dist_Op<"reduce_scatter_start", [Pure]> {
  let summary = "sums the group's tensors; every member gets its shard, along one dimension or flat";
  let description = [{
    The terms of each element are added in the order of the members' world ranks.

    With `flat` a member gets the shard of its coordinate along those axes, which need not be those of the group: members
    of equal coordinate get the same shard. A tied gradient is summed over dp and over two stages, and each of the two
    keeps its dp shard of the sum.

    1. `exchange.form`, 2. `exchange.flat`: as of all_gather_start.
    ```mlir
    %p = dist.reduce_scatter_start %g flat <{dp}> over <{dp} stages [0, 1]>
         : tensor<64x128xf32> -> !dist.pending<tensor<4096xf32>>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$operand, OptionalAttr<I64Attr>:$dim, OptionalAttr<Dist_AxisListAttr>:$flat,
                       Dist_GroupAttr:$group, OptionalAttr<StrAttr>:$cause, OptionalAttr<StrAttr>:$why);
  let results = (outs Dist_PendingType:$pending);
  let assemblyFormat = [{$operand (`dim` $dim^)? (`flat` $flat^)? `over` $group attr-dict `:` type($operand) `->`
                         type($pending)}];
  let hasVerifier = 1;
}

def Dist_WaitOp : Dist_Op<"wait", [Pure]> {
  let summary = "the tensor of a started exchange, once it is there";
  let arguments = (ins Dist_PendingType:$pending);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$pending attr-dict `:` type($pending) `->` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Coordinates
//===----------------------------------------------------------------------===//

def Dist_ShardOffsetOp : Dist_Op<"shard_offset", [Pure]> {
  let summary = "this rank's linear coordinate along some axes, times a shard size: where its shard begins";
  let description = "Rank coordinates are run-time values; nothing else in the IR depends on them.";
  let arguments = (ins Dist_AxisListAttr:$axes, I64Attr:$shard_size);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$axes `size` $shard_size attr-dict `:` type($result)";
}

def Dist_SliceOp : Dist_Op<"slice", [Pure]> {
  let summary = "this rank's shard, along one dimension or flat, of a value that it holds whole";
  let description = [{
    Communicates nothing. Elements beyond the end are zero. Without `dim` the shard is flat.

    1. `exchange.flat`: without `dim` the shard is one-dimensional and has `flatShardSize` elements of the whole.
    ```mlir
    %s = dist.slice %x dim 0 over <{dp}> : tensor<5x3xf32> -> tensor<3x3xf32>
    %f = dist.slice %g over <{dp}> : tensor<64x128xf32> -> tensor<4096xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$operand, OptionalAttr<I64Attr>:$dim, Dist_AxisListAttr:$axes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand (`dim` $dim^)? `over` $axes attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}

#endif // DIST_OPS_TD
