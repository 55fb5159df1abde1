// How fast the kernels are, as ratios within one run: products against the vendor library's rate for the same shape,
// attention against the product's rate, element-wise kernels against the memory's bandwidth.
//
//   kernels_bench [repetitions] [gemm|attention|memory|reductions|cross_entropy]      threads as OMP_NUM_THREADS says
#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "kernels/adamw/op.h"
#include "kernels/attention/op.h"
#include "kernels/copy/op.h"
#include "kernels/cross_entropy/op.h"
#include "kernels/embedding/op.h"
#include "kernels/exact_sum/op.h"
#include "kernels/gemm/op.h"
#include "kernels/isa/dispatch.h"
#include "kernels/layer_norm/op.h"
#include "kernels/math/math.h"
#include "kernels/permute/op.h"
#include "kernels/reduce/loops.h"
#include "kernels/sum_of_squares/op.h"

namespace hyc::kernels {
namespace {

using Floats = std::vector<float>;
using Work = std::function<void()>;

int repetitions = 10;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The best time of each, taken in turns, so that a busy machine slows all of them alike.
std::vector<double> bestTimes(const std::vector<Work> &works, int rounds = repetitions) {
  std::vector<double> best(works.size(), 1e30);
  for (int i = 0; i <= rounds; ++i)
    for (size_t w = 0; w < works.size(); ++w) {
      const double start = seconds();
      works[w]();
      if (i > 0) best[w] = std::min(best[w], seconds() - start);
    }
  return best;
}

Floats someFloats(int64_t n) {
  Floats x(n);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(i * 2654435761u % 1000) * 1e-3f - 0.5f;
  return x;
}

struct Shape {
  const char *name;
  int64_t m, n, k;
  bool transA, transB;
};

// GPT-2 124M, sequence 1,024, one sample; then a shard, a small model, and products of few rows.
constexpr Shape kShapes[] = {
    {"qkv forward", 1024, 2304, 768, false, false},
    {"projection forward", 1024, 768, 768, false, false},
    {"mlp up forward", 1024, 3072, 768, false, false},
    {"mlp down forward", 1024, 768, 3072, false, false},
    {"mlp up input grad", 1024, 768, 3072, false, true},
    {"mlp up weight grad", 768, 3072, 1024, true, false},
    {"logits forward", 1024, 50304, 768, false, true},
    {"short mlp up", 128, 3072, 768, false, false},
    {"tiny qkv", 128, 192, 64, false, false},
    // Few rows: steps of a recurrent layer, and tokens one by one.
    {"lstm step", 2, 256, 64, false, true},
    {"lstm step grad", 2, 64, 256, false, false},
    {"lstm step, 32 x 512", 32, 2048, 512, false, true},
    {"one token's logits", 1, 50304, 768, false, true},
    {"8 tokens, mlp up", 8, 3072, 768, false, false},
    {"8 tokens, mlp down", 8, 768, 3072, false, false},
};

void benchGemm() {
  std::printf("gemm, GFLOP/s                        vendor      own   ratio   packed   ratio\n");
  for (const Shape &s : kShapes) {
    GemmDesc d;
    d.m = s.m;
    d.n = s.n;
    d.k = s.k;
    d.transA = s.transA;
    d.transB = s.transB;
    const Floats a = someFloats(s.m * s.k), b = someFloats(s.k * s.n);
    Floats c(s.m * s.n), packed(packedWeightBytes(d) / sizeof(float));
    packWeight(d, b.data(), packed.data());
    const std::vector<double> t =
        bestTimes({[&] {
                     dnnl_sgemm(s.transA ? 'T' : 'N', s.transB ? 'T' : 'N', s.m, s.n, s.k, 1, a.data(), d.rowStrideA(),
                                b.data(), d.rowStrideB(), 0, c.data(), s.n);
                   },
                   [&] { gemm(d, a.data(), b.data(), nullptr, c.data()); },
                   [&] { gemmPacked(d, a.data(), packed.data(), nullptr, c.data()); }});
    const double flops = 2e-9 * s.m * s.n * s.k;
    std::printf("  %-20s %5ld %5ld %5ld %7.1f %8.1f %7.2f %8.1f %7.2f\n", s.name, long(s.m), long(s.n), long(s.k),
                flops / t[0], flops / t[1], t[0] / t[1], flops / t[2], t[0] / t[2]);
  }
}

void benchAttention(int64_t batch, int64_t length, int64_t heads, int64_t headDim) {
  AttentionDesc d;
  d.batch = batch;
  d.queryLength = d.keyLength = length;
  d.heads = d.kvHeads = heads;
  d.headDim = headDim;
  d.causal = true;
  d.scale = 0.125;
  d.q = d.k = d.v = d.dq = d.dk = d.dv = fusedQkvStrides(length, heads, headDim);
  d.o = d.dO = denseHeadStrides(length, heads, headDim);
  const int64_t width = heads * headDim, n = batch * length * width;
  const Floats qkv = someFloats(3 * n), dO = someFloats(n);
  Floats o(n), lse(batch * heads * length), dqkv(3 * n);
  GemmDesc g;
  g.m = 1024;
  g.n = 3072;
  g.k = 768;
  const Floats a = someFloats(g.m * g.k), b = someFloats(g.k * g.n);
  Floats c(g.m * g.n);
  const float *q = qkv.data();
  float *dq = dqkv.data();
  const std::vector<double> t =
      bestTimes({[&] { gemm(g, a.data(), b.data(), nullptr, c.data()); },
                 [&] { attentionForward(d, q, q + width, q + 2 * width, o.data(), lse.data()); },
                 [&] {
                   attentionBackward(d, q, q + width, q + 2 * width, o.data(), lse.data(), dO.data(), dq, dq + width,
                                     dq + 2 * width);
                 }});
  const double gemmRate = 2e-9 * g.m * g.n * g.k / t[0];
  const double flops = 2e-9 * batch * heads * length * length * headDim;  // two products, half of each masked
  std::printf(
      "attention B %ld S %ld H %ld D %ld: gemm %.1f GFLOP/s; forward %.1f (%.2f of gemm), backward %.1f (%.2f), "
      "both %.2f\n",
      long(batch), long(length), long(heads), long(headDim), gemmRate, flops / t[1], flops / t[1] / gemmRate,
      2.5 * flops / t[2], 2.5 * flops / t[2] / gemmRate, 3.5 * flops / (t[1] + t[2]) / gemmRate);
}

void triad(int64_t n, float *a, const float *b, const float *c) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; ++i) a[i] = b[i] + 3.0f * c[i];
}

void gelu(int64_t n, const float *x, float *y) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; ++i)
    y[i] = 0.5f * x[i] * (1.0f + math::tanh(0.797884561f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}

void printBandwidth(const char *name, double bytes, double time, double triadRate) {
  std::printf("  %-34s %7.1f GB/s  %5.2f of triad\n", name, bytes / time * 1e-9, bytes / time * 1e-9 / triadRate);
}

void benchMemory() {
  const int64_t n = 1 << 24, rows = 8192, cols = 2048;
  Floats a = someFloats(n), b = someFloats(n), c = someFloats(n), d = someFloats(n), small(2 * rows + 4 * cols);
  for (float &value : d) value = value * value;
  Floats workspace(layerNormBackwardWorkspaceBytes({rows, cols, 1e-5}) / sizeof(float));
  const LayerNormDesc norm = {rows, cols, 1e-5};
  float *mean = small.data(), *rstd = mean + rows, *scale = rstd + rows, *bias = scale + cols, *dscale = bias + cols;
  const int64_t shape[] = {rows, cols};
  const int perm[] = {1, 0};
  int64_t sum[kExactSumLimbs] = {};
  const std::vector<double> t = bestTimes({
      [&] { triad(n, a.data(), b.data(), c.data()); },
      [&] { adamw(AdamWParams{}, n, a.data(), b.data(), c.data(), d.data()); },
      [&] { gelu(n, b.data(), a.data()); },
      [&] { sumOfSquares(b.data(), n, sum, WriteMode::kAccumulate); },
      [&] { copy(a.data(), b.data(), n); },
      [&] { zero(a.data(), n); },
      [&] { permute(2, shape, perm, b.data(), a.data()); },
      [&] { layerNormForward(norm, b.data(), scale, bias, a.data(), mean, rstd); },
      [&] {
        layerNormBackward(norm, b.data(), scale, mean, rstd, d.data(), a.data(), dscale, dscale + cols,
                          WriteMode::kOverwrite, workspace.data());
      },
  });
  const double bytes = 4.0 * n, triadRate = 3 * bytes / t[0] * 1e-9;
  std::printf("memory, %ld MiB a tensor; triad %.1f GB/s\n", long(n >> 18), triadRate);
  const char *names[] = {"adamw (7 streams)", "gelu (2)",      "sum of squares (1)",     "copy (2)",
                         "zero (1)",          "transpose (2)", "layer norm forward (2)", "layer norm backward (3)"};
  const double streams[] = {7, 2, 1, 2, 1, 2, 2, 3};
  for (int i = 0; i < 8; ++i) printBandwidth(names[i], streams[i] * bytes, t[i + 1], triadRate);
  if (sum[0] == 1) std::printf("\n");  // keeps the sums alive
}

// The fastest that memory is read: sums that no order binds.
float readAll(int64_t n, const float *x) {
  float sum = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

void add(int64_t n, const float *x, const float *y, float *sum) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; ++i) sum[i] = x[i] + y[i];
}

inline float geluGradOf(float dy, float x) {
  const float t = math::tanh(0.797884561f * (x + 0.044715f * x * x * x));
  return dy * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * (0.797884561f * (1.0f + 0.134145f * x * x)));
}

void geluGrad(int64_t n, const float *dy, const float *x, float *dx) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; ++i) dx[i] = geluGradOf(dy[i], x[i]);
}

// Reductions as generated kernels have them; each against what reads and writes the same memory without summing.
// Tensors of 64 MiB lie in memory; those of 4 MiB beyond the second cache, and so quickly done that a busy machine does
// not matter.
void benchReductions(int64_t rows, int64_t cols) {
  const int64_t n = rows * cols;
  const ReduceSpace columns = {1, rows, cols};
  const Floats a = someFloats(n), b = someFloats(n);
  Floats c(n), out(std::max(rows, cols));
  const float *x = a.data(), *y = b.data();
  float *z = c.data(), *sums = out.data();
  const auto keepColumn = [=](int64_t, int64_t j, float sum) { sums[j] = sum; };
  const auto keepRow = [=](int64_t i, float sum) { sums[i] = sum; };
  volatile float sink = 0;
  const std::vector<double> t = bestTimes(
      {
          [&] { sink = readAll(n, x); },
          [&] {
            reduceColumns<Sum<float>>(
                columns, [=](int64_t, int64_t i, int64_t j, float &sum) { sum = sum + x[i * cols + j]; }, keepColumn);
          },
          [&] {
            reduceRows<Sum<float>>(
                {rows, 1, cols}, [=](int64_t i, int64_t, int64_t j, float &sum) { sum = sum + x[i * cols + j]; },
                keepRow);
          },
          [&] {
            reduceRows<Max<float>>(
                {rows, 1, cols},
                [=](int64_t i, int64_t, int64_t j, float &max) { max = Max<float>::combine(max, x[i * cols + j]); },
                keepRow);
          },
          [&] { add(n, x, y, z); },
          [&] {
            reduceColumns<Sum<float>>(
                columns,
                [=](int64_t, int64_t i, int64_t j, float &sum) {
                  const float value = x[i * cols + j] + y[i * cols + j];
                  z[i * cols + j] = value;
                  sum = sum + value;
                },
                keepColumn);
          },
          [&] { geluGrad(n, x, y, z); },
          [&] {
            reduceColumns<Sum<float>>(
                columns,
                [=](int64_t, int64_t i, int64_t j, float &sum) {
                  const float value = geluGradOf(x[i * cols + j], y[i * cols + j]);
                  z[i * cols + j] = value;
                  sum = sum + value;
                },
                keepColumn);
          },
      },
      n > 1 << 22 ? repetitions : 30 * repetitions);
  std::printf("reductions of %ld x %ld; read %.1f GB/s, add %.1f GB/s\n", long(rows), long(cols), 4e-9 * n / t[0],
              12e-9 * n / t[4]);
  std::printf(
      "  column sum %.2f, row sum %.2f, row max %.2f of read; with column sum: add %.2f of add, gelu gradient "
      "%.2f of gelu gradient\n",
      t[0] / t[1], t[0] / t[2], t[0] / t[3], t[4] / t[5], t[6] / t[7]);
}

void benchCrossEntropy() {
  CrossEntropyDesc d;
  d.tokens = 512;
  d.localVocab = 50257;
  d.ld = 50304;
  const Floats logits = someFloats(d.tokens * d.ld), b = someFloats(d.tokens * d.ld);
  Floats dlogits(logits.size()), c(logits.size()), lse(d.tokens), picked(d.tokens);
  std::vector<int64_t> labels(d.tokens, 77);
  float lossSum;
  int64_t count;
  const std::vector<double> t = bestTimes(
      {[&] { triad(c.size(), c.data(), logits.data(), b.data()); },
       [&] { crossEntropyForward(d, logits.data(), labels.data(), lse.data(), picked.data(), &lossSum, &count); },
       [&] { crossEntropyGrad(d, logits.data(), labels.data(), lse.data(), 1.0f, dlogits.data()); }});
  const double bytes = 4.0 * d.tokens * d.ld, triadRate = 3 * bytes / t[0] * 1e-9;
  printBandwidth("cross entropy forward (1)", bytes, t[1], triadRate);
  printBandwidth("cross entropy gradient (2)", 2 * bytes, t[2], triadRate);
}

}  // namespace
}  // namespace hyc::kernels

int main(int argc, char **argv) {
  using namespace hyc::kernels;
  if (argc > 1) repetitions = std::max(1, std::atoi(argv[1]));
  std::printf("%s, %d threads, best of %d\n", isaName(currentIsa()), omp_get_max_threads(), repetitions);
  const std::string only = argc > 2 ? argv[2] : "";
  const auto wants = [&](const char *name) { return only.empty() || only == name; };
  if (wants("gemm")) benchGemm();
  if (wants("attention")) {
    benchAttention(1, 1024, 12, 64);
    benchAttention(2, 64, 8, 8);
  }
  if (wants("memory")) benchMemory();
  if (wants("reductions"))
    for (int64_t elements : {1 << 20, 1 << 24})
      for (int64_t cols : {64, 768, 3072, 50304}) benchReductions(elements / cols, cols);
  if (wants("cross_entropy")) benchCrossEntropy();
  return 0;
}
