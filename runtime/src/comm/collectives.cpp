// The calls of generated code: arguments checked against the tables, errors kept in the context.
#include "hycrt/collectives.h"

#include <string>

#include "comm/communicator.h"

namespace hycrt {
namespace {

bool isReducible(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kI32 || dtype == DType::kI64;
}

// Whether [buffer, buffer + bytes) lies in an arena.
bool fits(const Program& program, BufferRef buffer, int64_t bytes) {
  if (buffer.arena < 0 || buffer.arena >= program.arenas.size || buffer.offset < 0) return false;
  const int64_t size = program.arenas[buffer.arena].bytes;
  return bytes >= 0 && bytes <= size && buffer.offset <= size - bytes;
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
  if (call.kind != CollectiveKind::kAllGather && !isReducible(call.dtype)) {
    return wrong(std::string("cannot reduce ") + nameOf(call.dtype) + ", only f32, f64, i32 and i64");
  }
  const int members = ctx.communicator().memberCount(row.group);
  if (members == 0)
    return wrong(std::string("this rank's stage is not in group '") + program.groups[row.group].name + "'");
  const int64_t size = sizeOf(call.dtype);
  if (call.count < 0 || call.count > INT64_MAX / size / members) return wrong("has an impossible count");
  const int64_t part = call.count * size;
  const bool gather = call.kind == CollectiveKind::kAllGather;
  const int64_t sourceBytes = call.kind == CollectiveKind::kReduceScatter ? part * members : part;
  if (!fits(program, call.source, sourceBytes) || !isShared(program, call.source)) {
    return wrong("its source is not inside a shared arena");
  }
  if (!fits(program, call.destination, gather ? part * members : part))
    return wrong("its destination leaves its arena");
  return {};
}

Ticket startChecked(Context& ctx, const CollectiveCall& call) {
  if (!ctx.status().ok()) return {};
  if (Status status = check(ctx, call); !status.ok()) {
    ctx.fail(std::move(status));
    return {};
  }
  Result<Ticket> ticket = ctx.communicator().start(call);
  if (ticket.ok()) return *ticket;
  ctx.fail(ticket.status());
  return {};
}

}  // namespace

Ticket allReduceStart(Context& ctx, int collective, BufferRef buffer, int64_t count, DType dtype, ReduceOp op) {
  return startChecked(ctx, {collective, CollectiveKind::kAllReduce, buffer, buffer, count, dtype, op});
}

Ticket reduceScatterStart(Context& ctx, int collective, BufferRef source, BufferRef destination, int64_t countPerMember,
                          DType dtype, ReduceOp op) {
  return startChecked(ctx,
                      {collective, CollectiveKind::kReduceScatter, source, destination, countPerMember, dtype, op});
}

Ticket allGatherStart(Context& ctx, int collective, BufferRef source, BufferRef destination, int64_t countPerMember,
                      DType dtype) {
  return startChecked(
      ctx, {collective, CollectiveKind::kAllGather, source, destination, countPerMember, dtype, ReduceOp::kSum});
}

void wait(Context& ctx, Ticket ticket) {
  if (!ctx.status().ok()) return;
  Status status = ctx.communicator().wait(ticket);
  if (!status.ok()) ctx.fail(std::move(status));
}

}  // namespace hycrt
