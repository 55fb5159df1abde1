// Giving out ids that nobody has, and reading the path out of one.
#include "hyc/Support/OpIds.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringExtras.h"

using namespace hyc;
using llvm::StringRef;

OpIds::OpIds(mlir::Operation *root) {
  root->walk<mlir::WalkOrder::PreOrder>([&](mlir::Operation *op) {
    // A module inside is another model, whose ids are its own affair.
    if (op != root && llvm::isa<mlir::ModuleOp>(op))
      return mlir::WalkResult::skip();
    if (mlir::StringAttr id = getIdAttr(op))
      taken.insert(id.getValue());
    return mlir::WalkResult::advance();
  });
}

std::string OpIds::claim(const llvm::Twine &wanted) {
  std::string base = wanted.str(), id = base;
  while (!taken.insert(id).second) {
    unsigned &number = next[base];
    number = std::max(number, 1u) + 1;
    id = base + "." + std::to_string(number);
  }
  return id;
}

void OpIds::assign(mlir::Operation *op, StringRef path) {
  StringRef mnemonic = op->getName().stripDialect();
  setId(op, claim(path.empty() ? llvm::Twine(mnemonic) : path + "." + mnemonic));
}

StringRef hyc::getIdPath(mlir::Operation *op) {
  StringRef id = getId(op);
  auto [path, last] = id.rsplit('.');
  if (last.empty())
    return "";
  if (llvm::all_of(last, llvm::isDigit))
    std::tie(path, last) = path.rsplit('.');
  return last == op->getName().stripDialect() ? path : id;
}
