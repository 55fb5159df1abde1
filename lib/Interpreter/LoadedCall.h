// One call of a library kernel, as the rank interpreter executes it.
#ifndef HYC_LIB_INTERPRETER_LOADEDCALL_H
#define HYC_LIB_INTERPRETER_LOADEDCALL_H

#include "RankCalls.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace hyc::interpreter {

/// A call with its inputs loaded.
struct Loaded {
  RankCall &call;
  rank::CallOp op;
  llvm::SmallVector<Tensor> ins;

  double real(llvm::StringRef name, double otherwise = 0) const {
    auto attribute = op->getAttrOfType<mlir::FloatAttr>(name);
    return attribute ? attribute.getValueAsDouble() : otherwise;
  }
  int64_t integer(llvm::StringRef name, int64_t otherwise = 0) const {
    auto attribute = op->getAttrOfType<mlir::IntegerAttr>(name);
    return attribute ? attribute.getInt() : otherwise;
  }
  mlir::Value out(unsigned index) const { return rank::CallOp(op).getOuts()[index]; }
  llvm::ArrayRef<int64_t> outShape(unsigned index) const {
    return llvm::cast<rank::BufferType>(out(index).getType()).getShape();
  }
  Tensor makeOut(unsigned index) const { return Tensor(call.kindOf(out(index)), outShape(index)); }
  llvm::LogicalResult store(unsigned index, const Tensor &value) const { return call.store(op, out(index), value); }
  llvm::LogicalResult storeAs(unsigned index, const Tensor &value, rank::WriteMode mode) const {
    return call.store(op, call.regionOf(out(index)), value, mode);
  }
  rank::WriteMode mode() const { return rank::CallOp(op).getMode(); }
};

using Executor = llvm::LogicalResult (*)(Loaded &);

inline llvm::LogicalResult all(std::initializer_list<llvm::LogicalResult> results) {
  for (llvm::LogicalResult result : results)
    if (failed(result))
      return llvm::failure();
  return llvm::success();
}

/// Kernels over windows and by number (IndexedKernels.cpp); null for the name of another.
Executor findIndexedKernel(llvm::StringRef kernel);

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_LOADEDCALL_H
