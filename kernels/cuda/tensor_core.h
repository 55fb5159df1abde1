// Products of 16-bit tiles on tensor cores, and how tiles get there: mma.m16n8k16, ldmatrix and cp.async of PTX (sm_80
// and later).
//
// Fragments, for lane l of a warp with g = l / 4 and t = l % 4: of A (16 × 16) a lane holds rows g and g + 8, columns
// 2t, 2t + 1, 2t + 8 and 2t + 9; of B (16 × 8) rows 2t, 2t + 1, 2t + 8, 2t + 9 of column g; of C (16 × 8) rows g and
// g + 8, columns 2t and 2t + 1. Two C tiles side by side are therefore one A tile, once rounded.
#ifndef HYC_KERNELS_CUDA_TENSOR_CORE_H_
#define HYC_KERNELS_CUDA_TENSOR_CORE_H_

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "kernels/narrow_float.h"

namespace hyc::kernels::cuda {

template <typename T>
constexpr bool kIsBf16 = false;
template <>
inline constexpr bool kIsBf16<Bf16> = true;

#ifndef __CUDACC__
void mmaOnHost(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], bool isBf16);  // test/emulation
void loadMatricesOnHost(uint32_t (&to)[4], const void *row, bool transposed);
#endif

// d += a · b, summed in f32. T: Bf16 or F16. All lanes of the warp call it, as with the next one.
template <typename T>
__device__ inline void multiplyAdd(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if defined(__CUDA_ARCH__)
  if constexpr (kIsBf16<T>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#elif !defined(__CUDACC__)
  mmaOnHost(d, a, b, kIsBf16<T>);
#endif
}

// Four 8 × 8 tiles from shared memory: lanes 8m … 8m + 7 give the addresses of the rows of tile m.
template <bool kTransposed>
__device__ inline void loadMatrices(uint32_t (&to)[4], const void *row) {
#if defined(__CUDA_ARCH__)
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  }
#elif !defined(__CUDACC__)
  loadMatricesOnHost(to, row, kTransposed);
#endif
}

// 2^x to 2 units in the last place; what is subnormal, operand or result, is 0.
__device__ inline float exp2Approximately(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
#else
  const float y = exp2f(x);
  return y < 1.17549435e-38f ? 0.0f : y;
#endif
}

// Two numbers rounded to T, the first in the low half.
template <typename T>
__device__ inline uint32_t packPair(float low, float high) {
#if defined(__CUDA_ARCH__)
  uint32_t pair;
  if constexpr (kIsBf16<T>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return T(low).bits | uint32_t{T(high).bits} << 16;
#endif
}

// Copies 16 bytes from global to shared memory without waiting; zeros where `isThere` is false, and then nothing is
// read.
__device__ inline void copyAsync(void *to, const void *from, bool isThere) {
#if defined(__CUDA_ARCH__)
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(address), "l"(from), "r"(isThere ? 16 : 0)
               : "memory");
#elif !defined(__CUDACC__)
  emulation::copyLater(to, from, 16, isThere ? 16 : 0);
#endif
}
// The same with one number of 4 bytes.
__device__ inline void copyNumberAsync(float *to, const float *from, bool isThere) {
#if defined(__CUDA_ARCH__)
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(address), "l"(from), "r"(isThere ? 4 : 0)
               : "memory");
#elif !defined(__CUDACC__)
  emulation::copyLater(to, from, 4, isThere ? 4 : 0);
#endif
}
// Closes a group of copies of this thread.
__device__ inline void commitCopies() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#elif !defined(__CUDACC__)
  emulation::commitCopies();
#endif
}
// Until at most so many of this thread's last groups are under way; a barrier makes them seen by others.
template <int kMostLeft>
__device__ inline void waitCopies() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kMostLeft) : "memory");
#elif !defined(__CUDACC__)
  emulation::waitCopies(kMostLeft);
#endif
}

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_CUDA_TENSOR_CORE_H_
