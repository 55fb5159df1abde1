// Kernels for GPUs: a __global__ function, and the host function that launches it.
#include "KernelEmitter.h"
#include "KernelPrinters.h"

#include "hyc/Analysis/Workspaces.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::cpp;

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
    BodyPrinter printer(kernel, NarrowFunctions::Approximate);
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
    BodyPrinter positions(kernel), printer(kernel, NarrowFunctions::Approximate);
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
      : ReductionPrinter(kernel, NarrowFunctions::Approximate), operands(kernel),
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

  bool isWide(unsigned operand) const { return pack > 1 && operands.strides(operand)[loops.inner.back()] == 1; }

  /// The indices that load, element and store get, as far as `text` uses them, and what takes them apart.
  std::string indexParameters(StringRef text) {
    return indexParameter("outer", loops.outer, text) + ", " + indexParameter("step", loops.steps, text) + ", " +
           indexParameter("inner", loops.inner, text);
  }
  std::string decodeAll(StringRef text) {
    return decode("outer", loops.outer, text) + decode("step", loops.steps, text) + decode("inner", loops.inner, text);
  }

  void choosePack() {
    if (loops.isRows)
      return;
    pack = operands.packSize(used, loops.inner.back());
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
      BodyPrinter printer = elementPrinter(NarrowFunctions::Approximate);
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

    BodyPrinter positions = elementPrinter();
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
      os << ", " << indexParameter("inner", loops.inner, finish);
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

static SmallVector<std::string> parametersOf(rank::KernelOp kernel) {
  SmallVector<std::string> parameters = operandParameters(kernel);
  if (cudaKernelWorkspaceBytes(kernel) > 0)
    parameters.push_back("void* workspace");
  return parameters;
}

std::string cpp::cudaKernelSignature(rank::KernelOp kernel) {
  SmallVector<std::string> parameters = parametersOf(kernel);
  parameters.insert(parameters.begin(), "cuda::Stream stream");
  return "void " + identifier(kernel.getSymName()) + "(" + llvm::join(parameters, ", ") + ")";
}

LogicalResult cpp::emitCudaKernel(rank::KernelOp kernel, raw_ostream &os) {
  SmallVector<std::string> parameters = parametersOf(kernel);
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
  os << "}\n" << cudaKernelSignature(kernel) << " {\n" << launches << "}\n\n";
  return success();
}
