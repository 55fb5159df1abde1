// Making ids of ops (dialects/Hyc/OpId.h): of a module path and an op's mnemonic, unique within a module.
#ifndef HYC_SUPPORT_OPIDS_H
#define HYC_SUPPORT_OPIDS_H

#include "dialects/Hyc/OpId.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <string>

namespace hyc {

/// Gives out ids that no op below `root` has.
class OpIds {
public:
  OpIds() = default;
  explicit OpIds(mlir::Operation *root);

  /// `path.mnemonic` of `op`, followed by .2, .3 … where that is taken; sets it.
  void assign(mlir::Operation *op, llvm::StringRef path);
  /// The unique form of an id.
  std::string claim(const llvm::Twine &wanted);

private:
  llvm::StringSet<> taken;
  llvm::StringMap<unsigned> next;
};

/// The module path in the id of `op`: the id without the op's mnemonic and number. Empty if it has no id.
llvm::StringRef getIdPath(mlir::Operation *op);

} // namespace hyc

#endif // HYC_SUPPORT_OPIDS_H
