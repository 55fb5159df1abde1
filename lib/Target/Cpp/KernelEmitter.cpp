// Loops of kernels: written out where all results are elementwise, by kernels/reduce/loops.h where some are combined.
//
// The surprise: pointers carry no __restrict, since a result may be written over an operand; `omp simd` promises
// instead that iterations are independent, which is true in that case too.
#include "KernelEmitter.h"

#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/KernelStructure.h"
#include "dialects/Rank/ScalarFunctions.h"
#include "hyc/Analysis/Workspaces.h"
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

/// Prints the statements that some values of a body need, in the order of the body.
class BodyPrinter {
public:
  explicit BodyPrinter(rank::KernelOp kernel, bool onGpu = false)
      : kernel(kernel), block(kernel.getBody().front()), onGpu(onGpu) {}

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
    const rank::ScalarFunction *function = rank::findScalarFunction(op.getFunction());
    if (!function)
      return "";
    std::string text = function->text.str();
    if (onGpu && isHalfWidth(type) && !function->narrow.empty())
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

  rank::KernelOp kernel;
  Block &block;
  bool onGpu;
  DenseMap<Value, std::string> names;
  std::function<std::string(unsigned)> load;
};

/// Prints a kernel that combines as two lambdas and a call of loops.h.
class ReductionPrinter {
public:
  explicit ReductionPrinter(rank::KernelOp kernel, bool onGpu = false)
      : kernel(kernel), block(kernel.getBody().front()), onGpu(onGpu), loops(rank::reductionLoops(kernel)),
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
    os << "  reduce" << (loops.isRows ? "Rows" : "Columns") << "<" << combinations() << ">(" << space()
       << ", element, finish);\n";
    return success();
  }

  /// "Sum<float>, Max<float>"
  std::string combinations() {
    std::string list;
    for (rank::CombineOp combine : combines) {
      StringRef kind = rank::stringifyCombineKind(combine.getKind());
      list += (list.empty() ? "" : ", ") + std::string(1, llvm::toUpper(kind[0])) + kind.drop_front().str() + "<" +
              scalarType(combine.getType()).str() + ">";
    }
    return list;
  }
  std::string space() const {
    return "{.outer = " + std::to_string(loops.outerCount) + ", .steps = " + std::to_string(loops.stepCount) +
           ", .inner = " + std::to_string(loops.innerCount) + "}";
  }

protected:
  /// One element: whole results are written, the rest goes into the accumulators.
  LogicalResult printElement(std::string &text) {
    llvm::raw_string_ostream os(text);
    BodyPrinter printer(kernel);
    return printElement(printer, [&](unsigned i) { return printer.out(i); }, os);
  }
  LogicalResult printElement(BodyPrinter &printer, llvm::function_ref<std::string(unsigned)> out, raw_ostream &os) {
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

  /// One complete result.
  LogicalResult printFinish(std::string &text) {
    llvm::raw_string_ostream os(text);
    BodyPrinter printer(kernel, onGpu);
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
  std::string indexParameter(StringRef together, ArrayRef<unsigned> dims, StringRef text) {
    if (!usesAny(text, dims))
      return indexType;
    return (indexType + " " + (dims.size() == 1 ? "i" + Twine(dims[0]) : Twine(together))).str();
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
    return "    [[maybe_unused]] const " + indexType + " " + list + ";\n";
  }
  std::string parameters(StringRef reference) {
    std::string text;
    for (auto [combine, accumulator] : llvm::zip_equal(combines, accumulators))
      text += (", " + scalarType(combine.getType()) + reference + accumulator).str();
    return text;
  }

  rank::KernelOp kernel;
  Block &block;
  bool onGpu;
  rank::ReductionLoops loops;
  DenseSet<Value> combined;
  SmallVector<rank::CombineOp> combines;
  SmallVector<std::string> accumulators;
  std::string indexType = "int64_t";
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

/// What kernels for GPUs ask about their operands: inputs first, then results.
class CudaOperands {
public:
  explicit CudaOperands(rank::KernelOp kernel)
      : block(kernel.getBody().front()), results(block.getTerminator()->getOperands()), space(kernel.getSpace()) {
    for (int64_t size : space)
      elements *= size;
    for (mlir::Attribute list : kernel.getStrides())
      allStrides.push_back(cast<DenseI64ArrayAttr>(list).asArrayRef());
  }

  unsigned inputs() const { return block.getNumArguments(); }
  unsigned count() const { return inputs() + results.size(); }
  Type typeOf(unsigned operand) const {
    return operand < inputs() ? block.getArgument(operand).getType() : results[operand - inputs()].getType();
  }
  int64_t bytesOf(unsigned operand) const {
    Type type = typeOf(operand);
    return type.isIntOrFloat() ? llvm::divideCeil(type.getIntOrFloatBitWidth(), 8) : 8;
  }
  ArrayRef<int64_t> strides(unsigned operand) const { return allStrides[operand]; }
  std::string name(unsigned operand) const {
    return operand < inputs() ? "in" + std::to_string(operand) : "out" + std::to_string(operand - inputs());
  }

  /// As wide as positions are: most fit in 32 bits, with room for a step beyond the last.
  std::string indexType() const {
    constexpr int64_t most = (int64_t(1) << 31) - (1 << 16);
    bool fits = elements <= most;
    for (unsigned i = 0; i < count(); ++i) {
      int64_t last = 0;
      for (auto [size, stride] : llvm::zip_equal(space, strides(i)))
        last += (size - 1) * std::abs(stride);
      fits &= last <= most;
    }
    return fits ? "int32_t" : "int64_t";
  }

  /// Whether elements beside each other along `dim` lie beside each other in memory, in whole packs: an operand that
  /// stands still along `dim` is no obstacle.
  bool movesInPacks(unsigned operand, unsigned dim, int64_t pack) const {
    ArrayRef<int64_t> all = strides(operand);
    if (all[dim] == 0)
      return true;
    if (all[dim] != 1)
      return false;
    for (auto [d, stride] : llvm::enumerate(all))
      if (d != dim && stride % pack != 0)
        return false;
    return true;
  }
  /// Elements of 16 bytes of the widest of these operands, or fewer where `dim` or rows do not come out even; 1: none.
  int64_t packSize(ArrayRef<unsigned> operands, unsigned dim) const {
    int64_t bytes = 1;
    bool isMoving = false;
    for (unsigned i : operands) {
      bytes = std::max(bytes, bytesOf(i));
      isMoving |= strides(i)[dim] == 1;
    }
    int64_t pack = isMoving ? 16 / bytes : 1;
    while (pack > 1 &&
           (space[dim] % pack != 0 || !llvm::all_of(operands, [&](unsigned i) { return movesInPacks(i, dim, pack); })))
      pack /= 2;
    return std::max<int64_t>(pack, 1);
  }

  Block &block;
  SmallVector<Value> results;
  ArrayRef<int64_t> space;
  SmallVector<ArrayRef<int64_t>> allStrides;
  int64_t elements = 1;
};

/// Prints a kernel without combinations for GPUs: an element a thread, or a pack along the last dimension.
class CudaElementwisePrinter {
public:
  explicit CudaElementwisePrinter(rank::KernelOp kernel)
      : kernel(kernel), operands(kernel), results(operands.results), indexType(operands.indexType()),
        last(kernel.getSpace().empty() ? 0 : kernel.getSpace().size() - 1) {
    if (!kernel.getSpace().empty() && operands.elements > 0)
      pack = operands.packSize(llvm::to_vector(llvm::seq(operands.count())), last);
  }

  LogicalResult print(raw_ostream &os) {
    if (pack > 1 && failed(printPacks(os)))
      return failure();
    os << "  cuda::forEach<" << indexType << ">(" << operands.elements << ", [=](" << indexType << " i) {\n"
       << indices("i", 1, "    ");
    BodyPrinter printer(kernel, /*onGpu=*/true);
    if (failed(printer.print(results, "    ", os)))
      return failure();
    for (auto [i, value] : llvm::enumerate(results))
      os << "    " << printer.out(i) << " = " << printer.stored(value) << ";\n";
    os << "  });\n";
    return success();
  }

  /// Threads that have something to do.
  int64_t jobs() const { return std::max<int64_t>(1, operands.elements / pack); }

private:
  bool moves(unsigned operand) const { return operands.strides(operand)[last] != 0; }

  /// Takes `number` apart, which counts packs of `unit` elements; the last index is that of the pack's first.
  std::string indices(StringRef number, int64_t unit, StringRef indent) {
    std::string text;
    int64_t inner = 1;
    for (unsigned d = kernel.getSpace().size(); d-- > 0;) {
      int64_t size = d == last ? kernel.getSpace()[d] / unit : kernel.getSpace()[d];
      std::string value = number.str() + (inner == 1 ? "" : " / " + std::to_string(inner));
      if (d > 0)
        value += " % " + std::to_string(size);
      if (d == last && unit > 1)
        value += " * " + std::to_string(unit);
      text = (indent + "[[maybe_unused]] const " + indexType + " i" + Twine(d) + " = " + value + ";\n").str() + text;
      inner *= size;
    }
    return text;
  }

  LogicalResult printPacks(raw_ostream &os) {
    std::string addresses, size = std::to_string(pack), first = "i" + std::to_string(last);
    for (unsigned i = 0; i < operands.count(); ++i)
      if (moves(i))
        addresses += ", " + operands.name(i);
    os << "  if (cuda::isPackable(0" << addresses << ")) {\n    cuda::forEach<" << indexType << ">("
       << operands.elements / pack << ", [=](" << indexType << " pack) {\n"
       << indices("pack", pack, "      ");
    BodyPrinter positions(kernel), printer(kernel, /*onGpu=*/true);
    for (unsigned i = 0; i < operands.count(); ++i) {
      std::string at = "[" + positions.index(i) + "]";
      if (i < operands.inputs())
        os << "      const auto p" << i << " = "
           << (moves(i) ? "cuda::loadPack<" + size + ">(&in" + std::to_string(i) + at + ")"
                        : "in" + std::to_string(i) + at)
           << ";\n";
      else
        os << "      cuda::Pack<" << elementType(operands.typeOf(i)) << ", " << size << "> r" << i - operands.inputs()
           << ";\n";
    }
    std::string body;
    llvm::raw_string_ostream bodyStream(body);
    printer.setLoad([&](unsigned i) { return "p" + std::to_string(i) + (moves(i) ? ".at[j]" : ""); });
    if (failed(printer.print(results, "        ", bodyStream)))
      return failure();
    for (auto [i, value] : llvm::enumerate(results))
      bodyStream << "        r" << i << ".at[j] = " << printer.stored(value) << ";\n";
    os << "#pragma unroll\n      for (int j = 0; j < " << size << "; ++j) {\n";
    bool readsIndex =
        llvm::any_of(operands.block.getOps<rank::IndexOp>(), [&](rank::IndexOp op) { return op.getDim() == last; });
    if (readsIndex)
      os << "        const " << indexType << " begin = " << first << ";\n        const " << indexType << " " << first
         << " = begin + j;\n";
    os << body << "      }\n";
    for (unsigned i = 0; i < results.size(); ++i)
      os << "      cuda::storePack(&out" << i << "[" << positions.index(operands.inputs() + i) << "], r" << i << ");\n";
    os << "    });\n    return;\n  }\n";
    return success();
  }

  rank::KernelOp kernel;
  CudaOperands operands;
  SmallVector<Value> results;
  std::string indexType;
  unsigned last;
  int64_t pack = 1;
};

/// Prints a kernel that combines for GPUs: what kernels/reduce/cuda.h does with an element, in its three parts.
class CudaReductionPrinter : ReductionPrinter {
public:
  explicit CudaReductionPrinter(rank::KernelOp kernel)
      : ReductionPrinter(kernel, /*onGpu=*/true), operands(kernel),
        wantsWorkspace(cudaKernelWorkspaceBytes(kernel) > 0) {
    indexType = operands.indexType();
  }

  LogicalResult print(raw_ostream &os) {
    std::string element, finish;
    if (failed(printParts(element)) || failed(printFinish(finish)))
      return failure();
    std::string call = std::string("cuda::reduce") + (loops.isRows ? "Rows<" : "Columns<") + indexType + ", ";
    std::string packed;
    if (!loops.isRows) {
      call += std::to_string(pack) + ", ";
      for (unsigned i : used)
        if (isWide(i))
          packed += ", " + operands.name(i);
      packed = packed.empty() ? "false, " : "cuda::isPackable(0" + packed + "), ";
    }
    os << "  constexpr cuda::ReduceSpace space" << space() << ";\n" << element;
    printFinishLambda(finish, os);
    os << "  " << call << combinations() << ">(space, " << (wantsWorkspace ? "workspace" : "nullptr") << ", " << packed
       << "load, element, store, finish);\n";
    return success();
  }

  /// The kernel that combines the results of blocks.
  LogicalResult printCombining(raw_ostream &os) {
    std::string finish;
    if (failed(printFinish(finish)))
      return failure();
    os << "  constexpr cuda::ReduceSpace space" << space() << ";\n";
    printFinishLambda(finish, os);
    os << "  cuda::combine" << (loops.isRows ? "Rows<" : "Columns<") << indexType << ", " << combinations()
       << ">(space, workspace, finish);\n";
    return success();
  }

  std::string grid() const {
    return std::string("cuda::reduce") + (loops.isRows ? "Rows" : "Columns") + "Grid(" + space() + ", " +
           (loops.isRows ? "" : std::to_string(pack) + ", ") + (wantsWorkspace ? "workspace" : "nullptr") + ")";
  }
  std::string combiningGrid() const {
    return std::string("cuda::combine") + (loops.isRows ? "Rows" : "Columns") + "Grid(" + space() + ")";
  }

private:
  /// Fewer threads than this leave a GPU's memory waiting: columns are then shared out in smaller packs.
  static constexpr int64_t kThreadsWorthHaving = 65536;

  bool isWide(unsigned operand) const { return pack > 1 && operands.strides(operand)[loops.inner] == 1; }

  /// The indices that load, element and store get, as far as `text` uses them, and what takes them apart.
  std::string indexParameters(StringRef text) {
    return indexParameter("outer", loops.outer, text) + ", " + indexParameter("step", loops.steps, text) + ", " +
           indexParameter("", {loops.inner}, text);
  }
  std::string decodeAll(StringRef text) {
    return decode("outer", loops.outer, text) + decode("step", loops.steps, text);
  }

  void choosePack() {
    if (loops.isRows)
      return;
    pack = operands.packSize(used, loops.inner);
    int64_t columns = std::max(loops.outerCount * loops.innerCount, // of all blocks
                               cudaReductionPartials(false, loops.outerCount, loops.stepCount, loops.innerCount));
    while (pack > 2 && columns / pack < kThreadsWorthHaving)
      pack /= 2;
  }

  /// load, element and store.
  LogicalResult printParts(std::string &text) {
    std::string body;
    {
      llvm::raw_string_ostream stream(body);
      BodyPrinter printer(kernel, /*onGpu=*/true);
      // Which operands there are is known before it is known how wide they are.
      printer.setLoad([&](unsigned i) {
        used.push_back(i);
        return "at." + field(i);
      });
      if (failed(printElement(printer, [&](unsigned i) { return "at." + field(operands.inputs() + i); }, stream)))
        return failure();
    }
    SmallVector<unsigned> wholeResults;
    for (auto [i, value] : llvm::enumerate(operands.results))
      if (!combined.contains(value))
        wholeResults.push_back(operands.inputs() + i);
    used.append(wholeResults);
    choosePack();

    BodyPrinter positions(kernel);
    std::string fields, loads, stores;
    for (unsigned i : used) {
      std::string type = elementType(operands.typeOf(i)).str(),
                  place = operands.name(i) + "[" + positions.index(i) + "]";
      fields += "      " + (isWide(i) ? "cuda::Pack<" + type + ", n>" : type) + " " + field(i) + ";\n";
      if (i < operands.inputs())
        loads += "    at." + field(i) + " = " + (isWide(i) ? "cuda::loadPack<n>(&" + place + ")" : place) + ";\n";
      else
        stores += isWide(i) ? "    cuda::storePack(&" + place + ", at." + field(i) + ");\n"
                            : "    " + place + " = at." + field(i) + ";\n";
      if (isWide(i))
        replaceAll(body, "at." + field(i), "at." + field(i) + ".at[j]");
    }
    llvm::raw_string_ostream os(text);
    os << "  const auto load = [=](auto count, " << indexParameters(loads) << ") {\n"
       << "    [[maybe_unused]] constexpr int n = decltype(count)::value;\n    struct Elements {\n"
       << fields << "    };\n    Elements at;\n"
       << decodeAll(loads) << loads << "    return at;\n  };\n";
    os << "  const auto element = [=](auto& at, int j, " << indexParameters(body) << parameters("& ") << ") {\n"
       << decodeAll(body) << body << "  };\n";
    os << "  const auto store = [=](const auto& at, " << indexParameters(stores) << ") {\n"
       << decodeAll(stores) << stores << "  };\n";
    return success();
  }

  void printFinishLambda(StringRef finish, raw_ostream &os) {
    os << "  const auto finish = [=](" << indexParameter("outer", loops.outer, finish);
    if (!loops.isRows)
      os << ", " << indexParameter("", {loops.inner}, finish);
    os << parameters(" ") << ") {\n" << decode("outer", loops.outer, finish) << finish << "  };\n";
  }

  /// What an element calls its operands: "in0x". The letter at the end keeps one name from beginning another.
  std::string field(unsigned operand) const {
    return operand < operands.inputs() ? "in" + std::to_string(operand) + "x"
                                       : "out" + std::to_string(operand - operands.inputs()) + "x";
  }
  static void replaceAll(std::string &text, StringRef from, StringRef to) {
    for (size_t at = text.find(from.str()); at != std::string::npos; at = text.find(from.str(), at + to.size()))
      text.replace(at, from.size(), to.str());
  }

  CudaOperands operands;
  bool wantsWorkspace;
  SmallVector<unsigned> used; ///< by an element
  int64_t pack = 1;
};

} // namespace

/// "const float* in0, float* out0, WriteMode mode".
static SmallVector<std::string> parametersOf(rank::KernelOp kernel, bool onGpu = false) {
  SmallVector<std::string> parameters;
  for (auto [i, argument] : llvm::enumerate(kernel.getBody().front().getArguments()))
    parameters.push_back(("const " + elementType(argument.getType()) + "* in" + Twine(i)).str());
  for (auto [i, type] : llvm::enumerate(kernel.getResultTypes().getAsValueRange<TypeAttr>()))
    parameters.push_back((elementType(type) + "* out" + Twine(i)).str());
  if (!kernel.getReduced().empty())
    parameters.push_back("WriteMode mode");
  if (onGpu && cudaKernelWorkspaceBytes(kernel) > 0)
    parameters.push_back("void* workspace");
  return parameters;
}

std::string cpp::kernelSignature(rank::KernelOp kernel, bool onGpu) {
  SmallVector<std::string> parameters = parametersOf(kernel, onGpu);
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
  SmallVector<std::string> parameters = parametersOf(kernel, /*onGpu=*/true);
  std::string name = identifier(kernel.getSymName()), operands, launches;
  for (StringRef parameter : parameters)
    operands += ", " + parameter.rsplit(' ').second.str();
  auto begin = [&](StringRef suffix) {
    os << "static __global__ void " << name << suffix << "(" << llvm::join(parameters, ", ") << ") {\n";
  };
  auto launch = [&](StringRef suffix, const std::string &grid) {
    return "cuda::kernel(" + name + suffix.str() + ").launch(stream, " + grid + operands + ");\n";
  };
  begin("_on_device");
  if (kernel.getReduced().empty()) {
    CudaElementwisePrinter printer(kernel);
    if (failed(printer.print(os)))
      return failure();
    launches = "  " + launch("_on_device", "cuda::gridOver(" + std::to_string(printer.jobs()) + ")");
  } else {
    CudaReductionPrinter printer(kernel);
    if (failed(printer.print(os)))
      return failure();
    launches = "  " + launch("_on_device", printer.grid());
    if (cudaKernelWorkspaceBytes(kernel) > 0) {
      os << "}\n";
      begin("_combined");
      if (failed(printer.printCombining(os)))
        return failure();
      launches += "  if (workspace) " + launch("_combined", printer.combiningGrid());
    }
  }
  os << "}\n" << kernelSignature(kernel, /*onGpu=*/true) << " {\n" << launches << "}\n\n";
  return success();
}
