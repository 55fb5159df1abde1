// Bodies of kernels as statements, reductions as lambdas.
#include "KernelPrinters.h"

#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/ScalarFunctions.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/StringExtras.h"

#include <limits>

using namespace mlir;
using namespace hyc;
using namespace hyc::cpp;

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

std::string BodyPrinter::stored(Value value) {
  if (!isNarrowFloat(value.getType()))
    return names[value];
  return (elementType(value.getType()) + "(" + names[value] + ")").str();
}

LogicalResult BodyPrinter::print(ArrayRef<Value> values, StringRef indent, raw_ostream &os) {
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

std::string BodyPrinter::index(unsigned operand) {
  ArrayRef<int64_t> strides = cast<DenseI64ArrayAttr>(kernel.getStrides()[operand]).asArrayRef();
  bool isJoined = !joined.empty();
  for (size_t i = 0; i + 1 < joined.size(); ++i)
    isJoined &= strides[joined[i]] == strides[joined[i + 1]] * kernel.getSpace()[joined[i + 1]];
  std::string result;
  for (auto [d, stride] : llvm::enumerate(strides)) {
    // Of joined dimensions the last one's stride is that of the index.
    if (stride == 0 || (isJoined && d != joined.back() && llvm::is_contained(joined, d)))
      continue;
    result += (result.empty() ? "" : " + ") + (isJoined && d == joined.back() ? joinedName : "i" + std::to_string(d)) +
              (stride == 1 ? "" : " * " + std::to_string(stride));
  }
  return result.empty() ? "0" : result;
}

std::string BodyPrinter::out(unsigned result) {
  return "out" + std::to_string(result) + "[" + index(block.getNumArguments() + result) + "]";
}

LogicalResult BodyPrinter::printOp(Operation &op, StringRef indent, raw_ostream &os) {
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

std::string BodyPrinter::spell(rank::ScalarComputeOp op) {
  Type type = op.getResult().getType();
  if (op.getFunction() == "convert") {
    std::string value = names[op.getOperands()[0]];
    // A boolean is whether the number is not zero.
    if (type.isInteger(1))
      return value + " != 0";
    bool truncates = isa<FloatType>(op.getOperands()[0].getType()) && isa<IntegerType>(type);
    return ((truncates ? "math::truncated<" : "static_cast<") + scalarType(type) + ">(" + value + ")").str();
  }
  const rank::ScalarFunction *function = rank::findScalarFunction(op.getFunction());
  if (!function)
    return "";
  std::string text = function->text.str();
  if (narrow == NarrowFunctions::Approximate && isHalfWidth(type) && !function->narrow.empty())
    text = function->narrow.str();
  else if (type.isF64() && !function->f64.empty())
    text = function->f64.str();
  for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
    std::string placeholder = "{" + std::to_string(i) + "}";
    for (size_t at = text.find(placeholder); at != std::string::npos; at = text.find(placeholder))
      text.replace(at, placeholder.size(), names[operand]);
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

ReductionPrinter::ReductionPrinter(rank::KernelOp kernel, NarrowFunctions narrow)
    : kernel(kernel), block(kernel.getBody().front()), narrow(narrow), loops(rank::reductionLoops(kernel)),
      combined(rank::combinedValues(block)), combines(block.getOps<rank::CombineOp>()) {
  for (auto [i, combine] : llvm::enumerate(combines)) {
    accumulators.push_back(rank::stringifyCombineKind(combine.getKind()).str());
    if (combines.size() > 1)
      accumulators.back() += std::to_string(i);
  }
}

LogicalResult ReductionPrinter::print(raw_ostream &os) {
  std::string element, finish;
  if (failed(printElement(element)) || failed(printFinish(finish)))
    return failure();
  os << "  const auto element = [=](" << indexParameter("outer", loops.outer, element) << ", "
     << indexParameter("step", loops.steps, element) << ", " << indexParameter("inner", loops.inner, element)
     << parameters("& ") << ") {\n"
     << decode("outer", loops.outer, element) << decode("step", loops.steps, element)
     << decode("inner", loops.inner, element) << element << "  };\n";
  os << "  const auto finish = [=](" << indexParameter("outer", loops.outer, finish);
  if (!loops.isRows)
    os << ", " << indexParameter("inner", loops.inner, finish);
  os << parameters(" ") << ") {\n" << decode("outer", loops.outer, finish) << finish << "  };\n";
  os << "  reduce" << (loops.isRows ? "Rows" : "Columns") << "<" << combinations() << ">(" << space()
     << ", element, finish);\n";
  return success();
}

std::string ReductionPrinter::combinations() {
  std::string list;
  for (rank::CombineOp combine : combines) {
    StringRef kind = rank::stringifyCombineKind(combine.getKind());
    list += (list.empty() ? "" : ", ") + std::string(1, llvm::toUpper(kind[0])) + kind.drop_front().str() + "<" +
            scalarType(combine.getType()).str() + ">";
  }
  return list;
}

std::string ReductionPrinter::space() const {
  return "{.outer = " + std::to_string(loops.outerCount) + ", .steps = " + std::to_string(loops.stepCount) +
         ", .inner = " + std::to_string(loops.innerCount) + "}";
}

LogicalResult ReductionPrinter::printElement(std::string &text) {
  llvm::raw_string_ostream os(text);
  BodyPrinter printer = elementPrinter();
  return printElement(printer, [&](unsigned i) { return printer.out(i); }, os);
}

LogicalResult ReductionPrinter::printElement(BodyPrinter &printer, llvm::function_ref<std::string(unsigned)> out,
                                             raw_ostream &os) {
  auto yielded = block.getTerminator()->getOperands();
  SmallVector<Value> values = llvm::filter_to_vector(yielded, [&](Value value) { return !combined.contains(value); });
  for (rank::CombineOp combine : combines)
    values.push_back(combine.getValue());
  if (failed(printer.print(values, "    ", os)))
    return failure();
  for (auto [i, value] : llvm::enumerate(yielded))
    if (!combined.contains(value))
      os << "    " << out(i) << " = " << printer.nameOf(value).str() << ";\n";
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

LogicalResult ReductionPrinter::printFinish(std::string &text) {
  llvm::raw_string_ostream os(text);
  BodyPrinter printer(kernel, narrow);
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

bool ReductionPrinter::usesName(StringRef text, StringRef name) {
  auto isPart = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  for (size_t at = text.find(name); at != StringRef::npos; at = text.find(name, at + 1)) {
    size_t end = at + name.size();
    if ((at == 0 || !isPart(text[at - 1])) && (end == text.size() || !isPart(text[end])))
      return true;
  }
  return false;
}

bool ReductionPrinter::usesAny(StringRef text, ArrayRef<unsigned> dims) {
  return llvm::any_of(dims, [&](unsigned dim) { return usesName(text, "i" + std::to_string(dim)); });
}

std::string ReductionPrinter::indexParameter(StringRef together, ArrayRef<unsigned> dims, StringRef text) {
  if (!usesAny(text, dims) && !usesName(text, together))
    return indexType;
  return (indexType + " " + (dims.size() == 1 ? "i" + Twine(dims[0]) : Twine(together))).str();
}

std::string ReductionPrinter::decode(StringRef together, ArrayRef<unsigned> dims, StringRef text) {
  if (dims.size() < 2 || !usesAny(text, dims))
    return "";
  int64_t inner = 1, count = 1;
  for (unsigned dim : dims)
    count *= kernel.getSpace()[dim];
  // What an innermost loop does is to vectorise: division by a constant does in 32 bits.
  bool isShort = together == "inner" && indexType == "int64_t" && count <= std::numeric_limits<uint32_t>::max();
  std::string number = isShort ? "uint32_t(" + together.str() + ")" : together.str();
  std::string list;
  for (unsigned dim : llvm::reverse(dims)) {
    std::string value = number + (inner == 1 ? "" : " / " + std::to_string(inner));
    if (dim != dims.front())
      value += " % " + std::to_string(kernel.getSpace()[dim]);
    list = "i" + std::to_string(dim) + " = " + value + (list.empty() ? "" : ", ") + list;
    inner *= kernel.getSpace()[dim];
  }
  return "    [[maybe_unused]] const " + indexType + " " + list + ";\n";
}

std::string ReductionPrinter::parameters(StringRef reference) {
  std::string text;
  for (auto [combine, accumulator] : llvm::zip_equal(combines, accumulators))
    text += (", " + scalarType(combine.getType()) + reference + accumulator).str();
  return text;
}

SmallVector<std::string> cpp::operandParameters(rank::KernelOp kernel) {
  SmallVector<std::string> parameters;
  for (auto [i, argument] : llvm::enumerate(kernel.getBody().front().getArguments()))
    parameters.push_back(("const " + elementType(argument.getType()) + "* in" + Twine(i)).str());
  for (auto [i, type] : llvm::enumerate(kernel.getResultTypes().getAsValueRange<TypeAttr>()))
    parameters.push_back((elementType(type) + "* out" + Twine(i)).str());
  if (!kernel.getReduced().empty())
    parameters.push_back("WriteMode mode");
  return parameters;
}
