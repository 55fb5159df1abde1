// One statement a call: matrix products, generated kernels, collectives, moves. Those of library kernels are a
// CallPrinter's.
#include "CallText.h"
#include "FunctionEmitter.h"
#include "dialects/Dist/ExchangeKinds.h"
#include "dialects/Rank/Arenas.h"
#include "hyc/Analysis/Workspaces.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::cpp;

std::optional<std::string> FunctionEmitter::workspaceOf(Operation *op) {
  std::optional<int64_t> threads = op->getParentOfType<rank::ProgramOp>().getThreads();
  if (!threads || workspaceBytes(op, *threads) == 0)
    return std::nullopt;
  return arenaBase(rank::kWorkspace, /*perSlot=*/false);
}

//===----------------------------------------------------------------------===//
// gemm, launch, start
//===----------------------------------------------------------------------===//

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
  if (std::optional<std::string> workspace = workspaceOf(op))
    arguments.push_back(*workspace);
  include(printer->headerOfProducts(kernelElementType(op.getA())));
  printer->callLine("gemm", arguments);
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
  printer->addLaunchArguments(op, arguments);
  printer->callLine("kernels::" + identifier(op.getKernel()), arguments);
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
