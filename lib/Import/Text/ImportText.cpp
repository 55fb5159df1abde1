// The checks before parsing, then MLIR's parser.
#include "hyc/Import/Text/ImportText.h"

#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Support/InputFile.h"
#include "hyc/Support/OpIds.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include <optional>
#include <utility>

using namespace mlir;
using namespace hyc;

/// Characters of one affine map or set, whose parser recurses once per operator.
static constexpr size_t kMaxAffineText = 4096;
/// Characters of an alias in which the aliases that it uses are written out: each may use the one before twice.
static constexpr uint64_t kMaxAliasText = uint64_t(1) << 22;

namespace {
/// What an alias stands for.
struct Alias {
  uint64_t characters = 0; ///< with the aliases that it uses written out
  unsigned nesting = 0;    ///< of brackets, in those too
};

/// One pass over the characters outside of strings and comments.
class TextScanner {
public:
  TextScanner(MLIRContext &context, StringRef text, StringRef name) : context(context), text(text), name(name) {}

  LogicalResult scan() {
    for (at = 0; at < text.size(); ++at) {
      if (skipString()) {
        if (nulAt != StringRef::npos)
          return error(nulAt) << "NUL character in a string";
        continue;
      }
      if (skipComment())
        continue;
      if (failed(followAlias()) || failed(countNesting()) || failed(checkSizes()) || failed(checkAffine()))
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
    size_t begin = at;
    for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
      if (text[at] == '\\') {
        nulAt = text.drop_front(at + 1).starts_with("00") ? std::min(nulAt, at) : nulAt;
        ++at;
      }
    alias.characters += at - begin;
    return true;
  }

  bool skipComment() {
    if (!text.drop_front(at).starts_with("//"))
      return false;
    at = std::min(text.find('\n', at), text.size());
    return true;
  }

  InFlightDiagnostic tooDeep() { return error(at) << "nested deeper than " << kMaxTextNesting << " brackets"; }

  LogicalResult countNesting() {
    char c = text[at];
    bool isArrow = c == '>' && at > 0 && text[at - 1] == '-';
    if (StringRef("([{<").contains(c) && ++depth > kMaxTextNesting)
      return tooDeep();
    if (StringRef(")]}>").contains(c) && !isArrow && depth > 0)
      --depth;
    alias.nesting = std::max(alias.nesting, depth);
    return success();
  }

  /// `#name` and `!name`: their definitions, which stand outside of all brackets, and their uses.
  LogicalResult followAlias() {
    endDefinition();
    ++alias.characters;
    if (text[at] != '#' && text[at] != '!')
      return success();
    StringRef key = text.drop_front(at).take_while([first = true](char c) mutable {
      return std::exchange(first, false) || llvm::isAlnum(c) || StringRef("_$.-").contains(c);
    });
    StringRef after = text.drop_front(at + key.size()).ltrim();
    if (depth == 0 && after.starts_with("=") && !after.starts_with("==")) {
      store();
      defined = key;
      alias = {};
      valueBegins = after.begin() + 1 - text.begin();
      return success();
    }
    auto used = aliases.find(key);
    if (used == aliases.end())
      return success();
    alias.characters += used->second.characters;
    alias.nesting = std::max(alias.nesting, depth + used->second.nesting);
    if (alias.nesting > kMaxTextNesting)
      return tooDeep() << ", those of alias '" << key << "' included";
    if (!defined.empty() && alias.characters > kMaxAliasText)
      return error(at) << "alias '" << defined << "' has more than " << kMaxAliasText
                       << " characters once the aliases that it uses are written out";
    return success();
  }

  /// A definition ends with its line, but for what is in brackets and for the type after a colon.
  void endDefinition() {
    if (depth > 0 || text[at] != '\n')
      return;
    StringRef value = text.slice(valueBegins, at).trim(), rest = text.drop_front(at).ltrim();
    if (!defined.empty() && (value.empty() || value.ends_with(":") || rest.starts_with(":")))
      return;
    store();
    alias = {};
  }

  void store() {
    if (!defined.empty())
      aliases[defined] = alias;
    defined = {};
  }

  /// After `<`, multiplies the dimensions that follow, as in `tensor<4x?xf32>`.
  LogicalResult checkSizes() {
    StringRef rest = text.drop_front(at);
    if (!rest.consume_front("<"))
      return success();
    int64_t elements = 1;
    for (rest = rest.ltrim(); !rest.empty();) {
      bool isScalable = rest.consume_front("[");
      StringRef digits = rest.take_while([](char c) { return llvm::isDigit(c) || c == '?'; });
      rest = rest.drop_front(digits.size());
      if (digits.empty() || (isScalable && !rest.consume_front("]")) || !rest.consume_front("x"))
        break;
      int64_t size = 0;
      if (digits != "?" && (digits.getAsInteger(10, size) || size > kMaxTensorElements ||
                            (size > 0 && elements > kMaxTensorElements / size)))
        return error(text.take_front(at).rtrim("abcdefghijklmnopqrstuvwxyz").size())
               << "tensor has more than 2^40 elements";
      if (digits == "0") // of no elements, or a number in hexadecimal
        break;
      elements *= std::max<int64_t>(size, 1);
    }
    return success();
  }

  LogicalResult checkAffine() {
    StringRef rest = text.drop_front(at);
    if ((rest.consume_front("affine_map") || rest.consume_front("affine_set")) && rest.ltrim().starts_with("<")) {
      affineBegins = at;
      affineDepth = depth;
    }
    if (affineBegins && depth <= affineDepth && (text[at] == '>' && text[at - 1] != '-'))
      affineBegins = std::nullopt;
    if (affineBegins && at - *affineBegins > kMaxAffineText)
      return error(*affineBegins) << "affine map of more than " << kMaxAffineText << " characters";
    return success();
  }

  MLIRContext &context;
  StringRef text, name;
  size_t at = 0;
  unsigned depth = 0;
  std::optional<size_t> affineBegins;
  unsigned affineDepth = 0;
  llvm::StringMap<Alias> aliases;
  size_t nulAt = StringRef::npos; ///< the first NUL that a string spells
  StringRef defined;              ///< the alias whose definition this is; empty elsewhere
  Alias alias;                    ///< of that, so far
  size_t valueBegins = 0;
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

/// Null also where MLIR's parser goes on after an error: of a string without an end behind a type of our own it drops
/// the rest of the line, and tells the error twice.
static OwningOpRef<ModuleOp> parse(MLIRContext &context, const llvm::SourceMgr &sources) {
  bool hasErrors = false;
  std::pair<Location, std::string> last(UnknownLoc::get(&context), "");
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    hasErrors |= diagnostic.getSeverity() == DiagnosticSeverity::Error;
    std::pair<Location, std::string> told(diagnostic.getLocation(), diagnostic.str());
    bool isNew = told != last;
    last = std::move(told);
    return failure(isNew); // for whoever listens
  });
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (hasErrors)
    return nullptr;
  return module;
}

FailureOr<OwningOpRef<ModuleOp>> hyc::importText(MLIRContext &context, StringRef path) {
  auto buffer = openInputFile(path, kMaxTextBytes, /*endsWithNul=*/true);
  if (!buffer) {
    emitError(FileLineColLoc::get(&context, path, 0, 0)) << "cannot read: " << llvm::toString(buffer.takeError());
    return failure();
  }
  if (failed(checkModuleText(context, (*buffer)->getBuffer(), path)))
    return failure();
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(*buffer), llvm::SMLoc());
  OwningOpRef<ModuleOp> module = parse(context, sources);
  if (!module)
    return failure();
  nameOps(*module);
  if (!(*module)->hasAttr(kModelFolder)) {
    StringRef folder = llvm::sys::path::parent_path(path);
    (*module)->setAttr(kModelFolder, StringAttr::get(&context, folder.empty() ? StringRef(".") : folder));
  }
  return module;
}
