// A device that is the host has no instructions for 8-bit floats: products are widened, as on GPUs before Ada Lovelace.
#include "kernels/gemm/cuda_fp8.h"

namespace hyc::kernels::cuda {

bool float8IsNative(const Float8Product &, const void *, const void *, const void *) { return false; }
bool multiplyFloat8(Stream, const Float8Product &, const void *, const void *, void *, void *) { return false; }

} // namespace hyc::kernels::cuda
