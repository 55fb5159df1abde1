// Sizes come from the kernels' descriptions; only generated reductions are measured here, by what they combine.
#include "hyc/Analysis/Workspaces.h"

#include "dialects/Rank/KernelStructure.h"
#include "hyc/Analysis/KernelCall.h"
#include "kernels/convolution/description.h"
#include "kernels/gemm/description.h"
#include "kernels/group_norm/description.h"
#include "kernels/reduce/description.h"

#include "mlir/IR/BuiltinOps.h"

#include <algorithm>

using namespace mlir;
using namespace hyc;

static constexpr int64_t kKibibyte = 1024, kThreadBytes = 128 * kKibibyte;

int64_t hyc::fixedBytes(int64_t threads) {
  constexpr int64_t process = 14976 * kKibibyte;
  return process + kThreadBytes * threads;
}

int64_t hyc::readAheadBytes(rank::ProgramOp program) {
  int64_t bytes = 0, sample = 0;
  for (auto input : program.getOps<rank::InputOp>()) {
    rank::BufferType type = input.getBufferType();
    bytes += llvm::alignTo(type.getNumElements() * type.getElementBytes(), 64);
    // Of several sizes a sample is looked at before its step.
    if (program.getDim() && !type.getShape().empty())
      sample =
          std::max(sample, type.getNumElements() * type.getElementBytes() / std::max<int64_t>(1, type.getShape()[0]));
  }
  bytes += llvm::alignTo(sample, 64);
  return bytes == 0 ? 0 : llvm::alignTo(bytes, 4 * kKibibyte) + kThreadBytes;
}

int64_t hyc::convolutionColumns(const ConvolutionShape &s) {
  kernels::ConvolutionDesc desc;
  desc.batch = s.batch, desc.groups = s.groups, desc.channels = s.groups * s.channels,
  desc.outputs = s.groups * s.outputs;
  desc.kernel[2] = s.kernels, desc.positions[2] = s.places;
  return kernels::convolutionColumns(desc);
}

int64_t hyc::cudaReductionPartials(bool isRows, int64_t outer, int64_t steps, int64_t inner) {
  return kernels::reducePartialCount(isRows, outer, steps, inner);
}

int64_t hyc::cudaKernelWorkspaceBytes(rank::KernelOp kernel) {
  if (kernel.getReduced().empty())
    return 0;
  rank::ReductionLoops loops = rank::reductionLoops(kernel);
  int64_t count = cudaReductionPartials(loops.isRows, loops.outerCount, loops.stepCount, loops.innerCount), bytes = 0;
  for (auto combine : kernel.getBody().front().getOps<rank::CombineOp>()) {
    int64_t bits = combine.getType().getIntOrFloatBitWidth(); // 16-bit floats are combined in f32, booleans are bytes
    int64_t entry = isa<FloatType>(combine.getType()) ? std::max<int64_t>(4, bits / 8) : (bits + 7) / 8;
    bytes += kernels::partialBytes(count, entry);
  }
  return bytes;
}

int64_t hyc::rowSumsBytes(int64_t rows, int64_t cols, int64_t vectors, bool onGpu) {
  return kernels::described::layer_norm::rowSumsBytes(rows, cols, vectors, onGpu);
}

int64_t hyc::groupNormWorkspaceBytes(ArrayRef<int64_t> shape, bool onGpu) {
  return kernels::described::group_norm::workspaceBytes({shape.data(), shape.size()}, onGpu);
}

static int64_t gemmWorkspaceBytes(rank::GemmOp gemm, int64_t threads, bool onGpu) {
  kernels::GemmDesc desc;
  desc.m = gemm.getM(), desc.n = gemm.getN(), desc.k = gemm.getK(), desc.batch = gemm.getBatch();
  desc.hasBias = static_cast<bool>(gemm.getBias());
  kernels::ElementType type = kernelElementType(gemm.getA());
  bool intoF32 = kernelElementType(gemm.getC()) == kernels::ElementType::kF32;
  return onGpu ? kernels::described::gemm::cudaWorkspaceBytes(desc, type)
               : kernels::described::gemm::workspaceBytes(desc, type, intoF32, threads);
}

int64_t hyc::workspaceBytes(Operation *op, int64_t threads) {
  auto module = op->getParentOfType<ModuleOp>();
  bool onGpu = module && module->hasAttr(kTargetAttribute);
  if (auto gemm = dyn_cast<rank::GemmOp>(op))
    return gemmWorkspaceBytes(gemm, threads, onGpu);
  if (auto launch = dyn_cast<rank::LaunchOp>(op)) {
    rank::KernelOp kernel = onGpu ? rank::lookupKernel(launch) : rank::KernelOp();
    return kernel ? cudaKernelWorkspaceBytes(kernel) : 0;
  }
  auto library = dyn_cast<rank::CallOp>(op);
  if (!library)
    return 0;
  KernelCall call(library);
  const kernels::KernelDescription &kernel = call.getKernel();
  if (onGpu)
    return kernel.cudaWorkspace ? kernel.cudaWorkspace(call) : 0;
  return kernel.workspace ? kernel.workspace(call, threads) : 0;
}
