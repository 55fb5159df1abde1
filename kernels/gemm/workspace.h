// What a product's scratch memory is made of. Every size follows from the shape and the number of threads, so that a
// compiler may reserve it in an arena; the parts that all threads fill to their ends come last.
#ifndef HYC_KERNELS_GEMM_WORKSPACE_H_
#define HYC_KERNELS_GEMM_WORKSPACE_H_

#include <algorithm>

#include "kernels/gemm/op.h"

namespace hyc::kernels {

// ---------------------------------------------------------------------------------------------------- tiles, of bf16

// Packed rows of A for each thread, sums between runs of k where C has no room for them, and packed columns of B; in
// words of 4 bytes.
struct TileWorkspace {
  int64_t threads = 1;
  int64_t aWords = 0;        // of one thread
  int64_t partialWords = 0;  // [m, kColumnBlock]; 0: C itself, or k is a single run
  int64_t bWords = 0;

  static constexpr int64_t kBlock = 32;  // rows of A, columns of B, elements of k: two tiles
  static constexpr int64_t kStepWords = kBlock * kBlock / 2;
  static constexpr int64_t kColumnBlock = 1536;
  static constexpr int64_t kRowBlockBytes = 512 << 10;  // of packed A: it stays in the second-level cache

  static constexpr int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
  // Below some 10 µs of work a second thread costs more than it brings.
  static constexpr bool isWorthATeam(const GemmDesc &d) { return 2.0 * d.m * d.n * d.k >= 4e6; }
  static constexpr int64_t stepsOf(const GemmDesc &d) { return ceilDiv(std::min(kGemmNarrowRun, d.k), kBlock); }
  // Rows of A that one thread packs at a time.
  static constexpr int64_t rowsPerJob(int64_t m, int64_t steps, int64_t threads) {
    const int64_t fitting = kRowBlockBytes / (steps * kBlock * 2) / kBlock * kBlock;
    const int64_t wanted = ceilDiv(ceilDiv(m, threads * 2), kBlock) * kBlock;
    return std::min(wanted, std::max(fitting, kBlock));
  }

  // For a team of exactly so many threads.
  constexpr TileWorkspace(const GemmDesc &d, int64_t threads, bool intoF32)
      : threads(threads),
        aWords(rowsPerJob(d.m, stepsOf(d), threads) / kBlock * stepsOf(d) * kStepWords),
        partialWords(!intoF32 && d.k > kGemmNarrowRun ? d.m * kColumnBlock : 0),
        bWords(ceilDiv(std::min(kColumnBlock, d.n), kBlock) * stepsOf(d) * kStepWords) {}

  constexpr int64_t bytes() const { return (threads * aWords + partialWords + bWords) * 4; }

  // For any team of at most so many: fewer threads pack more rows each.
  static constexpr int64_t mostBytes(const GemmDesc &d, int64_t threads, bool intoF32) {
    int64_t most = TileWorkspace(d, 1, intoF32).bytes();
    for (int64_t t = 2; isWorthATeam(d) && t <= threads; ++t)
      most = std::max(most, TileWorkspace(d, t, intoF32).bytes());
    return most;
  }
};

// ---------------------------------------------------------------------------------------------------------- widening

// The f32 product's scratch memory, and blocks of A, B, the bias and C as f32; in floats.
struct WideningWorkspace {
  int64_t inner = 0, a = 0, b = 0, bias = 0, c = 0;

  // A multiple of kGemmRun deep, so that the f32 product's runs are the same as those of a product that is widened
  // whole.
  static constexpr int64_t kRows = 512, kColumns = 1536, kDepth = 4 * kGemmRun;

  static constexpr GemmDesc block(const GemmDesc &d) {
    GemmDesc block;
    block.m = std::min(kRows, d.m), block.n = std::min(kColumns, d.n), block.k = std::min(kDepth, d.k);
    return block;
  }

  constexpr WideningWorkspace(const GemmDesc &d, int64_t threads) {
    const GemmDesc most = block(d);
    const auto wholeLines = [](int64_t floats) { return (floats + 15) / 16 * 16; };
    inner = static_cast<int64_t>(gemmWorkspaceBytes(most, static_cast<int>(threads))) / 4;
    a = wholeLines(most.m * most.k), b = wholeLines(most.k * most.n);
    bias = d.hasBias ? wholeLines(most.n) : 0;
    c = most.m * most.n;
  }

  constexpr int64_t bytes() const { return (inner + a + b + bias + c) * 4; }
};

// ------------------------------------------------------------------------------------------------------------ public

// Scratch memory of a product of T into C for at most `threads` threads, on every CPU: which way bf16 takes is known
// when the program runs.
template <typename T, typename C>
constexpr size_t gemmNarrowWorkspaceBytes(const GemmDesc &d, int threads) {
  const int64_t widening = WideningWorkspace(d, threads).bytes();
  if (sizeof(T) != 2 || std::is_same_v<T, F16>) return static_cast<size_t>(widening);
  return static_cast<size_t>(std::max(widening, TileWorkspace::mostBytes(d, threads, sizeof(C) == sizeof(float))));
}

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_GEMM_WORKSPACE_H_
