// The figures of kernels/*/op.h and kernels/gemm/workspace.h, which no compiler room may include.
#include "hyc/Analysis/Workspaces.h"

#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/KernelStructure.h"
#include "dialects/Rank/RankDialect.h"

#include "mlir/IR/BuiltinOps.h"

#include <algorithm>

using namespace mlir;
using namespace hyc;

static int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t roundUp(int64_t a, int64_t b) { return ceilDiv(a, b) * b; }

static int64_t wideGemmBytes(const GemmShape &s, int64_t threads) {
  constexpr int64_t kRun = 256, kColumnBlock = 1536, kDepthBlock = 4 * kRun, kRowBlock = 168, kPanelPadding = 32;
  int64_t team = 2.0 * s.batch * s.m * s.n * s.k >= 1e6 ? threads : 1;
  int64_t shared = roundUp(std::min(s.n, kColumnBlock), kPanelPadding) * std::min(s.k, kDepthBlock);
  return (shared + (kRowBlock * kRun + kPanelPadding) * team) * 4;
}

static int64_t wideningBytes(const GemmShape &s, int64_t threads) {
  constexpr int64_t kRows = 512, kColumns = 1536, kDepth = 1024, kLine = 16;
  GemmShape block = {
      std::min(kRows, s.m), std::min(kColumns, s.n), std::min(kDepth, s.k), 1, KernelType::F32, true, s.hasBias};
  int64_t floats = roundUp(block.m * block.k, kLine) + roundUp(block.k * block.n, kLine) +
                   (s.hasBias ? roundUp(block.n, kLine) : 0) + block.m * block.n;
  return wideGemmBytes(block, threads) + floats * 4;
}

/// Fewer threads than there are may want more, since each packs more rows.
static int64_t tileBytes(const GemmShape &s, int64_t threads) {
  constexpr int64_t kBlock = 32, kStepWords = kBlock * kBlock / 2, kRun = 4096, kColumnBlock = 1536;
  constexpr int64_t kRowBlockBytes = 512 << 10;
  int64_t steps = ceilDiv(std::min(kRun, s.k), kBlock);
  int64_t fitting = std::max(kRowBlockBytes / (steps * kBlock * 2) / kBlock * kBlock, kBlock);
  int64_t most = 2.0 * s.m * s.n * s.k >= 4e6 ? threads : 1, aWords = 0;
  for (int64_t team = 1; team <= most; ++team) {
    int64_t rows = std::min(roundUp(ceilDiv(s.m, team * 2), kBlock), fitting);
    aWords = std::max(aWords, team * (rows / kBlock) * steps * kStepWords);
  }
  int64_t partialWords = !s.intoF32 && s.k > kRun ? s.m * kColumnBlock : 0;
  int64_t bWords = ceilDiv(std::min(kColumnBlock, s.n), kBlock) * steps * kStepWords;
  return (aWords + partialWords + bWords) * 4;
}

/// Blocks of both operands as bf16, and the product of one.
static int64_t float8Bytes(GemmShape s, int64_t threads) {
  constexpr int64_t kRows = 512, kColumns = 1536, kLine = 64;
  s.m = std::min(kRows, s.m), s.n = std::min(kColumns, s.n), s.batch = 1, s.type = KernelType::BF16;
  return roundUp(s.m * s.k * 2, kLine) + roundUp(s.k * s.n * 2, kLine) + gemmWorkspaceBytes(s, threads);
}

int64_t hyc::gemmWorkspaceBytes(const GemmShape &shape, int64_t threads) {
  switch (shape.type) {
  case KernelType::F32:
    return wideGemmBytes(shape, threads);
  case KernelType::F16:
    return wideningBytes(shape, threads);
  case KernelType::BF16:
    return std::max(wideningBytes(shape, threads), tileBytes(shape, threads));
  case KernelType::F8:
    return float8Bytes(shape, threads);
  }
  return 0;
}

int64_t hyc::attentionGradientWorkspaceBytes(const AttentionShape &shape, int64_t threads) {
  if (shape.type == KernelType::F32)
    return 0;
  int64_t team = shape.batch * shape.kvHeads > 1 ? threads : 1;
  return team * 2 * shape.keyLength * shape.headDim * 4;
}

int64_t hyc::fixedBytes(int64_t threads) {
  constexpr int64_t kibibyte = 1024, process = 9984 * kibibyte, thread = 128 * kibibyte;
  return process + thread * threads;
}

static KernelType kernelTypeOf(Value buffer) {
  Type element = cast<rank::BufferType>(buffer.getType()).getElementType();
  if (isFloat8(element))
    return KernelType::F8;
  return element.isBF16() ? KernelType::BF16 : element.isF16() ? KernelType::F16 : KernelType::F32;
}

int64_t hyc::convolutionColumns(const ConvolutionShape &s) {
  bool isDirect = s.groups > 1 && s.channels * s.outputs < 64;
  return isDirect ? 0 : s.channels * s.kernels * s.places;
}

/// Of kernels/convolution: one sample's product of one group, whichever of the three tensors it gives.
static int64_t convolutionWorkspaceBytes(rank::CallOp call, int64_t threads) {
  auto shapeOf = [](Value buffer) { return cast<rank::BufferType>(buffer.getType()).getShape(); };
  auto product = [](ArrayRef<int64_t> sizes) {
    int64_t count = 1;
    for (int64_t size : sizes)
      count *= size;
    return count;
  };
  bool givesX = call.getKernel() == "convolution_transpose", givesW = call.getKernel() == "convolution_weight";
  ArrayRef<int64_t> w = shapeOf(givesW ? call.getOuts()[0] : call.getIns()[1]);
  ArrayRef<int64_t> y = shapeOf(givesX ? call.getIns()[0] : givesW ? call.getIns()[1] : call.getOuts()[0]);
  int64_t groups = call->getAttrOfType<IntegerAttr>("groups").getInt();
  int64_t outputs = w[0] / groups, inputs = product(w.drop_front()), places = product(y.drop_front(2));
  if (product(shapeOf(call.getOuts()[1])) == 0)
    return 0; // direct loops
  GemmShape shape{outputs, places, inputs, 1, KernelType::F32, true, false};
  if (givesX)
    shape.m = inputs, shape.k = outputs;
  if (givesW)
    shape.n = inputs, shape.k = places;
  return gemmWorkspaceBytes(shape, threads);
}

int64_t hyc::cudaAttentionGradientWorkspaceBytes(int64_t batch, int64_t heads, int64_t queryLength) {
  return batch * heads * queryLength * 4;
}

int64_t hyc::cudaFloat8WorkspaceBytes(const GemmShape &s) {
  constexpr int64_t kLine = 256;
  return kCudaGemmWorkspaceBytes + roundUp(s.batch * s.m * s.k * 2, kLine) + roundUp(s.batch * s.k * s.n * 2, kLine);
}

static GemmShape shapeOf(rank::GemmOp gemm) {
  auto size = [](uint64_t value) { return static_cast<int64_t>(value); };
  return {size(gemm.getM()),
          size(gemm.getN()),
          size(gemm.getK()),
          size(gemm.getBatch()),
          kernelTypeOf(gemm.getA()),
          kernelTypeOf(gemm.getC()) == KernelType::F32,
          static_cast<bool>(gemm.getBias())};
}

int64_t hyc::cudaEmbeddingGradientWorkspaceBytes(int64_t tokens) { return tokens * 8; }

int64_t hyc::cudaReductionPartials(bool isRows, int64_t outer, int64_t steps, int64_t inner) {
  constexpr int64_t kRowBlock = 16384, kColumnBlock = 128;
  if (!isRows) {
    int64_t blocks = ceilDiv(steps, kColumnBlock);
    return blocks > 1 ? outer * blocks * inner : 0;
  }
  if (inner == 0)
    return 0;
  int64_t stepsPerBlock = inner < kRowBlock ? kRowBlock / inner : 1;
  int64_t blocks = ceilDiv(steps, stepsPerBlock) * ceilDiv(inner, kRowBlock);
  return blocks > 1 ? outer * blocks : 0;
}

int64_t hyc::cudaKernelWorkspaceBytes(Operation *op) {
  constexpr int64_t kAlignment = 16;
  auto kernel = cast<rank::KernelOp>(op);
  if (kernel.getReduced().empty())
    return 0;
  rank::ReductionLoops loops = rank::reductionLoops(kernel);
  int64_t count = cudaReductionPartials(loops.isRows, loops.outerCount, loops.stepCount, loops.innerCount), bytes = 0;
  for (auto combine : kernel.getBody().front().getOps<rank::CombineOp>()) {
    int64_t bits = combine.getType().getIntOrFloatBitWidth(); // 16-bit floats are combined in f32, booleans are bytes
    int64_t entry = isa<FloatType>(combine.getType()) ? std::max<int64_t>(4, bits / 8) : ceilDiv(bits, 8);
    bytes += roundUp(count * entry, kAlignment);
  }
  return bytes;
}

static int64_t cudaWorkspaceBytes(Operation *call) {
  if (auto gemm = dyn_cast<rank::GemmOp>(call)) {
    GemmShape shape = shapeOf(gemm);
    return shape.type == KernelType::F8 ? cudaFloat8WorkspaceBytes(shape) : kCudaGemmWorkspaceBytes;
  }
  if (auto launch = dyn_cast<rank::LaunchOp>(call)) {
    rank::KernelOp kernel = rank::lookupKernel(launch);
    return kernel ? cudaKernelWorkspaceBytes(kernel) : 0;
  }
  auto kernel = dyn_cast<rank::CallOp>(call);
  if (kernel && kernel.getKernel().starts_with("convolution")) // a product, unless it has no room for patches
    return cast<rank::BufferType>(kernel.getOuts()[1].getType()).getNumElements() ? kCudaGemmWorkspaceBytes : 0;
  if (kernel && kernel.getKernel() == "embedding_grad")
    return cudaEmbeddingGradientWorkspaceBytes(cast<rank::BufferType>(kernel.getIns()[0].getType()).getNumElements());
  if (!kernel || kernel.getKernel() != "attention_grad")
    return 0;
  ArrayRef<int64_t> queries = cast<rank::BufferType>(kernel.getIns()[0].getType()).getShape();
  return cudaAttentionGradientWorkspaceBytes(queries[0], queries[2], queries[1]);
}

int64_t hyc::workspaceBytes(Operation *call, int64_t threads) {
  if (auto module = call->getParentOfType<ModuleOp>(); module && module->hasAttr(kTargetAttribute))
    return cudaWorkspaceBytes(call);
  if (auto gemm = dyn_cast<rank::GemmOp>(call))
    return gemmWorkspaceBytes(shapeOf(gemm), threads);
  auto kernel = dyn_cast<rank::CallOp>(call);
  if (kernel && kernel.getKernel().starts_with("convolution"))
    return convolutionWorkspaceBytes(kernel, threads);
  if (!kernel || kernel.getKernel() != "attention_grad")
    return 0;
  ArrayRef<int64_t> keys = cast<rank::BufferType>(kernel.getIns()[1].getType()).getShape();
  return attentionGradientWorkspaceBytes({keys[0], keys[1], keys[2], keys[3], kernelTypeOf(kernel.getIns()[0])},
                                         threads);
}
