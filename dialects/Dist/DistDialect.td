// The dist dialect: how values are spread over a mesh of ranks (attributes, phase 3), and every exchange between ranks
// (ops, phase 4).

#ifndef DIST_DIALECT_TD
#define DIST_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let cppNamespace = "::hyc::dist";
  let summary = "Meshes, shardings, pipeline stages and explicit exchanges";
  let description = [{
    Phase 3 annotates the ops of `hyc` with attributes of this dialect and changes nothing else:

    | attribute | on | says |
    |---|---|---|
    | `dist.shardings` | ops | one `#dist.sharding` a result |
    | `dist.split` | ops | the axes that split each factor of the op's sharding rule, one `#dist.axes` a factor; without it the op is not split |
    | `dist.sharding` | params, states, function arguments | the same, for the one value |
    | `dist.stage` | ops, functions | the chunk of the pipeline that computes it: chunk c is virtual stage c div p of stage c mod p; without virtual stages a chunk is a stage |
    | `dist.stages` | params, states | the stages that hold it; several when tied |
    | `dist.lifetime` | forward ops | whether backward finds the op's results saved or computes them again; saved if absent |
    | `dist.reduction` | gradient states | `"step"`: summed over ranks once a step; `"micro_batch"`: as each is made |
    | `dist.prefetch` | params | how many uses of flat parameters earlier its gathers are started |
    | `dist.owned` | gradient states | it is stored whole, but after its reduction a rank has only its own flat shard |
    | `dist.flat` | ops on states (phase 4) | the op works on this rank's flat shard: of a flat state on all that it holds, of a whole one on its own slice |
    | `dist.channel` | arguments and results of phase-4 functions | the id under which it crosses to the next or from the previous chunk |

    Phase 4 realises them as ops. Every exchange is a start, which gives a `!dist.pending`, and a `dist.wait`; the source
    stays alive until the wait.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = "void registerAttributes();";
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

class Dist_Attr<string name, string attrMnemonic> : AttrDef<Dist_Dialect, name> { let mnemonic = attrMnemonic; }

def Dist_ShardingAttr : Dist_Attr<"Sharding", "sharding"> {
  let summary = "how one tensor is spread over the mesh";
  let description = [{
    `dims` gives for each dimension the axes that split it, major to minor, in equal parts of ceil(size / parts) whose last
    ones may be padded. `partial` axes hold terms whose sum is the true value; `partialMax` axes hold terms whose maximum is.
    `flat` axes further split the row-major flattened local tensor, in blocks of 1,024 elements: of n elements over D ranks
    each holds ceil(ceil(n / 1024) / D) blocks, the last ones maybe fewer or none. Axes not named hold equal copies. On a 2×2 mesh (dp, tp), `[{}, {tp} ] flat {dp}` of a 64×256 weight is a 64×128 half per tp coordinate, of which
    each dp coordinate keeps 4,096 elements.

    1. `sharding.axis_once`: no axis is named twice.
    ```mlir
    #dist.sharding<[{dp}, {}, {tp} ]>
    #dist.sharding<[{dp}, {} ] partial {tp}>
    #dist.sharding<[{}, {tp} ] flat {dp}>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"::hyc::dist::AxisListAttr">:$dims, "::hyc::dist::AxisListAttr":$partial,
                        "::hyc::dist::AxisListAttr":$partialMax, "::hyc::dist::AxisListAttr":$flat);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// A value of `tensorRank` dimensions that every rank holds whole.
    static ShardingAttr replicated(::mlir::MLIRContext *context, int64_t tensorRank);
    static ShardingAttr get(::mlir::MLIRContext *context, ::llvm::ArrayRef<::llvm::SmallVector<::mlir::StringAttr>> dims,
                            ::llvm::ArrayRef<::mlir::StringAttr> partial = {},
                            ::llvm::ArrayRef<::mlir::StringAttr> partialMax = {},
                            ::llvm::ArrayRef<::mlir::StringAttr> flat = {});
    bool isReplicated() const;
    /// Whether `axis` splits some dimension.
    bool splits(::mlir::StringAttr axis) const;
    ShardingAttr withDims(::llvm::ArrayRef<::hyc::dist::AxisListAttr> dims) const;
    ShardingAttr withoutPartial() const;
    ShardingAttr withFlat(::hyc::dist::AxisListAttr flat) const;
    ShardingAttr withoutFlat() const;
  }];
}

def Dist_AxisListAttr : Dist_Attr<"AxisList", "axes"> {
  let summary = "mesh axes, major to minor: {dp, tp}";
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$axes);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    bool empty() const { return getAxes().empty(); }
    bool contains(::mlir::StringAttr axis) const { return ::llvm::is_contained(getAxes(), axis); }
    /// Reads and prints `{dp, tp}`.
    static ::mlir::FailureOr<AxisListAttr> parseBraces(::mlir::AsmParser &parser);
    void printBraces(::mlir::AsmPrinter &printer) const;
  }];
}

def Dist_GroupAttr : Dist_Attr<"Group", "group"> {
  let summary = "the ranks that take part in an exchange, seen from any one of them";
  let description = [{
    All ranks whose coordinates agree with this rank's but for `axes`; with `stages` these, in each of the stages listed
    (an empty list: this rank's own stage only). `#dist.group<{tp}>`, `#dist.group<{} stages [0, 1]>`.
  }];
  let parameters = (ins "::hyc::dist::AxisListAttr":$axes, ArrayRefParameter<"int64_t">:$stages);
  let hasCustomAssemblyFormat = 1;
}

def Dist_LifetimeSave : I32EnumAttrCase<"save", 0>;
def Dist_LifetimeRecompute : I32EnumAttrCase<"recompute", 1>;
def Dist_LifetimeOffload : I32EnumAttrCase<"offload", 2>;
def Dist_LifetimeKind : I32EnumAttr<"LifetimeKind", "how a forward value reaches backward",
    [Dist_LifetimeSave, Dist_LifetimeRecompute, Dist_LifetimeOffload]> {
  let cppNamespace = "::hyc::dist";
  let genSpecializedAttr = 0;
}

def Dist_LifetimeAttr : Dist_Attr<"Lifetime", "lifetime"> {
  let summary = "how what a forward op computes reaches the backward of the same micro-batch";
  let description = [{
    `save` keeps results that backward needs in the record of saved values. With `over` axes, on which the value is whole,
    each rank keeps one part of it, and the parts are joined again where backward needs them. `recompute` keeps nothing:
    backward executes the op again, from whatever of its operands is saved. `offload` saves as `save` does, but in the
    host's memory: results leave the device once forward is done with them and come back where backward needs them. All
    say nothing of results that backward does not need.

    1. `lifetime.over`: only what is saved, on the device or offloaded, has axes.
    ```mlir
    #dist.lifetime<recompute>
    #dist.lifetime<save>
    #dist.lifetime<save over {tp}>
    #dist.lifetime<offload>
    ```
  }];
  let parameters = (ins "::hyc::dist::LifetimeKind":$kind, "::hyc::dist::AxisListAttr":$over);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static LifetimeAttr get(::mlir::MLIRContext *context, ::hyc::dist::LifetimeKind kind);
    /// What phase 3 recorded on `op`: `save` where it said nothing.
    static LifetimeAttr of(::mlir::Operation *op);
    bool isRecompute() const { return getKind() == LifetimeKind::recompute; }
    bool isOffload() const { return getKind() == LifetimeKind::offload; }
  }];
}

def Dist_ScheduleForward : I32EnumAttrCase<"forward", 0>;
def Dist_ScheduleBackward : I32EnumAttrCase<"backward", 1>;
def Dist_ScheduleExchange : I32EnumAttrCase<"exchange", 2>;
def Dist_ScheduleReduce : I32EnumAttrCase<"reduce", 3>;
def Dist_ScheduleApply : I32EnumAttrCase<"apply", 4>;
def Dist_ScheduleBeginStep : I32EnumAttrCase<"begin_step", 5>;
def Dist_InstructionKind : I32EnumAttr<"InstructionKind", "what a stage does in one entry of its schedule",
    [Dist_ScheduleForward, Dist_ScheduleBackward, Dist_ScheduleExchange, Dist_ScheduleReduce, Dist_ScheduleApply,
     Dist_ScheduleBeginStep]> {
  let cppNamespace = "::hyc::dist";
  let genSpecializedAttr = 0;
}

def Dist_DirectionForward : I32EnumAttrCase<"forward", 0>;
def Dist_DirectionBackward : I32EnumAttrCase<"backward", 1>;
def Dist_Direction : I32EnumAttr<"Direction", "activations go forward, cotangents backward",
    [Dist_DirectionForward, Dist_DirectionBackward]> {
  let cppNamespace = "::hyc::dist";
  let genSpecializedAttr = 0;
}

def Dist_TransferAttr : Dist_Attr<"Transfer", "transfer"> {
  let summary = "all channel tensors of one direction of one micro-batch, to or from a neighbouring chunk";
  let description = [{
    `send forward` carries the channel results of this chunk's forward function to the channel arguments of the next
    chunk's; `receive backward` the channel results of the next chunk's backward function to the arguments of this one's.
    `virtual_stage` tells which of the stage's chunks that is; the first where it is left out. The last stage's neighbour
    is the first one, for all but the last chunk.
    ```mlir
    send forward micro_batch 2 slot 0
    receive backward virtual_stage 1 micro_batch 2 slot 3
    ```
  }];
  let parameters = (ins "bool":$isSend, "::hyc::dist::Direction":$direction, "int64_t":$virtualStage,
                        "int64_t":$microBatch, "int64_t":$slot);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    bool isForward() const { return getDirection() == Direction::forward; }
    /// The chunk at the other side, seen from the one whose function makes or takes the tensors.
    int64_t getPeerOf(int64_t chunk) const { return chunk + (getIsSend() == isForward() ? 1 : -1); }
    static ::mlir::FailureOr<TransferAttr> parseBare(::mlir::AsmParser &parser);
    void printBare(::mlir::AsmPrinter &printer) const;
  }];
}

def Dist_InstructionAttr : Dist_Attr<"Instruction", "do"> {
  let summary = "one entry of a schedule";
  let description = [{
    ```mlir
    #dist.do<begin_step>
    #dist.do<forward micro_batch 0 slot 0>
    #dist.do<backward virtual_stage 1 micro_batch 0 slot 3>
    #dist.do<exchange [send forward micro_batch 0 slot 0, receive backward micro_batch 0 slot 0]>
    #dist.do<reduce>
    ```
    `virtual_stage` tells which of the stage's chunks is computed; the first where it is left out. `slot` names the record
    of saved values: forward fills it, the backward of the same chunk and micro-batch empties it. Chunks share slots, so
    that as many are there as are alive at once.
  }];
  let parameters = (ins "::hyc::dist::InstructionKind":$kind, "int64_t":$virtualStage, "int64_t":$microBatch,
                        "int64_t":$slot, ArrayRefParameter<"::hyc::dist::TransferAttr">:$transfers);
  let hasCustomAssemblyFormat = 1;
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

def Dist_PendingType : TypeDef<Dist_Dialect, "Pending"> {
  let mnemonic = "pending";
  let summary = "a tensor on its way: the token between an exchange's start and its wait";
  let parameters = (ins "::mlir::RankedTensorType":$tensor);
  let assemblyFormat = "`<` $tensor `>`";
}

#endif // DIST_DIALECT_TD
