// A rank.call as the description of its kernel sees it (kernels/description.h): operands by name, shapes, attributes.
// Whoever asks what a kernel is asks here, and knows none by its name.
#ifndef HYC_ANALYSIS_KERNELCALL_H
#define HYC_ANALYSIS_KERNELCALL_H

#include "dialects/Rank/RankDialect.h"
#include "kernels/descriptions.h"

#include <deque>

namespace hyc {

class KernelCall : public kernels::Call {
public:
  /// Of a verified call: its kernel has a description.
  explicit KernelCall(rank::CallOp op);

  const kernels::KernelDescription &getKernel() const { return kernel; }
  rank::CallOp getOp() const { return op; }
  /// The operand of this name; null where it was left out. Another name is a fault of the description.
  mlir::Value find(llvm::StringRef operand) const;
  /// Whether a description of this kernel has such an operand, there or left out.
  bool describes(llvm::StringRef operand) const;

  bool has(std::string_view operand) const override;
  kernels::Extents operand(std::string_view name) const override;
  int64_t integer(std::string_view attribute, int64_t otherwise = 0) const override;
  double real(std::string_view attribute) const override;
  bool flag(std::string_view attribute) const override;
  kernels::Numbers list(std::string_view attribute) const override;
  std::string_view text(std::string_view attribute) const override;
  bool onGpu() const override;

private:
  /// Position among the inputs that this call has; nothing where input `row` of the description was left out.
  std::optional<unsigned> positionOf(int row) const;

  rank::CallOp op;
  const kernels::KernelDescription &kernel;
  mutable std::deque<llvm::SmallVector<int64_t>>
      strides; ///< of operands that were asked for: what they were given lasts
};

/// The kernel of a call, the kind of a started exchange or of a move, else what the op is called: "gemm". Empty for
/// what only names something.
std::string callName(mlir::Operation *op);

/// Floating-point operations of a call; 0 where its description counts none, and memory decides.
double operationsOf(mlir::Operation *call);

/// Of the elements of a buffer.
kernels::ElementType kernelElementType(mlir::Value buffer);

} // namespace hyc

#endif // HYC_ANALYSIS_KERNELCALL_H
