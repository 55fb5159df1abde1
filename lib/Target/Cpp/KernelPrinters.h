// What printers of rank.kernels for CPUs and GPUs share: statements of bodies, and the parts of a reduction.
#ifndef HYC_LIB_TARGET_CPP_KERNELPRINTERS_H
#define HYC_LIB_TARGET_CPP_KERNELPRINTERS_H

#include "Names.h"
#include "dialects/Rank/KernelStructure.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/raw_ostream.h"

#include <functional>

namespace hyc::cpp {

/// How results of 16 bits are computed: as f32 ones, or by the approximations of GPUs (kernels/math/narrow.h).
enum class NarrowFunctions { Exact, Approximate };

/// Prints the statements that some values of a body need, in the order of the body.
class BodyPrinter {
public:
  explicit BodyPrinter(rank::KernelOp kernel, NarrowFunctions narrow = NarrowFunctions::Exact)
      : kernel(kernel), block(kernel.getBody().front()), narrow(narrow) {}

  /// Where the elements of inputs come from, if not from memory by their index.
  void setLoad(std::function<std::string(unsigned)> function) { load = std::move(function); }
  /// Dimensions that are counted through by one index of this name. Operands that lie so are read by it.
  void setJoined(llvm::ArrayRef<unsigned> dims, llvm::StringRef name) {
    joined.assign(dims.begin(), dims.end());
    joinedName = name;
  }
  /// What a value that needs no statement is called: an accumulator.
  void setName(mlir::Value value, std::string name) { names[value] = std::move(name); }
  llvm::StringRef nameOf(mlir::Value value) { return names[value]; }
  /// The same as memory keeps it.
  std::string stored(mlir::Value value);

  llvm::LogicalResult print(llvm::ArrayRef<mlir::Value> values, llvm::StringRef indent, llvm::raw_ostream &os);

  /// Position of the element of operand `operand`.
  std::string index(unsigned operand);
  /// "out1[i0 * 64]".
  std::string out(unsigned result);

private:
  llvm::LogicalResult printOp(mlir::Operation &op, llvm::StringRef indent, llvm::raw_ostream &os);

  std::string spell(rank::ScalarComputeOp op);

  rank::KernelOp kernel;
  mlir::Block &block;
  NarrowFunctions narrow;
  llvm::DenseMap<mlir::Value, std::string> names;
  std::function<std::string(unsigned)> load;
  llvm::SmallVector<unsigned> joined;
  std::string joinedName;
};

/// Prints a kernel that combines as two lambdas and a call of loops.h.
class ReductionPrinter {
public:
  explicit ReductionPrinter(rank::KernelOp kernel, NarrowFunctions narrow = NarrowFunctions::Exact);

  llvm::LogicalResult print(llvm::raw_ostream &os);

  /// "Sum<float>, Max<float>"
  std::string combinations();
  std::string space() const;

protected:
  /// One element: whole results are written, the rest goes into the accumulators.
  llvm::LogicalResult printElement(std::string &text);
  llvm::LogicalResult printElement(BodyPrinter &printer, llvm::function_ref<std::string(unsigned)> out,
                                   llvm::raw_ostream &os);

  /// A printer of what is done with one element.
  BodyPrinter elementPrinter(NarrowFunctions narrow = NarrowFunctions::Exact) const {
    BodyPrinter printer(kernel, narrow);
    if (loops.inner.size() > 1)
      printer.setJoined(loops.inner, "inner");
    return printer;
  }

  /// One complete result.
  llvm::LogicalResult printFinish(std::string &text);

  /// Whether a name, "i3", stands in the text as a word.
  static bool usesName(llvm::StringRef text, llvm::StringRef name);
  static bool usesAny(llvm::StringRef text, llvm::ArrayRef<unsigned> dims);

  /// "int64_t i0"; for several dimensions "int64_t outer", which `decode` takes apart.
  std::string indexParameter(llvm::StringRef together, llvm::ArrayRef<unsigned> dims, llvm::StringRef text);
  std::string decode(llvm::StringRef together, llvm::ArrayRef<unsigned> dims, llvm::StringRef text);
  std::string parameters(llvm::StringRef reference);

  rank::KernelOp kernel;
  mlir::Block &block;
  NarrowFunctions narrow;
  rank::ReductionLoops loops;
  llvm::DenseSet<mlir::Value> combined;
  llvm::SmallVector<rank::CombineOp> combines;
  llvm::SmallVector<std::string> accumulators;
  std::string indexType = "int64_t";
};

/// "const float* in0", "float* out0", "WriteMode mode".
llvm::SmallVector<std::string> operandParameters(rank::KernelOp kernel);

} // namespace hyc::cpp

#endif // HYC_LIB_TARGET_CPP_KERNELPRINTERS_H
