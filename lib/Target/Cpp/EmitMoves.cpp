// Calls that move, fill or add elements.
#include "CallText.h"
#include "FunctionEmitter.h"

#include "dialects/Hyc/HycDialect.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::cpp;

namespace {

/// A copy between two strided tensors, with as few dimensions as say the same.
struct Copy {
  SmallVector<int64_t> shape, from, to;

  Copy(rank::BufferType source, rank::BufferType target) {
    SmallVector<int64_t> sourceStrides = source.getStridesOrDense(), targetStrides = target.getStridesOrDense();
    for (auto [size, a, b] : llvm::zip_equal(target.getShape(), sourceStrides, targetStrides)) {
      if (size == 1)
        continue;
      if (!shape.empty() && from.back() == a * size && to.back() == b * size) {
        shape.back() *= size;
        from.back() = a;
        to.back() = b;
        continue;
      }
      shape.push_back(size);
      from.push_back(a);
      to.push_back(b);
    }
  }
  bool isScalar() const { return shape.empty(); }
  bool isDense() const { return shape.size() == 1 && from[0] == 1 && to[0] == 1; }
  bool isRows() const {
    return shape.size() == 2 && from[1] == 1 && to[1] == 1 && from[0] >= shape[1] && to[0] >= shape[1];
  }
};

} // namespace

void FunctionEmitter::emitStridedCopy(rank::CallOp op) {
  Value from = op.getIns()[0], to = op.getOuts()[0];
  Copy copy(typeOf(from), typeOf(to));
  Type element = typeOf(to).getElementType();
  bool isFloat = element.isF32() || isHalfWidth(element);
  if (onGpu) {
    comment(op, shapeText(typeOf(to)));
    if (copy.shape.size() > 6) {
      op.emitOpError("copies ") << copy.shape.size()
                                << " dimensions that do not join, but the CUDA kernel takes 6; use --target cpu";
      hasFailed = true;
      return;
    }
    return callLine("stridedCopy",
                    {"{.tensorRank = " + str(copy.shape.size()), ".shape = " + braced(copy.shape),
                     ".srcStrides = " + braced(copy.from), ".dstStrides = " + braced(copy.to),
                     ".elementBytes = " + str(typeOf(to).getElementBytes()) + "}", pointer(from), pointer(to)});
  }
  if (copy.isScalar())
    return line("*" + pointer(to) + " = *" + pointer(from) + ";");
  comment(op, shapeText(typeOf(to)));
  if (isFloat && copy.isDense())
    return callLine("copy", {pointer(to), pointer(from), str(copy.shape[0])});
  if (isFloat && copy.isRows())
    return callLine("copyRows", {pointer(to), str(copy.to[0]), pointer(from), str(copy.from[0]), str(copy.shape[0]),
                                 str(copy.shape[1])});
  if (typeOf(to).getElementBytes() >= 2 && copy.shape.size() <= 6) {
    return callLine("stridedCopy",
                    {"{.tensorRank = " + str(copy.shape.size()), ".shape = " + braced(copy.shape),
                     ".srcStrides = " + braced(copy.from), ".dstStrides = " + braced(copy.to),
                     ".elementBytes = " + str(typeOf(to).getElementBytes()) + "}", pointer(from), pointer(to)});
  }
  // Booleans, and more dimensions than the kernel takes: plain loops.
  std::string source = "0", target = "0";
  line("{");
  line("  auto* from = " + pointer(from) + ";");
  line("  auto* to = " + pointer(to) + ";");
  for (auto [i, size] : llvm::enumerate(copy.shape)) {
    std::string index = "i" + str(i);
    line(Twine("  for (int64_t ") + index + " = 0; " + index + " < " + str(size) + "; ++" + index + ")");
    source += " + " + index + " * " + str(copy.from[i]);
    target += " + " + index + " * " + str(copy.to[i]);
  }
  line("    to[" + target + "] = from[" + source + "];");
  line("}");
}

void FunctionEmitter::emitAccumulate(rank::CallOp op) {
  Value from = op.getIns()[0], to = op.getOuts()[0];
  std::string elements = count({to, from});
  std::string source = pointer(from), target = pointer(to);
  rank::WriteMode writeMode = op.getMode();
  comment(op, elements == "1" ? "" : shapeText(typeOf(to)));
  if (elements == "1") {
    if (writeMode == rank::WriteMode::overwrite)
      return line("*" + target + " = *" + source + ";");
    std::string sum = "*" + target + " + *" + source;
    if (isHalfWidth(typeOf(to).getElementType()))
      sum = (elementType(typeOf(to).getElementType()) + "(" + sum + ")").str();
    return line("*" + target + " = " + (writeMode == rank::WriteMode::first ? "call.first ? *" + source + " : " : "") +
                sum + ";");
  }
  if (Type element = typeOf(to).getElementType(); element.isF32() || isHalfWidth(element)) {
    std::string copy = "copy(" + target + ", " + source + ", " + elements + ");";
    std::string add = "accumulate(" + target + ", " + source + ", " + elements + ");";
    if (writeMode == rank::WriteMode::overwrite)
      return line(copy);
    if (writeMode == rank::WriteMode::add)
      return line(add);
    line("if (call.first) " + copy);
    return line("else " + add);
  }
  line("for (int64_t i = 0; i < " + elements + "; ++i)");
  std::string sum = "(" + target + ")[i] + (" + source + ")[i]", value = "(" + source + ")[i]";
  line("  (" + target + ")[i] = " +
       (writeMode == rank::WriteMode::overwrite ? value
        : writeMode == rank::WriteMode::add     ? sum
                                                : "call.first ? " + value + " : " + sum) +
       ";");
}

void FunctionEmitter::emitAccumulateMax(rank::CallOp op) {
  std::string source = "*" + pointer(op.getIns()[0]), target = "*" + pointer(op.getOuts()[0]);
  comment(op);
  if (op.getMode() == rank::WriteMode::overwrite)
    return line(target + " = " + source + ";");
  // NaN if either is.
  std::string greater = "Max<float>::combine(" + target + ", " + source + ")";
  line(target + " = " + (op.getMode() == rank::WriteMode::first ? "call.first ? " + source + " : " : "") + greater +
       ";");
}

void FunctionEmitter::emitRound(rank::CallOp op) {
  Value from = op.getIns()[0], to = op.getOuts()[0];
  std::string elements = count({to, from});
  comment(op, elements == "1" ? "" : shapeText(typeOf(to)));
  if (elements == "1")
    return line("*" + pointer(to) + " = " + elementType(typeOf(to).getElementType()).str() + "(*" + pointer(from) +
                ");");
  callLine("roundElements", {pointer(to), pointer(from), elements});
}

void FunctionEmitter::emitMoves(rank::CallOp op) {
  StringRef kernel = op.getKernel();
  Value out = op.getOuts()[0];
  rank::BufferType type = typeOf(out);
  std::string count = str(type.getNumElements());
  if (kernel == "strided_copy")
    return emitStridedCopy(op);
  if (kernel == "accumulate")
    return emitAccumulate(op);
  if (kernel == "accumulate_max")
    return emitAccumulateMax(op);
  if (kernel == "round")
    return emitRound(op);
  if (kernel == "fill") {
    auto value = op->getAttrOfType<TypedAttr>("value");
    std::string text = literal(value);
    if (isNarrowFloat(type.getElementType()))
      text = (elementType(type.getElementType()) + "(" + text + ")").str();
    if (type.getNumElements() == 1)
      return line("*" + pointer(out) + " = " + text + ";");
    auto real = dyn_cast<FloatAttr>(value);
    if (type.getElementType().isF32() && real && real.getValue().isPosZero())
      return callLine("zero", {pointer(out), count});
    if (type.getElementType().isF32())
      return callLine("fill", {pointer(out), count, text});
    return callLine("std::fill_n",
                    {pointer(out), count, (elementType(type.getElementType()) + "(" + text + ")").str()});
  }
  if (kernel == "poison")
    return callLine("hycrt::poison", {"ctx", bytes(out), str(type.getBytes())});
  auto values = op->getAttrOfType<DenseElementsAttr>("values");
  std::string list;
  size_t column = 0;
  for (Attribute value : values.getValues<Attribute>()) {
    std::string text = literal(cast<TypedAttr>(value)) + ", ";
    if (isNarrowFloat(type.getElementType()))
      text = (elementType(type.getElementType()) + "(" + literal(cast<TypedAttr>(value)) + "), ").str();
    if ((column += text.size()) > 108) {
      list += "\n      ";
      column = text.size();
    }
    list += text;
  }
  comment(op, shapeText(type));
  line("{");
  line("  static constexpr " + elementType(type.getElementType()) + " values[] = {" + list + "};");
  line("  std::memcpy(" + pointer(out) + ", values, sizeof(values));");
  line("}");
}
