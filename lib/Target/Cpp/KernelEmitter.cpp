// Loops of elementwise kernels.
//
// The surprise: pointers carry no __restrict, since a result may be written over an operand; `omp simd` promises
// instead that iterations are independent, which is true in that case too.
#include "KernelEmitter.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::cpp;

namespace {

/// Fewer elements than this are not worth waking threads for.
constexpr int64_t kParallelElements = 32768;

/// In the order of operands: {0} {1} {2} stand for them. The last column: f64, where it differs.
struct Spelling {
  llvm::StringLiteral function;
  llvm::StringLiteral f32;
  llvm::StringLiteral f64;
};

constexpr Spelling kSpellings[] = {
    {"neg", "-{0}", ""},
    {"abs", "std::fabs({0})", ""},
    {"exp", "math::exp({0})", "std::exp({0})"},
    {"log", "math::log({0})", "std::log({0})"},
    {"sqrt", "std::sqrt({0})", ""},
    {"rsqrt", "1 / std::sqrt({0})", ""},
    {"reciprocal", "1 / {0}", ""},
    {"tanh", "math::tanh({0})", "std::tanh({0})"},
    {"erf", "math::erf({0})", "std::erf({0})"},
    {"sin", "std::sin({0})", ""},
    {"cos", "std::cos({0})", ""},
    {"relu", "relu({0})", ""},
    {"sigmoid", "1 / (1 + math::exp(-{0}))", "1 / (1 + std::exp(-{0}))"},
    {"add", "{0} + {1}", ""},
    {"sub", "{0} - {1}", ""},
    {"mul", "{0} * {1}", ""},
    {"div", "{0} / {1}", ""},
    {"pow", "std::pow({0}, {1})", ""},
    {"max", "maximum({0}, {1})", ""},
    {"min", "minimum({0}, {1})", ""},
    {"and", "{0} & {1}", ""},
    {"or", "{0} | {1}", ""},
    {"not", "{0} ^ 1", ""},
    {"gelu", "gelu({0})", ""},
    {"gelu_tanh", "geluTanh({0})", ""},
    {"gelu_grad", "geluGrad({0}, {1})", ""},
    {"gelu_tanh_grad", "geluTanhGrad({0}, {1})", ""},
    {"compare_eq", "{0} == {1}", ""},
    {"compare_ne", "{0} != {1}", ""},
    {"compare_lt", "{0} < {1}", ""},
    {"compare_le", "{0} <= {1}", ""},
    {"compare_gt", "{0} > {1}", ""},
    {"compare_ge", "{0} >= {1}", ""},
    {"select", "{0} ? {1} : {2}", ""},
};

class BodyPrinter {
public:
  BodyPrinter(rank::KernelOp kernel, raw_ostream &os) : kernel(kernel), os(os) {}

  LogicalResult print(StringRef indent) {
    Block &block = kernel.getBody().front();
    for (auto [i, argument] : llvm::enumerate(block.getArguments())) {
      names[argument] = ("x" + Twine(i)).str();
      os << indent << "const " << elementType(argument.getType()) << " x" << i << " = in" << i << "[" << index(i)
         << "];\n";
    }
    for (Operation &op : block.without_terminator())
      if (failed(printOp(op, indent)))
        return failure();
    for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands()))
      os << indent << "out" << i << "[" << index(block.getNumArguments() + i) << "] = " << names[value] << ";\n";
    return success();
  }

private:
  /// Position of the element of operand `operand`.
  std::string index(unsigned operand) {
    ArrayRef<int64_t> strides = cast<DenseI64ArrayAttr>(kernel.getStrides()[operand]).asArrayRef();
    std::string result;
    for (auto [d, stride] : llvm::enumerate(strides)) {
      if (stride == 0)
        continue;
      result +=
          (result.empty() ? "i" : " + i") + std::to_string(d) + (stride == 1 ? "" : " * " + std::to_string(stride));
    }
    return result.empty() ? "0" : result;
  }

  LogicalResult printOp(Operation &op, StringRef indent) {
    std::string name = "v" + std::to_string(names.size()), text;
    Type type = op.getResult(0).getType();
    if (auto literalOp = dyn_cast<rank::LiteralOp>(op)) {
      text = literal(literalOp.getValue());
    } else if (auto indexOp = dyn_cast<rank::IndexOp>(op)) {
      text = (elementType(type) + "(i" + Twine(indexOp.getDim()) + ")").str();
    } else if (auto compute = dyn_cast<rank::ScalarComputeOp>(op)) {
      text = spell(compute);
      if (text.empty())
        return op.emitOpError("has no spelling in C++: \"") << compute.getFunction() << "\" of " << type;
    } else {
      return op.emitOpError("has no spelling in C++");
    }
    names[op.getResult(0)] = name;
    os << indent << "const " << elementType(type) << " " << name << " = " << text << ";\n";
    return success();
  }

  std::string spell(rank::ScalarComputeOp op) {
    Type type = op.getResult().getType();
    if (op.getFunction() == "convert") {
      std::string value = names[op.getOperands()[0]];
      // A boolean is whether the number is not zero.
      return type.isInteger(1) ? value + " != 0" : ("static_cast<" + elementType(type) + ">(" + value + ")").str();
    }
    for (const Spelling &spelling : kSpellings) {
      if (spelling.function != op.getFunction())
        continue;
      std::string text = (type.isF64() && !spelling.f64.empty() ? spelling.f64 : spelling.f32).str();
      for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
        std::string placeholder = "{" + std::to_string(i) + "}";
        for (size_t at = text.find(placeholder); at != std::string::npos; at = text.find(placeholder))
          text.replace(at, placeholder.size(), names[operand]);
      }
      return text;
    }
    return "";
  }

  rank::KernelOp kernel;
  raw_ostream &os;
  DenseMap<Value, std::string> names;
};

} // namespace

std::string cpp::kernelSignature(rank::KernelOp kernel) {
  std::string text = "void " + identifier(kernel.getSymName()) + "(";
  unsigned inputs = kernel.getBody().front().getNumArguments();
  for (auto [i, argument] : llvm::enumerate(kernel.getBody().front().getArguments()))
    text += ("const " + elementType(argument.getType()) + "* in" + Twine(i) + ", ").str();
  for (auto [i, type] : llvm::enumerate(kernel.getResultTypes().getAsValueRange<TypeAttr>()))
    text += ((i == 0 ? "" : ", ") + elementType(type) + "* out" + Twine(i)).str();
  (void)inputs;
  return text + ")";
}

LogicalResult cpp::emitKernel(rank::KernelOp kernel, raw_ostream &os) {
  SmallVector<int64_t> space(kernel.getSpace());
  int64_t elements = 1;
  for (int64_t size : space)
    elements *= size;
  os << kernelSignature(kernel) << " {\n";
  std::string indent = "  ";
  bool isParallel = elements >= kParallelElements;
  for (auto [d, size] : llvm::enumerate(space)) {
    bool isInner = d + 1 == space.size(), isOuter = d == 0;
    if (isOuter && isParallel)
      os << "#pragma omp parallel for" << (isInner ? " simd" : "") << " schedule(static)\n";
    else if (isInner)
      os << "#pragma omp simd\n";
    os << indent << "for (int64_t i" << d << " = 0; i" << d << " < " << size << "; ++i" << d << ") {\n";
    indent += "  ";
  }
  if (failed(BodyPrinter(kernel, os).print(indent)))
    return failure();
  for (size_t d = space.size(); d > 0; --d) {
    indent.resize(indent.size() - 2);
    os << indent << "}\n";
  }
  os << "}\n\n";
  return success();
}
