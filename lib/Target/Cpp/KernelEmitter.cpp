// Loops of kernels: written out where all results are elementwise, by kernels/reduce/loops.h where some are combined.
//
// The surprise: pointers carry no __restrict, since a result may be written over an operand; `omp simd` promises
// instead that iterations are independent, which is true in that case too.
#include "KernelEmitter.h"

#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/KernelStructure.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"

#include <functional>

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
    {"abs", "absolute({0})", ""},
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
    {"pow", "power({0}, {1})", ""},
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
    {"random_word", "randomWord({0}, {1})", ""},
    {"floor", "std::floor({0})", ""},
    {"ceil", "std::ceil({0})", ""},
    {"round", "std::nearbyint({0})", ""},
    {"sign", "sign({0})", ""},
    {"tan", "std::tan({0})", ""},
    {"asin", "std::asin({0})", ""},
    {"acos", "std::acos({0})", ""},
    {"atan", "std::atan({0})", ""},
    {"sinh", "std::sinh({0})", ""},
    {"cosh", "std::cosh({0})", ""},
    {"asinh", "std::asinh({0})", ""},
    {"acosh", "std::acosh({0})", ""},
    {"atanh", "std::atanh({0})", ""},
    {"softplus", "softplus({0})", ""},
    {"rem", "remainder({0}, {1})", ""},
};

/// Prints the statements that some values of a body need, in the order of the body.
class BodyPrinter {
public:
  explicit BodyPrinter(rank::KernelOp kernel) : kernel(kernel), block(kernel.getBody().front()) {}

  /// Where the elements of inputs come from, if not from memory by their index.
  void setLoad(std::function<std::string(unsigned)> function) { load = std::move(function); }
  /// What a value that needs no statement is called: an accumulator.
  void setName(Value value, std::string name) { names[value] = std::move(name); }
  StringRef nameOf(Value value) { return names[value]; }
  /// The same as memory keeps it.
  std::string stored(Value value) {
    if (!isNarrowFloat(value.getType()))
      return names[value];
    return (elementType(value.getType()) + "(" + names[value] + ")").str();
  }

  LogicalResult print(ArrayRef<Value> values, StringRef indent, raw_ostream &os) {
    DenseSet<Value> needed;
    SmallVector<Value> pending(values);
    while (!pending.empty()) {
      Value value = pending.pop_back_val();
      if (names.contains(value) || !needed.insert(value).second)
        continue;
      if (Operation *op = value.getDefiningOp())
        pending.append(op->operand_begin(), op->operand_end());
    }
    for (auto [i, argument] : llvm::enumerate(block.getArguments())) {
      if (!needed.contains(argument))
        continue;
      names[argument] = ("x" + Twine(i)).str();
      os << indent << "const " << scalarType(argument.getType()) << " x" << i << " = "
         << (load ? load(i) : "in" + std::to_string(i) + "[" + index(i) + "]") << ";\n";
    }
    for (Operation &op : block.without_terminator())
      if (needed.contains(op.getResult(0)) && failed(printOp(op, indent, os)))
        return failure();
    return success();
  }

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
  /// "out1[i0 * 64]".
  std::string out(unsigned result) {
    return "out" + std::to_string(result) + "[" + index(block.getNumArguments() + result) + "]";
  }

private:
  LogicalResult printOp(Operation &op, StringRef indent, raw_ostream &os) {
    std::string name = "v" + std::to_string(names.size()), text;
    Type type = op.getResult(0).getType();
    if (auto literalOp = dyn_cast<rank::LiteralOp>(op)) {
      text = literal(literalOp.getValue());
    } else if (auto indexOp = dyn_cast<rank::IndexOp>(op)) {
      text = (scalarType(type) + "(i" + Twine(indexOp.getDim()) + ")").str();
    } else if (auto compute = dyn_cast<rank::ScalarComputeOp>(op)) {
      text = spell(compute);
      if (text.empty())
        return op.emitOpError("has no spelling in C++: \"") << compute.getFunction() << "\" of " << type;
    } else {
      return op.emitOpError("has no spelling in C++");
    }
    names[op.getResult(0)] = name;
    // Every op of 16 bits or fewer rounds, so that a value is the same whatever it is fused with; storing rounds too.
    bool isOnlyStored = llvm::all_of(op.getUsers(), [](Operation *user) { return isa<rank::YieldOp>(user); });
    if (isNarrowFloat(type) && !isa<rank::LiteralOp>(op) && !isOnlyStored)
      text = ("hyc::kernels::roundedTo<" + elementType(type) + ">(" + text + ")").str();
    os << indent << "const " << scalarType(type) << " " << name << " = " << text << ";\n";
    return success();
  }

  std::string spell(rank::ScalarComputeOp op) {
    Type type = op.getResult().getType();
    if (op.getFunction() == "convert") {
      std::string value = names[op.getOperands()[0]];
      // A boolean is whether the number is not zero.
      return type.isInteger(1) ? value + " != 0" : ("static_cast<" + scalarType(type) + ">(" + value + ")").str();
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
  Block &block;
  DenseMap<Value, std::string> names;
  std::function<std::string(unsigned)> load;
};

/// Prints a kernel that combines as two lambdas and a call of loops.h.
class ReductionPrinter {
public:
  explicit ReductionPrinter(rank::KernelOp kernel)
      : kernel(kernel), block(kernel.getBody().front()), loops(rank::reductionLoops(kernel)),
        combined(rank::combinedValues(block)), combines(block.getOps<rank::CombineOp>()) {
    for (auto [i, combine] : llvm::enumerate(combines)) {
      accumulators.push_back(rank::stringifyCombineKind(combine.getKind()).str());
      if (combines.size() > 1)
        accumulators.back() += std::to_string(i);
    }
  }

  LogicalResult print(raw_ostream &os) {
    std::string element, finish;
    if (failed(printElement(element)) || failed(printFinish(finish)))
      return failure();
    os << "  const auto element = [=](" << indexParameter("outer", loops.outer, element) << ", "
       << indexParameter("step", loops.steps, element) << ", " << indexParameter("", {loops.inner}, element)
       << parameters("& ") << ") {\n"
       << decode("outer", loops.outer, element) << decode("step", loops.steps, element) << element << "  };\n";
    os << "  const auto finish = [=](" << indexParameter("outer", loops.outer, finish);
    if (!loops.isRows)
      os << ", " << indexParameter("", {loops.inner}, finish);
    os << parameters(" ") << ") {\n" << decode("outer", loops.outer, finish) << finish << "  };\n";
    os << "  reduce" << (loops.isRows ? "Rows" : "Columns") << "<";
    llvm::interleaveComma(combines, os, [&](rank::CombineOp combine) {
      StringRef kind = rank::stringifyCombineKind(combine.getKind());
      os << llvm::toUpper(kind[0]) << kind.drop_front() << "<" << scalarType(combine.getType()) << ">";
    });
    os << ">(" << space() << ", element, finish);\n";
    return success();
  }

  bool isRows() const { return loops.isRows; }
  std::string space() const {
    return "{.outer = " + std::to_string(loops.outerCount) + ", .steps = " + std::to_string(loops.stepCount) +
           ", .inner = " + std::to_string(loops.innerCount) + "}";
  }

private:
  /// One element: whole results are written, the rest goes into the accumulators.
  LogicalResult printElement(std::string &text) {
    llvm::raw_string_ostream os(text);
    BodyPrinter printer(kernel);
    auto yielded = block.getTerminator()->getOperands();
    SmallVector<Value> values = llvm::filter_to_vector(yielded, [&](Value value) { return !combined.contains(value); });
    for (rank::CombineOp combine : combines)
      values.push_back(combine.getValue());
    if (failed(printer.print(values, "    ", os)))
      return failure();
    for (auto [i, value] : llvm::enumerate(yielded))
      if (!combined.contains(value))
        os << "    " << printer.out(i) << " = " << printer.nameOf(value).str() << ";\n";
    for (auto [combine, accumulator] : llvm::zip_equal(combines, accumulators)) {
      StringRef value = printer.nameOf(combine.getValue());
      os << "    " << accumulator << " = ";
      if (combine.getKind() == rank::CombineKind::sum || combine.getKind() == rank::CombineKind::prod)
        os << accumulator << (combine.getKind() == rank::CombineKind::sum ? " + " : " * ") << value << ";\n";
      else
        os << (combine.getKind() == rank::CombineKind::max ? "maximum(" : "minimum(") << accumulator << ", " << value
           << ");\n";
    }
    return success();
  }

  /// One complete result.
  LogicalResult printFinish(std::string &text) {
    llvm::raw_string_ostream os(text);
    BodyPrinter printer(kernel);
    for (auto [combine, accumulator] : llvm::zip_equal(combines, accumulators))
      printer.setName(combine.getResult(), accumulator);
    auto yielded = block.getTerminator()->getOperands();
    SmallVector<Value> values = llvm::filter_to_vector(yielded, [&](Value value) { return combined.contains(value); });
    if (failed(printer.print(values, "    ", os)))
      return failure();
    for (auto [i, value] : llvm::enumerate(yielded))
      if (combined.contains(value))
        os << "    write(" << printer.out(i) << ", " << printer.stored(value) << ", mode);\n";
    return success();
  }

  /// Whether "i3" stands in the text as a word.
  static bool usesIndex(StringRef text, unsigned dim) {
    std::string name = "i" + std::to_string(dim);
    auto isPart = [](char c) { return llvm::isAlnum(c) || c == '_'; };
    for (size_t at = text.find(name); at != StringRef::npos; at = text.find(name, at + 1)) {
      size_t end = at + name.size();
      if ((at == 0 || !isPart(text[at - 1])) && (end == text.size() || !isPart(text[end])))
        return true;
    }
    return false;
  }
  static bool usesAny(StringRef text, ArrayRef<unsigned> dims) {
    return llvm::any_of(dims, [&](unsigned dim) { return usesIndex(text, dim); });
  }

  /// "int64_t i0"; for several dimensions "int64_t outer", which `decode` takes apart.
  static std::string indexParameter(StringRef together, ArrayRef<unsigned> dims, StringRef text) {
    if (!usesAny(text, dims))
      return "int64_t";
    return ("int64_t " + (dims.size() == 1 ? "i" + Twine(dims[0]) : Twine(together))).str();
  }
  std::string decode(StringRef together, ArrayRef<unsigned> dims, StringRef text) {
    if (dims.size() < 2 || !usesAny(text, dims))
      return "";
    int64_t inner = 1;
    std::string list;
    for (unsigned dim : llvm::reverse(dims)) {
      std::string value = together.str() + (inner == 1 ? "" : " / " + std::to_string(inner));
      if (dim != dims.front())
        value += " % " + std::to_string(kernel.getSpace()[dim]);
      list = "i" + std::to_string(dim) + " = " + value + (list.empty() ? "" : ", ") + list;
      inner *= kernel.getSpace()[dim];
    }
    return "    [[maybe_unused]] const int64_t " + list + ";\n";
  }
  std::string parameters(StringRef reference) {
    std::string text;
    for (auto [combine, accumulator] : llvm::zip_equal(combines, accumulators))
      text += (", " + scalarType(combine.getType()) + reference + accumulator).str();
    return text;
  }

  rank::KernelOp kernel;
  Block &block;
  rank::ReductionLoops loops;
  DenseSet<Value> combined;
  SmallVector<rank::CombineOp> combines;
  SmallVector<std::string> accumulators;
};

LogicalResult emitElementwise(rank::KernelOp kernel, raw_ostream &os) {
  SmallVector<int64_t> space(kernel.getSpace());
  int64_t elements = 1;
  for (int64_t size : space)
    elements *= size;
  std::string indent = "  ";
  bool isParallel = elements >= kParallelElements;
  if (isParallel)
    os << "  hyc::kernels::runTeam(true, [=] {\n";
  for (auto [d, size] : llvm::enumerate(space)) {
    bool isInner = d + 1 == space.size(), isOuter = d == 0;
    if (isOuter && isParallel)
      os << "#pragma omp for" << (isInner ? " simd" : "") << " schedule(static) nowait\n";
    else if (isInner)
      os << "#pragma omp simd\n";
    os << indent << "for (int64_t i" << d << " = 0; i" << d << " < " << size << "; ++i" << d << ") {\n";
    indent += "  ";
  }
  BodyPrinter printer(kernel);
  SmallVector<Value> results(kernel.getBody().front().getTerminator()->getOperands());
  if (failed(printer.print(results, indent, os)))
    return failure();
  for (auto [i, value] : llvm::enumerate(results))
    os << indent << printer.out(i) << " = " << printer.nameOf(value).str() << ";\n";
  for (size_t d = space.size(); d > 0; --d) {
    indent.resize(indent.size() - 2);
    os << indent << "}\n";
  }
  if (isParallel)
    os << "  });\n";
  return success();
}

} // namespace

namespace {

/// Prints a kernel without combinations for GPUs: an element a thread, or a pack.
class CudaElementwisePrinter {
public:
  explicit CudaElementwisePrinter(rank::KernelOp kernel)
      : kernel(kernel), block(kernel.getBody().front()), results(block.getTerminator()->getOperands()) {
    for (int64_t size : kernel.getSpace())
      elements *= size;
  }

  LogicalResult print(raw_ostream &os) {
    if (int64_t pack = packSize(); pack > 1 && failed(printPacks(pack, os)))
      return failure();
    os << "  cuda::forEach(" << elements << ", [=](int64_t i) {\n" << indices();
    BodyPrinter printer(kernel);
    if (failed(printer.print(results, "    ", os)))
      return failure();
    for (auto [i, value] : llvm::enumerate(results))
      os << "    " << printer.out(i) << " = " << printer.stored(value) << ";\n";
    os << "  });\n";
    return success();
  }

  /// Threads that have something to do.
  int64_t jobs() { return std::max<int64_t>(1, elements / packSize()); }

private:
  unsigned operands() { return block.getNumArguments() + results.size(); }
  Type typeOf(unsigned operand) {
    return operand < block.getNumArguments() ? block.getArgument(operand).getType()
                                             : results[operand - block.getNumArguments()].getType();
  }
  /// Whether the operand moves with the index; false where it is one element for all.
  bool moves(unsigned operand) {
    return llvm::any_of(cast<DenseI64ArrayAttr>(kernel.getStrides()[operand]).asArrayRef(),
                        [](int64_t stride) { return stride != 0; });
  }
  std::string name(unsigned operand) {
    unsigned ins = block.getNumArguments();
    return operand < ins ? "in" + std::to_string(operand) : "out" + std::to_string(operand - ins);
  }

  /// Elements of 16 bytes of the widest operand; 1 where not all are walked in one run.
  int64_t packSize() {
    if (kernel.getSpace().size() != 1)
      return 1;
    int64_t bytes = 1;
    for (unsigned i = 0; i < operands(); ++i) {
      int64_t stride = cast<DenseI64ArrayAttr>(kernel.getStrides()[i])[0];
      if (stride != 0 && stride != 1)
        return 1;
      Type type = typeOf(i);
      bytes = std::max<int64_t>(bytes, type.isIntOrFloat() ? llvm::divideCeil(type.getIntOrFloatBitWidth(), 8) : 8);
    }
    int64_t pack = 16 / bytes;
    return elements % pack == 0 ? pack : 1;
  }

  std::string indices() {
    std::string text;
    int64_t inner = 1;
    for (unsigned d = kernel.getSpace().size(); d-- > 0; inner *= kernel.getSpace()[d]) {
      std::string value = "i" + (inner == 1 ? std::string() : " / " + std::to_string(inner));
      if (d > 0)
        value += " % " + std::to_string(kernel.getSpace()[d]);
      text = "    [[maybe_unused]] const int64_t i" + std::to_string(d) + " = " + value + ";\n" + text;
    }
    return text;
  }

  LogicalResult printPacks(int64_t pack, raw_ostream &os) {
    std::string addresses, size = std::to_string(pack);
    for (unsigned i = 0; i < operands(); ++i)
      if (moves(i))
        addresses += ", " + name(i);
    if (addresses.empty())
      return success();
    os << "  if (cuda::isPackable(0" << addresses << ")) {\n    cuda::forEach(" << elements / pack
       << ", [=](int64_t pack) {\n";
    unsigned ins = block.getNumArguments();
    for (unsigned i = 0; i < operands(); ++i) {
      if (i < ins && moves(i))
        os << "      const auto p" << i << " = cuda::loadPack<" << size << ">(in" << i << " + pack * " << size
           << ");\n";
      if (i >= ins)
        os << "      cuda::Pack<" << elementType(typeOf(i)) << ", " << size << "> r" << i - ins << ";\n";
    }
    os << "#pragma unroll\n      for (int j = 0; j < " << size << "; ++j) {\n"
       << "        [[maybe_unused]] const int64_t i0 = pack * " << size << " + j;\n";
    BodyPrinter printer(kernel);
    printer.setLoad(
        [&](unsigned i) { return moves(i) ? "p" + std::to_string(i) + ".at[j]" : "in" + std::to_string(i) + "[0]"; });
    if (failed(printer.print(results, "        ", os)))
      return failure();
    for (auto [i, value] : llvm::enumerate(results))
      os << "        r" << i << ".at[j] = " << printer.stored(value) << ";\n";
    os << "      }\n";
    for (unsigned i = 0; i < results.size(); ++i)
      os << "      cuda::storePack(out" << i << " + pack * " << size << ", r" << i << ");\n";
    os << "    });\n    return;\n  }\n";
    return success();
  }

  rank::KernelOp kernel;
  Block &block;
  SmallVector<Value> results;
  int64_t elements = 1;
};

} // namespace

/// "const float* in0, float* out0, WriteMode mode".
static SmallVector<std::string> parametersOf(rank::KernelOp kernel) {
  SmallVector<std::string> parameters;
  for (auto [i, argument] : llvm::enumerate(kernel.getBody().front().getArguments()))
    parameters.push_back(("const " + elementType(argument.getType()) + "* in" + Twine(i)).str());
  for (auto [i, type] : llvm::enumerate(kernel.getResultTypes().getAsValueRange<TypeAttr>()))
    parameters.push_back((elementType(type) + "* out" + Twine(i)).str());
  if (!kernel.getReduced().empty())
    parameters.push_back("WriteMode mode");
  return parameters;
}

std::string cpp::kernelSignature(rank::KernelOp kernel, bool onGpu) {
  SmallVector<std::string> parameters = parametersOf(kernel);
  if (onGpu)
    parameters.insert(parameters.begin(), "cuda::Stream stream");
  return "void " + identifier(kernel.getSymName()) + "(" + llvm::join(parameters, ", ") + ")";
}

LogicalResult cpp::emitKernel(rank::KernelOp kernel, raw_ostream &os) {
  os << kernelSignature(kernel) << " {\n";
  if (failed(kernel.getReduced().empty() ? emitElementwise(kernel, os) : ReductionPrinter(kernel).print(os)))
    return failure();
  os << "}\n\n";
  return success();
}

LogicalResult cpp::emitCudaKernel(rank::KernelOp kernel, raw_ostream &os) {
  SmallVector<std::string> parameters = parametersOf(kernel), arguments{"stream"};
  std::string name = identifier(kernel.getSymName()), grid;
  os << "static __global__ void " << name << "_on_device(" << llvm::join(parameters, ", ") << ") {\n";
  if (kernel.getReduced().empty()) {
    CudaElementwisePrinter printer(kernel);
    if (failed(printer.print(os)))
      return failure();
    grid = "cuda::gridOver(" + std::to_string(printer.jobs()) + ")";
  } else {
    ReductionPrinter printer(kernel);
    if (failed(printer.print(os)))
      return failure();
    grid = std::string("cuda::reduce") + (printer.isRows() ? "Rows" : "Columns") + "Grid(" + printer.space() + ")";
  }
  arguments.push_back(grid);
  for (StringRef parameter : parameters)
    arguments.push_back(parameter.rsplit(' ').second.str());
  os << "}\n"
     << kernelSignature(kernel, /*onGpu=*/true) << " {\n  cuda::kernel(" << name << "_on_device).launch("
     << llvm::join(arguments, ", ") << ");\n}\n\n";
  return success();
}
