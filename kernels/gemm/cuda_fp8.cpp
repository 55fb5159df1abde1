// Products of 8-bit floats by cuBLASLt, which is column-major (cuda.cpp): a row-major C = A · Bᵀ is the column-major
// Cᵀ = Bᵀᵀ · Aᵀ, so B is its first operand, transposed, and A its second, not. That is the one layout that it has for
// these types. Scales stay 1: the program scales by powers of two, before and after.
#include "kernels/gemm/cuda_fp8.h"

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <map>
#include <tuple>

namespace hyc::kernels::cuda {
namespace {

struct Prepared {
  bool isNative = false;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, result = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

using Key = std::tuple<Float8Kind, Float8Kind, bool, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                       int64_t, int64_t, int64_t, bool, bool>;

cublasLtHandle_t handle() {
  static const cublasLtHandle_t handle = [] {
    cublasLtHandle_t made = nullptr;
    return cublasLtCreate(&made) == CUBLAS_STATUS_SUCCESS ? made : nullptr;
  }();
  return handle;
}

// Whether the current device has instructions for these types: Ada Lovelace, Hopper and what follows.
bool deviceMultipliesFloat8() {
  static const bool does = [] {
    int device = 0, major = 0, minor = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess)
      return false;
    return major * 10 + minor >= 89;
  }();
  return does;
}

bool isAligned(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

cudaDataType_t typeOf(Float8Kind kind) { return kind == Float8Kind::kE4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2; }

cublasLtMatrixLayout_t makeLayout(cudaDataType_t type, int64_t rows, int64_t columns, int64_t leading,
                                  const GemmDesc &d, int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  if (cublasLtMatrixLayoutCreate(&layout, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), leading) !=
      CUBLAS_STATUS_SUCCESS)
    return nullptr;
  const int32_t count = static_cast<int32_t>(d.batch);
  cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
  cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
  return layout;
}

Prepared prepare(const Float8Product &product) {
  const GemmDesc &d = product.desc;
  Prepared made;
  if (cublasLtMatmulDescCreate(&made.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F) != CUBLAS_STATUS_SUCCESS) return {};
  const cublasOperation_t transposed = CUBLAS_OP_T, plain = CUBLAS_OP_N;
  cublasLtMatmulDescSetAttribute(made.operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
  cublasLtMatmulDescSetAttribute(made.operation, CUBLASLT_MATMUL_DESC_TRANSB, &plain, sizeof plain);
  const cudaDataType_t out = product.intoF32 ? CUDA_R_32F : CUDA_R_16BF;
  made.first = makeLayout(typeOf(product.b), d.k, d.n, d.rowStrideB(), d, d.strideB);
  made.second = makeLayout(typeOf(product.a), d.k, d.m, d.rowStrideA(), d, d.strideA);
  made.result = makeLayout(out, d.n, d.m, d.rowStrideC(), d, d.strideC);
  cublasLtMatmulPreference_t preference = nullptr;
  if (!made.first || !made.second || !made.result ||
      cublasLtMatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS)
    return {};
  const uint64_t most = static_cast<uint64_t>(kGemmWorkspaceBytes);
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
  // Parts of a sum are added up in f32, whatever the result is rounded to in the end.
  const uint32_t schemes =
      static_cast<uint32_t>(product.intoF32 ? int{CUBLASLT_REDUCTION_SCHEME_MASK}
                                            : CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                                       sizeof schemes);
  const uint32_t alignment = 16;
  for (cublasLtMatmulPreferenceAttributes_t operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    cublasLtMatmulPreferenceSetAttribute(preference, operand, &alignment, sizeof alignment);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle(), made.operation, made.first, made.second,
                                                               made.result, made.result, preference, 1, &found, &count);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0 || found.state != CUBLAS_STATUS_SUCCESS) return {};
  made.algorithm = found.algo;
  made.isNative = true;
  return made;
}

// Those that the library cannot take are not even asked for.
bool mayBeNative(const Float8Product &product) {
  const GemmDesc &d = product.desc;
  const int64_t bytes = product.intoF32 ? 4 : 2;
  return d.k % 16 == 0 && d.n % 16 == 0 && d.m % 16 == 0 && d.rowStrideA() % 16 == 0 && d.rowStrideB() % 16 == 0 &&
         d.rowStrideC() * bytes % 16 == 0 && d.strideA % 16 == 0 && d.strideB % 16 == 0 &&
         d.strideC * bytes % 16 == 0 && !(product.a == Float8Kind::kE5m2 && product.b == Float8Kind::kE5m2);
}

const Prepared &preparedOf(const Float8Product &product) {
  static std::map<Key, Prepared> known;
  const GemmDesc &d = product.desc;
  const Key key{product.a,      product.b,      product.intoF32, d.m,     d.n,       d.k,
                d.rowStrideA(), d.rowStrideB(), d.rowStrideC(),  d.batch, d.strideA, d.strideB,
                d.strideC,      d.beta != 0,    d.alpha != 1};
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  const bool asks = mayBeNative(product) && deviceMultipliesFloat8() && handle();
  return known.emplace(key, asks ? prepare(product) : Prepared{}).first->second;
}

}  // namespace

bool float8IsNative(const Float8Product &product, const void *a, const void *b, const void *c) {
  return isAligned(a) && isAligned(b) && isAligned(c) && preparedOf(product).isNative;
}

bool multiplyFloat8(Stream stream, const Float8Product &product, const void *a, const void *b, void *c,
                    void *workspace) {
  const Prepared &made = preparedOf(product);
  const float alpha = static_cast<float>(product.desc.alpha), beta = static_cast<float>(product.desc.beta);
  return made.isNative && cublasLtMatmul(handle(), made.operation, &alpha, b, made.first, a, made.second, &beta, c,
                                         made.result, c, made.result, &made.algorithm, workspace,
                                         static_cast<size_t>(kGemmWorkspaceBytes), stream) == CUBLAS_STATUS_SUCCESS;
}

}  // namespace hyc::kernels::cuda
