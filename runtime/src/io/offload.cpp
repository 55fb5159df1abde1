// The moves of hycrt/offload.h: to and from the rank's file, and between arenas of memory.
#include "hycrt/offload.h"

#include <algorithm>
#include <cstring>

#include "hycrt/accelerator.h"
#include "io/block_file.h"
#include "kernels/parallel/team.h"

namespace hycrt {
namespace {

constexpr int64_t kChunkBytes = 1 << 18;

bool isFile(const Context& ctx, BufferRef buffer) {
  return ctx.program().arenas[buffer.arena].sharing == Sharing::kFile;
}

void copyBytes(std::byte* to, const std::byte* from, int64_t bytes) {
  hyc::kernels::runTeam(bytes > kChunkBytes, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t begin = 0; begin < bytes; begin += kChunkBytes) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(std::min(kChunkBytes, bytes - begin)));
    }
  });
}

MoveTicket moveStart(Context& ctx, BufferRef source, BufferRef destination, int64_t bytes) {
  if (!ctx.status().ok()) return {};
  if (isFile(ctx, source)) {
    return {ctx.file()->startRead(ctx.ptr<std::byte>(destination), bytes, source.offset).sequence};
  }
  if (isFile(ctx, destination)) {
    return {ctx.file()->startWrite(ctx.ptr<std::byte>(source), bytes, destination.offset).sequence};
  }
  copyBytes(ctx.ptr<std::byte>(destination), ctx.ptr<std::byte>(source), bytes);
  return {};
}

// "; adam.m of h.0.attn.c_attn.weight lies there".
std::string whatLiesAt(const Context& ctx, int64_t offset) {
  for (const StateDesc& state : ctx.program().states) {
    const int64_t bytes = heldElements(state) * sizeOf(state.dtype);
    if (isFile(ctx, state.buffer) && offset >= state.buffer.offset && offset < state.buffer.offset + bytes) {
      return std::string("; ") + state.role + " of " + state.name + " lies there";
    }
  }
  return "";
}

}  // namespace

namespace {

MoveTicket moveStartOnDevice(Context& ctx, BufferRef source, BufferRef destination, int64_t bytes, int64_t zeros) {
  if (!ctx.status().ok()) return {};
  const Result<uint64_t> move = ctx.accelerator()->startMove(source, destination, bytes, zeros);
  if (move.ok()) return {*move};
  ctx.fail(move.status());
  return {};
}

}  // namespace

MoveTicket fetchStart(Context& ctx, BufferRef source, BufferRef destination, int64_t bytes, int64_t zeros) {
  if (ctx.accelerator()) return moveStartOnDevice(ctx, source, destination, bytes, zeros);
  const MoveTicket ticket = moveStart(ctx, source, destination, bytes);
  if (zeros > 0 && ctx.status().ok())
    std::memset(ctx.ptr<std::byte>(destination) + bytes, 0, static_cast<size_t>(zeros));
  return ticket;
}

MoveTicket evictStart(Context& ctx, BufferRef source, BufferRef destination, int64_t bytes) {
  if (ctx.accelerator()) return moveStartOnDevice(ctx, source, destination, bytes, 0);
  return moveStart(ctx, source, destination, bytes);
}

void wait(Context& ctx, MoveTicket ticket) {
  Accelerator* const device = ctx.accelerator();
  if (device && (ticket.sequence == 0 || !ctx.status().ok())) return;
  if (ticket.sequence == 0 && !ctx.file()) return;
  const Status status = device ? device->waitMove(ticket.sequence) : ctx.file()->wait({ticket.sequence});
  if (status.ok() || !ctx.status().ok()) return;
  const int64_t offset = ctx.file() ? ctx.file()->failedOffset() : -1;
  ctx.fail({status.code(), status.message() + (offset >= 0 ? whatLiesAt(ctx, offset) : "")});
}

}  // namespace hycrt
