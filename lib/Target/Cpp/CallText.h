// What the printers of calls ask of an op and its operands.
#ifndef HYC_LIB_TARGET_CPP_CALLTEXT_H
#define HYC_LIB_TARGET_CPP_CALLTEXT_H

#include "Names.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace hyc::cpp {

inline rank::BufferType typeOf(mlir::Value buffer) { return mlir::cast<rank::BufferType>(buffer.getType()); }

inline std::string str(int64_t value) { return std::to_string(value); }

/// An attribute of the op, or `otherwise` where it has none of that name.
inline int64_t integer(mlir::Operation *op, llvm::StringRef name, int64_t otherwise = 0) {
  auto attribute = op->getAttrOfType<mlir::IntegerAttr>(name);
  return attribute ? attribute.getInt() : otherwise;
}

/// As C++ spells it; 0 where the op has none of that name.
inline std::string real(mlir::Operation *op, llvm::StringRef name) {
  auto attribute = op->getAttrOfType<mlir::FloatAttr>(name);
  return number(attribute ? attribute.getValueAsDouble() : 0);
}

} // namespace hyc::cpp

#endif // HYC_LIB_TARGET_CPP_CALLTEXT_H
