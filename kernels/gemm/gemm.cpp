// The public matrix product: empty shapes, and scratch memory where the caller brings none.
#include <omp.h>

#include <memory>

#include "kernels/gemm/cpu.h"

namespace hyc::kernels {

static float *ownScratch(size_t bytes) {
  thread_local std::unique_ptr<float[]> scratch;
  thread_local size_t size = 0;
  if (bytes > size) {
    scratch.reset(new float[bytes / sizeof(float)]);
    size = bytes;
  }
  return scratch.get();
}

static void scaleAndAddBias(const GemmDesc &d, const float *bias, float *c) {
  for (int64_t batch = 0; batch < d.batch; ++batch)
    for (int64_t i = 0; i < d.m; ++i) {
      float *row = c + batch * d.strideC + i * d.rowStrideC();
      for (int64_t j = 0; j < d.n; ++j) {
        const float value = d.hasBias ? bias[j] : 0.0f;
        row[j] = d.beta != 0 ? value + row[j] : value;
      }
    }
}

static void multiply(const GemmDesc &d, const float *a, const float *b, const float *packed, const float *bias,
                     float *c, void *workspace) {
  if (d.m <= 0 || d.n <= 0 || d.batch <= 0) return;
  if (d.k <= 0) return scaleAndAddBias(d, bias, c);
  float *scratch = static_cast<float *>(workspace);
  if (!scratch) scratch = ownScratch(gemmWorkspaceBytes(d, omp_get_max_threads()));
  gemmWithScratch(d, a, b, packed, bias, c, scratch);
}

void gemm(const GemmDesc &d, const float *a, const float *b, const float *bias, float *c, void *workspace) {
  multiply(d, a, b, nullptr, bias, c, workspace);
}

void gemmPacked(const GemmDesc &d, const float *a, const float *packed, const float *bias, float *c, void *workspace) {
  multiply(d, a, nullptr, packed, bias, c, workspace);
}

}  // namespace hyc::kernels
