// From a description's text to the text of one call.
#include "CallPrinter.h"
#include "CallText.h"
#include "FunctionEmitter.h"

#include "dialects/Hyc/OpId.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::cpp;
using kernels::Field, kernels::FieldKind;

static bool isWordPart(char c) { return llvm::isAlnum(c) || c == '_'; }

/// Takes letters, digits and underscores off the beginning of `text`.
static StringRef takeWord(StringRef &text) {
  StringRef word = text.take_while(isWordPart);
  text = text.drop_front(word.size());
  return word;
}

//===----------------------------------------------------------------------===//
// Expansion
//===----------------------------------------------------------------------===//

/// One text of one call.
class CallPrinter::Expansion {
public:
  Expansion(CallPrinter &printer, const KernelCall &call) : printer(printer), out(printer.out), call(call) {}

  std::string expand(StringRef text) {
    std::string result;
    while (!text.empty()) {
      char first = text.front();
      if (first == '[') {
        result += group(text);
      } else if (first == '#') {
        text = text.drop_front();
        StringRef what = takeWord(text);
        result += asked(what, takeList(text));
      } else if (first == '@') {
        text = text.drop_front();
        result += attribute(text);
      } else if (isWordPart(first)) {
        StringRef word = takeWord(text);
        bool isOperand = !text.starts_with("(") && !text.starts_with("::") && call.describes(word);
        result += isOperand ? operand(word) : word.str();
      } else {
        result += first;
        text = text.drop_front();
      }
    }
    return result;
  }

  /// "{.rows = 4, .dropout = {.rate = 0.1}}"
  std::string desc() {
    std::string text;
    StringRef open; // the struct in the struct whose fields are being printed
    for (const Field &field : call.getKernel().fields) {
      std::optional<std::string> value = field.name ? valueOf(field) : std::nullopt;
      if (!value)
        continue;
      auto [outer, inner] = StringRef(field.name).split('.');
      StringRef parent = inner.empty() ? "" : outer;
      if (open != parent && !open.empty())
        text += "}";
      text += text.empty() ? "" : ", ";
      if (open != parent && !parent.empty())
        text += ("." + parent + " = {").str();
      open = parent;
      text += ("." + (inner.empty() ? outer : inner) + " = ").str() + *value;
    }
    return "{" + text + (open.empty() ? "}" : "}}");
  }

  std::string sizeInStep(const Field &field) {
    std::string text = field.text, size = "#size";
    text.replace(text.find(size), size.size(), str(field.size(call)));
    return expand(text);
  }

private:
  /// "[, x]": nothing where x was left out.
  std::string group(StringRef &text) {
    auto [inside, rest] = text.drop_front().split(']');
    text = rest;
    bool wasMissing = std::exchange(isMissing, false);
    std::string result = expand(inside);
    return std::exchange(isMissing, wasMissing) ? "" : result;
  }

  std::string operand(StringRef name) {
    Value buffer = call.find(name);
    isMissing |= !buffer;
    return buffer ? out.pointer(buffer) : "nullptr";
  }

  /// "(x, y)" behind a word: the operands.
  SmallVector<Value> takeList(StringRef &text) {
    SmallVector<Value> values;
    if (!text.consume_front("("))
      return values;
    auto [list, rest] = text.split(')');
    text = rest;
    for (StringRef name : llvm::split(list, ", "))
      values.push_back(call.find(name));
    return values;
  }

  std::string asked(StringRef what, ArrayRef<Value> of) {
    rank::CallOp op = call.getOp();
    if (what == "desc")
      return desc();
    if (what == "mode")
      return out.mode(op.getMode());
    if (what == "count")
      return out.count(of);
    if (what == "elements")
      return str(typeOf(of[0]).getNumElements());
    if (what == "bytes")
      return str(typeOf(of[0]).getElementBytes());
    if (what == "last")
      return str(typeOf(of[0]).getShape().back());
    if (what == "coordinate")
      return out.coordinateAlong(op->getAttrOfType<dist::AxisListAttr>("axes"));
    assert(what == "workspace" && "descriptions ask for what description.h lists");
    std::optional<std::string> workspace = out.workspaceOf(op);
    isMissing |= !workspace;
    return workspace.value_or("nullptr");
  }

  std::string attribute(StringRef &text) {
    StringRef name = takeWord(text);
    std::optional<StringRef> otherwise;
    if (text.consume_front("|"))
      otherwise = takeWord(text);
    Attribute value = rank::CallOp(call.getOp())->getAttr(name);
    if (!value)
      return otherwise ? otherwise->str() : "0";
    if (auto string = dyn_cast<StringAttr>(value)) // the enumerator of that name
      return llvm::toUpper(string.getValue().front()) + string.getValue().drop_front().str();
    if (isa<DenseElementsAttr>(value)) // an array that stands before the call
      return name.str();
    auto integer = dyn_cast<IntegerAttr>(value);
    return integer ? str(integer.getInt()) : number(cast<FloatAttr>(value).getValueAsDouble());
  }

  /// Nothing of a field that keeps what the struct gives it.
  std::optional<std::string> valueOf(const Field &field) {
    if (field.isLeftOut && field.isLeftOut(call))
      return std::nullopt;
    switch (field.kind) {
    case FieldKind::kSize:
      if (!field.text || (field.operand && !call.has(field.operand)))
        return str(field.size(call));
      return field.operand ? printer.scalarText(call, field) : sizeInStep(field);
    case FieldKind::kSizes: {
      kernels::Sizes sizes = field.sizes(call, field.of);
      return braced(ArrayRef(sizes.at, sizes.count));
    }
    case FieldKind::kReal:
      return number(call.real(field.attribute));
    case FieldKind::kFlag:
      return call.flag(field.attribute) ? "true" : "false";
    case FieldKind::kConstant:
      return field.text;
    case FieldKind::kScalar:
      if (call.has(field.operand))
        return printer.scalarText(call, field);
      return field.attribute ? std::optional(number(call.real(field.attribute))) : std::nullopt;
    case FieldKind::kAddress:
      return call.has(field.operand) ? std::optional(operand(field.operand)) : std::nullopt;
    }
    return std::nullopt;
  }

  CallPrinter &printer;
  FunctionEmitter &out;
  const KernelCall &call;
  bool isMissing = false; ///< something that was asked for is not there
};

std::string CallPrinter::expand(const KernelCall &call, StringRef text) { return Expansion(*this, call).expand(text); }

std::string CallPrinter::sizeInStep(const KernelCall &call, const Field &field) {
  return Expansion(*this, call).sizeInStep(field);
}

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

LogicalResult CallPrinter::print(rank::CallOp op) {
  KernelCall call(op);
  const kernels::Function &function = functionOf(call.getKernel());
  if (!function.text)
    return printStatement(call);
  if (function.header)
    out.include(function.header);
  comment(call);
  printIndexCheck(call);
  printCall(call, function.text);
  return success();
}

void CallPrinter::comment(const KernelCall &call) {
  StringRef rest = call.getKernel().comment;
  if (!rest.data())
    return;
  std::string text;
  while (!rest.empty()) {
    auto [before, behind] = rest.split('{');
    auto [name, next] = behind.split('}');
    text += before;
    if (!name.empty())
      text += shapeText(typeOf(call.find(name)));
    rest = next;
  }
  out.comment(call.getOp(), text);
}

void CallPrinter::printIndexCheck(const KernelCall &call) {
  rank::CallOp op = call.getOp();
  std::optional<uint64_t> bound = op.getIndexBound();
  if (!bound)
    return;
  Value indices = call.find(*op.getIndexOperand());
  StringAttr id = getIdAttr(op);
  std::string name;
  llvm::raw_string_ostream(name).write_escaped(id ? id.getValue() : op.getKernel());
  SmallVector<std::string> arguments{"ctx", "\"" + name + "\"", out.pointer(indices), out.count({indices}),
                                     std::to_string(*bound)};
  if (auto uncounted = op->getAttrOfType<IntegerAttr>("ignore_index"))
    arguments.push_back(std::to_string(uncounted.getInt()));
  out.include("hycrt/indices.h");
  out.callLine(indexCheck(), arguments);
}

/// The constant array that the text names: "@frequencies".
static DenseElementsAttr arrayOf(const KernelCall &call, StringRef &name) {
  for (NamedAttribute attribute : rank::CallOp(call.getOp())->getAttrs())
    if (auto values = dyn_cast<DenseElementsAttr>(attribute.getValue())) {
      name = attribute.getName();
      return values;
    }
  return {};
}

void CallPrinter::printCall(const KernelCall &call, StringRef text) {
  size_t open = text.find('(');
  if (open == StringRef::npos)
    return out.line(expand(call, text) + ";");
  std::string function = conditionOf(call) + expand(call, text.take_front(open));
  std::string arguments = expand(call, text.drop_front(open + 1).drop_back());
  StringRef name;
  DenseElementsAttr values = arrayOf(call, name);
  if (!values)
    return callLine(function, arguments);
  out.line("{");
  declareArray(values, name);
  callLine("  " + function, arguments);
  out.line("}");
}

void CallPrinter::declareArray(DenseElementsAttr values, StringRef name) {
  std::string list;
  llvm::raw_string_ostream stream(list);
  llvm::interleaveComma(values.getValues<float>(), stream, [&](float value) { stream << number(value); });
  out.line("  static constexpr float " + name + "[] = {" + list + "};");
}
