// AdamW on GPUs: one pass over memory for up to kAdamWTensorsAtOnce tensors a launch. Compiled without contraction, so
// that the bits are those of the reference; only 1 − beta^step may differ by an f64 rounding, as pow does.
#include <cstring>

#include "kernels/adamw/cuda.h"
#include "kernels/adamw/reference.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"

namespace hyc::kernels::cuda {
namespace {

constexpr int kThreads = 256, kPerThread = 4;
constexpr int64_t kChunk = 4 * kThreads * kPerThread;  // elements of one block

template <typename T, typename R>
struct Batch {
  AdamWTensor<T, R> tensors[kAdamWTensorsAtOnce];
  int firstBlock[kAdamWTensorsAtOnce];
  int count;
};

template <bool kAddedDecay>
__device__ inline void updateOne(const AdamWFactors<float> &f, float &param, float grad, float &m, float &v) {
  float g = grad * f.gradScale;
  if (kAddedDecay) g = g + f.addedDecay * param;
  const float decayed = param * f.decay;
  m = m + f.oneMinusBeta1 * (g - m);
  v = v * f.beta2 + (f.oneMinusBeta2 * g) * g;
  const float denominator = sqrtf(v) / f.sqrtBiasCorrection2 + f.epsilon;
  param = decayed + (f.negativeStepSize * m) / denominator;
}

template <bool kAddedDecay, typename T, typename R>
__device__ void updateChunk(const AdamWFactors<float> &f, const AdamWTensor<T, R> &tensor, int64_t begin, int64_t end) {
  const bool isPacked = isPackable(0, tensor.param, tensor.m, tensor.v) &&
                        (reinterpret_cast<uintptr_t>(tensor.grad) & (sizeof(T) * kPerThread - 1)) == 0 &&
                        (reinterpret_cast<uintptr_t>(tensor.rounded) & (sizeof(R) * kPerThread - 1)) == 0;
  const int64_t packedEnd = isPacked ? begin + (end - begin) / kPerThread * kPerThread : begin;
  for (int64_t i = begin + int64_t{threadIdx.x} * kPerThread; i < packedEnd; i += kThreads * kPerThread) {
    Pack<float, kPerThread> param = loadPack<kPerThread>(tensor.param + i), m = loadPack<kPerThread>(tensor.m + i),
                            v = loadPack<kPerThread>(tensor.v + i);
    const Pack<T, kPerThread> grad = loadPack<kPerThread>(tensor.grad + i);
    for (int j = 0; j < kPerThread; ++j) updateOne<kAddedDecay>(f, param.at[j], grad.at[j], m.at[j], v.at[j]);
    storePack(tensor.param + i, param);
    storePack(tensor.m + i, m);
    storePack(tensor.v + i, v);
    if (!tensor.rounded) continue;
    Pack<R, kPerThread> rounded;
    for (int j = 0; j < kPerThread; ++j) rounded.at[j] = R(param.at[j]);
    storePack(tensor.rounded + i, rounded);
  }
  for (int64_t i = packedEnd + threadIdx.x; i < end; i += kThreads) {
    updateOne<kAddedDecay>(f, tensor.param[i], tensor.grad[i], tensor.m[i], tensor.v[i]);
    if (tensor.rounded) tensor.rounded[i] = R(tensor.param[i]);
  }
}

template <typename T, typename R>
__device__ void roundChunk(const AdamWTensor<T, R> &tensor, int64_t begin, int64_t end) {
  if (!tensor.rounded) return;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) tensor.rounded[i] = R(tensor.param[i]);
}

template <typename T, typename R>
__global__ void updateKernel(AdamWParams params, AdamWScalars scalars, const __grid_constant__ Batch<T, R> batch) {
  int t = 0;
  while (t + 1 < batch.count && static_cast<int>(blockIdx.x) >= batch.firstBlock[t + 1]) ++t;
  const AdamWTensor<T, R> &tensor = batch.tensors[t];
  const int64_t begin = (static_cast<int>(blockIdx.x) - batch.firstBlock[t]) * kChunk;
  const int64_t end = begin + kChunk < tensor.n ? begin + kChunk : tensor.n;
  // The copy need not hold the values of the step before: it may be a window into which nothing was fetched.
  if (scalars.predicate && !*scalars.predicate) return roundChunk(tensor, begin, end);
  // Powers in f64 are slow on most GPUs: once a block.
  __shared__ float storage[sizeof(AdamWFactors<float>) / sizeof(float)];
  if (threadIdx.x == 0) {
    params.lr = *scalars.lr;
    params.step = *scalars.step;
    params.gradScale = *scalars.gradScale;
    if (scalars.beta1) params.beta1 = *scalars.beta1;
    const AdamWFactors<float> factors(params);
    std::memcpy(storage, &factors, sizeof factors);
  }
  __syncthreads();
  const AdamWFactors<float> f = *reinterpret_cast<const AdamWFactors<float> *>(storage);
  if (f.addedDecay != 0)
    updateChunk<true>(f, tensor, begin, end);
  else
    updateChunk<false>(f, tensor, begin, end);
}

}  // namespace

template <typename T, typename R>
void adamw(Stream stream, const AdamWParams &params, const AdamWScalars &scalars, const AdamWTensor<T, R> *tensors,
           int count) {
  for (int first = 0; first < count; first += kAdamWTensorsAtOnce) {
    Batch<T, R> batch;
    int64_t blocks = 0;
    batch.count = count - first < kAdamWTensorsAtOnce ? count - first : kAdamWTensorsAtOnce;
    for (int i = 0; i < batch.count; ++i) {
      batch.tensors[i] = tensors[first + i];
      batch.firstBlock[i] = static_cast<int>(blocks);
      blocks += (tensors[first + i].n + kChunk - 1) / kChunk;
    }
    const Grid grid{dim3(static_cast<unsigned>(blocks)), dim3(kThreads)};
    kernel(updateKernel<T, R>).launch(stream, grid, params, scalars, batch);
  }
}

#define HYC_INSTANTIATE(T, R) \
  template void adamw<T, R>(Stream, const AdamWParams &, const AdamWScalars &, const AdamWTensor<T, R> *, int);
HYC_INSTANTIATE(float, float)
HYC_INSTANTIATE(float, Bf16)
HYC_INSTANTIATE(float, F16)
HYC_INSTANTIATE(Bf16, Bf16)
HYC_INSTANTIATE(F16, F16)

}  // namespace hyc::kernels::cuda
