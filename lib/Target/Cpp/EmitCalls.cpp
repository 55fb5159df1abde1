// One statement a call: matrix products, kernels, collectives, and the library kernels by name.
#include "CallText.h"
#include "FunctionEmitter.h"
#include "dialects/Dist/ExchangeKinds.h"
#include "hyc/Analysis/Workspaces.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::cpp;

/// Rows of a tensor whose last dimension a kernel works along.
static int64_t rowsOf(rank::BufferType type) {
  int64_t cols = type.getShape().empty() ? 1 : type.getShape().back();
  return cols ? type.getNumElements() / cols : 0;
}

//===----------------------------------------------------------------------===//
// gemm, launch, start
//===----------------------------------------------------------------------===//

void FunctionEmitter::addWorkspace(Operation *op, SmallVectorImpl<std::string> &arguments) {
  auto threads = op->getParentOfType<rank::ProgramOp>()->getAttrOfType<IntegerAttr>("threads");
  if (threads && workspaceBytes(op, threads.getInt()) > 0)
    arguments.push_back(arenaBase("workspace", /*perSlot=*/false));
}

void FunctionEmitter::emitGemm(rank::GemmOp op) {
  std::string sizes = "(" + str(op.getM()) + ", " + str(op.getK()) + ") x (" + str(op.getK()) + ", " + str(op.getN()) +
                      ") -> (" + str(op.getM()) + ", " + str(op.getN()) + ")";
  if (op.getBatch() != 1)
    sizes = str(op.getBatch()) + " times " + sizes;
  comment(op, sizes);
  std::string desc = "{.m = " + str(op.getM()) + ", .n = " + str(op.getN()) + ", .k = " + str(op.getK());
  auto leading = [&](StringRef name, uint64_t value, uint64_t dense) {
    if (value != dense)
      desc += (", ." + name + " = ").str() + str(value);
  };
  leading("lda", op.getLda(), op.getTransA() ? op.getM() : op.getK());
  leading("ldb", op.getLdb(), op.getTransB() ? op.getK() : op.getN());
  leading("ldc", op.getLdc(), op.getN());
  if (op.getTransA())
    desc += ", .transA = true";
  if (op.getTransB())
    desc += ", .transB = true";
  if (op.getBatch() != 1)
    desc += ", .batch = " + str(op.getBatch()) + ", .strideA = " + str(op.getStrideA()) +
            ", .strideB = " + str(op.getStrideB()) + ", .strideC = " + str(op.getStrideC());
  if (op.getMode() == rank::WriteMode::add)
    desc += ", .beta = 1";
  if (op.getMode() == rank::WriteMode::first) {
    usesBeta = true;
    desc += ", .beta = beta";
  }
  if (op.getBias())
    desc += ", .hasBias = true";
  SmallVector<std::string> arguments{desc + "}", pointer(op.getA()), pointer(op.getB()),
                                     op.getBias() ? pointer(op.getBias()) : "nullptr", pointer(op.getC())};
  addWorkspace(op, arguments);
  callLine("gemm", arguments);
}

void FunctionEmitter::emitLaunch(rank::LaunchOp op) {
  comment(op);
  SmallVector<std::string> arguments;
  for (Value in : op.getIns())
    arguments.push_back(pointer(in));
  for (Value out : op.getOuts())
    arguments.push_back(pointer(out));
  rank::KernelOp kernel = rank::lookupKernel(op);
  if (!kernel.getReduced().empty())
    arguments.push_back(mode(op.getMode()));
  if (onGpu && cudaKernelWorkspaceBytes(kernel) > 0) {
    size_t given = arguments.size();
    addWorkspace(op, arguments);
    if (arguments.size() == given)
      arguments.push_back("nullptr"); // none is planned: kernels do without
  }
  callLine("kernels::" + identifier(op.getKernel()), arguments);
}

void FunctionEmitter::emitStart(rank::StartOp op) {
  comment(op);
  std::string ticket = "ticket" + str(tickets.size());
  tickets[op.getTicket()] = ticket;
  if (op.getFlat())
    return emitFlatStart(op, ticket);
  rank::BufferType type = typeOf(op.getSource());
  SmallVector<std::string> arguments{"ctx", row(op.getRow()), bufferRef(op.getSource())};
  if (op.getDestination())
    arguments.push_back(bufferRef(op.getDestination()));
  arguments.push_back(type.isShard() ? count({op.getSource()}) : str(op.getCount()));
  arguments.push_back(dtype(type.getElementType()));
  if (op.getDistance())
    arguments.insert(std::prev(arguments.end()), str(*op.getDistance()));
  if (op.getCombine() == "max")
    arguments.push_back("hycrt::ReduceOp::kMax");
  callLine("const hycrt::Ticket " + ticket + " = " + exchangeStart(op.getExchange()), arguments);
}

/// A bucket: one row a tensor, with the shard where it is no slice of the whole.
void FunctionEmitter::emitFlatStart(rank::StartOp op, StringRef ticket) {
  bool gathers = dist::factsOf(op.getExchange()).givesParts;
  std::string parts = ("parts" + ticket.drop_front(StringRef("ticket").size())).str();
  line("const hycrt::FlatPart " + parts + "[] = {");
  for (auto [index, source] : llvm::enumerate(op.getSources())) {
    Value whole = gathers ? op.getDestinations()[index] : source;
    int64_t elements = typeOf(whole).getNumElements();
    int64_t shardElements = dist::flatShardSize(elements, mesh.getSize(*op.getFlat()));
    bool isApart = gathers && !typeOf(source).isShard();
    line("    {" + bufferRef(whole) + ", " + str(elements) + ", " + str(shardElements) +
         (isApart ? ", " + bufferRef(source) : "") + "},");
  }
  line("};");
  callLine(
      ("const hycrt::Ticket " + ticket + " = hycrt::" + (gathers ? "flatAllGatherStart" : "flatReduceScatterStart"))
          .str(),
      {"ctx", row(op.getRow()), parts, str(static_cast<int64_t>(op.getSources().size())),
       dtype(typeOf(op.getSource()).getElementType())});
}

/// A file is reached by whole blocks; both sides have room for them. How many elements a shard has is known at run time
/// only; a fetched copy of one is filled up with zeros.
void FunctionEmitter::emitMove(rank::MoveOp op) {
  comment(op);
  Value source = op.getSource(), destination = op.getDestination();
  SmallVector<std::string> arguments{"ctx", bufferRef(source), bufferRef(destination)};
  rank::BufferType type = typeOf(source), target = typeOf(destination);
  if (type.isShard() || target.isShard()) {
    std::string elements = count({source, destination}), width = " * " + str(type.getElementBytes());
    arguments.push_back(elements + width);
    if (type.isShard())
      arguments.push_back("(" + str(type.getNumElements()) + " - " + elements + ")" + width);
  } else {
    bool inBlocks = rank::isInFile(source) || rank::isInFile(destination);
    arguments.push_back(str(inBlocks ? rank::wholeBlocks(type.getBytes()) : type.getBytes()));
  }
  callLine((moves[op.getTicket()] + " = hycrt::" + op.getKind() + "Start").str(), arguments);
}

//===----------------------------------------------------------------------===//
// Library kernels
//===----------------------------------------------------------------------===//

static bool isOptimizer(StringRef kernel) {
  return kernel == "adamw" || kernel == "adam" || kernel == "lion" || kernel.starts_with("lamb") ||
         kernel.starts_with("sgd");
}

LogicalResult FunctionEmitter::emitCall(rank::CallOp op) {
  StringRef kernel = op.getKernel();
  if (kernel.starts_with("layer_norm"))
    return emitLayerNorm(op), success();
  if (kernel.starts_with("rms_norm"))
    return emitRmsNorm(op), success();
  if (kernel == "rope" || kernel == "rotary_table")
    return emitRotation(op), success();
  if (kernel.starts_with("attention"))
    return emitAttention(op), success();
  if (kernel.starts_with("embedding"))
    return emitEmbedding(op), success();
  if (kernel.starts_with("cross_entropy") || kernel.starts_with("vocab_"))
    return emitLoss(op), success();
  if (kernel == "strided_copy" || kernel.starts_with("accumulate") || kernel == "round" || kernel == "fill" ||
      kernel == "constant" || kernel == "poison")
    return emitMoves(op), success();
  if (kernel == "sum_of_squares" || kernel == "round_sum" || kernel == "gradient_scale" || kernel == "increment" ||
      kernel == "trust_ratio" || kernel == "update_loss_scale" || kernel == "update_fp8_scale" || isOptimizer(kernel))
    return emitUpdates(op), success();
  if (isIndexed(kernel))
    return emitIndexed(op), success();
  if (kernel == "shard_offset" || kernel == "slice_shard")
    return emitCoordinates(op), success();
  return op.emitOpError("has no spelling in C++: \"") << kernel << "\"";
}

/// {batch, token, head}: where element (b, s, h, d) lies.
static std::string headStrides(Value buffer) {
  SmallVector<int64_t> strides = typeOf(buffer).getStridesOrDense();
  return braced(ArrayRef(strides).take_front(3));
}

/// ".dropout = {…}": the rate, the keys and how far those of two samples are apart, the place of the heads.
std::string FunctionEmitter::dropoutText(rank::CallOp op, OperandRange random) {
  std::string text = ".dropout = {.rate = " + real(op, "dropout") + ", .keys = " + pointer(random[0]) +
                     ", .keyStride = " + str(typeOf(random[0]).getStridesOrDense()[0]);
  if (random.size() > 1 && !onGpu)
    text += ", .place = *" + pointer(random[1]);
  return text + "}";
}

void FunctionEmitter::emitAttention(rank::CallOp op) {
  auto outs = op.getOuts(), ins = op.getIns();
  ArrayRef<int64_t> q = typeOf(ins[0]).getShape(), k = typeOf(ins[1]).getShape();
  bool isGradient = op.getKernel() == "attention_grad";
  comment(op, "q " + shapeText(typeOf(ins[0])) + ", k and v " + shapeText(typeOf(ins[1])));
  std::string desc = "{.batch = " + str(q[0]) + ", .queryLength = " + str(q[1]) + ", .keyLength = " + str(k[1]) +
                     ", .heads = " + str(q[2]) + ", .kvHeads = " + str(k[2]) + ", .headDim = " + str(q[3]) +
                     ", .causal = " + (op->hasAttr("causal") ? "true" : "false") + ", .scale = " + real(op, "scale");
  auto strides = [&](StringRef name, Value buffer) { return (" ." + name + " = ").str() + headStrides(buffer); };
  // One argument of several pieces, so that lines can be broken between them.
  SmallVector<std::string> arguments{desc, strides("q", ins[0]).substr(1), strides("k", ins[1]).substr(1),
                                     strides("v", ins[2]).substr(1)};
  unsigned random = isGradient ? 6 : 3;
  if (ins.size() > random)
    arguments.insert(std::next(arguments.begin()), dropoutText(op, ins.drop_front(random)));
  // Where a shard's heads begin is a number in device memory.
  std::string place = ins.size() > random + 1 ? pointer(ins[random + 1]) : "nullptr";
  if (!isGradient) {
    arguments.push_back(strides("o", outs[0]).substr(1) + "}");
    if (onGpu)
      arguments.push_back(place);
    for (Value buffer : {ins[0], ins[1], ins[2], outs[0], outs[1]})
      arguments.push_back(pointer(buffer));
    callLine("attentionForward", arguments);
    return;
  }
  arguments.push_back(strides("o", ins[3]).substr(1));
  arguments.push_back(strides("dq", outs[0]).substr(1));
  arguments.push_back(strides("dk", outs[1]).substr(1));
  arguments.push_back(strides("dv", outs[2]).substr(1));
  arguments.push_back(strides("dO", ins[5]).substr(1) + "}");
  if (onGpu)
    arguments.push_back(place);
  for (Value buffer : {ins[0], ins[1], ins[2], ins[3], ins[4], ins[5], outs[0], outs[1], outs[2]})
    arguments.push_back(pointer(buffer));
  addWorkspace(op, arguments);
  callLine("attentionBackward", arguments);
}

void FunctionEmitter::emitEmbedding(rank::CallOp op) {
  auto outs = op.getOuts(), ins = op.getIns();
  bool isGradient = op.getKernel() == "embedding_grad";
  rank::BufferType table = typeOf(isGradient ? outs[0] : ins[1]);
  comment(op, "table " + shapeText(table));
  std::string desc = "{.tokens = " + str(typeOf(ins[0]).getNumElements()) + ", .rows = " + str(table.getShape()[0]) +
                     ", .width = " + str(table.getShape()[1]);
  if (ins.size() == 3 && !onGpu)
    desc += ", .start = *" + pointer(ins[2]);
  SmallVector<std::string> arguments{desc + "}", pointer(ins[0]), pointer(ins[1]), pointer(outs[0])};
  if (onGpu)
    arguments.insert(std::next(arguments.begin()), ins.size() == 3 ? pointer(ins[2]) : "nullptr");
  if (isGradient)
    arguments.push_back(mode(op.getMode()));
  addWorkspace(op, arguments);
  callLine(isGradient ? "embeddingGrad" : "embedding", arguments);
}

void FunctionEmitter::emitLoss(rank::CallOp op) {
  auto outs = op.getOuts(), ins = op.getIns();
  StringRef kernel = op.getKernel();
  bool combines = kernel == "vocab_loss";
  Value logits = kernel == "cross_entropy_grad" ? ins[1] : ins[0];
  rank::BufferType type = typeOf(logits);
  int64_t columns = combines || type.getShape().empty() ? 0 : type.getShape().back();
  comment(op, (combines ? "" : "logits ") + shapeText(type));
  std::string desc = "{.tokens = " + str(combines ? type.getNumElements() : rowsOf(type));
  Value first = kernel == "vocab_max"                               ? ins[1]
                : kernel == "vocab_sum_exp"                         ? ins[3]
                : kernel == "cross_entropy_grad" && ins.size() == 5 ? ins[4]
                                                                    : Value();
  if (first) {
    // Columns beyond the vocabulary are padding.
    desc += ", .localVocab = std::clamp<int64_t>(" + str(integer(op, "vocabulary", INT64_MAX / 2)) + " - *" +
            pointer(first) + ", 0, " + str(columns) + "), .ld = " + str(type.getRowStride().value_or(columns)) +
            ", .vocabStart = *" + pointer(first);
  } else if (!combines) {
    desc += ", .localVocab = " + str(columns);
    if (std::optional<int64_t> stride = type.getRowStride(); stride && *stride != columns)
      desc += ", .ld = " + str(*stride);
  }
  if (int64_t ignored = integer(op, "ignore_index", -100); ignored != -100)
    desc += ", .ignoreIndex = " + str(ignored);
  desc += "}";
  auto p = [&](Value buffer) { return pointer(buffer); };
  if (kernel == "cross_entropy")
    callLine("crossEntropyForward", {desc, p(ins[0]), p(ins[1]), p(outs[2]), p(outs[3]), p(outs[0]), p(outs[1])});
  else if (kernel == "cross_entropy_grad")
    callLine("crossEntropyGrad", {desc, p(ins[1]), p(ins[2]), p(ins[3]), "*" + p(ins[0]), p(outs[0])});
  else if (kernel == "vocab_max")
    callLine("crossEntropyRowMax", {desc, p(ins[0]), p(outs[0])});
  else if (kernel == "vocab_sum_exp")
    callLine("crossEntropySumExp", {desc, p(ins[0]), p(ins[2]), p(ins[1]), p(outs[0]), p(outs[1])});
  else
    callLine("crossEntropyCombine",
             {desc, p(ins[3]), p(ins[0]), p(ins[1]), p(ins[2]), p(outs[2]), p(outs[0]), p(outs[1])});
}

//===----------------------------------------------------------------------===//
// Updates and coordinates
//===----------------------------------------------------------------------===//

void FunctionEmitter::emitUpdates(rank::CallOp op) {
  auto outs = op.getOuts(), ins = op.getIns();
  StringRef kernel = op.getKernel();
  auto p = [&](Value buffer) { return pointer(buffer); };
  SmallVector<Value> elementwise = llvm::to_vector(outs);
  if (!ins.empty())
    elementwise.push_back(ins[0]); // the gradient, or the parameter where that is only read
  if (kernel == "sum_of_squares")
    return callLine("sumOfSquares", {p(ins[0]), count({ins[0]}), p(outs[0]), mode(op.getMode())});
  if (kernel == "round_sum")
    return line("*" + p(outs[0]) + " = roundExactSum(" + p(ins[0]) + ");");
  comment(op, isOptimizer(kernel) ? shapeText(typeOf(outs[0])) : "");
  if (kernel == "increment")
    return line(ins.empty() ? "++*" + p(outs[0]) + ";" : "*" + p(outs[0]) + " += *" + p(ins[0]) + ";");
  if (kernel == "gradient_scale") {
    SmallVector<std::string> arguments{"*" + p(ins[0]), "*" + p(ins[1]),
                                       op->hasAttr("max_norm") ? real(op, "max_norm") : "kNoClipping", p(outs[0]),
                                       p(outs[1])};
    if (ins.size() > 2)
      arguments.push_back("*" + p(ins[2]) + " / " + real(op, "normalizer"));
    return callLine("gradientScale", arguments);
  }
  if (kernel == "trust_ratio")
    return callLine(
        "*" + p(outs[0]) + " = trustRatio",
        {"{.least = " + real(op, "least") + ", .most = " + real(op, "most") + "}", "*" + p(ins[0]), "*" + p(ins[1])});
  if (kernel == "update_loss_scale")
    return emitLossScale(op);
  if (kernel == "update_fp8_scale")
    return callLine("updateFp8Scale", {real(op, "largest"), str(typeOf(outs[2]).getNumElements()), "*" + p(ins[0]),
                                       p(outs[0]), p(outs[1]), p(outs[2])});
  emitOptimizer(op, count(elementwise));
}

void FunctionEmitter::emitOptimizer(rank::CallOp op, const std::string &elements) {
  auto outs = op.getOuts(), ins = op.getIns();
  StringRef kernel = op.getKernel();
  auto p = [&](Value buffer) { return pointer(buffer); };
  // The inputs that are always there; then this step's decay of the first moment, where it cycles, and the predicate.
  bool cycles = op->hasAttr("cycles");
  size_t required = kernel.starts_with("adam") ? 4 : 3, predicate = required + cycles;
  std::string condition = ins.size() > predicate ? "if (*" + p(ins[predicate]) + ") " : "";
  std::string correction = op->hasAttr("uncorrected") ? ", .correctsBias = false" : "";
  auto beta1 = [&] { return ".beta1 = " + (cycles ? "*" + p(ins[required]) : real(op, "beta1")); };
  auto moments = [&] {
    return beta1() + ", .beta2 = " + real(op, "beta2") + ", .epsilon = " + real(op, "epsilon") +
           ", .weightDecay = " + real(op, "weight_decay");
  };
  if (kernel == "adamw" || kernel == "adam")
    return callLine(condition + "adamw",
                    {"{.lr = *" + p(ins[1]) + ", " + moments(),
                     ".step = *" + p(ins[2]) + ", .gradScale = *" + p(ins[3]) +
                         (kernel == "adam" ? ", .decay = DecayKind::kAddedToGradient" : "") + correction + "}",
                     elements, p(outs[0]), p(ins[0]), p(outs[1]), p(outs[2])});
  if (kernel == "lion")
    return callLine(condition + "lion",
                    {"{.lr = *" + p(ins[1]) + ", " + beta1() + ", .beta2 = " + real(op, "beta2") +
                         ", .weightDecay = " + real(op, "weight_decay") + ", .gradScale = *" + p(ins[2]) + "}",
                     elements, p(outs[0]), p(ins[0]), p(outs[1])});
  if (kernel == "lamb_direction")
    return callLine(condition + "lambDirection",
                    {"{" + moments(), ".step = *" + p(ins[1]) + ", .gradScale = *" + p(ins[2]) + correction + "}",
                     elements, p(ins[0]), p(outs[0]), p(outs[1]), p(outs[2])});
  if (kernel == "lamb")
    return callLine(condition + "lambUpdate", {"*" + p(ins[1]) + " * *" + p(ins[2]), elements, p(outs[0]), p(ins[0])});
  bool hasVelocity = kernel == "sgd_momentum";
  // Velocity begins at zero, so that no step is the first one.
  callLine(condition + "sgd",
           {"{.lr = *" + p(ins[1]) + (hasVelocity ? ", .momentum = " + real(op, "momentum") : "") +
                ", .weightDecay = " + real(op, "weight_decay") + ", .step = 2, .gradScale = *" + p(ins[2]) + "}",
            elements, p(outs[0]), p(ins[0]), hasVelocity ? p(outs[1]) : "nullptr"});
}

void FunctionEmitter::emitLossScale(rank::CallOp op) {
  auto outs = op.getOuts();
  std::string scale = "*" + pointer(outs[0]), good = "*" + pointer(outs[1]), left = "*" + pointer(outs[2]);
  line("{");
  line("  const LossScaleState next = nextLossScale(");
  line("      {.window = " + str(integer(op, "window")) + ", .hysteresis = " + str(integer(op, "hysteresis")) +
       ", .minScale = " + real(op, "min_scale") +
       ", .consecutiveHysteresis = " + (op->hasAttr("consecutive_hysteresis") ? "true" : "false") + "},");
  line("      {" + scale + ", " + good + ", " + left + "}, *" + pointer(op.getIns()[0]) + " != 0);");
  line("  " + scale + " = static_cast<float>(next.scale);");
  line("  " + good + " = next.goodSteps;");
  line("  " + left + " = next.hysteresisLeft;");
  line("}");
}

void FunctionEmitter::emitCoordinates(rank::CallOp op) {
  auto axes = op->getAttrOfType<dist::AxisListAttr>("axes");
  std::string index = axes ? coordinate(axes) : "0";
  comment(op);
  if (op.getKernel() == "shard_offset" && onGpu)
    return callLine("fill<int64_t>",
                    {pointer(op.getOuts()[0]), "1", "int64_t{" + index + "} * " + str(integer(op, "size"))});
  if (op.getKernel() == "shard_offset")
    return line("*" + pointer(op.getOuts()[0]) + " = int64_t{" + index + "} * " + str(integer(op, "size")) + ";");
  rank::BufferType whole = typeOf(op.getIns()[0]), part = typeOf(op.getOuts()[0]);
  int64_t dim = integer(op, "dim"), outer = 1, inner = 1;
  for (auto [i, size] : llvm::enumerate(whole.getShape()))
    (static_cast<int64_t>(i) < dim ? outer : inner) *= static_cast<int64_t>(i) == dim ? 1 : size;
  callLine("shardSlice",
           {"{.outer = " + str(outer) + ", .whole = " + str(whole.getShape()[dim]) +
                ", .part = " + str(part.getShape()[dim]) + ", .inner = " + str(inner) + ", .start = int64_t{" + index +
                "} * " + str(part.getShape()[dim]) + ", .elementBytes = " + str(part.getElementBytes()) + "}",
            pointer(op.getIns()[0]), pointer(op.getOuts()[0])});
}
