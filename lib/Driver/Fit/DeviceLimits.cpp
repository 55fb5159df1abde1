// Limits by ranks.
#include "Fit/DeviceLimits.h"

#include "hyc/Support/ByteCount.h"

#include <algorithm>

using namespace llvm;
using namespace hyc;

Expected<double> hyc::memoryLimit(const CompileOptions &options, const MachineRates &machine) {
  if (options.deviceMemory->empty())
    return machine.deviceMemory;
  Expected<int64_t> parsed = parseByteCount("device-memory", *options.deviceMemory);
  if (!parsed)
    return parsed.takeError();
  return static_cast<double>(*parsed);
}

Expected<MachineRates> hyc::withMemoryLimits(const CompileOptions &options, MachineRates machine) {
  Expected<double> limit = memoryLimit(options, machine);
  if (!limit)
    return limit.takeError();
  double most = 0;
  for (RankKind &kind : machine.kinds) {
    // What a kind does not tell it has from the machine, in whose place the flag is.
    bool isOwn = kind.deviceMemory > 0 && kind.deviceMemory != machine.deviceMemory;
    if (!isOwn)
      kind.deviceMemory = *limit;
    else if (!options.deviceMemory->empty())
      kind.deviceMemory = std::min(kind.deviceMemory, *limit);
    most = std::max(most, kind.deviceMemory);
  }
  machine.deviceMemory = machine.kinds.empty() ? *limit : most;
  return machine;
}

DeviceLimit hyc::limitOfStage(const CompileOptions &options, const MachineRates &limited, int64_t stage,
                              int64_t ranksPerStage) {
  int64_t first = stage * ranksPerStage;
  DeviceLimit limit{limited.slowestAmong(first, ranksPerStage).deviceMemory,
                    options.deviceMemory->empty() ? "--machine" : "--device-memory"};
  if (limit.bytes == limited.deviceMemory && !options.deviceMemory->empty())
    return limit;
  for (size_t kind : limited.kindsAmong(first, ranksPerStage))
    if (limited.kinds[kind].deviceMemory == limit.bytes && limit.bytes > 0) {
      limit.source = "kind \"" + limited.kinds[kind].name + "\" of --machine";
      break;
    }
  return limit;
}

TightestStage hyc::tightestStage(const CompileOptions &options, const MachineRates &limited, const JobAccount &job) {
  TightestStage tightest;
  for (const StageAccount &stage : job.stages) {
    DeviceLimit limit = limitOfStage(options, limited, stage.stage, job.ranksPerStage());
    double part = limit.bytes > 0 ? static_cast<double>(stage.deviceBytes()) / limit.bytes : 0;
    if (!tightest.stage || part > tightest.part)
      tightest = {&stage, std::move(limit), part};
  }
  return tightest;
}
