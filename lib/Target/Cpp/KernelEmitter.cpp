// Loops of kernels: written out where all results are elementwise, by kernels/reduce/loops.h where some are combined.
//
// The surprise: pointers carry no __restrict, since a result may be written over an operand; `omp simd` promises
// instead that iterations are independent, which is true in that case too.
#include "KernelEmitter.h"
#include "KernelPrinters.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::cpp;

/// Fewer elements than this are not worth waking threads for.
static constexpr int64_t kParallelElements = 32768;

static LogicalResult emitElementwise(rank::KernelOp kernel, raw_ostream &os) {
  SmallVector<int64_t> space(kernel.getSpace());
  int64_t elements = 1;
  for (int64_t size : space)
    elements *= size;
  std::string indent = "  ";
  bool isParallel = elements >= kParallelElements;
  if (isParallel)
    os << "  hyc::kernels::runTeam(true, [=] {\n";
  for (auto [d, size] : llvm::enumerate(space)) {
    bool isInner = d + 1 == space.size(), isOuter = d == 0;
    if (isOuter && isParallel)
      os << "#pragma omp for" << (isInner ? " simd" : "") << " schedule(static) nowait\n";
    else if (isInner)
      os << "#pragma omp simd\n";
    os << indent << "for (int64_t i" << d << " = 0; i" << d << " < " << size << "; ++i" << d << ") {\n";
    indent += "  ";
  }
  BodyPrinter printer(kernel);
  SmallVector<Value> results(kernel.getBody().front().getTerminator()->getOperands());
  if (failed(printer.print(results, indent, os)))
    return failure();
  for (auto [i, value] : llvm::enumerate(results))
    os << indent << printer.out(i) << " = " << printer.nameOf(value).str() << ";\n";
  for (size_t d = space.size(); d > 0; --d) {
    indent.resize(indent.size() - 2);
    os << indent << "}\n";
  }
  if (isParallel)
    os << "  });\n";
  return success();
}

std::string cpp::kernelSignature(rank::KernelOp kernel) {
  return "void " + identifier(kernel.getSymName()) + "(" + llvm::join(operandParameters(kernel), ", ") + ")";
}

LogicalResult cpp::emitKernel(rank::KernelOp kernel, raw_ostream &os) {
  os << kernelSignature(kernel) << " {\n";
  if (failed(kernel.getReduced().empty() ? emitElementwise(kernel, os) : ReductionPrinter(kernel).print(os)))
    return failure();
  os << "}\n\n";
  return success();
}
