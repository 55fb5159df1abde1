// Scans for NaN and infinity, and what is told of the first.
#include "hycrt/finite.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "hycrt/accelerator.h"

namespace hycrt {
namespace {

constexpr int64_t kBlock = 4096;                     // elements that are looked at between two decisions
constexpr int64_t kWorthThreads = int64_t{1} << 17;  // elements

// Of IEEE formats: NaNs and infinities have all bits of the exponent set, and infinities none of the fraction.
template <typename Bits, Bits kExponent>
struct Format {
  static bool isFinite(Bits bits) { return (bits & kExponent) != kExponent; }
  static bool isNan(Bits bits) { return !isFinite(bits) && (bits & kFraction) != 0; }
  static constexpr Bits kFraction = (kExponent & (~kExponent + 1)) - 1;  // the bits below the exponent's lowest
};

struct Found {
  int64_t nan = -1, infinity = -1;  // row-major numbers of the first of each; -1: there is none

  void add(const Found& other) {
    if (nan < 0) nan = other.nan;
    if (infinity < 0) infinity = other.infinity;
  }
};

template <typename Bits, Bits kExponent>
Found findInBlock(const Bits* data, int64_t stride, int64_t begin, int64_t count) {
  using Kind = Format<Bits, kExponent>;
  Found found;
  for (int64_t i = 0; i < count; ++i) {
    const Bits bits = data[i * stride];
    if (Kind::isFinite(bits)) continue;
    int64_t& first = Kind::isNan(bits) ? found.nan : found.infinity;
    if (first < 0) first = begin + i;
  }
  return found;
}

// Elements of one row, `stride` apart, of which the first has the number `begin`.
template <typename Bits, Bits kExponent>
Found findInRow(const Bits* data, int64_t stride, int64_t begin, int64_t count) {
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  int64_t first = blocks;  // the first block that holds any
#pragma omp parallel for reduction(min : first) if (count >= kWorthThreads)
  for (int64_t block = 0; block < blocks; ++block) {
    const Bits* const values = data + block * kBlock * stride;
    const int64_t size = std::min(kBlock, count - block * kBlock);
    int any = 0;
    for (int64_t i = 0; i < size; ++i) any |= !Format<Bits, kExponent>::isFinite(values[i * stride]);
    if (any) first = std::min(first, block);
  }
  Found found;
  for (int64_t block = first; block < blocks && found.nan < 0; ++block) {
    found.add(findInBlock<Bits, kExponent>(data + block * kBlock * stride, stride, begin + block * kBlock,
                                           std::min(kBlock, count - block * kBlock)));
  }
  return found;
}

template <typename Bits, Bits kExponent>
Found findIn(const CheckedValues& values) {
  const Bits* const data = static_cast<const Bits*>(values.data);
  const Shape& shape = values.shape;
  if (shape.size == 0) return findInRow<Bits, kExponent>(data, 1, 0, values.count);
  const int last = shape.size - 1;
  const int64_t rowSize = shape[last];
  Found found;
  ShortList<int64_t> index = shape;
  std::fill(index.items, index.items + index.size, 0);
  for (int64_t begin = 0; begin < values.count; begin += rowSize) {
    int64_t offset = 0;
    for (int i = 0; i < last; ++i) offset += index[i] * values.strides[i];
    found.add(findInRow<Bits, kExponent>(data + offset, values.strides[last], begin, rowSize));
    for (int i = last - 1; i >= 0 && ++index.items[i] == shape[i]; --i) index.items[i] = 0;
  }
  return found;
}

Found findOnHost(const CheckedValues& values) {
  switch (values.dtype) {
    case DType::kF32:
      return findIn<uint32_t, 0x7f800000u>(values);
    case DType::kF64:
      return findIn<uint64_t, 0x7ff0000000000000u>(values);
    case DType::kF16:
      return findIn<uint16_t, 0x7c00u>(values);
    case DType::kBF16:
      return findIn<uint16_t, 0x7f80u>(values);
    case DType::kI32:
    case DType::kI64:
    case DType::kU8:
      return {};
  }
  return {};
}

// From the first to the last element, whatever lies between them.
int64_t bytesSpanned(const CheckedValues& values) {
  int64_t last = values.count - 1;
  if (values.shape.size > 0) last = 0;
  for (int i = 0; i < values.shape.size; ++i) last += (values.shape[i] - 1) * values.strides[i];
  return (last + 1) * sizeOf(values.dtype);
}

// Values on a device are looked at in a copy, which waits for the device.
Found find(Context& ctx, const CheckedValues& values) {
  if (!ctx.accelerator()) return findOnHost(values);
  if (values.count == 0) return {};
  std::vector<std::byte> copy(static_cast<size_t>(bytesSpanned(values)));
  const Status status = ctx.accelerator()->read(static_cast<const std::byte*>(values.data), copy.data(),
                                                static_cast<int64_t>(copy.size()));
  if (!status.ok()) {
    ctx.fail(status);
    return {};
  }
  CheckedValues onHost = values;
  onHost.data = copy.data();
  return findOnHost(onHost);
}

const std::byte* baseOf(const Context& ctx, int arena) {
  return ctx.accelerator() ? ctx.accelerator()->arena(arena) : ctx.arena(arena);
}

// "parameter wte.weight", where the address is that of a state; empty otherwise.
std::string stateAt(const Context& ctx, const void* data) {
  for (const StateDesc& state : ctx.program().states) {
    const std::byte* const arena = state.buffer.arena < 0 ? nullptr : baseOf(ctx, state.buffer.arena);
    if (!arena) continue;
    const std::byte* const begin = arena + state.buffer.offset;
    const std::byte* const at = static_cast<const std::byte*>(data);
    if (at >= begin && at < begin + heldElements(state) * sizeOf(state.dtype)) {
      return std::string(state.role) + " " + state.name;
    }
  }
  return {};
}

std::string whereIs(const Context& ctx, const Call& call, const Site& site) {
  std::string text = "step " + std::to_string(ctx.step() + 1);
  const bool ofMicroBatch = !std::strcmp(site.function, "forward") || !std::strcmp(site.function, "backward");
  if (ofMicroBatch) {
    text += ", micro-batch " + std::to_string(call.microBatch + 1) + " of " +
            std::to_string(ctx.program().batch.microBatches);
  }
  return text + ", " + site.function + ": " + site.op;
}

std::string elementOf(int64_t index, const CheckedValues& values) {
  return "element " + std::to_string(index) + " of " + std::to_string(values.count);
}

bool isOverwritten(const CheckedValues& in, std::initializer_list<CheckedValues> outs) {
  return std::any_of(outs.begin(), outs.end(), [&](const CheckedValues& out) { return out.data == in.data; });
}

}  // namespace

void checkFinite(Context& ctx, const Call& call, const Site& site, std::initializer_list<CheckedValues> outs,
                 std::initializer_list<CheckedValues> ins, Infinities infinities) {
  if (!ctx.status().ok()) return;
  std::unordered_set<const void*>& known = ctx.infinities();
  // Before `outs` say anew what is at their addresses.
  const bool hadInfinity = !known.empty() && std::any_of(ins.begin(), ins.end(), [&](const CheckedValues& in) {
    return known.count(in.data) != 0;
  });
  for (const CheckedValues& out : outs) {
    const Found found = find(ctx, out);
    if (found.nan >= 0) {
      for (const CheckedValues& in : ins) {
        const Found read = isOverwritten(in, outs) ? Found() : find(ctx, in);
        if (read.nan < 0) continue;
        const std::string state = stateAt(ctx, in.data);
        return ctx.fail(dataError(whereIs(ctx, call, site) + " reads a NaN" + (state.empty() ? "" : " of " + state) +
                                  " (" + elementOf(read.nan, in) + ")"));
      }
      return ctx.fail(dataError(whereIs(ctx, call, site) + " makes a NaN (" + elementOf(found.nan, out) +
                                "); lower the learning rate, or clip gradients with --clip-grad-norm"));
    }
    if (found.infinity < 0) {
      if (!known.empty()) known.erase(out.data);
      continue;
    }
    const bool isMeant = infinities == Infinities::kAllowed || hadInfinity ||
                         std::any_of(ins.begin(), ins.end(), [&](const CheckedValues& in) {
                           return !isOverwritten(in, outs) && find(ctx, in).infinity >= 0;
                         });
    if (!isMeant) {
      return ctx.fail(dataError(whereIs(ctx, call, site) + " makes an infinity (" + elementOf(found.infinity, out) +
                                ") of finite values; lower the learning rate, or clip gradients with "
                                "--clip-grad-norm"));
    }
    known.insert(out.data);
  }
}

}  // namespace hycrt
