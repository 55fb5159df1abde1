// Tables of the time, and the machine's file.
#include "Report/TimeReport.h"

#include "Report/FoldedTable.h"
#include "Report/TextTable.h"
#include "hyc/Support/DriverError.h"
#include "hyc/Support/JsonFile.h"
#include "hyc/Support/LocatedJson.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace llvm;
using namespace hyc;

static constexpr uint64_t kMaxBytes = 1 << 20;

namespace {
/// One key of the machine's file.
struct Rate {
  StringLiteral key;
  double MachineRates::*value;
  double least, most;
  StringLiteral meaning;
};
} // namespace

static constexpr double kMostRate = 1e18;
static constexpr Rate kRates[] = {
    {"products", &MachineRates::products, 1, kMostRate, "operations of matrix products a second"},
    {"narrow_products", &MachineRates::narrowProducts, 1, kMostRate, "of those with operands of 16 bits"},
    {"memory", &MachineRates::memory, 1, kMostRate, "bytes a second that kernels read and write"},
    {"link", &MachineRates::link, 1, kMostRate, "bytes a second sent to other ranks"},
    {"latency", &MachineRates::latency, 0, 10, "seconds of an exchange, whatever it carries"},
    {"host", &MachineRates::host, 1, kMostRate, "bytes a second between device and host"},
    {"disk", &MachineRates::disk, 1, kMostRate, "bytes a second of the disk"},
};

static Error readRates(const JsonObjectReader &root, MachineRates &rates) {
  std::vector<StringRef> keys;
  for (const Rate &rate : kRates)
    keys.push_back(rate.key);
  if (Error error = root.checkKeys({}, keys))
    return error;
  for (const Rate &rate : kRates)
    if (root.has(rate.key))
      if (Error error = root.read(rate.key, rates.*rate.value, rate.least, rate.most))
        return error;
  return Error::success();
}

Expected<MachineRates> hyc::readMachine(const std::string &path, MachineRates rates) {
  if (Error error = readJsonFile("machine", path, kMaxBytes,
                                 [&](const JsonObjectReader &root) { return readRates(root, rates); }))
    return error;
  return rates;
}

MachineRates hyc::defaultRates(int64_t threads) {
  MachineRates rates;
  double cores = static_cast<double>(threads);
  rates.products *= cores;
  rates.narrowProducts *= cores;
  rates.memory *= cores;
  return rates;
}

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

static std::string milliseconds(double seconds) {
  std::string text;
  raw_string_ostream(text) << format("%.3g", seconds * 1e3);
  return text;
}

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
  for (const Rate &rate : kRates) {
    std::string text;
    raw_string_ostream(text) << format("%.3g", estimate.rates.*rate.value);
    rates.add({rate.key.str(), text, rate.meaning.str()});
  }
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
