// How names, numbers and types of the IR are spelled in C++.
#include "Names.h"

#include "dialects/Hyc/HycDialect.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace mlir;
using namespace hyc;

std::string cpp::camelCase(StringRef name) {
  std::string result;
  bool upper = false;
  for (char c : name) {
    if (!llvm::isAlnum(c)) {
      upper = !result.empty();
      continue;
    }
    if (result.empty() && llvm::isDigit(c))
      result += 'x';
    result += upper ? llvm::toUpper(c) : c;
    upper = false;
  }
  return result.empty() ? "value" : result;
}

std::string cpp::constantName(StringRef name) {
  std::string camel = camelCase(name);
  camel[0] = llvm::toUpper(camel[0]);
  return "k" + camel;
}

std::string cpp::runnerName(StringRef function) {
  std::string camel = camelCase(function);
  camel[0] = llvm::toUpper(camel[0]);
  return "run" + camel;
}

std::string cpp::identifier(StringRef name) {
  static constexpr llvm::StringLiteral kKeywords[] = {
      "and",    "or",    "not",    "xor",      "new",      "delete",   "for",   "if",     "else",
      "do",     "while", "switch", "case",     "default",  "int",      "float", "double", "class",
      "struct", "union", "this",   "register", "template", "operator", "const"};
  std::string result;
  for (char c : name)
    result += llvm::isAlnum(c) ? c : '_';
  if (result.empty() || llvm::isDigit(result[0]))
    result.insert(0, "x");
  if (llvm::is_contained(kKeywords, StringRef(result)))
    result += "_";
  return result;
}

std::string cpp::quoted(StringRef text) {
  std::string result = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\')
      result += '\\';
    if (c < 0x20) {
      // Octal, three digits: unlike hexadecimal it ends by itself.
      result += '\\';
      result += char('0' + (c >> 6));
      result += char('0' + ((c >> 3) & 7));
      result += char('0' + (c & 7));
      continue;
    }
    result += static_cast<char>(c);
  }
  return result + "\"";
}

std::string cpp::oneLine(StringRef text) {
  std::string result;
  for (char c : text)
    result += static_cast<unsigned char>(c) < 0x20 || c == '\\' ? ' ' : c;
  return result;
}

/// An integer type of fewer than 64 signed bits, spelled by `bits`, with "u" before those without a sign.
static StringRef integerName(Type type, ArrayRef<std::pair<unsigned, StringRef>> isSigned,
                             ArrayRef<std::pair<unsigned, StringRef>> isUnsigned) {
  for (auto [width, name] : type.isUnsignedInteger() || type.isInteger(1) ? isUnsigned : isSigned)
    if (type.isInteger(width))
      return name;
  return "";
}

StringRef cpp::elementType(Type type) {
  if (type.isBF16())
    return "hyc::kernels::Bf16";
  if (type.isF16())
    return "hyc::kernels::F16";
  if (isFloat8(type))
    return isa<Float8E4M3FNType>(type) ? "hyc::kernels::E4m3" : "hyc::kernels::E5m2";
  return scalarType(type);
}

StringRef cpp::scalarType(Type type) {
  if (type.isF32() || isNarrowFloat(type))
    return "float";
  if (type.isF64())
    return "double";
  return integerName(type, {{64, "int64_t"}, {32, "int32_t"}, {16, "int16_t"}, {8, "int8_t"}},
                     {{64, "uint64_t"}, {32, "uint32_t"}, {16, "uint16_t"}, {8, "uint8_t"}, {1, "uint8_t"}});
}

StringRef cpp::addressFunction(Type type) {
  if (type.isF32())
    return "f32";
  if (type.isBF16())
    return "bf16";
  if (type.isF16())
    return "f16";
  if (isFloat8(type))
    return isa<Float8E4M3FNType>(type) ? "e4m3" : "e5m2";
  if (type.isF64())
    return "f64";
  return integerName(type, {{64, "i64"}, {32, "i32"}, {16, "i16"}, {8, "i8"}},
                     {{64, "u64"}, {32, "u32"}, {16, "u16"}, {8, "u8"}, {1, "u8"}});
}

std::string cpp::dtype(Type type) {
  std::string name = addressFunction(type).str();
  name[0] = llvm::toUpper(name[0]);
  if (type.isBF16())
    name = "BF16";
  if (isFloat8(type)) // which the runtime moves and never adds
    name = "U8";
  return "hycrt::DType::k" + name;
}

/// As few digits as give the same value back.
template <typename T> static std::string shortest(T value) {
  char text[40];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof(text), "%.*g", digits, static_cast<double>(value));
    T back = sizeof(T) == sizeof(float) ? static_cast<T>(std::strtof(text, nullptr))
                                        : static_cast<T>(std::strtod(text, nullptr));
    if (back == value)
      break;
  }
  return text;
}

std::string cpp::number(double value) {
  if (std::isinf(value))
    return value < 0 ? "-std::numeric_limits<double>::infinity()" : "std::numeric_limits<double>::infinity()";
  return std::isnan(value) ? "std::numeric_limits<double>::quiet_NaN()" : shortest(value);
}

std::string cpp::literal(TypedAttr value) {
  if (auto integer = dyn_cast<IntegerAttr>(value)) {
    if (integer.getType().isInteger(1))
      return integer.getValue().isZero() ? "0" : "1";
    if (integer.getType().isUnsignedInteger())
      return std::to_string(integer.getValue().getZExtValue()) + "u";
    int64_t v = integer.getValue().getSExtValue();
    return v == INT64_MIN ? "INT64_MIN" : std::to_string(v);
  }
  llvm::APFloat v = cast<FloatAttr>(value).getValue();
  bool isFloat = scalarType(value.getType()) == "float";
  std::string type = isFloat ? "float" : "double";
  if (v.isNaN())
    return "std::numeric_limits<" + type + ">::quiet_NaN()";
  if (v.isInfinity())
    return std::string(v.isNegative() ? "-" : "") + "std::numeric_limits<" + type + ">::infinity()";
  std::string text = isFloat ? shortest(static_cast<float>(v.convertToDouble())) : shortest(v.convertToDouble());
  if (text.find_first_of(".eE") == std::string::npos)
    text += ".0";
  if (isFloat)
    text += "f";
  return text;
}

std::string cpp::braced(ArrayRef<int64_t> values) {
  std::string result = "{";
  llvm::raw_string_ostream stream(result);
  llvm::interleaveComma(values, stream);
  return result + "}";
}

std::string cpp::shapeText(rank::BufferType type) {
  std::string result = "(";
  llvm::raw_string_ostream stream(result);
  llvm::interleaveComma(type.getShape(), stream);
  return result + ")";
}

std::string cpp::axisName(StringAttr axis) {
  std::string name = axis.getValue().str();
  name[0] = llvm::toUpper(name[0]);
  return "kAxis" + name;
}

std::string cpp::coordinate(dist::AxisListAttr axes) {
  return axes.empty() ? "0" : "ctx.coordinate(" + axisList(axes) + ")";
}

static std::string join(dist::AxisListAttr axes, StringRef between) {
  std::string result;
  for (StringAttr axis : axes.getAxes())
    result += (result.empty() ? "" : between.str()) + cpp::axisName(axis);
  return result;
}

std::string cpp::axisList(dist::AxisListAttr axes) { return "{" + join(axes, ", ") + "}"; }

std::string cpp::axisSet(dist::AxisListAttr axes) { return axes.empty() ? "hycrt::AxisSet()" : join(axes, " | "); }

std::string cpp::exchangeKind(dist::ExchangeKind kind) {
  return "hycrt::CollectiveKind::" + constantName(stringifyExchangeKind(kind));
}

std::string cpp::exchangeStart(dist::ExchangeKind kind) {
  return "hycrt::" + camelCase(stringifyExchangeKind(kind)) + "Start";
}
