// The one place in which a node's arguments are compared with those of torch's schema of its operator.
#include "Translator.h"

#include "hyc/Support/NearestName.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace hyc;
using namespace hyc::torchexport;
using llvm::StringRef;

namespace {
struct OperatorArguments {
  StringRef target;
  StringRef names; // apart by spaces, in their order
};

constexpr OperatorArguments kRows[] = {
#define ARGUMENTS(TARGET, NAMES) {TARGET, NAMES},
#include "ArgumentTable.inc"
#undef ARGUMENTS
};
} // namespace

std::optional<llvm::SmallVector<StringRef>> hyc::torchexport::argumentsOf(StringRef target) {
  static const llvm::StringMap<StringRef> table = [] {
    llvm::StringMap<StringRef> result;
    for (const OperatorArguments &row : kRows)
      result[row.target] = row.names;
    return result;
  }();
  auto found = table.find(target);
  if (std::optional<std::string> pure = withoutWriting(target); pure && found == table.end())
    found = table.find(*pure);
  if (found == table.end())
    return std::nullopt;
  llvm::SmallVector<StringRef> names;
  found->second.split(names, ' ', -1, false);
  if (writesOut(target))
    names.push_back(kOutArgument);
  return names;
}

bool NodeTranslation::checkArguments() {
  std::optional<llvm::SmallVector<StringRef>> known = argumentsOf(node.target);
  if (!known)
    return true;
  for (const Argument &argument : node.arguments) {
    if (llvm::is_contained(*known, argument.name))
      continue;
    StringRef nearest = nearestName(argument.name, *known);
    error() << "has the argument '" << argument.name << "', which hyc does not know of this operator; "
            << (nameDistance(argument.name, nearest) <= 2 && !nearest.empty()
                    ? "did you mean '" + nearest.str() + "'?"
                    : "it knows '" + llvm::join(*known, "', '") + "'");
    return false;
  }
  return true;
}
