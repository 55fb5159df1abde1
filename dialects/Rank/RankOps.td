// The ops of the rank dialect: a program's tables, its functions, and the calls inside them.

#ifndef RANK_OPS_TD
#define RANK_OPS_TD

include "dialects/Rank/RankDialect.td"
include "dialects/Dist/DistDialect.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"

class Rank_Op<string mnemonic, list<Trait> traits = []> : Op<Rank_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

def Rank_ProgramOp : Rank_Op<"program", [Symbol, SymbolTable, NoTerminator, SingleBlock,
                                         HasParent<"::mlir::ModuleOp">]> {
  let summary = "what every rank of one pipeline stage runs";
  let description = [{
    `slots` is the number of micro-batches whose records are alive at once, counted once for each of the stage's chunks.
    The stage's `dist.schedule` stands beside it in the module.

    Placement adds for how many `threads` workspaces are planned, `fixed_bytes` of a rank beside its arenas, and what a
    checkpoint needs that is written as training goes on: `snapshot_bytes`, and `checkpoint_writer_bytes` of the thread
    that writes (MemoryAccount.h). With `poison` programs can overwrite what the plan calls dead; with `writes_buffers`
    forward changes frozen parameters, as running statistics.

    Where entries do steps of smaller sizes, the schedule is that of the largest `size` of the dimension `dim`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$stage, I64Attr:$slots,
                       DefaultValuedAttr<I64Attr, "1">:$virtual_stages, OptionalAttr<I64Attr>:$threads,
                       OptionalAttr<I64Attr>:$fixed_bytes, OptionalAttr<I64Attr>:$snapshot_bytes,
                       OptionalAttr<I64Attr>:$checkpoint_writer_bytes, OptionalAttr<StrAttr>:$dim,
                       OptionalAttr<I64Attr>:$size, UnitAttr:$poison, UnitAttr:$writes_buffers);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{$sym_name `stage` $stage (`virtual_stages` $virtual_stages^)? `slots` $slots
                         attr-dict-with-keyword $body}];
  let extraClassDeclaration = [{
    /// The functions that the schedule runs, in this order: @forward, @forward.1, … of the virtual stages, as many
    /// @backward, then @reduce and @apply; and behind them, of each rank.entry, its @ENTRY.forward, …, and its
    /// @ENTRY.reduce or, of one that trains, its @ENTRY.backward, ….
    ::llvm::SmallVector<::std::string> getFunctionNames();
    /// Whether the function at this position of getFunctionNames() is a forward one, of whichever entry.
    bool isForward(int64_t position);
    /// Whether it is a backward one, of whichever entry.
    bool isBackward(int64_t position);
    /// Whether the function at this position runs for one micro-batch, which has a slot.
    bool isOfMicroBatch(int64_t position);
    /// The position of the function that an instruction of the `entry`-th rank.entry runs; of the stage's schedule
    /// where there is none.
    int64_t getPosition(::hyc::dist::InstructionAttr instruction, ::std::optional<int64_t> entry = {});
    /// @prepare, which runs once, before the first step of whichever entry; null where nothing is kept for the run.
    FuncOp getPrepare();
  }];
}

class Rank_TableOp<string mnemonic> : Rank_Op<mnemonic, [Symbol, HasParent<"ProgramOp">]>;

def Rank_EntryOp : Rank_TableOp<"entry"> {
  let summary = "another way to run the program, over the same states and in the same arenas: one row of Program::entries";
  let description = [{
    The stage's `dist.schedule` is the first entry. Each further one has instructions of its own (begin_step, forward,
    exchange and reduce), inputs that are filled for it, and functions named after it: @evaluate.forward,
    @evaluate.forward.1, … of the virtual stages, and @evaluate.reduce. What its functions make is dead when the entry
    has run, so that its buffers take the places of the others'.
    ```mlir
    rank.entry @evaluate inputs ["input_ids"] [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<reduce>]
    ```

    One that trains does a whole step of a smaller `size` of the dimension `dim`. It has forward and backward functions of
    its own, and reduces and applies by the stage's. `types` are those that its inputs have, one after another at the
    inputs' addresses: each is the beginning of what the input holds, along the dimensions that are smaller.
    ```mlir
    rank.entry @seq_128 trains "seq" 128 as [!rank.buffer<2x128xi64>] inputs ["input_ids"] [#dist.do<begin_step>, …]
    ```

    1. `entry.size`: an entry that trains has a positive size and a type for each input, none larger than the input.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$inputs,
                       TypedArrayAttrBase<Dist_InstructionAttr, "instructions">:$instructions, OptionalAttr<StrAttr>:$dim,
                       DefaultValuedAttr<I64Attr, "0">:$size, OptionalAttr<TypeArrayAttr>:$types);
  let assemblyFormat = [{$sym_name (`trains` $dim^ $size `as` $types)? `inputs` $inputs $instructions attr-dict}];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether it does whole steps: forward, backward, and the stage's reduce and apply.
    bool trains() { return getDim().has_value(); }
  }];
}

def Rank_ArenaOp : Rank_TableOp<"arena"> {
  let summary = "memory that the runtime allocates once, zeroed";
  let description = [{
    `bytes` is known after placement, and `lower_bound` beside it: the most bytes that are alive at one moment, which no
    placement can undercut. `record_bytes` is the size of one slot's record of values that outlive their function; slot
    s begins `s * record_bytes` after the first. Shared arenas can be seen by peers.

    1. `arena.bound`: `lower_bound` ≤ `bytes`.
    ```mlir
    rank.arena @activations bytes 5120 lower_bound 5120
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, UnitAttr:$shared, DefaultValuedAttr<I64Attr, "0">:$bytes,
                       DefaultValuedAttr<I64Attr, "0">:$lower_bound, DefaultValuedAttr<I64Attr, "0">:$record_bytes);
  let assemblyFormat = [{$sym_name (`shared` $shared^)? (`bytes` $bytes^)? (`lower_bound` $lower_bound^)?
                         (`record_bytes` $record_bytes^)? attr-dict}];
  let hasVerifier = 1;
}

// Something that has an address for the whole run.
class Rank_PlacedOp<string mnemonic, dag extra> : Rank_TableOp<mnemonic> {
  let arguments = !con((ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$arena, OptionalAttr<I64Attr>:$offset,
                            TypeAttrOf<Rank_BufferType>:$type), extra);
  let hasVerifier = 1;
  let extraClassDeclaration = "BufferType getBufferType() { return ::llvm::cast<BufferType>(getType()); }";
}

def Rank_StateOp : Rank_PlacedOp<"state", (ins StrAttr:$role, StrAttr:$logical_name, DenseI64ArrayAttr:$logical,
                                               DenseI64ArrayAttr:$global, ArrayAttr:$splits, AnyAttr:$init,
                                               OptionalAttr<Dist_AxisListAttr>:$flat,
                                               OptionalAttr<Dist_AxisListAttr>:$slice)> {
  let summary = "a parameter, gradient or optimizer quantity: one row of Program::states";
  let description = [{
    `type` is the shard that one rank holds, `global` the whole in the same dimensions, `logical` the shape that the
    model states. `splits` has one list of axes a dimension. The symbol is unique in the program; `logical_name` and
    `role` are what files refer to.

    With `flat` the buffer is one-dimensional: this rank's flat shard of what the splits leave. With `slice` the buffer
    has all of that, but after the step's reduction only this rank's flat shard of it counts.
    ```mlir
    rank.state @fc1.weight "parameter" of "fc1.weight" in @parameters at 0 : !rank.buffer<64x128xf32>
        logical [64, 256] global [64, 256] splits [#dist.axes<{}>, #dist.axes<{tp}>] init #hyc.fill<0.0 : f64>
    ```
  }];
  let assemblyFormat = [{$sym_name $role `of` $logical_name `in` $arena (`at` $offset^)? `:` $type `logical` $logical
                         `global` $global `splits` $splits `init` $init (`flat` $flat^)? (`slice` $slice^)? attr-dict}];
}

def Rank_InputOp : Rank_PlacedOp<"input", (ins StrAttr:$source, I64Attr:$bound, OptionalAttr<StrArrayAttr>:$streams,
                                               OptionalAttr<I64Attr>:$uncounted, UnitAttr:$of_entry)> {
  let summary = "a model input that the loader fills before each forward and backward";
  let description = [{
    `source` is what `hyc.source` says (see hyc.func); every index is below `bound`, but for the label `uncounted`, where
    samples may hold one that no loss counts. With random it holds a key a sample and stream, (B, N) for N `streams`.
    With `of_entry` no function of the stage's schedule reads it, but those of a rank.entry do.

    1. `input.source`: `source` is one of those that dialects/Hyc/InputSources.h lists.
  }];
  let extraClassDeclaration = [{
    BufferType getBufferType() { return ::llvm::cast<BufferType>(getType()); }
    /// Of a verified input.
    const ::hyc::InputSourceFacts &getSourceFacts();
  }];
  let assemblyFormat = [{$sym_name `source` $source (`streams` $streams^)? `bound` $bound `in` $arena (`at` $offset^)? `:`
                         $type attr-dict}];
}

def Rank_ScalarOp : Rank_PlacedOp<"scalar", (ins)> {
  let summary = "where an argument of apply is stored: @lr";
  let assemblyFormat = "$sym_name `in` $arena (`at` $offset^)? `:` $type attr-dict";
}

def Rank_ConstantOp : Rank_PlacedOp<"constant", (ins)> {
  let summary = "what is the same in every step: @prepare makes it once a run, and other functions only read it";
  let assemblyFormat = "$sym_name `in` $arena (`at` $offset^)? `:` $type attr-dict";
}

def Rank_RecordOp : Rank_PlacedOp<"record", (ins UnitAttr:$single)> {
  let summary = "a value that outlives the function that makes it: saved for backward, or on its way to another stage";
  let description = [{
    There is one instance a slot, `record_bytes` of the arena apart; with `single` one serves all slots, because the
    schedule never holds two.
  }];
  let assemblyFormat = "$sym_name `in` $arena (`at` $offset^)? (`single` $single^)? `:` $type attr-dict";
}

def Rank_TransferOp : Rank_TableOp<"transfer"> {
  let summary = "one tensor that crosses a cut between stages: one row of Program::transfers";
  let description = [{
    `send` or not, `backward` or not; `virtual_stage` tells whose function makes or takes it, `entry` of which rank.entry
    where it is not the stage's schedule; `tag` is equal on both sides.
    ```mlir
    rank.transfer @send.h.3 send of @h.3.add to 1 tag 0
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, UnitAttr:$send, UnitAttr:$backward, FlatSymbolRefAttr:$record,
                       I64Attr:$peer, I64Attr:$tag, DefaultValuedAttr<I64Attr, "0">:$virtual_stage,
                       OptionalAttr<StrAttr>:$entry);
  let assemblyFormat = [{$sym_name (`send` $send^)? (`backward` $backward^)? `of` $record
                         (`virtual_stage` $virtual_stage^)? (`entry` $entry^)? `peer` $peer `tag` $tag attr-dict}];
  let extraClassDeclaration = [{
    /// Whether this is what a step of `entry`'s instructions moves; null: of the stage's schedule.
    bool isMovedBy(::hyc::dist::TransferAttr step, ::mlir::StringAttr entry);
  }];
  let hasVerifier = 1;
}

def Rank_CollectiveOp : Rank_TableOp<"collective"> {
  let summary = "an exchange that functions of this program start: one row of Program::collectives";
  let description = [{
    `number` is equal in all programs that take part. `cause` and `why` tell which op and which sharding ask for it.
    `flat`: the axes by whose coordinate members have flat shards.

    1. `collective.kind`: `kind` is one of dist's kinds of exchange.
    ```mlir
    rank.collective @fc2.partial 3 all_reduce over #dist.group<{tp}> cause "fc2" why "partial {tp}"
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$number, StrAttr:$kind, Dist_GroupAttr:$group, StrAttr:$cause,
                       StrAttr:$why, OptionalAttr<Dist_AxisListAttr>:$flat);
  let assemblyFormat = "$sym_name $number $kind `over` $group `cause` $cause `why` $why (`flat` $flat^)? attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = "::hyc::dist::ExchangeKind getExchange();";
}

def Rank_SiteOp : Rank_TableOp<"site"> {
  let summary = "where a `rank.check` stands, for the message: a function and an op of the model";
  let description = [{
    ```mlir
    rank.site @site.12 "forward" "transformer.h.0.mlp.c_fc"
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$function, StrAttr:$cause);
  let assemblyFormat = "$sym_name $function $cause attr-dict";
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

def Rank_KernelOp : Rank_Op<"kernel", [Symbol, IsolatedFromAbove, HasParent<"::mlir::ModuleOp">,
                                       SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "a loop nest over elements: a cluster of elementwise ops and reductions";
  let description = [{
    For every index of `space`, reads one element of each input, computes the body and writes one element of each
    result. `strides` has one list an operand, inputs first: elements per step of each dimension of the space, 0 where
    the operand does not depend on it.

    The dimensions in `reduced` disappear from what `rank.combine` gives: it combines a value over all of their
    indices, and what is computed from it is computed once an index of the other dimensions. A result is one or the
    other: written for every index of the space, or, if it comes from a combination, once its dimensions are complete.
    In which order elements are combined follows from the space alone (KernelStructure.h).

    1. `kernel.operands`: there is one stride list an operand, each with one entry a dimension of the space.
    2. `kernel.body`: one block argument an input; the terminator yields one value a result.
    3. `kernel.reduced`: `reduced` is strictly increasing and in range; the body combines if and only if it has an entry.
    4. `kernel.combined`: what comes from a combination is not combined again, is not computed together with what
       differs along a reduced dimension, and is a result with stride 0 along those.
    ```mlir
    rank.kernel @gelu_grad_sum space [128, 256] reduced [0] strides [[256, 1], [256, 1], [256, 1], [0, 1]] results [f32, f32] {
    ^bb0(%dy: f32, %x: f32):
      %0 = rank.compute "gelu_tanh_grad" %dy, %x : (f32, f32) -> f32
      %1 = rank.combine sum %0 : f32
      rank.yield %0, %1 : f32, f32
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, DenseI64ArrayAttr:$space,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$reduced,
                       TypedArrayAttrBase<DenseI64ArrayAttr, "strides">:$strides, TypeArrayAttr:$result_types);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{$sym_name `space` $space (`reduced` $reduced^)? `strides` $strides `results` $result_types
                         attr-dict-with-keyword $body}];
  let hasVerifier = 1;
}

def Rank_YieldOp : Rank_Op<"yield", [Pure, Terminator]> {
  let summary = "the elements that a body computes";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
  let builders = [OpBuilder<(ins), "build($_builder, $_state, ::mlir::ValueRange());">];
}

def Rank_ScalarComputeOp : Rank_Op<"compute", [Pure]> {
  let summary = "one operation on elements, named as the hyc op it comes from";
  let description = [{
    1. `compute.function`: `function` is one of those that ScalarFunctions.h lists, with its number of operands.
    ```mlir
    %0 = rank.compute "add" %x, %y : (f32, f32) -> f32
    ```
  }];
  let arguments = (ins StrAttr:$function, Variadic<AnyType>:$operands);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$function $operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Rank_LiteralOp : Rank_Op<"literal", [Pure, AllTypesMatch<["value", "result"]>]> {
  let summary = "a number";
  let arguments = (ins TypedAttrInterface:$value);
  let results = (outs AnyType:$result);
  let assemblyFormat = "attr-dict $value";
}

def Rank_IndexOp : Rank_Op<"index", [Pure]> {
  let summary = "the index along one dimension of the space";
  let arguments = (ins I64Attr:$dim);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$dim attr-dict `:` type($result)";
}

def Rank_CombineOp : Rank_Op<"combine", [Pure, SameOperandsAndResultType, ParentOneOf<["KernelOp", "ClusterOp"]>]> {
  let summary = "the sum, maximum, minimum or product of an element over the reduced dimensions";
  let description = [{
    Accumulates in the element's own type. A maximum or minimum is NaN where an element is; of no elements a sum is 0, a
    product 1, a maximum the least number and a minimum the greatest.
    ```mlir
    %1 = rank.combine sum %0 : f32
    ```
  }];
  let arguments = (ins Rank_CombineKindAttr:$kind, AnyType:$value);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$kind $value attr-dict `:` type($value)";
}

//===----------------------------------------------------------------------===//
// On the way from tensors (between the cluster pass and buffers)
//===----------------------------------------------------------------------===//

def Rank_ClusterOp : Rank_Op<"cluster", [Pure, SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "elementwise ops over one shape and reductions of it, fused; still over tensors";
  let description = [{
    The body is that of a `rank.kernel` over `space`, of which the dimensions `reduced` are combined. Operand i's
    dimension j is dimension `dims[i][j]` of the space. Becomes a `rank.launch` of a kernel when buffers appear.

    1. `cluster.reduced`: as `kernel.reduced`.
    2. `cluster.results`: a result has the shape of the space, or, if it comes from a combination, the space's other
       dimensions.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, DenseI64ArrayAttr:$space,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$reduced,
                       TypedArrayAttrBase<DenseI64ArrayAttr, "dims">:$dims);
  let results = (outs Variadic<AnyRankedTensor>:$outs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{($inputs^)? `space` $space (`reduced` $reduced^)? `dims` $dims attr-dict-with-keyword `:`
                         functional-type($inputs, results) $body}];
  let hasVerifier = 1;
}

def Rank_LinearOp : Rank_Op<"linear", [Pure]> {
  let summary = "an einsum with a bias along its last letters; still over tensors";
  let description = [{
    Becomes a `rank.gemm` with a bias when buffers appear. `bias` has the shape of the result's last dimensions.
  }];
  let arguments = (ins StrAttr:$spec, AnyRankedTensor:$lhs, AnyRankedTensor:$rhs, AnyRankedTensor:$bias);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$spec $lhs `,` $rhs `bias` $bias attr-dict `:` functional-type(operands, results)";
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

def Rank_FuncOp : Rank_Op<"func", [Symbol, HasParent<"ProgramOp">, NoTerminator, SingleBlock, IsolatedFromAbove]> {
  let summary = "@forward, @backward, @reduce, @apply (see ProgramOp::getFunctionNames), @prepare, or what equal layers share";
  let description = [{
    A shared function's block arguments are the addresses and rows in which the layers differ; `argument_names` tells
    what each is in a layer, `argument_arenas` where it lies ("activations per_slot"; "" for a row). `first_layer` is the
    layer whose names stand in its body ("h.0"), where the layers are told apart by a number.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<StrArrayAttr>:$argument_names,
                       OptionalAttr<StrArrayAttr>:$argument_arenas, OptionalAttr<StrAttr>:$first_layer);
  let regions = (region SizedRegion<1>:$body);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name), [{
    build($_builder, $_state, name, /*argument_names=*/::mlir::ArrayAttr(), /*argument_arenas=*/::mlir::ArrayAttr(),
          /*first_layer=*/::mlir::StringAttr());
  }]>];
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getBlock() { return getBody().front(); }
    /// Whether other functions call it, instead of the runtime.
    bool isShared() { return getBlock().getNumArguments() != 0; }
    /// The kind of instruction that runs it, in whichever entry; none of @prepare, and of what other functions call.
    ::std::optional<::hyc::dist::InstructionKind> getKind();
  }];
}

def Rank_InvokeOp : Rank_Op<"invoke"> {
  let summary = "calls a shared function with one layer's addresses";
  let description = "1. `invoke.arguments`: the types are those of the function's block arguments.";
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<AnyType>:$arguments);
  let assemblyFormat = "$callee `(` $arguments `)` attr-dict (`:` type($arguments)^)?";
  let hasVerifier = 1;
}

def Rank_RepeatOp : Rank_Op<"repeat", [NoTerminator, SingleBlock, HasParent<"FuncOp">]> {
  let summary = "makes the same calls again and again: what becomes of a hyc.scan";
  let description = [{
    Turn t goes from 0 to `times` - 1. What differs from turn to turn are addresses, each by the same distance.

    1. `repeat.times`: at least 1.
    2. `repeat.body`: addresses, kernels and checks; no exchange, no move, and nothing that calls or repeats others.
    ```mlir
    rank.repeat 511 {
      %0 = rank.at @activations 512 step 512 : !rank.buffer<128xf32>
      %1 = rank.at @activations 0 step 512 : !rank.buffer<128xf32>
      rank.launch @tanh %0 = %1 {id = "rnn.tanh"} : !rank.buffer<128xf32>, !rank.buffer<128xf32>
    }
    ```
  }];
  let arguments = (ins I64Attr:$times);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$times attr-dict-with-keyword $body";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getBlock() { return getBody().front(); }
  }];
}

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

def Rank_AllocOp : Rank_Op<"alloc"> {
  let summary = "a temporary that has no address yet; placement turns it into rank.at";
  let arguments = (ins FlatSymbolRefAttr:$arena);
  let results = (outs Rank_BufferType:$result);
  let assemblyFormat = "$arena attr-dict `:` type($result)";
}

def Rank_AddressOp : Rank_Op<"address", [Pure]> {
  let summary = "the address of a state, input, scalar or record; placement turns it into rank.at";
  let arguments = (ins FlatSymbolRefAttr:$symbol);
  let results = (outs Rank_BufferType:$result);
  let assemblyFormat = "$symbol attr-dict `:` type($result)";
}

def Rank_AtOp : Rank_Op<"at", [Pure]> {
  let summary = "an address: bytes from the beginning of an arena";
  let description = [{
    With `per_slot` the address moves by the arena's `record_bytes` with the slot of the micro-batch; inside a
    rank.repeat, by `step` bytes with the turn, or with the turn modulo `period`.

    1. `at.bounds`: 0 ≤ offset, and the buffer ends inside the arena, in whichever turn.
    2. `at.alignment`: the offset is a multiple of the element's size, and so is the step.
    3. `at.turn`: only inside a rank.repeat is there a step, and a period of at least 2 only with one.
    ```mlir
    %0 = rank.at @activations 4096 : !rank.buffer<4x128xf32>
    %1 = rank.at @activations 8192 step 512 : !rank.buffer<128xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$arena, I64Attr:$offset, UnitAttr:$per_slot,
                       DefaultValuedAttr<I64Attr, "0">:$step, DefaultValuedAttr<I64Attr, "0">:$period);
  let results = (outs Rank_BufferType:$result);
  let assemblyFormat = [{$arena $offset (`per_slot` $per_slot^)? (`step` $step^)? (`period` $period^)? attr-dict `:`
                         type($result)}];
  let hasVerifier = 1;
}

def Rank_ViewOp : Rank_Op<"view", [Pure]> {
  let summary = "some of a buffer's elements, under another shape and strides";
  let description = "1. `view.bounds`: the last element addressed lies inside the source. `offset` counts elements.";
  let arguments = (ins Rank_BufferType:$source, I64Attr:$offset);
  let results = (outs Rank_BufferType:$result);
  let assemblyFormat = "$source `+` $offset attr-dict `:` type($source) `to` type($result)";
  let hasVerifier = 1;
}

def Rank_TurnOp : Rank_Op<"turn", [Pure, HasParent<"RepeatOp">]> {
  let summary = "the part of a buffer that a turn of a rank.repeat works on; placement turns it into rank.at";
  let description = [{
    In turn t it begins `offset` + t·`step` elements behind the source, with a `period` of p at `offset` + (t mod p)·`step`:
    of two parts one is what a turn reads and the other what it writes, for the next turn to read.

    1. `turn.bounds`: it lies inside the source, in whichever turn.
    2. `turn.period`: only with a step is there a period, of at least 2.
  }];
  let arguments = (ins Rank_BufferType:$source, I64Attr:$offset, I64Attr:$step,
                       DefaultValuedAttr<I64Attr, "0">:$period);
  let results = (outs Rank_BufferType:$result);
  let assemblyFormat = [{$source `+` $offset `step` $step (`period` $period^)? attr-dict `:` type($source) `to`
                         type($result)}];
  let hasVerifier = 1;
}

def Rank_RowOp : Rank_Op<"row", [Pure]> {
  let summary = "the row of a collective or site";
  let arguments = (ins FlatSymbolRefAttr:$entry);
  let results = (outs Rank_RowType:$result);
  let assemblyFormat = "$entry attr-dict";
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

def Rank_GemmOp : Rank_Op<"gemm"> {
  let summary = "kernels::gemm: c = op(a)·op(b) + bias, maybe added to c";
  let description = [{
    Leading dimensions and batch strides count elements, as in kernels/gemm/op.h.
    ```mlir
    rank.gemm %c = %a, %b bias %d {m = 4, n = 128, k = 64, lda = 64, ldb = 128, ldc = 128, …, id = "fc1"}
    ```
  }];
  let arguments = (ins Rank_BufferType:$c, Rank_BufferType:$a, Rank_BufferType:$b, Optional<Rank_BufferType>:$bias,
                       I64Attr:$m, I64Attr:$n, I64Attr:$k, I64Attr:$lda, I64Attr:$ldb, I64Attr:$ldc,
                       UnitAttr:$trans_a, UnitAttr:$trans_b, DefaultValuedAttr<I64Attr, "1">:$batch,
                       DefaultValuedAttr<I64Attr, "0">:$stride_a, DefaultValuedAttr<I64Attr, "0">:$stride_b,
                       DefaultValuedAttr<I64Attr, "0">:$stride_c,
                       DefaultValuedAttr<Rank_WriteModeAttr, "::hyc::rank::WriteMode::overwrite">:$mode);
  let assemblyFormat = "$c `=` $a `,` $b (`bias` $bias^)? attr-dict `:` type(operands)";
  let hasVerifier = 1;
}

def Rank_LaunchOp : Rank_Op<"launch", [AttrSizedOperandSegments]> {
  let summary = "runs a rank.kernel";
  let description = [{
    A result may be an input's buffer where both have the same strides. `mode` is that of the results that come from
    combinations; the others are overwritten.

    1. `launch.operands`: as many as the kernel has, with its element types.
    2. `launch.mode`: only a kernel that combines adds to old contents.
    ```mlir
    rank.launch @gelu_grad_sum %dh, %dbias = %dy, %x {mode = #rank<mode first>, id = "act.grad"} : …
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Rank_BufferType>:$outs, Variadic<Rank_BufferType>:$ins,
                       DefaultValuedAttr<Rank_WriteModeAttr, "::hyc::rank::WriteMode::overwrite">:$mode);
  let assemblyFormat = "$kernel $outs `=` ($ins^)? attr-dict `:` type(operands)";
  let hasVerifier = 1;
}

def Rank_CallOp : Rank_Op<"call", [AttrSizedOperandSegments]> {
  let summary = "calls a library kernel by name; sizes follow from the operand types";
  let description = [{
    What else a kernel is told are further attributes, by the names that its description gives. With `index_bound` the
    indices in `index_operand`, an operand by its name in the description, are checked when they are used, since the
    model computes them: each has to be below the bound.

    1. `call.kernel`: `kernel` is one of those that kernels/*/description.h describe, with its number of operands.
    ```mlir
    rank.call "layer_norm" %y, %mean, %rstd = %x, %scale, %bias {epsilon = 1.0e-5, id = "h.0.ln_1"}
    ```
  }];
  let arguments = (ins StrAttr:$kernel, Variadic<Rank_BufferType>:$outs, Variadic<Rank_BufferType>:$ins,
                       DefaultValuedAttr<Rank_WriteModeAttr, "::hyc::rank::WriteMode::overwrite">:$mode,
                       OptionalAttr<I64Attr>:$index_bound, OptionalAttr<StrAttr>:$index_operand);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$kernel, "::mlir::ValueRange":$outs, "::mlir::ValueRange":$ins,
                                 CArg<"::hyc::rank::WriteMode", "::hyc::rank::WriteMode::overwrite">:$mode), [{
    build($_builder, $_state, kernel, outs, ins, mode, /*index_bound=*/::mlir::IntegerAttr(),
          /*index_operand=*/::mlir::StringAttr());
  }]>];
  let assemblyFormat = "$kernel ($outs^)? `=` ($ins^)? attr-dict `:` type(operands)";
  let hasVerifier = 1;
}

def Rank_StartOp : Rank_Op<"start", [AttrSizedOperandSegments]> {
  let summary = "starts a collective; destinations are left out where it works in place";
  let description = [{
    Of what has a part for each member, on either side, `count` is that of one part; of all else of the whole
    (ExchangeKinds.h). `distance` is that of a shift.

    With `flat` the exchange carries a bucket of tensors, and `count` is the sum of their whole elements. A
    reduce_scatter has the wholes as sources and leaves the sum in each member's own shard of them; an all_gather has
    the shards as sources (own slices of the wholes, or states of their own) and the wholes as destinations.

    1. `start.kind`: `kind` is one of dist's kinds of exchange, and `combine` sum or max.
    2. `start.shared`: sources lie in a shared arena.
    3. `start.operands`: only a flat exchange has several sources, and it is a reduce_scatter or an all_gather; an
       all_gather has one destination a source, a flat reduce_scatter has none. What is moved, not combined, has a
       destination apart from its source.
    4. `start.distance`: a shift has one of at least 1, and nothing else has one.
  }];
  let arguments = (ins Rank_RowType:$row, Variadic<Rank_BufferType>:$sources, Variadic<Rank_BufferType>:$destinations,
                       StrAttr:$kind, StrAttr:$combine, I64Attr:$count, OptionalAttr<Dist_AxisListAttr>:$flat,
                       OptionalAttr<I64Attr>:$distance);
  let results = (outs Rank_TicketType:$ticket);
  let assemblyFormat = [{$kind $combine $row `,` $sources (`into` $destinations^)? (`flat` $flat^)? `count` $count
                         (`distance` $distance^)? attr-dict `:` type($sources) (`into` type($destinations)^)?}];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::hyc::dist::ExchangeKind getExchange();
    ::mlir::Value getSource() { return getSources().front(); }
    /// Null where the exchange works in place.
    ::mlir::Value getDestination() { return getDestinations().empty() ? ::mlir::Value() : getDestinations().front(); }
  }];
}

def Rank_WaitOp : Rank_Op<"wait"> {
  let summary = "returns when the collective is complete";
  let arguments = (ins Rank_TicketType:$ticket);
  let assemblyFormat = "$ticket attr-dict";
}

def Rank_CheckOp : Rank_Op<"check", [AttrSizedOperandSegments]> {
  let summary = "ends the run if the call before it made a NaN or an infinity";
  let description = [{
    `outs` are what that call wrote, `ins` what it read. A NaN in `outs` ends the run; so does an infinity, unless the call
    may make one (`infinite`: a constant of it is infinite, as in a mask) or has one in `ins`. Changes no value.
    ```mlir
    rank.check %site, %y = %x {infinite} : !rank.buffer<4x64xf32> = !rank.buffer<4x64xf32>
    ```
  }];
  let arguments = (ins Rank_RowType:$site, Variadic<Rank_BufferType>:$outs, Variadic<Rank_BufferType>:$ins,
                       UnitAttr:$infinite);
  let assemblyFormat = "$site `,` $outs `=` ($ins^)? attr-dict `:` type($outs) (`=` type($ins)^)?";
}

#endif // RANK_OPS_TD
