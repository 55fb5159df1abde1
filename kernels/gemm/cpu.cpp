// Matrix product on CPUs: packed panels, a register-blocked inner product, tiles handed out to threads as they come.
#include "kernels/gemm/cpu.h"

#include <omp.h>

#include "kernels/gemm/epilogue.h"
#include "kernels/gemm/few_rows.h"
#include "kernels/gemm/pack.h"
#include "kernels/gemm/panels.h"
#include "kernels/isa/dispatch.h"
#include "kernels/isa/micro_kernel.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {
namespace HYC_ISA {

constexpr int kLineFloats = 16;  // of a cache line

constexpr int64_t kThreadFloats = kGemmThreadWorkspaceBytes / sizeof(float);

static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

// One tile of C, rows × columns of it inside the matrix.
template <int kRows, typename Before>
HYC_INLINE void computeTile(int64_t k, const MicroOperands &x, const Epilogue &e, int64_t rows, int64_t columns,
                            Before before) {
  // C's lines arrive while the sums are made.
  for (int64_t i = 0; i < rows; ++i)
    for (int j = 0; j < kPanelColumns; j += kLineFloats) __builtin_prefetch(x.c + i * x.cRow + j, 1);
  Vector sum[kRows][kPanelVectors];
  multiplyBlock<kRows, kPanelVectors>(sum, k, x, before);
  if (rows < kRows || columns < kPanelColumns) {
    float spill[kRows * kPanelColumns];
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kPanelVectors; ++j) store(spill + i * kPanelColumns + j * kLanes, sum[i][j]);
    for (int64_t i = 0; i < rows; ++i) finishRow(spill + i * kPanelColumns, e, columns, x.c + i * x.cRow);
    return;
  }
  const Vector alpha = broadcast(e.alpha);
#pragma GCC unroll 2
  for (int j = 0; j < kPanelVectors; ++j) {
    const Vector bias = e.bias ? load(e.bias + j * kLanes) : Vector{};
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      float *c = x.c + i * x.cRow + j * kLanes;
      Vector value = alpha * sum[i][j];
      if (e.bias) value = value + bias;
      store(c, e.addC ? value + load(c) : value);
    }
  }
}

// By a block of no more rows than it needs.
template <int kRows = kPanelRows, typename Before = Nothing>
static void computeTileOf(int64_t k, const MicroOperands &x, const Epilogue &e, int64_t rows, int64_t columns,
                          Before before = {}) {
  if constexpr (kRows > 2)
    if (rows <= kRows - 2) return computeTileOf<kRows - 2>(k, x, e, rows, columns, before);
  computeTile<kRows>(k, x, e, rows, columns, before);
}

// A weight packed whole is the packed form of one column block after the other, each over all of k.
static PackedB packedBlock(const GemmDesc &d, const float *packed, int64_t k0, int64_t n0, int64_t columns) {
  const int64_t rowFloats = gemmPaddedColumns(columns);
  return {const_cast<float *>(packed) + n0 * d.k + k0 * rowFloats, k0, n0, columns, rowFloats};
}

// `run` is the first k of a run.
static void packPanelOfB(const GemmDesc &d, const float *b, const PackedB &packed, int64_t run, int64_t panel) {
  const int64_t ldb = d.rowStrideB(), column = packed.n0 + panel * kPanelColumns;
  const int64_t lanes = min(kPanelColumns, packed.n0 + packed.columns - column), steps = min(kGemmRun, d.k - run);
  float *dst = packed.panel(run, steps, panel);
  if (d.transB)
    packStridedLanes<kPanelColumns>(b + column * ldb + run, ldb, lanes, steps, dst);
  else
    packContiguousLanes<kPanelColumns>(b + run * ldb + column, ldb, lanes, steps, dst);
}

// Asks for a packed panel, whole and of a whole run, while tiles of the one before it compute: each of a power of two
// of tiles for its part, kPanelColumns floats in so many steps. So it is in the second cache, which all of packed B
// does not fit, when its turn comes.
class ComingPanel {
 public:
  ComingPanel(const float *packed, int64_t tile, int64_t tiles)
      : mask_(tiles - 1), at_(packed + tile * (kGemmRun / tiles) * kPanelColumns) {}

  HYC_INLINE void operator()(int64_t step) {
    if ((step & mask_) != 0) return;
    for (int i = 0; i < kPanelColumns; i += kLineFloats) __builtin_prefetch(at_ + i, 0, 2);
    at_ += kPanelColumns;
  }

 private:
  int64_t mask_;
  const float *at_;
};

static void packRowsOfA(const GemmDesc &d, const float *a, int64_t run, int64_t row, int64_t rows, float *dst) {
  const int64_t lda = d.rowStrideA(), steps = min(kGemmRun, d.k - run), tileRows = rowsOfTile(rows);
  for (int64_t i = 0; i < rows; i += tileRows, dst += kPanelRows * steps) {
    const int64_t lanes = min(tileRows, rows - i);
    if (d.transA)
      packContiguousLanes<kPanelRows>(a + run * lda + row + i, lda, lanes, steps, dst);
    else
      packStridedLanes<kPanelRows>(a + (row + i) * lda + run, lda, lanes, steps, dst);
  }
}

struct TileRange {
  int64_t row, rows, firstPanel, lastPanel;
};

static void computeTiles(const GemmDesc &d, int64_t run, const TileRange &r, const float *packedA,
                         const PackedB &packedB, const float *bias, float *c) {
  const int64_t ldc = d.rowStrideC(), steps = min(kGemmRun, d.k - run), tileRows = rowsOfTile(r.rows);
  int64_t asking = 1;  // so many tiles of a panel ask for the next one
  while (2 * asking * tileRows <= r.rows) asking *= 2;
  for (int64_t panel = r.firstPanel; panel < r.lastPanel; ++panel) {
    const int64_t column = packedB.n0 + panel * kPanelColumns;
    const int64_t columns = min(kPanelColumns, packedB.n0 + packedB.columns - column);
    const bool isOneComing = panel + 1 < r.lastPanel && steps == kGemmRun;
    const Epilogue epilogue = {static_cast<float>(d.alpha), d.hasBias && run == 0 ? bias + column : nullptr,
                               d.beta != 0 || run > 0};
    for (int64_t i = 0, tile = 0; i < r.rows; i += tileRows, ++tile) {
      const MicroOperands operands = {
          packedA + tile * kPanelRows * steps, 1,  kPanelRows, packedB.panel(run, steps, panel), kPanelColumns,
          c + (r.row + i) * ldc + column,      ldc};
      const int64_t rows = min(tileRows, r.rows - i);
      if (isOneComing && tile < asking)
        computeTileOf(steps, operands, epilogue, rows, columns,
                      ComingPanel(packedB.panel(run, steps, panel + 1), tile, asking));
      else
        computeTileOf(steps, operands, epilogue, rows, columns);
    }
  }
}

// How C's rows and one column block's panels are cut into jobs. The cut follows the number of threads; the bits do not.
struct Jobs {
  int64_t rowsPerJob, rowJobs, panelsPerJob, panelJobs;

  Jobs(int64_t m, int64_t panels, int64_t threads) {
    rowJobs = ceilDiv(m, kGemmRowBlock - kGemmRowBlock % (kPanelRows * 4));
    rowsPerJob = ceilDiv(ceilDiv(m, rowJobs), kPanelRows) * kPanelRows;
    rowJobs = ceilDiv(m, rowsPerJob);
    // Packing a row block of A is paid once per job, so a job is at least some 12 panels wide where there are that
    // many.
    const int64_t wanted = threads > 1 ? ceilDiv(threads * 4, rowJobs) : 1;
    panelsPerJob = ceilDiv(panels, min(wanted, ceilDiv(panels, 12)));
    panelJobs = ceilDiv(panels, panelsPerJob);
  }
};

// The work of every thread of a team on the runs of k from packedB.k0 to `kEnd`. `b` is null when packedB is filled.
static void multiplyDepth(const GemmDesc &d, int64_t kEnd, const float *a, const float *b, const PackedB &packedB,
                          const float *bias, float *c, float *scratchA) {
  if (b) {
#pragma omp for collapse(2) schedule(static)
    for (int64_t run = packedB.k0; run < kEnd; run += kGemmRun)
      for (int64_t panel = 0; panel < packedB.panels(); ++panel) packPanelOfB(d, b, packedB, run, panel);
  }
  const Jobs jobs(d.m, packedB.panels(), omp_get_num_threads());
  shareJobs(jobs.rowJobs * jobs.panelJobs, [&](int64_t job) {
    const int64_t row = job / jobs.panelJobs * jobs.rowsPerJob, panel = job % jobs.panelJobs * jobs.panelsPerJob;
    const TileRange range = {row, min(jobs.rowsPerJob, d.m - row), panel,
                             min(panel + jobs.panelsPerJob, packedB.panels())};
    for (int64_t run = packedB.k0; run < kEnd; run += kGemmRun) {
      packRowsOfA(d, a, run, range.row, range.rows, scratchA);
      computeTiles(d, run, range, scratchA, packedB, bias, c);
    }
  });
}

static void multiplyTeam(const GemmDesc &d, const float *a, const float *b, const float *packed, const float *bias,
                         float *c, float *scratch) {
  float *scratchA = scratch + omp_get_thread_num() * kThreadFloats;
  float *scratchB = scratch + omp_get_num_threads() * kThreadFloats;
  for (int64_t batch = 0; batch < d.batch; ++batch)
    for (int64_t n0 = 0; n0 < d.n; n0 += kGemmColumnBlock)
      for (int64_t k0 = 0; k0 < d.k; k0 += kGemmDepthBlock) {
        const int64_t kEnd = min(k0 + kGemmDepthBlock, d.k), columns = min(kGemmColumnBlock, d.n - n0);
        multiplyDepth(d, kEnd, a + batch * d.strideA, b ? b + batch * d.strideB : nullptr,
                      b ? PackedB{scratchB, k0, n0, columns, gemmPaddedColumns(columns)}
                        : packedBlock(d, packed, k0, n0, columns),
                      bias, c + batch * d.strideC, scratchA);
      }
}

static void multiplyFewRows(const GemmDesc &d, const float *a, const float *b, const float *bias, float *c,
                            float *scratch) {
  runTeam(gemmIsWorthATeam(d), [&] {
    float *const own = scratch + omp_get_thread_num() * kThreadFloats;
#pragma omp for collapse(2) schedule(static)
    for (int64_t batch = 0; batch < d.batch; ++batch)
      for (int64_t column = 0; column < d.n; column += kFewColumns)
        multiplyFewRows(d, a + batch * d.strideA, b + batch * d.strideB, bias, c + batch * d.strideC, column, own);
  });
}

void gemmWithScratch(const GemmDesc &d, const float *a, const float *b, const float *packed, const float *bias,
                     float *c, float *scratch) {
  if (b && hasFewRows(d)) return multiplyFewRows(d, a, b, bias, c, scratch);
  runTeam(gemmIsWorthATeam(d), [&] { multiplyTeam(d, a, b, packed, bias, c, scratch); });
}

void packWeight(const GemmDesc &d, const float *b, float *packed) {
  runTeam(d.n > kGemmColumnBlock, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t n0 = 0; n0 < d.n; n0 += kGemmColumnBlock) {
      const PackedB block = packedBlock(d, packed, 0, n0, min(kGemmColumnBlock, d.n - n0));
      for (int64_t run = 0; run < d.k; run += kGemmRun)
        for (int64_t panel = 0; panel < block.panels(); ++panel) packPanelOfB(d, b, block, run, panel);
    }
  });
}

}  // namespace HYC_ISA

HYC_DISPATCH(void, gemmWithScratch,
             (const GemmDesc &d, const float *a, const float *b, const float *packed, const float *bias, float *c,
              float *scratch),
             (d, a, b, packed, bias, c, scratch))
HYC_DISPATCH(void, packWeight, (const GemmDesc &d, const float *b, float *packed), (d, b, packed))

}  // namespace hyc::kernels
