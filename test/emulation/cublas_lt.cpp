// cuBLASLt on a device that is the host: products by the CPU's kernels, so that hyc's use of the library runs and is
// checked where there is none: sizes of attributes, shapes against operations, leading dimensions, alignments that an
// algorithm was chosen for. A product leaves rubbish in its workspace.
//
// Column-major d[m, n] = op(a)[m, k] · op(b)[k, n] is the row-major product d[n, m] = op(b)[n, k] · op(a)[k, m].
#include "cublasLt.h"

#include <algorithm>
#include <map>
#include <vector>

#include "kernels/gemm/op.h"

using namespace hyc::kernels;

struct cublasLtMatmulDescOpaque {
  cublasComputeType_t compute;
  cublasOperation_t transA = CUBLAS_OP_N, transB = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void *bias = nullptr;
  void *aux = nullptr;
  int64_t auxLeading = 0;
  int32_t biasType = -1; // that of d
};
struct cublasLtMatrixLayoutOpaque {
  cudaDataType_t type;
  int64_t rows, columns, leading;
  int32_t batch = 1;
  int64_t stride = 0;
};
struct cublasLtMatmulPreferenceOpaque {
  uint64_t workspaceBytes = 0;
  std::map<cublasLtMatmulPreferenceAttributes_t, uint32_t> alignments;
};

namespace {

template <typename T> cublasStatus_t assign(T &to, const void *value, size_t bytes) {
  if (bytes != sizeof(T))
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// What an algorithm was chosen for.
struct Choice {
  uint32_t alignmentA, alignmentB, alignmentC, alignmentD;
  uint64_t workspaceBytes;
};
static_assert(sizeof(Choice) <= sizeof(cublasLtMatmulAlgo_t));

bool isAligned(const void *pointer, uint32_t alignment) {
  return reinterpret_cast<uintptr_t>(pointer) % alignment == 0;
}

bool isFloat8(cudaDataType_t type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

bool hasBias(cublasLtEpilogue_t epilogue) { return epilogue & 4; }
bool isGelu(cublasLtEpilogue_t epilogue) { return epilogue & 32; }
bool isGeluGradient(cublasLtEpilogue_t epilogue) { return epilogue & 64; }

// Whether the shapes agree and the library has such a product: types and epilogues as in the table of cublasLtMatmul.
cublasStatus_t validate(const cublasLtMatmulDescOpaque &desc, const cublasLtMatrixLayoutOpaque &a,
                        const cublasLtMatrixLayoutOpaque &b, const cublasLtMatrixLayoutOpaque &d) {
  const int64_t m = desc.transA ? a.columns : a.rows, k = desc.transA ? a.rows : a.columns;
  const int64_t n = desc.transB ? b.rows : b.columns, kOfB = desc.transB ? b.columns : b.rows;
  const bool isShaped = k == kOfB && d.rows == m && d.columns == n && m > 0 && n > 0 && k > 0 && a.leading >= a.rows &&
                        b.leading >= b.rows && d.leading >= d.rows && a.batch == d.batch && b.batch == d.batch;
  if (!isShaped || (a.type != b.type && !(isFloat8(a.type) && isFloat8(b.type))))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (isFloat8(a.type)) {
    const auto isWhole = [](int64_t size) { return size % 16 == 0; };
    const bool isOfTheTable = desc.transA == CUBLAS_OP_T && desc.transB == CUBLAS_OP_N && isWhole(m) && isWhole(n) &&
                              isWhole(k) && isWhole(a.leading) && isWhole(b.leading) && isWhole(d.leading * 2) &&
                              !(a.type == CUDA_R_8F_E5M2 && b.type == CUDA_R_8F_E5M2) &&
                              (d.type == CUDA_R_16BF || d.type == CUDA_R_32F) &&
                              desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT && desc.compute == CUBLAS_COMPUTE_32F;
    return isOfTheTable ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (d.type != a.type && d.type != CUDA_R_32F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type != CUDA_R_32F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool isPlain = desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT;
  const bool isKnown = isPlain || hasBias(desc.epilogue) || isGelu(desc.epilogue) || isGeluGradient(desc.epilogue);
  if (!isKnown || (hasBias(desc.epilogue) && desc.biasType != -1 && desc.biasType != d.type))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if ((isGelu(desc.epilogue) || isGeluGradient(desc.epilogue)) &&
      (d.type == CUDA_R_32F || desc.auxLeading < d.rows || desc.auxLeading % 8 != 0))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T> std::vector<float> widened(const T *from, const cublasLtMatrixLayoutOpaque &layout) {
  const int64_t count = (layout.batch - 1) * layout.stride + (layout.columns - 1) * layout.leading + layout.rows;
  std::vector<float> to(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    to[static_cast<size_t>(i)] = static_cast<float>(from[i]);
  return to;
}

// To ten bits of fraction, the nearest, ties to even.
float roundedToTf32(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7f800000u) == 0x7f800000u)
    return x;
  bits = (bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// As the library's: with tanh.
constexpr double kGeluScale = 0.7978845608028654, kGeluCube = 0.044715; // sqrt(2 / pi)
double gelu(double x) { return 0.5 * x * (1 + std::tanh(kGeluScale * (x + kGeluCube * x * x * x))); }
double geluGradient(double x) {
  const double t = std::tanh(kGeluScale * (x + kGeluCube * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kGeluScale * (1 + 3 * kGeluCube * x * x);
}

struct Call {
  cublasLtMatmulDescOpaque desc;
  cublasLtMatrixLayoutOpaque a, b, d;
  float alpha, beta;
  const void *atA, *atB;
  void *atD;
};

GemmDesc rowMajor(const Call &call) {
  GemmDesc d;
  d.m = call.d.columns;
  d.n = call.d.rows;
  d.k = call.desc.transA ? call.a.rows : call.a.columns;
  d.lda = call.b.leading, d.ldb = call.a.leading, d.ldc = call.d.leading;
  d.transA = call.desc.transB == CUBLAS_OP_T, d.transB = call.desc.transA == CUBLAS_OP_T;
  d.batch = call.d.batch;
  d.strideA = call.b.stride, d.strideB = call.a.stride, d.strideC = call.d.stride;
  d.alpha = static_cast<double>(call.alpha), d.beta = static_cast<double>(call.beta);
  d.hasBias = hasBias(call.desc.epilogue);
  return d;
}

template <typename T> void multiplyWithGelu(const Call &call) {
  GemmDesc d = rowMajor(call);
  d.hasBias = false;
  std::vector<float> product(static_cast<size_t>((d.batch - 1) * d.strideC + d.m * d.rowStrideC()));
  gemm(d, static_cast<const T *>(call.atB), static_cast<const T *>(call.atA), nullptr, product.data());
  const T *const bias = hasBias(call.desc.epilogue) ? static_cast<const T *>(call.desc.bias) : nullptr;
  T *const aux = static_cast<T *>(call.desc.aux), *const to = static_cast<T *>(call.atD);
  for (int64_t i = 0; i < d.m; ++i) {
    for (int64_t j = 0; j < d.n; ++j) {
      float value = product[static_cast<size_t>(i * d.rowStrideC() + j)];
      if (bias)
        value += static_cast<float>(bias[j]);
      T &kept = aux[i * call.desc.auxLeading + j];
      if (isGelu(call.desc.epilogue)) {
        kept = T(value);
        to[i * d.rowStrideC() + j] = T(static_cast<float>(gelu(static_cast<double>(value))));
      } else {
        const double slope = geluGradient(static_cast<double>(static_cast<float>(kept)));
        to[i * d.rowStrideC() + j] = T(static_cast<float>(static_cast<double>(value) * slope));
      }
    }
  }
}

// Every 8-bit float is a bf16.
std::vector<Bf16> widenedToBf16(const void *from, const cublasLtMatrixLayoutOpaque &layout) {
  const bool isE4m3 = layout.type == CUDA_R_8F_E4M3;
  const std::vector<float> wide =
      isE4m3 ? widened(static_cast<const E4m3 *>(from), layout) : widened(static_cast<const E5m2 *>(from), layout);
  std::vector<Bf16> to;
  for (float value : wide)
    to.push_back(Bf16(value));
  return to;
}

template <typename T, typename C> void multiply(const Call &call) {
  const GemmDesc d = rowMajor(call);
  const T *const a = static_cast<const T *>(call.atB), *const b = static_cast<const T *>(call.atA);
  gemm(d, a, b, static_cast<const T *>(call.desc.bias), static_cast<C *>(call.atD));
}

void multiplyTf32(const Call &call) {
  std::vector<float> a = widened(static_cast<const float *>(call.atA), call.a);
  std::vector<float> b = widened(static_cast<const float *>(call.atB), call.b);
  std::transform(a.begin(), a.end(), a.begin(), roundedToTf32);
  std::transform(b.begin(), b.end(), b.begin(), roundedToTf32);
  Call rounded = call;
  rounded.atA = a.data(), rounded.atB = b.data();
  multiply<float, float>(rounded);
}

// Its first MiB and its end are enough to be noticed.
void spoil(void *workspace, size_t bytes) {
  std::memset(workspace, 0xFF, std::min(bytes, size_t{1} << 20));
  if (bytes > 0)
    static_cast<unsigned char *>(workspace)[bytes - 1] = 0xFF;
}

void multiplyFloat8(const Call &call) {
  const std::vector<Bf16> a = widenedToBf16(call.atA, call.a), b = widenedToBf16(call.atB, call.b);
  Call wide = call;
  wide.atA = a.data(), wide.atB = b.data();
  call.d.type == CUDA_R_32F ? multiply<Bf16, float>(wide) : multiply<Bf16, Bf16>(wide);
}

void run(const Call &call) {
  if (isFloat8(call.a.type))
    return multiplyFloat8(call);
  const bool isNarrow = call.a.type != CUDA_R_32F, isBf16 = call.a.type == CUDA_R_16BF;
  if (isGelu(call.desc.epilogue) || isGeluGradient(call.desc.epilogue))
    isBf16 ? multiplyWithGelu<Bf16>(call) : multiplyWithGelu<F16>(call);
  else if (!isNarrow)
    call.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? multiplyTf32(call) : multiply<float, float>(call);
  else if (call.d.type == CUDA_R_32F)
    isBf16 ? multiply<Bf16, float>(call) : multiply<F16, float>(call);
  else
    isBf16 ? multiply<Bf16, Bf16>(call) : multiply<F16, F16>(call);
}

} // namespace

const char *cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS         ? "no error"
         : status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported"
                                                 : "invalid value";
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) { return *handle = nullptr, CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute, cudaDataType_t) {
  *desc = new cublasLtMatmulDescOpaque{compute};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return delete desc, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return assign(desc->transA, value, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return assign(desc->transB, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return assign(desc->epilogue, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return assign(desc->bias, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    return assign(desc->aux, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    return assign(desc->auxLeading, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
    return assign(desc->biasType, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  *layout = new cublasLtMatrixLayoutOpaque{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return delete layout, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes) {
  return attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? assign(layout->batch, value, bytes)
                                                         : assign(layout->stride, value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  return *preference = new cublasLtMatmulPreferenceOpaque{}, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return delete preference, CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes) {
  return attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
             ? assign(preference->workspaceBytes, value, bytes)
             : assign(preference->alignments[attribute], value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
                                              int requested, cublasLtMatmulHeuristicResult_t results[], int *count) {
  *count = 0;
  if (const cublasStatus_t status = validate(*desc, *a, *b, *d); status != CUBLAS_STATUS_SUCCESS)
    return status;
  if (requested < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  const auto alignment = [&](cublasLtMatmulPreferenceAttributes_t attribute) {
    const auto found = preference->alignments.find(attribute);
    return found == preference->alignments.end() ? 256u : found->second;
  };
  const Choice choice{alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES),
                      alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES),
                      alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES),
                      alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES), preference->workspaceBytes};
  results[0] = {};
  std::memcpy(&results[0].algo, &choice, sizeof choice);
  results[0].workspaceSize = choice.workspaceBytes;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t layoutA, const void *b, cublasLtMatrixLayout_t layoutB,
                              const void *beta, const void *c, cublasLtMatrixLayout_t, void *d,
                              cublasLtMatrixLayout_t layoutD, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspaceBytes, cudaStream_t stream) {
  if (const cublasStatus_t status = validate(*desc, *layoutA, *layoutB, *layoutD); status != CUBLAS_STATUS_SUCCESS)
    return status;
  Choice choice;
  std::memcpy(&choice, algorithm, sizeof choice);
  if (!isAligned(a, choice.alignmentA) || !isAligned(b, choice.alignmentB) || !isAligned(c, choice.alignmentC) ||
      !isAligned(d, choice.alignmentD) || (hasBias(desc->epilogue) && !isAligned(desc->bias, 16)) ||
      !isAligned(workspace, 256) || workspaceBytes < choice.workspaceBytes)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const Call call{
      *desc, *layoutA, *layoutB, *layoutD, *static_cast<const float *>(alpha), *static_cast<const float *>(beta),
      a,     b,        d};
  const cudaError_t put = emulation::enqueue(stream, [=] {
    spoil(workspace, workspaceBytes);
    run(call);
  });
  return put == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
