// Calls of normalizations and rotary positions.
#include "CallText.h"
#include "FunctionEmitter.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::cpp;

/// "{.rows = 32, .cols = 64", to be closed.
static std::string rowsText(rank::BufferType x) {
  int64_t cols = x.getShape().back();
  return "{.rows = " + str(cols ? x.getNumElements() / cols : 0) + ", .cols = " + str(cols);
}

void FunctionEmitter::emitLayerNorm(rank::CallOp op) {
  auto outs = op.getOuts(), ins = op.getIns();
  rank::BufferType x = typeOf(ins[0]);
  comment(op, shapeText(x));
  std::string desc = rowsText(x);
  if (op.getKernel() == "layer_norm") {
    callLine("layerNormForward", {desc + ", .epsilon = " + real(op, "epsilon") + "}", pointer(ins[0]), pointer(ins[1]),
                                  pointer(ins[2]), pointer(outs[0]), pointer(outs[1]), pointer(outs[2])});
    return;
  }
  callLine("layerNormBackward",
           {desc + "}", pointer(ins[0]), pointer(ins[1]), pointer(ins[2]), pointer(ins[3]), pointer(ins[4]),
            pointer(outs[0]), pointer(outs[1]), pointer(outs[2]), mode(op.getMode()), pointer(outs[3])});
}

void FunctionEmitter::emitRmsNorm(rank::CallOp op) {
  auto outs = op.getOuts(), ins = op.getIns();
  rank::BufferType x = typeOf(ins[0]);
  comment(op, shapeText(x));
  if (op.getKernel() == "rms_norm")
    callLine("rmsNormForward", {rowsText(x) + ", .epsilon = " + real(op, "epsilon") + "}", pointer(ins[0]),
                                pointer(ins[1]), pointer(outs[0]), pointer(outs[1])});
  else
    callLine("rmsNormBackward", {rowsText(x) + "}", pointer(ins[0]), pointer(ins[1]), pointer(ins[2]), pointer(ins[3]),
                                 pointer(outs[0]), pointer(outs[1]), mode(op.getMode()), pointer(outs[2])});
}

void FunctionEmitter::emitRotation(rank::CallOp op) {
  auto outs = op.getOuts(), ins = op.getIns();
  if (op.getKernel() == "rope") {
    ArrayRef<int64_t> x = typeOf(ins[0]).getShape(), table = typeOf(ins[1]).getShape();
    comment(op, shapeText(typeOf(ins[0])));
    std::string desc = "{.batch = " + str(x[0]) + ", .length = " + str(x[1]) + ", .heads = " + str(x[2]) +
                       ", .headDim = " + str(x[3]) + ", .pairs = " + str(table.back());
    if (table.size() == 3)
      desc += ", .tablePerSample = true";
    if (op->hasAttr("inverse"))
      desc += ", .inverse = true";
    callLine("rope", {desc + "}", pointer(ins[0]), pointer(ins[1]), pointer(ins[2]), pointer(outs[0])});
    return;
  }
  ArrayRef<int64_t> table = typeOf(outs[0]).getShape();
  comment(op, shapeText(typeOf(outs[0])));
  std::string list;
  llvm::raw_string_ostream stream(list);
  llvm::interleaveComma(op->getAttrOfType<DenseElementsAttr>("frequencies").getValues<float>(), stream,
                        [&](float frequency) { stream << number(frequency); });
  line("{");
  line("  static constexpr float frequencies[] = {" + list + "};");
  callLine("  rotaryTable", {"{.positions = " + str(table[0]) + ", .pairs = " + str(table[1]) +
                                 ", .factor = " + real(op, "factor") + "}",
                             "frequencies", pointer(outs[0]), pointer(outs[1])});
  line("}");
}
