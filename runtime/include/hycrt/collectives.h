// Collectives as generated code calls them: start, then wait with the ticket.
//
//   hycrt::Ticket t = hycrt::allReduceStart(ctx, kFc2Partial, {kCommunication, 0}, 1024, hycrt::DType::kF32);
//   ...
//   hycrt::wait(ctx, t);
//
// `collective` is an index into Program::collectives, whose row gives the group and the name that errors use. Between
// start and wait the buffers belong to the runtime. All members of a group issue its collectives in the same order
// with equal id, kind, count, type and op; anything else is an error that names both sides, not a hang. Work is done
// inside wait, so start returns at once; only where kMaxPending of a group are started and not waited for does the next
// start first finish the oldest.
//
// Bits: elements are combined in the order of the members' world ranks, ((x0 + x1) + x2) + ..., whatever the arrival
// and however the vector is sliced. Terms of bf16 and f16 are combined in f32 and rounded once.
#ifndef HYCRT_COLLECTIVES_H_
#define HYCRT_COLLECTIVES_H_

#include <cstdint>

#include "hycrt/context.h"
#include "hycrt/types.h"

namespace hycrt {

inline constexpr int kMaxPending = 16;

// What wait needs; a default ticket is complete.
struct Ticket {
  int channel = -1;
  uint64_t sequence = 0;
};

// One tensor of a flat exchange: `elements` of them, dense, whose flat shards (mesh.h) have `shardElements` each. The
// member at coordinate c along CollectiveDesc::flat has shard c.
struct FlatPart {
  BufferRef whole;
  int64_t elements;
  int64_t shardElements;
  BufferRef shard = {-1, 0};  // of an all_gather: where this member's shard lies; arena -1: in its own slice of `whole`
};

// Any collective, as the functions below describe it. source is shared; destination may be anywhere in this rank's
// arenas.
struct CollectiveCall {
  int collective;  // row of Program::collectives
  CollectiveKind kind;
  BufferRef source;
  BufferRef destination;
  int64_t count;  // of the whole vector (all_reduce, shift), or per member
  DType dtype;
  ReduceOp op = ReduceOp::kSum;
  int64_t distance = 0;             // of a shift: to the member that gets this one's source
  const FlatPart* parts = nullptr;  // of a flat exchange, in place of source and destination
  int partCount = 0;
};

// Checks the arguments against the program's tables. What is wrong is kept in the context.
Ticket startCollective(Context& ctx, const CollectiveCall& call);
Ticket startFlatCollective(Context& ctx, int collective, CollectiveKind kind, const FlatPart* parts, int partCount,
                           DType dtype);

// In place; buffer is in a shared arena. f32, f64, i32, i64, bf16, f16.
inline Ticket allReduceStart(Context& ctx, int collective, BufferRef buffer, int64_t count, DType dtype,
                             ReduceOp op = ReduceOp::kSum) {
  return startCollective(ctx, {collective, CollectiveKind::kAllReduce, buffer, buffer, count, dtype, op});
}

// source: shared, members * countPerMember elements. Member i gets total slice i in destination (any arena of its own;
// it may be that slice of source itself).
inline Ticket reduceScatterStart(Context& ctx, int collective, BufferRef source, BufferRef destination,
                                 int64_t countPerMember, DType dtype, ReduceOp op = ReduceOp::kSum) {
  return startCollective(ctx,
                         {collective, CollectiveKind::kReduceScatter, source, destination, countPerMember, dtype, op});
}

// source: shared, countPerMember elements. destination: any arena of its own, members * countPerMember elements in
// member order; source may be this member's part of it.
inline Ticket allGatherStart(Context& ctx, int collective, BufferRef source, BufferRef destination,
                             int64_t countPerMember, DType dtype) {
  return startCollective(ctx, {collective, CollectiveKind::kAllGather, source, destination, countPerMember, dtype});
}

// source: shared, members * countPerMember elements; destination: any arena of its own, as many, not overlapping the
// source. Slice i of the destination is what member i has in its slice m of its source, m being this member's index.
inline Ticket allToAllStart(Context& ctx, int collective, BufferRef source, BufferRef destination,
                            int64_t countPerMember, DType dtype) {
  return startCollective(ctx, {collective, CollectiveKind::kAllToAll, source, destination, countPerMember, dtype});
}

// source: shared, count elements; destination: any arena of its own, as many, not overlapping the source. Gets the
// source of the member `distance` places before this one around the ring of members: (index - distance) mod members.
// distance is in [1, members), and equal on all of them.
inline Ticket shiftStart(Context& ctx, int collective, BufferRef source, BufferRef destination, int64_t count,
                         int64_t distance, DType dtype) {
  return startCollective(
      ctx, {collective, CollectiveKind::kShift, source, destination, count, dtype, ReduceOp::kSum, distance});
}

// Sums the wholes of all members, each in a shared arena; every member gets the sum in its own slice of its own whole.
// What others' slices of it hold afterwards is no value. Members of equal coordinate get equal shards.
// `parts` outlives the wait. Several parts only within one stage, where all members have them at equal offsets.
inline Ticket flatReduceScatterStart(Context& ctx, int collective, const FlatPart* parts, int partCount, DType dtype) {
  return startFlatCollective(ctx, collective, CollectiveKind::kReduceScatter, parts, partCount, dtype);
}

// Joins the members' shards, each in a shared arena, in every member's whole. Within one stage.
inline Ticket flatAllGatherStart(Context& ctx, int collective, const FlatPart* parts, int partCount, DType dtype) {
  return startFlatCollective(ctx, collective, CollectiveKind::kAllGather, parts, partCount, dtype);
}

// Returns when this member's result is there and no peer needs its buffers any more. Waiting also progresses whatever
// was started before on the same group.
void wait(Context& ctx, Ticket ticket);

}  // namespace hycrt

#endif  // HYCRT_COLLECTIVES_H_
