// Operands of calls by the names that descriptions give them.
#include "hyc/Analysis/KernelCall.h"

#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/Moves.h"
#include "hyc/Analysis/Workspaces.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace hyc;
using kernels::KernelDescription;

static kernels::Numbers viewOf(ArrayRef<int64_t> values) { return {values.data(), values.size()}; }

static const KernelDescription &descriptionOf(rank::CallOp op) {
  StringRef name = op.getKernel();
  const KernelDescription *kernel = kernels::findKernel(std::string_view(name.data(), name.size()));
  assert(kernel && "the call has been verified");
  return *kernel;
}

KernelCall::KernelCall(rank::CallOp op) : op(op), kernel(descriptionOf(op)) {}

std::optional<unsigned> KernelCall::positionOf(int row) const {
  rank::CallOp call = op;
  unsigned position = 0, count = call.getIns().size();
  for (int i = 0; i <= row; ++i) {
    const kernels::OperandRow &in = kernel.ins[i];
    bool isThere = !in.presentWith || call->hasAttr(in.presentWith);
    if (i == row)
      return isThere && position < count ? std::optional(position) : std::nullopt;
    position += isThere;
  }
  return std::nullopt;
}

Value KernelCall::find(StringRef operand) const {
  rank::CallOp call = op;
  std::string_view name(operand.data(), operand.size());
  if (int out = kernel.findOut(name); out >= 0)
    return call.getOuts()[out];
  int in = kernel.findIn(name);
  assert(in >= 0 && "descriptions name their own operands");
  std::optional<unsigned> position = positionOf(in);
  return position ? call.getIns()[*position] : Value();
}

bool KernelCall::describes(StringRef operand) const {
  std::string_view name(operand.data(), operand.size());
  return kernel.findOut(name) >= 0 || kernel.findIn(name) >= 0;
}

bool KernelCall::has(std::string_view operand) const { return describes(operand) && static_cast<bool>(find(operand)); }

kernels::ElementType hyc::kernelElementType(Value buffer) {
  Type element = cast<rank::BufferType>(buffer.getType()).getElementType();
  if (isFloat8(element))
    return kernels::ElementType::kF8;
  return element.isF32()    ? kernels::ElementType::kF32
         : element.isBF16() ? kernels::ElementType::kBf16
         : element.isF16()  ? kernels::ElementType::kF16
         : element.isF64()  ? kernels::ElementType::kF64
                            : kernels::ElementType::kInteger;
}

kernels::Extents KernelCall::operand(std::string_view name) const {
  Value buffer = find(name);
  auto type = cast<rank::BufferType>(buffer.getType());
  strides.push_back(type.getStridesOrDense());
  return {.shape = viewOf(type.getShape()),
          .strides = viewOf(strides.back()),
          .type = kernelElementType(buffer),
          .elementBytes = type.getElementBytes()};
}

int64_t KernelCall::integer(std::string_view attribute, int64_t otherwise) const {
  auto value = rank::CallOp(op)->getAttrOfType<IntegerAttr>(StringRef(attribute));
  return value ? value.getInt() : otherwise;
}

double KernelCall::real(std::string_view attribute) const {
  auto value = rank::CallOp(op)->getAttrOfType<FloatAttr>(attribute);
  return value ? value.getValueAsDouble() : 0;
}

bool KernelCall::flag(std::string_view attribute) const { return rank::CallOp(op)->hasAttr(attribute); }

kernels::Numbers KernelCall::list(std::string_view attribute) const {
  auto value = rank::CallOp(op)->getAttrOfType<DenseI64ArrayAttr>(attribute);
  return value ? viewOf(value.asArrayRef()) : kernels::Numbers();
}

std::string_view KernelCall::text(std::string_view attribute) const {
  auto value = rank::CallOp(op)->getAttrOfType<StringAttr>(attribute);
  return value ? std::string_view(value.getValue().data(), value.getValue().size()) : std::string_view();
}

bool KernelCall::onGpu() const {
  auto module = rank::CallOp(op)->getParentOfType<ModuleOp>();
  return module && module->hasAttr(kTargetAttribute);
}

double hyc::operationsOf(Operation *op) {
  if (auto gemm = dyn_cast<rank::GemmOp>(op))
    return 2.0 * static_cast<double>(gemm.getM()) * static_cast<double>(gemm.getN()) *
           static_cast<double>(gemm.getK()) * static_cast<double>(gemm.getBatch());
  if (auto repeat = dyn_cast<rank::RepeatOp>(op)) {
    double once = 0;
    for (Operation &call : repeat.getBlock())
      once += operationsOf(&call);
    return once * static_cast<double>(repeat.getTimes());
  }
  auto library = dyn_cast<rank::CallOp>(op);
  if (!library)
    return 0;
  KernelCall call(library);
  return call.getKernel().operations ? call.getKernel().operations(call) : 0;
}

std::string hyc::callName(Operation *op) {
  if (auto call = dyn_cast<rank::CallOp>(op))
    return call.getKernel().str();
  if (auto start = dyn_cast<rank::StartOp>(op))
    return start.getKind().str();
  if (auto move = dyn_cast<rank::MoveOp>(op))
    return move.getKind().str();
  return op->getNumResults() == 0 ? op->getName().stripDialect().str() : std::string();
}
