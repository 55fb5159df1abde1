// Peaks by a sweep over the changes of what is alive.
#include "hyc/Analysis/MemoryAccount.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;
using namespace hyc;

StringRef hyc::getName(TensorKind kind) {
  constexpr StringLiteral names[] = {"state", "input", "scalar", "constant", "record", "temporary"};
  return names[static_cast<size_t>(kind)];
}

int64_t StageAccount::totalBytes() const {
  int64_t bytes = fixedBytes;
  for (const ArenaAccount &arena : arenas)
    bytes += arena.bytes;
  return bytes;
}

int64_t StageAccount::deviceBytes() const {
  int64_t bytes = fixedBytes;
  for (const ArenaAccount &arena : arenas)
    bytes += arena.isOnDevice() ? arena.bytes : 0;
  return bytes;
}

const ArenaAccount *StageAccount::findArena(StringRef name) const {
  auto found = find_if(arenas, [&](const ArenaAccount &arena) { return arena.name == name; });
  return found == arenas.end() ? nullptr : &*found;
}

int64_t JobAccount::mostDeviceBytes() const {
  int64_t most = 0;
  for (const StageAccount &stage : stages)
    most = std::max(most, stage.deviceBytes());
  return most;
}

void hyc::sortArenas(StageAccount &stage) {
  auto position = [](const ArenaAccount &arena) {
    return std::distance(std::begin(rank::kArenas), find(rank::kArenas, arena.name));
  };
  llvm::stable_sort(stage.arenas,
                    [&](const ArenaAccount &a, const ArenaAccount &b) { return position(a) < position(b); });
}

static bool isPersistent(const AccountedTensor &tensor) {
  return tensor.kind != TensorKind::Record && tensor.kind != TensorKind::Temporary;
}

/// The instruction that a time point belongs to; null in an empty schedule.
static const AccountedInstruction *instructionAt(const StageAccount &stage, int64_t time) {
  auto after = std::upper_bound(stage.instructions.begin(), stage.instructions.end(), time,
                                [](int64_t t, const AccountedInstruction &i) { return t < i.begin; });
  // Instructions without points of their own begin where the next does.
  return after == stage.instructions.begin() ? nullptr : &*std::prev(after);
}

static int64_t copiesAt(const AccountedTensor &tensor, const AccountedInstruction *instruction, int64_t time) {
  if (isPersistent(tensor))
    return 1;
  const ArenaItem &item = tensor.item;
  if (item.isTemporary()) {
    int64_t position = instruction && instruction->function == item.function ? time - instruction->begin : -1;
    return item.first <= position && position <= item.last;
  }
  return count_if(item.lives, [&](const RecordLife &life) { return life.begin <= time && time <= life.end; });
}

ArenaMoment hyc::momentAt(const StageAccount &stage, const ArenaAccount &arena, int64_t time) {
  ArenaMoment moment;
  moment.time = time;
  const AccountedInstruction *instruction = instructionAt(stage, time);
  if (instruction) {
    moment.instruction = instruction->text;
    size_t position = static_cast<size_t>(time - instruction->begin);
    if (instruction->function >= 0 && position < stage.functions[instruction->function].ops.size())
      moment.op = stage.functions[instruction->function].ops[position];
  }
  for (auto [index, tensor] : enumerate(arena.tensors))
    if (int64_t copies = copiesAt(tensor, instruction, time)) {
      moment.alive.push_back({index, copies});
      moment.aliveBytes += copies * tensor.item.bytes;
    }
  llvm::stable_sort(moment.alive, [&](const AliveTensor &a, const AliveTensor &b) {
    return arena.tensors[a.tensor].item.bytes * a.copies > arena.tensors[b.tensor].item.bytes * b.copies;
  });
  return moment;
}

std::vector<int64_t> hyc::aliveOverTime(const StageAccount &stage, const ArenaAccount &arena) {
  // What temporaries add is the same in every execution of a function; what records add is not.
  std::vector<std::vector<int64_t>> byFunction(stage.functions.size());
  for (auto [profile, function] : zip_equal(byFunction, stage.functions))
    profile.assign(function.ops.size() + 1, 0);
  std::vector<std::pair<int64_t, int64_t>> changes; // (time, bytes) of records
  int64_t persistent = 0;
  for (const AccountedTensor &tensor : arena.tensors) {
    const ArenaItem &item = tensor.item;
    if (isPersistent(tensor)) {
      persistent += item.bytes;
    } else if (item.isTemporary()) {
      byFunction[item.function][item.first] += item.bytes;
      byFunction[item.function][item.last + 1] -= item.bytes;
    }
    for (const RecordLife &life : item.lives) {
      changes.push_back({life.begin, item.bytes});
      changes.push_back({life.end + 1, -item.bytes});
    }
  }
  for (std::vector<int64_t> &profile : byFunction)
    for (size_t i = 1; i < profile.size(); ++i)
      profile[i] += profile[i - 1];
  llvm::sort(changes);

  size_t next = 0;
  int64_t records = persistent;
  std::vector<int64_t> alive;
  for (const AccountedInstruction &instruction : stage.instructions)
    for (int64_t time = instruction.begin; time < instruction.end; ++time) {
      for (; next < changes.size() && changes[next].first <= time; ++next)
        records += changes[next].second;
      size_t position = static_cast<size_t>(time - instruction.begin);
      bool isInside = instruction.function >= 0 && position < byFunction[instruction.function].size();
      alive.push_back(records + (isInside ? byFunction[instruction.function][position] : 0));
    }
  return alive;
}

std::vector<std::pair<std::string, int64_t>> hyc::peaksOfEntries(const StageAccount &stage, const ArenaAccount &arena) {
  std::vector<int64_t> alive = aliveOverTime(stage, arena);
  std::vector<std::pair<std::string, int64_t>> peaks;
  for (const AccountedInstruction &instruction : stage.instructions) {
    if (peaks.empty() || peaks.back().first != instruction.entry)
      peaks.push_back({instruction.entry, 0});
    for (int64_t time = instruction.begin; time < instruction.end; ++time)
      peaks.back().second = std::max(peaks.back().second, alive[time]);
  }
  return peaks;
}

void hyc::findPeak(const StageAccount &stage, ArenaAccount &arena) {
  std::vector<int64_t> alive = aliveOverTime(stage, arena);
  arena.peak = momentAt(stage, arena, alive.empty() ? 0 : llvm::max_element(alive) - alive.begin());
}
