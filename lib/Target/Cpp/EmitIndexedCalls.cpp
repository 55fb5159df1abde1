// Calls of kernels over sliding windows and by number.
#include "CallText.h"
#include "FunctionEmitter.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::cpp;

static ArrayRef<int64_t> shapeOf(Value buffer) { return cast<rank::BufferType>(buffer.getType()).getShape(); }

static std::string product(ArrayRef<int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  return std::to_string(count);
}

/// Up to three numbers as the last of three.
static std::string three(ArrayRef<int64_t> values, int64_t otherwise) {
  SmallVector<int64_t> all(3 - values.size(), otherwise);
  llvm::append_range(all, values);
  return braced(all);
}

/// ".size = …, .positions = …, .stride = …" of windows over `x` at the positions of `y`.
static SmallVector<std::string> windows(Operation *op, ArrayRef<int64_t> x, ArrayRef<int64_t> y) {
  auto list = [&](StringRef name) { return op->getAttrOfType<DenseI64ArrayAttr>(name).asArrayRef(); };
  return {".size = " + three(x.drop_front(2), 1), ".positions = " + three(y.drop_front(2), 1),
          ".stride = " + three(list("strides"), 1), ".dilation = " + three(list("dilations"), 1),
          ".low = " + three(list("low"), 0) + "}"};
}

bool FunctionEmitter::isIndexed(StringRef kernel) {
  return kernel.starts_with("convolution") || kernel == "max_pool" || kernel == "gather" || kernel == "scatter" ||
         kernel == "cumsum" || kernel == "argsort";
}

void FunctionEmitter::emitIndexed(rank::CallOp op) {
  StringRef kernel = op.getKernel();
  if (kernel.starts_with("convolution"))
    return emitConvolution(op);
  if (kernel == "max_pool")
    return emitMaxPool(op);
  if (kernel == "gather" || kernel == "scatter")
    return emitGather(op);
  Value x = op.getIns()[0], y = op.getOuts()[0];
  ArrayRef<int64_t> shape = shapeOf(x);
  comment(op, shapeText(cast<rank::BufferType>(x.getType())));
  if (kernel == "argsort") {
    std::string desc = "{.rows = " + product(shape.drop_back()) + ", .size = " + std::to_string(shape.back());
    callLine("argSort", {desc + (op->hasAttr("descending") ? ", .descending = true}" : "}"), pointer(x), pointer(y),
                         pointer(op.getOuts()[1])});
    return;
  }
  int64_t dim = integer(op, "dim");
  std::string desc = "{.outer = " + product(shape.take_front(dim)) + ", .size = " + std::to_string(shape[dim]) +
                     ", .inner = " + product(shape.drop_front(dim + 1));
  desc += op->hasAttr("reverse") ? ", .reverse = true" : "";
  desc += op->hasAttr("exclusive") ? ", .exclusive = true" : "";
  callLine("cumSum", {desc + "}", pointer(x), pointer(y)});
}

/// x, w and y are operands and results in an order that differs from op to op.
void FunctionEmitter::emitConvolution(rank::CallOp op) {
  Value result = op.getOuts()[0], lhs = op.getIns()[0], rhs = op.getIns()[1];
  bool givesX = op.getKernel() == "convolution_transpose", givesW = op.getKernel() == "convolution_weight";
  ArrayRef<int64_t> x = shapeOf(givesX ? result : lhs), w = shapeOf(givesW ? result : rhs);
  ArrayRef<int64_t> y = shapeOf(givesX ? lhs : givesW ? rhs : result);
  comment(op, "x " + shapeText(cast<rank::BufferType>((givesX ? result : lhs).getType())) + ", weights " +
                  shapeText(cast<rank::BufferType>((givesW ? result : rhs).getType())));
  SmallVector<std::string> arguments{"{.batch = " + std::to_string(x[0]) + ", .channels = " + std::to_string(x[1]) +
                                     ", .outputs = " + std::to_string(w[0]) +
                                     ", .groups = " + std::to_string(integer(op, "groups"))};
  SmallVector<std::string> slides = windows(op, x, y);
  slides.insert(std::next(slides.begin()), ".kernel = " + three(w.drop_front(2), 1));
  llvm::append_range(arguments, slides);
  for (Value buffer : {lhs, rhs, result, op.getOuts()[1]})
    arguments.push_back(pointer(buffer));
  if (givesW)
    arguments.push_back(mode(op.getMode()));
  addWorkspace(op, arguments);
  callLine(givesX ? "convolutionTranspose" : givesW ? "convolutionWeight" : "convolution", arguments);
}

void FunctionEmitter::emitMaxPool(rank::CallOp op) {
  Value x = op.getIns()[0], y = op.getOuts()[0];
  comment(op, shapeText(cast<rank::BufferType>(x.getType())));
  SmallVector<std::string> arguments{"{.planes = " + product(shapeOf(x).take_front(2))};
  SmallVector<std::string> slides = windows(op, shapeOf(x), shapeOf(y));
  slides.insert(std::next(slides.begin()),
                ".window = " + three(op->getAttrOfType<DenseI64ArrayAttr>("window").asArrayRef(), 1));
  llvm::append_range(arguments, slides);
  for (Value buffer : {x, y, op.getOuts()[1]})
    arguments.push_back(pointer(buffer));
  callLine("maxPool", arguments);
}

void FunctionEmitter::emitGather(rank::CallOp op) {
  bool scatters = op.getKernel() == "scatter";
  Value data = scatters ? op.getOuts()[0] : op.getIns()[0], rows = scatters ? op.getIns()[1] : op.getOuts()[0];
  Value indices = op.getIns()[scatters ? 0 : 1];
  int64_t dim = integer(op, "dim"), batch = integer(op, "batch");
  ArrayRef<int64_t> shape = shapeOf(data);
  comment(op, shapeText(cast<rank::BufferType>(data.getType())) + " by " +
                  shapeText(cast<rank::BufferType>(indices.getType())));
  std::string desc =
      "{.batch = " + product(shape.take_front(batch)) + ", .lead = " + product(shape.slice(batch, dim - batch)) +
      ", .size = " + std::to_string(shape[dim]) + ", .picked = " + product(shapeOf(indices).drop_front(batch)) +
      ", .inner = " + product(shape.drop_front(dim + 1)) + "}";
  if (!scatters) {
    std::string bytes = std::to_string(cast<rank::BufferType>(data.getType()).getElementBytes());
    return callLine("gather", {desc, bytes, pointer(data), pointer(indices), pointer(rows)});
  }
  std::string kind = op->getAttrOfType<StringAttr>("kind").getValue().str();
  kind[0] = llvm::toUpper(kind[0]);
  callLine("scatter", {desc, "ScatterKind::k" + kind, pointer(indices), pointer(rows), pointer(data)});
}
