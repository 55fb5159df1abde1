// Going through a state's elements a window at a time.
#include "io/state_window.h"

#include <cstring>
#include <new>

namespace hycrt {
namespace {

constexpr int64_t kWindowBytes = 4 << 20;

struct AlignedDelete {
  void operator()(std::byte* memory) const { operator delete[](memory, std::align_val_t{kBlockBytes}); }
};

}  // namespace

Status forEachWindow(const StateDesc& state, const ArenaBases& arenas, WindowUse use,
                     const std::function<Status(const StateWindow&)>& visit) {
  const int64_t size = sizeOf(state.dtype), bytes = heldElements(state) * size;
  if (std::byte* arena = arenas.memory[state.buffer.arena]) {
    return visit({arena + state.buffer.offset, 0, heldElements(state)});
  }
  const std::unique_ptr<std::byte[], AlignedDelete> buffer(new (std::align_val_t{kBlockBytes})
                                                               std::byte[static_cast<size_t>(kWindowBytes)]);
  for (int64_t begin = 0; begin < bytes; begin += kWindowBytes) {
    const int64_t count = std::min(kWindowBytes, bytes - begin);
    const int64_t blocks = (count + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
    const int64_t offset = state.buffer.offset + begin;
    if (use == WindowUse::kRead) {
      HYCRT_RETURN_IF_ERROR(arenas.file->wait(arenas.file->startRead(buffer.get(), blocks, offset)));
    } else {
      std::memset(buffer.get(), 0, static_cast<size_t>(blocks));
    }
    HYCRT_RETURN_IF_ERROR(visit({buffer.get(), begin / size, count / size}));
    if (use == WindowUse::kRead) continue;
    HYCRT_RETURN_IF_ERROR(arenas.file->wait(arenas.file->startWrite(buffer.get(), blocks, offset)));
  }
  return {};
}

}  // namespace hycrt
