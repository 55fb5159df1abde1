// A clock a stage, and what they meet at.
#include "hyc/Analysis/StepTime.h"

#include "dialects/Rank/Moves.h"
#include "hyc/Analysis/KernelCall.h"
#include "hyc/Analysis/MemoryAccount.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <map>
#include <memory>

using namespace mlir;
using namespace hyc;

double StepTime::seconds() const {
  double longest = 0;
  for (const StageTime &stage : stages)
    longest = std::max(longest, stage.total());
  return longest;
}

double StepTime::waitingShare(size_t stage) const {
  double total = stages[stage].total();
  return total > 0 ? (stages[stage].exposed + stages[stage].idle) / total : 0;
}

namespace {

//===----------------------------------------------------------------------===//
// What a function does
//===----------------------------------------------------------------------===//

/// One call, with its cost on its own.
struct Event {
  enum class Kind { Compute, Exchange, Disk, Wait };
  Kind kind = Kind::Compute;
  double seconds = 0;
  size_t started = 0;  ///< of a Wait: the event that it waits for
  int64_t number = -1; ///< of an Exchange between stages: the collective's
  size_t stages = 1;   ///< that take part in it
};

rank::BufferType typeOf(Value buffer) { return cast<rank::BufferType>(buffer.getType()); }

double bytesOf(OperandRange buffers) {
  llvm::SmallDenseSet<Value> seen; // what is overwritten in place is read and written all the same
  double bytes = 0;
  for (Value buffer : buffers)
    if (isa<rank::BufferType>(buffer.getType()) && seen.insert(buffer).second)
      bytes += static_cast<double>(typeOf(buffer).getBytes());
  return bytes;
}

/// Operations of a library kernel, where its description says so; elsewhere memory decides.
double operationsOf(rank::CallOp op) {
  KernelCall call(op);
  return call.getKernel().operations ? call.getKernel().operations(call) : 0;
}

/// How a group's members lie in the order of world ranks, in which stages are slowest and the last axis fastest.
RankGroup groupOf(dist::GroupAttr group, dist::MeshOp mesh) {
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

class FunctionCosts {
public:
  FunctionCosts(rank::ProgramOp program, const SymbolTable &symbols, const MachineRates &rates)
      : symbols(symbols), mesh(dist::MeshOp::find(program->getParentOfType<ModuleOp>())), rates(rates) {}

  std::vector<Event> of(rank::FuncOp func) {
    events.clear();
    const Rows none;
    walk(func, none);
    return std::move(events);
  }

private:
  using Rows = llvm::DenseMap<Value, rank::RowOp>;

  void walk(rank::FuncOp func, const Rows &rows) {
    llvm::DenseMap<Value, size_t> tickets;
    for (Operation &op : func.getBlock()) {
      if (auto invoke = dyn_cast<rank::InvokeOp>(op)) {
        auto callee = symbols.lookup<rank::FuncOp>(invoke.getCallee());
        if (callee)
          walk(callee, rowsOf(invoke, callee));
      } else if (auto start = dyn_cast<rank::StartOp>(op)) {
        tickets[start.getTicket()] = events.size();
        events.push_back(costOf(start, rows));
      } else if (auto move = dyn_cast<rank::MoveOp>(op)) {
        tickets[move.getTicket()] = events.size();
        events.push_back(costOf(move));
      } else if (auto wait = dyn_cast<rank::WaitOp>(op)) {
        Event event;
        event.kind = Event::Kind::Wait;
        event.started = tickets.lookup(wait.getTicket());
        events.push_back(event);
      } else if (!rank::writtenBuffers(&op).empty()) {
        events.push_back(costOf(&op));
      }
    }
  }

  static Rows rowsOf(rank::InvokeOp invoke, rank::FuncOp callee) {
    Rows rows;
    for (auto [argument, value] : llvm::zip_equal(callee.getBlock().getArguments(), invoke.getArguments()))
      if (auto row = value.getDefiningOp<rank::RowOp>())
        rows[argument] = row;
    return rows;
  }

  Event costOf(Operation *call) {
    double flops = 0, bytes = bytesOf(call->getOperands());
    if (auto gemm = dyn_cast<rank::GemmOp>(call))
      flops = 2.0 * static_cast<double>(gemm.getM()) * static_cast<double>(gemm.getN()) *
              static_cast<double>(gemm.getK()) * static_cast<double>(gemm.getBatch());
    else if (auto library = dyn_cast<rank::CallOp>(call))
      flops = operationsOf(library);
    OperandRange read = rank::readBuffers(call);
    bool isNarrow = !read.empty() && typeOf(read.front()).getElementBytes() == 2;
    Event event;
    event.seconds = rates.kernelSeconds(flops, isNarrow, bytes);
    return event;
  }

  Event costOf(rank::StartOp start, const Rows &rows) {
    Event event;
    event.kind = Event::Kind::Exchange;
    auto row = start.getRow().getDefiningOp<rank::RowOp>();
    if (!row)
      row = rows.lookup(start.getRow());
    auto collective = row ? symbols.lookup<rank::CollectiveOp>(row.getEntry()) : rank::CollectiveOp();
    if (!collective)
      return event;
    ExchangeAccount account = accountExchange(start, collective, mesh);
    event.seconds = account.members > 1
                        ? rates.exchangeSeconds(groupOf(collective.getGroup(), mesh),
                                                static_cast<double>(account.bytes), account.sentBytesPerStep())
                        : 0;
    event.number = static_cast<int64_t>(collective.getNumber());
    event.stages = std::max<size_t>(1, collective.getGroup().getStages().size());
    return event;
  }

  /// Copies between memories are made at once, those of a file on their way.
  Event costOf(rank::MoveOp move) {
    double bytes = static_cast<double>(typeOf(move.getSource()).getBytes());
    bool isInFile = rank::isInFile(move.getSource()) || rank::isInFile(move.getDestination());
    Event event;
    event.kind = isInFile ? Event::Kind::Disk : Event::Kind::Compute;
    event.seconds = bytes / (isInFile ? rates.disk : rates.host);
    return event;
  }

  const SymbolTable &symbols;
  dist::MeshOp mesh;
  const MachineRates &rates;
  std::vector<Event> events;
};

//===----------------------------------------------------------------------===//
// Clocks
//===----------------------------------------------------------------------===//

int64_t ranksOfStage(dist::MeshOp mesh) {
  int64_t ranks = 1;
  for (int64_t size : mesh.getSizes())
    ranks *= size;
  return ranks;
}

/// What several stages take part in: it begins when the last of them comes, and ends for all at once.
struct Meeting {
  size_t arrived = 0;
  double begin = 0;
  double link = 0; ///< when the links of all that came are free
};

/// Where stages meet: the how-manieth time of a collective, or a transfer of a micro-batch over a cut.
using MeetingKey = std::tuple<bool, int64_t, int64_t, int64_t>;

class StageClock {
public:
  StageClock(rank::ProgramOp program, dist::ScheduleOp schedule, dist::MeshOp mesh, const MachineRates &rates,
             std::map<MeetingKey, Meeting> &meetings)
      : schedule(schedule), mesh(mesh), rates(rates), meetings(meetings) {
    SymbolTable symbols(program);
    FunctionCosts costs(program, symbols, rates);
    for (const std::string &name : program.getFunctionNames())
      if (auto func = symbols.lookup<rank::FuncOp>(name))
        functions[name] = costs.of(func);
    for (auto transfer : program.getOps<rank::TransferOp>())
      if (auto record = symbols.lookup<rank::RecordOp>(transfer.getRecord()); record && !transfer.getEntry())
        crossing[keyOf(transfer.getSend(), transfer.getBackward(), transfer.getVirtualStage())] +=
            static_cast<double>(record.getBufferType().getBytes());
  }

  StageTime time;

  bool isDone() { return instruction == schedule.getInstructions().size(); }

  /// Goes on as far as it can; whether that was anywhere.
  bool run() {
    bool moved = false;
    while (!isDone()) {
      auto todo = cast<dist::InstructionAttr>(schedule.getInstructions()[instruction]);
      bool ended = todo.getTransfers().empty() ? compute(todo, moved) : exchange(todo, moved);
      if (!ended)
        return moved;
      ++instruction;
      event = 0;
      done.clear();
      posted = false;
      moved = true;
    }
    return moved;
  }

private:
  static std::string keyOf(bool send, bool backward, int64_t virtualStage) {
    return (Twine(send ? "send " : "receive ") + (backward ? "backward " : "forward ") + Twine(virtualStage)).str();
  }

  bool compute(dist::InstructionAttr todo, bool &moved) {
    auto found = functions.find(rank::functionName(todo.getKind(), todo.getVirtualStage()));
    if (found == functions.end())
      return true;
    const std::vector<Event> &events = found->second;
    done.resize(events.size(), 0);
    for (; event < events.size(); ++event, moved = true) {
      const Event &one = events[event];
      switch (one.kind) {
      case Event::Kind::Compute:
        now += one.seconds;
        time.computation += one.seconds;
        break;
      case Event::Kind::Disk:
        diskFree = done[event] = std::max(now, diskFree) + one.seconds;
        break;
      case Event::Kind::Exchange:
        begin(one);
        break;
      case Event::Kind::Wait:
        if (!await(events[one.started], one.started))
          return false;
        break;
      }
    }
    return true;
  }

  void begin(const Event &one) {
    if (one.stages > 1) {
      joined[event] = {true, one.number, rounds[one.number]++, 0};
      Meeting &meeting = meetings[joined[event]];
      ++meeting.arrived;
      meeting.begin = std::max(meeting.begin, now);
      meeting.link = std::max(meeting.link, linkFree);
    } else if (rates.communicationThread) {
      linkFree = done[event] = std::max(now, linkFree) + one.seconds;
    }
  }

  /// Without a thread of its own, an exchange is made when it is awaited.
  bool await(const Event &started, size_t index) {
    double end = done[index];
    if (started.kind == Event::Kind::Exchange && started.stages > 1) {
      const Meeting &meeting = meetings[joined[index]];
      if (meeting.arrived < started.stages)
        return false;
      double idleUntil = std::max(now, meeting.begin);
      time.idle += idleUntil - now;
      now = idleUntil;
      end = (rates.communicationThread ? std::max(meeting.begin, meeting.link) : now) + started.seconds;
      linkFree = std::max(linkFree, end);
    } else if (started.kind == Event::Kind::Exchange && !rates.communicationThread) {
      end = now + started.seconds;
    } else if (started.kind == Event::Kind::Compute) {
      return true;
    }
    if (end > now) {
      time.exposed += end - now;
      now = end;
    }
    return true;
  }

  bool exchange(dist::InstructionAttr todo, bool &moved) {
    std::vector<MeetingKey> keys;
    double seconds = 0;
    for (dist::TransferAttr transfer : todo.getTransfers()) {
      int64_t stage = static_cast<int64_t>(schedule.getStage());
      int64_t chunk = mesh.getChunk(stage, transfer.getVirtualStage()), peer = transfer.getPeerOf(chunk);
      keys.push_back({false, std::min(chunk, peer) * 2 + transfer.isForward(), transfer.getMicroBatch(), 0});
      double bytes = crossing.lookup(keyOf(transfer.getIsSend(), !transfer.isForward(), transfer.getVirtualStage()));
      seconds = std::max(seconds, rates.transferSeconds(ranksOfStage(mesh), bytes));
    }
    if (!posted)
      for (const MeetingKey &key : keys) {
        ++meetings[key].arrived;
        meetings[key].begin = std::max(meetings[key].begin, now);
      }
    moved |= !posted;
    posted = true;
    double begin = now;
    for (const MeetingKey &key : keys) {
      if (meetings[key].arrived < 2)
        return false;
      begin = std::max(begin, meetings[key].begin);
    }
    time.idle += begin - now;
    time.exposed += seconds;
    now = begin + seconds;
    return true;
  }

  dist::ScheduleOp schedule;
  dist::MeshOp mesh;
  const MachineRates &rates;
  std::map<MeetingKey, Meeting> &meetings;
  llvm::StringMap<std::vector<Event>> functions;
  llvm::StringMap<double> crossing;  // bytes of all tensors of one transfer
  std::map<int64_t, int64_t> rounds; // how often a collective was started
  double now = 0, linkFree = 0, diskFree = 0;
  // Of the instruction that is being executed.
  size_t instruction = 0, event = 0;
  bool posted = false;
  std::vector<double> done;
  std::map<size_t, MeetingKey> joined;
};

} // namespace

/// As StageClock::compute, but that others always are there.
static FunctionTime runAlone(ArrayRef<Event> events, const MachineRates &rates) {
  FunctionTime time;
  std::vector<double> done(events.size(), 0);
  double now = 0, linkFree = 0, diskFree = 0;
  for (auto [index, one] : llvm::enumerate(events)) {
    double end = now;
    switch (one.kind) {
    case Event::Kind::Compute:
      now += one.seconds;
      time.computation += one.seconds;
      continue;
    case Event::Kind::Disk:
      diskFree = done[index] = std::max(now, diskFree) + one.seconds;
      continue;
    case Event::Kind::Exchange:
      if (rates.communicationThread)
        linkFree = done[index] = std::max(now, linkFree) + one.seconds;
      continue;
    case Event::Kind::Wait:
      const Event &started = events[one.started];
      bool isInTurn = started.kind == Event::Kind::Exchange && !rates.communicationThread;
      end = isInTurn ? now + started.seconds : done[one.started];
    }
    time.exposed += std::max(0.0, end - now);
    now = std::max(now, end);
  }
  return time;
}

std::map<std::string, FunctionTime> hyc::estimateFunctions(rank::ProgramOp program, const MachineRates &rates) {
  std::map<std::string, FunctionTime> times;
  SymbolTable symbols(program);
  FunctionCosts costs(program, symbols, rates);
  for (const std::string &name : program.getFunctionNames())
    if (auto func = symbols.lookup<rank::FuncOp>(name))
      times[name] = runAlone(costs.of(func), rates);
  return times;
}

std::optional<StepTime> hyc::estimateStep(ModuleOp module, const MachineRates &rates) {
  dist::MeshOp mesh = dist::MeshOp::find(module);
  if (!mesh)
    return std::nullopt;
  std::map<MeetingKey, Meeting> meetings;
  std::vector<std::unique_ptr<StageClock>> clocks;
  for (auto program : module.getOps<rank::ProgramOp>())
    for (auto schedule : module.getOps<dist::ScheduleOp>())
      if (schedule.getStage() == program.getStage())
        clocks.push_back(std::make_unique<StageClock>(program, schedule, mesh, rates, meetings));
  for (bool moved = true; moved;) {
    moved = false;
    for (const auto &clock : clocks)
      moved |= clock->run();
  }
  StepTime result;
  for (const auto &clock : clocks) {
    if (!clock->isDone())
      return std::nullopt;
    result.stages.push_back(clock->time);
  }
  return result;
}
