// Calls of programs for GPUs: kernels of kernels/<op>/cuda.h, on the stream `stream`. A number that a step computes is
// in device memory, so that a kernel gets its address where a CPU's gets the number.
#include "CallPrinter.h"
#include "CallText.h"
#include "FunctionEmitter.h"
#include "StridedCopy.h"

#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/Workspaces.h"
#include "kernels/gemm/description.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::cpp;

namespace {

constexpr const char *kCopies = "kernels/copy/cuda.h";

class CudaCallPrinter : public CallPrinter {
public:
  using CallPrinter::CallPrinter;

  size_t printRun(ArrayRef<Operation *> calls) override;

  void callLine(StringRef function, ArrayRef<std::string> arguments) override {
    SmallVector<std::string> onStream{"stream"};
    onStream.append(arguments.begin(), arguments.end());
    StringRef name = function.ltrim(), margin = function.drop_back(name.size());
    out.callLine((margin + (name.starts_with("kernels::") ? "" : "cuda::") + name).str(), onStream);
  }

  void addLaunchArguments(rank::LaunchOp op, SmallVectorImpl<std::string> &arguments) override {
    if (cudaKernelWorkspaceBytes(rank::lookupKernel(op)) > 0)
      arguments.push_back(out.workspaceOf(op).value_or("nullptr")); // none is planned: kernels do without
  }

  StringRef arenaFunction() const override { return "ctx.accelerator()->arena"; }
  StringRef declarations() const override {
    return "  [[maybe_unused]] const cuda::Stream stream = ctx.accelerator()->stream();\n";
  }
  const char *headerOfProducts(kernels::ElementType type) const override {
    return kernels::described::gemm::header(type, /*onGpu=*/true);
  }

private:
  StringRef indexCheck() const override { return "ctx.accelerator()->checkIndices"; }
  const kernels::Function &functionOf(const kernels::KernelDescription &kernel) const override { return kernel.cuda; }
  LogicalResult printStatement(const KernelCall &call) override;

  /// Of a field that is an attribute otherwise, nothing is read where there is an address.
  std::optional<std::string> scalarText(const KernelCall &call, const kernels::Field &field) override {
    return field.attribute ? std::optional<std::string>("0") : std::nullopt;
  }

  LogicalResult printCopy(rank::CallOp op);
  LogicalResult printAccumulate(rank::CallOp op);
  LogicalResult printRound(rank::CallOp op);
  LogicalResult printFill(rank::CallOp op);
  LogicalResult printConstant(rank::CallOp op);
  LogicalResult printPoison(rank::CallOp op);

  /// A text for many calls, with what stands for their table.
  std::string expandAround(const KernelCall &call, StringRef text, StringRef table) {
    auto [before, behind] = text.split("#table");
    return expand(call, before) + table.str() + expand(call, behind);
  }
  /// What calls with one table have in common.
  std::string sharedText(const KernelCall &call) {
    auto [before, behind] = StringRef(call.getKernel().cudaTable.text).split("#mode");
    return expandAround(call, (before + behind).str(), "");
  }
  Value roundedCopy(const KernelCall &call, rank::CallOp next, Type known);
};

LogicalResult CudaCallPrinter::printStatement(const KernelCall &call) {
  static constexpr std::pair<StringLiteral, LogicalResult (CudaCallPrinter::*)(rank::CallOp)> kStatements[] = {
      {"strided_copy", &CudaCallPrinter::printCopy}, {"accumulate", &CudaCallPrinter::printAccumulate},
      {"round", &CudaCallPrinter::printRound},       {"fill", &CudaCallPrinter::printFill},
      {"constant", &CudaCallPrinter::printConstant}, {"poison", &CudaCallPrinter::printPoison},
  };
  rank::CallOp op = call.getOp();
  for (const auto &[kernel, print] : kStatements)
    if (kernel == op.getKernel())
      return out.include(kCopies), (this->*print)(op);
  return op.emitOpError("has no CUDA kernel: \"") << op.getKernel() << "\"; compile with --target cpu";
}

LogicalResult CudaCallPrinter::printCopy(rank::CallOp op) {
  Value from = op.getIns()[0], to = op.getOuts()[0];
  StridedCopy copy(typeOf(from), typeOf(to));
  out.comment(op, shapeText(typeOf(to)));
  if (copy.shape.size() > StridedCopy::kMostDims)
    return op.emitOpError("copies ") << copy.shape.size()
                                     << " dimensions that do not join, but the CUDA kernel takes 6; use --target cpu";
  callLine("stridedCopy", {copy.desc(typeOf(to).getElementBytes()), out.pointer(from), out.pointer(to)});
  return success();
}

LogicalResult CudaCallPrinter::printAccumulate(rank::CallOp op) {
  Value from = op.getIns()[0], to = op.getOuts()[0];
  std::string elements = out.count({to, from});
  out.comment(op, elements == "1" ? "" : shapeText(typeOf(to)));
  callLine("accumulate", {out.pointer(to), out.pointer(from), elements, out.mode(op.getMode())});
  return success();
}

LogicalResult CudaCallPrinter::printRound(rank::CallOp op) {
  Value from = op.getIns()[0], to = op.getOuts()[0];
  std::string elements = out.count({to, from});
  out.comment(op, elements == "1" ? "" : shapeText(typeOf(to)));
  callLine("roundElements", {out.pointer(to), out.pointer(from), elements});
  return success();
}

LogicalResult CudaCallPrinter::printFill(rank::CallOp op) {
  Value to = op.getOuts()[0];
  std::string element = elementType(typeOf(to).getElementType()).str();
  callLine("fill<" + element + ">", {out.pointer(to), str(typeOf(to).getNumElements()),
                                     element + "(" + literal(op->getAttrOfType<TypedAttr>("value")) + ")"});
  return success();
}

LogicalResult CudaCallPrinter::printConstant(rank::CallOp op) {
  Value to = op.getOuts()[0];
  out.comment(op, shapeText(typeOf(to)));
  out.line("{");
  out.declareValues(op);
  out.line("  cuda::upload(stream, " + out.pointer(to) + ", values, sizeof(values));");
  out.line("}");
  return success();
}

LogicalResult CudaCallPrinter::printPoison(rank::CallOp op) {
  Value buffer = op.getOuts()[0];
  out.line("if (ctx.poisons()) cuda::poison(stream, " + out.bytes(buffer) + ", " + str(typeOf(buffer).getBytes()) +
           ");");
  return success();
}

//===----------------------------------------------------------------------===//
// Many tensors at once
//===----------------------------------------------------------------------===//

/// Call `i`; null where that is none of a kernel, or not there.
static rank::CallOp callAt(ArrayRef<Operation *> calls, size_t i) {
  return i < calls.size() ? dyn_cast<rank::CallOp>(calls[i]) : rank::CallOp();
}

/// Of the row of a table: "      // h.0.attn.weight: (4, 64)\n".
static std::string rowComment(rank::CallOp op, Value tensor) {
  StringAttr id = getIdAttr(op);
  return id ? "      // " + oneLine(id.getValue()) + ": " + shapeText(typeOf(tensor)) + "\n" : "";
}

/// Where `next` rounds to what `call` has updated, if it does no more than that, and to the type that is known so far.
Value CudaCallPrinter::roundedCopy(const KernelCall &call, rank::CallOp next, Type known) {
  const kernels::TableFunction &function = call.getKernel().cudaTable;
  if (!function.rounded || !next || next.getKernel() != "round")
    return {};
  Value from = next.getIns()[0], to = next.getOuts()[0];
  Type type = typeOf(to).getElementType();
  bool isAllOfIt = out.pointer(from) == out.pointer(call.find(function.rounded)) &&
                   out.count({to, from}) == expand(call, function.roundedCount);
  return isAllOfIt && isHalfWidth(type) && (!known || known == type) ? to : Value();
}

size_t CudaCallPrinter::printRun(ArrayRef<Operation *> calls) {
  rank::CallOp first = callAt(calls, 0);
  if (!first || !KernelCall(first).getKernel().cudaTable.text)
    return 0;
  const KernelCall whole(first);
  const kernels::TableFunction &function = whole.getKernel().cudaTable;
  out.include(whole.getKernel().cuda.header);
  const bool hasMode = StringRef(function.text).contains("#mode");
  auto elementOf = [&](const KernelCall &call) { return typeOf(call.find(function.element)).getElementType(); };
  std::string shared = sharedText(whole), rows;
  Type element = elementOf(whole), rounded;
  size_t i = 0, tensors = 0;
  for (rank::CallOp op = first; op && op.getKernel() == first.getKernel(); op = callAt(calls, i), ++tensors) {
    const KernelCall call(op);
    if (sharedText(call) != shared || elementOf(call) != element ||
        (tensors > 0 && hasMode && op.getMode() != rank::WriteMode::add))
      break;
    std::string row = expand(call, function.row);
    Value copy = roundedCopy(call, callAt(calls, ++i), rounded);
    if (copy) {
      rounded = typeOf(copy).getElementType();
      ++i;
    }
    if (function.rounded)
      row += ", " + (copy ? out.pointer(copy) : "nullptr");
    rows += rowComment(op, call.find(function.shown)) + "      {" + row + "},\n";
  }
  std::string arguments = elementType(element).str();
  if (function.rounded)
    arguments += ", " + elementType(rounded ? rounded : element).str();
  out.line("{");
  out.table(("cuda::" + Twine(function.rowType) + "<" + arguments + ">").str(), "tensors", rows);
  std::string text = expandAround(whole, function.text, "tensors, " + str(tensors));
  auto [name, list] = StringRef(text).split('(');
  callLine(("  " + name).str(), list.drop_back().str());
  out.line("}");
  return i;
}

} // namespace

std::unique_ptr<CallPrinter> cpp::makeCudaCallPrinter(FunctionEmitter &out) {
  return std::make_unique<CudaCallPrinter>(out);
}
