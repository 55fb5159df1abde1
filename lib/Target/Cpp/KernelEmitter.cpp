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

/// Whether a kernel writes bytes, which for all that C++ knows could be anything: the pointers that a lambda has, too,
/// which would then be read anew for each element.
static bool writesBytes(rank::KernelOp kernel) {
  return llvm::any_of(kernel.getResultTypes().getAsValueRange<TypeAttr>(),
                      [](Type type) { return type.getIntOrFloatBitWidth() <= 8; });
}

/// "in0", "out0".
static SmallVector<std::string> pointers(rank::KernelOp kernel) {
  SmallVector<std::string> names;
  for (unsigned i = 0, inputs = kernel.getBody().getNumArguments(); i < inputs; ++i)
    names.push_back("in" + std::to_string(i));
  for (unsigned i = 0; i < kernel.getResultTypes().size(); ++i)
    names.push_back("out" + std::to_string(i));
  return names;
}

/// What the lambda of a team takes in.
static std::string captures(rank::KernelOp kernel) {
  if (!writesBytes(kernel))
    return "[=]";
  return "[" +
         llvm::join(
             llvm::map_range(pointers(kernel), [](const std::string &name) { return "shared_" + name + " = " + name; }),
             ", ") +
         "]";
}

/// Copies of it that nothing else can see.
static std::string ownPointers(rank::KernelOp kernel) {
  std::string text;
  if (writesBytes(kernel))
    for (const std::string &name : pointers(kernel))
      text += "  const auto " + name + " = shared_" + name + ";\n";
  return text;
}

static LogicalResult emitElementwise(rank::KernelOp kernel, raw_ostream &os) {
  SmallVector<int64_t> space(kernel.getSpace());
  int64_t elements = 1;
  for (int64_t size : space)
    elements *= size;
  std::string indent = "  ";
  bool isParallel = elements >= kParallelElements;
  if (isParallel)
    os << "  hyc::kernels::runTeam(true, " << captures(kernel) << " {\n" << ownPointers(kernel);
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
