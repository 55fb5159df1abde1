// Moves between places (phase 4): of states, what realises dist.placement, and of values that are offloaded. Generated apart from DistOps.td, so that only
// who moves states reads it (dialects/Dist/Placement.h).

#ifndef DIST_MOVE_OPS_TD
#define DIST_MOVE_OPS_TD

include "dialects/Dist/DistDialect.td"
include "mlir/IR/SymbolInterfaces.td"

class Dist_MoveOp<string mnemonic> : Op<Dist_Dialect, mnemonic, [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let hasVerifier = 1;
}

def Dist_FetchStartOp : Dist_MoveOp<"fetch_start"> {
  let summary = "starts to bring a copy of a state to where it is about to be used";
  let description = [{
    From the `dist.wait_move` of its token on, ops of the function that name the state work on the copy, until an
    evict_start or another fetch_start of the state, or the function's end. Between start and wait nothing may change
    the state. `cause` tells which op needs it, as of every exchange.

    With `flat` only this rank's own flat shard of a state that is kept whole is copied, filled up with zeros to the size
    that all shards have: what an update with `dist.flat` works on.

    1. `move.place`: `to` is "device" or "host": nothing computes on a disk.
    2. `move.state`: the symbol is a param or state of the token's type; with `flat` the token is of its shard.
    ```mlir
    %t = dist.fetch_start @w.m to "host" {cause = "w.update"} : !dist.pending<tensor<64x128xf32>>
    dist.wait_move %t : !dist.pending<tensor<64x128xf32>>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$state, StrAttr:$to, OptionalAttr<Dist_AxisListAttr>:$flat,
                       OptionalAttr<StrAttr>:$cause);
  let results = (outs Dist_PendingType:$pending);
  let assemblyFormat = "$state `to` $to (`flat` $flat^)? attr-dict `:` type($pending)";
}

def Dist_EvictStartOp : Dist_MoveOp<"evict_start"> {
  let summary = "starts to write a state's copy back to where the state is placed; the copy is gone with that";
  let description = [{
    Until the `dist.wait_move` of its token nothing may use the state. With `flat` the copy is of this rank's own flat
    shard, and only that part of the state is written.

    1. `move.place`, 2. `move.state`: as of fetch_start.
    ```mlir
    %t = dist.evict_start @w.m from "host" {cause = "w.update"} : !dist.pending<tensor<64x128xf32>>
    dist.wait_move %t : !dist.pending<tensor<64x128xf32>>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$state, StrAttr:$from, OptionalAttr<Dist_AxisListAttr>:$flat,
                       OptionalAttr<StrAttr>:$cause);
  let results = (outs Dist_PendingType:$pending);
  let assemblyFormat = "$state `from` $from (`flat` $flat^)? attr-dict `:` type($pending)";
}

def Dist_CopyStartOp : Op<Dist_Dialect, "copy_start"> {
  let summary = "starts to copy a value into another memory";
  let description = [{
    The `dist.wait` of its token gives the copy, a value of its own; the operand stays where it is until nothing reads it.
    Of a value in the host's memory nothing is computed: it is returned, or copied back.

    1. `move.place`: `to` is "device" or "host".
    ```mlir
    %p = dist.copy_start %x to "host" : tensor<4x128xf32> -> !dist.pending<tensor<4x128xf32>>
    %h = dist.wait %p : !dist.pending<tensor<4x128xf32>> -> tensor<4x128xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$operand, StrAttr:$to);
  let results = (outs Dist_PendingType:$pending);
  let assemblyFormat = "$operand `to` $to attr-dict `:` type($operand) `->` type($pending)";
  let hasVerifier = 1;
}

def Dist_WaitMoveOp : Op<Dist_Dialect, "wait_move"> {
  let summary = "returns when a started move is complete";
  let description = "1. `move.token`: the token is of a fetch_start or evict_start.";
  let arguments = (ins Dist_PendingType:$pending);
  let assemblyFormat = "$pending attr-dict `:` type($pending)";
  let hasVerifier = 1;
}

#endif // DIST_MOVE_OPS_TD
