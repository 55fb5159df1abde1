// Kernels by the roofline, exchanges by what a ring sends, moves by the memories between which they go.
#include "FunctionCosts.h"

#include "dialects/Dist/ExchangeKinds.h"
#include "dialects/Hyc/OpId.h"
#include "dialects/Rank/Arenas.h"
#include "hyc/Analysis/KernelCall.h"
#include "hyc/Analysis/MemoryAccount.h"
#include "hyc/Analysis/TimedCalls.h"
#include "hyc/Analysis/Workspaces.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace hyc;

static rank::BufferType typeOf(Value buffer) { return cast<rank::BufferType>(buffer.getType()); }

/// Of buffers that a call reads, or of those that it writes, each once; `arena` if given: of those that lie there.
static double bytesOf(OperandRange buffers, StringRef arena = "") {
  llvm::SmallDenseSet<Value> seen;
  double bytes = 0;
  for (Value buffer : buffers)
    if (isa<rank::BufferType>(buffer.getType()) && seen.insert(buffer).second &&
        (arena.empty() || rank::arenaOf(buffer) == arena))
      bytes += static_cast<double>(typeOf(buffer).getBytes());
  return bytes;
}

/// Of results whose old contents are read: what a kernel updates, and what is added to.
static double readResultBytes(Operation *op, StringRef arena = "") {
  double bytes = 0;
  auto add = [&](Value buffer) {
    if (!llvm::is_contained(rank::readBuffers(op), buffer) && (arena.empty() || rank::arenaOf(buffer) == arena))
      bytes += static_cast<double>(typeOf(buffer).getBytes());
  };
  if (auto gemm = dyn_cast<rank::GemmOp>(op); gemm && gemm.getMode() == rank::WriteMode::add)
    add(gemm.getC());
  auto call = dyn_cast<rank::CallOp>(op);
  if (!call)
    return bytes;
  const KernelCall library(call);
  for (auto [index, buffer] : llvm::enumerate(call.getOuts())) {
    const kernels::Role role = library.getKernel().outs[static_cast<int>(index)].role;
    const bool adds = role == kernels::Role::kByMode && call.getMode() == rank::WriteMode::add;
    if (adds || role == kernels::Role::kUpdated)
      add(buffer);
  }
  return bytes;
}

/// Of an operand that a call touches only as far as another one is large, what it leaves.
static double untouchedBytes(const KernelCall &call, const kernels::OperandRow &row) {
  if (!row.name || !row.touchedAs || !call.has(row.name))
    return 0;
  kernels::Extents own = call.operand(row.name);
  int64_t left = own.elements() - call.operand(row.touchedAs).elements();
  return static_cast<double>(std::max<int64_t>(0, left) * own.elementBytes);
}

/// Of all operands; what is overwritten is so as a whole.
static double untouchedBytes(rank::CallOp op) {
  const KernelCall call(op);
  double bytes = 0;
  for (const kernels::OperandRow &in : call.getKernel().ins)
    bytes += untouchedBytes(call, in);
  if (op.getMode() == rank::WriteMode::add)
    for (const kernels::OperandRow &out : call.getKernel().outs)
      bytes += 2 * untouchedBytes(call, out);
  return bytes;
}

/// How a group's members lie in the order of world ranks, in which stages are slowest and the last axis fastest.
static RankGroup groupOf(dist::GroupAttr group, dist::MeshOp mesh) {
  RankGroup result;
  ArrayRef<int64_t> stages = group.getStages();
  if (!mesh) {
    result.dimensions.push_back({static_cast<int64_t>(stages.size()), 1});
    return result;
  }
  dist::AxisListAttr axes = mesh.expand(group.getAxes());
  int64_t stride = 1;
  for (auto [name, size] : llvm::reverse(llvm::zip_equal(mesh.getAxes().getAsRange<StringAttr>(), mesh.getSizes()))) {
    if (size > 1 && llvm::is_contained(axes.getAxes(), name))
      result.dimensions.push_back({size, stride});
    stride *= size;
  }
  if (stages.size() > 1)
    result.dimensions.push_back(
        {static_cast<int64_t>(stages.size()),
         stride * std::max<int64_t>(1, (stages.back() - stages.front()) / static_cast<int64_t>(stages.size() - 1))});
  return result;
}

FunctionCosts::FunctionCosts(rank::ProgramOp program, const SymbolTable &symbols, const MachineRates &rates)
    : symbols(symbols), mesh(dist::MeshOp::find(program->getParentOfType<ModuleOp>())), rates(rates),
      onGpu(program->getParentOfType<ModuleOp>()->hasAttr(kTargetAttribute)) {}

std::vector<Event> FunctionCosts::of(rank::FuncOp func) {
  events.clear();
  const Rows none;
  walk(func.getBlock(), none, "");
  // Whoever starts kernels one by one has optimizers that update all parameters at once.
  if (func.getSymName() == rank::functionName(dist::InstructionKind::apply, 0))
    for (Event &event : events)
      event.isStarted = &event == &events.front();
  return std::move(events);
}

/// What an invocation passes for the rows that its callee's exchanges read.
static llvm::DenseMap<Value, rank::RowOp> rowsOf(rank::InvokeOp invoke, rank::FuncOp callee) {
  llvm::DenseMap<Value, rank::RowOp> rows;
  for (auto [argument, value] : llvm::zip_equal(callee.getBlock().getArguments(), invoke.getArguments()))
    if (auto row = value.getDefiningOp<rank::RowOp>())
      rows[argument] = row;
  return rows;
}

/// `id` below `layer`; as it is where it says its layer itself: a shared function that begins inside a layer has ops of
/// the next one, too.
static std::string joinId(StringRef layer, StringRef id) {
  StringRef kind = layer.rsplit('.').first;
  if (layer.empty() || id.empty() || (id.starts_with(kind) && id.drop_front(kind.size()).starts_with(".")))
    return (id.empty() ? layer : id).str();
  return (layer + "." + id).str();
}

std::string hyc::idOf(const Event &event) {
  StringAttr id = getIdAttr(event.op);
  return id ? joinId(event.layer, id.getValue()) : std::string();
}

void FunctionCosts::add(Event event, StringRef layer) {
  event.layer = layer;
  events.push_back(event);
}

void FunctionCosts::walk(Block &block, const Rows &rows, StringRef layer) {
  llvm::DenseMap<Value, size_t> tickets;
  for (Operation &op : block) {
    if (auto repeat = dyn_cast<rank::RepeatOp>(op)) {
      const auto begin = static_cast<int64_t>(events.size());
      walk(repeat.getBlock(), rows, layer);
      const std::vector<Event> turn(events.begin() + begin, events.end());
      for (uint64_t more = 1; more < repeat.getTimes(); ++more)
        events.insert(events.end(), turn.begin(), turn.end());
    } else if (auto invoke = dyn_cast<rank::InvokeOp>(op)) {
      auto callee = symbols.lookup<rank::FuncOp>(invoke.getCallee());
      StringAttr id = getIdAttr(&op);
      if (callee)
        walk(callee.getBlock(), rowsOf(invoke, callee), id ? layers.insert(joinId(layer, id)).first->getKey() : layer);
    } else if (auto start = dyn_cast<rank::StartOp>(op)) {
      tickets[start.getTicket()] = events.size();
      add(costOf(start, rows), layer);
    } else if (auto move = dyn_cast<rank::MoveOp>(op)) {
      tickets[move.getTicket()] = events.size();
      add(costOf(move), layer);
    } else if (auto wait = dyn_cast<rank::WaitOp>(op)) {
      Event event;
      event.kind = Event::Kind::Wait;
      event.started = tickets.lookup(wait.getTicket());
      events.push_back(event);
    } else if (isTimed(&op)) {
      add(costOfKernel(&op), layer);
    }
  }
}

Event FunctionCosts::costOfKernel(Operation *call) const {
  Event event;
  event.op = call;
  // What is overwritten in place is read and written.
  event.bytes = bytesOf(rank::readBuffers(call)) + bytesOf(rank::writtenBuffers(call)) + readResultBytes(call);
  event.operations = operationsOf(call);
  bool isAttention = false;
  if (auto library = dyn_cast<rank::CallOp>(call)) {
    const kernels::KernelDescription &kernel = KernelCall(library).getKernel();
    event.bytes -= untouchedBytes(library);
    event.isStarted = !kernel.isViewInFrameworks;
    isAttention = kernel.isAttention;
  }
  OperandRange read = rank::readBuffers(call);
  KernelWork work{event.operations, event.bytes};
  work.isAttention = isAttention;
  if (!read.empty())
    work.elementBytes = typeOf(read.front()).getElementBytes();
  event.seconds = rates.kernelSeconds(work);
  event.bound = rates.kernelBound(work);
  if (double overBus = onGpu ? hostSeconds(call) : 0; overBus > event.seconds) {
    event.seconds = overBus;
    event.bound = TimeBound::Host;
  }
  return event;
}

/// What a GPU's kernel waits for the host's memory that it reads and writes itself.
double FunctionCosts::hostSeconds(Operation *call) const {
  double bytes = bytesOf(rank::readBuffers(call), rank::kHost) + bytesOf(rank::writtenBuffers(call), rank::kHost) +
                 readResultBytes(call, rank::kHost);
  return bytes / (rates.host * kBusShareOfKernels);
}

/// By what is done with parts: they are summed up or put together. What has none goes from one rank to another.
static Traffic trafficOf(const dist::ExchangeFacts &facts) {
  if (facts.combines)
    return facts.takesParts ? Traffic::ReduceScatter : Traffic::AllReduce;
  return facts.givesParts ? Traffic::AllGather : Traffic::Transfer;
}

Event FunctionCosts::costOf(rank::StartOp start, const Rows &rows) const {
  Event event;
  event.kind = Event::Kind::Exchange;
  event.op = start;
  auto row = start.getRow().getDefiningOp<rank::RowOp>();
  if (!row)
    row = rows.lookup(start.getRow());
  auto collective = row ? symbols.lookup<rank::CollectiveOp>(row.getEntry()) : rank::CollectiveOp();
  if (!collective)
    return event;
  event.collective = collective;
  ExchangeAccount account = accountExchange(start, collective, mesh);
  event.bytes = account.sentBytesPerStep();
  if (account.members > 1) {
    RankGroup group = groupOf(collective.getGroup(), mesh);
    double whole = static_cast<double>(account.bytes);
    Traffic traffic = trafficOf(dist::factsOf(start.getExchange()));
    event.seconds = rates.exchangeSeconds(group, whole, event.bytes, traffic);
    event.bound =
        event.seconds > 2 * rates.exchangeSeconds(group, whole, 0, traffic) ? TimeBound::Link : TimeBound::Latency;
  }
  event.number = static_cast<int64_t>(collective.getNumber());
  event.stages = std::max<size_t>(1, collective.getGroup().getStages().size());
  return event;
}

/// Copies between memories are made at once by the CPU target's threads, and by a GPU beside its kernels, each
/// direction for itself; those of a file are on their way.
Event FunctionCosts::costOf(rank::MoveOp move) const {
  bool isInFile = rank::isInFile(move.getSource()) || rank::isInFile(move.getDestination());
  Event event;
  event.op = move;
  event.bytes = static_cast<double>(typeOf(move.getSource()).getBytes());
  Event::Kind copying = move.getKind() == "fetch" ? Event::Kind::Fetch : Event::Kind::Evict;
  event.kind = isInFile ? Event::Kind::Disk : onGpu ? copying : Event::Kind::Compute;
  event.bound = isInFile ? TimeBound::Disk : TimeBound::Host;
  event.seconds = event.bytes / (isInFile ? rates.disk : rates.host);
  return event;
}
