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

  size_t printRun(ArrayRef<Operation *> calls) override {
    size_t updates = printUpdates(calls);
    return updates ? updates : printSumsOfSquares(calls);
  }

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

  /// Updates that follow one another and differ in their tensors alone, with the rounding of what one has updated.
  size_t printUpdates(ArrayRef<Operation *> calls);
  /// Those that go into one sum.
  size_t printSumsOfSquares(ArrayRef<Operation *> calls);
  std::string adamWCall(rank::CallOp op) {
    return expand(KernelCall(op), "#desc, {lr, step, scale, beta1, predicate}");
  }
  /// Of the row of a table: "      // h.0.attn.weight: (4, 64)\n".
  static std::string rowComment(rank::CallOp op, Value tensor) {
    StringAttr id = getIdAttr(op);
    return id ? "      // " + oneLine(id.getValue()) + ": " + shapeText(typeOf(tensor)) + "\n" : "";
  }
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

/// Call `i`, if it is one of these kernels; null where it is not, or there is none.
static rank::CallOp callAt(ArrayRef<Operation *> calls, size_t i, ArrayRef<StringRef> kernels) {
  auto call = i < calls.size() ? dyn_cast<rank::CallOp>(calls[i]) : rank::CallOp();
  return call && llvm::is_contained(kernels, call.getKernel()) ? call : rank::CallOp();
}

size_t CudaCallPrinter::printSumsOfSquares(ArrayRef<Operation *> calls) {
  auto sumAt = [&](size_t i) { return callAt(calls, i, {"sum_of_squares"}); };
  rank::CallOp first = sumAt(0);
  if (!first)
    return 0;
  out.include(KernelCall(first).getKernel().cuda.header);
  std::string sum = out.pointer(first.getOuts()[0]), rows;
  Type element = typeOf(first.getIns()[0]).getElementType();
  size_t tensors = 0;
  for (rank::CallOp op = first; op; op = sumAt(tensors)) {
    Value in = op.getIns()[0];
    bool isSameSum = out.pointer(op.getOuts()[0]) == sum && typeOf(in).getElementType() == element;
    if (tensors > 0 && (!isSameSum || op.getMode() != rank::WriteMode::add))
      break;
    rows += rowComment(op, in) + "      {" + out.pointer(in) + ", " + out.count({in}) + "},\n";
    ++tensors;
  }
  out.line("{");
  out.table(("cuda::SquaredTensor<" + elementType(element) + ">").str(), "tensors", rows);
  out.callLine("  cuda::sumOfSquares", {"stream", "tensors", str(tensors), sum, out.mode(first.getMode())});
  out.line("}");
  return tensors;
}

size_t CudaCallPrinter::printUpdates(ArrayRef<Operation *> calls) {
  auto updateAt = [&](size_t i) { return callAt(calls, i, {"adamw", "adam"}); };
  rank::CallOp first = updateAt(0);
  if (!first)
    return 0;
  out.include(KernelCall(first).getKernel().cuda.header);
  std::string common = adamWCall(first), rows;
  Type gradient = typeOf(first.getIns()[0]).getElementType(), rounded;
  size_t i = 0, tensors = 0;
  for (rank::CallOp op = first; op; op = updateAt(i), ++tensors) {
    if (adamWCall(op) != common || typeOf(op.getIns()[0]).getElementType() != gradient)
      break;
    auto outs = op.getOuts();
    std::string elements = out.count({outs[0], outs[1], outs[2], op.getIns()[0]}), copy = "nullptr";
    rank::CallOp next = callAt(calls, i + 1, {"round"});
    if (next && out.pointer(next.getIns()[0]) == out.pointer(outs[0]) &&
        out.count({next.getOuts()[0], next.getIns()[0]}) == elements) {
      Type type = typeOf(next.getOuts()[0]).getElementType();
      if (isHalfWidth(type) && (!rounded || rounded == type)) {
        rounded = type;
        copy = out.pointer(next.getOuts()[0]);
      }
    }
    i += copy == "nullptr" ? 1 : 2;
    rows += rowComment(op, outs[0]) + "      {" + elements + ", " + out.pointer(outs[0]) + ", " +
            out.pointer(op.getIns()[0]) + ", " + out.pointer(outs[1]) + ", " + out.pointer(outs[2]) + ", " + copy +
            "},\n";
  }
  out.line("{");
  out.table("cuda::AdamWTensor<" + elementType(gradient).str() + ", " +
                elementType(rounded ? rounded : gradient).str() + ">",
            "tensors", rows);
  out.callLine("  cuda::adamw", {"stream", common, "tensors", str(tensors)});
  out.line("}");
  return i;
}

} // namespace

std::unique_ptr<CallPrinter> cpp::makeCudaCallPrinter(FunctionEmitter &out) {
  return std::make_unique<CudaCallPrinter>(out);
}
