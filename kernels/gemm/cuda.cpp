// Products by cuBLASLt, which is column-major: a row-major C = op(A) · op(B) is the column-major Cᵀ = op(B)ᵀ · op(A)ᵀ,
// so B is its first operand and A its second.
#include "kernels/gemm/cuda.h"

#include <cublasLt.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>

#include "kernels/gemm/cuda_bias.h"

namespace hyc::kernels::cuda {
namespace {

template <typename T>
constexpr cudaDataType_t kType = CUDA_R_32F;
template <>
constexpr cudaDataType_t kType<Bf16> = CUDA_R_16BF;
template <>
constexpr cudaDataType_t kType<F16> = CUDA_R_16F;

struct Types {
  cudaDataType_t in, out;
};

// All that an algorithm depends on. Alignments: powers of two, up to 256; whether a bias is one for an epilogue.
using Key = std::tuple<int, int, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, bool, bool, int64_t, int64_t,
                       int64_t, int64_t, bool, bool, bool, bool, uint32_t>;

struct Product {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, result = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  bool addsBias = false;  // by its epilogue
};

std::string failure;
bool tf32 = false;

bool check(cublasStatus_t status, const GemmDesc &d, const char *what) {
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  if (failure.empty())
    failure = std::string("cuBLASLt: ") + what + " of a product " + std::to_string(d.m) + " × " + std::to_string(d.n) +
              " × " + std::to_string(d.k) + ": " + cublasLtGetStatusString(status);
  return false;
}

cublasLtHandle_t handle() {
  static const cublasLtHandle_t handle = [] {
    cublasLtHandle_t made = nullptr;
    check(cublasLtCreate(&made), {}, "cannot be set up, in front");
    return made;
  }();
  return handle;
}

uint32_t alignmentOf(const void *pointer) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer) | 256;
  return static_cast<uint32_t>(address & (~address + 1));
}

cublasLtMatrixLayout_t makeLayout(cudaDataType_t type, int64_t rows, int64_t columns, int64_t leading, int64_t batch,
                                  int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtMatrixLayoutCreate(&layout, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), leading);
  const int32_t count = static_cast<int32_t>(batch);
  cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
  cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
  return layout;
}

template <typename Value>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, Value value) {
  cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value);
}

struct Pointers {
  const void *a, *b, *bias;
  void *c, *workspace;

  // An epilogue reads 16 bytes of the bias at once.
  bool hasAlignedBias() const { return alignmentOf(bias) >= 16; }
};

// Asks the library for its best algorithm; with the bias in its epilogue if it has one so. Parts of k may be summed by
// themselves if in f32: added up in a 16-bit result, each would be rounded (but for the rest of splitOf, of under
// eight).
bool choose(Product &product, const GemmDesc &d, const Types &types, const Pointers &p, bool addsBias) {
  product.addsBias = addsBias;
  if (addsBias) {
    set(product.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(product.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, types.in);
    set(product.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  }
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulPreferenceCreate(&preference);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value);
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kGemmWorkspaceBytes));
  const int inF32 = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<uint32_t>(types.out == CUDA_R_32F ? int{CUBLASLT_REDUCTION_SCHEME_MASK} : inF32));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignmentOf(p.b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignmentOf(p.a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignmentOf(p.c));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignmentOf(p.c));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle(), product.operation, product.first, product.second, product.result,
                                     product.result, preference, 1, &found, &count);
  cublasLtMatmulPreferenceDestroy(preference);
  const bool isFound = status == CUBLAS_STATUS_SUCCESS && count > 0 && found.state == CUBLAS_STATUS_SUCCESS;
  if (addsBias && !isFound) return false;
  if (!isFound)
    return check(status == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED : status, d, "no algorithm was found");
  product.algorithm = found.algo;
  return true;
}

std::optional<Product> describe(const GemmDesc &d, const Types &types) {
  Product product;
  const bool usesTf32 = types.in == CUDA_R_32F && tf32;
  const cublasComputeType_t compute = usesTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  if (!check(cublasLtMatmulDescCreate(&product.operation, compute, CUDA_R_32F), d, "the description"))
    return std::nullopt;
  set(product.operation, CUBLASLT_MATMUL_DESC_TRANSA, d.transB ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product.operation, CUBLASLT_MATMUL_DESC_TRANSB, d.transA ? CUBLAS_OP_T : CUBLAS_OP_N);
  product.first = makeLayout(types.in, d.transB ? d.k : d.n, d.transB ? d.n : d.k, d.rowStrideB(), d.batch, d.strideB);
  product.second = makeLayout(types.in, d.transA ? d.m : d.k, d.transA ? d.k : d.m, d.rowStrideA(), d.batch, d.strideA);
  product.result = makeLayout(types.out, d.n, d.m, d.rowStrideC(), d.batch, d.strideC);
  return product;
}

void destroy(Product &product) {
  for (cublasLtMatrixLayout_t layout : {product.first, product.second, product.result})
    cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulDescDestroy(product.operation);
}

std::optional<Product> prepare(const GemmDesc &d, const Types &types, const Pointers &p) {
  for (const bool addsBias : {true, false}) {
    if (addsBias && !(d.hasBias && p.hasAlignedBias())) continue;
    std::optional<Product> product = describe(d, types);
    if (!product) return std::nullopt;
    if (choose(*product, d, types, p, addsBias)) return product;
    destroy(*product);
  }
  return std::nullopt;
}

Product *productOf(const GemmDesc &d, const Types &types, const Pointers &p) {
  static std::map<Key, Product> known;
  const uint32_t alignments = alignmentOf(p.a) << 20 | alignmentOf(p.b) << 10 | alignmentOf(p.c);
  const bool isBiasAligned = d.hasBias && p.hasAlignedBias();
  const Key key{types.in,       types.out,   d.m,           d.n,     d.k,       d.rowStrideA(), d.rowStrideB(),
                d.rowStrideC(), d.transA,    d.transB,      d.batch, d.strideA, d.strideB,      d.strideC,
                d.hasBias,      d.beta != 0, isBiasAligned, tf32,    alignments};
  const auto found = known.find(key);
  if (found != known.end()) return &found->second;
  std::optional<Product> made = prepare(d, types, p);
  return made ? &known.emplace(key, *made).first->second : nullptr;
}

// How many of `count` elements along memory make whole packs of 16 bytes of a 16-bit type, where that leaves a rest and
// is most of them; else all.
int64_t inWholePacks(int64_t count) {
  constexpr int64_t kPack = 8;
  return count % kPack == 0 || count < 8 * kPack ? count : count / kPack * kPack;
}

// A product of 16-bit types as two, the first of which is all but all of it and takes the library's fast algorithms:
// those move packs of 16 bytes along memory, and where a row ends within one (a vocabulary of 50257), the library falls
// back to others, several times slower, though rows begin at multiples of 16 bytes. The rest is under a pack long.
struct Split {
  int64_t GemmDesc::*size = nullptr;  // m, n or k; null: the product stays whole
  int64_t most = 0;
};

// `mayAdd`: whether what is left of k may be rounded to C's type before the other part is added to it.
Split splitOf(const GemmDesc &d, const Pointers &p, int64_t resultBytes, bool mayAdd) {
  const auto isPacked = [&](const void *matrix, int64_t rowStride, int64_t stride, int64_t bytes) {
    return alignmentOf(matrix) >= 16 && rowStride * bytes % 16 == 0 && (d.batch == 1 || stride * bytes % 16 == 0);
  };
  const bool packedA = isPacked(p.a, d.rowStrideA(), d.strideA, 2),
             packedB = isPacked(p.b, d.rowStrideB(), d.strideB, 2);
  const bool packedC = isPacked(p.c, d.rowStrideC(), d.strideC, resultBytes);
  if (packedC && (d.transB || packedB) && inWholePacks(d.n) < d.n) return {&GemmDesc::n, inWholePacks(d.n)};
  if (d.transA && packedA && inWholePacks(d.m) < d.m) return {&GemmDesc::m, inWholePacks(d.m)};
  const bool lies = !d.transA || d.transB;
  if (mayAdd && lies && (d.transA || packedA) && (!d.transB || packedB) && inWholePacks(d.k) < d.k)
    return {&GemmDesc::k, inWholePacks(d.k)};
  return {};
}

template <typename T, typename C>
void multiply(Stream stream, const GemmDesc &d, const T *a, const T *b, const T *bias, C *c, void *workspace) {
  if (d.m <= 0 || d.n <= 0 || d.batch <= 0 || !failure.empty()) return;
  if (d.k <= 0) return scaleAndAddBias(stream, d, d.hasBias ? bias : nullptr, c);
  const Pointers pointers{a, b, bias, c, workspace};
  // The greatest 16-bit float of IEEE's may be passed by a part of a sum that is below it.
  constexpr bool kMayAdd = !std::is_same_v<C, F16>;
  if (const Split split = sizeof(T) == 2 ? splitOf(d, pointers, sizeof(C), kMayAdd) : Split(); split.size) {
    // Strides stay those of the whole.
    GemmDesc first = d;
    first.lda = d.rowStrideA(), first.ldb = d.rowStrideB(), first.ldc = d.rowStrideC();
    GemmDesc rest = first;
    const int64_t at = split.most;
    first.*split.size = at;
    rest.*split.size = d.*split.size - at;
    const T *restOfA = a, *restOfB = b;
    if (split.size != &GemmDesc::n) restOfA += (split.size == &GemmDesc::k) != d.transA ? at : at * rest.lda;
    if (split.size != &GemmDesc::m) restOfB += (split.size == &GemmDesc::k) == d.transB ? at : at * rest.ldb;
    if (split.size == &GemmDesc::k) {
      // The short sum first: what rounding it to a 16-bit C loses is small beside the whole.
      rest.hasBias = false, first.beta = 1;
      multiply(stream, rest, restOfA, restOfB, bias, c, workspace);
      return multiply(stream, first, a, b, bias, c, workspace);
    }
    const bool isColumns = split.size == &GemmDesc::n;
    multiply(stream, first, a, b, bias, c, workspace);
    return multiply(stream, rest, restOfA, restOfB, isColumns && d.hasBias ? bias + at : bias,
                    c + (isColumns ? at : at * rest.ldc), workspace);
  }
  Product *product = productOf(d, {kType<T>, kType<C>}, pointers);
  if (!product) return;
  if (product->addsBias) set(product->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void *>(bias));
  const float alpha = static_cast<float>(d.alpha), beta = static_cast<float>(d.beta);
  check(cublasLtMatmul(handle(), product->operation, &alpha, b, product->first, a, product->second, &beta, c,
                       product->result, c, product->result, &product->algorithm, workspace,
                       static_cast<size_t>(kGemmWorkspaceBytes), stream),
        d, "the start");
  if (!d.hasBias || product->addsBias) return;
  GemmDesc rest = d;
  rest.beta = 1;
  scaleAndAddBias(stream, rest, bias, c);
}

}  // namespace

void allowTf32(bool isAllowed) { tf32 = isAllowed; }

const char *gemmFailure() { return failure.empty() ? nullptr : failure.c_str(); }
void forgetGemmFailure() { failure.clear(); }

void gemm(Stream stream, const GemmDesc &d, const float *a, const float *b, const float *bias, float *c, void *work) {
  multiply(stream, d, a, b, bias, c, work);
}
void gemm(Stream stream, const GemmDesc &d, const Bf16 *a, const Bf16 *b, const Bf16 *bias, Bf16 *c, void *work) {
  multiply(stream, d, a, b, bias, c, work);
}
void gemm(Stream stream, const GemmDesc &d, const Bf16 *a, const Bf16 *b, const Bf16 *bias, float *c, void *work) {
  multiply(stream, d, a, b, bias, c, work);
}
void gemm(Stream stream, const GemmDesc &d, const F16 *a, const F16 *b, const F16 *bias, F16 *c, void *work) {
  multiply(stream, d, a, b, bias, c, work);
}
void gemm(Stream stream, const GemmDesc &d, const F16 *a, const F16 *b, const F16 *bias, float *c, void *work) {
  multiply(stream, d, a, b, bias, c, work);
}

}  // namespace hyc::kernels::cuda
