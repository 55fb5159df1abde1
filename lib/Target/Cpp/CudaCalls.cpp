// Library calls of programs for GPUs, as far as they are told in another way than those for CPUs: a number that a step
// computes is in device memory, so a kernel gets its address where a CPU's gets the number.
#include "CallText.h"
#include "FunctionEmitter.h"

#include "dialects/Hyc/HycDialect.h"
#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::cpp;

LogicalResult FunctionEmitter::emitCudaCall(rank::CallOp op) {
  StringRef kernel = op.getKernel();
  auto is = [&](ArrayRef<StringRef> names) { return llvm::is_contained(names, kernel); };
  if (is({"layer_norm", "layer_norm_grad"}))
    emitLayerNorm(op);
  else if (is({"rms_norm", "rms_norm_grad"}))
    emitRmsNorm(op);
  else if (is({"rope", "rotary_table"}))
    emitRotation(op);
  else if (isIndexed(kernel))
    emitIndexed(op);
  else if (is({"attention", "attention_grad"}))
    emitAttention(op);
  else if (is({"embedding", "embedding_grad"}))
    emitEmbedding(op);
  else if (kernel == "cross_entropy")
    emitLoss(op);
  else if (is({"cross_entropy_grad", "vocab_max", "vocab_sum_exp", "vocab_loss"}))
    emitCudaLoss(op);
  else if (kernel == "strided_copy")
    emitStridedCopy(op);
  else if (is({"accumulate", "accumulate_max", "round", "fill", "constant", "poison"}))
    emitCudaMove(op);
  else if (is({"round_sum", "gradient_scale", "increment", "trust_ratio", "update_loss_scale", "update_fp8_scale"}))
    emitCudaUpdate(op);
  else if (is({"lion", "lamb", "lamb_direction", "sgd", "sgd_momentum"}))
    emitCudaOptimizer(op);
  else if (is({"shard_offset", "slice_shard"}))
    emitCoordinates(op);
  else
    return op.emitOpError("has no CUDA kernel: \"") << kernel << "\"; compile with --target cpu";
  return failure(hasFailed);
}

/// Which columns of the vocabulary this rank has.
void FunctionEmitter::emitCudaLoss(rank::CallOp op) {
  auto outs = op.getOuts(), ins = op.getIns();
  StringRef kernel = op.getKernel();
  bool isGradient = kernel == "cross_entropy_grad", combines = kernel == "vocab_loss";
  rank::BufferType type = typeOf(ins[isGradient ? 1 : 0]);
  int64_t columns = combines || type.getShape().empty() ? 0 : type.getShape().back();
  comment(op, (combines ? "" : "logits ") + shapeText(type));
  std::string desc = "{.tokens = " + str(columns ? type.getNumElements() / columns : type.getNumElements());
  Value first = kernel == "vocab_max"           ? ins[1]
                : kernel == "vocab_sum_exp"     ? ins[3]
                : isGradient && ins.size() == 5 ? ins[4]
                                                : Value();
  if (!first && columns)
    desc += ", .localVocab = " + str(columns);
  if (std::optional<int64_t> stride = type.getRowStride(); columns && stride && *stride != columns)
    desc += ", .ld = " + str(*stride);
  if (int64_t ignored = integer(op, "ignore_index", -100); ignored != -100)
    desc += ", .ignoreIndex = " + str(ignored);
  desc += "}";
  std::string shard =
      first ? "{" + pointer(first) + ", " + str(integer(op, "vocabulary", INT64_MAX / 2)) + ", " + str(columns) + "}"
            : "{}";
  auto p = [&](Value buffer) { return pointer(buffer); };
  if (isGradient)
    callLine("crossEntropyGrad", {desc, shard, p(ins[1]), p(ins[2]), p(ins[3]), p(ins[0]), p(outs[0])});
  else if (kernel == "vocab_max")
    callLine("crossEntropyRowMax", {desc, shard, p(ins[0]), p(outs[0])});
  else if (kernel == "vocab_sum_exp")
    callLine("crossEntropySumExp", {desc, shard, p(ins[0]), p(ins[2]), p(ins[1]), p(outs[0]), p(outs[1])});
  else
    callLine("crossEntropyCombine",
             {desc, p(ins[3]), p(ins[0]), p(ins[1]), p(ins[2]), p(outs[2]), p(outs[0]), p(outs[1])});
}

void FunctionEmitter::emitCudaMove(rank::CallOp op) {
  Value out = op.getOuts()[0];
  rank::BufferType type = typeOf(out);
  StringRef kernel = op.getKernel();
  std::string element = elementType(type.getElementType()).str();
  if (kernel == "accumulate_max") {
    comment(op);
    return callLine("accumulateMax", {pointer(out), pointer(op.getIns()[0]), mode(op.getMode())});
  }
  if (kernel == "accumulate" || kernel == "round") {
    Value from = op.getIns()[0];
    std::string elements = count({out, from});
    comment(op, elements == "1" ? "" : shapeText(type));
    if (kernel == "round")
      return callLine("roundElements", {pointer(out), pointer(from), elements});
    return callLine("accumulate", {pointer(out), pointer(from), elements, mode(op.getMode())});
  }
  if (kernel == "fill")
    return callLine("fill<" + element + ">", {pointer(out), str(type.getNumElements()),
                                              element + "(" + literal(op->getAttrOfType<TypedAttr>("value")) + ")"});
  if (kernel == "poison")
    return line("if (ctx.poisons()) cuda::poison(stream, " + bytes(out) + ", " + str(type.getBytes()) + ");");
  std::string list;
  size_t column = 0;
  for (mlir::Attribute value : op->getAttrOfType<DenseElementsAttr>("values").getValues<mlir::Attribute>()) {
    std::string text = literal(cast<TypedAttr>(value));
    text = (isNarrowFloat(type.getElementType()) ? element + "(" + text + ")" : text) + ", ";
    if ((column += text.size()) > 108) {
      list += "\n      ";
      column = text.size();
    }
    list += text;
  }
  comment(op, shapeText(type));
  line("{");
  line("  static constexpr " + element + " values[] = {" + list + "};");
  line("  cuda::upload(stream, " + pointer(out) + ", values, sizeof(values));");
  line("}");
}

void FunctionEmitter::emitCudaUpdate(rank::CallOp op) {
  auto outs = op.getOuts(), ins = op.getIns();
  StringRef kernel = op.getKernel();
  auto p = [&](Value buffer) { return pointer(buffer); };
  comment(op);
  if (kernel == "round_sum")
    return callLine("roundExactSum", {p(ins[0]), p(outs[0])});
  if (kernel == "increment")
    return callLine("increment", ins.empty() ? SmallVector<std::string>{p(outs[0])}
                                             : SmallVector<std::string>{p(outs[0]), p(ins[0])});
  if (kernel == "trust_ratio")
    return callLine("trustRatio", {"{.least = " + real(op, "least") + ", .most = " + real(op, "most") + "}", p(ins[0]),
                                   p(ins[1]), p(outs[0])});
  if (kernel == "update_loss_scale")
    return callLine(
        "updateLossScale",
        {"{.window = " + str(integer(op, "window")), ".hysteresis = " + str(integer(op, "hysteresis")),
         ".minScale = " + real(op, "min_scale"),
         std::string(".consecutiveHysteresis = ") + (op->hasAttr("consecutive_hysteresis") ? "true" : "false") + "}",
         p(outs[0]), p(outs[1]), p(outs[2]), p(ins[0])});
  if (kernel == "update_fp8_scale")
    return callLine("updateFp8Scale", {real(op, "largest"), str(typeOf(outs[2]).getNumElements()), p(ins[0]),
                                       p(outs[0]), p(outs[1]), p(outs[2])});
  SmallVector<std::string> arguments{
      p(ins[0]), p(ins[1]), op->hasAttr("max_norm") ? real(op, "max_norm") : "kNoClipping", p(outs[0]), p(outs[1])};
  if (ins.size() > 2)
    arguments.append({p(ins[2]), real(op, "normalizer")});
  callLine("gradientScale", arguments);
}

void FunctionEmitter::emitCudaOptimizer(rank::CallOp op) {
  auto outs = op.getOuts(), ins = op.getIns();
  StringRef kernel = op.getKernel();
  auto p = [&](Value buffer) { return pointer(buffer); };
  SmallVector<Value> elementwise = llvm::to_vector(outs);
  elementwise.push_back(ins[0]); // the gradient, or the parameter where that is only read
  std::string elements = count(elementwise);
  // The inputs that are always there; then this step's decay of the first moment, where it cycles, and the predicate.
  bool cycles = op->hasAttr("cycles");
  size_t required = 3, at = required + cycles;
  std::string predicate = ins.size() > at ? p(ins[at]) : "nullptr";
  std::string beta1 = cycles ? p(ins[required]) : "nullptr";
  std::string moments = ".beta1 = " + (cycles ? "0" : real(op, "beta1")) + ", .beta2 = " + real(op, "beta2");
  std::string decay = ".weightDecay = " + real(op, "weight_decay");
  std::string correction = op->hasAttr("uncorrected") ? ", .correctsBias = false" : "";
  comment(op, shapeText(typeOf(outs[0])));
  if (kernel == "lion")
    return callLine("lion", {"{" + moments + ", " + decay + "}",
                             "{" + p(ins[1]) + ", " + p(ins[2]) + ", " + beta1 + ", " + predicate + "}", elements,
                             p(outs[0]), p(ins[0]), p(outs[1])});
  if (kernel == "lamb_direction")
    return callLine("lambDirection",
                    {"{" + moments + ", .epsilon = " + real(op, "epsilon") + ", " + decay + correction + "}",
                     "{" + p(ins[1]) + ", " + p(ins[2]) + ", " + beta1 + ", " + predicate + "}", elements, p(ins[0]),
                     p(outs[0]), p(outs[1]), p(outs[2])});
  if (kernel == "lamb")
    return callLine("lambUpdate", {p(ins[1]), p(ins[2]), predicate, elements, p(outs[0]), p(ins[0])});
  bool hasVelocity = kernel == "sgd_momentum";
  // Velocity begins at zero, so that no step is the first one.
  callLine("sgd",
           {"{" + (hasVelocity ? ".momentum = " + real(op, "momentum") + ", " : std::string()) + decay + ", .step = 2}",
            p(ins[1]), p(ins[2]), predicate, elements, p(outs[0]), p(ins[0]), hasVelocity ? p(outs[1]) : "nullptr"});
}

/// All of an update but its tensors: "{.beta1 = …}, {lr, step, scale, beta1, predicate}".
std::string FunctionEmitter::adamWCall(rank::CallOp op) {
  auto ins = op.getIns();
  bool cycles = op->hasAttr("cycles");
  size_t required = 4, predicate = required + cycles;
  return "{.beta1 = " + (cycles ? "0" : real(op, "beta1")) + ", .beta2 = " + real(op, "beta2") +
         ", .epsilon = " + real(op, "epsilon") + ", .weightDecay = " + real(op, "weight_decay") +
         (op.getKernel() == "adam" ? ", .decay = DecayKind::kAddedToGradient" : "") +
         (op->hasAttr("uncorrected") ? ", .correctsBias = false" : "") + "}, {" + pointer(ins[1]) + ", " +
         pointer(ins[2]) + ", " + pointer(ins[3]) + ", " + (cycles ? pointer(ins[required]) : "nullptr") + ", " +
         (ins.size() > predicate ? pointer(ins[predicate]) : "nullptr") + "}";
}

size_t FunctionEmitter::emitCudaRun(ArrayRef<Operation *> calls) {
  size_t updates = emitCudaAdamW(calls);
  return updates ? updates : emitCudaSumOfSquares(calls);
}

size_t FunctionEmitter::emitCudaSumOfSquares(ArrayRef<Operation *> calls) {
  auto sumAt = [&](size_t i) -> rank::CallOp {
    auto call = i < calls.size() ? dyn_cast<rank::CallOp>(calls[i]) : rank::CallOp();
    return call && call.getKernel() == "sum_of_squares" ? call : rank::CallOp();
  };
  rank::CallOp first = sumAt(0);
  if (!first)
    return 0;
  std::string sum = pointer(first.getOuts()[0]), rows;
  mlir::Type element = typeOf(first.getIns()[0]).getElementType();
  size_t tensors = 0;
  for (rank::CallOp op = first; op; op = sumAt(tensors)) {
    Value in = op.getIns()[0];
    bool isSameSum = pointer(op.getOuts()[0]) == sum && typeOf(in).getElementType() == element;
    if (tensors > 0 && (!isSameSum || op.getMode() != rank::WriteMode::add))
      break;
    if (auto id = op->getAttrOfType<StringAttr>("id"))
      rows += "      // " + oneLine(id.getValue()) + ": " + shapeText(typeOf(in)) + "\n";
    rows += "      {" + pointer(in) + ", " + count({in}) + "},\n";
    ++tensors;
  }
  line("{");
  body << "    const cuda::SquaredTensor<" << elementType(element) << "> tensors[] = {\n" << rows << "    };\n";
  callLine("  cuda::sumOfSquares", {"stream", "tensors", str(tensors), sum, mode(first.getMode())});
  line("}");
  return tensors;
}

size_t FunctionEmitter::emitCudaAdamW(ArrayRef<Operation *> calls) {
  auto updateAt = [&](size_t i) -> rank::CallOp {
    auto call = i < calls.size() ? dyn_cast<rank::CallOp>(calls[i]) : rank::CallOp();
    return call && (call.getKernel() == "adamw" || call.getKernel() == "adam") ? call : rank::CallOp();
  };
  rank::CallOp first = updateAt(0);
  if (!first)
    return 0;
  std::string common = adamWCall(first), rows;
  mlir::Type gradient = typeOf(first.getIns()[0]).getElementType(), rounded;
  size_t i = 0, tensors = 0;
  for (rank::CallOp op = first; op; op = updateAt(i), ++tensors) {
    if (adamWCall(op) != common || typeOf(op.getIns()[0]).getElementType() != gradient)
      break;
    auto outs = op.getOuts();
    std::string elements = count({outs[0], outs[1], outs[2], op.getIns()[0]}), copy = "nullptr";
    auto next = i + 1 < calls.size() ? dyn_cast<rank::CallOp>(calls[i + 1]) : rank::CallOp();
    if (next && next.getKernel() == "round" && pointer(next.getIns()[0]) == pointer(outs[0]) &&
        count({next.getOuts()[0], next.getIns()[0]}) == elements) {
      mlir::Type type = typeOf(next.getOuts()[0]).getElementType();
      if (isHalfWidth(type) && (!rounded || rounded == type)) {
        rounded = type;
        copy = pointer(next.getOuts()[0]);
      }
    }
    i += copy == "nullptr" ? 1 : 2;
    if (auto id = op->getAttrOfType<StringAttr>("id"))
      rows += "      // " + oneLine(id.getValue()) + ": " + shapeText(typeOf(outs[0])) + "\n";
    rows += "      {" + elements + ", " + pointer(outs[0]) + ", " + pointer(op.getIns()[0]) + ", " + pointer(outs[1]) +
            ", " + pointer(outs[2]) + ", " + copy + "},\n";
  }
  std::string type =
      "cuda::AdamWTensor<" + elementType(gradient).str() + ", " + elementType(rounded ? rounded : gradient).str() + ">";
  line("{");
  body << "    const " << type << " tensors[] = {\n" << rows << "    };\n";
  callLine("  cuda::adamw", {"stream", common, "tensors", str(tensors)});
  line("}");
  return i;
}
