// Mesh and schedule (module level), exchanges (phase 4), and what a rank may ask of its own coordinates.
// What all exchanges have in common: ExchangeInterface.td.

#ifndef DIST_OPS_TD
#define DIST_OPS_TD

include "dialects/Dist/DistDialect.td"
include "dialects/Dist/ExchangeInterface.td"

class Dist_Op<string mnemonic, list<Trait> traits = []> : Op<Dist_Dialect, mnemonic, traits>;

def Dist_MeshOp : Dist_Op<"mesh", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "the axes along which ranks are laid out";
  let description = [{
    Axes have names of the plan's choosing; nothing but the plan knows what they mean. They are listed major to minor, and
    stages, the slowest, are no axis of values (`stages` counts them): on axes dp and tp the world rank of stage s and
    coordinates (dp, tp) is (s · size(dp) + dp) · size(tp) + tp.

    An axis that is cut into sub-axes is listed as these, side by side, each with the name of what they are parts of in
    `parents` ("" for an axis of its own). Shardings and groups name sub-axes: of dp as hosts × local a group is over
    `{local}` alone, or over `{hosts, local}`, which is all of dp.

    Two properties tell what the plan's choices without a name go by: `batch` axes split the samples of every input, and
    are what ZeRO makes states flat over; `tensor` axes split structural classes of factors (hyc-seed-shardings).

    With `virtual_stages` v every stage computes v pieces of the model, called chunks, that do not follow one another: of
    p stages, stage s has the chunks s, p + s, 2p + s, … in the model's order. A value that leaves the last stage then
    goes on to the first.

    1. `mesh.sizes`: every size and the numbers of stages and virtual stages are at least 1; names are unique.
    2. `mesh.virtual_stages`: one stage alone has no virtual stages, since a value would cross to where it is.
    3. `mesh.names`: there are at most 8 axes, whose names have 1 to 23 bytes, as in the runtime's tables.
    4. `mesh.parents`: there is one entry an axis; the sub-axes of one parent stand side by side, and no axis is called as
       a parent is.
    5. `mesh.roles`: `batch` and `tensor` name axes of the mesh, none of them twice.
    ```mlir
    dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 2 batch <{dp}> tensor <{tp}>
    dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 2 virtual_stages 2 batch <{dp}> tensor <{tp}>
    dist.mesh @mesh axes ["hosts", "local", "tp"] sizes [2, 4, 2] parents ["dp", "dp", ""] stages 1 batch <{hosts, local}>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$axes, DenseI64ArrayAttr:$sizes,
                       OptionalAttr<StrArrayAttr>:$parents, I64Attr:$stages,
                       DefaultValuedAttr<I64Attr, "1">:$virtual_stages, OptionalAttr<Dist_AxisListAttr>:$batch,
                       OptionalAttr<Dist_AxisListAttr>:$tensor);
  let assemblyFormat = [{$sym_name `axes` $axes `sizes` $sizes (`parents` $parents^)? `stages` $stages
                         (`virtual_stages` $virtual_stages^)? (`batch` $batch^)? (`tensor` $tensor^)? attr-dict}];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Size of an axis, or of a parent of sub-axes; 1 if there is none of this name.
    int64_t getSize(::mlir::StringAttr axis);
    /// Product of the sizes.
    int64_t getSize(::hyc::dist::AxisListAttr axes);
    int64_t getRanksPerStage();
    /// Where the axis stands in the list, which is major to minor; nothing if there is none of this name.
    ::std::optional<size_t> getPosition(::mlir::StringAttr axis);
    /// What the axis is a part of; "" of an axis of its own.
    ::llvm::StringRef getParent(size_t position);
    /// `axes` with each parent's name replaced by its sub-axes.
    ::hyc::dist::AxisListAttr expand(::hyc::dist::AxisListAttr axes);
    /// Whether members of a group over `axes`, which are ordered by world rank, are in the order of their coordinate
    /// along them.
    bool isMajorToMinor(::llvm::ArrayRef<::mlir::StringAttr> axes);
    /// The axes of more than one rank that split samples, and those that split structural classes.
    ::hyc::dist::AxisListAttr getBatchAxes();
    ::hyc::dist::AxisListAttr getTensorAxes();
    /// How many ranks a group has.
    int64_t countMembers(::hyc::dist::GroupAttr group);
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
       same chunk and micro-batch before it is filled again. Where nothing runs backward, forward empties it.
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

def Dist_ReduceSum : I32EnumAttrCase<"sum", 0>;
def Dist_ReduceMax : I32EnumAttrCase<"max", 1>;
def Dist_ReduceKind : I32EnumAttr<"ReduceKind", "how an exchange combines", [Dist_ReduceSum, Dist_ReduceMax]> {
  let cppNamespace = "::hyc::dist";
  let genSpecializedAttr = 0;
}
def Dist_ReduceKindAttr : EnumAttr<Dist_Dialect, Dist_ReduceKind, "reduce_kind">;

def Dist_ExchangeAllReduce : I32EnumAttrCase<"all_reduce", 0>;
def Dist_ExchangeReduceScatter : I32EnumAttrCase<"reduce_scatter", 1>;
def Dist_ExchangeAllGather : I32EnumAttrCase<"all_gather", 2>;
def Dist_ExchangeAllToAll : I32EnumAttrCase<"all_to_all", 3>;
def Dist_ExchangeShift : I32EnumAttrCase<"shift", 4>;
def Dist_ExchangeKind : I32EnumAttr<"ExchangeKind", "what members of a group do together",
    [Dist_ExchangeAllReduce, Dist_ExchangeReduceScatter, Dist_ExchangeAllGather, Dist_ExchangeAllToAll,
     Dist_ExchangeShift]> {
  let description = [{
    The name is that of the op in phase 4 (`dist.NAME_start`), of the row and the start in phase 5, in reports, and, in
    the runtime's spelling, of the kind and the function that emitted code calls.
  }];
  let cppNamespace = "::hyc::dist";
  let genSpecializedAttr = 0;
}

class Dist_ExchangeOp<string mnemonic, list<Trait> traits = []>
    : Dist_Op<mnemonic, !listconcat([DeclareOpInterfaceMethods<Dist_ExchangeOpInterface>], traits)> {
  let results = (outs Dist_PendingType:$pending);
  let hasVerifier = 1;
}

def Dist_AllReduceStartOp : Dist_ExchangeOp<"all_reduce_start", [Pure]> {
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
  let assemblyFormat = "$kind $operand `over` $group attr-dict `:` type($operand) `->` type($pending)";
}

def Dist_AllGatherStartOp : Dist_ExchangeOp<"all_gather_start", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
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
  let assemblyFormat = [{$operand (`dim` $dim^)? (`flat` $flat^)? `over` $group attr-dict `:` type($operand) `->`
                         type($pending)}];
}

def Dist_ReduceScatterStartOp : Dist_ExchangeOp<"reduce_scatter_start", [Pure]> {
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
  let assemblyFormat = [{$operand (`dim` $dim^)? (`flat` $flat^)? `over` $group attr-dict `:` type($operand) `->`
                         type($pending)}];
}

def Dist_AllToAllStartOp : Dist_ExchangeOp<"all_to_all_start", [Pure]> {
  let summary = "cuts each member's tensor along one dimension, and joins what all have for a member along another";
  let description = [{
    Moves a split from dimension `concat` to dimension `split`: of a value whose dimension `concat` is split over the
    group's axes, every member gets the shard that it has once dimension `split` is split over them. Both the operand's
    `split` and the result's `concat` have their logical sizes: what pads the last shards is zero, and is dropped.

    1. `exchange.all_to_all`: `split` and `concat` are two dimensions of the operand; the operand's dimension `concat` and
       the result's dimension `split` are shards, over as many members, of what the other one has there, and the other
       dimensions agree.
    ```mlir
    %p = dist.all_to_all_start %x split 0 concat 1 over <{tp}> : tensor<8x16xf32> -> !dist.pending<tensor<4x32xf32>>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$operand, I64Attr:$split, I64Attr:$concat, Dist_GroupAttr:$group,
                       OptionalAttr<StrAttr>:$cause, OptionalAttr<StrAttr>:$why);
  let assemblyFormat = [{$operand `split` $split `concat` $concat `over` $group attr-dict `:` type($operand) `->`
                         type($pending)}];
}

def Dist_ShiftStartOp : Dist_ExchangeOp<"shift_start", [Pure]> {
  let summary = "passes tensors around the ring of the group's members";
  let description = [{
    The members stand in the order of their world ranks, the last before the first; each gets the tensor of the member
    `distance` places before it.

    1. `exchange.shift`: the result is of the operand's type, and `distance` is at least 1 and below the number of
       members.
    ```mlir
    %p = dist.shift_start %x by 1 over <{cp}> : tensor<4x8xf32> -> !dist.pending<tensor<4x8xf32>>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$operand, I64Attr:$distance, Dist_GroupAttr:$group,
                       OptionalAttr<StrAttr>:$cause, OptionalAttr<StrAttr>:$why);
  let assemblyFormat = "$operand `by` $distance `over` $group attr-dict `:` type($operand) `->` type($pending)";
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
