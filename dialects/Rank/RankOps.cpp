// Verifiers of the rank ops, and the textual form of rank.func.
#include "dialects/Dist/ExchangeKinds.h"
#include "dialects/Rank/KernelStructure.h"
#include "dialects/Rank/Moves.h"
#include "dialects/Rank/RankDialect.h"
#include "dialects/Rank/ScalarFunctions.h"
#include "kernels/descriptions.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace hyc::rank;
namespace dist = hyc::dist;

#define GET_OP_CLASSES
#include "dialects/Rank/RankOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Lookups
//===----------------------------------------------------------------------===//

std::string hyc::rank::functionName(hyc::dist::InstructionKind kind, int64_t virtualStage, StringRef entry) {
  std::string name = hyc::dist::stringifyInstructionKind(kind).str();
  if (!entry.empty())
    name = (entry + "." + name).str();
  return virtualStage == 0 ? name : name + "." + std::to_string(virtualStage);
}

llvm::SmallVector<std::string> ProgramOp::getFunctionNames() {
  using hyc::dist::InstructionKind;
  llvm::SmallVector<std::string> names;
  for (InstructionKind kind : {InstructionKind::forward, InstructionKind::backward})
    for (int64_t k = 0, count = getVirtualStages(); k < count; ++k)
      names.push_back(hyc::rank::functionName(kind, k));
  names.push_back(hyc::rank::functionName(InstructionKind::reduce));
  names.push_back(hyc::rank::functionName(InstructionKind::apply));
  for (auto entry : getOps<EntryOp>()) {
    for (InstructionKind kind : {InstructionKind::forward, InstructionKind::backward})
      for (int64_t k = 0, count = getVirtualStages(); k < count; ++k)
        if (kind == InstructionKind::forward || entry.trains())
          names.push_back(hyc::rank::functionName(kind, k, entry.getSymName()));
    if (!entry.trains())
      names.push_back(hyc::rank::functionName(InstructionKind::reduce, 0, entry.getSymName()));
  }
  return names;
}

/// Where the functions of an entry begin; of the one behind the last: how many functions there are.
static int64_t firstOfEntry(ProgramOp program, int64_t index) {
  int64_t pieces = program.getVirtualStages(), first = 2 * pieces + 2;
  for (auto entry : llvm::make_early_inc_range(program.getOps<EntryOp>())) {
    if (index-- == 0)
      break;
    first += entry.trains() ? 2 * pieces : pieces + 1;
  }
  return first;
}

/// The kind of the function at a position; of forwards and backwards those of any entry.
static hyc::dist::InstructionKind kindAt(ProgramOp program, int64_t position) {
  using hyc::dist::InstructionKind;
  int64_t pieces = program.getVirtualStages();
  if (position < 2 * pieces + 2)
    return position < pieces        ? InstructionKind::forward
           : position < 2 * pieces  ? InstructionKind::backward
           : position == 2 * pieces ? InstructionKind::reduce
                                    : InstructionKind::apply;
  int64_t further = position - (2 * pieces + 2);
  for (auto entry : program.getOps<EntryOp>()) {
    int64_t count = entry.trains() ? 2 * pieces : pieces + 1;
    if (further >= count) {
      further -= count;
      continue;
    }
    return further < pieces ? InstructionKind::forward
           : entry.trains() ? InstructionKind::backward
                            : InstructionKind::reduce;
  }
  return InstructionKind::apply;
}

bool ProgramOp::isForward(int64_t position) { return kindAt(*this, position) == hyc::dist::InstructionKind::forward; }

bool ProgramOp::isBackward(int64_t position) { return kindAt(*this, position) == hyc::dist::InstructionKind::backward; }

bool ProgramOp::isOfMicroBatch(int64_t position) { return isForward(position) || isBackward(position); }

int64_t ProgramOp::getPosition(dist::InstructionAttr instruction, std::optional<int64_t> entry) {
  using hyc::dist::InstructionKind;
  int64_t pieces = getVirtualStages(), first = entry ? firstOfEntry(*this, *entry) : 0;
  bool trains = !entry || (*std::next(getOps<EntryOp>().begin(), *entry)).trains();
  switch (instruction.getKind()) {
  case InstructionKind::forward:
    return first + instruction.getVirtualStage();
  case InstructionKind::reduce:
    return trains ? 2 * pieces : first + pieces;
  case InstructionKind::backward:
    return first + pieces + instruction.getVirtualStage();
  case InstructionKind::apply:
    return 2 * pieces + 1;
  case InstructionKind::begin_step:
  case InstructionKind::exchange:
    return -1;
  }
  llvm_unreachable("not a kind of instruction");
}

std::optional<dist::InstructionKind> FuncOp::getKind() {
  auto program = getOperation()->getParentOfType<ProgramOp>();
  for (auto [position, name] : llvm::enumerate(program.getFunctionNames()))
    if (getSymName() == name)
      return kindAt(program, position);
  return std::nullopt;
}

FuncOp ProgramOp::getPrepare() { return lookupSymbol<FuncOp>(kPrepare); }

bool TransferOp::isMovedBy(dist::TransferAttr step, StringAttr entry) {
  return getSend() == step.getIsSend() && getBackward() != step.isForward() &&
         static_cast<int64_t>(getVirtualStage()) == step.getVirtualStage() && getEntryAttr() == entry;
}

/// A symbol of the program that `op` lies in, or null after a diagnostic.
template <typename SymbolOp> static SymbolOp lookupInProgram(Operation *op, FlatSymbolRefAttr name) {
  auto program = op->getParentOfType<ProgramOp>();
  auto symbol = program ? program.lookupSymbol<SymbolOp>(name.getValue()) : SymbolOp();
  if (!symbol)
    op->emitOpError("names ") << name << ", which is no " << SymbolOp::getOperationName() << " of its program";
  return symbol;
}

KernelOp hyc::rank::lookupKernel(LaunchOp launch) {
  auto module = launch->getParentOfType<ModuleOp>();
  return module ? module.lookupSymbol<KernelOp>(launch.getKernel()) : KernelOp();
}

static OperandRange noOperands(Operation *op) { return op->getOperands().take_front(0); }

OperandRange hyc::rank::writtenBuffers(Operation *call) {
  if (auto gemm = dyn_cast<GemmOp>(call))
    return gemm->getOperands().take_front(1);
  if (auto launch = dyn_cast<LaunchOp>(call))
    return launch.getOuts();
  if (auto library = dyn_cast<CallOp>(call))
    return library.getOuts();
  return noOperands(call);
}

OperandRange hyc::rank::readBuffers(Operation *call) {
  if (auto gemm = dyn_cast<GemmOp>(call))
    return gemm->getOperands().drop_front(1);
  if (auto launch = dyn_cast<LaunchOp>(call))
    return launch.getIns();
  if (auto library = dyn_cast<CallOp>(call))
    return library.getIns();
  return noOperands(call);
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

LogicalResult ArenaOp::verify() {
  if (getLowerBound() <= getBytes())
    return success();
  return emitOpError("[arena.bound] has ") << getBytes() << " bytes, less than its lower bound of " << getLowerBound();
}

/// What lies in [offset, offset + bytes) of an arena must fit, aligned to its elements.
static LogicalResult verifyPlace(Operation *op, FlatSymbolRefAttr arenaName, int64_t offset, BufferType type) {
  auto arena = lookupInProgram<ArenaOp>(op, arenaName);
  if (!arena)
    return failure();
  int64_t end = offset + type.getExtent() * type.getElementBytes();
  if (offset < 0 || (type.getNumElements() > 0 && end > static_cast<int64_t>(arena.getBytes())))
    return op->emitOpError("[at.bounds] takes bytes ")
           << offset << " to " << end << " of " << arenaName << ", which has " << arena.getBytes();
  if (offset % type.getElementBytes() != 0)
    return op->emitOpError("[at.alignment] begins at byte ")
           << offset << ", expected a multiple of the element size " << type.getElementBytes();
  return success();
}

template <typename PlacedOp> static LogicalResult verifyPlaced(PlacedOp op) {
  if (!op.getOffset())
    return success(lookupInProgram<ArenaOp>(op, op.getArenaAttr()) != nullptr);
  return verifyPlace(op, op.getArenaAttr(), *op.getOffset(), op.getBufferType());
}

LogicalResult EntryOp::verify() {
  if (!trains())
    return success();
  size_t types = getTypes() ? getTypes()->size() : 0;
  if (static_cast<int64_t>(getSize()) < 1 || !getTypes() || types != getInputs().size())
    return emitOpError("[entry.size] trains size ")
           << static_cast<int64_t>(getSize()) << " with " << types
           << " types, expected a size of at least 1 and a type for each of " << getInputs().size() << " inputs";
  for (auto [name, attribute] : llvm::zip_equal(getInputs().getAsRange<StringAttr>(), *getTypes())) {
    auto type = dyn_cast<BufferType>(cast<TypeAttr>(attribute).getValue());
    auto input = lookupInProgram<InputOp>(*this, FlatSymbolRefAttr::get(name));
    if (!input)
      return failure();
    BufferType whole = input.getBufferType();
    bool fits = type && type.getElementType() == whole.getElementType() && type.isDense() &&
                type.getShape().size() == whole.getShape().size();
    for (size_t dim = 0; fits && dim < type.getShape().size(); ++dim)
      fits = type.getShape()[dim] <= whole.getShape()[dim];
    if (!fits)
      return emitOpError("[entry.size] has input ") << name << " as " << attribute << ", which is no part of " << whole;
  }
  return success();
}

LogicalResult StateOp::verify() {
  size_t dims = getFlat() ? getGlobal().size() : getBufferType().getShape().size();
  if (getGlobal().size() != dims || getSplits().size() != dims)
    return emitOpError("has ") << getGlobal().size() << " global sizes and " << getSplits().size()
                               << " splits, expected one for each of the " << dims << " dimensions of " << getType();
  if (getFlat() && (getBufferType().getShape().size() != 1 || !getBufferType().isDense()))
    return emitOpError("is flat over ") << *getFlat() << ", but its buffer " << getType() << " has not one dimension";
  return verifyPlaced(*this);
}

const hyc::InputSourceFacts &InputOp::getSourceFacts() { return *hyc::findInputSource(getSource()); }

LogicalResult InputOp::verify() {
  if (!hyc::findInputSource(getSource()))
    return emitOpError("[input.source] has source \"")
           << getSource() << "\", expected one of " << hyc::listInputSources();
  return verifyPlaced(*this);
}

LogicalResult ScalarOp::verify() { return verifyPlaced(*this); }
LogicalResult ConstantOp::verify() { return verifyPlaced(*this); }
LogicalResult RecordOp::verify() { return verifyPlaced(*this); }

LogicalResult TransferOp::verify() {
  auto record = lookupInProgram<RecordOp>(*this, getRecordAttr());
  if (!record)
    return failure();
  auto arena = lookupInProgram<ArenaOp>(record, record.getArenaAttr());
  if (getSend() && arena && !arena.getShared())
    return emitOpError("sends ") << getRecordAttr() << " from the private arena " << record.getArenaAttr()
                                 << ", expected a shared one";
  return success();
}

dist::ExchangeKind CollectiveOp::getExchange() { return *dist::symbolizeExchangeKind(getKind()); }

LogicalResult CollectiveOp::verify() {
  if (dist::symbolizeExchangeKind(getKind()))
    return success();
  return emitOpError("[collective.kind] has kind \"") << getKind() << "\", expected " << dist::listExchangeKinds();
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// [kernel.reduced] of a kernel, which is also asked of a cluster.
template <typename NestOp> static LogicalResult verifyReduced(NestOp op, StringRef constraint) {
  int64_t before = -1;
  for (int64_t dim : op.getReduced()) {
    if (dim <= before || dim >= static_cast<int64_t>(op.getSpace().size()))
      return op.emitOpError("[") << constraint << "] reduces dimensions " << op.getReducedAttr() << " of a space of "
                                 << op.getSpace().size() << ", expected increasing ones in range";
    before = dim;
  }
  bool combines = !op.getBody().front().template getOps<CombineOp>().empty();
  if (combines == op.getReduced().empty())
    return op.emitOpError("[") << constraint << "] " << (combines ? "combines" : "does not combine")
                               << ", but reduces dimensions " << op.getReducedAttr();
  return success();
}

/// [kernel.combined]: what comes from a combination depends on the kept dimensions alone.
static LogicalResult verifyCombined(KernelOp kernel) {
  Block &body = kernel.getBody().front();
  llvm::DenseSet<Value> combined = combinedValues(body), differing; // along a reduced dimension
  auto stepsAlong = [&](unsigned operand) {
    auto strides = cast<DenseI64ArrayAttr>(kernel.getStrides()[operand]).asArrayRef();
    return llvm::any_of(kernel.getReduced(), [&](int64_t dim) { return strides[dim] != 0; });
  };
  for (BlockArgument argument : body.getArguments())
    if (stepsAlong(argument.getArgNumber()))
      differing.insert(argument);
  for (Operation &op : body.without_terminator()) {
    if (isa<CombineOp>(op)) {
      if (combined.contains(op.getOperand(0)))
        return op.emitOpError("[kernel.combined] combines what comes from a combination");
      continue;
    }
    auto index = dyn_cast<IndexOp>(op);
    bool differs = llvm::any_of(op.getOperands(), [&](Value value) { return differing.contains(value); }) ||
                   (index && llvm::is_contained(kernel.getReduced(), static_cast<int64_t>(index.getDim())));
    if (differs && combined.contains(op.getResult(0)))
      return op.emitOpError("[kernel.combined] computes with a combination and what differs along a reduced dimension");
    if (differs)
      differing.insert(op.getResult(0));
  }
  for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands()))
    if (combined.contains(value) && stepsAlong(body.getNumArguments() + i))
      return kernel.emitOpError("[kernel.combined] result ")
             << i << " has strides " << kernel.getStrides()[body.getNumArguments() + i]
             << ", expected 0 along the reduced dimensions " << kernel.getReducedAttr();
  return success();
}

LogicalResult KernelOp::verify() {
  Block &body = getBody().front();
  size_t operands = body.getNumArguments() + getResultTypes().size();
  if (getStrides().size() != operands)
    return emitOpError("[kernel.operands] has ")
           << getStrides().size() << " stride lists for " << operands << " operands";
  for (Attribute strides : getStrides())
    if (cast<DenseI64ArrayAttr>(strides).size() != static_cast<int64_t>(getSpace().size()))
      return emitOpError("[kernel.operands] has strides ")
             << strides << " over a space of " << getSpace().size() << " dimensions";
  auto yielded = body.getTerminator()->getOperandTypes();
  if (!llvm::equal(yielded, getResultTypes().getAsValueRange<TypeAttr>()))
    return emitOpError("[kernel.body] yields ") << yielded << ", expected " << getResultTypes();
  if (failed(verifyReduced(*this, "kernel.reduced")))
    return failure();
  return verifyCombined(*this);
}

LogicalResult ClusterOp::verify() {
  Block &body = getBody().front();
  if (failed(verifyReduced(*this, "cluster.reduced")))
    return failure();
  if (body.getTerminator()->getNumOperands() != getNumResults())
    return emitOpError("[cluster.results] yields ")
           << body.getTerminator()->getNumOperands() << " values for " << getNumResults() << " results";
  SmallVector<int64_t> kept;
  for (auto [dim, size] : llvm::enumerate(getSpace()))
    if (!llvm::is_contained(getReduced(), static_cast<int64_t>(dim)))
      kept.push_back(size);
  llvm::DenseSet<Value> combined = combinedValues(body);
  for (auto [value, out] : llvm::zip_equal(body.getTerminator()->getOperands(), getOuts())) {
    ArrayRef<int64_t> shape = combined.contains(value) ? ArrayRef<int64_t>(kept) : getSpace();
    if (cast<RankedTensorType>(out.getType()).getShape() != shape)
      return emitOpError("[cluster.results] gives ")
             << out.getType() << ", expected the shape " << Builder(getContext()).getDenseI64ArrayAttr(shape);
  }
  return success();
}

LogicalResult ScalarComputeOp::verify() {
  const ScalarFunction *function = findScalarFunction(getFunction());
  if (!function)
    return emitOpError("[compute.function] names \"") << getFunction() << "\", which is no elementwise function";
  if (function->operands == getNumOperands())
    return success();
  return emitOpError("[compute.function] gives \"")
         << getFunction() << "\" " << getNumOperands() << " operands, expected " << function->operands;
}

//===----------------------------------------------------------------------===//
// Functions and addresses
//===----------------------------------------------------------------------===//

ParseResult FuncOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  SmallVector<OpAsmParser::Argument> arguments;
  if (parser.parseSymbolName(name, SymbolTable::getSymbolAttrName(), result.attributes) ||
      parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren, /*allowType=*/true) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  Region *body = result.addRegion();
  if (parser.parseRegion(*body, arguments))
    return failure();
  if (body->empty())
    body->emplaceBlock();
  return success();
}

void FuncOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << '(';
  llvm::interleaveComma(getBlock().getArguments(), printer,
                        [&](BlockArgument argument) { printer.printRegionArgument(argument); });
  printer << ')';
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {SymbolTable::getSymbolAttrName()});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult InvokeOp::verify() {
  auto callee = lookupInProgram<FuncOp>(*this, getCalleeAttr());
  if (!callee)
    return failure();
  if (llvm::equal(getArguments().getTypes(), callee.getBlock().getArgumentTypes()))
    return success();
  return emitOpError("[invoke.arguments] passes ") << getArguments().getTypes() << ", but " << getCalleeAttr()
                                                   << " takes " << callee.getBlock().getArgumentTypes();
}

/// Where the last of the places lies that a step with the turn comes to, from the first on.
static int64_t lastPlace(RepeatOp repeat, int64_t step, int64_t period) {
  auto times = static_cast<int64_t>(repeat.getTimes());
  return step * ((period > 0 ? std::min(period, times) : times) - 1);
}

static bool isPeriod(int64_t step, int64_t period) { return period == 0 || (step != 0 && period >= 2); }
static constexpr char kPeriodsExpected[] = ", expected a period of 2 at least, and none without a step";

LogicalResult RepeatOp::verify() {
  if (static_cast<int64_t>(getTimes()) < 1)
    return emitOpError("[repeat.times] is made ") << static_cast<int64_t>(getTimes()) << " times, expected 1 at least";
  for (Operation &op : getBlock())
    if (isa<StartOp, WaitOp, MoveOp, InvokeOp, RepeatOp>(op))
      return emitOpError("[repeat.body] holds ") << op.getName() << ", expected addresses, kernels and checks";
  return success();
}

LogicalResult AtOp::verify() {
  auto step = static_cast<int64_t>(getStep()), period = static_cast<int64_t>(getPeriod());
  auto repeat = (*this)->getParentOfType<RepeatOp>();
  if (step != 0 && !repeat)
    return emitOpError("[at.turn] has step ") << step << ", but stands in no rank.repeat";
  if (!isPeriod(step, period))
    return emitOpError("[at.turn] has period ") << period << " and step " << step << kPeriodsExpected;
  if (step % getResult().getType().getElementBytes() != 0)
    return emitOpError("[at.alignment] goes on by ")
           << step << " bytes, expected a multiple of the element size " << getResult().getType().getElementBytes();
  if (step != 0 &&
      failed(verifyPlace(*this, getArenaAttr(), getOffset() + lastPlace(repeat, step, period), getResult().getType())))
    return failure();
  return verifyPlace(*this, getArenaAttr(), getOffset(), getResult().getType());
}

LogicalResult ViewOp::verify() {
  BufferType source = getSource().getType(), view = getResult().getType();
  if (source.getElementType() != view.getElementType())
    return emitOpError("views ") << source << " as " << view << ", whose elements differ";
  int64_t offset = getOffset();
  if (offset < 0 || offset + view.getExtent() > source.getExtent())
    return emitOpError("[view.bounds] ends at element ") << offset + view.getExtent() << " of " << source.getExtent();
  return success();
}

LogicalResult TurnOp::verify() {
  BufferType source = getSource().getType(), part = getResult().getType();
  if (source.getElementType() != part.getElementType())
    return emitOpError("takes ") << part << " of " << source << ", whose elements differ";
  auto step = static_cast<int64_t>(getStep()), period = static_cast<int64_t>(getPeriod());
  if (!isPeriod(step, period))
    return emitOpError("[turn.period] has period ") << period << " and step " << step << kPeriodsExpected;
  int64_t first = getOffset();
  int64_t last = first + lastPlace((*this)->getParentOfType<RepeatOp>(), step, period);
  int64_t begin = std::min(first, last), end = std::max(first, last) + part.getExtent();
  if (begin < 0 || end > source.getExtent())
    return emitOpError("[turn.bounds] takes elements ") << begin << " to " << end << " of " << source.getExtent();
  return success();
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

LogicalResult GemmOp::verify() {
  int64_t m = getMAttr().getInt(), n = getNAttr().getInt(), k = getKAttr().getInt(), batch = getBatchAttr().getInt();
  if (m >= 0 && n >= 0 && k >= 0 && batch >= 1)
    return success();
  return emitOpError("has sizes m ") << m << ", n " << n << ", k " << k << ", batch " << batch
                                     << ", expected none negative and a batch of 1 at least";
}

LogicalResult LaunchOp::verify() {
  KernelOp kernel = lookupKernel(*this);
  if (!kernel)
    return emitOpError("names ") << getKernelAttr() << ", which is no rank.kernel of the module";
  auto elementType = [](Value buffer) { return cast<BufferType>(buffer.getType()).getElementType(); };
  if (llvm::equal(llvm::map_range(getIns(), elementType), kernel.getBody().front().getArgumentTypes()) &&
      llvm::equal(llvm::map_range(getOuts(), elementType), kernel.getResultTypes().getAsValueRange<TypeAttr>())) {
    if (getMode() == WriteMode::overwrite || !kernel.getReduced().empty())
      return success();
    return (emitOpError("[launch.mode] adds to old contents, but ") << getKernelAttr() << " combines nothing")
               .attachNote(kernel.getLoc())
           << "kernel declared here";
  }
  return (emitOpError("[launch.operands] does not pass what ") << getKernelAttr() << " takes")
             .attachNote(kernel.getLoc())
         << "kernel declared here";
}

LogicalResult CallOp::verify() {
  const hyc::kernels::KernelDescription *kernel = hyc::kernels::findKernel(getKernel());
  if (!kernel)
    return emitOpError("[call.kernel] names \"") << getKernel() << "\", which is no kernel of the library";
  int outs = getOuts().size(), ins = getIns().size(), most = kernel->inCount(), least = most - kernel->optionalCount();
  bool hasAll = outs == kernel->outCount();
  if (hasAll && ins == least && (*this)->hasAttr("cycles"))
    return emitOpError("[call.kernel] takes the momentum as an input, but passes \"") << getKernel() << "\" none";
  if (hasAll && ins >= least && ins <= most)
    return success();
  return emitOpError("[call.kernel] passes \"") << getKernel() << "\" " << outs << " results and " << ins
                                                << " inputs, expected " << kernel->outCount() << " and " << least;
}

dist::ExchangeKind StartOp::getExchange() { return *dist::symbolizeExchangeKind(getKind()); }

/// [start.operands]: how many sources and destinations the kind has.
static bool hasItsOperands(StartOp start) {
  size_t sources = start.getSources().size(), destinations = start.getDestinations().size();
  const dist::ExchangeFacts &facts = dist::factsOf(start.getExchange());
  if (start.getFlat())
    return facts.hasFlatForm && sources > 0 && destinations == (facts.givesParts ? sources : 0);
  return sources == 1 && (destinations == 1 || (destinations == 0 && !facts.isApart));
}

LogicalResult StartOp::verify() {
  if (!dist::symbolizeExchangeKind(getKind()) || (getCombine() != "sum" && getCombine() != "max"))
    return emitOpError("[start.kind] is a ")
           << getKind() << " by " << getCombine() << ", expected " << dist::listExchangeKinds() << ", by sum or max";
  if (!hasItsOperands(*this))
    return emitOpError("[start.operands] has ")
           << getSources().size() << " sources and " << getDestinations().size() << " destinations";
  bool isShift = getExchange() == dist::ExchangeKind::shift;
  if (isShift != getDistance().has_value() || (isShift && static_cast<int64_t>(*getDistance()) < 1))
    return emitOpError("[start.distance] is a ")
           << getKind()
           << (getDistance() ? " with a distance of " + Twine(*getDistance()) : Twine(" without a distance"))
           << ", expected a distance of at least 1 of a shift alone";
  for (Value source : getSources()) {
    auto at = source.getDefiningOp<AtOp>();
    if (!at)
      continue;
    auto arena = lookupInProgram<ArenaOp>(*this, at.getArenaAttr());
    if (!arena)
      return failure();
    if (!arena.getShared())
      return emitOpError("[start.shared] works on the private arena ")
             << at.getArenaAttr() << ", expected a shared one";
  }
  return success();
}
