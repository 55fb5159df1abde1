// What the compiler plans for kernels is what their contracts ask for.
#include "hyc/Analysis/Workspaces.h"
#include "kernels/attention/cuda.h"
#include "kernels/attention/op.h"
#include "kernels/convolution/op.h"
#include "kernels/embedding/cuda.h"
#include "kernels/gemm/cuda.h"
#include "kernels/gemm/cuda_fp8.h"
#include "kernels/gemm/fp8.h"
#include "kernels/gemm/workspace.h"
#include "kernels/reduce/op.h"

#include <gtest/gtest.h>

namespace {

using hyc::KernelType;
using hyc::kernels::Bf16;
using hyc::kernels::F16;
using hyc::kernels::GemmDesc;

int64_t bytesOfContract(const GemmDesc &d, KernelType type, bool intoF32, int threads) {
  using namespace hyc::kernels;
  switch (type) {
  case KernelType::F32:
    return static_cast<int64_t>(gemmWorkspaceBytes(d, threads));
  case KernelType::BF16:
    return static_cast<int64_t>(intoF32 ? gemmNarrowWorkspaceBytes<Bf16, float>(d, threads)
                                        : gemmNarrowWorkspaceBytes<Bf16, Bf16>(d, threads));
  case KernelType::F16:
    return static_cast<int64_t>(intoF32 ? gemmNarrowWorkspaceBytes<F16, float>(d, threads)
                                        : gemmNarrowWorkspaceBytes<F16, F16>(d, threads));
  case KernelType::F8:
    return Float8Workspace(d, threads, intoF32).bytes();
  }
  return -1;
}

TEST(Workspaces, GemmsAreThoseOfTheirContract) {
  for (int64_t m : {1, 33, 130, 512, 5000})
    for (int64_t n : {1, 31, 32, 33, 257, 1535, 1536, 1537, 50257})
      for (int64_t k : {1, 64, 1023, 1024, 1025, 4096, 4097})
        for (int64_t batch : {1, 3})
          for (KernelType type : {KernelType::F32, KernelType::BF16, KernelType::F16, KernelType::F8})
            for (bool intoF32 : {false, true})
              for (bool hasBias : {false, true})
                for (int threads : {1, 2, 3, 64}) {
                  GemmDesc desc;
                  desc.m = m, desc.n = n, desc.k = k, desc.batch = batch, desc.hasBias = hasBias;
                  ASSERT_EQ(hyc::gemmWorkspaceBytes({m, n, k, batch, type, intoF32, hasBias}, threads),
                            bytesOfContract(desc, type, intoF32, threads))
                      << "m " << m << " n " << n << " k " << k << " batch " << batch << " type "
                      << static_cast<int>(type) << " into f32 " << intoF32 << " bias " << hasBias << " threads "
                      << threads;
                }
}

TEST(Workspaces, AttentionsAreThoseOfItsContract) {
  for (int64_t batch : {1, 4})
    for (int64_t heads : {1, 3})
      for (int threads : {1, 2, 7}) {
        hyc::kernels::AttentionDesc desc;
        desc.batch = batch, desc.keyLength = 40, desc.kvHeads = heads, desc.headDim = 24;
        auto planned = [&](KernelType type) {
          return hyc::attentionGradientWorkspaceBytes({batch, 40, heads, 24, type}, threads);
        };
        using hyc::kernels::attentionBackwardWorkspaceBytes;
        EXPECT_EQ(planned(KernelType::F32),
                  static_cast<int64_t>(attentionBackwardWorkspaceBytes<float>(desc, threads)));
        EXPECT_EQ(planned(KernelType::BF16),
                  static_cast<int64_t>(attentionBackwardWorkspaceBytes<Bf16>(desc, threads)));
        EXPECT_EQ(planned(KernelType::F16), static_cast<int64_t>(attentionBackwardWorkspaceBytes<F16>(desc, threads)));
      }
}

TEST(Workspaces, ColumnsOfConvolutionsAreThoseOfTheirContract) {
  for (int64_t groups : {1, 2, 9})
    for (int64_t channels : {1, 3, 64})
      for (int64_t outputs : {1, 21, 22, 64})
        for (int64_t kernel : {1, 3})
          for (int64_t size : {1, 7}) {
            hyc::kernels::ConvolutionDesc desc;
            desc.batch = 5, desc.groups = groups, desc.channels = channels * groups, desc.outputs = outputs * groups;
            desc.kernel[1] = kernel, desc.kernel[2] = kernel + 1, desc.positions[2] = size, desc.positions[0] = 2;
            EXPECT_EQ(hyc::convolutionColumns({groups, channels, outputs, kernel * (kernel + 1), 2 * size}),
                      hyc::kernels::convolutionColumns(desc))
                << groups << " groups, " << channels << " channels, " << outputs << " outputs";
          }
}

TEST(Workspaces, ThoseOfGpusAreOfTheirContracts) {
  EXPECT_EQ(hyc::kCudaGemmWorkspaceBytes, hyc::kernels::cuda::kGemmWorkspaceBytes);
  GemmDesc product;
  product.m = 5, product.n = 48, product.k = 31, product.batch = 3;
  EXPECT_EQ(hyc::cudaFloat8WorkspaceBytes({5, 48, 31, 3, KernelType::F8, true, false}),
            hyc::kernels::cuda::Float8Scratch(product).bytes);
  hyc::kernels::AttentionDesc desc;
  desc.batch = 3, desc.heads = 5, desc.kvHeads = 1, desc.queryLength = 77, desc.keyLength = 90, desc.headDim = 64;
  EXPECT_EQ(hyc::cudaAttentionGradientWorkspaceBytes(3, 5, 77),
            static_cast<int64_t>(hyc::kernels::cuda::attentionBackwardWorkspaceBytes(desc)));
  hyc::kernels::EmbeddingDesc embedding;
  embedding.tokens = 77;
  EXPECT_EQ(hyc::cudaEmbeddingGradientWorkspaceBytes(77),
            static_cast<int64_t>(hyc::kernels::cuda::embeddingGradWorkspaceBytes(embedding)));
  for (bool isRows : {false, true})
    for (int64_t outer : {1, 3})
      for (int64_t steps : {0, 1, 127, 128, 129, 16384})
        for (int64_t inner : {0, 1, 31, 1003, 16384, 16385, 50257})
          EXPECT_EQ(hyc::cudaReductionPartials(isRows, outer, steps, inner),
                    hyc::kernels::reducePartialCount(isRows, outer, steps, inner))
              << outer << " x " << steps << " x " << inner << ", rows " << isRows;
}

} // namespace
