// Products on a device that is the host: cuBLASLt has no such device, so the CPU's kernels do them.
#include "kernels/gemm/cuda.h"

namespace hyc::kernels::cuda {

const char *gemmFailure() { return nullptr; }

void gemm(Stream, const GemmDesc &d, const float *a, const float *b, const float *bias, float *c, void *) {
  kernels::gemm(d, a, b, bias, c);
}
void gemm(Stream, const GemmDesc &d, const Bf16 *a, const Bf16 *b, const Bf16 *bias, Bf16 *c, void *) {
  kernels::gemm(d, a, b, bias, c);
}
void gemm(Stream, const GemmDesc &d, const Bf16 *a, const Bf16 *b, const Bf16 *bias, float *c, void *) {
  kernels::gemm(d, a, b, bias, c);
}
void gemm(Stream, const GemmDesc &d, const F16 *a, const F16 *b, const F16 *bias, F16 *c, void *) {
  kernels::gemm(d, a, b, bias, c);
}
void gemm(Stream, const GemmDesc &d, const F16 *a, const F16 *b, const F16 *bias, float *c, void *) {
  kernels::gemm(d, a, b, bias, c);
}

} // namespace hyc::kernels::cuda
