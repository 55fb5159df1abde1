// What the compiler plans for calls is what the kernels' contracts ask for: from the text of a call to bytes.
#include "hyc/Analysis/Workspaces.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "kernels/attention/cuda.h"
#include "kernels/attention/op.h"
#include "kernels/convolution/op.h"
#include "kernels/embedding/cuda.h"
#include "kernels/gemm/cuda.h"
#include "kernels/gemm/cuda_fp8.h"
#include "kernels/gemm/fp8.h"
#include "kernels/gemm/workspace.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

namespace {

using hyc::kernels::Bf16;
using hyc::kernels::F16;
using hyc::kernels::GemmDesc;

class Workspaces : public testing::Test {
protected:
  Workspaces() { context.loadDialect<hyc::HycDialect, hyc::dist::DistDialect, hyc::rank::RankDialect>(); }

  /// Bytes planned for one call. `types`: those of its operands, named %0, %1, … in `call`.
  int64_t planned(const std::string &call, const std::vector<std::string> &types, int64_t threads, bool onGpu = false) {
    std::string text = onGpu ? "module attributes {rank.target = \"cuda\"} {\n" : "module {\n", list;
    text += "rank.program @p stage 0 slots 1 {\n  rank.arena @a bytes 1000000000\n  rank.func @forward() {\n";
    for (size_t i = 0; i < types.size(); ++i) {
      text += "    %" + std::to_string(i) + " = rank.at @a 0 : <" + types[i] + ">\n";
      list += (i ? ", !rank.buffer<" : "!rank.buffer<") + types[i] + ">";
    }
    text += "    " + call + " : " + list + "\n  }\n}\n}\n";
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    if (!module)
      return -1;
    int64_t bytes = 0;
    module->walk([&](mlir::Operation *op) { bytes += hyc::workspaceBytes(op, threads); });
    return bytes;
  }

  int64_t plannedProduct(const GemmDesc &d, const std::string &type, bool intoF32, int64_t threads,
                         bool onGpu = false) {
    auto attribute = [](const char *name, int64_t value) { return std::string(name) + " = " + std::to_string(value); };
    std::string sizes = "{" + attribute("batch", d.batch) + ", " + attribute("m", d.m) + ", " + attribute("n", d.n) +
                        ", " + attribute("k", d.k) + ", lda = 0, ldb = 0, ldc = 0}";
    std::string narrow = type.rfind("f8", 0) == 0 ? "bf16" : type;
    std::vector<std::string> types = {"4x" + (intoF32 ? std::string("f32") : narrow), "4x" + type, "4x" + type};
    if (d.hasBias)
      types.push_back("4x" + narrow);
    return planned("rank.gemm %0 = %1, %2 " + std::string(d.hasBias ? "bias %3 " : "") + sizes, types, threads, onGpu);
  }

  mlir::MLIRContext context;
};

int64_t bytesOfContract(const GemmDesc &d, const std::string &type, bool intoF32, int threads) {
  using namespace hyc::kernels;
  if (type == "f32")
    return static_cast<int64_t>(gemmWorkspaceBytes(d, threads));
  if (type == "bf16")
    return static_cast<int64_t>(intoF32 ? gemmNarrowWorkspaceBytes<Bf16, float>(d, threads)
                                        : gemmNarrowWorkspaceBytes<Bf16, Bf16>(d, threads));
  if (type == "f16")
    return static_cast<int64_t>(intoF32 ? gemmNarrowWorkspaceBytes<F16, float>(d, threads)
                                        : gemmNarrowWorkspaceBytes<F16, F16>(d, threads));
  return Float8Workspace(d, threads, intoF32).bytes();
}

TEST_F(Workspaces, GemmsAreThoseOfTheirContract) {
  for (int64_t m : {1, 130, 5000})
    for (int64_t n : {31, 1536, 50257})
      for (int64_t k : {64, 1025, 4097})
        for (int64_t batch : {1, 3})
          for (const char *type : {"f32", "bf16", "f16", "f8E4M3FN"})
            for (bool intoF32 : {false, true})
              for (bool hasBias : {false, true})
                for (int threads : {1, 3, 64}) {
                  GemmDesc desc;
                  desc.m = m, desc.n = n, desc.k = k, desc.batch = batch, desc.hasBias = hasBias;
                  bool givesF32 = intoF32 || std::string(type) == "f32";
                  ASSERT_EQ(plannedProduct(desc, type, intoF32, threads),
                            bytesOfContract(desc, type, givesF32, threads))
                      << "m " << m << " n " << n << " k " << k << " batch " << batch << " type " << type << " into f32 "
                      << intoF32 << " bias " << hasBias << " threads " << threads;
                }
}

TEST_F(Workspaces, AttentionsAreThoseOfItsContract) {
  auto plannedGradient = [&](int64_t batch, int64_t heads, const std::string &type, int threads, bool onGpu) {
    std::string size = std::to_string(batch), count = std::to_string(heads);
    std::string q = size + "x50x6x24x" + type, k = size + "x40x" + count + "x24x" + type, lse = size + "x6x50xf32";
    return planned("rank.call \"attention_grad\" %0, %1, %2 = %3, %4, %5, %6, %7, %8 {scale = 1.0 : f64}",
                   {q, k, k, q, k, k, q, lse, q}, threads, onGpu);
  };
  for (int64_t batch : {1, 4})
    for (int64_t heads : {1, 3})
      for (int threads : {1, 2, 7}) {
        hyc::kernels::AttentionDesc desc;
        desc.batch = batch, desc.queryLength = 50, desc.heads = 6, desc.keyLength = 40;
        desc.kvHeads = heads, desc.headDim = 24;
        auto contract = static_cast<int64_t>(hyc::kernels::attentionBackwardWorkspaceBytes<Bf16>(desc, threads));
        EXPECT_EQ(plannedGradient(batch, heads, "f32", threads, false), 0);
        EXPECT_EQ(plannedGradient(batch, heads, "bf16", threads, false), contract);
        EXPECT_EQ(plannedGradient(batch, heads, "f16", threads, false), contract);
        EXPECT_EQ(plannedGradient(batch, heads, "f16", threads, true),
                  static_cast<int64_t>(hyc::kernels::cuda::attentionBackwardWorkspaceBytes(desc)));
      }
}

TEST_F(Workspaces, ConvolutionsWantThatOfTheirProduct) {
  // x: 5 samples of 20 channels in 2 groups, 8 × 9; w: 20 outputs, 3 × 2; y: 7 × 4 positions, which all samples have
  // side by side.
  std::string x = "5x20x8x9xf32", w = "20x10x3x2xf32", y = "5x20x7x4xf32", columns = "9800xf32";
  std::string attributes =
      " {strides = array<i64: 1, 2>, dilations = array<i64: 1, 1>, low = array<i64: 1, 0>, groups = 2}";
  auto product = [](int64_t m, int64_t n, int64_t k) {
    GemmDesc desc;
    desc.m = m, desc.n = n, desc.k = k;
    return static_cast<int64_t>(hyc::kernels::gemmWorkspaceBytes(desc, 3));
  };
  EXPECT_EQ(planned("rank.call \"convolution\" %0, %1 = %2, %3" + attributes, {y, columns, x, w}, 3),
            product(10, 5 * 28, 60));
  EXPECT_EQ(planned("rank.call \"convolution_transpose\" %0, %1 = %2, %3" + attributes, {x, columns, y, w}, 3),
            product(60, 5 * 28, 10));
  EXPECT_EQ(planned("rank.call \"convolution_weight\" %0, %1 = %2, %3" + attributes, {w, columns, x, y}, 3),
            product(10, 60, 28));
  // Direct loops have no room for patches, and on CPUs want planes for each thread.
  std::string few = "5x6x8x9xf32", narrow = "20x3x3x2xf32";
  hyc::kernels::ConvolutionDesc direct;
  direct.batch = 5, direct.channels = 6, direct.outputs = 20, direct.groups = 2;
  direct.size[1] = 8, direct.size[2] = 9, direct.kernel[1] = 3, direct.kernel[2] = 2;
  direct.positions[1] = 7, direct.positions[2] = 4, direct.stride[2] = 2, direct.low[1] = 1;
  EXPECT_EQ(planned("rank.call \"convolution\" %0, %1 = %2, %3" + attributes, {y, "0xf32", few, narrow}, 3),
            3 * 4 * hyc::kernels::directFloats(direct));
  EXPECT_EQ(planned("rank.call \"convolution\" %0, %1 = %2, %3" + attributes, {y, "0xf32", few, narrow}, 3, true), 0);
  EXPECT_EQ(planned("rank.call \"convolution\" %0, %1 = %2, %3" + attributes, {y, columns, x, w}, 3, true),
            hyc::kernels::cuda::kGemmWorkspaceBytes);
}

TEST_F(Workspaces, ColumnsOfConvolutionsAreThoseOfTheirContract) {
  for (int64_t groups : {1, 2, 9})
    for (int64_t channels : {1, 3, 64})
      for (int64_t outputs : {1, 21, 22, 64})
        for (int64_t kernel : {1, 3})
          for (int64_t size : {1, 7}) {
            hyc::kernels::ConvolutionDesc desc;
            desc.batch = 5, desc.groups = groups, desc.channels = channels * groups, desc.outputs = outputs * groups;
            desc.kernel[1] = kernel, desc.kernel[2] = kernel + 1, desc.positions[2] = size, desc.positions[0] = 2;
            EXPECT_EQ(hyc::convolutionColumns({desc.batch, groups, channels, outputs, kernel * (kernel + 1), 2 * size}),
                      hyc::kernels::convolutionColumns(desc))
                << groups << " groups, " << channels << " channels, " << outputs << " outputs";
          }
}

TEST_F(Workspaces, ThoseOfGpusAreOfTheirContracts) {
  GemmDesc product;
  product.m = 5, product.n = 48, product.k = 31, product.batch = 3;
  EXPECT_EQ(plannedProduct(product, "bf16", false, 4, true), hyc::kernels::cuda::kGemmWorkspaceBytes);
  EXPECT_EQ(plannedProduct(product, "f8E4M3FN", true, 4, true), hyc::kernels::cuda::Float8Scratch(product).bytes);
  hyc::kernels::EmbeddingDesc embedding;
  embedding.tokens = 77;
  EXPECT_EQ(planned("rank.call \"embedding_grad\" %0 = %1, %2", {"9x4xf32", "7x11xi64", "7x11x4xf32"}, 4, true),
            static_cast<int64_t>(hyc::kernels::cuda::embeddingGradWorkspaceBytes(embedding)));
  EXPECT_EQ(planned("rank.call \"embedding_grad\" %0 = %1, %2", {"9x4xf32", "7x11xi64", "7x11x4xf32"}, 4), 0);
}

} // namespace
