// Calls of programs for CPUs, and what is a statement there: copies, sums and fills, which are calls, loops or
// expressions as shapes have it.
#include "CallPrinter.h"
#include "CallText.h"
#include "FunctionEmitter.h"
#include "StridedCopy.h"

#include "dialects/Hyc/HycDialect.h"
#include "kernels/gemm/description.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::cpp;

namespace {

constexpr const char *kCopies = "kernels/copy/op.h", *kStridedCopies = "kernels/permute/op.h";

class CpuCallPrinter : public CallPrinter {
public:
  using CallPrinter::CallPrinter;

  void callLine(StringRef function, ArrayRef<std::string> arguments) override { out.callLine(function, arguments); }
  StringRef arenaFunction() const override { return "ctx.arena"; }
  const char *headerOfProducts(kernels::ElementType type) const override {
    return kernels::described::gemm::header(type, /*onGpu=*/false);
  }

private:
  StringRef indexCheck() const override { return "hycrt::checkIndices"; }
  const kernels::Function &functionOf(const kernels::KernelDescription &kernel) const override { return kernel.cpu; }
  LogicalResult printStatement(const KernelCall &call) override;

  std::optional<std::string> scalarText(const KernelCall &call, const kernels::Field &field) override {
    return field.kind == kernels::FieldKind::kSize ? sizeInStep(call, field)
                                                   : "*" + out.pointer(call.find(field.operand));
  }

  std::string conditionOf(const KernelCall &call) override {
    bool isThere = call.describes(kPredicate) && call.find(kPredicate);
    return isThere ? "if (*" + out.pointer(call.find(kPredicate)) + ") " : "";
  }
  static constexpr StringRef kPredicate{kernels::kPredicate.data(), kernels::kPredicate.size()};

  /// A call of a function that a header declares.
  void copyLine(const char *header, StringRef function, ArrayRef<std::string> arguments) {
    out.include(header);
    out.callLine(function, arguments);
  }
  void printCopy(rank::CallOp op);
  void printCopyLoops(const StridedCopy &copy, Value from, Value to);
  void printAccumulate(rank::CallOp op);
  void printAccumulateMax(rank::CallOp op);
  void printRound(rank::CallOp op);
  void printFill(rank::CallOp op);
  void printConstant(rank::CallOp op);
  void printPoison(rank::CallOp op);
  void printIncrement(rank::CallOp op);
};

LogicalResult CpuCallPrinter::printStatement(const KernelCall &call) {
  static constexpr std::pair<StringLiteral, void (CpuCallPrinter::*)(rank::CallOp)> kStatements[] = {
      {"strided_copy", &CpuCallPrinter::printCopy},
      {"accumulate", &CpuCallPrinter::printAccumulate},
      {"accumulate_max", &CpuCallPrinter::printAccumulateMax},
      {"round", &CpuCallPrinter::printRound},
      {"fill", &CpuCallPrinter::printFill},
      {"constant", &CpuCallPrinter::printConstant},
      {"poison", &CpuCallPrinter::printPoison},
      {"increment", &CpuCallPrinter::printIncrement},
  };
  rank::CallOp op = call.getOp();
  for (const auto &[kernel, print] : kStatements)
    if (kernel == op.getKernel())
      return (this->*print)(op), success();
  return op.emitOpError("has no spelling in C++: \"") << op.getKernel() << "\"";
}

void CpuCallPrinter::printCopy(rank::CallOp op) {
  Value from = op.getIns()[0], to = op.getOuts()[0];
  StridedCopy copy(typeOf(from), typeOf(to));
  Type element = typeOf(to).getElementType();
  bool isFloat = element.isF32() || isHalfWidth(element);
  if (copy.isScalar())
    return out.line("*" + out.pointer(to) + " = *" + out.pointer(from) + ";");
  out.comment(op, shapeText(typeOf(to)));
  if (isFloat && copy.isDense())
    return copyLine(kCopies, "copy", {out.pointer(to), out.pointer(from), str(copy.shape[0])});
  if (isFloat && copy.isRows())
    return copyLine(kCopies, "copyRows",
                    {out.pointer(to), str(copy.to[0]), out.pointer(from), str(copy.from[0]), str(copy.shape[0]),
                     str(copy.shape[1])});
  if (typeOf(to).getElementBytes() >= 2 && copy.shape.size() <= StridedCopy::kMostDims)
    return copyLine(kStridedCopies, "stridedCopy",
                    {copy.desc(typeOf(to).getElementBytes()), out.pointer(from), out.pointer(to)});
  printCopyLoops(copy, from, to);
}

/// Booleans, and more dimensions than the kernel takes.
void CpuCallPrinter::printCopyLoops(const StridedCopy &copy, Value from, Value to) {
  std::string source = "0", target = "0";
  out.line("{");
  out.line("  auto* from = " + out.pointer(from) + ";");
  out.line("  auto* to = " + out.pointer(to) + ";");
  for (auto [i, size] : llvm::enumerate(copy.shape)) {
    std::string index = "i" + str(i);
    out.line(Twine("  for (int64_t ") + index + " = 0; " + index + " < " + str(size) + "; ++" + index + ")");
    source += " + " + index + " * " + str(copy.from[i]);
    target += " + " + index + " * " + str(copy.to[i]);
  }
  out.line("    to[" + target + "] = from[" + source + "];");
  out.line("}");
}

void CpuCallPrinter::printAccumulate(rank::CallOp op) {
  Value from = op.getIns()[0], to = op.getOuts()[0];
  std::string elements = out.count({to, from}), source = out.pointer(from), target = out.pointer(to);
  rank::WriteMode mode = op.getMode();
  Type element = typeOf(to).getElementType();
  bool isHalf = isHalfWidth(element), isFirst = mode == rank::WriteMode::first;
  out.comment(op, elements == "1" ? "" : shapeText(typeOf(to)));
  if (elements == "1") {
    if (mode == rank::WriteMode::overwrite)
      return out.line("*" + target + " = *" + source + ";");
    std::string sum = "*" + target + " + *" + source;
    if (isHalf)
      sum = (elementType(element) + "(" + sum + ")").str();
    return out.line("*" + target + " = " + (isFirst ? "call.first ? *" + source + " : " : "") + sum + ";");
  }
  if (element.isF32() || isHalf) {
    out.include(kCopies);
    std::string copy = "copy(" + target + ", " + source + ", " + elements + ");";
    std::string add = "accumulate(" + target + ", " + source + ", " + elements + ");";
    if (mode == rank::WriteMode::overwrite)
      return out.line(copy);
    if (mode == rank::WriteMode::add)
      return out.line(add);
    out.line("if (call.first) " + copy);
    return out.line("else " + add);
  }
  out.line("for (int64_t i = 0; i < " + elements + "; ++i)");
  std::string sum = "(" + target + ")[i] + (" + source + ")[i]", value = "(" + source + ")[i]";
  out.line("  (" + target + ")[i] = " +
           (mode == rank::WriteMode::overwrite ? value
            : isFirst                          ? "call.first ? " + value + " : " + sum
                                               : sum) +
           ";");
}

void CpuCallPrinter::printAccumulateMax(rank::CallOp op) {
  std::string source = "*" + out.pointer(op.getIns()[0]), target = "*" + out.pointer(op.getOuts()[0]);
  out.comment(op);
  if (op.getMode() == rank::WriteMode::overwrite)
    return out.line(target + " = " + source + ";");
  // NaN if either is.
  out.include("kernels/reduce/op.h");
  std::string greater = "Max<float>::combine(" + target + ", " + source + ")";
  out.line(target + " = " + (op.getMode() == rank::WriteMode::first ? "call.first ? " + source + " : " : "") + greater +
           ";");
}

void CpuCallPrinter::printRound(rank::CallOp op) {
  Value from = op.getIns()[0], to = op.getOuts()[0];
  std::string elements = out.count({to, from});
  out.comment(op, elements == "1" ? "" : shapeText(typeOf(to)));
  if (elements == "1")
    return out.line("*" + out.pointer(to) + " = " + elementType(typeOf(to).getElementType()).str() + "(*" +
                    out.pointer(from) + ");");
  copyLine(kCopies, "roundElements", {out.pointer(to), out.pointer(from), elements});
}

void CpuCallPrinter::printFill(rank::CallOp op) {
  Value to = op.getOuts()[0];
  rank::BufferType type = typeOf(to);
  std::string count = str(type.getNumElements()), element = elementType(type.getElementType()).str();
  auto value = op->getAttrOfType<TypedAttr>("value");
  std::string text = literal(value);
  if (isNarrowFloat(type.getElementType()))
    text = element + "(" + text + ")";
  if (type.getNumElements() == 1)
    return out.line("*" + out.pointer(to) + " = " + text + ";");
  auto real = dyn_cast<FloatAttr>(value);
  if (type.getElementType().isF32() && real && real.getValue().isPosZero())
    return copyLine(kCopies, "zero", {out.pointer(to), count});
  if (type.getElementType().isF32())
    return copyLine(kCopies, "fill", {out.pointer(to), count, text});
  out.callLine("std::fill_n", {out.pointer(to), count, element + "(" + text + ")"});
}

void CpuCallPrinter::printConstant(rank::CallOp op) {
  Value to = op.getOuts()[0];
  out.comment(op, shapeText(typeOf(to)));
  out.line("{");
  out.declareValues(op);
  out.line("  std::memcpy(" + out.pointer(to) + ", hidden(values), sizeof(values));");
  out.line("}");
}

void CpuCallPrinter::printPoison(rank::CallOp op) {
  Value buffer = op.getOuts()[0];
  out.callLine("hycrt::poison", {"ctx", out.bytes(buffer), str(typeOf(buffer).getBytes())});
}

void CpuCallPrinter::printIncrement(rank::CallOp op) {
  std::string counter = "*" + out.pointer(op.getOuts()[0]);
  out.comment(op);
  out.line(op.getIns().empty() ? "++" + counter + ";" : counter + " += *" + out.pointer(op.getIns()[0]) + ";");
}

} // namespace

std::unique_ptr<CallPrinter> cpp::makeCpuCallPrinter(FunctionEmitter &out) {
  return std::make_unique<CpuCallPrinter>(out);
}
