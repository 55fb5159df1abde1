// The calls of generated code: arguments checked against the tables, errors kept in the context.
#include "hycrt/collectives.h"

#include <string>

#include "comm/exchanger.h"

namespace hycrt {
namespace {

bool isReducible(DType dtype) { return dtype != DType::kU8; }

// Whether [buffer, buffer + bytes) lies in an arena.
bool fits(const Program& program, BufferRef buffer, int64_t bytes) {
  if (buffer.arena < 0 || buffer.arena >= program.arenas.size || buffer.offset < 0) return false;
  const int64_t size = program.arenas[buffer.arena].bytes;
  return bytes >= 0 && bytes <= size && buffer.offset <= size - bytes;
}

bool overlap(BufferRef a, int64_t aBytes, BufferRef b, int64_t bBytes) {
  return a.arena == b.arena && a.offset < b.offset + bBytes && b.offset < a.offset + aBytes;
}

bool isShared(const Program& program, BufferRef buffer) {
  return program.arenas[buffer.arena].sharing == Sharing::kShared;
}

Status check(const Context& ctx, const CollectiveCall& call) {
  const Program& program = ctx.program();
  if (call.collective < 0 || call.collective >= program.collectives.size) {
    return internalError("a collective is called that the program's table does not have");
  }
  const CollectiveDesc& row = program.collectives[call.collective];
  const auto wrong = [&](const std::string& what) {
    return internalError(std::string("collective ") + row.name + ": " + what);
  };
  if (row.kind != call.kind) return wrong("is called as another kind than its table says");
  if (factsOf(call.kind).reduces && !isReducible(call.dtype)) {
    return wrong(std::string("cannot reduce ") + nameOf(call.dtype) + ", only numbers");
  }
  const int members = ctx.exchanger().memberCount(row.group);
  if (members == 0)
    return wrong(std::string("this rank's stage is not in group '") + program.groups[row.group].name + "'");
  const int64_t size = sizeOf(call.dtype);
  if (call.count < 0 || call.count > INT64_MAX / size / members) return wrong("has an impossible count");
  const int64_t sourceBytes = sourceCount(call, members) * size, resultBytes = resultCount(call, members) * size;
  if (!fits(program, call.source, sourceBytes) || !isShared(program, call.source)) {
    return wrong("its source is not inside a shared arena");
  }
  if (!fits(program, call.destination, resultBytes)) return wrong("its destination leaves its arena");
  if (factsOf(call.kind).isOutOfPlace && overlap(call.source, sourceBytes, call.destination, resultBytes)) {
    return wrong("its destination overlaps its source");
  }
  if (factsOf(call.kind).hasDistance && (call.distance < 1 || call.distance >= members)) {
    return wrong("shifts by " + std::to_string(call.distance) + ", expected at least 1 and less than its " +
                 std::to_string(members) + " members");
  }
  return {};
}

// The same for the tensors of a flat exchange.
Status checkFlat(const Context& ctx, const CollectiveCall& call) {
  const Program& program = ctx.program();
  if (call.collective < 0 || call.collective >= program.collectives.size) {
    return internalError("a collective is called that the program's table does not have");
  }
  const CollectiveDesc& row = program.collectives[call.collective];
  const auto wrong = [&](const std::string& what) {
    return internalError(std::string("flat collective ") + row.name + ": " + what);
  };
  if (row.kind != call.kind) return wrong("is called as another kind than its table says");
  if (row.flat.size == 0) return wrong("its table names no axes of shards");
  if (factsOf(call.kind).reduces && !isReducible(call.dtype)) {
    return wrong(std::string("cannot reduce ") + nameOf(call.dtype) + ", only f32, f64, i32 and i64");
  }
  const GroupDesc& group = program.groups[row.group];
  const bool gathers = !factsOf(call.kind).reduces;
  if (ctx.exchanger().memberCount(row.group) == 0) {
    return wrong(std::string("this rank's stage is not in group '") + group.name + "'");
  }
  if (call.partCount < 1) return wrong("carries no tensor");
  if ((call.partCount > 1 || gathers) && (group.stages.size > 1 || group.axes.hasStages())) {
    return wrong("spans stages, whose tensors lie at different offsets");
  }
  const int64_t parts = sizeOf(ctx.mesh(), row.flat);
  for (int i = 0; i < call.partCount; ++i) {
    const FlatPart& part = call.parts[i];
    const int64_t size = sizeOf(call.dtype);
    if (part.elements < 0 || part.elements > INT64_MAX / size / 2) return wrong("has an impossible count");
    if (part.shardElements != flatShardSize(part.elements, parts)) return wrong("has shards of the wrong size");
    if (!fits(program, part.whole, part.elements * size)) return wrong("a tensor leaves its arena");
    const bool inPlace = part.shard.arena < 0;
    if (!inPlace && (!gathers || !fits(program, part.shard, part.shardElements * size))) {
      return wrong("a shard leaves its arena");
    }
    if (!isShared(program, inPlace ? part.whole : part.shard)) return wrong("its source is not inside a shared arena");
  }
  return {};
}

}  // namespace

Ticket startCollective(Context& ctx, const CollectiveCall& call) {
  if (!ctx.status().ok()) return {};
  if (Status status = call.parts ? checkFlat(ctx, call) : check(ctx, call); !status.ok()) {
    ctx.fail(std::move(status));
    return {};
  }
  Result<Ticket> ticket = ctx.exchanger().start(call);
  if (ticket.ok()) return *ticket;
  ctx.fail(ticket.status());
  return {};
}

Ticket startFlatCollective(Context& ctx, int collective, CollectiveKind kind, const FlatPart* parts, int partCount,
                           DType dtype) {
  CollectiveCall call{collective, kind, {}, {}, 0, dtype};
  call.parts = parts;
  call.partCount = partCount;
  if (partCount > 0) call.source = parts[0].shard.arena < 0 ? parts[0].whole : parts[0].shard;
  for (int i = 0; i < partCount; ++i) call.count += parts[i].elements;
  return startCollective(ctx, call);
}

void wait(Context& ctx, Ticket ticket) {
  if (!ctx.status().ok()) return;
  if (Status status = ctx.exchanger().wait(ticket); !status.ok()) ctx.fail(std::move(status));
}

}  // namespace hycrt
