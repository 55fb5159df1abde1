// Matrix product of bf16 on CPUs with AMX: both operands are packed into tiles of 16 × 32 elements, two by two of which
// are multiplied at a time.
//
// The surprise: a tile of B holds pairs of consecutive k, one above the other, so that packing B interleaves rows and
// packing a transposed B transposes 32-bit words. An element's bits depend on its row, its column and k alone: a run of
// kGemmNarrowRun of k is one chain of the tile instruction's pair products, whatever block the element stands in.
#include <immintrin.h>
#include <omp.h>

#include "kernels/gemm/cpu.h"
#include "kernels/gemm/workspace.h"
#include "kernels/isa/vector.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels::amx {

using avx512::kLanes;
using avx512::load;
using avx512::store;
using avx512::Vector;

constexpr int64_t kTile = 16;                      // rows of A, columns of B, pairs of k
constexpr int64_t kStep = 2 * kTile;               // of k
constexpr int64_t kBlock = TileWorkspace::kBlock;  // rows and columns of C at a time
constexpr int64_t kTileWords = kTile * kTile;
constexpr int64_t kStepWords = TileWorkspace::kStepWords;  // the two tiles of A, or of B, of one step
constexpr int64_t kColumnBlock = TileWorkspace::kColumnBlock;
static_assert(kLanes == kTile && kBlock == 2 * kTile && kStep == kBlock && kStepWords == 2 * kTileWords);

static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct alignas(64) TileConfig {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t columnBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// ---------------------------------------------------------------------------------------------------------- packing

// Element (row, column) of `row` becomes (column, row).
static inline void transposeWords(__m512i (&row)[16]) {
  __m512i a[16], b[16];
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_epi32(row[i], row[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi32(row[i], row[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 2; ++j) {
      b[i + 2 * j] = _mm512_unpacklo_epi64(a[i + j], a[i + 2 + j]);
      b[i + 2 * j + 1] = _mm512_unpackhi_epi64(a[i + j], a[i + 2 + j]);
    }
  // Now lane l of b[4 g + c] has column 4 l + c of rows 4 g … 4 g + 3.
  for (int c = 0; c < 4; ++c) {
    const __m512i low01 = _mm512_shuffle_i32x4(b[c], b[4 + c], 0x44),
                  high01 = _mm512_shuffle_i32x4(b[c], b[4 + c], 0xee);
    const __m512i low23 = _mm512_shuffle_i32x4(b[8 + c], b[12 + c], 0x44),
                  high23 = _mm512_shuffle_i32x4(b[8 + c], b[12 + c], 0xee);
    row[c] = _mm512_shuffle_i32x4(low01, low23, 0x88);
    row[4 + c] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
    row[8 + c] = _mm512_shuffle_i32x4(high01, high23, 0x88);
    row[12 + c] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
  }
}

static inline uint32_t firstLanes(int64_t n) { return n >= 32 ? ~0u : (1u << n) - 1; }

// An operand as it lies: element (lane, p) at base[lane · laneStride + p · depthStride], one of the two strides 1.
struct Source {
  const Bf16 *base;
  int64_t laneStride, depthStride;
  int64_t lanes, depth;  // what there is; beyond it are zeros

  bool depthIsContiguous() const { return depthStride == 1; }
};

enum class TileOrder { kLanesOutside, kPairsOutside };  // A's, B's

static inline void packTile(const Source &s, int64_t lane, int64_t depth, TileOrder order, uint32_t *dst) {
  const int64_t lanes = min(kTile, s.lanes - lane), steps = min(kStep, s.depth - depth);
  const Bf16 *base = s.base + lane * s.laneStride + depth * s.depthStride;
  __m512i words[16];
  if (s.depthIsContiguous()) {
    const __mmask32 mask = firstLanes(steps);
    for (int64_t i = 0; i < kTile; ++i)
      words[i] = i < lanes ? _mm512_maskz_loadu_epi16(mask, base + i * s.laneStride) : _mm512_setzero_si512();
  } else {
    const __mmask16 mask = static_cast<__mmask16>(firstLanes(lanes > 0 ? lanes : 0));
    const auto row = [&](int64_t p) {
      const __m256i bits =
          p < steps ? _mm256_maskz_loadu_epi16(mask, base + p * s.depthStride) : _mm256_setzero_si256();
      return _mm512_cvtepu16_epi32(bits);
    };
    for (int64_t p = 0; p < kTile; ++p) words[p] = _mm512_or_si512(row(2 * p), _mm512_slli_epi32(row(2 * p + 1), 16));
  }
  if (s.depthIsContiguous() != (order == TileOrder::kLanesOutside)) transposeWords(words);
  for (int64_t i = 0; i < kTile; ++i) _mm512_storeu_si512(dst + i * kTile, words[i]);
}

// Two tiles side by side for each step of k.
static void packLanes(const Source &s, int64_t lane, int64_t depth, int64_t steps, TileOrder order, uint32_t *dst) {
  for (int64_t step = 0; step < steps; ++step)
    for (int64_t tile = 0; tile < 2; ++tile)
      packTile(s, lane + tile * kTile, depth + step * kStep, order, dst + step * kStepWords + tile * kTileWords);
}

// --------------------------------------------------------------------------------------------------------- products

static inline void multiplyBlock(int64_t steps, const uint32_t *a, const uint32_t *b, float *sums) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t step = 0; step < steps; ++step, a += kStepWords, b += kStepWords) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + kTileWords, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + kTileWords, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  constexpr int64_t kRowBytes = kBlock * sizeof(float);
  _tile_stored(0, sums, kRowBytes);
  _tile_stored(1, sums + kTile, kRowBytes);
  _tile_stored(2, sums + kTile * kBlock, kRowBytes);
  _tile_stored(3, sums + kTile * kBlock + kTile, kRowBytes);
}

// What becomes of a run's sums: c = ((alpha · run 0 + bias) + beta · c) + alpha · run 1 + …, in f32. Between runs the
// sum stays in `partial`, which is c itself where that is f32.
template <typename C>
struct Epilogue {
  float alpha;
  const Bf16 *bias;  // null: none is added
  bool addC, first, last;
  C *c;
  int64_t ldc;
  float *partial;
  int64_t ldPartial;
};

template <typename C, typename Value>
static inline Value sumOf(const Epilogue<C> &e, Value run, Value bias, Value old) {
  if (!e.first) return run + old;
  if (e.bias) run = run + bias;
  return e.addC ? run + old : run;
}

template <typename C>
static inline void finishRow(const Epilogue<C> &e, int64_t row, int64_t column, int64_t columns, const float *sums) {
  C *c = e.c + row * e.ldc + column;
  float *partial = e.partial + row * e.ldPartial + column;
  const bool readsC = e.first && e.addC, readsPartial = !e.first;
  int64_t j = 0;
  for (; j + kLanes <= columns; j += kLanes) {
    const Vector bias = e.first && e.bias ? load(e.bias + column + j) : Vector{};
    const Vector old = readsC ? load(c + j) : readsPartial ? load(partial + j) : Vector{};
    const Vector value = sumOf(e, avx512::broadcast(e.alpha) * load(sums + j), bias, old);
    if (e.last)
      store(c + j, value);
    else
      store(partial + j, value);
  }
  for (; j < columns; ++j) {
    const float bias = e.first && e.bias ? static_cast<float>(e.bias[column + j]) : 0.0f;
    const float old = readsC ? static_cast<float>(c[j]) : readsPartial ? partial[j] : 0.0f;
    const float value = sumOf(e, e.alpha * sums[j], bias, old);
    if (e.last)
      c[j] = C(value);
    else
      partial[j] = value;
  }
}

// How C's rows and one column block's panels are cut into jobs. The cut follows the number of threads; the bits do not.
struct Jobs {
  int64_t rowsPerJob, rowJobs, panelsPerJob, panelJobs;

  Jobs(int64_t m, int64_t panels, int64_t steps, int64_t threads) {
    rowsPerJob = TileWorkspace::rowsPerJob(m, steps, threads);
    rowJobs = ceilDiv(m, rowsPerJob);
    panelsPerJob = ceilDiv(panels, rowJobs >= threads ? 1 : min(panels, ceilDiv(2 * threads, rowJobs)));
    panelJobs = ceilDiv(panels, panelsPerJob);
  }
};

struct Scratch {
  uint32_t *b;  // of all threads together
  uint32_t *a;  // one row block a thread
  int64_t aWords, threads;
  float *partial;  // [m, kColumnBlock]; null where none is needed
};

// One run of k of one block of columns: the work of every thread of a team.
template <typename C>
static void multiplyRun(const Source &a, const Source &b, int64_t k0, int64_t n0, int64_t columns,
                        const Scratch &scratch, const Epilogue<C> &epilogue) {
  const int64_t steps = ceilDiv(min(kGemmNarrowRun, a.depth - k0), kStep), panels = ceilDiv(columns, kBlock);
#pragma omp for schedule(static)
  for (int64_t panel = 0; panel < panels; ++panel)
    packLanes(b, n0 + panel * kBlock, k0, steps, TileOrder::kPairsOutside, scratch.b + panel * steps * kStepWords);
  const Jobs jobs(a.lanes, panels, steps, scratch.threads);
  uint32_t *packedA = scratch.a + omp_get_thread_num() * scratch.aWords;
  alignas(64) float sums[kBlock * kBlock];
  shareJobs(jobs.rowJobs * jobs.panelJobs, [&](int64_t job) {
    const int64_t row = job / jobs.panelJobs * jobs.rowsPerJob, rows = min(jobs.rowsPerJob, a.lanes - row);
    const int64_t firstPanel = job % jobs.panelJobs * jobs.panelsPerJob;
    for (int64_t i = 0; i < rows; i += kBlock)
      packLanes(a, row + i, k0, steps, TileOrder::kLanesOutside, packedA + i / kBlock * steps * kStepWords);
    for (int64_t panel = firstPanel; panel < min(firstPanel + jobs.panelsPerJob, panels); ++panel)
      for (int64_t i = 0; i < rows; i += kBlock) {
        multiplyBlock(steps, packedA + i / kBlock * steps * kStepWords, scratch.b + panel * steps * kStepWords, sums);
        const int64_t column = panel * kBlock;
        for (int64_t r = 0; r < min(kBlock, rows - i); ++r)
          finishRow(epilogue, row + i + r, column, min(kBlock, columns - column), sums + r * kBlock);
      }
  });
}

template <typename C>
static void multiplyTeam(const GemmDesc &d, const Source &a, const Source &b, const Bf16 *bias, C *c,
                         const Scratch &scratch) {
  const TileConfig config;
  _tile_loadconfig(&config);
  for (int64_t n0 = 0; n0 < d.n; n0 += kColumnBlock)
    for (int64_t k0 = 0; k0 < d.k; k0 += kGemmNarrowRun) {
      Epilogue<C> e = {static_cast<float>(d.alpha),
                       d.hasBias ? bias + n0 : nullptr,
                       d.beta != 0,
                       k0 == 0,
                       k0 + kGemmNarrowRun >= d.k,
                       c + n0,
                       d.rowStrideC(),
                       scratch.partial,
                       kColumnBlock};
      if constexpr (sizeof(C) == sizeof(float)) {
        e.partial = e.c;
        e.ldPartial = e.ldc;
      }
      multiplyRun(a, b, k0, n0, min(kColumnBlock, d.n - n0), scratch, e);
    }
  _tile_release();
}

}  // namespace hyc::kernels::amx

namespace hyc::kernels {

template <typename C>
void gemmByAmx(const GemmDesc &d, const Bf16 *a, const Bf16 *b, const Bf16 *bias, C *c, float *memory) {
  using namespace amx;
  const bool isTeam = TileWorkspace::isWorthATeam(d);
  const TileWorkspace plan(d, isTeam ? omp_get_max_threads() : 1, sizeof(C) == sizeof(float));
  float *partial = memory + plan.threads * plan.aWords;
  const Scratch scratch = {reinterpret_cast<uint32_t *>(partial + plan.partialWords),
                           reinterpret_cast<uint32_t *>(memory), plan.aWords, plan.threads,
                           plan.partialWords > 0 ? partial : nullptr};
  for (int64_t batch = 0; batch < d.batch; ++batch) {
    const int64_t lda = d.rowStrideA(), ldb = d.rowStrideB();
    const Source aSource = {a + batch * d.strideA, d.transA ? 1 : lda, d.transA ? lda : 1, d.m, d.k};
    const Source bSource = {b + batch * d.strideB, d.transB ? ldb : 1, d.transB ? 1 : ldb, d.n, d.k};
    runTeam(isTeam, [&] { multiplyTeam(d, aSource, bSource, bias, c + batch * d.strideC, scratch); });
  }
}

template void gemmByAmx<float>(const GemmDesc &, const Bf16 *, const Bf16 *, const Bf16 *, float *, float *);
template void gemmByAmx<Bf16>(const GemmDesc &, const Bf16 *, const Bf16 *, const Bf16 *, Bf16 *, float *);

}  // namespace hyc::kernels
