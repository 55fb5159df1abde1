// Sum of squares on CPUs, with the lanes that op.h fixes held in vectors of f64.
#include <algorithm>

#include "kernels/exact_sum/op.h"
#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/parallel/team.h"
#include "kernels/sum_of_squares/op.h"

namespace hyc::kernels {
namespace HYC_ISA {

constexpr int64_t kHalf = kLanes / 2;
typedef double DoubleVector __attribute__((vector_size(sizeof(Vector))));
typedef float HalfVector __attribute__((vector_size(sizeof(Vector) / 2), aligned(4), may_alias));
constexpr int kSquareVectors = kSumOfSquaresLanes / kHalf;

static double sumOfWholeGroups(const float *x, int64_t n) {
  DoubleVector lane[kSquareVectors] = {};
  for (int64_t i = 0; i < n; i += kSumOfSquaresLanes)
#pragma GCC unroll 8
    for (int v = 0; v < kSquareVectors; ++v) {
      const HalfVector narrow = *reinterpret_cast<const HalfVector *>(x + i + v * kHalf);
      const DoubleVector wide = __builtin_convertvector(narrow, DoubleVector);
      lane[v] = lane[v] + wide * wide;
    }
  double lanes[kSumOfSquaresLanes];
  for (int v = 0; v < kSquareVectors; ++v)
    for (int64_t l = 0; l < kHalf; ++l) lanes[v * kHalf + l] = lane[v][l];
  for (int64_t apart = kSumOfSquaresLanes / 2; apart > 0; apart /= 2)
    for (int64_t l = 0; l < apart; ++l) lanes[l] += lanes[l + apart];
  return lanes[0];
}

static double sumOfFilledBlock(const float *x) { return sumOfWholeGroups(x, kSumOfSquaresBlock); }

// Of what is shorter or narrower a copy is filled.
template <typename T>
static double sumOfBlock(const T *x, int64_t n) {
  if constexpr (sizeof(T) == sizeof(float))
    if (n >= kSumOfSquaresBlock) return sumOfFilledBlock(x);
  float filled[kSumOfSquaresBlock] = {};
  for (int64_t i = 0; i < (n < kSumOfSquaresBlock ? n : kSumOfSquaresBlock); ++i) filled[i] = x[i];
  return sumOfFilledBlock(filled);
}

template <typename T>
void sumOfSquaresBlocks(const T *x, int64_t n, double *blockSums) {
  runTeam(n >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t block = 0; block < sumOfSquaresBlockCount(n); ++block)
      blockSums[block] = sumOfBlock(x + block * kSumOfSquaresBlock, n - block * kSumOfSquaresBlock);
  });
}

template <typename T>
void sumOfSquares(const T *x, int64_t n, int64_t *exactSum, WriteMode mode) {
  constexpr int64_t kBlocksAtOnce = 4096;
  double blockSums[kBlocksAtOnce];
  if (mode == WriteMode::kOverwrite) std::fill_n(exactSum, kExactSumLimbs, 0);
  for (int64_t i = 0; i < n; i += kBlocksAtOnce * kSumOfSquaresBlock) {
    const int64_t length = n - i < kBlocksAtOnce * kSumOfSquaresBlock ? n - i : kBlocksAtOnce * kSumOfSquaresBlock;
    HYC_ISA::sumOfSquaresBlocks(x + i, length, blockSums);
    addExact(exactSum, blockSums, sumOfSquaresBlockCount(length));
  }
}

HYC_INSTANTIATE(sumOfSquaresBlocks)
HYC_INSTANTIATE(sumOfSquares)

}  // namespace HYC_ISA

HYC_DISPATCH_TEMPLATE(void, sumOfSquaresBlocks, (const T *x, int64_t n, double *blockSums), (x, n, blockSums))
HYC_DISPATCH_TEMPLATE(void, sumOfSquares, (const T *x, int64_t n, int64_t *exactSum, WriteMode mode),
                      (x, n, exactSum, mode))

}  // namespace hyc::kernels
