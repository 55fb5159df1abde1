// Tables of the time, and the machine's file.
#include "Report/TimeReport.h"

#include "Report/FoldedTable.h"
#include "Report/TextTable.h"
#include "hyc/Planner/Machine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace llvm;
using namespace hyc;

std::optional<TimeEstimate> hyc::estimateTime(mlir::ModuleOp module, const MachineRates &rates) {
  TimeEstimate estimate{rates, {}, {}};
  for (bool overlaps : {true, false}) {
    estimate.rates.communicationThread = overlaps;
    std::optional<StepTime> time = estimateStep(module, estimate.rates);
    if (!time)
      return std::nullopt;
    (overlaps ? estimate.overlapped : estimate.inTurn) = *time;
  }
  return estimate;
}

static std::string threeDigits(double value) {
  std::string text;
  raw_string_ostream(text) << format("%.3g", value);
  return text;
}

static std::string milliseconds(double seconds) { return threeDigits(seconds * 1e3); }

static std::string percent(double share) {
  std::string text;
  raw_string_ostream(text) << format("%.1f %%", share * 100);
  return text;
}

std::string hyc::reportTime(const TimeEstimate &estimate) {
  FoldedTable table({"#stage", "communication", "computes>", "exposed>", "idle>", "step>", "waits>"});
  for (const auto &[what, time] :
       {std::pair("on a thread of its own", &estimate.overlapped), std::pair("in turn", &estimate.inTurn)})
    for (const auto &[stage, row] : llvm::enumerate(time->stages))
      table.add({std::to_string(stage), what, milliseconds(row.computation), milliseconds(row.exposed),
                 milliseconds(row.idle), milliseconds(row.total()), percent(time->waitingShare(stage))});
  table.condense(/*group=*/1, /*by=*/6);
  TextTable rates({"rate", "a rank's>", "meaning"});
  for (const MachineKey &rate : getMachineKeys()) {
    bool isOfTiers = rate.value == &MachineRates::link || rate.value == &MachineRates::latency;
    if (isOfTiers && !estimate.rates.tiers.empty())
      continue;
    rates.add({rate.key.str(), threeDigits(estimate.rates.*rate.value), rate.meaning.str()});
  }
  for (const MachineTier &tier : estimate.rates.tiers)
    rates.add({"tier " + tier.name, threeDigits(tier.rates.back().value),
               "bytes a second sent in large exchanges among " + std::to_string(tier.ranks) + " ranks"});
  return "\nTime of a step in milliseconds, estimated: exposed is waiting for communication or a disk, idle for "
         "another "
         "stage to compute\n" +
         table.str() + "for a machine of these rates (--machine FILE gives others); hyc-run tells what it measured\n" +
         rates.str();
}

std::string hyc::summarizeTime(const TimeEstimate &estimate) {
  const StepTime &time = estimate.overlapped;
  if (time.stages.empty())
    return "";
  double waits = 0;
  for (size_t stage = 0; stage < time.stages.size(); ++stage)
    waits = std::max(waits, time.waitingShare(stage));
  if (waits == 0)
    return "";
  return "step: about " + milliseconds(time.seconds()) + " ms, of which ranks wait up to " + percent(waits) +
         ", by the rates in report.txt\n";
}
