// Sizes that an archive leaves open, once the symbols in them have numbers: what is translated then sees none but
// numbers.
#include "SymbolicSizes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace hyc;
using namespace hyc::torchexport;
using llvm::StringRef;

static constexpr int kMaxDepth = 64; // of expressions within one another

namespace {
/// Reads sympy's notation, Mul(Integer(16), Symbol('s40', positive=True, integer=True)): whole numbers, symbols, sums,
/// products, and powers that are whole numbers. Others, and what 63 bits do not hold, have no value.
class Expression {
public:
  Expression(StringRef text, const llvm::StringMap<int64_t> &values) : rest(text), values(values) {}

  std::optional<int64_t> evaluate() {
    std::optional<int64_t> value = term(0);
    return value && rest.trim().empty() ? value : std::nullopt;
  }

private:
  std::optional<int64_t> term(int depth) {
    rest = rest.ltrim();
    StringRef kind = rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    rest = rest.drop_front(kind.size());
    if (depth > kMaxDepth || !rest.consume_front("("))
      return std::nullopt;
    if (kind == "Integer")
      return number();
    if (kind == "Symbol")
      return symbol();
    return kind == "Mul" || kind == "Add" || kind == "Pow" ? combined(kind, depth) : std::nullopt;
  }

  std::optional<int64_t> number() {
    int64_t value = 0;
    if (rest.consumeInteger(10, value) || !rest.consume_front(")"))
      return std::nullopt;
    return value;
  }

  std::optional<int64_t> symbol() {
    if (!rest.consume_front("'"))
      return std::nullopt;
    StringRef name = rest.take_until([](char c) { return c == '\''; });
    size_t end = rest.find(')');
    auto found = values.find(name);
    if (end == StringRef::npos || found == values.end())
      return std::nullopt;
    rest = rest.drop_front(end + 1);
    return found->second;
  }

  std::optional<int64_t> combined(StringRef kind, int depth) {
    std::optional<int64_t> result = term(depth + 1);
    while (result && rest.ltrim().starts_with(",")) {
      rest = rest.ltrim().drop_front();
      std::optional<int64_t> next = term(depth + 1);
      result = next ? apply(kind, *result, *next) : std::nullopt;
    }
    rest = rest.ltrim();
    return rest.consume_front(")") ? result : std::nullopt;
  }

  static std::optional<int64_t> apply(StringRef kind, int64_t a, int64_t b) {
    int64_t result = 0;
    if (kind == "Add")
      return llvm::AddOverflow(a, b, result) ? std::nullopt : std::optional(result);
    if (kind == "Mul")
      return llvm::MulOverflow(a, b, result) ? std::nullopt : std::optional(result);
    if (b < 0 || b > 62)
      return std::nullopt;
    result = 1;
    for (; b > 0; --b)
      if (llvm::MulOverflow(result, a, result))
        return std::nullopt;
    return result;
  }

  StringRef rest;
  const llvm::StringMap<int64_t> &values;
};
} // namespace

std::optional<int64_t> hyc::torchexport::evaluateSize(const Size &size, const llvm::StringMap<int64_t> &values) {
  if (size.value)
    return size.value;
  if (size.symbol.find('(') != std::string::npos)
    return Expression(size.symbol, values).evaluate();
  auto found = values.find(size.symbol);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

void hyc::torchexport::bindSizes(Program &program, const llvm::StringMap<int64_t> &dims, std::optional<int64_t> batch) {
  llvm::StringMap<int64_t> values = dims;
  for (const std::string &input : program.inputs)
    if (auto meta = program.values.find(input); batch && meta != program.values.end() && !meta->second.sizes.empty())
      if (const Size &first = meta->second.sizes.front(); !first.value)
        values.try_emplace(first.symbol, *batch);
  if (values.empty())
    return;
  for (auto &entry : program.values)
    for (std::vector<Size> *sizes : {&entry.second.sizes, &entry.second.strides})
      for (Size &size : *sizes)
        size.value = evaluateSize(size, values);
}
