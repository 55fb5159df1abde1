// Moves between arenas (phase 5). Generated apart from RankOps.td, so that only who moves tensors reads it
// (dialects/Rank/Moves.h).

#ifndef RANK_MOVE_OPS_TD
#define RANK_MOVE_OPS_TD

include "dialects/Rank/RankDialect.td"

def Rank_MoveOp : Op<Rank_Dialect, "move"> {
  let summary = "starts to copy a tensor between arenas: hycrt::fetchStart or evictStart";
  let description = [{
    `kind` is fetch (towards where it is used) or evict (back). Both buffers belong to the move until the `rank.wait` of
    its ticket. An arena that is a file (`rank.file`) is reached by moves alone, whole blocks at a time: buffers that
    such a move touches have room up to the next multiple of 4,096 bytes.

    One side may be a flat shard of a whole, in memory: its elements that exist are copied, and a fetched copy is filled
    up with zeros.

    1. `move.kind`: `kind` is fetch or evict.
    2. `move.types`: both buffers are dense and of one shape and element type; at most one, the source of a fetch or the
       destination of an evict, is a shard.
    ```mlir
    %t = rank.move "fetch" %staging = %m : !rank.buffer<64x128xf32>, !rank.buffer<64x128xf32>
    rank.wait %t
    ```
  }];
  let arguments = (ins StrAttr:$kind, Rank_BufferType:$destination, Rank_BufferType:$source);
  let results = (outs Rank_TicketType:$ticket);
  let assemblyFormat = "$kind $destination `=` $source attr-dict `:` type($destination) `,` type($source)";
  let hasVerifier = 1;
}

#endif // RANK_MOVE_OPS_TD
