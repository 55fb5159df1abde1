// aten operators that know how numbers are written: the bits of integers, signs, exponents.
#include "Translator.h"

#include <cmath>
#include <string>

using namespace hyc::torchexport;

namespace {
constexpr char And[] = "And", Or[] = "Or", Xor[] = "Xor";

/// Truth values, or the bits of integers.
template <const char *Type> void bitwise(NodeTranslation &node) {
  ScalarType type = node.commonType({"self", "other"});
  const std::string name = (type == ScalarType::Bool ? "" : "Bitwise") + std::string(Type);
  node.finish(node.emit(name, {node.operand("self", type), node.operand("other", type)}));
}

/// What a shift by a number that is known multiplies by or divides by.
void shiftByNumber(NodeTranslation &node, ScalarType type, bool isRight) {
  const int64_t bits = node.integer("other");
  if (!node.failed() && (bits < 0 || bits > 62))
    node.error() << "shifts by " << bits << " bits, expected 0 to 62";
  if (node.failed())
    return;
  Name self = node.operand("self", type), power = node.constant(type, static_cast<double>(int64_t(1) << bits));
  if (!isRight)
    return node.finish(node.emit("Mul", {self, power}));
  node.finish(node.emit("Div", {node.emit("Sub", {self, node.emit("Mod", {self, power})}), power}));
}

/// Of integers by a number of bits: times a power of two, or divided by one and rounded down. By as many bits as there
/// are, and more, nothing is left but a sign; so torch has it of fewer than none.
template <bool IsRight> void shiftBits(NodeTranslation &node) {
  const ScalarType type = node.resultMeta().type;
  if (node.isNumber("other"))
    return shiftByNumber(node, type, IsRight);
  const int64_t width = type == ScalarType::I64 ? 64 : type == ScalarType::I32 ? 32 : 0;
  if (width == 0) {
    node.error() << "shifts integers of fewer than 32 bits by a tensor; convert them to torch.int32 before";
    return;
  }
  auto number = [&](int64_t value) { return node.constant(type, static_cast<double>(value)); };
  Name self = node.operand("self", type), other = node.operand("other", type), zero = number(0);
  Name isBeyond = node.emit("Or", {node.emit("Less", {other, zero}), node.emit("Greater", {other, number(width - 2)})});
  Name power = node.emit("Pow", {number(2), node.emit("Where", {isBeyond, zero, other})});
  if (IsRight) {
    Name whole = node.emit("Div", {node.emit("Sub", {self, node.emit("Mod", {self, power})}), power});
    Name sign = node.emit("Where", {node.emit("Less", {self, zero}), number(-1), zero});
    return node.finish(node.emit("Where", {isBeyond, sign, whole}));
  }
  // The greatest power is no positive number of this type: it is two times the one before.
  Name isLast = node.emit("Equal", {other, number(width - 1)});
  Name last = node.emit("Mul", {node.emit("Mul", {self, number(int64_t(1) << (width - 2))}), number(2)});
  Name beyond = node.emit("Where", {isLast, last, zero});
  node.finish(node.emit("Where", {isBeyond, beyond, node.emit("Mul", {self, power})}));
}

/// Of an integer the other number with all bits turned.
void turnBits(NodeTranslation &node) {
  ScalarType type = node.metaOf("self").type;
  Name self = node.tensor("self");
  node.finish(type == ScalarType::Bool ? node.emit("Not", {self}) : node.emit("Sub", {node.constant(type, -1), self}));
}

/// Whether a number has a minus sign; zeros may have one, of which a quotient tells.
Name isSigned(NodeTranslation &node, const Name &value, ScalarType type) {
  Name zero = node.constant(type, 0), isLess = node.emit("Less", {value, zero});
  if (!isFloat(type))
    return isLess;
  Name isZero = node.emit("Equal", {value, zero});
  Name inverse = node.emit("Reciprocal", {node.emit("Where", {isZero, value, node.constant(type, 1)})});
  return node.emit("Or", {isLess, node.emit("Less", {inverse, zero})});
}

void hasMinusSign(NodeTranslation &node) {
  ScalarType type = node.metaOf("self").type;
  node.finish(type == ScalarType::Bool
                  ? node.emit("Less", {node.operand("self", ScalarType::I64), node.constant(ScalarType::I64, 0)})
                  : isSigned(node, node.tensor("self"), type));
}

/// The size of one with the sign of another.
void copySign(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name size = node.emit("Abs", {node.operand("self", type)}), other = node.operand("other", type);
  node.finish(node.emit("Where", {isSigned(node, other, type), node.emit("Neg", {size}), size}));
}

/// self · 2^other
void scaleByPower(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name power = node.emit("Pow", {node.constant(type, 2), node.operand("other", type)});
  node.finish(node.emit("Mul", {node.operand("self", type), power}));
}
} // namespace

void hyc::torchexport::addBits(TranslationTable &table) {
  for (const char *overload : {".Tensor", ".Scalar"}) {
    for (const char *name : {"__and__", "bitwise_and"})
      table[std::string("aten.") + name + overload] = bitwise<And>;
    for (const char *name : {"__or__", "bitwise_or"})
      table[std::string("aten.") + name + overload] = bitwise<Or>;
    for (const char *name : {"__xor__", "bitwise_xor"})
      table[std::string("aten.") + name + overload] = bitwise<Xor>;
    table[std::string("aten.copysign") + overload] = copySign;
  }
  for (const char *name :
       {"__lshift__.Scalar", "__lshift__.Tensor", "bitwise_left_shift.Tensor_Scalar", "bitwise_left_shift.Tensor"})
    table["aten." + std::string(name)] = shiftBits<false>;
  for (const char *name :
       {"__rshift__.Scalar", "__rshift__.Tensor", "bitwise_right_shift.Tensor_Scalar", "bitwise_right_shift.Tensor"})
    table["aten." + std::string(name)] = shiftBits<true>;
  table["aten.bitwise_not.default"] = turnBits;
  table["aten.signbit.default"] = hasMinusSign;
  table["aten.ldexp.Tensor"] = scaleByPower;
}
