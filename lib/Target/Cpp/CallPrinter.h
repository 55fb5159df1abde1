// Prints calls of library kernels: for each target one printer, which reads the kernels' descriptions and knows by name
// only what has no function of its own there.
#ifndef HYC_LIB_TARGET_CPP_CALLPRINTER_H
#define HYC_LIB_TARGET_CPP_CALLPRINTER_H

#include "hyc/Analysis/KernelCall.h"

#include <memory>

namespace hyc::cpp {

class FunctionEmitter;

class CallPrinter {
public:
  explicit CallPrinter(FunctionEmitter &out) : out(out) {}
  virtual ~CallPrinter() = default;

  llvm::LogicalResult print(rank::CallOp op);
  /// What is done with many tensors alike may be one call; returns how many of `calls` have been printed, 0 where the
  /// first is nothing of the kind.
  virtual size_t printRun(llvm::ArrayRef<mlir::Operation *> calls) { return 0; }
  /// A call of a kernel: of the library, or generated ("kernels::add_4096").
  virtual void callLine(llvm::StringRef function, llvm::ArrayRef<std::string> arguments) = 0;
  /// What generated kernels get behind their operands.
  virtual void addLaunchArguments(rank::LaunchOp op, llvm::SmallVectorImpl<std::string> &arguments) {}

  /// "ctx.arena": what gives the address of an arena.
  virtual llvm::StringRef arenaFunction() const = 0;
  /// Stands before all calls of a function.
  virtual llvm::StringRef declarations() const { return ""; }
  virtual const char *headerOfProducts(kernels::ElementType type) const = 0;

protected:
  virtual const kernels::Function &functionOf(const kernels::KernelDescription &kernel) const = 0;
  /// Of a kernel without a text.
  virtual llvm::LogicalResult printStatement(const KernelCall &call) = 0;
  /// A number that a step computes, in a field of the struct: nothing where the function gets its address elsewhere.
  virtual std::optional<std::string> scalarText(const KernelCall &call, const kernels::Field &field) = 0;
  /// Stands before the call itself.
  virtual std::string conditionOf(const KernelCall &call) { return ""; }
  /// Says what the indices of a call have to be, where nothing in front of it has checked that.
  void printIndexCheck(const KernelCall &call);
  /// The function that does: of the context, the op's name, indices, their number and bound, and what is not counted.
  virtual llvm::StringRef indexCheck() const = 0;

  /// `text` of a description (kernels/description.h says what is replaced).
  std::string expand(const KernelCall &call, llvm::StringRef text);
  /// Of a size that is an expression.
  std::string sizeInStep(const KernelCall &call, const kernels::Field &field);
  void comment(const KernelCall &call);

  FunctionEmitter &out;

private:
  class Expansion;
  void printCall(const KernelCall &call, llvm::StringRef text);
  void declareArray(mlir::DenseElementsAttr values, llvm::StringRef name);
};

std::unique_ptr<CallPrinter> makeCpuCallPrinter(FunctionEmitter &out);
/// Kernels are those of kernels/<op>/cuda.h, on the stream `stream`.
std::unique_ptr<CallPrinter> makeCudaCallPrinter(FunctionEmitter &out);

} // namespace hyc::cpp

#endif // HYC_LIB_TARGET_CPP_CALLPRINTER_H
