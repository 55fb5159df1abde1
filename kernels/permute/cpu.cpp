// Strided copies on CPUs: dimensions are first merged, then runs are copied, planes transposed, or elements walked.
#include <cstring>

#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/isa/transpose.h"
#include "kernels/parallel/team.h"
#include "kernels/permute/op.h"

namespace hyc::kernels {
namespace HYC_ISA {

struct Dim {
  int64_t size, src, dst;
};

// The copy as a nest of loops over `dims`, outermost first, the destination's strides descending.
struct Nest {
  Dim dims[kPermuteMaxRank];
  int rank = 0;
  int64_t elements = 1;
};

static Nest simplify(const StridedCopyDesc &d) {
  Dim sorted[kPermuteMaxRank];
  int count = 0;
  Nest nest;
  for (int i = 0; i < d.tensorRank; ++i) {
    nest.elements *= d.shape[i];
    if (d.shape[i] == 1) continue;
    const Dim dim = {d.shape[i], d.srcStrides[i], d.dstStrides[i]};
    int at = count++;
    for (; at > 0 && sorted[at - 1].dst < dim.dst; --at) sorted[at] = sorted[at - 1];
    sorted[at] = dim;
  }
  for (int i = 0; i < count; ++i) {
    Dim *outer = nest.rank > 0 ? &nest.dims[nest.rank - 1] : nullptr;
    const Dim &inner = sorted[i];
    if (outer && outer->src == inner.size * inner.src && outer->dst == inner.size * inner.dst)
      *outer = {outer->size * inner.size, inner.src, inner.dst};
    else
      nest.dims[nest.rank++] = inner;
  }
  return nest;
}

struct Offsets {
  int64_t src = 0, dst = 0;
};

// Where iteration `index` of the loops over dims[0 … count − 1], except `skipped`, starts.
static Offsets offsetsOf(const Nest &nest, int count, int skipped, int64_t index) {
  Offsets at;
  for (int i = count - 1; i >= 0; --i) {
    if (i == skipped) continue;
    at.src += index % nest.dims[i].size * nest.dims[i].src;
    at.dst += index % nest.dims[i].size * nest.dims[i].dst;
    index /= nest.dims[i].size;
  }
  return at;
}

template <int kBytes>
HYC_INLINE void moveElement(char *dst, const char *src) {
  std::memcpy(dst, src, kBytes);
}

template <int kBytes>
static void copyRun(const Dim &run, const char *src, char *dst) {
  if (run.src == 1 && run.dst == 1) {
    std::memcpy(dst, src, run.size * kBytes);
    return;
  }
  for (int64_t i = 0; i < run.size; ++i) moveElement<kBytes>(dst + i * run.dst * kBytes, src + i * run.src * kBytes);
}

template <int kBytes>
static void copyRuns(const Nest &nest, const char *src, char *dst) {
  const Dim run = nest.rank > 0 ? nest.dims[nest.rank - 1] : Dim{1, 1, 1};
  const int64_t runs = nest.elements / run.size;
  runTeam(nest.elements >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t i = 0; i < runs; ++i) {
      const Offsets at = offsetsOf(nest, nest.rank - 1, -1, i);
      copyRun<kBytes>(run, src + at.src * kBytes, dst + at.dst * kBytes);
    }
  });
}

constexpr int64_t kTile = 64;

// One tile of a plane whose `rows` dimension is contiguous in the destination and whose `cols` one is in the source.
template <int kBytes>
static void transposeTile(const Dim &rows, const Dim &cols, int64_t r0, int64_t c0, const char *src, char *dst) {
  const int64_t rowCount = rows.size - r0 < kTile ? rows.size - r0 : kTile;
  const int64_t colCount = cols.size - c0 < kTile ? cols.size - c0 : kTile;
  src += (r0 * rows.src + c0) * kBytes;
  dst += (c0 * cols.dst + r0) * kBytes;
  if (kBytes == sizeof(float)) {
    transposeBlock(reinterpret_cast<const float *>(src), rows.src, rowCount, colCount, reinterpret_cast<float *>(dst),
                   cols.dst);
    return;
  }
  for (int64_t c = 0; c < colCount; ++c)
    for (int64_t r = 0; r < rowCount; ++r)
      moveElement<kBytes>(dst + (c * cols.dst + r) * kBytes, src + (r * rows.src + c) * kBytes);
}

// dims[plane] is contiguous in the source, the last dimension in the destination.
template <int kBytes>
static void transposePlanes(const Nest &nest, int plane, const char *src, char *dst) {
  const Dim rows = nest.dims[nest.rank - 1], cols = nest.dims[plane];
  const int64_t rowTiles = (rows.size + kTile - 1) / kTile, colTiles = (cols.size + kTile - 1) / kTile;
  const int64_t planes = nest.elements / (rows.size * cols.size), jobs = planes * rowTiles * colTiles;
  runTeam(nest.elements >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t job = 0; job < jobs; ++job) {
      const Offsets at = offsetsOf(nest, nest.rank - 1, plane, job / (rowTiles * colTiles));
      transposeTile<kBytes>(rows, cols, job % rowTiles * kTile, job / rowTiles % colTiles * kTile,
                            src + at.src * kBytes, dst + at.dst * kBytes);
    }
  });
}

template <int kBytes>
static void copyNest(const Nest &nest, const char *src, char *dst) {
  const bool denseRuns = nest.rank > 0 && nest.dims[nest.rank - 1].dst == 1 && nest.dims[nest.rank - 1].src != 1;
  for (int i = 0; denseRuns && i < nest.rank - 1; ++i)
    if (nest.dims[i].src == 1) return transposePlanes<kBytes>(nest, i, src, dst);
  copyRuns<kBytes>(nest, src, dst);
}

void stridedCopy(const StridedCopyDesc &d, const void *src, void *dst) {
  const Nest nest = simplify(d);
  if (nest.elements == 0) return;
  if (d.elementBytes == 8)
    copyNest<8>(nest, static_cast<const char *>(src), static_cast<char *>(dst));
  else if (d.elementBytes == 2)
    copyNest<2>(nest, static_cast<const char *>(src), static_cast<char *>(dst));
  else
    copyNest<4>(nest, static_cast<const char *>(src), static_cast<char *>(dst));
}

}  // namespace HYC_ISA

HYC_DISPATCH(void, stridedCopy, (const StridedCopyDesc &d, const void *src, void *dst), (d, src, dst))

}  // namespace hyc::kernels
