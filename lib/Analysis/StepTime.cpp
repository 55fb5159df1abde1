// A clock a stage, and what they meet at.
#include "hyc/Analysis/StepTime.h"

#include "FunctionCosts.h"
#include "hyc/Analysis/KernelCall.h"
#include "hyc/Analysis/MemoryAccount.h"
#include "llvm/ADT/MapVector.h"
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
// Clocks
//===----------------------------------------------------------------------===//

int64_t ranksOfStage(dist::MeshOp mesh) {
  int64_t ranks = 1;
  for (int64_t size : mesh.getSizes())
    ranks *= size;
  return ranks;
}

/// Of the slowest rank of a stage, for which all of it waits.
MachineRates ratesOfStage(uint64_t stage, dist::MeshOp mesh, const MachineRates &rates) {
  int64_t ranks = ranksOfStage(mesh);
  return rates.slowestAmong(static_cast<int64_t>(stage) * ranks, ranks);
}

/// Where a rank stands, and until when its link, its disk and the directions of its bus are busy: they go on while
/// kernels run, one thing after the other. The thread that starts them runs ahead, and what it has not come to yet
/// waits for it.
class RankClock {
public:
  explicit RankClock(const MachineRates &rates)
      : hasThread(rates.communicationThread), dispatch(rates.dispatch), overlapShare(rates.overlapShare) {}

  double now = 0, linkFree = 0;
  StageTime time;

  void beginFunction(size_t events) { done.assign(events, 0); }

  /// Computes, or sets on its way what no other stage takes part in; `index` among the function's events.
  void begin(const Event &one, size_t index) {
    switch (one.kind) {
    case Event::Kind::Compute:
      compute(one);
      done[index] = now;
      break;
    case Event::Kind::Disk:
      diskFree = done[index] = std::max(now, diskFree) + one.seconds;
      break;
    case Event::Kind::Fetch:
      done[index] = copyOverBus(one.seconds, fetchesFree, evictionsFree);
      break;
    case Event::Kind::Evict:
      done[index] = copyOverBus(one.seconds, evictionsFree, fetchesFree);
      break;
    case Event::Kind::Exchange:
      start(one);
      if (hasThread)
        linkFree = done[index] = std::max(ready(), linkFree) + one.seconds;
      break;
    case Event::Kind::Wait:
      break;
    }
  }

  /// Without a thread of its own, an exchange is made when it is awaited.
  void await(const Event &started, size_t index) {
    waitUntil(started.kind == Event::Kind::Exchange && !hasThread ? now + started.seconds : done[index]);
  }

  void waitUntil(double end) {
    time.exposed += std::max(0.0, end - now);
    now = std::max(now, end);
  }

  /// When what the thread has started last may begin.
  double ready() const { return std::max(now, dispatched); }

  /// The thread comes to the next kernel or exchange.
  void start(const Event &one) {
    time.started += one.isStarted;
    dispatched += one.isStarted ? dispatch : 0;
  }

private:
  /// A device that waits to be told what is next counts as computing: more of a kernel's time would change nothing.
  void compute(const Event &one) {
    start(one);
    double begin = ready(), lost = lostToExchange(begin, one.seconds);
    ++time.kernels;
    time.launching += one.bound == TimeBound::Launch ? one.seconds : 0;
    time.computation += begin + one.seconds - now;
    time.exposed += lost;
    now = begin + one.seconds + lost;
  }

  /// How much longer a kernel takes because an exchange goes on beside it.
  double lostToExchange(double begin, double seconds) const {
    double beside = linkFree - begin;
    if (beside <= 0 || overlapShare == 1)
      return 0;
    double done = beside * overlapShare;
    return done < seconds ? beside - done : seconds / overlapShare - seconds;
  }

  /// Begins when what goes the same way is over, `free`, and is slower where something is coming the other way then:
  /// more follows it, as a rule.
  double copyOverBus(double seconds, double &free, double otherWayFree) const {
    double begin = std::max(now, free);
    return free = begin + (otherWayFree > begin ? seconds / kShareOfBothWays : seconds);
  }

  bool hasThread;
  double dispatch, overlapShare;
  double dispatched = 0; ///< when the thread has started the last of what there was so far
  double diskFree = 0;
  double fetchesFree = 0, evictionsFree = 0; ///< a bus carries both ways at once
  std::vector<double> done;                  ///< when each event of the function ends
};

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
      : schedule(schedule), mesh(mesh), rates(ratesOfStage(schedule.getStage(), mesh, rates)), meetings(meetings),
        clock(rates) {
    SymbolTable symbols(program);
    FunctionCosts costs(program, symbols, this->rates);
    for (const std::string &name : program.getFunctionNames())
      if (auto func = symbols.lookup<rank::FuncOp>(name))
        functions[name] = costs.of(func);
    for (auto transfer : program.getOps<rank::TransferOp>())
      if (auto record = symbols.lookup<rank::RecordOp>(transfer.getRecord()); record && !transfer.getEntry())
        crossing[keyOf(transfer.getSend(), transfer.getBackward(), transfer.getVirtualStage())] +=
            static_cast<double>(record.getBufferType().getBytes());
  }

  std::vector<InstructionTime> instructions; ///< that were executed
  const StageTime &time() const { return clock.time; }

  bool isDone() { return instruction == schedule.getInstructions().size(); }

  /// Goes on as far as it can; whether that was anywhere.
  bool run() {
    bool moved = false;
    while (!isDone()) {
      auto todo = cast<dist::InstructionAttr>(schedule.getInstructions()[instruction]);
      bool ended = todo.getTransfers().empty() ? compute(todo, moved) : exchange(todo, moved);
      if (!ended)
        return moved;
      instructions.push_back(
          {begun.total(),
           {time().computation - begun.computation, time().exposed - begun.exposed, time().idle - begun.idle,
            time().started - begun.started, time().kernels - begun.kernels, time().launching - begun.launching}});
      begun = time();
      ++instruction;
      event = 0;
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
    if (event == 0)
      clock.beginFunction(events.size());
    for (; event < events.size(); ++event, moved = true) {
      const Event &one = events[event];
      if (one.kind == Event::Kind::Wait && !await(events[one.started], one.started))
        return false;
      if (one.stages > 1)
        join(one);
      else
        clock.begin(one, event);
    }
    return true;
  }

  /// Comes to an exchange with other stages.
  void join(const Event &one) {
    joined[event] = {true, one.number, rounds[one.number]++, 0};
    Meeting &meeting = meetings[joined[event]];
    clock.start(one);
    ++meeting.arrived;
    meeting.begin = std::max(meeting.begin, clock.ready());
    meeting.link = std::max(meeting.link, clock.linkFree);
  }

  /// Whether all that it takes have come.
  bool await(const Event &started, size_t index) {
    if (started.stages == 1) {
      clock.await(started, index);
      return true;
    }
    const Meeting &meeting = meetings[joined[index]];
    if (meeting.arrived < started.stages)
      return false;
    idleUntil(meeting.begin);
    double begin = rates.communicationThread ? std::max(meeting.begin, meeting.link) : clock.now;
    clock.linkFree = std::max(clock.linkFree, begin + started.seconds);
    clock.waitUntil(begin + started.seconds);
    return true;
  }

  void idleUntil(double begin) {
    clock.time.idle += std::max(0.0, begin - clock.now);
    clock.now = std::max(clock.now, begin);
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
        meetings[key].begin = std::max(meetings[key].begin, clock.now);
      }
    moved |= !posted;
    posted = true;
    double begin = 0;
    for (const MeetingKey &key : keys) {
      if (meetings[key].arrived < 2)
        return false;
      begin = std::max(begin, meetings[key].begin);
    }
    idleUntil(begin);
    clock.waitUntil(clock.now + seconds);
    return true;
  }

  dist::ScheduleOp schedule;
  dist::MeshOp mesh;
  const MachineRates rates; ///< of the slowest rank
  std::map<MeetingKey, Meeting> &meetings;
  llvm::StringMap<std::vector<Event>> functions;
  llvm::StringMap<double> crossing;  // bytes of all tensors of one transfer
  std::map<int64_t, int64_t> rounds; // how often a collective was started
  RankClock clock;
  // Of the instruction that is being executed.
  size_t instruction = 0, event = 0;
  StageTime begun; ///< what had passed when it began
  bool posted = false;
  std::map<size_t, MeetingKey> joined;
};

} // namespace

/// Others are always there.
static StageTime runAlone(ArrayRef<Event> events, const MachineRates &rates) {
  RankClock clock(rates);
  clock.beginFunction(events.size());
  for (auto [index, one] : llvm::enumerate(events)) {
    if (one.kind == Event::Kind::Wait)
      clock.await(events[one.started], one.started);
    clock.begin(one, index);
  }
  return clock.time;
}

std::map<std::string, StageTime> hyc::estimateFunctions(rank::ProgramOp program, const MachineRates &rates) {
  std::map<std::string, StageTime> times;
  SymbolTable symbols(program);
  FunctionCosts costs(program, symbols, rates);
  for (const std::string &name : program.getFunctionNames())
    if (auto func = symbols.lookup<rank::FuncOp>(name))
      times[name] = runAlone(costs.of(func), rates);
  return times;
}

std::vector<OpTime> hyc::estimateOps(rank::ProgramOp program, dist::ScheduleOp schedule, const MachineRates &rates) {
  llvm::MapVector<StringRef, int64_t> times;
  SmallVector<std::string> names;
  for (auto instruction : schedule.getInstructions().getAsRange<dist::InstructionAttr>())
    names.push_back(rank::functionName(instruction.getKind(), instruction.getVirtualStage()));
  for (const std::string &name : names)
    ++times[name];
  SymbolTable symbols(program);
  dist::MeshOp mesh = dist::MeshOp::find(program->getParentOfType<ModuleOp>());
  const MachineRates own = mesh ? ratesOfStage(schedule.getStage(), mesh, rates) : rates;
  FunctionCosts costs(program, symbols, own);
  std::vector<OpTime> ops;
  for (auto [name, count] : times) {
    auto func = symbols.lookup<rank::FuncOp>(name);
    if (!func)
      continue;
    for (const Event &event : costs.of(func))
      if (event.op)
        ops.push_back({name.str(), callName(event.op), idOf(event), event.kind == Event::Kind::Exchange, event.bound,
                       event.seconds, event.operations, event.bytes, count});
  }
  return ops;
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
    result.stages.push_back(clock->time());
    result.instructions.push_back(std::move(clock->instructions));
  }
  return result;
}
