// The id of an op (`id = "h.0.attn.matmul"`): its name in plans, reports, messages and comments of generated code. The
// ops of a model get theirs from hyc/Support/OpIds.h; what a later phase makes of one keeps it, or has one that begins
// with it, down to the calls and addresses of the rank dialect, where an address has the name of what lies there.
#ifndef HYC_DIALECTS_HYC_OPID_H
#define HYC_DIALECTS_HYC_OPID_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace hyc {

inline constexpr llvm::StringLiteral kId = "id";

/// Null if the op has none.
inline mlir::StringAttr getIdAttr(mlir::Operation *op) { return op->getAttrOfType<mlir::StringAttr>(kId); }

/// The id of an op, or an empty string.
inline llvm::StringRef getId(mlir::Operation *op) {
  mlir::StringAttr id = getIdAttr(op);
  return id ? id.getValue() : llvm::StringRef();
}

inline void setId(mlir::Operation *op, mlir::StringAttr id) { op->setAttr(kId, id); }
inline void setId(mlir::Operation *op, const llvm::Twine &id) {
  setId(op, mlir::StringAttr::get(op->getContext(), id));
}

inline void eraseId(mlir::Operation *op) { op->removeAttr(kId); }

/// Gives `to`, which does what `from` does or a part of it, the id of `from`, if that has one.
inline void copyId(mlir::Operation *from, mlir::Operation *to) {
  if (!getId(from).empty())
    setId(to, getIdAttr(from));
}

} // namespace hyc

#endif // HYC_DIALECTS_HYC_OPID_H
