// Moving, adding, rounding and filling on GPUs.
#include <cstring>

#include "kernels/copy/cuda.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"

namespace hyc::kernels::cuda {
namespace {

template <typename Element>
__global__ void stridedCopyKernel(StridedCopyDesc desc, int64_t n, const Element *src, Element *dst) {
  forEach(n, [&](int64_t i) {
    int64_t from = 0, to = 0;
    for (int d = desc.tensorRank - 1; d >= 0; --d) {
      const int64_t index = i % desc.shape[d];
      i /= desc.shape[d];
      from += index * desc.srcStrides[d];
      to += index * desc.dstStrides[d];
    }
    dst[to] = src[from];
  });
}

// In packs where rows and both addresses allow it: the last dimension is then counted in packs.
template <typename Element>
void copyElements(Stream stream, const StridedCopyDesc &desc, const void *src, void *dst) {
  int64_t n = 1;
  for (int d = 0; d < desc.tensorRank; ++d) n *= desc.shape[d];
  kernel(stridedCopyKernel<Element>)
      .launch(stream, gridOver(n), desc, n, static_cast<const Element *>(src), static_cast<Element *>(dst));
}

// The same copy of 16 bytes at a time; false where it does not come out even.
bool inPacks(StridedCopyDesc *desc, const void *src, const void *dst) {
  const int last = desc->tensorRank - 1;
  const int64_t pack = 16 / desc->elementBytes;
  if (last < 0 || desc->srcStrides[last] != 1 || desc->dstStrides[last] != 1 || desc->shape[last] % pack != 0)
    return false;
  if (!isPackable(0, src, dst)) return false;
  for (int d = 0; d < last; ++d)
    if (desc->srcStrides[d] % pack != 0 || desc->dstStrides[d] % pack != 0) return false;
  for (int d = 0; d < last; ++d) {
    desc->srcStrides[d] /= pack;
    desc->dstStrides[d] /= pack;
  }
  desc->shape[last] /= pack;
  return true;
}

template <typename Element>
__global__ void shardSliceKernel(ShardSliceDesc desc, int64_t n, const Element *src, Element *dst) {
  forEach(n, [&](int64_t i) {
    const int64_t inner = i % desc.inner, row = i / desc.inner % desc.part, outer = i / desc.inner / desc.part;
    const int64_t from = desc.start + row;
    dst[i] = from < desc.whole ? src[(outer * desc.whole + from) * desc.inner + inner] : Element(0);
  });
}

template <typename Element>
void sliceElements(Stream stream, const ShardSliceDesc &desc, const void *src, void *dst) {
  const int64_t n = desc.outer * desc.part * desc.inner;
  kernel(shardSliceKernel<Element>)
      .launch(stream, gridOver(n), desc, n, static_cast<const Element *>(src), static_cast<Element *>(dst));
}

template <typename T>
__device__ inline T sumOf(T x, T y) {
  return T(x + y);  // of 16 bits: added in f32, rounded once
}

template <int n, typename T>
__device__ void accumulatePacks(T *dst, const T *src, int64_t packs) {
  forEach(packs, [&](int64_t i) {
    Pack<T, n> sum = loadPack<n>(dst + i * n);
    const Pack<T, n> term = loadPack<n>(src + i * n);
    for (int j = 0; j < n; ++j) sum.at[j] = sumOf(sum.at[j], term.at[j]);
    storePack(dst + i * n, sum);
  });
}
template <typename T>
__global__ void accumulateKernel(T *dst, const T *src, int64_t n) {
  if (isPackable(n * int64_t{sizeof(T)}, dst, src))
    accumulatePacks<kPackSize<T>>(dst, src, n / kPackSize<T>);
  else
    accumulatePacks<1>(dst, src, n);
}

template <typename T>
__global__ void roundKernel(T *dst, const float *src, int64_t n) {
  constexpr int kPack = 8;
  if (n % kPack == 0 && isPackable(0, dst, src)) {
    forEach(n / kPack, [&](int64_t i) {
      constexpr int kStore = kPackSize<T> < kPack ? kPackSize<T> : kPack;
      Pack<float, kPack / 2> from[2] = {loadPack<kPack / 2>(src + i * kPack),
                                        loadPack<kPack / 2>(src + i * kPack + kPack / 2)};
#pragma unroll
      for (int begin = 0; begin < kPack; begin += kStore) {
        Pack<T, kStore> to;
#pragma unroll
        for (int j = 0; j < kStore; ++j) to.at[j] = T(from[(begin + j) / (kPack / 2)].at[(begin + j) % (kPack / 2)]);
        storePack(dst + i * kPack + begin, to);
      }
    });
    return;
  }
  forEach(n, [&](int64_t i) { dst[i] = T(src[i]); });
}

template <typename T>
__global__ void fillKernel(T *dst, int64_t n, T value) {
  forEach(n, [&](int64_t i) { dst[i] = value; });
}

// Constants of a program travel as arguments, which a launch keeps, and so does a recorded one: a copy from pageable
// memory would hold up the host each step.
constexpr int64_t kArgumentBytes = 3584, kMostArgumentBytes = 8 * kArgumentBytes;
struct Constant {
  unsigned char bytes[kArgumentBytes];
};
__global__ void constantKernel(const __grid_constant__ Constant constant, int64_t bytes, unsigned char *dst) {
  forEach(bytes, [&](int64_t i) { dst[i] = constant.bytes[i]; });
}

}  // namespace

void stridedCopy(Stream stream, const StridedCopyDesc &asked, const void *src, void *dst) {
  StridedCopyDesc desc = asked;
  if (inPacks(&desc, src, dst)) return copyElements<uint4>(stream, desc, src, dst);
  switch (desc.elementBytes) {
    case 1:
      return copyElements<uint8_t>(stream, desc, src, dst);
    case 2:
      return copyElements<uint16_t>(stream, desc, src, dst);
    case 4:
      return copyElements<uint32_t>(stream, desc, src, dst);
    default:
      return copyElements<uint64_t>(stream, desc, src, dst);
  }
}

void shardSlice(Stream stream, const ShardSliceDesc &desc, const void *src, void *dst) {
  switch (desc.elementBytes) {
    case 1:
      return sliceElements<uint8_t>(stream, desc, src, dst);
    case 2:
      return sliceElements<uint16_t>(stream, desc, src, dst);
    case 4:
      return sliceElements<uint32_t>(stream, desc, src, dst);
    default:
      return sliceElements<uint64_t>(stream, desc, src, dst);
  }
}

template <typename T>
void accumulate(Stream stream, T *dst, const T *src, int64_t n, WriteMode mode) {
  if (mode == WriteMode::kOverwrite) {
    // Either may lie in the host's pinned memory, where states are that are offloaded.
    cudaMemcpyAsync(dst, src, static_cast<size_t>(n) * sizeof(T), cudaMemcpyDefault, stream);
    return;
  }
  kernel(accumulateKernel<T>).launch(stream, gridOver(n / 4 + 1), dst, src, n);
}

template <typename T>
void roundElements(Stream stream, T *dst, const float *src, int64_t n) {
  kernel(roundKernel<T>).launch(stream, gridOver(n / 8 + 1), dst, src, n);
}

template <typename T>
void fill(Stream stream, T *dst, int64_t n, T value) {
  kernel(fillKernel<T>).launch(stream, gridOver(n), dst, n, value);
}

void upload(Stream stream, void *dst, const void *constant, int64_t bytes) {
  if (bytes > kMostArgumentBytes) {
    cudaMemcpyAsync(dst, constant, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream);
    return;
  }
  for (int64_t begin = 0; begin < bytes; begin += kArgumentBytes) {
    const int64_t count = bytes - begin < kArgumentBytes ? bytes - begin : kArgumentBytes;
    Constant argument;
    std::memcpy(argument.bytes, static_cast<const char *>(constant) + begin, static_cast<size_t>(count));
    kernel(constantKernel).launch(stream, gridOver(count), argument, count, static_cast<unsigned char *>(dst) + begin);
  }
}

void poison(Stream stream, void *dst, int64_t bytes) { cudaMemsetAsync(dst, 0xFF, static_cast<size_t>(bytes), stream); }

#define HYC_INSTANTIATE(T)                                                 \
  template void accumulate<T>(Stream, T *, const T *, int64_t, WriteMode); \
  template void fill<T>(Stream, T *, int64_t, T);
HYC_INSTANTIATE(float)
HYC_INSTANTIATE(double)
HYC_INSTANTIATE(Bf16)
HYC_INSTANTIATE(F16)
HYC_INSTANTIATE(int32_t)
HYC_INSTANTIATE(int64_t)
HYC_INSTANTIATE(uint8_t)
template void roundElements<float>(Stream, float *, const float *, int64_t);
template void roundElements<Bf16>(Stream, Bf16 *, const float *, int64_t);
template void roundElements<F16>(Stream, F16 *, const float *, int64_t);

}  // namespace hyc::kernels::cuda
