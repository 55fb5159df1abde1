// The checks before parsing, then MLIR's parser.
#include "hyc/Import/Text/ImportText.h"

#include "dialects/Hyc/HycDialect.h"
#include "hyc/Support/OpIds.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace hyc;

namespace {
/// One pass over the characters outside of strings and comments.
class TextScanner {
public:
  TextScanner(MLIRContext &context, StringRef text, StringRef name) : context(context), text(text), name(name) {}

  LogicalResult scan() {
    for (at = 0; at < text.size(); ++at) {
      if (skipString() || skipComment())
        continue;
      if (failed(countNesting()) || failed(checkTensor()))
        return failure();
    }
    return success();
  }

  InFlightDiagnostic error(size_t position) {
    StringRef before = text.take_front(position);
    unsigned line = before.count('\n') + 1;
    unsigned column = position - (before.rfind('\n') == StringRef::npos ? 0 : before.rfind('\n') + 1) + 1;
    return emitError(FileLineColLoc::get(&context, name, line, column));
  }

private:
  bool skipString() {
    if (text[at] != '"')
      return false;
    for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
      if (text[at] == '\\')
        ++at;
    return true;
  }

  bool skipComment() {
    if (!text.drop_front(at).starts_with("//"))
      return false;
    at = std::min(text.find('\n', at), text.size());
    return true;
  }

  LogicalResult countNesting() {
    char c = text[at];
    bool isArrow = c == '>' && at > 0 && text[at - 1] == '-';
    if (StringRef("([{<").contains(c) && ++depth > kMaxTextNesting)
      return error(at) << "nested deeper than " << kMaxTextNesting << " brackets";
    if (StringRef(")]}>").contains(c) && !isArrow && depth > 0)
      --depth;
    return success();
  }

  /// At `tensor<`, multiplies the dimensions that follow.
  LogicalResult checkTensor() {
    StringRef rest = text.drop_front(at);
    if (!rest.consume_front("tensor<"))
      return success();
    int64_t elements = 1;
    while (!rest.empty() && (llvm::isDigit(rest.front()) || rest.front() == '?')) {
      StringRef digits = rest.take_while([](char c) { return llvm::isDigit(c) || c == '?'; });
      rest = rest.drop_front(digits.size());
      int64_t size = 0;
      if (digits != "?" && (digits.getAsInteger(10, size) || size > kMaxTensorElements ||
                            (size > 0 && elements > kMaxTensorElements / size)))
        return error(at) << "tensor has more than 2^40 elements";
      elements *= std::max<int64_t>(size, 1);
      if (!rest.consume_front("x"))
        break;
    }
    return success();
  }

  MLIRContext &context;
  StringRef text, name;
  size_t at = 0;
  unsigned depth = 0;
};
} // namespace

LogicalResult hyc::checkModuleText(MLIRContext &context, StringRef text, StringRef name) {
  TextScanner scanner(context, text, name);
  if (size_t at = text.find('\0'); at != StringRef::npos)
    return scanner.error(at) << "NUL character in text";
  auto *first = reinterpret_cast<const llvm::UTF8 *>(text.begin());
  if (const auto *bad = first; !llvm::isLegalUTF8String(&bad, reinterpret_cast<const llvm::UTF8 *>(text.end())))
    return scanner.error(bad - first) << "not valid UTF-8";
  return scanner.scan();
}

/// What a person writes need not name every op; passes and plans want names.
static void nameOps(ModuleOp module) {
  OpIds ids(module);
  for (auto function : module.getOps<FuncOp>())
    for (Operation &op : function.getBody().front().without_terminator())
      if (!isa<ReadOp, ConstantOp>(op) && getId(&op).empty())
        ids.assign(&op, "");
}

FailureOr<OwningOpRef<ModuleOp>> hyc::importText(MLIRContext &context, StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) {
    emitError(FileLineColLoc::get(&context, path, 0, 0)) << "cannot read: " << buffer.getError().message();
    return failure();
  }
  if (failed(checkModuleText(context, (*buffer)->getBuffer(), path)))
    return failure();
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(*buffer), llvm::SMLoc());
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return failure();
  nameOps(*module);
  constexpr llvm::StringLiteral folderAttr = "hyc.model_folder";
  if (!(*module)->hasAttr(folderAttr)) {
    StringRef folder = llvm::sys::path::parent_path(path);
    (*module)->setAttr(folderAttr, StringAttr::get(&context, folder.empty() ? StringRef(".") : folder));
  }
  return module;
}
